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

/* A record, as it is met for one side. */
extern void sj_replay_note(SjTask *task, SjBatch *batch, SjSide side,
						   const SjReplayRequest *request);

/* At the end of the step, after its rows: takes in what was asked for. */
extern void sj_replay_run(SjTask *task, SjBatch *batch);

/* The changes of the batch, those of a replay (NULL: none) included. */
extern const SjChange *sj_replay_changes(const SjReplay *replay,
										 SjEngine *engine, int64 *n);

#endif							/* SJ_REPLAY_H */
