/*-------------------------------------------------------------------------
 *
 * log_read.c
 *	  Reading the event log.
 *
 * What is new between two ticks is found by xid: through the btree, those that
 * had not begun when the earlier one was taken, and those that were running
 * then.  Whether they committed the heap says, under the active snapshot;
 * pg_xact is never asked, it may have forgotten.  The active snapshot may see
 * more than the later tick, so that is applied by arithmetic as well.
 *
 * The first pass reads the narrow columns only.  Chunks are fetched by their
 * place when it is their turn.
 *
 * IDENTIFICATION
 *	  src/log/log_read.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/skey.h"
#include "access/tableam.h"
#include "log/segments.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Where a chunk is. */
struct SjChunkRef
{
	FullTransactionId xid;
	int64		seq;
	int32		n;
	int32		layout;
	Oid			source;
	ItemPointerData tid;
	int16		segment;
	bool		changes;
};

/* What a scan of the log looks for. */
typedef struct LogFilter
{
	const SjTick *before;		/* not seen in this one; NULL: no limit */
	const SjTick *tick;			/* seen in this one; NULL: no limit */
	bool		carried;		/* rows carried forward ... */
	int32		layout;			/* ... of this layout; else all captured ones */
	bool		first_only;		/* one chunk will do */
} LogFilter;

static void
xid_key(ScanKey key, StrategyNumber strategy, RegProcedure function,
		FullTransactionId xid)
{
	ScanKeyInit(key, Anum_log_xid, strategy, function,
				UInt64GetDatum(U64FromFullTransactionId(xid)));
}

static bool
is_wanted(const LogFilter *filter, FullTransactionId xid, int32 layout)
{
	if (filter->carried ? layout != filter->layout : layout < 0)
		return false;
	if (filter->tick != NULL && !sj_tick_sees(filter->tick, xid))
		return false;
	return filter->before == NULL || !sj_tick_sees(filter->before, xid);
}

static void
add_chunk(SjTickReader *reader, const SjChunkRef *ref)
{
	int			n = reader->nchunks++;

	/* room for 64, then at every power of two for twice as many */
	if (n == 0)
		reader->chunks = palloc(64 * sizeof(SjChunkRef));
	else if (n >= 64 && (n & (n - 1)) == 0)
		reader->chunks = repalloc_huge(reader->chunks,
									   2 * (Size) n * sizeof(SjChunkRef));
	reader->chunks[n] = *ref;
}

/* Looks at the row in the slot; true when it was taken. */
static bool
take_row(SjTickReader *reader, int segment, const LogFilter *filter)
{
	TupleTableSlot *slot = reader->slots[segment];
	SjChunkRef	ref;

	slot_getsomeattrs(slot, Anum_log_changes);
	ref.xid =
		FullTransactionIdFromU64(DatumGetUInt64(slot->tts_values[Anum_log_xid - 1]));
	ref.layout = DatumGetInt32(slot->tts_values[Anum_log_layout - 1]);
	if (!is_wanted(filter, ref.xid, ref.layout))
		return false;
	ref.seq = DatumGetInt64(slot->tts_values[Anum_log_seq - 1]);
	ref.n = DatumGetInt32(slot->tts_values[Anum_log_n - 1]);
	ref.source = DatumGetObjectId(slot->tts_values[Anum_log_source - 1]);
	ref.changes = DatumGetBool(slot->tts_values[Anum_log_changes - 1]);
	ref.tid = slot->tts_tid;
	ref.segment = segment;
	add_chunk(reader, &ref);
	return true;
}

static void
scan_keys(SjTickReader *reader, int segment, Relation index, int nkeys,
		  ScanKey keys, const LogFilter *filter)
{
	TupleTableSlot *slot = reader->slots[segment];
	IndexScanDesc scan;

	scan = index_beginscan(reader->segments[segment], index, reader->snapshot,
						   nkeys, 0);
	index_rescan(scan, keys, nkeys, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (take_row(reader, segment, filter) && filter->first_only)
			break;
	}
	index_endscan(scan);
	ExecClearTuple(slot);
}

/* Transactions that had not begun in 'before' and had in 'tick'. */
static void
scan_new(SjTickReader *reader, int segment, Relation index,
		 const LogFilter *filter)
{
	ScanKeyData keys[2];
	int			nkeys = 0;

	if (filter->before != NULL)
		xid_key(&keys[nkeys++], BTGreaterEqualStrategyNumber, F_XID8GE,
				filter->before->xmax);
	if (filter->tick != NULL)
		xid_key(&keys[nkeys++], BTLessStrategyNumber, F_XID8LT,
				filter->tick->xmax);
	scan_keys(reader, segment, index, nkeys, keys, filter);
}

/* Transactions that were running in 'before'. */
static void
scan_running(SjTickReader *reader, int segment, Relation index,
			 const LogFilter *filter)
{
	for (int i = 0; filter->before != NULL && i < filter->before->nxip; i++)
	{
		FullTransactionId xid = filter->before->xip[i];
		ScanKeyData key;

		if (filter->tick != NULL && !sj_tick_sees(filter->tick, xid))
			continue;
		if (filter->first_only && reader->nchunks > 0)
			return;
		xid_key(&key, BTEqualStrategyNumber, F_XID8EQ, xid);
		scan_keys(reader, segment, index, 1, &key, filter);
	}
}

/* Opens the segments that hold anything, under the active snapshot. */
static SjTickReader *
open_reader(void)
{
	SjTickReader *reader = palloc0(sizeof(SjTickReader));

	reader->snapshot = RegisterSnapshot(GetActiveSnapshot());
	for (int i = 0; i < SJ_LOG_SEGMENTS; i++)
	{
		Relation	rel = sj_segment_open(i, AccessShareLock);

		if (rel == NULL)
			continue;
		if (RelationGetNumberOfBlocks(rel) == 0)
		{
			relation_close(rel, AccessShareLock);
			continue;
		}
		reader->segments[i] = rel;
		reader->slots[i] = table_slot_create(rel, NULL);
	}
	return reader;
}

static int
compare_chunks(const void *a, const void *b)
{
	const SjChunkRef *left = a;
	const SjChunkRef *right = b;

	if (!FullTransactionIdEquals(left->xid, right->xid))
		return FullTransactionIdPrecedes(left->xid, right->xid) ? -1 : 1;
	return left->seq < right->seq ? -1 : left->seq > right->seq;
}

static int
compare_txns(const void *a, const void *b)
{
	const SjLogTxn *left = a;
	const SjLogTxn *right = b;

	return left->last_seq < right->last_seq ? -1 :
		left->last_seq > right->last_seq;
}

static int
count_txns(const SjTickReader *reader)
{
	int			n = 0;

	for (int i = 0; i < reader->nchunks; i++)
		if (i == 0 || !FullTransactionIdEquals(reader->chunks[i - 1].xid,
											   reader->chunks[i].xid))
			n++;
	return n;
}

/* Groups the chunks found by transaction, in consumption order. */
static void
make_txns(SjTickReader *reader)
{
	SjLogTxn   *txn = NULL;

	qsort(reader->chunks, reader->nchunks, sizeof(SjChunkRef), compare_chunks);
	reader->txns = palloc(count_txns(reader) * sizeof(SjLogTxn));
	for (int i = 0; i < reader->nchunks; i++)
	{
		const SjChunkRef *ref = &reader->chunks[i];

		if (txn == NULL || !FullTransactionIdEquals(txn->xid, ref->xid))
		{
			txn = &reader->txns[reader->ntxns++];
			txn->xid = ref->xid;
			txn->nrecords = 0;
			txn->changes = false;
			txn->first_chunk = i;
			txn->nchunks = 0;
		}
		txn->last_seq = ref->seq + ref->n - 1;
		txn->nrecords += ref->n;
		txn->changes |= ref->changes;
		txn->nchunks++;
	}
	qsort(reader->txns, reader->ntxns, sizeof(SjLogTxn), compare_txns);
}

static void
close_segments(SjTickReader *reader)
{
	for (int i = 0; i < SJ_LOG_SEGMENTS; i++)
	{
		if (reader->segments[i] == NULL)
			continue;
		ExecDropSingleTupleTableSlot(reader->slots[i]);
		relation_close(reader->segments[i], AccessShareLock);
	}
	UnregisterSnapshot(reader->snapshot);
}

SjTickReader *
sj_log_open_tick(const SjTick *before, const SjTick *tick)
{
	SjTickReader *reader = open_reader();
	LogFilter	filter = {before, tick};

	for (int i = 0; i < SJ_LOG_SEGMENTS; i++)
	{
		Relation	index;

		if (reader->segments[i] == NULL)
			continue;
		index = sj_segment_open_index(i, AccessShareLock);
		scan_new(reader, i, index, &filter);
		scan_running(reader, i, index, &filter);
		relation_close(index, AccessShareLock);
	}
	make_txns(reader);
	return reader;
}

SjTickReader *
sj_log_open_txn(FullTransactionId xid, int32 layout)
{
	SjTickReader *reader = open_reader();
	LogFilter	filter = {NULL, NULL, true, layout};
	ScanKeyData key;

	xid_key(&key, BTEqualStrategyNumber, F_XID8EQ, xid);
	for (int i = 0; i < SJ_LOG_SEGMENTS; i++)
	{
		Relation	index;

		if (reader->segments[i] == NULL)
			continue;
		index = sj_segment_open_index(i, AccessShareLock);
		scan_keys(reader, i, index, 1, &key, &filter);
		relation_close(index, AccessShareLock);
	}
	make_txns(reader);
	return reader;
}

bool
sj_log_has_news(const SjTick *before)
{
	SjTickReader *reader = open_reader();
	LogFilter	filter = {before, NULL, false, 0, true};
	bool		found;

	for (int i = 0; i < SJ_LOG_SEGMENTS && reader->nchunks == 0; i++)
	{
		Relation	index;

		if (reader->segments[i] == NULL)
			continue;
		index = sj_segment_open_index(i, AccessShareLock);
		scan_new(reader, i, index, &filter);
		scan_running(reader, i, index, &filter);
		relation_close(index, AccessShareLock);
	}
	found = reader->nchunks > 0;
	sj_log_close_tick(reader);
	return found;
}

int32
sj_log_chunk_layout(const SjTickReader *reader, int i)
{
	return reader->chunks[i].layout;
}

bool
sj_log_chunk_changes(const SjTickReader *reader, int i)
{
	return reader->chunks[i].changes;
}

Oid
sj_log_chunk_source(const SjTickReader *reader, int i)
{
	return reader->chunks[i].source;
}

/* Copies the records to where they are aligned. */
static void
copy_data(Datum value, SjChunk *chunk)
{
	struct varlena *stored = (struct varlena *) DatumGetPointer(value);
	struct varlena *data = pg_detoast_datum_packed(stored);

	chunk->len = VARSIZE_ANY_EXHDR(data);
	chunk->data = palloc(chunk->len);
	memcpy(chunk->data, VARDATA_ANY(data), chunk->len);
	if (data != stored)
		pfree(data);
}

void
sj_log_read_chunk(SjTickReader *reader, int i, SjChunk *chunk)
{
	SjChunkRef *ref = &reader->chunks[i];
	TupleTableSlot *slot = reader->slots[ref->segment];

	if (!table_tuple_fetch_row_version(reader->segments[ref->segment],
									   &ref->tid, reader->snapshot, slot))
		elog(ERROR, "chunk " INT64_FORMAT " of the event log has vanished",
			 ref->seq);
	slot_getallattrs(slot);
	chunk->xid = ref->xid;
	chunk->seq = ref->seq;
	chunk->n = ref->n;
	chunk->layout = ref->layout;
	chunk->source = ref->source;
	chunk->changes = ref->changes;
	chunk->captured_at =
		DatumGetTimestampTz(slot->tts_values[Anum_log_captured_at - 1]);
	copy_data(slot->tts_values[Anum_log_data - 1], chunk);
	ExecClearTuple(slot);
}

void
sj_log_close_tick(SjTickReader *reader)
{
	close_segments(reader);
	if (reader->chunks != NULL)
		pfree(reader->chunks);
	if (reader->txns != NULL)
		pfree(reader->txns);
	pfree(reader);
}
