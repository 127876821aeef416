/*-------------------------------------------------------------------------
 *
 * shmem.h
 *	  Shared memory: slots of databases and joins, latches, counters, pages
 *	  for state.
 *
 * Who may touch what is said at each struct; src/README has the list.
 *
 * IDENTIFICATION
 *	  src/shmem.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_SHMEM_H
#define SJ_SHMEM_H

#include "sjoin.h"

#include "histogram.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

#define SJ_MAX_DATABASES	64
#define SJ_ERROR_LENGTH		256

/* Where a join stands, as sjoin.joins shows it. */
typedef enum SjJoinState
{
	SJ_JOIN_STARTING,			/* -> BACKFILLING, REBUILDING, RUNNING,
								 * STOPPED, FAILED */
	SJ_JOIN_BACKFILLING,		/* -> RUNNING, FAILED */
	SJ_JOIN_REBUILDING,			/* -> RUNNING, FAILED */
	SJ_JOIN_RUNNING,			/* -> FAILED, STOPPED */
	SJ_JOIN_PAUSED,				/* -> STARTING */
	SJ_JOIN_FAILED,				/* error; is tried again (-> STARTING) unless
								 * memory ran out */
	SJ_JOIN_STOPPED				/* definition changed or vanished; for good */
} SjJoinState;

/* One database with joins. */
typedef struct SjDatabaseSlot
{
	/* protected by SjShared.lock */
	Oid			database;		/* InvalidOid: free */
	pid_t		worker_pid;		/* 0: none attached */
	Latch	   *worker_latch;	/* NULL: none attached */
	bool		wanted;			/* launcher starts a worker */
	TimestampTz start_after;	/* not before (back-off) */
	int			failures;		/* starts that failed in a row */
	bool		left;			/* the worker has ended for want of joins */
	int			suspended;		/* >0: worker stays away (DROP DATABASE ...) */

	/* read and written anywhere */
	pg_atomic_uint64 commits;	/* transactions that wrote to the log */
	pg_atomic_uint64 requests;	/* of wait_for, counted before its snapshot */
	pg_atomic_uint64 definitions_read;	/* by the worker, of those below */
	pg_atomic_uint64 definitions;	/* changes of definitions, after commit */
	pg_atomic_uint32 open_segment;	/* of the log; SJ_SEGMENT_UNKNOWN */
	ConditionVariable progress; /* broadcast after each batch and change of
								 * state */
} SjDatabaseSlot;

#define SJ_SEGMENT_UNKNOWN	PG_UINT32_MAX

/* Statistics of one input of a join; written by its worker only. */
typedef struct SjInputStats
{
	pg_atomic_uint64 rows_in;
	pg_atomic_uint64 rows_late;
	pg_atomic_uint64 rows_null_key;
	pg_atomic_uint64 rows_future;
	pg_atomic_uint64 rows_filtered;
	pg_atomic_uint64 rows_unknown;
	pg_atomic_uint64 rows_matched;
	pg_atomic_uint64 rows_expired;
	pg_atomic_uint64 state_rows;
	pg_atomic_uint64 watermark; /* SjTime */
	pg_atomic_uint64 max_event_time;	/* SjTime */
	pg_atomic_uint64 idle;		/* SjIdleness */
	pg_atomic_uint64 last_row_at;	/* TimestampTz: when it was captured */

	/* of rows since the slot was made; see src/worker/timing.c */
	SjHistogram lateness;
	SjHistogram clock_behind;	/* event time before the clock at capture */
	SjHistogram clock_ahead;	/* and after it */
} SjInputStats;

/* One join. */
typedef struct SjJoinSlot
{
	/* protected by SjShared.lock; constant while the worker runs the join */
	Oid			database;		/* InvalidOid: free */
	int32		join_id;
	Oid			result;			/* set last, and read without the lock, too */

	/* protected by SjShared.page_lock */
	uint32		pages;			/* of the state area that the join has */

	/* set by the worker when it compiles the join; read anywhere */
	bool		local_time;		/* event times are of type timestamp */

	/* protected by 'mutex' */
	slock_t		mutex;
	SjJoinState state;
	bool		given_up;		/* FAILED, STOPPED: it is not tried again */
	char		last_error[SJ_ERROR_LENGTH];
	int			last_sqlstate;
	TimestampTz last_error_at;

	/* written and read by the worker of the database only */
	uint32		state_root;		/* page of the engine's root; SJ_NO_PAGE */
	bool		state_clean;	/* the state is that of the position below */
	int64		state_tick;
	int32		state_txns;

	/* written by the worker only; read anywhere, may be slightly stale */
	pg_atomic_uint64 served;	/* requests of wait_for that are answered */
	pg_atomic_uint64 watermark; /* SjTime */
	pg_atomic_uint64 horizon;	/* SjTime; durable, so it never goes back;
								 * SJ_TIME_MIN: not known yet */
	pg_atomic_uint64 tick;
	pg_atomic_uint64 rows_out;
	pg_atomic_uint64 rows_retracted;
	pg_atomic_uint64 rows_unmatched;
	pg_atomic_uint64 batches;
	pg_atomic_uint64 errors;
	pg_atomic_uint64 restarts;
	pg_atomic_uint64 total_batch_usec;
	pg_atomic_uint64 last_batch_usec;
	pg_atomic_uint64 last_batch_at;
	pg_atomic_uint64 state_keys;
	pg_atomic_uint64 state_pages;
	pg_atomic_uint64 timers;
	pg_atomic_uint64 oldest_timer;	/* SjTime */
	pg_atomic_uint64 log_bytes;
	pg_atomic_uint64 stats_reset;	/* TimestampTz */
	pg_atomic_uint64 longest_match; /* usec between the event times of a pair;
									 * 0: none */
	SjHistogram latency;		/* of transactions, from capture to visible in
								 * the result */
	SjInputStats input[2];
} SjJoinSlot;

/* Tests set the clock. */
typedef struct SjTestClock
{
	pg_atomic_uint64 offset;	/* usec added to the real one */
	pg_atomic_uint64 stopped_at;	/* TimestampTz; 0: it runs */
} SjTestClock;

typedef struct SjShared
{
	LWLock	   *lock;			/* slots: who has which */
	LWLock	   *page_lock;		/* free pages of the state area */

	/* protected by 'lock' */
	pid_t		launcher_pid;
	Latch	   *launcher_latch;

	/* protected by 'page_lock' */
	uint32		npages;
	uint32		free_pages;
	uint32		search_from;	/* where to look for a free page first */

	SjTestClock clock;

	SjDatabaseSlot databases[SJ_MAX_DATABASES];
	SjJoinSlot	joins[FLEXIBLE_ARRAY_MEMBER];	/* sjoin.max_joins */
} SjShared;

/* NULL: not in shared_preload_libraries */
extern PGDLLIMPORT SjShared *sj_shared;

extern void sj_shmem_init(void);	/* from _PG_init, while preloading */
/* Error with the remedy when the library was not preloaded. */
extern void sj_require_preload(void);

/* The database's slot; made when 'create', else NULL if there is none. */
extern SjDatabaseSlot *sj_database_slot(Oid database, bool create);
/* The same, made if there is room for it; never throws. */
extern SjDatabaseSlot *sj_database_slot_or_null(Oid database);
/* Gives back the slots of a dropped database and of its joins. */
extern void sj_forget_database(Oid database);
/* Slot of a join of this database; NULL if there is none. */
extern SjJoinSlot *sj_join_slot(int32 join_id, bool create);
extern void sj_join_slot_free(SjJoinSlot *slot);
extern uint32 sj_join_slot_number(const SjJoinSlot *slot);
extern void sj_join_slot_set_state(SjJoinSlot *slot, SjJoinState state);
extern void sj_join_slot_set_error(SjJoinSlot *slot, SjJoinState state,
								   int sqlstate, const char *message,
								   bool given_up);
/* Wakes the database's worker, if there is one. */
extern void sj_wake_worker(SjDatabaseSlot *slot);
extern void sj_wake_launcher(void);

/* The state area as an arena of the engine; 'owner' is the number of the
 * join's slot + 1 and tags the pages. */
extern void sj_arena_open(SjArena *arena, uint32 owner);
/* Frees every page with this tag. */
extern void sj_arena_reset(uint32 owner);

/* Processing time: GetCurrentTimestamp(), or what a test has made of it. */
extern TimestampTz sj_now(void);
/*
 * For lengths of running time, in usec: whoever sets the system's clock does
 * not change it, whoever sets that of the tests does.  -1: that one is stopped.
 */
extern int64 sj_running_time(void);

#endif							/* SJ_SHMEM_H */
