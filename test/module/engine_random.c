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
#include "engine_random.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#define ARENA_PAGES 300

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

/* Upsert keys on one side or both; versions reach as far as rows, mostly. */
static void
pick_upsert(Round *round)
{
	SjOperator *op = &round->test.op;
	const SjBounds *bounds = &round->test.bounds;

	if (!bounds->lower.known || !bounds->upper.known || chance(round, 50))
		return;
	op->upsert[SJ_LEFT] = chance(round, 70);
	op->upsert[SJ_RIGHT] = !op->upsert[SJ_LEFT] || chance(round, 30);
	op->replaces = chance(round, 80) ? sj_bounds_widest(bounds) :
		pick(round, 0, 20) * round->scale;
	round->nentities = pick(round, 1, 4);
	for (int side = 0; side < 2; side++)
		op->reach[side] += op->replaces;
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
	round->bulky = !round->large_rows && chance(round, 15);
	round->nimages = chance(round, 30) ? pick(round, 1, 5) : 0;
	round->nsources = chance(round, 50) ? 1 : 3;
	pick_upsert(round);
	round->idles = chance(round, 30);
	round->changes = chance(round, 25) ? 0 : pick(round, 5, 70);
}

/* ----- steps ----- */

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

/* Some inputs are found without rows. */
static void
random_quiet(Round *round)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		int64		quiet = pick(round, 0, 1000);
		SjIdleness	idle = (SjIdleness) pick(round, SJ_NOT_IDLE,
											 SJ_IDLE_IGNORED);
		int64		move = pick(round, 0, 10) * round->scale;

		int64		woken = sj_engine_clock(round->engine)->woken[side];

		if (chance(round, 30))
			continue;
		/* found before the last row came, or whenever */
		if (chance(round, 20))
		{
			sj_engine_quiet(round->engine, side, woken + 1 + chance(round, 50),
							quiet, idle, move);
			continue;
		}
		sj_engine_quiet(round->engine, side, chance(round, 50) ? woken : -1,
						quiet, idle, move);
		reference_quiet(round->ref, side, quiet, idle, move);
	}
}

/*
 * The longest distance of partners is at least that of any pair that was
 * written; more only where pairs came and went, or were not to be written.
 */
static void
check_longest_match(Round *round)
{
	int64		n;
	const SjChange *changes = sj_engine_changes(round->engine, &n);
	SjEngineStats stats;

	sj_engine_stats(round->engine, &stats);
	for (int64 i = 0; i < n; i++)
		if (changes[i].sign > 0 && changes[i].left && changes[i].right)
			round->longest = Max(round->longest,
								 Abs(changes[i].left->event_time -
									 changes[i].right->event_time));
	if (stats.longest_match < round->longest ||
		(stats.longest_match > round->longest && round->changes == 0 &&
		 round->test.verdicts == 0 && round->nentities == 0))
		elog(ERROR, "seed " UINT64_FORMAT ": the longest distance of partners is "
			 INT64_FORMAT ", should be " INT64_FORMAT, round->seed,
			 stats.longest_match, round->longest);
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
	if (!told && (after > before ||
				  memcmp(&clock, sj_engine_clock(round->engine),
						 sizeof(SjClock)) != 0))
		elog(ERROR, "seed " UINT64_FORMAT ": a step was not told of",
			 round->seed);
	compare_with_reference(round, result);
	check_longest_match(round);
	test_check_state(round->engine);
}

static void
random_step(Round *round, RefPairs *result)
{
	if (chance(round, 10))
		random_advance(round);
	else if (round->idles && chance(round, 10))
		random_quiet(round);
	else if (chance(round, 4))
	{
		int64		lateness = pick(round, 0, 8) * round->scale;

		sj_engine_set_lateness(round->engine, lateness);
		round->ref->allowed_lateness = lateness;
	}
	else
	{
		for (int64 n = pick(round, 0, 6); n > 0; n--)
			random_event(round);
		if (chance(round, 5))
			random_advance(round);
		if (round->idles && chance(round, 3))
			random_quiet(round);
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
	event.seq = row->seq;
	event.version = sj_row_version(row);
	event.source = sj_row_source(row);
	event.due = row->due;
	event.expires = row->expires;
	if (sj_engine_restore(round->engine, &event, row->degree,
						  row->padded,
						  row->flags & SJ_ROW_CARRIED) != SJ_INSERTED)
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
	round->longest = 0;			/* the caller's to remember */
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

/* Versions that are replaced and have not been taken out are told of once. */
static void
count_replaced(Round *round)
{
	int64		n;
	const SjReplaced *replaced = sj_engine_replaced(round->engine, &n);
	int64		expected = 0;

	for (int64 i = 0; i < n; i++)
	{
		test_check_row(replaced[i].row);
		round->nreplaced += replaced[i].sign;
	}
	for (int i = 0; i < round->ref->nrows; i++)
		expected += !round->ref->row[i].gone && round->ref->row[i].replaced;
	if (round->nreplaced != expected)
		elog(ERROR, "seed " UINT64_FORMAT ": " INT64_FORMAT
			 " versions are replaced, should be " INT64_FORMAT, round->seed,
			 round->nreplaced, expected);
}

static void
end_batch(Round *round, RefPairs *result)
{
	SjEngineStats stats;

	count_replaced(round);

	round->published.n = 0;
	for (int i = 0; i < result->n; i++)
		pairs_add(&round->published, &result->pair[i]);
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
	return round.nevents;
}

PG_FUNCTION_INFO_V1(sj_test_engine_random);

Datum
sj_test_engine_random(PG_FUNCTION_ARGS)
{
	int64		seed = PG_GETARG_INT64(0);
	int32		rounds = PG_GETARG_INT32(1);
	int64		nevents = 0;
	MemoryContext context;
	MemoryContext caller;

	context = AllocSetContextCreate(CurrentMemoryContext, "engine test",
									ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(context);
	for (int32 i = 0; i < rounds; i++)
	{
		nevents += run_round(seed + i);
		MemoryContextReset(context);
		CHECK_FOR_INTERRUPTS();
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
	PG_RETURN_INT64(nevents);
}
