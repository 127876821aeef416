/*-------------------------------------------------------------------------
 *
 * result_table.c
 *	  From changes of the engine to rows of the result table.
 *
 * A change is projected to a row: the query's columns, then sjoin's own.  Rows
 * go to the table by table_multi_insert when nothing of the user's hangs on
 * it, else by one INSERT over an ephemeral relation, so that triggers, rules,
 * partitions, defaults and policies of the table work as for any statement.
 * Retractions are one DELETE by identity.
 *
 * An error leaves with ereport and the caller aborts; it calls again with
 * 'careful', and then a batch that fails is halved, in subtransactions, down
 * to the changes that fail by themselves (R8).
 *
 * IDENTIFICATION
 *	  src/emit/result_table.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "emit/attempt.h"
#include "emit/result_table.h"
#include "emit/side_output.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "port/pg_bswap.h"
#include "shmem.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"
#include "utils/uuid.h"

/* Rows handed to the table at once. */
#define INSERT_BATCH	1000

#define CHANGES_NAME	"sjoin_changes"

/* Target list and post-join condition of pairs, or of padded rows. */
typedef struct RowMaker
{
	ProjectionInfo *projection;
	ExprState  *post;			/* NULL: none */
} RowMaker;

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
	RowMaker	pair;
	RowMaker	padded[2];
};

/* One run over changes. */
typedef struct WriteRun
{
	SjResultWriter *writer;
	const SjChange *changes;
	SjTime		watermark;
	TimestampTz at;
	int64	   *result_seq;
	SjWritten  *written;
	uint64		(*insert) (struct WriteRun *run, int64 first, int64 last);

	/* direct path: the open table */
	Relation	rel;
	EState	   *estate;
	ResultRelInfo *result_info;
	TupleTableSlot **slots;
	int			nslots;
	BulkInsertState bulk;
} WriteRun;

/* -- rows ---------------------------------------------------------------- */

/* Identity of a row: the log sequences of its inputs, 0 for a missing one. */
static void
set_identity(pg_uuid_t *id, const SjChange *change)
{
	uint64		half[2];

	half[0] = pg_hton64(change->left ? (uint64) change->left->seq : 0);
	half[1] = pg_hton64(change->right ? (uint64) change->right->seq : 0);
	memcpy(id->data, half, UUID_LEN);
}

static TupleDesc
row_desc(const SjJoinPlan *plan, bool append)
{
	int			ntargets = list_length(plan->targets);
	TupleDesc	desc = CreateTemplateTupleDesc(ntargets + (append ? 4 : 3));
	ListCell   *lc;
	AttrNumber	attno = 0;

	foreach(lc, plan->targets)
	{
		TargetEntry *target = lfirst(lc);
		Node	   *expr = (Node *) target->expr;

		TupleDescInitEntry(desc, ++attno, target->resname,
						   exprType(expr), exprTypmod(expr), 0);
		TupleDescInitEntryCollation(desc, attno, exprCollation(expr));
	}
	TupleDescInitEntry(desc, ++attno, SJ_COLUMN_ID, UUIDOID, -1, 0);
	TupleDescInitEntry(desc, ++attno, SJ_COLUMN_VERSION, INT4OID, -1, 0);
	TupleDescInitEntry(desc, ++attno, SJ_COLUMN_AT, TIMESTAMPTZOID, -1, 0);
	if (append)
		TupleDescInitEntry(desc, ++attno, SJ_COLUMN_SEQ, INT8OID, -1, 0);
	return desc;
}

static void
init_row_maker(RowMaker *maker, SjResultWriter *writer, List *targets,
			   List *post)
{
	maker->projection = ExecBuildProjectionInfo(targets, writer->econtext,
												writer->target_slot,
												NULL, NULL);
	maker->post = post == NIL ? NULL : ExecInitQual(post, NULL);
}

SjResultWriter *
sj_result_open(const SjJoinDef *def, const SjJoinPlan *plan)
{
	SjResultWriter *writer = palloc0(sizeof(SjResultWriter));

	writer->def = def;
	writer->plan = plan;
	writer->append = def->output_mode == SJ_OUTPUT_APPEND;
	writer->ntargets = list_length(plan->targets);
	writer->desc = row_desc(plan, writer->append);
	writer->econtext = CreateStandaloneExprContext();
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		writer->side_slot[side] =
			MakeSingleTupleTableSlot(plan->input[side].desc,
									 &TTSOpsMinimalTuple);
	writer->target_slot =
		MakeSingleTupleTableSlot(ExecTypeFromTL(plan->targets),
								 &TTSOpsVirtual);
	writer->econtext->ecxt_outertuple = writer->side_slot[SJ_LEFT];
	writer->econtext->ecxt_innertuple = writer->side_slot[SJ_RIGHT];
	init_row_maker(&writer->pair, writer, plan->targets, plan->post);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		init_row_maker(&writer->padded[side], writer,
					   plan->padded_targets[side], plan->padded_post[side]);
	return writer;
}

static void
load_side(SjResultWriter *writer, SjSide side, const SjRow *row)
{
	if (row != NULL)
		ExecStoreMinimalTuple(SJ_ROW_TUPLE(row), writer->side_slot[side],
							  false);
}

/*
 * Projects a change into values[] and isnull[] (all columns of the row);
 * false when the post-join condition leaves it out.  By-reference values live
 * in the per-tuple memory and in the state.
 */
static bool
make_row(WriteRun *run, const SjChange *change, Datum *values, bool *isnull)
{
	SjResultWriter *writer = run->writer;
	RowMaker   *maker = &writer->pair;
	pg_uuid_t  *id;
	int			n = writer->ntargets;
	TupleTableSlot *slot;

	ResetExprContext(writer->econtext);
	load_side(writer, SJ_LEFT, change->left);
	load_side(writer, SJ_RIGHT, change->right);
	if (change->right == NULL)
		maker = &writer->padded[SJ_LEFT];
	else if (change->left == NULL)
		maker = &writer->padded[SJ_RIGHT];
	if (maker->post != NULL && !ExecQual(maker->post, writer->econtext))
		return false;

	slot = ExecProject(maker->projection);
	memcpy(values, slot->tts_values, sizeof(Datum) * n);
	memcpy(isnull, slot->tts_isnull, sizeof(bool) * n);
	memset(isnull + n, false, writer->desc->natts - n);

	id = MemoryContextAlloc(writer->econtext->ecxt_per_tuple_memory,
							sizeof(pg_uuid_t));
	set_identity(id, change);
	values[n++] = UUIDPGetDatum(id);
	values[n++] = Int32GetDatum(1);
	values[n++] = TimestampTzGetDatum(run->at);
	if (writer->append)
		values[n] = Int64GetDatum(++(*run->result_seq));
	return true;
}

/* -- the direct path ------------------------------------------------------ */

/* Have all columns that we do not write neither default nor generation? */
static bool
only_plain_columns(Relation rel, int nours)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (i < nours && att->attisdropped)
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
is_plain_table(Relation rel, int nours)
{
	return rel->rd_rel->relkind == RELKIND_RELATION &&
		!rel->rd_rel->relispartition &&
		!rel->rd_rel->relrowsecurity &&
		rel->trigdesc == NULL &&
		rel->rd_rules == NULL &&
		only_plain_columns(rel, nours);
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
flush_slots(WriteRun *run)
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
next_slot(WriteRun *run)
{
	TupleTableSlot *slot;

	if (run->slots[run->nslots] == NULL)
		run->slots[run->nslots] = table_slot_create(run->rel, NULL);
	slot = run->slots[run->nslots];
	memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts);
	return slot;
}

static uint64
insert_directly(WriteRun *run, int64 first, int64 last)
{
	uint64		n = 0;

	for (int64 i = first; i < last; i++)
	{
		TupleTableSlot *slot;

		CHECK_FOR_INTERRUPTS();
		if (run->changes[i].sign < 0)
			continue;
		slot = next_slot(run);
		if (!make_row(run, &run->changes[i], slot->tts_values,
					  slot->tts_isnull))
			continue;
		ExecStoreVirtualTuple(slot);
		if (run->rel->rd_att->constr)
			ExecConstraints(run->result_info, slot, run->estate);
		ExecMaterializeSlot(slot);
		n++;
		if (++run->nslots == INSERT_BATCH)
			flush_slots(run);
	}
	flush_slots(run);
	return n;
}

static void
close_direct(WriteRun *run)
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
static bool
open_direct(WriteRun *run)
{
	run->rel = table_open(run->writer->def->result, RowExclusiveLock);
	if (!is_plain_table(run->rel, run->writer->desc->natts))
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
	close_direct(run);
	return false;
}

/* -- the statement path --------------------------------------------------- */

static char *
result_name(const SjResultWriter *writer)
{
	Oid			relid = writer->def->result;

	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
}

/* INSERT INTO result (its columns) SELECT (ours) FROM the changes. */
static char *
insert_command(const SjResultWriter *writer)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "INSERT INTO %s (", result_name(writer));
	for (int i = 0; i < writer->desc->natts; i++)
		appendStringInfo(&buf, "%s%s", i > 0 ? ", " : "",
						 quote_identifier(get_attname(writer->def->result,
													  i + 1, false)));
	appendStringInfoString(&buf, ") SELECT ");
	for (int i = 0; i < writer->desc->natts; i++)
		appendStringInfo(&buf, "%sc%d", i > 0 ? ", " : "", i + 1);
	appendStringInfo(&buf, " FROM %s", CHANGES_NAME);
	return buf.data;
}

/* The row's columns as c1, c2, ...: names of the user's need not be unique. */
static TupleDesc
ephemeral_desc(const SjResultWriter *writer)
{
	TupleDesc	desc = CreateTupleDescCopy(writer->desc);

	for (int i = 0; i < desc->natts; i++)
		snprintf(NameStr(TupleDescAttr(desc, i)->attname), NAMEDATALEN,
				 "c%d", i + 1);
	return desc;
}

static Tuplestorestate *
collect_rows(WriteRun *run, int64 first, int64 last, uint64 *n)
{
	Tuplestorestate *store = tuplestore_begin_heap(false, false, work_mem);
	TupleDesc	desc = run->writer->desc;
	Datum	   *values = palloc(sizeof(Datum) * desc->natts);
	bool	   *isnull = palloc(sizeof(bool) * desc->natts);

	*n = 0;
	for (int64 i = first; i < last; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (run->changes[i].sign < 0 ||
			!make_row(run, &run->changes[i], values, isnull))
			continue;
		tuplestore_putvalues(store, desc, values, isnull);
		(*n)++;
	}
	return store;
}

static void
register_changes(WriteRun *run, Tuplestorestate *store, uint64 n)
{
	EphemeralNamedRelation enr = palloc0(sizeof(EphemeralNamedRelationData));

	enr->md.name = CHANGES_NAME;
	enr->md.reliddesc = InvalidOid;
	enr->md.tupdesc = ephemeral_desc(run->writer);
	enr->md.enrtype = ENR_NAMED_TUPLESTORE;
	enr->md.enrtuples = (double) n;
	enr->reldata = store;
	if (SPI_register_relation(enr) != SPI_OK_REL_REGISTER)
		elog(ERROR, "could not register the changes as a relation");
}

static uint64
insert_by_statement(WriteRun *run, int64 first, int64 last)
{
	Tuplestorestate *store;
	uint64		n;

	SPI_connect();
	store = collect_rows(run, first, last, &n);
	if (n > 0)
	{
		register_changes(run, store, n);
		if (SPI_execute(insert_command(run->writer), false, 0) < 0)
			elog(ERROR, "could not insert into the result");
	}
	SPI_finish();
	return n;
}

/* -- retractions ---------------------------------------------------------- */

static ArrayType *
retracted_ids(const SjChange *changes, int64 first, int64 last, int *n)
{
	Datum	   *ids = palloc(sizeof(Datum) * (last - first));

	*n = 0;
	for (int64 i = first; i < last; i++)
	{
		pg_uuid_t  *id;

		if (changes[i].sign > 0)
			continue;
		id = palloc(sizeof(pg_uuid_t));
		set_identity(id, &changes[i]);
		ids[(*n)++] = UUIDPGetDatum(id);
	}
	return construct_array(ids, *n, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR);
}

/* Deletes the rows that the changes take back. */
static void
retract(WriteRun *run, int64 first, int64 last)
{
	int			n;
	ArrayType  *ids = retracted_ids(run->changes, first, last, &n);
	Oid			type = UUIDARRAYOID;
	Datum		value = PointerGetDatum(ids);
	int			id_attno = run->writer->ntargets + 1;

	if (n == 0)
		return;
	SPI_connect();
	if (SPI_execute_with_args(psprintf("DELETE FROM %s WHERE %s = ANY ($1)",
									   result_name(run->writer),
									   quote_identifier(get_attname(run->writer->def->result,
																	id_attno, false))),
							  1, &type, &value, NULL, false, 0) < 0)
		elog(ERROR, "could not delete from the result");
	SPI_finish();
	run->written->retracted += n;
}

/* -- halving -------------------------------------------------------------- */

static void
write_range(WriteRun *run, int64 first, int64 last)
{
	retract(run, first, last);
	run->written->inserted += run->insert(run, first, last);
}

/* The one change that failed, as a late row. */
static SjLateRow *
failed_change(WriteRun *run, const SjChange *change, const ErrorData *error)
{
	const SjRow *main_row = change->left ? change->left : change->right;
	SjLateRow  *late = palloc0(sizeof(SjLateRow));

	late->side = SJ_LEFT;
	late->op = SJ_OP_PAIR;
	late->reason = SJ_REASON_ERROR;
	late->seq = change->left ? change->left->seq : 0;
	late->other_seq = change->right ? change->right->seq : 0;
	late->event_time = main_row->event_time;
	late->watermark = run->watermark;
	late->sqlstate = error->sqlerrcode;
	late->message = error->message;
	late->image = change->left ? SJ_ROW_TUPLE(change->left) : NULL;
	late->old_image = change->right ? SJ_ROW_TUPLE(change->right) : NULL;
	return late;
}

/* A part of the changes, for sj_attempt(). */
typedef struct Range
{
	WriteRun   *run;
	int64		first;
	int64		last;
} Range;

static void
write_range_action(void *arg)
{
	Range	   *range = arg;

	write_range(range->run, range->first, range->last);
}

/* NULL, or the error, with everything of the range taken back. */
static ErrorData *
try_range(WriteRun *run, int64 first, int64 last)
{
	Range		range = {run, first, last};
	SjWritten	before = *run->written;
	int64		seq_before = *run->result_seq;
	ErrorData  *error = sj_attempt(write_range_action, &range);

	if (error != NULL)
	{
		*run->written = before;
		*run->result_seq = seq_before;
	}
	return error;
}

static void
write_by_halves(WriteRun *run, int64 first, int64 last)
{
	ErrorData  *error = try_range(run, first, last);
	int64		middle = first + (last - first) / 2;

	if (error == NULL)
		return;
	if (last - first == 1)
	{
		run->written->late_rows = lappend(run->written->late_rows,
										  failed_change(run,
														&run->changes[first],
														error));
		return;
	}
	write_by_halves(run, first, middle);
	write_by_halves(run, middle, last);
}

/* -- the call ------------------------------------------------------------- */

/* Number of changes that take back; the engine lists them in any order. */
static SjChange *
retractions_first(const SjChange *changes, int64 n, int64 *nretracted)
{
	SjChange   *sorted = MemoryContextAllocHuge(CurrentMemoryContext,
												sizeof(SjChange) * (n + 1));
	int64		k = 0;

	for (int64 i = 0; i < n; i++)
		if (changes[i].sign < 0)
			sorted[k++] = changes[i];
	*nretracted = k;
	for (int64 i = 0; i < n; i++)
		if (changes[i].sign > 0)
			sorted[k++] = changes[i];
	return sorted;
}

void
sj_result_write(SjResultWriter *writer, const SjChange *changes, int64 n,
				bool careful, SjTime watermark, int64 *result_seq,
				SjWritten *written)
{
	WriteRun	run = {.writer = writer,.watermark = watermark,
		.result_seq = result_seq,.written = written,.at = sj_now()};
	int64		nretracted;

	memset(written, 0, sizeof(SjWritten));
	if (n == 0)
		return;
	run.changes = retractions_first(changes, n, &nretracted);

	/* a failed statement of the direct path would leave its pages behind */
	if (careful || !open_direct(&run))
	{
		run.insert = insert_by_statement;
		if (!careful)
			write_range(&run, 0, n);
		else
		{
			if (nretracted > 0)
				write_range(&run, 0, nretracted);
			if (n > nretracted)
				write_by_halves(&run, nretracted, n);
		}
		return;
	}
	run.insert = insert_directly;
	write_range(&run, 0, n);
	close_direct(&run);
}
