/*-------------------------------------------------------------------------
 *
 * result_direct.c
 *	  Inserting into a result on which nothing of the user's hangs.
 *
 * table_multi_insert and the indexes' own insertion, as COPY does it: about
 * half the cost of a statement.  Tables with triggers, rules, policies,
 * partitions, defaults or deferrable constraints go the other way.
 *
 * IDENTIFICATION
 *	  src/emit/result_direct.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "emit/result_run.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/rel.h"

/* Rows handed to the table at once. */
#define INSERT_BATCH	1000

/* Is the column still what a value of ours can be put into as it is? */
static bool
is_as_created(Form_pg_attribute att, Form_pg_attribute ours)
{
	return !att->attisdropped && att->atttypid == ours->atttypid &&
		att->atttypmod == ours->atttypmod;
}

/* A column of ours that has been dropped has no name to write it by. */
void
sj_result_check_columns(const SjResultWriter *writer)
{
	Relation	rel = table_open(writer->def->result, RowExclusiveLock);
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < writer->desc->natts; i++)
		if (i >= desc->natts || TupleDescAttr(desc, i)->attisdropped)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" of the result has been dropped",
							NameStr(TupleDescAttr(writer->desc, i)->attname)),
					 errhint("Drop the join and create it again without the column.")));
	table_close(rel, NoLock);
}

/*
 * Have our columns the types that they were created with, and the others
 * neither default nor generation?
 */
static bool
only_plain_columns(Relation rel, TupleDesc ours)
{
	TupleDesc	desc = RelationGetDescr(rel);
	int			nours = ours->natts;

	if (desc->natts < nours)
		return false;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (i < nours && !is_as_created(att, TupleDescAttr(ours, i)))
			return false;
		if (att->attgenerated || att->attidentity)
			return false;
		if (i >= nours && att->atthasdef && !att->attisdropped)
			return false;
	}
	return true;
}

/* Does nothing of the user's hang on the table that a statement would do? */
static bool
is_plain_table(Relation rel, TupleDesc ours)
{
	return rel->rd_rel->relkind == RELKIND_RELATION &&
		!rel->rd_rel->relispartition &&
		!rel->rd_rel->relrowsecurity &&
		rel->trigdesc == NULL &&
		rel->rd_rules == NULL &&
		only_plain_columns(rel, ours);
}

/* Are all its indexes checked at once? */
static bool
has_only_immediate_indexes(const ResultRelInfo *info)
{
	for (int i = 0; i < info->ri_NumIndices; i++)
		if (!info->ri_IndexRelationDescs[i]->rd_index->indimmediate)
			return false;
	return true;
}

static void
flush_slots(SjWriteRun *run)
{
	ResultRelInfo *info = run->result_info;

	if (run->nslots == 0)
		return;
	table_multi_insert(run->rel, run->slots, run->nslots,
					   GetCurrentCommandId(true), 0, run->bulk);
	for (int i = 0; i < run->nslots; i++)
	{
		if (info->ri_NumIndices > 0)
			list_free(ExecInsertIndexTuples(info, run->slots[i], run->estate,
											false, false, NULL, NIL));
		ExecClearTuple(run->slots[i]);
		ResetPerTupleExprContext(run->estate);
	}
	run->nslots = 0;
}

static TupleTableSlot *
next_slot(SjWriteRun *run)
{
	TupleTableSlot *slot;

	if (run->slots[run->nslots] == NULL)
		run->slots[run->nslots] = table_slot_create(run->rel, NULL);
	slot = run->slots[run->nslots];
	memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts);
	return slot;
}

/* One row into the slots; nothing when the condition leaves it out. */
static void
add_slot(SjWriteRun *run, const SjResultRow *row, bool back)
{
	TupleTableSlot *slot = next_slot(run);

	if (!sj_result_fill(run, row, back, slot->tts_values, slot->tts_isnull))
		return;
	ExecStoreVirtualTuple(slot);
	if (run->rel->rd_att->constr)
		ExecConstraints(run->result_info, slot, run->estate);
	ExecMaterializeSlot(slot);
	if (back)
		run->written->retracted++;
	else
		run->written->inserted++;
	if (++run->nslots == INSERT_BATCH)
		flush_slots(run);
}

void
sj_result_insert_directly(SjWriteRun *run, const SjRowList *list, int64 first,
						  int64 last)
{
	SjResultRow space;

	for (int64 i = first; i < last; i++)
	{
		const SjResultRow *row = sj_result_row(list, i, &space);

		CHECK_FOR_INTERRUPTS();
		if (sj_result_row_is_pair(run, row))
			add_slot(run, row, true);
		add_slot(run, row, row->op == SJ_ROW_DELETE);
	}
	flush_slots(run);
}

void
sj_result_close_direct(SjWriteRun *run)
{
	for (int i = 0; i < INSERT_BATCH && run->slots[i] != NULL; i++)
		ExecDropSingleTupleTableSlot(run->slots[i]);
	FreeBulkInsertState(run->bulk);
	table_finish_bulk_insert(run->rel, 0);
	ExecCloseIndices(run->result_info);
	FreeExecutorState(run->estate);
	table_close(run->rel, NoLock);
}

/* Opens the table for direct insertion; false when a statement is needed. */
bool
sj_result_open_direct(SjWriteRun *run)
{
	run->rel = table_open(run->writer->def->result, RowExclusiveLock);
	if (!is_plain_table(run->rel, run->writer->desc))
	{
		table_close(run->rel, NoLock);
		return false;
	}
	run->estate = CreateExecutorState();
	run->result_info = makeNode(ResultRelInfo);
	InitResultRelInfo(run->result_info, run->rel, 0, NULL, 0);
	ExecOpenIndices(run->result_info, false);
	run->bulk = GetBulkInsertState();
	run->slots = palloc0(sizeof(TupleTableSlot *) * INSERT_BATCH);
	run->nslots = 0;
	if (has_only_immediate_indexes(run->result_info))
		return true;
	sj_result_close_direct(run);
	return false;
}
