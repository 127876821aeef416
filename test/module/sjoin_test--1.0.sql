-- Unit tests of sjoin's parts.  Each function raises an error that says what
-- differs; 'random' tests name the seed to run again.

-- The engine against a nested loop over everything it took in: 'rounds' random
-- joins, the first with this seed.  Returns the number of rows inserted.
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

-- What a calendar bound makes of one row, for comparison with SQL.
CREATE FUNCTION bounds_reach(lower interval, upper interval,
							 subtracted boolean, base_right boolean,
							 from_right boolean, event_time timestamptz,
							 OUT "from" timestamptz, OUT until timestamptz,
							 OUT due timestamptz, OUT expires timestamptz)
	RETURNS record
	AS 'MODULE_PATHNAME', 'sj_test_bounds_reach' LANGUAGE C STRICT;

-- Rows taken in per second: n orders and n payments, one of each per key.
CREATE FUNCTION engine_bench(n int, outer_join boolean DEFAULT false)
	RETURNS float8
	AS 'MODULE_PATHNAME', 'sj_test_engine_bench' LANGUAGE C STRICT;
