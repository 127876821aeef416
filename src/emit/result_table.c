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
 * for any statement.  Retractions are one DELETE by identity.
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

#include "catalog/pg_type.h"
#include "emit/attempt.h"
#include "emit/result_run.h"
#include "emit/side_output.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "port/pg_bswap.h"
#include "shmem.h"
#include "utils/memutils.h"

/* -- rows ---------------------------------------------------------------- */

/* Identity of a row: the log sequences of its inputs, 0 for a missing one. */
void
sj_result_identity(pg_uuid_t *id, const SjChange *change)
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
init_row_maker(SjRowMaker *maker, SjResultWriter *writer, List *targets,
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
	if (row == NULL)
		ExecStoreAllNullTuple(writer->side_slot[side]);
	else
		ExecStoreMinimalTuple(SJ_ROW_TUPLE(row), writer->side_slot[side],
							  false);
}

/*
 * Puts the rows of a change into the slots of the sides.  NULL when the
 * post-join condition leaves the change out.
 */
static SjRowMaker *
load_change(SjResultWriter *writer, const SjChange *change)
{
	SjRowMaker *maker = &writer->pair;

	ResetExprContext(writer->econtext);
	load_side(writer, SJ_LEFT, change->left);
	load_side(writer, SJ_RIGHT, change->right);
	if (change->right == NULL)
		maker = &writer->padded[SJ_LEFT];
	else if (change->left == NULL)
		maker = &writer->padded[SJ_RIGHT];
	if (maker->post != NULL && !ExecQual(maker->post, writer->econtext))
		return NULL;
	return maker;
}

/*
 * Computes what the rows to be written take from sub-queries;
 * sj_result_make_row() asks for them in the same order.
 */
static void
run_sub_queries(SjWriteRun *run, int64 first, int64 last)
{
	SjResultWriter *writer = run->writer;

	sj_result_query_begin(run->sub_queries);
	for (int64 i = first; i < last; i++)
	{
		const SjChange *change = &run->changes[i];
		bool		absent[2] = {change->left == NULL, change->right == NULL};

		CHECK_FOR_INTERRUPTS();
		if (change->sign > 0 && load_change(writer, change) != NULL)
			sj_result_query_put(run->sub_queries, writer->side_slot, absent);
	}
	sj_result_query_run(run->sub_queries);
}

/*
 * Projects a change into values[] and isnull[] (all columns of the row);
 * false when the post-join condition leaves it out.  By-reference values live
 * in the per-tuple memory and in the state, those of sub-queries until the
 * next row.
 */
bool
sj_result_make_row(SjWriteRun *run, const SjChange *change, Datum *values, bool *isnull)
{
	SjResultWriter *writer = run->writer;
	SjRowMaker *maker = load_change(writer, change);
	pg_uuid_t  *id;
	int			n = writer->ntargets;
	TupleTableSlot *slot;

	if (maker == NULL)
		return false;

	slot = ExecProject(maker->projection);
	memcpy(values, slot->tts_values, sizeof(Datum) * n);
	memcpy(isnull, slot->tts_isnull, sizeof(bool) * n);
	memset(isnull + n, false, writer->desc->natts - n);
	if (run->sub_queries != NULL)
		sj_result_query_next(run->sub_queries, values, isnull);

	id = MemoryContextAlloc(writer->econtext->ecxt_per_tuple_memory,
							sizeof(pg_uuid_t));
	sj_result_identity(id, change);
	values[n++] = UUIDPGetDatum(id);
	values[n++] = Int32GetDatum(1);
	values[n++] = TimestampTzGetDatum(run->at);
	if (writer->append)
		values[n] = Int64GetDatum(++(*run->result_seq));
	return true;
}

/* -- halving -------------------------------------------------------------- */

static void
write_range(SjWriteRun *run, int64 first, int64 last)
{
	sj_result_retract(run, first, last);
	if (run->sub_queries != NULL)
		run_sub_queries(run, first, last);
	run->written->inserted += run->insert(run, first, last);
}

/* The one change that failed, as a late row. */
static SjLateRow *
failed_change(SjWriteRun *run, const SjChange *change, const ErrorData *error)
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
	SjWriteRun   *run;
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
try_range(SjWriteRun *run, int64 first, int64 last)
{
	Range		range = {run, first, last};
	SjWritten	before = *run->written;
	int64		seq_before = *run->result_seq;
	ErrorData  *error = sj_attempt(write_range_action, &range,
								  sj_error_is_of_row);

	if (error != NULL)
	{
		*run->written = before;
		*run->result_seq = seq_before;
	}
	return error;
}

static void
write_by_halves(SjWriteRun *run, int64 first, int64 last)
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
	SjWriteRun	run = {.writer = writer,.watermark = watermark,
		.result_seq = result_seq,.written = written,.at = sj_now()};
	int64		nretracted;

	memset(written, 0, sizeof(SjWritten));
	if (n == 0)
		return;
	sj_result_check_columns(writer);
	if (writer->plan->sub_queries != NULL)
		run.sub_queries = sj_result_query_open(writer->plan->sub_queries,
											   writer->def->query, (double) n);
	run.changes = retractions_first(changes, n, &nretracted);

	/* a failed statement of the direct path would leave its pages behind */
	if (careful || !sj_result_open_direct(&run))
	{
		run.insert = sj_result_insert_by_statement;
		if (!careful)
			write_range(&run, 0, n);
		else
		{
			if (nretracted > 0)
				write_by_halves(&run, 0, nretracted);
			if (n > nretracted)
				write_by_halves(&run, nretracted, n);
		}
		return;
	}
	run.insert = sj_result_insert_directly;
	write_range(&run, 0, n);
	sj_result_close_direct(&run);
}
