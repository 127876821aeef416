/*-------------------------------------------------------------------------
 *
 * watermark.c
 *	  Event time of a join: what a step's rows and advances make of it.
 *
 * All rows of a step are judged by the clock that the steps before it left;
 * what they say about time is gathered here and takes hold at its end (T2).
 * Nothing of the clock ever goes back.
 *
 * IDENTIFICATION
 *	  src/engine/watermark.c
 *
 *-------------------------------------------------------------------------
 */
#include "engine/state.h"

/* Nothing seen yet. */
void
sj_step_start(SjStep *step)
{
	step->oldest = SJ_TIME_MAX;
	for (int side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		step->newest[side] = SJ_TIME_MIN;
		step->greatest[side] = SJ_TIME_MIN;
		step->advance[side] = SJ_TIME_MIN;
		step->to_newest[side] = false;
		step->row[side] = false;
		step->noted[side] = false;
	}
}

/*
 * An event time was captured on an input of the step, accepted or not.
 *
 * moves_watermark is false for a row too far ahead of the clock (T8).  Nor does
 * an input start there that never had a row: all that comes after it would be
 * late.
 */
void
sj_engine_saw(SjEngine *engine, SjSide side, SjTime event_time,
			  bool moves_watermark)
{
	SjStep	   *step = &engine->step;

	Assert(SJ_TIME_IS_FINITE(event_time));
	step->greatest[side] = Max(step->greatest[side], event_time);
	if (!moves_watermark)
		return;
	step->oldest = Min(step->oldest, event_time);
	step->newest[side] = Max(step->newest[side], event_time);
}

/*
 * No older row will come on this input.  SJ_TIME_MIN stands for the newest
 * event time seen on it, this step's rows included.
 */
void
sj_engine_advance(SjEngine *engine, SjSide side, SjTime watermark)
{
	SjStep	   *step = &engine->step;

	if (watermark == SJ_TIME_MIN)
		step->to_newest[side] = true;
	else
		step->advance[side] = Max(step->advance[side], watermark);
}

/*
 * The input has had no row for 'quiet' usec of running time, and is taken for
 * what 'idle' says; its watermark moves on by 'move' usec (T7).  That was found
 * when the clock counted 'woken' steps with rows of it (-1: whenever): a row
 * that has come since is stronger.
 */
void
sj_engine_quiet(SjEngine *engine, SjSide side, int64 woken, int64 quiet,
				SjIdleness idle, int64 move)
{
	SjStep	   *step = &engine->step;

	Assert(quiet >= 0 && move >= 0);
	step->noted[side] = true;
	step->woken[side] = woken;
	step->quiet[side] = quiet;
	step->idle[side] = idle;
	step->move[side] = move;
}

/* A row of the input was captured, whatever its event time. */
void
sj_engine_woke(SjEngine *engine, SjSide side)
{
	engine->step.row[side] = true;
}

/* The watermark of one input at the end of the step. */
static SjTime
input_watermark(const SjEngine *engine, SjSide side)
{
	const SjStep *step = &engine->step;
	const SjClock *clock = &engine->root->clock;
	int64		delay = engine->op->delay[side];
	SjTime		watermark = clock->input[side];

	if (step->newest[side] != SJ_TIME_MIN)
		watermark = Max(watermark, sj_time_sub(step->newest[side], delay));

	/* an input that never had a row starts at the join's first event */
	if (watermark == SJ_TIME_MIN && step->oldest != SJ_TIME_MAX)
		watermark = sj_time_sub(step->oldest, delay);

	watermark = Max(watermark, step->advance[side]);
	if (step->to_newest[side])
		watermark = Max(watermark, clock->max_event_time[side]);
	return watermark;
}

/* An input that never had a row is not waited for, and waits for no other. */
static bool
has_had_rows(const SjClock *clock, SjSide side)
{
	return clock->max_event_time[side] != SJ_TIME_MIN;
}

/*
 * When every input that ever had a row is idle, their watermarks become the
 * greatest of them: what is finished is finished.
 */
static void
level(SjClock *clock)
{
	SjTime		greatest = SJ_TIME_MIN;

	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		if (!has_had_rows(clock, side))
			continue;
		if (clock->idle[side] == SJ_NOT_IDLE)
			return;
		greatest = Max(greatest, clock->input[side]);
	}
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		if (has_had_rows(clock, side))
			clock->input[side] = greatest;
}

/* Rows make void what has been found before they came. */
static void
wake_inputs(SjEngine *engine)
{
	SjStep	   *step = &engine->step;
	SjClock    *clock = &engine->root->clock;

	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		clock->woken[side] += step->row[side];
		if (step->row[side] || (step->noted[side] && step->woken[side] != -1 &&
								step->woken[side] != clock->woken[side]))
			step->noted[side] = false;
	}
}

/* Which inputs are idle, and what that makes of their watermarks (T7). */
static void
end_idleness(SjEngine *engine)
{
	const SjStep *step = &engine->step;
	SjClock    *clock = &engine->root->clock;
	bool		fell_idle = false;

	wake_inputs(engine);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		SjIdleness	idle = step->row[side] ? SJ_NOT_IDLE :
		step->noted[side] ? step->idle[side] : (SjIdleness) clock->idle[side];

		fell_idle |= idle != SJ_NOT_IDLE && clock->idle[side] == SJ_NOT_IDLE;
		clock->idle[side] = idle;
		if (step->row[side])
			clock->quiet[side] = 0;
		else if (step->noted[side])
			clock->quiet[side] = step->quiet[side];
	}
	if (fell_idle)
		level(clock);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		if (step->noted[side] && clock->idle[side] == SJ_IDLE_ADVANCES &&
			clock->input[side] != SJ_TIME_MIN)
			clock->input[side] = sj_time_add(clock->input[side],
											 step->move[side]);
}

/*
 * The minimum over the inputs that are waited for; when none is, the greatest
 * of those that are not.
 */
static SjTime
join_watermark(const SjClock *clock)
{
	bool		ignored[2];

	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		ignored[side] = clock->idle[side] == SJ_IDLE_IGNORED;
	if (ignored[SJ_LEFT] && ignored[SJ_RIGHT])
		return Max(clock->input[SJ_LEFT], clock->input[SJ_RIGHT]);
	if (ignored[SJ_LEFT] || ignored[SJ_RIGHT])
		return clock->input[ignored[SJ_LEFT] ? SJ_RIGHT : SJ_LEFT];
	return Min(clock->input[SJ_LEFT], clock->input[SJ_RIGHT]);
}

/* Moves the join's watermark and horizon to where the inputs are. */
static void
settle(SjRoot *root)
{
	SjClock    *clock = &root->clock;

	clock->watermark = Max(clock->watermark, join_watermark(clock));

	/* an infinite lateness: nothing is ever late */
	if (clock->watermark != SJ_TIME_MIN &&
		root->allowed_lateness != PG_INT64_MAX)
		clock->horizon = Max(clock->horizon,
							 sj_time_sub(clock->watermark,
										 root->allowed_lateness));
}

/* Applies the step to the clock; did that change anything? */
bool
sj_clock_end_step(SjEngine *engine)
{
	SjClock    *clock = &engine->root->clock;
	SjClock		before = *clock;

	for (int side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		clock->max_event_time[side] = Max(clock->max_event_time[side],
										  engine->step.greatest[side]);
		clock->input[side] = input_watermark(engine, side);
		engine->root->newest[side] = Max(engine->root->newest[side],
										 engine->step.newest[side]);
	}
	end_idleness(engine);
	settle(engine->root);
	sj_step_start(&engine->step);
	return memcmp(&before, clock, sizeof(SjClock)) != 0;
}

/*
 * A changed allowed lateness, from the end of the current step on.
 *
 * PG_INT64_MAX: nothing is ever late.  A greater one does not take the horizon
 * back.
 */
void
sj_engine_set_lateness(SjEngine *engine, int64 allowed_lateness)
{
	Assert(allowed_lateness >= 0);
	engine->root->allowed_lateness = allowed_lateness;
}

/* Where event time stands; valid until the engine is used again. */
const SjClock *
sj_engine_clock(const SjEngine *engine)
{
	return &engine->root->clock;
}

/* Newest event time that has moved the watermark; see engine.h. */
SjTime
sj_engine_newest(const SjEngine *engine, SjSide side)
{
	return engine->root->newest[side];
}
