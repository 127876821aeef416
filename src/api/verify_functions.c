/*-------------------------------------------------------------------------
 *
 * verify_functions.c
 *	  SQL functions that the queries of verify() are made of.
 *
 * IDENTIFICATION
 *	  src/api/verify_functions.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/subtrans.h"
#include "access/transam.h"
#include "bounds.h"
#include "emit/side_output.h"
#include "fmgr.h"
#include "log/tick.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"
#include "utils/uuid.h"

PG_FUNCTION_INFO_V1(sjoin_image_hash);
PG_FUNCTION_INFO_V1(sjoin_written_after);
PG_FUNCTION_INFO_V1(sjoin_time_add);
PG_FUNCTION_INFO_V1(sjoin_timestamp_add);
PG_FUNCTION_INFO_V1(sjoin_timestamptz_add);

/* The transaction of an xmin, subtransactions that are still known included. */
static FullTransactionId
writer_of(TransactionId xid)
{
	FullTransactionId next = ReadNextFullTransactionId();
	uint32		epoch = EpochFromFullTransactionId(next);

	if (TransactionIdFollowsOrEquals(xid, TransactionXmin))
		xid = SubTransGetTopmostTransaction(xid);
	if (xid > XidFromFullTransactionId(next))
		epoch--;
	return FullTransactionIdFromEpochAndXid(epoch, xid);
}

/*
 * written_after(xmin xid, start bytea) RETURNS boolean: was the row version
 * written by a transaction that the snapshot does not see?
 */
Datum
sjoin_written_after(PG_FUNCTION_ARGS)
{
	TransactionId xid = PG_GETARG_TRANSACTIONID(0);
	SjTick	   *start = sj_tick_deserialize(PG_GETARG_BYTEA_PP(1), 0);
	FullTransactionId next = ReadNextFullTransactionId();

	if (!TransactionIdIsNormal(xid) ||
		!TransactionIdPrecedes(xid, XidFromFullTransactionId(next)))
		PG_RETURN_BOOL(false);
	PG_RETURN_BOOL(!sj_tick_sees(start, writer_of(xid)));
}

/* image_hash(image record) RETURNS uuid */
Datum
sjoin_image_hash(PG_FUNCTION_ARGS)
{
	HeapTupleHeader record = PG_GETARG_HEAPTUPLEHEADER(0);
	TupleDesc	desc = lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(record),
											  HeapTupleHeaderGetTypMod(record));
	HeapTupleData tuple = {.t_data = record,
		.t_len = HeapTupleHeaderGetDatumLength(record)};
	Datum	   *values = palloc(sizeof(Datum) * desc->natts);
	bool	   *nulls = palloc(sizeof(bool) * desc->natts);
	pg_uuid_t  *hash = palloc(sizeof(pg_uuid_t));

	heap_deform_tuple(&tuple, desc, values, nulls);
	sj_image_hash(desc, desc->natts, values, nulls, hash);
	ReleaseTupleDesc(desc);
	PG_RETURN_UUID_P(hash);
}

/* What SQL knows as a time: infinite out of range. */
static Datum
saturated(SjTime event_time)
{
	if (event_time < MIN_TIMESTAMP)
		event_time = DT_NOBEGIN;
	else if (event_time >= END_TIMESTAMP)
		event_time = DT_NOEND;
	return TimestampTzGetDatum(event_time);
}

/* time_add(event_time, usec) RETURNS the type of event_time */
Datum
sjoin_time_add(PG_FUNCTION_ARGS)
{
	return saturated(sj_time_add(PG_GETARG_TIMESTAMPTZ(0),
								 PG_GETARG_INT64(1)));
}

/* An interval of hours and less is as long as it says, wherever it is added. */
static Datum
add_interval(FunctionCallInfo fcinfo, bool with_zone)
{
	SjTime		event_time = PG_GETARG_TIMESTAMPTZ(0);
	Interval   *distance = PG_GETARG_INTERVAL_P(1);

	if (distance->month == 0 && distance->day == 0)
		return saturated(sj_time_add(event_time, distance->time));
	return saturated(sj_time_add_interval(with_zone, event_time, distance,
										  false, 1));
}

/* time_add(event_time timestamp, distance interval) RETURNS timestamp */
Datum
sjoin_timestamp_add(PG_FUNCTION_ARGS)
{
	return add_interval(fcinfo, false);
}

/* time_add(event_time timestamptz, distance interval) RETURNS timestamptz */
Datum
sjoin_timestamptz_add(PG_FUNCTION_ARGS)
{
	return add_interval(fcinfo, true);
}
