/*-------------------------------------------------------------------------
 *
 * test_fixture.c
 *	  A join in an arena, for tests of single properties.
 *
 * IDENTIFICATION
 *	  test/module/test_fixture.c
 *
 *-------------------------------------------------------------------------
 */
#include "test_fixture.h"

#include "miscadmin.h"

void
set_up(Fixture *fixture, uint32 npages, bool outer_join)
{
	test_operator_init(&fixture->test);
	fixture->test.op.pad[SJ_LEFT] = outer_join;
	fixture->test.op.verdict = NULL;
	fixture->test.bounds.lower.known = true;
	fixture->test.bounds.upper.known = true;
	fixture->test.bounds.upper.usec = 5 * MINUTE;
	fixture->test.op.reach[SJ_LEFT] = 5 * MINUTE;
	fixture->arena = test_arena_create(npages);
	fixture->engine = sj_engine_create(&fixture->arena->arena,
									   &fixture->test.op, NULL);
	fixture->seq = 0;
}

void
tear_down(Fixture *fixture)
{
	sj_engine_destroy(fixture->engine);
	test_arena_free(fixture->arena);
}

SjInsertResult
insert(Fixture *fixture, SjSide side, int64 key, SjTime event_time,
	   uint32 filler)
{
	TestTuple  *tuple = test_tuple(true, key, ++fixture->seq, filler);
	SjInsertResult result;
	SjEvent		event;

	test_event(&fixture->test, &event, side, event_time, tuple);
	result = sj_engine_insert(fixture->engine, &event);
	pfree(tuple);
	CHECK_FOR_INTERRUPTS();
	return result;
}

void
advance_to(Fixture *fixture, SjTime watermark)
{
	sj_engine_advance(fixture->engine, SJ_LEFT, watermark);
	sj_engine_advance(fixture->engine, SJ_RIGHT, watermark);
	sj_engine_end_step(fixture->engine);
	sj_engine_end_batch(fixture->engine);
}

void
check(bool condition, const char *what)
{
	if (!condition)
		elog(ERROR, "failed: %s", what);
}

uint64
rows_in_state(Fixture *fixture)
{
	SjEngineStats stats;

	sj_engine_stats(fixture->engine, &stats);
	return stats.rows[SJ_LEFT] + stats.rows[SJ_RIGHT];
}
