/*-------------------------------------------------------------------------
 *
 * feed_control.c
 *	  Records that are not rows: advance_watermark, idle inputs, alterations.
 *	  (Replays of late rows are steps of their own: replay.c.)
 *
 * They take hold at the end of their step, like the watermark of its rows (T2):
 * the rows of the step are judged by what was in force before.  Settings hold
 * for rows consumed from then on (T9).
 *
 * IDENTIFICATION
 *	  src/worker/feed_control.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "log/event_log.h"
#include "worker/feed.h"

/* Is it this join's?  A self-join meets each record twice and takes it once. */
static bool
is_ours(const SjFeed *feed, SjSide side, int32 join_id)
{
	return side == SJ_LEFT && join_id == feed->task->def->join_id;
}

static bool
take_quiet(SjFeed *feed, SjSide side, const SjQuietRecord *quiet)
{
	if (!is_ours(feed, side, quiet->join_id))
		return false;
	for (SjSide input = SJ_LEFT; input <= SJ_RIGHT; input++)
	{
		sj_engine_quiet(feed->task->engine, input, quiet->woken[input],
						quiet->quiet[input], (SjIdleness) quiet->idle[input],
						quiet->move[input]);
		/* a test says so; the worker knows what it has found itself */
		if (quiet->woken[input] == -1)
			feed->task->quiet[input] = quiet->quiet[input];
	}
	return true;
}

/* Is the timeout 'a' shorter?  Not given is the bound, the longest. */
static bool
is_shorter(int64 a, int64 b)
{
	return a >= 0 && (b < 0 || a < b);
}

static void
set_timeout(SjLogSettings *settings, int64 timeout)
{
	settings->timeout = timeout;
	if (is_shorter(timeout, settings->shortest_timeout))
		settings->shortest_timeout = timeout;
	if (is_shorter(settings->longest_timeout, timeout))
		settings->longest_timeout = timeout;
}

static bool
take_settings(SjFeed *feed, SjSide side, const SjSettingsRecord *record)
{
	SjLogSettings *settings = &feed->task->next_settings;

	if (!feed->task->settings_altered)
		*settings = feed->task->settings;
	if (record->join_id == 0)
	{
		settings->delay[side] = record->delay;
		settings->max_future[side] = record->max_future;
	}
	else if (is_ours(feed, side, record->join_id))
	{
		set_timeout(settings, record->timeout);
		settings->allowed_lateness = record->allowed_lateness;
		settings->late_rows = record->late_rows;
	}
	else
		return false;
	feed->task->settings_altered = true;
	return true;
}

bool
sj_feed_control(SjFeed *feed, SjSide side)
{
	SjLogRecord *record = sj_feed_record(feed);

	switch (record->op)
	{
		case SJ_OP_WATERMARK:
			sj_engine_advance(feed->task->engine, side,
							  SJ_RECORD_WATERMARK(record));
			feed->concerned = true;
			return true;
		case SJ_OP_QUIET:
			feed->concerned |= take_quiet(feed, side, SJ_RECORD_BODY(record));
			return true;
		case SJ_OP_SETTINGS:
			feed->concerned |= take_settings(feed, side,
											 SJ_RECORD_BODY(record));
			return true;
		case SJ_OP_REPLAY:
			return true;		/* has been done: sj_replay_feed() */
		default:
			return false;
	}
}

void
sj_feed_end_settings(SjTask *task)
{
	if (!task->settings_altered)
		return;
	task->settings_altered = false;
	sj_task_apply_settings(task, &task->next_settings);
	sj_engine_set_lateness(task->engine, task->op.allowed_lateness);
}
