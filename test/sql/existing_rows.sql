-- Rows that are there when the join is made: joined in event-time order, none of them late; or left out.
CREATE SCHEMA existing_rows;
SET search_path = existing_rows;
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SET datestyle = ISO;
SET intervalstyle = postgres;

CREATE TABLE a (id int, k int, ts timestamptz);
CREATE TABLE b (id int, k int, ts timestamptz);
SELECT sjoin.create_stream('a', 'ts', watermark_delay => '0 s');
SELECT sjoin.create_stream('b', 'ts', watermark_delay => '0 s');
INSERT INTO a VALUES (3, 3, '2024-01-01 12:00+00'), (2, 2, '2024-01-01 11:00+00'), (1, 1, '2024-01-01 10:00+00'), (0, 0, NULL);
INSERT INTO b VALUES (1, 1, '2024-01-01 10:00:01+00'), (3, 3, '2024-01-01 12:00:06+00');

\set query 'SELECT a.id AS a_id, b.id AS b_id FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s'''
SELECT sjoin.create_join('with_rows', :'query');
SELECT sjoin.create_join('without', :'query', with_data => false);
INSERT INTO a VALUES (4, 4, '2024-01-01 13:00+00');
INSERT INTO b VALUES (4, 4, '2024-01-01 13:00+00');
SELECT sjoin.wait_for();
SELECT a_id, b_id FROM with_rows ORDER BY 1;
SELECT a_id, b_id FROM without ORDER BY 1;
SELECT sjoin.advance_watermark('a', '2024-01-01 14:00+00'), sjoin.advance_watermark('b', '2024-01-01 14:00+00');
SELECT sjoin.wait_for();
SELECT a_id, b_id FROM with_rows ORDER BY 1;
SELECT a_id, b_id FROM without ORDER BY 1;
SELECT result, input, reason, row_data->>'id' AS id FROM sjoin.late_rows ORDER BY result::text, input, 4;
SELECT difference, n FROM sjoin.verify('with_rows');
DROP SCHEMA existing_rows CASCADE;
