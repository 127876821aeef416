/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  The processing-time clock of a server under test.
 *
 * sjoin adds an offset in shared memory to the real clock; these functions set
 * it, for all processes at once.  The clock goes on running from where it was
 * set.
 *
 * IDENTIFICATION
 *	  test/module/clock.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "port/atomics.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(sjoin_test_set_clock);

static pg_atomic_uint64 *
clock_offset(void)
{
	void	  **variable = find_rendezvous_variable("sjoin clock offset");

	if (*variable == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("sjoin is not loaded into the server")));
	return *variable;
}

/* set_clock(timestamptz) RETURNS void: it is now that time; NULL: the real one */
Datum
sjoin_test_set_clock(PG_FUNCTION_ARGS)
{
	int64		offset = PG_ARGISNULL(0) ? 0 :
	PG_GETARG_TIMESTAMPTZ(0) - GetCurrentTimestamp();

	pg_atomic_write_u64(clock_offset(), (uint64) offset);
	PG_RETURN_VOID();
}
