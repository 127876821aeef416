/*-------------------------------------------------------------------------
 *
 * engine_random.h
 *	  A round of the random test: one join with its engine and its reference.
 *
 * IDENTIFICATION
 *	  test/module/engine_random.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ENGINE_RANDOM_H
#define ENGINE_RANDOM_H

#include "test_engine.h"

#include "common/pg_prng.h"

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
	int			nimages;		/* 0: all images differ */
	int			nsources;
	int			nentities;		/* upsert keys; 0: none */
	int			changes;		/* percent of the events that are changes */
	bool		self_join;
	bool		idles;			/* inputs become idle */
	bool		large_rows;		/* some */
	bool		bulky;			/* all rows are of some kB */
	int64		longest;		/* usec between the rows of a pair */
	int64		nreplaced;		/* versions, by what the engine has told */
	int64		seq;
	int64		nevents;
} Round;

static inline int64
pick(Round *round, int64 from, int64 to)
{
	return from + (int64) pg_prng_uint64_range(&round->prng, 0, to - from);
}

static inline bool
chance(Round *round, int percent)
{
	return pick(round, 1, 100) <= percent;
}

/* random_events.c: rows that come, change, go */
extern void random_event(Round *round);

/* random_result.c: comparison with the reference */
extern void compare_with_reference(Round *round, RefPairs *result);

#endif							/* ENGINE_RANDOM_H */
