/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  The processing-time clock of a server under test, and what the worker
 *	  finds by it.
 *
 * sjoin adds an offset in shared memory to the real clock; set_clock() sets it
 * for all processes at once.  The clock goes on running from where it was set,
 * unless it is stopped.  note_quiet() writes into the log what the worker would
 * find of idle inputs.
 *
 * IDENTIFICATION
 *	  test/module/clock.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "log/event_log.h"
#include "shmem.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(sjoin_test_set_clock);
PG_FUNCTION_INFO_V1(sjoin_test_note_quiet);

typedef void (*CaptureControl) (Oid relid, char op, const void *body,
								Size size);

static SjTestClock *
test_clock(void)
{
	void	  **variable = find_rendezvous_variable("sjoin clock");

	if (*variable == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("sjoin is not loaded into the server")));
	return *variable;
}

/*
 * set_clock(now timestamptz, stopped boolean) RETURNS void: it is now that
 * time, and stays so; NULL: the real one
 */
Datum
sjoin_test_set_clock(PG_FUNCTION_ARGS)
{
	SjTestClock *clock = test_clock();
	TimestampTz now = PG_ARGISNULL(0) ? GetCurrentTimestamp() :
	PG_GETARG_TIMESTAMPTZ(0);
	bool		stopped = !PG_ARGISNULL(1) && PG_GETARG_BOOL(1);
	int64		offset = PG_ARGISNULL(0) ? 0 : now - GetCurrentTimestamp();

	pg_atomic_write_u64(&clock->offset, (uint64) offset);
	pg_atomic_write_u64(&clock->stopped_at, stopped ? (uint64) now : 0);
	PG_RETURN_VOID();
}

/*
 * note_quiet(join_id int, stream regclass, quiet_left bigint,
 *			  quiet_right bigint, idle_left int, idle_right int,
 *			  move_left bigint, move_right bigint) RETURNS void
 *
 * stream is the join's left one; times are in usec, idle is an SjIdleness.
 */
Datum
sjoin_test_note_quiet(PG_FUNCTION_ARGS)
{
	SjQuietRecord record = {.join_id = PG_GETARG_INT32(0)};
	CaptureControl capture = (CaptureControl)
		load_external_function("$libdir/sjoin", "sj_capture_control", true,
							   NULL);

	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		record.woken[side] = -1;
		record.quiet[side] = PG_GETARG_INT64(2 + side);
		record.idle[side] = PG_GETARG_INT32(4 + side);
		record.move[side] = PG_GETARG_INT64(6 + side);
	}
	capture(PG_GETARG_OID(1), SJ_OP_QUIET, &record, sizeof(record));
	PG_RETURN_VOID();
}
