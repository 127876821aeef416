/*-------------------------------------------------------------------------
 *
 * ticks.c
 *	  Taking ticks: the snapshots up to which all joins of a database run (A4).
 *
 * The worker is the only process that takes them, so their numbers follow each
 * other without gaps.
 *
 * IDENTIFICATION
 *	  src/worker/ticks.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "guc.h"
#include "log/event_log.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "worker/worker.h"

void
sj_worker_set_latest(const SjTick *tick)
{
	MemoryContext old = MemoryContextSwitchTo(sj_worker.context);
	SjTick	   *copy = sj_tick_copy(tick);

	if (sj_worker.latest != NULL)
	{
		if (sj_worker.latest->xip != NULL)
			pfree(sj_worker.latest->xip);
		pfree(sj_worker.latest);
	}
	sj_worker.latest = copy;
	MemoryContextSwitchTo(old);
}

/* The tick with this number; memory in the current context or the worker's. */
const SjTick *
sj_worker_tick(int64 number)
{
	const SjTick *tick;

	if (sj_worker.latest != NULL && sj_worker.latest->number == number)
		return sj_worker.latest;
	tick = sj_tick_load(number);
	if (tick == NULL)
		elog(ERROR, "tick " INT64_FORMAT " is not in the log", number);
	return tick;
}

int64
sj_worker_next_tick(void)
{
	return sj_worker.latest == NULL ? 1 : sj_worker.latest->number + 1;
}

/*
 * Takes a tick if a committed transaction is in none yet.  Whatever committed
 * before the counters were read is then in the newest tick.
 */
void
sj_worker_take_tick(void)
{
	uint64		commits = pg_atomic_read_u64(&sj_worker.slot->commits);
	uint64		requests = pg_atomic_read_u64(&sj_worker.slot->requests);
	SjTick	   *tick = NULL;

	pg_memory_barrier();
	sj_begin();
	if (sj_worker.latest == NULL || sj_log_has_news(sj_worker.latest))
	{
		tick = sj_tick_take(sj_worker_next_tick(), GetActiveSnapshot());
		sj_tick_store(tick);
		/* rows of the transaction that pauses a join wait already */
		sj_worker_note_paused(GetActiveSnapshot());
		set_config_option("synchronous_commit", "off", PGC_USERSET,
						  PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
		MemoryContextSwitchTo(sj_worker.turn);
		tick = sj_tick_copy(tick);
	}
	sj_commit();

	if (tick != NULL)
		sj_worker_set_latest(tick);
	sj_worker.commits = commits;
	sj_worker.requests = requests;
	sj_worker.last_tick_at = GetCurrentTimestamp();
}

bool
sj_worker_has_all_commits(void)
{
	return pg_atomic_read_u64(&sj_worker.slot->commits) == sj_worker.commits;
}

/* Is there a reason to take a tick? */
bool
sj_worker_tick_is_due(void)
{
	int64		since = GetCurrentTimestamp() - sj_worker.last_tick_at;

	if (pg_atomic_read_u64(&sj_worker.slot->requests) != sj_worker.requests)
		return true;
	if (!sj_worker_has_all_commits())
		return since >= (int64) sj_batch_interval * 1000 || since < 0;
	return since >= (int64) SJ_POLL_INTERVAL * 1000 || since < 0;
}
