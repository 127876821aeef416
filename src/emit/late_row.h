/*-------------------------------------------------------------------------
 *
 * late_row.h
 *	  Columns of sjoin.late_row; private to src/emit.
 *
 * IDENTIFICATION
 *	  src/emit/late_row.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_LATE_ROW_H
#define SJ_LATE_ROW_H

#include "sjoin.h"

#include "catalog/join_plan.h"
#include "storage/lockdefs.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

enum
{
	Anum_late_id = 1,
	Anum_join_id,
	Anum_side,
	Anum_seq,
	Anum_other_seq,
	Anum_op,
	Anum_event_time,
	Anum_watermark,
	Anum_reason,
	Anum_sqlstate,
	Anum_message,
	Anum_arrived_at,
	Anum_row_data,
	Anum_old_data,
	Anum_row_hash,
	Anum_old_hash,
	Anum_partition,
	Natts_late_row = Anum_partition
};

/*
 * Calls 'visit' for each row of a join that the snapshot sees (NULL: now), in
 * the order in which they were made.
 */
extern void sj_late_rows_visit(int32 join_id, Snapshot snapshot,
							   LOCKMODE lockmode,
							   void (*visit) (void *arg, Relation rel,
											  HeapTuple tuple),
							   void *arg);

/* Sets the jsonb (if 'keep') and the hash of an image; NULLs without one. */
extern void sj_late_row_set_image(const SjPlanInput *input, MinimalTuple image,
								  bool keep, Datum *value, bool *null,
								  int data_column, int hash_column);

#endif							/* SJ_LATE_ROW_H */
