/*-------------------------------------------------------------------------
 *
 * result_run.h
 *	  One run over changes: what the ways of writing share; private to
 *	  src/emit.
 *
 * IDENTIFICATION
 *	  src/emit/result_run.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_RESULT_RUN_H
#define SJ_RESULT_RUN_H

#include "sjoin.h"

#include "access/heapam.h"
#include "emit/result_query.h"
#include "emit/result_table.h"
#include "nodes/execnodes.h"
#include "utils/relcache.h"
#include "utils/uuid.h"

/* Target list and post-join condition of pairs, or of padded rows. */
typedef struct SjRowMaker
{
	ProjectionInfo *projection;
	ExprState  *post;			/* NULL: none */
} SjRowMaker;

struct SjResultWriter
{
	const SjJoinDef *def;
	const SjJoinPlan *plan;
	bool		append;			/* has sjoin_seq */
	int			ntargets;
	TupleDesc	desc;			/* targets, then sjoin's columns */
	ExprContext *econtext;
	TupleTableSlot *side_slot[2];
	TupleTableSlot *target_slot;
	SjRowMaker	pair;
	SjRowMaker	padded[2];
};

/* One run over changes. */
typedef struct SjWriteRun
{
	SjResultWriter *writer;
	const SjChange *changes;
	SjTime		watermark;
	TimestampTz at;
	int64	   *result_seq;
	SjWritten  *written;
	SjResultQuery *sub_queries; /* NULL: none in the target list */
	uint64		(*insert) (struct SjWriteRun *run, int64 first, int64 last);

	/* direct path: the open table */
	Relation	rel;
	EState	   *estate;
	ResultRelInfo *result_info;
	TupleTableSlot **slots;
	int			nslots;
	BulkInsertState bulk;
} SjWriteRun;

/* result_table.c */
extern bool sj_result_make_row(SjWriteRun *run, const SjChange *change,
							   Datum *values, bool *isnull);
extern void sj_result_identity(pg_uuid_t *id, const SjChange *change);

/* result_direct.c */
extern void sj_result_check_columns(const SjResultWriter *writer);
/* false when the table needs a statement */
extern bool sj_result_open_direct(SjWriteRun *run);
extern uint64 sj_result_insert_directly(SjWriteRun *run, int64 first,
										int64 last);
extern void sj_result_close_direct(SjWriteRun *run);

/* result_statement.c */
extern uint64 sj_result_insert_by_statement(SjWriteRun *run, int64 first,
											int64 last);
extern void sj_result_retract(SjWriteRun *run, int64 first, int64 last);

#endif							/* SJ_RESULT_RUN_H */
