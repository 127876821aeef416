/*-------------------------------------------------------------------------
 *
 * late_choice.c
 *	  Which late rows can be taken in after all, and which can be removed.
 *
 * A late row stays as it was recorded.  That it has been replayed is a row of
 * its own, made later, which names it (op R).  So one scan, in the order in
 * which the rows were made, finds first what was asked for and then what has
 * become of it; a second one counts how often their images were refused.
 *
 * IDENTIFICATION
 *	  src/emit/late_choice.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/indexing.h"
#include "emit/late_choice.h"
#include "emit/late_row.h"
#include "emit/side_output.h"
#include "utils/builtins.h"
#include "utils/rel.h"

typedef struct Choosing
{
	const int64 *late_ids;		/* NULL: all */
	int			nids;
	TimestampTz before;			/* only what arrived earlier, but rows of the
								 * policy 'drop', too; 0: not asked for */
	SjLateChoice *chosen;
	int			n;
	int			allocated;
	HTAB	   *counts;			/* of Count */
} Choosing;

/* How often an image was refused. */
typedef struct Count
{
	SjLateImage key;
	int64		n;
} Count;

static int
compare_ids(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}

void
sj_late_ids_sort(int64 *late_ids, int n)
{
	qsort(late_ids, n, sizeof(int64), compare_ids);
}

HTAB *
sj_late_images_create(MemoryContext context, Size entrysize)
{
	HASHCTL		ctl = {.keysize = sizeof(SjLateImage),
	.entrysize = entrysize,.hcxt = context};

	return hash_create("sjoin late images", 128, &ctl,
					   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* Was it late and nothing else? */
static bool
is_plainly_late(const Choosing *choosing, const Datum *value,
				const bool *null)
{
	const char *reason = TextDatumGetCString(value[Anum_reason - 1]);

	return DatumGetChar(value[Anum_op - 1]) == SJ_OP_INSERT &&
		!null[Anum_row_hash - 1] &&
		(strcmp(reason, sj_reason_name(SJ_REASON_LATE)) == 0 ||
		 (choosing->before != 0 &&
		  strcmp(reason, sj_reason_name(SJ_REASON_DROPPED)) == 0));
}

static bool
is_asked_for(const Choosing *choosing, const Datum *value, const bool *null)
{
	int64		late_id = DatumGetInt64(value[Anum_late_id - 1]);

	if (choosing->before != 0 &&
		DatumGetTimestampTz(value[Anum_arrived_at - 1]) >= choosing->before)
		return false;
	if (choosing->late_ids == NULL)
		return is_plainly_late(choosing, value, null);
	return bsearch(&late_id, choosing->late_ids, choosing->nids,
				   sizeof(int64), compare_ids) != NULL;
}

static void
add_choice(Choosing *choosing, const Datum *value, const bool *null)
{
	SjLateChoice *choice;

	if (choosing->n == choosing->allocated)
	{
		choosing->allocated *= 2;
		choosing->chosen = repalloc_huge(choosing->chosen,
										 sizeof(SjLateChoice) * choosing->allocated);
	}
	choice = &choosing->chosen[choosing->n++];
	memset(choice, 0, sizeof(SjLateChoice));
	choice->late_id = DatumGetInt64(value[Anum_late_id - 1]);
	choice->state = is_plainly_late(choosing, value, null) ? SJ_CHOICE_LATE :
		SJ_CHOICE_OTHER;
	choice->side = DatumGetInt16(value[Anum_side - 1]);
	choice->seq = DatumGetInt64(value[Anum_seq - 1]);
	choice->source = DatumGetObjectId(value[Anum_partition - 1]);
	choice->event_time = null[Anum_event_time - 1] ? SJ_TIME_MIN :
		DatumGetInt64(value[Anum_event_time - 1]);
	if (!null[Anum_row_hash - 1])
		choice->hash = *DatumGetUUIDP(value[Anum_row_hash - 1]);
}

/* Rows come in the order of late_id, which is the first field of a choice. */
static void
note_replayed(Choosing *choosing, int64 late_id)
{
	SjLateChoice *choice = bsearch(&late_id, choosing->chosen, choosing->n,
								   sizeof(SjLateChoice), compare_ids);

	if (choice != NULL)
		choice->state = SJ_CHOICE_REPLAYED;
}

static void
choose(void *arg, Relation rel, HeapTuple tuple)
{
	Choosing   *choosing = arg;
	Datum		value[Natts_late_row];
	bool		null[Natts_late_row];

	heap_deform_tuple(tuple, RelationGetDescr(rel), value, null);
	if (DatumGetChar(value[Anum_op - 1]) == SJ_OP_REPLAYED)
		note_replayed(choosing, DatumGetInt64(value[Anum_other_seq - 1]));
	else if (is_asked_for(choosing, value, null))
		add_choice(choosing, value, null);
}

/* With an entry for each image that was chosen. */
static void
make_counts(Choosing *choosing)
{
	choosing->counts = sj_late_images_create(CurrentMemoryContext,
											 sizeof(Count));
	for (int i = 0; i < choosing->n; i++)
	{
		SjLateImage key = {choosing->chosen[i].hash, choosing->chosen[i].side};
		Count	   *count = hash_search(choosing->counts, &key, HASH_ENTER,
										NULL);

		count->n = 0;
	}
}

static void
add_to_count(Choosing *choosing, const Datum *value, const bool *null,
			 int hash_column, int n)
{
	SjLateImage key = {{{0}}, DatumGetInt16(value[Anum_side - 1])};
	Count	   *count;

	if (null[hash_column - 1])
		return;
	key.hash = *DatumGetUUIDP(value[hash_column - 1]);
	count = hash_search(choosing->counts, &key, HASH_FIND, NULL);
	if (count != NULL)
		count->n += n;
}

static void
count_image(void *arg, Relation rel, HeapTuple tuple)
{
	Choosing   *choosing = arg;
	Datum		value[Natts_late_row];
	bool		null[Natts_late_row];

	heap_deform_tuple(tuple, RelationGetDescr(rel), value, null);
	if (SJ_OP_IS_OF_PAIR(DatumGetChar(value[Anum_op - 1])))
		return;
	add_to_count(choosing, value, null, Anum_row_hash, 1);
	add_to_count(choosing, value, null, Anum_old_hash, -1);
}

static void
count_refused(Choosing *choosing, int32 join_id, Snapshot snapshot)
{
	make_counts(choosing);
	sj_late_rows_visit(join_id, snapshot, AccessShareLock, count_image,
					   choosing);
	for (int i = 0; i < choosing->n; i++)
	{
		SjLateChoice *choice = &choosing->chosen[i];
		SjLateImage key = {choice->hash, choice->side};
		Count	   *count = hash_search(choosing->counts, &key, HASH_FIND,
										NULL);

		choice->refused = count->n;
	}
	hash_destroy(choosing->counts);
}

/* Without numbers nobody wants to hear of what was replayed. */
static int
forget_replayed(SjLateChoice *chosen, int n)
{
	int			kept = 0;

	for (int i = 0; i < n; i++)
		if (chosen[i].state == SJ_CHOICE_LATE)
			chosen[kept++] = chosen[i];
	return kept;
}

SjLateChoice *
sj_late_choose(int32 join_id, Snapshot snapshot, const int64 *late_ids, int n,
			   int *nchosen)
{
	Choosing	choosing = {.late_ids = late_ids,.nids = n,.allocated = 64};

	choosing.chosen = palloc(sizeof(SjLateChoice) * choosing.allocated);
	sj_late_rows_visit(join_id, snapshot, AccessShareLock, choose, &choosing);
	if (late_ids == NULL)
		choosing.n = forget_replayed(choosing.chosen, choosing.n);
	count_refused(&choosing, join_id, snapshot);
	*nchosen = choosing.n;
	return choosing.chosen;
}

SjLateChoice *
sj_late_choose_old(int32 join_id, Snapshot snapshot, TimestampTz before,
				   int *nchosen)
{
	Choosing	choosing = {.before = before,.allocated = 64};

	choosing.chosen = palloc(sizeof(SjLateChoice) * choosing.allocated);
	sj_late_rows_visit(join_id, snapshot, AccessShareLock, choose, &choosing);
	count_refused(&choosing, join_id, snapshot);
	*nchosen = choosing.n;
	return choosing.chosen;
}

/* -- removing ------------------------------------------------------------- */

/* Removes a row that is asked for, or says that one was replayed. */
static void
remove_row(void *arg, Relation rel, HeapTuple tuple)
{
	Choosing   *choosing = arg;
	Datum		value[Natts_late_row];
	bool		null[Natts_late_row];
	bool		replayed;
	int64		late_id;

	heap_deform_tuple(tuple, RelationGetDescr(rel), value, null);
	replayed = DatumGetChar(value[Anum_op - 1]) == SJ_OP_REPLAYED;
	late_id = DatumGetInt64(value[(replayed ? Anum_other_seq :
								   Anum_late_id) - 1]);
	if (bsearch(&late_id, choosing->late_ids, choosing->nids, sizeof(int64),
				compare_ids) != NULL)
		CatalogTupleDelete(rel, &tuple->t_self);
}

void
sj_late_rows_remove(int32 join_id, const int64 *late_ids, int n)
{
	Choosing	choosing = {.late_ids = late_ids,.nids = n};

	sj_late_rows_visit(join_id, NULL, RowExclusiveLock, remove_row, &choosing);
}
