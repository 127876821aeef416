-- The SQL surface: names, argument order, types and defaults are a contract.
SET intervalstyle = postgres;
CREATE TEMPORARY TABLE contract (name text, arguments text, result text);
INSERT INTO contract VALUES
('create_stream', 'source regclass, event_time name, watermark_delay interval DEFAULT NULL::interval, idle_timeout interval DEFAULT NULL::interval, on_idle text DEFAULT ''advance''::text, max_future interval DEFAULT NULL::interval, upsert_key name[] DEFAULT NULL::name[], if_not_exists boolean DEFAULT false', 'regclass'),
('alter_stream', 'source regclass, watermark_delay interval DEFAULT NULL::interval, idle_timeout interval DEFAULT NULL::interval, on_idle text DEFAULT NULL::text, max_future interval DEFAULT NULL::interval, reset text[] DEFAULT NULL::text[]', 'void'),
('drop_stream', 'source text, if_exists boolean DEFAULT false, cascade boolean DEFAULT false', 'boolean'),
('advance_watermark', 'source regclass, event_time timestamp with time zone DEFAULT NULL::timestamp with time zone', 'timestamp with time zone'),
('reset_watermark', 'source regclass', 'void'),
('watermark', 'rel regclass', 'timestamp with time zone'),
('create_join', 'name text, query text, output_mode text DEFAULT ''upsert''::text, emit text DEFAULT ''auto''::text, timeout interval DEFAULT NULL::interval, ttl interval DEFAULT NULL::interval, side_ttl jsonb DEFAULT NULL::jsonb, allowed_lateness interval DEFAULT NULL::interval, late_rows text DEFAULT ''keep''::text, lookups regclass[] DEFAULT NULL::regclass[], max_rows_per_key integer DEFAULT NULL::integer, matching text DEFAULT ''all''::text, parallelism integer DEFAULT 1, with_data boolean DEFAULT true, paused boolean DEFAULT false, notify_channel text DEFAULT NULL::text, if_not_exists boolean DEFAULT false', 'regclass'),
('alter_join', 'name regclass, timeout interval DEFAULT NULL::interval, ttl interval DEFAULT NULL::interval, side_ttl jsonb DEFAULT NULL::jsonb, allowed_lateness interval DEFAULT NULL::interval, late_rows text DEFAULT NULL::text, max_rows_per_key integer DEFAULT NULL::integer, parallelism integer DEFAULT NULL::integer, notify_channel text DEFAULT NULL::text, reset text[] DEFAULT NULL::text[]', 'void'),
('drop_join', 'name text, if_exists boolean DEFAULT false, keep_result boolean DEFAULT false', 'boolean'),
('pause_join', 'name regclass', 'boolean'),
('resume_join', 'name regclass', 'boolean'),
('refresh_join', 'name regclass, with_data boolean DEFAULT true', 'bigint'),
('wait_for', 'name regclass DEFAULT NULL::regclass, watermark timestamp with time zone DEFAULT NULL::timestamp with time zone, timeout interval DEFAULT NULL::interval', 'boolean'),
('replay_late', 'name regclass, late_ids bigint[] DEFAULT NULL::bigint[]', 'bigint'),
('trim_late', 'name regclass, older_than interval DEFAULT ''7 days''::interval', 'bigint'),
('verify', 'name regclass, since timestamp with time zone DEFAULT NULL::timestamp with time zone, until timestamp with time zone DEFAULT NULL::timestamp with time zone, max_examples integer DEFAULT 10', 'TABLE(difference text, n bigint, row_data jsonb)'),
('state', 'name regclass, key text DEFAULT NULL::text, max_rows integer DEFAULT 1000', 'TABLE(input text, key text, event_time timestamp with time zone, degree integer, padded boolean, deadline timestamp with time zone, expires timestamp with time zone, row_data jsonb)'),
('advise', 'name regclass', 'TABLE(setting text, current text, advised text, reason text)'),
('get_joindef', 'name regclass', 'text'),
('get_create_commands', 'name regclass DEFAULT NULL::regclass', 'SETOF text'),
('export_sql', 'name regclass, dialect text DEFAULT ''flink''::text', 'text'),
('report', 'name regclass DEFAULT NULL::regclass', 'text'),
('metrics', '', 'TABLE(metric text, type text, help text, labels jsonb, value double precision)'),
('metrics_text', '', 'text'),
('stat_reset', 'name regclass DEFAULT NULL::regclass', 'void'),
('schedule_upkeep', '', 'SETOF text'),
('unschedule_upkeep', '', 'SETOF text'),
('version', '', 'text');

CREATE TEMPORARY VIEW installed AS
SELECT p.proname AS name, regexp_replace(pg_get_function_arguments(p.oid), ',? ?OUT .*', '') AS arguments,
       coalesce('TABLE(' || replace(substring(pg_get_function_arguments(p.oid), 'OUT (.*)'), 'OUT ', '') || ')',
                pg_get_function_result(p.oid)) AS result, p.proconfig, l.lanname AS language
  FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE pronamespace = 'sjoin'::regnamespace;

-- functions that differ from the contract
SELECT i.name, i.arguments, i.result FROM installed i JOIN contract c USING (name)
 WHERE (i.arguments, i.result) IS DISTINCT FROM (c.arguments, c.result);
-- the options of explain are those of create_join, after these two
SELECT name, arguments FROM installed WHERE name = 'explain' AND arguments NOT LIKE 'query text, format text DEFAULT ''text''::text%';
-- overloads
SELECT name FROM installed JOIN contract USING (name) GROUP BY name HAVING count(*) > 1;
-- functions with a body that the search_path of the caller would reach
SELECT name FROM installed WHERE language <> 'c' AND NOT coalesce(array_to_string(proconfig, ',') LIKE '%search_path=%', false) ORDER BY 1;

CREATE TEMPORARY TABLE contract_view (name text, columns text);
INSERT INTO contract_view VALUES
('streams', 'stream, event_time, event_time_type, watermark_delay, idle_timeout, on_idle, max_future, upsert_key, watermark, idle, owner, joins, created_at'),
('joins', 'join_name, owner, state, kind, join_type, output_mode, emit, timeout, ttl, allowed_lateness, late_rows, retention, watermark, lag, last_error, last_sqlstate, last_error_at, query, created_at'),
('stat_joins', 'relid, schemaname, join_name, pid, state, rows_in, rows_out, rows_retracted, rows_late, rows_unmatched, batches, errors, restarts, total_batch_time, last_batch_time, latency_p50, latency_p95, latency_p99, watermark, watermark_lag, pending_rows, pending_age, state_rows, state_keys, state_bytes, spilled_rows, spilled_bytes, timers, oldest_timer_age, log_bytes, last_batch_at, stats_reset'),
('stat_inputs', 'relid, schemaname, join_name, input, stream, rows_in, rows_matched, rows_late, rows_expired, rows_null_key, rows_future, rows_filtered, rows_unknown, state_rows, state_keys, state_bytes, max_rows_per_key, hottest_key, watermark, max_event_time, lateness_p50, lateness_p99, clock_offset_p50, last_row_at, idle'),
('stat_workers', 'pid, datname, state, wait_event_type, wait_event, backend_start, joins'),
('stat_progress', 'pid, datname, join_name, command, phase, rows_total, rows_done, bytes_total, bytes_done, started_at'),
('late_rows', 'late_id, result, input, source, event_time, watermark, reason, sqlstate, message, arrived_at, replayed_at, row_data'),
('errors', 'join_name, at, sqlstate, message, detail, hint, context');

-- columns that a view has and the contract has not, or in another order (columns may still be missing)
WITH present AS (
    SELECT c.relname AS name, a.attname AS col, row_number() OVER (PARTITION BY c.relname ORDER BY a.attnum) AS position
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
     WHERE relnamespace = 'sjoin'::regnamespace AND relkind = 'v'),
wanted AS (
    SELECT name, col, row_number() OVER (PARTITION BY name ORDER BY n) AS position
      FROM contract_view, regexp_split_to_table(columns, ', *') WITH ORDINALITY AS t(col, n)
     WHERE (name, col) IN (SELECT name, col FROM present))
SELECT name, p.col, p.position, w.col AS wanted FROM present p FULL JOIN wanted w USING (name, position)
 WHERE p.col IS DISTINCT FROM w.col ORDER BY name, position;
SELECT name FROM contract_view WHERE to_regclass('sjoin.' || name) IS NULL ORDER BY 1;

-- settings
SELECT name, setting, unit, context FROM pg_settings WHERE name LIKE 'sjoin.%' ORDER BY 1;
