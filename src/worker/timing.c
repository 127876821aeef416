/*-------------------------------------------------------------------------
 *
 * timing.c
 *	  What a join sees of time: how far behind rows come, and what the clocks
 *	  of their producers say.
 *
 * A row has three times: its event time, the clock when it was captured, and
 * the clock when it was visible in the result.  For each input
 *
 *	lateness	how far the row is behind the newest event time of the steps
 *				before it, 0 if it is the newest: what watermark_delay has to
 *				cover.  Rows from the future (T8) make nobody late.
 *	clock		capture less event time: behind, or ahead when it is negative
 *
 * and for each join the latency from capture to result (batch.c).  Insertions
 * count: when a row is changed, its event time may long be over, which says
 * nothing of the order in which rows come.  They are
 * gathered with the batch and shown when it is durable, so that what is fed
 * twice counts once.  Neither a rebuild nor the reading of existing rows, whose
 * order and arrival say nothing, counts.
 *
 * Event times of type timestamp are compared with the clock as it is in the
 * time zone of the join, which is the session's here.
 *
 * IDENTIFICATION
 *	  src/worker/timing.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "local_time.h"
#include "worker/feed.h"

/* The clock at capture as an event time of the input. */
SjTime
sj_timing_clock(SjTaskInput *input, TimestampTz captured_at)
{
	if (captured_at != input->clock_of)
	{
		input->clock = sj_time_of_zoned(captured_at, input->local_time);
		input->clock_of = captured_at;
	}
	return input->clock;
}

/* A row has come; its event time is finite. */
void
sj_timing_note(SjTask *task, SjBatch *batch, SjSide side, SjTime event_time,
			   SjTime clock)
{
	SjTiming   *timing = &batch->timing[side];
	int64		behind = sj_time_sub(clock, event_time);
	SjTime		newest = sj_engine_newest(task->engine, side);

	if (task->replaying || task->reading_history)
		return;
	timing->lateness.n[sj_bucket(newest == SJ_TIME_MIN ? 0 :
								 sj_time_sub(newest, event_time))]++;
	if (behind >= 0)
		timing->clock_behind.n[sj_bucket(behind)]++;
	else
		timing->clock_ahead.n[sj_bucket(sj_time_sub(event_time, clock))]++;
}

/* An image was captured, whatever its event time. */
void
sj_timing_note_row(SjTask *task, SjBatch *batch, SjSide side,
				   TimestampTz captured_at)
{
	SjTiming   *timing = &batch->timing[side];

	if (!task->replaying && !task->reading_history)
		timing->last_row_at = Max(timing->last_row_at, captured_at);
}

void
sj_timing_publish(SjTask *task, const SjBatch *batch)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		const SjTiming *timing = &batch->timing[side];
		SjInputStats *shown = &task->slot->input[side];

		if (timing->last_row_at == 0)
			continue;
		sj_histogram_add(&shown->lateness, &timing->lateness);
		sj_histogram_add(&shown->clock_behind, &timing->clock_behind);
		sj_histogram_add(&shown->clock_ahead, &timing->clock_ahead);
		pg_atomic_write_u64(&shown->last_row_at,
							(uint64) timing->last_row_at);
	}
}
