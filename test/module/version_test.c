/*-------------------------------------------------------------------------
 *
 * version_test.c
 *	  Single properties of the engine where a side has an upsert key.
 *
 * IDENTIFICATION
 *	  test/module/version_test.c
 *
 *-------------------------------------------------------------------------
 */
#include "test_fixture.h"

#include "engine/state.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"

/* A left join over 0 .. 5 minutes whose left rows are versions. */
static void
set_up_versions(Fixture *fixture, uint32 npages)
{
	set_up(fixture, npages, true);
	fixture->test.op.upsert[SJ_LEFT] = true;
	fixture->test.op.replaces = 5 * MINUTE;
	fixture->test.op.reach[SJ_LEFT] += 5 * MINUTE;
	fixture->test.op.reach[SJ_RIGHT] += 5 * MINUTE;
	/* the fixture's engine has the slices of another operator */
	sj_engine_destroy(fixture->engine);
	fixture->engine = sj_engine_create(&fixture->arena->arena,
									   &fixture->test.op, NULL);
}

static void
version_event(Fixture *fixture, SjEvent *event, int64 key, int64 entity,
			  SjTime event_time, int64 image)
{
	TestTuple  *tuple = test_tuple(true, key, image, 0);

	tuple->entity = entity;
	test_event(&fixture->test, event, SJ_LEFT, event_time, tuple);
}

static SjInsertResult
insert_version(Fixture *fixture, int64 key, int64 entity, SjTime event_time,
			   int64 image)
{
	SjEvent		event;
	SjInsertResult result;

	version_event(fixture, &event, key, entity, event_time, image);
	result = sj_engine_insert(fixture->engine, &event);
	pfree(event.tuple);
	CHECK_FOR_INTERRUPTS();
	return result;
}

/* "+left/right -left/right ...": the changes of the batch. */
static char *
changes_text(Fixture *fixture)
{
	StringInfoData buf;
	int64		n;
	const SjChange *changes = sj_engine_changes(fixture->engine, &n);

	initStringInfo(&buf);
	for (int64 i = 0; i < n; i++)
		appendStringInfo(&buf, "%s%c" INT64_FORMAT "/" INT64_FORMAT,
						 i > 0 ? " " : "", changes[i].sign > 0 ? '+' : '-',
						 changes[i].left ? changes[i].left->seq : 0,
						 changes[i].right ? changes[i].right->seq : 0);
	return buf.data;
}

/* "+seq -seq ...": what became of versions. */
static char *
replaced_text(Fixture *fixture)
{
	StringInfoData buf;
	int64		n;
	const SjReplaced *replaced = sj_engine_replaced(fixture->engine, &n);

	initStringInfo(&buf);
	for (int64 i = 0; i < n; i++)
		appendStringInfo(&buf, "%s%c" INT64_FORMAT, i > 0 ? " " : "",
						 replaced[i].sign > 0 ? '+' : '-',
						 replaced[i].row->seq);
	return buf.data;
}

static void
check_batch(Fixture *fixture, const char *changes, const char *replaced)
{
	sj_engine_end_step(fixture->engine);
	if (strcmp(changes_text(fixture), changes) != 0)
		elog(ERROR, "changes are \"%s\", should be \"%s\"",
			 changes_text(fixture), changes);
	if (strcmp(replaced_text(fixture), replaced) != 0)
		elog(ERROR, "replaced are \"%s\", should be \"%s\"",
			 replaced_text(fixture), replaced);
	test_check_state(fixture->engine);
	sj_engine_end_batch(fixture->engine);
	test_check_state(fixture->engine);
}

PG_FUNCTION_INFO_V1(sj_test_engine_versions);

/* Versions of one entity, under two join keys, step by step. */
Datum
sj_test_engine_versions(PG_FUNCTION_ARGS)
{
	Fixture		fixture;
	SjEvent		old;
	SjEvent		new;
	SjEngineStats stats;
	bool		removed;

	set_up_versions(&fixture, 40);
	insert(&fixture, SJ_RIGHT, 1, 2 * MINUTE, 0);	/* seq 1 */
	insert(&fixture, SJ_RIGHT, 2, 2 * MINUTE, 0);	/* seq 2 */
	insert_version(&fixture, 1, 7, 0, 10);
	check_batch(&fixture, "+10/1", "");
	insert_version(&fixture, 2, 7, MINUTE, 11);
	check_batch(&fixture, "-10/1 +11/2", "+10");
	insert_version(&fixture, 1, 7, MINUTE / 2, 12);
	check_batch(&fixture, "", "+12");
	insert_version(&fixture, 1, 8, MINUTE / 2, 13);
	check_batch(&fixture, "+13/1", "");

	/* the newest moves to another join key, and keeps its identity */
	version_event(&fixture, &old, 2, 7, MINUTE, 11);
	version_event(&fixture, &new, 1, 7, 2 * MINUTE, 14);
	check(sj_engine_replace(fixture.engine, &old, &new,
							&removed) == SJ_INSERTED && removed, "it moves");
	check_batch(&fixture, "-11/2 +11/1", "");

	/* one that is replaced goes, and is not found again */
	version_event(&fixture, &old, 1, 7, MINUTE / 2, 12);
	check(sj_engine_has(fixture.engine, &old), "it is there");
	sj_engine_replace(fixture.engine, &old, NULL, &removed);
	check(removed && !sj_engine_has(fixture.engine, &old), "it is gone");
	check_batch(&fixture, "", "-12");

	/* the newest goes: none comes back, and it goes on replacing */
	sj_engine_replace(fixture.engine, &new, NULL, &removed);
	insert_version(&fixture, 1, 7, 2 * MINUTE - 1, 15);
	check_batch(&fixture, "-11/1", "+15");

	/* an equal time: the greater version counts; just out of reach: both */
	insert_version(&fixture, 1, 8, MINUTE / 2, 16);
	insert_version(&fixture, 1, 8, 5 * MINUTE + MINUTE / 2 + 1, 17);
	check_batch(&fixture, "-13/1 +16/1", "+13");

	sj_engine_stats(fixture.engine, &stats);
	check(stats.keys == 2, "two join keys");
	advance_to(&fixture, 60 * MINUTE);
	check(fixture.arena->nused == 1, "only the root is left");
	tear_down(&fixture);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sj_test_engine_version_memory);

/*
 * Many versions with one partner: to be replaced needs memory for the deadline
 * of none, to go for that of the partner; without memory nothing happens.
 */
Datum
sj_test_engine_version_memory(PG_FUNCTION_ARGS)
{
	int32		n = PG_GETARG_INT32(0);
	Fixture		fixture;
	SjEngineStats before;
	SjEngineStats after;
	SjInsertResult result = SJ_INSERTED;
	int			i;

	set_up_versions(&fixture, 60 + n / 100);
	fixture.test.op.pad[SJ_RIGHT] = true;
	insert(&fixture, SJ_RIGHT, 1, 5 * MINUTE, 0);
	for (i = 0; i < n; i++)
		check(insert_version(&fixture, 1, 1 + i % 100, (i * 7919) % (5 * MINUTE),
							 10 + i) == SJ_INSERTED, "a version");
	sj_engine_end_step(fixture.engine);
	sj_engine_end_batch(fixture.engine);
	test_check_state(fixture.engine);

	fixture.arena->limit = fixture.arena->nused;
	for (i = n; result == SJ_INSERTED; i++)
	{
		sj_engine_stats(fixture.engine, &before);
		result = insert_version(&fixture, 1, 1 + i % 100, 5 * MINUTE, 10 + i);
	}
	check(result == SJ_NO_MEMORY, "the arena is full");
	sj_engine_stats(fixture.engine, &after);
	after.pages = before.pages;
	check(memcmp(&before, &after, sizeof(after)) == 0, "nothing happened");
	test_check_state(fixture.engine);
	fixture.arena->limit = fixture.arena->npages;
	check(insert_version(&fixture, 1, 1 + (i - 1) % 100, 5 * MINUTE,
						 9 + i) == SJ_INSERTED, "with memory it does");
	sj_engine_end_step(fixture.engine);
	sj_engine_end_batch(fixture.engine);
	test_check_state(fixture.engine);
	advance_to(&fixture, 60 * MINUTE);
	check(fixture.arena->nused == 1, "only the root is left");
	tear_down(&fixture);
	PG_RETURN_VOID();
}
