/*-------------------------------------------------------------------------
 *
 * result_query.c
 *	  Values of the target list that come from sub-queries.
 *
 * The rows of a range go into a tuplestore, one query over it computes all
 * their values (A10), and these are handed out in the same order.  Other
 * tables are read as they are when the range is written: with a snapshot of
 * that moment.
 *
 * IDENTIFICATION
 *	  src/emit/result_query.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "emit/result_query.h"
#include "executor/executor.h"
#include "executor/tstoreReceiver.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/queryenvironment.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

struct SjResultQuery
{
	const SjSubQueries *sub;
	const char *query_text;
	PlannedStmt *plan;

	/* the range; all of it in 'context' */
	MemoryContext context;
	Tuplestorestate *rows;
	int64		nput;
	Tuplestorestate *values;
	TupleTableSlot *slot;
	int64		ngot;
};

/* The rows as a relation that the plan finds by name. */
static QueryEnvironment *
environment(const SjResultQuery *query)
{
	QueryEnvironment *env = create_queryEnv();
	EphemeralNamedRelation enr = palloc0(sizeof(EphemeralNamedRelationData));

	enr->md.name = SJ_JOINED_ROWS;
	enr->md.reliddesc = InvalidOid;
	enr->md.tupdesc = query->sub->desc;
	enr->md.enrtype = ENR_NAMED_TUPLESTORE;
	enr->md.enrtuples = (double) query->nput;
	enr->reldata = query->rows;
	register_ENR(env, enr);
	return env;
}

/* Toasted values are fetched: what they point to may go with the snapshot. */
static DestReceiver *
collector(const SjResultQuery *query)
{
	DestReceiver *dest = CreateDestReceiver(DestTuplestore);

	SetTuplestoreDestReceiverParams(dest, query->values, query->context, true,
									NULL, NULL);
	return dest;
}

void
sj_result_query_begin(SjResultQuery *query)
{
	MemoryContext old;

	MemoryContextReset(query->context);
	old = MemoryContextSwitchTo(query->context);
	query->rows = tuplestore_begin_heap(false, false, work_mem);
	query->values = tuplestore_begin_heap(false, false, work_mem);
	query->slot = NULL;
	query->nput = query->ngot = 0;
	MemoryContextSwitchTo(old);
}

void
sj_result_query_put(SjResultQuery *query, TupleTableSlot *const side_slot[2],
					const bool absent[2])
{
	const SjSubQueries *sub = query->sub;
	MemoryContext old = MemoryContextSwitchTo(query->context);
	Datum	   *values = palloc(sizeof(Datum) * sub->desc->natts);
	bool	   *isnull = palloc0(sizeof(bool) * sub->desc->natts);

	values[0] = Int64GetDatum(++query->nput);
	for (int i = 0; i < sub->ncolumns; i++)
	{
		const SjJoinedColumn *column = &sub->columns[i];

		if (column->attno == 0)
			values[i + 1] = BoolGetDatum(absent[column->side]);
		else
			values[i + 1] = slot_getattr(side_slot[column->side],
										 column->attno, &isnull[i + 1]);
	}
	tuplestore_putvalues(query->rows, sub->desc, values, isnull);
	pfree(values);
	pfree(isnull);
	MemoryContextSwitchTo(old);
}

void
sj_result_query_run(SjResultQuery *query)
{
	MemoryContext old = MemoryContextSwitchTo(query->context);
	DestReceiver *dest = collector(query);
	QueryDesc  *desc;

	/* what this transaction has written is seen, as in any statement */
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	desc = CreateQueryDesc(query->plan, query->query_text, GetActiveSnapshot(),
						   InvalidSnapshot, dest, NULL, environment(query), 0);
	ExecutorStart(desc, 0);
	query->slot = MakeSingleTupleTableSlot(CreateTupleDescCopy(desc->tupDesc),
										   &TTSOpsMinimalTuple);
	ExecutorRun(desc, ForwardScanDirection, 0, true);
	ExecutorFinish(desc);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
	PopActiveSnapshot();
	dest->rDestroy(dest);
	tuplestore_end(query->rows);
	query->rows = NULL;
	MemoryContextSwitchTo(old);
}

void
sj_result_query_next(SjResultQuery *query, Datum *values, bool *isnull)
{
	const SjSubQueries *sub = query->sub;
	TupleTableSlot *slot = query->slot;

	query->ngot++;
	if (!tuplestore_gettupleslot(query->values, true, false, slot))
		elog(ERROR, "sub-queries gave no value for row " INT64_FORMAT,
			 query->ngot);
	slot_getallattrs(slot);
	if (DatumGetInt64(slot->tts_values[0]) != query->ngot)
		elog(ERROR, "sub-queries gave the value of row " INT64_FORMAT " for row " INT64_FORMAT,
			 DatumGetInt64(slot->tts_values[0]), query->ngot);
	for (int i = 0; i < sub->ntargets; i++)
	{
		values[sub->targets[i]] = slot->tts_values[i + 1];
		isnull[sub->targets[i]] = slot->tts_isnull[i + 1];
	}
}

SjResultQuery *
sj_result_query_open(const SjSubQueries *sub, const char *query_text,
					 double nrows)
{
	SjResultQuery *query = palloc0(sizeof(SjResultQuery));

	query->sub = sub;
	query->query_text = query_text;
	query->context = AllocSetContextCreate(CurrentMemoryContext,
										   "sjoin sub-queries",
										   ALLOCSET_DEFAULT_SIZES);
	query->plan = sj_sub_queries_plan(sub, nrows);
	sj_result_query_begin(query);
	sj_result_query_run(query);
	return query;
}
