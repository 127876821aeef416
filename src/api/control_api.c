/*-------------------------------------------------------------------------
 *
 * control_api.c
 *	  wait_for, pause, resume, watermark, version: what a session asks of
 *	  running joins.
 *
 * wait_for is exact: it adds one to the database's request counter and waits
 * until the worker has answered that number.  The worker reads the counter
 * before it takes a tick's snapshot and answers after the tick's last batch has
 * committed, so all that was committed before the call is in the result (A14).
 *
 * IDENTIFICATION
 *	  src/api/control_api.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "api/api.h"
#include "catalog/privileges.h"
#include "guc.h"
#include "local_time.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "shmem.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(sjoin_wait_for);
PG_FUNCTION_INFO_V1(sjoin_pause_join);
PG_FUNCTION_INFO_V1(sjoin_resume_join);
PG_FUNCTION_INFO_V1(sjoin_watermark);
PG_FUNCTION_INFO_V1(sjoin_version);

typedef enum WaitResult
{
	WAIT_REACHED,
	WAIT_ON,
	WAIT_HOPELESS				/* nothing will come */
} WaitResult;

static bool
no_worker_will_come(SjDatabaseSlot *slot)
{
	bool		none;

	LWLockAcquire(sj_shared->lock, LW_SHARED);
	none = slot->worker_pid == 0 &&
		(sj_shared->launcher_pid == 0 || slot->suspended > 0);
	LWLockRelease(sj_shared->lock);
	return none;
}

/*
 * Why a join will not go on; NULL: it will.  What its slot says is of the
 * definitions that the worker has read.
 */
static const char *
reason_to_give_up(SjDatabaseSlot *slot, SjJoinSlot *join)
{
	SjJoinState state;
	bool		given_up;

	if (no_worker_will_come(slot))
		return "no worker is running";
	if (join == NULL || pg_atomic_read_u64(&slot->definitions_read) !=
		pg_atomic_read_u64(&slot->definitions))
		return NULL;
	SpinLockAcquire(&join->mutex);
	state = join->state;
	given_up = join->given_up;
	SpinLockRelease(&join->mutex);
	if (state == SJ_JOIN_PAUSED)
		return "it is paused";
	if (given_up)
		return state == SJ_JOIN_STOPPED ? "it is stopped" : "it has failed";
	return NULL;
}

/* Has the join's watermark come to the time that the session has named? */
static bool
watermark_reached(const SjJoinSlot *join, TimestampTz watermark)
{
	return (SjTime) pg_atomic_read_u64((pg_atomic_uint64 *) &join->watermark) >=
		sj_time_of_zoned(watermark, join->local_time);
}

static WaitResult
look_at_join(SjDatabaseSlot *slot, SjJoinDef *def, uint64 request,
			 TimestampTz watermark)
{
	SjJoinSlot *join = sj_join_slot(def->join_id, false);
	const char *reason;

	if (!def->paused && join != NULL &&
		pg_atomic_read_u64(&join->served) >= request &&
		watermark_reached(join, watermark))
		return WAIT_REACHED;
	if (def->uncommitted && !def->paused)
	{
		ereport(NOTICE,
				(errmsg("join \"%s\" starts when this transaction commits",
						get_rel_name(def->result))));
		return WAIT_HOPELESS;
	}
	reason = def->paused ? "it is paused" : reason_to_give_up(slot, join);
	if (reason == NULL)
		return WAIT_ON;
	ereport(NOTICE,
			(errmsg("join \"%s\" will not go on: %s",
					get_rel_name(def->result), reason),
			 def->paused ? errhint("sjoin.resume_join() lets it go on.") :
			 errhint("View sjoin.joins shows the state and the last error.")));
	return WAIT_HOPELESS;
}

/* All joins of the list; reached when each is. */
static WaitResult
look_at_joins(SjDatabaseSlot *slot, List *joins, uint64 request,
			  TimestampTz watermark)
{
	ListCell   *lc;
	WaitResult	result = WAIT_REACHED;

	foreach(lc, joins)
	{
		WaitResult	one = look_at_join(slot, lfirst(lc), request, watermark);

		if (one == WAIT_HOPELESS)
			return one;
		if (one == WAIT_ON)
			result = WAIT_ON;
	}
	return result;
}

/*
 * Waits until everything committed before the call is in the results of the
 * joins (list of SjJoinDef) and their watermarks have come to 'watermark'
 * (SJ_TIME_MIN: wherever they are).
 * False when that takes longer than timeout_ms (0: without limit), or when
 * nothing will come.
 */
bool
sj_wait_for_joins(List *joins, TimestampTz watermark, int64 timeout_ms)
{
	SjDatabaseSlot *slot = sj_database_slot(MyDatabaseId, true);
	uint64		request = pg_atomic_add_fetch_u64(&slot->requests, 1);
	TimestampTz give_up = timeout_ms > 0 ?
	GetCurrentTimestamp() + timeout_ms * 1000 : DT_NOEND;
	WaitResult	result;

	sj_wake_worker(slot);
	ConditionVariablePrepareToSleep(&slot->progress);
	while ((result = look_at_joins(slot, joins, request, watermark)) == WAIT_ON)
	{
		TimestampTz now = GetCurrentTimestamp();

		if (now >= give_up)
			break;
		(void) ConditionVariableTimedSleep(&slot->progress,
										   Min(1000, TimestampDifferenceMilliseconds(now, give_up) + 1),
										   PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
	if (result == WAIT_ON)
		ereport(NOTICE,
				(errmsg("the joins have not come so far within the time"),
				 errhint("View sjoin.joins shows their states, watermarks and last errors.")));
	return result == WAIT_REACHED;
}

static int64
timeout_argument(FunctionCallInfo fcinfo, int n)
{
	int64		usec = sj_arg_interval(fcinfo, n, "timeout");

	return usec < 0 ? sj_wait_timeout : Max(1, usec / 1000);
}

/*
 * wait_for(name regclass, watermark timestamptz, timeout interval)
 *		RETURNS boolean
 */
Datum
sjoin_wait_for(PG_FUNCTION_ARGS)
{
	List	   *joins = PG_ARGISNULL(0) ? sj_join_def_all() :
	list_make1(sj_arg_join(fcinfo, 0));
	TimestampTz watermark = PG_ARGISNULL(1) ? SJ_TIME_MIN :
	PG_GETARG_TIMESTAMPTZ(1);

	sj_require_preload();
	PG_RETURN_BOOL(sj_wait_for_joins(joins, watermark,
									 timeout_argument(fcinfo, 2)));
}

/*
 * Sets the flag; true when it was the other one.  Resuming writes the row in
 * any case, by which the worker knows that somebody wants another try.
 */
static bool
set_paused(FunctionCallInfo fcinfo, bool paused)
{
	SjJoinDef  *def = sj_arg_join(fcinfo, 0);
	bool		changed;

	sj_require_preload();
	PreventCommandIfReadOnly(paused ? "sjoin.pause_join()" : "sjoin.resume_join()");
	sj_check_owner(def->result);
	sj_join_def_lock();
	def = sj_arg_join(fcinfo, 0);	/* as it is now */
	changed = def->paused != paused;
	if (!changed && paused)
		return false;
	def->paused = paused;
	sj_join_def_update(def->join_id, def);
	sj_definitions_changed();
	return changed;
}

/* pause_join(name regclass) RETURNS boolean */
Datum
sjoin_pause_join(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(set_paused(fcinfo, true));
}

/* resume_join(name regclass) RETURNS boolean */
Datum
sjoin_resume_join(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(set_paused(fcinfo, false));
}

/* Greatest over the joins that read a stream, of one of their figures. */
static SjTime
newest_of_stream(Oid relid, bool event_time)
{
	ListCell   *lc;
	SjTime		newest = SJ_TIME_MIN;

	foreach(lc, sj_join_def_all())
	{
		SjJoinDef  *def = lfirst(lc);
		SjJoinSlot *join = sj_join_slot(def->join_id, false);

		for (SjSide side = SJ_LEFT; join && side <= SJ_RIGHT; side++)
		{
			SjInputStats *input = &join->input[side];

			if (def->input[side] == relid)
				newest = Max(newest,
							 (SjTime) pg_atomic_read_u64(event_time ?
														 &input->max_event_time :
														 &input->watermark));
		}
	}
	return newest;
}

SjTime
sj_stream_newest_event_time(Oid relid)
{
	return newest_of_stream(relid, true);
}

SjTime
sj_stream_watermark(Oid relid)
{
	return newest_of_stream(relid, false);
}

/*
 * watermark(rel regclass) RETURNS timestamptz: of a stream, or of the join
 * whose result it is; NULL when nothing has been seen yet.
 */
Datum
sjoin_watermark(PG_FUNCTION_ARGS)
{
	Oid			relid = sj_arg_relation(fcinfo, 0, "rel");
	SjJoinDef  *def = sj_join_def_by_result(relid);
	SjJoinSlot *join;
	SjTime		event_time = SJ_TIME_MIN;
	bool		local = false;
	TimestampTz watermark;

	sj_require_preload();
	if (def != NULL)
	{
		join = sj_join_slot(def->join_id, false);
		if (join != NULL)
		{
			event_time = (SjTime) pg_atomic_read_u64(&join->watermark);
			local = join->local_time;
		}
	}
	else if (sj_stream_def_get(relid) != NULL)
	{
		event_time = sj_stream_watermark(relid);
		local = sj_stream_has_local_time(sj_stream_def_get(relid));
	}
	else
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is neither a stream nor the result of a join",
						get_rel_name(relid))));
	watermark = sj_time_to_zoned(event_time, local);
	if (!IS_VALID_TIMESTAMP(watermark))
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(watermark);
}

Datum
sjoin_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(SJ_VERSION));
}
