/*-------------------------------------------------------------------------
 *
 * sweep.c
 *	  DELETE of many settled rows: retention.
 *
 * The condition of the delete trigger spares us the settled rows one by one,
 * but PostgreSQL fetches each deleted row again to evaluate it, which costs
 * more than the evaluation.  So the row is looked at when the scan of its table
 * has it in hand: we stand between the statement and its plan, and where no
 * join would notice that the row is gone, the statement is told for this row
 * that there is no trigger.
 *
 * The row that is deleted is the row that was looked at, unless another
 * transaction has changed it meanwhile.  Then the statement checks the new
 * version by running a copy of its plan (EvalPlanQual); a node on top of that
 * copy tells us, and the trigger is fired and sees for itself.
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
#include "executor/executor.h"
#include "nodes/extensible.h"
#include "nodes/nodeFuncs.h"
#include "utils/rel.h"

/* A table of the statement. */
typedef struct SweptTable
{
	TriggerDesc *triggers;		/* the statement's own copy; NULL: left alone */
	Index		rti;			/* the table in the plan */
	AttrNumber	ctid_attno;		/* in the rows of the plan */
	AttrNumber	time_attno;		/* in the table */
	SjStreamUse *use;
	ScanState  *scan;			/* of the table, or NULL */
} SweptTable;

/* A DELETE that is being executed. */
typedef struct Sweep
{
	ModifyTableState *statement;
	PlanState  *plan;			/* finds the rows to be deleted */
	ExecProcNodeMtd next_row;	/* of the plan */
	SweptTable *tables;			/* as the statement's */
	struct Sweep *outer;		/* started before this one */
} Sweep;

/* The node on top of the plan that checks a changed row again. */
typedef struct Recheck
{
	CustomScan	node;
	Sweep	   *sweep;
} Recheck;

typedef struct RecheckState
{
	CustomScanState node;
	Sweep	   *sweep;
} RecheckState;

static ExecutorStart_hook_type prev_executor_start = NULL;
static Sweep *sweeps = NULL;	/* the newest first */

/* a row --------------------------------------------------------------- */

static SweptTable *
table_of(Sweep *sweep, TupleTableSlot *row)
{
	ModifyTableState *statement = sweep->statement;
	ResultRelInfo *table = statement->resultRelInfo;

	if (AttributeNumberIsValid(statement->mt_resultOidAttno))
	{
		bool		isnull;
		Oid			relid =
		DatumGetObjectId(ExecGetJunkAttribute(row,
											  statement->mt_resultOidAttno,
											  &isnull));

		table = isnull ? NULL :
			ExecLookupResultRelByOid(statement, relid, true, false);
		if (table == NULL)
			return NULL;
	}
	return &sweep->tables[table - statement->resultRelInfo];
}

/* Is the row that is to be deleted the one that the scan has in hand? */
static bool
has_in_hand(const Sweep *sweep, const SweptTable *table, TupleTableSlot *row)
{
	TupleTableSlot *scanned;
	bool		isnull;
	Datum		ctid;

	if (table->scan == NULL)
		return false;
	if (&table->scan->ps == sweep->plan)
		return true;
	scanned = table->scan->ss_ScanTupleSlot;
	ctid = ExecGetJunkAttribute(row, table->ctid_attno, &isnull);
	return !TupIsNull(scanned) && !isnull &&
		ItemPointerEquals((ItemPointer) DatumGetPointer(ctid),
						  &scanned->tts_tid);
}

static void
look_at_row(Sweep *sweep, TupleTableSlot *row)
{
	SweptTable *table = table_of(sweep, row);
	bool		may_change = true;

	if (table == NULL || table->triggers == NULL)
		return;
	if (has_in_hand(sweep, table, row))
	{
		bool		isnull;
		Datum		event_time = slot_getattr(table->scan->ss_ScanTupleSlot,
											  table->time_attno, &isnull);

		may_change = sj_row_may_change(table->use, event_time, isnull);
	}
	table->triggers->trig_delete_after_row = may_change;
}

static TupleTableSlot *
next_row(PlanState *plan)
{
	Sweep	   *sweep = sweeps;
	TupleTableSlot *row;

	while (sweep->plan != plan)
		sweep = sweep->outer;
	row = sweep->next_row(plan);
	if (!TupIsNull(row))
		look_at_row(sweep, row);
	return row;
}

/* a row that has been changed meanwhile ------------------------------- */

static void
recheck_begin(CustomScanState *node, EState *estate, int eflags)
{
	outerPlanState(node) = ExecInitNode(outerPlan(node->ss.ps.plan), estate,
										eflags);
}

/* What comes out is not looked at, only whether something does. */
static TupleTableSlot *
recheck_row(CustomScanState *node)
{
	Sweep	   *sweep = ((RecheckState *) node)->sweep;

	for (int i = 0; i < sweep->statement->mt_nrels; i++)
		if (sweep->tables[i].triggers != NULL)
			sweep->tables[i].triggers->trig_delete_after_row = true;
	return ExecProcNode(outerPlanState(node));
}

static void
recheck_rescan(CustomScanState *node)
{
	if (outerPlanState(node)->chgParam == NULL)
		ExecReScan(outerPlanState(node));
}

static void
recheck_end(CustomScanState *node)
{
	ExecEndNode(outerPlanState(node));
}

static const CustomExecMethods recheck_exec_methods = {
	.CustomName = "sjoin recheck",
	.BeginCustomScan = recheck_begin,
	.ExecCustomScan = recheck_row,
	.EndCustomScan = recheck_end,
	.ReScanCustomScan = recheck_rescan
};

static Node *
recheck_create_state(CustomScan *node)
{
	RecheckState *state = (RecheckState *) newNode(sizeof(RecheckState),
												   T_CustomScanState);

	state->node.methods = &recheck_exec_methods;
	state->sweep = ((Recheck *) node)->sweep;
	return (Node *) state;
}

static const CustomScanMethods recheck_methods = {
	.CustomName = "sjoin recheck",
	.CreateCustomScanState = recheck_create_state
};

static void
tell_of_rechecks(Sweep *sweep)
{
	EPQState   *epqstate = &sweep->statement->mt_epqstate;
	Recheck    *recheck = (Recheck *) newNode(sizeof(Recheck), T_CustomScan);
	Plan	   *plan = &recheck->node.scan.plan;

	outerPlan(plan) = epqstate->plan;
	plan->extParam = epqstate->plan->extParam;
	plan->allParam = epqstate->plan->allParam;
	recheck->node.methods = &recheck_methods;
	recheck->sweep = sweep;
	EvalPlanQualSetPlan(epqstate, plan, epqstate->arowMarks);
}

/* a statement --------------------------------------------------------- */

/* The delete trigger, when nobody else looks at rows that are deleted. */
static Trigger *
find_trigger(const TriggerDesc *desc)
{
	Trigger    *found = NULL;

	if (desc == NULL || !desc->trig_delete_after_row ||
		desc->trig_delete_before_row)
		return NULL;
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

/* Fills in what is known of the table; false if it is left alone. */
static bool
sweep_table(SweptTable *swept, ResultRelInfo *table)
{
	Trigger    *trigger = find_trigger(table->ri_TrigDesc);
	SjRelInfo  *info;

	if (trigger == NULL)
		return false;
	info = sj_relinfo_get(trigger->tgoid, table->ri_RelationDesc);
	if (info->time_attno == InvalidAttrNumber)
		return false;
	swept->triggers = table->ri_TrigDesc;
	swept->rti = table->ri_RangeTableIndex;
	swept->ctid_attno = table->ri_RowIdAttNo;
	swept->time_attno = info->time_attno;
	swept->use = info->use;
	return true;
}

static bool
find_scans(PlanState *planstate, void *context)
{
	Sweep	   *sweep = context;

	switch (nodeTag(planstate))
	{
		case T_SeqScanState:
		case T_IndexScanState:
		case T_BitmapHeapScanState:
		case T_TidScanState:
		case T_TidRangeScanState:
			for (int i = 0; i < sweep->statement->mt_nrels; i++)
				if (sweep->tables[i].triggers != NULL &&
					sweep->tables[i].rti ==
					((Scan *) planstate->plan)->scanrelid)
					sweep->tables[i].scan = (ScanState *) planstate;
			break;
		default:
			break;
	}
	return planstate_tree_walker(planstate, find_scans, context);
}

static void
end_sweep(void *arg)
{
	Sweep	  **link = &sweeps;

	while (*link != arg)
		link = &(*link)->outer;
	*link = (*link)->outer;
}

static void
begin_sweep(ModifyTableState *statement)
{
	MemoryContext context = statement->ps.state->es_query_cxt;
	MemoryContextCallback *callback;
	Sweep	   *sweep;
	int			ntables = 0;

	sweep = MemoryContextAllocZero(context, sizeof(Sweep));
	sweep->tables = MemoryContextAllocZero(context,
										   statement->mt_nrels *
										   sizeof(SweptTable));
	for (int i = 0; i < statement->mt_nrels; i++)
		ntables += sweep_table(&sweep->tables[i],
							   &statement->resultRelInfo[i]);
	if (ntables == 0)
		return;
	sweep->statement = statement;
	sweep->plan = outerPlanState(statement);
	(void) find_scans(sweep->plan, sweep);
	callback = MemoryContextAllocZero(context, sizeof(MemoryContextCallback));
	callback->func = end_sweep;
	callback->arg = sweep;

	tell_of_rechecks(sweep);
	sweep->next_row = sweep->plan->ExecProcNodeReal;
	ExecSetExecProcNode(sweep->plan, next_row);
	sweep->outer = sweeps;
	sweeps = sweep;
	MemoryContextRegisterResetCallback(context, callback);
}

static void
look_at_statement(PlanState *planstate)
{
	ModifyTableState *statement = (ModifyTableState *) planstate;

	if (planstate != NULL && IsA(planstate, ModifyTableState) &&
		statement->operation == CMD_DELETE)
		begin_sweep(statement);
}

static void
at_executor_start(QueryDesc *query, int eflags)
{
	MemoryContext old;
	ListCell   *lc;

	if (prev_executor_start)
		prev_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) ||
		(query->operation != CMD_DELETE &&
		 !query->plannedstmt->hasModifyingCTE))
		return;
	old = MemoryContextSwitchTo(query->estate->es_query_cxt);
	look_at_statement(query->planstate);
	/* WITH ... AS (DELETE ...) */
	if (query->plannedstmt->hasModifyingCTE)
		foreach(lc, query->estate->es_subplanstates)
			look_at_statement(lfirst(lc));
	MemoryContextSwitchTo(old);
}

void
sj_sweep_init(void)
{
	prev_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = at_executor_start;
}
