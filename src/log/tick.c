/*-------------------------------------------------------------------------
 *
 * tick.c
 *	  Ticks: the snapshots that cut the log into what is consumed together.
 *
 * A tick is a snapshot in 64-bit transaction ids, top-level ones only, as the
 * log has them.  The transaction that takes it counts as running: what it
 * writes belongs to the next tick, whether it had an id by then or not.
 *
 * IDENTIFICATION
 *	  src/log/tick.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/heaptoast.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/pg_type.h"
#include "commands/tablecmds.h"
#include "log/tick.h"
#include "relations.h"
#include "shmem.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

enum
{
	Anum_tick_tick = 1,
	Anum_tick_xmin,
	Anum_tick_xmax,
	Anum_tick_xip,
	Anum_tick_at,
	Natts_tick = Anum_tick_at
};

/* Stored ticks are trimmed when they take more blocks than this (8 MB). */
#define TRIM_BLOCKS		1024

/* The id with its epoch; it was in use not long before 'next'. */
static FullTransactionId
widen(TransactionId xid, FullTransactionId next)
{
	uint32		epoch = EpochFromFullTransactionId(next);

	if (!TransactionIdIsNormal(xid))
		return FullTransactionIdFromEpochAndXid(0, xid);
	if (xid > XidFromFullTransactionId(next))
		epoch--;
	return FullTransactionIdFromEpochAndXid(epoch, xid);
}

static int
compare_xids(const void *a, const void *b)
{
	uint64		left = U64FromFullTransactionId(*(const FullTransactionId *) a);
	uint64		right = U64FromFullTransactionId(*(const FullTransactionId *) b);

	return left < right ? -1 : left > right;
}

/* A snapshot does not list its own transaction. */
static void
add_own_xid(SjTick *tick)
{
	FullTransactionId own = GetTopFullTransactionIdIfAny();

	if (!FullTransactionIdIsValid(own) ||
		!FullTransactionIdPrecedes(own, tick->xmax))
		return;
	tick->xip[tick->nxip++] = own;
	if (FullTransactionIdPrecedes(own, tick->xmin))
		tick->xmin = own;
}

SjTick *
sj_tick_take(int64 number, Snapshot snapshot)
{
	FullTransactionId next = ReadNextFullTransactionId();
	SjTick	   *tick = palloc(sizeof(SjTick));

	Assert(!snapshot->takenDuringRecovery);
	tick->number = number;
	tick->xmin = widen(snapshot->xmin, next);
	tick->xmax = widen(snapshot->xmax, next);
	tick->nxip = snapshot->xcnt;
	tick->xip = palloc((snapshot->xcnt + 1) * sizeof(FullTransactionId));
	for (uint32 i = 0; i < snapshot->xcnt; i++)
		tick->xip[i] = widen(snapshot->xip[i], next);
	add_own_xid(tick);
	qsort(tick->xip, tick->nxip, sizeof(FullTransactionId), compare_xids);
	return tick;
}

bool
sj_tick_sees(const SjTick *tick, FullTransactionId xid)
{
	if (FullTransactionIdPrecedes(xid, tick->xmin))
		return true;
	if (!FullTransactionIdPrecedes(xid, tick->xmax))
		return false;
	return bsearch(&xid, tick->xip, tick->nxip, sizeof(FullTransactionId),
				   compare_xids) == NULL;
}

SjTick *
sj_tick_copy(const SjTick *tick)
{
	SjTick	   *copy = palloc(sizeof(SjTick));
	Size		size = tick->nxip * sizeof(FullTransactionId);

	*copy = *tick;
	copy->xip = palloc(Max(size, 1));
	memcpy(copy->xip, tick->xip, size);
	return copy;
}

/* Snapshots are taken one after the other: each sees what those before saw. */
bool
sj_tick_is_later(const SjTick *a, const SjTick *b)
{
	if (!FullTransactionIdEquals(a->xmax, b->xmax))
		return FullTransactionIdPrecedes(b->xmax, a->xmax);
	return a->nxip < b->nxip;
}

bytea *
sj_tick_serialize(const SjTick *tick)
{
	Size		size = VARHDRSZ + (2 + tick->nxip) * sizeof(FullTransactionId);
	bytea	   *bytes = palloc(size);
	char	   *at = VARDATA(bytes);

	SET_VARSIZE(bytes, size);
	memcpy(at, &tick->xmin, sizeof(FullTransactionId));
	memcpy(at + sizeof(FullTransactionId), &tick->xmax,
		   sizeof(FullTransactionId));
	memcpy(at + 2 * sizeof(FullTransactionId), tick->xip,
		   tick->nxip * sizeof(FullTransactionId));
	return bytes;
}

SjTick *
sj_tick_deserialize(const bytea *bytes, int64 number)
{
	SjTick	   *tick = palloc(sizeof(SjTick));
	Size		size = VARSIZE_ANY_EXHDR(bytes);
	const char *at = VARDATA_ANY(bytes);

	if (size < 2 * sizeof(FullTransactionId) ||
		size % sizeof(FullTransactionId) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid snapshot of a join")));
	tick->number = number;
	tick->nxip = size / sizeof(FullTransactionId) - 2;
	tick->xip = palloc(Max(size, 1));
	memcpy(&tick->xmin, at, sizeof(FullTransactionId));
	memcpy(&tick->xmax, at + sizeof(FullTransactionId),
		   sizeof(FullTransactionId));
	memcpy(tick->xip, at + 2 * sizeof(FullTransactionId),
		   tick->nxip * sizeof(FullTransactionId));
	return tick;
}

static Datum
xid_datum(FullTransactionId xid)
{
	return UInt64GetDatum(U64FromFullTransactionId(xid));
}

static FullTransactionId
datum_xid(Datum value)
{
	return FullTransactionIdFromU64(DatumGetUInt64(value));
}

static ArrayType *
xip_to_array(const SjTick *tick)
{
	Datum	   *element = palloc(Max(tick->nxip, 1) * sizeof(Datum));

	for (int i = 0; i < tick->nxip; i++)
		element[i] = xid_datum(tick->xip[i]);
	return construct_array(element, tick->nxip, XID8OID, sizeof(uint64),
						   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
}

static void
xip_from_array(SjTick *tick, ArrayType *array)
{
	Datum	   *element;

	deconstruct_array(array, XID8OID, sizeof(uint64), FLOAT8PASSBYVAL,
					  TYPALIGN_DOUBLE, &element, NULL, &tick->nxip);
	tick->xip = palloc(Max(tick->nxip, 1) * sizeof(FullTransactionId));
	for (int i = 0; i < tick->nxip; i++)
		tick->xip[i] = datum_xid(element[i]);
}

static SjTick *
tick_from_tuple(HeapTuple tuple, TupleDesc desc)
{
	SjTick	   *tick = palloc(sizeof(SjTick));
	Datum		value[Natts_tick];
	bool		null[Natts_tick];

	heap_deform_tuple(tuple, desc, value, null);
	tick->number = DatumGetInt64(value[Anum_tick_tick - 1]);
	tick->xmin = datum_xid(value[Anum_tick_xmin - 1]);
	tick->xmax = datum_xid(value[Anum_tick_xmax - 1]);
	xip_from_array(tick, DatumGetArrayTypeP(value[Anum_tick_xip - 1]));
	return tick;
}

static HeapTuple
tuple_from_tick(const SjTick *tick, TupleDesc desc)
{
	Datum		value[Natts_tick];
	bool		null[Natts_tick] = {false};

	value[Anum_tick_tick - 1] = Int64GetDatum(tick->number);
	value[Anum_tick_xmin - 1] = xid_datum(tick->xmin);
	value[Anum_tick_xmax - 1] = xid_datum(tick->xmax);
	value[Anum_tick_xip - 1] = PointerGetDatum(xip_to_array(tick));
	value[Anum_tick_at - 1] = TimestampTzGetDatum(sj_now());
	return heap_form_tuple(desc, value, null);
}

void
sj_tick_store(const SjTick *tick)
{
	Relation	rel = sj_open("tick", RowExclusiveLock);
	bool		pushed = !ActiveSnapshotSet();
	HeapTuple	tuple = tuple_from_tick(tick, RelationGetDescr(rel));

	if (pushed)
		PushActiveSnapshot(GetTransactionSnapshot());
	CatalogTupleInsert(rel, tuple);
	if (pushed)
		PopActiveSnapshot();
	heap_freetuple(tuple);
	relation_close(rel, NoLock);
}

/*
 * First tick from 'number' on in the given direction, or NULL.  Read under a
 * snapshot of the moment.
 */
static SjTick *
find_tick(int nkeys, ScanKey key, ScanDirection direction)
{
	Relation	rel = sj_try_open("tick", AccessShareLock);
	Relation	index;
	Snapshot	snapshot;
	SysScanDesc scan;
	HeapTuple	tuple;
	SjTick	   *tick = NULL;

	if (rel == NULL)
		return NULL;
	index = sj_open("tick_tick", AccessShareLock);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	scan = systable_beginscan_ordered(rel, index, snapshot, nkeys, key);
	tuple = systable_getnext_ordered(scan, direction);
	if (HeapTupleIsValid(tuple))
		tick = tick_from_tuple(tuple, RelationGetDescr(rel));
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	relation_close(index, AccessShareLock);
	relation_close(rel, AccessShareLock);
	return tick;
}

SjTick *
sj_tick_load(int64 number)
{
	ScanKeyData key;

	ScanKeyInit(&key, Anum_tick_tick, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(number));
	return find_tick(1, &key, ForwardScanDirection);
}

SjTick *
sj_tick_newest(void)
{
	return find_tick(0, NULL, BackwardScanDirection);
}

/* Copies of the stored ticks from 'needed' on. */
static List *
ticks_to_keep(Relation rel, int64 needed)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan(rel, snapshot, 0, NULL);
	TupleDesc	desc = RelationGetDescr(rel);
	HeapTuple	tuple;
	List	   *kept = NIL;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		bool		isnull;
		Datum		number = heap_getattr(tuple, Anum_tick_tick, desc, &isnull);

		if (DatumGetInt64(number) < needed)
			continue;
		/* out-of-line values are about to go */
		kept = lappend(kept, toast_flatten_tuple(tuple, desc));
	}
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	return kept;
}

/*
 * Puts the rows into the new storage.  They are frozen at once: a snapshot
 * older than this transaction would otherwise find the relation empty.
 */
static void
put_back(Relation rel, List *tuples)
{
	ListCell   *cell;

	foreach(cell, tuples)
		heap_insert(rel, lfirst(cell), GetCurrentCommandId(true),
					HEAP_INSERT_FROZEN, NULL);
}

void
sj_tick_trim(int64 needed)
{
	static BlockNumber kept_blocks = 0; /* by the last trim */
	Oid			oid = sj_relation_oid("tick");
	Relation	rel = sj_try_open("tick", AccessShareLock);
	BlockNumber nblocks;
	List	   *kept;
	ReindexParams params = {0};

	if (rel == NULL)
		return;
	nblocks = RelationGetNumberOfBlocks(rel);
	relation_close(rel, AccessShareLock);
	if (nblocks <= Max(TRIM_BLOCKS, 2 * kept_blocks) ||
		!ConditionalLockRelationOid(oid, AccessExclusiveLock))
		return;
	rel = try_relation_open(oid, NoLock);
	if (rel == NULL)
		return;
	CheckTableNotInUse(rel, "trim");
	PushActiveSnapshot(GetTransactionSnapshot());
	kept = ticks_to_keep(rel, needed);
	sj_relation_empty(rel);
	put_back(rel, kept);
	kept_blocks = RelationGetNumberOfBlocks(rel);
	reindex_relation(oid, 0, &params);
	PopActiveSnapshot();
	relation_close(rel, NoLock);
}
