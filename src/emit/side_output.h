/*-------------------------------------------------------------------------
 *
 * side_output.h
 *	  Late rows: what a join did not take in or did not write, and why.
 *
 * IDENTIFICATION
 *	  src/emit/side_output.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_SIDE_OUTPUT_H
#define SJ_SIDE_OUTPUT_H

#include "sjoin.h"

#include "access/tupdesc.h"
#include "catalog/join_plan.h"
#include "nodes/pg_list.h"
#include "utils/uuid.h"

typedef enum SjReason
{
	SJ_REASON_LATE,
	SJ_REASON_DROPPED,			/* late, policy drop: only a hash is kept */
	SJ_REASON_NULL_EVENT_TIME,
	SJ_REASON_INFINITE,
	SJ_REASON_EXPIRED_CHANGE,
	SJ_REASON_ERROR
} SjReason;

/* What was rejected: a record of the log, or a pair. */
#define SJ_OP_INSERT	'I'
#define SJ_OP_UPDATE	'U'
#define SJ_OP_DELETE	'D'
#define SJ_OP_TRUNCATE	'T'
#define SJ_OP_PAIR		'P'

/*
 * One rejection, not yet written.  Images are tuples of the plan's input
 * descriptor: for 'P' the left tuple as image and the right one as old_image.
 */
typedef struct SjLateRow
{
	SjSide		side;
	char		op;
	SjReason	reason;
	int64		seq;			/* 'P': of the left row */
	int64		other_seq;		/* 'P': of the right row; else 0 */
	SjTime		event_time;
	SjTime		watermark;		/* of the join, when it was consumed */
	int			sqlstate;		/* 0: none */
	char	   *message;		/* or NULL */
	MinimalTuple image;			/* or NULL */
	MinimalTuple old_image;		/* or NULL */
} SjLateRow;

/* Writes them in the current transaction, under the current user. */
extern void sj_late_rows_store(int32 join_id, const SjJoinPlan *plan,
							   List *late_rows);

/* Those of a join that is dropped. */
extern void sj_late_rows_delete(int32 join_id);

/*
 * What failed with an error earlier (R8, R9): a record of the log for one side
 * ('I': seq, 0), or a pair ('P': left seq, right seq).
 */
typedef struct SjFailure
{
	char		op;
	SjSide		side;			/* SJ_LEFT for a pair */
	int64		seq;
	int64		other_seq;
} SjFailure;

/* In the order of sj_failure_compare(); in the current context. */
extern SjFailure *sj_failures_load(int32 join_id, int *n);
extern int	sj_failure_compare(const void *a, const void *b);

/* That of the columns of an input's tuple, computed keys left out. */
extern void sj_tuple_hash(const SjPlanInput *input, MinimalTuple image,
						  pg_uuid_t *hash);

/* 128-bit hash of an image: equal images, and in practice only these, agree. */
extern void sj_image_hash(TupleDesc desc, int natts, const Datum *values,
						  const bool *nulls, pg_uuid_t *hash);

#endif							/* SJ_SIDE_OUTPUT_H */
