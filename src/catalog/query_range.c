/*-------------------------------------------------------------------------
 *
 * query_range.c
 *	  Reads one condition that compares two event times.
 *
 * Whatever way a condition is spelled, it is a sum: with R and L the two
 * columns, each perhaps with one calendar interval added to it,
 *
 *		R' - L'  op  distance
 *
 * so the reader walks both operands and adds up columns, with a sign, and
 * constant intervals.  Two kinds of expressions occur: of type timestamp
 * (a column plus and minus intervals) and of type interval (a difference of
 * two of those, plus and minus intervals).  Arithmetic on the second kind
 * counts a month as 30 days and a day as 24 hours, because that is how
 * PostgreSQL compares intervals; on the first kind such an interval has no
 * fixed length, it is a calendar interval.
 *
 * Moving a fixed interval to the other side of a comparison is exact, moving
 * a calendar interval is not, so that one stays where it is written and must
 * be the first that is added to its column.
 *
 * IDENTIFICATION
 *	  src/catalog/query_range.c
 *
 *-------------------------------------------------------------------------
 */
#include "sjoin.h"

#include "access/stratnum.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "catalog/query_parts.h"

/* btree family datetime_ops, which has no symbol in pg_opfamily.h */
#define DATETIME_BTREE_FAM_OID 434

/* A sum of columns and intervals, while it is being read. */
typedef struct TimeSum
{
	const SjJoinQuery *q;
	int			sign[2];		/* of the column of each input; 0: not yet */
	AttrNumber	attno[2];
	Oid			type[2];
	bool		fixed_first[2]; /* a fixed interval was added to it */
	bool		has_calendar[2];
	bool		subtracted[2];
	Interval	calendar[2];
	int128		usec;			/* sum of fixed intervals */
	bool		complex;
	bool		null_interval;
} TimeSum;

static bool read_time(TimeSum *sum, Node *node, int sign, SjSide *side);

static Node *
strip_relabel(Node *node)
{
	while (node && IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return node;
}

/* Evaluates 'node' when it is a constant interval. */
static bool
constant_interval(TimeSum *sum, Node *node, Interval *interval)
{
	Const	   *value;

	if (exprType(node) != INTERVALOID || contain_var_clause(node))
		return false;
	value = (Const *) eval_const_expressions(NULL, node);
	if (!IsA(value, Const))
		return false;

	memset(interval, 0, sizeof(*interval));
	if (value->constisnull)
		sum->null_interval = true;
	else
		*interval = *DatumGetIntervalP(value->constvalue);
	return true;
}

/* Length of an interval as interval_cmp counts it, in usec. */
static int128
interval_length(const Interval *interval)
{
	int128		days = (int128) interval->month * DAYS_PER_MONTH +
	interval->day;

	return days * USECS_PER_DAY + interval->time;
}

static bool
is_calendar(const Interval *interval, Oid time_type)
{
	return interval->month != 0 ||
		(interval->day != 0 && time_type == TIMESTAMPTZOID);
}

/* Takes in an interval that is added to the event time of 'side'. */
static void
add_to_time(TimeSum *sum, SjSide side, const Interval *interval,
			bool subtract)
{
	int			sign = subtract ? -sum->sign[side] : sum->sign[side];

	if (!is_calendar(interval, sum->type[side]))
	{
		sum->usec += sign * interval_length(interval);
		sum->fixed_first[side] = true;
		return;
	}
	if (sum->has_calendar[side] || sum->fixed_first[side])
		sum->complex = true;
	sum->has_calendar[side] = true;
	sum->subtracted[side] = subtract;
	sum->calendar[side] = *interval;
}

/* Reads a column of one of the inputs. */
static bool
read_column(TimeSum *sum, Var *var, int sign, SjSide *side)
{
	if (var->varattno <= 0 ||
		(var->vartype != TIMESTAMPOID && var->vartype != TIMESTAMPTZOID))
		return false;
	*side = (var->varno == sum->q->input[SJ_RIGHT].rti) ? SJ_RIGHT : SJ_LEFT;
	if (sum->sign[*side] != 0)
		return false;
	sum->sign[*side] = sign;
	sum->attno[*side] = var->varattno;
	sum->type[*side] = var->vartype;
	return true;
}

/*
 * Reads an expression of type timestamp or timestamptz.  Returns false when
 * it is not of the form that this file knows.
 */
static bool
read_time(TimeSum *sum, Node *node, int sign, SjSide *side)
{
	Interval	interval;
	OpExpr	   *op;
	Node	   *time;
	Node	   *added;
	bool		subtract = false;

	node = strip_relabel(node);
	if (node && IsA(node, Var))
		return read_column(sum, (Var *) node, sign, side);
	if (!node || !(IsA(node, OpExpr) || IsA(node, FuncExpr)))
		return false;
	if (IsA(node, FuncExpr))
	{
		/* the functions behind the operators can be called by name, too */
		FuncExpr   *call = (FuncExpr *) node;
		OpExpr	   *made = makeNode(OpExpr);

		made->opfuncid = call->funcid;
		made->args = call->args;
		node = (Node *) made;
	}

	op = (OpExpr *) node;
	if (!OidIsValid(op->opfuncid))
		op->opfuncid = get_opcode(op->opno);
	if (list_length(op->args) != 2)
		return false;
	time = linitial(op->args);
	added = lsecond(op->args);
	switch (op->opfuncid)
	{
		case F_INTERVAL_PL_TIMESTAMP:
		case F_INTERVAL_PL_TIMESTAMPTZ:
			time = lsecond(op->args);
			added = linitial(op->args);
			break;
		case F_TIMESTAMP_MI_INTERVAL:
		case F_TIMESTAMPTZ_MI_INTERVAL:
			subtract = true;
			break;
		case F_TIMESTAMP_PL_INTERVAL:
		case F_TIMESTAMPTZ_PL_INTERVAL:
			break;
		default:
			return false;
	}

	if (!read_time(sum, time, sign, side) ||
		!constant_interval(sum, added, &interval))
		return false;
	add_to_time(sum, *side, &interval, subtract);
	return true;
}

/*
 * Reads an expression of type interval: a constant, or made of a difference
 * of event times.
 */
static bool
read_interval(TimeSum *sum, Node *node, int sign)
{
	Interval	interval;
	OpExpr	   *op;
	SjSide		side;

	node = strip_relabel(node);
	if (constant_interval(sum, node, &interval))
	{
		sum->usec += sign * interval_length(&interval);
		return true;
	}
	if (!IsA(node, OpExpr))
		return false;

	op = (OpExpr *) node;
	switch (op->opfuncid)
	{
		case F_TIMESTAMP_MI:
		case F_TIMESTAMPTZ_MI:
			return read_time(sum, linitial(op->args), sign, &side) &&
				read_time(sum, lsecond(op->args), -sign, &side);
		case F_INTERVAL_PL:
			return read_interval(sum, linitial(op->args), sign) &&
				read_interval(sum, lsecond(op->args), sign);
		case F_INTERVAL_MI:
			return read_interval(sum, linitial(op->args), sign) &&
				read_interval(sum, lsecond(op->args), -sign);
		case F_INTERVAL_UM:
			return read_interval(sum, linitial(op->args), -sign);
		default:
			return false;
	}
}

/* Reads both operands of a comparison into one sum. */
static bool
read_operands(TimeSum *sum, OpExpr *op, int *strategy)
{
	Node	   *first = linitial(op->args);
	Node	   *second = lsecond(op->args);
	SjSide		side;

	*strategy = get_op_opfamily_strategy(op->opno, DATETIME_BTREE_FAM_OID);
	if (*strategy != 0)
		return read_time(sum, first, 1, &side) &&
			read_time(sum, second, -1, &side);

	*strategy = get_op_opfamily_strategy(op->opno, INTERVAL_BTREE_FAM_OID);
	if (*strategy != 0)
		return read_interval(sum, first, 1) && read_interval(sum, second, -1);
	return false;
}

static int
commuted_strategy(int strategy)
{
	return BTGreaterStrategyNumber + BTLessStrategyNumber - strategy;
}

/* The calendar interval of 'base' with the fixed part of the sum put in. */
static void
set_calendar_bound(SjBound *bound, const TimeSum *sum, SjSide base,
				   int64 usec)
{
	/* usec is on the far side of the comparison: R' - L' op usec */
	int64		added = (base == SJ_LEFT) ? usec : -usec;

	bound->calendar = true;
	bound->base = base;
	bound->subtracted = sum->subtracted[base];
	bound->interval = sum->calendar[base];
	if (bound->subtracted)
		added = -added;
	if (__builtin_add_overflow(bound->interval.time, added,
							   &bound->interval.time))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("interval out of range")));
}

/* Makes the normalised comparison of a sum that was read to its end. */
static SjRange *
range_from_sum(const TimeSum *sum, Expr *condition, int strategy)
{
	SjRange    *range = palloc0(sizeof(SjRange));
	int128		usec;
	int			side;

	range->condition = condition;
	for (side = 0; side < 2; side++)
	{
		range->attno[side] = sum->attno[side];
		range->type[side] = sum->type[side];
	}
	range->null_interval = sum->null_interval;
	range->complex = sum->complex ||
		(sum->has_calendar[SJ_LEFT] && sum->has_calendar[SJ_RIGHT]);

	/* sign * (R' - L') + sum op 0 */
	usec = -sum->usec;
	range->strategy = strategy;
	if (sum->sign[SJ_RIGHT] < 0)
	{
		usec = sum->usec;
		range->strategy = commuted_strategy(strategy);
	}
	if (usec < PG_INT64_MIN / 2 || usec > PG_INT64_MAX / 2)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("interval out of range in a time condition of the join")));

	range->bound.known = true;
	range->bound.usec = (int64) usec;
	for (side = 0; side < 2; side++)
		if (sum->has_calendar[side] && !range->complex)
			set_calendar_bound(&range->bound, sum, side, (int64) usec);
	return range;
}

/*
 * Reads a condition; NULL when it is not a comparison of one timestamp column
 * of each input with constant intervals added or subtracted.  Whether these
 * columns are the event times is for the caller to say.
 */
static SjRange *
read_range(const SjJoinQuery *q, Expr *condition)
{
	TimeSum		sum = {0};
	OpExpr	   *op = (OpExpr *) condition;
	int			strategy;

	if (!IsA(op, OpExpr) || list_length(op->args) != 2)
		return NULL;
	sum.q = q;
	if (!read_operands(&sum, op, &strategy))
		return NULL;
	if (sum.sign[SJ_LEFT] * sum.sign[SJ_RIGHT] != -1)
		return NULL;
	return range_from_sum(&sum, condition, strategy);
}

/*
 * Reads all the conditions that are such comparisons; list of SjRange.
 */
List *
sj_ranges_read(const SjJoinQuery *q, List *conditions)
{
	List	   *ranges = NIL;
	ListCell   *lc;

	foreach(lc, conditions)
	{
		SjRange    *range = read_range(q, lfirst(lc));

		if (range)
			ranges = lappend(ranges, range);
	}
	return ranges;
}

bool
sj_range_is_equality(const SjRange *range)
{
	return range->strategy == BTEqualStrategyNumber;
}
