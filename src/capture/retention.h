/*-------------------------------------------------------------------------
 *
 * retention.h
 *	  Rows whose deletion no join would notice.
 *
 * Private to src/capture.
 *
 * IDENTIFICATION
 *	  src/capture/retention.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_RETENTION_H
#define SJ_RETENTION_H

#include "sjoin.h"

typedef struct SjWatchedJoin SjWatchedJoin;

/* What this backend knows of a stream; lives as long as the backend. */
typedef struct SjStreamUse
{
	Oid			stream;			/* hash key */
	bool		valid;			/* the joins below are those that read it */
	uint64		written_in;		/* newest sj_transaction_number that has
								 * captured a change of it */
	int			njoins;
	SjWatchedJoin *joins;
} SjStreamUse;

extern SjStreamUse *sj_stream_use(Oid stream);

/* Might a join notice that a row with this event time is gone? */
extern bool sj_row_may_change(SjStreamUse *use, Datum event_time,
							  bool isnull);

#endif							/* SJ_RETENTION_H */
