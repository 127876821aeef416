/*-------------------------------------------------------------------------
 *
 * install.c
 *	  Adding the triggers to a stream and removing them.
 *
 * Three triggers, fired whatever session_replication_role is: one for rows that
 * are inserted or updated; one for rows that are deleted, whose condition
 * leaves out those that no join would miss (retention.c); one for TRUNCATE.
 * PostgreSQL clones the first two to partitions, those to come included; the
 * last is added to each partition (partition.c has those to come).
 *
 * IDENTIFICATION
 *	  src/capture/install.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "capture/capture.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "catalog/privileges.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_func.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* Which trigger. */
typedef struct TriggerPlan
{
	const char *name;
	bool		row;
	int16		events;
} TriggerPlan;

static const TriggerPlan row_trigger = {
	SJ_ROW_TRIGGER, true, TRIGGER_TYPE_INSERT | TRIGGER_TYPE_UPDATE
};
static const TriggerPlan delete_trigger = {
	SJ_DELETE_TRIGGER, true, TRIGGER_TYPE_DELETE
};
static const TriggerPlan truncate_trigger = {
	SJ_TRUNCATE_TRIGGER, false, TRIGGER_TYPE_TRUNCATE
};

/* Creates it, or replaces one of the name that is there. */
static void
create_trigger(Oid relid, const TriggerPlan *plan, Node *condition)
{
	CreateTrigStmt *stmt = makeNode(CreateTrigStmt);
	List	   *function = list_make2(makeString("sjoin"),
									  makeString("capture"));

	stmt->replace = true;
	stmt->trigname = pstrdup(plan->name);
	stmt->funcname = function;
	stmt->row = plan->row;
	stmt->timing = TRIGGER_TYPE_AFTER;
	stmt->events = plan->events;
	stmt->whenClause = condition;
	CreateTriggerFiringOn(stmt, NULL, relid, InvalidOid, InvalidOid,
						  InvalidOid, LookupFuncName(function, 0, NULL, false),
						  InvalidOid, NULL, false, false,
						  TRIGGER_FIRES_ALWAYS);
	CommandCounterIncrement();
}

/* Puts right what ALTER TABLE ... ENABLE TRIGGER ALL has made of it. */
static void
fire_always(Oid relid, const char *name)
{
	Relation	rel = table_open(relid, ShareRowExclusiveLock);

	EnableDisableTrigger(rel, name, TRIGGER_FIRES_ALWAYS, false,
						 ShareRowExclusiveLock);
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

static void
add_trigger(Oid relid, const TriggerPlan *plan)
{
	if (OidIsValid(get_trigger_oid(relid, plan->name, true)))
		fire_always(relid, plan->name);
	else
		create_trigger(relid, plan, NULL);
}

/* sjoin.may_change('stream'::regclass, old.<event time>), not yet analysed */
static Node *
delete_condition(Oid relid, AttrNumber time_attno)
{
	A_Const    *oid = makeNode(A_Const);
	TypeCast   *stream = makeNode(TypeCast);
	ColumnRef  *event_time = makeNode(ColumnRef);

	oid->val.sval.type = T_String;
	oid->val.sval.sval = psprintf("%u", relid);
	oid->location = -1;
	stream->arg = (Node *) oid;
	stream->typeName =
		makeTypeNameFromNameList(list_make2(makeString("pg_catalog"),
											makeString("regclass")));
	stream->location = -1;
	event_time->fields = list_make2(makeString("old"),
									makeString(get_attname(relid, time_attno,
														   false)));
	event_time->location = -1;
	return (Node *) makeFuncCall(list_make2(makeString("sjoin"),
											makeString("may_change")),
								 list_make2(stream, event_time),
								 COERCE_EXPLICIT_CALL, -1);
}

AttrNumber
sj_capture_condition_attno(Node *condition)
{
	FuncExpr   *call = (FuncExpr *) condition;

	if (!IsA(call, FuncExpr) || list_length(call->args) != 2 ||
		strcmp(get_func_name(call->funcid), "may_change") != 0 ||
		!IsA(linitial(call->args), Const) || !IsA(lsecond(call->args), Var))
		return InvalidAttrNumber;
	return ((Var *) lsecond(call->args))->varattno;
}

/* Is that the condition (a Node of pg_trigger)? */
static bool
is_delete_condition(Node *condition, Oid relid, AttrNumber time_attno)
{
	Const	   *stream;

	if (sj_capture_condition_attno(condition) != time_attno)
		return false;
	stream = linitial(((FuncExpr *) condition)->args);
	return !stream->constisnull &&
		DatumGetObjectId(stream->constvalue) == relid;
}

/*
 * Is there a delete trigger with the right condition?  One from a dump may be of
 * a time when another column was the event time.
 */
static bool
has_delete_trigger(Oid relid, AttrNumber time_attno)
{
	Relation	pg_trigger = table_open(TriggerRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		right = false;

	ScanKeyInit(&keys[0], Anum_pg_trigger_tgrelid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(relid));
	ScanKeyInit(&keys[1], Anum_pg_trigger_tgname, BTEqualStrategyNumber,
				F_NAMEEQ, CStringGetDatum(delete_trigger.name));
	scan = systable_beginscan(pg_trigger, TriggerRelidNameIndexId, true, NULL,
							  2, keys);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;
		Datum		qual = heap_getattr(tuple, Anum_pg_trigger_tgqual,
										RelationGetDescr(pg_trigger), &isnull);

		right = !isnull &&
			is_delete_condition(stringToNode(TextDatumGetCString(qual)), relid,
								time_attno);
	}
	systable_endscan(scan);
	table_close(pg_trigger, AccessShareLock);
	return right;
}

/*
 * The trigger goes with its column, and does not stand in the way when the
 * column is dropped.  (While a join needs the column its view does.)
 */
static void
depend_on_column(Oid relid, AttrNumber time_attno)
{
	ObjectAddress trigger;
	ObjectAddress column;

	ObjectAddressSet(trigger, TriggerRelationId,
					 get_trigger_oid(relid, delete_trigger.name, false));
	ObjectAddressSubSet(column, RelationRelationId, relid, time_attno);
	if (deleteDependencyRecordsForSpecific(TriggerRelationId, trigger.objectId,
										   DEPENDENCY_NORMAL,
										   RelationRelationId, relid) > 0)
		recordDependencyOn(&trigger, &column, DEPENDENCY_AUTO);
	CommandCounterIncrement();
}

static void
add_delete_trigger(Oid relid, AttrNumber time_attno)
{
	if (has_delete_trigger(relid, time_attno))
		fire_always(relid, delete_trigger.name);
	else
		create_trigger(relid, &delete_trigger,
					   delete_condition(relid, time_attno));
	depend_on_column(relid, time_attno);
}

static void
drop_trigger(Oid relid, const char *name)
{
	ObjectAddress trigger;
	Oid			oid = get_trigger_oid(relid, name, true);

	if (!OidIsValid(oid))
		return;
	ObjectAddressSet(trigger, TriggerRelationId, oid);
	performDeletion(&trigger, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	CommandCounterIncrement();
}

/* Switches to the owner of the table; returns who it was. */
static Oid
become_owner(Oid relid, int *context)
{
	Oid			user;

	GetUserIdAndSecContext(&user, context);
	SetUserIdAndSecContext(sj_relation_owner(relid),
						   *context | SECURITY_LOCAL_USERID_CHANGE);
	return user;
}

void
sj_capture_install_partition(Oid relid)
{
	int			context;
	Oid			user = become_owner(relid, &context);

	add_trigger(relid, &truncate_trigger);
	SetUserIdAndSecContext(user, context);
}

void
sj_capture_install(Oid relid, AttrNumber time_attno)
{
	int			context;
	Oid			user = become_owner(relid, &context);
	ListCell   *lc;

	add_trigger(relid, &row_trigger);
	add_delete_trigger(relid, time_attno);
	add_trigger(relid, &truncate_trigger);
	SetUserIdAndSecContext(user, context);

	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
		if (lfirst_oid(lc) != relid &&
			get_rel_relkind(lfirst_oid(lc)) == RELKIND_RELATION)
			sj_capture_install_partition(lfirst_oid(lc));
}

void
sj_capture_remove_partition(Oid relid)
{
	drop_trigger(relid, SJ_TRUNCATE_TRIGGER);
}

void
sj_capture_remove(Oid relid)
{
	ListCell   *lc;

	drop_trigger(relid, SJ_ROW_TRIGGER);
	drop_trigger(relid, SJ_DELETE_TRIGGER);
	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
		drop_trigger(lfirst_oid(lc), SJ_TRUNCATE_TRIGGER);
}
