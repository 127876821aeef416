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

static bool
same_entity(void *arg, SjSide side, MinimalTuple a, MinimalTuple b)
{
	maybe_throw(arg);
	if (((TestTuple *) a)->entity == 0 || ((TestTuple *) b)->entity == 0)
		elog(ERROR, "a NULL is compared");
	return ((TestTuple *) a)->entity == ((TestTuple *) b)->entity;
}

/* Some pairs of images are partners, some fail, by their hash. */
SjPairVerdict
test_verdict(const TestOperator *test, int64 left_image, int64 right_image)
{
	uint32		hash;

	if (test->verdicts == 0)
		return SJ_PAIR_YES;
	hash = murmurhash32((uint32) (left_image * 1000003 + right_image));
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
verdict(void *arg, const SjPair *pair)
{
	maybe_throw(arg);
	return test_verdict(arg, ((TestTuple *) pair->tuple[SJ_LEFT])->image,
						((TestTuple *) pair->tuple[SJ_RIGHT])->image);
}

static void
range(void *arg, SjSide side, SjTime event_time, SjTime *from, SjTime *until)
{
	TestOperator *test = arg;
	SjReach		reach;

	sj_bounds_reach(&test->bounds, side, event_time, &reach);
	*from = reach.from;
	*until = reach.until;
}

static bool
same_image(void *arg, SjSide side, MinimalTuple a, MinimalTuple b)
{
	TestTuple  *x = (TestTuple *) a;
	TestTuple  *y = (TestTuple *) b;

	return x->length == y->length && x->null_key == y->null_key &&
		x->key == y->key && x->image == y->image && x->entity == y->entity &&
		memcmp(x->filler, y->filler,
			   x->length - offsetof(TestTuple, filler)) == 0;
}

/* An inner join without time range that takes everything. */
void
test_operator_init(TestOperator *test)
{
	memset(test, 0, sizeof(TestOperator));
	test->op.same_key = same_key;
	test->op.same_entity = same_entity;
	test->op.verdict = verdict;
	test->op.range = range;
	test->op.same_image = same_image;
	test->op.arg = test;
	test->bounds.timeout[SJ_LEFT] = -1;
	test->bounds.timeout[SJ_RIGHT] = -1;
	test->hash_mask = PG_UINT32_MAX;
}

TestTuple *
test_tuple(bool has_key, int64 key, int64 image, uint32 filler)
{
	Size		size = offsetof(TestTuple, filler) + filler;
	TestTuple  *tuple = palloc(size);

	tuple->length = size;
	tuple->null_key = !has_key;
	tuple->noise = 0;
	tuple->key = key;
	tuple->image = image;
	tuple->entity = 0;
	memset(tuple->filler, (int) (image & 0x7F), filler);
	return tuple;
}

void
test_event(const TestOperator *test, SjEvent *event, SjSide side,
		   SjTime event_time, TestTuple *tuple)
{
	SjReach		reach;

	sj_bounds_reach(&test->bounds, side, event_time, &reach);
	event->side = side;
	event->source = InvalidOid;
	event->has_key = !tuple->null_key;
	event->hash = murmurhash32((uint32) tuple->key) & test->hash_mask;
	event->seq = tuple->image;
	event->event_time = event_time;
	event->from = reach.from;
	event->until = reach.until;
	event->due = test->at_once[side] ? SJ_TIME_MIN : reach.due;
	event->expires = test->op.upsert[SJ_LEFT] || test->op.upsert[SJ_RIGHT] ?
		sj_time_add(reach.expires, test->op.replaces) : reach.expires;
	event->has_entity = tuple->entity != 0;
	event->entity_hash = murmurhash32((uint32) tuple->entity) &
		test->hash_mask;
	event->version = tuple->image;
	event->tuple = (MinimalTuple) tuple;
}

/* Is the row what was once inserted? */
void
test_check_row(const SjRow *row)
{
	const TestTuple *tuple = (const TestTuple *) SJ_ROW_TUPLE(row);
	Size		filler = tuple->length - offsetof(TestTuple, filler);

	if (!tuple->null_key != sj_row_has_key(row))
		elog(ERROR, "row " INT64_FORMAT " has lost or got a key", row->seq);
	for (Size i = 0; i < filler; i++)
	{
		if (tuple->filler[i] != (char) (tuple->image & 0x7F))
			elog(ERROR, "tuple of row " INT64_FORMAT " is damaged", row->seq);
	}
}

/* What orders two rows of a list that have the same event time. */
static int64
rank_of(const SjRow *row, SjIndex index)
{
	return index == SJ_BY_KEY ? row->seq : sj_row_version(row);
}

/* Checks the list of one key and side; number of its rows. */
static uint64
check_list(const SjEngine *engine, SjHandle handle, SjSide side)
{
	SjIndex		index = sj_key_at(engine, handle)->hash > SJ_HASH_BITS ?
	SJ_BY_ENTITY : SJ_BY_KEY;
	const SjKey *key = sj_key_at(engine, handle);
	SjHandle	at = key->first[side];
	SjHandle	before = SJ_NONE;
	bool		finger = key->finger[side] == SJ_NONE;
	uint64		n = 0;

	while (at != SJ_NONE)
	{
		SjRow	   *row = sj_row_at(engine, at);

		if (sj_links(row, index)->key != handle || row->side != side ||
			sj_links(row, index)->prev != before || sj_row_is_dead(row) ||
			(index == SJ_BY_KEY && sj_row_is_past(row)))
			elog(ERROR, "row " INT64_FORMAT " is badly linked", row->seq);
		if (before != SJ_NONE)
		{
			const SjRow *earlier = sj_row_at(engine, before);

			if (earlier->event_time > row->event_time ||
				(earlier->event_time == row->event_time &&
				 rank_of(earlier, index) >= rank_of(row, index)))
				elog(ERROR, "row " INT64_FORMAT " is out of order", row->seq);
		}
		finger |= key->finger[side] == at;
		before = at;
		at = sj_links(row, index)->next;
		n++;
	}
	if (key->last[side] != before || !finger)
		elog(ERROR, "list of a key has a wrong end or finger");
	return n;
}

/* Complains of a heap entry that cannot be; is its row dead? */
static bool
check_timer(const SjEngine *engine, uint32 position)
{
	uint32		per_page = SJ_PAGE_SIZE / sizeof(SjTimer);
	const SjRoot *root = engine->root;
	const SjTimer *timer = (SjTimer *)
		SJ_PAGE(engine->arena, root->timer_page[position / per_page]) +
		position % per_page;
	uint32		parent = position / 4 + 2;
	const SjTimer *above = (SjTimer *)
		SJ_PAGE(engine->arena, root->timer_page[parent / per_page]) +
		parent % per_page;
	const SjRow *row = sj_row_at(engine, timer->row);

	if ((row->flags & SJ_ROW_TIMER) == 0 || row->due != timer->due)
		elog(ERROR, "timer %u is not that of its row", position);
	if (position > 3 && above->due > timer->due)
		elog(ERROR, "timer %u is out of order", position);
	return sj_row_is_dead(row);
}

static void
check_timers(const SjEngine *engine, uint64 nflags, uint64 nrows)
{
	const SjRoot *root = engine->root;
	uint32		ndead = 0;

	for (uint32 i = 0; i < root->ntimers; i++)
		ndead += check_timer(engine, i + 3);
	if (ndead != root->ndead_timers || nflags != root->ntimers ||
		root->ntimers - ndead > nrows)
		elog(ERROR, "%u timers, %u of dead rows, " UINT64_FORMAT " flags",
			 root->ntimers, ndead, nflags);
}

/* What lies in the pages of rows. */
typedef struct Contents
{
	uint64		live;
	uint64		linked[2];		/* rows in lists, by SjIndex */
	uint64		bytes;
	uint64		dead_bytes;
	uint64		timers;
} Contents;

static void
check_page(const SjEngine *engine, uint32 number, Contents *contents)
{
	const SjPageHeader *page = sj_page_header(engine, number);
	uint32		at = sizeof(SjPageHeader);
	uint32		dead = 0;

	for (uint32 i = 0; i < page->nrows; i++)
	{
		SjRow	   *row = (SjRow *) ((char *) page + at);
		bool		timer = (row->flags & SJ_ROW_TIMER) != 0;

		test_check_row(row);
		contents->timers += timer;
		if (sj_row_is_dead(row))
			dead += row->size;
		else
		{
			contents->live++;
			contents->linked[SJ_BY_KEY] += sj_is_linked(row, SJ_BY_KEY);
			contents->linked[SJ_BY_ENTITY] += sj_is_linked(row, SJ_BY_ENTITY);
			if (sj_row_is_past(row) && !sj_is_linked(row, SJ_BY_ENTITY))
				elog(ERROR, "row " INT64_FORMAT " is of no use", row->seq);
			if (!timer && !sj_row_is_past(row) && engine->op->pad[row->side] && row->degree == 0 &&
				!row->padded && row->due != SJ_TIME_MAX)
				elog(ERROR, "row " INT64_FORMAT " has no deadline", row->seq);
			if (page->leaves < sj_leaving_time(engine->op, row->side,
											   row->due, row->expires))
				elog(ERROR, "row " INT64_FORMAT " would leave too early",
					 row->seq);
		}
		at += row->size;
	}
	if (at != page->used || dead != page->dead || page->sparse ||
		page->nrows == 0)
		elog(ERROR, "page %u is miscounted", number);
	contents->bytes += at - sizeof(SjPageHeader);
	contents->dead_bytes += dead;
}

static void
check_slice(const SjEngine *engine, const SjSlice *slice, Contents *contents)
{
	uint32		page = slice->head;
	uint32		last = SJ_NO_PAGE;
	bool		fill = slice->fill == SJ_NO_PAGE;
	uint64		bytes = contents->bytes;

	while (page != SJ_NO_PAGE)
	{
		check_page(engine, page, contents);
		fill |= page == slice->fill;
		last = page;
		page = sj_page_header(engine, page)->next;
	}
	if (last == SJ_NO_PAGE || last != slice->tail || !fill ||
		contents->bytes - bytes != slice->bytes)
		elog(ERROR, "the pages of a slice are badly linked");
}

static void
check_slices(const SjEngine *engine, Contents *contents)
{
	const SjRoot *root = engine->root;

	memset(contents, 0, sizeof(Contents));
	for (int side = 0; side < 2; side++)
		for (uint32 i = 0; i < root->slices[side].n; i++)
			check_slice(engine, &root->slices[side].slice[i], contents);
	if (contents->live != root->rows[SJ_LEFT] + root->rows[SJ_RIGHT] ||
		contents->bytes != root->row_bytes ||
		contents->dead_bytes != root->dead_bytes)
		elog(ERROR, "state holds " UINT64_FORMAT " rows of " UINT64_FORMAT
			 " bytes, " UINT64_FORMAT " of them dead", contents->live,
			 contents->bytes, contents->dead_bytes);
}

static void
count_row(void *arg, const SjRow *row)
{
	uint64	   *n = arg;

	if (sj_row_is_dead(row))
		elog(ERROR, "row " INT64_FORMAT " is dead", row->seq);
	(*n)++;
}

/* Walks through the whole state and complains of what cannot be. */
void
test_check_state(SjEngine *engine)
{
	const SjRoot *root = engine->root;
	uint32		nkeys = 0;
	uint32		nentities = 0;
	uint64		nrows[2] = {0, 0};
	uint64		walked = 0;
	Contents	contents;

	for (uint32 bucket = 0; bucket < root->nbuckets; bucket++)
	{
		uint32		per_page = SJ_PAGE_SIZE / sizeof(SjHandle);
		uint32		page = root->bucket_page[bucket / per_page];
		SjHandle	at = ((SjHandle *) SJ_PAGE(engine->arena, page))
			[bucket % per_page];

		for (; at != SJ_NONE; at = sj_key_at(engine, at)->chain)
		{
			uint32		home = sj_key_at(engine, at)->hash & root->mask;
			bool		entity = sj_key_at(engine, at)->hash > SJ_HASH_BITS;
			SjIndex		index = entity ? SJ_BY_ENTITY : SJ_BY_KEY;

			if (home >= root->nbuckets)
				home &= root->mask >> 1;
			if (home != bucket)
				elog(ERROR, "key is in bucket %u, not in %u", bucket, home);
			nkeys++;
			nentities += entity;
			nrows[index] += check_list(engine, at, SJ_LEFT);
			nrows[index] += check_list(engine, at, SJ_RIGHT);
		}
	}
	check_slices(engine, &contents);
	check_timers(engine, contents.timers, contents.live);
	sj_engine_walk(engine, count_row, &walked);
	if (nkeys != root->nkeys || nentities != root->nentities ||
		nrows[SJ_BY_KEY] != contents.linked[SJ_BY_KEY] ||
		nrows[SJ_BY_ENTITY] != contents.linked[SJ_BY_ENTITY] ||
		walked != contents.live)
		elog(ERROR, "state holds %u keys and " UINT64_FORMAT " of "
			 UINT64_FORMAT " rows", nkeys, nrows[SJ_BY_KEY], contents.live);
}
