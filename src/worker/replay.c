/*-------------------------------------------------------------------------
 *
 * replay.c
 *	  Late rows that a join takes in after all.
 *
 * replay_late() writes a control record that names late rows.  The worker looks
 * them up: what its table still has of them, as far as the join has consumed
 * the table, is taken in like any insertion, but for the late test, and a late
 * row of op R says so in the same commit.  The rest stays as it is.
 *
 * Most partners of such a row have left the state.  They are the accepted rows
 * of the other table, found as verify() finds them, less as many of each image
 * as are in state.  A padded row of a partner that was unmatched goes, whether
 * the engine knows the partner or not; one that it does not know is found in the
 * result by its values, and its pairs bear a new number for it in sjoin_id.
 *
 * What the tables have is not a function of the log: settled rows are deleted
 * without a trace.  So a replay has a batch of its own, which begins with a
 * result that is written, and ends with a state that is carried forward: no
 * rebuild ever consumes it again.
 *
 * IDENTIFICATION
 *	  src/worker/replay.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "emit/attempt.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "worker/feed.h"
#include "worker/replay.h"
#include "worker/replay_run.h"

/* A candidate that is a partner of the row at hand. */
typedef struct Met
{
	SjReplayCandidate *candidate;
	SjPairVerdict verdict;
} Met;

/* -- requests ------------------------------------------------------------- */

/* Does the transaction ask this join for a replay? */
static bool
asks_for_replay(const SjTask *task, const SjTickReader *reader,
				const SjLogTxn *txn)
{
	for (int i = txn->first_chunk; i < txn->first_chunk + txn->nchunks; i++)
		if (sj_log_chunk_source(reader, i) == task->def->result)
			return true;
	return false;
}

bool
sj_must_stop_for_replay(const SjTask *task, const SjBatch *batch,
						const SjTickReader *reader, const SjLogTxn *txn)
{
	return batch->replay != NULL ||
		(batch->consumed && !task->replaying &&
		 asks_for_replay(task, reader, txn));
}

static void
note_request(SjBatch *batch, const SjReplayRequest *request)
{
	SjReplay   *replay = batch->replay;
	MemoryContext old = MemoryContextSwitchTo(batch->context);

	if (replay == NULL)
	{
		replay = batch->replay = palloc0(sizeof(SjReplay));
		replay->allocated = Max(request->n, 16);
		replay->late_ids = palloc(sizeof(int64) * replay->allocated);
	}
	while (replay->n + request->n > replay->allocated)
	{
		replay->allocated *= 2;
		replay->late_ids = repalloc_huge(replay->late_ids,
										 sizeof(int64) * replay->allocated);
	}
	memcpy(replay->late_ids + replay->n, request->late_id,
		   sizeof(int64) * request->n);
	replay->n += request->n;
	MemoryContextSwitchTo(old);
}

/* The result may have been started over as another join since. */
static void
note_chunk(const SjTask *task, SjBatch *batch, const SjChunk *chunk)
{
	char	   *space;

	for (space = chunk->data; space < chunk->data + chunk->len;
		 space += ((SjLogRecord *) space)->size)
	{
		SjLogRecord *record = (SjLogRecord *) space;

		if (record->op == SJ_OP_REPLAY &&
			SJ_RECORD_REPLAY(record)->join_id == task->def->join_id)
			note_request(batch, SJ_RECORD_REPLAY(record));
	}
}

/* Notes what the transaction asks of this join. */
static void
read_requests(SjTask *task, SjBatch *batch, SjTickReader *reader,
			  const SjLogTxn *txn)
{
	for (int i = txn->first_chunk; i < txn->first_chunk + txn->nchunks; i++)
	{
		SjChunk		chunk;

		if (sj_log_chunk_source(reader, i) != task->def->result)
			continue;
		sj_log_read_chunk(reader, i, &chunk);
		note_chunk(task, batch, &chunk);
		pfree(chunk.data);
	}
	if (batch->replay != NULL && task->replaying)
		elog(ERROR, "a replay of late rows is in the log after the state that has it");
}

const SjChange *
sj_replay_changes(const SjReplay *replay, SjEngine *engine, int64 *n)
{
	const SjChange *changes = sj_engine_changes(engine, n);
	SjChange   *all;

	if (replay == NULL || replay->nchanges == 0)
		return changes;
	all = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(SjChange) *
								 (replay->nchanges + *n));
	memcpy(all, replay->changes, sizeof(SjChange) * replay->nchanges);
	if (*n > 0)
		memcpy(all + replay->nchanges, changes, sizeof(SjChange) * *n);
	*n += replay->nchanges;
	return all;
}

/* -- taking in ------------------------------------------------------------ */

static SjChange *
add_change(SjReplay *replay, MemoryContext context)
{
	if (replay->changes == NULL)
	{
		replay->changes_allocated = 64;
		replay->changes = MemoryContextAlloc(context, sizeof(SjChange) * 64);
	}
	else if (replay->nchanges == replay->changes_allocated)
	{
		replay->changes_allocated *= 2;
		replay->changes = repalloc_huge(replay->changes, sizeof(SjChange) *
										replay->changes_allocated);
	}
	return &replay->changes[replay->nchanges++];
}

/* All is one step, the only one of its batch. */
static void
note_change(SjReplayRun *run, const SjRow *left, const SjRow *right, int8 sign)
{
	SjChange   *change = add_change(run->replay, run->batch->context);

	memset(change, 0, sizeof(SjChange));
	change->left = left;
	change->right = right;
	change->sign = sign;
}

static SjPairVerdict
judge(SjReplayRun *run, const SjEvent *event, const SjReplayCandidate *candidate)
{
	SjOperator *op = &run->task->op;
	SjSide		other = SJ_OTHER(event->side);
	MinimalTuple tuple = SJ_ROW_TUPLE(candidate->row);
	SjPair		pair = {0};

	if (candidate->row->event_time < event->from ||
		candidate->row->event_time > event->until ||
		!op->same_key(op->arg, event->side, event->tuple, other, tuple))
		return SJ_PAIR_NO;
	if (op->verdict == NULL)
		return SJ_PAIR_YES;
	pair.seq[event->side] = event->seq;
	pair.seq[other] = candidate->row->seq;
	pair.tuple[event->side] = event->tuple;
	pair.tuple[other] = tuple;
	return op->verdict(op->arg, &pair);
}

/* The first candidate of a side with the hash, or the end. */
static int
first_candidate(const SjReplayRun *run, SjSide side, uint32 hash)
{
	int			first = 0;
	int			end = run->ncandidates[side];

	while (first < end)
	{
		int			middle = first + (end - first) / 2;

		if (run->candidates[side][middle].hash < hash)
			first = middle + 1;
		else
			end = middle;
	}
	return first;
}

/* The partners of the row at hand that are not in state: list of Met. */
static List *
meet_candidates(SjReplayRun *run)
{
	const SjEvent *event = &run->row->event;
	SjSide		other = SJ_OTHER(event->side);
	List	   *partners = NIL;

	if (!event->has_key)
		return NIL;
	for (int i = first_candidate(run, other, event->hash);
		 i < run->ncandidates[other]; i++)
	{
		SjReplayCandidate *candidate = &run->candidates[other][i];
		SjPairVerdict verdict;
		Met		   *met;

		CHECK_FOR_INTERRUPTS();
		if (candidate->hash != event->hash)
			break;
		verdict = judge(run, event, candidate);
		if (verdict == SJ_PAIR_NO)
			continue;
		met = palloc(sizeof(Met));
		met->candidate = candidate;
		met->verdict = verdict;
		partners = lappend(partners, met);
	}
	return partners;
}

/* The row at hand, for sj_attempt(); throws before it has changed anything. */
static void
take_in(void *arg)
{
	SjReplayRun *run = arg;
	SjSide		side = run->row->event.side;
	List	   *partners = meet_candidates(run);
	const SjRow *row;
	ListCell   *lc;

	if (sj_engine_replay(run->task->engine, &run->row->event,
						 list_length(partners), &row) == SJ_NO_MEMORY)
		sj_no_memory(run->task);
	foreach(lc, partners)
	{
		Met		   *met = lfirst(lc);
		const SjRow *other = met->candidate->row;

		met->candidate->has_partners = true;
		if (met->verdict == SJ_PAIR_YES)
			note_change(run, side == SJ_LEFT ? row : other,
						side == SJ_LEFT ? other : row, 1);
	}
	run->row->done = true;
}

static void
take_in_rows(SjReplayRun *run)
{
	List	   *late_rows;

	for (int i = 0; i < run->nrows; i++)
	{
		int			nlate = list_length(run->batch->late_rows);
		ErrorData  *error;

		run->row = &run->rows[i];
		error = sj_attempt(take_in, run, sj_error_is_of_expression);
		if (error == NULL)
			continue;
		late_rows = run->batch->late_rows;
		run->batch->late_rows = list_truncate(late_rows, nlate);
		ereport(LOG,
				(errmsg("late row " INT64_FORMAT " of join %d is not replayed: %s",
						run->row->choice->late_id,
						run->task->def->join_id, error->message)));
	}
}

/* -- what follows --------------------------------------------------------- */

/* Numbers of rows that are in state and, unmatched, in the result. */
static void
note_padded(void *arg, const SjRow *row)
{
	if (row->side == SJ_LEFT && row->padded)
		(void) hash_search(arg, &row->seq, HASH_ENTER, NULL);
}

static HTAB *
padded_in_state(const SjReplayRun *run)
{
	HASHCTL		ctl = {.keysize = sizeof(int64),.entrysize = sizeof(int64),
		.hcxt = run->context};
	HTAB	   *numbers = hash_create("sjoin padded rows", 1024, &ctl,
									  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	sj_engine_walk(run->task->engine, note_padded, numbers);
	return numbers;
}

static bool
is_in_state(void *arg, int64 seq)
{
	return hash_search(arg, &seq, HASH_FIND, NULL) != NULL;
}

/* Unmatched rows of the result whose row has found its first partner. */
static void
take_back_padded(SjReplayRun *run)
{
	SjReplayCandidate *candidates = run->candidates[SJ_LEFT];
	int			n = run->ncandidates[SJ_LEFT];
	SjChange   *padded = palloc0(sizeof(SjChange) * (n + 1));
	int64	   *seqs = palloc(sizeof(int64) * (n + 1));
	int			npadded = 0;
	int			next = 0;

	for (int i = 0; i < n && run->task->query->pad[SJ_LEFT]; i++)
		if (candidates[i].has_partners && !candidates[i].had_partners)
			padded[npadded++].left = candidates[i].row;
	if (npadded == 0)
		return;
	sj_result_find_padded(run->task->writer, padded, npadded, is_in_state,
						  run->padded_before, seqs);
	for (int i = 0; i < n; i++)
	{
		if (!candidates[i].has_partners || candidates[i].had_partners)
			continue;
		if (seqs[next] != 0)
		{
			candidates[i].row->seq = seqs[next];
			note_change(run, candidates[i].row, NULL, -1);
		}
		next++;
	}
}

static void
mark(SjReplayRun *run, const SjReplayRow *row, char op)
{
	const SjLateChoice *choice = row->choice;
	SjLateRow	late = {.side = choice->side,.op = op,
		.reason = SJ_REASON_REPLAYED,.seq = choice->seq,
		.other_seq = op == SJ_OP_REPLAYED ? choice->late_id : 0,
		.source = choice->source,.event_time = choice->event_time,
	.old_hash = &choice->hash};

	sj_feed_reject(run->task, run->batch, &late, NULL);
}

static void
mark_rows(SjReplayRun *run)
{
	for (int i = 0; i < run->nrows; i++)
	{
		SjReplayRow *row = &run->rows[i];

		if (!row->done)
			continue;
		for (; row->image->vanished > 0; row->image->vanished--)
			mark(run, row, SJ_OP_VANISHED);
		mark(run, row, SJ_OP_REPLAYED);
	}
}

/* Says what has come of it where that is not what was asked for. */
static void
report(const SjReplayRun *run, const ErrorData *error)
{
	if (error != NULL)
		ereport(LOG,
				(errmsg("late rows of join %d are not replayed: %s",
						run->task->def->join_id, error->message)));
	else if (run->tables.rejections.truncated)
		ereport(LOG,
				(errmsg("late rows of join %d are not replayed: a stream has been truncated since",
						run->task->def->join_id),
				 errhint("Call sjoin.replay_late() again.")));
	else if (run->nrows < run->replay->n)
		ereport(LOG,
				(errmsg("%d late rows of join %d are not replayed: their tables no longer have them, or they have been replayed already",
						run->replay->n - run->nrows,
						run->task->def->join_id)));
}

static void
run_replay(SjReplayRun *run)
{
	ErrorData  *error = sj_attempt(sj_replay_look_up, run, sj_error_is_of_expression);

	report(run, error);
	if (error != NULL || run->nrows == 0)
		return;
	if (run->task->query->pad[SJ_LEFT])
		run->padded_before = padded_in_state(run);
	take_in_rows(run);
	take_back_padded(run);
	mark_rows(run);
}

/* All of it; what fails for a pair is caught (R8). */
static void
run_carefully(SjReplayRun *run)
{
	run->task->careful = true;
	PG_TRY();
	{
		run_replay(run);
	}
	PG_FINALLY();
	{
		run->task->careful = false;
	}
	PG_END_TRY();
}

void
sj_replay_feed(SjTask *task, SjBatch *batch, SjTickReader *reader,
			   const SjLogTxn *txn)
{
	SjReplayRun run = {.task = task,.batch = batch};
	MemoryContext old;

	read_requests(task, batch, reader, txn);
	if (batch->replay == NULL)
		return;
	run.replay = batch->replay;
	run.context = AllocSetContextCreate(CurrentMemoryContext, "sjoin replay",
										ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(run.context);
	run_carefully(&run);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(run.context);
}
