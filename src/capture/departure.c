/*-------------------------------------------------------------------------
 *
 * departure.c
 *	  Tables whose rows leave a stream all at once: TRUNCATE, and DROP or
 *	  DETACH of a partition.
 *
 * Each table that holds rows gives one 'T' record, whose source is the
 * partition.  It must stand where the rows left: after what was captured
 * before, and before what is captured after.
 *
 * TRUNCATE is seen twice.  The object access hook sees every table, partitions
 * and those that CASCADE reaches included, but before the table is locked,
 * perhaps more than once, perhaps in vain (the name may be another table's by
 * the time the lock is there), and before the BEFORE triggers.  The truncate
 * trigger comes when the table is empty, but after the triggers of others,
 * which may have written to it again.  So what the hook sees is noted, and
 * becomes a record when the next one is captured, or at the end; a table that
 * has not got its new storage by then is left noted.  The trigger counts where
 * the hook has not been: in replication workers.
 *
 * (In one case that look deceives: a BEFORE trigger of a second TRUNCATE in
 * the same transaction that writes to the very table.  The first one has given
 * the table its storage.)
 *
 * DROP is noted by the hook as well, under the lock.
 *
 * IDENTIFICATION
 *	  src/capture/departure.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "capture/capture.h"
#include "capture/departure.h"
#include "capture/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/stream_def.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "relations.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"

/* A table whose rows leave. */
typedef struct Departure
{
	Oid			relid;
	Oid			stream;			/* InvalidOid: truncated; to be looked up */
} Departure;

/* A TRUNCATE that is running. */
typedef struct Truncation
{
	bool		running;
	List	   *seen;			/* by the hook; in TopTransactionContext */
} Truncation;

int			sj_departures_pending = 0;

static Truncation truncation = {false, NIL};
static object_access_hook_type prev_object_access_hook = NULL;

/* the stream of a table ----------------------------------------------- */

Oid
sj_capturing_stream(Oid relid)
{
	ListCell   *lc;

	if (sj_layout_current(relid) != NULL)
		return relid;
	if (!get_rel_relispartition(relid))
		return InvalidOid;
	foreach(lc, get_partition_ancestors(relid))
		if (sj_layout_current(lfirst_oid(lc)) != NULL)
			return lfirst_oid(lc);
	return InvalidOid;
}

/* records ------------------------------------------------------------- */

/* A 'T' record; one right after another would add nothing. */
static void
add_record(SjScope *scope, Oid stream, Oid relid)
{
	SjLayout   *layout = sj_layout_current(stream);
	Oid			source = relid == stream ? InvalidOid : relid;

	/* the stream may have been dropped with its partitions */
	if (layout == NULL ||
		sj_scope_last_op(scope, layout->id, source) == SJ_OP_TRUNCATE)
		return;
	(void) sj_buffer_add(scope, sj_scope_buffer(scope, layout->id, source),
						 SJ_OP_TRUNCATE, MAXALIGN(sizeof(SjLogRecord)));
}

/* Is the lock held, and has the table got new storage in this transaction? */
static bool
is_truncated(Oid relid)
{
	Relation	rel = RelationIdGetRelation(relid);
	bool		truncated;

	if (rel == NULL)
		return false;			/* dropped since, which is noted, too */
	truncated = CheckRelationLockedByMe(rel, AccessExclusiveLock, true) &&
		(rel->rd_createSubid != InvalidSubTransactionId ||
		 rel->rd_newRelfilenodeSubid != InvalidSubTransactionId ||
		 rel->rd_rel->relkind == RELKIND_FOREIGN_TABLE);
	RelationClose(rel);
	return truncated;
}

/* Makes a record of it; false when it has not happened yet. */
static bool
settle(SjScope *scope, const Departure *departure)
{
	Oid			stream = departure->stream;

	if (!OidIsValid(stream))
	{
		if (!is_truncated(departure->relid))
			return false;
		stream = sj_capturing_stream(departure->relid);
	}
	if (OidIsValid(stream))
		add_record(scope, stream, departure->relid);
	return true;
}

static void
settle_scope(SjScope *scope, bool final)
{
	ListCell   *lc;

	if (scope->parent != NULL)
		settle_scope(scope->parent, false);
	foreach(lc, scope->departures)
	{
		Departure  *departure = lfirst(lc);

		if (!settle(scope, departure) && !final)
			continue;
		scope->departures = foreach_delete_current(scope->departures, lc);
		pfree(departure);
		sj_departures_pending--;
	}
}

void
sj_departures_settle(bool final)
{
	if (sj_departures_pending > 0)
		settle_scope(sj_current_scope, final);
}

void
sj_departures_forget(SjScope *scope)
{
	sj_departures_pending -= list_length(scope->departures);
	list_free_deep(scope->departures);
	scope->departures = NIL;
}

/* notes --------------------------------------------------------------- */

static bool
is_noted(const SjScope *scope, Oid relid, Oid stream)
{
	ListCell   *lc;

	foreach(lc, scope->departures)
	{
		Departure  *departure = lfirst(lc);

		if (departure->relid == relid && departure->stream == stream)
			return true;
	}
	return false;
}

static void
note(Oid relid, Oid stream)
{
	SjScope    *scope = sj_scope_mine();
	MemoryContext old;
	Departure  *departure;

	if (is_noted(scope, relid, stream))
		return;
	old = MemoryContextSwitchTo(TopTransactionContext);
	departure = palloc(sizeof(Departure));
	departure->relid = relid;
	departure->stream = stream;
	scope->departures = lappend(scope->departures, departure);
	MemoryContextSwitchTo(old);
	sj_departures_pending++;
}

void
sj_departure_of(Oid stream, Oid relid)
{
	sj_departures_settle(false);
	add_record(sj_scope_mine(), stream, relid);
}

/* What the hook sees of a TRUNCATE. */
static void
truncate_begins(Oid relid)
{
	MemoryContext old;

	if (list_member_oid(truncation.seen, relid))
		return;
	note(relid, InvalidOid);
	if (!truncation.running)
		return;
	old = MemoryContextSwitchTo(TopTransactionContext);
	truncation.seen = lappend_oid(truncation.seen, relid);
	MemoryContextSwitchTo(old);
}

/* The hook has not seen it: it is empty now. */
static void
truncate_unseen(Oid relid)
{
	Oid			stream;

	if (list_member_oid(truncation.seen, relid))
		return;
	stream = sj_capturing_stream(relid);
	if (OidIsValid(stream))
		sj_departure_of(stream, relid);
}

/*
 * A partitioned table's trigger speaks for partitions that have none: they came
 * while sjoin was not loaded.
 */
void
sj_departure_truncated(Oid relid)
{
	ListCell   *lc;

	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
	{
		truncate_unseen(relid);
		return;
	}
	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
		if (get_rel_relkind(lfirst_oid(lc)) != RELKIND_PARTITIONED_TABLE &&
			!OidIsValid(get_trigger_oid(lfirst_oid(lc), SJ_TRUNCATE_TRIGGER,
										true)))
			truncate_unseen(lfirst_oid(lc));
}

void
sj_capture_truncate(void (*run) (void *arg), void *arg)
{
	Truncation	outer = truncation;

	truncation.running = true;
	truncation.seen = NIL;
	PG_TRY();
	{
		run(arg);
	}
	PG_FINALLY();
	{
		list_free(truncation.seen);
		truncation = outer;
	}
	PG_END_TRY();
}

/* A partition goes, while its stream stays: that is seen at the end. */
static void
drop_begins(Oid relid)
{
	Oid			stream;

	if (!get_rel_relispartition(relid) ||
		get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE ||
		get_rel_persistence(relid) == RELPERSISTENCE_TEMP)
		return;
	stream = sj_capturing_stream(relid);
	if (OidIsValid(stream))
		note(relid, stream);
}

static bool
holds_rows(Oid relid)
{
	char		kind = get_rel_relkind(relid);

	return kind == RELKIND_RELATION || kind == RELKIND_FOREIGN_TABLE;
}

static void
at_object_access(ObjectAccessType access, Oid class_id, Oid object_id,
				 int sub_id, void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, class_id, object_id, sub_id, arg);
	if (class_id != RelationRelationId || sub_id != 0 || IsBinaryUpgrade ||
		(access != OAT_TRUNCATE && access != OAT_DROP) ||
		!holds_rows(object_id) || !OidIsValid(sj_relation_oid("layout")))
		return;
	if (access == OAT_TRUNCATE)
		truncate_begins(object_id);
	else
		drop_begins(object_id);
}

void
sj_departures_init(void)
{
	prev_object_access_hook = object_access_hook;
	object_access_hook = at_object_access;
}
