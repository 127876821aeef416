/*-------------------------------------------------------------------------
 *
 * join_start.c
 *	  What making a join and starting it over have in common: locking its
 *	  inputs, capturing them, and the moment from which it runs.
 *
 * The inputs are locked against writers while the triggers come, all of them
 * or none, never queueing in front of a writer (A13).
 *
 * IDENTIFICATION
 *	  src/api/join_start.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/xact.h"
#include "api/api.h"
#include "api/join_start.h"
#include "capture/capture.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_trigger.h"
#include "catalog/privileges.h"
#include "commands/sequence.h"
#include "commands/trigger.h"
#include "common/int.h"
#include "guc.h"
#include "log/tick.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "relations.h"
#include "rewrite/rewriteSupport.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

/* Between tries to lock the inputs, in ms. */
#define LOCK_RETRY_INTERVAL 10

typedef struct LockWanted
{
	Oid			relid;
	LOCKMODE	mode;
} LockWanted;

/* -- locks ---------------------------------------------------------------- */

static List *
want_locks(List *wanted, List *relids, LOCKMODE mode)
{
	ListCell   *lc;

	foreach(lc, relids)
	{
		LockWanted *lock = palloc(sizeof(LockWanted));

		lock->relid = lfirst_oid(lc);
		lock->mode = mode;
		wanted = lappend(wanted, lock);
	}
	return wanted;
}

/* The tables, with their partitions, and the definitions. */
static List *
locks_wanted(const SjJoinQuery *query, Oid result)
{
	List	   *relids = NIL;
	List	   *wanted = NIL;

	if (OidIsValid(result))
		wanted = want_locks(wanted, find_all_inheritors(result, NoLock, NULL),
							AccessExclusiveLock);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		relids = list_concat_unique_oid(relids,
										find_all_inheritors(query->input[side].relid,
															NoLock, NULL));
	relids = lappend_oid(relids, sj_relation_oid("join_def"));
	return want_locks(wanted, relids, ShareRowExclusiveLock);
}

/* Takes all of the locks, or none. */
static bool
try_lock_all(List *wanted)
{
	ListCell   *lc;

	foreach(lc, wanted)
	{
		LockWanted *lock = lfirst(lc);

		if (ConditionalLockRelationOid(lock->relid, lock->mode))
			continue;
		for (int i = 0; i < foreach_current_index(lc); i++)
		{
			lock = list_nth(wanted, i);
			UnlockRelationOid(lock->relid, lock->mode);
		}
		return false;
	}
	return true;
}

/*
 * Takes the locks without ever making a writer wait.  The caller holds none of
 * them: a command queueing for a stronger one than ours would wait for us, and
 * we for it.
 */
static void
lock_all(List *wanted, Oid result)
{
	int			timeout_ms = LockTimeout > 0 ? LockTimeout : sj_wait_timeout;
	TimestampTz give_up = timeout_ms > 0 ?
	TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms) : DT_NOEND;

	while (!try_lock_all(wanted))
	{
		if (GetCurrentTimestamp() >= give_up)
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 OidIsValid(result) ?
					 errmsg("could not lock the result and the inputs of the join") :
					 errmsg("could not lock the inputs of the join"),
					 OidIsValid(result) ?
					 errhint("A transaction that uses the result, writes to the inputs, or makes another join, is open; see pg_locks.  Pausing the join first keeps its worker away.") :
					 errhint("A transaction that writes to them, or makes another join, is open; see pg_locks.")));
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 LOCK_RETRY_INTERVAL, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * The locks to take.  Looking at the query takes locks itself; these go with a
 * subtransaction, so that none is held while others are waited for.
 */
static List *
find_locks(SjAnalyzer analyze, const SjJoinDef *def, Oid result)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	List	   *volatile wanted = NIL;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		SjJoinQuery *query = analyze(def);

		sj_check_may_read(query);
		wanted = locks_wanted(query, result);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	if (error != NULL)
		ReThrowError(error);
	return wanted;
}

void
sj_lock_inputs(SjAnalyzer analyze, const SjJoinDef *def, Oid result)
{
	lock_all(find_locks(analyze, def, result), result);
}

/* -- streams -------------------------------------------------------------- */

void
sj_check_may_read(const SjJoinQuery *query)
{
	sj_check_input_privileges(query);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		if (query->input[side].inferred)
			sj_check_owner(query->input[side].relid);
}

void
sj_check_finality(const SjJoinDef *def, const SjJoinQuery *query)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		if (def->output_mode == SJ_OUTPUT_APPEND &&
			query->input[side].upsert_key != NIL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("output_mode append does not go with the upsert key of stream \"%s\"",
							get_rel_name(query->input[side].relid)),
					 errdetail("What a replaced row has brought into the result would have to be taken back."),
					 errhint("Use output_mode => 'upsert' or 'changelog'.")));
}

static void
declare_stream(const SjJoinInput *input)
{
	SjStreamDef def = {.relid = input->relid,.time_attno = input->time_attno,
		.watermark_delay = -1,.idle_timeout = -1,
		.on_idle = SJ_ON_IDLE_ADVANCE,.max_future = -2,
		.created_at = GetCurrentTimestamp()};

	if (sj_stream_def_get(input->relid) != NULL)
		return;
	sj_check_owner(input->relid);
	sj_create_stream(&def);
	ereport(NOTICE,
			(errmsg("table \"%s\" is now a stream with event time \"%s\"",
					get_rel_name(input->relid),
					get_attname(input->relid, input->time_attno, false))));
}

void
sj_declare_streams(const SjJoinQuery *query)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		declare_stream(&query->input[side]);
}

/* The columns that the join needs are captured from now on. */
static void
capture_input(const SjJoinInput *input)
{
	AttrNumber *attnos = palloc(sizeof(AttrNumber) *
								bms_num_members(input->columns));
	int			n = 0;
	int			attno = -1;

	while ((attno = bms_next_member(input->columns, attno)) >= 0)
		attnos[n++] = (AttrNumber) attno;
	if (sj_layout_extend(input->relid, n, attnos) &&
		sj_capture_has_written_to(input->relid))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("the join needs columns of \"%s\" that this transaction has written without their being captured",
						get_rel_name(input->relid)),
				 errhint("Commit first; rows that are there already are joined.")));
	sj_capture_install(input->relid, input->time_attno);
}

/* -- the definition ------------------------------------------------------- */

/* Does the object depend on the other one already? */
static bool
depends_on(const ObjectAddress *object, const ObjectAddress *other)
{
	Relation	rel = table_open(DependRelationId, AccessShareLock);
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	ScanKeyInit(&key[0], Anum_pg_depend_classid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(object->classId));
	ScanKeyInit(&key[1], Anum_pg_depend_objid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(object->objectId));
	scan = systable_beginscan(rel, DependDependerIndexId, true, NULL, 2, key);
	while (!found && (tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_depend depend = (Form_pg_depend) GETSTRUCT(tuple);

		found = depend->refclassid == other->classId &&
			depend->refobjid == other->objectId &&
			depend->refobjsubid == other->objectSubId;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/* Who drops 'other' is told of the view. */
static void
protect(Oid view, const ObjectAddress *other)
{
	ObjectAddress rule;

	ObjectAddressSet(rule, RewriteRelationId,
					 get_rewrite_oid(view, ViewSelectRuleName, false));
	if (!depends_on(&rule, other))
		recordDependencyOn(&rule, other, DEPENDENCY_NORMAL);
}

static void
protect_column(Oid view, Oid relid, AttrNumber attno)
{
	ObjectAddress column;

	ObjectAddressSubSet(column, RelationRelationId, relid, attno);
	protect(view, &column);
}

static void
protect_trigger(Oid view, Oid relid, const char *name)
{
	ObjectAddress trigger;

	ObjectAddressSet(trigger, TriggerRelationId,
					 get_trigger_oid(relid, name, false));
	protect(view, &trigger);
}

/*
 * The view protects the event time and the upsert key, too, where its query
 * does not name them, and the triggers without which the join would miss what
 * is written.
 */
static void
protect_input(Oid view, const SjJoinInput *input)
{
	ListCell   *lc;

	protect_column(view, input->relid, input->time_attno);
	foreach(lc, input->upsert_key)
		protect_column(view, input->relid, lfirst_int(lc));
	protect_trigger(view, input->relid, SJ_ROW_TRIGGER);
	protect_trigger(view, input->relid, SJ_DELETE_TRIGGER);
	protect_trigger(view, input->relid, SJ_TRUNCATE_TRIGGER);
}

void
sj_describe_join(SjJoinDef *def, const SjJoinQuery *query)
{
	int64		keep = Max(sj_bounds_keep(&query->bounds, SJ_LEFT),
						   sj_bounds_keep(&query->bounds, SJ_RIGHT));

	def->kind = query->kind == SJ_WIDE_JOIN ? "wide" : "interval";
	def->join_type = query->join_type == JOIN_INNER ? "inner" :
		query->join_type == JOIN_LEFT ? "left" : "right";
	def->lateness = sj_join_lateness(def, query);
	if (pg_add_s64_overflow(keep, sj_query_replaces(query), &keep) ||
		pg_add_s64_overflow(keep, def->lateness, &def->retention))
		def->retention = PG_INT64_MAX;
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		def->alias[side] = query->input[side].alias;
}

void
sj_start_join(SjJoinDef *def, const SjJoinQuery *query)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		def->input[side] = query->input[side].relid;
	def->signature = sj_query_signature(sj_join_definition(def->definition));
	def->input_signature = sj_input_signature(query);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		capture_input(&query->input[side]);
		protect_input(def->definition, &query->input[side]);
	}
	sj_describe_join(def, query);
	def->start = sj_tick_serialize(sj_tick_take(0, GetLatestSnapshot()));
	def->join_id = (int32) nextval_internal(sj_relation_oid("join_id"), false);
}
