-- What a join sees of time: lateness, clocks of producers, rows it does not know, and advice made of it.
CREATE EXTENSION sjoin_test;
SELECT sjoin_test.histogram_buckets();
SELECT sjoin_test.histogram_percentiles(1, 500);
SELECT sjoin_test.histogram_percentiles((random() * 1e12)::bigint, 500);
CREATE SCHEMA timing;
SET search_path = timing;
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SET datestyle = ISO;
SET intervalstyle = postgres;

CREATE TABLE a (id bigint GENERATED ALWAYS AS IDENTITY, k int, ts timestamptz);
CREATE TABLE b (id bigint GENERATED ALWAYS AS IDENTITY, k int, ts timestamptz);
SELECT sjoin.create_stream('a', 'ts', watermark_delay => '5 s', idle_timeout => '0 s', max_future => '5 min'),
       sjoin.create_stream('b', 'ts', watermark_delay => '0 s', idle_timeout => '0 s', max_future => '1 min');

-- rows that were there before are read in order, by somebody who was not there when they came: they say nothing
INSERT INTO a (k, ts) SELECT g, '2024-01-01 10:00:00+00' FROM generate_series(1, 2000) g;
SELECT sjoin.create_join('result', $$
    SELECT a.id AS a_id, b.id AS b_id FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval '5 min' $$, allowed_lateness => '0 s');
SELECT sjoin.wait_for();
CREATE VIEW seen AS
    SELECT input, rows_in, rows_future, rows_unknown, round(lateness_p50::numeric, 3) AS lateness_p50, round(lateness_p99::numeric, 3) AS lateness_p99,
           round(clock_offset_p50::numeric, 3) AS clock_offset_p50, last_row_at BETWEEN '2024-01-01 12:00:00+00' AND '2024-01-01 12:05:00+00' AS last_row_at
      FROM sjoin.stat_inputs WHERE relid = 'result'::regclass ORDER BY input;
SELECT * FROM seen;
SELECT * FROM sjoin.advise('result');

-- a minute from a's producer to us, in order; then a hundredth comes half a minute late
SELECT sjoin_test.set_clock('2024-01-01 12:00:00+00');
INSERT INTO a (k, ts) SELECT g, '2024-01-01 11:59:00+00' FROM generate_series(1, 900) g;
SELECT sjoin.wait_for();
SELECT * FROM seen;
-- b's producer is half a minute ahead of us
SELECT sjoin_test.set_clock('2024-01-01 12:00:00+00');
INSERT INTO b (k, ts) SELECT g, '2024-01-01 12:00:31+00' FROM generate_series(1, 1000) g;
SELECT sjoin.wait_for();
INSERT INTO a (k, ts) SELECT g, '2024-01-01 11:58:30+00' FROM generate_series(1, 100) g;
SELECT sjoin.wait_for();
SELECT * FROM seen;
-- rows of one transaction make each other neither late nor seem so
INSERT INTO b (k, ts) SELECT 0, timestamptz '2024-01-01 12:00:31+00' - g % 20 * interval '1 s' FROM generate_series(0, 99) g;
SELECT sjoin.wait_for();
SELECT input, lateness_p99 FROM seen WHERE input = 'b';
-- a row from the future makes nobody late
INSERT INTO b (k, ts) VALUES (0, '2024-01-01 13:00:00+00');
SELECT sjoin.wait_for();
INSERT INTO b (k, ts) SELECT 0, '2024-01-01 12:00:31+00' FROM generate_series(1, 20);
SELECT sjoin.wait_for();
SELECT rows_future, lateness_p99::int, max_event_time FROM sjoin.stat_inputs WHERE relid = 'result'::regclass AND input = 'b';

-- the three stages, for each input: the producer's clock, transport, watermark behind the newest event
SELECT i.input, i.clock_offset_p50 IS NOT NULL AS producer, j.latency_p50 > 0 AND j.last_batch_at >= i.last_row_at AS transport,
       i.max_event_time - i.watermark AS watermark_behind
  FROM sjoin.stat_inputs i JOIN sjoin.stat_joins j USING (relid) WHERE relid = 'result'::regclass ORDER BY 1;

-- nor is a row late that is changed when its time is long over
UPDATE a SET k = k + 100000 WHERE ts = '2024-01-01 10:00:00+00' AND id <= 100;
SELECT sjoin.wait_for();
SELECT * FROM seen WHERE input = 'a';

SELECT * FROM sjoin.advise('result');
SELECT * FROM sjoin.verify('result');

-- when the producer of b is far ahead of us it is not a stray that holds the watermark back
SELECT sjoin_test.set_clock('2024-01-01 12:00:00+00');
INSERT INTO b (k, ts) SELECT -1, '2024-01-01 12:03:10+00' FROM generate_series(1, 200);
SELECT sjoin.wait_for();
SELECT * FROM sjoin.advise('result') WHERE setting LIKE 'max_future%';

-- a wide join: the ttl; what is dropped counts as well
SELECT sjoin.create_join('wide', 'SELECT a.id AS a_id, b.id AS b_id FROM a JOIN b ON a.k = b.k', ttl => '1 hour', allowed_lateness => '0 s',
                         late_rows => 'drop', with_data => false);
SELECT sjoin.wait_for();
SELECT sjoin_test.set_clock('2024-01-01 12:20:00+00');
INSERT INTO a (k, ts) SELECT 10000 + g, '2024-01-01 12:10:00+00' FROM generate_series(1, 600) g;
INSERT INTO b (k, ts) SELECT 10000 + g, '2024-01-01 12:20:00+00' FROM generate_series(1, 600) g;
SELECT sjoin.wait_for();
INSERT INTO a (k, ts) SELECT 20000, timestamptz '2024-01-01 12:10:00+00' - g * interval '1 s' FROM generate_series(10, 19) g;
INSERT INTO a (k, ts) VALUES (20000, '2024-01-01 11:40:00+00');
SELECT sjoin.wait_for();
SELECT * FROM sjoin.advise('wide');

-- rows that the join began without are not its fault, but that is said
SELECT input, rows_unknown FROM sjoin.stat_inputs WHERE relid = 'wide'::regclass ORDER BY 1;
INSERT INTO a (k, ts) VALUES (30000, '2024-01-01 12:40:00+00');
SELECT sjoin.create_join('later', 'SELECT a.id AS a_id, b.id AS b_id FROM a JOIN b ON a.k = b.k', ttl => '1 hour', with_data => false);
SELECT sjoin.wait_for();
UPDATE a SET k = 30001 WHERE k = 30000;
SELECT sjoin.wait_for();
-- it is an insertion of the new image, which is known from then on
UPDATE a SET k = 30002 WHERE k = 30001;
INSERT INTO a (k, ts) VALUES (30003, '2024-01-01 12:40:00+00');
DELETE FROM a WHERE k IN (30002, 30003);
SELECT sjoin.wait_for();
SELECT join_name, rows_unknown FROM sjoin.stat_inputs WHERE relid IN ('result'::regclass, 'wide'::regclass, 'later'::regclass) AND input = 'a' ORDER BY 1;
-- nor are those that came while capture was off
ALTER TABLE a DISABLE TRIGGER USER;
INSERT INTO a (k, ts) VALUES (30004, '2024-01-01 12:40:00+00'), (30005, '2024-01-01 12:40:00+00');
SELECT format('ALTER TABLE a ENABLE ALWAYS TRIGGER %I', tgname) FROM pg_trigger WHERE tgrelid = 'a'::regclass AND NOT tgisinternal \gexec
DELETE FROM a WHERE k = 30004;
UPDATE a SET k = 30006 WHERE k = 30005;
SELECT sjoin.wait_for();
SELECT join_name, rows_unknown FROM sjoin.stat_inputs WHERE relid IN ('result'::regclass, 'wide'::regclass, 'later'::regclass) AND input = 'a' ORDER BY 1;
SELECT name, v.* FROM unnest('{result, wide, later}'::regclass[]) name, sjoin.verify(name) v;

-- two versions of a row may be as far apart again, which is not the range; a stream that joins itself is spoken of once
CREATE TABLE v (id int, k int, ts timestamptz);
SELECT sjoin.create_stream('v', 'ts', idle_timeout => '0 s', upsert_key => '{id}');
SELECT sjoin.create_join('versions', 'SELECT v.id, b.id AS b_id FROM v JOIN b ON v.k = b.k AND b.ts BETWEEN v.ts AND v.ts + interval ''5 min''', with_data => false),
       sjoin.create_join('itself', 'SELECT x.id AS x_id, y.id AS y_id FROM a x JOIN a y ON x.k = y.k', side_ttl => '{"x": "1 hour", "y": "10 min"}', with_data => false);
SELECT sjoin.wait_for();
SELECT * FROM sjoin.advise('versions') WHERE setting = 'time range';
SELECT setting, current FROM sjoin.advise('itself');
BEGIN;
SELECT sjoin.create_join('too_soon', 'SELECT v.id, b.id AS b_id FROM v JOIN b ON v.k = b.k', ttl => '1 min');
SELECT * FROM sjoin.advise('too_soon');
ROLLBACK;

-- whose advice it is
CREATE ROLE sjoin_stranger;
GRANT USAGE ON SCHEMA timing TO sjoin_stranger;
SET ROLE sjoin_stranger;
SELECT * FROM sjoin.advise('result');
RESET ROLE;
GRANT pg_read_all_stats TO sjoin_stranger;
SET ROLE sjoin_stranger;
SELECT count(*) > 0 AS seen FROM sjoin.advise('result');
SELECT * FROM sjoin.advise('a');
RESET ROLE;
SELECT * FROM sjoin.advise(NULL);

SELECT sjoin_test.set_clock(NULL);
DROP SCHEMA timing CASCADE;
DROP ROLE sjoin_stranger;
DROP EXTENSION sjoin_test;
