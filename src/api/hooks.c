/*-------------------------------------------------------------------------
 *
 * hooks.c
 *	  What must happen when users drop relations, end transactions, or work on
 *	  whole databases.
 *
 * IDENTIFICATION
 *	  src/api/hooks.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "api/api.h"
#include "api/definition_view.h"
#include "capture/capture.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "pgstat.h"
#include "relations.h"
#include "shmem.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "worker/launcher.h"

static object_access_hook_type prev_object_access = NULL;
static ProcessUtility_hook_type prev_utility = NULL;

/*
 * Nesting level of the outermost subtransaction that has changed definitions;
 * 0: none has.
 */
static int	definitions_changed = 0;

/* A database that this transaction has made, perhaps with joins in it. */
static Oid	created_database = InvalidOid;

void
sj_definitions_changed(void)
{
	int			level = GetCurrentTransactionNestLevel();

	if (definitions_changed == 0 || definitions_changed > level)
		definitions_changed = level;
}

static void
at_end_of_subtransaction(SubXactEvent event, SubTransactionId subid,
						 SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();

	if (definitions_changed < level)
		return;
	if (event == SUBXACT_EVENT_ABORT_SUB)
		definitions_changed = 0;
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
		definitions_changed = level - 1;
}

static void
at_end_of_transaction(XactEvent event, void *arg)
{
	SjDatabaseSlot *slot;

	if (event == XACT_EVENT_COMMIT && OidIsValid(created_database))
		(void) sj_request_worker(created_database);
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT)
		created_database = InvalidOid;
	if (definitions_changed == 0)
		return;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			/* what can fail, while it still can */
			(void) sj_database_slot(MyDatabaseId, true);
			break;
		case XACT_EVENT_PRE_PREPARE:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot prepare a transaction that has changed joins or streams")));
			break;
		case XACT_EVENT_COMMIT:
			definitions_changed = 0;
			/* a worker that left just now may have given the slot back */
			slot = sj_database_slot_or_null(MyDatabaseId);
			if (slot == NULL)
				break;
			pg_atomic_fetch_add_u64(&slot->definitions, 1);
			sj_request_worker(MyDatabaseId);
			break;
		case XACT_EVENT_ABORT:
			definitions_changed = 0;
			break;
		default:
			break;
	}
}

static void
forget_stream(Oid relid)
{
	sj_layout_delete(relid);
	sj_stream_def_delete(relid);
	sj_definitions_changed();
}

/* Ordinary relations only: streams, results, and what the extension is made of. */
static bool
can_be_ours(Oid relid)
{
	char		kind = get_rel_relkind(relid);

	return (kind == RELKIND_RELATION || kind == RELKIND_PARTITIONED_TABLE ||
			kind == RELKIND_MATVIEW) &&
		get_rel_persistence(relid) != RELPERSISTENCE_TEMP;
}

/* A relation goes: the join whose result, the stream whose table it is. */
static void
relation_dropped(Oid relid)
{
	SjJoinDef  *join;

	if (relid == sj_relation_oid("join_def"))
		sj_definitions_changed();	/* the extension goes */
	if (!OidIsValid(sj_relation_oid("join_def")) ||
		!OidIsValid(sj_relation_oid("stream_def")) ||
		!OidIsValid(sj_relation_oid("layout")) ||
		!OidIsValid(sj_relation_oid("late_row")) ||
		!OidIsValid(sj_relation_oid("late_row_join_id")))
		return;
	join = sj_join_def_by_result(relid);
	if (join != NULL)
		sj_forget_join(join);
	if (sj_stream_def_get(relid) != NULL)
		forget_stream(relid);
}

/* A stream without its event time or a column of its upsert key is none. */
static void
column_dropped(Oid relid, int attno)
{
	SjStreamDef *stream = OidIsValid(sj_relation_oid("stream_def")) ?
	sj_stream_def_get(relid) : NULL;

	if (stream != NULL &&
		(stream->time_attno == attno ||
		 list_member_int(stream->upsert_key, attno)))
		forget_stream(relid);
}

static void
object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id,
			  void *arg)
{
	if (prev_object_access)
		prev_object_access(access, class_id, object_id, sub_id, arg);
	if ((access != OAT_DROP && access != OAT_POST_ALTER) ||
		class_id != RelationRelationId || sj_shared == NULL ||
		!can_be_ours(object_id))
		return;
	if (access == OAT_POST_ALTER)
	{
		if (sub_id == 0)
			sj_definition_follow(object_id);
	}
	else if (sub_id == 0)
		relation_dropped(object_id);
	else
		column_dropped(object_id, sub_id);
}

/* The database that a command needs to be free of other processes. */
static Oid
database_to_leave(Node *statement)
{
	const char *name = NULL;
	ListCell   *lc;

	if (IsA(statement, DropdbStmt))
		name = ((DropdbStmt *) statement)->dbname;
	else if (IsA(statement, RenameStmt) &&
			 ((RenameStmt *) statement)->renameType == OBJECT_DATABASE)
		name = ((RenameStmt *) statement)->subname;
	else if (IsA(statement, AlterDatabaseStmt))
	{
		foreach(lc, ((AlterDatabaseStmt *) statement)->options)
			if (strcmp(((DefElem *) lfirst(lc))->defname, "tablespace") == 0)
				name = ((AlterDatabaseStmt *) statement)->dbname;
	}
	else if (IsA(statement, CreatedbStmt))
	{
		foreach(lc, ((CreatedbStmt *) statement)->options)
		{
			DefElem    *option = lfirst(lc);

			if (strcmp(option->defname, "template") == 0 && option->arg != NULL)
				name = strVal(option->arg);
		}
	}
	return name == NULL ? InvalidOid : get_database_oid(name, true);
}

static bool
may_copy_database(Oid database)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID,
										ObjectIdGetDatum(database));
	bool		may = pg_database_ownercheck(database, GetUserId());

	if (HeapTupleIsValid(tuple))
	{
		may |= ((Form_pg_database) GETSTRUCT(tuple))->datistemplate;
		ReleaseSysCache(tuple);
	}
	return may;
}

static bool
may_create_databases(void)
{
	HeapTuple	tuple = SearchSysCache1(AUTHOID,
										ObjectIdGetDatum(GetUserId()));
	bool		may = superuser();

	if (HeapTupleIsValid(tuple))
	{
		may |= ((Form_pg_authid) GETSTRUCT(tuple))->rolcreatedb;
		ReleaseSysCache(tuple);
	}
	return may;
}

/* May the user do that to the database, so that its worker should leave? */
static bool
may_disturb(Node *statement, Oid database)
{
	return IsA(statement, CreatedbStmt) ?
		may_create_databases() && may_copy_database(database) :
		pg_database_ownercheck(database, GetUserId());
}

/* Keeps workers away from a database; its slot, or NULL when it has none. */
static SjDatabaseSlot *
suspend_worker(Oid database)
{
	SjDatabaseSlot *slot = sj_database_slot(database, false);

	if (slot == NULL)
		return NULL;
	LWLockAcquire(sj_shared->lock, LW_EXCLUSIVE);
	if (slot->database == database)
		slot->suspended++;
	else
		slot = NULL;			/* given back just now */
	LWLockRelease(sj_shared->lock);
	return slot;
}

/* Waits until the worker, which must stay away, is gone. */
static void
send_worker_away(SjDatabaseSlot *slot)
{
	pid_t		pid;

	ConditionVariablePrepareToSleep(&slot->progress);
	for (;;)
	{
		LWLockAcquire(sj_shared->lock, LW_SHARED);
		pid = slot->worker_pid;
		LWLockRelease(sj_shared->lock);
		if (pid == 0)
			break;
		(void) kill(pid, SIGTERM);
		(void) ConditionVariableTimedSleep(&slot->progress, 100,
										   PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
}

/* Lets it come back; also when this process ends in the middle. */
static void
release_worker(int code, Datum arg)
{
	SjDatabaseSlot *slot = (SjDatabaseSlot *) DatumGetPointer(arg);

	LWLockAcquire(sj_shared->lock, LW_EXCLUSIVE);
	slot->suspended--;
	slot->start_after = 0;
	LWLockRelease(sj_shared->lock);
	sj_wake_launcher();
}

/* The arguments of the utility hook. */
typedef struct UtilityCall
{
	PlannedStmt *pstmt;
	const char *query_string;
	bool		read_only_tree;
	ProcessUtilityContext context;
	ParamListInfo params;
	QueryEnvironment *environment;
	DestReceiver *dest;
	QueryCompletion *completion;
} UtilityCall;

static void
call_utility(void *arg)
{
	UtilityCall *call = arg;

	(prev_utility ? prev_utility : standard_ProcessUtility)
		(call->pstmt, call->query_string, call->read_only_tree, call->context,
		 call->params, call->environment, call->dest, call->completion);
}

static void
run_utility(UtilityCall *call)
{
	Node	   *statement = call->pstmt->utilityStmt;

	if (IsA(statement, TruncateStmt))
		sj_capture_truncate(call_utility, call);
	else if (IsA(statement, AlterTableStmt) || IsA(statement, CreateStmt))
	{
		call_utility(call);
		sj_capture_after_command(statement);
	}
	else
		call_utility(call);
}

static bool
is_commit_prepared(Node *statement)
{
	return IsA(statement, TransactionStmt) &&
		((TransactionStmt *) statement)->kind == TRANS_STMT_COMMIT_PREPARED;
}

static void
process_utility(PlannedStmt *pstmt, const char *query_string,
				bool read_only_tree, ProcessUtilityContext context,
				ParamListInfo params, QueryEnvironment *environment,
				DestReceiver *dest, QueryCompletion *completion)
{
	Node	   *statement = pstmt->utilityStmt;
	bool		commit_prepared = is_commit_prepared(statement);
	Oid			database = sj_shared == NULL || commit_prepared ? InvalidOid :
	database_to_leave(statement);
	SjDatabaseSlot *slot = NULL;
	UtilityCall call = {pstmt, query_string, read_only_tree, context, params,
	environment, dest, completion};

	if (OidIsValid(database) && may_disturb(statement, database))
		slot = suspend_worker(database);
	if (slot == NULL)
	{
		run_utility(&call);
		/* a transaction prepared earlier has committed: its rows are news */
		if (commit_prepared)
			sj_capture_wake();
		return;
	}

	PG_ENSURE_ERROR_CLEANUP(release_worker, PointerGetDatum(slot));
	{
		send_worker_away(slot);
		run_utility(&call);
		if (IsA(statement, DropdbStmt))
			sj_forget_database(database);
		else if (IsA(statement, CreatedbStmt))
			created_database =
				get_database_oid(((CreatedbStmt *) statement)->dbname, true);
	}
	PG_END_ENSURE_ERROR_CLEANUP(release_worker, PointerGetDatum(slot));
	release_worker(0, PointerGetDatum(slot));
}

void
sj_api_init(void)
{
	prev_object_access = object_access_hook;
	object_access_hook = object_access;
	prev_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	RegisterXactCallback(at_end_of_transaction, NULL);
	RegisterSubXactCallback(at_end_of_subtransaction, NULL);
}
