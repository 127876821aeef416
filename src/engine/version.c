/*-------------------------------------------------------------------------
 *
 * version.c
 *	  Upsert keys: versions of which the newest counts (R5).
 *
 * A version is replaced by any newer one of the same upsert key (its entity)
 * that is at most SjOperator.replaces later, whichever comes first, and stays
 * replaced when that one is taken out.  So neither the replaced nor those taken
 * out are let go before they expire: they leave the list of their join key,
 * where partners look, and stay in that of their entity, in the order
 * (event_time, version).
 *
 * In that order a new version has to look at its two neighbours only.  If the
 * one after it is within reach, the new one is replaced at once; if not, no
 * later one is.  If the one before it is past, whatever that one can reach has
 * been replaced by it, and the new one, being later, reaches no farther back.
 *
 * A version that is taken out and has another of the same event time after it
 * is not needed: an update that leaves key and time as they are costs no room.
 *
 * A version can be replaced that is behind the horizon, by one that is not.
 * It has its partners to give back then, so rows of both sides are kept by
 * 'replaces' longer than their own partners need them.
 *
 * IDENTIFICATION
 *	  src/engine/version.c
 *
 *-------------------------------------------------------------------------
 */
#include "engine/state.h"

#include "utils/memutils.h"

#define INITIAL_REPLACED 64

/* Is the later of two versions near enough to replace the earlier? */
static inline bool
reaches(const SjEngine *engine, SjTime earlier, SjTime later)
{
	return later <= sj_time_add(earlier, engine->op->replaces);
}

/*
 * What a new version meets in its entity; 'but' (or SJ_NONE) is about to be
 * taken out and not to be replaced.  May run user code, throw.
 */
void
sj_version_ask(SjEngine *engine, const SjEvent *event, SjHandle but,
			   SjVersionPlace *place)
{
	SjKey	   *key;
	SjRow	   *before;
	SjHandle	after;

	memset(place, 0, sizeof(SjVersionPlace));
	place->entity = sj_entity_find(engine, event);
	if (place->entity == SJ_NONE)
		return;
	key = sj_key_at(engine, place->entity);
	before = sj_key_before(engine, key, event->side, event->event_time,
						   event->version, SJ_BY_ENTITY);
	after = before == NULL ? key->first[event->side] :
		sj_version_of(before)->by_entity.next;

	if (after != SJ_NONE)
		place->replaced = reaches(engine, event->event_time,
								  sj_row_at(engine, after)->event_time);
	if (before == NULL || sj_row_is_past(before) ||
		!reaches(engine, before->event_time, event->event_time))
		return;
	place->replaces = sj_key_handle(engine, before, SJ_BY_ENTITY);
	if (place->replaces == but)
		place->replaces = SJ_NONE;
}

/* Puts a row into its entity (SJ_NONE: a new one).  Cannot fail. */
void
sj_version_link(SjEngine *engine, const SjEvent *event, SjHandle entity,
				SjHandle row)
{
	if (entity == SJ_NONE)
		entity = sj_key_add(engine, sj_entity_hash(event));
	sj_key_link(engine, entity, row, SJ_BY_ENTITY);
}

/* Makes room to note n more; throws when memory is exhausted. */
void
sj_replaced_reserve(SjEngine *engine, int64 n)
{
	int64		size = Max(engine->max_replaced, INITIAL_REPLACED);

	if (engine->nreplaced + n <= engine->max_replaced)
		return;
	while (size < engine->nreplaced + n)
		size *= 2;
	if (engine->replaced == NULL)
		engine->replaced =
			MemoryContextAllocExtended(engine->context,
									   size * sizeof(SjReplaced),
									   MCXT_ALLOC_HUGE);
	else
		engine->replaced = repalloc_huge(engine->replaced,
										 size * sizeof(SjReplaced));
	engine->max_replaced = size;
}

static void
note(SjEngine *engine, const SjRow *row, int8 sign)
{
	SjReplaced *replaced = &engine->replaced[engine->nreplaced++];

	Assert(engine->nreplaced <= engine->max_replaced);
	replaced->row = row;
	replaced->sign = sign;
}

/* What has left the result and the list of its key. */
static void
set_past(SjEngine *engine, SjRow *row, uint16 flag)
{
	if (sj_is_linked(row, SJ_BY_KEY))
		sj_key_unlink(engine, row, SJ_BY_KEY);
	Assert(!row->padded);
	row->degree = 0;
	row->flags |= flag;
}

/* A version that is nobody's partner any more, or never was. */
void
sj_version_replace(SjEngine *engine, SjRow *row)
{
	set_past(engine, row, SJ_ROW_REPLACED);
	note(engine, row, 1);
}

/*
 * A row that is nobody's partner any more is taken out.  False when it is not
 * needed for what it replaces: it is of no entity, or the version after it has
 * the same event time and reaches as far.
 */
bool
sj_version_take_out(SjEngine *engine, SjRow *row)
{
	SjHandle	after;

	if (!sj_is_linked(row, SJ_BY_ENTITY))
		return false;
	if ((row->flags & SJ_ROW_REPLACED) != 0)
		note(engine, row, -1);
	set_past(engine, row, SJ_ROW_GONE);
	after = sj_version_of(row)->by_entity.next;
	if (after == SJ_NONE ||
		sj_row_at(engine, after)->event_time != row->event_time)
		return true;
	sj_key_unlink(engine, row, SJ_BY_ENTITY);
	return false;
}

/* What became of versions in the batch; see engine.h. */
const SjReplaced *
sj_engine_replaced(SjEngine *engine, int64 *n)
{
	*n = engine->nreplaced;
	return engine->nreplaced > 0 ? engine->replaced : NULL;
}
