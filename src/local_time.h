/*-------------------------------------------------------------------------
 *
 * local_time.h
 *	  Event times of type timestamp, beside clocks and in columns of type
 *	  timestamptz.
 *
 * A timestamp is the reading of some clock on a wall.  What joins do with it
 * needs no zone.  Where a time with a zone has to be compared with it or shown
 * instead of it, it is converted as PostgreSQL does when it casts one type to
 * the other: in the TimeZone of the session, which in a worker is that of the
 * join.  So a timestamp is shown as what stands in the column.
 *
 * IDENTIFICATION
 *	  src/local_time.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_LOCAL_TIME_H
#define SJ_LOCAL_TIME_H

#include "sjoin.h"

/*
 * A time with zone, given by a session or read from a clock, as event time of
 * the given type; infinities, and what the type cannot hold, stay as they are.
 */
extern SjTime sj_time_of_zoned(TimestampTz zoned, bool local);

/* The same back; what timestamptz cannot hold becomes infinite. */
extern TimestampTz sj_time_to_zoned(SjTime event_time, bool local);

#endif							/* SJ_LOCAL_TIME_H */
