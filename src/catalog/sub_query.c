/*-------------------------------------------------------------------------
 *
 * sub_query.c
 *	  The targets of a join that have sub-queries, as a query of their own.
 *
 * Other targets are expressions over two tuples; one with a sub-query needs a
 * plan.  So the rows to be written become a relation, and the targets a query
 * over it (A10), in which a column of an input is a column of that relation,
 * however deep in sub-queries it is named.  The relation has only the columns
 * that these targets read.
 *
 * The query is rewritten and planned each time it runs: views, policies and
 * statistics of what it reads may be others by then.
 *
 * IDENTIFICATION
 *	  src/catalog/sub_query.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/join_plan.h"
#include "catalog/pg_type.h"
#include "catalog/query_vars.h"
#include "catalog/sub_query.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteHandler.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"

typedef struct MakeContext
{
	const SjJoinPlan *plan;
	SjSubQueries *sub;
} MakeContext;

/* Number of the relation's column for a column of an input; new if need be. */
static AttrNumber
joined_column(SjSubQueries *sub, SjSide side, AttrNumber attno)
{
	for (int i = 0; i < sub->ncolumns; i++)
		if (sub->columns[i].side == side && sub->columns[i].attno == attno)
			return SJ_JOINED_ORDINAL + 1 + i;
	if (SJ_JOINED_ORDINAL + sub->ncolumns >= MaxTupleAttributeNumber)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_COLUMNS),
				 errmsg("sub-queries of a streaming join read too many columns of its inputs"),
				 errdetail("They can read up to %d columns together.",
						   MaxTupleAttributeNumber - 2),
				 errhint("Name the columns instead of whole rows.")));
	sub->columns = repalloc(sub->columns,
							sizeof(SjJoinedColumn) * (sub->ncolumns + 1));
	sub->columns[sub->ncolumns].side = side;
	sub->columns[sub->ncolumns].attno = attno;
	return SJ_JOINED_ORDINAL + ++sub->ncolumns;
}

static SjSide
side_of(const MakeContext *context, const Var *var)
{
	return var->varno == context->plan->query->input[SJ_LEFT].rti ?
		SJ_LEFT : SJ_RIGHT;
}

/* A column of a table, for sj_whole_row(). */
static Node *
table_column(void *arg, const Var *var, Form_pg_attribute att)
{
	MakeContext *context = arg;
	SjSide		side = side_of(context, var);
	AttrNumber	place = sj_plan_column(&context->plan->input[side],
									   att->attnum);

	return (Node *) makeVar(1, joined_column(context->sub, side, place),
							att->atttypid, att->atttypmod, att->attcollation,
							var->varlevelsup);
}

/* A row of an input; NULL, and not a row of NULLs, when it is missing. */
static Node *
input_row(MakeContext *context, const Var *var)
{
	const SjJoinQuery *query = context->plan->query;
	SjSide		side = side_of(context, var);
	Node	   *row = sj_whole_row(var, query->input[side].relid,
								   COERCE_IMPLICIT_CAST, table_column,
								   context);

	if (!query->pad[SJ_OTHER(side)])
		return row;
	return sj_null_if((Expr *) makeVar(1, joined_column(context->sub, side, 0),
									   BOOLOID, -1, InvalidOid,
									   var->varlevelsup),
					  row);
}

/* sj_vars_replace: from columns of the inputs to those of the relation. */
static Node *
joined_var(void *arg, const Var *var)
{
	MakeContext *context = arg;
	SjSide		side = side_of(context, var);
	AttrNumber	place;

	if (var->varattno == InvalidAttrNumber)
		return input_row(context, var);
	place = sj_plan_column(&context->plan->input[side], var->varattno);
	return (Node *) makeVar(1, joined_column(context->sub, side, place),
							var->vartype, var->vartypmod, var->varcollid,
							var->varlevelsup);
}

static TargetEntry *
ordinal_target(void)
{
	return makeTargetEntry((Expr *) makeVar(1, SJ_JOINED_ORDINAL, INT8OID, -1,
											InvalidOid, 0),
						   1, pstrdup("ordinal"), false);
}

/* The targets with sub-queries, rewritten; says which they are. */
static List *
make_targets(MakeContext *context)
{
	SjSubQueries *sub = context->sub;
	List	   *list = list_make1(ordinal_target());
	ListCell   *lc;

	foreach(lc, context->plan->query->targets)
	{
		TargetEntry *target = lfirst(lc);

		if (!sj_has_sub_query((Node *) target->expr))
			continue;
		sub->targets[sub->ntargets++] = foreach_current_index(lc);
		list = lappend(list,
					   makeTargetEntry((Expr *) sj_vars_replace((Node *) target->expr,
																joined_var,
																context),
									   list_length(list) + 1,
									   pstrdup(target->resname), false));
	}
	return list;
}

static TupleDesc
joined_desc(const MakeContext *context)
{
	const SjSubQueries *sub = context->sub;
	TupleDesc	desc = CreateTemplateTupleDesc(SJ_JOINED_ORDINAL + sub->ncolumns);

	TupleDescInitEntry(desc, SJ_JOINED_ORDINAL, "ordinal", INT8OID, -1, 0);
	for (int i = 0; i < sub->ncolumns; i++)
	{
		const SjJoinedColumn *column = &sub->columns[i];
		AttrNumber	attno = SJ_JOINED_ORDINAL + 1 + i;
		char		name[NAMEDATALEN];

		snprintf(name, sizeof(name), "c%d", i + 1);
		if (column->attno == 0)
			TupleDescInitEntry(desc, attno, name, BOOLOID, -1, 0);
		else
		{
			TupleDescCopyEntry(desc, attno,
							   context->plan->input[column->side].desc,
							   column->attno);
			namestrcpy(&TupleDescAttr(desc, attno - 1)->attname, name);
		}
	}
	return desc;
}

/* The range table entry of the relation, as the parser would make it. */
static RangeTblEntry *
joined_entry(TupleDesc desc)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);

	rte->rtekind = RTE_NAMEDTUPLESTORE;
	rte->enrname = pstrdup(SJ_JOINED_ROWS);
	rte->eref = makeAlias(SJ_JOINED_ROWS, NIL);
	rte->inFromCl = true;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		rte->eref->colnames = lappend(rte->eref->colnames,
									  makeString(pstrdup(NameStr(att->attname))));
		rte->coltypes = lappend_oid(rte->coltypes, att->atttypid);
		rte->coltypmods = lappend_int(rte->coltypmods, att->atttypmod);
		rte->colcollations = lappend_oid(rte->colcollations,
										 att->attcollation);
	}
	return rte;
}

SjSubQueries *
sj_sub_queries_make(const SjJoinPlan *plan)
{
	SjSubQueries *sub = palloc0(sizeof(SjSubQueries));
	MakeContext context = {plan, sub};
	Query	   *query = makeNode(Query);
	RangeTblRef *from = makeNode(RangeTblRef);

	if (!sj_has_sub_query((Node *) plan->query->targets))
		return NULL;
	sub->targets = palloc(sizeof(int) * list_length(plan->query->targets));
	sub->columns = palloc(sizeof(SjJoinedColumn));

	query->commandType = CMD_SELECT;
	query->querySource = QSRC_ORIGINAL;
	query->canSetTag = true;
	query->hasSubLinks = true;
	query->targetList = make_targets(&context);
	sub->desc = joined_desc(&context);
	query->rtable = list_make1(joined_entry(sub->desc));
	from->rtindex = 1;
	query->jointree = makeFromExpr(list_make1(from), NULL);
	query->stmt_location = -1;
	sub->query = query;
	return sub;
}

PlannedStmt *
sj_sub_queries_plan(const SjSubQueries *sub, double nrows)
{
	Query	   *query = copyObject(sub->query);
	List	   *rewritten;

	linitial_node(RangeTblEntry, query->rtable)->enrtuples = nrows;
	AcquireRewriteLocks(query, true, false);
	rewritten = QueryRewrite(query);
	if (list_length(rewritten) != 1)
		elog(ERROR, "sub-queries were rewritten to %d queries",
			 list_length(rewritten));

	/* not in parallel: rows must come in order */
	return pg_plan_query(linitial_node(Query, rewritten), SJ_JOINED_ROWS, 0,
						 NULL);
}
