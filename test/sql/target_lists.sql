-- What can stand in a target list, and what the rows look like; what cannot is said at creation.
CREATE SCHEMA target_lists;
SET search_path = target_lists;
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SET datestyle = ISO;
SET intervalstyle = postgres;
CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE DOMAIN needed AS int NOT NULL;
CREATE TYPE point_in AS (x int, y text);
CREATE FUNCTION two(i int, OUT a int, OUT b text) IMMUTABLE LANGUAGE sql AS 'SELECT i, i::text';
CREATE FUNCTION some_row(i int) RETURNS record IMMUTABLE LANGUAGE sql AS 'SELECT i, i + 1';
CREATE TABLE l (id int, k int, gone int, tags text[], n numeric, ts timestamptz);
CREATE TABLE r (id int, k int, ts timestamptz);
CREATE TABLE looked_up (id int, name text);
ALTER TABLE l DROP gone;
INSERT INTO looked_up VALUES (1, 'one'), (2, 'two');
INSERT INTO l VALUES (1, 1, '{a,b}', 1.50, '2024-01-01 10:00'), (2, 2, NULL, NULL, '2024-01-01 10:00');
INSERT INTO r VALUES (10, 1, '2024-01-01 10:00');
SELECT sjoin.create_stream('l', 'ts', watermark_delay => '0 s'), sjoin.create_stream('r', 'ts', watermark_delay => '0 s');

-- makes the join, shows its columns and rows and what verify says
CREATE PROCEDURE make(targets text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM sjoin.create_join('j', format('SELECT %s FROM l LEFT JOIN r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + interval ''1 s''', targets));
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING '%: %', SQLSTATE, SQLERRM;
END $$;
CREATE PROCEDURE show() LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    PERFORM sjoin.wait_for('j');
    PERFORM sjoin.advance_watermark('l', '2024-01-01 11:00'), sjoin.advance_watermark('r', '2024-01-01 11:00');
    COMMIT;
    PERFORM sjoin.wait_for('j');
    RAISE WARNING '%', (SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum)
        FROM pg_attribute WHERE attrelid = 'j'::regclass AND attnum > 0 AND attname NOT LIKE 'sjoin%');
    FOR line IN SELECT (to_jsonb(j) - '{sjoin_id,sjoin_version,sjoin_at}'::text[])::text FROM j ORDER BY sjoin_id LOOP
        RAISE WARNING '%', line;
    END LOOP;
    FOR line IN SELECT v::text FROM sjoin.verify('j') v LOOP
        RAISE WARNING 'difference: %', line;
    END LOOP;
    FOR line IN SELECT concat_ws(' ', reason, sqlstate, message) FROM sjoin.late_rows WHERE result = 'j' LOOP
        RAISE WARNING 'late row: %', line;
    END LOOP;
    DROP TABLE j;
END $$;
CREATE TABLE lists (i int GENERATED ALWAYS AS IDENTITY, targets text);
INSERT INTO lists (targets) VALUES
    -- rows
    ('l, r'), ('l.*, r AS right_row'), ('r.*'), ('(l).id, (r.*)::text AS t, r IS NULL AS n, l.* IS NOT NULL AS m, COALESCE(l, NULL) IS NOT NULL AS c, l IS NOT NULL AND r.* IS NOT NULL AS b'),
    ('ARRAY[r, r] AS rs, ROW(l.id, ''a'')::point_in AS p, ARRAY[l.id, r.id] AS ids'), ('(two(l.id)).*'),
    ('to_jsonb(r) AS rj, row_to_json(l) AS lj, (SELECT to_jsonb(r)) AS sj, num_nulls(VARIADIC ARRAY[l.id, r.id]) AS v'),
    -- expressions
    ('l.id::text, r.id::bigint AS z, CAST(l.n AS numeric(5,1)) AS n'),
    ('CASE WHEN r.id IS NULL THEN ''x'' ELSE ''y'' END AS c, COALESCE(r.id, 0) AS e, COALESCE(r, ROW(0, 0, NULL)::r) AS f'),
    ('NULLIF(l.id, 1) AS f, GREATEST(l.id, r.id) AS g, l.n BETWEEN 1 AND r.id AS h, l.id IN (1, r.id) AS i'),
    ('l.tags[1] AS first, l.tags[1:1] AS part, l.ts AT TIME ZONE ''Europe/Berlin'' AS z, l.ts::date AS d'),
    ('l.id::positive AS a, r.id::positive AS b'), ('r.id::needed AS a'), ('(l.id - 1)::positive AS a'),
    ('current_user AS u, now() IS NULL AS t'),
    -- constants
    ('1 AS a, ''x'' AS b, NULL AS c, DATE ''2020-01-01'' AS d'), ('''x'''), ('1'),
    ('l.id AS "Strange ""Name", r.id AS "select"'),
    -- sub-queries
    ('(SELECT 1) AS a, (SELECT ''x'') AS b, (SELECT NULL) AS c, EXISTS (SELECT) AS d'),
    ('(SELECT u FROM looked_up u WHERE u.id = l.id) AS u, EXISTS (SELECT FROM looked_up u WHERE u.id = r.id), ARRAY(SELECT id FROM looked_up)'),
    ('(SELECT u.id::needed FROM looked_up u WHERE u.id = l.id) AS u, (SELECT ROW(u.id, u.name)::point_in FROM looked_up u LIMIT 1) AS p'),
    ('(WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < l.id + 2) SELECT array_agg(n) FROM x) AS a'),
    ('(SELECT string_agg(z.a, '','') FROM LATERAL (SELECT t || l.id AS a FROM unnest(l.tags) t) z JOIN (SELECT r.id AS q) x ON true) AS a'),
    ('(SELECT (SELECT l.id + x.id + u.id FROM looked_up u WHERE u.id = x.id) FROM (VALUES (l.id), (r.id)) x(id) LIMIT 1) AS a'),
    ('(SELECT tableoid::regclass::text FROM looked_up LIMIT 1) AS a, (VALUES (r.id), (l.id) LIMIT 1) AS b'),
    ('(SELECT rank() OVER (ORDER BY u.id DESC) FROM looked_up u ORDER BY u.id LIMIT 1) AS a, (SELECT name FROM looked_up UNION SELECT ''a'' ORDER BY 1 LIMIT 1) AS b'),
    ('(SELECT count(DISTINCT u.id + l.id) FILTER (WHERE u.id > 0) FROM looked_up u GROUP BY u.id > l.k HAVING count(*) > 0 ORDER BY 1 LIMIT 1) AS a'),
    ('(SELECT l FROM looked_up LIMIT 1) AS a, (SELECT r FROM looked_up LIMIT 1) AS b, (SELECT count(r) FROM (SELECT r) x(r)) AS c'),
    ('r.id IN (SELECT id * 10 FROM looked_up) AS a, r.id NOT IN (SELECT id FROM looked_up) AS b, l.id = ANY (ARRAY(SELECT id FROM looked_up)) AS c'),
    -- what is refused
    ('*'), ('l.id, r.id'), ('l.ctid'), ('l.tableoid::regclass AS t'), ('r.xmin'), ('ROW(l.id, r.id) AS a'), ('some_row(l.id) AS a'),
    ('two(l.id) AS a'), ('unnest(l.tags) AS a'), ('row_number() OVER (ORDER BY l.id) AS a'), ('count(*)'), ('DISTINCT l.id'),
    ('l.id AS sjoin_id'), ('random()'), ('1/0 AS a'), ('(SELECT array_agg(r.id) FROM looked_up) AS a'), ('(SELECT u.id, u.name FROM looked_up u) AS a');
CREATE PROCEDURE each() LANGUAGE plpgsql AS $$
DECLARE
    list lists;
BEGIN
    FOR list IN SELECT * FROM lists ORDER BY i LOOP
        RAISE WARNING '-- %', list.targets;
        CALL make(list.targets);
        COMMIT;
        IF to_regclass('j') IS NOT NULL THEN
            CALL show();
            COMMIT;
        END IF;
    END LOOP;
END $$;
\set VERBOSITY terse
CALL each();
\set VERBOSITY default
DROP SCHEMA target_lists CASCADE;
