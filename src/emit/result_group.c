/*-------------------------------------------------------------------------
 *
 * result_group.c
 *	  Writing a list of rows: whole, or so that those that fail are left out
 *	  (R8).
 *
 * A careful run tries a list in a subtransaction; when that fails it tries the
 * halves, down to the rows that fail by themselves.  What becomes of such a
 * row:
 *
 *		insertion	is recorded (op P); the row is not in the result
 *		update		is recorded in the same way, and the old row is deleted:
 *					it is not the truth any more.  When the new row was in
 *					conflict with another one, which may change, too, it is
 *					tried again as an insertion.
 *		deletion	is recorded (op K); the row stays
 *
 * IDENTIFICATION
 *	  src/emit/result_group.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "emit/attempt.h"
#include "emit/result_run.h"
#include "miscadmin.h"

/* -- what is recorded ----------------------------------------------------- */

/* Records that a row was not written, or not deleted. */
void
sj_result_refused(SjWriteRun *run, const SjChange *change, char op,
				  const ErrorData *error)
{
	const SjRow *main_row = change->left ? change->left : change->right;
	SjLateRow  *late = palloc0(sizeof(SjLateRow));

	late->side = SJ_LEFT;
	late->op = op;
	late->reason = op == SJ_OP_UNPAIR ? SJ_REASON_WITHDRAWN : SJ_REASON_ERROR;
	late->seq = change->left ? change->left->seq : 0;
	late->other_seq = change->right ? change->right->seq : 0;
	late->event_time = main_row->event_time;
	late->watermark = run->watermark;
	if (error != NULL)
	{
		late->sqlstate = error->sqlerrcode;
		late->message = error->message;
	}
	late->image = change->left ? SJ_ROW_TUPLE(change->left) : NULL;
	late->old_image = change->right ? SJ_ROW_TUPLE(change->right) : NULL;
	run->written->late_rows = lappend(run->written->late_rows, late);
}

/*
 * A row that the result does not have is taken back: if it was refused, that
 * is over.  Rows that the query's condition leaves out were never to be there.
 */
void
sj_result_take_back_absent(SjWriteRun *run, const SjChange *change)
{
	if (sj_result_is_there(run, change))
		sj_result_refused(run, change, SJ_OP_UNPAIR, NULL);
}

/* -- halving -------------------------------------------------------------- */

/* A part of a list, for sj_attempt(). */
typedef struct Range
{
	SjWriteRun *run;
	const SjRowList *list;
	int64		first;
	int64		last;
} Range;

static void
write_range(void *arg)
{
	Range	   *range = arg;

	range->list->write(range->run, range->list, range->first, range->last);
}

/*
 * NULL, or an error that 'is_caught' knows, with everything of the range taken
 * back.
 */
static ErrorData *
try_range(SjWriteRun *run, const SjRowList *list, int64 first, int64 last,
		  bool (*is_caught) (const ErrorData *error))
{
	Range		range = {run, list, first, last};
	SjWritten	before = *run->written;
	int64		seq_before = *run->result_seq;
	ErrorData  *error = sj_attempt(write_range, &range, is_caught);

	if (error != NULL)
	{
		*run->written = before;
		*run->result_seq = seq_before;
	}
	return error;
}

/* One row, written in the way of its table. */
static ErrorData *
try_row(SjWriteRun *run, SjResultRow *row)
{
	SjRowList	list = {.write = sj_result_insert,.rows = row,.n = 1};

	if (!run->writer->changelog && row->op == SJ_ROW_UPDATE)
		list.write = sj_result_update;
	if (!run->writer->changelog && row->op == SJ_ROW_DELETE)
		list.write = sj_result_delete;
	return try_range(run, &list, 0, 1, sj_error_is_of_row);
}

static void
note_stored(void *arg, const pg_uuid_t *id, int32 version, bool there,
			MinimalTuple values)
{
	*(bool *) arg = true;
}

/*
 * Does the table have the row that could not be inserted, because it could not
 * be deleted earlier?  Then it is updated.
 */
static bool
could_be_updated(SjWriteRun *run, const SjResultRow *row,
				 const ErrorData *error)
{
	SjResultRow update = *row;
	bool		stored = false;

	if (run->writer->numbered || error->sqlerrcode != ERRCODE_UNIQUE_VIOLATION)
		return false;
	sj_result_read_rows(run, &row->change, 1, note_stored, &stored);
	update.op = SJ_ROW_UPDATE;
	update.old = row->change;
	return stored && try_row(run, &update) == NULL;
}

/* May the row be taken when those that follow have been written? */
static bool
may_fit_later(const SjWriteRun *run, const ErrorData *error)
{
	return !run->writer->changelog &&
		(error->sqlerrcode == ERRCODE_UNIQUE_VIOLATION ||
		 error->sqlerrcode == ERRCODE_EXCLUSION_VIOLATION);
}

/* The new row of an update failed: the old one is not the truth any more. */
static void
refuse_update(SjWriteRun *run, const SjResultRow *row, ErrorData *error)
{
	SjResultRow deletion = *row;
	ErrorData  *deletion_error;

	deletion.op = SJ_ROW_DELETE;
	deletion.change = NULL;
	deletion_error = try_row(run, &deletion);
	if (deletion_error == NULL && may_fit_later(run, error))
	{
		SjResultRow *insertion = palloc(sizeof(SjResultRow));

		*insertion = *row;
		insertion->op = SJ_ROW_INSERT;
		run->again = lappend(run->again, insertion);
		return;
	}
	sj_result_refused(run, row->change, SJ_OP_PAIR, error);
	if (deletion_error != NULL)
		sj_result_refused(run, row->old, SJ_OP_KEPT, deletion_error);
}

/* The one row that failed. */
static void
refuse(SjWriteRun *run, const SjResultRow *row, ErrorData *error)
{
	if (row->op == SJ_ROW_UPDATE)
		refuse_update(run, row, error);
	else if (row->op == SJ_ROW_DELETE)
		sj_result_refused(run, row->old, SJ_OP_KEPT, error);
	else if (!could_be_updated(run, row, error))
		sj_result_refused(run, row->change, SJ_OP_PAIR, error);
}

/*
 * An error that no row causes on its way into the table, an undefined table
 * say, is a row's all the same when an expression of the query throws it.
 */
static void
check_is_of_row(SjWriteRun *run, const SjResultRow *row, ErrorData *error)
{
	if (!sj_error_is_of_row(error) && sj_result_can_be_computed(run, row))
		ReThrowError(error);
}

static void
write_by_halves(SjWriteRun *run, const SjRowList *list, int64 first,
				int64 last)
{
	ErrorData  *error = try_range(run, list, first, last,
								  sj_error_is_of_expression);
	int64		middle = first + (last - first) / 2;
	SjResultRow space;

	CHECK_FOR_INTERRUPTS();
	if (error == NULL)
		return;
	if (last - first == 1)
	{
		const SjResultRow *row = sj_result_row(list, first, &space);

		check_is_of_row(run, row, error);
		refuse(run, row, error);
		return;
	}
	write_by_halves(run, list, first, middle);
	write_by_halves(run, list, middle, last);
}

void
sj_result_write_rows(SjWriteRun *run, const SjRowList *list)
{
	if (list->n == 0)
		return;
	if (run->careful)
		write_by_halves(run, list, 0, list->n);
	else
		list->write(run, list, 0, list->n);
}

void
sj_result_insert(SjWriteRun *run, const SjRowList *list, int64 first,
				 int64 last)
{
	sj_result_run_sub_queries(run, list, first, last);
	if (run->direct)
		sj_result_insert_directly(run, list, first, last);
	else
		sj_result_insert_by_statement(run, list, first, last);
}
