/*-------------------------------------------------------------------------
 *
 * checkpoint.h
 *	  Carrying the rows of a state forward into the log, and reading them back
 *	  (A7).
 *
 * IDENTIFICATION
 *	  src/store/checkpoint.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_CHECKPOINT_H
#define SJ_CHECKPOINT_H

#include "sjoin.h"

#include "engine/engine.h"
#include "log/event_log.h"

/*
 * Appends all rows of the state to the log, in the current transaction; the
 * result is that transaction, or invalid when the state is empty.
 */
extern FullTransactionId sj_checkpoint_write(int32 join_id,
											 const SjEngine *engine);

/* Calls 'row' for each row that the transaction carried forward, in order. */
extern void sj_checkpoint_read(int32 join_id, FullTransactionId xid,
							   void (*row) (void *arg,
											const SjCarriedRow *carried,
											MinimalTuple tuple),
							   void *arg);

#endif							/* SJ_CHECKPOINT_H */
