-- Options of create_join that are about running: paused and notify_channel.
CREATE SCHEMA notify_and_paused;
SET search_path = notify_and_paused;
CREATE TABLE a (id int, k int, ts timestamptz);
CREATE TABLE b (id int, k int, ts timestamptz);
SELECT sjoin.create_stream('a', 'ts', watermark_delay => '0 s');
SELECT sjoin.create_stream('b', 'ts', watermark_delay => '0 s');
CREATE FUNCTION query() RETURNS text LANGUAGE sql AS
    $$ SELECT 'SELECT a.id AS a_id, b.id AS b_id FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''' $$;

-- what NOTIFY would refuse is refused here
SELECT sjoin.create_join('result', query(), notify_channel => '');
SELECT sjoin.create_join('result', query(), notify_channel => repeat('x', 64));

-- explain and the NOTICEs say so
SELECT * FROM sjoin.explain(query(), notify_channel => 'Join news', paused => true) AS line WHERE line ~ '^(notification|paused)';
SELECT sjoin.create_join('result', query(), notify_channel => repeat('x', 63), paused => true);

-- a paused join does not run, and whoever waits for it is told
INSERT INTO a VALUES (1, 1, '2024-01-01 10:00:00+00');
INSERT INTO b VALUES (1, 1, '2024-01-01 10:00:01+00');
SELECT sjoin.wait_for('result');
SELECT state FROM sjoin.joins WHERE join_name = 'result';
SELECT sjoin.resume_join('result');
SELECT sjoin.wait_for('result');
SELECT a_id, b_id FROM result;
SELECT * FROM sjoin.verify('result');

-- errors name the remedy
SELECT sjoin.pause_join('a');
SELECT sjoin.refresh_join('a');
SELECT sjoin.pause_join(NULL);
DROP VIEW result_query;
SELECT sjoin.refresh_join('result');
SELECT a_id, b_id FROM result;

SET client_min_messages = warning;
DROP SCHEMA notify_and_paused CASCADE;
