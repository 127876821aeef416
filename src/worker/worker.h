/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  The worker process: what its parts share; private to src/worker.
 *
 *
 * IDENTIFICATION
 *	  src/worker/worker.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_WORKER_H
#define SJ_WORKER_H

#include "sjoin.h"

#include "log/tick.h"
#include "nodes/pg_list.h"
#include "shmem.h"
#include "utils/snapshot.h"
#include "worker/task.h"

/* How often to look for what nobody announced, in ms. */
#define SJ_POLL_INTERVAL	1000

/* A join for which no slot is free. */
typedef struct SjWaiting
{
	int32		join_id;
	FullTransactionId base_xmin;
	int64		first_tick;
} SjWaiting;

typedef struct SjWorker
{
	MemoryContext context;		/* life of the process */
	MemoryContext turn;			/* reset at the head of the loop */
	SjDatabaseSlot *slot;
	List	   *tasks;			/* of SjTask */
	List	   *waiting;		/* of SjWaiting */
	uint64		definitions;	/* as of the last reading */
	bool		read_definitions;
	FullTransactionId needed_xmin;	/* a join not known yet needs the log from
									 * here on at most */
	SjTick	   *latest;			/* newest tick; NULL: none yet */
	uint64		commits;		/* seen before the newest tick's snapshot */
	uint64		requests;		/* answered by the newest tick */
	FullTransactionId log_mark; /* the log has been emptied before this */
	TimestampTz last_tick_at;
	int64		last_idle_at;	/* idle inputs were looked for, by
								 * sj_running_time(); -1: not yet */
	TimestampTz last_upkeep_at;
} SjWorker;

extern SjWorker sj_worker;

/* worker.c: a transaction with a snapshot; after it the turn's memory again */
extern void sj_begin(void);
extern void sj_commit(void);

/* ticks.c */
extern void sj_worker_set_latest(const SjTick *tick);
extern int64 sj_worker_next_tick(void);
extern bool sj_worker_tick_is_due(void);
extern void sj_worker_take_tick(void);
/* Has the newest tick seen every commit that has been counted? */
extern bool sj_worker_has_all_commits(void);

/* schedule.c */
extern void sj_worker_read_definitions(void);
/*
 * Have definitions been changed since they were read?  With a lock on the
 * result of a join that whoever changed it has had, too, the answer holds.
 */
extern bool sj_worker_definitions_changed(void);
/* Joins that are paused as of the snapshot run no more batches. */
extern void sj_worker_note_paused(Snapshot snapshot);
extern bool sj_worker_run_tasks(void);

/* idle.c */
extern void sj_worker_look_for_idle_inputs(void);
extern long sj_worker_idle_sleep(long ms);

/* upkeep.c */
extern void sj_worker_do_upkeep(void);

#endif							/* SJ_WORKER_H */
