/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The process that runs the joins of one database.
 *
 * The worker is the only one to take ticks, to write positions and to empty
 * segments.  Its loop: read definitions when they have changed; take a tick
 * when there is something to see; run each task up to it; answer those who
 * wait; now and then shorten the log.  It sleeps on its latch, which writers
 * set after their commit.
 *
 * An error in a task aborts that task's transaction only.  The task is tried
 * again after a delay that doubles; the others go on.
 *
 * IDENTIFICATION
 *	  src/worker/worker.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "relations.h"
#include "emit/attempt.h"
#include "guc.h"
#include "log/event_log.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timeout.h"
#include "worker/task.h"

/* How often to look for what nobody announced (COMMIT PREPARED), in ms. */
#define POLL_INTERVAL	1000

/* Upkeep of the log is due this often, in usec. */
#define UPKEEP_INTERVAL	(1 * USECS_PER_SEC)

typedef struct SjWorker
{
	MemoryContext context;		/* life of the process */
	SjDatabaseSlot *slot;
	List	   *tasks;			/* of SjTask */
	uint64		definitions;	/* as of the last reading */
	bool		read_definitions;
	SjTick	   *latest;			/* newest tick; NULL: none yet */
	uint64		commits;		/* seen before the newest tick's snapshot */
	uint64		requests;		/* answered by the newest tick */
	TimestampTz last_tick_at;
	TimestampTz last_upkeep_at;
} SjWorker;

static SjWorker worker;

PGDLLEXPORT void sjoin_worker_main(Datum arg);

/* -- ticks ---------------------------------------------------------------- */

static void
set_latest(const SjTick *tick)
{
	MemoryContext old = MemoryContextSwitchTo(worker.context);
	SjTick	   *copy = sj_tick_copy(tick);

	if (worker.latest != NULL)
	{
		if (worker.latest->xip != NULL)
			pfree(worker.latest->xip);
		pfree(worker.latest);
	}
	worker.latest = copy;
	MemoryContextSwitchTo(old);
}

/* The tick with this number; memory in the current context or the worker's. */
const SjTick *
sj_worker_tick(int64 number)
{
	const SjTick *tick;

	if (worker.latest != NULL && worker.latest->number == number)
		return worker.latest;
	tick = sj_tick_load(number);
	if (tick == NULL)
		elog(ERROR, "tick " INT64_FORMAT " is not in the log", number);
	return tick;
}

static int64
next_tick_number(void)
{
	return worker.latest == NULL ? 1 : worker.latest->number + 1;
}

/*
 * Takes a tick if a committed transaction is in none yet.  Whatever committed
 * before the counters were read is then in the newest tick.
 */
static void
take_tick(void)
{
	uint64		commits = pg_atomic_read_u64(&worker.slot->commits);
	uint64		requests = pg_atomic_read_u64(&worker.slot->requests);
	SjTick	   *tick = NULL;

	pg_memory_barrier();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (worker.latest == NULL || sj_log_has_news(worker.latest))
	{
		tick = sj_tick_take(next_tick_number(), GetActiveSnapshot());
		sj_tick_store(tick);
		set_config_option("synchronous_commit", "off", PGC_USERSET,
						  PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
		MemoryContextSwitchTo(worker.context);
		tick = sj_tick_copy(tick);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();

	if (tick != NULL)
		set_latest(tick);
	worker.commits = commits;
	worker.requests = requests;
	worker.last_tick_at = GetCurrentTimestamp();
}

/* Is there a reason to take a tick? */
static bool
tick_is_due(void)
{
	int64		since = GetCurrentTimestamp() - worker.last_tick_at;

	if (pg_atomic_read_u64(&worker.slot->requests) != worker.requests)
		return true;
	if (pg_atomic_read_u64(&worker.slot->commits) != worker.commits)
		return since >= (int64) sj_batch_interval * 1000 || since < 0;
	return since >= (int64) POLL_INTERVAL * 1000 || since < 0;
}

/* -- definitions ---------------------------------------------------------- */

static SjTask *
find_task(int32 join_id)
{
	ListCell   *lc;

	foreach(lc, worker.tasks)
		if (((SjTask *) lfirst(lc))->def->join_id == join_id)
			return lfirst(lc);
	return NULL;
}

static void
adopt_position(SjTask *task, List *positions)
{
	ListCell   *lc;

	foreach(lc, positions)
	{
		SjPosition *position = lfirst(lc);
		SjTick	   *base;

		if (position->join_id != task->def->join_id)
			continue;
		task->position = *position;
		task->has_position = true;
		sj_task_set_tick(task, &task->tick, sj_worker_tick(position->tick));
		base = sj_tick_load(position->base_tick);
		task->base_xmin = base == NULL ? FirstNormalFullTransactionId :
			base->xmin;
	}
}

static void
add_task(const SjJoinDef *def, List *positions)
{
	SjTask	   *task = sj_task_create(def);
	MemoryContext old;

	if (task == NULL)
	{
		ereport(LOG,
				(errmsg("too many joins: join %d does not run", def->join_id),
				 errhint("Raise sjoin.max_joins and restart the server.")));
		return;
	}
	adopt_position(task, positions);
	sj_join_slot_set_state(task->slot, SJ_JOIN_STARTING);
	old = MemoryContextSwitchTo(worker.context);
	worker.tasks = lappend(worker.tasks, task);
	MemoryContextSwitchTo(old);
}

static bool
def_exists(List *defs, int32 join_id)
{
	ListCell   *lc;

	foreach(lc, defs)
		if (((SjJoinDef *) lfirst(lc))->join_id == join_id)
			return true;
	return false;
}

/* Drops tasks of joins that are gone; with positions, adds new ones. */
static void
reconcile_tasks(List *defs, List *positions)
{
	ListCell   *lc;

	foreach(lc, worker.tasks)
	{
		SjTask	   *task = lfirst(lc);

		if (def_exists(defs, task->def->join_id))
			continue;
		worker.tasks = foreach_delete_current(worker.tasks, lc);
		sj_task_close(task, true);
	}
	foreach(lc, defs)
	{
		SjJoinDef  *def = lfirst(lc);

		if (find_task(def->join_id) == NULL)
			add_task(def, positions);
	}
}

static void
read_definitions(void)
{
	uint64		definitions = pg_atomic_read_u64(&worker.slot->definitions);

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (worker.latest == NULL && OidIsValid(sj_relation_oid("tick")))
	{
		SjTick	   *newest = sj_tick_newest();

		if (newest != NULL)
			set_latest(newest);
	}
	if (OidIsValid(sj_relation_oid("join_def")))
		reconcile_tasks(sj_join_def_all(), sj_position_load_all());
	else
		reconcile_tasks(NIL, NIL);
	PopActiveSnapshot();
	CommitTransactionCommand();
	worker.definitions = definitions;
	worker.read_definitions = false;
}

/* -- tasks ---------------------------------------------------------------- */

/* First position of a join: its history, which is a tick of its own. */
static void
backfill(SjTask *task)
{
	SjTick	   *tick;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(worker.context);
	tick = sj_tick_take(next_tick_number(), GetActiveSnapshot());
	MemoryContextSwitchTo(CurTransactionContext);
	sj_task_backfill(task, tick);
	PopActiveSnapshot();
	CommitTransactionCommand();

	set_latest(tick);
	task->position = task->batch.position;
	task->has_position = true;
	sj_task_set_tick(task, &task->tick, tick);
	task->base_xmin = tick->xmin;
	task->slot->state_tick = task->position.tick;
	task->slot->state_txns = 0;
	task->slot->state_clean = true;
	sj_batch_reset(task, &task->batch);
}

static void
compile(SjTask *task)
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	sj_task_compile(task);
	PopActiveSnapshot();
	CommitTransactionCommand();
}

static void
rebuild(SjTask *task)
{
	SjSandbox	sandbox;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	sj_batch_reset(task, &task->batch);
	sj_sandbox_enter(&sandbox, task->owner, task->def->time_zone);
	sj_task_rebuild(task);
	sj_sandbox_leave(&sandbox);
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/* Settings other than those in force since the base (T9)? */
static bool
settings_changed(SjTask *task)
{
	SjLogSettings now;
	bool		changed;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	sj_task_settings(task, &now);
	changed = memcmp(&now, &task->position.base.settings, sizeof(now)) != 0;
	PopActiveSnapshot();
	CommitTransactionCommand();
	return changed;
}

/* Compiled, with a state: ready for batches. */
static void
make_ready(SjTask *task)
{
	bool		recheck = task->recheck;

	if (recheck && !task->batch.fed)
		compile(task);
	if (!task->has_position)
		backfill(task);
	else if (task->engine == NULL)
		rebuild(task);
	if (recheck && settings_changed(task))
		sj_task_checkpoint(task);
}

static bool
run_task(SjTask *task)
{
	bool		more;

	make_ready(task);
	more = sj_task_run_batch(task, worker.latest);
	if (sj_task_wants_checkpoint(task))
		sj_task_checkpoint(task);
	sj_join_slot_set_state(task->slot, SJ_JOIN_RUNNING);
	task->failures = 0;
	task->retry_at = 0;
	return more;
}

/* The task will be tried again, unless trying is of no use. */
static void
note_failure(SjTask *task, const ErrorData *error)
{
	bool		final = error->sqlerrcode == ERRCODE_OUT_OF_MEMORY &&
	task->engine != NULL;
	bool		stopped =
	error->sqlerrcode == ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
	int64		delay = (int64) sj_restart_delay * 1000;

	for (int i = 0; i < Min(task->failures, 16); i++)
		delay *= 2;
	delay = Min(delay, 60 * USECS_PER_SEC);
	task->failures++;
	task->retry_at = final || stopped ? DT_NOEND : GetCurrentTimestamp() + delay;
	sj_join_slot_set_error(task->slot,
						   stopped ? SJ_JOIN_STOPPED : SJ_JOIN_FAILED,
						   error->sqlerrcode, error->message,
						   task->retry_at == DT_NOEND);
}

/*
 * After an error: a batch that was fed is kept, the rows at fault are looked
 * for when it is written again.  Any other state is thrown away.
 */
static void
clean_up_task(SjTask *task, const ErrorData *error)
{
	if (task->batch.fed)
	{
		task->batch.careful = sj_error_is_of_row(error->sqlerrcode);
		if (task->batch.careful)
			task->retry_at = 0;
		return;
	}
	task->replaying = false;
	task->careful = false;
	task->nknown_failures = 0;
	task->engine = NULL;
	task->slot->state_clean = false;
	task->slot->state_root = SJ_NO_PAGE;
	sj_arena_reset(sj_join_slot_number(task->slot) + 1);
	task->recheck = true;
	sj_batch_reset(task, &task->batch);
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
		AbortCurrentTransaction();
		note_failure(task, error);
		clean_up_task(task, error);
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	ConditionVariableBroadcast(&worker.slot->progress);
	return more;
}

/* Tells those who wait what the task has reached. */
static void
answer_requests(SjTask *task)
{
	if (task->has_position && task->retry_at == 0 &&
		worker.latest != NULL && task->position.tick >= worker.latest->number)
		pg_atomic_write_u64(&task->slot->served, worker.requests);
}

/* Runs each task once; true when one has more to do. */
static bool
run_tasks(void)
{
	bool		more = false;
	ListCell   *lc;

	foreach(lc, worker.tasks)
	{
		SjTask	   *task = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (task->retry_at > GetCurrentTimestamp())
			continue;
		if (task->recheck || task->engine == NULL || task->batch.fed ||
			task->retry_at != 0 ||
			task->position.tick < worker.latest->number)
			more |= run_task_safely(task);
		answer_requests(task);
	}
	ConditionVariableBroadcast(&worker.slot->progress);
	return more;
}

/* -- upkeep --------------------------------------------------------------- */

/* From which transaction and tick on the log is needed. */
static void
needed_log(FullTransactionId *xid, int64 *tick, List **join_ids)
{
	ListCell   *lc;

	*xid = worker.latest->xmin;
	*tick = worker.latest->number;
	*join_ids = NIL;
	foreach(lc, worker.tasks)
	{
		SjTask	   *task = lfirst(lc);

		*join_ids = lappend_int(*join_ids, task->def->join_id);
		if (!task->has_position || task->slot->state == SJ_JOIN_STOPPED)
			continue;
		if (FullTransactionIdPrecedes(task->base_xmin, *xid))
			*xid = task->base_xmin;
		*tick = Min(*tick, task->position.base_tick);
	}
}

/* Shortens the log, in transactions that never wait for a lock. */
static void
shorten_log(void)
{
	FullTransactionId xid;
	int64		tick;
	List	   *join_ids;

	needed_log(&xid, &tick, &join_ids);
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	sj_log_maintain(xid, (int64) sj_log_segment_size * 1024 * 1024);
	PopActiveSnapshot();
	CommitTransactionCommand();

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	sj_tick_trim(tick);
	PopActiveSnapshot();
	CommitTransactionCommand();

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	sj_position_trim(join_ids);
	PopActiveSnapshot();
	CommitTransactionCommand();
}

static void
do_upkeep(void)
{
	TimestampTz now = GetCurrentTimestamp();

	if (worker.latest == NULL ||
		(now >= worker.last_upkeep_at &&
		 now - worker.last_upkeep_at < UPKEEP_INTERVAL))
		return;
	worker.last_upkeep_at = now;
	PG_TRY();
	{
		shorten_log();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	pgstat_report_stat(false);
}

/* -- the process ---------------------------------------------------------- */

static void
relation_changed(Datum arg, Oid relid)
{
	ListCell   *lc;

	foreach(lc, worker.tasks)
	{
		SjTask	   *task = lfirst(lc);

		if (!OidIsValid(relid) || relid == task->def->result ||
			relid == task->def->definition ||
			relid == task->def->input[SJ_LEFT] ||
			relid == task->def->input[SJ_RIGHT])
			task->recheck = true;
	}
}

/* A function, a role, ... may be one that an expression or a right rests on. */
static void
something_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	ListCell   *lc;

	foreach(lc, worker.tasks)
		((SjTask *) lfirst(lc))->recheck = true;
}

static void
detach_worker(int code, Datum arg)
{
	LWLockAcquire(sj_shared->lock, LW_EXCLUSIVE);
	if (worker.slot->worker_pid == MyProcPid)
	{
		worker.slot->worker_pid = 0;
		worker.slot->worker_latch = NULL;
	}
	LWLockRelease(sj_shared->lock);
	ConditionVariableBroadcast(&worker.slot->progress);
	sj_wake_launcher();
}

static void
attach_worker(void)
{
	pid_t		other;

	LWLockAcquire(sj_shared->lock, LW_EXCLUSIVE);
	other = worker.slot->worker_pid;
	if (other == 0 && worker.slot->suspended == 0)
	{
		worker.slot->worker_pid = MyProcPid;
		worker.slot->worker_latch = MyLatch;
	}
	LWLockRelease(sj_shared->lock);
	if (worker.slot->worker_pid != MyProcPid)
		proc_exit(0);
	before_shmem_exit(detach_worker, (Datum) 0);
}

/* Leaves when there is no join, unless one is being created just now. */
static void
leave_if_idle(void)
{
	bool		leave = false;

	if (worker.tasks != NIL)
		return;
	LWLockAcquire(sj_shared->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&worker.slot->definitions) == worker.definitions)
	{
		worker.slot->wanted = false;
		worker.slot->failures = 0;
		leave = true;
	}
	LWLockRelease(sj_shared->lock);
	if (leave)
		proc_exit(0);
}

/*
 * Settings that ALTER ROLE, DATABASE or SYSTEM could plant and that would make
 * the worker stop, wait or write something else (A9).
 */
static void
override_settings(void)
{
	static const char *const settings[][2] = {
		{"statement_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
		{"idle_session_timeout", "0"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"},
		{"session_replication_role", "origin"},
		{"synchronous_commit", "local"},
		{"search_path", "pg_catalog, pg_temp"},
		{"client_min_messages", "warning"},
	};

	for (int i = 0; i < lengthof(settings); i++)
		SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET,
						PGC_S_OVERRIDE);
	/* give way before a writer's deadlock check would choose a victim */
	SetConfigOption("lock_timeout", psprintf("%d", Max(1, DeadlockTimeout / 2)),
					PGC_SUSET, PGC_S_OVERRIDE);
}

static void
start_up(int slot_number)
{
	worker.slot = &sj_shared->databases[slot_number];
	worker.context = AllocSetContextCreate(TopMemoryContext, "sjoin worker",
										   ALLOCSET_DEFAULT_SIZES);
	worker.read_definitions = true;
	attach_worker();
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(worker.slot->database,
											  InvalidOid, 0);
	override_settings();
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, something_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHOID, something_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, something_changed, (Datum) 0);
	pgstat_report_appname("sjoin worker");
}

static void
reload_configuration(void)
{
	ListCell   *lc;

	if (!ConfigReloadPending)
		return;
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	foreach(lc, worker.tasks)
		((SjTask *) lfirst(lc))->recheck = true;
}

/* How long there is surely nothing to do, in ms. */
static long
time_to_sleep(bool more)
{
	TimestampTz now = GetCurrentTimestamp();
	long		sleep_ms = POLL_INTERVAL;
	ListCell   *lc;

	if (more)
		return 0;
	if (pg_atomic_read_u64(&worker.slot->commits) != worker.commits)
		sleep_ms = Max(1, sj_batch_interval -
					   (now - worker.last_tick_at) / 1000);
	foreach(lc, worker.tasks)
	{
		SjTask	   *task = lfirst(lc);

		if (task->retry_at != 0 && task->retry_at != DT_NOEND)
			sleep_ms = Min(sleep_ms,
						   TimestampDifferenceMilliseconds(now,
														   task->retry_at) + 1);
		else if (task->recheck && task->retry_at == 0)
			sleep_ms = 0;
	}
	return sleep_ms;
}

/* One turn of the loop; true when there is more to do at once. */
static bool
take_turn(void)
{
	bool		more = false;

	reload_configuration();
	AcceptInvalidationMessages();
	if (worker.read_definitions ||
		pg_atomic_read_u64(&worker.slot->definitions) != worker.definitions)
		read_definitions();
	leave_if_idle();
	if (tick_is_due() || worker.latest == NULL)
		take_tick();
	more = run_tasks();
	worker.slot->failures = 0;
	do_upkeep();
	pgstat_report_stat(false);
	return more;
}

void
sjoin_worker_main(Datum arg)
{
	MemoryContext turn;

	start_up(DatumGetInt32(arg));
	turn = AllocSetContextCreate(TopMemoryContext, "sjoin turn",
								 ALLOCSET_DEFAULT_SIZES);
	for (;;)
	{
		bool		more;

		CHECK_FOR_INTERRUPTS();
		ResetLatch(MyLatch);
		MemoryContextReset(turn);
		MemoryContextSwitchTo(turn);
		more = take_turn();
		if (more)
			continue;
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 time_to_sleep(more), PG_WAIT_EXTENSION);
	}
}
