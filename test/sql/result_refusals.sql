-- Results with constraints, triggers, rules, policies of the user's: changes that are made up, written with and without care.
CREATE EXTENSION sjoin_test;
CREATE SCHEMA refusals;
SET search_path = refusals;
SET client_min_messages = warning;
CREATE TABLE a (id int, ts timestamptz, v int);
CREATE TABLE b (id int, ts timestamptz, v int);
SELECT sjoin.create_stream('a', 'ts'), sjoin.create_stream('b', 'ts');
CREATE FUNCTION make_join(name text, mode text DEFAULT 'upsert') RETURNS void LANGUAGE sql AS $$
    SELECT sjoin.create_join('refusals.' || name, 'SELECT a.id AS a_id, b.id AS b_id, a.v AS a_v, b.v AS b_v
          FROM a LEFT JOIN b ON a.id = b.id AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''', output_mode => mode) $$;

-- changes as text: '1+ 11,0 | 2u 11,0>12,0 | 2- 13,5' is, in step 1, the row of a with v = 1 and no b comes; in step 2 ...
-- The first digit of an image is the id, the rest the value.
CREATE FUNCTION changes(history text) RETURNS TABLE (step int, sign int, update bool, l_seq bigint, l a, r_seq bigint, r b) LANGUAGE sql STABLE AS $$
    SELECT (m[1])::int, s, m[2] = 'u', nullif(i[1][1], '0')::bigint,
           CASE WHEN i[1][1] <> '0' THEN ROW(i[1][1]::int, '2024-01-01', i[1][2]::int)::refusals.a END,
           nullif(i[1][3], '')::bigint, CASE WHEN i[1][3] <> '' THEN ROW(i[1][3]::int, '2024-01-01', i[1][4]::int)::refusals.b END
      FROM regexp_split_to_table(history, ' *\| *') WITH ORDINALITY h(change, n),
           regexp_match(change, '^(\d+)([-+u]) ([^>]*)>?(.*)$') m,
           LATERAL (VALUES (-1, m[3]), (1, CASE WHEN m[2] = 'u' THEN m[4] ELSE m[3] END)) x(s, image),
           LATERAL (SELECT ARRAY[regexp_match(image, '^(\d)(\d*),(\d?)(\d*)$')]) y(i)
     WHERE m[2] = 'u' OR s = CASE m[2] WHEN '+' THEN 1 ELSE -1 END
     ORDER BY n, s $$;
CREATE FUNCTION write(name regclass, history text, careful bool DEFAULT true) RETURNS text LANGUAGE sql AS $$
    SELECT sjoin_test.write_changes(name, format('SELECT * FROM refusals.changes(%L)', history), careful)::text $$;
CREATE VIEW recorded AS
    SELECT d.result::regclass AS result, op, reason, sqlstate, message, row_data->>'v' AS a_v, old_data->>'v' AS b_v
      FROM sjoin.late_row JOIN sjoin.join_def d USING (join_id) ORDER BY late_id;
SELECT * FROM changes('1+ 11,21 | 2u 11,21>12,21 | 3- 31,');

-- a unique constraint: the second payment of an order is refused, and comes when the first goes
SELECT make_join('u');
ALTER TABLE u ADD UNIQUE (a_id);
SELECT write('u', '1+ 11,11 | 1+ 11,22', false);
SELECT write('u', '1+ 11,11 | 1+ 11,22');
SELECT a_id, b_id, a_v, b_v, sjoin_version FROM u;
SELECT * FROM recorded WHERE result = 'u'::regclass;
SELECT write('u', '1- 11,11 | 1u 11,22>12,22');
SELECT a_id, b_id, a_v, b_v, sjoin_version FROM u;
SELECT * FROM recorded WHERE result = 'u'::regclass;
-- two rows swap what is unique, three hand it on, one takes what another keeps
SELECT make_join('s');
ALTER TABLE s ADD UNIQUE (a_v);
SELECT write('s', '1+ 11,11 | 1+ 22,21 | 1+ 33,31 | 1+ 44,41');
SELECT write('s', '1u 11,11>12,11 | 1u 22,21>21,21', false);
SELECT write('s', '1u 11,11>12,11 | 1u 22,21>21,21');
SELECT write('s', '1u 12,11>13,11 | 1u 33,31>34,31 | 1u 44,41>45,41');
SELECT write('s', '1u 21,21>23,21');
SELECT a_id, b_id, a_v, b_v, sjoin_version FROM s ORDER BY 1;
SELECT * FROM recorded WHERE result = 's'::regclass;

-- a CHECK that an update violates: the old row goes
SELECT make_join('c');
ALTER TABLE c ADD CHECK (a_v < 5);
SELECT write('c', '1+ 11,11 | 1+ 21,21 | 1+ 31,31', false);
SELECT write('c', '1u 11,11>17,11 | 1u 21,21>22,21 | 1- 31,31 | 2u 21,21>22,22');
SELECT a_id, b_id, a_v, b_v, sjoin_version FROM c ORDER BY 1;
SELECT write('c', '1u 17,11>12,11');
SELECT a_id, b_id, a_v, b_v, sjoin_version FROM c ORDER BY 1;
SELECT * FROM recorded WHERE result = 'c'::regclass;

-- references to rows of the result, and from it
SELECT make_join('f');
CREATE TABLE names (id int PRIMARY KEY);
INSERT INTO names VALUES (1), (2), (3);
ALTER TABLE f ADD FOREIGN KEY (a_id) REFERENCES names;
CREATE TABLE notes (id uuid REFERENCES f);
SELECT write('f', '1+ 11,11 | 1+ 21,21 | 1+ 31,31 | 1+ 41,41');
INSERT INTO notes SELECT sjoin_id FROM f WHERE a_id IN (1, 2);
ALTER TABLE f ADD CHECK (a_v <> 7);
SELECT write('f', '1- 11,11 | 1u 21,21>27,21 | 1- 31,31');
SELECT a_id, b_id, a_v, b_v, sjoin_version FROM f ORDER BY 1;
SELECT op, reason, sqlstate, a_v, b_v FROM recorded WHERE result = 'f'::regclass;
-- the one that could not be deleted comes back
SELECT write('f', '1+ 13,11');
SELECT a_id, b_id, a_v, b_v, sjoin_version FROM f ORDER BY 1;
SELECT op, reason, sqlstate, a_v, b_v FROM recorded WHERE result = 'f'::regclass;

-- triggers: one that refuses silently, one that logs
SELECT make_join('t');
CREATE TABLE log (n int GENERATED ALWAYS AS IDENTITY, op text, old text, new text);
CREATE FUNCTION silent() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN CASE WHEN OLD.a_v < 5 THEN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END END; END $$;
CREATE FUNCTION logging() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO refusals.log (op, old, new) VALUES (TG_OP, CASE WHEN TG_OP <> 'INSERT' THEN (OLD.a_id, OLD.b_id, OLD.a_v, OLD.b_v, OLD.sjoin_version)::text END,
        CASE WHEN TG_OP <> 'DELETE' THEN (NEW.a_id, NEW.b_id, NEW.a_v, NEW.b_v, NEW.sjoin_version)::text END);
    RETURN NULL;
END $$;
CREATE TRIGGER silent BEFORE UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION silent();
CREATE TRIGGER logging AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION logging();
SELECT write('t', '1+ 11, | 1+ 27,21 | 1+ 37,31 | 1+ 41,', false);
SELECT write('t', '1- 11, | 1+ 11,11 | 1- 27,21 | 1u 37,31>38,31 | 1u 41,>42, | 2u 42,>43,', false);
SELECT op, old, new FROM log ORDER BY n;
SELECT a_id, b_id, a_v, b_v, sjoin_version FROM t ORDER BY 1;
SELECT * FROM recorded WHERE result = 't'::regclass;

-- rules, generated columns, columns with defaults, a parent, another schema and name
SELECT make_join('r');
CREATE TABLE ruled (op text, a_id int, a_v int);
CREATE RULE ins AS ON INSERT TO r DO ALSO INSERT INTO ruled VALUES ('I', NEW.a_id, NEW.a_v);
CREATE RULE upd AS ON UPDATE TO r DO ALSO INSERT INTO ruled VALUES ('U', NEW.a_id, NEW.a_v);
CREATE RULE del AS ON DELETE TO r DO ALSO INSERT INTO ruled VALUES ('D', OLD.a_id, OLD.a_v);
ALTER TABLE r ADD twice int GENERATED ALWAYS AS (a_v * 2) STORED, ADD note text DEFAULT 'none', ALTER sjoin_version TYPE bigint;
ALTER TABLE r ALTER b_v TYPE numeric(6, 2);
ALTER TABLE r RENAME a_id TO "order";
CREATE SCHEMA elsewhere;
ALTER TABLE r SET SCHEMA elsewhere;
ALTER TABLE elsewhere.r RENAME TO "the result";
SELECT write('elsewhere."the result"', '1+ 11,11 | 1+ 21,21 | 1+ 31,31', false);
UPDATE elsewhere."the result" SET note = 'mine';
SELECT write('elsewhere."the result"', '1u 11,11>12,11 | 1- 21,21', false);
SELECT "order", b_id, a_v, b_v, sjoin_version, twice, note FROM elsewhere."the result" ORDER BY 1;
TABLE ruled;

-- attached as a partition, whose bounds refuse rows
SELECT make_join('p');
CREATE TABLE all_results (LIKE p INCLUDING DEFAULTS) PARTITION BY RANGE (a_id);
ALTER TABLE all_results ATTACH PARTITION p FOR VALUES FROM (0) TO (3);
SELECT write('p', '1+ 11,11 | 1+ 21,21 | 1+ 31,31');
SELECT write('p', '1u 11,11>12,11 | 1- 21,21 | 1u 31,31>32,31');
SELECT a_id, b_id, a_v, b_v, sjoin_version FROM all_results ORDER BY 1;
SELECT op, sqlstate, message, a_v, b_v FROM recorded WHERE result = 'p'::regclass;

-- a changelog: what is refused is not taken back, what cannot be updated is deleted, what was trimmed is computed
SELECT make_join('l', 'changelog');
ALTER TABLE l ADD CHECK (a_v < 5);
SELECT write('l', '1+ 17,11 | 1+ 21,21 | 1+ 31,31 | 2- 17,11 | 2u 21,21>28,21 | 3u 28,21>22,21');
SELECT sjoin_seq, sjoin_op, a_id, a_v, b_v, sjoin_version FROM l ORDER BY 1;
SELECT op, sqlstate, a_v, b_v FROM recorded WHERE result = 'l'::regclass;
DELETE FROM l WHERE a_id = 3;
SELECT write('l', '1u 31,31>32,31 | 1- 22,21', false);
SELECT write('l', '1- 32,31 | 1+ 41,41 | 2u 41,41>42,41 | 3u 42,41>42,42', false);
SELECT sjoin_seq, sjoin_op, a_id, a_v, b_v, sjoin_version FROM l ORDER BY 1;
-- of a row that the log says has been taken back
DELETE FROM l WHERE a_id = 4 AND sjoin_op <> '-U';
SELECT write('l', '1- 42,42');
SELECT sjoin_seq, sjoin_op, a_id, a_v, b_v, sjoin_version FROM l WHERE a_id = 4 ORDER BY 1;

-- an expression of the query that fails, with an error that could be the table's
CREATE FUNCTION half(v int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    IF v = 7 THEN PERFORM FROM no_such_table; END IF;
    RETURN v / 2;
END $$;
SELECT sjoin.create_join('e', 'SELECT a.id AS a_id, 6 / half(a.v) AS x FROM a JOIN b ON a.id = b.id AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''');
SELECT write('e', '1+ 12,11 | 1+ 27,21 | 1+ 30,31 | 1+ 46,41');
SELECT write('e', '1u 12,11>10,11 | 1u 27,21>26,21 | 1- 30,31 | 1u 46,41>47,41');
SELECT a_id, x, sjoin_version FROM e ORDER BY 1;
SELECT op, sqlstate, message, a_v FROM recorded WHERE result = 'e'::regclass;
ALTER TABLE e DROP COLUMN x;
SELECT write('e', '1+ 52,51');

-- verify leaves refused pairs out until they are taken back
CREATE TABLE main (id int, ts timestamptz, v int);
CREATE TABLE details (id int, ts timestamptz);
SELECT sjoin.create_join('v', 'SELECT c.id AS c_id, c.v FROM main c LEFT JOIN details d ON c.id = d.id AND d.ts BETWEEN c.ts AND c.ts + interval ''5 s''');
ALTER TABLE v ADD CHECK (v <> 7);
INSERT INTO main VALUES (1, '2024-01-01', 7), (2, '2024-01-01', 1), (3, '2024-01-01', 7);
INSERT INTO details VALUES (1, '2024-01-01'), (2, '2024-01-01');
SELECT sjoin.advance_watermark('main', '2024-01-02') IS NOT NULL, sjoin.advance_watermark('details', '2024-01-02') IS NOT NULL;
SELECT sjoin.wait_for('v');
SELECT c_id, v FROM v;
SELECT op, sqlstate, a_v FROM recorded WHERE result = 'v'::regclass;
SELECT * FROM sjoin.verify('v');
SELECT sjoin_test.write_changes('v', $$
    SELECT 1, -1, false, l.seq, c, nullif(l.other_seq, 0), d FROM sjoin.late_row l JOIN sjoin.join_def j USING (join_id)
      JOIN refusals.main c ON c.id = (l.row_data->>'id')::int LEFT JOIN refusals.details d ON d.id = c.id WHERE j.result = 'refusals.v'::regclass $$);
SELECT * FROM sjoin.verify('v') ORDER BY row_data->>'c_id';

DROP SCHEMA refusals, elsewhere CASCADE;
DROP EXTENSION sjoin_test;
