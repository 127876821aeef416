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

/* 400 years: then dates, days of the week and changes of the clock repeat */
#define USECS_PER_ERA	(INT64CONST(146097) * USECS_PER_DAY)
/* Longer intervals are not added near the ends of time. */
#define LONGEST_NEAR_END	(7 * USECS_PER_ERA)

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

/*
 * How far from the event time its sum with the interval, or what PostgreSQL
 * has on the way to it, can lie: parts of different signs do not cancel out.
 */
static int64
interval_span(const Interval *interval)
{
	int64		days = Abs((int64) interval->month) * 31 +
	Abs((int64) interval->day);
	int64		usec = interval->time;
	int64		span;

	if (usec == PG_INT64_MIN ||
		__builtin_mul_overflow(days, 25 * USECS_PER_HOUR, &span))
		return PG_INT64_MAX;
	return sj_time_add(span, Abs(usec));
}

/*
 * How far to move event_time, by whole eras, so that PostgreSQL's own function
 * can add the interval or take it off without running out of range.  Far in
 * the past and far in the future the clock is changed in an era as in the
 * next, or not at all.  False: the interval is too long for that.
 */
static bool
shift_to_safety(const Interval *interval, SjTime event_time, int64 *shift)
{
	int64		most = interval_span(interval);
	int64		eras;

	*shift = 0;
	if (most <= END_TIMESTAMP / 2 &&
		event_time > MIN_TIMESTAMP + most + SAFE_DISTANCE &&
		event_time < END_TIMESTAMP - most - SAFE_DISTANCE)
		return true;
	if (most > LONGEST_NEAR_END)
		return false;
	eras = (most + SAFE_DISTANCE) / USECS_PER_ERA + 1;
	*shift = (event_time > 0 ? -eras : eras) * USECS_PER_ERA;
	return true;
}

/*
 * event_time plus or minus an interval, as SQL computes it; out of range it is
 * infinite (T5: arithmetic saturates), and where that cannot be told, in the
 * direction 'outward'.
 */
SjTime
sj_time_add_interval(bool with_zone, SjTime event_time,
					 const Interval *interval, bool subtract, int outward)
{
	PGFunction	function;
	SjTime		sum;
	int64		shift;

	if (!SJ_TIME_IS_FINITE(event_time))
		return event_time;
	if (!shift_to_safety(interval, event_time, &shift))
		return outward > 0 ? SJ_TIME_MAX : SJ_TIME_MIN;

	if (with_zone)
		function = subtract ? timestamptz_mi_interval :
			timestamptz_pl_interval;
	else
		function = subtract ? timestamp_mi_interval : timestamp_pl_interval;
	sum = DatumGetInt64(DirectFunctionCall2(function,
											Int64GetDatum(event_time + shift),
											PointerGetDatum(interval)));
	sum = sj_time_sub(sum, shift);
	if (sum < MIN_TIMESTAMP)
		return SJ_TIME_MIN;
	return sum < END_TIMESTAMP ? sum : SJ_TIME_MAX;
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

	end = sj_time_add_interval(bounds->with_zone, event_time,
							   &bound->interval,
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
