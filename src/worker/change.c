/*-------------------------------------------------------------------------
 *
 * change.c
 *	  A row that changes, as a join sees it (R5).
 *
 * A change is an old image, a new one, or both: what a transaction made of a
 * row, netted.  The old image is taken out if the join has it and it is not
 * settled; the new one is judged like any insertion.  What the join has is told
 * by value: rows are bags, and one of two equal rows is as good as the other.
 *
 * An old image is
 *
 *	live		accepted, and not older than the horizon: can be taken out
 *	settled		older than the horizon, whether it was accepted then or not;
 *				in append mode also one that was refused: it stays as it is
 *	never in	its time is NULL or infinite, the filter or a key refused it,
 *				or it would be live and is not there: a change of it is the
 *				insertion of the new image
 *
 * User code may fail for an old image that it has let through before.  Then it
 * stays where it is, and that is recorded.
 *
 * IDENTIFICATION
 *	  src/worker/change.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "emit/attempt.h"
#include "miscadmin.h"
#include "worker/refusals.h"

typedef enum OldImage
{
	OLD_NEVER_IN,
	OLD_LIVE,
	OLD_SETTLED
} OldImage;

/* One change under way. */
typedef struct Change
{
	SjTask	   *task;
	SjBatch    *batch;
	const SjEdge *edge;
	OldImage	old_is;
	bool		refused;		/* the old image is recorded as refused */
	bool		unknown;		/* nothing is known of the old image */
	SjEvent		old;
	SjEvent		new;
	SjImageVerdict new_is;
	bool		keep_old;		/* taking the old image out has failed */
	bool		drop_new;		/* the new image is not to be judged */
} Change;

static SjReason
late_reason(const SjTask *task)
{
	return task->def->late_rows == SJ_LATE_DROP ? SJ_REASON_DROPPED :
		SJ_REASON_LATE;
}

static void
reject_image(Change *change, char op, SjReason reason, MinimalTuple image,
			 MinimalTuple old_image, const ErrorData *error)
{
	const SjEdge *edge = change->edge;
	SjTaskInput *input = &change->task->input[edge->side];
	SjLateRow	late = {.side = edge->side,.op = op,.reason = reason,
		.seq = edge->seq,.source = edge->source,.image = image,
	.old_image = old_image};

	late.event_time = sj_input_tuple_time(input, image ? image : old_image);
	sj_feed_reject(change->task, change->batch, &late, error);
}

/* -- the old image -------------------------------------------------------- */

/*
 * The event's tuple must outlive the judging of the new image, which uses the
 * same workspace.
 */
static void
keep_tuple(SjEvent *event)
{
	event->tuple = heap_copy_minimal_tuple(event->tuple);
}

static bool
failed_then(const Change *change, char op)
{
	return sj_failed_before(change->task, op, change->edge->side,
							change->edge->seq);
}

/* Records that taking out or taking in has failed, unless it did then. */
static void
note_error(Change *change, char op, ErrorData *error)
{
	const SjEdge *edge = change->edge;

	if (change->task->replaying)
		ReThrowError(error);	/* it did not fail then */
	if (op == SJ_OP_DELETE)
		reject_image(change, op, SJ_REASON_ERROR, NULL, edge->old, error);
	else
		reject_image(change, op, SJ_REASON_ERROR, edge->new, NULL, error);
}

/* The old image is not too old, and not in state. */
static void
judge_absent(Change *change)
{
	SjTask	   *task = change->task;
	const SjEdge *edge = change->edge;

	change->refused = sj_is_refused(task, edge->side, edge->source, edge->old);
	change->old_is = task->def->output_mode == SJ_OUTPUT_APPEND ?
		OLD_SETTLED : OLD_NEVER_IN;
}

/* Runs user code, changes nothing but 'change'. */
static void
judge_old(void *arg)
{
	Change	   *change = arg;
	SjTask	   *task = change->task;
	const SjEdge *edge = change->edge;

	change->old_is = OLD_NEVER_IN;
	change->refused = change->unknown = false;
	if (edge->old == NULL ||
		sj_input_tuple_event(&task->input[edge->side], edge->old,
							 &change->old) != SJ_IMAGE_EVENT)
		return;
	change->old.seq = 0;
	change->old.source = edge->source;
	keep_tuple(&change->old);
	if (change->old.event_time < sj_engine_clock(task->engine)->horizon)
		change->old_is = OLD_SETTLED;
	else if (sj_engine_has(task->engine, &change->old))
		change->old_is = OLD_LIVE;
	else
	{
		judge_absent(change);
		change->unknown = !change->refused;
	}
}

/* User code has failed for the old image: what is it then? */
static void
judge_old_by_time(Change *change, ErrorData *error)
{
	SjTask	   *task = change->task;
	const SjEdge *edge = change->edge;
	SjTime		event_time = sj_input_tuple_time(&task->input[edge->side],
												 edge->old);

	change->old_is = OLD_NEVER_IN;
	change->refused = change->unknown = false;
	if (!SJ_TIME_IS_FINITE(event_time))
		return;
	if (event_time < sj_engine_clock(task->engine)->horizon)
	{
		change->old_is = OLD_SETTLED;
		return;
	}
	judge_absent(change);
	if (change->refused || failed_then(change, SJ_OP_WITHDRAWN))
		return;
	note_error(change, SJ_OP_DELETE, error);
	change->old_is = OLD_NEVER_IN;
	if (task->def->output_mode != SJ_OUTPUT_APPEND || edge->new == NULL)
		return;
	note_error(change, SJ_OP_INSERT, error);
	change->drop_new = true;
}

/*
 * A row that was refused on its way in is gone: an equal one that comes later
 * has nothing to do with the record of the refusal.
 */
static void
withdraw_refusal(Change *change)
{
	if (change->refused)
		reject_image(change, SJ_OP_WITHDRAWN, SJ_REASON_WITHDRAWN, NULL,
					 change->edge->old, NULL);
}

/*
 * A row that is neither in state nor refused nor settled: the join began
 * without it, or it was written while capture was off.  Anything else would be
 * a fault of the state.
 */
static void
count_unknown(Change *change)
{
	if (change->unknown)
		change->batch->position.totals.input[change->edge->side].rows_unknown++;
}

/* -- the new image -------------------------------------------------------- */

static void
judge_new(void *arg)
{
	Change	   *change = arg;
	SjTask	   *task = change->task;
	const SjEdge *edge = change->edge;

	change->new_is = sj_input_tuple_event(&task->input[edge->side], edge->new,
										  &change->new);
	if (change->new_is != SJ_IMAGE_EVENT)
		return;
	change->new.seq = edge->seq;
	change->new.version = sj_version_number(task, edge->seq);
	change->new.source = edge->source;
}

/* What is to be said of a new image that is no event. */
static void
note_no_event(Change *change)
{
	SjInputTotals *totals = &change->batch->position.totals.input[change->edge->side];

	if (change->new_is == SJ_IMAGE_FILTERED)
		totals->rows_filtered++;
	else if (change->new_is == SJ_IMAGE_NULL_TIME)
		reject_image(change, SJ_OP_INSERT, SJ_REASON_NULL_EVENT_TIME,
					 change->edge->new, NULL, NULL);
	else if (change->new_is == SJ_IMAGE_INFINITE)
		reject_image(change, SJ_OP_INSERT, SJ_REASON_INFINITE,
					 change->edge->new, NULL, NULL);
}

/* -- both ----------------------------------------------------------------- */

/* Is the old image to be taken out? */
static bool
takes_out(const Change *change)
{
	return change->old_is == OLD_LIVE && !change->keep_old &&
		change->task->def->output_mode != SJ_OUTPUT_APPEND;
}

/* A change that leaves the join as it is: of what is settled, or final. */
static bool
is_refused(const Change *change)
{
	return change->old_is == OLD_SETTLED ||
		(change->old_is == OLD_LIVE &&
		 change->task->def->output_mode == SJ_OUTPUT_APPEND);
}

/*
 * Is the old image to be recorded with the change?  One that was accepted is
 * no longer in its table; one that was refused is no longer there either.  A
 * join that began without the rows of its tables cannot tell whether it has
 * accepted what is settled.
 */
static bool
old_image_counts(const Change *change)
{
	SjTask	   *task = change->task;
	SjTime		event_time =
	sj_input_tuple_time(&task->input[change->edge->side], change->edge->old);

	return change->old_is == OLD_LIVE || change->refused ||
		(task->def->with_data &&
		 event_time < sj_engine_clock(task->engine)->horizon);
}

/*
 * A DELETE of a settled row is nothing to speak of (retention).  A live row of
 * which the table has another image now stays, but is not looked for again.
 */
static void
refuse_change(Change *change)
{
	const SjEdge *edge = change->edge;
	bool		live = change->old_is == OLD_LIVE;

	if (live)
		sj_engine_detach(change->task->engine, &change->old);
	if (edge->new != NULL)
		reject_image(change, SJ_OP_UPDATE,
					 live ? SJ_REASON_CHANGED : SJ_REASON_EXPIRED_CHANGE,
					 edge->new, old_image_counts(change) ? edge->old : NULL,
					 NULL);
	else if (live)
		reject_image(change, SJ_OP_DELETE, SJ_REASON_CHANGED, NULL, edge->old,
					 NULL);
	else
		withdraw_refusal(change);
}

static SjInsertResult
engine_change(SjEngine *engine, const SjEvent *old, const SjEvent *new)
{
	bool		removed;

	return old == NULL ? sj_engine_insert(engine, new) :
		sj_engine_replace(engine, old, new, &removed);
}

/* Gives both to the engine; may throw before anything has changed. */
static void
apply(void *arg)
{
	Change	   *change = arg;
	SjTask	   *task = change->task;
	const SjEvent *old = takes_out(change) ? &change->old : NULL;
	const SjEvent *new = change->edge->new != NULL &&
	change->new_is == SJ_IMAGE_EVENT ? &change->new : NULL;

	if (old == NULL && new == NULL)
		return;
	switch (engine_change(task->engine, old, new))
	{
		case SJ_INSERTED:
			if (new != NULL && !new->has_key)
				change->batch->position.totals.input[new->side].rows_null_key++;
			break;
		case SJ_LATE:
			reject_image(change, SJ_OP_INSERT, late_reason(task),
						 change->edge->new, NULL, NULL);
			break;
		case SJ_NO_MEMORY:
			sj_no_memory(task);
	}
}

/*
 * The change as a whole; throws only before anything has changed that would be
 * changed again.
 */
void
sj_change_apply(SjTask *task, SjBatch *batch, const SjEdge *edge)
{
	Change		change = {.task = task,.batch = batch,.edge = edge};

	change.keep_old = failed_then(&change, SJ_OP_DELETE);
	if (!change.keep_old)
		judge_old(&change);
	if (is_refused(&change))
	{
		refuse_change(&change);
		count_unknown(&change);
		return;
	}
	change.new_is = SJ_IMAGE_FAILED;
	if (edge->new != NULL && !failed_then(&change, SJ_OP_INSERT))
		judge_new(&change);
	apply(&change);
	withdraw_refusal(&change);
	note_no_event(&change);
	count_unknown(&change);
}

/* apply() with errors caught; an error leaves no late rows of pairs behind. */
static ErrorData *
attempt_apply(Change *change)
{
	int			nlate = list_length(change->batch->late_rows);
	ErrorData  *error = sj_attempt(apply, change, sj_error_is_of_expression);

	if (error != NULL)
		change->batch->late_rows = list_truncate(change->batch->late_rows,
												 nlate);
	return error;
}

/*
 * Gives both to the engine with errors caught: if they cannot go together, one
 * after the other.
 */
static void
apply_by_halves(Change *change)
{
	bool		has_new = change->new_is == SJ_IMAGE_EVENT;
	ErrorData  *error = attempt_apply(change);

	if (error == NULL)
		return;
	if (takes_out(change))
	{
		change->new_is = SJ_IMAGE_FAILED;
		error = attempt_apply(change);
		if (error != NULL)
			note_error(change, SJ_OP_DELETE, error);
	}
	if (!has_new)
		return;
	change->keep_old = true;
	change->new_is = SJ_IMAGE_EVENT;
	error = attempt_apply(change);
	if (error == NULL)
		return;
	change->new_is = SJ_IMAGE_FAILED;
	note_error(change, SJ_OP_INSERT, error);
}

/*
 * The same with the errors of user code caught: a new image that cannot be
 * judged is refused; pairs that cannot be judged are left out (R8).
 */
static void
apply_carefully(Change *change)
{
	const SjEdge *edge = change->edge;
	ErrorData  *error = NULL;

	change->keep_old = failed_then(change, SJ_OP_DELETE);
	if (!change->keep_old)
		error = sj_attempt(judge_old, change, sj_error_is_of_expression);
	if (error != NULL)
		judge_old_by_time(change, error);
	if (is_refused(change))
	{
		refuse_change(change);
		count_unknown(change);
		return;
	}
	change->new_is = SJ_IMAGE_FAILED;
	if (edge->new != NULL && !change->drop_new &&
		!failed_then(change, SJ_OP_INSERT))
	{
		error = sj_attempt(judge_new, change, sj_error_is_of_expression);
		if (error != NULL)
			note_error(change, SJ_OP_INSERT, error);
	}
	apply_by_halves(change);
	withdraw_refusal(change);
	note_no_event(change);
	count_unknown(change);
}

void
sj_change_apply_safely(SjTask *task, SjBatch *batch, const SjEdge *edge)
{
	Change		change = {.task = task,.batch = batch,.edge = edge};

	task->careful = true;
	PG_TRY();
	{
		apply_carefully(&change);
	}
	PG_FINALLY();
	{
		task->careful = false;
	}
	PG_END_TRY();
}

/* -- TRUNCATE ------------------------------------------------------------- */

typedef struct Truncation
{
	SjTask	   *task;
	SjBatch    *batch;
	SjSide		side;
	Oid			source;
	int64		seq;
} Truncation;

/* Append mode: a row that was taken in stays, and that is said. */
static void
refuse_truncation(void *arg, const SjRow *row)
{
	Truncation *truncation = arg;

	SjLateRow	late = {.side = truncation->side,.op = SJ_OP_DELETE,
		.reason = SJ_REASON_CHANGED,.seq = truncation->seq,
		.source = truncation->source,.event_time = row->event_time,
	.old_image = SJ_ROW_TUPLE(row)};

	CHECK_FOR_INTERRUPTS();
	sj_feed_reject(truncation->task, truncation->batch, &late, NULL);
}

/* A row that had been refused is gone, too. */
static void
withdraw_truncated(void *arg, const pg_uuid_t *hash)
{
	Truncation *truncation = arg;
	SjLateRow	late = {.side = truncation->side,.op = SJ_OP_WITHDRAWN,
		.reason = SJ_REASON_WITHDRAWN,.seq = truncation->seq,
		.source = truncation->source,.event_time = SJ_TIME_MIN,
	.old_hash = hash};

	sj_feed_reject(truncation->task, truncation->batch, &late, NULL);
}

static void
truncate_action(void *arg)
{
	Truncation *truncation = arg;
	int64		removed = 0;

	if (sj_engine_truncate(truncation->task->engine, truncation->side,
						   truncation->source, &removed) == SJ_NO_MEMORY)
		sj_no_memory(truncation->task);
}

/* A condition that fails for a pair is a pair that was not written. */
static void
truncate_safely(Truncation *truncation)
{
	SjTask	   *task = truncation->task;

	if (sj_attempt(truncate_action, truncation,
				   sj_error_is_of_expression) == NULL)
		return;
	task->careful = true;
	PG_TRY();
	{
		truncate_action(truncation);
	}
	PG_FINALLY();
	{
		task->careful = false;
	}
	PG_END_TRY();
}

/* All rows of a table, or of one partition, are gone. */
void
sj_change_truncate(SjTask *task, SjBatch *batch, SjSide side, Oid source,
				   int64 seq)
{
	Truncation	truncation = {task, batch, side, source, seq};

	if (task->def->output_mode == SJ_OUTPUT_APPEND)
		sj_engine_detach_all(task->engine, side, source, refuse_truncation,
							 &truncation);
	else
		truncate_safely(&truncation);
	sj_refusals_withdraw_all(task, side, source, withdraw_truncated,
							 &truncation);
}
