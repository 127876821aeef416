/*-------------------------------------------------------------------------
 *
 * launcher.c
 *	  The process that starts workers where joins are.
 *
 * The launcher is connected to no database.  When the server starts it asks
 * for a worker in each database that takes connections; at most
 * sjoin.max_workers run at a time, and one that finds no join leaves at once
 * and makes room for the next.  Later, create_join() asks for a worker.
 * Workers that end for another reason than having nothing to do are started
 * again, after a delay that doubles.
 *
 * On a standby it is not started before promotion.
 *
 * IDENTIFICATION
 *	  src/worker/launcher.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "guc.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "shmem.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/procsignal.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "worker/launcher.h"

#define MAX_RESTART_DELAY	(60 * USECS_PER_SEC)

/* Workers that this launcher started, by slot; NULL: none. */
static BackgroundWorkerHandle *workers[SJ_MAX_DATABASES];

PGDLLEXPORT void sjoin_launcher_main(Datum arg);

void
sj_launcher_register(void)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 1;
	strlcpy(worker.bgw_library_name, "sjoin", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "sjoin_launcher_main", BGW_MAXLEN);
	strlcpy(worker.bgw_name, "sjoin launcher", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "sjoin launcher", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

bool
sj_request_worker(Oid database)
{
	SjDatabaseSlot *slot = sj_database_slot_or_null(database);

	if (slot == NULL)
		return false;
	LWLockAcquire(sj_shared->lock, LW_EXCLUSIVE);
	slot->wanted = true;
	slot->start_after = 0;
	LWLockRelease(sj_shared->lock);
	sj_wake_worker(slot);
	sj_wake_launcher();
	return true;
}

static void
detach_launcher(int code, Datum arg)
{
	LWLockAcquire(sj_shared->lock, LW_EXCLUSIVE);
	sj_shared->launcher_pid = 0;
	sj_shared->launcher_latch = NULL;
	LWLockRelease(sj_shared->lock);
}

static void
attach_launcher(void)
{
	LWLockAcquire(sj_shared->lock, LW_EXCLUSIVE);
	sj_shared->launcher_pid = MyProcPid;
	sj_shared->launcher_latch = MyLatch;
	LWLockRelease(sj_shared->lock);
	before_shmem_exit(detach_launcher, (Datum) 0);
}

/* Databases that take connections; list of Oid in the given context. */
static List *
connectable_databases(MemoryContext context)
{
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;
	List	   *databases = NIL;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		MemoryContext old = MemoryContextSwitchTo(context);

		if (form->datallowconn && !form->datistemplate)
			databases = lappend_oid(databases, form->oid);
		MemoryContextSwitchTo(old);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
	return databases;
}

static bool
database_exists(Oid database)
{
	bool		exists;

	StartTransactionCommand();
	exists = SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(database));
	CommitTransactionCommand();
	return exists;
}

static bool
start_worker(int slot)
{
	BackgroundWorker worker;
	Oid			database = sj_shared->databases[slot].database;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "sjoin", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "sjoin_worker_main", BGW_MAXLEN);
	snprintf(worker.bgw_name, BGW_MAXLEN, "sjoin worker for database %u",
			 database);
	strlcpy(worker.bgw_type, "sjoin worker", BGW_MAXLEN);
	worker.bgw_main_arg = Int32GetDatum(slot);
	worker.bgw_notify_pid = MyProcPid;
	if (RegisterDynamicBackgroundWorker(&worker, &workers[slot]))
		return true;
	workers[slot] = NULL;
	ereport(LOG,
			(errmsg("could not start an sjoin worker"),
			 errhint("Raise max_worker_processes.")));
	return false;
}

static int64
restart_delay(int failures)
{
	int64		delay = (int64) sj_restart_delay * 1000;

	while (failures-- > 1 && delay < MAX_RESTART_DELAY)
		delay *= 2;
	return Min(delay, MAX_RESTART_DELAY);
}

/* Notes that a worker has ended, and when its database gets the next one. */
static void
reap_worker(int i)
{
	SjDatabaseSlot *slot = &sj_shared->databases[i];
	bool		wanted;

	pfree(workers[i]);
	workers[i] = NULL;
	LWLockAcquire(sj_shared->lock, LW_EXCLUSIVE);
	wanted = slot->wanted;
	if (wanted && !slot->left)
		slot->start_after = GetCurrentTimestamp() + restart_delay(++slot->failures);
	slot->left = false;
	LWLockRelease(sj_shared->lock);

	if (wanted && !database_exists(slot->database))
		sj_forget_database(slot->database);
}

static int
running_workers(void)
{
	int			n = 0;

	for (int i = 0; i < SJ_MAX_DATABASES; i++)
		if (workers[i] != NULL)
			n++;
	return n;
}

/* What a slot asks for; sets when to look again. */
static bool
worker_is_due(int i, TimestampTz now, long *wait_ms)
{
	SjDatabaseSlot *slot = &sj_shared->databases[i];
	bool		due = false;

	LWLockAcquire(sj_shared->lock, LW_SHARED);
	if (OidIsValid(slot->database) && slot->wanted && slot->suspended == 0 &&
		slot->worker_pid == 0)
	{
		/* a time too far ahead is from before the clock was set back */
		due = slot->start_after <= now ||
			slot->start_after > now + MAX_RESTART_DELAY;
		if (!due)
			*wait_ms = Min(*wait_ms,
						   TimestampDifferenceMilliseconds(now,
														   slot->start_after) + 1);
	}
	LWLockRelease(sj_shared->lock);
	return due;
}

/* Reaps and starts workers; returns how long there is nothing to do, in ms. */
static long
look_after_workers(void)
{
	long		wait_ms = 60000;

	for (int i = 0; i < SJ_MAX_DATABASES; i++)
	{
		pid_t		pid;

		if (workers[i] != NULL &&
			GetBackgroundWorkerPid(workers[i], &pid) == BGWH_STOPPED)
			reap_worker(i);
	}
	for (int i = 0; i < SJ_MAX_DATABASES; i++)
	{
		if (workers[i] != NULL || running_workers() >= sj_max_workers)
			continue;
		if (worker_is_due(i, GetCurrentTimestamp(), &wait_ms) && !start_worker(i))
			wait_ms = Min(wait_ms, 1000);
	}
	return wait_ms;
}

/*
 * Asks for a worker in each of the databases, to find the joins that there are,
 * as long as there is room; the others get their turn when workers have left.
 */
static List *
request_workers(List *databases)
{
	while (databases != NIL && sj_request_worker(linitial_oid(databases)))
		databases = list_delete_first(databases);
	return databases;
}

void
sjoin_launcher_main(Datum arg)
{
	List	   *unseen;			/* databases not looked into yet */

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	attach_launcher();
	unseen = connectable_databases(TopMemoryContext);
	for (;;)
	{
		long		wait_ms;

		CHECK_FOR_INTERRUPTS();
		ResetLatch(MyLatch);
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		unseen = request_workers(unseen);
		wait_ms = look_after_workers();
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 wait_ms, PG_WAIT_EXTENSION);
	}
}
