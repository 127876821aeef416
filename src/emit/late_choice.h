/*-------------------------------------------------------------------------
 *
 * late_choice.h
 *	  Which late rows can be taken in after all, and which can be removed.
 *
 * IDENTIFICATION
 *	  src/emit/late_choice.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_LATE_CHOICE_H
#define SJ_LATE_CHOICE_H

#include "sjoin.h"

#include "utils/hsearch.h"
#include "utils/snapshot.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

typedef enum SjChoiceState
{
	SJ_CHOICE_LATE,				/* was late, and that is all */
	SJ_CHOICE_REPLAYED,			/* has been taken in already */
	SJ_CHOICE_OTHER				/* was not taken in for another reason */
} SjChoiceState;

/* A late row that was asked for. */
typedef struct SjLateChoice
{
	int64		late_id;
	SjChoiceState state;
	SjSide		side;
	int64		seq;			/* of the record that brought the row */
	Oid			source;			/* partition; invalid: the stream itself */
	SjTime		event_time;
	pg_uuid_t	hash;			/* of its image */
	int64		refused;		/* how often the join has recorded that it did
								 * not take in such an image, less how often
								 * that was over */
} SjLateChoice;

/* An image of a side, as the key of a hash table. */
typedef struct SjLateImage
{
	pg_uuid_t	hash;
	int32		side;
} SjLateImage;

/* A table of entries that begin with an SjLateImage. */
extern HTAB *sj_late_images_create(MemoryContext context, Size entrysize);

/* Numbers in ascending order, as the functions below want them. */
extern void sj_late_ids_sort(int64 *late_ids, int n);

/*
 * The late rows of a join that the snapshot sees and that have one of the
 * 'n' numbers, which are in ascending order, or, without numbers, all that can be
 * replayed; ascending, in the current context.
 */
extern SjLateChoice *sj_late_choose(int32 join_id, Snapshot snapshot,
									const int64 *late_ids, int n,
									int *nchosen);

/*
 * Those that arrived before a time and were late, whether or not they are
 * listed or have been replayed.
 */
extern SjLateChoice *sj_late_choose_old(int32 join_id, Snapshot snapshot,
										TimestampTz before, int *nchosen);

/* Removes late rows, numbers ascending, and what says that they were replayed. */
extern void sj_late_rows_remove(int32 join_id, const int64 *late_ids, int n);

#endif							/* SJ_LATE_CHOICE_H */
