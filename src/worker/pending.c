/*-------------------------------------------------------------------------
 *
 * pending.c
 *	  What a snapshot sees of the streams and a join has not consumed.
 *
 * IDENTIFICATION
 *	  src/worker/pending.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "log/event_log.h"
#include "miscadmin.h"
#include "worker/pending.h"
#include "worker/task.h"

typedef struct Pending
{
	int32		join_id;
	SjTaskInput input[2];
	Tuplestorestate *records;
	SjRejections *rejections;
} Pending;

static void
put_record(Pending *pending, SjTaskInput *input, SjImageLayout *layout,
		   SjLogRecord *record)
{
	MinimalTuple image = NULL;
	MinimalTuple old_image = NULL;

	if (record->op == SJ_OP_REPLAY &&
		SJ_RECORD_REPLAY(record)->join_id == pending->join_id)
		pending->rejections->replays = true;
	if (SJ_OP_IS_CONTROL(record->op))
		return;
	if (record->op == SJ_OP_INSERT || record->op == SJ_OP_UPDATE)
		image = heap_copy_minimal_tuple(sj_input_tuple(input, layout,
													   SJ_RECORD_IMAGE(record)));
	if (record->op == SJ_OP_DELETE)
		old_image = sj_input_tuple(input, layout, SJ_RECORD_IMAGE(record));
	if (record->op == SJ_OP_UPDATE)
		old_image = sj_input_tuple(input, layout, SJ_RECORD_OLD_IMAGE(record));
	sj_rejection_put(input->plan, input->side, record->op, image, old_image,
					 pending->records, pending->rejections);
}

static void
put_chunk(Pending *pending, SjTaskInput *input, SjImageLayout *layout,
		  const SjChunk *chunk)
{
	char	   *space;

	for (space = chunk->data; space < chunk->data + chunk->len;
		 space += ((SjLogRecord *) space)->size)
		put_record(pending, input, layout, (SjLogRecord *) space);
}

/* The transactions of a tick from 'first' on. */
static void
put_tick(Pending *pending, const SjTick *before, const SjTick *tick, int first)
{
	SjTickReader *reader = sj_log_open_tick(before, tick);

	for (int t = first; t < reader->ntxns; t++)
	{
		SjLogTxn   *txn = &reader->txns[t];

		for (int i = txn->first_chunk; i < txn->first_chunk + txn->nchunks; i++)
		{
			SjChunk		chunk;

			CHECK_FOR_INTERRUPTS();
			sj_log_read_chunk(reader, i, &chunk);
			for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
			{
				SjTaskInput *input = &pending->input[side];
				SjImageLayout *layout = sj_input_layout(input, chunk.layout);

				if (layout != NULL)
					put_chunk(pending, input, layout, &chunk);
			}
		}
	}
	sj_log_close_tick(reader);
}

void
sj_pending_put(const SjJoinDef *def, const SjJoinQuery *query,
			   const SjJoinPlan *plan, const SjPosition *position,
			   Snapshot snapshot, Tuplestorestate *records,
			   SjRejections *rejections)
{
	Pending		pending = {.join_id = def->join_id,.records = records,
	.rejections = rejections};
	SjTick	   *before = sj_consumed_tick(def, position, position->tick);
	SjTick	   *now = sj_tick_take(0, snapshot);

	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		sj_input_open(&pending.input[side], side, query, plan);
	if (position->txns > 0)
	{
		SjTick	   *next = sj_tick_load(position->tick + 1);

		if (next == NULL)
			elog(ERROR, "tick " INT64_FORMAT " is not in the log",
				 position->tick + 1);
		put_tick(&pending, before, next, position->txns);
		before = next;
	}
	put_tick(&pending, before, now, 0);
}
