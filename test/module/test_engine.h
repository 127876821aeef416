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

/*
 * The image's number says what it is: its filler, and whom it fits.  Tuples
 * that differ in 'noise' only are the same image.
 */
typedef struct TestTuple
{
	uint32		length;			/* as MinimalTupleData.t_len */
	uint16		null_key;
	uint16		noise;
	int64		key;
	int64		image;
	int64		entity;			/* upsert key; 0: NULL */
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
extern SjPairVerdict test_verdict(const TestOperator *test, int64 left_image,
								  int64 right_image);
extern TestTuple *test_tuple(bool has_key, int64 key, int64 image,
							 uint32 filler);
/* The tuple's event; its seq and its version are the image's number. */
extern void test_event(const TestOperator *test, SjEvent *event, SjSide side,
					   SjTime event_time, TestTuple *tuple);
extern void test_check_row(const SjRow *row);
extern void test_check_state(SjEngine *engine);

/* ----- reference (test_reference.c) ----- */

typedef struct RefPair
{
	int64		seq[2];			/* 0: padded */
	int64		image[2];		/* test_image_number() */
} RefPair;

/* Tells whether tuples are the same image. */
static inline int64
test_image_number(bool has_key, int64 key, int64 image, int64 entity)
{
	return ((image * 100 + key) * 2 + has_key) * 16 + entity;
}

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
	Oid			source;
	int64		image;
	int64		entity;			/* upsert key; 0: NULL */
	int64		version;
	bool		gone;			/* taken out */

	/* set by reference_result() */
	bool		replaced;
	uint32		degree;
	bool		padded;
} RefRow;

typedef struct Reference
{
	const TestOperator *test;
	int64		allowed_lateness;
	SjClock		clock;
	RefRow	   *row;			/* accepted, in the order (seq, side) */
	int			nrows;
	int			max_rows;
	RefRow	   *ever;			/* versions that were ever accepted */
	int			never;
	int			max_ever;
	RefRow	   *seen;			/* in the current step */
	bool	   *moves;
	int			nseen;
	SjTime		advance[2];
	bool		noted[2];		/* the three below are set */
	int64		quiet[2];
	SjIdleness	idle[2];
	int64		move[2];
} Reference;

extern Reference *reference_create(const TestOperator *test);
extern void reference_see(Reference *ref, const RefRow *row,
						  bool moves_watermark);
extern SjInsertResult reference_insert(Reference *ref, const RefRow *row);
extern bool reference_has(const Reference *ref, const RefRow *old);
extern SjInsertResult reference_replace(Reference *ref, const RefRow *old,
										const RefRow *new);
extern int64 reference_truncate(Reference *ref, SjSide side, Oid source);
extern bool reference_is_replaced(const Reference *ref, const RefRow *row);
extern const RefRow *reference_row(const Reference *ref, SjSide side,
								   int64 seq);
extern void reference_advance(Reference *ref, SjSide side, SjTime watermark);
extern void reference_quiet(Reference *ref, SjSide side, int64 quiet,
							SjIdleness idle, int64 move);
extern void reference_end_step(Reference *ref);
extern void reference_result(Reference *ref, RefPairs *result);

extern void pairs_add(RefPairs *pairs, const RefPair *pair);
extern void pairs_sort(RefPairs *pairs);
extern int	pairs_compare(const void *a, const void *b);

#endif							/* TEST_ENGINE_H */
