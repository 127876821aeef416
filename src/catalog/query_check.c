/*-------------------------------------------------------------------------
 *
 * query_check.c
 *	  Refuses queries that are not streaming joins, saying what to do.
 *
 * A clause is refused when its result could not be kept up to date row by
 * row (LIMIT, aggregates ...) or when evaluating it later would give another
 * answer (volatile functions); a table is refused when its rows are not its
 * own, or not logged.  Sub-queries are for the target list: whether rows match
 * must not depend on what other tables hold when it is asked.
 *
 * IDENTIFICATION
 *	  src/catalog/query_check.c
 *
 *-------------------------------------------------------------------------
 */
#include "sjoin.h"

#include "access/relation.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "catalog/join_def.h"
#include "catalog/query_parts.h"

#define HINT_READER "Apply it in the query that reads the result."

static void
refuse_if(bool present, const char *what, const char *hint)
{
	if (present)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s is not supported in a streaming join", what),
				 errhint("%s", hint)));
}

/*
 * Refuses clauses of the query; looks at nothing below the top level.
 */
void
sj_check_clauses(Query *query)
{
	if (query->commandType != CMD_SELECT || query->utilityStmt)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("query of a streaming join must be a SELECT"),
				 errhint("Pass one SELECT ... FROM ... JOIN ...")));

	refuse_if(query->setOperations != NULL, "UNION, INTERSECT or EXCEPT",
			  "Create one join for each SELECT and combine their results.");
	refuse_if(query->cteList != NIL, "WITH",
			  "Write the tables into FROM directly.");
	refuse_if(query->hasAggs, "an aggregate function",
			  "Aggregate in the query that reads the result.");
	refuse_if(query->groupClause != NIL || query->groupingSets != NIL,
			  "GROUP BY", "Group in the query that reads the result.");
	refuse_if(query->havingQual != NULL, "HAVING", HINT_READER);
	refuse_if(query->hasWindowFuncs || query->windowClause != NIL,
			  "a window function", HINT_READER);
	refuse_if(query->hasDistinctOn, "DISTINCT ON", HINT_READER);
	refuse_if(query->distinctClause != NIL, "DISTINCT", HINT_READER);
	refuse_if(query->rowMarks != NIL, "FOR UPDATE or FOR SHARE",
			  "Leave the locking clause out.");
	refuse_if(query->limitCount != NULL || query->limitOffset != NULL,
			  "LIMIT or OFFSET", HINT_READER);
	refuse_if(query->sortClause != NIL, "ORDER BY",
			  "Order when reading the result.");
	refuse_if(query->hasTargetSRFs, "a set-returning function", HINT_READER);
}

/* Refuses what is in FROM but is not a table. */
static void
check_entry_kind(const RangeTblEntry *rte)
{
	refuse_if(rte->rtekind == RTE_SUBQUERY && rte->lateral, "LATERAL",
			  "Join two tables with each other.");
	refuse_if(rte->rtekind == RTE_SUBQUERY, "a sub-query in FROM",
			  "Join the table itself and put the conditions into ON or WHERE.");
	refuse_if(rte->rtekind == RTE_VALUES, "VALUES in FROM",
			  "Put the values into a table.");
	refuse_if(rte->rtekind == RTE_FUNCTION || rte->rtekind == RTE_TABLEFUNC,
			  "a function in FROM",
			  "Join two tables with each other.");
	refuse_if(rte->rtekind == RTE_CTE, "WITH",
			  "Write the tables into FROM directly.");
	refuse_if(rte->rtekind == RTE_NAMEDTUPLESTORE, "a transition table",
			  "Join two tables with each other.");
	refuse_if(rte->rtekind != RTE_RELATION, "this entry of FROM",
			  "Join two tables with each other.");
	refuse_if(rte->tablesample != NULL, "TABLESAMPLE",
			  "Filter the rows in WHERE.");
	refuse_if(!rte->inh, "ONLY",
			  "Leave ONLY out: all partitions of a table make one stream.");
}

static void
refuse_table_if(bool bad, Relation rel, const char *what, const char *hint)
{
	if (bad)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot join \"%s\" as a stream",
						RelationGetRelationName(rel)),
				 errdetail("It is %s.", what),
				 errhint("%s", hint)));
}

static void
check_table(Relation rel)
{
	char		kind = rel->rd_rel->relkind;
	char		persistence = rel->rd_rel->relpersistence;
	char	   *schema = get_namespace_name(RelationGetNamespace(rel));

	refuse_table_if(IsCatalogRelation(rel), rel, "a system catalog",
					"Join ordinary or partitioned tables.");
	refuse_table_if(schema && strcmp(schema, "sjoin") == 0, rel,
					"a relation of sjoin itself",
					"Join ordinary or partitioned tables.");
	refuse_table_if(kind == RELKIND_VIEW, rel, "a view",
					"Join the tables that the view reads.");
	refuse_table_if(kind == RELKIND_MATVIEW, rel, "a materialized view",
					"Join the tables that it is made from.");
	refuse_table_if(kind == RELKIND_FOREIGN_TABLE, rel, "a foreign table",
					"Copy or replicate its rows into an ordinary table.");
	refuse_table_if(kind != RELKIND_RELATION &&
					kind != RELKIND_PARTITIONED_TABLE, rel,
					"neither an ordinary nor a partitioned table",
					"Join ordinary or partitioned tables.");
	refuse_table_if(persistence == RELPERSISTENCE_TEMP, rel,
					"a temporary table",
					"Use an ordinary table: the worker cannot see rows of a session.");
	refuse_table_if(persistence == RELPERSISTENCE_UNLOGGED, rel,
					"an unlogged table, whose rows vanish at a crash",
					"Make it logged with ALTER TABLE ... SET LOGGED.");
	refuse_table_if(kind == RELKIND_RELATION &&
					has_subclass(RelationGetRelid(rel)) &&
					find_inheritance_children(RelationGetRelid(rel),
											  NoLock) != NIL, rel,
					"a table with inheritance children",
					"Use a partitioned table, or join the children.");
	refuse_table_if(sj_is_result(RelationGetRelid(rel)), rel,
					"the result of another streaming join",
					"Join the tables that it is made from.");
}

/*
 * Refuses an input that cannot be a stream.
 */
void
sj_check_input(Query *query, Index rti)
{
	RangeTblEntry *rte = rt_fetch(rti, query->rtable);

	check_entry_kind(rte);
	sj_check_source(rte->relid);
}

void
sj_check_source(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);

	check_table(rel);
	relation_close(rel, NoLock);
}

/* Arithmetic that depends on the time zone alone, which a join keeps. */
static bool
is_time_arithmetic(Oid function)
{
	return function == F_TIMESTAMPTZ_PL_INTERVAL ||
		function == F_TIMESTAMPTZ_MI_INTERVAL ||
		function == F_INTERVAL_PL_TIMESTAMPTZ;
}

/* check_function_callback: refuses one function, or marks the query. */
static bool
check_function(Oid function, void *context)
{
	SjJoinQuery *q = context;
	char		volatility = func_volatile(function);

	if (volatility == PROVOLATILE_VOLATILE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("volatile function %s() is not supported in a streaming join",
						get_func_name(function)),
				 errhint("Compute the value when the row is inserted, or in the query that reads the result.")));
	if (volatility != PROVOLATILE_STABLE)
		return false;
	if (get_func_namespace(function) != PG_CATALOG_NAMESPACE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("stable function %s() is not supported in a streaming join",
						get_func_name(function)),
				 errdetail("Its answer may change, and only functions of PostgreSQL itself may be STABLE here."),
				 errhint("If its answer depends on its arguments alone, declare it IMMUTABLE.")));
	if (!is_time_arithmetic(function))
		q->has_stable = true;
	return false;
}

/* The arguments of a call that its function's defaults give. */
static List *
default_arguments(FuncExpr *call)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID,
										ObjectIdGetDatum(call->funcid));
	List	   *args;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", call->funcid);
	args = expand_function_arguments(call->args, false, call->funcresulttype,
									 tuple);
	ReleaseSysCache(tuple);
	return list_difference_ptr(args, call->args);
}

typedef struct CheckContext
{
	SjJoinQuery *q;
	bool		targets;		/* else conditions */
	Index		depth;			/* in sub-queries */
} CheckContext;

/* What a sub-query can do that must not be done to write a row. */
static void
check_sub_query(Query *query)
{
	refuse_if(query->rowMarks != NIL, "FOR UPDATE or FOR SHARE",
			  "Leave the locking clause out.");
	if (isQueryUsingTempRelation(query))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a temporary table is not supported in a streaming join"),
				 errhint("Use an ordinary table: the worker cannot see rows of a session.")));
}

static bool
check_walker(Node *node, CheckContext *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var) && ((Var *) node)->varattno < 0 &&
		((Var *) node)->varlevelsup == context->depth)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("system columns are not supported in a streaming join"),
				 errhint("Use a column of the table instead.")));
	if (IsA(node, SubLink) && !context->targets)
		refuse_if(true, "a sub-query in a condition",
				  "Join the table itself (instead of NOT EXISTS: LEFT JOIN ... WHERE its key IS NULL), or select the sub-query as a column and filter in the query that reads the result.");
	if (IsA(node, NextValueExpr))
		refuse_if(true, "a sequence", "Compute the value when the row is inserted.");
	if (IsA(node, SQLValueFunction))
		context->q->has_stable = true;
	if (IsA(node, Query))
	{
		check_sub_query((Query *) node);
		context->depth++;
		(void) query_tree_walker((Query *) node, check_walker, context, 0);
		context->depth--;
		return false;
	}

	if (IsA(node, FuncExpr))
		(void) check_walker((Node *) default_arguments((FuncExpr *) node),
							context);

	check_functions_in_node(node, check_function, context->q);
	return expression_tree_walker(node, check_walker, context);
}

void
sj_check_conditions(SjJoinQuery *q, List *conditions)
{
	CheckContext context = {q, false, 0};

	(void) check_walker((Node *) conditions, &context);
}

void
sj_check_targets(SjJoinQuery *q)
{
	CheckContext context = {q, true, 0};

	(void) check_walker((Node *) q->targets, &context);
}
