/*-------------------------------------------------------------------------
 *
 * replace.c
 *	  Rows that are changed or deleted: what was taken in is taken out (R5).
 *
 * As an insertion does, a replacement asks first, for both images (which row?
 * which partners had it? which key and partners has its successor?), then
 * makes sure of all memory, and then acts by steps that cannot fail.
 *
 * A new version of an upsert key may replace an older one, which leaves the
 * result in the same way (version.c).
 *
 * The partners of the row that goes lose a degree.  One that has none left is
 * as if it had never had any: it waits for its deadline again, and if that has
 * passed it is written at the end of the step, like all that are due.
 *
 * IDENTIFICATION
 *	  src/engine/replace.c
 *
 *-------------------------------------------------------------------------
 */
#include "engine/state.h"

#include "miscadmin.h"

/* A replacement of which everything has been asked. */
typedef struct Replacement
{
	SjHandle	old;			/* SJ_NONE: no row is taken out */
	int64		nold;			/* its partners */
	int64		nout;			/* and those of the version replaced, which
								 * follow; those of the new row come last */
	const SjEvent *new;			/* NULL: no row is taken in */
	SjHandle	key;			/* of the new row; SJ_NONE: a new one */
	bool		new_timer;
	bool		has_entity;		/* the new row is a version: */
	SjVersionPlace place;		/* of it */
} Replacement;

static inline bool
is_live(const SjEngine *engine, SjTime event_time)
{
	return event_time >= engine->root->clock.horizon;
}

/* The row in state that the event describes, or SJ_NONE.  May throw. */
static SjHandle
find_row(SjEngine *engine, const SjEvent *event)
{
	SjHandle	key;

	if (!sj_is_kept(engine->op, event))
		return SJ_NONE;
	if (sj_has_entity(engine->op, event))
	{
		key = sj_entity_find(engine, event);
		return key == SJ_NONE ? SJ_NONE :
			sj_key_search(engine, key, event, SJ_BY_ENTITY);
	}
	key = sj_key_find(engine, event);
	return key == SJ_NONE ? SJ_NONE :
		sj_key_search(engine, key, event, SJ_BY_KEY);
}

/* Would sj_engine_replace() say that it removed a row? */
bool
sj_engine_has(SjEngine *engine, const SjEvent *old)
{
	Assert(SJ_TIME_IS_FINITE(old->event_time));
	if (!is_live(engine, old->event_time))
		return false;
	return !sj_is_kept(engine->op, old) || find_row(engine, old) != SJ_NONE;
}

/* ----- asking ----- */

/* Adds the partners that a row in state has. */
static void
gather_again(SjEngine *engine, SjHandle handle)
{
	const SjOperator *op = engine->op;
	SjRow	   *row = sj_row_at(engine, handle);
	SjEvent		event = {0};

	if (!sj_row_has_key(row) || sj_row_is_past(row))
		return;
	event.side = row->side;
	event.seq = row->seq;
	event.event_time = row->event_time;
	event.tuple = SJ_ROW_TUPLE(row);
	op->range(op->arg, event.side, row->event_time, &event.from,
			  &event.until);
	sj_gather_partners(engine, &event, row->by_key.key, true);
}

/* Asks what a new version replaces, and by what it is. */
static void
ask_for_versions(SjEngine *engine, Replacement *replacement)
{
	SjVersionPlace *place = &replacement->place;

	replacement->has_entity = sj_has_entity(engine->op, replacement->new);
	if (!replacement->has_entity)
		return;
	sj_version_ask(engine, replacement->new, replacement->old, place);
	if (place->replaces != SJ_NONE)
		gather_again(engine, place->replaces);
	replacement->nout = engine->npartners;
}

/* Asks for the key and the partners of the row that is taken in. */
static void
ask_for_new(SjEngine *engine, Replacement *replacement)
{
	const SjEvent *new = replacement->new;

	ask_for_versions(engine, replacement);
	if (replacement->place.replaced)
		return;
	replacement->key = sj_key_find(engine, new);
	if (replacement->key != SJ_NONE && new->has_key)
		sj_gather_partners(engine, new, replacement->key, false);
	replacement->new_timer =
		sj_needs_timer(engine->op, new,
					   engine->npartners - replacement->nout);
}

/* ----- making sure of the memory ----- */

/* Is this partner's deadline no longer waited for? */
static inline bool
lacks_timer(const SjEngine *engine, const SjRow *partner)
{
	return engine->op->pad[partner->side] && partner->due != SJ_TIME_MAX &&
		(partner->flags & SJ_ROW_TIMER) == 0;
}

/*
 * Timers that the replacement adds at most.  A partner of both rows that leave
 * may lose two degrees.
 */
static int64
count_timers(const SjEngine *engine, const Replacement *replacement)
{
	int64		n = replacement->new_timer;
	uint32		lost = replacement->nout > replacement->nold &&
	replacement->nold > 0 ? 2 : 1;

	for (int64 i = 0; i < replacement->nout; i++)
	{
		const SjRow *partner = engine->partners[i].row;

		if (partner->degree <= lost && lacks_timer(engine, partner))
			n++;
	}
	return n;
}

/* Entries of the key table that the replacement adds. */
static int
count_keys(const Replacement *replacement)
{
	const SjVersionPlace *place = &replacement->place;

	if (replacement->new == NULL)
		return 0;
	return (!place->replaced && replacement->key == SJ_NONE) +
		(replacement->has_entity && place->entity == SJ_NONE);
}

static bool
reserve(SjEngine *engine, const Replacement *replacement)
{
	int64		nnew = engine->npartners - replacement->nout;

	/* both rows that leave padded, their pairs; the new pairs, their rows
	 * padded */
	sj_changes_reserve(engine, 2 + replacement->nout + 2 * nnew);
	/* the old row, the version replaced, the new one */
	sj_replaced_reserve(engine, 3);
	return sj_reserve(engine, replacement->new, count_keys(replacement),
					  count_timers(engine, replacement));
}

/* ----- acting ----- */

/*
 * What the row was in the result for leaves it.
 *
 * A partner has a degree; but a function that is not what it was declared to
 * be, or has been replaced since, may find partners that there never were.
 */
static void
unlink_partners(SjEngine *engine, SjRow *row, int64 first, int64 end)
{
	if (row->padded)
		sj_changes_unpad(engine, row);
	for (int64 i = end; i-- > first;)
	{
		SjRow	   *partner = engine->partners[i].row;

		if (partner->degree > 0)
			partner->degree--;
		if (engine->partners[i].verdict != SJ_PAIR_YES)
			continue;
		if (row->side == SJ_LEFT)
			sj_changes_unpair(engine, row, partner);
		else
			sj_changes_unpair(engine, partner, row);
	}
	engine->step_took_out = true;
}

/*
 * The new row takes the place of the old one, or one of its own.
 *
 * Whatever bears the same key and time stands in the same place, and it need
 * not be looked for.  Elsewhere the new row goes first: the old one may be the
 * last of the key.
 */
static SjHandle
link_new(SjEngine *engine, const Replacement *replacement)
{
	SjHandle	handle = sj_row_store(engine, replacement->new);
	SjRow	   *row = sj_row_at(engine, handle);
	SjHandle	key = replacement->key;
	SjRow	   *old = replacement->old == SJ_NONE ? NULL :
		sj_row_at(engine, replacement->old);

	if (old != NULL && key != SJ_NONE && old->by_key.key == key &&
		old->event_time == row->event_time)
	{
		row->by_key = old->by_key;
		sj_key_moved(engine, row, replacement->old, handle, SJ_BY_KEY);
		old->by_key.key = SJ_NONE;
	}
	else
	{
		if (key == SJ_NONE)
			key = sj_key_add(engine, sj_event_hash(replacement->new));
		sj_key_link(engine, key, handle, SJ_BY_KEY);
	}
	if (replacement->new_timer)
		sj_timer_add(engine, handle);
	return handle;
}

/* The new row comes; NULL when it has no partners, being replaced already. */
static SjRow *
take_in(SjEngine *engine, const Replacement *replacement)
{
	const SjVersionPlace *place = &replacement->place;
	SjHandle	handle = place->replaced ?
	sj_row_store(engine, replacement->new) :
	link_new(engine, replacement);
	SjRow	   *row = sj_row_at(engine, handle);

	if (replacement->old != SJ_NONE)
		row->flags |= sj_row_at(engine, replacement->old)->flags &
			SJ_ROW_MATCHED;
	if (replacement->has_entity)
		sj_version_link(engine, replacement->new, place->entity, handle);
	if (place->replaced)
		sj_version_replace(engine, row);
	return place->replaced ? NULL : row;
}

/* The old row goes, or stays for the versions that it replaces. */
static void
let_go(SjEngine *engine, SjHandle handle)
{
	SjRow	   *row = sj_row_at(engine, handle);

	if (sj_version_take_out(engine, row))
		return;
	if (sj_is_linked(row, SJ_BY_KEY))
		sj_key_unlink(engine, row, SJ_BY_KEY);
	sj_row_kill(engine, handle);
}

/* Former partners that have none left wait for their deadlines again. */
static void
restore_timers(SjEngine *engine, int64 npartners)
{
	for (int64 i = 0; i < npartners; i++)
	{
		SjRow	   *partner = engine->partners[i].row;

		if (partner->degree == 0 && lacks_timer(engine, partner))
			sj_timer_add(engine, sj_key_handle(engine, partner, SJ_BY_KEY));
	}
}

/* Everything has been asked and made sure of.  Cannot fail. */
static void
act(SjEngine *engine, const Replacement *replacement)
{
	SjHandle	older = replacement->place.replaces;
	SjRow	   *new = NULL;

	if (replacement->old != SJ_NONE)
		unlink_partners(engine, sj_row_at(engine, replacement->old), 0,
						replacement->nold);
	if (older != SJ_NONE)
		unlink_partners(engine, sj_row_at(engine, older), replacement->nold,
						replacement->nout);
	if (replacement->new != NULL)
		new = take_in(engine, replacement);
	if (replacement->old != SJ_NONE)
		let_go(engine, replacement->old);
	if (older != SJ_NONE)
		sj_version_replace(engine, sj_row_at(engine, older));
	if (new != NULL)
		sj_link_partners(engine, new, replacement->nout);
	restore_timers(engine, replacement->nout);
}

/* ----- the calls ----- */

/*
 * Takes out the row that 'old' describes and takes in 'new' (NULL: nothing) in
 * its place; see engine.h.
 */
SjInsertResult
sj_engine_replace(SjEngine *engine, const SjEvent *old, const SjEvent *new,
				  bool *removed)
{
	Replacement replacement = {0};
	SjInsertResult result = SJ_INSERTED;
	SjEvent		event;
	bool		live = is_live(engine, old->event_time);

	Assert(SJ_TIME_IS_FINITE(old->event_time));
	Assert(new == NULL || new->side == old->side);
	*removed = false;
	engine->npartners = 0;

	/* ask */
	if (live)
		replacement.old = find_row(engine, old);
	if (replacement.old != SJ_NONE)
		gather_again(engine, replacement.old);
	replacement.nold = replacement.nout = engine->npartners;
	if (new != NULL && !is_live(engine, new->event_time))
		result = SJ_LATE;
	else if (new != NULL && sj_is_kept(engine->op, new))
	{
		event = *new;
		if (replacement.old != SJ_NONE)
			event.seq = sj_row_at(engine, replacement.old)->seq;
		replacement.new = &event;
		ask_for_new(engine, &replacement);
	}

	/* make sure of the memory */
	if (!reserve(engine, &replacement))
		return SJ_NO_MEMORY;

	/* do it */
	act(engine, &replacement);
	*removed = replacement.old != SJ_NONE ||
		(live && !sj_is_kept(engine->op, old));
	return result;
}

/*
 * sj_engine_insert() for a row with an upsert key that is not late.
 */
SjInsertResult
sj_insert_version(SjEngine *engine, const SjEvent *event)
{
	Replacement replacement = {.new = event};

	engine->npartners = 0;
	ask_for_new(engine, &replacement);
	if (!reserve(engine, &replacement))
		return SJ_NO_MEMORY;
	act(engine, &replacement);
	return SJ_INSERTED;
}

/* Takes out one row; false when memory is short.  May throw. */
static bool
take_out(SjEngine *engine, SjHandle row)
{
	Replacement replacement = {.old = row};

	engine->npartners = 0;
	gather_again(engine, row);
	replacement.nold = replacement.nout = engine->npartners;
	if (!reserve(engine, &replacement))
		return false;
	act(engine, &replacement);
	return true;
}

/* The next live row of a source, or SJ_NONE. */
static SjHandle
next_live(const SjEngine *engine, SjScan *scan, Oid source)
{
	SjHandle	at;

	while ((at = sj_scan_next(engine, scan)) != SJ_NONE)
	{
		const SjRow *row = sj_row_at(engine, at);

		if ((row->flags & SJ_ROW_GONE) == 0 &&
			is_live(engine, row->event_time) && sj_row_source(row) == source)
			break;
	}
	return at;
}

/* Takes out all live rows of a side and source; see engine.h. */
SjInsertResult
sj_engine_truncate(SjEngine *engine, SjSide side, Oid source, int64 *removed)
{
	SjScan		scan;
	SjHandle	at;

	sj_scan_start(&scan, side);
	while ((at = next_live(engine, &scan, source)) != SJ_NONE)
	{
		CHECK_FOR_INTERRUPTS();
		if (!take_out(engine, at))
			return SJ_NO_MEMORY;
		(*removed)++;
	}
	return SJ_INSERTED;
}

/* The table has the image no more; see engine.h. */
void
sj_engine_detach(SjEngine *engine, const SjEvent *old)
{
	SjHandle	at = is_live(engine, old->event_time) ?
	find_row(engine, old) : SJ_NONE;

	if (at != SJ_NONE)
		sj_row_at(engine, at)->flags |= SJ_ROW_DETACHED;
}

/* The same for all live rows of a side and source. */
void
sj_engine_detach_all(SjEngine *engine, SjSide side, Oid source,
					 void (*row) (void *arg, const SjRow *row), void *arg)
{
	SjScan		scan;
	SjHandle	at;

	sj_scan_start(&scan, side);
	while ((at = next_live(engine, &scan, source)) != SJ_NONE)
	{
		SjRow	   *found = sj_row_at(engine, at);

		if ((found->flags & SJ_ROW_DETACHED) != 0)
			continue;
		row(arg, found);
		found->flags |= SJ_ROW_DETACHED;
	}
}
