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
                       NULL::timestamptz AS captured_at, NULL::bytea AS data
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
    SELECT NULL::int8 AS tick, NULL::xid8 AS xmin, NULL::xid8 AS xmax, NULL::xid8[] AS xip, NULL::timestamptz AS at
     WHERE sjoin.no_rows();
CREATE INDEX tick_tick ON sjoin.tick (tick);
COMMENT ON MATERIALIZED VIEW sjoin.tick IS 'snapshots that cut the event log into what is consumed together';

-- src/log/position.c
CREATE MATERIALIZED VIEW sjoin.position AS
    SELECT NULL::int4 AS join_id, NULL::int8 AS tick, NULL::int4 AS txns,
           NULL::int8 AS watermark_left, NULL::int8 AS watermark_right,
           NULL::int8 AS max_event_time_left, NULL::int8 AS max_event_time_right,
           NULL::int8 AS watermark, NULL::int8 AS horizon, NULL::int8 AS result_seq,
           NULL::int8 AS base_tick, NULL::int4 AS base_txns, NULL::xid8 AS base_xid, NULL::bytea AS base,
           NULL::bytea AS counters, NULL::timestamptz AS at
     WHERE sjoin.no_rows();
COMMENT ON MATERIALIZED VIEW sjoin.position IS 'how far each join has come; the newest row of a join counts';

-- src/catalog/stream_def.c
CREATE MATERIALIZED VIEW sjoin.stream_def AS
    SELECT NULL::oid AS relid, NULL::int2 AS time_attno, NULL::int8 AS watermark_delay, NULL::int8 AS idle_timeout,
           NULL::text AS on_idle, NULL::int8 AS max_future, NULL::timestamptz AS created_at
     WHERE sjoin.no_rows();
CREATE UNIQUE INDEX stream_def_relid ON sjoin.stream_def (relid);
COMMENT ON MATERIALIZED VIEW sjoin.stream_def IS 'tables whose row changes are captured as events (times in microseconds)';

CREATE MATERIALIZED VIEW sjoin.layout AS
    SELECT NULL::int4 AS layout, NULL::oid AS relid, NULL::int2[] AS attnos
     WHERE sjoin.no_rows();
CREATE UNIQUE INDEX layout_layout ON sjoin.layout (layout);
CREATE INDEX layout_relid ON sjoin.layout (relid);
COMMENT ON MATERIALIZED VIEW sjoin.layout IS 'columns that images of a stream in the event log have; the greatest number of a stream is in use';

-- src/catalog/join_def.c
CREATE MATERIALIZED VIEW sjoin.join_def AS
    SELECT NULL::int4 AS join_id, NULL::oid AS result, NULL::oid AS definition, NULL::text AS output_mode, NULL::text AS emit,
           NULL::int8 AS timeout, NULL::int8 AS ttl, NULL::jsonb AS side_ttl, NULL::int8 AS allowed_lateness,
           NULL::text AS late_rows, NULL::boolean AS with_data, NULL::text AS time_zone, NULL::int8 AS signature,
           NULL::text AS query, NULL::oid AS input_left, NULL::oid AS input_right, NULL::timestamptz AS created_at
     WHERE sjoin.no_rows();
CREATE UNIQUE INDEX join_def_join_id ON sjoin.join_def (join_id);
CREATE UNIQUE INDEX join_def_result ON sjoin.join_def (result);
COMMENT ON MATERIALIZED VIEW sjoin.join_def IS 'joins and their options (times in microseconds, -1: not given)';

-- src/emit/side_output.c
CREATE MATERIALIZED VIEW sjoin.late_row AS
    SELECT NULL::int8 AS late_id, NULL::int4 AS join_id, NULL::int2 AS side, NULL::int8 AS seq, NULL::int8 AS other_seq, NULL::"char" AS op,
           NULL::int8 AS event_time, NULL::int8 AS watermark, NULL::text AS reason, NULL::text AS sqlstate, NULL::text AS message,
           NULL::timestamptz AS arrived_at, NULL::timestamptz AS replayed_at,
           NULL::jsonb AS row_data, NULL::jsonb AS old_data, NULL::uuid AS row_hash, NULL::uuid AS old_hash
     WHERE sjoin.no_rows();
CREATE INDEX late_row_join_id ON sjoin.late_row (join_id);
COMMENT ON MATERIALIZED VIEW sjoin.late_row IS 'rows that joins did not take in, with the reason';
