/*-------------------------------------------------------------------------
 *
 * partition.c
 *	  Partitions that come to a stream and go from it.
 *
 * PostgreSQL clones the row triggers of a stream to new partitions, but not the
 * truncate trigger, so new partitions get theirs here.  Rows that a table has
 * when it is attached come to the stream, those of one that is detached leave
 * it.
 *
 * All is done after the command, which then holds its locks.
 *
 * IDENTIFICATION
 *	  src/capture/partition.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "capture/capture.h"
#include "capture/departure.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "relations.h"
#include "utils/lsyscache.h"

/* The tables of a tree that hold rows, none of them foreign. */
static List *
leaves_of(Oid relid)
{
	List	   *leaves = NIL;
	ListCell   *lc;

	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
		if (get_rel_relkind(lfirst_oid(lc)) == RELKIND_RELATION)
			leaves = lappend_oid(leaves, lfirst_oid(lc));
	return leaves;
}

/* A table has been attached, with the rows that it has. */
static void
partition_came(Oid partition)
{
	ListCell   *lc;

	if (!OidIsValid(sj_capturing_stream(partition)))
		return;
	foreach(lc, leaves_of(partition))
	{
		sj_capture_install_partition(lfirst_oid(lc));
		sj_capture_rows(lfirst_oid(lc));
	}
}

/* IF NOT EXISTS may have made nothing: what is there is not touched. */
static void
partition_created(Oid partition)
{
	if (get_rel_relkind(partition) == RELKIND_RELATION &&
		OidIsValid(sj_capturing_stream(partition)) &&
		!OidIsValid(get_trigger_oid(partition, SJ_TRUNCATE_TRIGGER, true)))
		sj_capture_install_partition(partition);
}

static void
partition_went(Oid parent, Oid partition)
{
	Oid			stream = sj_capturing_stream(parent);
	ListCell   *lc;

	if (!OidIsValid(stream))
		return;
	foreach(lc, leaves_of(partition))
	{
		sj_departure_of(stream, lfirst_oid(lc));
		sj_capture_remove_partition(lfirst_oid(lc));
	}
}

static Oid
relation_named(const RangeVar *name)
{
	return RangeVarGetRelid(name, NoLock, true);
}

static void
after_alter_table(AlterTableStmt *statement)
{
	ListCell   *lc;

	foreach(lc, statement->cmds)
	{
		AlterTableCmd *command = lfirst(lc);
		Oid			parent;
		Oid			partition;

		if (command->subtype != AT_AttachPartition &&
			command->subtype != AT_DetachPartition &&
			command->subtype != AT_DetachPartitionFinalize)
			continue;
		parent = relation_named(statement->relation);
		partition = relation_named(((PartitionCmd *) command->def)->name);
		/* indexes have partitions, too */
		if (!OidIsValid(parent) || !OidIsValid(partition) ||
			get_rel_relkind(parent) != RELKIND_PARTITIONED_TABLE)
			continue;
		if (command->subtype == AT_AttachPartition)
			partition_came(partition);
		else
			partition_went(parent, partition);
	}
}

/* CREATE TABLE ... PARTITION OF */
static void
after_create_table(CreateStmt *statement)
{
	Oid			relid;

	if (statement->partbound == NULL)
		return;
	relid = get_relname_relid(statement->relation->relname,
							  RangeVarGetCreationNamespace(statement->relation));
	if (OidIsValid(relid) &&
		get_rel_persistence(relid) != RELPERSISTENCE_TEMP)
		partition_created(relid);
}

void
sj_capture_after_command(Node *statement)
{
	if (IsBinaryUpgrade || !OidIsValid(sj_relation_oid("layout")))
		return;
	if (IsA(statement, CreateStmt))
		after_create_table((CreateStmt *) statement);
	else if (IsA(statement, AlterTableStmt))
		after_alter_table((AlterTableStmt *) statement);
}
