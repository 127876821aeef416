/*-------------------------------------------------------------------------
 *
 * event_log.c
 *	  Appending to the event log.
 *
 * Chunks become rows of the open segment by table_multi_insert, which writes
 * one WAL record per page.  A chunk of SJ_CHUNK_BYTES stays inline and fills a
 * page (the segments' toast_tuple_target says so); one that is larger is
 * stored out of line by the heap.
 *
 * IDENTIFICATION
 *	  src/log/event_log.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "executor/executor.h"
#include "log/numbers.h"
#include "log/segments.h"
#include "nodes/execnodes.h"
#include "shmem.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Chunks, or about as many bytes, that go into one multi-insert. */
#define BATCH_CHUNKS	64
#define BATCH_BYTES		(512 * 1024)

/* Chunks on their way into a segment. */
typedef struct LogWriter
{
	Relation	rel;
	CatalogIndexState indexes;
	MemoryContext context;		/* reset after each batch */
	FullTransactionId xid;
	TupleTableSlot *slots[BATCH_CHUNKS];
	int			nslots;			/* made so far */
} LogWriter;

static Datum
make_bytea(const SjChunk *chunk)
{
	bytea	   *data = palloc(VARHDRSZ + chunk->len);

	SET_VARSIZE(data, VARHDRSZ + chunk->len);
	memcpy(VARDATA(data), chunk->data, chunk->len);
	return PointerGetDatum(data);
}

/* The row of a chunk; memory in the current context. */
static HeapTuple
make_row(const SjChunk *chunk, TupleDesc desc)
{
	Datum		value[Natts_log];
	bool		null[Natts_log] = {false};
	HeapTuple	row;

	value[Anum_log_xid - 1] =
		UInt64GetDatum(U64FromFullTransactionId(chunk->xid));
	value[Anum_log_seq - 1] = Int64GetDatum(chunk->seq);
	value[Anum_log_n - 1] = Int32GetDatum(chunk->n);
	value[Anum_log_layout - 1] = Int32GetDatum(chunk->layout);
	value[Anum_log_source - 1] = ObjectIdGetDatum(chunk->source);
	value[Anum_log_changes - 1] = BoolGetDatum(chunk->changes);
	value[Anum_log_captured_at - 1] = TimestampTzGetDatum(chunk->captured_at);
	value[Anum_log_data - 1] = make_bytea(chunk);
	row = heap_form_tuple(desc, value, null);
	pfree(DatumGetPointer(value[Anum_log_data - 1]));
	return row;
}

/* Index entries of one row, which the multi-insert has given its place. */
static void
insert_index_entries(LogWriter *writer, TupleTableSlot *slot)
{
	Datum		value[INDEX_MAX_KEYS];
	bool		null[INDEX_MAX_KEYS];

	for (int i = 0; i < writer->indexes->ri_NumIndices; i++)
	{
		IndexInfo  *info = writer->indexes->ri_IndexRelationInfo[i];
		Relation	index = writer->indexes->ri_IndexRelationDescs[i];

		if (!info->ii_ReadyForInserts)
			continue;
		FormIndexDatum(info, slot, NULL, value, null);
		index_insert(index, value, null, &slot->tts_tid, writer->rel,
					 UNIQUE_CHECK_NO, false, info);
	}
}

static TupleTableSlot *
batch_slot(LogWriter *writer, int i)
{
	if (i == writer->nslots)
	{
		writer->slots[i] =
			MakeSingleTupleTableSlot(RelationGetDescr(writer->rel),
									 &TTSOpsHeapTuple);
		writer->nslots++;
	}
	return writer->slots[i];
}

/* Writes as many chunks as make a batch; returns how many. */
static int
write_batch(LogWriter *writer, SjChunk *chunks, int nchunks)
{
	Size		bytes = 0;
	int			n = 0;
	MemoryContext old;

	while (n < nchunks && n < BATCH_CHUNKS && bytes < BATCH_BYTES)
	{
		TupleTableSlot *slot = batch_slot(writer, n);

		chunks[n].xid = writer->xid;
		old = MemoryContextSwitchTo(writer->context);
		ExecStoreHeapTuple(make_row(&chunks[n],
									RelationGetDescr(writer->rel)),
						   slot, true);
		MemoryContextSwitchTo(old);
		bytes += chunks[n].len;
		n++;
	}

	old = MemoryContextSwitchTo(writer->context);
	table_multi_insert(writer->rel, writer->slots, n,
					   GetCurrentCommandId(true), 0, NULL);
	for (int i = 0; i < n; i++)
		insert_index_entries(writer, writer->slots[i]);
	for (int i = 0; i < n; i++)
		ExecClearTuple(writer->slots[i]);
	MemoryContextSwitchTo(old);
	MemoryContextReset(writer->context);
	return n;
}

static void
write_all(LogWriter *writer, SjChunk *chunks, int nchunks)
{
	int			done = 0;

	writer->indexes = CatalogOpenIndexes(writer->rel);
	writer->context = AllocSetContextCreate(CurrentMemoryContext,
											"sjoin log append",
											ALLOCSET_DEFAULT_SIZES);
	writer->xid = GetTopFullTransactionId();
	writer->nslots = 0;

	while (done < nchunks)
		done += write_batch(writer, chunks + done, nchunks - done);

	for (int i = 0; i < writer->nslots; i++)
		ExecDropSingleTupleTableSlot(writer->slots[i]);
	CatalogCloseIndexes(writer->indexes);
	MemoryContextDelete(writer->context);
}

/* Writes chunks that sj_log_number has numbered. */
void
sj_log_write(SjChunk *chunks, int nchunks)
{
	LogWriter	writer;
	bool		pushed;

	if (nchunks == 0)
		return;
	/* at PRE_COMMIT there is none, and TOAST wants one */
	pushed = !ActiveSnapshotSet();
	if (pushed)
		PushActiveSnapshot(GetTransactionSnapshot());
	writer.rel = sj_segment_open_to_append();
	if (writer.rel != NULL)
	{
		write_all(&writer, chunks, nchunks);
		/* the lock is kept: a segment is not emptied before we end */
		relation_close(writer.rel, NoLock);
	}
	if (pushed)
		PopActiveSnapshot();
}

void
sj_log_number(SjChunk *chunks, int nchunks)
{
	TimestampTz now = sj_now();
	int64		nrecords = 0;
	int64		seq;

	for (int i = 0; i < nchunks; i++)
		nrecords += chunks[i].n;
	seq = sj_numbers_take(nrecords);
	for (int i = 0; i < nchunks; i++)
	{
		chunks[i].seq = seq;
		chunks[i].captured_at = now;
		seq += chunks[i].n;
	}
}

void
sj_log_append(SjChunk *chunks, int nchunks)
{
	if (nchunks == 0)
		return;
	sj_log_number(chunks, nchunks);
	sj_log_write(chunks, nchunks);
}
