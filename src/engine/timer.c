/*-------------------------------------------------------------------------
 *
 * timer.c
 *	  Deadlines of rows that would be written unmatched, earliest first.
 *
 * A heap with four children a node, spread over pages.  The root lies at
 * position 3 and the children of position p at 4 * (p - 2) and the three
 * after it, so that the children of a node share a cache line and a page.
 *
 * A row that finds a partner keeps its place, and so does one that is taken
 * out; its deadline comes and is passed over.  A row is in the heap once, a flag
 * of it says so: one that loses its last partner again has its place still, or
 * is added again.  Adding costs next to nothing when deadlines come in order,
 * taking the earliest O(log n).  Only when most places are of rows that have
 * been taken out, or when rows have to move, all of them are looked at.
 *
 * IDENTIFICATION
 *	  src/engine/timer.c
 *
 *-------------------------------------------------------------------------
 */
#include "engine/state.h"

#define TIMERS_PER_PAGE ((uint32) (SJ_PAGE_SIZE / sizeof(SjTimer)))
#define HEAP_ROOT		3

static inline SjTimer *
timer_at(const SjEngine *engine, uint32 position)
{
	uint32		page = engine->root->timer_page[position / TIMERS_PER_PAGE];

	return (SjTimer *) SJ_PAGE(engine->arena, page) +
		position % TIMERS_PER_PAGE;
}

/* Makes room for n more timers, so that sj_timer_add() cannot fail. */
bool
sj_timer_reserve(SjEngine *engine, int64 n)
{
	SjRoot	   *root = engine->root;
	int64		last = HEAP_ROOT + root->ntimers + n - 1;

	while (last / TIMERS_PER_PAGE >= root->ntimer_pages)
	{
		uint32		page;

		if (root->ntimer_pages == SJ_MAX_TIMER_PAGES)
			return false;
		page = sj_page_alloc(engine, 1);
		if (page == SJ_NO_PAGE)
			return false;
		root->timer_page[root->ntimer_pages++] = page;
	}
	return true;
}

/* Adds the deadline of a row, which must not be there yet. */
void
sj_timer_add(SjEngine *engine, SjHandle row)
{
	SjRow	   *of = sj_row_at(engine, row);
	SjTime		due = of->due;
	uint32		position = HEAP_ROOT + engine->root->ntimers++;
	SjTimer    *hole = timer_at(engine, position);

	Assert((of->flags & SJ_ROW_TIMER) == 0);
	of->flags |= SJ_ROW_TIMER;
	while (position > HEAP_ROOT)
	{
		uint32		parent = position / 4 + 2;
		SjTimer    *above = timer_at(engine, parent);

		if (above->due <= due)
			break;
		*hole = *above;
		hole = above;
		position = parent;
	}
	hole->due = due;
	hole->row = row;
	hole->unused = 0;
}

/* The earliest deadline, SJ_TIME_MAX if there is none. */
SjTime
sj_timer_next(const SjEngine *engine)
{
	if (engine->root->ntimers == 0)
		return SJ_TIME_MAX;
	return timer_at(engine, HEAP_ROOT)->due;
}

/* Gives back pages when a second one would be empty. */
static void
trim_pages(SjEngine *engine)
{
	SjRoot	   *root = engine->root;
	uint32		needed = (HEAP_ROOT + root->ntimers) / TIMERS_PER_PAGE + 2;

	while (root->ntimer_pages > needed)
		sj_page_free(engine, root->timer_page[--root->ntimer_pages], 1);
}

/* The earliest of the children that start at 'child' and lie below 'end'. */
static uint32
earliest_child(const SjEngine *engine, uint32 child, uint32 end)
{
	const SjTimer *timer = timer_at(engine, child);
	uint32		n = Min(4, end - child);
	uint32		best = 0;

	for (uint32 i = 1; i < n; i++)
	{
		if (timer[i].due < timer[best].due)
			best = i;
	}
	return child + best;
}

/* Puts a timer at a position, or below it where it belongs. */
static void
sift_down(SjEngine *engine, uint32 position, SjTimer timer)
{
	uint32		end = HEAP_ROOT + engine->root->ntimers;
	SjTimer    *hole = timer_at(engine, position);

	for (;;)
	{
		uint32		child = 4 * (position - 2);
		SjTimer    *below;

		if (child >= end)
			break;
		child = earliest_child(engine, child, end);
		below = timer_at(engine, child);
		if (below->due >= timer.due)
			break;
		*hole = *below;
		hole = below;
		position = child;
	}
	*hole = timer;
}

/* Takes out the earliest timer, which must exist; its row, which may be dead. */
SjRow *
sj_timer_pop(SjEngine *engine)
{
	SjRoot	   *root = engine->root;
	SjRow	   *row = sj_row_at(engine, timer_at(engine, HEAP_ROOT)->row);

	Assert(root->ntimers > 0);
	Assert((row->flags & SJ_ROW_TIMER) != 0);
	row->flags &= ~SJ_ROW_TIMER;
	if (sj_row_is_dead(row))
		root->ndead_timers--;
	root->ntimers--;
	sift_down(engine, HEAP_ROOT,
			  *timer_at(engine, HEAP_ROOT + root->ntimers));
	trim_pages(engine);
	return row;
}

/* ----- all of them ----- */

/* Takes out the timers of rows that have been taken out. */
void
sj_timer_purge(SjEngine *engine)
{
	SjRoot	   *root = engine->root;
	uint32		end = HEAP_ROOT;

	if (root->ndead_timers == 0)
		return;
	for (uint32 i = HEAP_ROOT; i < HEAP_ROOT + root->ntimers; i++)
	{
		SjTimer    *timer = timer_at(engine, i);
		SjRow	   *row = sj_row_at(engine, timer->row);

		if (sj_row_is_dead(row))
			row->flags &= ~SJ_ROW_TIMER;
		else
			*timer_at(engine, end++) = *timer;
	}
	root->ntimers = end - HEAP_ROOT;
	root->ndead_timers = 0;

	/* a heap again, from the last parent up */
	for (uint32 i = (end - 1) / 4 + 2; root->ntimers > 1 && i >= HEAP_ROOT; i--)
		sift_down(engine, i, *timer_at(engine, i));
	trim_pages(engine);
}

/*
 * Until sj_timer_unmark() the rows in the heap know their place in it: it
 * stands in for their deadline, which the heap knows.  So they can be moved
 * without any memory.  None of them may be dead.
 */
void
sj_timer_mark(SjEngine *engine)
{
	uint32		end = HEAP_ROOT + engine->root->ntimers;

	Assert(engine->root->ndead_timers == 0);
	for (uint32 i = HEAP_ROOT; i < end; i++)
		sj_row_at(engine, timer_at(engine, i)->row)->due = i;
}

/* A marked row has a new handle; its deadline. */
SjTime
sj_timer_moved(SjEngine *engine, SjRow *row, SjHandle to)
{
	SjTimer    *timer = timer_at(engine, (uint32) row->due);

	timer->row = to;
	return timer->due;
}

void
sj_timer_unmark(SjEngine *engine)
{
	uint32		end = HEAP_ROOT + engine->root->ntimers;

	for (uint32 i = HEAP_ROOT; i < end; i++)
	{
		SjTimer    *timer = timer_at(engine, i);

		sj_row_at(engine, timer->row)->due = timer->due;
	}
}

void
sj_timer_free_all(SjEngine *engine)
{
	SjRoot	   *root = engine->root;

	while (root->ntimer_pages > 0)
		sj_page_free(engine, root->timer_page[--root->ntimer_pages], 1);
	root->ntimers = 0;
	root->ndead_timers = 0;
}
