/*-------------------------------------------------------------------------
 *
 * random_events.c
 *	  Random rows that come, change and go, for the engine and the reference.
 *
 * On the way calls are made to fail, by conditions that throw and by an arena
 * that has no more pages; they must leave no trace, and are made again.
 *
 * IDENTIFICATION
 *	  test/module/random_events.c
 *
 *-------------------------------------------------------------------------
 */
#include "engine_random.h"

/* ----- calls of the engine, and those that fail ----- */

/* An insertion, or (old set) a replacement. */
typedef struct Call
{
	const SjEvent *old;
	const SjEvent *new;
	bool		removed;
	SjInsertResult result;
} Call;

static void
make_call(Round *round, Call *call)
{
	if (call->old == NULL)
		call->result = sj_engine_insert(round->engine, call->new);
	else
		call->result = sj_engine_replace(round->engine, call->old, call->new,
										 &call->removed);
}

static void
check_unchanged(Round *round, const SjEngineStats *before, int64 nchanges)
{
	SjEngineStats after;
	int64		n;

	sj_engine_stats(round->engine, &after);
	after.pages = before->pages;	/* may have got pages in advance */
	sj_engine_changes(round->engine, &n);
	if (memcmp(before, &after, sizeof(after)) != 0 || n != nchanges)
		elog(ERROR, "seed " UINT64_FORMAT ": a failed call left traces",
			 round->seed);
	test_check_state(round->engine);
}

/* Tries a call whose callbacks throw sooner or later. */
static bool
call_throwing(Round *round, Call *call)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool done = true;

	round->test.throw_after = pick(round, 1, 6);
	PG_TRY();
	{
		make_call(round, call);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
		done = false;
	}
	PG_END_TRY();
	round->test.throw_after = 0;
	return done;
}

static void
call_engine(Round *round, Call *call)
{
	SjEngineStats before;
	int64		nchanges;

	sj_engine_stats(round->engine, &before);
	sj_engine_changes(round->engine, &nchanges);
	if (chance(round, 15))
	{
		if (call_throwing(round, call))
			return;
		check_unchanged(round, &before, nchanges);
	}

	if (chance(round, 30))
		round->arena->limit = round->arena->nused + pick(round, 0, 2);
	make_call(round, call);
	round->arena->limit = round->arena->npages;
	if (call->result != SJ_NO_MEMORY)
		return;
	check_unchanged(round, &before, nchanges);
	make_call(round, call);
}

/* ----- rows ----- */

/* Bytes that an image has, always the same. */
static uint32
filler_of(const Round *round, int64 image)
{
	pg_prng_state prng;

	pg_prng_seed(&prng, image);
	if (round->large_rows && pg_prng_uint64_range(&prng, 1, 5) == 1)
		return pg_prng_uint64_range(&prng, 1000, 200000);
	if (round->bulky)
		return pg_prng_uint64_range(&prng, 500, 20000);
	return pg_prng_uint64_range(&prng, 0, 40);
}

static void
event_of(Round *round, SjEvent *event, const RefRow *row)
{
	TestTuple  *tuple = test_tuple(row->has_key, row->key, row->image,
								   filler_of(round, row->image));

	tuple->noise = pick(round, 0, 1);
	tuple->entity = row->entity;
	test_event(&round->test, event, row->side, row->event_time, tuple);
	event->seq = row->seq;
	event->version = row->version;
	event->source = row->source;
}

static void
see(Round *round, const RefRow *row, bool moves_watermark)
{
	sj_engine_woke(round->engine, row->side);
	sj_engine_saw(round->engine, row->side, row->event_time, moves_watermark);
	reference_see(round->ref, row, moves_watermark);
}

static void
insert_row(Round *round, const RefRow *row, bool moves_watermark)
{
	SjEvent		event;
	Call		call = {NULL, &event, false, SJ_INSERTED};
	SjInsertResult expected = reference_insert(round->ref, row);

	event_of(round, &event, row);
	call_engine(round, &call);
	see(round, row, moves_watermark);
	if (call.result != expected)
		elog(ERROR, "seed " UINT64_FORMAT ": insertion says %d", round->seed,
			 (int) call.result);
	round->nevents++;
	pfree(event.tuple);
}

static void
replace_row(Round *round, const RefRow *old, const RefRow *new)
{
	SjEvent		old_event;
	SjEvent		new_event;
	Call		call = {&old_event, new ? &new_event : NULL, false,
	SJ_INSERTED};
	bool		has = reference_has(round->ref, old);
	SjInsertResult expected = reference_replace(round->ref, old, new);

	event_of(round, &old_event, old);
	if (new != NULL)
		event_of(round, &new_event, new);
	if (sj_engine_has(round->engine, &old_event) != has)
		elog(ERROR, "seed " UINT64_FORMAT ": it %s have row " INT64_FORMAT,
			 round->seed, has ? "should" : "should not", old->seq);
	call_engine(round, &call);
	if (new != NULL)
		see(round, new, true);
	if (call.result != expected || call.removed != has)
		elog(ERROR, "seed " UINT64_FORMAT ": replacement says %d",
			 round->seed, (int) call.result);
	round->nevents++;
	pfree(old_event.tuple);
	if (new != NULL)
		pfree(new_event.tuple);
}

static SjTime
random_time(Round *round)
{
	SjTime		event_time = (round->now + pick(round, -10, 3)) * round->scale;

	if (chance(round, 20))
		event_time += pick(round, -1, 1);
	return event_time;
}

static int64
random_image(Round *round)
{
	return round->nimages == 0 ? round->seq : pick(round, 1, round->nimages);
}

/* Of few, or NULL. */
static int64
random_entity(Round *round)
{
	return round->nentities == 0 ? 0 : pick(round, 0, round->nentities);
}

static void
random_row(Round *round)
{
	RefRow		row = {0};
	bool		moves = !chance(round, 5);

	row.has_key = !chance(round, 8);
	row.key = pick(round, 1, round->nkeys);
	row.seq = ++round->seq;
	row.version = row.seq;
	row.image = random_image(round);
	row.entity = random_entity(round);
	row.source = pick(round, 0, round->nsources - 1);
	row.event_time = random_time(round);
	if (!moves)
		row.event_time += pick(round, 0, 20) * round->scale;
	if (round->self_join)
	{
		row.side = SJ_LEFT;
		insert_row(round, &row, moves);
		row.side = SJ_RIGHT;
	}
	else
		row.side = chance(round, 50) ? SJ_LEFT : SJ_RIGHT;
	insert_row(round, &row, moves);
}

/* ----- changes ----- */

/* A row that was, mostly one that is; sometimes not quite it. */
static RefRow
random_old(Round *round)
{
	Reference  *ref = round->ref;
	RefRow		row;
	int			last = Min(ref->nrows - 1, 30);

	for (int i = 0; i < 4; i++)
	{
		row = ref->row[ref->nrows - 1 - (int) pick(round, 0, last)];
		if (!row.gone && row.event_time >= ref->clock.horizon)
			break;
	}
	if (chance(round, 8))
		row.image++;
	if (chance(round, 3))
		row.event_time++;
	if (chance(round, 3))
		row.source++;
	if (chance(round, 3))
		row.has_key = !row.has_key;
	if (chance(round, 3))
		row.entity = random_entity(round);
	return row;
}

/* What becomes of it: something moves, or nothing does. */
static RefRow
random_new(Round *round, const RefRow *old)
{
	RefRow		row = *old;

	row.gone = false;
	row.seq = ++round->seq;
	row.version = row.seq;
	if (chance(round, 20))
		row.entity = random_entity(round);
	if (chance(round, 60))
		row.image = random_image(round);
	if (chance(round, 30))
		row.key = pick(round, 1, round->nkeys);
	if (chance(round, 8))
		row.has_key = !row.has_key;
	if (chance(round, 30))
		row.event_time = random_time(round);
	row.source = chance(round, 20) ? pick(round, 0, round->nsources - 1) :
		old->source % round->nsources;
	return row;
}

static void
random_change(Round *round)
{
	RefRow		old = random_old(round);
	RefRow		new = random_new(round, &old);
	bool		deletion = chance(round, 40);

	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		if (!round->self_join && side != old.side)
			continue;
		if (round->self_join)
			old.side = new.side = side;
		replace_row(round, &old, deletion ? NULL : &new);
	}
}

/* Goes on after an error and after a refusal where it stopped. */
static void
random_truncation(Round *round)
{
	MemoryContext context = CurrentMemoryContext;
	SjSide		side = chance(round, 50) ? SJ_LEFT : SJ_RIGHT;
	Oid			source = pick(round, 0, round->nsources - 1);
	int64		expected = reference_truncate(round->ref, side, source);
	int64		removed = 0;

	round->test.throw_after = pick(round, 0, 10);
	PG_TRY();
	{
		(void) sj_engine_truncate(round->engine, side, source, &removed);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
		test_check_state(round->engine);
	}
	PG_END_TRY();
	round->test.throw_after = 0;

	round->arena->limit = round->arena->nused;
	if (sj_engine_truncate(round->engine, side, source,
						   &removed) == SJ_NO_MEMORY)
		test_check_state(round->engine);
	round->arena->limit = round->arena->npages;
	if (sj_engine_truncate(round->engine, side, source,
						   &removed) != SJ_INSERTED || removed != expected)
		elog(ERROR, "seed " UINT64_FORMAT ": " INT64_FORMAT
			 " rows truncated, should be " INT64_FORMAT, round->seed, removed,
			 expected);
}

/* A row that comes, changes or goes, or a truncation. */
void
random_event(Round *round)
{
	if (round->ref->nrows == 0 || !chance(round, round->changes))
		random_row(round);
	else if (chance(round, 3))
		random_truncation(round);
	else
		random_change(round);
}
