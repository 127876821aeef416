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
 * A row's degree counts the partners that were accepted and not taken out
 * again.  It is what tells a row without a partner from one whose partner has
 * left: the deadline of a row looks at its degree and never at the rows that
 * happen to be in state (T4).
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

/* An advance moves the watermark and a row from the future the other one. */
static SjTime
newest_of_clock(const SjClock *clock, SjSide side, int64 delay)
{
	return Min(clock->max_event_time[side],
			   sj_time_add(clock->input[side], delay));
}

static void
start_clock(SjRoot *root, const SjOperator *op, const SjClock *clock)
{
	root->newest[SJ_LEFT] = root->newest[SJ_RIGHT] = SJ_TIME_MIN;
	if (clock != NULL)
	{
		root->clock = *clock;
		for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
			root->newest[side] = newest_of_clock(clock, side,
												 op->delay[side]);
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
	start_clock(root, op, clock);

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
	if (engine->replaced != NULL)
		pfree(engine->replaced);
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
judge_pair(const SjOperator *op, SjPair *pair, SjRow *row)
{
	if (op->verdict == NULL)
		return SJ_PAIR_YES;
	pair->seq[row->side] = row->seq;
	pair->tuple[row->side] = SJ_ROW_TUPLE(row);
	return op->verdict(op->arg, pair);
}

/*
 * Adds the event's partners, newest first.  'again': it is in state already.
 *
 * May run user code, throw.
 */
void
sj_gather_partners(SjEngine *engine, const SjEvent *event, SjHandle key,
				   bool again)
{
	SjPair		pair;
	SjRow	   *row;

	pair.seq[event->side] = event->seq;
	pair.tuple[event->side] = event->tuple;
	pair.again = again;
	row = sj_key_seek(engine, sj_key_at(engine, key), SJ_OTHER(event->side),
					  event->until, SJ_BY_KEY);
	while (row != NULL && row->event_time >= event->from)
	{
		SjPairVerdict verdict = judge_pair(engine->op, &pair, row);

		if (verdict != SJ_PAIR_NO)
			add_partner(engine, row, verdict);
		CHECK_FOR_INTERRUPTS();
		row = row->by_key.prev == SJ_NONE ? NULL :
			sj_row_at(engine, row->by_key.prev);
	}
}

/*
 * Makes sure of the memory for a row (NULL: none), so many entries of the key
 * table and so many timers; the row itself must come last.
 */
bool
sj_reserve(SjEngine *engine, const SjEvent *event, int new_keys,
		   int64 ntimers)
{
	if ((new_keys == 0 || sj_key_reserve(engine, new_keys)) &&
		(ntimers == 0 || sj_timer_reserve(engine, ntimers)) &&
		(event == NULL || sj_row_reserve(engine, event)))
		return true;
	sj_state_release_if_empty(engine, false);
	return false;
}

/* Stores a row for which memory has been made sure of.  Cannot fail. */
SjHandle
sj_link_row(SjEngine *engine, const SjEvent *event, SjHandle key, bool timer)
{
	SjHandle	handle = sj_row_store(engine, event);

	if (key == SJ_NONE)
		key = sj_key_add(engine, sj_event_hash(event));
	sj_key_link(engine, key, handle, SJ_BY_KEY);
	if (timer)
		sj_timer_add(engine, handle);
	return handle;
}

/* A row that loses its partners and finds others is matched once. */
static void
count_partner(SjEngine *engine, SjRow *row)
{
	row->degree++;
	if ((row->flags & SJ_ROW_MATCHED) != 0)
		return;
	row->flags |= SJ_ROW_MATCHED;
	engine->root->matched[row->side]++;
}

/*
 * The partners from number 'first' on are in the order of their event times, so
 * one of the two at the ends is the farthest.
 */
static void
note_distance(SjEngine *engine, const SjRow *row, int64 first)
{
	SjTime		newest = engine->partners[first].row->event_time;
	SjTime		oldest = engine->partners[engine->npartners - 1].row->event_time;
	int64		distance = Max(sj_time_sub(newest, row->event_time),
							   sj_time_sub(row->event_time, oldest));

	engine->root->longest_match = Max(engine->root->longest_match, distance);
}

/*
 * Records the pairs of a new row with the partners from number 'first' on,
 * oldest partner first.  Cannot fail.
 */
void
sj_link_partners(SjEngine *engine, SjRow *row, int64 first)
{
	if (engine->npartners > first)
		note_distance(engine, row, first);
	for (int64 i = engine->npartners; i-- > first;)
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
 * Joins a row with those in state and keeps it; 'outside' partners more have
 * left the state already.  *row: where it is.
 */
SjInsertResult
sj_take_in(SjEngine *engine, const SjEvent *event, int64 outside, SjRow **row)
{
	SjHandle	key;
	bool		timer;

	/* ask */
	engine->npartners = 0;
	key = sj_key_find(engine, event);
	if (key != SJ_NONE && event->has_key)
		sj_gather_partners(engine, event, key, false);

	/* make sure of the memory */
	timer = sj_needs_timer(engine->op, event, engine->npartners + outside);
	sj_changes_reserve(engine, 2 * engine->npartners);
	if (!sj_reserve(engine, event, key == SJ_NONE ? 1 : 0, timer))
		return SJ_NO_MEMORY;

	/* do it */
	*row = sj_row_at(engine, sj_link_row(engine, event, key, timer));
	sj_link_partners(engine, *row, 0);
	return SJ_INSERTED;
}

/*
 * Takes in a row of the current step and joins it with those in state.
 *
 * A row that can never have a partner nor be written by itself is not kept.
 */
SjInsertResult
sj_engine_insert(SjEngine *engine, const SjEvent *event)
{
	SjRow	   *row;

	Assert(SJ_TIME_IS_FINITE(event->event_time));
	Assert(event->expires >= event->event_time);
	if (event->event_time < engine->root->clock.horizon)
		return SJ_LATE;
	if (sj_has_entity(engine->op, event))
		return sj_insert_version(engine, event);
	if (!sj_is_kept(engine->op, event))
		return SJ_INSERTED;
	return sj_take_in(engine, event, 0, &row);
}

/*
 * Takes in a row as sj_engine_walk() gave it.
 *
 * It is neither late nor joined: its partners come by themselves, and its
 * degree counts them already.
 */
SjInsertResult
sj_engine_restore(SjEngine *engine, const SjEvent *event, uint32 degree,
				  bool padded, uint16 flags)
{
	bool		past = (flags & (SJ_ROW_REPLACED | SJ_ROW_GONE)) != 0;
	bool		has_entity = sj_has_entity(engine->op, event);
	bool		timer = !padded && !past &&
	sj_needs_timer(engine->op, event, degree);
	SjHandle	key = past ? SJ_NONE : sj_key_find(engine, event);
	SjHandle	entity = has_entity ? sj_entity_find(engine, event) : SJ_NONE;
	SjHandle	handle;
	SjRow	   *row;

	if (!sj_reserve(engine, event,
					(!past && key == SJ_NONE) +
					(has_entity && entity == SJ_NONE), timer))
		return SJ_NO_MEMORY;

	handle = past ? sj_row_store(engine, event) :
		sj_link_row(engine, event, key, timer);
	if (has_entity)
		sj_version_link(engine, event, entity, handle);
	row = sj_row_at(engine, handle);
	row->degree = degree;
	row->padded = padded;
	row->flags |= flags & SJ_ROW_CARRIED;
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
		row = sj_timer_pop(engine);
		if (sj_row_is_dead(row) || sj_row_is_past(row) || row->degree > 0 ||
			row->padded)
			continue;
		sj_changes_pad(engine, row);
		any = true;
	}
	return any;
}

/*
 * The step is complete: its event times take hold, the rows whose deadline
 * they pass come into the result, as do those that have lost their last
 * partner after it, and the changes of the step become its net changes.
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

	sj_changes_end_step(engine);
	return moved || padded;
}

/*
 * The changes of the batch so far, those of a step that is under way not yet
 * net; NULL and 0 when there are none.
 *
 * The list is valid until the engine is used again, its rows until
 * sj_engine_end_batch().
 */
const SjChange *
sj_engine_changes(SjEngine *engine, int64 *n)
{
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

/*
 * The changes are durable: forget them, let expired rows go, and win back the
 * room of those that were taken out.  Rows may move.
 */
void
sj_engine_end_batch(SjEngine *engine)
{
	sj_changes_end_batch(engine);
	engine->nreplaced = 0;
	trim_partners(engine);
	sj_state_expire(engine);
	sj_state_compact(engine);
	sj_state_release_if_empty(engine, true);
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
	stats->keys = root->nkeys - root->nentities;
	stats->pages = root->npages;
	stats->timers = root->ntimers - root->ndead_timers;
	stats->unmatched = root->unmatched;
	stats->longest_match = root->longest_match;
	stats->row_bytes = root->row_bytes;
	stats->dead_bytes = root->dead_bytes;
	stats->oldest_timer = sj_timer_next(engine);
}

/*
 * Calls 'row' for each row in state, left side first, each slice in the order
 * of arrival.  'row' must not use the engine.
 */
void
sj_engine_walk(const SjEngine *engine,
			   void (*row) (void *arg, const SjRow *row), void *arg)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		SjScan		scan;
		SjHandle	at;

		sj_scan_start(&scan, side);
		while ((at = sj_scan_next(engine, &scan)) != SJ_NONE)
			row(arg, sj_row_at(engine, at));
	}
}
