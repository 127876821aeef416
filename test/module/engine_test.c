/*-------------------------------------------------------------------------
 *
 * engine_test.c
 *	  Single properties of the engine, and its speed.
 *
 * IDENTIFICATION
 *	  test/module/engine_test.c
 *
 *-------------------------------------------------------------------------
 */
#include "test_fixture.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(sj_test_engine_memory);

/*
 * An arena that is filled up to its last page, emptied and filled again; rows
 * of many pages; an arena that has no page at all.
 */
Datum
sj_test_engine_memory(PG_FUNCTION_ARGS)
{
	Fixture		fixture;
	uint64		capacity = 0;

	set_up(&fixture, 24, true);
	for (int turn = 0; turn < 3; turn++)
	{
		SjTime		start = turn * 60 * MINUTE;
		uint64		n = 0;

		while (insert(&fixture, n % 2, n / 2, start + n * USECS_PER_SEC / 100,
					  n % 100) == SJ_INSERTED)
			n++;
		test_check_state(fixture.engine);
		check(rows_in_state(&fixture) == n, "all rows are in state");
		check(turn == 0 || n > capacity * 3 / 4, "no memory is lost");
		capacity = n;
		advance_to(&fixture, start + 59 * MINUTE);
		check(rows_in_state(&fixture) == 0, "all rows have left");
		check(fixture.arena->nused == 1, "only the root is left");
	}

	check(insert(&fixture, SJ_LEFT, 1, 200 * MINUTE,
				 3 * SJ_PAGE_SIZE) == SJ_INSERTED, "a large row fits");
	check(insert(&fixture, SJ_RIGHT, 1, 200 * MINUTE,
				 30 * SJ_PAGE_SIZE) == SJ_NO_MEMORY, "a huge row does not");
	test_check_state(fixture.engine);
	advance_to(&fixture, 300 * MINUTE);
	check(insert(&fixture, SJ_RIGHT, 1, 400 * MINUTE,
				 30 * SJ_PAGE_SIZE) == SJ_NO_MEMORY, "nor into an empty state");
	check(fixture.arena->nused == 1, "a failure in an empty state keeps none");

	fixture.arena->limit = 1;
	check(sj_engine_create(&fixture.arena->arena, &fixture.test.op,
						   NULL) == NULL, "no state without a page");
	tear_down(&fixture);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sj_test_engine_many_keys);

/* The key table grows and shrinks; rows leave little by little. */
Datum
sj_test_engine_many_keys(PG_FUNCTION_ARGS)
{
	int32		n = PG_GETARG_INT32(0);
	SjTime		spacing = 60 * MINUTE / n;
	Fixture		fixture;
	SjEngineStats stats;

	set_up(&fixture, 1000 + n / 200, true);
	for (int turn = 0; turn < 2; turn++)
	{
		SjTime		start = turn * 120 * MINUTE;

		for (int i = 0; i < n; i++)
		{
			check(insert(&fixture, SJ_LEFT, i, start + i * spacing,
						 0) == SJ_INSERTED, "a row of each key");
			if (i % 3 == 0)
				insert(&fixture, SJ_RIGHT, i, start + i * spacing, 0);
		}
		test_check_state(fixture.engine);
		for (int minute = 0; minute < 70; minute++)
		{
			advance_to(&fixture, start + minute * MINUTE);
			test_check_state(fixture.engine);
			sj_engine_stats(fixture.engine, &stats);
			check(minute < 8 || stats.keys <
				  n - (int64) (minute - 8) * n / 60 + 2000,
				  "rows leave when their time has come");
		}
		check(rows_in_state(&fixture) == 0, "no row is left");
		check(fixture.arena->nused == 1, "only the root is left");
	}
	sj_engine_stats(fixture.engine, &stats);
	check(stats.unmatched == 2 * (n - (n + 2) / 3), "rows written unmatched");
	tear_down(&fixture);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sj_test_engine_one_key);

/* Many rows of one key, in several orders of time, each with few partners. */
Datum
sj_test_engine_one_key(PG_FUNCTION_ARGS)
{
	int32		n = PG_GETARG_INT32(0);
	Fixture		fixture;

	for (int order = 0; order < 3; order++)
	{
		int64		nchanges;

		set_up(&fixture, 100 + n / 100, false);
		for (int i = 0; i < n; i++)
		{
			int64		at = order == 1 ? n - i : i;

			check(insert(&fixture, SJ_LEFT, 1, at * 3 * MINUTE,
						 0) == SJ_INSERTED, "a row of the left side");
			if (order < 2)
				insert(&fixture, SJ_RIGHT, 1, (at * 3 + 1) * MINUTE, 0);
		}
		/* the second side after the first */
		for (int i = 0; order == 2 && i < n; i++)
			insert(&fixture, SJ_RIGHT, 1, (i * 3 + 1) * MINUTE, 0);
		test_check_state(fixture.engine);
		sj_engine_changes(fixture.engine, &nchanges);
		check(nchanges == 2 * (int64) n - 1, "two partners for each row");
		advance_to(&fixture, (SjTime) n * 4 * MINUTE);
		check(rows_in_state(&fixture) == 0, "no row is left");
		tear_down(&fixture);
	}
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sj_test_engine_far_apart);

/* Rows of all times from 4713 BC on, that need more slices than there are. */
Datum
sj_test_engine_far_apart(PG_FUNCTION_ARGS)
{
	Fixture		fixture;

	set_up(&fixture, 400, true);
	for (int i = 0; i < 300; i++)
	{
		SjTime		event_time = MIN_TIMESTAMP +
			(END_TIMESTAMP / 300 * ((i * 7) % 300));

		check(insert(&fixture, i % 2, i, event_time, 10) == SJ_INSERTED,
			  "a row of any time");
		test_check_state(fixture.engine);
	}
	check(fixture.arena->nused < 200, "there are few slices");
	advance_to(&fixture, 0);
	test_check_state(fixture.engine);
	check(rows_in_state(&fixture) >= 290 && rows_in_state(&fixture) < 300,
		  "few rows are older than 2000");
	advance_to(&fixture, SJ_TIME_MAX);
	check(rows_in_state(&fixture) == 0, "no row is left");
	tear_down(&fixture);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sj_test_bounds_reach);

/* Both bounds with the same base; intervals as in "base + interval". */
Datum
sj_test_bounds_reach(PG_FUNCTION_ARGS)
{
	SjBounds	bounds;
	SjReach		reach;
	TupleDesc	desc;
	Datum		value[4];
	bool		isnull[4] = {false, false, false, false};

	memset(&bounds, 0, sizeof(bounds));
	bounds.with_zone = true;
	bounds.timeout[SJ_LEFT] = -1;
	bounds.timeout[SJ_RIGHT] = -1;
	bounds.lower.known = true;
	bounds.lower.calendar = true;
	bounds.lower.interval = *PG_GETARG_INTERVAL_P(0);
	bounds.lower.subtracted = PG_GETARG_BOOL(2);
	bounds.lower.base = PG_GETARG_BOOL(3) ? SJ_RIGHT : SJ_LEFT;
	bounds.upper = bounds.lower;
	bounds.upper.interval = *PG_GETARG_INTERVAL_P(1);
	sj_bounds_reach(&bounds, PG_GETARG_BOOL(4) ? SJ_RIGHT : SJ_LEFT,
					PG_GETARG_TIMESTAMPTZ(5), &reach);

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	value[0] = TimestampTzGetDatum(reach.from);
	value[1] = TimestampTzGetDatum(reach.until);
	value[2] = TimestampTzGetDatum(reach.due);
	value[3] = TimestampTzGetDatum(reach.expires);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, value, isnull)));
}

PG_FUNCTION_INFO_V1(sj_test_engine_bench);

/*
 * n orders and n payments of n keys; a payment comes a little after its order.
 * Batches of 10000 rows; the state is left to grow.
 */
Datum
sj_test_engine_bench(PG_FUNCTION_ARGS)
{
	int32		n = PG_GETARG_INT32(0);
	Fixture		fixture;
	TestTuple  *tuple;
	SjEngineStats stats;
	instr_time	start;
	instr_time	end;

	set_up(&fixture, 400 + (Size) n / 150, PG_GETARG_BOOL(1));
	fixture.test.op.allowed_lateness = PG_INT64_MAX;
	sj_engine_set_lateness(fixture.engine, PG_INT64_MAX);
	tuple = test_tuple(true, 0, 0, 16);
	INSTR_TIME_SET_CURRENT(start);
	for (int64 i = 0; i < 2 * (int64) n; i++)
	{
		SjSide		side = (i / 1000) % 2;
		SjEvent		event;

		tuple->key = i / 2000 * 1000 + i % 1000;
		tuple->image = i + 1;
		test_event(&fixture.test, &event, side,
				   tuple->key * 1000 + side, tuple);
		if (sj_engine_insert(fixture.engine, &event) != SJ_INSERTED)
			elog(ERROR, "row " INT64_FORMAT " was not taken in", i);
		sj_engine_saw(fixture.engine, side, event.event_time, true);
		if (i % 10000 == 9999)
		{
			sj_engine_end_step(fixture.engine);
			sj_engine_end_batch(fixture.engine);
			CHECK_FOR_INTERRUPTS();
		}
	}
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);

	sj_engine_stats(fixture.engine, &stats);
	elog(INFO, UINT64_FORMAT " rows, " UINT64_FORMAT " keys, %.1f bytes a row",
		 stats.rows[0] + stats.rows[1], stats.keys,
		 (double) stats.pages * SJ_PAGE_SIZE / (2.0 * n));
	tear_down(&fixture);
	PG_RETURN_FLOAT8(2.0 * n / INSTR_TIME_GET_DOUBLE(end));
}
