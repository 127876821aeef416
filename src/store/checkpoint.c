/*-------------------------------------------------------------------------
 *
 * checkpoint.c
 *	  Carrying the rows of a state forward into the log, and reading them back.
 *
 * The state is in shared memory and lost with the server; the log is not, but
 * must not grow for ever.  A checkpoint is the rows of the state with what a
 * replay could no longer find out (degree, padded, source, and of a version its
 * number and whether it counts), written as ordinary log chunks whose layout is
 * the negative number of the join.  A rebuild is the last checkpoint plus the
 * log after it, consumed again with the clock and the settings of the
 * checkpoint: the same steps give the same state.
 *
 * IDENTIFICATION
 *	  src/store/checkpoint.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "store/checkpoint.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* Chunks handed to the log at once. */
#define CHUNKS_AT_ONCE	128

typedef struct CheckpointWriter
{
	int32		join_id;
	MemoryContext context;		/* the chunks; reset when they are written */
	SjChunk		chunks[CHUNKS_AT_ONCE];
	int			nchunks;
	Size		space;			/* of the last chunk's data */
	FullTransactionId xid;
} CheckpointWriter;

static void
write_chunks(CheckpointWriter *writer)
{
	if (writer->nchunks == 0)
		return;
	sj_log_append(writer->chunks, writer->nchunks);
	writer->xid = writer->chunks[0].xid;
	writer->nchunks = 0;
	MemoryContextReset(writer->context);
}

/* Space for a record at the end of a chunk that can take it. */
static char *
record_space(CheckpointWriter *writer, Size size)
{
	SjChunk    *chunk = writer->nchunks == 0 ? NULL :
	&writer->chunks[writer->nchunks - 1];

	if (chunk == NULL || chunk->len + size > writer->space)
	{
		if (writer->nchunks == CHUNKS_AT_ONCE)
			write_chunks(writer);
		chunk = &writer->chunks[writer->nchunks++];
		memset(chunk, 0, sizeof(SjChunk));
		chunk->layout = -writer->join_id;
		writer->space = Max(size, SJ_CHUNK_BYTES);
		chunk->data = MemoryContextAllocExtended(writer->context,
												 writer->space,
												 MCXT_ALLOC_HUGE);
	}
	chunk->n++;
	chunk->len += size;
	return chunk->data + chunk->len - size;
}

static void
write_row(void *arg, const SjRow *row)
{
	CheckpointWriter *writer = arg;
	MinimalTuple tuple = SJ_ROW_TUPLE(row);
	Size		header = MAXALIGN(sizeof(SjLogRecord)) +
	MAXALIGN(sizeof(SjCarriedRow));
	Size		size = header + MAXALIGN(tuple->t_len);
	char	   *space;
	SjCarriedRow *carried;

	CHECK_FOR_INTERRUPTS();
	space = record_space(writer, size);
	memset(space, 0, size);
	((SjLogRecord *) space)->size = (uint32) size;
	((SjLogRecord *) space)->op = SJ_OP_CARRIED;
	carried = (SjCarriedRow *) (space + MAXALIGN(sizeof(SjLogRecord)));
	carried->seq = row->seq;
	carried->degree = row->degree;
	carried->source = sj_row_source(row);
	carried->side = row->side;
	carried->padded = row->padded;
	carried->flags = row->flags & SJ_ROW_CARRIED;
	carried->version = sj_row_version(row);
	carried->due = row->due;
	carried->has_key = sj_row_has_key(row);
	memcpy(space + header, tuple, tuple->t_len);
}

FullTransactionId
sj_checkpoint_write(int32 join_id, const SjEngine *engine)
{
	CheckpointWriter *writer = palloc0(sizeof(CheckpointWriter));
	FullTransactionId xid;

	writer->join_id = join_id;
	writer->xid = InvalidFullTransactionId;
	writer->context = AllocSetContextCreate(CurrentMemoryContext,
											"sjoin checkpoint",
											ALLOCSET_DEFAULT_SIZES);
	sj_engine_walk(engine, write_row, writer);
	write_chunks(writer);
	xid = writer->xid;
	MemoryContextDelete(writer->context);
	pfree(writer);
	return xid;
}

void
sj_checkpoint_read(int32 join_id, FullTransactionId xid,
				   void (*row) (void *arg, const SjCarriedRow *carried,
								MinimalTuple tuple),
				   void *arg)
{
	SjTickReader *reader = sj_log_open_txn(xid, -join_id);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "sjoin checkpoint",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	for (int i = 0; i < reader->nchunks; i++)
	{
		SjChunk		chunk;
		char	   *space;

		CHECK_FOR_INTERRUPTS();
		sj_log_read_chunk(reader, i, &chunk);
		for (space = chunk.data; space < chunk.data + chunk.len;
			 space += ((SjLogRecord *) space)->size)
		{
			char	   *carried = space + MAXALIGN(sizeof(SjLogRecord));

			row(arg, (SjCarriedRow *) carried,
				(MinimalTuple) (carried + MAXALIGN(sizeof(SjCarriedRow))));
		}
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	sj_log_close_tick(reader);
}
