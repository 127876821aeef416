/*-------------------------------------------------------------------------
 *
 * replay.c
 *	  Late rows that are taken in after all.
 *
 * A row behind the horizon may have partners that have left the state, which
 * the engine cannot know: the caller finds them and says how many there are.
 * Those that are in state, whether or not the horizon has passed them, are
 * found here as for any insertion.  So that none is found by both, the caller
 * leaves out of its rows as many of each image as the state has.
 *
 * IDENTIFICATION
 *	  src/engine/replay.c
 *
 *-------------------------------------------------------------------------
 */
#include "engine/state.h"

#include "miscadmin.h"

/* Tells of each row in state with the event's side, key and time. */
void
sj_engine_visit_alike(SjEngine *engine, const SjEvent *event,
					  void (*visit) (void *arg, const SjRow *row), void *arg)
{
	SjHandle	key = event->has_key ? sj_key_find(engine, event) : SJ_NONE;
	SjRow	   *row;

	if (key == SJ_NONE)
		return;
	row = sj_key_seek(engine, sj_key_at(engine, key), event->side,
					  event->event_time, SJ_BY_KEY);
	while (row != NULL && row->event_time == event->event_time)
	{
		CHECK_FOR_INTERRUPTS();
		visit(arg, row);
		row = row->by_key.prev == SJ_NONE ? NULL :
			sj_row_at(engine, row->by_key.prev);
	}
}

/* Partners that are not in state count as any other. */
static void
count_outside(SjEngine *engine, SjRow *row, int64 outside)
{
	if (outside == 0)
		return;
	row->degree += outside;
	if ((row->flags & SJ_ROW_MATCHED) != 0)
		return;
	row->flags |= SJ_ROW_MATCHED;
	engine->root->matched[row->side]++;
}

/* Takes in a row that was late; see engine.h. */
SjInsertResult
sj_engine_replay(SjEngine *engine, const SjEvent *event, int64 outside,
				 const SjRow **row)
{
	SjInsertResult result;
	SjRow	   *taken;

	Assert(SJ_TIME_IS_FINITE(event->event_time));
	Assert(!engine->op->upsert[event->side]);
	*row = NULL;
	if (!sj_is_kept(engine->op, event))
		return SJ_INSERTED;
	result = sj_take_in(engine, event, outside, &taken);
	if (result != SJ_INSERTED)
		return result;
	count_outside(engine, taken, outside);
	*row = taken;
	return SJ_INSERTED;
}
