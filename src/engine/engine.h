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
 *		sj_engine_insert()		for each row of the step, in log order
 *		sj_engine_saw()			for each finite event time of the step
 *		sj_engine_advance()		for each advance_watermark of the step
 *		sj_engine_end_step()	watermark moves, deadlines are written
 *
 * and one batch is any number of steps, then sj_engine_changes(), and, when
 * these are durable, sj_engine_end_batch(), which lets expired rows go.  Rows
 * named by the changes stay where they are until then.
 *
 * Everything that outlives a batch lies in arena pages and refers to itself by
 * page number and offset, so another process that attached the arena at
 * another address could go on with it.
 *
 * Rules T1-T6 and T8-T10 of the design are here and in bounds.c.
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

/*
 * One row in the state, followed by its tuple.  Read only outside the engine.
 */
typedef struct SjRow
{
	int64		seq;			/* identity: log sequence of the insertion */
	SjTime		event_time;
	SjTime		due;			/* deadline (T5) */
	SjTime		expires;		/* leaves when horizon > expires (T5) */
	uint32		next;			/* later row of this side and key */
	uint32		prev;			/* earlier row of this side and key */
	uint32		key;			/* key entry, or none for a NULL key */
	uint32		degree;			/* partners ever accepted */
	uint8		side;
	bool		padded;			/* is in the result unmatched */
	uint16		flags;			/* private to the engine */
	uint32		size;			/* of the whole row, in bytes */
	/* MAXALIGNed MinimalTuple follows */
} SjRow;

#define SJ_ROW_TUPLE(row) \
	((MinimalTuple) ((char *) (row) + MAXALIGN(sizeof(SjRow))))

/* SjRow.key of a row without a key */
#define SJ_NO_KEY		0

/* Has the row a key, or is one of its key columns NULL (T10)? */
static inline bool
sj_row_has_key(const SjRow *row)
{
	return row->key != SJ_NO_KEY;
}

/*
 * What the join is.  Constant while it runs; belongs to the caller, who keeps
 * it for as long as the engine.
 *
 * same_key and verdict may run user code and may throw: nothing of the state
 * or the changes has been touched when they do, and the same insertion may be
 * tried again.
 */
typedef struct SjOperator
{
	bool		pad[2];			/* unmatched rows of this side are written */
	bool		final;			/* deadlines go by the horizon (append, final) */
	int64		allowed_lateness;	/* usec; PG_INT64_MAX: nothing is late */
	int64		delay[2];		/* watermark_delay of each input, usec */
	int64		reach[2];		/* largest expires - event_time, usec: a hint
								 * for the width of expiry slices */

	/* SQL equality of the join keys of two tuples of the given sides */
	bool		(*same_key) (void *arg, SjSide side_a, MinimalTuple a,
							 SjSide side_b, MinimalTuple b);
	/* remaining conditions of a pair, or NULL: always SJ_PAIR_YES */
	SjPairVerdict (*verdict) (void *arg,
							  int64 left_seq, MinimalTuple left,
							  int64 right_seq, MinimalTuple right);
	void	   *arg;
} SjOperator;

/* A row to take in.  Filters have been applied; event_time is finite. */
typedef struct SjEvent
{
	SjSide		side;
	bool		has_key;		/* false: a key column is NULL (T10) */
	uint32		hash;			/* of the key */
	int64		seq;			/* ascending within a step */
	SjTime		event_time;
	SjTime		from;			/* event times of partners: from .. until, */
	SjTime		until;			/* both inclusive */
	SjTime		due;			/* deadline; SJ_TIME_MIN: written unmatched at
								 * the end of its step; SJ_TIME_MAX: never */
	SjTime		expires;
	MinimalTuple tuple;			/* copied */
} SjEvent;

typedef enum SjInsertResult
{
	SJ_INSERTED,
	SJ_LATE,					/* event_time < horizon; nothing changed */
	SJ_NO_MEMORY				/* arena exhausted; nothing changed */
} SjInsertResult;

/* A net change of the result: a pair, or a padded row (other side NULL). */
typedef struct SjChange
{
	const SjRow *left;
	const SjRow *right;
	int32		sign;			/* +1 is inserted, -1 is taken back */
} SjChange;

/* Where event time stands (T1-T3, T9); what a position record keeps. */
typedef struct SjClock
{
	SjTime		input[2];		/* watermark of each input */
	SjTime		max_event_time[2];	/* greatest finite event time seen */
	SjTime		watermark;		/* of the join: minimum over its inputs */
	SjTime		horizon;		/* watermark - allowed_lateness, never back */
} SjClock;

/* Figures for statistics. */
typedef struct SjEngineStats
{
	uint64		rows[2];		/* rows in state */
	uint64		keys;			/* key entries */
	uint64		pages;			/* arena pages in use */
	uint64		timers;			/* pending deadlines */
	uint64		matched[2];		/* rows that found their first partner,
								 * ever */
	uint64		unmatched;		/* padded rows written, ever */
	uint64		expired[2];		/* rows that have left, ever */
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
extern void sj_engine_saw(SjEngine *engine, SjSide side, SjTime event_time,
						  bool moves_watermark);
extern void sj_engine_advance(SjEngine *engine, SjSide side, SjTime watermark);
extern bool sj_engine_end_step(SjEngine *engine);
extern const SjChange *sj_engine_changes(SjEngine *engine, int64 *n);
extern void sj_engine_end_batch(SjEngine *engine);

/* Settings consumed from the log (T9): hold for rows from now on. */
extern void sj_engine_set_lateness(SjEngine *engine, int64 allowed_lateness);

extern const SjClock *sj_engine_clock(const SjEngine *engine);
extern void sj_engine_stats(const SjEngine *engine, SjEngineStats *stats);

/*
 * Carrying a state forward: calls 'row' for each row in state, in an order in
 * which sj_engine_restore() can take them.
 */
extern void sj_engine_walk(const SjEngine *engine,
						   void (*row) (void *arg, const SjRow *row),
						   void *arg);
/* Takes in a row as the walk gave it: degree and padded as they were. */
extern SjInsertResult sj_engine_restore(SjEngine *engine, const SjEvent *event,
										uint32 degree, bool padded);

#endif							/* SJ_ENGINE_H */
