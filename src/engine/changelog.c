/*-------------------------------------------------------------------------
 *
 * changelog.c
 *	  The changes of the result that a batch makes.
 *
 * Only a padded row is ever taken back, once, and for good.  If it was written
 * in the same batch, two flags of the row say so, and the pair of changes is
 * left out; nothing has to be looked up.
 *
 * The list belongs to the engine and is used again by the next batch.
 *
 * IDENTIFICATION
 *	  src/engine/changelog.c
 *
 *-------------------------------------------------------------------------
 */
#include "engine/state.h"

#include "utils/memutils.h"

#define INITIAL_CHANGES 256
#define KEPT_CHANGES	65536	/* a longer list is given back when unused */

/* Makes room for n more changes; throws when memory is exhausted. */
void
sj_changes_reserve(SjEngine *engine, int64 n)
{
	int64		needed = engine->nchanges + n;
	int64		size = Max(engine->max_changes, INITIAL_CHANGES);

	if (needed <= engine->max_changes)
		return;
	while (size < needed)
		size *= 2;
	if (engine->changes == NULL)
		engine->changes =
			MemoryContextAllocExtended(engine->context,
									   size * sizeof(SjChange),
									   MCXT_ALLOC_HUGE);
	else
		engine->changes = repalloc_huge(engine->changes,
										size * sizeof(SjChange));
	engine->max_changes = size;
}

static inline void
append(SjEngine *engine, const SjRow *left, const SjRow *right, int32 sign)
{
	SjChange   *change = &engine->changes[engine->nchanges++];

	Assert(engine->nchanges <= engine->max_changes);
	change->left = left;
	change->right = right;
	change->sign = sign;
}

static void
append_padded(SjEngine *engine, const SjRow *row, int32 sign)
{
	if (row->side == SJ_LEFT)
		append(engine, row, NULL, sign);
	else
		append(engine, NULL, row, sign);
}

void
sj_changes_pair(SjEngine *engine, const SjRow *left, const SjRow *right)
{
	append(engine, left, right, 1);
}

/* An unmatched row comes into the result. */
void
sj_changes_pad(SjEngine *engine, SjRow *row)
{
	row->padded = true;
	row->flags |= SJ_ROW_PAD_IN_BATCH;
	append_padded(engine, row, 1);
	engine->root->unmatched++;
}

/* A padded row has found a partner. */
void
sj_changes_unpad(SjEngine *engine, SjRow *row)
{
	row->padded = false;
	if ((row->flags & SJ_ROW_PAD_IN_BATCH) == 0)
	{
		append_padded(engine, row, -1);
		return;
	}
	row->flags |= SJ_ROW_PAD_CANCELLED;
	engine->ncancelled++;
	engine->root->unmatched--;
}

/* The row of a change that writes an unmatched row, or NULL. */
static inline SjRow *
padded_row(const SjChange *change)
{
	if (change->sign < 0 || (change->left != NULL && change->right != NULL))
		return NULL;
	return unconstify(SjRow *,
					  change->left != NULL ? change->left : change->right);
}

/* Leaves out what was written and taken back in the same batch. */
void
sj_changes_net(SjEngine *engine)
{
	int64		n = 0;

	if (engine->ncancelled == 0)
		return;
	for (int64 i = 0; i < engine->nchanges; i++)
	{
		SjRow	   *row = padded_row(&engine->changes[i]);

		if (row != NULL && (row->flags & SJ_ROW_PAD_CANCELLED) != 0)
			row->flags = 0;
		else
			engine->changes[n++] = engine->changes[i];
	}
	engine->nchanges = n;
	engine->ncancelled = 0;
}

/* Forgets the changes; before any row leaves. */
void
sj_changes_end_batch(SjEngine *engine)
{
	for (int64 i = 0; i < engine->nchanges; i++)
	{
		SjRow	   *row = padded_row(&engine->changes[i]);

		if (row != NULL)
			row->flags = 0;
	}
	if (engine->max_changes > KEPT_CHANGES &&
		engine->nchanges < engine->max_changes / 4)
	{
		pfree(engine->changes);
		engine->changes = NULL;
		engine->max_changes = 0;
	}
	engine->nchanges = 0;
	engine->ncancelled = 0;
}
