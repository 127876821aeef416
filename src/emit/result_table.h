/*-------------------------------------------------------------------------
 *
 * result_table.h
 *	  From changes of the engine to rows of the result table (A10).
 *
 * IDENTIFICATION
 *	  src/emit/result_table.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_RESULT_TABLE_H
#define SJ_RESULT_TABLE_H

#include "sjoin.h"

#include "catalog/join_def.h"
#include "catalog/join_plan.h"
#include "engine/engine.h"
#include "nodes/pg_list.h"

/* Columns that every result has after those of the query. */
#define SJ_COLUMN_ID		"sjoin_id"
#define SJ_COLUMN_VERSION	"sjoin_version"
#define SJ_COLUMN_AT		"sjoin_at"
#define SJ_COLUMN_SEQ		"sjoin_seq" /* changelog and append */
#define SJ_COLUMN_OP		"sjoin_op"	/* changelog */

/* Their places: so many columns after the last of the query. */
enum
{
	SJ_META_ID = 1,
	SJ_META_VERSION,
	SJ_META_AT,
	SJ_META_SEQ,
	SJ_META_OP
};

typedef struct SjResultWriter SjResultWriter;

/* What a call of sj_result_write() did. */
typedef struct SjWritten
{
	int64		inserted;
	int64		retracted;
	List	   *late_rows;		/* of SjLateRow: changes that failed */
} SjWritten;

/*
 * Compiles the target list; memory in the current context, to which the
 * writer belongs.  Runs user code: call it as the result's owner.
 */
extern SjResultWriter *sj_result_open(const SjJoinDef *def,
									  const SjJoinPlan *plan);

/*
 * Writes the changes as the current user, deletes before inserts.
 * *result_seq is the last sjoin_seq given and is moved on.  An error leaves
 * with ereport; with 'careful' a change that fails by itself is left out
 * instead and returned as a late row (R8), found by halving.
 */
extern void sj_result_write(SjResultWriter *writer, const SjChange *changes,
							int64 n, bool careful, SjTime watermark,
							int64 *result_seq, SjWritten *written);

/*
 * Numbers of unmatched rows of the left input whose images are given (changes
 * without a right side; their own numbers are not looked at): for each that of
 * a row of the result with its values, or 0 when there is none left.  Rows whose
 * number is_known() are somebody else's.
 */
extern void sj_result_find_padded(SjResultWriter *writer,
								  const SjChange *padded, int n,
								  bool (*is_known) (void *arg, int64 seq),
								  void *arg, int64 *seqs);

#endif							/* SJ_RESULT_TABLE_H */
