/*-------------------------------------------------------------------------
 *
 * definition_view.c
 *	  The view that holds the query of a join: its name, owner and schema.
 *
 * The view belongs to the result as an index or an owned sequence does: it
 * goes with it to another owner and to another schema.  Otherwise the former
 * owner could still replace the query that runs as the new one, and dropping
 * the former schema would stop the join.
 *
 * IDENTIFICATION
 *	  src/api/definition_view.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "api/definition_view.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/join_def.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* Whose a relation is and where. */
typedef struct Place
{
	Oid			owner;
	Oid			namespace;
} Place;

char *
sj_definition_name(const char *result, Oid namespace)
{
	char	   *name = makeObjectName(result, NULL, "query");

	for (int i = 1; OidIsValid(get_relname_relid(name, namespace)); i++)
		name = makeObjectName(result, NULL, psprintf("query%d", i));
	return name;
}

/* As commands before the current one have left it; false: it is not there. */
static bool
old_place(Oid relid, Place *place)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));

	if (!HeapTupleIsValid(tuple))
		return false;
	place->owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	place->namespace = ((Form_pg_class) GETSTRUCT(tuple))->relnamespace;
	ReleaseSysCache(tuple);
	return true;
}

/* As the current command has made it. */
static bool
new_place(Oid relid, Place *place)
{
	Relation	rel = table_open(RelationRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found;

	ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(rel, ClassOidIndexId, true, SnapshotSelf, 1,
							  &key);
	tuple = systable_getnext(scan);
	found = HeapTupleIsValid(tuple);
	if (found)
	{
		place->owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
		place->namespace = ((Form_pg_class) GETSTRUCT(tuple))->relnamespace;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/* Under another name when its own is taken there. */
static void
move_view(const SjJoinDef *def, Oid from, Oid to)
{
	ObjectAddresses *moved = new_object_addresses();
	Relation	view;

	if (OidIsValid(get_relname_relid(get_rel_name(def->definition), to)))
	{
		RenameRelationInternal(def->definition,
							   sj_definition_name(get_rel_name(def->result),
												  to), true, false);
		CommandCounterIncrement();
	}
	view = table_open(def->definition, AccessExclusiveLock);
	AlterTableNamespaceInternal(view, from, to, moved);
	table_close(view, NoLock);
	free_object_addresses(moved);
}

void
sj_definition_follow(Oid relid)
{
	SjJoinDef  *def = sj_join_def_by_result(relid);
	Place		before;
	Place		after;
	Place		view;

	if (def == NULL || !old_place(relid, &before) ||
		!new_place(relid, &after) ||
		(before.owner == after.owner && before.namespace == after.namespace))
		return;
	LockRelationOid(def->definition, AccessExclusiveLock);
	if (!old_place(def->definition, &view))
		return;
	if (before.owner != after.owner && view.owner != after.owner)
		ATExecChangeOwner(def->definition, after.owner, true,
						  AccessExclusiveLock);
	if (before.namespace != after.namespace &&
		view.namespace != after.namespace)
		move_view(def, view.namespace, after.namespace);
}
