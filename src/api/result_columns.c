/*-------------------------------------------------------------------------
 *
 * result_columns.c
 *	  Can the targets of a query be the columns of a result?
 *
 * IDENTIFICATION
 *	  src/api/result_columns.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "api/api.h"
#include "catalog/pg_type.h"
#include "emit/result_table.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

static bool
is_reserved(const char *name)
{
	return strcmp(name, SJ_COLUMN_ID) == 0 ||
		strcmp(name, SJ_COLUMN_VERSION) == 0 ||
		strcmp(name, SJ_COLUMN_AT) == 0 ||
		strcmp(name, SJ_COLUMN_SEQ) == 0 ||
		strcmp(name, SJ_COLUMN_OP) == 0;
}

/* Has one of the targets before this one the same name? */
static bool
is_repeated(const List *targets, const TargetEntry *target)
{
	ListCell   *lc;

	foreach(lc, targets)
	{
		TargetEntry *earlier = lfirst(lc);

		if (earlier == target)
			return false;
		if (strcmp(earlier->resname, target->resname) == 0)
			return true;
	}
	return false;
}

/* Can the target be a column of a table beside the others and sjoin's own? */
static void
check_target(const SjJoinQuery *query, const TargetEntry *target)
{
	Oid			type = exprType((Node *) target->expr);

	if (is_reserved(target->resname))
		ereport(ERROR,
				(errcode(ERRCODE_RESERVED_NAME),
				 errmsg("column name \"%s\" is reserved", target->resname),
				 errhint("Give the column another name with AS.")));
	if (is_repeated(query->targets, target))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_COLUMN),
				 errmsg("column name \"%s\" is there twice", target->resname),
				 errhint("Give one of the columns another name with AS.")));
	if (get_typtype(type) == TYPTYPE_PSEUDO)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("column \"%s\" has the pseudo-type %s",
						target->resname, format_type_be(type)),
				 errhint("Cast it to a type that a table can have (CREATE TYPE), or select its fields.")));
}

void
sj_check_result_columns(const SjJoinQuery *query)
{
	ListCell   *lc;

	if (query->targets == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a join needs at least one column"),
				 errhint("Select a column of one of the inputs.")));
	foreach(lc, query->targets)
		check_target(query, lfirst(lc));
}
