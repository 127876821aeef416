/*-------------------------------------------------------------------------
 *
 * refusals.c
 *	  Images that were refused though an equal one might be taken in later.
 *
 * verify() subtracts refused images from the tables, by value.  When a refused
 * row goes, an equal row that comes later must not be subtracted for it, so
 * the worker records that the refusal is withdrawn.  To do so exactly as often
 * as there was one, it has to know which images have been refused.
 *
 * That is of no interest for rows that are too old or have no proper event
 * time: whatever equals them is refused as well.  What is left is few: rows on
 * which user code failed, and new images of rows that could not be changed.
 * They are read from the late rows when the first row is met that is neither in
 * state nor too old to be.
 *
 * IDENTIFICATION
 *	  src/worker/refusals.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "worker/refusals.h"

typedef struct Refused
{
	SjImageKey	key;
	int64		n;
} Refused;

struct SjRefusals
{
	MemoryContext context;
	HTAB	   *images;			/* of Refused */
};

static void
count(SjRefusals *refusals, const SjImageKey *key, int n)
{
	Refused    *refused;
	bool		found;

	if (n < 0)
	{
		refused = hash_search(refusals->images, key, HASH_FIND, NULL);
		if (refused != NULL && refused->n > 0)
			refused->n--;
		return;
	}
	refused = hash_search(refusals->images, key, HASH_ENTER, &found);
	if (!found)
		refused->n = 0;
	refused->n++;
}

/* Are images refused for this reason that could be accepted another time? */
static bool
is_watched(SjReason reason)
{
	return reason == SJ_REASON_EXPIRED_CHANGE || reason == SJ_REASON_CHANGED ||
		reason == SJ_REASON_ERROR;
}

/*
 * A late row of one image: +1 for the new one, -1 for the old one.  They come in
 * the order in which they were made, which matters: an old image may be one that
 * was accepted, and one that is refused later counts all the same.
 */
static void
note_stored(void *arg, SjReason reason, const SjImageKey *image,
			const SjImageKey *old_image)
{
	SjRefusals *refusals = arg;

	if (image != NULL && is_watched(reason))
		count(refusals, image, 1);
	if (old_image != NULL)
		count(refusals, old_image, -1);
}

static SjRefusals *
refusals_of(SjTask *task)
{
	SjRefusals *refusals = task->refusals;
	MemoryContext context;
	HASHCTL		ctl = {.keysize = sizeof(SjImageKey),
	.entrysize = sizeof(Refused)};
	ListCell   *lc;

	if (refusals != NULL)
		return refusals;
	context = AllocSetContextCreate(task->context, "sjoin refusals",
									ALLOCSET_DEFAULT_SIZES);
	refusals = MemoryContextAllocZero(context, sizeof(SjRefusals));
	refusals->context = ctl.hcxt = context;
	refusals->images = hash_create("sjoin refusals", 128, &ctl,
								   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	sj_late_images_visit(task->def->join_id, note_stored, refusals);
	task->refusals = refusals;
	foreach(lc, task->batch.late_rows)
		sj_refusals_note(task, lfirst(lc));
	return refusals;
}

void
sj_refusals_note(SjTask *task, const SjLateRow *late)
{
	const SjPlanInput *input = &task->plan->input[late->side];
	SjImageKey	key;

	if (task->refusals == NULL || SJ_OP_IS_OF_PAIR(late->op) ||
		late->reason == SJ_REASON_REPLAYED)
		return;
	if (late->image != NULL && is_watched(late->reason))
	{
		sj_image_key(input, late->side, late->source, late->image, &key);
		count(task->refusals, &key, 1);
	}
	if (late->old_image != NULL)
	{
		sj_image_key(input, late->side, late->source, late->old_image, &key);
		count(task->refusals, &key, -1);
	}
}

bool
sj_is_refused(SjTask *task, SjSide side, Oid source, MinimalTuple image)
{
	SjImageKey	key;
	Refused    *refused;

	if (task->replaying)
		return false;
	sj_image_key(&task->plan->input[side], side, source, image, &key);
	refused = hash_search(refusals_of(task)->images, &key, HASH_FIND, NULL);
	return refused != NULL && refused->n > 0;
}

void
sj_refusals_withdraw_all(SjTask *task, SjSide side, Oid source,
						 void (*withdraw) (void *arg, const pg_uuid_t *hash),
						 void *arg)
{
	HASH_SEQ_STATUS status;
	Refused    *refused;

	if (task->replaying)
		return;
	hash_seq_init(&status, refusals_of(task)->images);
	while ((refused = hash_seq_search(&status)) != NULL)
	{
		if (refused->key.side != side || refused->key.source != source)
			continue;
		for (; refused->n > 0; refused->n--)
			withdraw(arg, &refused->key.hash);
	}
}

void
sj_refusals_forget(SjTask *task)
{
	if (task->refusals != NULL)
		MemoryContextDelete(task->refusals->context);
	task->refusals = NULL;
}
