/*-------------------------------------------------------------------------
 *
 * install.c
 *	  Adding the triggers to a stream and removing them.
 *
 * A row trigger and a truncate trigger, both fired whatever
 * session_replication_role is.  PostgreSQL clones the row trigger to
 * partitions, those to come included.
 *
 * IDENTIFICATION
 *	  src/capture/install.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "capture/capture.h"
#include "catalog/dependency.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "nodes/makefuncs.h"
#include "parser/parse_func.h"
#include "utils/rel.h"

static void
create_trigger(Oid relid, const char *name, bool row, int16 events)
{
	CreateTrigStmt *stmt = makeNode(CreateTrigStmt);
	List	   *function = list_make2(makeString("sjoin"),
									  makeString("capture"));

	stmt->trigname = pstrdup(name);
	stmt->funcname = function;
	stmt->row = row;
	stmt->timing = TRIGGER_TYPE_AFTER;
	stmt->events = events;
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
add_trigger(Oid relid, const char *name, bool row, int16 events)
{
	if (OidIsValid(get_trigger_oid(relid, name, true)))
		fire_always(relid, name);
	else
		create_trigger(relid, name, row, events);
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
}

void
sj_capture_install(Oid relid)
{
	add_trigger(relid, SJ_ROW_TRIGGER, true,
				TRIGGER_TYPE_INSERT | TRIGGER_TYPE_UPDATE | TRIGGER_TYPE_DELETE);
	add_trigger(relid, SJ_TRUNCATE_TRIGGER, false, TRIGGER_TYPE_TRUNCATE);
}

void
sj_capture_remove(Oid relid)
{
	drop_trigger(relid, SJ_ROW_TRIGGER);
	drop_trigger(relid, SJ_TRUNCATE_TRIGGER);
	CommandCounterIncrement();
}
