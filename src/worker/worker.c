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
 * IDENTIFICATION
 *	  src/worker/worker.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "guc.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "worker/worker.h"

SjWorker	sj_worker;

PGDLLEXPORT void sjoin_worker_main(Datum arg);

void
sj_begin(void)
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

void
sj_commit(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
	LockReleaseSession(USER_LOCKMETHOD);	/* advisory locks of user code */
	MemoryContextSwitchTo(sj_worker.turn);
}

/*
 * Something that the task depends on has changed: it compiles anew, and if it
 * has failed, that may help.  The back-off begins again, so that the task is
 * tried soon and still no hostile stream of changes can keep it busy.
 */
static void
look_again(SjTask *task)
{
	TimestampTz soon = GetCurrentTimestamp() + (int64) sj_restart_delay * 1000;

	task->recheck = true;
	if (task->retry_at != DT_NOEND && task->retry_at > soon)
	{
		task->retry_at = soon;
		task->failures = 0;
	}
}

static void
relation_changed(Datum arg, Oid relid)
{
	ListCell   *lc;

	foreach(lc, sj_worker.tasks)
	{
		SjTask	   *task = lfirst(lc);

		if (!OidIsValid(relid) || relid == task->def->result ||
			relid == task->def->definition ||
			relid == task->def->input[SJ_LEFT] ||
			relid == task->def->input[SJ_RIGHT])
			look_again(task);
	}
}

/* A function, a role, ... may be one that an expression or a right rests on. */
static void
something_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	ListCell   *lc;

	foreach(lc, sj_worker.tasks)
		look_again(lfirst(lc));
}

static void
detach_worker(int code, Datum arg)
{
	LWLockAcquire(sj_shared->lock, LW_EXCLUSIVE);
	if (sj_worker.slot->worker_pid == MyProcPid)
	{
		sj_worker.slot->worker_pid = 0;
		sj_worker.slot->worker_latch = NULL;
	}
	LWLockRelease(sj_shared->lock);
	ConditionVariableBroadcast(&sj_worker.slot->progress);
	sj_wake_launcher();
}

/* Takes the slot, or ends the process; returns the slot's database. */
static Oid
attach_worker(void)
{
	pid_t		other;
	Oid			database;

	LWLockAcquire(sj_shared->lock, LW_EXCLUSIVE);
	other = sj_worker.slot->worker_pid;
	database = sj_worker.slot->database;
	if (other == 0 && sj_worker.slot->suspended == 0 && OidIsValid(database))
	{
		sj_worker.slot->worker_pid = MyProcPid;
		sj_worker.slot->worker_latch = MyLatch;
	}
	LWLockRelease(sj_shared->lock);
	if (sj_worker.slot->worker_pid != MyProcPid)
		proc_exit(0);
	before_shmem_exit(detach_worker, (Datum) 0);
	return database;
}

/* Leaves when there is no join, unless one is being created just now. */
static void
leave_if_idle(void)
{
	bool		leave = false;

	if (sj_worker.tasks != NIL || sj_worker.waiting != NIL)
		return;
	LWLockAcquire(sj_shared->lock, LW_EXCLUSIVE);
	if (sj_worker.slot->suspended == 0 &&
		pg_atomic_read_u64(&sj_worker.slot->definitions) == sj_worker.definitions)
	{
		sj_worker.slot->wanted = false;
		sj_worker.slot->worker_pid = 0;
		sj_worker.slot->worker_latch = NULL;
		sj_worker.slot->database = InvalidOid;
		sj_worker.slot->left = true;
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
	Oid			database;

	sj_worker.slot = &sj_shared->databases[slot_number];
	sj_worker.context = AllocSetContextCreate(TopMemoryContext, "sjoin worker",
										   ALLOCSET_DEFAULT_SIZES);
	sj_worker.read_definitions = true;
	sj_worker.last_idle_at = -1;
	database = attach_worker();
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	override_settings();
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, something_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHOID, something_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, something_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, something_changed, (Datum) 0);
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
	foreach(lc, sj_worker.tasks)
		((SjTask *) lfirst(lc))->recheck = true;
}

/* How long there is surely nothing to do, in ms. */
static long
time_to_sleep(bool more)
{
	TimestampTz now = GetCurrentTimestamp();
	long		sleep_ms = SJ_POLL_INTERVAL;
	ListCell   *lc;

	if (more)
		return 0;
	if (!sj_worker_has_all_commits())
		sleep_ms = Min(sleep_ms,
					   Max(1, sj_batch_interval -
						   (now - sj_worker.last_tick_at) / 1000));
	foreach(lc, sj_worker.tasks)
	{
		SjTask	   *task = lfirst(lc);

		if (task->def->paused)
			continue;
		if (task->retry_at != 0 && task->retry_at != DT_NOEND)
			sleep_ms = Min(sleep_ms,
						   TimestampDifferenceMilliseconds(now,
														   task->retry_at) + 1);
		else if (task->recheck && task->retry_at == 0)
			sleep_ms = 0;
	}
	return sj_worker_idle_sleep(sleep_ms);
}

/* A join waits for a slot, and some have been given back? */
static bool
slot_may_be_free(void)
{
	for (int i = 0; sj_worker.waiting != NIL && i < sj_max_joins; i++)
		if (!OidIsValid(sj_shared->joins[i].database))
			return true;
	return false;
}

/* One turn of the loop; true when there is more to do at once. */
static bool
take_turn(void)
{
	bool		more = false;

	reload_configuration();
	AcceptInvalidationMessages();
	if (sj_worker.latest != NULL)
		sj_worker.needed_xmin = sj_worker.latest->xmin;
	if (sj_worker.read_definitions || slot_may_be_free() ||
		sj_worker_definitions_changed())
		sj_worker_read_definitions();
	leave_if_idle();
	if (sj_worker_tick_is_due() || sj_worker.latest == NULL)
		sj_worker_take_tick();
	more = sj_worker_run_tasks();
	sj_worker_look_for_idle_inputs();
	sj_worker.slot->failures = 0;
	sj_worker_do_upkeep();
	pgstat_report_stat(false);
	return more;
}

/*
 * A turn whose errors do not end the process; those of tasks do not get here.
 * After one the worker waits a little before the next turn.
 */
static bool
take_turn_safely(long *sleep_ms)
{
	volatile bool more = false;

	PG_TRY();
	{
		CHECK_FOR_INTERRUPTS();
		more = take_turn();
		*sleep_ms = time_to_sleep(more);
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(sj_worker.turn);
		EmitErrorReport();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		*sleep_ms = sj_restart_delay;
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	return more;
}

void
sjoin_worker_main(Datum arg)
{
	start_up(DatumGetInt32(arg));
	sj_worker.turn = AllocSetContextCreate(TopMemoryContext, "sjoin turn",
										   ALLOCSET_DEFAULT_SIZES);
	for (;;)
	{
		long		sleep_ms;

		ResetLatch(MyLatch);
		MemoryContextSwitchTo(sj_worker.turn);
		MemoryContextReset(sj_worker.turn);
		if (!take_turn_safely(&sleep_ms))
			(void) WaitLatch(MyLatch,
							 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							 sleep_ms, PG_WAIT_EXTENSION);
	}
}
