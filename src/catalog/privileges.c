/*-------------------------------------------------------------------------
 *
 * privileges.c
 *	  What the owner of a join must be allowed to do.
 *
 * IDENTIFICATION
 *	  src/catalog/privileges.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/privileges.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/syscache.h"

static void
check_row_security(Oid relid, Oid owner)
{
	if (check_enable_rls(relid, owner, true) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("row-level security of table \"%s\" applies to \"%s\"",
						get_rel_name(relid), GetUserNameFromId(owner, false)),
				 errhint("A join needs all rows of its inputs: its owner must own the table or have BYPASSRLS.")));
}

/* As PostgreSQL says it, and whose right is missing: that of another session. */
static void
refuse_input(Oid relid, Oid owner)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for table %s", get_rel_name(relid)),
			 errhint("A join reads its inputs as the owner of its result: grant SELECT to \"%s\".",
					 GetUserNameFromId(owner, false))));
}

/*
 * What sub-queries read is read like by any query: policies hide rows, and a
 * view has the rights of its owner.
 */
static bool
check_sub_queries(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, check_sub_queries, context);
	(void) ExecCheckRTPerms(((Query *) node)->rtable, true);
	return query_tree_walker((Query *) node, check_sub_queries, context, 0);
}

void
sj_check_input_privileges(const SjJoinQuery *query)
{
	Oid			owner = GetUserId();

	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		const SjJoinInput *input = &query->input[side];
		int			attno = -1;

		check_row_security(input->relid, owner);
		if (pg_class_aclcheck(input->relid, owner, ACL_SELECT) == ACLCHECK_OK)
			continue;
		while ((attno = bms_next_member(input->columns, attno)) >= 0)
			if (pg_attribute_aclcheck(input->relid, (AttrNumber) attno, owner,
									  ACL_SELECT) != ACLCHECK_OK)
				refuse_input(input->relid, owner);
	}
	(void) check_sub_queries((Node *) query->targets, NULL);
}

Oid
sj_relation_owner(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

void
sj_check_owner(Oid relid)
{
	if (!pg_class_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER,
					   get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
}
