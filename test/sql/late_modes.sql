-- What becomes of late rows: joined, an error, taken in later.
CREATE SCHEMA late_modes;
SET search_path = late_modes;
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SET datestyle = ISO;
SET intervalstyle = postgres;

CREATE TABLE a (id int, k int, ts timestamptz);
CREATE TABLE b (id int, k int, ts timestamptz);
SELECT sjoin.create_stream('a', 'ts', watermark_delay => '0 s');
SELECT sjoin.create_stream('b', 'ts', watermark_delay => '0 s');
\set query 'SELECT a.id AS a_id, b.id AS b_id FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s'''

-- explain says what each of them means
SELECT mode, line FROM unnest('{keep,drop,join,error}'::text[]) mode, LATERAL sjoin.explain(:'query', late_rows => mode, allowed_lateness => '1 s') line WHERE line LIKE 'late:%';
SELECT line FROM sjoin.explain(:'query', late_rows => 'join', output_mode => 'append') line WHERE line LIKE 'late:%' OR line LIKE 'unmatched%';

-- join: an allowed lateness of at least the widest bound, in append and with emit => 'final', too
SELECT sjoin.create_join('joined', :'query', late_rows => 'join');
SELECT sjoin.create_join('joined_append', :'query', late_rows => 'join', output_mode => 'append');
SELECT sjoin.create_join('joined_final', :'query', late_rows => 'join', emit => 'final');
SELECT sjoin.create_join('joined_short', :'query', late_rows => 'join', allowed_lateness => '1 s');
SELECT sjoin.create_join('joined_long', :'query', late_rows => 'join', allowed_lateness => '1 min');
SELECT sjoin.create_join('strict', :'query', late_rows => 'error', allowed_lateness => '0 s');
SELECT join_name, late_rows, allowed_lateness FROM sjoin.joins ORDER BY join_name;
SELECT sjoin.wait_for();

INSERT INTO a VALUES (1, 1, '2024-01-01 10:00:00+00');
INSERT INTO b VALUES (1, 9, '2024-01-01 10:00:00+00');
INSERT INTO a VALUES (2, 9, '2024-01-01 10:00:08+00');
INSERT INTO b VALUES (2, 9, '2024-01-01 10:00:08+00');
SELECT sjoin.wait_for();
SELECT a_id, b_id FROM strict ORDER BY 1, 2;

-- behind the watermark, and exactly at the horizon; then a microsecond behind that
INSERT INTO b VALUES (3, 1, '2024-01-01 10:00:03+00');
INSERT INTO b VALUES (4, 1, '2024-01-01 10:00:02.999999+00');
SELECT sjoin.wait_for(j) FROM unnest('{joined,joined_append,joined_final,joined_short,joined_long}'::regclass[]) j;
SELECT a_id, b_id FROM joined ORDER BY 1, 2;
SELECT a_id, b_id FROM joined_append ORDER BY 1, 2;
SELECT a_id, b_id FROM joined_final ORDER BY 1, 2;
SELECT a_id, b_id FROM joined_short ORDER BY 1, 2;
SELECT a_id, b_id FROM joined_long ORDER BY 1, 2;
SELECT result, row_data->>'id' AS id, reason FROM sjoin.late_rows ORDER BY result, late_id;
SELECT difference FROM unnest('{joined,joined_append,joined_final,joined_short,joined_long}'::regclass[]) j, sjoin.verify(j);

-- error: the join has stopped before the first of the two
SELECT sjoin.wait_for('strict');
SELECT state, last_sqlstate, last_error FROM sjoin.joins WHERE join_name = 'strict';
SELECT a_id, b_id FROM strict ORDER BY 1, 2;
SELECT * FROM sjoin.verify('strict');
SELECT sjoin.refresh_join('strict');
SELECT sjoin.wait_for('strict');
SELECT a_id, b_id FROM strict ORDER BY 1, 2;
SELECT * FROM sjoin.verify('strict');
SELECT state FROM sjoin.joins WHERE join_name = 'strict';

-- replay: what is not replayed is said
SET client_min_messages = notice;
SELECT late_id AS joined_late FROM sjoin.late_rows WHERE result = 'joined' \gset
INSERT INTO b VALUES (5, 1, NULL);
INSERT INTO b VALUES (6, 1, '2024-01-01 10:00:01+00'), (7, 1, '2024-01-01 10:00:01+00');
UPDATE b SET k = 2 WHERE id = 6;
SELECT sjoin.wait_for('joined');
SELECT sjoin.replay_late('joined', ARRAY[:joined_late]);
SELECT sjoin.wait_for('joined');
SELECT sjoin.replay_late('joined', ARRAY(SELECT late_id FROM sjoin.late_rows WHERE result = 'joined') || 0::bigint);
SELECT sjoin.wait_for('joined');
SELECT sjoin.replay_late('joined', ARRAY[:joined_late, NULL]);
SELECT sjoin.replay_late('a');
SELECT sjoin.replay_late(NULL);
SELECT sjoin.replay_late('joined_append');
SELECT a_id, b_id FROM joined ORDER BY 1, 2;
SELECT row_data->>'id' AS id, reason, replayed_at IS NOT NULL AS replayed FROM sjoin.late_rows WHERE result = 'joined' ORDER BY late_id;
SELECT * FROM sjoin.verify('joined');
SELECT input, rows_late FROM sjoin.stat_inputs WHERE join_name = 'joined' ORDER BY input;

-- only by the owner; not with an upsert key
CREATE ROLE regress_late_modes;
GRANT USAGE ON SCHEMA late_modes TO regress_late_modes;
SET ROLE regress_late_modes;
SELECT sjoin.replay_late('joined');
RESET ROLE;
CREATE TABLE c (id int, k int, ts timestamptz);
SELECT sjoin.create_stream('c', 'ts', upsert_key => '{k}');
SET client_min_messages = warning;
SELECT sjoin.create_join('versions', 'SELECT c.id AS c_id, b.id AS b_id FROM c JOIN b ON c.k = b.k AND b.ts = c.ts');
SELECT sjoin.replay_late('versions');
DROP SCHEMA late_modes CASCADE;
DROP ROLE regress_late_modes;
SELECT count(*) FROM sjoin.late_rows;
