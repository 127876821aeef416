/*-------------------------------------------------------------------------
 *
 * test_engine.h
 *	  Common parts of the engine's unit tests: an arena in palloc'd memory,
 *	  events that are made up, a reference that keeps everything.
 *
 * IDENTIFICATION
 *	  test/module/test_engine.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef TEST_ENGINE_H
#define TEST_ENGINE_H

#include "bounds.h"
#include "engine/engine.h"

/* ----- arena in palloc'd memory (test_arena.c) ----- */

typedef struct TestArena
{
	SjArena		arena;
	uint32		npages;
	uint32		limit;			/* pages that may be in use */
	uint32		nused;
	uint32		from;			/* where to look for free pages */
	bool	   *used;
} TestArena;

extern TestArena *test_arena_create(uint32 npages);
extern void test_arena_move(TestArena *arena);
extern void test_arena_free(TestArena *arena);

/* ----- made-up tuples and operators (test_operator.c) ----- */

typedef struct TestTuple
{
	uint32		length;			/* as MinimalTupleData.t_len */
	uint32		null_key;
	int64		key;
	int64		seq;
	char		filler[FLEXIBLE_ARRAY_MEMBER];
} TestTuple;

/* What a test's operator is asked with. */
typedef struct TestOperator
{
	SjOperator	op;
	SjBounds	bounds;
	bool		at_once[2];		/* unmatched rows are written at once */
	int			verdicts;		/* 0: all pairs; else how picky */
	uint32		hash_mask;		/* few bits make keys collide */
	int64		throw_after;	/* calls until one throws; 0: never */
} TestOperator;

extern void test_operator_init(TestOperator *test);
extern SjPairVerdict test_verdict(const TestOperator *test, int64 left_seq,
								  int64 right_seq);
extern TestTuple *test_tuple(bool has_key, int64 key, int64 seq,
							 uint32 filler);
extern void test_event(const TestOperator *test, SjEvent *event, SjSide side,
					   SjTime event_time, TestTuple *tuple);
extern void test_check_row(const SjRow *row);
extern void test_check_state(SjEngine *engine);

/* ----- reference (test_reference.c) ----- */

typedef struct RefPair
{
	int64		left;			/* sequence numbers, 0: padded */
	int64		right;
} RefPair;

typedef struct RefPairs
{
	RefPair    *pair;
	int			n;
	int			max;
} RefPairs;

typedef struct RefRow
{
	SjSide		side;
	bool		has_key;
	int64		key;
	int64		seq;
	SjTime		event_time;
} RefRow;

typedef struct Reference
{
	const TestOperator *test;
	int64		allowed_lateness;
	SjClock		clock;
	RefRow	   *row;			/* accepted */
	int			nrows;
	int			max_rows;
	RefRow	   *seen;			/* in the current step */
	bool	   *moves;
	int			nseen;
	SjTime		advance[2];
} Reference;

extern Reference *reference_create(const TestOperator *test);
extern bool reference_insert(Reference *ref, const RefRow *row,
							 bool moves_watermark);
extern void reference_advance(Reference *ref, SjSide side, SjTime watermark);
extern void reference_end_step(Reference *ref);
extern void reference_result(const Reference *ref, RefPairs *result);

extern void pairs_add(RefPairs *pairs, int64 left, int64 right);
extern void pairs_sort(RefPairs *pairs);
extern int	pairs_compare(const void *a, const void *b);

#endif							/* TEST_ENGINE_H */
