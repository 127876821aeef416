/*-------------------------------------------------------------------------
 *
 * changelog.c
 *	  The changes of the result that a batch makes, step by step.
 *
 * A step that only brings rows cannot write and take back the same row: it
 * takes padded rows back, and writes others at its end.  So its changes are net
 * as they come.  A step that has taken out rows is sorted by identity when it
 * ends, and of each identity remains what was in the result before it and what
 * is there after it.
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
append(SjEngine *engine, const SjRow *left, const SjRow *right, int8 sign)
{
	SjChange   *change = &engine->changes[engine->nchanges++];

	Assert(engine->nchanges <= engine->max_changes);
	change->left = left;
	change->right = right;
	change->step = engine->step_number;
	change->sign = sign;
	change->update = false;
}

static void
append_padded(SjEngine *engine, const SjRow *row, int8 sign)
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

/* A pair leaves the result with one of its rows. */
void
sj_changes_unpair(SjEngine *engine, const SjRow *left, const SjRow *right)
{
	append(engine, left, right, -1);
}

/* An unmatched row comes into the result. */
void
sj_changes_pad(SjEngine *engine, SjRow *row)
{
	row->padded = true;
	append_padded(engine, row, 1);
	engine->root->unmatched++;
}

/* A padded row has found a partner, or leaves. */
void
sj_changes_unpad(SjEngine *engine, SjRow *row)
{
	row->padded = false;
	append_padded(engine, row, -1);
}

/* ----- the net effect of a step ----- */

/* A change of the step by its identity. */
typedef struct Named
{
	int64		left;
	int64		right;
	int64		at;				/* its place among the changes of the step */
} Named;

static int
compare_named(const void *a, const void *b)
{
	const Named *x = a;
	const Named *y = b;

	if (x->left != y->left)
		return x->left < y->left ? -1 : 1;
	if (x->right != y->right)
		return x->right < y->right ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static void *
scratch(SjEngine *engine, Size size)
{
	return MemoryContextAllocExtended(engine->context, size,
									  MCXT_ALLOC_HUGE);
}

static Named *
sort_by_identity(SjEngine *engine, const SjChange *changes, int64 n)
{
	Named	   *named = scratch(engine, n * sizeof(Named));

	for (int64 i = 0; i < n; i++)
	{
		named[i].left = changes[i].left ? changes[i].left->seq : 0;
		named[i].right = changes[i].right ? changes[i].right->seq : 0;
		named[i].at = i;
	}
	qsort(named, n, sizeof(Named), compare_named);
	return named;
}

static bool
is_same_image(const SjOperator *op, const SjRow *a, const SjRow *b)
{
	MinimalTuple x;
	MinimalTuple y;

	if (a == b)
		return true;
	x = SJ_ROW_TUPLE(a);
	y = SJ_ROW_TUPLE(b);
	return (x->t_len == y->t_len && memcmp(x, y, x->t_len) == 0) ||
		op->same_image(op->arg, a->side, x, y);
}

/*
 * What remains of the changes of one identity, from the first to the last of
 * the step: the first writes when nothing was there before, the last when
 * something is there after.
 *
 * with[i]: the place of the change that follows change i, i: none, -1: change
 * i is left out.
 */
static void
net_identity(SjEngine *engine, const SjChange *changes, const Named *named,
			 int64 n, int64 *with)
{
	int64		first = named[0].at;
	int64		last = named[n - 1].at;
	const SjChange *before = &changes[first];
	const SjChange *after = &changes[last];

	for (int64 i = 0; i < n; i++)
		with[named[i].at] = -1;
	if (before->sign > 0)
	{
		if (after->sign > 0)
			with[last] = last;
		return;
	}
	if (after->sign < 0)
	{
		with[first] = first;
		return;
	}

	/* it was there and is there; if padded, it has not been written anew */
	if (before->left == NULL || before->right == NULL)
		engine->root->unmatched--;
	if (!is_same_image(engine->op, before->left, after->left) ||
		!is_same_image(engine->op, before->right, after->right))
		with[first] = last;
}

/* The changes of the step that remain, in order; the rest is forgotten. */
static void
keep_net(SjEngine *engine, const int64 *with)
{
	SjChange   *changes = engine->changes + engine->step_start;
	int64		n = engine->nchanges - engine->step_start;
	SjChange   *all = scratch(engine, n * sizeof(SjChange));

	memcpy(all, changes, n * sizeof(SjChange));
	engine->nchanges = engine->step_start;
	for (int64 i = 0; i < n; i++)
	{
		SjChange   *change = &engine->changes[engine->nchanges];

		if (with[i] < 0)
			continue;
		change[0] = all[i];
		engine->nchanges++;
		if (with[i] == i)
			continue;
		change[0].update = true;
		change[1] = all[with[i]];
		change[1].update = true;
		engine->nchanges++;
	}
	pfree(all);
}

static void
net_step(SjEngine *engine)
{
	const SjChange *changes = engine->changes + engine->step_start;
	int64		n = engine->nchanges - engine->step_start;
	Named	   *named = sort_by_identity(engine, changes, n);
	int64	   *with = scratch(engine, n * sizeof(int64));
	int64		end;

	for (int64 i = 0; i < n; i = end)
	{
		for (end = i + 1; end < n; end++)
			if (named[end].left != named[i].left ||
				named[end].right != named[i].right)
				break;
		net_identity(engine, changes, named + i, end - i, with);
	}
	keep_net(engine, with);
	pfree(with);
	pfree(named);
}

/* The step has made all its changes. */
void
sj_changes_end_step(SjEngine *engine)
{
	if (engine->step_took_out && engine->nchanges - engine->step_start > 1)
		net_step(engine);
	engine->step_took_out = false;
	if (engine->nchanges == engine->step_start)
		return;
	engine->step_start = engine->nchanges;
	engine->step_number++;
}

/* Forgets the changes; before any row leaves. */
void
sj_changes_end_batch(SjEngine *engine)
{
	if (engine->max_changes > KEPT_CHANGES &&
		engine->nchanges < engine->max_changes / 4)
	{
		pfree(engine->changes);
		engine->changes = NULL;
		engine->max_changes = 0;
	}
	engine->nchanges = 0;
	engine->step_start = 0;
	engine->step_number = 0;
}
