/*-------------------------------------------------------------------------
 *
 * join_plan.c
 *	  From the parts of a query to expressions that the executor can run over
 *	  the tuples in the state.
 *
 * A Var of the query names a column of a table; in the state a row is a tuple
 * of the needed columns only, so each Var is rewritten to its place there.  A
 * padded row has its own copies of the target list and the post-join
 * condition, in which a whole-row reference to the missing side is NULL; its
 * columns are read from a tuple of NULLs, for as constants they would be folded
 * into expressions, and what fails then would fail for the join and not for a
 * row.
 *
 * IDENTIFICATION
 *	  src/catalog/join_plan.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/join_plan.h"
#include "catalog/query_vars.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

/* How Vars are rewritten. */
typedef struct RewriteContext
{
	SjJoinPlan *plan;
	Index		varno[2];		/* new varno of each side */
	bool		missing[2];		/* this side is padded: NULLs */
} RewriteContext;

AttrNumber
sj_plan_column(const SjPlanInput *input, AttrNumber attno)
{
	for (int i = 0; i < input->ncolumns; i++)
		if (input->columns[i] == attno)
			return i + 1;
	elog(ERROR, "column %d is not among those the join needs", attno);
}

static SjSide
side_of(const RewriteContext *context, const Var *var)
{
	const SjJoinQuery *query = context->plan->query;
	SjSide		side = var->varno == query->input[SJ_LEFT].rti ?
	SJ_LEFT : SJ_RIGHT;

	if (var->varno != query->input[side].rti || var->varlevelsup != 0)
		elog(ERROR, "unexpected reference to range table entry %d", var->varno);
	return side;
}

/* A column of a table, for sj_whole_row(). */
static Node *
table_column(void *arg, const Var *var, Form_pg_attribute att)
{
	RewriteContext *context = arg;
	SjSide		side = side_of(context, var);

	return (Node *) makeVar(context->varno[side],
							sj_plan_column(&context->plan->input[side],
										   att->attnum),
							att->atttypid, att->atttypmod, att->attcollation,
							0);
}

/* sj_vars_replace: from columns of the tables to those of the tuples. */
static Node *
tuple_var(void *arg, const Var *var)
{
	RewriteContext *context = arg;
	SjSide		side = side_of(context, var);
	Var		   *copy;

	if (var->varattno == InvalidAttrNumber)
		return context->missing[side] ?
			(Node *) makeNullConst(var->vartype, var->vartypmod,
								   var->varcollid) :
			sj_whole_row(var, context->plan->query->input[side].relid,
						 COERCE_IMPLICIT_CAST, table_column, context);

	copy = copyObject(unconstify(Var *, var));
	copy->varno = context->varno[side];
	copy->varattno = sj_plan_column(&context->plan->input[side],
									var->varattno);
	return (Node *) copy;
}

/* An expression, or a list of them, rewritten and planned. */
static Node *
plan_expression(Node *node, RewriteContext *context)
{
	return (Node *) expression_planner((Expr *) sj_vars_replace(node, tuple_var,
															   context));
}

/* The targets that are expressions over tuples; a NULL for each other one. */
static List *
plain_targets(const SjJoinQuery *query)
{
	List	   *plain = NIL;
	ListCell   *lc;

	foreach(lc, query->targets)
	{
		TargetEntry *target = lfirst(lc);
		Node	   *expr = (Node *) target->expr;

		if (sj_has_sub_query(expr))
		{
			target = flatCopyTargetEntry(target);
			target->expr = (Expr *) makeNullConst(exprType(expr),
												  exprTypmod(expr),
												  exprCollation(expr));
		}
		plain = lappend(plain, target);
	}
	return plain;
}

/* Expressions of pairs. */
static RewriteContext
pair_context(SjJoinPlan *plan)
{
	RewriteContext context = {.plan = plan,.varno = {OUTER_VAR, INNER_VAR}};

	return context;
}

/* Expressions of one input alone, over scan Vars. */
static RewriteContext
input_context(SjJoinPlan *plan)
{
	RewriteContext context = {.plan = plan,.varno = {1, 1}};

	return context;
}

/* Is the key a plain column of the type that its operator takes? */
static Var *
plain_column(Expr *expr)
{
	while (IsA(expr, RelabelType))
		expr = ((RelabelType *) expr)->arg;
	return IsA(expr, Var) ? (Var *) expr : NULL;
}

/* The needed columns, event time included. */
static void
set_columns(SjPlanInput *input, const SjJoinInput *from)
{
	int			attno = -1;

	input->columns = palloc(sizeof(AttrNumber) *
							bms_num_members(from->columns));
	input->ncolumns = 0;
	while ((attno = bms_next_member(from->columns, attno)) >= 0)
		input->columns[input->ncolumns++] = (AttrNumber) attno;
	input->time_index = sj_plan_column(input, from->time_attno) - 1;
}

/* Where the value of each key is; expressions get a place of their own. */
static void
set_keys(SjJoinPlan *plan, SjSide side)
{
	SjPlanInput *input = &plan->input[side];
	RewriteContext context = input_context(plan);
	int			nkeys = list_length(plan->query->keys);
	ListCell   *lc;

	input->key_attno = palloc(sizeof(AttrNumber) * nkeys);
	input->computed = palloc(sizeof(Expr *) * nkeys);
	foreach(lc, plan->query->keys)
	{
		SjJoinKey  *key = lfirst(lc);
		Var		   *var = plain_column(key->expr[side]);
		AttrNumber	place;

		if (var != NULL)
			place = sj_plan_column(input, var->varattno);
		else
		{
			input->computed[input->ncomputed++] = (Expr *)
				plan_expression((Node *) key->expr[side], &context);
			place = input->ncolumns + input->ncomputed;
		}
		input->key_attno[foreach_current_index(lc)] = place;
	}
}

/* Where the upsert key is, and what its types' own equality is. */
static void
set_upsert_key(SjPlanInput *input, const SjJoinInput *from)
{
	ListCell   *lc;

	input->nupsert = list_length(from->upsert_key);
	input->upsert_attno = palloc(sizeof(AttrNumber) * input->nupsert);
	input->upsert_equal = palloc(sizeof(Oid) * input->nupsert);
	input->upsert_hash = palloc(sizeof(Oid) * input->nupsert);
	foreach(lc, from->upsert_key)
	{
		int			i = foreach_current_index(lc);
		Oid			type = get_atttype(from->relid, lfirst_int(lc));
		TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_EQ_OPR |
												  TYPECACHE_HASH_PROC);

		if (!OidIsValid(entry->eq_opr) || !OidIsValid(entry->hash_proc))
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("type %s of the upsert key of \"%s\" has no equality with hash support",
							format_type_be(type), get_rel_name(from->relid)),
					 errhint("Drop the stream and create it again with another upsert key.")));
		input->upsert_attno[i] = sj_plan_column(input, lfirst_int(lc));
		input->upsert_equal[i] = get_opcode(entry->eq_opr);
		input->upsert_hash[i] = entry->hash_proc;
	}
}

static void
set_desc(SjPlanInput *input, Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);

	input->desc = CreateTemplateTupleDesc(input->ncolumns + input->ncomputed);
	for (int i = 0; i < input->ncolumns; i++)
	{
		TupleDescCopyEntry(input->desc, i + 1,
						   RelationGetDescr(rel), input->columns[i]);
		TupleDescAttr(input->desc, i)->attnotnull = false;
	}
	for (int i = 0; i < input->ncomputed; i++)
	{
		Node	   *expr = (Node *) input->computed[i];

		TupleDescInitEntry(input->desc, input->ncolumns + i + 1, NULL,
						   exprType(expr), exprTypmod(expr), 0);
		TupleDescInitEntryCollation(input->desc, input->ncolumns + i + 1,
									exprCollation(expr));
	}
	table_close(rel, AccessShareLock);
}

SjJoinPlan *
sj_join_plan(const SjJoinQuery *query)
{
	SjJoinPlan *plan = palloc0(sizeof(SjJoinPlan));
	RewriteContext pair = pair_context(plan);
	RewriteContext own = input_context(plan);
	List	   *targets = plain_targets(query);

	plan->query = query;
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		set_columns(&plan->input[side], &query->input[side]);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		RewriteContext padded = pair;

		padded.missing[SJ_OTHER(side)] = true;
		set_keys(plan, side);
		set_upsert_key(&plan->input[side], &query->input[side]);
		set_desc(&plan->input[side], query->input[side].relid);
		plan->input[side].filter = (List *)
			plan_expression((Node *) query->input[side].filters, &own);
		plan->padded_targets[side] = (List *)
			plan_expression((Node *) targets, &padded);
		plan->padded_post[side] = (List *)
			plan_expression((Node *) query->post, &padded);
	}
	plan->residual = (List *) plan_expression((Node *) query->residual, &pair);
	plan->targets = (List *) plan_expression((Node *) targets, &pair);
	plan->post = (List *) plan_expression((Node *) query->post, &pair);
	plan->sub_queries = sj_sub_queries_make(plan);
	return plan;
}
