/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  One batch: some whole steps, their results and the position after them,
 *	  in one transaction.
 *
 * IDENTIFICATION
 *	  src/worker/batch.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/trigger.h"
#include "guc.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "worker/replay.h"
#include "worker/worker.h"

/* Where memory is short: rows taken out keep their room until the batch ends. */
#define TIGHT_BATCH_ROWS	1000

/* An empty batch after the durable position. */
void
sj_batch_reset(SjTask *task, SjBatch *batch)
{
	MemoryContextReset(batch->context);
	batch->fed = false;
	batch->careful = false;
	batch->consumed = false;
	batch->late_rows = NIL;
	batch->replay = NULL;
	batch->rows = 0;
	batch->ntxns = 0;
	memset(batch->timing, 0, sizeof(batch->timing));
	batch->position = task->position;
	sj_task_set_tick(task, &batch->tick, task->tick);
}

/* Rows that make a batch full. */
int64
sj_task_batch_rows(const SjTask *task)
{
	return task->op.tight ? Min(sj_batch_rows, TIGHT_BATCH_ROWS) :
		sj_batch_rows;
}

/* Feeds ticks until the batch is full or there are no more. */
static void
feed_batch(SjTask *task, SjBatch *batch, const SjTick *latest)
{
	int64		max_rows = sj_task_batch_rows(task);

	while (batch->position.tick < latest->number && batch->rows < max_rows &&
		   batch->replay == NULL)
	{
		const SjTick *tick = batch->position.tick + 1 == latest->number ?
		latest : sj_worker_tick(batch->position.tick + 1);

		if (!sj_feed_tick(task, batch, batch->tick, tick, -1, max_rows))
			break;
		sj_task_set_tick(task, &batch->tick, tick);
	}
	sj_clock_to_log(sj_engine_clock(task->engine), &batch->position.clock);
	batch->position.settings = task->settings;
	sj_task_count(task, &batch->position.totals);
	batch->fed = true;
}

/* SET CONSTRAINTS ALL IMMEDIATE: nothing of the user's is left for commit. */
void
sj_batch_constraints_immediate(void)
{
	ConstraintsSetStmt *stmt = makeNode(ConstraintsSetStmt);

	stmt->constraints = NIL;
	stmt->deferred = false;
	AfterTriggerSetState(stmt);
}

/*
 * Writes what the engine said and the position after it, in the current
 * transaction and as the owner.
 */
void
sj_batch_write(SjTask *task, SjBatch *batch)
{
	SjPosition *position = &batch->position;
	int64		n;
	const SjChange *changes = sj_replay_changes(batch->replay, task->engine,
												&n);
	int64		result_seq = task->position.result_seq;
	SjWritten	written;

	sj_batch_constraints_immediate();
	sj_result_write(task->writer, changes, n, batch->careful,
					position->clock.watermark, &result_seq, &written);
	position->result_seq = result_seq;
	position->totals.rows_out = task->position.totals.rows_out +
		written.inserted;
	position->totals.rows_retracted = task->position.totals.rows_retracted +
		written.retracted;
	sj_late_rows_store(task->def->join_id, task->plan,
					   sj_versions_note(task,
										list_concat_copy(batch->late_rows,
														 written.late_rows)));
	if (batch->replay != NULL)
		sj_task_carry_forward(task, position);
	sj_position_store(position);
	sj_notify_written(task, position, written.inserted, written.retracted);
}

static void
count_batch(SjTask *task, SjBatch *batch, TimestampTz started)
{
	SjJoinSlot *slot = task->slot;
	TimestampTz now = sj_now();
	int64		usec = now - started;
	SjTally		latency = {{0}};

	for (int i = 0; i < batch->ntxns; i++)
		latency.n[sj_bucket(now - batch->captured_at[i])]++;
	sj_histogram_add(&slot->latency, &latency);
	sj_timing_publish(task, batch);
	pg_atomic_fetch_add_u64(&slot->batches, 1);
	pg_atomic_fetch_add_u64(&slot->total_batch_usec, usec);
	pg_atomic_write_u64(&slot->last_batch_usec, usec);
	pg_atomic_write_u64(&slot->last_batch_at, (uint64) now);
	if (sj_log_min_batch_duration >= 0 &&
		usec >= (int64) sj_log_min_batch_duration * 1000)
		ereport(LOG,
				(errmsg("sjoin: batch of %lld rows took %.3f ms",
						(long long) batch->rows, usec / 1000.0)));
}

/* The batch is durable: the engine lets expired rows go. */
static void
finish_batch(SjTask *task, SjBatch *batch, TimestampTz started)
{
	task->position = batch->position;
	sj_task_set_tick(task, &task->tick, batch->tick);
	if (batch->replay != NULL)
		sj_task_base_moved(task);
	sj_engine_end_batch(task->engine);
	if (batch->consumed)
	{
		sj_task_state_is_clean(task);
		count_batch(task, batch, started);
	}
	task->slot->state_clean = true;
	sj_task_publish(task);
	sj_task_publish_horizon(task);
	sj_batch_reset(task, batch);
}

/*
 * Runs one batch up to the tick 'latest'; true when there is more.  On an
 * error the transaction is the caller's to abort; a batch that has been fed is
 * kept and written by the next call.
 */
bool
sj_task_run_batch(SjTask *task, const SjTick *latest)
{
	SjBatch    *batch = &task->batch;
	TimestampTz started = sj_now();
	SjSandbox	sandbox;

	sj_begin();

	/* with the lock, what the task knows of its result and owner stays true */
	LockRelationOid(task->def->result, RowExclusiveLock);
	if (task->recheck || sj_worker_definitions_changed())
	{
		sj_commit();
		return true;
	}
	sj_sandbox_enter(&sandbox, task->owner, task->def->time_zone);
	if (!batch->fed)
	{
		task->slot->state_clean = false;
		feed_batch(task, batch, latest);
	}
	if (batch->consumed)
		sj_batch_write(task, batch);
	sj_sandbox_leave(&sandbox);
	sj_commit();

	finish_batch(task, batch, started);
	return task->position.tick < latest->number;
}
