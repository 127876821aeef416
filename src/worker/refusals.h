/*-------------------------------------------------------------------------
 *
 * refusals.h
 *	  Images that were refused though an equal one might be taken in later;
 *	  private to src/worker.
 *
 * IDENTIFICATION
 *	  src/worker/refusals.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_REFUSALS_H
#define SJ_REFUSALS_H

#include "sjoin.h"

#include "worker/task.h"

/* Takes note of a late row that the batch will store. */
extern void sj_refusals_note(SjTask *task, const SjLateRow *late);

/* Has such a row been refused, and is it still there? */
extern bool sj_is_refused(SjTask *task, SjSide side, Oid source,
						  MinimalTuple image);

/* Calls 'withdraw' for each refused image of a table that has been emptied. */
extern void sj_refusals_withdraw_all(SjTask *task, SjSide side, Oid source,
									 void (*withdraw) (void *arg,
													   const pg_uuid_t *hash),
									 void *arg);

/* What has been noted is not to be stored. */
extern void sj_refusals_forget(SjTask *task);

#endif							/* SJ_REFUSALS_H */
