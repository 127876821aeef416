/*-------------------------------------------------------------------------
 *
 * buffer.c
 *	  Records of the current transaction that are not in the log yet.
 *
 * Records are buffered in chunks, per layout and source, in the subtransaction
 * that made the change: a rolled-back savepoint drops its buffers, a released
 * one hands them to its parent.
 *
 * A large transaction writes before its end, but only what belongs to the
 * subtransaction that is running: rows written by it vanish with it.  Buffers
 * of its ancestors hold older records, which must keep smaller numbers: they
 * are numbered then and written later.
 *
 * Chunks live in the scope's memory context, a child of TopTransactionContext.
 *
 * IDENTIFICATION
 *	  src/capture/buffer.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "capture/buffer.h"
#include "capture/departure.h"
#include "utils/memutils.h"

/* First allocation of a chunk; most transactions are small. */
#define FIRST_CHUNK_BYTES	512
/* Buffers that are looked through one by one; more of them get an index. */
#define FEW_BUFFERS			8

SjScope    *sj_current_scope = NULL;
Size		sj_buffered_bytes = 0;

static SjBuffer *last_buffer = NULL;	/* of sj_current_scope */

/* scopes -------------------------------------------------------------- */

static SjScope *
push_scope(SubTransactionId subid)
{
	SjScope    *scope = MemoryContextAllocZero(TopTransactionContext,
											   sizeof(SjScope));

	scope->parent = sj_current_scope;
	scope->subid = subid;
	scope->context = AllocSetContextCreate(TopTransactionContext,
										   "sjoin capture",
										   ALLOCSET_DEFAULT_SIZES);
	sj_current_scope = scope;
	last_buffer = NULL;
	return scope;
}

SjScope *
sj_scope_mine(void)
{
	SubTransactionId subid = GetCurrentSubTransactionId();

	if (sj_current_scope != NULL && sj_current_scope->subid == subid)
		return sj_current_scope;
	return push_scope(subid);
}

/* Forgets what the scope holds; the scope stays. */
static void
reset_scope(SjScope *scope)
{
	MemoryContextReset(scope->context);
	scope->buffers = NULL;
	scope->nbuffers = 0;
	scope->index = NULL;
	sj_buffered_bytes -= scope->bytes;
	scope->bytes = 0;
	last_buffer = NULL;
}

void
sj_scope_pop(void)
{
	SjScope    *scope = sj_current_scope;

	reset_scope(scope);
	MemoryContextDelete(scope->context);
	sj_departures_forget(scope);
	sj_current_scope = scope->parent;
	pfree(scope);
}

void
sj_scopes_forget(void)
{
	sj_current_scope = NULL;
	last_buffer = NULL;
	sj_buffered_bytes = 0;
}

/* chunks -------------------------------------------------------------- */

/* Key and entry of a scope's index. */
typedef struct BufferKey
{
	int32		layout;
	Oid			source;
} BufferKey;

typedef struct BufferEntry
{
	BufferKey	key;
	SjBuffer   *buffer;
} BufferEntry;

static void
add_to_index(SjScope *scope, SjBuffer *buffer)
{
	BufferKey	key = {buffer->layout, buffer->source};
	BufferEntry *entry = hash_search(scope->index, &key, HASH_ENTER, NULL);

	entry->buffer = buffer;
}

/* A transaction that writes to many partitions finds their buffers by hash. */
static void
make_index(SjScope *scope)
{
	HASHCTL		ctl = {.keysize = sizeof(BufferKey),
		.entrysize = sizeof(BufferEntry),.hcxt = scope->context};

	scope->index = hash_create("sjoin buffers", 64, &ctl,
							   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	for (SjBuffer *buffer = scope->buffers; buffer; buffer = buffer->next)
		add_to_index(scope, buffer);
}

static SjBuffer *
add_buffer(SjScope *scope, int32 layout, Oid source)
{
	SjBuffer   *buffer = MemoryContextAllocZero(scope->context,
												sizeof(SjBuffer));

	buffer->layout = layout;
	buffer->source = source;
	buffer->next = scope->buffers;
	scope->buffers = buffer;
	scope->nbuffers++;
	if (scope->index != NULL)
		add_to_index(scope, buffer);
	else if (scope->nbuffers > FEW_BUFFERS)
		make_index(scope);
	return buffer;
}

/* The scope's buffer, or NULL. */
static SjBuffer *
find_buffer(const SjScope *scope, int32 layout, Oid source)
{
	BufferKey	key = {layout, source};
	BufferEntry *entry;

	if (scope->index == NULL)
	{
		for (SjBuffer *buffer = scope->buffers; buffer; buffer = buffer->next)
			if (buffer->layout == layout && buffer->source == source)
				return buffer;
		return NULL;
	}
	entry = hash_search(scope->index, &key, HASH_FIND, NULL);
	return entry == NULL ? NULL : entry->buffer;
}

SjBuffer *
sj_scope_buffer(SjScope *scope, int32 layout, Oid source)
{
	SjBuffer   *buffer;

	if (last_buffer != NULL && scope == sj_current_scope &&
		last_buffer->layout == layout && last_buffer->source == source)
		return last_buffer;
	buffer = find_buffer(scope, layout, source);
	if (buffer == NULL)
		buffer = add_buffer(scope, layout, source);
	if (scope == sj_current_scope)
		last_buffer = buffer;
	return buffer;
}

char
sj_scope_last_op(const SjScope *scope, int32 layout, Oid source)
{
	for (; scope != NULL; scope = scope->parent)
	{
		SjBuffer   *buffer = find_buffer(scope, layout, source);

		if (buffer != NULL && buffer->last_op != 0)
			return buffer->last_op;
	}
	return 0;
}

static void
add_closed(SjScope *scope, SjBuffer *buffer, const SjChunk *chunk)
{
	if (buffer->maxclosed == 0)
	{
		buffer->maxclosed = 16;
		buffer->closed = MemoryContextAlloc(scope->context,
											16 * sizeof(SjChunk));
	}
	else if (buffer->nclosed == buffer->maxclosed)
	{
		buffer->maxclosed *= 2;
		buffer->closed = repalloc_huge(buffer->closed,
									   buffer->maxclosed * sizeof(SjChunk));
	}
	buffer->closed[buffer->nclosed++] = *chunk;
}

static void
close_chunk(SjScope *scope, SjBuffer *buffer)
{
	if (buffer->open.n == 0)
		return;
	buffer->open.layout = buffer->layout;
	buffer->open.source = buffer->source;
	add_closed(scope, buffer, &buffer->open);
	memset(&buffer->open, 0, sizeof(SjChunk));
	buffer->capacity = 0;
}

/* Makes room for 'size' bytes in all in the open chunk. */
static void
grow_chunk(SjScope *scope, SjBuffer *buffer, Size size)
{
	Size		capacity = Max(2 * buffer->capacity, FIRST_CHUNK_BYTES);

	if (buffer->nclosed > 0 || capacity > SJ_CHUNK_BYTES)
		capacity = SJ_CHUNK_BYTES;
	capacity = Max(capacity, size);
	if (buffer->open.data == NULL)
		buffer->open.data = MemoryContextAlloc(scope->context, capacity);
	else
		buffer->open.data = repalloc(buffer->open.data, capacity);
	buffer->capacity = capacity;
}

/* Adds 'size' uninitialized bytes to the open chunk, or to a new one. */
static inline char *
add_bytes(SjScope *scope, SjBuffer *buffer, Size size)
{
	char	   *start;

	if (buffer->open.len + size > SJ_CHUNK_BYTES)
		close_chunk(scope, buffer);
	if (buffer->open.len + size > buffer->capacity)
		grow_chunk(scope, buffer, buffer->open.len + size);
	start = buffer->open.data + buffer->open.len;
	buffer->open.len += size;
	scope->bytes += size;
	sj_buffered_bytes += size;
	return start;
}

SjLogRecord *
sj_buffer_add(SjScope *scope, SjBuffer *buffer, char op, Size size)
{
	SjLogRecord *record;

	Assert(size == MAXALIGN(size));
	record = (SjLogRecord *) add_bytes(scope, buffer, size);
	memset(record, 0, size);
	record->size = size;
	record->op = op;
	buffer->open.n++;
	buffer->open.changes |= op != SJ_OP_INSERT && !SJ_OP_IS_CONTROL(op);
	buffer->last_op = op;
	return record;
}

/* writing ------------------------------------------------------------- */

/* How many of a buffer's closed chunks are numbered; these are the oldest. */
static int
count_numbered(const SjBuffer *buffer)
{
	int			n = buffer->nclosed;

	while (n > 0 && buffer->closed[n - 1].seq == 0)
		n--;
	return n;
}

static void
close_chunks(SjScope *scope)
{
	for (SjBuffer *buffer = scope->buffers; buffer; buffer = buffer->next)
		close_chunk(scope, buffer);
}

/* Numbers what ancestors of the scope hold, the oldest first. */
static void
number_ancestors(SjScope *scope)
{
	SjScope    *parent = scope->parent;

	if (parent == NULL)
		return;
	number_ancestors(parent);
	close_chunks(parent);
	for (SjBuffer *buffer = parent->buffers; buffer; buffer = buffer->next)
	{
		int			first = count_numbered(buffer);

		if (first < buffer->nclosed)
			sj_log_number(buffer->closed + first, buffer->nclosed - first);
	}
}

static int
count_chunks(const SjScope *scope)
{
	int			n = 0;

	for (SjBuffer *buffer = scope->buffers; buffer; buffer = buffer->next)
		n += buffer->nclosed;
	return n;
}

/* Copies the chunks that are numbered, or those that are not; returns how many. */
static int
copy_chunks(const SjScope *scope, bool numbered, SjChunk *chunks)
{
	int			n = 0;

	for (SjBuffer *buffer = scope->buffers; buffer; buffer = buffer->next)
	{
		int			nnumbered = count_numbered(buffer);
		int			count = numbered ? nnumbered : buffer->nclosed - nnumbered;

		if (count > 0)
			memcpy(chunks + n, buffer->closed + (numbered ? 0 : nnumbered),
				   count * sizeof(SjChunk));
		n += count;
	}
	return n;
}

/* One fetch of numbers serves all buffers. */
void
sj_scope_write(void)
{
	SjScope    *scope = sj_current_scope;
	SjChunk    *chunks;
	int			nchunks;
	int			numbered;

	number_ancestors(scope);
	close_chunks(scope);
	nchunks = count_chunks(scope);
	chunks = palloc_extended(Max(nchunks, 1) * sizeof(SjChunk),
							 MCXT_ALLOC_HUGE);
	numbered = copy_chunks(scope, true, chunks);
	(void) copy_chunks(scope, false, chunks + numbered);
	if (numbered < nchunks)
		sj_log_number(chunks + numbered, nchunks - numbered);
	sj_log_write(chunks, nchunks);
	pfree(chunks);
	reset_scope(scope);
}

/* merging ------------------------------------------------------------- */

/* Hands one buffer's chunks to the parent; true if their memory must stay. */
static bool
merge_buffer(SjScope *parent, SjBuffer *child)
{
	SjBuffer   *buffer = sj_scope_buffer(parent, child->layout, child->source);

	if (child->nclosed > 0)
	{
		close_chunk(parent, buffer);
		for (int i = 0; i < child->nclosed; i++)
		{
			add_closed(parent, buffer, &child->closed[i]);
			parent->bytes += child->closed[i].len;
			sj_buffered_bytes += child->closed[i].len;
		}
	}
	if (child->open.n > 0)
	{
		memcpy(add_bytes(parent, buffer, child->open.len), child->open.data,
			   child->open.len);
		buffer->open.n += child->open.n;
		buffer->open.changes |= child->open.changes;
	}
	buffer->last_op = child->last_op;
	return child->nclosed > 0;
}

/* Everything in it was merged: counted, and if need be kept, by the parent. */
void
sj_scope_merge_into_parent(void)
{
	SjScope    *child = sj_current_scope;
	SjScope    *parent = child->parent;
	bool		keep = false;

	Assert(child->departures == NIL);
	for (SjBuffer *buffer = child->buffers; buffer; buffer = buffer->next)
		if (merge_buffer(parent, buffer))
			keep = true;
	if (keep)
	{
		MemoryContextSetParent(child->context, parent->context);
		child->context = AllocSetContextCreate(TopTransactionContext,
											   "sjoin capture",
											   ALLOCSET_SMALL_SIZES);
	}
	sj_scope_pop();
}

