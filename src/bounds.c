/*-------------------------------------------------------------------------
 *
 * bounds.c
 *	  The time range of a join: from conditions to partners and deadlines.
 *
 * A range says  left.ts + lower <= right.ts <= left.ts + upper.  Seen from a
 * left row the partners lie in ts + lower .. ts + upper, seen from a right row
 * in ts - upper .. ts - lower; everything else follows from these two ends
 * (T5).
 *
 * A calendar interval is exact where it is added to the event time at hand.
 * Its inverse is not a function ("the day whose next month is 30 March"), so
 * the other side takes the interval off and some days more, outwards: partners
 * are looked for in too large a range and left to the condition itself, and
 * rows stay longer.  Adding an interval of months and taking it off again
 * comes out at most three days away; for the range and for the time a row
 * stays, which nobody sees, another day covers changes of the clock.
 *
 * IDENTIFICATION
 *	  src/bounds.c
 *
 *-------------------------------------------------------------------------
 */
#include "bounds.h"

#include "datatype/timestamp.h"
#include "fmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#define RANGE_SLACK		(4 * USECS_PER_DAY)
#define SAFE_DISTANCE	(10 * USECS_PER_DAY)	/* from the ends of time */

/* An upper limit of an interval's length, whatever the date. */
static int64
interval_limit(const Interval *interval, bool negate)
{
	int64		months = negate ? -(int64) interval->month : interval->month;
	int64		days = negate ? -(int64) interval->day : interval->day;
	int64		usec = interval->time;
	int64		limit;

	if (negate)
		usec = usec == PG_INT64_MIN ? PG_INT64_MAX : -usec;
	months *= (months > 0 ? 31 : 28) * USECS_PER_DAY / USECS_PER_HOUR;
	days *= days > 0 ? 25 : 23;
	if (__builtin_mul_overflow(months + days, USECS_PER_HOUR, &limit))
		return months + days > 0 ? PG_INT64_MAX : PG_INT64_MIN;
	return sj_time_add(limit, usec);
}

/* May PostgreSQL's own function be called without running out of range? */
static bool
is_safe(const Interval *interval, SjTime event_time)
{
	int64		forth = interval_limit(interval, false);
	int64		back = interval_limit(interval, true);
	int64		most = Max(forth, back);

	if (most > END_TIMESTAMP / 2)
		return false;
	most = Max(most, 0) + SAFE_DISTANCE;
	return event_time > MIN_TIMESTAMP + most &&
		event_time < END_TIMESTAMP - most;
}

/*
 * event_time plus or minus a calendar interval, as SQL computes it; at the
 * ends of time the infinity in the direction 'outward'.
 */
static SjTime
add_interval(const SjBounds *bounds, SjTime event_time,
			 const Interval *interval, bool subtract, int outward)
{
	PGFunction	function;
	Datum		sum;

	if (!is_safe(interval, event_time))
		return outward > 0 ? SJ_TIME_MAX : SJ_TIME_MIN;

	if (bounds->with_zone)
		function = subtract ? timestamptz_mi_interval :
			timestamptz_pl_interval;
	else
		function = subtract ? timestamp_mi_interval : timestamp_pl_interval;
	sum = DirectFunctionCall2(function, Int64GetDatum(event_time),
							  PointerGetDatum(interval));
	return DatumGetInt64(sum);
}

/*
 * Where a bound lies, seen from a row of 'side': the end of its partners'
 * range in the direction 'outward' (1: latest, -1: earliest).
 *
 * Where only the inverse of a calendar interval is known, 'slack' farther out.
 */
static SjTime
partner_end(const SjBounds *bounds, const SjBound *bound, SjSide side,
			SjTime event_time, int outward, int64 slack)
{
	bool		exact = bound->base == side;
	SjTime		end;

	if (!bound->known)
		return outward > 0 ? SJ_TIME_MAX : SJ_TIME_MIN;
	if (!bound->calendar)
		return side == SJ_LEFT ? sj_time_add(event_time, bound->usec) :
			sj_time_sub(event_time, bound->usec);

	end = add_interval(bounds, event_time, &bound->interval,
					   exact ? bound->subtracted : !bound->subtracted,
					   outward);
	return exact ? end : sj_time_add(end, outward * slack);
}

/*
 * What the range says of one row.
 *
 * Calendar arithmetic uses the session's TimeZone, as SQL does.
 */
void
sj_bounds_reach(const SjBounds *bounds, SjSide side, SjTime event_time,
				SjReach *reach)
{
	const SjBound *earliest;
	const SjBound *latest;

	earliest = side == SJ_LEFT ? &bounds->lower : &bounds->upper;
	latest = side == SJ_LEFT ? &bounds->upper : &bounds->lower;

	reach->from = partner_end(bounds, earliest, side, event_time, -1,
							  RANGE_SLACK);
	reach->until = partner_end(bounds, latest, side, event_time, 1,
							   RANGE_SLACK);
	reach->expires = Max(event_time, reach->until);
	if (bounds->timeout[side] >= 0)
		reach->due = sj_time_add(event_time, bounds->timeout[side]);
	else if (latest->known && latest->calendar)
		reach->due = partner_end(bounds, latest, side, event_time, 1,
								 SJ_DUE_SLACK);
	else
		reach->due = reach->until;
}

/*
 * The greatest expires - event_time of a row of 'side', for calendar bounds an
 * upper limit of it; PG_INT64_MAX where the range is open.
 */
int64
sj_bounds_keep(const SjBounds *bounds, SjSide side)
{
	const SjBound *bound = side == SJ_LEFT ? &bounds->upper : &bounds->lower;
	int64		keep;

	if (!bound->known)
		return PG_INT64_MAX;
	if (bound->calendar)
	{
		/* added to the other side's time: seen from here it is taken off */
		bool		negate = bound->subtracted == (bound->base == side);

		keep = interval_limit(&bound->interval, negate);
		keep = sj_time_add(keep, RANGE_SLACK);
	}
	else if (side == SJ_LEFT)
		keep = bound->usec;
	else
		keep = sj_time_sub(0, bound->usec);
	return Max(keep, 0);
}

/* The widest bound: max(0, upper, -lower), in usec. */
int64
sj_bounds_widest(const SjBounds *bounds)
{
	int64		left = sj_bounds_keep(bounds, SJ_LEFT);
	int64		right = sj_bounds_keep(bounds, SJ_RIGHT);

	return Max(left, right);
}
