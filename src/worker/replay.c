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
#include "log/numbers.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "worker/feed.h"
#include "worker/replay.h"
#include "worker/replay_tables.h"

/* The replay of a batch; memory is the batch's. */
struct SjReplay
{
	int64	   *late_ids;		/* asked for */
	int			n;
	int			allocated;
	SjChange   *changes;		/* with partners outside of the state */
	int64		nchanges;
	int64		changes_allocated;
};

/* An image of a side that late rows have. */
typedef struct ImageKey
{
	pg_uuid_t	hash;
	int32		side;
} ImageKey;

typedef struct Image
{
	ImageKey	key;
	MinimalTuple tuple;			/* NULL: the table does not have it */
	int64		refused;		/* recorded so often as not taken in */
	int64		available;		/* of these the table has so many */
	int64		vanished;		/* and so many have gone from it */
	int64		in_state;		/* candidates: the state has so many */
} Image;

/* A late row on its way in. */
typedef struct Row
{
	const SjLateChoice *choice;
	SjEvent		event;
	Image	   *image;
	bool		done;
} Row;

/* An accepted row that is not in state. */
typedef struct Candidate
{
	uint32		hash;			/* of its join key */
	bool		had_partners;
	bool		has_partners;	/* now */
	SjRow	   *row;			/* made for the changes */
} Candidate;

/* A candidate that is a partner of the row at hand. */
typedef struct Met
{
	Candidate  *candidate;
	SjPairVerdict verdict;
} Met;

typedef struct Run
{
	SjTask	   *task;
	SjBatch    *batch;
	SjReplay   *replay;
	MemoryContext context;
	SjReplayTables tables;
	SjLateChoice *choices;
	int			nchoices;
	HTAB	   *images;			/* of late rows */
	Row		   *rows;
	int			nrows;

	/* the side that candidates are looked for on */
	SjSide		side;
	HTAB	   *seen;			/* images of candidates */
	uint32	   *hashes;			/* of the keys that are of interest, sorted */
	int			nhashes;
	Candidate  *candidates[2];	/* sorted by hash */
	int			ncandidates[2];
	int			allocated[2];

	Row		   *row;			/* at hand */
} Run;

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

/* -- late rows ------------------------------------------------------------ */

static HTAB *
make_hash(const Run *run, const char *name)
{
	HASHCTL		ctl = {.keysize = sizeof(ImageKey),.entrysize = sizeof(Image),
		.hcxt = run->context};

	return hash_create(name, 128, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static Image *
find_image(HTAB *images, const pg_uuid_t *hash, SjSide side, bool *found)
{
	ImageKey	key = {*hash, side};

	return hash_search(images, &key, HASH_ENTER, found);
}

static int
compare_ids(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}

/* Would the row contradict rows that are final? */
static bool
is_against_final(const SjTask *task, SjSide side)
{
	return sj_join_is_final(task->def) && side == SJ_RIGHT &&
		task->query->pad[SJ_LEFT];
}

static void
choose_rows(Run *run)
{
	SjReplay   *replay = run->replay;

	qsort(replay->late_ids, replay->n, sizeof(int64), compare_ids);
	run->choices = sj_late_choose(run->task->def->join_id,
								  run->tables.snapshot, replay->late_ids,
								  replay->n, &run->nchoices);
	run->images = make_hash(run, "sjoin late images");
	for (int i = 0; i < run->nchoices; i++)
	{
		SjLateChoice *choice = &run->choices[i];
		Image	   *image;
		bool		found;

		if (is_against_final(run->task, choice->side))
			choice->state = SJ_CHOICE_OTHER;
		image = find_image(run->images, &choice->hash, choice->side, &found);
		if (!found)
			memset((char *) image + sizeof(ImageKey), 0,
				   sizeof(Image) - sizeof(ImageKey));
		image->refused = choice->refused;
	}
}

/*
 * A row that the table has of the side at hand.  Of equal rows that were refused
 * some may have gone without a trace; those that are left come in first.
 */
static void
note_image(void *arg, const SjTableRow *row)
{
	Run		   *run = arg;
	bool		found;
	Image	   *image = find_image(run->images, &row->hash, run->side, &found);
	MemoryContext old;

	Assert(found);
	if (image->tuple != NULL)
		return;
	image->vanished = Max(0, row->refused - row->there);
	image->available = Max(0, image->refused - image->vanished);
	old = MemoryContextSwitchTo(run->context);
	image->tuple = heap_copy_minimal_tuple(row->tuple);
	MemoryContextSwitchTo(old);
}

/* The event of a late row that its table has; false: it is no event. */
static bool
make_event(Run *run, Row *row)
{
	const SjLateChoice *choice = row->choice;
	SjTaskInput *input = &run->task->input[choice->side];

	if (sj_input_tuple_event(input, row->image->tuple,
							 &row->event) != SJ_IMAGE_EVENT)
		return false;
	row->event.seq = choice->seq;
	row->event.version = 0;
	row->event.source = choice->source;
	row->event.tuple = heap_copy_minimal_tuple(row->event.tuple);
	return true;
}

static void
make_rows(Run *run)
{
	run->rows = palloc0(sizeof(Row) * (run->nchoices + 1));
	for (int i = 0; i < run->nchoices; i++)
	{
		const SjLateChoice *choice = &run->choices[i];
		Row		   *row = &run->rows[run->nrows];
		bool		found;

		CHECK_FOR_INTERRUPTS();
		if (choice->state != SJ_CHOICE_LATE)
			continue;
		row->choice = choice;
		row->image = find_image(run->images, &choice->hash, choice->side,
								&found);
		if (row->image->available == 0 || !make_event(run, row))
			continue;
		row->image->available--;
		run->nrows++;
	}
}

/* -- accepted rows outside of the state ----------------------------------- */

static int
compare_hashes(const void *a, const void *b)
{
	uint32		x = *(const uint32 *) a;
	uint32		y = *(const uint32 *) b;

	return x < y ? -1 : x > y;
}

/* What the rows of the other side have for keys, and where partners can be. */
static void
set_range(Run *run, SjTime *from, SjTime *until)
{
	*from = SJ_TIME_MAX;
	*until = SJ_TIME_MIN;
	run->nhashes = 0;
	run->hashes = palloc(sizeof(uint32) * (run->nrows + 1));
	for (int i = 0; i < run->nrows; i++)
	{
		const SjEvent *event = &run->rows[i].event;

		if (event->side == run->side || !event->has_key)
			continue;
		run->hashes[run->nhashes++] = event->hash;
		*from = Min(*from, event->from);
		*until = Max(*until, event->until);
	}
	qsort(run->hashes, run->nhashes, sizeof(uint32), compare_hashes);
}

/* Rows in state that have an image, for sj_engine_visit_alike(). */
typedef struct Alike
{
	const SjPlanInput *input;
	const pg_uuid_t *hash;
	int64		n;
} Alike;

static void
count_alike(void *arg, const SjRow *row)
{
	Alike	   *alike = arg;
	pg_uuid_t	hash;

	sj_tuple_hash(alike->input, SJ_ROW_TUPLE(row), &hash);
	if (memcmp(&hash, alike->hash, sizeof(pg_uuid_t)) == 0)
		alike->n++;
}

/* Is this one of the rows of its image that are in state? */
static bool
is_in_state(Run *run, const SjEvent *event, const pg_uuid_t *hash)
{
	Alike		alike = {&run->task->plan->input[run->side], hash};
	bool		found;
	Image	   *image = find_image(run->seen, hash, run->side, &found);

	if (!found)
	{
		sj_engine_visit_alike(run->task->engine, event, count_alike, &alike);
		image->in_state = alike.n;
	}
	return image->in_state-- > 0;
}

static SjRow *
make_row(Run *run, const SjEvent *event)
{
	Size		header = MAXALIGN(sizeof(SjRow));
	SjRow	   *row = MemoryContextAllocZero(run->batch->context,
											 header + event->tuple->t_len);

	row->event_time = event->event_time;
	row->due = event->due;
	row->expires = event->expires;
	row->side = event->side;
	row->size = header + event->tuple->t_len;
	memcpy(SJ_ROW_TUPLE(row), event->tuple, event->tuple->t_len);
	return row;
}

static Candidate *
add_candidate(Run *run)
{
	SjSide		side = run->side;

	if (run->candidates[side] == NULL)
	{
		run->allocated[side] = 64;
		run->candidates[side] =
			MemoryContextAlloc(run->context, sizeof(Candidate) * 64);
	}
	else if (run->ncandidates[side] == run->allocated[side])
	{
		run->allocated[side] *= 2;
		run->candidates[side] = repalloc_huge(run->candidates[side],
											  sizeof(Candidate) * run->allocated[side]);
	}
	return &run->candidates[side][run->ncandidates[side]++];
}

static void
note_accepted(void *arg, const SjTableRow *row)
{
	Run		   *run = arg;
	Candidate  *candidate;
	SjEvent		event;

	if (sj_input_tuple_event(&run->task->input[run->side], row->tuple,
							 &event) != SJ_IMAGE_EVENT || !event.has_key ||
		bsearch(&event.hash, run->hashes, run->nhashes, sizeof(uint32),
				compare_hashes) == NULL)
		return;
	event.tuple = heap_copy_minimal_tuple(event.tuple);
	if (is_in_state(run, &event, &row->hash))
		return;
	candidate = add_candidate(run);
	candidate->hash = event.hash;
	candidate->had_partners = candidate->has_partners = row->has_partners;
	candidate->row = make_row(run, &event);
}

static void
number_candidates(Run *run)
{
	int			n = run->ncandidates[run->side];
	int64		seq = n > 0 ? sj_numbers_take(n) : 0;

	for (int i = 0; i < n; i++)
		run->candidates[run->side][i].row->seq = seq + i;
	if (n > 1)
		qsort(run->candidates[run->side], n, sizeof(Candidate),
			  compare_hashes);
}

static void
find_candidates(Run *run, SjSide side)
{
	SjTime		from;
	SjTime		until;

	run->side = side;
	set_range(run, &from, &until);
	if (run->nhashes == 0)
		return;
	run->seen = make_hash(run, "sjoin accepted images");
	sj_replay_visit_accepted(&run->tables, side, from, until, note_accepted,
							 run);
	hash_destroy(run->seen);
	number_candidates(run);
}

/* Everything that is asked of the tables, for sj_attempt(). */
static void
look_up(void *arg)
{
	Run		   *run = arg;
	SjTask	   *task = run->task;

	sj_replay_tables_open(&run->tables, task->def, task->query, task->plan,
						  &run->batch->position);
	if (!run->tables.rejections.truncated)
	{
		choose_rows(run);
		for (run->side = SJ_LEFT; run->side <= SJ_RIGHT; run->side++)
			sj_replay_visit_images(&run->tables, run->side, run->choices,
								   run->nchoices, note_image, run);
		make_rows(run);
		find_candidates(run, SJ_LEFT);
		find_candidates(run, SJ_RIGHT);
	}
	sj_replay_tables_close(&run->tables);
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
note_change(Run *run, const SjRow *left, const SjRow *right, int8 sign)
{
	SjChange   *change = add_change(run->replay, run->batch->context);

	memset(change, 0, sizeof(SjChange));
	change->left = left;
	change->right = right;
	change->sign = sign;
}

static SjPairVerdict
judge(Run *run, const SjEvent *event, const Candidate *candidate)
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
first_candidate(const Run *run, SjSide side, uint32 hash)
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
meet_candidates(Run *run)
{
	const SjEvent *event = &run->row->event;
	SjSide		other = SJ_OTHER(event->side);
	List	   *partners = NIL;

	if (!event->has_key)
		return NIL;
	for (int i = first_candidate(run, other, event->hash);
		 i < run->ncandidates[other]; i++)
	{
		Candidate  *candidate = &run->candidates[other][i];
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
	Run		   *run = arg;
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
take_in_rows(Run *run)
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

/* Unmatched rows of the result whose row has found its first partner. */
static void
take_back_padded(Run *run)
{
	Candidate  *candidates = run->candidates[SJ_LEFT];
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
	sj_result_find_padded(run->task->writer, padded, npadded, seqs);
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
mark(Run *run, const Row *row, char op)
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
mark_rows(Run *run)
{
	for (int i = 0; i < run->nrows; i++)
	{
		Row		   *row = &run->rows[i];

		if (!row->done)
			continue;
		for (; row->image->vanished > 0; row->image->vanished--)
			mark(run, row, SJ_OP_VANISHED);
		mark(run, row, SJ_OP_REPLAYED);
	}
}

/* Says what has come of it where that is not what was asked for. */
static void
report(const Run *run, const ErrorData *error)
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
run_replay(Run *run)
{
	ErrorData  *error = sj_attempt(look_up, run, sj_error_is_of_expression);

	report(run, error);
	if (error != NULL || run->nrows == 0)
		return;
	take_in_rows(run);
	take_back_padded(run);
	mark_rows(run);
}

/* All of it; what fails for a pair is caught (R8). */
static void
run_carefully(Run *run)
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
	Run			run = {.task = task,.batch = batch};
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
