/*-------------------------------------------------------------------------
 *
 * backfill.c
 *	  A join's first position: the rows that its tables have already (A13).
 *
 * The history of a join is what its tables held at its creation (window.c);
 * everything captured since is consumed from the log, so no row is in neither
 * or both.  Both inputs are read under one snapshot, in order of event time,
 * and merged, so nothing of the history is late.  Results are written chunk by
 * chunk, what is live at the end is carried into the log, and one commit makes
 * it all durable with the position; until then a failure starts it again.
 *
 * IDENTIFICATION
 *	  src/worker/backfill.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heaptoast.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "emit/result_empty.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "log/numbers.h"
#include "miscadmin.h"
#include "store/checkpoint.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "worker/feed.h"
#include "worker/window.h"
#include "worker/worker.h"

/* Rows that are one step. */
#define ROWS_PER_STEP	1000

/* Rows whose results are written at once. */
#define ROWS_PER_WRITE	20000

/* One table being read. */
typedef struct History
{
	Portal		portal;
	SPITupleTable *rows;		/* fetched; NULL: none yet */
	uint64		nrows;
	uint64		next;
	bool		exhausted;
	SjImageLayout layout;		/* the columns in the input's order */
	int			source_attno;	/* of the partition; 0: not partitioned */
} History;

/* Are there tables below the stream? */
static bool
has_partitions(Oid relid)
{
	return get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE ||
		has_subclass(relid);
}

/*
 * SELECT the needed columns and the partition FROM the table ORDER BY its event
 * time.  Of versions of the same event time the one that lies behind the other
 * is taken for the newer one.
 */
static char *
history_query(const SjTask *task, SjSide side)
{
	const SjPlanInput *input = &task->plan->input[side];
	Oid			relid = task->query->input[side].relid;
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoString(&buf, "SELECT ");
	for (int i = 0; i < input->ncolumns; i++)
		appendStringInfo(&buf, "%s%s", i > 0 ? ", " : "",
						 quote_identifier(get_attname(relid, input->columns[i],
													  false)));
	if (has_partitions(relid))
		appendStringInfoString(&buf, ", tableoid");
	appendStringInfo(&buf, " FROM %s ORDER BY %s%s",
					 quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
												get_rel_name(relid)),
					 quote_identifier(get_attname(relid,
												  task->query->input[side].time_attno,
												  false)),
					 input->nupsert > 0 ? ", ctid" : "");
	return buf.data;
}

/* The rows of a history are images with the input's columns, in that order. */
static void
set_history_layout(SjTask *task, SjSide side, History *history)
{
	const SjPlanInput *input = &task->plan->input[side];
	bool		partitioned = has_partitions(task->input[side].relid);
	TupleDesc	desc = CreateTemplateTupleDesc(input->ncolumns + partitioned);

	for (int i = 0; i < input->ncolumns; i++)
		TupleDescCopyEntry(desc, i + 1, input->desc, i + 1);
	if (partitioned)
	{
		history->source_attno = input->ncolumns + 1;
		TupleDescInitEntry(desc, history->source_attno, "tableoid", OIDOID,
						   -1, 0);
	}
	history->layout.ours = true;
	history->layout.same = input->ncomputed == 0 && !partitioned;
	history->layout.slot = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	history->layout.place = palloc(sizeof(int) * input->ncolumns);
	for (int i = 0; i < input->ncolumns; i++)
		history->layout.place[i] = i;
}

static void
open_history(SjTask *task, SjSide side, History *history)
{
	SPIPlanPtr	plan = SPI_prepare(history_query(task, side), 0, NULL);

	if (plan == NULL)
		elog(ERROR, "could not read the history of an input");
	memset(history, 0, sizeof(History));
	/* read-only: under the active snapshot */
	history->portal = SPI_cursor_open(NULL, plan, NULL, NULL, true);
	set_history_layout(task, side, history);
}

/* The next row, or NULL at the end. */
static HeapTuple
peek_history(History *history)
{
	if (history->next < history->nrows)
		return history->rows->vals[history->next];
	if (history->exhausted)
		return NULL;
	if (history->rows != NULL)
		SPI_freetuptable(history->rows);
	SPI_cursor_fetch(history->portal, true, ROWS_PER_STEP);
	history->rows = SPI_tuptable;
	history->nrows = SPI_processed;
	history->next = 0;
	history->exhausted = SPI_processed == 0;
	return history->exhausted ? NULL : history->rows->vals[0];
}

/* Event time of a row, for merging; NULLs sort last, as in the query. */
static SjTime
history_time(const SjTask *task, SjSide side, History *history)
{
	HeapTuple	row = peek_history(history);
	bool		isnull;
	Datum		value;

	if (row == NULL)
		return SJ_TIME_MAX;
	value = heap_getattr(row, task->plan->input[side].time_index + 1,
						 history->rows->tupdesc, &isnull);
	return isnull ? SJ_TIME_MAX : DatumGetInt64(value);
}

/* Where the next row comes from: a side's table, or what has gone since. */
typedef enum Source
{
	FROM_LEFT,
	FROM_RIGHT,
	FROM_BYGONES,
	FROM_NOWHERE
} Source;

/* The source whose next row is the oldest. */
static Source
next_source(const SjTask *task, History *histories, const SjWindow *window,
			int next_bygone)
{
	Source		source = FROM_NOWHERE;
	SjTime		oldest = SJ_TIME_MAX;

	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		SjTime		event_time = history_time(task, side, &histories[side]);

		if (peek_history(&histories[side]) != NULL &&
			(source == FROM_NOWHERE || event_time < oldest))
		{
			source = side == SJ_LEFT ? FROM_LEFT : FROM_RIGHT;
			oldest = event_time;
		}
	}
	if (next_bygone < window->nbygones &&
		(source == FROM_NOWHERE ||
		 window->bygones[next_bygone].event_time < oldest))
		source = FROM_BYGONES;
	return source;
}

/* The partition that a row is in. */
static Oid
source_of(const SjTaskInput *input, const History *history, HeapTuple row)
{
	bool		isnull;
	Oid			relid;

	if (history->source_attno == 0)
		return InvalidOid;
	relid = DatumGetObjectId(heap_getattr(row, history->source_attno,
										  history->rows->tupdesc, &isnull));
	return relid == input->relid ? InvalidOid : relid;
}

/* Feeds the next row of a table, unless it came after the join's creation. */
static void
feed_row(SjTask *task, SjBatch *batch, SjSide side, History *history,
		 SjWindow *window, int64 seq, TimestampTz now)
{
	HeapTuple	row = history->rows->vals[history->next++];
	SjTaskInput *input = &task->input[side];
	Oid			source = source_of(input, history, row);
	MinimalTuple image;

	/* values out of line are the table's, which may let them go */
	if (HeapTupleHasExternal(row))
		row = toast_flatten_tuple(row, history->rows->tupdesc);
	image = minimal_tuple_from_heap_tuple(row);
	if (!sj_window_takes(window, input, source,
						 sj_input_tuple(input, &history->layout, image)))
		sj_feed_image_safely(task, batch, side, &history->layout, image,
							 source, seq, now);
	pfree(image);
}

/* A bygone is a tuple of the input: an image without the partition. */
static void
feed_bygone(SjTask *task, SjBatch *batch, History *history,
			const SjBygone *bygone, int64 seq, TimestampTz now)
{
	SjEdge		edge = {.side = bygone->side,.source = bygone->source,
		.new = bygone->image,.seq = seq};

	sj_change_apply_safely(task, batch, &edge);
	sj_feed_see_time(task, batch, bygone->side, &history->layout,
					 bygone->image, now, true);
	batch->position.totals.input[bygone->side].rows_in++;
	batch->rows++;
}

/* Writes what has come up and lets go what has expired. */
static void
write_chunk(SjTask *task, SjBatch *batch)
{
	MemoryContext old = MemoryContextSwitchTo(batch->context);
	SjWritten	written;
	const SjChange *changes;
	int64		n;

	sj_clock_to_log(sj_engine_clock(task->engine), &batch->position.clock);
	sj_task_count(task, &batch->position.totals);
	changes = sj_engine_changes(task->engine, &n);
	sj_result_write(task->writer, changes, n, true,
					batch->position.clock.watermark,
					&batch->position.result_seq, &written);
	batch->position.totals.rows_out += written.inserted;
	batch->position.totals.rows_retracted += written.retracted;
	sj_late_rows_store(task->def->join_id, task->plan,
					   sj_versions_note(task,
										list_concat(batch->late_rows,
													written.late_rows)));
	MemoryContextSwitchTo(old);

	MemoryContextReset(batch->context);
	batch->late_rows = NIL;
	batch->rows = 0;
	sj_engine_end_batch(task->engine);
	sj_task_publish(task);
}

static void
feed_histories(SjTask *task, SjBatch *batch, SjWindow *window)
{
	History		histories[2];
	Source		source;
	TimestampTz now = sj_now();
	int64		nrows = 0;
	int64		seq = 0;
	int			next_bygone = 0;

	SPI_connect();
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		open_history(task, side, &histories[side]);
	while ((source = next_source(task, histories, window,
								 next_bygone)) != FROM_NOWHERE)
	{
		CHECK_FOR_INTERRUPTS();
		if (nrows % ROWS_PER_STEP == 0)
			seq = sj_numbers_take(ROWS_PER_STEP);
		if (source == FROM_BYGONES)
		{
			SjBygone   *bygone = &window->bygones[next_bygone++];

			feed_bygone(task, batch, &histories[bygone->side], bygone, seq,
						now);
		}
		else
		{
			SjSide		side = source == FROM_LEFT ? SJ_LEFT : SJ_RIGHT;

			feed_row(task, batch, side, &histories[side], window, seq, now);
		}
		seq++;
		if (++nrows % ROWS_PER_STEP == 0)
			sj_engine_end_step(task->engine);
		if (batch->rows >= ROWS_PER_WRITE)
			write_chunk(task, batch);
	}
	sj_engine_end_step(task->engine);
	write_chunk(task, batch);
	SPI_finish();
}

/* Carries the live rows into the log and makes the first position. */
static void
store_first_position(SjTask *task, SjBatch *batch, int64 tick_number,
					 const SjLogSettings *settings)
{
	SjPosition *position = &batch->position;

	sj_clock_to_log(sj_engine_clock(task->engine), &position->clock);
	position->tick = position->base_tick = tick_number;
	position->txns = position->base_txns = 0;
	position->base.start_tick = tick_number;
	position->base.log_mark = sj_worker.log_mark;
	position->base.clock = position->clock;
	position->base.settings = *settings;
	position->settings = *settings;
	position->base_xid = sj_checkpoint_write(task->def->join_id, task->engine);
	sj_position_store(position);
}

static void
start_engine(SjTask *task, SjBatch *batch, const SjLogSettings *settings)
{
	SjClock		clock = {{SJ_TIME_MIN, SJ_TIME_MIN},
	{SJ_TIME_MIN, SJ_TIME_MIN}, SJ_TIME_MIN, SJ_TIME_MIN};

	sj_task_apply_settings(task, settings);
	sj_task_create_state(task, &clock);
	memset(&batch->position, 0, sizeof(SjPosition));
	batch->position.join_id = task->def->join_id;
	batch->position.result_seq = task->def->result_seq;
}

/* The newest tick that was not taken later than the join was created. */
static int64
start_tick(const SjTask *task, const SjTick *latest)
{
	SjTick	   *start = sj_tick_deserialize(task->def->start, 0);
	int64		number = latest->number;

	while (number > 0)
	{
		SjTick	   *tick = sj_tick_load(number);

		if (tick == NULL || !sj_tick_is_later(tick, start))
			break;
		number--;
	}
	return number;
}

/*
 * A result that has rows has been written from a position; without one nobody
 * knows which rows are in it.
 */
static void
check_result_is_empty(SjTask *task)
{
	if (!sj_result_is_empty(task->def->result))
		sj_task_stop(task, "has rows in its result but has lost its position");
}

static void
read_histories(SjTask *task, SjBatch *batch)
{
	SjWindow	window;
	SjSandbox	sandbox;

	sj_join_slot_set_state(task->slot, SJ_JOIN_BACKFILLING);
	sj_sandbox_enter(&sandbox, task->owner, task->def->time_zone);
	sj_batch_constraints_immediate();
	check_result_is_empty(task);
	sj_window_read(task, &window);
	task->reading_history = true;
	feed_histories(task, batch, &window);
	task->reading_history = false;
	sj_sandbox_leave(&sandbox);
}

/*
 * Makes the first position, in the current transaction and under its active
 * snapshot.  Caller commits, and then tells the task.
 */
void
sj_task_start(SjTask *task, const SjTick *latest)
{
	SjBatch    *batch = &task->batch;
	SjLogSettings settings;

	sj_task_settings(task, &settings);
	start_engine(task, batch, &settings);
	if (task->def->with_data)
		read_histories(task, batch);
	store_first_position(task, batch, start_tick(task, latest), &settings);
	sj_notify_written(task, &batch->position, batch->position.totals.rows_out,
					  batch->position.totals.rows_retracted);
}
