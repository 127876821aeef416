/*-------------------------------------------------------------------------
 *
 * sweep.c
 *	  DELETE statements whose condition says that all their rows are settled.
 *
 * The condition of the delete trigger spares us the settled rows one by one,
 * but PostgreSQL fetches each deleted row again to evaluate it, which costs
 * more than the evaluation.  A retention job says DELETE ... WHERE event_time <
 * some moment; when no join looks back to that moment, none of its rows can
 * matter, and the trigger is taken out of the statement.
 *
 * That is safe for as long as the statement runs: horizons do not go back, and
 * a join that does not know its horizon cannot be made while the statement has
 * its lock.  A row that another transaction has changed meanwhile is deleted
 * only if the condition holds for what it has become.
 *
 * Nothing is evaluated here that could fail, or call code of a user's: only
 * constants, parameters, and what the clock functions and the arithmetic of
 * dates and intervals make of them, where they are not extreme.
 *
 * IDENTIFICATION
 *	  src/capture/sweep.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "capture/capture.h"
#include "capture/relinfo.h"
#include "capture/retention.h"
#include "capture/sweep.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/date.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

/* Comparisons of an event time with a moment. */
typedef struct Comparison
{
	Oid			function;		/* event time first */
	Oid			mirrored;		/* moment first */
	bool		inclusive;
} Comparison;

static const Comparison comparisons[] = {
	{F_TIMESTAMPTZ_LT, F_TIMESTAMPTZ_GT, false},
	{F_TIMESTAMPTZ_LE, F_TIMESTAMPTZ_GE, true},
	{F_TIMESTAMPTZ_EQ, F_TIMESTAMPTZ_EQ, true},
	{F_TIMESTAMPTZ_LT_DATE, F_DATE_GT_TIMESTAMPTZ, false},
	{F_TIMESTAMPTZ_LE_DATE, F_DATE_GE_TIMESTAMPTZ, true},
	{F_TIMESTAMP_LT, F_TIMESTAMP_GT, false},
	{F_TIMESTAMP_LE, F_TIMESTAMP_GE, true},
	{F_TIMESTAMP_EQ, F_TIMESTAMP_EQ, true},
	{F_TIMESTAMP_LT_DATE, F_DATE_GT_TIMESTAMP, false},
	{F_TIMESTAMP_LE_DATE, F_DATE_GE_TIMESTAMP, true},
};

/* About 1600 years: twice that from 2000 on is within every type of time. */
#define ORDINARY_DAYS	INT64CONST(600000)

/* More than any two time zones are apart. */
#define ZONE_MARGIN		(2 * USECS_PER_DAY)

/* What a moment may be made of. */
static const Oid harmless_functions[] = {
	F_NOW, F_TRANSACTION_TIMESTAMP, F_STATEMENT_TIMESTAMP,
	F_TIMESTAMPTZ_MI_INTERVAL, F_TIMESTAMPTZ_PL_INTERVAL,
	F_TIMESTAMP_MI_INTERVAL, F_TIMESTAMP_PL_INTERVAL,
	F_DATE_MI_INTERVAL, F_DATE_PL_INTERVAL, F_DATE_MII, F_DATE_PLI,
	F_DATE_TIMESTAMPTZ, F_DATE_TIMESTAMP, F_TIMESTAMP_DATE,
	F_TIMESTAMPTZ_TIMESTAMP, F_TIMESTAMP_TIMESTAMPTZ
};

/* A look for a scan of a table, and for what its condition says. */
typedef struct Sweep
{
	Index		rti;			/* the table in the plan */
	AttrNumber	time_attno;
	EState	   *estate;
	SjStreamUse *use;
	bool		all_settled;	/* found */
} Sweep;

static ExecutorStart_hook_type prev_executor_start = NULL;

static bool
is_harmless_function(Oid function)
{
	for (int i = 0; i < lengthof(harmless_functions); i++)
		if (harmless_functions[i] == function)
			return true;
	return false;
}

/* True for an expression that must not be evaluated here. */
static bool
is_harmful(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Const:
		case T_List:
			break;
		case T_Param:
			if (((Param *) node)->paramkind != PARAM_EXTERN)
				return true;
			break;
		case T_SQLValueFunction:
			if (((SQLValueFunction *) node)->op > SVFOP_LOCALTIMESTAMP_N)
				return true;
			break;
		case T_FuncExpr:
			if (!is_harmless_function(((FuncExpr *) node)->funcid))
				return true;
			break;
		case T_OpExpr:
			if (!is_harmless_function(((OpExpr *) node)->opfuncid))
				return true;
			break;
		default:
			return true;
	}
	return expression_tree_walker(node, is_harmful, context);
}

static bool
is_event_time(const Sweep *sweep, Node *node)
{
	return IsA(node, Var) && ((Var *) node)->varno == sweep->rti &&
		((Var *) node)->varattno == sweep->time_attno;
}

/*
 * True for an expression that depends on the time zone, or may do so: it would
 * be another moment when a function that the statement calls changes that.
 */
static bool
may_move(Node *node)
{
	return !(IsA(node, Const) || IsA(node, Param)) ||
		exprType(node) == DATEOID;
}

static Datum
evaluate(const Sweep *sweep, Node *node, bool *isnull)
{
	return ExecEvalExprSwitchContext(ExecInitExpr((Expr *) node, NULL),
									 GetPerTupleExprContext(sweep->estate),
									 isnull);
}

/* Is it so far from the ends of its type that no arithmetic overflows? */
static bool
is_ordinary(Oid type, Datum value)
{
	Interval   *interval;

	switch (type)
	{
		case TIMESTAMPTZOID:
		case TIMESTAMPOID:
			return TIMESTAMP_NOT_FINITE(DatumGetTimestamp(value)) ||
				Abs(DatumGetTimestamp(value)) < ORDINARY_DAYS * USECS_PER_DAY;
		case DATEOID:
			return DATE_NOT_FINITE(DatumGetDateADT(value)) ||
				Abs((int64) DatumGetDateADT(value)) < ORDINARY_DAYS;
		case INT4OID:
			return Abs((int64) DatumGetInt32(value)) < ORDINARY_DAYS;
		case INTERVALOID:
			interval = DatumGetIntervalP(value);
			return Abs((int64) interval->month) < ORDINARY_DAYS / 31 &&
				Abs((int64) interval->day) < ORDINARY_DAYS &&
				interval->time < ORDINARY_DAYS * USECS_PER_DAY &&
				interval->time > -ORDINARY_DAYS * USECS_PER_DAY;
		default:
			return false;
	}
}

/* Can the expression be evaluated without an error? */
static bool
is_safe(const Sweep *sweep, Node *node)
{
	List	   *args = IsA(node, OpExpr) ? ((OpExpr *) node)->args :
	IsA(node, FuncExpr) ? ((FuncExpr *) node)->args : NIL;
	ListCell   *lc;

	foreach(lc, args)
	{
		bool		isnull;
		Datum		value;

		if (!is_safe(sweep, lfirst(lc)))
			return false;
		value = evaluate(sweep, lfirst(lc), &isnull);
		if (!isnull && !is_ordinary(exprType(lfirst(lc)), value))
			return false;
	}
	return true;
}

/* The value as an event time of the given type; false for NULL and infinity. */
static bool
moment_of(const Sweep *sweep, Node *node, Oid type, SjTime *moment)
{
	bool		isnull;
	int			overflow = 0;
	Datum		value;

	if (!is_safe(sweep, node))
		return false;
	value = evaluate(sweep, node, &isnull);
	if (isnull)
		return false;
	if (exprType(node) != DATEOID)
		*moment = DatumGetTimestampTz(value);
	else if (type == TIMESTAMPTZOID)
		*moment = date2timestamptz_opt_overflow(DatumGetDateADT(value),
												&overflow);
	else
		*moment = date2timestamp_opt_overflow(DatumGetDateADT(value),
											  &overflow);
	return overflow == 0 && SJ_TIME_IS_FINITE(*moment);
}

/* Does the clause say that every row is settled? */
static bool
says_settled(const Sweep *sweep, Node *clause)
{
	OpExpr	   *op = (OpExpr *) clause;
	Node	   *left;
	Node	   *right;
	SjTime		moment;

	if (!IsA(clause, OpExpr) || list_length(op->args) != 2)
		return false;
	left = linitial(op->args);
	right = lsecond(op->args);
	for (int i = 0; i < lengthof(comparisons); i++)
	{
		const Comparison *comparison = &comparisons[i];
		bool		plain = op->opfuncid == comparison->function &&
		is_event_time(sweep, left);
		bool		mirrored = op->opfuncid == comparison->mirrored &&
		is_event_time(sweep, right);
		Node	   *other = plain ? right : left;

		if ((!plain && !mirrored) || is_harmful(other, NULL))
			continue;
		if (!moment_of(sweep, other, exprType(plain ? left : right), &moment))
			return false;
		if (may_move(other))
			moment = sj_time_add(moment, ZONE_MARGIN);
		return !sj_may_change(sweep->use,
							  comparison->inclusive ? moment : moment - 1);
	}
	return false;
}

static bool
one_says_settled(const Sweep *sweep, List *clauses)
{
	ListCell   *lc;

	foreach(lc, clauses)
		if (says_settled(sweep, lfirst(lc)))
			return true;
	return false;
}

/* The rows that the statement deletes come from the scan of their table. */
static bool
look_at_plan(PlanState *planstate, void *context)
{
	Sweep	   *sweep = context;
	Plan	   *plan = planstate->plan;
	List	   *clauses = NIL;

	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_TidScan:
			clauses = plan->qual;
			break;
		case T_IndexScan:
			clauses = list_concat_copy(plan->qual,
									   ((IndexScan *) plan)->indexqualorig);
			break;
		case T_BitmapHeapScan:
			clauses = list_concat_copy(plan->qual,
									   ((BitmapHeapScan *) plan)->bitmapqualorig);
			break;
		default:
			return planstate_tree_walker(planstate, look_at_plan, context);
	}
	if (((Scan *) plan)->scanrelid == sweep->rti)
		sweep->all_settled = one_says_settled(sweep, clauses);
	return sweep->all_settled;
}

/* The delete trigger, when no other trigger wants to see deleted rows. */
static Trigger *
find_trigger(const TriggerDesc *desc)
{
	Trigger    *found = NULL;

	for (int i = 0; i < desc->numtriggers; i++)
	{
		Trigger    *trigger = &desc->triggers[i];

		if (!TRIGGER_TYPE_MATCHES(trigger->tgtype, TRIGGER_TYPE_ROW,
								  TRIGGER_TYPE_AFTER, TRIGGER_TYPE_DELETE))
			continue;
		if (strcmp(trigger->tgname, SJ_DELETE_TRIGGER) != 0)
			return NULL;
		found = trigger;
	}
	return found;
}

static void
sweep_table(ModifyTableState *state, ResultRelInfo *table)
{
	Sweep		sweep = {.rti = table->ri_RangeTableIndex,
		.estate = state->ps.state};
	Trigger    *trigger;
	SjRelInfo  *info;

	if (table->ri_TrigDesc == NULL ||
		!table->ri_TrigDesc->trig_delete_after_row)
		return;
	trigger = find_trigger(table->ri_TrigDesc);
	if (trigger == NULL)
		return;
	info = sj_relinfo_get(trigger->tgoid, table->ri_RelationDesc);
	if (info->time_attno == InvalidAttrNumber)
		return;
	sweep.time_attno = info->time_attno;
	sweep.use = info->use;
	(void) look_at_plan(outerPlanState(state), &sweep);
	/* the description is the statement's own copy */
	if (sweep.all_settled)
		table->ri_TrigDesc->trig_delete_after_row = false;
}

static void
look_at_statement(PlanState *planstate)
{
	ModifyTableState *state = (ModifyTableState *) planstate;

	if (planstate == NULL || !IsA(planstate, ModifyTableState) ||
		state->operation != CMD_DELETE)
		return;
	for (int i = 0; i < state->mt_nrels; i++)
		sweep_table(state, &state->resultRelInfo[i]);
}

static void
at_executor_start(QueryDesc *query, int eflags)
{
	ListCell   *lc;

	if (prev_executor_start)
		prev_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	look_at_statement(query->planstate);
	/* WITH ... AS (DELETE ...) */
	if (query->plannedstmt->hasModifyingCTE)
		foreach(lc, query->estate->es_subplanstates)
			look_at_statement(lfirst(lc));
}

void
sj_sweep_init(void)
{
	prev_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = at_executor_start;
}
