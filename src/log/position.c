/*-------------------------------------------------------------------------
 *
 * position.c
 *	  How far a join has come.
 *
 * One row updated in place per batch would leave one dead version per batch
 * behind, which a held snapshot keeps for ever; so positions are appended, and
 * when there are many the relation is written anew with the ones that count.
 *
 * IDENTIFICATION
 *	  src/log/position.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "log/position.h"
#include "miscadmin.h"
#include "relations.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"
#include "utils/xid8.h"

/* Blocks after which the relation is written anew. */
#define TRIM_BLOCKS		1024

enum
{
	Anum_join_id = 1,
	Anum_tick,
	Anum_txns,
	Anum_watermark,
	Anum_horizon,
	Anum_clock,
	Anum_settings,
	Anum_result_seq,
	Anum_base_tick,
	Anum_base_txns,
	Anum_base_xid,
	Anum_base,
	Anum_counters,
	Anum_serial,
	Anum_at,
	Natts_position = Anum_at
};

static Datum
bytes_datum(const void *data, Size len)
{
	bytea	   *bytes = palloc(VARHDRSZ + len);

	SET_VARSIZE(bytes, VARHDRSZ + len);
	memcpy(VARDATA(bytes), data, len);
	return PointerGetDatum(bytes);
}

/* A struct stored by bytes_datum(). */
static void
copy_bytes(Datum datum, void *to, Size len)
{
	bytea	   *bytes = DatumGetByteaPP(datum);

	if (VARSIZE_ANY_EXHDR(bytes) != len)
		elog(ERROR, "sjoin.position holds %zu bytes where %zu are expected",
			 (Size) VARSIZE_ANY_EXHDR(bytes), len);
	memcpy(to, VARDATA_ANY(bytes), len);
}

static HeapTuple
form_position(Relation rel, const SjPosition *position)
{
	const SjLogClock *clock = &position->clock;
	Datum		value[Natts_position];
	bool		null[Natts_position] = {false};

	value[Anum_join_id - 1] = Int32GetDatum(position->join_id);
	value[Anum_tick - 1] = Int64GetDatum(position->tick);
	value[Anum_txns - 1] = Int32GetDatum(position->txns);
	value[Anum_watermark - 1] = Int64GetDatum(clock->watermark);
	value[Anum_horizon - 1] = Int64GetDatum(clock->horizon);
	value[Anum_clock - 1] = bytes_datum(clock, sizeof(*clock));
	value[Anum_settings - 1] =
		bytes_datum(&position->settings, sizeof(position->settings));
	value[Anum_result_seq - 1] = Int64GetDatum(position->result_seq);
	value[Anum_base_tick - 1] = Int64GetDatum(position->base_tick);
	value[Anum_base_txns - 1] = Int32GetDatum(position->base_txns);
	value[Anum_base_xid - 1] = FullTransactionIdGetDatum(position->base_xid);
	value[Anum_base - 1] =
		bytes_datum(&position->base, sizeof(position->base));
	value[Anum_counters - 1] =
		bytes_datum(&position->totals, sizeof(position->totals));
	value[Anum_serial - 1] = Int64GetDatum(position->serial);
	value[Anum_at - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	return heap_form_tuple(RelationGetDescr(rel), value, null);
}

static SjPosition *
position_from_tuple(HeapTuple tuple, TupleDesc desc)
{
	SjPosition *position = palloc0(sizeof(SjPosition));
	SjLogClock *clock = &position->clock;
	Datum		value[Natts_position];
	bool		null[Natts_position];

	heap_deform_tuple(tuple, desc, value, null);
	position->join_id = DatumGetInt32(value[Anum_join_id - 1]);
	position->tick = DatumGetInt64(value[Anum_tick - 1]);
	position->txns = DatumGetInt32(value[Anum_txns - 1]);
	copy_bytes(value[Anum_clock - 1], clock, sizeof(*clock));
	copy_bytes(value[Anum_settings - 1], &position->settings,
			   sizeof(position->settings));
	position->result_seq = DatumGetInt64(value[Anum_result_seq - 1]);
	position->base_tick = DatumGetInt64(value[Anum_base_tick - 1]);
	position->base_txns = DatumGetInt32(value[Anum_base_txns - 1]);
	position->base_xid =
		DatumGetFullTransactionId(value[Anum_base_xid - 1]);
	copy_bytes(value[Anum_base - 1], &position->base, sizeof(position->base));
	copy_bytes(value[Anum_counters - 1], &position->totals,
			   sizeof(position->totals));
	position->serial = DatumGetInt64(value[Anum_serial - 1]);
	return position;
}

/* Was 'a' stored after 'b'? */
static bool
is_newer(const SjPosition *a, const SjPosition *b)
{
	if (a->join_id == SJ_LOG_MARK)
		return FullTransactionIdFollows(a->base_xid, b->base_xid);
	return a->serial > b->serial;
}

/* Puts 'position' in the place of an older one of the same join. */
static List *
keep_newest(List *positions, SjPosition *position)
{
	ListCell   *lc;

	foreach(lc, positions)
	{
		SjPosition *kept = lfirst(lc);

		if (kept->join_id != position->join_id)
			continue;
		if (is_newer(position, kept))
			lfirst(lc) = position;
		return positions;
	}
	return lappend(positions, position);
}

static List *
newest_positions(Relation rel, Snapshot snapshot)
{
	TableScanDesc scan = table_beginscan(rel, snapshot, 0, NULL);
	List	   *positions = NIL;
	HeapTuple	tuple;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		SjPosition *position;

		CHECK_FOR_INTERRUPTS();
		position = position_from_tuple(tuple, RelationGetDescr(rel));
		positions = keep_newest(positions, position);
	}
	table_endscan(scan);
	return positions;
}

static void
insert_position(Relation rel, const SjPosition *position, int options)
{
	HeapTuple	tuple = form_position(rel, position);

	heap_insert(rel, tuple, GetCurrentCommandId(true),
				options | HEAP_INSERT_NO_LOGICAL, NULL);
	heap_freetuple(tuple);
}

void
sj_position_store(SjPosition *position)
{
	Relation	rel = sj_open("position", RowExclusiveLock);

	position->serial++;
	insert_position(rel, position, 0);
	table_close(rel, NoLock);
}

void
sj_log_mark_store(FullTransactionId emptied_before)
{
	SjPosition	mark = {.join_id = SJ_LOG_MARK,.base_xid = emptied_before};

	sj_position_store(&mark);
}

List *
sj_position_load_all(void)
{
	Relation	rel = sj_open("position", AccessShareLock);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	List	   *positions = newest_positions(rel, snapshot);

	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
	return positions;
}

SjPosition *
sj_position_load(int32 join_id, Snapshot snapshot)
{
	Relation	rel = sj_open("position", AccessShareLock);
	List	   *positions = newest_positions(rel, snapshot);
	ListCell   *lc;
	SjPosition *found = NULL;

	table_close(rel, AccessShareLock);
	foreach(lc, positions)
		if (((SjPosition *) lfirst(lc))->join_id == join_id)
			found = lfirst(lc);
	return found;
}

void
sj_position_trim(List *join_ids)
{
	Relation	rel = sj_try_open("position", AccessShareLock);
	BlockNumber nblocks;
	Oid			relid;
	List	   *positions;
	ListCell   *lc;
	Snapshot	snapshot;

	if (rel == NULL)
		return;
	relid = RelationGetRelid(rel);
	nblocks = RelationGetNumberOfBlocks(rel);
	table_close(rel, AccessShareLock);
	if (nblocks <= TRIM_BLOCKS ||
		!ConditionalLockRelationOid(relid, AccessExclusiveLock))
		return;
	rel = table_open(relid, NoLock);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	positions = newest_positions(rel, snapshot);
	UnregisterSnapshot(snapshot);
	RelationSetNewRelfilenode(rel, rel->rd_rel->relpersistence);
	foreach(lc, positions)
	{
		SjPosition *position = lfirst(lc);

		/* frozen: an older snapshot must not find the relation empty */
		if (position->join_id == SJ_LOG_MARK ||
			list_member_int(join_ids, position->join_id))
			insert_position(rel, position, HEAP_INSERT_FROZEN);
	}
	table_close(rel, NoLock);
}
