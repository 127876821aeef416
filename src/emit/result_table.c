/*-------------------------------------------------------------------------
 *
 * result_table.c
 *	  From changes of the engine to rows of the result table.
 *
 * A change is projected to a row: the query's columns, then sjoin's own.
 * Columns with sub-queries are computed for many rows at once
 * (result_query.c).  Rows go to the table by table_multi_insert when nothing
 * of the user's hangs on it, else by one INSERT over an ephemeral relation, so
 * that triggers, rules, partitions, defaults and policies of the table work as
 * for any statement.  Batches that take nothing back, which are most, go there
 * as they are; the others are netted first (result_upsert.c,
 * result_changelog.c).
 *
 * An error leaves with ereport and the caller aborts; it calls again with
 * 'careful', and then the steps are written one after the other, so that what
 * a step finds in the table is what the steps before it have left there, and
 * what fails is halved, in subtransactions, down to the rows that fail by
 * themselves (R8).
 *
 * IDENTIFICATION
 *	  src/emit/result_table.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_collation_d.h"
#include "catalog/pg_type.h"
#include "emit/attempt.h"
#include "emit/result_run.h"
#include "emit/side_output.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "port/pg_bswap.h"
#include "shmem.h"
#include "utils/builtins.h"
#include "utils/datum.h"

/* -- rows ---------------------------------------------------------------- */

/* Identity of a row: the log sequences of its inputs, 0 for a missing one. */
void
sj_result_id(pg_uuid_t *id, const SjChange *change)
{
	uint64		half[2];

	half[0] = pg_hton64(change->left ? (uint64) change->left->seq : 0);
	half[1] = pg_hton64(change->right ? (uint64) change->right->seq : 0);
	memcpy(id->data, half, UUID_LEN);
}

static TupleDesc
row_desc(const SjJoinPlan *plan, SjOutputMode mode)
{
	int			ntargets = list_length(plan->targets);
	int			nmeta = mode == SJ_OUTPUT_UPSERT ? SJ_META_AT :
	mode == SJ_OUTPUT_APPEND ? SJ_META_SEQ : SJ_META_OP;
	TupleDesc	desc = CreateTemplateTupleDesc(ntargets + nmeta);
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
	if (mode != SJ_OUTPUT_UPSERT)
		TupleDescInitEntry(desc, ++attno, SJ_COLUMN_SEQ, INT8OID, -1, 0);
	if (mode == SJ_OUTPUT_CHANGELOG)
	{
		TupleDescInitEntry(desc, ++attno, SJ_COLUMN_OP, TEXTOID, -1, 0);
		TupleDescInitEntryCollation(desc, attno, DEFAULT_COLLATION_OID);
	}
	return desc;
}

static void
init_row_maker(SjRowMaker *maker, SjResultWriter *writer, List *targets,
			   List *post)
{
	maker->projection = ExecBuildProjectionInfo(targets, writer->econtext,
												writer->target_slot,
												NULL, NULL);
	maker->post = post == NIL ? NULL : ExecInitQual(post, NULL);
}

/* Of the rows of a changelog, by SjRowOp and whether they take back. */
static void
init_op_names(SjResultWriter *writer)
{
	static const char *const names[] = {"+I", "+U", "-D", "-U"};

	for (int i = 0; i < lengthof(names); i++)
		writer->op_name[i] = CStringGetTextDatum(names[i]);
}

SjResultWriter *
sj_result_open(const SjJoinDef *def, const SjJoinPlan *plan)
{
	SjResultWriter *writer = palloc0(sizeof(SjResultWriter));

	writer->def = def;
	writer->plan = plan;
	writer->numbered = def->output_mode != SJ_OUTPUT_UPSERT;
	writer->changelog = def->output_mode == SJ_OUTPUT_CHANGELOG;
	init_op_names(writer);
	writer->ntargets = list_length(plan->targets);
	writer->desc = row_desc(plan, def->output_mode);
	writer->target_desc = ExecTypeFromTL(plan->targets);
	writer->values = palloc(sizeof(Datum) * writer->ntargets);
	writer->isnull = palloc(sizeof(bool) * writer->ntargets);
	writer->old_values = palloc(sizeof(Datum) * writer->ntargets);
	writer->old_isnull = palloc(sizeof(bool) * writer->ntargets);
	writer->econtext = CreateStandaloneExprContext();
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		writer->side_slot[side] =
			MakeSingleTupleTableSlot(plan->input[side].desc,
									 &TTSOpsMinimalTuple);
	writer->target_slot =
		MakeSingleTupleTableSlot(writer->target_desc, &TTSOpsVirtual);
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
	if (row == NULL)
		ExecStoreAllNullTuple(writer->side_slot[side]);
	else
		ExecStoreMinimalTuple(SJ_ROW_TUPLE(row), writer->side_slot[side],
							  false);
}

/* Loads the images of a change; what makes a row of them. */
static SjRowMaker *
load_change(SjResultWriter *writer, const SjChange *change)
{
	load_side(writer, SJ_LEFT, change->left);
	load_side(writer, SJ_RIGHT, change->right);
	if (change->right == NULL)
		return &writer->padded[SJ_LEFT];
	if (change->left == NULL)
		return &writer->padded[SJ_RIGHT];
	return &writer->pair;
}

/*
 * Projects the images of a change into the query's columns, but for those with
 * sub-queries; false when the post-join condition leaves the row out.
 * By-reference values live in the per-tuple memory and in the state.
 */
bool
sj_result_project(SjResultWriter *writer, const SjChange *change,
				  Datum *values, bool *isnull)
{
	SjRowMaker *maker = load_change(writer, change);
	TupleTableSlot *slot;

	if (maker->post != NULL && !ExecQual(maker->post, writer->econtext))
		return false;
	slot = ExecProject(maker->projection);
	memcpy(values, slot->tts_values, sizeof(Datum) * writer->ntargets);
	memcpy(isnull, slot->tts_isnull, sizeof(bool) * writer->ntargets);
	return true;
}

/* Has the images of a change read by the sub-queries. */
static void
ask_sub_queries(SjWriteRun *run, const SjChange *change)
{
	SjResultWriter *writer = run->writer;
	bool		absent[2] = {change->left == NULL, change->right == NULL};
	SjRowMaker *maker;

	ResetExprContext(writer->econtext);
	maker = load_change(writer, change);
	if (maker->post == NULL || ExecQual(maker->post, writer->econtext))
		sj_result_query_put(run->sub_queries, writer->side_slot, absent);
}

/*
 * Computes what the rows of a list take from sub-queries; sj_result_fill() asks
 * for them in the same order.
 */
void
sj_result_run_sub_queries(SjWriteRun *run, const SjRowList *list, int64 first,
						  int64 last)
{
	if (run->sub_queries == NULL)
		return;
	sj_result_query_begin(run->sub_queries);
	for (int64 i = first; i < last; i++)
	{
		SjResultRow space;
		const SjResultRow *row = sj_result_row(list, i, &space);

		CHECK_FOR_INTERRUPTS();
		if (row->op != SJ_ROW_INSERT && run->writer->changelog &&
			row->old_values == NULL)
			ask_sub_queries(run, row->old);
		if (row->op != SJ_ROW_DELETE && row->values == NULL)
			ask_sub_queries(run, row->change);
	}
	sj_result_query_run(run->sub_queries);
}

static void
deform(SjResultWriter *writer, MinimalTuple tuple, Datum *values, bool *isnull)
{
	HeapTupleData htup = sj_heap_tuple(tuple);

	heap_deform_tuple(&htup, writer->target_desc, values, isnull);
}

/*
 * Sets all columns of a row as it is written, or with 'back' as it is taken
 * back from a changelog; false when the post-join condition leaves it out.
 * By-reference values live in the per-tuple memory, in the state and in the
 * row.
 */
bool
sj_result_fill(SjWriteRun *run, const SjResultRow *row, bool back,
			   Datum *values, bool *isnull)
{
	SjResultWriter *writer = run->writer;
	const SjChange *change = back ? row->old : row->change;
	MinimalTuple known = back ? row->old_values : row->values;
	int			n = writer->ntargets;
	pg_uuid_t  *id;

	ResetExprContext(writer->econtext);
	if (known != NULL)
		deform(writer, known, values, isnull);
	else if (!sj_result_project(writer, change, values, isnull))
		return false;
	else if (run->sub_queries != NULL)
		sj_result_query_next(run->sub_queries, values, isnull);
	memset(isnull + n, false, writer->desc->natts - n);

	id = MemoryContextAlloc(writer->econtext->ecxt_per_tuple_memory,
							sizeof(pg_uuid_t));
	sj_result_id(id, change);
	values[n++] = UUIDPGetDatum(id);
	values[n++] = Int32GetDatum(back ? row->old_version : row->version);
	values[n++] = TimestampTzGetDatum(run->at);
	if (writer->numbered)
		values[n++] = Int64GetDatum(++(*run->result_seq));
	if (writer->changelog)
		values[n] = writer->op_name[row->op + (back && row->op == SJ_ROW_UPDATE ? 2 : 0)];
	return true;
}

/* -- what an update does -------------------------------------------------- */

/* A change whose images may fail, for sj_attempt(). */
typedef struct Evaluation
{
	SjWriteRun *run;
	const SjChange *change;
	MinimalTuple values;		/* NULL: the condition leaves the row out */
	bool		there;
} Evaluation;

static void
evaluate(void *arg)
{
	Evaluation *e = arg;
	SjResultWriter *writer = e->run->writer;
	SjResultQuery *sub_queries = e->run->sub_queries;

	ResetExprContext(writer->econtext);
	e->there = sj_result_project(writer, e->change, writer->values, writer->isnull);
	e->values = NULL;
	if (!e->there)
		return;
	if (sub_queries != NULL)
	{
		sj_result_query_begin(sub_queries);
		ask_sub_queries(e->run, e->change);
		sj_result_query_run(sub_queries);
		e->there = sj_result_project(writer, e->change, writer->values, writer->isnull);
		sj_result_query_next(sub_queries, writer->values, writer->isnull);
	}
	e->values = heap_form_minimal_tuple(writer->target_desc, writer->values,
										writer->isnull);
}

static void
evaluate_condition(void *arg)
{
	Evaluation *e = arg;
	SjResultWriter *writer = e->run->writer;
	SjRowMaker *maker;

	ResetExprContext(writer->econtext);
	maker = load_change(writer, e->change);
	e->there = maker->post == NULL || ExecQual(maker->post, writer->econtext);
}

/* Runs it; NULL, or in a careful run the error. */
static ErrorData *
run_evaluation(SjWriteRun *run, void (*action) (void *arg), Evaluation *e)
{
	if (run->careful)
		return sj_attempt(action, e, sj_error_is_of_expression);
	action(e);
	return NULL;
}

static bool
same_values(SjResultWriter *writer, MinimalTuple a, MinimalTuple b)
{
	deform(writer, a, writer->old_values, writer->old_isnull);
	deform(writer, b, writer->values, writer->isnull);
	for (int i = 0; i < writer->ntargets; i++)
	{
		Form_pg_attribute att = TupleDescAttr(writer->target_desc, i);

		if (writer->old_isnull[i] != writer->isnull[i])
			return false;
		if (!writer->isnull[i] &&
			!datum_image_eq(writer->old_values[i], writer->values[i],
							att->attbyval, att->attlen))
			return false;
	}
	return true;
}

/*
 * What the change from old images (NULL: none) to new ones does to the row.
 * In a careful run a new row that cannot be computed is recorded and not
 * there; an old one that cannot be computed may be there, the table tells.
 */
void
sj_result_effect(SjWriteRun *run, const SjChange *old, const SjChange *new,
				 SjEffect *effect)
{
	Evaluation	before = {.run = run,.change = old};
	Evaluation	after = {.run = run,.change = new};
	ErrorData  *error;

	memset(effect, 0, sizeof(SjEffect));
	if (old != NULL)
		effect->old_there = run_evaluation(run, evaluate, &before) != NULL ||
			before.there;
	error = run_evaluation(run, evaluate, &after);
	if (error != NULL)
		sj_result_refused(run, new, SJ_OP_PAIR, error);
	effect->new_there = error == NULL && after.there;
	effect->values = effect->new_there ? after.values : NULL;
	effect->equal = before.values != NULL && effect->values != NULL &&
		same_values(run->writer, before.values, effect->values);
	if (before.values != NULL)
		pfree(before.values);
}

/* In a careful run: can the new values of the row be computed? */
bool
sj_result_can_be_computed(SjWriteRun *run, const SjResultRow *row)
{
	Evaluation	e = {.run = run,.change = row->change};

	return row->change == NULL || row->values != NULL ||
		run_evaluation(run, evaluate, &e) == NULL;
}

/* Does the post-join condition let the row through, or fail? */
bool
sj_result_is_there(SjWriteRun *run, const SjChange *change)
{
	Evaluation	e = {.run = run,.change = change};

	return run_evaluation(run, evaluate_condition, &e) != NULL || e.there;
}

/* -- the call ------------------------------------------------------------- */

static bool
takes_back(const SjChange *changes, int64 n)
{
	for (int64 i = 0; i < n; i++)
		if (changes[i].sign < 0)
			return true;
	return false;
}

static void
write_changes(SjWriteRun *run, const SjChange *changes, int64 n)
{
	SjRowList	list = {.write = sj_result_insert,.changes = changes,.n = n};

	if (!takes_back(changes, n))
		sj_result_write_rows(run, &list);
	else if (!run->writer->numbered)
		sj_result_write_upsert(run, changes, n);
	else if (run->writer->changelog)
		sj_result_write_changelog(run, changes, n);
	else
		elog(ERROR, "a row of an append-only result is taken back");
}

/* Where the next step begins. */
static int64
end_of_step(const SjChange *changes, int64 first, int64 n)
{
	int64		end = first;

	while (end < n && changes[end].step == changes[first].step)
		end++;
	return end;
}

/* Step by step, but steps that take nothing back together. */
static void
write_carefully(SjWriteRun *run, const SjChange *changes, int64 n)
{
	int64		first = 0;

	while (first < n)
	{
		int64		last = end_of_step(changes, first, n);

		if (!takes_back(changes + first, last - first))
			while (last < n)
			{
				int64		end = end_of_step(changes, last, n);

				if (takes_back(changes + last, end - last))
					break;
				last = end;
			}
		write_changes(run, changes + first, last - first);
		first = last;
	}
}

void
sj_result_write(SjResultWriter *writer, const SjChange *changes, int64 n,
				bool careful, SjTime watermark, int64 *result_seq,
				SjWritten *written)
{
	SjWriteRun	run = {.writer = writer,.watermark = watermark,
		.careful = careful,.result_seq = result_seq,.written = written,
	.at = sj_now()};

	memset(written, 0, sizeof(SjWritten));
	if (n == 0)
		return;
	sj_result_check_columns(writer);
	if (writer->plan->sub_queries != NULL)
		run.sub_queries = sj_result_query_open(writer->plan->sub_queries,
											   writer->def->query, (double) n);

	/* a failed statement of the direct path would leave its pages behind */
	if (careful)
	{
		write_carefully(&run, changes, n);
		return;
	}
	run.direct = sj_result_open_direct(&run);
	write_changes(&run, changes, n);
	if (run.direct)
		sj_result_close_direct(&run);
}
