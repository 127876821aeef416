/*-------------------------------------------------------------------------
 *
 * feed_changes.c
 *	  A transaction that has changed or removed rows.
 *
 * Its records are read up to three times: for truncations, to count images, and
 * to apply what is net (netting.c).  A truncation comes first: it takes out
 * what the table, or the partition, held before the transaction, and what the
 * transaction did to it before has come to nothing.  That order is certain:
 * TRUNCATE waits for no row trigger.
 *
 * Every new image moves the watermark, those that were only stages included
 * (T1); the order of that does not matter, it takes hold at the end of the
 * step.
 *
 * IDENTIFICATION
 *	  src/worker/feed_changes.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "emit/attempt.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "worker/feed.h"
#include "worker/netting.h"

/* The last truncation of a source. */
typedef struct Truncated
{
	SjSide		side;
	Oid			source;
	int64		seq;
} Truncated;

typedef struct Changes
{
	SjNetting  *netting[2];
	List	   *truncated;		/* of Truncated */
	MemoryContext context;		/* of both */
	MemoryContext record_context;	/* reset for each record */
} Changes;

static Truncated *
find_truncated(const Changes *changes, SjSide side, Oid source)
{
	ListCell   *lc;

	foreach(lc, changes->truncated)
	{
		Truncated  *truncated = lfirst(lc);

		if (truncated->side == side && truncated->source == source)
			return truncated;
	}
	return NULL;
}

/* Has a later truncation made the record void? */
static bool
is_void(const SjFeed *feed, SjSide side)
{
	Truncated  *truncated = find_truncated(feed->arg, side,
										   feed->chunk.source);

	return truncated != NULL && sj_feed_seq(feed) < truncated->seq;
}

/* What the record says of a row, copied to the current context. */
static void
read_edge(const SjFeed *feed, SjSide side, SjEdge *edge)
{
	SjLogRecord *record = sj_feed_record(feed);
	SjTaskInput *input = &feed->task->input[side];
	SjImageLayout *layout = feed->layout[side];
	MinimalTuple first = heap_copy_minimal_tuple(sj_input_tuple(input, layout,
																SJ_RECORD_IMAGE(record)));

	memset(edge, 0, sizeof(SjEdge));
	edge->side = side;
	edge->source = feed->chunk.source;
	edge->seq = sj_feed_seq(feed);
	if (record->op == SJ_OP_DELETE)
		edge->old = first;
	else
		edge->new = first;
	if (record->op == SJ_OP_UPDATE)
		edge->old = heap_copy_minimal_tuple(sj_input_tuple(input, layout,
														   SJ_RECORD_OLD_IMAGE(record)));
}

static bool
is_row_change(const SjLogRecord *record)
{
	return record->op == SJ_OP_INSERT || record->op == SJ_OP_UPDATE ||
		record->op == SJ_OP_DELETE;
}

/* SjFeed.take: notes where truncations are. */
static void
find_truncations(SjFeed *feed, SjSide side)
{
	Changes    *changes = feed->arg;
	Truncated  *truncated;
	MemoryContext old;

	if (sj_feed_record(feed)->op != SJ_OP_TRUNCATE)
		return;
	truncated = find_truncated(changes, side, feed->chunk.source);
	if (truncated == NULL)
	{
		old = MemoryContextSwitchTo(changes->context);
		truncated = palloc0(sizeof(Truncated));
		truncated->side = side;
		truncated->source = feed->chunk.source;
		changes->truncated = lappend(changes->truncated, truncated);
		MemoryContextSwitchTo(old);
	}
	truncated->seq = Max(truncated->seq, sj_feed_seq(feed));
}

/* SjFeed.take: counts images. */
static void
count_images(SjFeed *feed, SjSide side)
{
	Changes    *changes = feed->arg;
	MemoryContext old;
	SjEdge		edge;

	if (!is_row_change(sj_feed_record(feed)) || is_void(feed, side))
		return;
	MemoryContextReset(changes->record_context);
	old = MemoryContextSwitchTo(changes->record_context);
	read_edge(feed, side, &edge);
	sj_netting_count(changes->netting[side], edge.source, edge.old, edge.new);
	MemoryContextSwitchTo(old);
}

/* What every record does, netted away or not. */
static void
note_record(SjFeed *feed, SjSide side)
{
	SjLogRecord *record = sj_feed_record(feed);

	if (record->op != SJ_OP_DELETE)
		sj_feed_see_time(feed->task, feed->batch, side, feed->layout[side],
						 SJ_RECORD_IMAGE(record), feed->chunk.captured_at,
						 record->op == SJ_OP_INSERT);
	feed->batch->position.totals.input[side].rows_in++;
	feed->batch->rows++;
}

static void
take_change(SjFeed *feed, SjSide side,
			void (*apply) (SjTask *task, SjBatch *batch, const SjEdge *edge))
{
	Changes    *changes = feed->arg;
	SjLogRecord *record = sj_feed_record(feed);
	MemoryContext old;
	SjEdge		edge;

	if (sj_feed_control(feed, side))
		return;
	feed->concerned = true;
	if (!is_row_change(record))
		return;
	if (!is_void(feed, side))
	{
		MemoryContextReset(changes->record_context);
		old = MemoryContextSwitchTo(changes->record_context);
		read_edge(feed, side, &edge);
		if (sj_netting_passes(changes->netting[side], &edge))
			apply(feed->task, feed->batch, &edge);
		MemoryContextSwitchTo(old);
	}
	note_record(feed, side);
}

/* SjFeed.take */
static void
apply_change(SjFeed *feed, SjSide side)
{
	take_change(feed, side, sj_change_apply);
}

/* SjFeed.take_safely */
static void
apply_change_safely(SjFeed *feed, SjSide side)
{
	take_change(feed, side, sj_change_apply_safely);
}

static void
pass(SjFeed *feed, SjTickReader *reader, const SjLogTxn *txn,
	 bool changes_only, void (*take) (SjFeed *feed, SjSide side),
	 void (*take_safely) (SjFeed *feed, SjSide side))
{
	feed->take = take;
	feed->take_safely = take_safely;
	sj_feed_chunks(feed, reader, txn, changes_only);
}

static void
apply_truncations(SjFeed *feed, const Changes *changes)
{
	ListCell   *lc;

	foreach(lc, changes->truncated)
	{
		Truncated  *truncated = lfirst(lc);

		sj_change_truncate(feed->task, feed->batch, truncated->side,
						   truncated->source, truncated->seq);
	}
}

/* Edges that were held, for sj_attempt(). */
typedef struct Composed
{
	SjFeed	   *feed;
	SjEdge	   *edges;
	int			n;
	int			next;
} Composed;

static void
apply_composed(void *arg)
{
	Composed   *composed = arg;
	Changes    *changes = composed->feed->arg;
	MemoryContext old = MemoryContextSwitchTo(changes->record_context);

	for (; composed->next < composed->n; composed->next++)
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(changes->record_context);
		sj_change_apply(composed->feed->task, composed->feed->batch,
						&composed->edges[composed->next]);
	}
	MemoryContextSwitchTo(old);
}

static void
apply_held(SjFeed *feed, SjNetting *netting)
{
	Composed	composed = {.feed = feed};

	composed.edges = sj_netting_compose(netting, &composed.n);
	while (sj_attempt(apply_composed, &composed,
					  sj_error_is_of_expression) != NULL)
	{
		sj_change_apply_safely(feed->task, feed->batch,
							   &composed.edges[composed.next]);
		composed.next++;
	}
}

void
sj_feed_changes(SjFeed *feed, SjTickReader *reader, const SjLogTxn *txn)
{
	Changes		changes = {0};
	MemoryContext old;

	changes.context = AllocSetContextCreate(CurrentMemoryContext,
											"sjoin changes",
											ALLOCSET_DEFAULT_SIZES);
	changes.record_context = AllocSetContextCreate(changes.context,
												   "sjoin change",
												   ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(changes.context);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		changes.netting[side] = sj_netting_create(&feed->task->input[side]);
	feed->arg = &changes;

	pass(feed, reader, txn, true, find_truncations, find_truncations);
	pass(feed, reader, txn, false, count_images, count_images);
	apply_truncations(feed, &changes);
	pass(feed, reader, txn, false, apply_change, apply_change_safely);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		apply_held(feed, changes.netting[side]);

	MemoryContextSwitchTo(old);
	MemoryContextDelete(changes.context);
}
