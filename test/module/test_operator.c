/*-------------------------------------------------------------------------
 *
 * test_operator.c
 *	  Made-up events, the operator that joins them, and a check of the state
 *	  from inside.
 *
 * IDENTIFICATION
 *	  test/module/test_operator.c
 *
 *-------------------------------------------------------------------------
 */
#include "test_engine.h"

#include "common/hashfn.h"
#include "engine/state.h"

/* Throws when the time has come. */
static void
maybe_throw(TestOperator *test)
{
	if (test->throw_after > 0 && --test->throw_after == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("condition of the test fails")));
}

static bool
same_key(void *arg, SjSide side_a, MinimalTuple a, SjSide side_b,
		 MinimalTuple b)
{
	maybe_throw(arg);
	return ((TestTuple *) a)->key == ((TestTuple *) b)->key;
}

/* Some pairs of sequence numbers are partners, some fail, by their hash. */
SjPairVerdict
test_verdict(const TestOperator *test, int64 left_seq, int64 right_seq)
{
	uint32		hash;

	if (test->verdicts == 0)
		return SJ_PAIR_YES;
	hash = murmurhash32((uint32) (left_seq * 1000003 + right_seq));
	switch (hash % (test->verdicts + 2))
	{
		case 0:
			return SJ_PAIR_NO;
		case 1:
			return SJ_PAIR_FAILED;
		default:
			return SJ_PAIR_YES;
	}
}

static SjPairVerdict
verdict(void *arg, int64 left_seq, MinimalTuple left, int64 right_seq,
		MinimalTuple right)
{
	maybe_throw(arg);
	if (((TestTuple *) left)->seq != left_seq ||
		((TestTuple *) right)->seq != right_seq)
		elog(ERROR, "tuple and sequence number do not belong together");
	return test_verdict(arg, left_seq, right_seq);
}

/* An inner join without time range that takes everything. */
void
test_operator_init(TestOperator *test)
{
	memset(test, 0, sizeof(TestOperator));
	test->op.same_key = same_key;
	test->op.verdict = verdict;
	test->op.arg = test;
	test->bounds.timeout[SJ_LEFT] = -1;
	test->bounds.timeout[SJ_RIGHT] = -1;
	test->hash_mask = PG_UINT32_MAX;
}

TestTuple *
test_tuple(bool has_key, int64 key, int64 seq, uint32 filler)
{
	Size		size = offsetof(TestTuple, filler) + filler;
	TestTuple  *tuple = palloc(size);

	tuple->length = size;
	tuple->null_key = !has_key;
	tuple->key = key;
	tuple->seq = seq;
	memset(tuple->filler, (int) (seq & 0x7F), filler);
	return tuple;
}

void
test_event(const TestOperator *test, SjEvent *event, SjSide side,
		   SjTime event_time, TestTuple *tuple)
{
	SjReach		reach;

	sj_bounds_reach(&test->bounds, side, event_time, &reach);
	event->side = side;
	event->has_key = !tuple->null_key;
	event->hash = murmurhash32((uint32) tuple->key) & test->hash_mask;
	event->seq = tuple->seq;
	event->event_time = event_time;
	event->from = reach.from;
	event->until = reach.until;
	event->due = test->at_once[side] ? SJ_TIME_MIN : reach.due;
	event->expires = reach.expires;
	event->tuple = (MinimalTuple) tuple;
}

/* Is the row what was once inserted? */
void
test_check_row(const SjRow *row)
{
	const TestTuple *tuple = (const TestTuple *) SJ_ROW_TUPLE(row);
	Size		filler = tuple->length - offsetof(TestTuple, filler);

	if (tuple->seq != row->seq)
		elog(ERROR, "row " INT64_FORMAT " holds the tuple of " INT64_FORMAT,
			 row->seq, tuple->seq);
	for (Size i = 0; i < filler; i++)
	{
		if (tuple->filler[i] != (char) (row->seq & 0x7F))
			elog(ERROR, "tuple of row " INT64_FORMAT " is damaged", row->seq);
	}
}

/* Checks the list of one key and side; number of its rows. */
static uint64
check_list(const SjEngine *engine, SjHandle handle, SjSide side)
{
	const SjKey *key = sj_key_at(engine, handle);
	SjHandle	at = key->first[side];
	SjHandle	before = SJ_NONE;
	bool		finger = key->finger[side] == SJ_NONE;
	uint64		n = 0;

	while (at != SJ_NONE)
	{
		const SjRow *row = sj_row_at(engine, at);

		if (row->key != handle || row->side != side || row->prev != before)
			elog(ERROR, "row " INT64_FORMAT " is badly linked", row->seq);
		if (before != SJ_NONE)
		{
			const SjRow *earlier = sj_row_at(engine, before);

			if (earlier->event_time > row->event_time ||
				(earlier->event_time == row->event_time &&
				 earlier->seq >= row->seq))
				elog(ERROR, "row " INT64_FORMAT " is out of order", row->seq);
		}
		finger |= key->finger[side] == at;
		before = at;
		at = row->next;
		n++;
	}
	if (key->last[side] != before || !finger)
		elog(ERROR, "list of a key has a wrong end or finger");
	return n;
}

typedef struct RowCount
{
	uint64		all;
	uint64		keyed;
} RowCount;

static void
count_row(void *arg, const SjRow *row)
{
	RowCount   *count = arg;

	test_check_row(row);
	count->all++;
	if (row->key != SJ_NONE)
		count->keyed++;
}

/* Walks through the whole state and complains of what cannot be. */
void
test_check_state(SjEngine *engine)
{
	const SjRoot *root = engine->root;
	uint32		nkeys = 0;
	uint64		nrows = 0;
	RowCount	count = {0, 0};

	for (uint32 bucket = 0; bucket < root->nbuckets; bucket++)
	{
		uint32		per_page = SJ_PAGE_SIZE / sizeof(SjHandle);
		uint32		page = root->bucket_page[bucket / per_page];
		SjHandle	at = ((SjHandle *) SJ_PAGE(engine->arena, page))
			[bucket % per_page];

		for (; at != SJ_NONE; at = sj_key_at(engine, at)->chain)
		{
			uint32		home = sj_key_at(engine, at)->hash & root->mask;

			if (home >= root->nbuckets)
				home &= root->mask >> 1;
			if (home != bucket)
				elog(ERROR, "key is in bucket %u, not in %u", bucket, home);
			nkeys++;
			nrows += check_list(engine, at, SJ_LEFT);
			nrows += check_list(engine, at, SJ_RIGHT);
		}
	}
	sj_engine_walk(engine, count_row, &count);
	if (nkeys != root->nkeys || nrows != count.keyed ||
		count.all != root->rows[SJ_LEFT] + root->rows[SJ_RIGHT])
		elog(ERROR, "state holds %u keys and " UINT64_FORMAT " of "
			 UINT64_FORMAT " rows", nkeys, nrows, count.all);
}
