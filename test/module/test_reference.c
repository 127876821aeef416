/*-------------------------------------------------------------------------
 *
 * test_reference.c
 *	  What a join's result has to be: a nested loop over everything that was
 *	  ever accepted, written from the rules (R1, T2-T5, T10).
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

/* Sees a row; false when it is late. */
bool
reference_insert(Reference *ref, const RefRow *row, bool moves_watermark)
{
	Assert(ref->nseen < MAX_SEEN);
	ref->seen[ref->nseen] = *row;
	ref->moves[ref->nseen++] = moves_watermark;

	if (row->event_time < ref->clock.horizon)
		return false;
	if (ref->nrows == ref->max_rows)
	{
		ref->max_rows *= 2;
		ref->row = repalloc(ref->row, ref->max_rows * sizeof(RefRow));
	}
	ref->row[ref->nrows++] = *row;
	return true;
}

void
reference_advance(Reference *ref, SjSide side, SjTime watermark)
{
	ref->advance[side] = Max(ref->advance[side], watermark);
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

		first = Min(first, event_time);
		clock->max_event_time[side] = Max(clock->max_event_time[side],
										  event_time);
		if (ref->moves[i])
			clock->input[side] = Max(clock->input[side],
									 event_time - ref->test->op.delay[side]);
	}
	for (int side = 0; side < 2; side++)
	{
		if (clock->input[side] == SJ_TIME_MIN && ref->nseen > 0)
			clock->input[side] = first - ref->test->op.delay[side];
		clock->input[side] = Max(clock->input[side], ref->advance[side]);
		ref->advance[side] = SJ_TIME_MIN;
	}
	ref->nseen = 0;
}

void
reference_end_step(Reference *ref)
{
	SjClock    *clock = &ref->clock;

	move_inputs(ref);
	if (clock->input[0] == SJ_TIME_MIN || clock->input[1] == SJ_TIME_MIN)
		return;
	clock->watermark = Max(clock->watermark,
						   Min(clock->input[0], clock->input[1]));
	if (ref->allowed_lateness != PG_INT64_MAX)
		clock->horizon = Max(clock->horizon,
							 clock->watermark - ref->allowed_lateness);
}

static SjPairVerdict
join(const Reference *ref, const RefRow *left, const RefRow *right)
{
	const SjBounds *bounds = &ref->test->bounds;
	int64		distance = right->event_time - left->event_time;

	if (!left->has_key || !right->has_key || left->key != right->key ||
		(bounds->lower.known && distance < bounds->lower.usec) ||
		(bounds->upper.known && distance > bounds->upper.usec))
		return SJ_PAIR_NO;
	return test_verdict(ref->test, left->seq, right->seq);
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

/* The result after the steps so far, sorted. */
void
reference_result(const Reference *ref, RefPairs *result)
{
	int		   *degree = palloc0((ref->nrows + 1) * sizeof(int));

	result->n = 0;
	for (int i = 0; i < ref->nrows; i++)
	{
		for (int j = 0; j < ref->nrows; j++)
		{
			const RefRow *left = &ref->row[i];
			const RefRow *right = &ref->row[j];
			SjPairVerdict verdict;

			if (left->side != SJ_LEFT || right->side != SJ_RIGHT)
				continue;
			verdict = join(ref, left, right);
			if (verdict == SJ_PAIR_NO)
				continue;
			degree[i]++;
			degree[j]++;
			if (verdict == SJ_PAIR_YES)
				pairs_add(result, left->seq, right->seq);
		}
	}
	for (int i = 0; i < ref->nrows; i++)
	{
		const RefRow *row = &ref->row[i];

		if (!ref->test->op.pad[row->side] || degree[i] > 0 || !is_due(ref, row))
			continue;
		if (row->side == SJ_LEFT)
			pairs_add(result, row->seq, 0);
		else
			pairs_add(result, 0, row->seq);
	}
	pairs_sort(result);
	pfree(degree);
}

void
pairs_add(RefPairs *pairs, int64 left, int64 right)
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
	pairs->pair[pairs->n].left = left;
	pairs->pair[pairs->n++].right = right;
}

int
pairs_compare(const void *a, const void *b)
{
	const RefPair *x = a;
	const RefPair *y = b;

	if (x->left != y->left)
		return x->left < y->left ? -1 : 1;
	if (x->right != y->right)
		return x->right < y->right ? -1 : 1;
	return 0;
}

void
pairs_sort(RefPairs *pairs)
{
	if (pairs->n > 0)
		qsort(pairs->pair, pairs->n, sizeof(RefPair), pairs_compare);
}
