/*-------------------------------------------------------------------------
 *
 * verify_settled.h
 *	  Telling differences that rest on settled rows from real ones (R1).
 *
 * IDENTIFICATION
 *	  src/api/verify_settled.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_VERIFY_SETTLED_H
#define SJ_VERIFY_SETTLED_H

#include "sjoin.h"

#include "catalog/join_def.h"
#include "catalog/join_plan.h"
#include "log/position.h"
#include "utils/snapshot.h"
#include "utils/tuplestore.h"

/* Name of the ephemeral relation of rows that may be live. */
#define SJ_LIVE "sjoin_live"

/* All as SQL text. */
typedef struct SjSettledSpec
{
	const char *want;			/* rows of the batch query: its columns, then
								 * NULL for a pair, else whether a pair of the
								 * row had been refused */
	const char *got;			/* rows of the result: its columns, then
								 * sjoin_id */
	const char *aliases;		/* names of the columns of both */
	const char *compared;		/* "sjoin_row.a, ...": what is compared */
	const char *range;			/* WHERE clause over sjoin_row, or "" */
	const char *own[2];			/* columns that are plainly of one side, as
								 * 'compared'; NULL: none */
	const char *have[2];		/* SELECT of just these FROM accepted rows */
	int64		next_seq;		/* no row has this number or a greater one */
	int			max_examples;
} SjSettledSpec;

/* (difference, n, row_data) like verify itself. */
extern char *sj_settled_comparison(const SjSettledSpec *spec);

/*
 * Rows whose newest known image is not older than the horizon, as (side int2,
 * seq int8): what the log has since the base of the position.
 */
extern TupleDesc sj_live_desc(void);
extern Tuplestorestate *sj_live_rows(const SjJoinDef *def,
									 const SjJoinPlan *plan,
									 const SjJoinQuery *query,
									 const SjPosition *position,
									 Snapshot snapshot);

#endif							/* SJ_VERIFY_SETTLED_H */
