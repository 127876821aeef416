/*-------------------------------------------------------------------------
 *
 * change_test.c
 *	  Single properties of the engine when rows are changed and deleted.
 *
 * IDENTIFICATION
 *	  test/module/change_test.c
 *
 *-------------------------------------------------------------------------
 */
#include "test_fixture.h"

#include "engine/state.h"
#include "fmgr.h"
#include "miscadmin.h"

static SjEngineStats
figures(Fixture *fixture)
{
	SjEngineStats stats;

	sj_engine_stats(fixture->engine, &stats);
	return stats;
}

/* Takes out a row as insert() took it in. */
static bool
take_out(Fixture *fixture, SjSide side, int64 key, SjTime event_time,
		 int64 image, uint32 filler)
{
	TestTuple  *tuple = test_tuple(true, key, image, filler);
	SjEvent		event;
	bool		removed;

	test_event(&fixture->test, &event, side, event_time, tuple);
	check(sj_engine_replace(fixture->engine, &event, NULL,
							&removed) == SJ_INSERTED, "a deletion succeeds");
	pfree(tuple);
	return removed;
}

/* Ends the step and the batch, without any watermark. */
static void
end_batch(Fixture *fixture)
{
	sj_engine_end_step(fixture->engine);
	sj_engine_end_batch(fixture->engine);
	test_check_state(fixture->engine);
}

PG_FUNCTION_INFO_V1(sj_test_engine_compaction);

/*
 * An arena filled to its last page.  Nine rows of ten are taken out, here and
 * there: their room serves new rows, within the next batch.
 */
Datum
sj_test_engine_compaction(PG_FUNCTION_ARGS)
{
	Fixture		fixture;
	int64		n = 0;
	int64		capacity;
	int64		more = 0;

	set_up(&fixture, 60, true);
	while (insert(&fixture, SJ_LEFT, n, n * USECS_PER_SEC / 100,
				  n % 100) == SJ_INSERTED)
		n++;
	capacity = n;
	end_batch(&fixture);
	for (int64 i = 0; i < capacity; i++)
		check(i % 10 == 0 ||
			  take_out(&fixture, SJ_LEFT, i, i * USECS_PER_SEC / 100, i + 1,
					   i % 100), "a row is taken out");
	test_check_state(fixture.engine);
	check(rows_in_state(&fixture) == (uint64) (capacity + 9) / 10,
		  "every tenth row is left");
	check(figures(&fixture).timers == rows_in_state(&fixture),
		  "each of them has a deadline");

	/* rows do not move inside a batch */
	fixture.seq = capacity;
	while (insert(&fixture, SJ_LEFT, n, n * USECS_PER_SEC / 100,
				  n % 100) == SJ_INSERTED)
		n++;
	check(n - capacity < capacity / 20, "no room within the batch");
	end_batch(&fixture);
	while (insert(&fixture, SJ_LEFT, n, n * USECS_PER_SEC / 100,
				  n % 100) == SJ_INSERTED)
	{
		n++;
		more++;
	}
	check(more > capacity * 8 / 10, "the room is there in the next batch");
	test_check_state(fixture.engine);

	/* those that moved are still found, and have their deadlines */
	for (int64 i = 0; i < capacity; i += 10)
		check(take_out(&fixture, SJ_LEFT, i, i * USECS_PER_SEC / 100, i + 1,
					   i % 100), "a row that moved is taken out");
	end_batch(&fixture);
	advance_to(&fixture, 100000 * MINUTE);
	check(figures(&fixture).unmatched == (uint64) (n - capacity),
		  "the rows that are left are written unmatched");
	check(fixture.arena->nused == 1, "only the root is left");
	tear_down(&fixture);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sj_test_engine_churn);

/*
 * A few rows that change all the time: neither their room nor their deadlines
 * pile up, and they are counted once.
 */
Datum
sj_test_engine_churn(PG_FUNCTION_ARGS)
{
	int32		n = PG_GETARG_INT32(0);
	Fixture		fixture;
	SjEvent		old;
	SjEvent		new;
	TestTuple  *from = test_tuple(true, 1, 1, 300);
	TestTuple  *to = test_tuple(true, 1, 2, 300);
	bool		removed;

	set_up(&fixture, 40, true);
	test_event(&fixture.test, &old, SJ_LEFT, 0, from);
	test_event(&fixture.test, &new, SJ_LEFT, 0, to);
	new.event_time = MINUTE;
	check(sj_engine_insert(fixture.engine, &old) == SJ_INSERTED, "a row");
	check(insert(&fixture, SJ_RIGHT, 1, MINUTE, 0) == SJ_INSERTED, "partner");
	for (int i = 0; i < n; i++)
	{
		SjEvent		swap = old;

		check(sj_engine_replace(fixture.engine, &old, &new,
								&removed) == SJ_INSERTED && removed,
			  "the row is replaced");
		old = new;
		new = swap;
		if (i % 7 == 0)
			sj_engine_end_step(fixture.engine);
		if (i % 50 == 0)
			end_batch(&fixture);
		CHECK_FOR_INTERRUPTS();
	}
	end_batch(&fixture);
	check(rows_in_state(&fixture) == 2, "there are as many rows as before");
	check(figures(&fixture).matched[SJ_LEFT] == 1, "it is matched once");
	check(figures(&fixture).timers <= 1, "it has one deadline at most");
	check(fixture.arena->nused < 15, "there is no more room taken");

	check(sj_engine_replace(fixture.engine, &old, NULL,
							&removed) == SJ_INSERTED && removed,
		  "the row is taken out");
	check(!sj_engine_has(fixture.engine, &old), "it is not there any more");
	end_batch(&fixture);
	check(rows_in_state(&fixture) == 1, "its partner is left");
	check(take_out(&fixture, SJ_RIGHT, 1, MINUTE, 1, 0), "the partner, too");
	end_batch(&fixture);
	check(fixture.arena->nused == 1, "without rows only the root is left");
	tear_down(&fixture);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sj_test_engine_keyless);

/* Rows without a key: never with those that have one, whatever the hash. */
Datum
sj_test_engine_keyless(PG_FUNCTION_ARGS)
{
	Fixture		fixture;
	SjEvent		keyless;
	SjEvent		keyed;
	SjEvent		other;
	bool		removed;
	int64		nchanges;

	set_up(&fixture, 40, true);
	test_event(&fixture.test, &keyless, SJ_LEFT, 0, test_tuple(false, 1, 1, 0));
	test_event(&fixture.test, &keyed, SJ_LEFT, 0, test_tuple(true, 1, 2, 0));
	test_event(&fixture.test, &other, SJ_RIGHT, 0, test_tuple(true, 1, 3, 0));
	keyed.hash = other.hash = sj_event_hash(&keyless);
	check(sj_engine_insert(fixture.engine, &keyless) == SJ_INSERTED, "NULL");
	check(sj_engine_insert(fixture.engine, &keyed) == SJ_INSERTED, "key");
	check(sj_engine_insert(fixture.engine, &other) == SJ_INSERTED, "partner");
	test_check_state(fixture.engine);
	check(figures(&fixture).keys == 2, "two entries");
	sj_engine_changes(fixture.engine, &nchanges);
	check(nchanges == 1, "one pair");

	check(sj_engine_replace(fixture.engine, &keyless, &keyed,
							&removed) == SJ_INSERTED && removed,
		  "NULL becomes a key");
	sj_engine_end_step(fixture.engine);
	sj_engine_changes(fixture.engine, &nchanges);
	check(nchanges == 2, "two pairs");
	check(!sj_engine_has(fixture.engine, &keyless), "there is no NULL left");
	check(sj_engine_replace(fixture.engine, &keyed, &keyless,
							&removed) == SJ_INSERTED && removed,
		  "and back");
	check(figures(&fixture).keys == 2, "two entries again");

	/* the right side is not padded: nothing of it is kept */
	other.has_key = false;
	check(sj_engine_insert(fixture.engine, &other) == SJ_INSERTED, "accepted");
	check(figures(&fixture).rows[SJ_RIGHT] == 1, "but not kept");
	check(sj_engine_replace(fixture.engine, &other, NULL,
							&removed) == SJ_INSERTED && removed,
		  "and taken out");
	end_batch(&fixture);
	advance_to(&fixture, 60 * MINUTE);
	check(!sj_engine_has(fixture.engine, &other), "but not when it is settled");
	check(sj_engine_replace(fixture.engine, &other, NULL,
							&removed) == SJ_INSERTED && !removed,
		  "nor taken out");
	check(fixture.arena->nused == 1, "only the root is left");
	tear_down(&fixture);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sj_test_engine_steps);

/* What a step says of a pair whose rows change, from step to step. */
Datum
sj_test_engine_steps(PG_FUNCTION_ARGS)
{
	Fixture		fixture;
	SjEvent		a;
	SjEvent		b;
	SjEvent		c;
	bool		removed;
	int64		n;
	const SjChange *changes;

	set_up(&fixture, 40, true);
	test_event(&fixture.test, &a, SJ_LEFT, 0, test_tuple(true, 1, 1, 0));
	test_event(&fixture.test, &b, SJ_LEFT, 0, test_tuple(true, 1, 2, 0));
	test_event(&fixture.test, &c, SJ_RIGHT, 0, test_tuple(true, 1, 9, 0));

	/* step 0: the pair, of the second version; nothing of the first */
	sj_engine_insert(fixture.engine, &a);
	sj_engine_insert(fixture.engine, &c);
	sj_engine_replace(fixture.engine, &a, &b, &removed);
	sj_engine_end_step(fixture.engine);
	/* no step: there and back */
	sj_engine_replace(fixture.engine, &b, &a, &removed);
	sj_engine_replace(fixture.engine, &a, &b, &removed);
	sj_engine_end_step(fixture.engine);
	/* step 1: an update */
	sj_engine_replace(fixture.engine, &b, &a, &removed);
	sj_engine_end_step(fixture.engine);
	/* step 2: both rows go, and come again as others */
	sj_engine_replace(fixture.engine, &c, NULL, &removed);
	sj_engine_replace(fixture.engine, &a, NULL, &removed);
	sj_engine_insert(fixture.engine, &b);
	sj_engine_insert(fixture.engine, &c);
	sj_engine_end_step(fixture.engine);

	changes = sj_engine_changes(fixture.engine, &n);
	check(n == 5, "five changes");
	check(changes[0].step == 0 && changes[0].sign == 1 && !changes[0].update &&
		  changes[0].left->seq == 1, "the pair is written");
	check(changes[1].step == 1 && changes[1].sign == -1 && changes[1].update &&
		  changes[2].step == 1 && changes[2].sign == 1 && changes[2].update &&
		  changes[1].left->seq == 1 && changes[2].left->seq == 1 &&
		  changes[1].left != changes[2].left &&
		  changes[1].right == changes[2].right, "it is updated");
	check(changes[3].step == 2 && changes[3].sign == -1 &&
		  !changes[3].update && changes[3].left->seq == 1,
		  "it is taken back");
	check(changes[4].step == 2 && changes[4].sign == 1 &&
		  !changes[4].update && changes[4].left->seq == 2,
		  "another is written");
	end_batch(&fixture);
	advance_to(&fixture, 60 * MINUTE);
	tear_down(&fixture);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sj_test_engine_large_rows);

/* A row of many pages gives them back with the batch in which it goes. */
Datum
sj_test_engine_large_rows(PG_FUNCTION_ARGS)
{
	Fixture		fixture;

	set_up(&fixture, 40, true);
	check(insert(&fixture, SJ_LEFT, 1, 0, 10 * SJ_PAGE_SIZE) == SJ_INSERTED,
		  "a large row");
	check(insert(&fixture, SJ_LEFT, 2, 0, 100) == SJ_INSERTED, "a small one");
	check(take_out(&fixture, SJ_LEFT, 1, 0, 1, 10 * SJ_PAGE_SIZE),
		  "the large one goes");
	check(fixture.arena->nused > 10, "its pages are needed for the batch");
	end_batch(&fixture);
	check(fixture.arena->nused < 10, "and not after it");
	advance_to(&fixture, 60 * MINUTE);
	check(fixture.arena->nused == 1, "only the root is left");
	tear_down(&fixture);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sj_test_engine_deadlines);

/*
 * Rows that all have the same partner lose it: their deadlines need memory, or
 * nothing happens.  Deadlines of rows that are taken out do not stay.
 */
Datum
sj_test_engine_deadlines(PG_FUNCTION_ARGS)
{
	int32		n = PG_GETARG_INT32(0);
	Fixture		fixture;
	SjEvent		partner;
	bool		removed;
	int64		truncated = 0;

	set_up(&fixture, 100 + n / 100, true);
	test_event(&fixture.test, &partner, SJ_RIGHT, 5 * MINUTE,
			   test_tuple(true, 1, 0, 0));
	check(sj_engine_insert(fixture.engine, &partner) == SJ_INSERTED, "one");
	for (int i = 0; i < n; i++)
		check(insert(&fixture, SJ_LEFT, 1, (i * 7919) % (5 * MINUTE),
					 0) == SJ_INSERTED, "and many");
	check(figures(&fixture).timers == 0, "no row waits");
	end_batch(&fixture);

	fixture.arena->limit = fixture.arena->nused;
	check(sj_engine_replace(fixture.engine, &partner, NULL,
							&removed) == SJ_NO_MEMORY && !removed,
		  "it cannot be taken out");
	check(sj_engine_truncate(fixture.engine, SJ_RIGHT, InvalidOid,
							 &truncated) == SJ_NO_MEMORY && truncated == 0,
		  "nor truncated");
	check(sj_engine_has(fixture.engine, &partner), "it is still there");
	test_check_state(fixture.engine);
	fixture.arena->limit = fixture.arena->npages;
	check(sj_engine_truncate(fixture.engine, SJ_RIGHT, InvalidOid,
							 &truncated) == SJ_INSERTED && truncated == 1,
		  "with memory it goes");
	check(figures(&fixture).timers == (uint64) n, "all rows wait");
	end_batch(&fixture);

	for (int i = 0; i < n; i++)
		if (i % 3 != 0)
			check(take_out(&fixture, SJ_LEFT, 1, (i * 7919) % (5 * MINUTE),
						   i + 1, 0), "a row is taken out");
	end_batch(&fixture);
	check(fixture.engine->root->ndead_timers == 0, "no deadline is left over");
	check(figures(&fixture).timers == (uint64) (n + 2) / 3, "the others wait");
	advance_to(&fixture, 60 * MINUTE);
	check(figures(&fixture).unmatched == (uint64) (n + 2) / 3,
		  "and are written unmatched");
	check(fixture.arena->nused == 1, "only the root is left");
	tear_down(&fixture);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sj_test_engine_detached);

/* A row that its table has no more goes on joining and is not found again. */
Datum
sj_test_engine_detached(PG_FUNCTION_ARGS)
{
	Fixture		fixture;
	SjEvent		event;
	TestTuple  *tuple = test_tuple(true, 1, 1, 0);
	int64		n;

	set_up(&fixture, 40, true);
	test_event(&fixture.test, &event, SJ_LEFT, MINUTE, tuple);
	for (event.seq = 1; event.seq <= 2; event.seq++)
		check(sj_engine_insert(fixture.engine, &event) == SJ_INSERTED,
			  "two equal rows");
	sj_engine_detach(fixture.engine, &event);
	check(sj_engine_has(fixture.engine, &event), "one is still its table's");
	sj_engine_detach(fixture.engine, &event);
	check(!sj_engine_has(fixture.engine, &event), "none is");
	sj_engine_detach(fixture.engine, &event);
	check(rows_in_state(&fixture) == 2, "both are in state");

	fixture.seq = 10;
	check(insert(&fixture, SJ_RIGHT, 1, MINUTE, 0) == SJ_INSERTED, "partner");
	sj_engine_end_step(fixture.engine);
	(void) sj_engine_changes(fixture.engine, &n);
	check(n == 2, "both are joined");
	sj_engine_end_batch(fixture.engine);
	test_check_state(fixture.engine);
	tear_down(&fixture);
	PG_RETURN_VOID();
}
