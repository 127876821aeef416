/*-------------------------------------------------------------------------
 *
 * pending.h
 *	  What a snapshot sees of the streams and a join has not consumed.
 *
 * IDENTIFICATION
 *	  src/worker/pending.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_PENDING_H
#define SJ_PENDING_H

#include "sjoin.h"

#include "catalog/join_def.h"
#include "catalog/join_plan.h"
#include "emit/late_read.h"
#include "log/position.h"
#include "utils/snapshot.h"
#include "utils/tuplestore.h"

/*
 * Adds to what was not taken in (late_read.h) the records after the position:
 * tables less all of that are the tables as the join has consumed them.
 */
extern void sj_pending_put(const SjJoinDef *def, const SjJoinQuery *query,
						   const SjJoinPlan *plan, const SjPosition *position,
						   Snapshot snapshot, Tuplestorestate *records,
						   SjRejections *rejections);

#endif							/* SJ_PENDING_H */
