/*-------------------------------------------------------------------------
 *
 * schedule.c
 *	  Which joins a worker runs, and running them in turn.
 *
 * A task goes from its definition to batches: compile, then backfill, adopt or
 * rebuild the state, then run.  An error aborts the task's transaction only;
 * the task is tried again after a delay, the others go on.
 *
 * IDENTIFICATION
 *	  src/worker/schedule.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/stream_def.h"
#include "emit/attempt.h"
#include "guc.h"
#include "miscadmin.h"
#include "relations.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "worker/worker.h"

#define MAX_RETRY_DELAY	(60 * USECS_PER_SEC)

/* The same join?  Numbers start again when the extension is made again. */
static bool
is_same_join(const SjJoinDef *a, const SjJoinDef *b)
{
	return a->join_id == b->join_id && a->result == b->result &&
		a->definition == b->definition;
}

static SjTask *
find_task(const SjJoinDef *def)
{
	ListCell   *lc;

	foreach(lc, sj_worker.tasks)
	{
		SjTask	   *task = lfirst(lc);

		if (is_same_join(task->def, def))
			return task;
	}
	return NULL;
}

/*
 * Takes over the durable position.  What is older than the log or its ticks
 * shows only when the task starts, as an error of its own.
 */
static void
adopt_position(SjTask *task, List *positions)
{
	ListCell   *lc;
	SjTick	   *base;

	task->base_xmin = sj_tick_deserialize(task->def->start, 0)->xmin;
	task->first_tick = 0;
	foreach(lc, positions)
	{
		SjPosition *position = lfirst(lc);

		if (position->join_id == SJ_LOG_MARK)
			sj_worker.log_mark = position->base_xid;
		if (position->join_id != task->def->join_id)
			continue;
		task->position = *position;
		task->has_position = true;
		sj_task_apply_settings(task, &position->settings);
		base = sj_consumed_tick_if_kept(task->def, position,
										position->base_tick);
		task->base_xmin = base == NULL ? FirstNormalFullTransactionId :
			base->xmin;
		task->first_tick = position->base_tick;
	}
}

/*
 * Has the log been emptied beyond the base since the base was made?  (A join
 * is known to upkeep from its creation on, so before that it loses nothing,
 * however old the transactions were that ran then.)
 */
static bool
log_is_incomplete(const SjTask *task)
{
	return FullTransactionIdFollows(sj_worker.log_mark,
									task->position.base.log_mark) &&
		FullTransactionIdPrecedes(task->base_xmin, sj_worker.log_mark);
}

/* The log that the task starts from must still be there. */
static void
check_log(SjTask *task)
{
	if (task->has_position && task->tick == NULL)
		sj_task_set_tick(task, &task->tick,
						 sj_consumed_tick_if_kept(task->def, &task->position,
												  task->position.tick));
	if (task->has_position &&
		(task->tick == NULL || log_is_incomplete(task)))
		sj_task_stop(task, "has been out of use for too long: the event log no longer has what it needs");
}

/* A join without a slot: it does not run, but the log is kept for it. */
static void
add_waiting(const SjJoinDef *def, List *positions)
{
	MemoryContext old = MemoryContextSwitchTo(sj_worker.context);
	SjWaiting  *waiting = palloc0(sizeof(SjWaiting));
	ListCell   *lc;

	waiting->join_id = def->join_id;
	waiting->base_xmin = sj_tick_deserialize(def->start, 0)->xmin;
	foreach(lc, positions)
	{
		SjPosition *position = lfirst(lc);
		SjTick	   *base;

		if (position->join_id != def->join_id)
			continue;
		waiting->first_tick = position->base_tick;
		base = sj_consumed_tick_if_kept(def, position, position->base_tick);
		if (base != NULL)
			waiting->base_xmin = base->xmin;
	}
	sj_worker.waiting = lappend(sj_worker.waiting, waiting);
	MemoryContextSwitchTo(old);
}

static void
add_task(const SjJoinDef *def, List *positions)
{
	SjTask	   *task = sj_task_create(def);
	MemoryContext old;

	if (task == NULL)
	{
		add_waiting(def, positions);
		ereport(LOG,
				(errmsg("too many joins: join %d does not run", def->join_id),
				 errhint("Raise sjoin.max_joins and restart the server.")));
		return;
	}
	adopt_position(task, positions);
	sj_join_slot_set_state(task->slot, def->paused ? SJ_JOIN_PAUSED :
						   SJ_JOIN_STARTING);
	old = MemoryContextSwitchTo(sj_worker.context);
	sj_worker.tasks = lappend(sj_worker.tasks, task);
	MemoryContextSwitchTo(old);
}

/*
 * A task that is paused keeps what it has: state, position, a batch that could
 * not be written.  A stopped one is shown as that.
 */
static void
pause_task(SjTask *task)
{
	task->def->paused = true;
	if (!task->definition_lost)
		sj_join_slot_set_state(task->slot, SJ_JOIN_PAUSED);
}

/* Takes over what alterations have changed; a failed task is tried at once. */
static void
adopt_changes(SjTask *task, const SjJoinDef *def)
{
	bool		was_paused = task->def->paused;

	if (task->def->written_by == def->written_by)
		return;
	task->def->written_by = def->written_by;
	sj_task_set_channel(task, def->notify_channel);
	task->def->late_rows = def->late_rows;
	if (def->paused)
	{
		pause_task(task);
		return;
	}
	task->def->paused = false;
	if (task->definition_lost)
		return;
	task->recheck = true;
	task->retry_at = 0;
	task->failures = 0;
	task->out_of_memory = false;
	sj_forget_late_error(task);
	if (was_paused)
		sj_join_slot_set_state(task->slot, SJ_JOIN_STARTING);
}

void
sj_worker_note_paused(Snapshot snapshot)
{
	List	   *join_ids = sj_join_def_paused(snapshot);
	ListCell   *lc;

	foreach(lc, sj_worker.tasks)
	{
		SjTask	   *task = lfirst(lc);

		if (!task->def->paused &&
			list_member_int(join_ids, task->def->join_id))
			pause_task(task);
	}
}

bool
sj_worker_definitions_changed(void)
{
	return pg_atomic_read_u64(&sj_worker.slot->definitions) !=
		sj_worker.definitions;
}

static bool
def_exists(List *defs, const SjJoinDef *def)
{
	ListCell   *lc;

	foreach(lc, defs)
		if (is_same_join(lfirst(lc), def))
			return true;
	return false;
}

/* Slots of joins of this database that are gone, whoever ran them. */
static void
free_slots(List *defs)
{
	for (int i = 0; i < sj_max_joins; i++)
	{
		SjJoinSlot *slot = &sj_shared->joins[i];
		bool		known = false;
		ListCell   *lc;

		if (slot->database != MyDatabaseId)
			continue;
		foreach(lc, defs)
		{
			SjJoinDef  *def = lfirst(lc);

			known |= def->join_id == slot->join_id &&
				def->result == slot->result;
		}
		if (!known)
			sj_join_slot_free(slot);
	}
}

/* Drops tasks of joins that are gone; with positions, adds new ones. */
static void
reconcile_tasks(List *defs, List *positions)
{
	ListCell   *lc;

	foreach(lc, sj_worker.tasks)
	{
		SjTask	   *task = lfirst(lc);

		if (def_exists(defs, task->def))
			continue;
		sj_worker.tasks = foreach_delete_current(sj_worker.tasks, lc);
		sj_task_close(task, true);
	}
	free_slots(defs);
	list_free_deep(sj_worker.waiting);
	sj_worker.waiting = NIL;
	foreach(lc, defs)
	{
		SjJoinDef  *def = lfirst(lc);
		SjTask	   *task = find_task(def);

		if (task == NULL)
			add_task(def, positions);
		else
			adopt_changes(task, def);
	}
}

/* Joins and streams whose tables were dropped while sjoin was not loaded. */
static void
forget_lost_definitions(void)
{
	ListCell   *lc;

	foreach(lc, sj_join_def_all())
	{
		SjJoinDef  *def = lfirst(lc);

		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(def->result)))
			sj_join_def_delete(def->join_id);
	}
	foreach(lc, sj_stream_def_all())
	{
		SjStreamDef *def = lfirst(lc);

		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(def->relid)))
			sj_stream_def_delete(def->relid);
	}
}

void
sj_worker_read_definitions(void)
{
	uint64		definitions = pg_atomic_read_u64(&sj_worker.slot->definitions);

	sj_begin();
	if (sj_worker.latest == NULL && OidIsValid(sj_relation_oid("tick")))
	{
		SjTick	   *newest = sj_tick_newest();

		if (newest != NULL)
			sj_worker_set_latest(newest);
	}
	if (OidIsValid(sj_relation_oid("join_def")))
	{
		forget_lost_definitions();
		reconcile_tasks(sj_join_def_all(), sj_position_load_all());
	}
	else
	{
		reconcile_tasks(NIL, NIL);
		sj_worker.latest = NULL;
		sj_worker.log_mark = InvalidFullTransactionId;
	}
	sj_commit();
	sj_worker.definitions = definitions;
	sj_worker.read_definitions = false;
	pg_atomic_write_u64(&sj_worker.slot->definitions_read, definitions);
}

/*
 * First position of a join: its history, up to the moment of its creation.
 * False when that must wait for another look at the definitions: with the lock
 * on its result nobody can be starting the join over.
 */
static bool
start(SjTask *task)
{
	SjTick	   *tick;

	sj_begin();
	LockRelationOid(task->def->result, RowExclusiveLock);
	if (task->recheck || sj_worker_definitions_changed())
	{
		sj_commit();
		return false;
	}
	sj_task_start(task, sj_worker.latest);
	MemoryContextSwitchTo(sj_worker.turn);
	tick = sj_consumed_tick(task->def, &task->batch.position,
							task->batch.position.tick);
	sj_commit();

	task->position = task->batch.position;
	task->has_position = true;
	sj_task_set_tick(task, &task->tick, tick);
	task->base_xmin = tick->xmin;
	task->first_tick = task->position.tick;
	sj_task_state_is_clean(task);
	sj_task_publish(task);
	sj_task_publish_horizon(task);
	sj_batch_reset(task, &task->batch);
	return true;
}

static void
compile(SjTask *task)
{
	sj_begin();
	sj_task_compile(task);
	sj_commit();
}

static void
rebuild(SjTask *task)
{
	SjSandbox	sandbox;

	sj_begin();
	sj_batch_reset(task, &task->batch);
	sj_sandbox_enter(&sandbox, task->owner, task->def->time_zone);
	sj_task_rebuild(task);
	sj_sandbox_leave(&sandbox);
	sj_commit();
	sj_task_adopt_quiet(task);
	sj_task_publish(task);
	sj_task_publish_horizon(task);
}

/* Defaults other than those in force (T9)? */
static bool
defaults_changed(const SjTask *task)
{
	SjLogSettings now = task->settings;

	sj_task_defaults(&now);
	return memcmp(&now, &task->settings, sizeof(now)) != 0;
}

/* Compiled, with a state: ready for batches; false: not yet. */
static bool
make_ready(SjTask *task)
{
	if (task->engine == NULL)
	{
		sj_begin();
		check_log(task);
		sj_commit();
	}
	if (task->recheck)
		compile(task);
	if (!task->has_position)
	{
		if (!start(task))
			return false;
	}
	else if (task->engine == NULL)
		rebuild(task);
	if (task->check_settings && !task->batch.fed)
	{
		if (defaults_changed(task))
			sj_task_checkpoint(task);
		task->check_settings = false;
	}
	return true;
}

static bool
run_task(SjTask *task)
{
	bool		more;

	if (!make_ready(task))
		return true;
	more = sj_task_run_batch(task, sj_worker.latest);
	if (sj_task_wants_checkpoint(task))
		sj_task_checkpoint(task);
	sj_join_slot_set_state(task->slot, SJ_JOIN_RUNNING);
	task->failures = 0;
	task->retry_at = 0;
	return more;
}

/* How long to wait before the next try, in usec. */
static int64
retry_delay(const SjTask *task, int sqlstate)
{
	int64		delay = (int64) sj_restart_delay * 1000;

	/* whoever holds the lock lets go of it some time */
	if (sqlstate == ERRCODE_LOCK_NOT_AVAILABLE)
		return Min(delay, 100 * 1000);
	for (int i = 0; i < Min(task->failures, 16); i++)
		delay *= 2;
	return Min(delay, MAX_RETRY_DELAY);
}

/* The task will be tried again, unless trying is of no use. */
static void
note_failure(SjTask *task, const ErrorData *error)
{
	bool		given_up = task->out_of_memory || task->definition_lost ||
	task->late_row_met;

	task->retry_at = given_up ? DT_NOEND :
		GetCurrentTimestamp() + retry_delay(task, error->sqlerrcode);
	task->failures++;
	sj_join_slot_set_error(task->slot,
						   task->definition_lost ? SJ_JOIN_STOPPED : SJ_JOIN_FAILED,
						   error->sqlerrcode, error->message, given_up);
}

/*
 * After an error: a batch that was fed is kept, the rows at fault are looked
 * for when it is written again.  Any other state is thrown away.
 */
static void
clean_up_task(SjTask *task, const ErrorData *error)
{
	task->recheck = true;
	if (task->batch.fed)
	{
		if (!task->batch.careful && sj_error_is_of_row(error))
		{
			task->batch.careful = true;
			task->retry_at = 0;
		}
		return;
	}
	task->replaying = false;
	task->careful = false;
	task->nknown_failures = 0;
	sj_task_drop_state(task);
	sj_batch_reset(task, &task->batch);

	/* what comes before the late rows can be written */
	if (task->late_tick != 0 && !task->late_row_met)
		task->retry_at = 0;
}

static bool
run_task_safely(SjTask *task)
{
	volatile bool more = false;

	PG_TRY();
	{
		more = run_task(task);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(task->batch.context);
		error = CopyErrorData();
		EmitErrorReport();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		LockReleaseSession(USER_LOCKMETHOD);
		MemoryContextSwitchTo(sj_worker.turn);
		note_failure(task, error);
		clean_up_task(task, error);
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	ConditionVariableBroadcast(&sj_worker.slot->progress);
	return more;
}

/* Tells those who wait what the task has reached. */
static void
answer_requests(SjTask *task)
{
	if (task->has_position && task->retry_at == 0 &&
		sj_worker.latest != NULL && task->position.tick >= sj_worker.latest->number)
		pg_atomic_write_u64(&task->slot->served, sj_worker.requests);
}

/*
 * May the task be tried?  A time too far ahead is from before the clock was set
 * back.
 */
static bool
is_due(const SjTask *task)
{
	TimestampTz now = GetCurrentTimestamp();

	return task->retry_at <= now ||
		(task->retry_at != DT_NOEND &&
		 task->retry_at > now + MAX_RETRY_DELAY);
}

/* Runs each task once; true when one has more to do. */
bool
sj_worker_run_tasks(void)
{
	bool		more = false;
	ListCell   *lc;

	foreach(lc, sj_worker.tasks)
	{
		SjTask	   *task = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (task->def->paused || !is_due(task))
			continue;
		if (task->recheck || task->engine == NULL || task->batch.fed ||
			task->retry_at != 0 ||
			task->position.tick < sj_worker.latest->number)
			more |= run_task_safely(task);
		answer_requests(task);
	}
	ConditionVariableBroadcast(&sj_worker.slot->progress);
	return more;
}
