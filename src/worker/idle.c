/*-------------------------------------------------------------------------
 *
 * idle.c
 *	  Inputs without rows for a while (T7).
 *
 * The worker counts how long each input of a join has had no row.  Only running
 * time counts: while the join has read all there is.  What comes of it, that an
 * input is idle and how far its watermark moves on with the clock, is written
 * into the log as a record of that join and takes hold when it is consumed, so
 * that it is the same after any restart; how long it has been quiet is written
 * now and then for the same reason.
 *
 * Nothing is written for an input that a transaction has written to which is
 * still open: its rows are yet to come.
 *
 * IDENTIFICATION
 *	  src/worker/idle.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "capture/capture.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/stream_def.h"
#include "log/event_log.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/lsyscache.h"
#include "worker/worker.h"

/* A watermark moves at most this often, in usec. */
#define MOVE_INTERVAL	USECS_PER_SEC
/* And at least, so that a restart loses little. */
#define LAZY_INTERVAL	(60 * USECS_PER_SEC)

/* What is to be said of a join. */
typedef struct Finding
{
	SjTask	   *task;
	SjQuietRecord record;
} Finding;

/* Has the join read all there is? */
static bool
is_up_to_date(const SjTask *task)
{
	return !task->def->paused && task->engine != NULL &&
		task->retry_at == 0 && !task->batch.fed &&
		task->position.tick >= sj_worker.latest->number &&
		sj_worker_has_all_commits();
}

/*
 * How often a watermark moves on, in usec: as often as rows wait for it, which
 * is when the earliest deadline comes.
 */
static int64
move_interval(const SjTask *task)
{
	const SjClock *clock = sj_engine_clock(task->engine);
	SjEngineStats stats;
	int64		wait;

	sj_engine_stats(task->engine, &stats);
	if (stats.timers == 0)
		return LAZY_INTERVAL;
	wait = sj_time_sub(stats.oldest_timer,
					   task->op.final ? clock->horizon : clock->watermark);
	return Min(Max(wait, MOVE_INTERVAL), LAZY_INTERVAL);
}

/* Running time since the last call; 0 when a test has set its clock back. */
static int64
time_passed(void)
{
	int64		now = sj_running_time();
	int64		before = sj_worker.last_idle_at;

	sj_worker.last_idle_at = now;
	return now == -1 || before == -1 ? 0 : Max(now - before, 0);
}

/*
 * Time that began with something to read does not count, nor does time before
 * a row that has come in it.
 */
static void
count_time(SjTask *task, int64 passed)
{
	const SjClock *clock;

	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		if (task->woke[side])
			task->quiet[side] = 0;
	if (!task->was_up_to_date || task->engine == NULL)
	{
		task->woke[SJ_LEFT] = task->woke[SJ_RIGHT] = false;
		return;
	}
	clock = sj_engine_clock(task->engine);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		bool		moves = clock->idle[side] == SJ_IDLE_ADVANCES &&
		clock->input[side] != SJ_TIME_MIN;

		if (!task->woke[side])
			task->quiet[side] += passed;
		task->woke[side] = false;
		task->unmoved[side] = moves ? task->unmoved[side] + passed : 0;
	}
}

/* What the input is taken for, from how long it has been quiet. */
static SjIdleness
judge(const SjTask *task, SjSide side)
{
	int64		timeout = task->idle_timeout[side];

	if (timeout == 0 || task->quiet[side] < timeout)
		return SJ_NOT_IDLE;
	switch (task->on_idle[side])
	{
		case SJ_ON_IDLE_ADVANCE:
			return SJ_IDLE_ADVANCES;
		case SJ_ON_IDLE_IGNORE:
			return SJ_IDLE_IGNORED;
		case SJ_ON_IDLE_HOLD:
			break;
	}
	return SJ_NOT_IDLE;
}

/* Does the join's watermark wait for this input? */
static bool
is_waited_for(const SjTask *task, SjSide side)
{
	const SjClock *clock = sj_engine_clock(task->engine);
	SjSide		other = SJ_OTHER(side);

	return clock->idle[other] == SJ_IDLE_IGNORED ||
		clock->input[side] <= clock->input[other];
}

static bool
has_rows(const SjTask *task)
{
	SjEngineStats stats;

	sj_engine_stats(task->engine, &stats);
	return stats.rows[SJ_LEFT] + stats.rows[SJ_RIGHT] > 0;
}

/*
 * Fills in what is to be said of the input; true when it must be said now.
 */
static bool
look_at_input(const SjTask *task, SjSide side, SjQuietRecord *record)
{
	const SjClock *clock = sj_engine_clock(task->engine);
	SjIdleness	idle = judge(task, side);
	bool		waited_for;

	record->woken[side] = clock->woken[side];
	record->quiet[side] = task->quiet[side];
	record->idle[side] = idle;
	record->move[side] = task->unmoved[side];
	if (idle != (SjIdleness) clock->idle[side])
		return true;
	waited_for = is_waited_for(task, side);
	if (idle == SJ_IDLE_ADVANCES)
		return task->unmoved[side] >=
			(waited_for ? move_interval(task) : LAZY_INTERVAL);
	/* so that a restart does not begin to count anew */
	return idle == SJ_NOT_IDLE && task->idle_timeout[side] > 0 && waited_for &&
		has_rows(task) && task->quiet[side] < task->idle_timeout[side] &&
		task->on_idle[side] != SJ_ON_IDLE_HOLD &&
		task->quiet[side] - clock->quiet[side] >=
		Max(task->idle_timeout[side] / 4, MOVE_INTERVAL);
}

static Finding *
look_at_join(SjTask *task)
{
	Finding    *finding = palloc0(sizeof(Finding));
	bool		any = false;

	finding->task = task;
	finding->record.join_id = task->def->join_id;
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		any |= look_at_input(task, side, &finding->record);
	return any ? finding : NULL;
}

/*
 * Locks of who writes rows, and of who makes rows come and go as a whole:
 * TRUNCATE, DROP, DETACH and ATTACH, the last of which locks only the parent of
 * what is not a partition yet.
 */
static LOCKMASK
writers_locks(Oid relid)
{
	LOCKMASK	mask = LOCKBIT_ON(RowExclusiveLock) |
	LOCKBIT_ON(ExclusiveLock) | LOCKBIT_ON(AccessExclusiveLock);

	/* autovacuum has this on ordinary tables */
	if (get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE)
		mask |= LOCKBIT_ON(ShareUpdateExclusiveLock);
	return mask;
}

/* Has a transaction that is still open written to the table or a partition? */
static bool
has_open_writers(Oid stream, const LockData *locks)
{
	List	   *members = find_all_inheritors(stream, NoLock, NULL);

	for (int i = 0; i < locks->nelements; i++)
	{
		const LockInstanceData *lock = &locks->locks[i];
		Oid			relid = lock->locktag.locktag_field2;

		if (lock->locktag.locktag_type == LOCKTAG_RELATION &&
			lock->locktag.locktag_field1 == MyDatabaseId &&
			lock->pid != MyProcPid && list_member_oid(members, relid) &&
			(lock->holdMask & writers_locks(relid)) != 0)
			return true;
	}
	return false;
}

static void
write_findings(List *findings)
{
	LockData   *locks = GetLockStatusData();
	ListCell   *lc;

	foreach(lc, findings)
	{
		Finding    *finding = lfirst(lc);
		const SjJoinDef *def = finding->task->def;

		if (has_open_writers(def->input[SJ_LEFT], locks) ||
			has_open_writers(def->input[SJ_RIGHT], locks))
			continue;
		sj_capture_control(def->input[SJ_LEFT], SJ_OP_QUIET, &finding->record,
						   sizeof(finding->record));
		finding->task->unmoved[SJ_LEFT] = finding->task->unmoved[SJ_RIGHT] = 0;
	}
}

/*
 * Counts the time that has passed without rows and writes what comes of it, at
 * the end of a turn.
 */
void
sj_worker_look_for_idle_inputs(void)
{
	int64		passed = time_passed();
	List	   *findings = NIL;
	ListCell   *lc;

	foreach(lc, sj_worker.tasks)
	{
		SjTask	   *task = lfirst(lc);
		Finding    *finding = NULL;

		count_time(task, passed);
		task->was_up_to_date = is_up_to_date(task);
		if (task->was_up_to_date)
			finding = look_at_join(task);
		if (finding != NULL)
			findings = lappend(findings, finding);
	}
	if (findings == NIL)
		return;
	sj_begin();
	write_findings(findings);
	sj_commit();
}

/* In how many ms an input may become idle, or has to be moved; at most 'ms'. */
long
sj_worker_idle_sleep(long ms)
{
	ListCell   *lc;

	foreach(lc, sj_worker.tasks)
	{
		SjTask	   *task = lfirst(lc);

		if (!is_up_to_date(task))
			continue;
		for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
			if (task->idle_timeout[side] > task->quiet[side])
				ms = Min(ms, (task->idle_timeout[side] - task->quiet[side]) /
						 1000 + 1);
	}
	return ms;
}

/* The task goes on where the log has left it. */
void
sj_task_adopt_quiet(SjTask *task)
{
	const SjClock *clock = sj_engine_clock(task->engine);

	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		task->quiet[side] = clock->quiet[side];
		task->unmoved[side] = 0;
		task->woke[side] = false;
	}
}

/* What the definitions say of idle inputs. */
void
sj_task_set_idleness(SjTask *task)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		SjStreamDef *stream = sj_stream_def_get(task->query->input[side].relid);

		if (stream == NULL)
			sj_task_stop(task, "has lost a stream");
		task->idle_timeout[side] = sj_stream_idle_timeout(stream);
		task->on_idle[side] = stream->on_idle;
	}
}
