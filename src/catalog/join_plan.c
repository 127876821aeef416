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
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* How Vars are rewritten. */
typedef struct RewriteContext
{
	SjJoinPlan *plan;
	Index		varno[2];		/* new varno of each side */
	bool		missing[2];		/* this side is padded: NULLs */
} RewriteContext;

static Node *rewrite_mutator(Node *node, void *arg);

/* Place of a column among the needed ones, 1-based. */
static AttrNumber
column_place(const SjPlanInput *input, AttrNumber attno)
{
	for (int i = 0; i < input->ncolumns; i++)
		if (input->columns[i] == attno)
			return i + 1;
	elog(ERROR, "column %d is not among those the join needs", attno);
}

/* A whole-row reference as the row of its columns. */
static Node *
expand_whole_row(const Var *var, RewriteContext *context, SjSide side)
{
	const SjPlanInput *input = &context->plan->input[side];
	Relation	rel = table_open(context->plan->query->input[side].relid,
								 AccessShareLock);
	TupleDesc	desc = RelationGetDescr(rel);
	RowExpr    *row = makeNode(RowExpr);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Expr	   *field;

		if (att->attisdropped)
			field = (Expr *) makeNullConst(INT4OID, -1, InvalidOid);
		else
			field = (Expr *) makeVar(context->varno[side],
									 column_place(input, att->attnum),
									 att->atttypid, att->atttypmod,
									 att->attcollation, 0);
		row->args = lappend(row->args, field);
		row->colnames = lappend(row->colnames,
								makeString(pstrdup(NameStr(att->attname))));
	}
	row->row_typeid = var->vartype;
	row->row_format = COERCE_IMPLICIT_CAST;
	row->location = -1;
	table_close(rel, AccessShareLock);
	return (Node *) row;
}

static Node *
rewrite_var(const Var *var, RewriteContext *context)
{
	const SjJoinQuery *query = context->plan->query;
	SjSide		side = var->varno == query->input[SJ_LEFT].rti ?
	SJ_LEFT : SJ_RIGHT;
	Var		   *copy;

	if (var->varno != query->input[side].rti || var->varlevelsup != 0)
		elog(ERROR, "unexpected reference to range table entry %d", var->varno);
	if (var->varattno == InvalidAttrNumber)
		return context->missing[side] ?
			(Node *) makeNullConst(var->vartype, var->vartypmod,
								   var->varcollid) :
			expand_whole_row(var, context, side);

	copy = copyObject(unconstify(Var *, var));
	copy->varno = context->varno[side];
	copy->varattno = column_place(&context->plan->input[side], var->varattno);
	return (Node *) copy;
}

static Node *
rewrite_mutator(Node *node, void *arg)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
		return rewrite_var((Var *) node, (RewriteContext *) arg);
	return expression_tree_mutator(node, rewrite_mutator, arg);
}

/* An expression, or a list of them, rewritten and planned. */
static Node *
plan_expression(Node *node, RewriteContext *context)
{
	return (Node *) expression_planner((Expr *) rewrite_mutator(node, context));
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
	input->time_index = column_place(input, from->time_attno) - 1;
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
			place = column_place(input, var->varattno);
		else
		{
			input->computed[input->ncomputed++] = (Expr *)
				plan_expression((Node *) key->expr[side], &context);
			place = input->ncolumns + input->ncomputed;
		}
		input->key_attno[foreach_current_index(lc)] = place;
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

	plan->query = query;
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		set_columns(&plan->input[side], &query->input[side]);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		RewriteContext padded = pair;

		padded.missing[SJ_OTHER(side)] = true;
		set_keys(plan, side);
		set_desc(&plan->input[side], query->input[side].relid);
		plan->input[side].filter = (List *)
			plan_expression((Node *) query->input[side].filters, &own);
		plan->padded_targets[side] = (List *)
			plan_expression((Node *) query->targets, &padded);
		plan->padded_post[side] = (List *)
			plan_expression((Node *) query->post, &padded);
	}
	plan->residual = (List *) plan_expression((Node *) query->residual, &pair);
	plan->targets = (List *) plan_expression((Node *) query->targets, &pair);
	plan->post = (List *) plan_expression((Node *) query->post, &pair);
	return plan;
}
