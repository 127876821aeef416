/*-------------------------------------------------------------------------
 *
 * random_result.c
 *	  The engine of a round against its reference: the result as the changes
 *	  leave it, the clock, the rows in state and their degrees.
 *
 * IDENTIFICATION
 *	  test/module/random_result.c
 *
 *-------------------------------------------------------------------------
 */
#include "engine_random.h"

/* What was published, or a change, in the order of time. */
typedef struct Entry
{
	RefPair		pair;
	int64		at;				/* -1: published */
	int			step;
	int			sign;
	bool		update;
} Entry;

static void
complain(const Round *round, const char *what, const RefPair *pair)
{
	elog(ERROR, "seed " UINT64_FORMAT ": %s (" INT64_FORMAT ", "
		 INT64_FORMAT "), images (" INT64_FORMAT ", " INT64_FORMAT ")",
		 round->seed, what, pair->seq[SJ_LEFT], pair->seq[SJ_RIGHT],
		 pair->image[SJ_LEFT], pair->image[SJ_RIGHT]);
}

static bool
same_identity(const Entry *a, const Entry *b)
{
	return a->pair.seq[SJ_LEFT] == b->pair.seq[SJ_LEFT] &&
		a->pair.seq[SJ_RIGHT] == b->pair.seq[SJ_RIGHT];
}

static int
compare_entries(const void *a, const void *b)
{
	const Entry *x = a;
	const Entry *y = b;

	for (int side = 0; side < 2; side++)
		if (x->pair.seq[side] != y->pair.seq[side])
			return x->pair.seq[side] < y->pair.seq[side] ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static void
set_side(RefPair *pair, SjSide side, const SjRow *row)
{
	const TestTuple *tuple;

	if (row == NULL)
		return;
	test_check_row(row);
	tuple = (const TestTuple *) SJ_ROW_TUPLE(row);
	pair->seq[side] = row->seq;
	pair->image[side] = test_image_number(!tuple->null_key, tuple->key,
										  tuple->image, tuple->entity);
}

/* The changes' steps ascend by one; updates are pairs. */
static void
check_order(const Round *round, const Entry *changes, int64 n)
{
	int			step = -1;

	for (int64 i = 0; i < n; i++)
	{
		if (changes[i].step != step && changes[i].step != step + 1)
			complain(round, "wrong step", &changes[i].pair);
		step = changes[i].step;
		if (!changes[i].update)
			continue;
		if (changes[i].sign > 0 || i + 1 == n || changes[i + 1].sign < 0 ||
			!changes[i + 1].update || changes[i + 1].step != step ||
			!same_identity(&changes[i], &changes[i + 1]))
			complain(round, "bad update", &changes[i].pair);
		if (pairs_compare(&changes[i].pair, &changes[i + 1].pair) == 0)
			complain(round, "update without effect", &changes[i].pair);
		i++;
	}
}

/* Published rows and changes, sorted by identity and time. */
static Entry *
collect(Round *round, int64 *n)
{
	int64		nchanges;
	const SjChange *changes = sj_engine_changes(round->engine, &nchanges);
	int			published = round->published.n;
	Entry	   *entries = palloc0((published + nchanges + 1) * sizeof(Entry));

	for (int i = 0; i < published; i++)
	{
		entries[i].pair = round->published.pair[i];
		entries[i].at = -1;
		entries[i].step = -1;
		entries[i].sign = 1;
	}
	for (int64 i = 0; i < nchanges; i++)
	{
		Entry	   *entry = &entries[published + i];

		set_side(&entry->pair, SJ_LEFT, changes[i].left);
		set_side(&entry->pair, SJ_RIGHT, changes[i].right);
		entry->at = i;
		entry->step = changes[i].step;
		entry->sign = changes[i].sign;
		entry->update = changes[i].update;
	}
	check_order(round, entries + published, nchanges);
	*n = published + nchanges;
	qsort(entries, *n, sizeof(Entry), compare_entries);
	return entries;
}

/* What the changes make of one identity; they must make sense. */
static void
replay_identity(const Round *round, const Entry *entry, int64 n,
				RefPairs *result)
{
	const Entry *there = NULL;

	for (int64 i = 0; i < n; i++)
	{
		if (i > 0 && entry[i].step == entry[i - 1].step &&
			!(entry[i].update && entry[i - 1].update &&
			  entry[i].at == entry[i - 1].at + 1))
			complain(round, "changed twice in a step", &entry[i].pair);
		if (entry[i].sign > 0 && there != NULL)
			complain(round, "written twice", &entry[i].pair);
		if (entry[i].sign < 0 && there == NULL)
			complain(round, "deleted but not there", &entry[i].pair);
		if (entry[i].sign < 0 &&
			pairs_compare(&there->pair, &entry[i].pair) != 0)
			complain(round, "deleted as what it was not", &entry[i].pair);
		there = entry[i].sign > 0 ? &entry[i] : NULL;
	}
	if (there != NULL)
		pairs_add(result, &there->pair);
}

/* The published result with the changes of the batch so far. */
static void
current_result(Round *round, RefPairs *result)
{
	int64		n;
	Entry	   *entries = collect(round, &n);
	int64		end;

	result->n = 0;
	for (int64 i = 0; i < n; i = end)
	{
		for (end = i + 1; end < n; end++)
			if (!same_identity(&entries[end], &entries[i]))
				break;
		replay_identity(round, entries + i, end - i, result);
	}
	pairs_sort(result);
	pfree(entries);
}

static void
compare_clocks(Round *round)
{
	const SjClock *clock = sj_engine_clock(round->engine);

	if (memcmp(clock, &round->ref->clock, sizeof(SjClock)) != 0)
		elog(ERROR, "seed " UINT64_FORMAT ": watermark is " INT64_FORMAT
			 ", should be " INT64_FORMAT, round->seed, clock->watermark,
			 round->ref->clock.watermark);
}

/* A row in state is one of the reference's, with its degree. */
static void
compare_row(void *arg, const SjRow *row)
{
	Round	   *round = arg;
	const RefRow *other = reference_row(round->ref, row->side, row->seq);

	if ((row->flags & SJ_ROW_GONE) != 0)
		return;
	if (other == NULL || other->event_time != row->event_time ||
		other->image != ((TestTuple *) SJ_ROW_TUPLE(row))->image ||
		other->source != sj_row_source(row) ||
		other->has_key != sj_row_has_key(row))
		elog(ERROR, "seed " UINT64_FORMAT ": row " INT64_FORMAT
			 " should not be in state", round->seed, row->seq);
	if (other->replaced != ((row->flags & SJ_ROW_REPLACED) != 0))
		elog(ERROR, "seed " UINT64_FORMAT ": row " INT64_FORMAT
			 " %s be replaced", round->seed, row->seq,
			 other->replaced ? "should" : "should not");
	if (other->degree != row->degree || other->padded != row->padded)
		elog(ERROR, "seed " UINT64_FORMAT ": row " INT64_FORMAT
			 " has degree %u, should have %u", round->seed, row->seq,
			 row->degree, other->degree);
}

/* Live rows of a state. */
typedef struct LiveRows
{
	SjTime		horizon;
	int64		n;
} LiveRows;

static void
count_row(void *arg, const SjRow *row)
{
	LiveRows   *live = arg;

	if (row->event_time >= live->horizon &&
		(row->flags & SJ_ROW_GONE) == 0)
		live->n++;
}

/* All rows that can still be taken out are in state. */
static void
compare_state(Round *round)
{
	LiveRows	live = {round->ref->clock.horizon, 0};
	int64		expected = 0;

	sj_engine_walk(round->engine, compare_row, round);
	for (int i = 0; i < round->ref->nrows; i++)
	{
		const RefRow *row = &round->ref->row[i];

		if (!row->gone && row->event_time >= round->ref->clock.horizon)
			expected++;
	}
	sj_engine_walk(round->engine, count_row, &live);
	if (live.n != expected)
		elog(ERROR, "seed " UINT64_FORMAT ": " INT64_FORMAT
			 " live rows, should be " INT64_FORMAT, round->seed, live.n,
			 expected);
}

/* Compares engine and reference; leaves the result in 'got'. */
void
compare_with_reference(Round *round, RefPairs *got)
{
	RefPairs	expected = {NULL, 0, 0};

	compare_clocks(round);
	reference_result(round->ref, &expected);
	current_result(round, got);
	for (int i = 0; i < Max(got->n, expected.n); i++)
	{
		int			sign = i >= got->n ? 1 : i >= expected.n ? -1 :
		pairs_compare(&got->pair[i], &expected.pair[i]);

		if (sign < 0)
			complain(round, "should not be there", &got->pair[i]);
		if (sign > 0)
			complain(round, "missing", &expected.pair[i]);
	}
	compare_state(round);
}
