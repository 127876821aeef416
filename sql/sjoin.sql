-- sjoin: install script.  The one source; make copies it to the versioned name.

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION sjoin" to load this file. \quit

CREATE SCHEMA sjoin;
GRANT USAGE ON SCHEMA sjoin TO PUBLIC;
COMMENT ON SCHEMA sjoin IS 'streaming joins';

-- relations ---------------------------------------------------------------
-- All are of kind materialized view: what sjoin writes is its own business and
-- must be in nobody's publication, FOR ALL TABLES included.  They are written
-- by the library alone; REFRESH would empty them, so it is refused.

CREATE FUNCTION sjoin.no_rows() RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'sjoin_no_rows';
COMMENT ON FUNCTION sjoin.no_rows() IS
    'false while the extension is installed, an error afterwards: keeps REFRESH MATERIALIZED VIEW from emptying relations of sjoin';
REVOKE ALL ON FUNCTION sjoin.no_rows() FROM PUBLIC;

CREATE SEQUENCE sjoin.log_seq INCREMENT BY 65536 MINVALUE 1;
COMMENT ON SEQUENCE sjoin.log_seq IS 'sequence numbers of log records, in blocks';
CREATE SEQUENCE sjoin.layout_id;
COMMENT ON SEQUENCE sjoin.layout_id IS 'numbers of layouts';
CREATE SEQUENCE sjoin.join_id;
COMMENT ON SEQUENCE sjoin.join_id IS 'numbers of joins';
CREATE SEQUENCE sjoin.late_id;
COMMENT ON SEQUENCE sjoin.late_id IS 'numbers of late rows';

-- src/log/event_log.c
DO $do$
BEGIN
    FOR i IN 0 .. 3 LOOP
        EXECUTE format($sql$
            CREATE MATERIALIZED VIEW sjoin.log_%1$s WITH (toast_tuple_target = 8160) AS
                SELECT NULL::xid8 AS xid, NULL::int8 AS seq, NULL::int4 AS n, NULL::int4 AS layout,
                       NULL::oid AS source, NULL::boolean AS changes, NULL::timestamptz AS captured_at, NULL::bytea AS data
                 WHERE sjoin.no_rows();
            ALTER MATERIALIZED VIEW sjoin.log_%1$s ALTER COLUMN data SET STORAGE EXTERNAL;
            CREATE INDEX log_%1$s_xid ON sjoin.log_%1$s (xid);
            COMMENT ON MATERIALIZED VIEW sjoin.log_%1$s IS 'event log: what writers of streams did, in chunks (a rotating segment)';
        $sql$, i);
    END LOOP;
END
$do$;

-- src/log/tick.c
CREATE MATERIALIZED VIEW sjoin.tick AS
    SELECT NULL::int8 AS tick, NULL::xid8 AS snapshot_xmin, NULL::xid8 AS snapshot_xmax, NULL::xid8[] AS snapshot_xip, NULL::timestamptz AS at
     WHERE sjoin.no_rows();
CREATE INDEX tick_tick ON sjoin.tick (tick);
COMMENT ON MATERIALIZED VIEW sjoin.tick IS 'snapshots that cut the event log into what is consumed together';

-- src/log/position.c
CREATE MATERIALIZED VIEW sjoin.position AS
    SELECT NULL::int4 AS join_id, NULL::int8 AS tick, NULL::int4 AS txns,
           NULL::int8 AS watermark, NULL::int8 AS horizon, NULL::bytea AS clock, NULL::bytea AS settings, NULL::int8 AS result_seq,
           NULL::int8 AS base_tick, NULL::int4 AS base_txns, NULL::xid8 AS base_xid, NULL::bytea AS base,
           NULL::bytea AS counters, NULL::int8 AS serial, NULL::timestamptz AS at
     WHERE sjoin.no_rows();
COMMENT ON MATERIALIZED VIEW sjoin.position IS 'how far each join has come; the newest row of a join counts';

-- src/catalog/stream_def.c
CREATE MATERIALIZED VIEW sjoin.stream_def AS
    SELECT NULL::oid AS relid, NULL::int2 AS time_attno, NULL::int8 AS watermark_delay, NULL::int8 AS idle_timeout,
           NULL::text AS on_idle, NULL::int8 AS max_future, NULL::int2[] AS upsert_attnos, NULL::timestamptz AS created_at
     WHERE sjoin.no_rows();
CREATE UNIQUE INDEX stream_def_relid ON sjoin.stream_def (relid);
COMMENT ON MATERIALIZED VIEW sjoin.stream_def IS 'tables whose row changes are captured as events (times in microseconds)';

CREATE MATERIALIZED VIEW sjoin.layout AS
    SELECT NULL::int4 AS layout, NULL::oid AS relid, NULL::int2[] AS attnos, NULL::oid[] AS typids, NULL::int4[] AS forms
     WHERE sjoin.no_rows();
CREATE UNIQUE INDEX layout_layout ON sjoin.layout (layout);
CREATE INDEX layout_relid ON sjoin.layout (relid);
COMMENT ON MATERIALIZED VIEW sjoin.layout IS 'columns that images of a stream in the event log have; the greatest number of a stream is in use';

-- src/catalog/join_def.c
CREATE MATERIALIZED VIEW sjoin.join_def AS
    SELECT NULL::int4 AS join_id, NULL::oid AS result, NULL::oid AS definition, NULL::text AS output_mode, NULL::text AS emit,
           NULL::int8 AS timeout, NULL::int8 AS ttl, NULL::jsonb AS side_ttl, NULL::int8 AS allowed_lateness,
           NULL::text AS late_rows, NULL::boolean AS with_data, NULL::text AS time_zone, NULL::int8 AS signature, NULL::int8 AS input_signature,
           NULL::text AS query, NULL::oid AS input_left, NULL::oid AS input_right, NULL::bytea AS start,
           NULL::text AS kind, NULL::text AS join_type, NULL::int8 AS lateness, NULL::int8 AS retention,
           NULL::text AS alias_left, NULL::text AS alias_right, NULL::boolean AS paused, NULL::text AS notify_channel,
           NULL::int8 AS result_seq, NULL::timestamptz AS created_at
     WHERE sjoin.no_rows();
CREATE UNIQUE INDEX join_def_join_id ON sjoin.join_def (join_id);
CREATE UNIQUE INDEX join_def_result ON sjoin.join_def (result);
COMMENT ON MATERIALIZED VIEW sjoin.join_def IS 'joins and their options (times in microseconds, -1: not given)';

-- src/emit/side_output.c
CREATE MATERIALIZED VIEW sjoin.late_row AS
    SELECT NULL::int8 AS late_id, NULL::int4 AS join_id, NULL::int2 AS side, NULL::int8 AS seq, NULL::int8 AS other_seq, NULL::"char" AS op,
           NULL::int8 AS event_time, NULL::int8 AS watermark, NULL::text AS reason, NULL::text AS sqlstate, NULL::text AS message,
           NULL::timestamptz AS arrived_at,
           NULL::jsonb AS row_data, NULL::jsonb AS old_data, NULL::uuid AS row_hash, NULL::uuid AS old_hash, NULL::oid AS partition
     WHERE sjoin.no_rows();
CREATE INDEX late_row_join_id ON sjoin.late_row (join_id, late_id);
COMMENT ON MATERIALIZED VIEW sjoin.late_row IS 'rows that joins did not take in, with the reason';

-- capture -----------------------------------------------------------------
-- EXECUTE stays with PUBLIC: CREATE TABLE ... PARTITION OF checks it for the
-- owner of the partition, DELETE for whoever deletes.

CREATE FUNCTION sjoin.capture() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'sjoin_capture';
COMMENT ON FUNCTION sjoin.capture() IS 'trigger of streams: writes row changes to the event log when the transaction commits';

CREATE FUNCTION sjoin.may_change(stream regclass, event_time timestamptz) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'sjoin_may_change';
COMMENT ON FUNCTION sjoin.may_change(regclass, timestamptz) IS
    'condition of the delete trigger of streams: false when no join of the stream would notice that a row with this event time is gone';

CREATE FUNCTION sjoin.may_change(stream regclass, event_time timestamp) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'sjoin_may_change';
COMMENT ON FUNCTION sjoin.may_change(regclass, timestamp) IS
    'condition of the delete trigger of streams: false when no join of the stream would notice that a row with this event time is gone';

GRANT EXECUTE ON FUNCTION sjoin.capture(), sjoin.may_change(regclass, timestamptz), sjoin.may_change(regclass, timestamp) TO PUBLIC;

CREATE FUNCTION sjoin.image_hash(image record) RETURNS uuid
    LANGUAGE c IMMUTABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'sjoin_image_hash';
COMMENT ON FUNCTION sjoin.image_hash(record) IS 'hash of the bytes of the values of a row: equal images have equal hashes';

CREATE FUNCTION sjoin.written_after(writer xid, start bytea) RETURNS boolean
    LANGUAGE c STABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'sjoin_written_after';
COMMENT ON FUNCTION sjoin.written_after(xid, bytea) IS 'whether a row version was written by a transaction that the snapshot of a join''s creation does not see';

CREATE FUNCTION sjoin.time_add(event_time timestamptz, usec bigint) RETURNS timestamptz
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'sjoin_time_add';
COMMENT ON FUNCTION sjoin.time_add(timestamptz, bigint) IS 'an event time plus microseconds; saturates at infinity instead of failing';

CREATE FUNCTION sjoin.time_add(event_time timestamp, usec bigint) RETURNS timestamp
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'sjoin_time_add';
COMMENT ON FUNCTION sjoin.time_add(timestamp, bigint) IS 'an event time plus microseconds; saturates at infinity instead of failing';

CREATE FUNCTION sjoin.time_add(event_time timestamptz, distance interval) RETURNS timestamptz
    LANGUAGE c STABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'sjoin_timestamptz_add';
COMMENT ON FUNCTION sjoin.time_add(timestamptz, interval) IS 'an event time plus an interval; saturates at infinity instead of failing';

CREATE FUNCTION sjoin.time_add(event_time timestamp, distance interval) RETURNS timestamp
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'sjoin_timestamp_add';
COMMENT ON FUNCTION sjoin.time_add(timestamp, interval) IS 'an event time plus an interval; saturates at infinity instead of failing';

-- streams -----------------------------------------------------------------

CREATE FUNCTION sjoin.create_stream(
    source          regclass,
    event_time      name,
    watermark_delay interval DEFAULT NULL,
    idle_timeout    interval DEFAULT NULL,
    on_idle         text     DEFAULT 'advance',
    max_future      interval DEFAULT NULL,
    upsert_key      name[]   DEFAULT NULL,
    if_not_exists   boolean  DEFAULT false
) RETURNS regclass
    LANGUAGE c VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'sjoin_create_stream';
COMMENT ON FUNCTION sjoin.create_stream(regclass, name, interval, interval, text, interval, name[], boolean) IS
    'declares a table as a stream with the given event time column; with upsert_key newer rows replace older ones with the same values in these columns; settings that are NULL follow the sjoin.* parameters';

CREATE FUNCTION sjoin.alter_stream(
    source          regclass,
    watermark_delay interval DEFAULT NULL,
    idle_timeout    interval DEFAULT NULL,
    on_idle         text     DEFAULT NULL,
    max_future      interval DEFAULT NULL,
    reset           text[]   DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'sjoin_alter_stream';
COMMENT ON FUNCTION sjoin.alter_stream(regclass, interval, interval, text, interval, text[]) IS
    'changes settings of a stream for the rows that its joins consume from now on; NULL leaves a setting as it is, reset names settings that follow the sjoin.* parameters again';

CREATE FUNCTION sjoin.drop_stream(source text, if_exists boolean DEFAULT false, cascade boolean DEFAULT false) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'sjoin_drop_stream';
COMMENT ON FUNCTION sjoin.drop_stream(text, boolean, boolean) IS
    'makes a stream an ordinary table again; refused while joins use it unless cascade';

CREATE FUNCTION sjoin.advance_watermark(source regclass, event_time timestamptz DEFAULT NULL) RETURNS timestamptz
    LANGUAGE c VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'sjoin_advance_watermark';
COMMENT ON FUNCTION sjoin.advance_watermark(regclass, timestamptz) IS
    'says that no older row will come; NULL means the newest event time seen; a watermark never goes back';

CREATE FUNCTION sjoin.watermark(rel regclass) RETURNS timestamptz
    LANGUAGE c VOLATILE PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'sjoin_watermark';
COMMENT ON FUNCTION sjoin.watermark(regclass) IS 'watermark of a stream, or of the join whose result is named; NULL before the first row';

-- joins -------------------------------------------------------------------
-- create_join, drop_join and explain look names up as the caller does.

CREATE FUNCTION sjoin.create_join(
    name             text,
    query            text,
    output_mode      text     DEFAULT 'upsert',
    emit             text     DEFAULT 'auto',
    timeout          interval DEFAULT NULL,
    ttl              interval DEFAULT NULL,
    side_ttl         jsonb    DEFAULT NULL,
    allowed_lateness interval DEFAULT NULL,
    late_rows        text     DEFAULT 'keep',
    lookups          regclass[] DEFAULT NULL,
    max_rows_per_key integer  DEFAULT NULL,
    matching         text     DEFAULT 'all',
    parallelism      integer  DEFAULT 1,
    with_data        boolean  DEFAULT true,
    paused           boolean  DEFAULT false,
    notify_channel   text     DEFAULT NULL,
    if_not_exists    boolean  DEFAULT false
) RETURNS regclass
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'sjoin_create_join';
COMMENT ON FUNCTION sjoin.create_join(text, text, text, text, interval, interval, jsonb, interval, text, regclass[], integer, text, integer, boolean, boolean, text, boolean) IS
    'creates a streaming join from an ordinary SELECT and returns its result table';

CREATE FUNCTION sjoin.alter_join(
    name             regclass,
    timeout          interval DEFAULT NULL,
    ttl              interval DEFAULT NULL,
    side_ttl         jsonb    DEFAULT NULL,
    allowed_lateness interval DEFAULT NULL,
    late_rows        text     DEFAULT NULL,
    max_rows_per_key integer  DEFAULT NULL,
    parallelism      integer  DEFAULT NULL,
    notify_channel   text     DEFAULT NULL,
    reset            text[]   DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'sjoin_alter_join';
COMMENT ON FUNCTION sjoin.alter_join(regclass, interval, interval, jsonb, interval, text, integer, integer, text, text[]) IS
    'changes settings of a running join for the rows that it consumes from now on; NULL leaves a setting as it is, reset names settings that go back to their defaults';

CREATE FUNCTION sjoin.drop_join(name text, if_exists boolean DEFAULT false, keep_result boolean DEFAULT false) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'sjoin_drop_join';
COMMENT ON FUNCTION sjoin.drop_join(text, boolean, boolean) IS
    'drops a join and its result table, as DROP TABLE does; with keep_result the table stays';

CREATE FUNCTION sjoin.pause_join(name regclass) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'sjoin_pause_join';
COMMENT ON FUNCTION sjoin.pause_join(regclass) IS
    'from the commit on the join reads no more events: they gather in the log, and its position and state are kept; true if it was not paused already';

CREATE FUNCTION sjoin.resume_join(name regclass) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'sjoin_resume_join';
COMMENT ON FUNCTION sjoin.resume_join(regclass) IS
    'lets a paused join go on where it was, and a failed one try again at once; true if it was paused';

CREATE FUNCTION sjoin.refresh_join(name regclass, with_data boolean DEFAULT true) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'sjoin_refresh_join';
COMMENT ON FUNCTION sjoin.refresh_join(regclass, boolean) IS
    'starts a join over: empties its result and late rows and reads the tables again (with_data => false: only what is written from now on); revives failed and stopped joins; returns the number of rows taken out of the result';

CREATE FUNCTION sjoin.replay_late(name regclass, late_ids bigint[] DEFAULT NULL) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'sjoin_replay_late';
COMMENT ON FUNCTION sjoin.replay_late(regclass, bigint[]) IS
    'has a join take in late rows (by their late_id; NULL: all whose reason is late) that their tables still have as they were; returns the number of rows handed over';

CREATE FUNCTION sjoin.trim_late(name regclass, older_than interval DEFAULT '7 days') RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'sjoin_trim_late';
COMMENT ON FUNCTION sjoin.trim_late(regclass, interval) IS
    'removes late rows of a join that arrived so long ago and that nothing depends on any more: they have been replayed, or their table no longer has them; returns how many';

CREATE FUNCTION sjoin.wait_for(name regclass DEFAULT NULL, watermark timestamptz DEFAULT NULL, timeout interval DEFAULT NULL) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'sjoin_wait_for';
COMMENT ON FUNCTION sjoin.wait_for(regclass, timestamptz, interval) IS
    'waits until all rows committed before the call are in the result (NULL: in all results); false after the timeout (default: sjoin.wait_timeout)';

CREATE FUNCTION sjoin.advise(name regclass, OUT setting text, OUT current text, OUT advised text, OUT reason text) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'sjoin_advise';
COMMENT ON FUNCTION sjoin.advise(regclass) IS
    'what the rows seen so far say about settings of a join and its streams: watermark_delay, ttl or time range, max_future, allowed_lateness, with the reason';

CREATE FUNCTION sjoin.get_joindef(name regclass) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'sjoin_get_joindef';
COMMENT ON FUNCTION sjoin.get_joindef(regclass) IS 'the query of a join, as pg_get_viewdef prints it';

CREATE FUNCTION sjoin.explain(
    query            text,
    format           text     DEFAULT 'text',
    output_mode      text     DEFAULT 'upsert',
    emit             text     DEFAULT 'auto',
    timeout          interval DEFAULT NULL,
    ttl              interval DEFAULT NULL,
    side_ttl         jsonb    DEFAULT NULL,
    allowed_lateness interval DEFAULT NULL,
    late_rows        text     DEFAULT 'keep',
    lookups          regclass[] DEFAULT NULL,
    max_rows_per_key integer  DEFAULT NULL,
    matching         text     DEFAULT 'all',
    parallelism      integer  DEFAULT 1,
    with_data        boolean  DEFAULT true,
    paused           boolean  DEFAULT false,
    notify_channel   text     DEFAULT NULL
) RETURNS SETOF text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'sjoin_explain';
COMMENT ON FUNCTION sjoin.explain(text, text, text, text, interval, interval, jsonb, interval, text, regclass[], integer, text, integer, boolean, boolean, text) IS
    'says what a join would keep, for how long, and when it would write, without creating it';

CREATE FUNCTION sjoin.verify(name regclass, since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL, max_examples integer DEFAULT 10,
    OUT difference text, OUT n bigint, OUT row_data jsonb) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'sjoin_verify';
COMMENT ON FUNCTION sjoin.verify(regclass, timestamptz, timestamptz, integer) IS
    'compares a result with the batch query over the accepted rows: missing, extra, duplicate are differences, settled is information; no row means equal';

CREATE FUNCTION sjoin.version() RETURNS text
    LANGUAGE c IMMUTABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'sjoin_version';
COMMENT ON FUNCTION sjoin.version() IS 'version of the library';

-- looking -----------------------------------------------------------------

CREATE FUNCTION sjoin.join_stats(
    OUT join_id integer, OUT local_time boolean, OUT pid integer, OUT state text, OUT last_error text, OUT last_sqlstate text, OUT last_error_at timestamptz,
    OUT rows_in bigint, OUT rows_out bigint, OUT rows_retracted bigint, OUT rows_late bigint, OUT rows_unmatched bigint,
    OUT batches bigint, OUT errors bigint, OUT restarts bigint, OUT total_batch_time double precision, OUT last_batch_time double precision,
    OUT latency_p50 double precision, OUT latency_p95 double precision, OUT latency_p99 double precision,
    OUT watermark timestamptz, OUT state_rows bigint, OUT state_keys bigint, OUT state_bytes bigint, OUT timers bigint,
    OUT oldest_timer timestamptz, OUT log_bytes bigint, OUT last_batch_at timestamptz, OUT stats_reset timestamptz) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'sjoin_join_stats';
COMMENT ON FUNCTION sjoin.join_stats() IS 'figures of the running joins of this database, as their worker keeps them';

CREATE FUNCTION sjoin.input_stats(
    OUT join_id integer, OUT side smallint, OUT rows_in bigint, OUT rows_matched bigint, OUT rows_late bigint, OUT rows_expired bigint,
    OUT rows_null_key bigint, OUT rows_future bigint, OUT rows_filtered bigint, OUT rows_unknown bigint, OUT state_rows bigint,
    OUT watermark timestamptz, OUT max_event_time timestamptz, OUT lateness_p50 double precision, OUT lateness_p99 double precision,
    OUT clock_offset_p50 double precision, OUT last_row_at timestamptz, OUT idle boolean) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'sjoin_input_stats';
COMMENT ON FUNCTION sjoin.input_stats() IS 'figures of the inputs of the running joins of this database';

CREATE FUNCTION sjoin.worker_stats(OUT pid integer, OUT datid oid, OUT joins bigint) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'sjoin_worker_stats';
COMMENT ON FUNCTION sjoin.worker_stats() IS 'worker processes of the cluster and the number of joins they run';

CREATE FUNCTION sjoin.event_time(usec bigint, local_time boolean) RETURNS timestamptz
    LANGUAGE c STABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'sjoin_event_time';
COMMENT ON FUNCTION sjoin.event_time(bigint, boolean) IS
    'an event time as sjoin stores it (microseconds since 2000-01-01); local_time: of a column of type timestamp, converted as a cast does, in the TimeZone of the session';

CREATE FUNCTION sjoin.usec_interval(usec bigint) RETURNS interval
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $$ SELECT CASE WHEN usec >= 0 THEN pg_catalog.make_interval(secs => usec / 1000000.0) END $$;
COMMENT ON FUNCTION sjoin.usec_interval(bigint) IS 'a setting in microseconds as an interval; NULL when it is not set';

CREATE VIEW sjoin.streams AS
    SELECT s.relid::regclass::text AS stream, a.attname AS event_time, a.atttypid::regtype AS event_time_type,
           coalesce(sjoin.usec_interval(s.watermark_delay), current_setting('sjoin.watermark_delay')::interval) AS watermark_delay,
           coalesce(sjoin.usec_interval(s.idle_timeout), current_setting('sjoin.idle_timeout')::interval) AS idle_timeout,
           s.on_idle,
           CASE WHEN s.max_future >= 0 THEN sjoin.usec_interval(s.max_future)
                WHEN s.max_future = -2 THEN nullif(current_setting('sjoin.max_future'), '-1')::interval END AS max_future,
           (SELECT array_agg(u.attname ORDER BY k.n) FROM unnest(s.upsert_attnos) WITH ORDINALITY k(attno, n)
              JOIN pg_attribute u ON u.attrelid = s.relid AND u.attnum = k.attno) AS upsert_key, sjoin.watermark(s.relid) AS watermark,
           (SELECT bool_and(i.idle) FROM sjoin.join_def j JOIN sjoin.input_stats() i ON i.join_id = j.join_id
             WHERE s.relid = CASE i.side WHEN 0 THEN j.input_left ELSE j.input_right END) AS idle,
           pg_get_userbyid(c.relowner) AS owner,
           (SELECT count(*) FROM sjoin.join_def j WHERE s.relid IN (j.input_left, j.input_right)) AS joins, s.created_at
      FROM sjoin.stream_def s
      JOIN pg_class c ON c.oid = s.relid
      JOIN pg_attribute a ON a.attrelid = s.relid AND a.attnum = s.time_attno;
COMMENT ON VIEW sjoin.streams IS 'tables whose row changes are captured as events';

CREATE VIEW sjoin.joins AS
    SELECT j.result::regclass::text AS join_name, pg_get_userbyid(c.relowner) AS owner, CASE WHEN j.paused AND coalesce(s.state, '') NOT IN ('backfilling', 'rebuilding', 'stopped') THEN 'paused'
                WHEN s.state = 'paused' THEN 'starting'
                ELSE coalesce(s.state, 'starting') END AS state,
           j.kind, j.join_type, j.output_mode, j.emit, sjoin.usec_interval(j.timeout) AS timeout, sjoin.usec_interval(j.ttl) AS ttl,
           sjoin.usec_interval(j.lateness) AS allowed_lateness, j.late_rows, sjoin.usec_interval(j.retention) AS retention,
           s.watermark, clock_timestamp() - CASE WHEN s.local_time THEN s.watermark::timestamp AT TIME ZONE j.time_zone ELSE s.watermark END AS lag,
           s.last_error, s.last_sqlstate, s.last_error_at,
           CASE WHEN pg_has_role(c.relowner, 'USAGE') OR pg_has_role('pg_read_all_stats', 'USAGE') THEN j.query END AS query, j.created_at
      FROM sjoin.join_def j
      JOIN pg_class c ON c.oid = j.result
      LEFT JOIN sjoin.join_stats() s ON s.join_id = j.join_id;
COMMENT ON VIEW sjoin.joins IS 'joins with their options, state and last error';

CREATE VIEW sjoin.stat_joins AS
    SELECT j.result AS relid, n.nspname AS schemaname, c.relname AS join_name, s.pid, s.state, s.rows_in, s.rows_out, s.rows_retracted,
           s.rows_late, s.rows_unmatched, s.batches, s.errors, s.restarts, s.total_batch_time, s.last_batch_time,
           s.latency_p50, s.latency_p95, s.latency_p99, s.watermark,
           clock_timestamp() - CASE WHEN s.local_time THEN s.watermark::timestamp AT TIME ZONE j.time_zone ELSE s.watermark END AS watermark_lag,
           NULL::bigint AS pending_rows, NULL::interval AS pending_age, s.state_rows, s.state_keys, s.state_bytes,
           0::bigint AS spilled_rows, 0::bigint AS spilled_bytes, s.timers, s.watermark - s.oldest_timer AS oldest_timer_age,
           s.log_bytes, s.last_batch_at, s.stats_reset
      FROM sjoin.join_def j
      JOIN pg_class c ON c.oid = j.result
      JOIN pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN sjoin.join_stats() s ON s.join_id = j.join_id;
COMMENT ON VIEW sjoin.stat_joins IS 'statistics of joins (times in milliseconds)';

CREATE VIEW sjoin.stat_inputs AS
    SELECT j.result AS relid, n.nspname AS schemaname, c.relname AS join_name,
           CASE s.side WHEN 0 THEN j.alias_left ELSE j.alias_right END AS input,
           (CASE s.side WHEN 0 THEN j.input_left ELSE j.input_right END)::regclass::text AS stream,
           s.rows_in, s.rows_matched, s.rows_late, s.rows_expired, s.rows_null_key, s.rows_future, s.rows_filtered, s.rows_unknown, s.state_rows,
           NULL::bigint AS state_keys, NULL::bigint AS state_bytes, NULL::bigint AS max_rows_per_key, NULL::text AS hottest_key,
           s.watermark, s.max_event_time, s.lateness_p50, s.lateness_p99, s.clock_offset_p50, s.last_row_at, s.idle
      FROM sjoin.join_def j
      JOIN pg_class c ON c.oid = j.result
      JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN sjoin.input_stats() s ON s.join_id = j.join_id;
COMMENT ON VIEW sjoin.stat_inputs IS 'statistics of the inputs of joins (times in milliseconds)';

CREATE VIEW sjoin.stat_workers AS
    SELECT w.pid, d.datname, a.state, a.wait_event_type, a.wait_event, a.backend_start, w.joins
      FROM sjoin.worker_stats() w
      JOIN pg_database d ON d.oid = w.datid
      LEFT JOIN pg_stat_activity a ON a.pid = w.pid;
COMMENT ON VIEW sjoin.stat_workers IS 'sjoin worker processes of the cluster, with the number of joins they run';

CREATE VIEW sjoin.late_rows WITH (security_barrier = true) AS
    SELECT r.late_id, j.result::regclass::text AS result,
           CASE WHEN r.op IN ('P', 'K') THEN j.alias_left || ', ' || j.alias_right
                WHEN r.side = 0 THEN j.alias_left ELSE j.alias_right END AS input,
           (CASE r.side WHEN 0 THEN j.input_left ELSE j.input_right END)::regclass::text AS source,
           sjoin.event_time(r.event_time, a.atttypid IS NOT DISTINCT FROM 'timestamp'::regtype) AS event_time,
           nullif(sjoin.event_time(r.watermark, a.atttypid IS NOT DISTINCT FROM 'timestamp'::regtype), '-infinity') AS watermark, r.reason, r.sqlstate, r.message,
           r.arrived_at, m.arrived_at AS replayed_at,
           CASE WHEN r.op IN ('P', 'K') THEN jsonb_build_object('left', r.row_data, 'right', r.old_data)
                WHEN r.op = 'D' THEN r.old_data ELSE r.row_data END AS row_data
      FROM sjoin.late_row r
      JOIN sjoin.join_def j ON j.join_id = r.join_id
      JOIN pg_class c ON c.oid = j.result
      LEFT JOIN (SELECT join_id, other_seq AS late_id, arrived_at FROM sjoin.late_row WHERE op = 'R') m
             ON m.join_id = r.join_id AND m.late_id = r.late_id
      LEFT JOIN (sjoin.stream_def s JOIN pg_attribute a ON a.attrelid = s.relid AND a.attnum = s.time_attno) ON s.relid = j.input_left
     WHERE r.reason NOT IN ('dropped', 'replayed', 'withdrawn')
       AND (pg_has_role(c.relowner, 'USAGE') OR pg_has_role('pg_read_all_data', 'USAGE'));
COMMENT ON VIEW sjoin.late_rows IS 'rows that joins did not take in, with the reason; visible to the owner of the result';

GRANT SELECT ON sjoin.streams, sjoin.joins, sjoin.stat_joins, sjoin.stat_inputs, sjoin.stat_workers, sjoin.late_rows TO PUBLIC;
