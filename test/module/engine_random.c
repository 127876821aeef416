/*-------------------------------------------------------------------------
 *
 * engine_random.c
 *	  Random joins: the engine against the reference, after every step.
 *
 * On the way insertions are made to fail and are tried again, the state moves
 * to other addresses and is carried into new pages.
 *
 * IDENTIFICATION
 *	  test/module/engine_random.c
 *
 *-------------------------------------------------------------------------
 */
#include "test_engine.h"

#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#define ARENA_PAGES 300

typedef struct Round
{
	uint64		seed;
	pg_prng_state prng;
	TestOperator test;
	TestArena  *arena;
	SjEngine   *engine;
	Reference  *ref;
	RefPairs	published;		/* result at the end of the last batch */
	int64		scale;			/* usec a tick */
	SjTime		now;			/* in ticks */
	int			nkeys;
	bool		self_join;
	bool		large_rows;
	int64		seq;
	int64		ninserted;
} Round;

static int64
pick(Round *round, int64 from, int64 to)
{
	return from + (int64) pg_prng_uint64_range(&round->prng, 0, to - from);
}

static bool
chance(Round *round, int percent)
{
	return pick(round, 1, 100) <= percent;
}

/* ----- what the join is ----- */

static void
pick_bounds(Round *round)
{
	SjBounds   *bounds = &round->test.bounds;
	int64		a = pick(round, -8, 8);
	int64		b = pick(round, -8, 8);

	bounds->lower.known = !chance(round, 7);
	bounds->upper.known = !chance(round, 7);
	bounds->lower.usec = Min(a, b) * round->scale;
	bounds->upper.usec = Max(a, b) * round->scale;
	for (int side = 0; side < 2; side++)
	{
		if (chance(round, 25))
			bounds->timeout[side] = pick(round, 0, 10) * round->scale;
		round->test.op.reach[side] = sj_bounds_keep(bounds, side);
	}
}

static void
pick_operator(Round *round)
{
	static const int64 scales[] = {1, 100000, 1 << 20, 7000000,
	INT64CONST(3600000000)};
	SjOperator *op = &round->test.op;

	test_operator_init(&round->test);
	round->scale = scales[pick(round, 0, lengthof(scales) - 1)];
	pick_bounds(round);
	for (int side = 0; side < 2; side++)
	{
		op->pad[side] = chance(round, 60);
		op->delay[side] = chance(round, 50) ? 0 :
			pick(round, 0, 4) * round->scale;
		round->test.at_once[side] = chance(round, 10);
	}
	op->final = chance(round, 25);
	op->allowed_lateness = chance(round, 5) ? PG_INT64_MAX :
		chance(round, 40) ? 0 : pick(round, 0, 8) * round->scale;
	round->test.verdicts = chance(round, 60) ? 0 : pick(round, 1, 4);
	if (round->test.verdicts == 0 && chance(round, 50))
		op->verdict = NULL;
	round->test.hash_mask = chance(round, 30) ? pick(round, 0, 1) :
		PG_UINT32_MAX;
	round->nkeys = pick(round, 1, 4);
	round->self_join = chance(round, 10);
	round->large_rows = chance(round, 3);
}

/* ----- results ----- */

static void
complain(const Round *round, const char *what, const RefPair *pair)
{
	elog(ERROR, "seed " UINT64_FORMAT ": %s (" INT64_FORMAT ", "
		 INT64_FORMAT ")", round->seed, what, pair->left, pair->right);
}

static RefPair
pair_of(const SjChange *change)
{
	RefPair		pair = {0, 0};

	if (change->left != NULL)
	{
		test_check_row(change->left);
		pair.left = change->left->seq;
	}
	if (change->right != NULL)
	{
		test_check_row(change->right);
		pair.right = change->right->seq;
	}
	return pair;
}

/* The published result with the changes of the batch so far. */
static void
current_result(Round *round, RefPairs *result)
{
	RefPairs	deleted = {NULL, 0, 0};
	int64		nchanges;
	const SjChange *changes = sj_engine_changes(round->engine, &nchanges);
	int			n = 0;
	int			d = 0;

	for (int i = 0; i < round->published.n; i++)
		pairs_add(result, round->published.pair[i].left,
				  round->published.pair[i].right);
	for (int64 i = 0; i < nchanges; i++)
	{
		RefPair		pair = pair_of(&changes[i]);

		pairs_add(changes[i].sign > 0 ? result : &deleted, pair.left,
				  pair.right);
	}
	pairs_sort(result);
	pairs_sort(&deleted);

	/* take out what is deleted; it was published, and is not written again */
	for (int i = 0; i < result->n; i++)
	{
		if (i > 0 && pairs_compare(&result->pair[i], &result->pair[i - 1]) == 0)
			complain(round, "written twice", &result->pair[i]);
	}
	for (int i = 0; i < result->n; i++)
	{
		if (d < deleted.n &&
			pairs_compare(&result->pair[i], &deleted.pair[d]) == 0)
			d++;
		else
			result->pair[n++] = result->pair[i];
	}
	if (d < deleted.n)
		complain(round, "deleted but not there", &deleted.pair[d]);
	result->n = n;
}

static void
compare_clocks(Round *round)
{
	const SjClock *clock = sj_engine_clock(round->engine);

	if (memcmp(clock, &round->ref->clock, sizeof(SjClock)) != 0)
		elog(ERROR, "seed " UINT64_FORMAT ": watermark is " INT64_FORMAT
			 ", should be " INT64_FORMAT, round->seed, clock->watermark,
			 round->ref->clock.watermark);
}

/* Compares engine and reference; leaves the result in 'got'. */
static void
compare(Round *round, RefPairs *got)
{
	RefPairs	expected = {NULL, 0, 0};

	compare_clocks(round);
	reference_result(round->ref, &expected);
	current_result(round, got);
	for (int i = 0; i < Max(got->n, expected.n); i++)
	{
		int			sign = i >= got->n ? 1 : i >= expected.n ? -1 :
			pairs_compare(&got->pair[i], &expected.pair[i]);

		if (sign < 0)
			complain(round, "should not be there", &got->pair[i]);
		if (sign > 0)
			complain(round, "missing", &expected.pair[i]);
	}
}

/* ----- insertions, and those that fail ----- */

static void
check_unchanged(Round *round, const SjEngineStats *before, int64 nchanges)
{
	SjEngineStats after;
	int64		n;

	sj_engine_stats(round->engine, &after);
	after.pages = before->pages;	/* may have got pages in advance */
	sj_engine_changes(round->engine, &n);
	if (memcmp(before, &after, sizeof(after)) != 0 || n != nchanges)
		elog(ERROR, "seed " UINT64_FORMAT ": a failed insertion left traces",
			 round->seed);
	test_check_state(round->engine);
}

/* Tries an insertion whose callbacks throw sooner or later. */
static bool
insert_throwing(Round *round, const SjEvent *event, SjInsertResult *result)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool done = true;

	round->test.throw_after = pick(round, 1, 4);
	PG_TRY();
	{
		*result = sj_engine_insert(round->engine, event);
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

static SjInsertResult
insert_event(Round *round, const SjEvent *event)
{
	SjEngineStats before;
	SjInsertResult result;
	int64		nchanges;

	sj_engine_stats(round->engine, &before);
	sj_engine_changes(round->engine, &nchanges);
	if (chance(round, 15))
	{
		if (insert_throwing(round, event, &result))
			return result;
		check_unchanged(round, &before, nchanges);
	}

	if (chance(round, 30))
		round->arena->limit = round->arena->nused + pick(round, 0, 2);
	result = sj_engine_insert(round->engine, event);
	round->arena->limit = round->arena->npages;
	if (result != SJ_NO_MEMORY)
		return result;
	check_unchanged(round, &before, nchanges);
	return sj_engine_insert(round->engine, event);
}

static void
insert_row(Round *round, const RefRow *row, bool moves_watermark)
{
	uint32		filler = pick(round, 0, 40);
	SjEvent		event;
	SjInsertResult result;
	TestTuple  *tuple;
	bool		accepted;

	if (round->large_rows && chance(round, 20))
		filler = pick(round, 1000, 200000);
	tuple = test_tuple(row->has_key, row->key, row->seq, filler);
	test_event(&round->test, &event, row->side, row->event_time, tuple);

	accepted = reference_insert(round->ref, row, moves_watermark);
	result = insert_event(round, &event);
	sj_engine_saw(round->engine, row->side, row->event_time, moves_watermark);
	if (result != (accepted ? SJ_INSERTED : SJ_LATE))
		elog(ERROR, "seed " UINT64_FORMAT ": insertion says %d", round->seed,
			 (int) result);
	round->ninserted++;
	pfree(tuple);
}

/* ----- steps ----- */

static void
random_row(Round *round)
{
	RefRow		row;
	bool		moves = !chance(round, 5);

	row.has_key = !chance(round, 8);
	row.key = pick(round, 1, round->nkeys);
	row.seq = ++round->seq;
	row.event_time = (round->now + pick(round, -10, 3)) * round->scale;
	if (chance(round, 20))
		row.event_time += pick(round, -1, 1);
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

static void
advance(Round *round, SjSide side, SjTime watermark)
{
	sj_engine_advance(round->engine, side, watermark);
	reference_advance(round->ref, side, watermark);
}

static void
random_advance(Round *round)
{
	SjSide		side = chance(round, 50) ? SJ_LEFT : SJ_RIGHT;
	SjTime		newest = round->ref->clock.max_event_time[side];

	if (chance(round, 20) && round->ref->nseen == 0 && newest != SJ_TIME_MIN)
	{
		sj_engine_advance(round->engine, side, SJ_TIME_MIN);
		reference_advance(round->ref, side, newest);
	}
	else
		advance(round, side, (round->now + pick(round, -8, 8)) * round->scale);
}

static void
end_step(Round *round, RefPairs *result)
{
	int64		before;
	int64		after;
	bool		told;
	SjClock		clock = *sj_engine_clock(round->engine);

	sj_engine_changes(round->engine, &before);
	told = sj_engine_end_step(round->engine);
	reference_end_step(round->ref);
	sj_engine_changes(round->engine, &after);
	if (!told && (before != after ||
				  memcmp(&clock, sj_engine_clock(round->engine),
						 sizeof(SjClock)) != 0))
		elog(ERROR, "seed " UINT64_FORMAT ": a step was not told of",
			 round->seed);
	compare(round, result);
	test_check_state(round->engine);
}

static void
random_step(Round *round, RefPairs *result)
{
	if (chance(round, 10))
		random_advance(round);
	else if (chance(round, 4))
	{
		int64		lateness = pick(round, 0, 8) * round->scale;

		sj_engine_set_lateness(round->engine, lateness);
		round->ref->allowed_lateness = lateness;
	}
	else
	{
		for (int64 n = pick(round, 0, 6); n > 0; n--)
			random_row(round);
		if (chance(round, 5))
			random_advance(round);
	}
	end_step(round, result);
	round->now += pick(round, 0, chance(round, 10) ? 100 : 4);
}

/* ----- other processes, other pages ----- */

static void
restore_row(void *arg, const SjRow *row)
{
	Round	   *round = arg;
	SjEvent		event;

	test_event(&round->test, &event, row->side, row->event_time,
			   (TestTuple *) SJ_ROW_TUPLE(row));
	event.due = row->due;
	event.expires = row->expires;
	if (sj_engine_restore(round->engine, &event, row->degree,
						  row->padded) != SJ_INSERTED)
		elog(ERROR, "seed " UINT64_FORMAT ": row cannot be restored",
			 round->seed);
}

/* Carries the state forward into a new one. */
static void
carry_forward(Round *round)
{
	SjEngine   *old = round->engine;
	SjClock		clock = *sj_engine_clock(old);
	SjEngineStats a;
	SjEngineStats b;

	round->test.op.allowed_lateness = round->ref->allowed_lateness;
	round->engine = sj_engine_create(&round->arena->arena, &round->test.op,
									 &clock);
	sj_engine_walk(old, restore_row, round);
	sj_engine_stats(old, &a);
	sj_engine_stats(round->engine, &b);
	if (a.rows[0] != b.rows[0] || a.rows[1] != b.rows[1] || a.keys != b.keys)
		elog(ERROR, "seed " UINT64_FORMAT ": restored state differs",
			 round->seed);
	sj_engine_destroy(old);
	test_check_state(round->engine);
}

static void
move_state(Round *round)
{
	uint32		root = sj_engine_root(round->engine);

	test_arena_move(round->arena);
	round->engine = sj_engine_attach(&round->arena->arena, &round->test.op,
									 root);
}

static void
end_batch(Round *round, RefPairs *result)
{
	SjEngineStats stats;

	round->published.n = 0;
	for (int i = 0; i < result->n; i++)
		pairs_add(&round->published, result->pair[i].left,
				  result->pair[i].right);
	sj_engine_end_batch(round->engine);
	test_check_state(round->engine);
	sj_engine_stats(round->engine, &stats);
	if (stats.pages != round->arena->nused)
		elog(ERROR, "seed " UINT64_FORMAT ": pages are miscounted",
			 round->seed);
	if (chance(round, 5))
		move_state(round);
	if (chance(round, 5))
		carry_forward(round);
}

/* After a far watermark nothing may be left but the root page. */
static void
finish(Round *round, RefPairs *result)
{
	const SjBounds *bounds = &round->test.bounds;
	SjEngineStats stats;

	sj_engine_set_lateness(round->engine, 0);
	round->ref->allowed_lateness = 0;
	result->n = 0;
	for (int side = 0; side < 2; side++)
		advance(round, side, (round->now + 1000) * round->scale);
	end_step(round, result);
	end_batch(round, result);
	sj_engine_stats(round->engine, &stats);
	if (bounds->lower.known && bounds->upper.known &&
		(stats.rows[0] + stats.rows[1] + stats.keys + stats.timers != 0 ||
		 stats.pages != 1))
		elog(ERROR, "seed " UINT64_FORMAT ": state is not empty at the end",
			 round->seed);
	sj_engine_destroy(round->engine);
	test_arena_free(round->arena);
}

static int64
run_round(uint64 seed)
{
	Round		round;
	RefPairs	result = {NULL, 0, 0};

	memset(&round, 0, sizeof(round));
	round.seed = seed;
	pg_prng_seed(&round.prng, seed);
	pick_operator(&round);
	round.now = chance(&round, 30) ? pick(&round, -30, 0) : 20;
	round.arena = test_arena_create(ARENA_PAGES);
	round.engine = sj_engine_create(&round.arena->arena, &round.test.op, NULL);
	round.ref = reference_create(&round.test);

	for (int64 n = pick(&round, 2, 40); n > 0; n--)
	{
		result.n = 0;
		random_step(&round, &result);
		if (chance(&round, 50))
			end_batch(&round, &result);
	}
	finish(&round, &result);
	return round.ninserted;
}

PG_FUNCTION_INFO_V1(sj_test_engine_random);

Datum
sj_test_engine_random(PG_FUNCTION_ARGS)
{
	int64		seed = PG_GETARG_INT64(0);
	int32		rounds = PG_GETARG_INT32(1);
	int64		ninserted = 0;
	MemoryContext context;
	MemoryContext caller;

	context = AllocSetContextCreate(CurrentMemoryContext, "engine test",
									ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(context);
	for (int32 i = 0; i < rounds; i++)
	{
		ninserted += run_round(seed + i);
		MemoryContextReset(context);
		CHECK_FOR_INTERRUPTS();
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
	PG_RETURN_INT64(ninserted);
}
