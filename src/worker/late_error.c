/*-------------------------------------------------------------------------
 *
 * late_error.c
 *	  late_rows => 'error': a late row stops the join before its transaction.
 *
 * Whether a transaction has late rows shows only when it has been fed, and the
 * engine has no undo.  So the feeding fails, the state is thrown away and built
 * again, and the place of the transaction is remembered: the next batch ends
 * there.  The batch after that begins with it and fails, too, and then the
 * durable position is the one before the transaction: nothing of it has been
 * written, and all that came earlier has.  The task waits until somebody
 * changes its definition.
 *
 * IDENTIFICATION
 *	  src/worker/late_error.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"
#include "worker/task.h"

/* Must the batch end because the next transaction has late rows? */
bool
sj_must_stop_before_late_rows(const SjTask *task, const SjBatch *batch)
{
	return task->late_tick != 0 && batch->consumed &&
		batch->position.tick == task->late_tick &&
		batch->position.txns == task->late_txns;
}

/* Somebody has changed the definition: the transaction is tried again. */
void
sj_forget_late_error(SjTask *task)
{
	task->late_row_met = false;
	task->late_tick = 0;
}

/* The first late row of the transaction at hand, or NULL. */
static const SjLateRow *
first_late_row(const SjBatch *batch)
{
	ListCell   *lc;

	foreach(lc, batch->late_rows)
	{
		const SjLateRow *late = lfirst(lc);

		if (late->reason == SJ_REASON_LATE)
			return late;
	}
	return NULL;
}

static char *
time_text(const SjTask *task, SjTime event_time)
{
	const char *text = task->query->bounds.with_zone ?
	timestamptz_to_str(event_time) :
	DatumGetCString(DirectFunctionCall1(timestamp_out,
										TimestampGetDatum(event_time)));

	return pstrdup(text);
}

/* An error when the transaction that has just been fed has late rows. */
void
sj_check_late_rows(SjTask *task, const SjBatch *batch)
{
	const SjLateRow *late;

	if (task->def->late_rows != SJ_LATE_ERROR || task->replaying)
		return;
	late = first_late_row(batch);
	if (late == NULL)
		return;
	task->late_tick = batch->position.tick;
	task->late_txns = batch->position.txns;
	task->late_row_met = !batch->consumed;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("a row of input \"%s\" with event time %s is late: the watermark of the join is %s",
					task->query->input[late->side].alias,
					time_text(task, late->event_time),
					time_text(task, late->watermark)),
			 errdetail("The join has late_rows => error.  What was committed before the row's transaction is in the result; the transaction and what comes after it wait in the event log."),
			 errhint("Let the join go on with another setting of late_rows (sjoin.alter_join), or start it over with sjoin.refresh_join().")));
}
