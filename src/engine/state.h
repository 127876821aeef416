/*-------------------------------------------------------------------------
 *
 * state.h
 *	  The keyed state of one join, as it lies in arena pages (private to the
 *	  engine).
 *
 * Everything that outlives a batch is reached from one root page.  Objects
 * refer to each other by handle: page * 4096 + offset / 16.  0 is no handle,
 * because every page starts with a header.
 *
 * What takes memory is divided into "reserve", which may fail and changes
 * nothing that can be seen, and the act itself, which cannot fail.
 *
 * IDENTIFICATION
 *	  src/engine/state.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_STATE_H
#define SJ_STATE_H

#include "engine/engine.h"

typedef uint32 SjHandle;

#define SJ_NONE			((SjHandle) 0)
#define SJ_GRANULE		16
#define SJ_MAX_SLICES	64
#define SJ_MAX_BUCKET_PAGES 4096	/* 67 M buckets */
#define SJ_MAX_TIMER_PAGES 8192 /* 33 M deadlines */
#define SJ_STATE_MAGIC	0x534a3031	/* format of the pages */

/* SjRow.flags: both live from a change to the end of its batch */
#define SJ_ROW_PAD_IN_BATCH	0x0001	/* +1 of its padding is in the changes */
#define SJ_ROW_PAD_CANCELLED 0x0002 /* ... and has been taken back since */

/* The head of every page but the root and those of buckets and timers. */
typedef struct SjPageHeader
{
	uint32		next;			/* page number, or SJ_NO_PAGE */
	uint32		npages;			/* a large row has a run of its own */
	uint32		used;			/* bytes, this header included */
	uint32		nrows;
	SjTime		leaves;			/* last of its rows goes when horizon > this */
	uint64		unused;			/* keeps the first object on a granule */
} SjPageHeader;

/*
 * Rows of one side that leave at about the same time: those whose leaving
 * time, rounded down to a multiple of 'width' (a power of two), is 'first'.
 */
typedef struct SjSlice
{
	SjTime		first;
	int64		width;
	uint32		head;			/* oldest page; pages leave from here */
	uint32		tail;			/* newest page */
	uint32		fill;			/* page with room for more rows, or none */
	uint64		bytes;			/* of its rows */
} SjSlice;

typedef struct SjSliceSet
{
	int64		base_width;		/* of a new state */
	int64		width;			/* of new slices; grows when there are many */
	uint32		n;
	uint32		recent;			/* index of the slice used last */
	SjSlice		slice[SJ_MAX_SLICES];
} SjSliceSet;

/*
 * One per distinct key.  The rows of each side form a doubly linked list in
 * the order (event_time, seq).
 */
typedef struct SjKey
{
	uint32		hash;
	SjHandle	chain;			/* next key of the bucket, or free key */
	SjHandle	first[2];
	SjHandle	last[2];
	SjHandle	finger[2];		/* where the last search ended */
} SjKey;

typedef struct SjTimer
{
	SjTime		due;
	SjHandle	row;
	uint32		unused;
} SjTimer;

/* The root page. */
typedef struct SjRoot
{
	uint32		magic;
	uint32		npages;			/* in use, this one included */
	SjClock		clock;
	int64		allowed_lateness;

	/* statistics */
	uint64		rows[2];
	uint64		matched[2];
	uint64		unmatched;
	uint64		expired[2];

	/* key table: linear hashing, the number of buckets follows nkeys */
	uint32		nkeys;
	uint32		nbuckets;		/* 0: no table yet */
	uint32		mask;			/* smallest 2^n - 1 that covers nbuckets */
	uint32		nbucket_pages;
	SjHandle	free_keys;		/* list of entries to use again */
	uint32		key_pages;		/* list of pages, the one in use first */

	/* deadlines: a heap of four children a node */
	uint32		ntimers;
	uint32		ntimer_pages;

	SjSliceSet	slices[2];
	uint32		bucket_page[SJ_MAX_BUCKET_PAGES];
	uint32		timer_page[SJ_MAX_TIMER_PAGES];
} SjRoot;

/* What a search for partners found. */
typedef struct SjPartner
{
	SjRow	   *row;
	SjPairVerdict verdict;
} SjPartner;

/* What the rows of the step that is under way say about time. */
typedef struct SjStep
{
	SjTime		newest[2];		/* of rows that move the watermark */
	SjTime		oldest;			/* of all, SJ_TIME_MAX: none */
	SjTime		greatest[2];	/* of all */
	SjTime		advance[2];
	bool		to_newest[2];	/* advance to the newest event time seen */
} SjStep;

/* One process's hold on a state; palloc'd. */
struct SjEngine
{
	SjArena    *arena;
	const SjOperator *op;
	SjRoot	   *root;
	uint32		root_page;
	MemoryContext context;		/* of this struct and of the arrays below */
	SjStep		step;

	SjChange   *changes;		/* of the batch */
	int64		nchanges;
	int64		max_changes;
	int64		ncancelled;		/* padded rows to drop from the changes */

	SjPartner  *partners;		/* scratch of one insertion */
	int64		npartners;
	int64		max_partners;
};

static inline SjPageHeader *
sj_page_header(const SjEngine *engine, uint32 page)
{
	return (SjPageHeader *) SJ_PAGE(engine->arena, page);
}

static inline void *
sj_address(const SjEngine *engine, SjHandle handle)
{
	return SJ_PAGE(engine->arena, handle >> 12) +
		(Size) (handle & 0xFFF) * SJ_GRANULE;
}

static inline SjRow *
sj_row_at(const SjEngine *engine, SjHandle handle)
{
	return (SjRow *) sj_address(engine, handle);
}

static inline SjKey *
sj_key_at(const SjEngine *engine, SjHandle handle)
{
	return (SjKey *) sj_address(engine, handle);
}

static inline SjHandle
sj_handle(uint32 page, uint32 offset)
{
	return (page << 12) + offset / SJ_GRANULE;
}

/* state.c */
extern uint32 sj_page_alloc(SjEngine *engine, uint32 npages);
extern void sj_page_free(SjEngine *engine, uint32 page, uint32 npages);
extern void sj_state_init(SjEngine *engine);
extern bool sj_row_reserve(SjEngine *engine, const SjEvent *event);
extern SjHandle sj_row_store(SjEngine *engine, const SjEvent *event);
extern void sj_state_expire(SjEngine *engine);
extern void sj_state_release_if_empty(SjEngine *engine);
extern void sj_state_free_rows(SjEngine *engine);

/* key.c */
extern SjHandle sj_key_find(SjEngine *engine, const SjEvent *event);
extern bool sj_key_reserve(SjEngine *engine);
extern SjHandle sj_key_add(SjEngine *engine, uint32 hash);
extern SjRow *sj_key_seek(SjEngine *engine, SjKey *key, SjSide side,
						  SjTime until);
extern void sj_key_link(SjEngine *engine, SjHandle key, SjHandle row);
extern void sj_key_unlink(SjEngine *engine, SjRow *row);
extern void sj_key_free_all(SjEngine *engine);

/* timer.c */
extern bool sj_timer_reserve(SjEngine *engine);
extern void sj_timer_add(SjEngine *engine, SjTime due, SjHandle row);
extern SjTime sj_timer_next(const SjEngine *engine);
extern SjHandle sj_timer_pop(SjEngine *engine);
extern void sj_timer_free_all(SjEngine *engine);

/* watermark.c */
extern void sj_step_start(SjStep *step);
extern bool sj_clock_end_step(SjEngine *engine);

/* changelog.c */
extern void sj_changes_reserve(SjEngine *engine, int64 n);
extern void sj_changes_pair(SjEngine *engine, const SjRow *left,
							const SjRow *right);
extern void sj_changes_pad(SjEngine *engine, SjRow *row);
extern void sj_changes_unpad(SjEngine *engine, SjRow *row);
extern void sj_changes_net(SjEngine *engine);
extern void sj_changes_end_batch(SjEngine *engine);

#endif							/* SJ_STATE_H */
