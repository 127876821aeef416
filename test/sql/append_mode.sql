-- append: a row once written is never corrected, so padded rows wait until nothing can take them back.
CREATE SCHEMA append_mode;
SET search_path = append_mode;
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
      FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval '10 s' $$,
    output_mode => 'append');
SELECT sjoin.wait_for();
SELECT allowed_lateness, output_mode, emit FROM sjoin.joins;
\d result

INSERT INTO a VALUES (1, 1, '2024-01-01 10:00:00+00'), (2, 2, '2024-01-01 10:00:00+00');
INSERT INTO b VALUES (1, 1, '2024-01-01 10:00:10+00');
SELECT sjoin.wait_for('result');
SELECT a_id, b_id, sjoin_version, sjoin_seq FROM result ORDER BY sjoin_seq;

-- the horizon stands at 10:00:10, then a microsecond further
SELECT sjoin.advance_watermark('a', '2024-01-01 10:00:10+00');
SELECT sjoin.wait_for('result');
SELECT a_id, b_id FROM result ORDER BY sjoin_seq;
SELECT sjoin.advance_watermark('a', '2024-01-01 10:00:10.000001+00'),
       sjoin.advance_watermark('b', '2024-01-01 10:00:10.000001+00');
SELECT sjoin.wait_for('result');
SELECT a_id, b_id FROM result ORDER BY sjoin_seq;

-- too late now: not joined, not taken back, but listed
INSERT INTO b VALUES (2, 2, '2024-01-01 10:00:10+00');
SELECT sjoin.wait_for('result');
SELECT a_id, b_id FROM result ORDER BY sjoin_seq;
SELECT input, event_time, watermark, reason, row_data->>'id' AS id FROM sjoin.late_rows;

-- followed by number: greater ones come later, none fills a gap
SELECT count(*), min(sjoin_seq) >= 1 AS starts, max(sjoin_seq) - min(sjoin_seq) + 1 = count(*) AS dense FROM result;
SELECT * FROM sjoin.verify('result');
DROP SCHEMA append_mode CASCADE;
