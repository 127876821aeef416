/*-------------------------------------------------------------------------
 *
 * versions.c
 *	  Upsert keys in a running join: what the engine asks, and what is noted of
 *	  versions for verify().
 *
 * The table has all versions, the result the newest only, and which they are
 * does not follow from the table: versions that have been deleted go on
 * replacing older ones, and of two with the same event time the log knows the
 * order.  So when a version is replaced its image is recorded, and when one
 * that is replaced is deleted or becomes another that is recorded, too;
 * verify() takes the images of which there is more of the first than of the
 * second for not accepted.  Nobody is shown these late rows.
 *
 * IDENTIFICATION
 *	  src/worker/versions.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "worker/task.h"

/* SjOperator.same_entity */
static bool
same_entity(void *arg, SjSide side, MinimalTuple a, MinimalTuple b)
{
	SjTask	   *task = arg;

	return sj_input_same_entity(&task->input[side], a, b);
}

/* What upsert keys add to the operator. */
void
sj_versions_set_operator(SjTask *task)
{
	SjOperator *op = &task->op;

	op->replaces = sj_query_replaces(task->query);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		op->upsert[side] = task->query->input[side].upsert_key != NIL;
		op->reach[side] = sj_time_add(op->reach[side], op->replaces);
	}
	op->same_entity = same_entity;
}

/*
 * History is older than all that is captured, though its rows get their
 * numbers later.
 */
int64
sj_version_number(const SjTask *task, int64 seq)
{
	return task->reading_history ? PG_INT64_MIN + seq : seq;
}

/*
 * Appends what became of versions in the batch to the late rows, in the
 * current context; images are those of the state.
 */
List *
sj_versions_note(const SjTask *task, List *late_rows)
{
	int64		n;
	const SjReplaced *replaced = sj_engine_replaced(task->engine, &n);

	for (int64 i = 0; i < n; i++)
	{
		const SjRow *row = replaced[i].row;
		SjLateRow  *late = palloc0(sizeof(SjLateRow));

		late->side = row->side;
		late->reason = SJ_REASON_WITHDRAWN;
		late->seq = row->seq;
		late->event_time = row->event_time;
		late->watermark = sj_engine_clock(task->engine)->watermark;
		if (replaced[i].sign > 0)
		{
			late->op = SJ_OP_REPLACED;
			late->image = SJ_ROW_TUPLE(row);
		}
		else
		{
			late->op = SJ_OP_REPLACED_GONE;
			late->old_image = SJ_ROW_TUPLE(row);
		}
		late_rows = lappend(late_rows, late);
	}
	return late_rows;
}
