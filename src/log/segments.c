/*-------------------------------------------------------------------------
 *
 * segments.c
 *	  The rotating segments of the event log.
 *
 * New chunks go to the open segment, whose number is in the database's slot.
 * The others are sealed: they are read, and once nothing needs what they hold,
 * emptied as a whole, by new storage.
 *
 * What keeps this right is the relation lock, not the number.  A writer holds
 * RowExclusiveLock from before its first chunk until its end.  A segment is
 * emptied under AccessExclusiveLock, and only if the greatest xid in it is
 * older than what is needed; so a writer that lands in a segment that is not
 * the open one any more (the number changed between look and lock, or all
 * others were locked) merely keeps that segment from being emptied for a
 * while.  That is also why the number may be lost at a restart, and why a
 * backend may guess one without shared memory.
 *
 * Nobody waits: writers try the next segment, upkeep tries again later.
 *
 * IDENTIFICATION
 *	  src/log/segments.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "commands/tablecmds.h"
#include "log/segments.h"
#include "miscadmin.h"
#include "relations.h"
#include "shmem.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

StaticAssertDecl(SJ_LOG_SEGMENTS == 4, "names of segments");

static const char *const segment_names[SJ_LOG_SEGMENTS] = {
	"log_0", "log_1", "log_2", "log_3"
};
static const char *const index_names[SJ_LOG_SEGMENTS] = {
	"log_0_xid", "log_1_xid", "log_2_xid", "log_3_xid"
};

/* the open segment as far as this backend knows, without a database slot */
static uint32 guessed_segment = SJ_SEGMENT_UNKNOWN;

Relation
sj_segment_open(int segment, LOCKMODE lockmode)
{
	return sj_try_open(segment_names[segment], lockmode);
}

Relation
sj_segment_open_index(int segment, LOCKMODE lockmode)
{
	return sj_open(index_names[segment], lockmode);
}

/* The segment, or NULL if it is not there or the lock not to be had at once. */
static Relation
try_segment(int segment, LOCKMODE lockmode)
{
	Oid			oid = sj_relation_oid(segment_names[segment]);
	Relation	rel;

	if (!OidIsValid(oid) || !ConditionalLockRelationOid(oid, lockmode))
		return NULL;
	rel = try_relation_open(oid, NoLock);
	if (rel == NULL)
		UnlockRelationOid(oid, lockmode);
	return rel;
}

/*
 * No xid in the segment is greater.  Taken from the index alone: an entry may
 * be of a row that nobody sees, the bound holds all the same.  Invalid when
 * the index has no entry.
 */
static FullTransactionId
greatest_xid(Relation rel, int segment)
{
	Relation	index = sj_segment_open_index(segment, AccessShareLock);
	IndexScanDesc scan = index_beginscan(rel, index, SnapshotAny, 0, 0);
	FullTransactionId xid = InvalidFullTransactionId;

	scan->xs_want_itup = true;
	index_rescan(scan, NULL, 0, NULL, 0);
	if (index_getnext_tid(scan, BackwardScanDirection) != NULL)
	{
		bool		isnull;
		Datum		value = index_getattr(scan->xs_itup, 1, scan->xs_itupdesc,
										  &isnull);

		if (!isnull)
			xid = FullTransactionIdFromU64(DatumGetUInt64(value));
	}
	index_endscan(scan);
	relation_close(index, AccessShareLock);
	return xid;
}

/* The segment that was written to last; 0 when all are empty. */
static uint32
newest_segment(void)
{
	FullTransactionId newest_xid = InvalidFullTransactionId;
	uint32		newest = 0;

	for (int i = 0; i < SJ_LOG_SEGMENTS; i++)
	{
		Relation	rel = try_segment(i, AccessShareLock);
		FullTransactionId xid;

		if (rel == NULL)
			continue;
		xid = greatest_xid(rel, i);
		relation_close(rel, AccessShareLock);
		if (FullTransactionIdFollows(xid, newest_xid))
		{
			newest_xid = xid;
			newest = i;
		}
	}
	return newest;
}

/* Only the first of several that choose at the same time has its way. */
void
sj_log_choose_open_segment(void)
{
	SjDatabaseSlot *slot = sj_database_slot(MyDatabaseId, false);
	uint32		unknown = SJ_SEGMENT_UNKNOWN;
	bool		pushed = !ActiveSnapshotSet();

	if (pushed)
		PushActiveSnapshot(GetTransactionSnapshot());
	guessed_segment = newest_segment();
	if (slot != NULL)
		pg_atomic_compare_exchange_u32(&slot->open_segment, &unknown,
									   guessed_segment);
	if (pushed)
		PopActiveSnapshot();
}

static uint32
open_segment(void)
{
	SjDatabaseSlot *slot = sj_database_slot(MyDatabaseId, false);
	uint32		segment;

	segment = slot ? pg_atomic_read_u32(&slot->open_segment) : guessed_segment;
	if (segment != SJ_SEGMENT_UNKNOWN)
		return segment;
	sj_log_choose_open_segment();
	return slot ? pg_atomic_read_u32(&slot->open_segment) : guessed_segment;
}

/*
 * The number is read again under the lock: a segment that was sealed in
 * between is left alone if another can be had.
 */
Relation
sj_segment_open_to_append(void)
{
	uint32		segment = open_segment();
	Relation	rel;

	for (int attempt = 0; attempt < SJ_LOG_SEGMENTS; attempt++)
	{
		rel = try_segment(segment, RowExclusiveLock);
		if (rel == NULL)
			break;
		if (segment == open_segment())
			return rel;
		relation_close(rel, RowExclusiveLock);
		segment = open_segment();
	}
	for (int i = 0; i < SJ_LOG_SEGMENTS; i++)
	{
		rel = try_segment((segment + i) % SJ_LOG_SEGMENTS, RowExclusiveLock);
		if (rel != NULL)
			return rel;
	}
	/* somebody has locked them all by hand */
	return sj_segment_open(segment, RowExclusiveLock);
}

/* Bytes of the rows, those stored out of line included. */
static int64
segment_bytes(Relation rel)
{
	int64		bytes = table_relation_size(rel, MAIN_FORKNUM);

	if (OidIsValid(rel->rd_rel->reltoastrelid))
	{
		Relation	toast = relation_open(rel->rd_rel->reltoastrelid,
										  AccessShareLock);

		bytes += table_relation_size(toast, MAIN_FORKNUM);
		relation_close(toast, AccessShareLock);
	}
	return bytes;
}

/* Bytes of each segment, -1 where it is locked; returns their sum. */
static int64
measure_segments(int64 *bytes)
{
	int64		total = 0;

	for (int i = 0; i < SJ_LOG_SEGMENTS; i++)
	{
		Relation	rel = try_segment(i, AccessShareLock);

		bytes[i] = rel ? segment_bytes(rel) : -1;
		if (rel == NULL)
			continue;
		total += bytes[i];
		relation_close(rel, AccessShareLock);
	}
	return total;
}

/* Seals the open segment if an empty one can take its place. */
static void
rotate(SjDatabaseSlot *slot, uint32 open, const int64 *bytes)
{
	for (int i = 1; i < SJ_LOG_SEGMENTS; i++)
	{
		uint32		next = (open + i) % SJ_LOG_SEGMENTS;

		if (bytes[next] != 0)
			continue;
		pg_atomic_compare_exchange_u32(&slot->open_segment, &open, next);
		return;
	}
}

static bool
holds_nothing_needed(Relation rel, int segment, FullTransactionId needed)
{
	return FullTransactionIdPrecedes(greatest_xid(rel, segment), needed);
}

/*
 * Empties a sealed segment if nothing in it is needed and nobody has it
 * locked.  Looks under a weak lock first, to spare everybody the strong one.
 */
static bool
empty_segment(int segment, FullTransactionId needed)
{
	Relation	rel = try_segment(segment, AccessShareLock);
	bool		useless;

	if (rel == NULL)
		return false;
	useless = holds_nothing_needed(rel, segment, needed);
	relation_close(rel, AccessShareLock);
	if (!useless)
		return false;

	rel = try_segment(segment, AccessExclusiveLock);
	if (rel == NULL)
		return false;
	if (segment == open_segment() ||
		!holds_nothing_needed(rel, segment, needed))
	{
		relation_close(rel, AccessExclusiveLock);
		return false;
	}
	CheckTableNotInUse(rel, "empty");
	sj_relation_empty(rel);
	relation_close(rel, NoLock);
	return true;
}

int64
sj_log_maintain(FullTransactionId needed, int64 max_bytes, bool *emptied)
{
	SjDatabaseSlot *slot = sj_database_slot(MyDatabaseId, false);
	int64		bytes[SJ_LOG_SEGMENTS];
	int64		total;
	uint32		open;

	*emptied = false;
	if (slot == NULL || !OidIsValid(sj_relation_oid(segment_names[0])))
		return 0;

	PushActiveSnapshot(GetTransactionSnapshot());
	open = open_segment();
	total = measure_segments(bytes);
	if (bytes[open] > max_bytes)
		rotate(slot, open, bytes);
	for (int i = 1; i < SJ_LOG_SEGMENTS; i++)
	{
		uint32		sealed = (open + i) % SJ_LOG_SEGMENTS;

		if (bytes[sealed] > 0 && empty_segment(sealed, needed))
		{
			total -= bytes[sealed];
			*emptied = true;
			break;
		}
	}
	PopActiveSnapshot();
	return total;
}
