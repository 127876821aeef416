/*-------------------------------------------------------------------------
 *
 * late_read.h
 *	  Reading late rows back, for verify().
 *
 * IDENTIFICATION
 *	  src/emit/late_read.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_LATE_READ_H
#define SJ_LATE_READ_H

#include "sjoin.h"

#include "catalog/join_plan.h"
#include "emit/side_output.h"
#include "utils/snapshot.h"
#include "utils/tuplestore.h"

/* Which kinds of rejections there are. */
typedef struct SjRejections
{
	bool		any;			/* other than pairs */
	bool		failed_pairs;
	bool		truncated;
	bool		replays;		/* late rows are asked to be taken in */
} SjRejections;

/*
 * Puts the rejections of a join that the snapshot sees into a tuplestore as
 * (side int2, op "char", row_hash uuid, old_hash uuid, old_data jsonb).
 */
extern TupleDesc sj_rejections_desc(void);
extern void sj_rejections_read(int32 join_id, Snapshot snapshot,
							   Tuplestorestate *store,
							   SjRejections *rejections);

/* The same form for a record that has not been consumed yet. */
extern void sj_rejection_put(const SjPlanInput *input, SjSide side, char op,
							 MinimalTuple image, MinimalTuple old_image,
							 Tuplestorestate *store,
							 SjRejections *rejections);

/*
 * Calls 'visit' for each row that was too late for a join, with how far its
 * event time was behind the watermark of the join then.
 */
extern void sj_late_distances_visit(int32 join_id,
									void (*visit) (void *arg, int64 behind),
									void *arg);

#endif							/* SJ_LATE_READ_H */
