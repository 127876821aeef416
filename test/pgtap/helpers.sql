-- What the pgTAP tests share.  Each case has its own schema with the streams a and b and mostly one join, "result".
-- Statements between the calls are transactions of their own: psql commits each.
CREATE SCHEMA helper;

-- a time of day of the one day that all tests play on
CREATE FUNCTION helper.t(time_of_day text) RETURNS timestamptz LANGUAGE sql IMMUTABLE
    AS $$ SELECT ('2024-01-01 ' || time_of_day || '+00')::timestamptz $$;

-- Tables a and b in a schema of the case, streams without watermark delay, and the session looks there first.
CREATE FUNCTION helper.start_case(id text, a_key text DEFAULT 'k int', b_key text DEFAULT NULL,
                                  delay interval DEFAULT '0 s', future interval DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    SET client_min_messages = warning;
    EXECUTE format('CREATE SCHEMA %I', id);
    PERFORM set_config('search_path', format('%I, helper, public', id), false);
    EXECUTE format('CREATE TABLE a (id bigint GENERATED ALWAYS AS IDENTITY, %s, ts timestamptz, v text)', a_key);
    EXECUTE format('CREATE TABLE b (id bigint GENERATED ALWAYS AS IDENTITY, %s, ts timestamptz, v text)', coalesce(b_key, a_key));
    PERFORM sjoin.create_stream('a', 'ts', watermark_delay => delay, idle_timeout => '0 s', max_future => future),
            sjoin.create_stream('b', 'ts', watermark_delay => delay, idle_timeout => '0 s', max_future => future);
END $$;

CREATE FUNCTION helper.end_case() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('DROP SCHEMA %I CASCADE', current_schema());
    PERFORM set_config('search_path', 'helper, public', false);
END $$;

-- The usual query: keys equal, b within a.ts + lower .. a.ts + upper
CREATE FUNCTION helper.query_ab(type text, lower interval, upper interval) RETURNS text LANGUAGE sql
    AS $$ SELECT format('SELECT a.id AS a_id, b.id AS b_id FROM a %s JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts + interval %L AND a.ts + interval %L', type, lower, upper) $$;

-- create_join with more arguments as text: 'allowed_lateness => ''0 s'''.  Call settle() afterwards: rows that come before the
-- worker has read the tables are history, which is never late.
CREATE FUNCTION helper.make(query text, options text DEFAULT '', name text DEFAULT 'result') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SELECT sjoin.create_join(%L, %L%s)', name, query, CASE WHEN options <> '' THEN ', ' || options ELSE '' END);
END $$;

-- Moves both watermarks: no older row will come.
CREATE FUNCTION helper.beat(time_of_day text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM sjoin.advance_watermark('a', helper.t(time_of_day)), sjoin.advance_watermark('b', helper.t(time_of_day));
END $$;

-- The worker of this database is stopped; it starts again by itself.
CREATE FUNCTION helper.stop_worker() RETURNS void LANGUAGE sql
    AS $$ SELECT pg_terminate_backend(pid) FROM sjoin.stat_workers WHERE datname = current_database() $$;

-- Everything committed is in the result; asks again while the worker is on its way back.
CREATE FUNCTION helper.drain(name text DEFAULT 'result') RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    deadline timestamptz := clock_timestamp() + interval '60 s';
BEGIN
    LOOP
        IF sjoin.wait_for(name::regclass, timeout => '30 s') THEN RETURN true; END IF;
        IF clock_timestamp() > deadline THEN RETURN false; END IF;
    END LOOP;
END $$;

-- All joins of the database have read what is committed.
CREATE FUNCTION helper.settle() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT sjoin.wait_for(timeout => '60 s') THEN RAISE EXCEPTION 'wait_for returned false'; END IF;
END $$;

-- What verify finds, as one text; empty when the result is the batch answer
CREATE FUNCTION helper.differences(name text) RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(difference || ' ' || n || ' ' || row_data, '; '), '')
      FROM sjoin.verify(name::regclass) WHERE difference IN ('missing', 'extra', 'duplicate') $$;

-- The result as a text: '1-1 1-2 3-' are two pairs and a padded left row; a bag, in order
CREATE FUNCTION helper.pairs(name text DEFAULT 'result') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE format('SELECT coalesce(string_agg(concat(a_id, ''-'', b_id), '' '' ORDER BY a_id, b_id), '''') FROM %s', name) INTO answer;
    RETURN answer;
END $$;

-- Drained, the pairs are these, and verify agrees
CREATE FUNCTION helper.pairs_are(expected text, description text, name text DEFAULT 'result') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    problem text := '';
BEGIN
    IF NOT helper.drain(name) THEN problem := ' (wait_for returned false)'; END IF;
    problem := problem || helper.differences(name);
    RETURN is(helper.pairs(name) || CASE WHEN problem <> '' THEN ' verify: ' || problem ELSE '' END, expected, description);
END $$;

-- Rows of the batch query that the result has not, and the other way round
CREATE FUNCTION helper.same_as(query text, description text, name text DEFAULT 'result') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    IF NOT helper.drain(name) THEN RETURN fail(description || ': wait_for returned false'); END IF;
    EXECUTE format('WITH q AS (%s), r AS (SELECT a_id, b_id FROM %s), d AS (
            (SELECT ''missing'' AS what, * FROM (TABLE q EXCEPT ALL TABLE r) x)
            UNION ALL (SELECT ''extra'', * FROM (TABLE r EXCEPT ALL TABLE q) y))
        SELECT coalesce(string_agg(d::text, '' '' ORDER BY d), '''') FROM d', query, name) INTO answer;
    RETURN is(answer || helper.differences(name), '', description);
END $$;

-- Late rows of the case's join, as 'a1 late, b2 infinite'
CREATE FUNCTION helper.late_are(expected text, description text, name text DEFAULT 'result') RETURNS text LANGUAGE sql AS $$
    SELECT is((SELECT coalesce(string_agg(input || (row_data->>'id') || ' ' || reason, ', ' ORDER BY input, (row_data->>'id')::bigint, reason), '')
                 FROM sjoin.late_rows WHERE result = name::regclass::text), expected, description) $$;

CREATE FUNCTION helper.state_rows(name text DEFAULT 'result') RETURNS bigint LANGUAGE sql
    AS $$ SELECT state_rows::bigint FROM sjoin.stat_joins WHERE relid = name::regclass $$;
