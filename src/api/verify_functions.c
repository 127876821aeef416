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

/* time_add(event_time, usec) RETURNS the type of event_time */
Datum
sjoin_time_add(PG_FUNCTION_ARGS)
{
	SjTime		sum = sj_time_add(PG_GETARG_TIMESTAMPTZ(0), PG_GETARG_INT64(1));

	if (sum < MIN_TIMESTAMP)
		sum = DT_NOBEGIN;
	else if (sum >= END_TIMESTAMP)
		sum = DT_NOEND;
	PG_RETURN_TIMESTAMPTZ(sum);
}
