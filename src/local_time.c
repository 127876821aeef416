/*-------------------------------------------------------------------------
 *
 * local_time.c
 *	  Event times of type timestamp, beside clocks and in columns of type
 *	  timestamptz.
 *
 * IDENTIFICATION
 *	  src/local_time.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "local_time.h"
#include "utils/datetime.h"

SjTime
sj_time_of_zoned(TimestampTz zoned, bool local)
{
	struct pg_tm tm;
	fsec_t		fsec;
	int			tz;
	Timestamp	timestamp;

	if (!local || !IS_VALID_TIMESTAMP(zoned) ||
		timestamp2tm(zoned, &tz, &tm, &fsec, NULL, NULL) != 0 ||
		tm2timestamp(&tm, fsec, NULL, &timestamp) != 0)
		return zoned;
	return timestamp;
}

TimestampTz
sj_time_to_zoned(SjTime event_time, bool local)
{
	int			overflow;

	/* a watermark may lie before all timestamps */
	if (event_time < MIN_TIMESTAMP)
		return DT_NOBEGIN;
	if (event_time >= END_TIMESTAMP)
		return DT_NOEND;
	return local ? timestamp2timestamptz_opt_overflow(event_time, &overflow) :
		event_time;
}
