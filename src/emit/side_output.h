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
#include "log/event_log.h"
#include "nodes/pg_list.h"
#include "utils/uuid.h"

typedef enum SjReason
{
	SJ_REASON_LATE,
	SJ_REASON_DROPPED,			/* late, policy drop: only a hash is kept */
	SJ_REASON_NULL_EVENT_TIME,
	SJ_REASON_INFINITE,
	SJ_REASON_EXPIRED_CHANGE,	/* an UPDATE of a settled row */
	SJ_REASON_CHANGED,			/* of a row that is final */
	SJ_REASON_ERROR,
	SJ_REASON_REPLAYED,			/* a late row has been taken in after all; not
								 * shown */
	SJ_REASON_WITHDRAWN			/* a refused row is gone, or a version has been
								 * replaced; not shown */
} SjReason;

/*
 * What was rejected: a record of the log, a pair or padded row that was not
 * written ('P'), or one that could not be deleted ('K').  'p' is the end of a
 * 'P': the row that is not in the result was taken back.  'V' is a version that
 * a newer one of its upsert key has replaced, 'v' the end of that: it has been
 * taken out.  'w': a row that had been refused is gone.  'R': a late row (whose
 * late_id is in other_seq) has been taken in after all; 'r': an equal one had
 * gone from its table without a trace.  Nobody is shown 'p', 'w', 'V', 'v', 'R'
 * and 'r'.
 */
#define SJ_OP_PAIR		'P'
#define SJ_OP_UNPAIR	'p'
#define SJ_OP_KEPT		'K'
#define SJ_OP_WITHDRAWN	'w'
#define SJ_OP_REPLAYED	'R'
#define SJ_OP_VANISHED	'r'
#define SJ_OP_REPLACED	'V'
#define SJ_OP_REPLACED_GONE 'v'

/* Is it of a pair: the left image and the right one? */
#define SJ_OP_IS_OF_PAIR(op) \
	((op) == SJ_OP_PAIR || (op) == SJ_OP_UNPAIR || (op) == SJ_OP_KEPT)

/*
 * One rejection, not yet written.  Images are tuples of the plan's input
 * descriptor: of a pair the left tuple as image and the right one as old_image.
 */
typedef struct SjLateRow
{
	SjSide		side;
	char		op;
	SjReason	reason;
	int64		seq;			/* of a pair: of the left row */
	int64		other_seq;		/* of a pair: of the right row; else 0 */
	Oid			source;			/* partition of the images; not of a pair */
	SjTime		event_time;
	SjTime		watermark;		/* of the join, when it was consumed */
	int			sqlstate;		/* 0: none */
	char	   *message;		/* or NULL */
	MinimalTuple image;			/* or NULL */
	MinimalTuple old_image;		/* or NULL */
	const pg_uuid_t *old_hash;	/* instead of it, or NULL */
} SjLateRow;

extern const char *sj_reason_name(SjReason reason);

/* Writes them in the current transaction, under the current user. */
extern void sj_late_rows_store(int32 join_id, const SjJoinPlan *plan,
							   List *late_rows);

/* Those of a join that is dropped. */
extern void sj_late_rows_delete(int32 join_id);

/*
 * What failed with an error earlier (R8, R9): taking in ('I') or taking out
 * ('D') the image of a record for one side (seq, 0; 'w': it had been refused), or a pair ('P' or 'K':
 * left seq, right seq; a row keeps its number when it is updated, so the images
 * tell when); and the end of that ('p').
 */
typedef struct SjFailure
{
	char		op;
	SjSide		side;			/* SJ_LEFT for a pair */
	int64		seq;
	int64		other_seq;
	pg_uuid_t	hash[2];		/* of a pair, zero where a side is missing */
} SjFailure;

/* In the order of sj_failure_compare(), which does not look at the hashes; in
 * the current context. */
extern SjFailure *sj_failures_load(int32 join_id, int *n);
extern int	sj_failure_compare(const void *a, const void *b);

/* That of the columns of an input's tuple, computed keys left out. */
extern void sj_tuple_hash(const SjPlanInput *input, MinimalTuple image,
						  pg_uuid_t *hash);

/* An image of one side, of a partition or the stream itself. */
typedef struct SjImageKey
{
	pg_uuid_t	hash;
	Oid			source;
	int32		side;
} SjImageKey;

extern void sj_image_key(const SjPlanInput *input, SjSide side, Oid source,
						 MinimalTuple image, SjImageKey *key);

/* Calls 'visit' for each stored late row of one image, in the order stored. */
extern void sj_late_images_visit(int32 join_id,
								 void (*visit) (void *arg, SjReason reason,
												const SjImageKey *image,
												const SjImageKey *old_image),
								 void *arg);

/* 128-bit hash of an image: equal images, and in practice only these, agree. */
extern void sj_image_hash(TupleDesc desc, int natts, const Datum *values,
						  const bool *nulls, pg_uuid_t *hash);

#endif							/* SJ_SIDE_OUTPUT_H */
