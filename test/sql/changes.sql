-- UPDATE, DELETE and TRUNCATE of joined rows: seen, counted or recorded; verify knows of them.
CREATE SCHEMA changes;
SET search_path = changes;
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SET datestyle = ISO;
SET intervalstyle = postgres;

CREATE TABLE a (id int PRIMARY KEY, k int, ts timestamptz, v int);
CREATE TABLE b (id int PRIMARY KEY, k int, ts timestamptz, v int);
SELECT sjoin.create_stream('a', 'ts', watermark_delay => '0 s');
SELECT sjoin.create_stream('b', 'ts', watermark_delay => '0 s');
SELECT sjoin.create_join('result', $$
    SELECT a.id AS a_id, b.id AS b_id, a.v AS a_v, b.v AS b_v
      FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval '5 s' $$);
SELECT sjoin.wait_for();
INSERT INTO a SELECT i, i, timestamptz '2024-01-01 10:00+00' + i * interval '1 s', i FROM generate_series(1, 6) i;
INSERT INTO b SELECT i, i, timestamptz '2024-01-01 10:00+00' + i * interval '1 s', i FROM generate_series(1, 6) i;
SELECT sjoin.wait_for();
SELECT a_id, b_id, a_v, b_v FROM result ORDER BY 1, 2;

-- everything is settled: rows of the result stay as they are
SELECT sjoin.advance_watermark('a', '2024-01-01 11:00+00'), sjoin.advance_watermark('b', '2024-01-01 11:00+00');
UPDATE a SET v = 10 WHERE id = 1;
UPDATE a SET v = v WHERE id = 2;
DELETE FROM b WHERE id = 3;
SELECT sjoin.wait_for();
SELECT a_id, b_id, a_v, b_v FROM result ORDER BY 1, 2;
SELECT input, reason, row_data->>'id' AS id, row_data->>'v' AS v FROM sjoin.late_rows ORDER BY late_id;
SELECT difference, n FROM sjoin.verify('result');

TRUNCATE b;
SELECT sjoin.wait_for();
SELECT count(*) FROM result;
SELECT difference, n FROM sjoin.verify('result');

-- what a DELETE never evaluates is not evaluated for it
TRUNCATE a;
SET plan_cache_mode = force_generic_plan;
PREPARE d(timestamptz, interval) AS DELETE FROM a WHERE ts < $1 - $2;
EXECUTE d('4700-01-01 BC', '100 years');
EXECUTE d('2024-01-01', '100000 years');
DEALLOCATE d;
DROP SCHEMA changes CASCADE;
