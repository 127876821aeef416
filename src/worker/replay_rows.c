/*-------------------------------------------------------------------------
 *
 * replay_rows.c
 *	  What a replay of late rows finds in the tables: the late rows that are
 *	  there still, and accepted rows that may be their partners and are not in
 *	  state.
 *
 * IDENTIFICATION
 *	  src/worker/replay_rows.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "log/numbers.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "worker/replay_run.h"

/* -- late rows ------------------------------------------------------------ */

static SjReplayImage *
find_image(HTAB *images, const pg_uuid_t *hash, SjSide side, bool *found)
{
	SjLateImage key = {*hash, side};

	return hash_search(images, &key, HASH_ENTER, found);
}

static void
choose_rows(SjReplayRun *run)
{
	SjReplay   *replay = run->replay;

	sj_late_ids_sort(replay->late_ids, replay->n);
	run->choices = sj_late_choose(run->task->def->join_id,
								  run->tables.snapshot, replay->late_ids,
								  replay->n, &run->nchoices);
	run->images = sj_late_images_create(run->context, sizeof(SjReplayImage));
	for (int i = 0; i < run->nchoices; i++)
	{
		SjLateChoice *choice = &run->choices[i];
		SjReplayImage *image;
		bool		found;

		if (sj_replay_is_against_final(run->task->def, run->task->query,
									   choice->side))
			choice->state = SJ_CHOICE_OTHER;
		image = find_image(run->images, &choice->hash, choice->side, &found);
		if (!found)
			memset((char *) image + sizeof(SjLateImage), 0,
				   sizeof(SjReplayImage) - sizeof(SjLateImage));
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
	SjReplayRun *run = arg;
	bool		found;
	SjReplayImage *image = find_image(run->images, &row->hash, run->side, &found);
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
make_event(SjReplayRun *run, SjReplayRow *row)
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
make_rows(SjReplayRun *run)
{
	run->rows = palloc0(sizeof(SjReplayRow) * (run->nchoices + 1));
	for (int i = 0; i < run->nchoices; i++)
	{
		const SjLateChoice *choice = &run->choices[i];
		SjReplayRow *row = &run->rows[run->nrows];
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
set_range(SjReplayRun *run, SjTime *from, SjTime *until)
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
is_in_state(SjReplayRun *run, const SjEvent *event, const pg_uuid_t *hash)
{
	Alike		alike = {&run->task->plan->input[run->side], hash};
	bool		found;
	SjReplayImage *image = find_image(run->seen, hash, run->side, &found);

	if (!found)
	{
		sj_engine_visit_alike(run->task->engine, event, count_alike, &alike);
		image->in_state = alike.n;
	}
	return image->in_state-- > 0;
}

static SjRow *
make_row(SjReplayRun *run, const SjEvent *event)
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

static SjReplayCandidate *
add_candidate(SjReplayRun *run)
{
	SjSide		side = run->side;

	if (run->candidates[side] == NULL)
	{
		run->allocated[side] = 64;
		run->candidates[side] =
			MemoryContextAlloc(run->context, sizeof(SjReplayCandidate) * 64);
	}
	else if (run->ncandidates[side] == run->allocated[side])
	{
		run->allocated[side] *= 2;
		run->candidates[side] = repalloc_huge(run->candidates[side],
											  sizeof(SjReplayCandidate) * run->allocated[side]);
	}
	return &run->candidates[side][run->ncandidates[side]++];
}

static void
note_accepted(void *arg, const SjTableRow *row)
{
	SjReplayRun *run = arg;
	SjReplayCandidate *candidate;
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
number_candidates(SjReplayRun *run)
{
	int			n = run->ncandidates[run->side];
	int64		seq = n > 0 ? sj_numbers_take(n) : 0;

	for (int i = 0; i < n; i++)
		run->candidates[run->side][i].row->seq = seq + i;
	if (n > 1)
		qsort(run->candidates[run->side], n, sizeof(SjReplayCandidate),
			  compare_hashes);
}

static void
find_candidates(SjReplayRun *run, SjSide side)
{
	SjTime		from;
	SjTime		until;

	run->side = side;
	set_range(run, &from, &until);
	if (run->nhashes == 0)
		return;
	run->seen = sj_late_images_create(run->context, sizeof(SjReplayImage));
	sj_replay_visit_accepted(&run->tables, side, from, until, note_accepted,
							 run);
	hash_destroy(run->seen);
	number_candidates(run);
}

/* Everything that is asked of the tables, for sj_attempt(). */
void
sj_replay_look_up(void *arg)
{
	SjReplayRun *run = arg;
	SjTask	   *task = run->task;

	sj_replay_tables_open(&run->tables, task->def, task->query, task->plan);
	sj_replay_tables_read_records(&run->tables, &run->batch->position);
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
