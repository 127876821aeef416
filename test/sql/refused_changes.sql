-- Rows that were refused and go again, rows on which user code fails when they are deleted, and what verify makes of it.
CREATE SCHEMA refused_changes;
SET search_path = refused_changes;
SET client_min_messages = warning;
SET TimeZone = 'UTC';
CREATE TABLE o (id int, ts timestamptz NOT NULL, x int);
CREATE TABLE p (id int, ts timestamptz, y int);
SELECT sjoin.create_stream('o', 'ts'), sjoin.create_stream('p', 'ts');
\set query 'SELECT o.id, o.ts, o.x, p.y FROM o JOIN p ON o.id = p.id AND p.ts BETWEEN o.ts AND o.ts + interval ''5 min'''
SELECT sjoin.create_join('a', :'query', output_mode => 'append', allowed_lateness => '10 min'), sjoin.create_join('u', :'query');
INSERT INTO o VALUES (1, '2024-01-01 10:00', 1);
INSERT INTO p VALUES (1, '2024-01-01 10:01', 1);

-- append: the new image is refused, goes, and comes again as a row of its own
UPDATE o SET x = 2;
DELETE FROM o;
INSERT INTO o VALUES (1, '2024-01-01 10:00', 2);
SELECT sjoin.wait_for();
SELECT id, x, y FROM a ORDER BY 1, 2;
SELECT 'a', * FROM sjoin.verify('a') UNION ALL SELECT 'u', * FROM sjoin.verify('u');

-- a settled row is moved forward, which is refused; then the table is emptied and the row comes again
INSERT INTO o VALUES (2, '2024-01-02 10:00', 1);
INSERT INTO p VALUES (2, '2024-01-02 10:01', 1);
UPDATE o SET ts = '2024-01-02 10:00' WHERE id = 1;
INSERT INTO p VALUES (1, '2024-01-02 10:01', 7);
SELECT sjoin.wait_for();
TRUNCATE o;
INSERT INTO o VALUES (1, '2024-01-02 10:00', 2);
SELECT sjoin.wait_for();
SELECT id, ts, x, y FROM u ORDER BY 1, 2;
SELECT * FROM sjoin.verify('u') WHERE difference <> 'settled';
SELECT * FROM sjoin.verify('a') WHERE difference <> 'settled';
DROP TABLE a, u;

-- a join without the rows that were there: nothing was refused, so nothing is withdrawn
TRUNCATE o, p;
INSERT INTO o VALUES (1, '2024-01-03 10:00', 1), (2, '2024-01-03 10:00', 1);
SELECT sjoin.create_join('w', replace(:'query', 'JOIN', 'LEFT JOIN'), with_data => false, allowed_lateness => '0');
SELECT sjoin.create_join('wa', :'query', output_mode => 'append', with_data => false, allowed_lateness => '1 h');
INSERT INTO o VALUES (6, '2024-01-03 09:00', 1);
SELECT sjoin.wait_for();
DELETE FROM o WHERE id = 1;
UPDATE o SET x = 5 WHERE id = 2;
SELECT sjoin.wait_for();
INSERT INTO o VALUES (8, '2024-01-03 12:00', 1);
INSERT INTO p VALUES (8, '2024-01-03 12:00', 1);
INSERT INTO o VALUES (1, '2024-01-03 10:00', 1);
SELECT sjoin.wait_for();
SELECT input, reason, row_data->>'id' AS id FROM sjoin.late_rows ORDER BY result, late_id;
SELECT * FROM sjoin.verify('w');
SELECT * FROM sjoin.verify('wa');
DROP TABLE w, wa;

-- a filter that fails for a row that it has let through: the row stays, and that is recorded
TRUNCATE o, p;
CREATE FUNCTION lets_through(int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN true; END';
SELECT sjoin.create_join('f', 'SELECT o.id, o.ts, o.x, p.y FROM o LEFT JOIN p ON o.id = p.id AND p.ts BETWEEN o.ts AND o.ts + interval ''5 min'' WHERE refused_changes.lets_through(o.x)');
INSERT INTO o VALUES (1, '2024-01-04 10:00', 1), (2, '2024-01-04 10:00', 2), (3, '2024-01-04 10:00', 3);
INSERT INTO p SELECT id, ts + interval '1 min', x FROM o;
SELECT sjoin.wait_for();
CREATE OR REPLACE FUNCTION lets_through(int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN IF $1 = 1 THEN RAISE 'not this one'; END IF; RETURN true; END $$;
DELETE FROM o WHERE id = 1;
UPDATE o SET x = 1 WHERE id = 2;
UPDATE o SET x = 4 WHERE id = 3;
SELECT sjoin.wait_for();
SELECT id, x, y FROM f ORDER BY 1, 2;
SELECT reason, message, row_data->>'id' AS id FROM sjoin.late_rows ORDER BY late_id;
-- the failed rows go, and come again when the filter is as it was: also in a state that has been made anew
DELETE FROM o WHERE id = 2;
CREATE OR REPLACE FUNCTION lets_through(int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN true; END';
SELECT pg_terminate_backend(pid) FROM sjoin.stat_workers WHERE datname = current_database();
INSERT INTO o VALUES (2, '2024-01-04 10:00', 1);
SELECT sjoin.wait_for();
SELECT id, x, y FROM f ORDER BY 1, 2;
SELECT * FROM sjoin.verify('f');

-- a join may start in a transaction that has written to its streams, but not if it needs what has not been captured
DELETE FROM o WHERE id = 9;
BEGIN;
INSERT INTO o VALUES (9, '2024-01-04 10:00', 9);
SELECT sjoin.create_join('g', :'query');
INSERT INTO p VALUES (9, '2024-01-04 10:00', 9);
COMMIT;
SELECT sjoin.wait_for();
SELECT id, x, y FROM g WHERE id = 9;
SELECT * FROM sjoin.verify('g');
CREATE TABLE other (id int, ts timestamptz);
SELECT sjoin.create_stream('other', 'ts');
ALTER TABLE o ADD COLUMN more text DEFAULT 'more';
BEGIN;
INSERT INTO o VALUES (10, '2024-01-04 10:00', 9, 'and more');
SELECT sjoin.create_join('never', 'SELECT o.more FROM o JOIN other ON o.id = other.id AND o.ts = other.ts');
ROLLBACK;

-- records count in the order in which they were made, wherever they lie in their table
TRUNCATE o, p;
SELECT sjoin.create_join('filler', :'query', allowed_lateness => '0');
INSERT INTO o VALUES (0, '2024-02-01 10:00', 0);
INSERT INTO p VALUES (0, '2024-02-01 10:00', 0);
INSERT INTO o SELECT g, '2024-01-31 10:00', 0 FROM generate_series(1, 2000) g;
TRUNCATE o, p;
SELECT sjoin.create_join('m', :'query', output_mode => 'append', allowed_lateness => '1 h');
INSERT INTO o VALUES (1, '2024-02-01 10:00', 1);
INSERT INTO p VALUES (1, '2024-02-01 10:01', 1);
UPDATE o SET x = 2;
SELECT sjoin.wait_for();
DROP TABLE filler;
VACUUM sjoin.late_row;
SELECT pg_terminate_backend(pid, 60000) FROM sjoin.stat_workers WHERE datname = current_database();
UPDATE o SET x = 3;
SELECT sjoin.wait_for();
SELECT pg_terminate_backend(pid, 60000) FROM sjoin.stat_workers WHERE datname = current_database();
TRUNCATE o;
SELECT sjoin.wait_for();
SELECT id, ts, x, y FROM m;
SELECT row_data->>'x' AS x, reason FROM sjoin.late_rows WHERE reason <> 'late' AND event_time >= '2024-02-01' ORDER BY late_id;
SELECT * FROM sjoin.verify('m');
DROP TABLE m;

DROP SCHEMA refused_changes CASCADE;
