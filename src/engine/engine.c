/*-------------------------------------------------------------------------
 *
 * engine.c
 *	  The join of two streams: one event after the other.
 *
 * An insertion asks first (late? which key? which partners?), then makes sure
 * of all memory it needs, and only then touches the state, by steps that
 * cannot fail.  Asking may run user code and throw; making sure may find the
 * arena exhausted; neither leaves a trace.
 *
 * A row's degree counts the partners it ever had.  It is what tells a row
 * without a partner from one whose partner has left: the deadline of a row
 * looks at its degree and never at the rows that happen to be in state (T4).
 *
 * The struct SjEngine and the list of changes are palloc'd in the context that
 * is current in sj_engine_create() or sj_engine_attach().
 *
 * IDENTIFICATION
 *	  src/engine/engine.c
 *
 *-------------------------------------------------------------------------
 */
#include "engine/state.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#define INITIAL_PARTNERS 64
#define KEPT_PARTNERS	65536	/* a longer array is given back */

/* ----- life ----- */

static SjEngine *
new_engine(SjArena *arena, const SjOperator *op, uint32 root)
{
	SjEngine   *engine = palloc0(sizeof(SjEngine));

	engine->arena = arena;
	engine->op = op;
	engine->root_page = root;
	engine->root = (SjRoot *) SJ_PAGE(arena, root);
	engine->context = CurrentMemoryContext;
	engine->max_partners = INITIAL_PARTNERS;
	engine->partners = palloc(INITIAL_PARTNERS * sizeof(SjPartner));
	sj_step_start(&engine->step);
	return engine;
}

static void
start_clock(SjRoot *root, const SjClock *clock)
{
	if (clock != NULL)
	{
		root->clock = *clock;
		return;
	}
	root->clock.input[SJ_LEFT] = SJ_TIME_MIN;
	root->clock.input[SJ_RIGHT] = SJ_TIME_MIN;
	root->clock.max_event_time[SJ_LEFT] = SJ_TIME_MIN;
	root->clock.max_event_time[SJ_RIGHT] = SJ_TIME_MIN;
	root->clock.watermark = SJ_TIME_MIN;
	root->clock.horizon = SJ_TIME_MIN;
}

/*
 * A new, empty state, whose time starts at 'clock' (NULL: nothing seen yet).
 *
 * NULL when the arena has no page left.
 */
SjEngine *
sj_engine_create(SjArena *arena, const SjOperator *op, const SjClock *clock)
{
	uint32		page = arena->alloc(arena, 1);
	SjEngine   *engine;
	SjRoot	   *root;

	if (page == SJ_NO_PAGE)
		return NULL;
	root = (SjRoot *) SJ_PAGE(arena, page);
	memset(root, 0, SJ_PAGE_SIZE);
	root->magic = SJ_STATE_MAGIC;
	root->npages = 1;
	root->key_pages = SJ_NO_PAGE;
	root->allowed_lateness = op->allowed_lateness;
	start_clock(root, clock);

	engine = new_engine(arena, op, page);
	sj_state_init(engine);
	return engine;
}

/* First page of the state, by which sj_engine_attach finds it again. */
uint32
sj_engine_root(const SjEngine *engine)
{
	return engine->root_page;
}

/*
 * Goes on with a state that another process left at the end of a batch.
 *
 * The clock and the allowed lateness are those of the state, whatever the
 * operator says.
 */
SjEngine *
sj_engine_attach(SjArena *arena, const SjOperator *op, uint32 root)
{
	SjEngine   *engine = new_engine(arena, op, root);

	if (engine->root->magic != SJ_STATE_MAGIC)
		elog(ERROR, "page %u is not the root of a join state", root);
	return engine;
}

/* Gives back all pages. */
void
sj_engine_destroy(SjEngine *engine)
{
	sj_state_free_rows(engine);
	sj_key_free_all(engine);
	sj_timer_free_all(engine);
	Assert(engine->root->npages == 1);
	engine->root->magic = 0;
	engine->arena->free(engine->arena, engine->root_page, 1);

	if (engine->changes != NULL)
		pfree(engine->changes);
	pfree(engine->partners);
	pfree(engine);
}

/* ----- insertion ----- */

static void
add_partner(SjEngine *engine, SjRow *row, SjPairVerdict verdict)
{
	SjPartner  *partner;

	if (engine->npartners == engine->max_partners)
	{
		engine->partners = repalloc_huge(engine->partners,
										 engine->max_partners * 2 *
										 sizeof(SjPartner));
		engine->max_partners *= 2;
	}
	partner = &engine->partners[engine->npartners++];
	partner->row = row;
	partner->verdict = verdict;
}

static SjPairVerdict
judge_pair(const SjOperator *op, const SjEvent *event, SjRow *row)
{
	if (op->verdict == NULL)
		return SJ_PAIR_YES;
	if (event->side == SJ_LEFT)
		return op->verdict(op->arg, event->seq, event->tuple,
						   row->seq, SJ_ROW_TUPLE(row));
	return op->verdict(op->arg, row->seq, SJ_ROW_TUPLE(row),
					   event->seq, event->tuple);
}

/* Collects the event's partners, newest first.  May run user code, throw. */
static void
gather_partners(SjEngine *engine, const SjEvent *event, SjHandle key)
{
	SjRow	   *row;

	row = sj_key_seek(engine, sj_key_at(engine, key), SJ_OTHER(event->side),
					  event->until);
	while (row != NULL && row->event_time >= event->from)
	{
		SjPairVerdict verdict = judge_pair(engine->op, event, row);

		if (verdict != SJ_PAIR_NO)
			add_partner(engine, row, verdict);
		CHECK_FOR_INTERRUPTS();
		row = row->prev == SJ_NONE ? NULL : sj_row_at(engine, row->prev);
	}
}

/* Does a row with these properties wait for its deadline? */
static inline bool
needs_timer(const SjOperator *op, const SjEvent *event, uint32 degree,
			bool padded)
{
	return op->pad[event->side] && degree == 0 && !padded &&
		event->due != SJ_TIME_MAX;
}

/* Makes sure of the memory for a row; the row itself must come last. */
static bool
reserve_row(SjEngine *engine, const SjEvent *event, bool new_key, bool timer)
{
	if ((!new_key || sj_key_reserve(engine)) &&
		(!timer || sj_timer_reserve(engine)) &&
		sj_row_reserve(engine, event))
		return true;
	sj_state_release_if_empty(engine);
	return false;
}

/* Stores a row for which memory has been made sure of.  Cannot fail. */
static SjRow *
link_row(SjEngine *engine, const SjEvent *event, SjHandle key, bool timer)
{
	SjHandle	handle = sj_row_store(engine, event);

	if (event->has_key)
	{
		if (key == SJ_NONE)
			key = sj_key_add(engine, event->hash);
		sj_key_link(engine, key, handle);
	}
	if (timer)
		sj_timer_add(engine, event->due, handle);
	return sj_row_at(engine, handle);
}

static void
count_partner(SjEngine *engine, SjRow *row)
{
	if (row->degree++ == 0)
		engine->root->matched[row->side]++;
}

/* Records the pairs of a new row, oldest partner first.  Cannot fail. */
static void
link_partners(SjEngine *engine, SjRow *row)
{
	for (int64 i = engine->npartners; i-- > 0;)
	{
		SjRow	   *partner = engine->partners[i].row;

		count_partner(engine, row);
		count_partner(engine, partner);
		if (partner->padded)
			sj_changes_unpad(engine, partner);
		if (engine->partners[i].verdict != SJ_PAIR_YES)
			continue;
		if (row->side == SJ_LEFT)
			sj_changes_pair(engine, row, partner);
		else
			sj_changes_pair(engine, partner, row);
	}
}

/*
 * Takes in a row of the current step and joins it with those in state.
 *
 * A row that can never have a partner nor be written by itself is not kept.
 */
SjInsertResult
sj_engine_insert(SjEngine *engine, const SjEvent *event)
{
	SjHandle	key = SJ_NONE;
	bool		timer;

	Assert(SJ_TIME_IS_FINITE(event->event_time));
	if (event->event_time < engine->root->clock.horizon)
		return SJ_LATE;
	if (!event->has_key && !engine->op->pad[event->side])
		return SJ_INSERTED;

	/* ask */
	engine->npartners = 0;
	if (event->has_key)
		key = sj_key_find(engine, event);
	if (key != SJ_NONE)
		gather_partners(engine, event, key);

	/* make sure of the memory */
	timer = needs_timer(engine->op, event, (uint32) engine->npartners, false);
	sj_changes_reserve(engine, 2 * engine->npartners);
	if (!reserve_row(engine, event, event->has_key && key == SJ_NONE, timer))
		return SJ_NO_MEMORY;

	/* do it */
	link_partners(engine, link_row(engine, event, key, timer));
	return SJ_INSERTED;
}

/*
 * Takes in a row as sj_engine_walk() gave it.
 *
 * It is neither late nor joined: its partners come by themselves, and its
 * degree counts them already.
 */
SjInsertResult
sj_engine_restore(SjEngine *engine, const SjEvent *event, uint32 degree,
				  bool padded)
{
	bool		timer = needs_timer(engine->op, event, degree, padded);
	SjHandle	key = SJ_NONE;
	SjRow	   *row;

	if (event->has_key)
		key = sj_key_find(engine, event);
	if (!reserve_row(engine, event, event->has_key && key == SJ_NONE, timer))
		return SJ_NO_MEMORY;

	row = link_row(engine, event, key, timer);
	row->degree = degree;
	row->padded = padded;
	return SJ_INSERTED;
}

/* ----- steps and batches ----- */

/* Writes the rows whose deadline has passed without a partner. */
static bool
pad_due_rows(SjEngine *engine)
{
	SjRoot	   *root = engine->root;
	SjTime		limit;
	bool		any = false;

	limit = engine->op->final ? root->clock.horizon : root->clock.watermark;
	while (root->ntimers > 0)
	{
		SjTime		due = sj_timer_next(engine);
		SjRow	   *row;

		/* a deadline at minus infinity is due at once (emit => 'eager') */
		if (due >= limit && due != SJ_TIME_MIN)
			break;
		sj_changes_reserve(engine, 1);
		row = sj_row_at(engine, sj_timer_pop(engine));
		if (row->degree > 0 || row->padded)
			continue;
		sj_changes_pad(engine, row);
		any = true;
	}
	return any;
}

/*
 * The step is complete: its event times take hold, and the rows whose deadline
 * they pass come into the result.
 *
 * True when the clock has moved or a row was written.  Throws only when
 * memory for the changes is exhausted; the step is then half done and the
 * state has to be built again.
 */
bool
sj_engine_end_step(SjEngine *engine)
{
	bool		moved = sj_clock_end_step(engine);
	bool		padded = pad_due_rows(engine);

	return moved || padded;
}

/*
 * The net changes of the batch so far; NULL and 0 when there are none.
 *
 * The list is valid until the engine is used again, its rows until
 * sj_engine_end_batch().
 */
const SjChange *
sj_engine_changes(SjEngine *engine, int64 *n)
{
	sj_changes_net(engine);
	*n = engine->nchanges;
	return engine->nchanges > 0 ? engine->changes : NULL;
}

/* Gives back an array that a row with very many partners has left. */
static void
trim_partners(SjEngine *engine)
{
	if (engine->max_partners <= KEPT_PARTNERS)
		return;
	engine->partners = repalloc(engine->partners,
								INITIAL_PARTNERS * sizeof(SjPartner));
	engine->max_partners = INITIAL_PARTNERS;
	engine->npartners = 0;
}

/* The changes are durable: forget them, and let expired rows go. */
void
sj_engine_end_batch(SjEngine *engine)
{
	sj_changes_net(engine);
	sj_changes_end_batch(engine);
	trim_partners(engine);
	sj_state_expire(engine);
}

/* ----- figures and walks ----- */

void
sj_engine_stats(const SjEngine *engine, SjEngineStats *stats)
{
	const SjRoot *root = engine->root;

	for (int side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		stats->rows[side] = root->rows[side];
		stats->matched[side] = root->matched[side];
		stats->expired[side] = root->expired[side];
	}
	stats->keys = root->nkeys;
	stats->pages = root->npages;
	stats->timers = root->ntimers;
	stats->unmatched = root->unmatched;
	stats->oldest_timer = sj_timer_next(engine);
}

static void
walk_page(const SjPageHeader *page,
		  void (*row) (void *arg, const SjRow *row), void *arg)
{
	const char *at = (const char *) page + sizeof(SjPageHeader);

	for (uint32 i = 0; i < page->nrows; i++)
	{
		const SjRow *this_row = (const SjRow *) at;

		row(arg, this_row);
		at += this_row->size;
	}
}

/*
 * Calls 'row' for each row in state, left side first, each slice in the order
 * of arrival.  'row' must not use the engine.
 */
void
sj_engine_walk(const SjEngine *engine,
			   void (*row) (void *arg, const SjRow *row), void *arg)
{
	for (int side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		const SjSliceSet *set = &engine->root->slices[side];

		for (uint32 i = 0; i < set->n; i++)
		{
			uint32		page = set->slice[i].head;

			while (page != SJ_NO_PAGE)
			{
				walk_page(sj_page_header(engine, page), row, arg);
				page = sj_page_header(engine, page)->next;
			}
		}
	}
}
