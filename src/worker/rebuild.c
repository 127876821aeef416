/*-------------------------------------------------------------------------
 *
 * rebuild.c
 *	  Getting a join's state back: adopted as it is, or rebuilt from the log;
 *	  and the checkpoints that keep rebuilding short (A7).
 *
 * A rebuild starts from the rows carried forward at the base of the position,
 * with the clock and the settings of then, and consumes the log up to the
 * position in the same steps as before, emitting nothing.  The clock must then
 * be the one that the position recorded; that is checked.
 *
 * IDENTIFICATION
 *	  src/worker/rebuild.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "guc.h"
#include "log/event_log.h"
#include "miscadmin.h"
#include "store/checkpoint.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "worker/worker.h"

/* A state left by a worker that went away in order? */
static bool
can_adopt(const SjTask *task)
{
	const SjJoinSlot *slot = task->slot;

	return slot->state_clean && slot->state_root != SJ_NO_PAGE &&
		slot->state_tick == task->position.tick &&
		slot->state_txns == task->position.txns;
}

/* Takes in a row that was carried forward. */
static void
restore_row(void *arg, const SjCarriedRow *carried, MinimalTuple tuple)
{
	SjTask	   *task = arg;
	SjEvent		event;

	CHECK_FOR_INTERRUPTS();
	event.seq = carried->seq;
	event.version = carried->version;
	sj_input_stored_event(&task->input[carried->side], tuple, &event);
	event.source = carried->source;
	event.due = carried->due;
	if (sj_engine_restore(task->engine, &event, carried->degree,
						  carried->padded, carried->flags) == SJ_NO_MEMORY)
		sj_no_memory(task);
}

/* Consumes the log from the base to the position. */
static void
replay_log(SjTask *task)
{
	SjBatch    *batch = &task->batch;
	SjTick	   *before = sj_consumed_tick(task->def, &task->position,
										task->position.base_tick);
	int64		ignored;

	batch->position = task->position;
	batch->position.tick = task->position.base_tick;
	batch->position.txns = task->position.base_txns;

	while (batch->position.tick < task->position.tick ||
		   batch->position.txns < task->position.txns)
	{
		const SjTick *tick = sj_worker_tick(batch->position.tick + 1);
		bool		last = tick->number > task->position.tick;
		int32		txns = batch->position.txns;

		batch->rows = 0;
		if (sj_feed_tick(task, batch, before, tick,
						 last ? task->position.txns : -1,
						 sj_task_batch_rows(task)))
			before = sj_tick_copy(tick);
		else if (batch->position.txns == txns)
			elog(ERROR, "tick " INT64_FORMAT " could not be consumed",
				 tick->number);
		(void) sj_engine_changes(task->engine, &ignored);
		sj_engine_end_batch(task->engine);
	}
}

/* The rebuilt clock must be the recorded one. */
static void
check_clock(SjTask *task)
{
	SjLogClock	clock;

	sj_clock_to_log(sj_engine_clock(task->engine), &clock);
	if (memcmp(&clock, &task->position.clock, sizeof(clock)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the state rebuilt from the event log does not fit the position of the join"),
				 errdetail("The watermark is " INT64_FORMAT ", recorded is " INT64_FORMAT ".",
						   clock.watermark, task->position.clock.watermark)));
}

/* And so must the settings. */
static void
check_settings(const SjTask *task)
{
	if (memcmp(&task->settings, &task->position.settings,
			   sizeof(SjLogSettings)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the settings found in the event log do not fit the position of the join")));
}

/* Caller is in a transaction and in the owner's sandbox. */
void
sj_task_rebuild(SjTask *task)
{
	const SjPosition *position = &task->position;
	MemoryContext old;
	SjClock		clock;

	task->settings_altered = false;
	if (can_adopt(task))
	{
		sj_task_apply_settings(task, &position->settings);
		old = MemoryContextSwitchTo(task->engine_context);
		task->engine = sj_engine_attach(&task->arena, &task->op,
										task->slot->state_root);
		MemoryContextSwitchTo(old);
		sj_task_go_on_counting(task);
		check_clock(task);
		return;
	}

	sj_task_apply_settings(task, &position->base.settings);
	sj_join_slot_set_state(task->slot, SJ_JOIN_REBUILDING);
	sj_clock_from_log(&position->base.clock, &clock);
	sj_task_create_state(task, &clock);
	if (FullTransactionIdIsValid(position->base_xid))
		sj_checkpoint_read(task->def->join_id, position->base_xid,
						   restore_row, task);
	task->known_failures = sj_failures_load(task->def->join_id,
											&task->nknown_failures);
	task->replaying = true;
	replay_log(task);
	task->replaying = false;
	task->nknown_failures = 0;
	sj_task_start_counting(task);
	sj_batch_reset(task, &task->batch);
	check_clock(task);
	check_settings(task);
	sj_task_state_is_clean(task);
	pg_atomic_fetch_add_u64(&task->slot->restarts, 1);
}

/*
 * Is the log since the base long enough for carrying the state forward to be
 * cheap beside it?
 */
bool
sj_task_wants_checkpoint(const SjTask *task)
{
	SjEngineStats stats;
	int64		log_bytes = task->base_chunks * SJ_CHUNK_BYTES;

	if (log_bytes < (int64) sj_log_segment_size * 1024 * 1024)
		return false;
	sj_engine_stats(task->engine, &stats);
	return log_bytes > 2 * (int64) stats.pages * SJ_PAGE_SIZE;
}

/* Carries the state, which is that of the position, forward. */
void
sj_task_carry_forward(SjTask *task, SjPosition *position)
{
	position->base_tick = position->tick;
	position->base_txns = position->txns;
	position->base.log_mark = sj_worker.log_mark;
	position->base.clock = position->clock;
	position->base.settings = position->settings;
	position->base_xid = sj_checkpoint_write(task->def->join_id, task->engine);
}

/* The position that says so is durable, and the task has it. */
void
sj_task_base_moved(SjTask *task)
{
	task->base_xmin = task->tick->xmin;
	task->first_tick = task->position.base_tick;
	task->base_chunks = 0;
}

/* Carries the state forward, in a transaction of its own. */
void
sj_task_checkpoint(SjTask *task)
{
	SjPosition	position;

	/* the state must be that of the position */
	Assert(!task->batch.fed && !task->batch.consumed);
	sj_begin();
	position = task->position;
	sj_task_defaults(&position.settings);
	sj_task_carry_forward(task, &position);
	sj_position_store(&position);
	sj_commit();

	task->position = position;
	sj_task_base_moved(task);
	sj_task_state_is_clean(task);
	sj_task_apply_settings(task, &position.settings);
	sj_engine_set_lateness(task->engine, task->op.allowed_lateness);
	sj_batch_reset(task, &task->batch);
}
