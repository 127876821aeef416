/*-------------------------------------------------------------------------
 *
 * xact.c
 *	  Records on their way to the log, per subtransaction.
 *
 * Records are buffered in chunks, per layout, in the subtransaction that made
 * the change: a rolled-back savepoint drops its buffers, a released one hands
 * them to its parent.  Everything is written just before the top-level commit
 * (or PREPARE).
 *
 * A large transaction writes earlier, but only what belongs to the
 * subtransaction that is running: rows written by it vanish with it.  Buffers
 * of its ancestors hold older records, which must keep smaller numbers: they
 * are numbered then and written later.
 *
 * Chunks live in the scope's memory context, a child of TopTransactionContext.
 *
 * IDENTIFICATION
 *	  src/capture/xact.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "capture/capture.h"
#include "capture/xact.h"
#include "catalog/partition.h"
#include "catalog/stream_def.h"
#include "miscadmin.h"
#include "shmem.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* A subtransaction's own buffers are written beyond this many bytes. */
#define FLUSH_BYTES			(4 * 1024 * 1024)
/* The same, however little its own, when all that is buffered is this much. */
#define FLUSH_TOTAL_BYTES	(64 * 1024 * 1024)
/* First allocation of a chunk; most transactions are small. */
#define FIRST_CHUNK_BYTES	512

/* Chunks of one layout. */
typedef struct LayoutBuffer
{
	struct LayoutBuffer *next;
	int32		layout;
	char		last_op;		/* of the newest record */
	SjChunk    *closed;			/* oldest first; seq 0: not numbered */
	int			nclosed;
	int			maxclosed;
	SjChunk		open;			/* takes the next record */
	Size		capacity;		/* of open.data */
} LayoutBuffer;

/* What one subtransaction has buffered. */
typedef struct Scope
{
	struct Scope *parent;		/* nearest ancestor with a scope */
	SubTransactionId subid;
	MemoryContext context;		/* of everything below */
	LayoutBuffer *buffers;
	Size		bytes;
	List	   *truncated;		/* OIDs, in TopTransactionContext */
} Scope;

static Scope *current_scope = NULL; /* the innermost */
static LayoutBuffer *last_buffer = NULL;	/* of current_scope */
static Size total_bytes = 0;	/* of all scopes */
static int	truncates_pending = 0;	/* in all scopes */
static bool wrote_log = false;	/* this transaction has */

/* scopes -------------------------------------------------------------- */

static Scope *
push_scope(SubTransactionId subid)
{
	Scope	   *scope = MemoryContextAllocZero(TopTransactionContext,
											   sizeof(Scope));

	scope->parent = current_scope;
	scope->subid = subid;
	scope->context = AllocSetContextCreate(TopTransactionContext,
										   "sjoin capture",
										   ALLOCSET_DEFAULT_SIZES);
	current_scope = scope;
	last_buffer = NULL;
	return scope;
}

static inline Scope *
my_scope(void)
{
	SubTransactionId subid = GetCurrentSubTransactionId();

	if (current_scope != NULL && current_scope->subid == subid)
		return current_scope;
	return push_scope(subid);
}

/* Forgets what the scope holds; the scope stays. */
static void
reset_scope(Scope *scope)
{
	MemoryContextReset(scope->context);
	scope->buffers = NULL;
	total_bytes -= scope->bytes;
	scope->bytes = 0;
	last_buffer = NULL;
}

static void
pop_scope(void)
{
	Scope	   *scope = current_scope;

	reset_scope(scope);
	MemoryContextDelete(scope->context);
	truncates_pending -= list_length(scope->truncated);
	list_free(scope->truncated);
	current_scope = scope->parent;
	pfree(scope);
}

/* The memory goes with TopTransactionContext. */
static void
forget_all(void)
{
	current_scope = NULL;
	last_buffer = NULL;
	total_bytes = 0;
	truncates_pending = 0;
	wrote_log = false;
}

/* chunks -------------------------------------------------------------- */

static LayoutBuffer *
find_buffer(Scope *scope, int32 layout)
{
	LayoutBuffer *buffer;

	for (buffer = scope->buffers; buffer != NULL; buffer = buffer->next)
		if (buffer->layout == layout)
			return buffer;

	buffer = MemoryContextAllocZero(scope->context, sizeof(LayoutBuffer));
	buffer->layout = layout;
	buffer->next = scope->buffers;
	scope->buffers = buffer;
	return buffer;
}

static void
add_closed(Scope *scope, LayoutBuffer *buffer, const SjChunk *chunk)
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
close_chunk(Scope *scope, LayoutBuffer *buffer)
{
	if (buffer->open.n == 0)
		return;
	buffer->open.layout = buffer->layout;
	add_closed(scope, buffer, &buffer->open);
	memset(&buffer->open, 0, sizeof(SjChunk));
	buffer->capacity = 0;
}

/* Makes room for 'size' bytes in all in the open chunk. */
static void
grow_chunk(Scope *scope, LayoutBuffer *buffer, Size size)
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
add_bytes(Scope *scope, LayoutBuffer *buffer, Size size)
{
	char	   *start;

	if (buffer->open.len + size > SJ_CHUNK_BYTES)
		close_chunk(scope, buffer);
	if (buffer->open.len + size > buffer->capacity)
		grow_chunk(scope, buffer, buffer->open.len + size);
	start = buffer->open.data + buffer->open.len;
	buffer->open.len += size;
	scope->bytes += size;
	total_bytes += size;
	return start;
}

static inline SjLogRecord *
add_record(Scope *scope, LayoutBuffer *buffer, char op, Size size)
{
	SjLogRecord *record;

	Assert(size == MAXALIGN(size));
	record = (SjLogRecord *) add_bytes(scope, buffer, size);
	memset(record, 0, size);
	record->size = size;
	record->op = op;
	buffer->open.n++;
	buffer->last_op = op;
	return record;
}

/* writing ------------------------------------------------------------- */

/* All chunks of the scope, closed now, in an array of the current context. */
static SjChunk *
collect_chunks(Scope *scope, int *nchunks)
{
	LayoutBuffer *buffer;
	SjChunk    *chunks;
	int			n = 0;

	for (buffer = scope->buffers; buffer != NULL; buffer = buffer->next)
	{
		close_chunk(scope, buffer);
		n += buffer->nclosed;
	}
	chunks = palloc_extended(Max(n, 1) * sizeof(SjChunk), MCXT_ALLOC_HUGE);
	*nchunks = 0;
	for (buffer = scope->buffers; buffer != NULL; buffer = buffer->next)
	{
		memcpy(chunks + *nchunks, buffer->closed,
			   buffer->nclosed * sizeof(SjChunk));
		*nchunks += buffer->nclosed;
	}
	return chunks;
}

/* Numbers those of a buffer's closed chunks that are not yet numbered. */
static void
number_buffer(LayoutBuffer *buffer)
{
	int			first = buffer->nclosed;

	/* numbered ones are older, so they come first */
	while (first > 0 && buffer->closed[first - 1].seq == 0)
		first--;
	if (first < buffer->nclosed)
		sj_log_number(buffer->closed + first, buffer->nclosed - first);
}

/* Numbers everything in the scope and its ancestors, these first. */
static void
number_scope(Scope *scope)
{
	LayoutBuffer *buffer;

	if (scope == NULL)
		return;
	number_scope(scope->parent);
	for (buffer = scope->buffers; buffer != NULL; buffer = buffer->next)
	{
		close_chunk(scope, buffer);
		number_buffer(buffer);
	}
	last_buffer = NULL;
}

/* Writes what the current scope holds; nothing of its ancestors. */
static void
write_scope(void)
{
	Scope	   *scope = current_scope;
	SjChunk    *chunks;
	int			nchunks;

	number_scope(scope);
	chunks = collect_chunks(scope, &nchunks);
	sj_log_write(chunks, nchunks);
	pfree(chunks);
	reset_scope(scope);
	wrote_log = true;
}

/* truncation ---------------------------------------------------------- */

/* A 'T' record if the table is a stream; one after another would add nothing */
static void
add_truncate(Scope *scope, Oid relid)
{
	SjLayout   *layout = sj_layout_current(relid);
	LayoutBuffer *buffer;

	if (layout == NULL)
		return;
	buffer = find_buffer(scope, layout->id);
	if (buffer->last_op != 'T')
		add_record(scope, buffer, 'T', MAXALIGN(sizeof(SjLogRecord)));
}

static void
add_truncates(Scope *scope)
{
	List	   *truncated;
	ListCell   *cell;

	if (scope == NULL)
		return;
	add_truncates(scope->parent);
	truncated = scope->truncated;
	scope->truncated = NIL;
	truncates_pending -= list_length(truncated);
	foreach(cell, truncated)
	{
		Oid			relid = lfirst_oid(cell);
		ListCell   *ancestor;

		add_truncate(scope, relid);
		if (get_rel_relispartition(relid))
			foreach(ancestor, get_partition_ancestors(relid))
				add_truncate(scope, lfirst_oid(ancestor));
	}
	list_free(truncated);
}

/* Turns noted truncations into records, each in its own scope. */
static void
settle_truncates(void)
{
	add_truncates(current_scope);
	Assert(truncates_pending == 0);
	last_buffer = NULL;
}

void
sj_buffer_truncate(Oid relid)
{
	Scope	   *scope = my_scope();
	MemoryContext old;

	if (list_member_oid(scope->truncated, relid))
		return;
	old = MemoryContextSwitchTo(TopTransactionContext);
	scope->truncated = lappend_oid(scope->truncated, relid);
	MemoryContextSwitchTo(old);
	truncates_pending++;
}

/* interface ----------------------------------------------------------- */

SjLogRecord *
sj_buffer_record(int32 layout, char op, Size size)
{
	Scope	   *scope = my_scope();

	if (unlikely(truncates_pending > 0))
		settle_truncates();
	if (unlikely(scope->bytes > FLUSH_BYTES ||
				 (total_bytes > FLUSH_TOTAL_BYTES &&
				  scope->bytes > SJ_CHUNK_BYTES)))
		write_scope();
	if (last_buffer == NULL || last_buffer->layout != layout)
		last_buffer = find_buffer(scope, layout);
	return add_record(scope, last_buffer, op, size);
}

void
sj_capture_watermark(Oid relid, SjTime watermark)
{
	SjLayout   *layout = sj_layout_current(relid);
	SjLogRecord *record;

	if (layout == NULL)
		return;
	record = sj_buffer_record(layout->id, 'W',
							  MAXALIGN(sizeof(SjLogRecord)) + sizeof(SjTime));
	SJ_RECORD_WATERMARK(record) = watermark;
}

void
sj_capture_wake(void)
{
	SjDatabaseSlot *slot = sj_database_slot(MyDatabaseId, false);

	if (slot == NULL)
		return;
	pg_atomic_fetch_add_u64(&slot->commits, 1);
	sj_wake_worker(slot);
}

/* ends of transactions ------------------------------------------------ */

/* Hands one layout's chunks to the parent; true if their memory must stay. */
static bool
merge_buffer(Scope *parent, LayoutBuffer *child)
{
	LayoutBuffer *buffer = find_buffer(parent, child->layout);

	if (child->nclosed > 0)
	{
		close_chunk(parent, buffer);
		for (int i = 0; i < child->nclosed; i++)
		{
			add_closed(parent, buffer, &child->closed[i]);
			parent->bytes += child->closed[i].len;
			total_bytes += child->closed[i].len;
		}
	}
	if (child->open.n > 0)
	{
		memcpy(add_bytes(parent, buffer, child->open.len), child->open.data,
			   child->open.len);
		buffer->open.n += child->open.n;
	}
	buffer->last_op = child->last_op;
	return child->nclosed > 0;
}

/* Everything in it was merged: counted, and if need be kept, by the parent. */
static void
merge_into_parent(void)
{
	Scope	   *child = current_scope;
	Scope	   *parent = child->parent;
	bool		keep = false;

	Assert(child->truncated == NIL);
	for (LayoutBuffer *buffer = child->buffers; buffer; buffer = buffer->next)
		if (merge_buffer(parent, buffer))
			keep = true;
	if (keep)
	{
		MemoryContextSetParent(child->context, parent->context);
		child->context = AllocSetContextCreate(TopTransactionContext,
											   "sjoin capture",
											   ALLOCSET_SMALL_SIZES);
	}
	pop_scope();
}

static void
at_subxact_event(SubXactEvent event, SubTransactionId subid,
				 SubTransactionId parent_subid, void *arg)
{
	if (current_scope == NULL || current_scope->subid != subid)
		return;
	switch (event)
	{
		case SUBXACT_EVENT_PRE_COMMIT_SUB:
			if (truncates_pending > 0)
				settle_truncates();
			if (total_bytes > FLUSH_TOTAL_BYTES)
				write_scope();
			break;
		case SUBXACT_EVENT_COMMIT_SUB:
			if (current_scope->parent != NULL &&
				current_scope->parent->subid == parent_subid)
				merge_into_parent();
			else
				current_scope->subid = parent_subid;
			break;
		case SUBXACT_EVENT_ABORT_SUB:
			pop_scope();
			break;
		case SUBXACT_EVENT_START_SUB:
			break;
	}
}

static void
before_commit(void)
{
	if (current_scope == NULL)
		return;
	Assert(current_scope->parent == NULL);
	settle_truncates();
	if (current_scope->buffers != NULL)
		write_scope();
}

static void
at_xact_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			before_commit();
			break;
		case XACT_EVENT_COMMIT:
			if (wrote_log)
				sj_capture_wake();
			forget_all();
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			forget_all();
			break;
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			break;
	}
}

void
sj_xact_init(void)
{
	RegisterXactCallback(at_xact_event, NULL);
	RegisterSubXactCallback(at_subxact_event, NULL);
}

bool
sj_capture_has_written(void)
{
	return wrote_log || total_bytes > 0 || truncates_pending > 0;
}
