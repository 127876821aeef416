/*-------------------------------------------------------------------------
 *
 * query_shape.c
 *	  The options that shape a join: ttl, side_ttl and timeout (T6).
 *
 * ttl of the left says how far after a left row its partners may come, so it
 * is an upper bound; ttl of the right is a lower one.  It closes the ends
 * that the query leaves open and nothing else: a second, different answer to
 * the same question would only hide a mistake.
 *
 * IDENTIFICATION
 *	  src/catalog/query_shape.c
 *
 *-------------------------------------------------------------------------
 */
#include "sjoin.h"

#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"
#include "utils/builtins.h"

#include "catalog/query_parts.h"

/* What a calendar bound measures at least, in usec. */
#define SHORTEST_MONTH	28		/* days */
#define SHORTEST_DAY	(23 * USECS_PER_HOUR)

/* Reads an interval of side_ttl as usec. */
static int64
side_ttl_value(const char *alias, const char *text)
{
	Datum		value = DirectFunctionCall3(interval_in,
											CStringGetDatum(text),
											ObjectIdGetDatum(InvalidOid),
											Int32GetDatum(-1));
	Interval   *interval = DatumGetIntervalP(value);

	if (interval->month != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("ttl of \"%s\" must not contain months", alias),
				 errhint("Months differ in length; use days.")));
	return (int64) interval->day * USECS_PER_DAY + interval->time;
}

static void
check_positive(const char *name, int64 usec)
{
	if (usec <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be greater than zero", name)));
}

/* Finds the input that an entry of side_ttl names. */
static SjSide
side_of_alias(const SjJoinQuery *q, const char *alias)
{
	int			side;

	for (side = 0; side < 2; side++)
		if (strcmp(q->input[side].alias, alias) == 0)
			return side;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("side_ttl names \"%s\", which is not an input", alias),
			 errhint("The inputs are called \"%s\" and \"%s\" in the query.",
					 q->input[SJ_LEFT].alias, q->input[SJ_RIGHT].alias)));
	return SJ_LEFT;				/* keep compiler quiet */
}

/* The ttl of each side, -1 where none is given. */
static void
read_ttls(const SjJoinQuery *q, const SjJoinShape *shape, int64 ttl[2],
		  bool own[2])
{
	ListCell   *lc;
	int			side;

	if (shape->ttl != -1)
		check_positive("ttl", shape->ttl);
	for (side = 0; side < 2; side++)
	{
		ttl[side] = shape->ttl;
		own[side] = false;
	}
	foreach(lc, shape->side_ttl)
	{
		DefElem    *entry = lfirst_node(DefElem, lc);

		side = side_of_alias(q, entry->defname);
		ttl[side] = side_ttl_value(entry->defname, strVal(entry->arg));
		own[side] = true;
		check_positive(psprintf("ttl of \"%s\"", entry->defname), ttl[side]);
	}
}

/* Says that an end of the range is open and no ttl closes it. */
static void pg_attribute_noreturn()
report_open_end(const SjJoinQuery *q, SjSide side)
{
	const char *us = q->input[side].alias;
	const char *them = q->input[SJ_OTHER(side)].alias;

	if (q->kind == SJ_WIDE_JOIN)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the join has no time range and no ttl for \"%s\"", us),
				 errdetail("Without either, its rows would have to be kept for ever."),
				 errhint("Compare the event times in ON (what stands in WHERE applies after an outer join), or pass ttl (or side_ttl for each input).")));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the time range of the join has no %s bound, and there is no ttl",
					side == SJ_LEFT ? "upper" : "lower"),
			 errdetail("A row of \"%s\" would have to wait for ever for one of \"%s\" that is later.",
					   us, them),
			 errhint("Add the other end of the range to the join condition, or pass ttl.")));
	pg_unreachable();
}

/* Closes the end of the range that is the matter of 'side'. */
static void
close_end(SjJoinQuery *q, SjSide side, int64 ttl, bool own)
{
	SjBound    *end = (side == SJ_LEFT) ? &q->bounds.upper : &q->bounds.lower;

	if (end->known)
	{
		if (own)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("ttl of \"%s\" follows from the time range of the query",
							q->input[side].alias),
					 errhint("Leave it out of side_ttl.")));
		return;
	}
	if (ttl == -1)
		report_open_end(q, side);
	end->known = true;
	end->usec = (side == SJ_LEFT) ? ttl : -ttl;
}

/* Least length of a bound, in usec. */
static int64
shortest(const SjBound *bound)
{
	int64		days = (int64) bound->interval.month * SHORTEST_MONTH;
	int64		usec;

	if (!bound->calendar)
		return bound->usec;
	usec = (days + bound->interval.day) * SHORTEST_DAY + bound->interval.time;
	return (bound->base == SJ_RIGHT) == bound->subtracted ? usec : -usec;
}

static void
check_order(const SjJoinQuery *q)
{
	const SjBounds *bounds = &q->bounds;

	if (!bounds->lower.calendar && !bounds->upper.calendar &&
		bounds->lower.usec > bounds->upper.usec)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the time range of the join is empty"),
				 errdetail("Its lower bound is above its upper bound."),
				 errhint("Check the signs of the intervals, and which event time they are added to.")));
}

static void
apply_timeout(SjJoinQuery *q, int64 timeout)
{
	if (timeout == -1)
		return;
	if (q->join_type == JOIN_INNER)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("timeout is for outer joins"),
				 errdetail("An inner join writes no unmatched rows."),
				 errhint("Leave timeout out, or write LEFT JOIN.")));
	if (timeout < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("timeout must not be negative")));
	if (timeout > shortest(&q->bounds.upper))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("timeout is longer than a row of \"%s\" can find partners",
						q->input[SJ_LEFT].alias),
				 errhint("Pass at most the upper bound of the time range or the ttl; it is the default.")));
	q->bounds.timeout[SJ_LEFT] = timeout;
}

void
sj_apply_shape(SjJoinQuery *q, const SjJoinShape *shape)
{
	int64		ttl[2];
	bool		own[2];
	int			side;

	read_ttls(q, shape, ttl, own);
	if (shape->ttl != -1 && q->bounds.lower.known && q->bounds.upper.known)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("ttl follows from the time range of the query"),
				 errhint("Leave ttl out; to let unmatched rows wait less, pass timeout.")));
	for (side = 0; side < 2; side++)
		close_end(q, side, ttl[side], own[side]);
	check_order(q);
	apply_timeout(q, shape->timeout);
}
