/*-------------------------------------------------------------------------
 *
 * retention.c
 *	  Rows whose deletion no join would notice: sjoin.may_change().
 *
 * The condition of the delete trigger.  A row older than the horizon of every
 * join over its stream is settled, or was never taken in, and a horizon never
 * goes back: what becomes of the row changes no result.  Horizons are in shared
 * memory, where the worker puts them after the commit that made them durable;
 * one that is read here may be old, which is on the safe side.
 *
 * Whatever is not known counts as a join that may notice: one without a slot,
 * one whose worker has not got as far as its position, one of a slot that has
 * become another's.  A join that is being created is not missed, because that
 * locks the stream and its partitions against us, and its commit sends the
 * relcache message that makes us look again.
 *
 * A transaction that has captured changes of the stream captures all of its
 * deletions, so that a row that it has put there itself nets out.
 *
 * IDENTIFICATION
 *	  src/capture/retention.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "capture/capture.h"
#include "capture/retention.h"
#include "capture/xact.h"
#include "catalog/join_def.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "relations.h"
#include "shmem.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(sjoin_may_change);

struct SjWatchedJoin
{
	int32		join_id;
	Oid			result;
	SjJoinSlot *slot;			/* where it was found last, or NULL */
};

static HTAB *uses = NULL;
static uint64 messages = 0;		/* relcache messages that concerned a stream */

static void
forget_stream(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS status;
	SjStreamUse *use;

	if (OidIsValid(relid))
	{
		use = hash_search(uses, &relid, HASH_FIND, NULL);
		if (use != NULL)
		{
			use->valid = false;
			messages++;
		}
		return;
	}
	messages++;
	hash_seq_init(&status, uses);
	while ((use = hash_seq_search(&status)) != NULL)
		use->valid = false;
}

static void
make_hash(void)
{
	HASHCTL		ctl = {.keysize = sizeof(Oid),
		.entrysize = sizeof(SjStreamUse),.hcxt = TopMemoryContext};

	uses = hash_create("sjoin streams", 32, &ctl,
					   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	CacheRegisterRelcacheCallback(forget_stream, (Datum) 0);
}

SjStreamUse *
sj_stream_use(Oid stream)
{
	SjStreamUse *use;
	bool		found;

	if (uses == NULL)
		make_hash();
	use = hash_search(uses, &stream, HASH_ENTER, &found);
	if (!found)
	{
		memset(use, 0, sizeof(SjStreamUse));
		use->stream = stream;
	}
	return use;
}

/* Reads which joins there are over the stream; it stays invalid if this fails. */
static void
load(SjStreamUse *use)
{
	uint64		messages_before = messages;
	List	   *defs = sj_join_def_all();
	SjWatchedJoin *joins;
	int			njoins = 0;
	ListCell   *lc;

	joins = MemoryContextAllocZero(TopMemoryContext,
								   Max(list_length(defs), 1) *
								   sizeof(SjWatchedJoin));
	foreach(lc, defs)
	{
		SjJoinDef  *def = lfirst(lc);

		if (def->input[SJ_LEFT] != use->stream &&
			def->input[SJ_RIGHT] != use->stream)
			continue;
		joins[njoins].join_id = def->join_id;
		joins[njoins++].result = def->result;
	}
	if (use->joins != NULL)
		pfree(use->joins);
	use->joins = joins;
	use->njoins = njoins;
	use->valid = messages == messages_before;
}

static inline bool
is_slot_of(const volatile SjJoinSlot *slot, const SjWatchedJoin *join)
{
	return slot != NULL && slot->database == MyDatabaseId &&
		slot->join_id == join->join_id && slot->result == join->result;
}

/*
 * Is the horizon of the join beyond the time?  Slots are looked at without a
 * lock.  One that is given to another join between the two looks was that of a
 * join that is gone, so what is read does not matter; one that is being given
 * to ours says so only when its horizon is ours.
 */
static inline bool
has_passed(SjWatchedJoin *join, SjTime event_time)
{
	if (unlikely(!is_slot_of(join->slot, join)))
	{
		join->slot = sj_join_slot(join->join_id, false);
		if (!is_slot_of(join->slot, join))
			return false;
	}
	pg_read_barrier();
	return event_time < (SjTime) pg_atomic_read_u64(&join->slot->horizon);
}

bool
sj_capture_has_written_to(Oid stream)
{
	return sj_stream_use(stream)->written_in == sj_transaction_number;
}

/* Does some join over the stream look back to the time?  It is finite. */
static bool
some_may_look_back_to(SjStreamUse *use, SjTime event_time)
{
	if (unlikely(!use->valid))
		load(use);
	for (int i = 0; i < use->njoins; i++)
		if (!has_passed(&use->joins[i], event_time))
			return true;
	return !use->valid;
}

bool
sj_row_may_change(SjStreamUse *use, Datum event_time, bool isnull)
{
	if (sj_shared == NULL || use->written_in == sj_transaction_number)
		return true;
	/* a row without a finite time is in no state */
	if (isnull || !SJ_TIME_IS_FINITE(DatumGetInt64(event_time)))
		return false;
	return some_may_look_back_to(use, DatumGetInt64(event_time));
}

/*
 * may_change(stream regclass, event_time timestamptz or timestamp)
 *		RETURNS boolean
 *
 * Called for each row that is deleted, unless sweep.c has spared it that.
 */
Datum
sjoin_may_change(PG_FUNCTION_ARGS)
{
	SjStreamUse *use = fcinfo->flinfo->fn_extra;

	if (PG_ARGISNULL(0))
		PG_RETURN_BOOL(true);
	if (unlikely(use == NULL || use->stream != PG_GETARG_OID(0)))
		fcinfo->flinfo->fn_extra = use = sj_stream_use(PG_GETARG_OID(0));
	PG_RETURN_BOOL(sj_row_may_change(use, PG_GETARG_DATUM(1),
									 PG_ARGISNULL(1)));
}
