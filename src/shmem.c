/*-------------------------------------------------------------------------
 *
 * shmem.c
 *	  Shared memory: slots of databases and joins, latches, counters, pages
 *	  for state.
 *
 * All of it is allocated at server start and has a fixed size, so it can run
 * out but never fails in the middle.  The state area is an array of 64 kB
 * pages with one owner tag each; taking a page looks for the next free one
 * from where the last search ended, so the cost does not grow with the area
 * unless it is nearly full.  A join that has more than its share leaves the
 * others' share free, so a join can run out of memory but not starve the rest.
 *
 * IDENTIFICATION
 *	  src/shmem.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "guc.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "shmem.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

SjShared   *sj_shared = NULL;

/* set at attach, constant afterwards */
static uint32 *page_owner;		/* of each page; 0: free */
static char *page_base;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static uint32
number_of_pages(void)
{
	return Max(1, (uint32) ((Size) sj_state_memory * 1024 / SJ_PAGE_SIZE));
}

static Size
slots_size(void)
{
	return add_size(offsetof(SjShared, joins),
					mul_size(sj_max_joins, sizeof(SjJoinSlot)));
}

static void
request_shared_memory(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	RequestAddinShmemSpace(MAXALIGN(slots_size()));
	RequestAddinShmemSpace(mul_size(number_of_pages(), sizeof(uint32)));
	RequestAddinShmemSpace(add_size(mul_size(number_of_pages(), SJ_PAGE_SIZE),
									MAXIMUM_ALIGNOF));
	RequestNamedLWLockTranche("sjoin", 2);
}

static void
init_database_slot(SjDatabaseSlot *slot)
{
	pg_atomic_init_u64(&slot->commits, 0);
	pg_atomic_init_u64(&slot->requests, 0);
	pg_atomic_init_u64(&slot->definitions, 0);
	pg_atomic_init_u64(&slot->definitions_read, 0);
	pg_atomic_init_u32(&slot->open_segment, SJ_SEGMENT_UNKNOWN);
	ConditionVariableInit(&slot->progress);
}

static void
init_input_stats(SjInputStats *stats)
{
	pg_atomic_init_u64(&stats->rows_in, 0);
	pg_atomic_init_u64(&stats->rows_late, 0);
	pg_atomic_init_u64(&stats->rows_null_key, 0);
	pg_atomic_init_u64(&stats->rows_future, 0);
	pg_atomic_init_u64(&stats->rows_filtered, 0);
	pg_atomic_init_u64(&stats->rows_unknown, 0);
	pg_atomic_init_u64(&stats->rows_matched, 0);
	pg_atomic_init_u64(&stats->rows_expired, 0);
	pg_atomic_init_u64(&stats->state_rows, 0);
	pg_atomic_init_u64(&stats->watermark, (uint64) SJ_TIME_MIN);
	pg_atomic_init_u64(&stats->max_event_time, (uint64) SJ_TIME_MIN);
	pg_atomic_init_u64(&stats->last_row_at, 0);
	sj_histogram_init(&stats->lateness);
	sj_histogram_init(&stats->clock_behind);
	sj_histogram_init(&stats->clock_ahead);
}

static void
init_join_counters(SjJoinSlot *slot)
{
	pg_atomic_init_u64(&slot->served, 0);
	pg_atomic_init_u64(&slot->watermark, (uint64) SJ_TIME_MIN);
	pg_atomic_init_u64(&slot->horizon, (uint64) SJ_TIME_MIN);
	pg_atomic_init_u64(&slot->tick, 0);
	pg_atomic_init_u64(&slot->rows_out, 0);
	pg_atomic_init_u64(&slot->rows_retracted, 0);
	pg_atomic_init_u64(&slot->rows_unmatched, 0);
	pg_atomic_init_u64(&slot->batches, 0);
	pg_atomic_init_u64(&slot->errors, 0);
	pg_atomic_init_u64(&slot->restarts, 0);
	pg_atomic_init_u64(&slot->total_batch_usec, 0);
	pg_atomic_init_u64(&slot->last_batch_usec, 0);
	pg_atomic_init_u64(&slot->last_batch_at, 0);
	pg_atomic_init_u64(&slot->state_keys, 0);
	pg_atomic_init_u64(&slot->state_pages, 0);
	pg_atomic_init_u64(&slot->timers, 0);
	pg_atomic_init_u64(&slot->oldest_timer, (uint64) SJ_TIME_MAX);
	pg_atomic_init_u64(&slot->log_bytes, 0);
	pg_atomic_init_u64(&slot->stats_reset, 0);
	pg_atomic_init_u64(&slot->longest_match, 0);
	sj_histogram_init(&slot->latency);
	init_input_stats(&slot->input[SJ_LEFT]);
	init_input_stats(&slot->input[SJ_RIGHT]);
}

static void
init_join_slot(SjJoinSlot *slot)
{
	slot->database = InvalidOid;
	slot->result = InvalidOid;
	SpinLockInit(&slot->mutex);
	slot->state = SJ_JOIN_STARTING;
	slot->last_error[0] = '\0';
	slot->last_sqlstate = 0;
	slot->last_error_at = 0;
	slot->state_root = SJ_NO_PAGE;
	slot->state_clean = false;
	slot->pages = 0;
	slot->local_time = false;
	init_join_counters(slot);
}

static void
init_shared(void)
{
	LWLockPadded *locks = GetNamedLWLockTranche("sjoin");

	memset(sj_shared, 0, slots_size());
	sj_shared->lock = &locks[0].lock;
	sj_shared->page_lock = &locks[1].lock;
	sj_shared->npages = number_of_pages();
	sj_shared->free_pages = sj_shared->npages;
	pg_atomic_init_u64(&sj_shared->clock.offset, 0);
	pg_atomic_init_u64(&sj_shared->clock.stopped_at, 0);
	for (int i = 0; i < SJ_MAX_DATABASES; i++)
		init_database_slot(&sj_shared->databases[i]);
	for (int i = 0; i < sj_max_joins; i++)
		init_join_slot(&sj_shared->joins[i]);
}

static void
attach_shared_memory(void)
{
	bool		found;
	bool		found_pages;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	page_owner = ShmemInitStruct("sjoin page owners",
								 mul_size(number_of_pages(), sizeof(uint32)),
								 &found_pages);
	page_base = ShmemInitStruct("sjoin state",
								mul_size(number_of_pages(), SJ_PAGE_SIZE),
								&found_pages);
	sj_shared = ShmemInitStruct("sjoin slots", slots_size(), &found);
	if (!found)
	{
		init_shared();
		memset(page_owner, 0, mul_size(number_of_pages(), sizeof(uint32)));
	}
	LWLockRelease(AddinShmemInitLock);

	/* tests set the clock by this name */
	*find_rendezvous_variable("sjoin clock") = &sj_shared->clock;
}

void
sj_shmem_init(void)
{
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = attach_shared_memory;
}

void
sj_require_preload(void)
{
	if (sj_shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("sjoin is not loaded into the server"),
				 errhint("Add \"sjoin\" to shared_preload_libraries and restart the server.")));
}

/* Caller holds SjShared.lock. */
static SjDatabaseSlot *
find_database_slot(Oid database)
{
	for (int i = 0; i < SJ_MAX_DATABASES; i++)
		if (sj_shared->databases[i].database == database)
			return &sj_shared->databases[i];
	return NULL;
}

/*
 * The slot of a database.  A slot is given back when the database's worker
 * leaves for want of joins, so the one that is remembered may be another's by
 * now.
 */
static SjDatabaseSlot *
get_database_slot(Oid database, bool create)
{
	static SjDatabaseSlot *own = NULL;
	SjDatabaseSlot *slot;

	if (sj_shared == NULL)
		return NULL;
	if (own != NULL && database == MyDatabaseId && own->database == database)
		return own;

	LWLockAcquire(sj_shared->lock, create ? LW_EXCLUSIVE : LW_SHARED);
	slot = find_database_slot(database);
	if (slot == NULL && create)
	{
		slot = find_database_slot(InvalidOid);
		if (slot != NULL)
		{
			slot->failures = 0;
			slot->start_after = 0;
			pg_atomic_write_u32(&slot->open_segment, SJ_SEGMENT_UNKNOWN);
			slot->database = database;
		}
	}
	LWLockRelease(sj_shared->lock);
	if (database == MyDatabaseId)
		own = slot;
	return slot;
}

SjDatabaseSlot *
sj_database_slot_or_null(Oid database)
{
	return get_database_slot(database, true);
}

SjDatabaseSlot *
sj_database_slot(Oid database, bool create)
{
	SjDatabaseSlot *slot = get_database_slot(database, create);

	if (slot == NULL && create && sj_shared != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("too many databases with joins"),
				 errdetail("sjoin works in at most %d databases of a cluster.",
						   SJ_MAX_DATABASES)));
	return slot;
}

/* Caller holds SjShared.lock. */
static SjJoinSlot *
find_join_slot(Oid database, int32 join_id)
{
	for (int i = 0; i < sj_max_joins; i++)
	{
		SjJoinSlot *slot = &sj_shared->joins[i];

		if (slot->database == database &&
			(database == InvalidOid || slot->join_id == join_id))
			return slot;
	}
	return NULL;
}

/*
 * The slot of a join of this database; NULL when there is none, or with
 * 'create' when all sjoin.max_joins slots are taken.
 */
SjJoinSlot *
sj_join_slot(int32 join_id, bool create)
{
	SjJoinSlot *slot;

	if (sj_shared == NULL)
		return NULL;

	LWLockAcquire(sj_shared->lock, create ? LW_EXCLUSIVE : LW_SHARED);
	slot = find_join_slot(MyDatabaseId, join_id);
	if (slot == NULL && create)
	{
		slot = find_join_slot(InvalidOid, 0);
		if (slot != NULL)
		{
			init_join_slot(slot);
			pg_atomic_write_u64(&slot->stats_reset,
								(uint64) GetCurrentTimestamp());
			slot->join_id = join_id;
			/* who looks without the lock finds what was set before */
			pg_write_barrier();
			slot->database = MyDatabaseId;
		}
	}
	LWLockRelease(sj_shared->lock);
	return slot;
}

uint32
sj_join_slot_number(const SjJoinSlot *slot)
{
	return (uint32) (slot - sj_shared->joins);
}

void
sj_join_slot_free(SjJoinSlot *slot)
{
	sj_arena_reset(sj_join_slot_number(slot) + 1);
	LWLockAcquire(sj_shared->lock, LW_EXCLUSIVE);
	slot->database = InvalidOid;
	LWLockRelease(sj_shared->lock);
}

void
sj_forget_database(Oid database)
{
	SjDatabaseSlot *slot;

	for (int i = 0; i < sj_max_joins; i++)
		if (sj_shared->joins[i].database == database)
			sj_join_slot_free(&sj_shared->joins[i]);

	LWLockAcquire(sj_shared->lock, LW_EXCLUSIVE);
	slot = find_database_slot(database);
	if (slot != NULL)
	{
		slot->database = InvalidOid;
		slot->wanted = false;
	}
	LWLockRelease(sj_shared->lock);
}

void
sj_join_slot_set_state(SjJoinSlot *slot, SjJoinState state)
{
	SpinLockAcquire(&slot->mutex);
	slot->state = state;
	slot->given_up = false;
	SpinLockRelease(&slot->mutex);
}

void
sj_join_slot_set_error(SjJoinSlot *slot, SjJoinState state, int sqlstate,
					   const char *message, bool given_up)
{
	TimestampTz now = sj_now();

	SpinLockAcquire(&slot->mutex);
	slot->state = state;
	slot->last_sqlstate = sqlstate;
	slot->last_error_at = now;
	slot->given_up = given_up;
	strlcpy(slot->last_error, message, SJ_ERROR_LENGTH);
	SpinLockRelease(&slot->mutex);
	pg_atomic_fetch_add_u64(&slot->errors, 1);
}

void
sj_wake_worker(SjDatabaseSlot *slot)
{
	Latch	   *latch;

	/* the latch is a PGPROC's: setting one that changed hands is harmless */
	latch = *((Latch *volatile *) &slot->worker_latch);
	if (latch != NULL)
		SetLatch(latch);
}

void
sj_wake_launcher(void)
{
	Latch	   *latch;

	latch = *((Latch *volatile *) &sj_shared->launcher_latch);
	if (latch != NULL)
		SetLatch(latch);
}

/*
 * Pages that must stay free so that each other join can still have its share:
 * half of the area, divided among the joins.  Whoever takes more than that is
 * the one to run out.  Caller holds page_lock.
 */
static uint32
pages_of_others(uint32 owner)
{
	uint32		njoins = 0;
	uint32		reserved = 0;
	uint32		share;

	for (int i = 0; i < sj_max_joins; i++)
		if (OidIsValid(sj_shared->joins[i].database))
			njoins++;
	share = sj_shared->npages / (2 * Max(njoins, 1));
	if (sj_shared->joins[owner - 1].pages < share)
		return 0;
	for (int i = 0; i < sj_max_joins; i++)
	{
		SjJoinSlot *join = &sj_shared->joins[i];

		if (OidIsValid(join->database) && i != owner - 1 &&
			join->pages < share)
			reserved += share - join->pages;
	}
	return reserved;
}

/* First of n free pages in a row at or after 'from'.  Caller holds page_lock. */
static uint32
find_free_run(uint32 from, uint32 n)
{
	uint32		run = 0;

	for (uint32 page = from; page < sj_shared->npages; page++)
	{
		run = page_owner[page] == 0 ? run + 1 : 0;
		if (run == n)
			return page - n + 1;
	}
	return SJ_NO_PAGE;
}

static uint32
shared_pages_alloc(SjArena *arena, uint32 n)
{
	uint32		owner = (uint32) (uintptr_t) arena->arg;
	uint32		first = SJ_NO_PAGE;

	LWLockAcquire(sj_shared->page_lock, LW_EXCLUSIVE);
	if (sj_shared->free_pages >= n + pages_of_others(owner))
	{
		first = find_free_run(sj_shared->search_from, n);
		if (first == SJ_NO_PAGE)
			first = find_free_run(0, n);
	}
	if (first != SJ_NO_PAGE)
	{
		for (uint32 i = 0; i < n; i++)
			page_owner[first + i] = owner;
		sj_shared->free_pages -= n;
		sj_shared->joins[owner - 1].pages += n;
		sj_shared->search_from = first + n;
	}
	LWLockRelease(sj_shared->page_lock);
	return first;
}

static void
shared_pages_free(SjArena *arena, uint32 first, uint32 n)
{
	LWLockAcquire(sj_shared->page_lock, LW_EXCLUSIVE);
	for (uint32 i = 0; i < n; i++)
	{
		Assert(page_owner[first + i] == (uint32) (uintptr_t) arena->arg);
		page_owner[first + i] = 0;
	}
	sj_shared->free_pages += n;
	sj_shared->joins[(uint32) (uintptr_t) arena->arg - 1].pages -= n;
	sj_shared->search_from = Min(sj_shared->search_from, first);
	LWLockRelease(sj_shared->page_lock);
}

void
sj_arena_open(SjArena *arena, uint32 owner)
{
	Assert(owner != 0);
	arena->base = page_base;
	arena->alloc = shared_pages_alloc;
	arena->free = shared_pages_free;
	arena->arg = (void *) (uintptr_t) owner;
}

void
sj_arena_reset(uint32 owner)
{
	LWLockAcquire(sj_shared->page_lock, LW_EXCLUSIVE);
	for (uint32 page = 0; page < sj_shared->npages; page++)
	{
		if (page_owner[page] != owner)
			continue;
		page_owner[page] = 0;
		sj_shared->free_pages++;
		sj_shared->search_from = Min(sj_shared->search_from, page);
	}
	sj_shared->joins[owner - 1].pages = 0;
	LWLockRelease(sj_shared->page_lock);
}

int64
sj_running_time(void)
{
	instr_time	now;

	if (pg_atomic_read_u64(&sj_shared->clock.stopped_at) != 0)
		return -1;
	INSTR_TIME_SET_CURRENT(now);
	return (int64) INSTR_TIME_GET_MICROSEC(now) +
		(int64) pg_atomic_read_u64(&sj_shared->clock.offset);
}

TimestampTz
sj_now(void)
{
	TimestampTz stopped_at;

	if (sj_shared == NULL)
		return GetCurrentTimestamp();
	stopped_at = (TimestampTz) pg_atomic_read_u64(&sj_shared->clock.stopped_at);
	if (stopped_at != 0)
		return stopped_at;
	return GetCurrentTimestamp() +
		(int64) pg_atomic_read_u64(&sj_shared->clock.offset);
}
