-- Unit tests of sjoin's parts.  Each function raises an error that says what
-- differs; 'random' tests name the seed to run again.

-- The engine against a nested loop over everything it took in and did not take
-- out again: 'rounds' random joins, the first with this seed.  Returns the
-- number of rows inserted, replaced and deleted.
CREATE FUNCTION engine_random(seed bigint, rounds int) RETURNS bigint
	AS 'MODULE_PATHNAME', 'sj_test_engine_random' LANGUAGE C STRICT;

-- Single properties of the engine, by name; see engine_test.c.
CREATE FUNCTION engine_memory() RETURNS void
	AS 'MODULE_PATHNAME', 'sj_test_engine_memory' LANGUAGE C STRICT;
CREATE FUNCTION engine_many_keys(n int) RETURNS void
	AS 'MODULE_PATHNAME', 'sj_test_engine_many_keys' LANGUAGE C STRICT;
CREATE FUNCTION engine_one_key(n int) RETURNS void
	AS 'MODULE_PATHNAME', 'sj_test_engine_one_key' LANGUAGE C STRICT;
CREATE FUNCTION engine_far_apart() RETURNS void
	AS 'MODULE_PATHNAME', 'sj_test_engine_far_apart' LANGUAGE C STRICT;

-- The same of changes and deletions; see change_test.c.
CREATE FUNCTION engine_compaction() RETURNS void
	AS 'MODULE_PATHNAME', 'sj_test_engine_compaction' LANGUAGE C STRICT;
CREATE FUNCTION engine_churn(n int) RETURNS void
	AS 'MODULE_PATHNAME', 'sj_test_engine_churn' LANGUAGE C STRICT;
CREATE FUNCTION engine_deadlines(n int) RETURNS void
	AS 'MODULE_PATHNAME', 'sj_test_engine_deadlines' LANGUAGE C STRICT;
CREATE FUNCTION engine_keyless() RETURNS void
	AS 'MODULE_PATHNAME', 'sj_test_engine_keyless' LANGUAGE C STRICT;
CREATE FUNCTION engine_steps() RETURNS void
	AS 'MODULE_PATHNAME', 'sj_test_engine_steps' LANGUAGE C STRICT;
CREATE FUNCTION engine_versions() RETURNS void
	AS 'MODULE_PATHNAME', 'sj_test_engine_versions' LANGUAGE C STRICT;
CREATE FUNCTION engine_version_memory(n int) RETURNS void
	AS 'MODULE_PATHNAME', 'sj_test_engine_version_memory' LANGUAGE C STRICT;
CREATE FUNCTION engine_large_rows() RETURNS void
	AS 'MODULE_PATHNAME', 'sj_test_engine_large_rows' LANGUAGE C STRICT;
CREATE FUNCTION engine_detached() RETURNS void
	AS 'MODULE_PATHNAME', 'sj_test_engine_detached' LANGUAGE C STRICT;
CREATE FUNCTION engine_replay() RETURNS void
	AS 'MODULE_PATHNAME', 'sj_test_engine_replay' LANGUAGE C STRICT;

-- Buckets of a histogram at their bounds; percentiles of random samples of
-- signed lengths of time.
CREATE FUNCTION histogram_buckets() RETURNS void
	AS 'MODULE_PATHNAME', 'sj_test_histogram_buckets' LANGUAGE C STRICT;
CREATE FUNCTION histogram_percentiles(seed bigint, rounds int) RETURNS void
	AS 'MODULE_PATHNAME', 'sj_test_histogram_percentiles' LANGUAGE C STRICT;

-- What a calendar bound makes of one row, for comparison with SQL.
CREATE FUNCTION bounds_reach(lower interval, upper interval,
							 subtracted boolean, base_right boolean,
							 from_right boolean, event_time timestamptz,
							 OUT "from" timestamptz, OUT until timestamptz,
							 OUT due timestamptz, OUT expires timestamptz)
	RETURNS record
	AS 'MODULE_PATHNAME', 'sj_test_bounds_reach' LANGUAGE C STRICT;

-- Random pairs near the ends of calendar ranges: each must lie in the range of
-- both its rows, before they expire, and before their deadlines (but for the
-- hour that clocks are changed by).  Returns the number of pairs.  In the
-- session's TimeZone.
CREATE FUNCTION bounds_random(n int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	intervals interval[] := ARRAY['1 mon', '-1 mon', '1 mon 1 day', '1 year',
		'3 mons -2 days', '1 day', '-2 days', '1 mon 30 days 12:00', '13 mons',
		'2 mons -30 days', '0'];
	low interval;		-- low <= high
	high interval;
	subtracted bool;
	base_right bool;
	base timestamptz;
	other timestamptz;
	earliest timestamptz;
	latest timestamptz;
	l timestamptz;
	r timestamptz;
	of_l record;
	of_r record;
	pairs bigint := 0;
BEGIN
	FOR i IN 1 .. n LOOP
		low := intervals[1 + floor(random() * array_length(intervals, 1))];
		high := low + floor(random() * 200) * interval '1 hour';
		subtracted := random() < 0.5;
		base_right := random() < 0.5;
		base := date_trunc('month', timestamptz '2024-01-15' +
						   floor(random() * 1500) * interval '1 day') +
			floor(random() * 20 - 10) * interval '1 day' +
			floor(random() * 48) * interval '30 minutes';
		earliest := CASE WHEN subtracted THEN base - high ELSE base + low END;
		latest := CASE WHEN subtracted THEN base - low ELSE base + high END;
		other := CASE WHEN random() < 0.5 THEN earliest ELSE latest END +
			floor(random() * 48 - 24) * interval '1 hour';
		CONTINUE WHEN other NOT BETWEEN earliest AND latest;

		pairs := pairs + 1;
		l := CASE WHEN base_right THEN other ELSE base END;
		r := CASE WHEN base_right THEN base ELSE other END;
		IF base_right <> subtracted THEN
			of_l := sjoin_test.bounds_reach(high, low, subtracted, base_right, false, l);
			of_r := sjoin_test.bounds_reach(high, low, subtracted, base_right, true, r);
		ELSE
			of_l := sjoin_test.bounds_reach(low, high, subtracted, base_right, false, l);
			of_r := sjoin_test.bounds_reach(low, high, subtracted, base_right, true, r);
		END IF;
		IF r NOT BETWEEN of_l."from" AND of_l.until OR
			r > of_l.due + interval '1 hour' OR
			r > of_l.expires OR
			l NOT BETWEEN of_r."from" AND of_r.until OR
			l > of_r.due + interval '1 hour' OR
			l > of_r.expires THEN
			RAISE EXCEPTION 'left % right % (% .. %, subtracted %, base_right %): % %',
				l, r, low, high, subtracted, base_right, of_l, of_r;
		END IF;
	END LOOP;
	RETURN pairs;
END $$;

-- Rows taken in per second: n orders and n payments, one of each per key.
CREATE FUNCTION engine_bench(n int, outer_join boolean DEFAULT false)
	RETURNS float8
	AS 'MODULE_PATHNAME', 'sj_test_engine_bench' LANGUAGE C STRICT;

-- The processing-time clock of sjoin, for all processes; it goes on from there,
-- or is stopped there.  NULL: the real time.
CREATE FUNCTION set_clock(now timestamptz, stopped boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME', 'sjoin_test_set_clock' LANGUAGE C;

-- Writes what the worker would find of idle inputs; see clock.c.
CREATE FUNCTION note_quiet(join_id int, stream regclass, quiet_left bigint, quiet_right bigint,
						   idle_left int, idle_right int, move_left bigint, move_right bigint) RETURNS void
	AS 'MODULE_PATHNAME', 'sjoin_test_note_quiet' LANGUAGE C STRICT;

-- The captured records that are in the event log, in the order of their
-- numbers.  For a superuser; on a little-endian machine.
CREATE FUNCTION log_records(OUT seq bigint, OUT op "char", OUT layout int,
							OUT stream regclass, OUT source regclass,
							OUT changes boolean, OUT xid xid8)
	RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	chunk record;
	place int;
BEGIN
	FOR chunk IN SELECT c.* FROM (TABLE sjoin.log_0 UNION ALL TABLE sjoin.log_1
			UNION ALL TABLE sjoin.log_2 UNION ALL TABLE sjoin.log_3) c
		WHERE c.layout > 0 ORDER BY c.seq
	LOOP
		seq := chunk.seq;
		layout := chunk.layout;
		stream := (SELECT l.relid FROM sjoin.layout l WHERE l.layout = chunk.layout);
		source := nullif(chunk.source, 0);
		changes := chunk.changes;
		xid := chunk.xid;
		place := 0;
		WHILE place < length(chunk.data) LOOP
			op := chr(get_byte(chunk.data, place + 4));
			RETURN NEXT;
			seq := seq + 1;
			place := place + get_byte(chunk.data, place) +
				(get_byte(chunk.data, place + 1) << 8) +
				(get_byte(chunk.data, place + 2) << 16) +
				(get_byte(chunk.data, place + 3) << 24);
		END LOOP;
		IF seq <> chunk.seq + chunk.n THEN
			RAISE EXCEPTION 'chunk % has % records, not %', chunk.seq, seq - chunk.seq, chunk.n;
		END IF;
	END LOOP;
END $$;

-- The same as a text, a word for each source: 'p_1:ITI p_2:I'.  Records of the
-- current transaction are not there yet.
CREATE FUNCTION log_text(after bigint DEFAULT 0) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(word, ' ' ORDER BY word) FROM (
		SELECT coalesce(source::text, stream::text, layout::text) || ':' ||
			string_agg(op::text, '' ORDER BY seq) AS word
		  FROM sjoin_test.log_records() WHERE seq > after AND op NOT IN ('W', 'Q', 'A')
		 GROUP BY source, stream, layout) w $$;
CREATE FUNCTION log_end() RETURNS bigint LANGUAGE sql AS $$
	SELECT coalesce(max(seq), 0) FROM sjoin_test.log_records() $$;
-- Writes changes that a query makes up to the result of a join, as one batch:
-- columns step int4, sign int4, update bool, left_seq int8, l, right_seq int8,
-- r, where l and r are rows of the join's inputs and a missing side has no seq.
CREATE FUNCTION write_changes(result regclass, changes text,
							  careful boolean DEFAULT false,
							  OUT inserted bigint, OUT retracted bigint)
	RETURNS record
	AS 'MODULE_PATHNAME', 'sj_test_write_changes' LANGUAGE C STRICT;
