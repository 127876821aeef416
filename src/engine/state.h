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
 * An entry of the key table is of a join key, of the event times of rows without
 * one, or of an entity: an upsert key of one side.  The two upper bits of its
 * hash say which; a row of a side with an upsert key is in two lists.
 *
 * A row that is taken out is dead: in no list, counted nowhere, but its bytes
 * stay, for the changes of the batch and perhaps for a timer.  Between batches
 * its page leaves, or compact.c moves the living together.
 *
 * IDENTIFICATION
 *	  src/engine/state.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_STATE_H
#define SJ_STATE_H

#include "engine/engine.h"

#include "common/hashfn.h"

typedef uint32 SjHandle;

#define SJ_NONE			((SjHandle) 0)
#define SJ_GRANULE		16
#define SJ_MAX_SLICES	64
#define SJ_MAX_BUCKET_PAGES 4096	/* 67 M buckets */
#define SJ_MAX_TIMER_PAGES 8192 /* 33 M deadlines */
#define SJ_STATE_MAGIC	0x534a3034	/* format of the pages */

/* SjRow.flags, beside those of engine.h */
#define SJ_ROW_DEAD		0x0002	/* has been taken out */
#define SJ_ROW_TIMER	0x0004	/* is in the heap of deadlines, once */
#define SJ_ROW_SOURCE	0x0010	/* an Oid follows its tuple */
#define SJ_ROW_VERSION	0x0100	/* an SjVersion is at its end */

/* What a row has besides on a side with an upsert key, as its last bytes. */
typedef struct SjVersion
{
	int64		version;
	SjLinks		by_entity;		/* versions of this upsert key; none: a column
								 * of it is NULL */
	uint32		unused;
} SjVersion;

/* The lists that a row can be in. */
typedef enum SjIndex
{
	SJ_BY_KEY,					/* in the order (event_time, seq) */
	SJ_BY_ENTITY				/* in the order (event_time, version) */
} SjIndex;

/* The kind of an entry of the key table is in its hash. */
#define SJ_HASH_BITS	((uint32) 0x3FFFFFFF)
#define SJ_HASH_ENTITY(side) ((uint32) ((side) + 1) << 30)

/* The head of every page but the root and those of buckets and timers. */
typedef struct SjPageHeader
{
	uint32		next;			/* page number, or SJ_NO_PAGE */
	uint32		npages;			/* a large row has a run of its own */
	uint32		used;			/* bytes, this header included */
	uint32		nrows;
	SjTime		leaves;			/* last of its rows goes when horizon > this */
	uint32		dead;			/* bytes of rows that have been taken out */
	uint32		sparse;			/* being compacted */
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
	uint64		bytes;			/* of its rows, dead ones included */
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
 * One per distinct key.  The rows of each side form a doubly linked list; an
 * entity has those of its side only.
 *
 * Rows without a key are found by their event time: those whose hash of it is
 * the same share an entry, which only they do.
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

	uint64		row_bytes;		/* of all rows, dead ones included */
	uint64		dead_bytes;

	/* statistics */
	uint64		rows[2];		/* that live */
	uint64		matched[2];
	uint64		unmatched;
	uint64		expired[2];
	int64		longest_match;
	SjTime		newest[2];		/* event time that has moved the watermark */

	/* key table: linear hashing, the number of buckets follows nkeys */
	uint32		nkeys;			/* entries */
	uint32		nentities;		/* of these */
	uint32		nbuckets;		/* 0: no table yet */
	uint32		mask;			/* smallest 2^n - 1 that covers nbuckets */
	uint32		nbucket_pages;
	SjHandle	free_keys;		/* list of entries to use again */
	uint32		key_pages;		/* list of pages, the one in use first */

	/* deadlines: a heap of four children a node */
	uint32		ntimers;
	uint32		ndead_timers;	/* of rows that have been taken out */
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
	SjTime		oldest;			/* of these, SJ_TIME_MAX: none */
	SjTime		greatest[2];	/* of all */
	SjTime		advance[2];
	bool		to_newest[2];	/* advance to the newest event time seen */
	bool		row[2];			/* a row was captured */
	bool		noted[2];		/* the four below are set */
	int64		woken[2];
	int64		quiet[2];
	SjIdleness	idle[2];
	int64		move[2];
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
	int64		step_start;		/* first change of the step under way */
	int32		step_number;	/* of the step under way */
	bool		step_took_out;	/* the step has taken out a row */
	SjReplaced *replaced;		/* of the batch */
	int64		nreplaced;
	int64		max_replaced;
	bool		refused;		/* the arena had no page, since the last
								 * compaction */

	SjPartner  *partners;		/* scratch of one insertion or replacement */
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

static inline uint32
sj_page_of(SjHandle handle)
{
	return handle >> 12;
}

static inline bool
sj_row_is_dead(const SjRow *row)
{
	return (row->flags & SJ_ROW_DEAD) != 0;
}

/* Has it been replaced or taken out, and is in state for what it replaces? */
static inline bool
sj_row_is_past(const SjRow *row)
{
	return (row->flags & (SJ_ROW_REPLACED | SJ_ROW_GONE)) != 0;
}

static inline SjVersion *
sj_version_of(const SjRow *row)
{
	Assert((row->flags & SJ_ROW_VERSION) != 0);
	return (SjVersion *) ((char *) row + row->size - sizeof(SjVersion));
}

static inline SjLinks *
sj_links(SjRow *row, SjIndex index)
{
	return index == SJ_BY_KEY ? &row->by_key : &sj_version_of(row)->by_entity;
}

/* Is the row in the list? */
static inline bool
sj_is_linked(SjRow *row, SjIndex index)
{
	return (index == SJ_BY_KEY || (row->flags & SJ_ROW_VERSION) != 0) &&
		sj_links(row, index)->key != SJ_NONE;
}

/*
 * What a row is looked up by.  Rows without a key are nobody's partners, but
 * have to be found to be taken out.
 */
static inline uint32
sj_event_hash(const SjEvent *event)
{
	uint32		hash = event->has_key ? event->hash :
	murmurhash32((uint32) event->event_time ^
				 (uint32) ((uint64) event->event_time >> 32));

	return hash & SJ_HASH_BITS;
}

/* The same by the upsert key; not the bucket of a join key that equals it. */
static inline uint32
sj_entity_hash(const SjEvent *event)
{
	return (~event->entity_hash & SJ_HASH_BITS) | SJ_HASH_ENTITY(event->side);
}

/* Does it replace others and can be replaced? */
static inline bool
sj_has_entity(const SjOperator *op, const SjEvent *event)
{
	return op->upsert[event->side] && event->has_entity;
}

/*
 * Is it worth a place in the state, for partners, for itself, or for what it
 * replaces?
 */
static inline bool
sj_is_kept(const SjOperator *op, const SjEvent *event)
{
	return event->has_key || op->pad[event->side] ||
		sj_has_entity(op, event);
}

/*
 * A row leaves when the horizon is past this time.
 *
 * A deadline at infinity never comes, so nothing waits for it.
 */
static inline SjTime
sj_leaving_time(const SjOperator *op, SjSide side, SjTime due, SjTime expires)
{
	if (op->pad[side] && due != SJ_TIME_MAX)
		return Max(expires, due);
	return expires;
}

/* Does a row with these properties wait for its deadline? */
static inline bool
sj_needs_timer(const SjOperator *op, const SjEvent *event, int64 degree)
{
	return op->pad[event->side] && degree == 0 && event->due != SJ_TIME_MAX;
}

/* The rows in state of one side that live, in the order of arrival. */
typedef struct SjScan
{
	SjSide		side;
	uint32		slice;			/* the next one */
	uint32		page;
	uint32		at;				/* of the next row, within the page */
	uint32		left;			/* rows of the page still to come */
} SjScan;

/* engine.c: the parts that insertions, replacements and replays share */
extern void sj_gather_partners(SjEngine *engine, const SjEvent *event,
							   SjHandle key, bool again);
extern bool sj_reserve(SjEngine *engine, const SjEvent *event, int new_keys,
					   int64 ntimers);
extern SjHandle sj_link_row(SjEngine *engine, const SjEvent *event,
							SjHandle key, bool timer);
extern SjInsertResult sj_take_in(SjEngine *engine, const SjEvent *event,
								 int64 outside, SjRow **row);
extern void sj_link_partners(SjEngine *engine, SjRow *row, int64 first);

/* replace.c */
extern SjInsertResult sj_insert_version(SjEngine *engine,
										const SjEvent *event);

/* version.c */
typedef struct SjVersionPlace
{
	SjHandle	entity;			/* its entry; SJ_NONE: a new one */
	bool		replaced;		/* by a newer version that is there */
	SjHandle	replaces;		/* the version that it replaces, or SJ_NONE */
} SjVersionPlace;

extern void sj_version_ask(SjEngine *engine, const SjEvent *event,
						   SjHandle but, SjVersionPlace *place);
extern void sj_version_link(SjEngine *engine, const SjEvent *event,
							SjHandle entity, SjHandle row);
extern void sj_version_replace(SjEngine *engine, SjRow *row);
extern bool sj_version_take_out(SjEngine *engine, SjRow *row);
extern void sj_replaced_reserve(SjEngine *engine, int64 n);

/* state.c */
extern uint32 sj_page_alloc(SjEngine *engine, uint32 npages);
extern void sj_page_free(SjEngine *engine, uint32 page, uint32 npages);
extern void sj_state_init(SjEngine *engine);
extern bool sj_row_reserve(SjEngine *engine, const SjEvent *event);
extern SjHandle sj_row_store(SjEngine *engine, const SjEvent *event);
extern void sj_row_kill(SjEngine *engine, SjHandle handle);
extern void sj_scan_start(SjScan *scan, SjSide side);
extern SjHandle sj_scan_next(const SjEngine *engine, SjScan *scan);
extern void sj_slice_remove(SjSliceSet *set, uint32 i);
extern void sj_state_expire(SjEngine *engine);
extern void sj_state_release_if_empty(SjEngine *engine, bool between_batches);
extern void sj_state_free_rows(SjEngine *engine);

/* compact.c */
extern void sj_state_compact(SjEngine *engine);

/* key.c */
extern SjHandle sj_key_find(SjEngine *engine, const SjEvent *event);
extern SjHandle sj_entity_find(SjEngine *engine, const SjEvent *event);
extern bool sj_key_reserve(SjEngine *engine, uint32 n);
extern SjHandle sj_key_add(SjEngine *engine, uint32 hash);
extern SjRow *sj_key_seek(SjEngine *engine, SjKey *key, SjSide side,
						  SjTime until, SjIndex index);
extern SjRow *sj_key_before(SjEngine *engine, SjKey *key, SjSide side,
							SjTime event_time, int64 rank, SjIndex index);
extern SjHandle sj_key_search(SjEngine *engine, SjHandle key,
							  const SjEvent *event, SjIndex index);
extern SjHandle sj_key_handle(const SjEngine *engine, SjRow *row,
							  SjIndex index);
extern void sj_key_link(SjEngine *engine, SjHandle key, SjHandle row,
						SjIndex index);
extern void sj_key_unlink(SjEngine *engine, SjRow *row, SjIndex index);
extern void sj_key_moved(SjEngine *engine, SjRow *row, SjHandle from,
						 SjHandle to, SjIndex index);
extern void sj_key_free_all(SjEngine *engine);

/* timer.c */
extern bool sj_timer_reserve(SjEngine *engine, int64 n);
extern void sj_timer_add(SjEngine *engine, SjHandle row);
extern SjTime sj_timer_next(const SjEngine *engine);
extern SjRow *sj_timer_pop(SjEngine *engine);
extern void sj_timer_purge(SjEngine *engine);
extern void sj_timer_mark(SjEngine *engine);
extern SjTime sj_timer_moved(SjEngine *engine, SjRow *row, SjHandle to);
extern void sj_timer_unmark(SjEngine *engine);
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
extern void sj_changes_unpair(SjEngine *engine, const SjRow *left,
							  const SjRow *right);
extern void sj_changes_end_step(SjEngine *engine);
extern void sj_changes_end_batch(SjEngine *engine);

#endif							/* SJ_STATE_H */
