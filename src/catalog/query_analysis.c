/*-------------------------------------------------------------------------
 *
 * query_analysis.c
 *	  From an analysed SELECT to the parts of a streaming join (A1).
 *
 * PostgreSQL's own parser does the reading; what is done here is sorting:
 * every condition of the query becomes exactly one of
 *
 *	key			- expression of one input = expression of the other
 *	bound		- comparison of the two event times (query_bounds.c)
 *	filter		- on one input alone; keeps rows out of the state
 *	residual	- any other join condition, tested on each pair
 *	post		- WHERE of an outer join that sees the nullable side
 *
 * In an inner join ON and WHERE mean the same.  In an outer join a condition
 * of ON on the preserved side alone is residual: it stops its rows from
 * matching, but they are still written.
 *
 * A query that comes from a view has two entries more in its range table (OLD
 * and NEW), so inputs are found through the join tree alone, and the
 * signature does not contain range table indexes.
 *
 * Everything is allocated in the current memory context.
 *
 * IDENTIFICATION
 *	  src/catalog/query_analysis.c
 *
 *-------------------------------------------------------------------------
 */
#include "sjoin.h"

#include "access/relation.h"
#include "common/hashfn.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/analyze.h"
#include "parser/parser.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "catalog/query_analysis.h"
#include "catalog/query_parts.h"
#include "catalog/query_vars.h"

/* Makes positions in errors of the parser refer to the query given. */
static void
query_error_callback(void *arg)
{
	int			position = geterrposition();

	if (position > 0)
	{
		errposition(0);
		internalerrposition(position);
		internalerrquery((const char *) arg);
	}
}

/* Returns the one SELECT among the parsed statements. */
static RawStmt *
single_select(List *statements)
{
	RawStmt    *raw;
	SelectStmt *select;

	if (list_length(statements) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("query of a streaming join must be one statement"),
				 errdetail("The text contains %d statements.",
						   list_length(statements)),
				 errhint("Pass one SELECT ... FROM ... JOIN ...")));

	raw = linitial_node(RawStmt, statements);
	if (!IsA(raw->stmt, SelectStmt))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("query of a streaming join must be a SELECT"),
				 errhint("Pass one SELECT ... FROM ... JOIN ...")));

	select = (SelectStmt *) raw->stmt;
	if (select->intoClause)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("SELECT INTO is not supported in a streaming join"),
				 errhint("Leave INTO out; the result table gets the name of the join.")));
	return raw;
}

/*
 * Parses and analyses one SELECT, as the current user sees its names.
 */
Query *
sj_query_parse(const char *query_text)
{
	ErrorContextCallback callback;
	RawStmt    *raw;
	Query	   *query;

	callback.callback = query_error_callback;
	callback.arg = (void *) query_text;
	callback.previous = error_context_stack;
	error_context_stack = &callback;

	raw = single_select(raw_parser(query_text, RAW_PARSE_DEFAULT));
	query = parse_analyze_fixedparams(raw, query_text, NULL, 0, NULL);

	error_context_stack = callback.previous;

	if (query->commandType != CMD_SELECT || query->utilityStmt)
		elog(ERROR, "unexpected command type %d", (int) query->commandType);
	return query;
}

/* sj_vars_replace: the Var without the name that it was written with. */
static Node *
plain_var(void *arg, const Var *var)
{
	Var		   *copy = copyObject(unconstify(Var *, var));

	copy->varnosyn = copy->varno;
	copy->varattnosyn = copy->varattno;
	return (Node *) copy;
}

Node *
sj_query_flatten(Query *query, Node *node)
{
	return sj_vars_replace(flatten_join_alias_vars(query, node), plain_var,
						   NULL);
}

/* Finds what is joined with what; false when it is not two entries. */
static bool
find_inputs(const Query *query, Index rti[2], JoinType *join_type)
{
	List	   *from = query->jointree->fromlist;
	Node	   *arm[2] = {NULL, NULL};

	*join_type = JOIN_INNER;
	if (list_length(from) == 2)
	{
		arm[0] = linitial(from);
		arm[1] = lsecond(from);
	}
	else if (list_length(from) == 1 && IsA(linitial(from), JoinExpr))
	{
		JoinExpr   *join = linitial_node(JoinExpr, from);

		*join_type = join->jointype;
		arm[0] = join->larg;
		arm[1] = join->rarg;
	}

	if (!arm[0] || !IsA(arm[0], RangeTblRef) || !IsA(arm[1], RangeTblRef))
		return false;
	rti[0] = ((RangeTblRef *) arm[0])->rtindex;
	rti[1] = ((RangeTblRef *) arm[1])->rtindex;
	return true;
}

/* Appends the conjuncts of 'node' to 'list', NOT pushed down. */
static List *
append_conjuncts(List *list, Node *node)
{
	ListCell   *lc;

	if (node == NULL)
		return list;
	if (is_notclause(node))
	{
		Node	   *negated = negate_clause((Node *) get_notclausearg(node));

		if (!is_notclause(negated))
			return append_conjuncts(list, negated);
	}
	if (is_andclause(node))
	{
		foreach(lc, ((BoolExpr *) node)->args)
			list = append_conjuncts(list, lfirst(lc));
		return list;
	}
	return list_member(list, node) ? list : lappend(list, node);
}

void
sj_query_conditions(Query *query, SjConditions *conditions)
{
	List	   *from = query->jointree->fromlist;
	Node	   *where = sj_query_flatten(query, query->jointree->quals);
	JoinType	join_type = JOIN_INNER;

	conditions->join = NIL;
	conditions->where = NIL;
	if (IsA(linitial(from), JoinExpr))
	{
		JoinExpr   *join = linitial_node(JoinExpr, from);

		join_type = join->jointype;
		conditions->join = append_conjuncts(NIL,
											sj_query_flatten(query,
															 join->quals));
	}

	if (join_type == JOIN_INNER)
		conditions->join = append_conjuncts(conditions->join, where);
	else
		conditions->where = append_conjuncts(NIL, where);
}

char *
sj_relation_name(Oid relid)
{
	char	   *schema = get_namespace_name(get_rel_namespace(relid));

	return quote_qualified_identifier(schema, get_rel_name(relid));
}

int
sj_expr_sides(const SjJoinQuery *q, Node *node)
{
	Bitmapset  *varnos = pull_varnos(NULL, node);
	int			sides = SJ_READS_NONE;

	if (bms_is_member(q->input[SJ_LEFT].rti, varnos))
		sides |= SJ_READS_LEFT;
	if (bms_is_member(q->input[SJ_RIGHT].rti, varnos))
		sides |= SJ_READS_RIGHT;
	bms_free(varnos);
	return sides;
}

/* Fills in the inputs; the preserved side of an outer join is the left. */
static void
set_inputs(SjJoinQuery *q)
{
	Index		rti[2];
	int			side;

	if (!find_inputs(q->query, rti, &q->join_type))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a streaming join must have exactly two inputs"),
				 errhint("Write SELECT ... FROM one table JOIN another; join a third to the result in a query that reads it.")));
	if (q->join_type == JOIN_FULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("FULL JOIN is not supported yet in a streaming join"),
				 errhint("Create two joins: one with LEFT JOIN, and one with RIGHT JOIN that leaves out the pairs (WHERE the left key IS NULL).")));
	if (q->join_type == JOIN_RIGHT)
	{
		Index		swap = rti[0];

		rti[0] = rti[1];
		rti[1] = swap;
		q->join_type = JOIN_LEFT;
	}
	q->pad[SJ_LEFT] = (q->join_type == JOIN_LEFT);

	for (side = 0; side < 2; side++)
	{
		RangeTblEntry *rte = rt_fetch(rti[side], q->query->rtable);

		sj_check_input(q->query, rti[side]);
		q->input[side].rti = rti[side];
		q->input[side].relid = rte->relid;
		q->input[side].alias = pstrdup(rte->eref->aliasname);
	}
}

static void
set_targets(SjJoinQuery *q)
{
	ListCell   *lc;

	foreach(lc, q->query->targetList)
	{
		TargetEntry *target = lfirst_node(TargetEntry, lc);

		if (target->resjunk)
			continue;
		target = flatCopyTargetEntry(target);
		target->expr = (Expr *) sj_query_flatten(q->query,
												 (Node *) target->expr);
		q->targets = lappend(q->targets, target);
	}
}

/*
 * Sorts the join conditions: filters of an input go to it, what reads both
 * inputs is returned, the rest is residual.
 */
static List *
sort_join_conditions(SjJoinQuery *q, List *conditions)
{
	List	   *pairs = NIL;
	ListCell   *lc;

	foreach(lc, conditions)
	{
		Node	   *condition = lfirst(lc);
		int			reads = sj_expr_sides(q, condition);
		SjSide		side = (reads == SJ_READS_RIGHT) ? SJ_RIGHT : SJ_LEFT;

		if (reads == SJ_READS_BOTH)
			pairs = lappend(pairs, condition);
		else if (reads == SJ_READS_NONE || q->pad[side])
			q->residual = lappend(q->residual, condition);
		else
			q->input[side].filters = lappend(q->input[side].filters,
											 condition);
	}
	return pairs;
}

/* Sorts the WHERE of an outer join. */
static void
sort_where_conditions(SjJoinQuery *q, List *conditions)
{
	ListCell   *lc;

	foreach(lc, conditions)
	{
		Node	   *condition = lfirst(lc);

		if (sj_expr_sides(q, condition) == SJ_READS_LEFT)
			q->input[SJ_LEFT].filters = lappend(q->input[SJ_LEFT].filters,
												condition);
		else
			q->post = lappend(q->post, condition);
	}
}

/* The columns of a table that are not dropped. */
static Bitmapset *
live_columns(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(rel);
	Bitmapset  *columns = NULL;
	int			i;

	for (i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped)
			columns = bms_add_member(columns, i + 1);
	relation_close(rel, NoLock);
	return columns;
}

/* sj_vars_visit: adds the columns that a Var reads to its input's. */
static void
collect_column(void *arg, const Var *var)
{
	SjJoinQuery *q = arg;
	SjSide		side = (var->varno == q->input[SJ_RIGHT].rti) ?
	SJ_RIGHT : SJ_LEFT;
	SjJoinInput *input = &q->input[side];

	Assert(var->varno == input->rti && var->varattno >= 0);
	if (var->varattno == 0)
		input->columns = bms_add_members(input->columns,
										 live_columns(input->relid));
	else
		input->columns = bms_add_member(input->columns, var->varattno);
}

static void
collect_columns(SjJoinQuery *q, void *expressions)
{
	sj_vars_visit(expressions, collect_column, q);
}

static void
set_columns(SjJoinQuery *q)
{
	ListCell   *lc;
	int			side;

	collect_columns(q, q->targets);
	collect_columns(q, q->residual);
	collect_columns(q, q->post);
	foreach(lc, q->keys)
	{
		SjJoinKey  *key = lfirst(lc);

		collect_columns(q, key->expr[SJ_LEFT]);
		collect_columns(q, key->expr[SJ_RIGHT]);
	}
	for (side = 0; side < 2; side++)
	{
		SjJoinInput *input = &q->input[side];

		collect_columns(q, input->filters);
		input->columns = bms_add_member(input->columns, input->time_attno);
		foreach(lc, input->upsert_key)
			input->columns = bms_add_member(input->columns, lfirst_int(lc));
	}
}

/*
 * Takes the query apart.  'query' is not changed and is referred to by the
 * result.  Locks on the inputs are the caller's matter (the parser's are
 * held until the end of the transaction).
 */
SjJoinQuery *
sj_query_analyze(Query *query, const SjJoinShape *shape)
{
	SjJoinQuery *q = palloc0(sizeof(SjJoinQuery));
	SjConditions conditions;
	List	   *pairs;
	List	   *ranges;
	List	   *covered;

	q->query = query;
	q->bounds.timeout[SJ_LEFT] = q->bounds.timeout[SJ_RIGHT] = -1;

	/* refuse what is not a streaming join */
	sj_check_clauses(query);
	set_inputs(q);
	set_targets(q);
	sj_query_conditions(query, &conditions);
	sj_check_targets(q);
	sj_check_conditions(q, conditions.join);
	sj_check_conditions(q, conditions.where);

	/* sort the conditions */
	pairs = sort_join_conditions(q, conditions.join);
	sort_where_conditions(q, conditions.where);
	ranges = sj_ranges_read(q, pairs);
	pairs = sj_take_keys(q, pairs);

	/* find out what time means here */
	sj_set_event_times(q, ranges);
	covered = sj_set_bounds(q, ranges);
	sj_apply_shape(q, shape);
	q->residual = list_concat(q->residual,
							  list_difference(pairs, covered));

	set_columns(q);
	return q;
}

/* sj_vars_replace: its input by the place in the query, 1 or 2. */
static Node *
neutral_var(void *arg, const Var *var)
{
	const Index *rti = arg;
	Var		   *copy = copyObject(unconstify(Var *, var));

	copy->varno = (copy->varno == rti[0]) ? 1 : 2;
	copy->varnosyn = copy->varno;
	return (Node *) copy;
}

/*
 * Takes the names of tables and joins out of sub-queries; those of other
 * entries can be seen in values (row_to_json).
 */
static bool
forget_names(Node *node, void *context)
{
	RangeTblEntry *rte = (RangeTblEntry *) node;

	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, forget_names, context,
								 QTW_EXAMINE_RTES_BEFORE);
	if (!IsA(node, RangeTblEntry))
		return expression_tree_walker(node, forget_names, context);
	if (rte->rtekind == RTE_RELATION || rte->rtekind == RTE_JOIN)
		rte->alias = rte->eref = rte->join_using_alias = NULL;
	return false;				/* the walker goes into it by itself */
}

/* Writes the text form of a node without its source locations. */
static void
append_neutral(StringInfo buf, Query *query, Node *node, Index *rti)
{
	static const char location[] = " :location ";
	char	   *text;
	char	   *next;

	node = sj_vars_replace(sj_query_flatten(query, node), neutral_var, rti);
	(void) forget_names(node, NULL);
	text = nodeToString(node);
	while ((next = strstr(text, location)) != NULL)
	{
		appendBinaryStringInfo(buf, text, next - text);
		text = next + strlen(location);
		text += strspn(text, "-0123456789");
	}
	appendStringInfoString(buf, text);
	appendStringInfoChar(buf, '\n');
}

/* Appends which clauses there are that a streaming join does not have. */
static void
append_clauses(StringInfo buf, const Query *query)
{
	appendStringInfo(buf, "%d%d%d%d%d%d%d%d%d%d",
					 query->setOperations != NULL, query->cteList != NIL,
					 query->hasAggs, query->hasWindowFuncs,
					 query->groupClause != NIL || query->groupingSets != NIL,
					 query->havingQual != NULL, query->distinctClause != NIL,
					 query->limitCount || query->limitOffset,
					 query->sortClause != NIL, query->rowMarks != NIL);
}

static void
append_input(StringInfo buf, const RangeTblEntry *rte)
{
	appendStringInfo(buf, " %d %u %d %d", (int) rte->rtekind, rte->relid,
					 rte->inh, rte->tablesample != NULL);
}

static int64
hash_text(const StringInfoData *buf)
{
	return (int64) hash_bytes_extended((unsigned char *) buf->data,
									   buf->len, 0);
}

/*
 * The view protects the columns that its query names; a whole-row reference
 * takes more of them when they come.
 */
int64
sj_input_signature(const SjJoinQuery *query)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		const SjJoinInput *input = &query->input[side];
		int			attno = -1;

		appendStringInfo(&buf, " %u %d %u:", input->relid, input->time_attno,
						 input->time_type);
		while ((attno = bms_next_member(input->columns, attno)) >= 0)
			appendStringInfo(&buf, " %d %u", attno,
							 get_atttype(input->relid, attno));
		if (input->upsert_key != NIL)
			appendStringInfo(&buf, " %s", nodeToString(input->upsert_key));
	}
	return hash_text(&buf);
}

/*
 * Hash of what the definition means: tables, join type, conditions and the
 * expressions of the result columns, in order.  Names of columns, aliases,
 * places in the text and in the range table do not matter.
 *
 * Any SELECT has a signature, also one that could not be a streaming join.
 */
int64
sj_query_signature(const Query *query)
{
	Query	   *copy = copyObject(unconstify(Query *, query));
	SjConditions conditions;
	StringInfoData buf;
	JoinType	join_type;
	Index		rti[2];
	ListCell   *lc;

	initStringInfo(&buf);
	append_clauses(&buf, query);
	if (!find_inputs(copy, rti, &join_type))
		return hash_text(&buf);

	appendStringInfo(&buf, " %d", (int) join_type);
	append_input(&buf, rt_fetch(rti[0], copy->rtable));
	append_input(&buf, rt_fetch(rti[1], copy->rtable));
	sj_query_conditions(copy, &conditions);
	append_neutral(&buf, copy, (Node *) conditions.join, rti);
	append_neutral(&buf, copy, (Node *) conditions.where, rti);
	foreach(lc, copy->targetList)
	{
		TargetEntry *target = lfirst_node(TargetEntry, lc);

		if (!target->resjunk)
			append_neutral(&buf, copy, (Node *) target->expr, rti);
	}
	return hash_text(&buf);
}
