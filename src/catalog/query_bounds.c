/*-------------------------------------------------------------------------
 *
 * query_bounds.c
 *	  Event times and the time range of a join (T5, T6).
 *
 * The event time of a stream is declared; that of a table which is not yet a
 * stream is the column that the query compares with the event time of the
 * other input, if that is one column.  Equality alone says nothing here:
 * dates of birth are equal, too.
 *
 * Of several fixed bounds the tightest counts.  A calendar bound serves for
 * deadlines only where there is no fixed one, and its condition stays to be
 * tested on each pair.  An end that the query leaves open is closed by the
 * ttl.
 *
 * IDENTIFICATION
 *	  src/catalog/query_bounds.c
 *
 *-------------------------------------------------------------------------
 */
#include "sjoin.h"

#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "catalog/query_parts.h"
#include "catalog/stream_def.h"

/* Name of a column of an input, quoted, with its alias. */
static char *
column_name(const SjJoinInput *input, AttrNumber attno)
{
	return psprintf("%s.%s", quote_identifier(input->alias),
					quote_identifier(get_attname(input->relid, attno, false)));
}

static char *
create_stream_hint(const SjJoinInput *input, const char *column)
{
	return psprintf("SELECT sjoin.create_stream(%s, %s);",
					quote_literal_cstr(sj_relation_name(input->relid)),
					quote_literal_cstr(column));
}

/* Takes over what create_stream declared, the upsert key, too. */
static void
use_declared_time(SjJoinInput *input)
{
	SjStreamDef *def = sj_stream_def_get(input->relid);

	if (def)
	{
		input->time_attno = def->time_attno;
		input->upsert_key = def->upsert_key;
	}
	else
		input->inferred = true;
}

int64
sj_query_replaces(const SjJoinQuery *query)
{
	if (query->input[SJ_LEFT].upsert_key == NIL &&
		query->input[SJ_RIGHT].upsert_key == NIL)
		return 0;
	return sj_bounds_widest(&query->bounds);
}

static void pg_attribute_noreturn()
report_ambiguous(const SjJoinInput *input, AttrNumber a, AttrNumber b)
{
	ereport(ERROR,
			(errcode(ERRCODE_AMBIGUOUS_COLUMN),
			 errmsg("event time of \"%s\" is ambiguous", input->alias),
			 errdetail("The query compares both %s and %s with the other input.",
					   column_name(input, a), column_name(input, b)),
			 errhint("Say which it is first: %s",
					 create_stream_hint(input,
										get_attname(input->relid, a, false)))));
	pg_unreachable();
}

/* Finds the event time of 'side' in what it is compared with. */
static void
infer_time(SjJoinQuery *q, SjSide side, List *ranges, AttrNumber other_attno)
{
	SjJoinInput *input = &q->input[side];
	ListCell   *lc;

	foreach(lc, ranges)
	{
		SjRange    *range = lfirst(lc);
		AttrNumber	attno = range->attno[side];

		if (sj_range_is_equality(range) ||
			(other_attno != 0 && range->attno[SJ_OTHER(side)] != other_attno))
			continue;
		if (input->time_attno != 0 && input->time_attno != attno)
			report_ambiguous(input, input->time_attno, attno);
		input->time_attno = attno;
	}
}

static void
check_time_column(SjJoinInput *input)
{
	if (input->time_attno == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("event time of \"%s\" is not known", input->alias),
				 errdetail("The table is not a stream, and no comparison of two timestamps in the join condition shows the column."),
				 errhint("Say which column it is first: %s",
						 create_stream_hint(input, "<column>"))));

	input->time_type = get_atttype(input->relid, input->time_attno);
	if (input->time_type != TIMESTAMPOID && input->time_type != TIMESTAMPTZOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("event time %s is of type %s",
						column_name(input, input->time_attno),
						format_type_be(input->time_type)),
				 errhint("An event time is a column of type timestamp with time zone or timestamp.")));
}

/* A table joined with itself is one stream, with one event time. */
static void
check_self_join(const SjJoinQuery *q)
{
	const SjJoinInput *left = &q->input[SJ_LEFT];
	const SjJoinInput *right = &q->input[SJ_RIGHT];

	if (left->relid == right->relid && left->time_attno != right->time_attno)
		report_ambiguous(left, left->time_attno, right->time_attno);
}

/*
 * Sets event time and type of both inputs.
 */
void
sj_set_event_times(SjJoinQuery *q, List *ranges)
{
	AttrNumber	declared[2];
	int			side;

	for (side = 0; side < 2; side++)
	{
		use_declared_time(&q->input[side]);
		declared[side] = q->input[side].time_attno;
	}
	for (side = 0; side < 2; side++)
		if (declared[side] == 0)
			infer_time(q, side, ranges, declared[SJ_OTHER(side)]);
	for (side = 0; side < 2; side++)
		check_time_column(&q->input[side]);
	check_self_join(q);

	if (q->input[SJ_LEFT].time_type != q->input[SJ_RIGHT].time_type)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the event times of the two inputs have different types"),
				 errdetail("%s is of type %s, %s of type %s.",
						   column_name(&q->input[SJ_LEFT],
									   q->input[SJ_LEFT].time_attno),
						   format_type_be(q->input[SJ_LEFT].time_type),
						   column_name(&q->input[SJ_RIGHT],
									   q->input[SJ_RIGHT].time_attno),
						   format_type_be(q->input[SJ_RIGHT].time_type)),
				 errhint("Change one of the columns: a join knows one type of event time.")));
	q->bounds.with_zone = (q->input[SJ_LEFT].time_type == TIMESTAMPTZOID);
}

/* Does the comparison concern the event times, and is it usable? */
static bool
range_counts(const SjJoinQuery *q, const SjRange *range)
{
	if (range->attno[SJ_LEFT] != q->input[SJ_LEFT].time_attno ||
		range->attno[SJ_RIGHT] != q->input[SJ_RIGHT].time_attno)
		return false;
	if (range->null_interval)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("an interval in the time range of the join is null"),
				 errhint("Nothing would ever match; write the interval out.")));
	if (range->complex)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("calendar arithmetic in the time range of the join is too complex"),
				 errdetail("Months, and days of timestamp with time zone, have no fixed length: one such interval is allowed in a condition, and it must be the first one that is added."),
				 errhint("Write one interval such as '1 month 2 hours', or use hours instead of days.")));
	return true;
}

/* Puts a bound into one end; a fixed one wins, then the tighter, the first. */
static void
tighten(SjBound *end, const SjBound *bound, int64 usec, bool is_upper)
{
	SjBound		new_end = *bound;

	new_end.usec = bound->calendar ? 0 : usec;
	if (!end->known || (end->calendar && !new_end.calendar))
		*end = new_end;
	else if (end->calendar || new_end.calendar)
		return;
	else if (is_upper ? usec < end->usec : usec > end->usec)
		*end = new_end;
}

static void
apply_range(SjBounds *bounds, const SjRange *range)
{
	int64		usec = range->bound.usec;

	switch (range->strategy)
	{
		case BTLessStrategyNumber:
			tighten(&bounds->upper, &range->bound, usec - 1, true);
			break;
		case BTLessEqualStrategyNumber:
			tighten(&bounds->upper, &range->bound, usec, true);
			break;
		case BTEqualStrategyNumber:
			tighten(&bounds->lower, &range->bound, usec, false);
			tighten(&bounds->upper, &range->bound, usec, true);
			break;
		case BTGreaterEqualStrategyNumber:
			tighten(&bounds->lower, &range->bound, usec, false);
			break;
		case BTGreaterStrategyNumber:
			tighten(&bounds->lower, &range->bound, usec + 1, false);
			break;
		default:
			elog(ERROR, "unexpected strategy %d", range->strategy);
	}
}

List *
sj_set_bounds(SjJoinQuery *q, List *ranges)
{
	List	   *covered = NIL;
	ListCell   *lc;

	foreach(lc, ranges)
	{
		SjRange    *range = lfirst(lc);

		if (!range_counts(q, range))
			continue;
		apply_range(&q->bounds, range);
		if (!range->bound.calendar)
			covered = lappend(covered, range->condition);
	}
	q->kind = (q->bounds.lower.known || q->bounds.upper.known) ?
		SJ_INTERVAL_JOIN : SJ_WIDE_JOIN;
	return covered;
}

/*
 * The bounds that the query itself contains: an end that is known in
 * q->bounds and not in these comes from a ttl.
 */
void
sj_written_bounds(const SjJoinQuery *q, SjBounds *bounds)
{
	SjJoinQuery copy = *q;
	SjConditions conditions;

	memset(&copy.bounds, 0, sizeof(copy.bounds));
	copy.bounds.with_zone = q->bounds.with_zone;
	sj_query_conditions(q->query, &conditions);
	sj_set_bounds(&copy, sj_ranges_read(q, conditions.join));
	*bounds = copy.bounds;
}
