/*-------------------------------------------------------------------------
 *
 * sjoin.h
 *	  Words that every part of sjoin uses.
 *
 * Level 0 of the layers in src/README: includes nothing of sjoin's but
 * compat.h.
 *
 * IDENTIFICATION
 *	  src/sjoin.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJOIN_H
#define SJOIN_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "utils/timestamp.h"

#include "compat.h"

#define SJ_VERSION "0.1.0"

/*
 * Event time: microseconds since 2000-01-01, the representation shared by
 * timestamp and timestamptz.  Arithmetic on it saturates (sj_time_add).
 *
 * SJ_TIME_MIN doubles as "no watermark yet": nothing is late and nothing is
 * due against it, so it needs no special case.
 */
typedef int64 SjTime;

#define SJ_TIME_MIN		PG_INT64_MIN	/* -infinity */
#define SJ_TIME_MAX		PG_INT64_MAX	/* infinity */
#define SJ_TIME_IS_FINITE(t) ((t) != SJ_TIME_MIN && (t) != SJ_TIME_MAX)

/* The two inputs of a join. */
typedef enum SjSide
{
	SJ_LEFT = 0,
	SJ_RIGHT = 1
} SjSide;

#define SJ_OTHER(side) ((side) == SJ_LEFT ? SJ_RIGHT : SJ_LEFT)

/*
 * Where the engine gets its memory: runs of 64 kB pages.
 *
 * Pages are numbered from 0 and lie at base + number * SJ_PAGE_SIZE, so a
 * page number means the same in every process that attached the area.
 */
#define SJ_PAGE_SIZE	65536
#define SJ_NO_PAGE		PG_UINT32_MAX

typedef struct SjArena SjArena;
struct SjArena
{
	char	   *base;			/* address of page 0, MAXALIGNed */
	/* first of 'npages' contiguous pages, or SJ_NO_PAGE; never throws */
	uint32		(*alloc) (SjArena *arena, uint32 npages);
	/* gives back what alloc returned; never throws */
	void		(*free) (SjArena *arena, uint32 page, uint32 npages);
	void	   *arg;			/* for the two functions */
};

#define SJ_PAGE(arena, number) \
	((arena)->base + (Size) (number) * SJ_PAGE_SIZE)

/* a + b, saturating; infinities stay what they are */
static inline SjTime
sj_time_add(SjTime a, int64 b)
{
	SjTime		sum;

	if (!SJ_TIME_IS_FINITE(a))
		return a;
	if (__builtin_add_overflow(a, b, &sum))
		return b > 0 ? SJ_TIME_MAX : SJ_TIME_MIN;
	return sum;
}

/* a - b, saturating; infinities stay what they are */
static inline SjTime
sj_time_sub(SjTime a, int64 b)
{
	SjTime		difference;

	if (!SJ_TIME_IS_FINITE(a))
		return a;
	if (__builtin_sub_overflow(a, b, &difference))
		return b < 0 ? SJ_TIME_MAX : SJ_TIME_MIN;
	return difference;
}

/* A minimal tuple as the functions for heap tuples take it; shares its data. */
static inline HeapTupleData
sj_heap_tuple(MinimalTuple tuple)
{
	HeapTupleData heap = {0};

	heap.t_len = tuple->t_len + MINIMAL_TUPLE_OFFSET;
	heap.t_data = (HeapTupleHeader) ((char *) tuple - MINIMAL_TUPLE_OFFSET);
	return heap;
}

#endif							/* SJOIN_H */
