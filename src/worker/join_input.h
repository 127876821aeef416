/*-------------------------------------------------------------------------
 *
 * join_input.h
 *	  One input of a running join: from an image in the log to an event.
 *
 * IDENTIFICATION
 *	  src/worker/join_input.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_JOIN_INPUT_H
#define SJ_JOIN_INPUT_H

#include "sjoin.h"

#include "catalog/join_plan.h"
#include "engine/engine.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"

/* What becomes of an image before the engine sees it. */
typedef enum SjImageVerdict
{
	SJ_IMAGE_EVENT,				/* an event */
	SJ_IMAGE_FILTERED,
	SJ_IMAGE_NULL_TIME,
	SJ_IMAGE_INFINITE,
	SJ_IMAGE_FAILED				/* could not be judged */
} SjImageVerdict;

/* How the images of one layout become tuples of the input. */
typedef struct SjImageLayout
{
	int32		id;
	bool		ours;			/* images of this input's table */
	bool		same;			/* an image is the input's tuple as it is */
	TupleTableSlot *slot;		/* of the image */
	int		   *place;			/* of each of the input's columns */
} SjImageLayout;

typedef struct SjTaskInput
{
	MemoryContext context;		/* everything below, and new layouts */
	SjSide		side;
	const SjBounds *bounds;
	const SjPlanInput *plan;
	Oid			relid;
	bool		local_time;		/* event times are of type timestamp */
	int64		max_future;		/* usec; -1: no guard */
	TimestampTz clock_of;		/* a clock's time, and the same as an event */
	SjTime		clock;			/* time: see sj_timing_clock() */
	List	   *layouts;		/* of SjImageLayout */
	ExprContext *econtext;
	TupleTableSlot *row;		/* the input's tuple, virtual */
	ExprState  *filter;			/* NULL: none */
	ExprState **computed;
	int			nkeys;
	FmgrInfo   *hash;			/* of each key */
	Oid		   *collation;
	FmgrInfo   *upsert_hash;	/* of each column of the upsert key */
	FmgrInfo   *upsert_equal;
	int64		replaces;		/* usec; see sj_query_replaces() */
	SjImageLayout *last_layout;
} SjTaskInput;

/* Compiles; runs no user code beyond constant folding. */
extern void sj_input_open(SjTaskInput *input, SjSide side,
						  const SjJoinQuery *query, const SjJoinPlan *plan);

/* The layout when it is one of this input's table, else NULL. */
extern SjImageLayout *sj_input_layout(SjTaskInput *input, int32 layout_id);

/* The image as the input's tuple, in per-tuple memory or as it is. */
extern MinimalTuple sj_input_tuple(SjTaskInput *input, SjImageLayout *layout,
								   MinimalTuple image);

/* The event time of an image; false when it is NULL. */
extern bool sj_input_event_time(SjTaskInput *input, SjImageLayout *layout,
								MinimalTuple image, SjTime *event_time);

/*
 * Judges an image and makes an event of it, all but its sequence number.  Runs
 * user code (filter, key expressions, hash functions).  The event's tuple lives
 * until the next call.
 */
extern SjImageVerdict sj_input_event(SjTaskInput *input, SjImageLayout *layout,
									 MinimalTuple image, SjEvent *event);

/*
 * The same for an image in the form that sj_input_tuple() gives it.  The
 * event's tuple is the given one, or lives until the next call.
 */
extern SjImageVerdict sj_input_tuple_event(SjTaskInput *input,
										   MinimalTuple tuple, SjEvent *event);

/* The event time of a tuple, SJ_TIME_MIN when it is NULL. */
extern SjTime sj_input_tuple_time(const SjTaskInput *input, MinimalTuple tuple);

/* SQL equality of the upsert keys of two tuples of the input. */
extern bool sj_input_same_entity(SjTaskInput *input, MinimalTuple a,
								 MinimalTuple b);

/* The event of a tuple that was in the state before. */
extern void sj_input_stored_event(SjTaskInput *input, MinimalTuple tuple,
								  SjEvent *event);

#endif							/* SJ_JOIN_INPUT_H */
