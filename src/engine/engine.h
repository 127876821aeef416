/*-------------------------------------------------------------------------
 *
 * engine.h
 *	  The join of two streams: keyed state, degrees, watermarks, timers.
 *
 * The engine knows nothing of SPI, catalogs, clocks, locks or transactions.
 * It is handed its memory (SjArena), the questions that need user code
 * (SjOperator's functions), and one event after the other; what it says is a
 * list of changes of the result.
 *
 * One step (a source transaction or a control record) is
 *
 *		sj_engine_insert()		for each new row of the step, in log order
 *		sj_engine_replace()		for each row that changes or is deleted
 *		sj_engine_replay()		for each late row that is taken in after all
 *		sj_engine_truncate()	for each truncated input
 *		sj_engine_saw()			for each finite event time of the step
 *		sj_engine_advance()		for each advance_watermark of the step
 *		sj_engine_quiet()		for each input found without rows for a while
 *		sj_engine_end_step()	watermark moves, deadlines are written
 *
 * and one batch is any number of steps, then sj_engine_changes(), and, when
 * these are durable, sj_engine_end_batch(), which lets expired rows go.  Rows
 * named by the changes stay where they are until then, those that have been
 * taken out since too.
 *
 * A row can be taken out as long as its event time is not behind the horizon
 * (R5).  It is then still in state, and so are all its partners: each of them
 * is kept until the horizon is past the last event time it can be joined with.
 * That is why nobody has to remember who was whose partner: what was asked
 * when the row came in is asked again.
 *
 * Upsert keys: of the rows of a side that has one, a version of the same key is
 * replaced by any newer one (event time, then version number) that is at most
 * SjOperator.replaces later, in whatever order they come, and stays replaced.
 * A replaced version is nobody's partner and not in the result; a version that
 * has been taken out goes on replacing older ones.  version.c says how.
 *
 * Everything that outlives a batch lies in arena pages and refers to itself by
 * page number and offset, so another process that attached the arena at
 * another address could go on with it.
 *
 * Rules T1-T10, R2 and R5 of the design are here and in bounds.c.
 *
 * IDENTIFICATION
 *	  src/engine/engine.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_ENGINE_H
#define SJ_ENGINE_H

#include "sjoin.h"

/* What a condition says of a pair whose keys and times fit. */
typedef enum SjPairVerdict
{
	SJ_PAIR_NO,					/* not partners */
	SJ_PAIR_YES,				/* partners: the pair is written */
	SJ_PAIR_FAILED				/* partners that are not written (R8) */
} SjPairVerdict;

/* A row's place in the list of an entry of the key table. */
typedef struct SjLinks
{
	uint32		next;			/* later row */
	uint32		prev;			/* earlier row */
	uint32		key;			/* the entry; none: is in no such list */
} SjLinks;

/*
 * One row in the state, followed by its tuple.  Read only outside the engine.
 */
typedef struct SjRow
{
	int64		seq;			/* identity: log sequence of the insertion */
	SjTime		event_time;
	SjTime		due;			/* deadline (T5) */
	SjTime		expires;		/* leaves when horizon > expires (T5) */
	SjLinks		by_key;			/* rows of this side and key; none: has been
								 * taken out or replaced */
	uint32		degree;			/* partners accepted and not taken out,
								 * whether or not they are still in state */
	uint8		side;
	bool		padded;			/* is in the result unmatched */
	uint16		flags;			/* SJ_ROW_...; see state.h */
	uint32		size;			/* of the whole row, in bytes */
	/* MAXALIGNed MinimalTuple follows, then the source if there is one, and
	 * at the end what a version has besides, on sides with an upsert key */
} SjRow;

#define SJ_ROW_TUPLE(row) \
	((MinimalTuple) ((char *) (row) + MAXALIGN(sizeof(SjRow))))

#define SJ_ROW_KEYLESS	0x0001	/* a key column is NULL (T10) */
#define SJ_ROW_MATCHED	0x0008	/* has been counted as matched */
#define SJ_ROW_DETACHED	0x0020	/* its table has the image no more */
#define SJ_ROW_REPLACED	0x0040	/* by a newer version of its upsert key */
#define SJ_ROW_GONE		0x0080	/* taken out; kept for what it replaces */

/* what a row is carried forward with */
#define SJ_ROW_CARRIED	(SJ_ROW_MATCHED | SJ_ROW_DETACHED | SJ_ROW_REPLACED | \
						 SJ_ROW_GONE)

/* Has the row a key, or is one of its key columns NULL (T10)? */
static inline bool
sj_row_has_key(const SjRow *row)
{
	return (row->flags & SJ_ROW_KEYLESS) == 0;
}

/* Partition that the row is of; InvalidOid: the stream's own table. */
extern Oid	sj_row_source(const SjRow *row);

/* Its version number; 0 on a side without upsert key. */
extern int64 sj_row_version(const SjRow *row);

/* Two rows whose keys and times fit. */
typedef struct SjPair
{
	int64		seq[2];			/* identities, by side */
	MinimalTuple tuple[2];
	bool		again;			/* judged before, when the later of the two
								 * came in: now one of them is taken out, and
								 * nothing is to be recorded of a failure */
} SjPair;

/*
 * What the join is.  Constant while it runs; belongs to the caller, who keeps
 * it for as long as the engine.
 *
 * same_key, same_entity and verdict may run user code and may throw: nothing of the state
 * or the changes has been touched when they do, and the same call may be tried
 * again.  They must say the same whenever they are asked: a row is taken out
 * by the partners that it has then.
 */
typedef struct SjOperator
{
	bool		pad[2];			/* unmatched rows of this side are written */
	bool		final;			/* deadlines go by the horizon (append, final) */
	bool		tight;			/* memory is short: win back room early */
	int64		allowed_lateness;	/* usec; PG_INT64_MAX: nothing is late */
	int64		delay[2];		/* watermark_delay of each input, usec */
	int64		reach[2];		/* largest expires - event_time, usec: a hint
								 * for the width of expiry slices */
	bool		upsert[2];		/* rows of this side have an upsert key */
	int64		replaces;		/* usec: a version replaces those up to so
								 * much older */

	/* SQL equality of the join keys of two tuples of the given sides */
	bool		(*same_key) (void *arg, SjSide side_a, MinimalTuple a,
							 SjSide side_b, MinimalTuple b);
	/* equality of the upsert keys of two rows of one side; needed only if
	 * there is one */
	bool		(*same_entity) (void *arg, SjSide side, MinimalTuple a,
								MinimalTuple b);
	/* remaining conditions of a pair, or NULL: always SJ_PAIR_YES */
	SjPairVerdict (*verdict) (void *arg, const SjPair *pair);
	/* event times of partners, both inclusive, as in SjEvent; runs no user
	 * code */
	void		(*range) (void *arg, SjSide side, SjTime event_time,
						  SjTime *from, SjTime *until);
	/* equality of all columns of two tuples of one side, bytewise; runs no
	 * user code */
	bool		(*same_image) (void *arg, SjSide side, MinimalTuple a,
							   MinimalTuple b);
	void	   *arg;
} SjOperator;

/*
 * A row to take in, or to take out.  Filters have been applied; event_time is
 * finite.
 */
typedef struct SjEvent
{
	SjSide		side;
	Oid			source;			/* partition that the image is of, InvalidOid:
								 * the stream's own table */
	bool		has_key;		/* false: a key column is NULL (T10) */
	uint32		hash;			/* of the key */
	int64		seq;			/* ascending within a step */
	SjTime		event_time;
	SjTime		from;			/* event times of partners: from .. until, */
	SjTime		until;			/* both inclusive */
	SjTime		due;			/* deadline; SJ_TIME_MIN: written unmatched at
								 * the end of its step; SJ_TIME_MAX: never */
	SjTime		expires;		/* where a side has an upsert key, that much
								 * (SjOperator.replaces) later on both */
	MinimalTuple tuple;			/* copied */

	/* read only where the side has an upsert key */
	bool		has_entity;		/* false: a column of the upsert key is NULL:
								 * it replaces nothing and stays */
	uint32		entity_hash;	/* of the upsert key */
	int64		version;		/* which of two versions of the same event
								 * time is the newer one */
} SjEvent;

typedef enum SjInsertResult
{
	SJ_INSERTED,
	SJ_LATE,					/* event_time < horizon; not taken in */
	SJ_NO_MEMORY				/* arena exhausted; nothing changed */
} SjInsertResult;

/*
 * A change of the result: a pair, or a padded row (other side NULL).
 *
 * They come in the order of the steps, and are the net effect of each step on
 * each identity (the sequence numbers of left and right): nothing, one change,
 * or one with sign -1 and 'update' that is directly followed by the one with
 * sign +1 (and 'update') of the same identity, the old rows and the new.  A
 * step that changed nothing has no number.
 */
typedef struct SjChange
{
	const SjRow *left;
	const SjRow *right;
	int32		step;			/* within the batch, ascending from 0 */
	int8		sign;			/* +1 is inserted, -1 is taken back */
	bool		update;
} SjChange;

/*
 * A version became replaced (sign 1), or one that was replaced has been taken
 * out (-1).
 */
typedef struct SjReplaced
{
	const SjRow *row;
	int8		sign;
} SjReplaced;

/* What an input without rows for a while is taken for (T7). */
typedef enum SjIdleness
{
	SJ_NOT_IDLE,				/* others wait for its rows */
	SJ_IDLE_ADVANCES,			/* its watermark moves on with the clock */
	SJ_IDLE_IGNORED				/* it is left out of the minimum */
} SjIdleness;

/* Where event time stands (T1-T3, T7, T9); what a position record keeps. */
typedef struct SjClock
{
	SjTime		input[2];		/* watermark of each input */
	SjTime		max_event_time[2];	/* greatest finite event time seen */
	SjTime		watermark;		/* of the join: minimum over its inputs */
	SjTime		horizon;		/* watermark - allowed_lateness, never back */
	int64		quiet[2];		/* running time without a row of the input as
								 * far as the log says, usec */
	int64		idle[2];		/* an SjIdleness; wide, so that no byte is
								 * padding */
	int64		woken[2];		/* steps that had a row of the input */
} SjClock;

/* Figures for statistics. */
typedef struct SjEngineStats
{
	uint64		rows[2];		/* rows in state, versions that are kept for
								 * what they replace included */
	uint64		keys;			/* key entries */
	uint64		pages;			/* arena pages in use */
	uint64		timers;			/* pending deadlines */
	uint64		matched[2];		/* rows that found their first partner,
								 * ever */
	uint64		unmatched;		/* padded rows written, ever */
	uint64		expired[2];		/* rows that the horizon has passed, ever */
	int64		longest_match;	/* longest distance of two partners, ever, in
								 * usec */
	uint64		row_bytes;		/* of rows, those taken out included */
	uint64		dead_bytes;		/* of rows taken out that still take room */
	SjTime		oldest_timer;	/* SJ_TIME_MAX: none */
} SjEngineStats;

typedef struct SjEngine SjEngine;

/*
 * A new, empty state; NULL when the arena has no page left.  Its time starts
 * at 'clock', or unknown when that is NULL.
 */
extern SjEngine *sj_engine_create(SjArena *arena, const SjOperator *op,
								  const SjClock *clock);
/* First page of the state, by which sj_engine_attach finds it again. */
extern uint32 sj_engine_root(const SjEngine *engine);
/* Go on with a state that another process left at the end of a batch. */
extern SjEngine *sj_engine_attach(SjArena *arena, const SjOperator *op,
								  uint32 root);
/* Gives back all pages. */
extern void sj_engine_destroy(SjEngine *engine);

extern SjInsertResult sj_engine_insert(SjEngine *engine, const SjEvent *event);

/*
 * Takes in a row although it is late, on a side without upsert key; it has so
 * many partners outside of the state, whose pairs and padded rows are the
 * caller's to write.  *row is its place until the end of the batch; NULL: it
 * can have no partner and is not written by itself.
 */
extern SjInsertResult sj_engine_replay(SjEngine *engine, const SjEvent *event,
									   int64 outside, const SjRow **row);
/* Tells of each row in state with the event's side, key and event time. */
extern void sj_engine_visit_alike(SjEngine *engine, const SjEvent *event,
								  void (*visit) (void *arg, const SjRow *row),
								  void *arg);

/*
 * Takes out the row with this side, key, event time, source and image if it is
 * in state and not behind the horizon (of several equal ones the one with the
 * lowest seq, or the oldest version), and takes in 'new', a row of the same side, in its place as
 * sj_engine_insert() would, or nothing if it is NULL.  When a row was taken
 * out its successor keeps its seq, whatever new->seq says.
 *
 * *removed: was there such a row?  A row without a key on a side that is not
 * padded is never kept; it is reported as removed when its time is not behind
 * the horizon, since it was accepted and is gone.
 *
 * SJ_LATE: 'new' was not taken in; 'old' was taken out all the same.
 * SJ_NO_MEMORY: nothing changed; a deletion can need memory, too, for the
 * deadlines of rows that lose their last partner.
 */
extern SjInsertResult sj_engine_replace(SjEngine *engine, const SjEvent *old,
										const SjEvent *new, bool *removed);
/* Would sj_engine_replace() say that it removed a row? */
extern bool sj_engine_has(SjEngine *engine, const SjEvent *old);

/*
 * Takes out all rows of a side and source that are not behind the horizon, and
 * adds their number to *removed.  Goes row by row: after an error or
 * SJ_NO_MEMORY some have gone, and the call can be made again.
 */
extern SjInsertResult sj_engine_truncate(SjEngine *engine, SjSide side,
										 Oid source, int64 *removed);

/*
 * Where rows are final: the table no longer has the image, but the join keeps
 * the row.  From now on it is not found by the two functions above.  Does
 * nothing when there is no such row.
 */
extern void sj_engine_detach(SjEngine *engine, const SjEvent *old);
/* The same for all those of a side and source; 'row' is told of each, and must
 * not use the engine. */
extern void sj_engine_detach_all(SjEngine *engine, SjSide side, Oid source,
								 void (*row) (void *arg, const SjRow *row),
								 void *arg);

extern void sj_engine_saw(SjEngine *engine, SjSide side, SjTime event_time,
						  bool moves_watermark);
extern void sj_engine_advance(SjEngine *engine, SjSide side, SjTime watermark);
extern void sj_engine_quiet(SjEngine *engine, SjSide side, int64 woken,
							int64 quiet, SjIdleness idle, int64 move);
extern void sj_engine_woke(SjEngine *engine, SjSide side);
extern bool sj_engine_end_step(SjEngine *engine);
extern const SjChange *sj_engine_changes(SjEngine *engine, int64 *n);
/* What became of versions in the batch; valid as long as the changes are. */
extern const SjReplaced *sj_engine_replaced(SjEngine *engine, int64 *n);
extern void sj_engine_end_batch(SjEngine *engine);

/* Settings consumed from the log (T9): hold for rows from now on. */
extern void sj_engine_set_lateness(SjEngine *engine, int64 allowed_lateness);

extern const SjClock *sj_engine_clock(const SjEngine *engine);
/*
 * Greatest event time of an input that has moved its watermark, in the steps
 * before this one.  For statistics: a state that starts at a clock has to
 * conclude it from that.
 */
extern SjTime sj_engine_newest(const SjEngine *engine, SjSide side);
extern void sj_engine_stats(const SjEngine *engine, SjEngineStats *stats);

/*
 * Carrying a state forward: calls 'row' for each row in state, in an order in
 * which sj_engine_restore() can take them.
 */
extern void sj_engine_walk(const SjEngine *engine,
						   void (*row) (void *arg, const SjRow *row),
						   void *arg);
/* Takes in a row as the walk gave it: degree, padded and the flags of
 * SJ_ROW_CARRIED as they were. */
extern SjInsertResult sj_engine_restore(SjEngine *engine, const SjEvent *event,
										uint32 degree, bool padded,
										uint16 flags);

#endif							/* SJ_ENGINE_H */
