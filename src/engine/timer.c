/*-------------------------------------------------------------------------
 *
 * timer.c
 *	  Deadlines of rows that would be written unmatched, earliest first.
 *
 * A heap with four children a node, spread over pages.  The root lies at
 * position 3 and the children of position p at 4 * (p - 2) and the three
 * after it, so that the children of a node share a cache line and a page.
 *
 * A row that finds a partner keeps its place; its deadline comes and is passed
 * over.  Adding costs next to nothing when deadlines come in order, taking the
 * earliest O(log n); nothing ever looks at all of them.
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

/* Makes room for one more timer, so that sj_timer_add() cannot fail. */
bool
sj_timer_reserve(SjEngine *engine)
{
	SjRoot	   *root = engine->root;
	uint32		page;

	if ((HEAP_ROOT + root->ntimers) / TIMERS_PER_PAGE < root->ntimer_pages)
		return true;
	if (root->ntimer_pages == SJ_MAX_TIMER_PAGES)
		return false;
	page = sj_page_alloc(engine, 1);
	if (page == SJ_NO_PAGE)
		return false;
	root->timer_page[root->ntimer_pages++] = page;
	return true;
}

void
sj_timer_add(SjEngine *engine, SjTime due, SjHandle row)
{
	uint32		position = HEAP_ROOT + engine->root->ntimers++;
	SjTimer    *hole = timer_at(engine, position);

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

/* Gives back a page when a second one would be empty. */
static void
trim_pages(SjEngine *engine)
{
	SjRoot	   *root = engine->root;
	uint32		needed = (HEAP_ROOT + root->ntimers) / TIMERS_PER_PAGE + 2;

	if (root->ntimer_pages > needed)
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

/* Takes out the earliest timer, which must exist; its row. */
SjHandle
sj_timer_pop(SjEngine *engine)
{
	SjRoot	   *root = engine->root;
	uint32		position = HEAP_ROOT;
	SjTimer    *hole = timer_at(engine, position);
	SjHandle	row = hole->row;
	uint32		end;
	SjTimer		moved;

	Assert(root->ntimers > 0);
	root->ntimers--;
	end = HEAP_ROOT + root->ntimers;
	moved = *timer_at(engine, end);
	for (;;)
	{
		uint32		child = 4 * (position - 2);
		SjTimer    *below;

		if (child >= end)
			break;
		child = earliest_child(engine, child, end);
		below = timer_at(engine, child);
		if (below->due >= moved.due)
			break;
		*hole = *below;
		hole = below;
		position = child;
	}
	*hole = moved;
	trim_pages(engine);
	return row;
}

void
sj_timer_free_all(SjEngine *engine)
{
	SjRoot	   *root = engine->root;

	while (root->ntimer_pages > 0)
		sj_page_free(engine, root->timer_page[--root->ntimer_pages], 1);
	root->ntimers = 0;
}
