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
#include "worker/task.h"

/* A place in a chunk: a record, and for which side it is taken next. */
typedef struct Place
{
	char	   *space;
	int			record;
	SjSide		side;
} Place;

typedef struct Feed
{
	SjTask	   *task;
	SjBatch    *batch;
	SjChunk    *chunk;
	Place		next;
	SjImageLayout *layout[2];	/* of the chunk, per side; NULL: not its table */
} Feed;

void
sj_no_memory(SjTask *task)
{
	task->out_of_memory = true;
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("the state of the join does not fit into shared memory"),
			 errdetail("The state has %u MB of the %u MB of sjoin.state_memory; the rest is in use, or is the share of other joins.",
					   task->slot->pages / (1024 * 1024 / SJ_PAGE_SIZE),
					   sj_shared->npages / (1024 * 1024 / SJ_PAGE_SIZE)),
			 errhint("Raise sjoin.state_memory and restart the server, or give the join tighter time bounds, a shorter ttl or less allowed_lateness.")));
}

/* Remembers a rejected record; images are copied. */
static void
reject(SjTask *task, SjBatch *batch, SjSide side, char op, SjReason reason,
	   int64 seq, SjTime event_time, MinimalTuple image,
	   MinimalTuple old_image, const ErrorData *error)
{
	MemoryContext old;
	SjLateRow  *late;

	if (task->replaying)
		return;
	old = MemoryContextSwitchTo(batch->context);
	late = palloc0(sizeof(SjLateRow));
	late->side = side;
	late->op = op;
	late->reason = reason;
	late->seq = seq;
	late->event_time = event_time;
	late->watermark = sj_engine_clock(task->engine)->watermark;
	if (error != NULL)
	{
		late->sqlstate = error->sqlerrcode;
		late->message = pstrdup(error->message);
	}
	if (image != NULL)
		late->image = heap_copy_minimal_tuple(image);
	if (old_image != NULL)
		late->old_image = heap_copy_minimal_tuple(old_image);
	batch->late_rows = lappend(batch->late_rows, late);
	MemoryContextSwitchTo(old);
	batch->position.totals.input[side].rows_late++;
}

/* Does the row move the watermark (T8)? */
static bool
within_future(const SjTaskInput *input, SjTime event_time,
			  TimestampTz captured_at)
{
	return input->max_future < 0 ||
		event_time <= sj_time_add(captured_at, input->max_future);
}

/* T1: a finite time is seen before any filter. */
static void
see_event_time(SjTask *task, SjBatch *batch, SjSide side,
			   SjImageLayout *layout, MinimalTuple image,
			   TimestampTz captured_at)
{
	SjTaskInput *input = &task->input[side];
	SjTime		event_time;
	bool		moves;

	if (!sj_input_event_time(input, layout, image, &event_time) ||
		!SJ_TIME_IS_FINITE(event_time))
		return;
	moves = within_future(input, event_time, captured_at);
	sj_engine_saw(task->engine, side, event_time, moves);
	if (!moves)
		batch->position.totals.input[side].rows_future++;
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
			reject(task, batch, event->side, SJ_OP_INSERT, reason, event->seq,
				   event->event_time, event->tuple, NULL, NULL);
			break;
		case SJ_NO_MEMORY:
			sj_no_memory(task);
	}
}

/*
 * Takes the new image of an inserted row, for one side.  May throw, before
 * anything has been changed that a second call would change again.
 */
void
sj_feed_image(SjTask *task, SjBatch *batch, SjSide side,
			  SjImageLayout *layout, MinimalTuple image, int64 seq,
			  TimestampTz captured_at)
{
	SjTaskInput *input = &task->input[side];
	SjEvent		event;
	SjTime		event_time = SJ_TIME_MIN;

	event.seq = seq;
	if (sj_failed_before(task, SJ_OP_INSERT, side, seq, 0))
	{
		see_event_time(task, batch, side, layout, image, captured_at);
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
			reject(task, batch, side, SJ_OP_INSERT, SJ_REASON_NULL_EVENT_TIME,
				   seq, event_time, sj_input_tuple(input, layout, image),
				   NULL, NULL);
			break;
		case SJ_IMAGE_INFINITE:
			(void) sj_input_event_time(input, layout, image, &event_time);
			reject(task, batch, side, SJ_OP_INSERT, SJ_REASON_INFINITE, seq,
				   event_time, sj_input_tuple(input, layout, image),
				   NULL, NULL);
			break;
	}
	see_event_time(task, batch, side, layout, image, captured_at);
	batch->position.totals.input[side].rows_in++;
	batch->rows++;
}

/* An UPDATE or DELETE: recorded, not followed. */
static void
reject_change(Feed *feed, SjSide side, SjLogRecord *record, int64 seq)
{
	SjTask	   *task = feed->task;
	SjTaskInput *input = &task->input[side];
	SjImageLayout *layout = feed->layout[side];
	MinimalTuple image = NULL;
	MinimalTuple old_image = record->op == SJ_OP_UPDATE ?
	SJ_RECORD_OLD_IMAGE(record) : SJ_RECORD_IMAGE(record);
	SjTime		event_time = SJ_TIME_MIN;

	(void) sj_input_event_time(input, layout, old_image, &event_time);
	if (record->op == SJ_OP_UPDATE)
	{
		image = heap_copy_minimal_tuple(sj_input_tuple(input, layout,
													   SJ_RECORD_IMAGE(record)));
		see_event_time(task, feed->batch, side, layout,
					   SJ_RECORD_IMAGE(record), feed->chunk->captured_at);
	}
	reject(task, feed->batch, side, record->op, SJ_REASON_EXPIRED_CHANGE, seq,
		   event_time, image, sj_input_tuple(input, layout, old_image), NULL);
	if (image != NULL)
		pfree(image);
	feed->batch->position.totals.input[side].rows_in++;
	feed->batch->rows++;
}

/* One record, for one side. */
static void
feed_record(Feed *feed, SjSide side)
{
	SjTask	   *task = feed->task;
	SjLogRecord *record = (SjLogRecord *) feed->next.space;
	int64		seq = feed->chunk->seq + feed->next.record;

	switch (record->op)
	{
		case SJ_OP_INSERT:
			sj_feed_image(task, feed->batch, side, feed->layout[side],
						  SJ_RECORD_IMAGE(record), seq,
						  feed->chunk->captured_at);
			break;
		case SJ_OP_UPDATE:
		case SJ_OP_DELETE:
			reject_change(feed, side, record, seq);
			break;
		case SJ_OP_TRUNCATE:
			reject(task, feed->batch, side, record->op,
				   SJ_REASON_EXPIRED_CHANGE, seq, SJ_TIME_MIN, NULL, NULL,
				   NULL);
			break;
		case 'W':
			sj_engine_advance(task->engine, side, SJ_RECORD_WATERMARK(record));
			break;
		default:
			elog(ERROR, "unknown record \"%c\" in the event log", record->op);
	}
}

/* The place after this one; false at the end of the chunk. */
static bool
advance(Feed *feed)
{
	if (feed->next.side == SJ_LEFT)
		feed->next.side = SJ_RIGHT;
	else
	{
		feed->next.space += ((SjLogRecord *) feed->next.space)->size;
		feed->next.record++;
		feed->next.side = SJ_LEFT;
	}
	return feed->next.record < feed->chunk->n;
}

/* An image by itself, for sj_attempt(). */
typedef struct ImageFeed
{
	SjTask	   *task;
	SjBatch    *batch;
	SjSide		side;
	SjImageLayout *layout;
	MinimalTuple image;
	int64		seq;
	TimestampTz captured_at;
} ImageFeed;

static void
feed_image_action(void *arg)
{
	ImageFeed  *f = arg;

	sj_feed_image(f->task, f->batch, f->side, f->layout, f->image, f->seq,
				  f->captured_at);
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
 * Takes an inserted image, as sj_feed_image() does, with errors that are the
 * row's or its pairs' caught and recorded.
 */
void
sj_feed_image_safely(SjTask *task, SjBatch *batch, SjSide side,
					 SjImageLayout *layout, MinimalTuple image, int64 seq,
					 TimestampTz captured_at)
{
	ImageFeed	f = {task, batch, side, layout, image, seq, captured_at};
	ErrorData  *error = sj_attempt(feed_image_action, &f,
								  sj_error_is_of_expression);

	if (error == NULL)
		return;
	error = feed_image_carefully(&f);
	if (error == NULL)
		return;
	if (task->replaying)
		ReThrowError(error);	/* it did not fail then */
	see_event_time(task, batch, side, layout, image, captured_at);
	reject(task, batch, side, SJ_OP_INSERT, SJ_REASON_ERROR, seq, SJ_TIME_MIN,
		   sj_input_tuple(&task->input[side], layout, image), NULL, error);
	batch->position.totals.input[side].rows_in++;
	batch->rows++;
}

/* Takes the record at hand with its errors caught. */
static void
feed_record_safely(Feed *feed)
{
	SjLogRecord *record = (SjLogRecord *) feed->next.space;
	SjSide		side = feed->next.side;

	if (record->op == SJ_OP_INSERT)
		sj_feed_image_safely(feed->task, feed->batch, side, feed->layout[side],
							 SJ_RECORD_IMAGE(record),
							 feed->chunk->seq + feed->next.record,
							 feed->chunk->captured_at);
	else
		feed_record(feed, side);
}

/* Takes records from the place at hand to the end of the chunk. */
static void
feed_rest(void *arg)
{
	Feed	   *feed = arg;

	do
	{
		if (feed->layout[feed->next.side] != NULL)
			feed_record(feed, feed->next.side);
	} while (advance(feed));
}

static void
feed_chunk(SjTask *task, SjBatch *batch, SjChunk *chunk,
		   SjImageLayout *left, SjImageLayout *right)
{
	Feed		feed = {.task = task,.batch = batch,.chunk = chunk,
		.next = {.space = chunk->data,.record = 0,.side = SJ_LEFT},
		.layout = {left, right}};

	/* after an error the record at fault is at hand */
	while (sj_attempt(feed_rest, &feed, sj_error_is_of_expression) != NULL)
	{
		feed_record_safely(&feed);
		if (!advance(&feed))
			break;
	}
}

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

/* One step: all chunks of a transaction that are of this join's streams. */
static void
feed_txn(SjTask *task, SjBatch *batch, SjTickReader *reader,
		 const SjLogTxn *txn, MemoryContext chunk_context)
{
	TimestampTz captured_at = 0;

	for (int i = txn->first_chunk; i < txn->first_chunk + txn->nchunks; i++)
	{
		int32		layout_id = sj_log_chunk_layout(reader, i);
		SjImageLayout *left = sj_input_layout(&task->input[SJ_LEFT], layout_id);
		SjImageLayout *right = sj_input_layout(&task->input[SJ_RIGHT], layout_id);
		MemoryContext old;
		SjChunk		chunk;

		CHECK_FOR_INTERRUPTS();
		if (left == NULL && right == NULL)
			continue;
		MemoryContextReset(chunk_context);
		old = MemoryContextSwitchTo(chunk_context);
		sj_log_read_chunk(reader, i, &chunk);
		feed_chunk(task, batch, &chunk, left, right);
		captured_at = Max(captured_at, chunk.captured_at);
		MemoryContextSwitchTo(old);
	}
	if (captured_at == 0)
		return;
	sj_engine_end_step(task->engine);
	remember_captured_at(task, batch, captured_at);
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
	MemoryContext chunk_context;
	int			end = stop_after_txns < 0 ? reader->ntxns :
	Min(stop_after_txns, reader->ntxns);

	chunk_context = AllocSetContextCreate(CurrentMemoryContext, "sjoin chunk",
										  ALLOCSET_DEFAULT_SIZES);
	while (position->txns < end)
	{
		SjLogTxn   *txn = &reader->txns[position->txns];

		if (batch->rows > 0 && batch->rows + txn->nrecords > max_rows)
			break;
		feed_txn(task, batch, reader, txn, chunk_context);
		task->base_chunks += txn->nchunks;
		position->txns++;
	}
	MemoryContextDelete(chunk_context);
	end = reader->ntxns;
	sj_log_close_tick(reader);
	if (position->txns < end)
		return false;
	position->tick = tick->number;
	position->txns = 0;
	return true;
}
