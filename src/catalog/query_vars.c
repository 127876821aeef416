/*-------------------------------------------------------------------------
 *
 * query_vars.c
 *	  Finding and replacing what an expression of the join's query reads of
 *	  its inputs, sub-queries included.
 *
 * The walkers of PostgreSQL stop at a sub-query unless they are told to go on.
 * Those here count how deep they are: a Var of the join is one whose level is
 * that depth, any other belongs to a sub-query.
 *
 * IDENTIFICATION
 *	  src/catalog/query_vars.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/query_vars.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "rewrite/rewriteManip.h"
#include "utils/rel.h"

typedef struct ReplaceContext
{
	Node	   *(*replace) (void *arg, const Var *var);
	void	   *arg;
	Index		depth;
} ReplaceContext;

static Node *
replace_mutator(Node *node, ReplaceContext *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varlevelsup == context->depth)
		return context->replace(context->arg, (Var *) node);
	if (IsA(node, Query))
	{
		Query	   *query;

		context->depth++;
		query = query_tree_mutator((Query *) node, replace_mutator, context, 0);
		context->depth--;
		return (Node *) query;
	}
	return expression_tree_mutator(node, replace_mutator, context);
}

Node *
sj_vars_replace(Node *node, Node *(*replace) (void *arg, const Var *var),
				void *arg)
{
	ReplaceContext context = {replace, arg, 0};

	return replace_mutator(node, &context);
}

typedef struct VisitContext
{
	void		(*visit) (void *arg, const Var *var);
	void	   *arg;
	Index		depth;
} VisitContext;

static bool
visit_walker(Node *node, VisitContext *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var) && ((Var *) node)->varlevelsup == context->depth)
		context->visit(context->arg, (Var *) node);
	if (IsA(node, Query))
	{
		context->depth++;
		(void) query_tree_walker((Query *) node, visit_walker, context, 0);
		context->depth--;
		return false;
	}
	return expression_tree_walker(node, visit_walker, context);
}

void
sj_vars_visit(Node *node, void (*visit) (void *arg, const Var *var), void *arg)
{
	VisitContext context = {visit, arg, 0};

	(void) visit_walker(node, &context);
}

/*
 * Keeps the planner from taking the row apart for IS NULL: of the columns of
 * a row type it would count those that have been dropped.
 */
static Node *
opaque_row(RowExpr *row)
{
	ConvertRowtypeExpr *convert = makeNode(ConvertRowtypeExpr);

	convert->arg = (Expr *) row;
	convert->resulttype = row->row_typeid;
	convert->convertformat = COERCE_IMPLICIT_CAST;
	convert->location = -1;
	return (Node *) convert;
}

Node *
sj_whole_row(const Var *var, Oid relid, CoercionForm format,
			 Node *(*column) (void *arg, const Var *var,
							  Form_pg_attribute att),
			 void *arg)
{
	Relation	rel = table_open(relid, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(rel);
	RowExpr    *row = makeNode(RowExpr);
	bool		dropped = false;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		dropped |= att->attisdropped;
		row->args = lappend(row->args, att->attisdropped ?
							(Node *) makeNullConst(INT4OID, -1, InvalidOid) :
							column(arg, var, att));
		row->colnames = lappend(row->colnames,
								makeString(pstrdup(NameStr(att->attname))));
	}
	row->row_typeid = var->vartype;
	row->row_format = format;
	row->location = -1;
	table_close(rel, NoLock);
	return dropped ? opaque_row(row) : (Node *) row;
}

Node *
sj_null_if(Expr *absent, Node *row)
{
	Oid			type = exprType(row);
	CaseWhen   *when = makeNode(CaseWhen);
	CaseExpr   *expr = makeNode(CaseExpr);

	when->expr = absent;
	when->result = (Expr *) makeNullConst(type, -1, InvalidOid);
	when->location = -1;
	expr->casetype = type;
	expr->args = list_make1(when);
	expr->defresult = (Expr *) row;
	expr->location = -1;
	return (Node *) expr;
}

bool
sj_has_sub_query(const Node *node)
{
	return checkExprHasSubLink(unconstify(Node *, node));
}

static bool
relations_walker(Node *node, List **relids)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_RELATION)
			*relids = list_append_unique_oid(*relids, rte->relid);
		return false;			/* the walker goes into it by itself */
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, relations_walker, relids,
								 QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, relations_walker, relids);
}

List *
sj_relations_read(const Node *node)
{
	List	   *relids = NIL;

	(void) relations_walker(unconstify(Node *, node), &relids);
	return relids;
}

bool
sj_reads_relations(const Node *node)
{
	return sj_relations_read(node) != NIL;
}
