-- One bad row never stops a join: what fails is recorded, the rest is written.
SET client_min_messages = warning;
CREATE TABLE a (id int, q text, v int, ts timestamptz);
CREATE TABLE b (id int, w text, ts timestamptz);
CREATE FUNCTION picky(id int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    IF id = 7 THEN PERFORM 1 FROM no_such_table; END IF;
    IF id = 8 THEN RAISE EXCEPTION 'eight' USING errcode = 'UE008'; END IF;
    RETURN true;
END $$;

-- the filter fails for two rows, the condition for a pair, the target list for another
SELECT sjoin.create_join('r', $$
    SELECT a.id, 10 / a.v AS tenth, b.w
      FROM a LEFT JOIN b ON a.id = b.id AND b.ts BETWEEN a.ts AND a.ts + interval '1 minute'
           AND to_tsvector('simple', b.w) @@ to_tsquery('simple', a.q)
     WHERE picky(a.id) $$);
INSERT INTO a VALUES (1, 'x', 1, '2024-01-01'), (2, 'x &', 1, '2024-01-01'), (3, 'x', 0, '2024-01-01'),
    (7, 'x', 1, '2024-01-01'), (8, 'x', 1, '2024-01-01'), (9, 'y', 2, '2024-01-01');
INSERT INTO b SELECT i, 'x', '2024-01-01' FROM unnest(ARRAY[1, 2, 3, 7, 8, 9]) i;
SELECT sjoin.wait_for('r');
SELECT sjoin.advance_watermark('a', '2024-01-02') IS NOT NULL, sjoin.advance_watermark('b', '2024-01-02') IS NOT NULL;
SELECT sjoin.wait_for('r');
SELECT id, tenth, w FROM r ORDER BY id;
SELECT input, reason, sqlstate, message, coalesce(row_data->>'id', row_data#>>'{left,id}') AS id FROM sjoin.late_rows ORDER BY id;

-- after a restart of the worker they are remembered
SELECT count(pg_terminate_backend(pid)) FROM sjoin.stat_workers;
INSERT INTO a VALUES (4, 'x', 1, '2024-01-03');
SELECT sjoin.wait_for('r');
SELECT count(*) FROM sjoin.late_rows;
SELECT state FROM sjoin.joins;

-- the result refuses rows: by a constraint, and by a trigger with an error code of its own
CREATE TABLE c (id int, ts timestamptz);
CREATE TABLE d (id int, ts timestamptz);
SELECT sjoin.create_join('s', $$
    SELECT c.id FROM c JOIN d ON c.id = d.id AND d.ts BETWEEN c.ts AND c.ts + interval '1 minute' $$);
ALTER TABLE s ADD CHECK (id <> 2);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id = 3 THEN RAISE EXCEPTION 'three' USING errcode = 'UE003'; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON s FOR EACH ROW EXECUTE FUNCTION refuse();
INSERT INTO c SELECT i, '2024-01-01' FROM generate_series(1, 5) i;
INSERT INTO d SELECT i, '2024-01-01' FROM generate_series(1, 5) i;
SELECT sjoin.wait_for('s');
SELECT id FROM s ORDER BY id;
SELECT input, reason, sqlstate, message FROM sjoin.late_rows WHERE result = 's'::regclass::text ORDER BY sqlstate;
SELECT * FROM sjoin.verify('s');

-- a column of the result gets another type
DROP TRIGGER refuse ON s;
ALTER TABLE s DROP CONSTRAINT s_id_check, ALTER id TYPE text;
INSERT INTO c VALUES (6, '2024-01-01');
INSERT INTO d VALUES (6, '2024-01-01');
SELECT sjoin.wait_for('s');
SELECT id FROM s ORDER BY id;
SELECT * FROM sjoin.verify('s');
DROP TABLE r, s;
DROP TABLE a, b, c, d;
DROP FUNCTION picky, refuse;

-- a policy of the result refuses a row
CREATE TABLE e (id int, ts timestamptz);
CREATE TABLE f (id int, ts timestamptz);
CREATE ROLE sjoin_regress_policy;
GRANT SELECT ON e, f TO sjoin_regress_policy;
GRANT CREATE ON SCHEMA public TO sjoin_regress_policy;
SELECT sjoin.create_stream('e', 'ts'), sjoin.create_stream('f', 'ts');
SET ROLE sjoin_regress_policy;
SELECT sjoin.create_join('t', $$
    SELECT e.id FROM e JOIN f ON e.id = f.id AND f.ts BETWEEN e.ts AND e.ts + interval '1 minute' $$);
ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY p ON t USING (true) WITH CHECK (id <> 2);
RESET ROLE;
INSERT INTO e SELECT i, '2024-01-01' FROM generate_series(1, 3) i;
INSERT INTO f SELECT i, '2024-01-01' FROM generate_series(1, 3) i;
SELECT sjoin.wait_for('t');
SELECT id FROM t ORDER BY id;
SELECT sqlstate, message FROM sjoin.late_rows;
SELECT * FROM sjoin.verify('t');
DROP TABLE t, e, f;
REVOKE CREATE ON SCHEMA public FROM sjoin_regress_policy;
DROP ROLE sjoin_regress_policy;
