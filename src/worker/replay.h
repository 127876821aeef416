/*-------------------------------------------------------------------------
 *
 * replay.h
 *	  Late rows that a join takes in after all; private to src/worker.
 *
 * IDENTIFICATION
 *	  src/worker/replay.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_REPLAY_H
#define SJ_REPLAY_H

#include "sjoin.h"

#include "log/event_log.h"
#include "worker/task.h"

/*
 * Must the batch end before the transaction, or after the one before it?  A
 * replay has a batch of its own.
 */
extern bool sj_must_stop_for_replay(const SjTask *task, const SjBatch *batch,
									const SjTickReader *reader,
									const SjLogTxn *txn);

/*
 * Takes in what the transaction asks for, before its rows: what the tables have
 * is then what the position says.
 */
extern void sj_replay_feed(SjTask *task, SjBatch *batch, SjTickReader *reader,
						   const SjLogTxn *txn);

/* The changes of the batch, those of a replay (NULL: none) included. */
extern const SjChange *sj_replay_changes(const SjReplay *replay,
										 SjEngine *engine, int64 *n);

#endif							/* SJ_REPLAY_H */
