/*-------------------------------------------------------------------------
 *
 * state.c
 *	  Where the rows of a join lie, and how they leave.
 *
 * Rows are appended to pages; a page holds rows of one side that leave at
 * about the same time (a slice), so pages become free as a whole, and nothing
 * is moved as long as rows only come.  (What becomes of the room of rows that
 * are taken out: compact.c.)  A row leaves when the horizon is past its
 * 'expires' and past its deadline; a page keeps the greatest of these times,
 * and the oldest pages of a slice go as soon as the horizon is past theirs.
 * So a batch has to remove about as many rows as it brought, and after a far
 * watermark nothing is left.
 *
 * A slice covers a range of time whose length is a power of two.  Ranges are
 * aligned to their length, hence nested or disjoint, and slices of different
 * lengths live side by side: when a side would need more than SJ_MAX_SLICES,
 * or has some that hardly fill a page each, the length is doubled and slices
 * that now fall together are merged; when few are left it shrinks again for
 * slices to come.
 *
 * IDENTIFICATION
 *	  src/engine/state.c
 *
 *-------------------------------------------------------------------------
 */
#include "engine/state.h"

#define SJ_MIN_WIDTH	(INT64CONST(1) << 20)	/* about a second */
#define SJ_MAX_WIDTH	(INT64CONST(1) << 62)
#define SJ_SLICES_PER_REACH 8
#define SJ_SOME_SLICES	8
#define SJ_PAGE_ROOM	(SJ_PAGE_SIZE - sizeof(SjPageHeader))

StaticAssertDecl(sizeof(SjRoot) <= SJ_PAGE_SIZE, "root must fit a page");
StaticAssertDecl(sizeof(SjPageHeader) % SJ_GRANULE == 0, "bad page header");
StaticAssertDecl(sizeof(SjKey) % SJ_GRANULE == 0, "bad key entry");

/* First of 'npages' pages, or SJ_NO_PAGE. */
uint32
sj_page_alloc(SjEngine *engine, uint32 npages)
{
	uint32		page = engine->arena->alloc(engine->arena, npages);

	if (page != SJ_NO_PAGE)
		engine->root->npages += npages;
	else
		engine->refused = true;
	return page;
}

void
sj_page_free(SjEngine *engine, uint32 page, uint32 npages)
{
	engine->root->npages -= npages;
	engine->arena->free(engine->arena, page, npages);
}

/* Power of two that divides 'reach' into about SJ_SLICES_PER_REACH parts. */
static int64
initial_width(int64 reach)
{
	int64		width = SJ_MIN_WIDTH;

	while (width < reach / SJ_SLICES_PER_REACH && width < SJ_MAX_WIDTH)
		width *= 2;
	return width;
}

/* Sets up the slices in a zeroed root. */
void
sj_state_init(SjEngine *engine)
{
	for (int side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		SjSliceSet *set = &engine->root->slices[side];

		set->base_width = initial_width(engine->op->reach[side]);
		set->width = set->base_width;
	}
}

static inline SjTime
leaving_time(const SjEngine *engine, const SjEvent *event)
{
	return sj_leaving_time(engine->op, event->side, event->due,
						   event->expires);
}

static inline uint32
row_size(const SjEngine *engine, const SjEvent *event)
{
	return TYPEALIGN(SJ_GRANULE,
					 MAXALIGN(sizeof(SjRow)) + event->tuple->t_len +
					 (OidIsValid(event->source) ? sizeof(Oid) : 0) +
					 (engine->op->upsert[event->side] ? sizeof(SjVersion) : 0));
}

static inline bool
slice_covers(const SjSlice *slice, SjTime leaves)
{
	return (leaves & ~(slice->width - 1)) == slice->first;
}

static SjSlice *
find_slice(SjSliceSet *set, SjTime leaves)
{
	if (set->recent < set->n && slice_covers(&set->slice[set->recent], leaves))
		return &set->slice[set->recent];

	for (uint32 i = 0; i < set->n; i++)
	{
		if (slice_covers(&set->slice[i], leaves))
		{
			set->recent = i;
			return &set->slice[i];
		}
	}
	return NULL;
}

/* Forgets a slice that has no pages left; the last one takes its place. */
void
sj_slice_remove(SjSliceSet *set, uint32 i)
{
	set->slice[i] = set->slice[--set->n];
}

/* Appends the pages of slice 'from' to those of slice 'to'. */
static void
merge_slices(SjEngine *engine, SjSlice *to, const SjSlice *from)
{
	sj_page_header(engine, to->tail)->next = from->head;
	to->tail = from->tail;
	to->bytes += from->bytes;
	if (to->fill == SJ_NO_PAGE ||
		(from->fill != SJ_NO_PAGE &&
		 sj_page_header(engine, from->fill)->used <
		 sj_page_header(engine, to->fill)->used))
		to->fill = from->fill;
}

/* Doubles the length of the slices of a side. */
static void
widen_slices(SjEngine *engine, SjSliceSet *set)
{
	Assert(set->width < SJ_MAX_WIDTH);
	set->width *= 2;
	for (uint32 i = 0; i < set->n; i++)
	{
		SjSlice    *slice = &set->slice[i];

		/* rows that never leave stay by themselves */
		if (slice->first == SJ_TIME_MAX || slice->width >= set->width)
			continue;
		slice->width = set->width;
		slice->first &= ~(set->width - 1);
	}

	for (uint32 i = 0; i < set->n; i++)
	{
		for (uint32 j = set->n - 1; j > i; j--)
		{
			if (set->slice[j].first != set->slice[i].first ||
				set->slice[j].width != set->slice[i].width)
				continue;
			merge_slices(engine, &set->slice[i], &set->slice[j]);
			sj_slice_remove(set, j);
		}
	}
}

/* Would one more slice be too many, for the table or for so little data? */
static bool
must_widen(const SjSliceSet *set)
{
	uint64		bytes = 0;

	if (set->n < SJ_SOME_SLICES)
		return false;
	if (set->n == SJ_MAX_SLICES)
		return true;
	for (uint32 i = 0; i < set->n; i++)
		bytes += set->slice[i].bytes;
	return bytes < (uint64) set->n * SJ_PAGE_SIZE / 2;
}

/* A new slice, whose first page this is, for rows that leave at this time. */
static SjSlice *
add_slice(SjEngine *engine, SjSliceSet *set, SjTime leaves, uint32 page)
{
	SjSlice    *slice;

	Assert(set->n < SJ_MAX_SLICES);
	set->recent = set->n++;
	slice = &set->slice[set->recent];
	slice->width = leaves == SJ_TIME_MAX ? 1 : set->width;
	slice->first = leaves & ~(slice->width - 1);
	slice->head = page;
	slice->tail = page;
	slice->fill = SJ_NO_PAGE;
	slice->bytes = 0;
	return slice;
}

/* Does the slice have a page with room for so many bytes? */
static bool
slice_has_room(SjEngine *engine, const SjSlice *slice, uint32 size)
{
	return size <= SJ_PAGE_ROOM && slice->fill != SJ_NO_PAGE &&
		sj_page_header(engine, slice->fill)->used + size <= SJ_PAGE_SIZE;
}

/* A page with room for 'size' bytes, a run of pages if need be. */
static uint32
new_row_page(SjEngine *engine, uint32 size)
{
	uint32		npages;
	uint32		page;
	SjPageHeader *header;

	npages = (sizeof(SjPageHeader) + (Size) size + SJ_PAGE_SIZE - 1) /
		SJ_PAGE_SIZE;
	page = sj_page_alloc(engine, npages);
	if (page == SJ_NO_PAGE)
		return page;

	header = sj_page_header(engine, page);
	header->next = SJ_NO_PAGE;
	header->npages = npages;
	header->used = sizeof(SjPageHeader);
	header->nrows = 0;
	header->leaves = SJ_TIME_MIN;
	header->dead = 0;
	header->sparse = false;
	return page;
}

/*
 * Makes room for a row, so that sj_row_store() cannot fail.
 *
 * Must be the last reservation of an insertion: a slice has no empty pages
 * but between this and the store.
 */
bool
sj_row_reserve(SjEngine *engine, const SjEvent *event)
{
	SjSliceSet *set = &engine->root->slices[event->side];
	SjTime		leaves = leaving_time(engine, event);
	SjSlice    *slice = find_slice(set, leaves);
	uint32		size = row_size(engine, event);
	uint32		page;

	while (slice == NULL && must_widen(set))
	{
		widen_slices(engine, set);
		slice = find_slice(set, leaves);
	}
	if (slice != NULL && slice_has_room(engine, slice, size))
		return true;

	page = new_row_page(engine, size);
	if (page == SJ_NO_PAGE)
		return false;
	if (slice == NULL)
		slice = add_slice(engine, set, leaves, page);
	else
		sj_page_header(engine, slice->tail)->next = page;
	slice->tail = page;
	if (size <= SJ_PAGE_ROOM)
		slice->fill = page;
	return true;
}

/* Copies the event into the room that sj_row_reserve() made. */
SjHandle
sj_row_store(SjEngine *engine, const SjEvent *event)
{
	SjTime		leaves = leaving_time(engine, event);
	SjSlice    *slice = find_slice(&engine->root->slices[event->side], leaves);
	uint32		size = row_size(engine, event);
	uint32		number = size <= SJ_PAGE_ROOM ? slice->fill : slice->tail;
	SjPageHeader *page = sj_page_header(engine, number);
	SjHandle	handle = sj_handle(number, page->used);
	SjRow	   *row = sj_row_at(engine, handle);

	memset(row, 0, sizeof(SjRow));
	row->seq = event->seq;
	row->event_time = event->event_time;
	row->due = event->due;
	row->expires = event->expires;
	row->side = event->side;
	row->flags = event->has_key ? 0 : SJ_ROW_KEYLESS;
	row->size = size;
	memcpy(SJ_ROW_TUPLE(row), event->tuple, event->tuple->t_len);
	if (OidIsValid(event->source))
	{
		row->flags |= SJ_ROW_SOURCE;
		memcpy((char *) SJ_ROW_TUPLE(row) + event->tuple->t_len,
			   &event->source, sizeof(Oid));
	}
	if (engine->op->upsert[event->side])
	{
		row->flags |= SJ_ROW_VERSION;
		memset(sj_version_of(row), 0, sizeof(SjVersion));
		sj_version_of(row)->version = event->version;
	}

	page->used += row->size;
	page->nrows++;
	page->leaves = Max(page->leaves, leaves);
	slice->bytes += size;
	engine->root->row_bytes += size;
	engine->root->rows[event->side]++;
	return handle;
}

Oid
sj_row_source(const SjRow *row)
{
	Oid			source = InvalidOid;

	if ((row->flags & SJ_ROW_SOURCE) != 0)
		memcpy(&source, (char *) SJ_ROW_TUPLE(row) + SJ_ROW_TUPLE(row)->t_len,
			   sizeof(Oid));
	return source;
}

int64
sj_row_version(const SjRow *row)
{
	return (row->flags & SJ_ROW_VERSION) != 0 ? sj_version_of(row)->version :
		0;
}

/*
 * A row that is in no list any more is dead from here on.
 *
 * Its bytes stay where they are, for the changes of the batch; its place in
 * the heap of deadlines, if it has one, is passed over.
 */
void
sj_row_kill(SjEngine *engine, SjHandle handle)
{
	SjRoot	   *root = engine->root;
	SjRow	   *row = sj_row_at(engine, handle);

	Assert(!sj_row_is_dead(row));
	Assert(!sj_is_linked(row, SJ_BY_KEY) && !sj_is_linked(row, SJ_BY_ENTITY));
	row->flags |= SJ_ROW_DEAD;
	if ((row->flags & SJ_ROW_TIMER) != 0)
		root->ndead_timers++;
	sj_page_header(engine, sj_page_of(handle))->dead += row->size;
	root->dead_bytes += row->size;
	root->rows[row->side]--;
}

/* ----- looking at all rows ----- */

/* Begins with the rows of a side. */
void
sj_scan_start(SjScan *scan, SjSide side)
{
	memset(scan, 0, sizeof(SjScan));
	scan->side = side;
	scan->page = SJ_NO_PAGE;
}

/* Goes to the first row of the next page; false when there is none. */
static bool
scan_next_page(const SjEngine *engine, SjScan *scan)
{
	const SjSliceSet *set = &engine->root->slices[scan->side];

	if (scan->page != SJ_NO_PAGE)
		scan->page = sj_page_header(engine, scan->page)->next;
	if (scan->page == SJ_NO_PAGE)
	{
		if (scan->slice == set->n)
			return false;
		scan->page = set->slice[scan->slice++].head;
	}
	scan->at = sizeof(SjPageHeader);
	scan->left = sj_page_header(engine, scan->page)->nrows;
	return true;
}

/*
 * The next row, or SJ_NONE.  It may be taken out on the way, but nothing may
 * be taken in.
 */
SjHandle
sj_scan_next(const SjEngine *engine, SjScan *scan)
{
	for (;;)
	{
		while (scan->left > 0)
		{
			SjHandle	handle = sj_handle(scan->page, scan->at);
			SjRow	   *row = sj_row_at(engine, handle);

			scan->left--;
			scan->at += row->size;
			if (!sj_row_is_dead(row))
				return handle;
		}
		if (!scan_next_page(engine, scan))
			return SJ_NONE;
	}
}

/* ----- leaving ----- */

/*
 * Unlinks the rows of a page from their keys.
 *
 * What has left can no longer be taken out (R5): it is behind the horizon.
 */
static void
drop_page_rows(SjEngine *engine, SjSide side, SjPageHeader *page)
{
	char	   *at = (char *) page + sizeof(SjPageHeader);
	uint64		n = 0;

	for (uint32 i = 0; i < page->nrows; i++)
	{
		SjRow	   *row = (SjRow *) at;

		Assert((row->flags & SJ_ROW_TIMER) == 0);
		if (!sj_row_is_dead(row))
		{
			Assert(row->event_time < engine->root->clock.horizon);
			for (SjIndex index = SJ_BY_KEY; index <= SJ_BY_ENTITY; index++)
				if (sj_is_linked(row, index))
					sj_key_unlink(engine, row, index);
			n++;
		}
		at += row->size;
	}
	Assert(at == (char *) page + page->used);
	engine->root->rows[side] -= n;
	engine->root->expired[side] += n;
}

/* Drops the oldest page; false when it was the slice's last. */
static bool
drop_oldest_page(SjEngine *engine, SjSide side, SjSlice *slice)
{
	uint32		number = slice->head;
	SjPageHeader *page = sj_page_header(engine, number);

	drop_page_rows(engine, side, page);
	slice->head = page->next;
	slice->bytes -= page->used - sizeof(SjPageHeader);
	engine->root->row_bytes -= page->used - sizeof(SjPageHeader);
	engine->root->dead_bytes -= page->dead;
	if (slice->fill == number)
		slice->fill = SJ_NO_PAGE;
	sj_page_free(engine, number, page->npages);
	return slice->head != SJ_NO_PAGE;
}

/* Lets the rows of a side go that leave before 'limit'. */
static void
expire_side(SjEngine *engine, SjSide side, SjTime limit)
{
	SjSliceSet *set = &engine->root->slices[side];

	for (uint32 i = set->n; i-- > 0;)
	{
		SjSlice    *slice = &set->slice[i];

		if (slice->first >= limit)
			continue;
		while (sj_page_header(engine, slice->head)->leaves < limit)
		{
			if (!drop_oldest_page(engine, side, slice))
			{
				sj_slice_remove(set, i);
				break;
			}
		}
	}

	if (set->n < SJ_SOME_SLICES / 2 && set->width > set->base_width)
		set->width /= 2;
}

/*
 * Lets rows go that the horizon has passed.
 *
 * A row whose deadline still waits to be looked at stays.
 */
void
sj_state_expire(SjEngine *engine)
{
	SjTime		limit = engine->root->clock.horizon;

	limit = Min(limit, sj_timer_next(engine));
	if (limit == SJ_TIME_MIN)
		return;
	expire_side(engine, SJ_LEFT, limit);
	expire_side(engine, SJ_RIGHT, limit);
}

/*
 * A state without rows gives back all pages but its root.
 *
 * Dead rows are needed as long as changes point at them: they go only between
 * batches.
 */
void
sj_state_release_if_empty(SjEngine *engine, bool between_batches)
{
	SjRoot	   *root = engine->root;

	if (root->rows[SJ_LEFT] + root->rows[SJ_RIGHT] > 0 ||
		(root->row_bytes > 0 && !between_batches))
		return;
	Assert(root->nkeys == 0 && root->ntimers == root->ndead_timers);
	Assert(root->row_bytes == root->dead_bytes);
	sj_state_free_rows(engine);
	sj_key_free_all(engine);
	sj_timer_free_all(engine);
	root->slices[SJ_LEFT].width = root->slices[SJ_LEFT].base_width;
	root->slices[SJ_RIGHT].width = root->slices[SJ_RIGHT].base_width;
	Assert(root->npages == 1);
}

/* Gives back the pages of all rows, without looking at the rows. */
void
sj_state_free_rows(SjEngine *engine)
{
	for (int side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		SjSliceSet *set = &engine->root->slices[side];

		for (uint32 i = 0; i < set->n; i++)
		{
			uint32		page = set->slice[i].head;

			while (page != SJ_NO_PAGE)
			{
				SjPageHeader *header = sj_page_header(engine, page);
				uint32		next = header->next;

				sj_page_free(engine, page, header->npages);
				page = next;
			}
		}
		set->n = 0;
	}
	engine->root->row_bytes = 0;
	engine->root->dead_bytes = 0;
}
