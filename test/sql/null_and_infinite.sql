-- NULL keys match nothing; NULL and infinite event times enter nothing and move no clock.
CREATE SCHEMA null_and_infinite;
SET search_path = null_and_infinite;
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SET datestyle = ISO;
SET intervalstyle = postgres;

CREATE TABLE a (id int, k int, ts timestamptz);
CREATE TABLE b (id int, k int, ts timestamptz);
SELECT sjoin.create_stream('a', 'ts', watermark_delay => '0 s');
SELECT sjoin.create_stream('b', 'ts', watermark_delay => '0 s');
SELECT sjoin.create_join('result', $$
    SELECT a.id AS a_id, b.id AS b_id
      FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval '5 s' $$);
SELECT sjoin.wait_for();

INSERT INTO a VALUES (1, NULL, '2024-01-01 10:00:00+00'), (2, NULL, '2024-01-01 10:00:00+00'), (3, 1, '2024-01-01 10:00:00+00');
INSERT INTO b VALUES (1, NULL, '2024-01-01 10:00:00+00'), (2, NULL, '2024-01-01 10:00:00+00'), (3, 1, '2024-01-01 10:00:00+00');
INSERT INTO a VALUES (4, 1, NULL), (5, 1, 'infinity'), (6, 1, '-infinity'), (7, NULL, NULL);
INSERT INTO b VALUES (4, 1, NULL), (5, 1, 'infinity'), (6, 1, '-infinity');
SELECT sjoin.wait_for();
SELECT a_id, b_id FROM result ORDER BY 1, 2;
SELECT sjoin.watermark('a'), sjoin.watermark('b'), sjoin.watermark('result');
SELECT input, reason, event_time, row_data->>'id' AS id FROM sjoin.late_rows ORDER BY result::text, input, 4;

SELECT sjoin.advance_watermark('a', '2024-01-01 10:01:00+00'), sjoin.advance_watermark('b', '2024-01-01 10:01:00+00');
SELECT sjoin.wait_for();
SELECT a_id, b_id FROM result ORDER BY 1, 2;
SELECT input, rows_in, rows_null_key FROM sjoin.stat_inputs ORDER BY input;
SELECT * FROM sjoin.verify('result');
DROP SCHEMA null_and_infinite CASCADE;
