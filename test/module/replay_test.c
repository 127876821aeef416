/*-------------------------------------------------------------------------
 *
 * replay_test.c
 *	  Late rows that the engine takes in after all.
 *
 * IDENTIFICATION
 *	  test/module/replay_test.c
 *
 *-------------------------------------------------------------------------
 */
#include "test_fixture.h"

#include "engine/state.h"
#include "fmgr.h"

/* Takes in a row with the fixture's next number; its place. */
static const SjRow *
replay(Fixture *fixture, SjSide side, int64 key, SjTime event_time,
	   int64 outside)
{
	TestTuple  *tuple = test_tuple(true, key, ++fixture->seq, 0);
	SjEvent		event;
	const SjRow *row;

	test_event(&fixture->test, &event, side, event_time, tuple);
	check(sj_engine_insert(fixture->engine, &event) == SJ_LATE, "it is late");
	check(sj_engine_replay(fixture->engine, &event, outside,
						   &row) == SJ_INSERTED, "it is taken in");
	test_check_state(fixture->engine);
	pfree(tuple);
	return row;
}

static int64
count_changes(Fixture *fixture, int sign)
{
	int64		n;
	const SjChange *changes;
	int64		count = 0;

	sj_engine_end_step(fixture->engine);
	changes = sj_engine_changes(fixture->engine, &n);
	for (int64 i = 0; i < n; i++)
		count += changes[i].sign == sign;
	return count;
}

static void
count_row(void *arg, const SjRow *row)
{
	(*(int *) arg)++;
}

/* Rows in state with the key and time. */
static int
count_alike(Fixture *fixture, SjSide side, int64 key, SjTime event_time)
{
	TestTuple  *tuple = test_tuple(true, key, 0, 0);
	SjEvent		event;
	int			n = 0;

	test_event(&fixture->test, &event, side, event_time, tuple);
	sj_engine_visit_alike(fixture->engine, &event, count_row, &n);
	pfree(tuple);
	return n;
}

PG_FUNCTION_INFO_V1(sj_test_engine_replay);

/* Partners in state and outside of it, deadlines, and how long rows stay. */
Datum
sj_test_engine_replay(PG_FUNCTION_ARGS)
{
	Fixture		fixture;
	const SjRow *row;

	set_up(&fixture, 40, true);
	check(insert(&fixture, SJ_LEFT, 1, 58 * MINUTE, 0) == SJ_INSERTED, "left");
	check(insert(&fixture, SJ_LEFT, 1, 58 * MINUTE, 0) == SJ_INSERTED, "twin");
	advance_to(&fixture, 60 * MINUTE);
	check(count_alike(&fixture, SJ_LEFT, 1, 58 * MINUTE) == 2, "two alike");
	check(count_alike(&fixture, SJ_LEFT, 1, 57 * MINUTE) == 0, "no other time");
	check(count_alike(&fixture, SJ_LEFT, 2, 58 * MINUTE) == 0, "no other key");

	/* a partner of two rows in state */
	row = replay(&fixture, SJ_RIGHT, 1, 59 * MINUTE, 0);
	check(row != NULL && row->degree == 2, "both are its partners");
	check(count_changes(&fixture, 1) == 2, "two pairs");
	sj_engine_end_batch(fixture.engine);

	/* rows that are due: with a partner outside, and without any */
	row = replay(&fixture, SJ_LEFT, 2, 10 * MINUTE, 3);
	check(row->degree == 3, "partners outside count");
	check(count_changes(&fixture, 1) == 0, "it is not padded");
	row = replay(&fixture, SJ_LEFT, 3, 10 * MINUTE, 0);
	check(count_changes(&fixture, 1) == 1 && row->padded, "this one is");
	sj_engine_end_batch(fixture.engine);
	check(rows_in_state(&fixture) == 2, "both have left, as has the right row");

	/* one that waits, finds a partner in time, and one that does not */
	replay(&fixture, SJ_LEFT, 4, 57 * MINUTE, 0);
	replay(&fixture, SJ_LEFT, 5, 57 * MINUTE, 0);
	check(count_changes(&fixture, 1) == 0, "neither is due");
	sj_engine_end_batch(fixture.engine);
	check(insert(&fixture, SJ_RIGHT, 4, 61 * MINUTE, 0) == SJ_INSERTED, "right");
	check(count_changes(&fixture, 1) == 1, "a pair");
	sj_engine_end_batch(fixture.engine);
	sj_engine_advance(fixture.engine, SJ_LEFT, 70 * MINUTE);
	sj_engine_advance(fixture.engine, SJ_RIGHT, 70 * MINUTE);
	check(count_changes(&fixture, 1) == 1, "the other one is padded");
	check(count_changes(&fixture, -1) == 0, "nothing is taken back");
	sj_engine_end_batch(fixture.engine);

	/* at its deadline, exactly, a row is not padded, and then has a partner */
	check(insert(&fixture, SJ_LEFT, 6, 70 * MINUTE, 0) == SJ_INSERTED, "left");
	advance_to(&fixture, 75 * MINUTE);
	replay(&fixture, SJ_RIGHT, 6, 72 * MINUTE, 0);
	check(count_changes(&fixture, 1) == 1, "a pair");
	check(count_changes(&fixture, -1) == 0, "that was not padded");
	sj_engine_end_batch(fixture.engine);
	advance_to(&fixture, 90 * MINUTE);
	check(fixture.arena->nused == 1, "without rows only the root is left");
	tear_down(&fixture);
	PG_RETURN_VOID();
}
