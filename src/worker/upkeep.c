/*-------------------------------------------------------------------------
 *
 * upkeep.c
 *	  Keeping the event log short.
 *
 * Each step is a transaction of its own that never waits for a lock: what does
 * not succeed now is tried again a second later.
 *
 * IDENTIFICATION
 *	  src/worker/upkeep.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "guc.h"
#include "log/event_log.h"
#include "log/position.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "worker/worker.h"

/* Upkeep of the log is due this often, in usec. */
#define UPKEEP_INTERVAL	(1 * USECS_PER_SEC)

/* From which transaction and tick on the log is needed. */
static void
needed_log(FullTransactionId *xid, int64 *tick, List **join_ids)
{
	ListCell   *lc;

	*xid = sj_worker.needed_xmin;
	*tick = sj_worker.latest->number;
	*join_ids = NIL;
	foreach(lc, sj_worker.tasks)
	{
		SjTask	   *task = lfirst(lc);

		*join_ids = lappend_int(*join_ids, task->def->join_id);
		if (task->definition_lost)
			continue;
		if (FullTransactionIdPrecedes(task->base_xmin, *xid))
			*xid = task->base_xmin;
		*tick = Min(*tick, task->first_tick);
	}
	foreach(lc, sj_worker.waiting)
	{
		SjWaiting  *waiting = lfirst(lc);

		*join_ids = lappend_int(*join_ids, waiting->join_id);
		if (FullTransactionIdPrecedes(waiting->base_xmin, *xid))
			*xid = waiting->base_xmin;
		*tick = Min(*tick, waiting->first_tick);
	}
}

/* Shortens the log, in transactions that never wait for a lock. */
static void
shorten_log(void)
{
	FullTransactionId xid;
	int64		tick;
	List	   *join_ids;
	bool		emptied;

	needed_log(&xid, &tick, &join_ids);
	sj_begin();
	sj_log_maintain(xid, (int64) sj_log_segment_size * 1024 * 1024, &emptied);
	if (emptied && FullTransactionIdFollows(xid, sj_worker.log_mark))
	{
		sj_log_mark_store(xid);
		sj_worker.log_mark = xid;
	}
	sj_commit();

	sj_begin();
	sj_tick_trim(tick);
	sj_commit();

	sj_begin();
	sj_position_trim(join_ids);
	sj_commit();
}

void
sj_worker_do_upkeep(void)
{
	TimestampTz now = GetCurrentTimestamp();

	if (sj_worker.latest == NULL ||
		(now >= sj_worker.last_upkeep_at &&
		 now - sj_worker.last_upkeep_at < UPKEEP_INTERVAL))
		return;
	sj_worker.last_upkeep_at = now;
	PG_TRY();
	{
		shorten_log();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		EmitErrorReport();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		MemoryContextSwitchTo(sj_worker.turn);
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	pgstat_report_stat(false);
}
