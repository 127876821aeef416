/*-------------------------------------------------------------------------
 *
 * verify_sums.c
 *	  Sums of times and intervals in the query of verify().
 *
 * PostgreSQL's own fail near the ends of time; those of a join saturate (T5).
 * So the sums of the user's conditions are replaced by sjoin.time_add(), which
 * is the same everywhere else.
 *
 * IDENTIFICATION
 *	  src/catalog/verify_sums.c
 *
 *-------------------------------------------------------------------------
 */
#include "sjoin.h"

#include "catalog/pg_type.h"
#include "catalog/verify_query.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_func.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

typedef struct TimeSum
{
	Oid			function;
	Oid			type;			/* of the time and of the sum */
	bool		subtract;
	bool		interval_first;
} TimeSum;

static const TimeSum time_sums[] = {
	{F_TIMESTAMP_PL_INTERVAL, TIMESTAMPOID, false, false},
	{F_TIMESTAMP_MI_INTERVAL, TIMESTAMPOID, true, false},
	{F_INTERVAL_PL_TIMESTAMP, TIMESTAMPOID, false, true},
	{F_TIMESTAMPTZ_PL_INTERVAL, TIMESTAMPTZOID, false, false},
	{F_TIMESTAMPTZ_MI_INTERVAL, TIMESTAMPTZOID, true, false},
	{F_INTERVAL_PL_TIMESTAMPTZ, TIMESTAMPTZOID, false, true},
};

/* A call of a function that is written as one. */
static Node *
make_call(Oid function, Oid type, List *args)
{
	return (Node *) makeFuncExpr(function, type, args, InvalidOid, InvalidOid,
								 COERCE_EXPLICIT_CALL);
}

/* sjoin.time_add(time, interval) */
static Node *
make_time_add(const TimeSum *sum, List *args)
{
	List	   *name = list_make2(makeString("sjoin"), makeString("time_add"));
	Oid			types[2] = {sum->type, INTERVALOID};
	Node	   *event_time = linitial(args);
	Node	   *distance = lsecond(args);

	if (sum->interval_first)
	{
		event_time = lsecond(args);
		distance = linitial(args);
	}
	if (sum->subtract)
		distance = make_call(F_INTERVAL_UM, INTERVALOID, list_make1(distance));
	return make_call(LookupFuncName(name, 2, types, false), sum->type,
					 list_make2(event_time, distance));
}

static Node *
replace_sums(Node *node, void *context)
{
	Oid			function = InvalidOid;
	List	   *args = NIL;

	if (node == NULL)
		return NULL;
	node = expression_tree_mutator(node, replace_sums, context);
	if (IsA(node, OpExpr))
	{
		function = get_opcode(((OpExpr *) node)->opno);
		args = ((OpExpr *) node)->args;
	}
	else if (IsA(node, FuncExpr))
	{
		function = ((FuncExpr *) node)->funcid;
		args = ((FuncExpr *) node)->args;
	}

	for (int i = 0; i < lengthof(time_sums); i++)
		if (time_sums[i].function == function)
			return make_time_add(&time_sums[i], args);
	return node;
}

Node *
sj_saturate_sums(Node *expr)
{
	return replace_sums(expr, NULL);
}
