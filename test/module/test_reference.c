/*-------------------------------------------------------------------------
 *
 * test_reference.c
 *	  What a join's result has to be: a nested loop over everything that was
 *	  ever accepted and not taken out again, written from the rules (R1, R5,
 *	  T2-T5, T10).
 *
 * IDENTIFICATION
 *	  test/module/test_reference.c
 *
 *-------------------------------------------------------------------------
 */
#include "test_engine.h"

#define MAX_SEEN 1000

Reference *
reference_create(const TestOperator *test)
{
	Reference  *ref = palloc0(sizeof(Reference));

	ref->test = test;
	ref->allowed_lateness = test->op.allowed_lateness;
	ref->max_rows = 64;
	ref->row = palloc(ref->max_rows * sizeof(RefRow));
	ref->max_ever = 64;
	ref->ever = palloc(ref->max_ever * sizeof(RefRow));
	ref->seen = palloc(MAX_SEEN * sizeof(RefRow));
	ref->moves = palloc(MAX_SEEN * sizeof(bool));
	ref->clock.watermark = SJ_TIME_MIN;
	ref->clock.horizon = SJ_TIME_MIN;
	for (int side = 0; side < 2; side++)
	{
		ref->clock.input[side] = SJ_TIME_MIN;
		ref->clock.max_event_time[side] = SJ_TIME_MIN;
		ref->advance[side] = SJ_TIME_MIN;
	}
	return ref;
}

void
reference_see(Reference *ref, const RefRow *row, bool moves_watermark)
{
	Assert(ref->nseen < MAX_SEEN);
	ref->seen[ref->nseen] = *row;
	ref->moves[ref->nseen++] = moves_watermark;
}

static bool
is_late(const Reference *ref, const RefRow *row)
{
	return row->event_time < ref->clock.horizon;
}

static bool
has_entity(const Reference *ref, const RefRow *row)
{
	return ref->test->op.upsert[row->side] && row->entity != 0;
}

/* Can it be in the result, or replace what is? */
static bool
matters(const Reference *ref, const RefRow *row)
{
	return row->has_key || ref->test->op.pad[row->side] ||
		has_entity(ref, row);
}

/* Has a newer version within reach ever been accepted? */
bool
reference_is_replaced(const Reference *ref, const RefRow *row)
{
	if (!has_entity(ref, row))
		return false;
	for (int i = 0; i < ref->never; i++)
	{
		const RefRow *other = &ref->ever[i];

		if (other->side == row->side && other->entity == row->entity &&
			(other->event_time > row->event_time ||
			 (other->event_time == row->event_time &&
			  other->version > row->version)) &&
			other->event_time <= row->event_time + ref->test->op.replaces)
			return true;
	}
	return false;
}

static void
remember(Reference *ref, const RefRow *row)
{
	if (!has_entity(ref, row))
		return;
	if (ref->never == ref->max_ever)
	{
		ref->max_ever *= 2;
		ref->ever = repalloc(ref->ever, ref->max_ever * sizeof(RefRow));
	}
	ref->ever[ref->never++] = *row;
}

static void
take_in(Reference *ref, const RefRow *row)
{
	remember(ref, row);
	if (ref->nrows == ref->max_rows)
	{
		ref->max_rows *= 2;
		ref->row = repalloc(ref->row, ref->max_rows * sizeof(RefRow));
	}
	ref->row[ref->nrows++] = *row;
}

SjInsertResult
reference_insert(Reference *ref, const RefRow *row)
{
	if (is_late(ref, row))
		return SJ_LATE;
	if (matters(ref, row))
		take_in(ref, row);
	return SJ_INSERTED;
}

/* The first row, or the oldest version, that is this one, or NULL. */
static RefRow *
find_row(const Reference *ref, const RefRow *old)
{
	RefRow	   *found = NULL;

	if (is_late(ref, old))
		return NULL;
	for (int i = 0; i < ref->nrows; i++)
	{
		RefRow	   *row = &ref->row[i];

		if (!row->gone && row->side == old->side &&
			row->has_key == old->has_key && row->key == old->key &&
			row->event_time == old->event_time &&
			row->source == old->source && row->image == old->image &&
			row->entity == old->entity &&
			(found == NULL ||
			 (has_entity(ref, row) && row->version < found->version)))
			found = row;
	}
	return found;
}

/* Would the engine say that it removes it? */
bool
reference_has(const Reference *ref, const RefRow *old)
{
	return matters(ref, old) ? find_row(ref, old) != NULL :
		!is_late(ref, old);
}

SjInsertResult
reference_replace(Reference *ref, const RefRow *old, const RefRow *new)
{
	RefRow	   *row = find_row(ref, old);
	int64		seq;

	if (row != NULL)
		row->gone = true;
	if (new == NULL)
		return SJ_INSERTED;
	if (is_late(ref, new))
		return SJ_LATE;
	if (!matters(ref, new))
		return SJ_INSERTED;
	if (row == NULL)
		take_in(ref, new);
	else
	{
		remember(ref, new);
		seq = row->seq;
		*row = *new;
		row->seq = seq;
	}
	return SJ_INSERTED;
}

/* Number of rows taken out. */
int64
reference_truncate(Reference *ref, SjSide side, Oid source)
{
	int64		n = 0;

	for (int i = 0; i < ref->nrows; i++)
	{
		RefRow	   *row = &ref->row[i];

		if (row->gone || row->side != side || row->source != source ||
			is_late(ref, row))
			continue;
		row->gone = true;
		n++;
	}
	return n;
}

/* The row with this identity, or NULL. */
const RefRow *
reference_row(const Reference *ref, SjSide side, int64 seq)
{
	int			low = 0;
	int			high = ref->nrows;

	while (low < high)
	{
		int			middle = (low + high) / 2;
		const RefRow *row = &ref->row[middle];

		if (row->seq == seq && row->side == side)
			return row->gone ? NULL : row;
		if (row->seq < seq || (row->seq == seq && row->side < side))
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

void
reference_advance(Reference *ref, SjSide side, SjTime watermark)
{
	ref->advance[side] = Max(ref->advance[side], watermark);
}

void
reference_quiet(Reference *ref, SjSide side, int64 quiet, SjIdleness idle,
				int64 move)
{
	ref->noted[side] = true;
	ref->quiet[side] = quiet;
	ref->idle[side] = idle;
	ref->move[side] = move;
}

/* Each input by its own rows, then inputs not yet started. */
static void
move_inputs(Reference *ref)
{
	SjClock    *clock = &ref->clock;
	SjTime		first = SJ_TIME_MAX;

	for (int i = 0; i < ref->nseen; i++)
	{
		SjSide		side = ref->seen[i].side;
		SjTime		event_time = ref->seen[i].event_time;

		clock->max_event_time[side] = Max(clock->max_event_time[side],
										  event_time);
		if (!ref->moves[i])
			continue;
		first = Min(first, event_time);
		clock->input[side] = Max(clock->input[side],
								 event_time - ref->test->op.delay[side]);
	}
	for (int side = 0; side < 2; side++)
	{
		if (clock->input[side] == SJ_TIME_MIN && first != SJ_TIME_MAX)
			clock->input[side] = first - ref->test->op.delay[side];
		clock->input[side] = Max(clock->input[side], ref->advance[side]);
		ref->advance[side] = SJ_TIME_MIN;
	}
}

static bool
has_had_rows(const Reference *ref, SjSide side)
{
	return ref->clock.max_event_time[side] != SJ_TIME_MIN;
}

/* Are all inputs that ever had a row idle? */
static bool
all_idle(const Reference *ref)
{
	for (int side = 0; side < 2; side++)
		if (has_had_rows(ref, side) && ref->clock.idle[side] == SJ_NOT_IDLE)
			return false;
	return true;
}

/* T7: rows wake an input; then what was found of those that are quiet. */
static void
move_idle_inputs(Reference *ref)
{
	SjClock    *clock = &ref->clock;
	int64		before[2] = {clock->idle[0], clock->idle[1]};
	SjTime		greatest;

	for (int side = 0; side < 2; side++)
	{
		bool		woke = false;

		for (int i = 0; i < ref->nseen; i++)
			woke |= ref->seen[i].side == side;
		clock->woken[side] += woke;
		if (!woke && !ref->noted[side])
			continue;
		clock->idle[side] = woke ? SJ_NOT_IDLE : ref->idle[side];
		clock->quiet[side] = woke ? 0 : ref->quiet[side];
		ref->noted[side] &= !woke;
	}
	greatest = Max(has_had_rows(ref, 0) ? clock->input[0] : SJ_TIME_MIN,
				   has_had_rows(ref, 1) ? clock->input[1] : SJ_TIME_MIN);
	for (int side = 0; side < 2; side++)
		if ((!before[0] && clock->idle[0]) || (!before[1] && clock->idle[1]))
			if (all_idle(ref) && has_had_rows(ref, side))
				clock->input[side] = greatest;
	for (int side = 0; side < 2; side++)
	{
		if (ref->noted[side] && clock->idle[side] == SJ_IDLE_ADVANCES &&
			clock->input[side] != SJ_TIME_MIN)
			clock->input[side] += ref->move[side];
		ref->noted[side] = false;
	}
}

/* The join's watermark by those of its inputs. */
static SjTime
minimum(const SjClock *clock)
{
	SjTime		least = SJ_TIME_MAX;

	for (int side = 0; side < 2; side++)
		if (clock->idle[side] != SJ_IDLE_IGNORED)
			least = Min(least, clock->input[side]);
	return least != SJ_TIME_MAX ? least :
		Max(clock->input[0], clock->input[1]);
}

void
reference_end_step(Reference *ref)
{
	SjClock    *clock = &ref->clock;

	move_inputs(ref);
	move_idle_inputs(ref);
	ref->nseen = 0;
	clock->watermark = Max(clock->watermark, minimum(clock));
	if (clock->watermark == SJ_TIME_MIN)
		return;
	if (ref->allowed_lateness != PG_INT64_MAX)
		clock->horizon = Max(clock->horizon,
							 clock->watermark - ref->allowed_lateness);
}

static SjPairVerdict
join(const Reference *ref, const RefRow *left, const RefRow *right)
{
	const SjBounds *bounds = &ref->test->bounds;
	int64		distance = right->event_time - left->event_time;

	if (left->gone || right->gone || left->replaced || right->replaced ||
		!left->has_key || !right->has_key || left->key != right->key ||
		(bounds->lower.known && distance < bounds->lower.usec) ||
		(bounds->upper.known && distance > bounds->upper.usec))
		return SJ_PAIR_NO;
	return test_verdict(ref->test, left->image, right->image);
}

/* Has the deadline of an unmatched row passed? */
static bool
is_due(const Reference *ref, const RefRow *row)
{
	const SjBounds *bounds = &ref->test->bounds;
	const SjClock *clock = &ref->clock;
	SjTime		now;
	int64		wait;

	if (ref->test->at_once[row->side])
		return true;
	now = ref->test->op.final ? clock->horizon : clock->watermark;
	if (bounds->timeout[row->side] >= 0)
		wait = bounds->timeout[row->side];
	else if (row->side == SJ_LEFT && bounds->upper.known)
		wait = bounds->upper.usec;
	else if (row->side == SJ_RIGHT && bounds->lower.known)
		wait = -bounds->lower.usec;
	else
		return false;
	return now > row->event_time + wait;
}

static void
add_row(RefPairs *result, const RefRow *left, const RefRow *right)
{
	RefPair		pair = {{0, 0}, {0, 0}};

	if (left != NULL)
	{
		pair.seq[SJ_LEFT] = left->seq;
		pair.image[SJ_LEFT] = test_image_number(left->has_key, left->key,
												left->image, left->entity);
	}
	if (right != NULL)
	{
		pair.seq[SJ_RIGHT] = right->seq;
		pair.image[SJ_RIGHT] = test_image_number(right->has_key, right->key,
												 right->image, right->entity);
	}
	pairs_add(result, &pair);
}

/* The pairs; sets the degrees. */
static void
join_all(Reference *ref, RefPairs *result)
{
	for (int i = 0; i < ref->nrows; i++)
	{
		ref->row[i].degree = 0;
		ref->row[i].replaced = reference_is_replaced(ref, &ref->row[i]);
	}
	for (int i = 0; i < ref->nrows; i++)
	{
		for (int j = 0; j < ref->nrows; j++)
		{
			RefRow	   *left = &ref->row[i];
			RefRow	   *right = &ref->row[j];
			SjPairVerdict verdict;

			if (left->side != SJ_LEFT || right->side != SJ_RIGHT)
				continue;
			verdict = join(ref, left, right);
			if (verdict == SJ_PAIR_NO)
				continue;
			left->degree++;
			right->degree++;
			if (verdict == SJ_PAIR_YES)
				add_row(result, left, right);
		}
	}
}

/*
 * The result after the steps so far, sorted; sets degree and padded of the
 * rows.
 */
void
reference_result(Reference *ref, RefPairs *result)
{
	result->n = 0;
	join_all(ref, result);
	for (int i = 0; i < ref->nrows; i++)
	{
		RefRow	   *row = &ref->row[i];

		row->padded = !row->gone && !row->replaced && ref->test->op.pad[row->side] &&
			row->degree == 0 && is_due(ref, row);
		if (!row->padded)
			continue;
		if (row->side == SJ_LEFT)
			add_row(result, row, NULL);
		else
			add_row(result, NULL, row);
	}
	pairs_sort(result);
}

void
pairs_add(RefPairs *pairs, const RefPair *pair)
{
	if (pairs->pair == NULL)
	{
		pairs->max = 64;
		pairs->pair = palloc(pairs->max * sizeof(RefPair));
	}
	else if (pairs->n == pairs->max)
	{
		pairs->max *= 2;
		pairs->pair = repalloc(pairs->pair, pairs->max * sizeof(RefPair));
	}
	pairs->pair[pairs->n++] = *pair;
}

/* By identity, then by images. */
int
pairs_compare(const void *a, const void *b)
{
	const RefPair *x = a;
	const RefPair *y = b;

	for (int side = 0; side < 2; side++)
		if (x->seq[side] != y->seq[side])
			return x->seq[side] < y->seq[side] ? -1 : 1;
	for (int side = 0; side < 2; side++)
		if (x->image[side] != y->image[side])
			return x->image[side] < y->image[side] ? -1 : 1;
	return 0;
}

void
pairs_sort(RefPairs *pairs)
{
	if (pairs->n > 0)
		qsort(pairs->pair, pairs->n, sizeof(RefPair), pairs_compare);
}
