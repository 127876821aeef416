-- Late rows: listed or only counted, never joined, and known to verify.
CREATE SCHEMA late_rows;
SET search_path = late_rows;
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SET datestyle = ISO;
SET intervalstyle = postgres;

CREATE TABLE a (id int, k int, ts timestamptz);
CREATE TABLE b (id int, k int, ts timestamptz);
SELECT sjoin.create_stream('a', 'ts', watermark_delay => '0 s');
SELECT sjoin.create_stream('b', 'ts', watermark_delay => '0 s');
\set query 'SELECT a.id AS a_id, b.id AS b_id FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s'''
SELECT sjoin.create_join('kept', :'query', allowed_lateness => '0 s');
SELECT sjoin.create_join('dropped', :'query', allowed_lateness => '0 s', late_rows => 'drop');
SELECT sjoin.create_join('lenient', :'query');
SELECT sjoin.wait_for();

INSERT INTO a VALUES (1, 1, '2024-01-01 10:00:00+00');
INSERT INTO b VALUES (1, 1, '2024-01-01 10:00:10+00');
INSERT INTO a VALUES (2, 2, '2024-01-01 10:00:10+00');
-- exactly at the watermark: in time; a microsecond earlier: late
INSERT INTO b VALUES (2, 2, '2024-01-01 10:00:10+00');
INSERT INTO a VALUES (3, 2, '2024-01-01 10:00:09.999999+00');
-- no later than the allowed lateness of the third join
INSERT INTO a VALUES (4, 1, '2024-01-01 10:00:05+00');
INSERT INTO a VALUES (5, 1, '2024-01-01 10:00:04.999999+00');
SELECT sjoin.wait_for();
SELECT a_id, b_id FROM kept ORDER BY 1, 2;
SELECT a_id, b_id FROM dropped ORDER BY 1, 2;
SELECT a_id, b_id FROM lenient ORDER BY 1, 2;
SELECT result, input, source, event_time, watermark, reason, row_data FROM sjoin.late_rows ORDER BY result::text, late_id;
SELECT join_name, rows_late FROM sjoin.stat_joins ORDER BY join_name;
SELECT join_name, input, rows_in, rows_late FROM sjoin.stat_inputs ORDER BY join_name, input;

SELECT sjoin.advance_watermark('a', '2024-01-02 00:00+00'), sjoin.advance_watermark('b', '2024-01-02 00:00+00');
SELECT sjoin.wait_for();
SELECT a_id, b_id FROM kept ORDER BY 1, 2;
SELECT * FROM sjoin.verify('kept');
SELECT * FROM sjoin.verify('dropped');
SELECT * FROM sjoin.verify('lenient');
SELECT join_name, state_rows, watermark FROM sjoin.stat_joins ORDER BY join_name;
DROP SCHEMA late_rows CASCADE;
SELECT count(*) FROM sjoin.late_rows;
