-- A join begins with its creation: what happens before the worker has read the tables is consumed like everything later.
-- One transaction makes the join and changes rows, so all of that lies between.
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SET datestyle = ISO;
SET intervalstyle = postgres;
\set SHOW_CONTEXT never
CREATE TABLE a (id int, k int, ts timestamptz);
CREATE TABLE b (id int, k int, ts timestamptz);
SELECT sjoin.create_stream('a', 'ts', watermark_delay => '0'), sjoin.create_stream('b', 'ts', watermark_delay => '0');
INSERT INTO a VALUES (1, 1, '2024-01-01 10:00:00'), (2, 2, '2024-01-01 10:00:01'), (3, 3, '2024-01-01 10:00:02'), (3, 3, '2024-01-01 10:00:02');
INSERT INTO b VALUES (1, 1, '2024-01-01 10:00:01'), (2, 2, '2024-01-01 10:00:02'), (3, 3, '2024-01-01 10:00:03');
BEGIN;
INSERT INTO a VALUES (4, 4, '2024-01-01 10:00:01');
SELECT sjoin.create_join('r', $$ SELECT a.id AS a_id, b.id AS b_id FROM a LEFT JOIN b ON a.k = b.k
    AND b.ts BETWEEN a.ts AND a.ts + interval '5 s' $$, allowed_lateness => '0');
UPDATE a SET k = 9 WHERE id = 1;
DELETE FROM b WHERE id = 2;
DELETE FROM a WHERE ctid = (SELECT max(ctid) FROM a WHERE id = 3);
-- as late as history is, and not history; a partner; a copy of a row that is there
INSERT INTO a VALUES (5, 5, '2024-01-01 09:59:00');
INSERT INTO b VALUES (4, 4, '2024-01-01 10:00:03'), (3, 3, '2024-01-01 10:00:03');
SELECT sjoin.advance_watermark('a', '2024-01-01 10:00:08') IS NOT NULL, sjoin.advance_watermark('b', '2024-01-01 10:00:08') IS NOT NULL;
COMMIT;
SELECT sjoin.wait_for('r');
SELECT a_id, b_id FROM r ORDER BY 1, 2;
SELECT input, reason, row_data->>'id' AS id FROM sjoin.late_rows ORDER BY 1, 2, 3;
SELECT * FROM sjoin.verify('r');

-- the same without the rows that were there
BEGIN;
SELECT sjoin.create_join('s', $$ SELECT a.id AS a_id, b.id AS b_id FROM a LEFT JOIN b ON a.k = b.k
    AND b.ts BETWEEN a.ts AND a.ts + interval '5 s' $$, allowed_lateness => '0', with_data => false);
INSERT INTO a VALUES (6, 6, '2024-01-01 10:00:00');
INSERT INTO b VALUES (6, 6, '2024-01-01 10:00:01');
COMMIT;
SELECT sjoin.wait_for('s');
SELECT a_id, b_id FROM s ORDER BY 1, 2;
SELECT * FROM sjoin.verify('s');
DROP TABLE r, s, a, b;
