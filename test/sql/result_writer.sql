-- The result writer by itself: changes that are made up go to upsert tables and to changelogs, cut into batches in different ways.
CREATE EXTENSION sjoin_test;
CREATE SCHEMA result_writer;
SET search_path = result_writer;
SET client_min_messages = warning;
CREATE TABLE a (id int, ts timestamptz, v int, other int);
CREATE TABLE b (id int, ts timestamptz, v int);
SELECT sjoin.create_stream('a', 'ts'), sjoin.create_stream('b', 'ts');

-- other is a column that joins need and results do not have; v = 3 on the right is left out by the query
CREATE FUNCTION make_join(name text, mode text) RETURNS void LANGUAGE sql AS $$
    SELECT sjoin.create_join('result_writer.' || name, 'SELECT a.id AS a_id, b.id AS b_id, a.v AS a_v, b.v AS b_v, repeat(''x'', a.v) AS t
          FROM a LEFT JOIN b ON a.id = b.id AND a.other < 1000 AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s'' WHERE b.v IS DISTINCT FROM 3',
        output_mode => mode) $$;
SELECT make_join(mode || i, mode) FROM unnest('{upsert, changelog}'::text[]) mode, generate_series(1, 3) i;

-- A history: steps of random insertions, updates and deletions of rows of the result, each identity at most once a step.
CREATE TABLE history (n int GENERATED ALWAYS AS IDENTITY, step int, sign int, update bool, l_seq bigint, l a, r_seq bigint, r b);
CREATE TABLE now_there (l_seq bigint, r_seq bigint, l a, r b);
CREATE FUNCTION image(l_seq bigint) RETURNS a LANGUAGE sql VOLATILE AS $$
    SELECT ROW(l_seq, '2024-01-01', floor(random() * 3), floor(random() * 2))::a $$;
CREATE FUNCTION make_history(seed float8, steps int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    id record;
    old now_there;
    l a;
    r b;
BEGIN
    PERFORM setseed(seed);
    DELETE FROM history;
    DELETE FROM now_there;
    FOR s IN 1 .. steps LOOP
        FOR id IN SELECT x AS l_seq, y AS r_seq FROM generate_series(1, 3) x, generate_series(0, 2) y WHERE random() < .4 ORDER BY random() LOOP
            SELECT * INTO old FROM now_there n WHERE n.l_seq = id.l_seq AND n.r_seq = id.r_seq;
            l := image(id.l_seq);
            r := CASE WHEN id.r_seq > 0 THEN ROW(id.r_seq, '2024-01-01', floor(random() * 4))::b END;
            IF old.l_seq IS NOT NULL THEN
                DELETE FROM now_there n WHERE n.l_seq = id.l_seq AND n.r_seq = id.r_seq;
                IF random() < .3 THEN
                    INSERT INTO history (step, sign, update, l_seq, l, r_seq, r)
                        VALUES (s, -1, false, id.l_seq, old.l, nullif(id.r_seq, 0), old.r);
                    CONTINUE;
                END IF;
                INSERT INTO history (step, sign, update, l_seq, l, r_seq, r)
                    VALUES (s, -1, true, id.l_seq, old.l, nullif(id.r_seq, 0), old.r);
            END IF;
            INSERT INTO history (step, sign, update, l_seq, l, r_seq, r)
                VALUES (s, 1, old.l_seq IS NOT NULL, id.l_seq, l, nullif(id.r_seq, 0), r);
            INSERT INTO now_there VALUES (id.l_seq, id.r_seq, l, r);
        END LOOP;
    END LOOP;
END $$;

-- Writes the history in batches of so many steps.
CREATE FUNCTION write_history(name text, width int, careful bool) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('TRUNCATE %I', name);
    FOR step0 IN 1 .. (SELECT max(step) FROM history) BY width LOOP
        PERFORM sjoin_test.write_changes(name::regclass, format('SELECT step, sign, update, l_seq, l, r_seq, r FROM result_writer.history
            WHERE step BETWEEN %s AND %s ORDER BY n', step0, step0 + width - 1), careful);
    END LOOP;
END $$;

CREATE FUNCTION contents(name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE format('SELECT string_agg((x.sjoin_id, x.sjoin_version, x.a_id, x.b_id, x.a_v, x.b_v, x.t)::text, E''\n'' ORDER BY x.sjoin_id) FROM %s x', name)
        INTO answer;
    RETURN answer;
END $$;
-- What a consumer that adds +I and +U and removes -U and -D has at the end; an error when it is told of a row that it does not have.
CREATE TABLE consumer (LIKE changelog1, PRIMARY KEY (sjoin_id));
CREATE FUNCTION replay(name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r changelog1;
    n int;
BEGIN
    DELETE FROM consumer;
    FOR r IN EXECUTE format('SELECT * FROM %I ORDER BY sjoin_seq', name) LOOP
        IF r.sjoin_op IN ('+I', '+U') THEN
            INSERT INTO consumer SELECT r.*;
        ELSE
            DELETE FROM consumer c WHERE (c.sjoin_id, c.sjoin_version, c.a_v, c.t) = (r.sjoin_id, r.sjoin_version, r.a_v, r.t)
                AND c.b_v IS NOT DISTINCT FROM r.b_v;
            GET DIAGNOSTICS n = ROW_COUNT;
            IF n <> 1 THEN RAISE EXCEPTION 'there is no row %', r; END IF;
        END IF;
    END LOOP;
    RETURN contents('consumer');
END $$;
CREATE FUNCTION log(name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE format('SELECT string_agg((sjoin_seq, sjoin_op, sjoin_id, sjoin_version, a_id, b_id, a_v, b_v, t)::text, E''\n'' ORDER BY sjoin_seq) FROM %I', name)
        INTO answer;
    RETURN answer;
END $$;
-- What the changes leave, without versions; 'refused': rows with these values the table refuses
CREATE FUNCTION model(refused int) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg((l_seq, nullif(r_seq, 0), (l).v, (r).v)::text, E'\n' ORDER BY l_seq, r_seq) FROM now_there
     WHERE (r).v IS DISTINCT FROM 3 AND (l).v + coalesce((r).v, 0) <> refused $$;
CREATE FUNCTION rows_of(name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE format('SELECT string_agg((a_id, b_id, a_v, b_v)::text, E''\n'' ORDER BY sjoin_id) FROM %I', name) INTO answer;
    RETURN answer;
END $$;

-- All ways of cutting and writing must say the same.  Returns what differs.
CREATE FUNCTION compare(seed float8, steps int, careful bool, refused int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM make_history(seed, steps);
    PERFORM write_history('upsert1', steps, careful), write_history('upsert2', 1, careful), write_history('upsert3', 3, true),
            write_history('changelog1', steps, careful), write_history('changelog2', 1, careful), write_history('changelog3', 3, true);
    RETURN concat_ws(', ',
        CASE WHEN rows_of('upsert1') IS DISTINCT FROM model(refused) THEN 'model' END,
        CASE WHEN contents('upsert1') IS DISTINCT FROM contents('upsert2') THEN 'upsert in steps' END,
        CASE WHEN contents('upsert1') IS DISTINCT FROM contents('upsert3') THEN 'careful upsert' END,
        CASE WHEN replay('changelog1') IS DISTINCT FROM contents('upsert1') THEN 'replay' END,
        CASE WHEN log('changelog1') IS DISTINCT FROM log('changelog2') THEN 'changelog in steps' END,
        CASE WHEN log('changelog1') IS DISTINCT FROM log('changelog3') THEN 'careful changelog' END);
END $$;
SELECT seed, difference FROM generate_series(1, 30) seed, compare(seed / 100.0, 1 + seed % 12, false, -1) difference WHERE difference <> '';
SELECT count(*) FROM sjoin.late_row;

-- A trigger makes everything a statement; columns are renamed and get other types and neighbours.
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN coalesce(NEW, OLD); END';
CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON upsert1 FOR EACH ROW EXECUTE FUNCTION nothing();
CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON changelog1 FOR EACH ROW EXECUTE FUNCTION nothing();
SELECT seed, difference FROM generate_series(1, 12) seed, compare(seed / 300.0, 1 + seed % 12, false, -1) difference WHERE difference <> '';

-- Tables that refuse rows.
TRUNCATE upsert1, upsert2, upsert3, changelog1, changelog2, changelog3;
DO $$
DECLARE j text;
BEGIN
    FOREACH j IN ARRAY '{upsert1, upsert2, upsert3, changelog1, changelog2, changelog3}'::text[] LOOP
        EXECUTE format('ALTER TABLE %I ADD CONSTRAINT refuses CHECK (a_v + coalesce(b_v, 0) <> 2)', j);
    END LOOP;
END $$;
-- rows that are there and recorded as refused, or the other way round: P less p says which are refused
CREATE FUNCTION miscounted(result regclass, refused int) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg((r.seq, r.other_seq, r.n, t.n)::text, ' ')
      FROM (SELECT seq, other_seq, sum(CASE op WHEN 'P' THEN 1 ELSE -1 END) AS n
              FROM sjoin.late_row JOIN sjoin.join_def USING (join_id) WHERE join_def.result = $1 GROUP BY 1, 2) r
      FULL JOIN (SELECT l_seq AS seq, r_seq AS other_seq, count(*) AS n FROM now_there
                  WHERE (r).v IS DISTINCT FROM 3 AND (l).v + coalesce((r).v, 0) = $2 GROUP BY 1, 2) t USING (seq, other_seq)
     WHERE coalesce(r.n, 0) <> coalesce(t.n, 0) $$;
CREATE FUNCTION compare_refused(seed float8, steps int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    difference text;
BEGIN
    BEGIN
        difference := compare(seed, steps, true, 2);
        SELECT concat_ws(' ', difference, string_agg(j || ': ' || miscounted(j::regclass, 2), ' ')) INTO difference
          FROM unnest('{upsert1, upsert2, upsert3, changelog1, changelog2, changelog3}'::text[]) j;
        RAISE EXCEPTION USING errcode = 'UE000';        -- late rows go, too
    EXCEPTION WHEN SQLSTATE 'UE000' THEN
        RETURN difference;
    END;
END $$;
SELECT seed, difference FROM generate_series(1, 24) seed, compare_refused(seed / 500.0, 1 + seed % 12) difference WHERE difference <> '';

-- The same with types that values are assigned to, and read back from.
ALTER TABLE changelog1 ALTER a_v TYPE text, ALTER b_v TYPE bigint, ALTER t TYPE varchar, DROP CONSTRAINT refuses,
    ALTER sjoin_id TYPE text;
TRUNCATE upsert1, changelog1;
ALTER TABLE upsert1 RENAME a_v TO "a ""v";
ALTER TABLE upsert1 RENAME sjoin_id TO "id";
ALTER TABLE upsert1 RENAME TO "up ""sert";
SELECT sjoin_test.write_changes('"up ""sert"', 'SELECT 1, 1, false, 1::bigint, ROW(1, now(), 1, 1)::result_writer.a, 1::bigint, ROW(1, now(), 2)::result_writer.b');
SELECT sjoin_test.write_changes('"up ""sert"', $$
    SELECT 1, x.sign, true, 1::bigint, ROW(1, now(), x.v, 1)::result_writer.a, 1::bigint, ROW(1, now(), 2)::result_writer.b FROM (VALUES (-1, 1), (1, 2)) x(sign, v) $$);
SELECT "a ""v", b_v, sjoin_version FROM "up ""sert" WHERE a_id = 1 AND b_id = 1;
SELECT sjoin_test.write_changes('changelog1', 'SELECT 1, 1, false, 1::bigint, ROW(1, now(), 1, 1)::result_writer.a, 1::bigint, ROW(1, now(), 2)::result_writer.b');
SELECT sjoin_test.write_changes('changelog1', $$
    SELECT 1, x.sign, true, 1::bigint, ROW(1, now(), x.v, 1)::result_writer.a, 1::bigint, ROW(1, now(), 2)::result_writer.b FROM (VALUES (-1, 1), (1, 2)) x(sign, v) $$);
SELECT sjoin_seq, sjoin_op, sjoin_version, a_v, b_v, t FROM changelog1 ORDER BY 1;

DROP SCHEMA result_writer CASCADE;
DROP EXTENSION sjoin_test;
