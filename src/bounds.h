/*-------------------------------------------------------------------------
 *
 * bounds.h
 *	  The time range of a join: from conditions to partners and deadlines.
 *
 * IDENTIFICATION
 *	  src/bounds.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_BOUNDS_H
#define SJ_BOUNDS_H

#include "sjoin.h"

/*
 * One end of the range, as a distance  right.ts - left.ts.
 *
 * A distance is a fixed number of microseconds, or a calendar interval (one
 * with months, or with days where the event time is timestamptz), whose length
 * depends on the date it is added to.
 */
typedef struct SjBound
{
	bool		known;			/* false: this end is open to infinity */
	bool		calendar;
	int64		usec;			/* !calendar: the distance, closed (an open
								 * bound is a microsecond tighter) */
	Interval	interval;		/* calendar: the interval as written */
	bool		subtracted;		/* calendar: it was subtracted, not added */
	SjSide		base;			/* calendar: the side whose event time it was
								 * added to */
} SjBound;

typedef struct SjBounds
{
	bool		with_zone;		/* event times are timestamptz */
	SjBound		lower;			/* right.ts >= left.ts + lower */
	SjBound		upper;			/* right.ts <= left.ts + upper */
	int64		timeout[2];		/* pad after; -1: the bound */
} SjBounds;

/* What the range says of one row (T5, T6). */
typedef struct SjReach
{
	SjTime		from;			/* partners' event times lie in from .. until;
								 * with calendar bounds in a part of it */
	SjTime		until;
	SjTime		due;			/* deadline */
	SjTime		expires;		/* stays in state until horizon > expires */
} SjReach;

/*
 * The deadline of a row that has only the inverse of a calendar interval is so
 * much later, in usec: three days for the ends of months, and two hours for a
 * change of the clock on top of it.
 */
#define SJ_DUE_SLACK	(3 * USECS_PER_DAY + 2 * USECS_PER_HOUR)

/* Calendar arithmetic uses the session's TimeZone, as SQL does. */
extern SjTime sj_time_add_interval(bool with_zone, SjTime event_time,
								   const Interval *interval, bool subtract,
								   int outward);
extern void sj_bounds_reach(const SjBounds *bounds, SjSide side,
							SjTime event_time, SjReach *reach);
/* greatest max(0, upper), max(0, -lower), for calendar bounds an upper limit */
extern int64 sj_bounds_keep(const SjBounds *bounds, SjSide side);
/* the widest bound: max(0, upper, -lower), usec (T3) */
extern int64 sj_bounds_widest(const SjBounds *bounds);

#endif							/* SJ_BOUNDS_H */
