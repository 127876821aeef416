-- SJ-053: event times of type timestamp are shown as they stand in the column, and compared with a clock read in the join's time zone.
CREATE EXTENSION sjoin_test;
CREATE SCHEMA time_zones;
SET search_path = time_zones;
SET datestyle = ISO;
SET intervalstyle = postgres;
-- the worker's own time zone does not matter, nor does the writer's
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET TimeZone = ''America/Los_Angeles''', current_database()); END $$;
SET TimeZone = 'Asia/Tokyo';
SELECT sjoin_test.set_clock('2024-07-01 12:00:00+09');

CREATE TABLE a (id int, k int, ts timestamp);
CREATE TABLE b (id int, k int, ts timestamp);
SELECT sjoin.create_stream('a', 'ts', watermark_delay => '0 s', idle_timeout => '0 s'), sjoin.create_stream('b', 'ts', watermark_delay => '0 s', idle_timeout => '0 s');
CREATE FUNCTION query() RETURNS text LANGUAGE sql AS
    $$ SELECT 'SELECT a.id AS a_id, b.id AS b_id, a.ts FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''' $$;
CREATE FUNCTION advance(event_time timestamptz) RETURNS timestamptz LANGUAGE sql AS
    $$ SELECT greatest(sjoin.advance_watermark('a', event_time), sjoin.advance_watermark('b', event_time)) $$;
-- explain and the NOTICEs say where the clock is read
SELECT * FROM sjoin.explain(query()) AS line WHERE line LIKE '%clock%';
SELECT sjoin.create_join('result', query(), allowed_lateness => '0 s');
SET client_min_messages = warning;
SELECT sjoin.wait_for();

-- local times of a clock on a wall in Tokyo, written in a session of another zone: they are not from the future
SET TimeZone = 'America/New_York';
INSERT INTO a VALUES (1, 1, '2024-07-01 12:00:10'), (2, 2, '2024-07-01 12:00:30');
INSERT INTO b VALUES (1, 1, '2024-07-01 12:00:15'), (2, 2, '2024-07-01 12:00:36');
SELECT sjoin.wait_for();
INSERT INTO a VALUES (3, 1, '2024-07-01 11:00');
SELECT sjoin.wait_for();
SELECT a_id, b_id, ts FROM result ORDER BY 1;
SELECT input, rows_future, clock_offset_p50 BETWEEN -60000 AND 60000 AS clock_is_right FROM sjoin.stat_inputs WHERE relid = 'result'::regclass ORDER BY 1;

-- all times in the column's own terms, whoever looks
CREATE FUNCTION look(at text, OUT zone text, OUT stream text, OUT streams text, OUT joins text, OUT stat_joins text, OUT stat_inputs text, OUT newest text,
                     OUT late text, OUT late_watermark text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('TimeZone', $1, true);
    zone := $1;
    stream := sjoin.watermark('a');
    streams := (SELECT string_agg(DISTINCT s.watermark::text, ' ') FROM sjoin.streams s WHERE s.stream IN ('a', 'time_zones.a'));
    joins := (SELECT watermark FROM sjoin.joins WHERE join_name IN ('result', 'time_zones.result'));
    stat_joins := (SELECT watermark FROM sjoin.stat_joins WHERE relid = 'result'::regclass);
    SELECT watermark, max_event_time INTO stat_inputs, newest FROM sjoin.stat_inputs WHERE relid = 'result'::regclass AND input = 'b';
    SELECT event_time, watermark INTO late, late_watermark FROM sjoin.late_rows WHERE result IN ('result', 'time_zones.result');
    PERFORM set_config('TimeZone', 'America/New_York', true);
END $$;
\x on
SELECT l.* FROM unnest('{Asia/Tokyo, UTC, America/New_York}'::text[]) z, look(z) l;
\x off

-- the lag is that of the join's own clock, wherever one looks from
SET TimeZone = 'Asia/Tokyo';
SELECT lag AS in_tokyo FROM sjoin.joins WHERE join_name = 'result' \gset
SET TimeZone = 'UTC';
SELECT lag - :'in_tokyo' BETWEEN '-1 min' AND '1 min' AS joins FROM sjoin.joins WHERE join_name = 'result';
SELECT watermark_lag - :'in_tokyo' BETWEEN '-1 min' AND '1 min' AS stat_joins FROM sjoin.stat_joins WHERE relid = 'result'::regclass;

-- what is passed means what it says in the session
SELECT advance('2024-07-01 12:00:40');
SELECT sjoin.wait_for('result', watermark => '2024-07-01 12:00:40');
SELECT sjoin.watermark('result');
SELECT sjoin.wait_for('result', watermark => '2024-07-01 12:00:41', timeout => '1 ms');
SET TimeZone = 'Asia/Tokyo';
SELECT sjoin.wait_for('result', watermark => '2024-07-01 12:00:40');
SELECT advance(NULL);
-- and the range of verify
DELETE FROM result WHERE a_id = 1;
SELECT n FROM sjoin.verify('result', since => '2024-07-01 12:00:10', until => '2024-07-01 12:00:11') WHERE difference = 'missing';
SET TimeZone = 'UTC';
SELECT n FROM sjoin.verify('result', since => '2024-07-01 12:00:10', until => '2024-07-01 12:00:11') WHERE difference = 'missing';
SELECT n FROM sjoin.verify('result', since => '2024-07-01 12:00:10.000001') WHERE difference = 'missing';
SET TimeZone = 'Asia/Tokyo';
SELECT sjoin.refresh_join('result');
SELECT sjoin.wait_for();
SELECT * FROM sjoin.verify('result');

-- a join that was made in another zone takes the same times for the future: they are joined, move nothing, and that is said
SET TimeZone = 'UTC';
SELECT sjoin.create_join('in_utc', query(), with_data => false);
SELECT sjoin.wait_for();
SELECT sjoin_test.set_clock('2024-07-01 12:00:00+09');
INSERT INTO a SELECT g, g, '2024-07-01 12:00:50' FROM generate_series(10, 1009) g;
INSERT INTO b SELECT g, g, '2024-07-01 12:00:50' FROM generate_series(10, 1009) g;
SELECT sjoin.wait_for();
SELECT join_name, rows_in, rows_future, (clock_offset_p50 / 3600000)::int AS hours, watermark FROM sjoin.stat_inputs
 WHERE relid IN ('result'::regclass, 'in_utc'::regclass) AND input = 'a' ORDER BY 1;
SELECT count(*) FROM in_utc;
SELECT * FROM sjoin.advise('in_utc') WHERE setting LIKE 'max_future of %.a';
SELECT sjoin.watermark('result'), sjoin.watermark('in_utc');
SELECT name, v.* FROM unnest('{result, in_utc}'::regclass[]) name, sjoin.verify(name) v;

-- NULL and the ends of time, also by an update: recorded, never joined, and no clock moves
INSERT INTO a VALUES (1, 1, NULL), (2, 2, 'infinity'), (3, 3, '-infinity');
UPDATE a SET ts = CASE id WHEN 1007 THEN NULL WHEN 1008 THEN timestamp 'infinity' ELSE '-infinity' END WHERE id > 1006;
UPDATE a SET ts = '2024-07-01 12:00:50' WHERE ts = 'infinity' AND id = 2;
UPDATE b SET k = 2 WHERE id = 100;
SELECT sjoin.wait_for();
SELECT sjoin.watermark('result');
SELECT row_data->>'id' AS id, reason, event_time FROM sjoin.late_rows WHERE result = 'result' AND reason <> 'late' ORDER BY late_id;
SELECT a_id, b_id FROM result WHERE a_id < 10 OR a_id > 1006 OR b_id = 100 ORDER BY 1;
SELECT input, state_rows FROM sjoin.stat_inputs WHERE relid = 'result'::regclass ORDER BY 1;
SELECT * FROM sjoin.verify('result');

-- an hour that the session's clocks leave out is shown an hour later; nothing but the showing is touched by that
CREATE TABLE e (id int, k int, ts timestamp);
SELECT sjoin.create_stream('e', 'ts', watermark_delay => '0 s', idle_timeout => '0 s');
SELECT sjoin.create_join('spring', 'SELECT x.id AS x_id, y.id AS y_id FROM e x JOIN e y ON x.k = y.k AND y.ts BETWEEN x.ts AND x.ts + interval ''5 s''',
                         allowed_lateness => '0 s');
SELECT sjoin.wait_for();
INSERT INTO e VALUES (1, 1, '2024-03-10 02:30'), (2, 1, '2024-03-10 02:30:05');
SELECT sjoin.wait_for();
SELECT sjoin.watermark('spring') AS utc;
SET TimeZone = 'America/New_York';
SELECT sjoin.watermark('spring') AS new_york;
INSERT INTO e VALUES (3, 1, '2024-03-10 02:30:05'), (4, 1, '2024-03-10 02:30:04');
SELECT sjoin.wait_for();
SELECT x_id, y_id FROM spring ORDER BY 1, 2;
SELECT * FROM sjoin.verify('spring');
SET TimeZone = 'UTC';

-- what no timestamptz can hold in the session's zone is not shown, and is no error
INSERT INTO a VALUES (4, 4, '294276-12-31 23:59:59');
INSERT INTO b VALUES (4, 4, '294276-12-31 23:59:59');
SET TimeZone = 'America/New_York';
SELECT sjoin.wait_for();
SELECT input, rows_future, max_event_time FROM sjoin.stat_inputs WHERE relid = 'result'::regclass ORDER BY 1;
SELECT a_id, b_id, ts FROM result WHERE a_id = 4;

-- with a time zone all is as ever: the session's
SET TimeZone = 'UTC';
CREATE TABLE c (id int, k int, ts timestamptz);
CREATE TABLE d (id int, k int, ts timestamptz);
SELECT sjoin.create_stream('c', 'ts', watermark_delay => '0 s', idle_timeout => '0 s'), sjoin.create_stream('d', 'ts', watermark_delay => '0 s', idle_timeout => '0 s');
SELECT sjoin.create_join('zoned', 'SELECT c.id AS c_id, d.id AS d_id FROM c JOIN d ON c.k = d.k AND d.ts BETWEEN c.ts AND c.ts + interval ''5 s''');
SELECT sjoin.wait_for();
INSERT INTO c VALUES (1, 1, '2024-07-01 12:00:10+09');
INSERT INTO d VALUES (1, 1, '2024-07-01 12:00:10+09');
SELECT sjoin.wait_for();
SELECT sjoin.watermark('zoned');
SET TimeZone = 'Asia/Tokyo';
SELECT sjoin.watermark('c'), watermark, max_event_time, rows_future FROM sjoin.stat_inputs WHERE relid = 'zoned'::regclass AND input = 'c';
SELECT * FROM sjoin.verify('zoned');

SELECT sjoin_test.set_clock(NULL);
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET TimeZone', current_database()); END $$;
DROP SCHEMA time_zones CASCADE;
DROP EXTENSION sjoin_test;
