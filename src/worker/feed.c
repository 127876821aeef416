/*-------------------------------------------------------------------------
 *
 * feed.c
 *	  From the transactions of a tick to the engine.
 *
 * A transaction is a step: its rows are judged by the clock that the steps
 * before it left, then the clock moves (T2).  Rows are taken chunk by chunk in
 * a subtransaction, since filters, keys and conditions are the user's code.
 * When one of them fails, the subtransaction is rolled back (the engine is as
 * the row before left it) and the row is taken again by itself, with its errors
 * caught: it becomes a late row, or its pair does (R8).  Then the rest goes on.
 *
 * A rebuild consumes the same steps in the same way, counting and emitting
 * nothing.
 *
 * IDENTIFICATION
 *	  src/worker/feed.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "emit/attempt.h"
#include "log/event_log.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "worker/feed.h"
#include "worker/replay.h"
#include "worker/refusals.h"

void
sj_no_memory(SjTask *task)
{
	/* once more with small batches, which win back the room of what is gone */
	task->out_of_memory = task->op.tight;
	task->op.tight = true;
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("the state of the join does not fit into shared memory"),
			 errdetail("The state has %u MB of the %u MB of sjoin.state_memory; the rest is in use, or is the share of other joins.",
					   task->slot->pages / (1024 * 1024 / SJ_PAGE_SIZE),
					   sj_shared->npages / (1024 * 1024 / SJ_PAGE_SIZE)),
			 errhint("Raise sjoin.state_memory and restart the server, or give the join tighter time bounds, a shorter ttl or less allowed_lateness.")));
}

/* Remembers a rejected record; images are copied, the watermark is set. */
void
sj_feed_reject(SjTask *task, SjBatch *batch, const SjLateRow *row,
			   const ErrorData *error)
{
	MemoryContext old;
	SjLateRow  *late;

	if (task->replaying)
		return;
	old = MemoryContextSwitchTo(batch->context);
	late = palloc(sizeof(SjLateRow));
	*late = *row;
	late->watermark = sj_engine_clock(task->engine)->watermark;
	if (error != NULL)
	{
		late->sqlstate = error->sqlerrcode;
		late->message = pstrdup(error->message);
	}
	if (row->image != NULL)
		late->image = heap_copy_minimal_tuple(row->image);
	if (row->old_image != NULL)
		late->old_image = heap_copy_minimal_tuple(row->old_image);
	if (row->old_hash != NULL)
	{
		pg_uuid_t  *hash = palloc(sizeof(pg_uuid_t));

		*hash = *row->old_hash;
		late->old_hash = hash;
	}
	batch->late_rows = lappend(batch->late_rows, late);
	MemoryContextSwitchTo(old);
	sj_refusals_note(task, late);
	if (row->reason != SJ_REASON_REPLAYED &&
		row->reason != SJ_REASON_WITHDRAWN)
		batch->position.totals.input[row->side].rows_late++;
}

/* An inserted image, a tuple of the input, is not taken in. */
static void
reject_insertion(SjTask *task, SjBatch *batch, const SjEvent *event,
				 SjTime event_time, SjReason reason, MinimalTuple image,
				 const ErrorData *error)
{
	SjLateRow	late = {.side = event->side,.op = SJ_OP_INSERT,
		.reason = reason,.seq = event->seq,.source = event->source,
	.event_time = event_time,.image = image};

	sj_feed_reject(task, batch, &late, error);
}

/* Does the row move the watermark (T8)?  'clock' is that of its capture. */
static bool
within_future(const SjTaskInput *input, SjTime event_time, SjTime clock)
{
	return input->max_future < 0 ||
		event_time <= sj_time_add(clock, input->max_future);
}

/* T1: a finite time is seen before any filter. */
void
sj_feed_see_time(SjTask *task, SjBatch *batch, SjSide side,
				 SjImageLayout *layout, MinimalTuple image,
				 TimestampTz captured_at, bool inserted)
{
	SjTaskInput *input = &task->input[side];
	SjTime		event_time;
	SjTime		clock;
	bool		moves;

	sj_engine_woke(task->engine, side);
	task->woke[side] = true;
	sj_timing_note_row(task, batch, side, captured_at);
	if (!sj_input_event_time(input, layout, image, &event_time) ||
		!SJ_TIME_IS_FINITE(event_time))
		return;
	clock = sj_timing_clock(input, captured_at);
	moves = within_future(input, event_time, clock);
	sj_engine_saw(task->engine, side, event_time, moves);
	if (!moves)
		batch->position.totals.input[side].rows_future++;
	if (inserted)
		sj_timing_note(task, batch, side, event_time, clock);
}

/* Takes in an event, or rejects it as late. */
static void
insert_event(SjTask *task, SjBatch *batch, SjEvent *event)
{
	SjReason	reason = task->def->late_rows == SJ_LATE_DROP ?
	SJ_REASON_DROPPED : SJ_REASON_LATE;

	switch (sj_engine_insert(task->engine, event))
	{
		case SJ_INSERTED:
			if (!event->has_key)
				batch->position.totals.input[event->side].rows_null_key++;
			break;
		case SJ_LATE:
			reject_insertion(task, batch, event, event->event_time, reason,
							 event->tuple, NULL);
			break;
		case SJ_NO_MEMORY:
			sj_no_memory(task);
	}
}

/*
 * Takes the new image of an inserted row, for one side.  May throw, before
 * anything has been changed that a second call would change again.
 */
static void
feed_image(SjTask *task, SjBatch *batch, SjSide side,
		   SjImageLayout *layout, MinimalTuple image, Oid source,
		   int64 seq, TimestampTz captured_at)
{
	SjTaskInput *input = &task->input[side];
	SjEvent		event;
	SjTime		event_time = SJ_TIME_MIN;

	event.side = side;
	event.seq = seq;
	event.version = sj_version_number(task, seq);
	event.source = source;
	/* a rebuild counts nothing */
	if (sj_failed_before(task, SJ_OP_INSERT, side, seq))
	{
		sj_feed_see_time(task, batch, side, layout, image, captured_at, true);
		return;
	}
	switch (sj_input_event(input, layout, image, &event))
	{
		case SJ_IMAGE_EVENT:
			insert_event(task, batch, &event);
			break;
		case SJ_IMAGE_FILTERED:
			batch->position.totals.input[side].rows_filtered++;
			break;
		case SJ_IMAGE_NULL_TIME:
			reject_insertion(task, batch, &event, event_time,
							 SJ_REASON_NULL_EVENT_TIME,
							 sj_input_tuple(input, layout, image), NULL);
			break;
		case SJ_IMAGE_INFINITE:
			(void) sj_input_event_time(input, layout, image, &event_time);
			reject_insertion(task, batch, &event, event_time,
							 SJ_REASON_INFINITE,
							 sj_input_tuple(input, layout, image), NULL);
			break;
		case SJ_IMAGE_FAILED:
			Assert(false);
			break;
	}
	sj_feed_see_time(task, batch, side, layout, image, captured_at, true);
	batch->position.totals.input[side].rows_in++;
	batch->rows++;
}

/* An image by itself, for sj_attempt(). */
typedef struct ImageFeed
{
	SjTask	   *task;
	SjBatch    *batch;
	SjSide		side;
	SjImageLayout *layout;
	MinimalTuple image;
	Oid			source;
	int64		seq;
	TimestampTz captured_at;
} ImageFeed;

static void
feed_image_action(void *arg)
{
	ImageFeed  *f = arg;

	feed_image(f->task, f->batch, f->side, f->layout, f->image, f->source,
			   f->seq, f->captured_at);
}

/* The same with errors of pairs caught, too; NULL, or the row's error. */
static ErrorData *
feed_image_carefully(ImageFeed *f)
{
	ErrorData  *error;
	int			nlate = list_length(f->batch->late_rows);

	f->task->careful = true;
	PG_TRY();
	{
		error = sj_attempt(feed_image_action, f, sj_error_is_of_expression);
	}
	PG_FINALLY();
	{
		f->task->careful = false;
	}
	PG_END_TRY();

	/* the pairs of a rejected row are not accepted either */
	if (error != NULL)
		f->batch->late_rows = list_truncate(f->batch->late_rows, nlate);
	return error;
}

/*
 * Takes an inserted image, as feed_image() does, with errors that are the
 * row's or its pairs' caught and recorded.
 */
void
sj_feed_image_safely(SjTask *task, SjBatch *batch, SjSide side,
					 SjImageLayout *layout, MinimalTuple image, Oid source,
					 int64 seq, TimestampTz captured_at)
{
	ImageFeed	f = {task, batch, side, layout, image, source, seq, captured_at};
	ErrorData  *error = sj_attempt(feed_image_action, &f,
								  sj_error_is_of_expression);
	SjEvent		event = {.side = side,.seq = seq,.source = source};

	if (error == NULL)
		return;
	error = feed_image_carefully(&f);
	if (error == NULL)
		return;
	if (task->replaying)
		ReThrowError(error);	/* it did not fail then */
	sj_feed_see_time(task, batch, side, layout, image, captured_at, true);
	reject_insertion(task, batch, &event, SJ_TIME_MIN, SJ_REASON_ERROR,
					 sj_input_tuple(&task->input[side], layout, image),
					 error);
	batch->position.totals.input[side].rows_in++;
	batch->rows++;
}

/* -- chunks --------------------------------------------------------------- */

SjLogRecord *
sj_feed_record(const SjFeed *feed)
{
	return (SjLogRecord *) feed->space;
}

int64
sj_feed_seq(const SjFeed *feed)
{
	return feed->chunk.seq + feed->record;
}

/* An insertion, or a control record. */
static void
take_insertion(SjFeed *feed, SjSide side)
{
	SjLogRecord *record = sj_feed_record(feed);

	if (sj_feed_control(feed, side))
		return;
	if (record->op != SJ_OP_INSERT)
		elog(ERROR, "unknown record \"%c\" in the event log", record->op);
	feed->concerned = true;
	feed_image(feed->task, feed->batch, side, feed->layout[side],
			   SJ_RECORD_IMAGE(record), feed->chunk.source,
			   sj_feed_seq(feed), feed->chunk.captured_at);
}

static void
take_insertion_safely(SjFeed *feed, SjSide side)
{
	SjLogRecord *record = sj_feed_record(feed);

	if (record->op == SJ_OP_INSERT)
		sj_feed_image_safely(feed->task, feed->batch, side,
							 feed->layout[side], SJ_RECORD_IMAGE(record),
							 feed->chunk.source, sj_feed_seq(feed),
							 feed->chunk.captured_at);
	else
		take_insertion(feed, side);
}

/* The place after this one; false at the end of the chunk. */
static bool
advance(SjFeed *feed)
{
	if (feed->side == SJ_LEFT)
		feed->side = SJ_RIGHT;
	else
	{
		feed->space += sj_feed_record(feed)->size;
		feed->record++;
		feed->side = SJ_LEFT;
	}
	return feed->record < feed->chunk.n;
}

/* Takes records from the place at hand to the end of the chunk. */
static void
feed_rest(void *arg)
{
	SjFeed	   *feed = arg;

	do
	{
		if (feed->layout[feed->side] != NULL)
			feed->take(feed, feed->side);
	} while (advance(feed));
}

static void
feed_chunk(SjFeed *feed)
{
	feed->space = feed->chunk.data;
	feed->record = 0;
	feed->side = SJ_LEFT;

	/* after an error the record at fault is at hand */
	while (sj_attempt(feed_rest, feed, sj_error_is_of_expression) != NULL)
	{
		feed->take_safely(feed, feed->side);
		if (!advance(feed))
			break;
	}
}

/* Is the chunk of a stream of the join?  Sets the layouts that it has. */
static bool
find_layouts(SjFeed *feed, int32 layout_id)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		feed->layout[side] = sj_input_layout(&feed->task->input[side],
											 layout_id);
	return feed->layout[SJ_LEFT] != NULL || feed->layout[SJ_RIGHT] != NULL;
}

void
sj_feed_chunks(SjFeed *feed, SjTickReader *reader, const SjLogTxn *txn,
			   bool changes_only)
{
	MemoryContext context;

	context = AllocSetContextCreate(CurrentMemoryContext, "sjoin chunk",
									ALLOCSET_DEFAULT_SIZES);
	feed->captured_at = 0;
	for (int i = txn->first_chunk; i < txn->first_chunk + txn->nchunks; i++)
	{
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		if (!find_layouts(feed, sj_log_chunk_layout(reader, i)) ||
			(changes_only && !sj_log_chunk_changes(reader, i)))
			continue;
		MemoryContextReset(context);
		old = MemoryContextSwitchTo(context);
		sj_log_read_chunk(reader, i, &feed->chunk);
		feed_chunk(feed);
		feed->captured_at = Max(feed->captured_at, feed->chunk.captured_at);
		MemoryContextSwitchTo(old);
	}
	MemoryContextDelete(context);
}

/* -- transactions --------------------------------------------------------- */

static void
remember_captured_at(SjTask *task, SjBatch *batch, TimestampTz captured_at)
{
	if (task->replaying)
		return;
	if (batch->ntxns == batch->allocated)
	{
		batch->allocated = Max(64, batch->allocated * 2);
		if (batch->captured_at == NULL)
			batch->captured_at =
				MemoryContextAlloc(task->context,
								   sizeof(TimestampTz) * batch->allocated);
		else
			batch->captured_at = repalloc(batch->captured_at,
										  sizeof(TimestampTz) * batch->allocated);
	}
	batch->captured_at[batch->ntxns++] = captured_at;
}

/* Has the transaction changed or removed rows of the join's streams? */
static bool
has_changes(SjFeed *feed, const SjTickReader *reader, const SjLogTxn *txn)
{
	for (int i = txn->first_chunk;
		 txn->changes && i < txn->first_chunk + txn->nchunks; i++)
		if (sj_log_chunk_changes(reader, i) &&
			find_layouts(feed, sj_log_chunk_layout(reader, i)))
			return true;
	return false;
}

/* One step: all chunks of a transaction that are of this join's streams. */
static void
feed_txn(SjTask *task, SjBatch *batch, SjTickReader *reader,
		 const SjLogTxn *txn)
{
	SjFeed		feed = {.task = task,.batch = batch,
		.take = take_insertion,.take_safely = take_insertion_safely};

	sj_replay_feed(task, batch, reader, txn);
	if (has_changes(&feed, reader, txn))
		sj_feed_changes(&feed, reader, txn);
	else
		sj_feed_chunks(&feed, reader, txn, false);
	if (!feed.concerned && batch->replay == NULL)
		return;
	sj_check_late_rows(task, batch);
	sj_feed_end_settings(task);
	sj_engine_end_step(task->engine);
	remember_captured_at(task, batch, feed.captured_at);
	batch->consumed = true;
}

/*
 * Feeds the transactions of 'tick' that the batch's position has not consumed,
 * at most 'stop_after_txns' of the tick (-1: all), until the batch has
 * 'max_rows'.  Moves the batch's position; true when the tick is consumed.
 */
bool
sj_feed_tick(SjTask *task, SjBatch *batch, const SjTick *before,
			 const SjTick *tick, int stop_after_txns, int64 max_rows)
{
	SjTickReader *reader = sj_log_open_tick(before, tick);
	SjPosition *position = &batch->position;
	int			end = stop_after_txns < 0 ? reader->ntxns :
	Min(stop_after_txns, reader->ntxns);

	while (position->txns < end)
	{
		SjLogTxn   *txn = &reader->txns[position->txns];

		if ((batch->rows > 0 && batch->rows + txn->nrecords > max_rows) ||
			sj_must_stop_before_late_rows(task, batch) ||
			sj_must_stop_for_replay(task, batch, reader, txn))
			break;
		feed_txn(task, batch, reader, txn);
		task->base_chunks += txn->nchunks;
		position->txns++;
	}
	end = reader->ntxns;
	sj_log_close_tick(reader);
	if (position->txns < end)
		return false;
	position->tick = tick->number;
	position->txns = 0;
	return true;
}
