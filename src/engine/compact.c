/*-------------------------------------------------------------------------
 *
 * compact.c
 *	  Winning back the room of rows that were taken out (A5).
 *
 * Between batches, when dead rows take more room than living ones, or when the
 * arena had no page to give, the living rows of sparse pages are slid together
 * and the pages that this empties go back.  They stay in their slice and in
 * their order, so pages leave as before.
 *
 * It is done in place and needs no memory, so that it works when there is
 * none, and cannot fail.  The rows of the sparse pages of a slice are taken in
 * their order, and each is put behind the one before it: to the page where it
 * is or to an earlier one, and in its own page never further back than it was.
 *
 * A page is sparse when a certain share of it is dead.  So what is moved is at
 * most a few times what was taken out, and what was taken out is paid for
 * once.
 *
 * IDENTIFICATION
 *	  src/engine/compact.c
 *
 *-------------------------------------------------------------------------
 */
#include "engine/state.h"

#define DEAD_PAGES		4		/* as many are no reason to do anything */
#define DEAD_TIMERS		1024	/* likewise */

/* 1 / share of a page has to be dead for it to be sparse */
#define SHARE_USUALLY	4
#define SHARE_IN_NEED	8

/* 0: there is no reason to move anything */
static uint32
sparse_share(const SjEngine *engine)
{
	const SjRoot *root = engine->root;

	if (engine->refused && root->dead_bytes >= SJ_PAGE_SIZE)
		return SHARE_IN_NEED;
	if (engine->op->tight && root->dead_bytes >= SJ_PAGE_SIZE &&
		root->dead_bytes > root->row_bytes / SHARE_IN_NEED)
		return SHARE_IN_NEED;
	if (root->dead_bytes > DEAD_PAGES * SJ_PAGE_SIZE &&
		root->dead_bytes > root->row_bytes / 2)
		return SHARE_USUALLY;
	return 0;
}

/* Marks the pages of a slice that have to be compacted; are there any? */
static bool
mark_sparse(SjEngine *engine, const SjSlice *slice, uint32 share)
{
	bool		any = false;

	for (uint32 page = slice->head; page != SJ_NO_PAGE;)
	{
		SjPageHeader *header = sj_page_header(engine, page);

		header->sparse = header->dead > 0 &&
			(uint64) header->dead * share >=
			header->used - sizeof(SjPageHeader);
		any |= header->sparse;
		page = header->next;
	}
	return any;
}

/* The sparse page after this one that takes rows: not a run of pages. */
static uint32
next_sparse(const SjEngine *engine, uint32 page)
{
	const SjPageHeader *header;

	do
	{
		page = sj_page_header(engine, page)->next;
		Assert(page != SJ_NO_PAGE);
		header = sj_page_header(engine, page);
	} while (!header->sparse || header->npages > 1);
	return page;
}

/* Puts a row behind the others of a page. */
static void
put_row(SjEngine *engine, uint32 page, SjHandle from)
{
	SjPageHeader *header = sj_page_header(engine, page);
	SjHandle	to = sj_handle(page, header->used);
	SjRow	   *row = sj_row_at(engine, to);
	SjTime		due;
	SjTime		leaves;

	if (to != from)
	{
		const SjRow *old = sj_row_at(engine, from);

		memmove(row, old, old->size);
		for (SjIndex index = SJ_BY_KEY; index <= SJ_BY_ENTITY; index++)
			if (sj_is_linked(row, index))
				sj_key_moved(engine, row, from, to, index);
	}
	due = (row->flags & SJ_ROW_TIMER) == 0 ? row->due :
		sj_timer_moved(engine, row, to);
	leaves = sj_leaving_time(engine->op, row->side, due, row->expires);
	header->used += row->size;
	header->nrows++;
	header->leaves = Max(header->leaves, leaves);
}

/* Forgets what is in a sparse page. */
static void
empty_page(SjEngine *engine, SjSlice *slice, SjPageHeader *header)
{
	slice->bytes -= header->dead;
	engine->root->row_bytes -= header->dead;
	engine->root->dead_bytes -= header->dead;
	header->used = sizeof(SjPageHeader);
	header->nrows = 0;
	header->leaves = SJ_TIME_MIN;
	header->dead = 0;
}

/* Slides the living rows of the sparse pages together. */
static void
slide_rows(SjEngine *engine, SjSlice *slice)
{
	uint32		to = SJ_NO_PAGE;

	for (uint32 page = slice->head; page != SJ_NO_PAGE;
		 page = sj_page_header(engine, page)->next)
	{
		SjPageHeader *header = sj_page_header(engine, page);
		uint32		nrows = header->nrows;
		uint32		at = sizeof(SjPageHeader);

		if (!header->sparse)
			continue;
		empty_page(engine, slice, header);
		if (header->npages > 1)
			continue;			/* its one row is dead */
		if (to == SJ_NO_PAGE)
			to = page;
		for (uint32 i = 0; i < nrows; i++)
		{
			SjHandle	from = sj_handle(page, at);
			SjRow	   *row = sj_row_at(engine, from);

			at += row->size;
			if (sj_row_is_dead(row))
				continue;
			if (sj_page_header(engine, to)->used + row->size > SJ_PAGE_SIZE)
				to = next_sparse(engine, to);
			put_row(engine, to, from);
		}
	}
}

/* Gives back the pages that are empty now; false when none is left. */
static bool
free_empty_pages(SjEngine *engine, SjSlice *slice)
{
	uint32	   *link = &slice->head;
	uint32		roomy = SJ_NO_PAGE;

	while (*link != SJ_NO_PAGE)
	{
		uint32		page = *link;
		SjPageHeader *header = sj_page_header(engine, page);

		if (header->nrows == 0)
		{
			*link = header->next;
			if (slice->fill == page)
				slice->fill = SJ_NO_PAGE;
			sj_page_free(engine, page, header->npages);
			continue;
		}
		if (header->sparse)
			roomy = page;
		header->sparse = false;
		slice->tail = page;
		link = &header->next;
	}

	/* the last page that took rows has the most room of them */
	if (roomy != SJ_NO_PAGE &&
		(slice->fill == SJ_NO_PAGE ||
		 sj_page_header(engine, roomy)->used <
		 sj_page_header(engine, slice->fill)->used))
		slice->fill = roomy;
	return slice->head != SJ_NO_PAGE;
}

static void
compact_side(SjEngine *engine, SjSide side, uint32 share)
{
	SjSliceSet *set = &engine->root->slices[side];

	for (uint32 i = set->n; i-- > 0;)
	{
		SjSlice    *slice = &set->slice[i];

		if (!mark_sparse(engine, slice, share))
			continue;
		slide_rows(engine, slice);
		if (!free_empty_pages(engine, slice))
			sj_slice_remove(set, i);
	}
}

/*
 * Wins back room and timers of dead rows, where there is reason to.  No change
 * may point at a row.  Rows move.
 */
void
sj_state_compact(SjEngine *engine)
{
	const SjRoot *root = engine->root;
	uint32		share = sparse_share(engine);

	if (share > 0 ||
		(root->ndead_timers > DEAD_TIMERS &&
		 root->ndead_timers > root->ntimers / 2))
		sj_timer_purge(engine);
	if (share == 0)
		return;

	sj_timer_mark(engine);
	compact_side(engine, SJ_LEFT, share);
	compact_side(engine, SJ_RIGHT, share);
	sj_timer_unmark(engine);
	engine->refused = false;
}
