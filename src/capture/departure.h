/*-------------------------------------------------------------------------
 *
 * departure.h
 *	  Tables whose rows leave a stream all at once.
 *
 * Private to src/capture.
 *
 * IDENTIFICATION
 *	  src/capture/departure.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_DEPARTURE_H
#define SJ_DEPARTURE_H

#include "sjoin.h"

#include "capture/buffer.h"

/* Departures noted in all scopes that are not records yet. */
extern int	sj_departures_pending;

extern void sj_departures_init(void);

/*
 * Makes records of what was noted, each in the scope where it was.  'final':
 * the current scope ends; a truncation noted in it that has not happened by now
 * will not.
 */
extern void sj_departures_settle(bool final);

/* Forgets what the scope has noted. */
extern void sj_departures_forget(SjScope *scope);

/* From the truncate trigger of the table. */
extern void sj_departure_truncated(Oid relid);

/* All rows of the table leave the stream, whose it was. */
extern void sj_departure_of(Oid stream, Oid relid);

/*
 * The stream that captures the rows of the table: itself or an ancestor;
 * InvalidOid when none does.
 */
extern Oid	sj_capturing_stream(Oid relid);

#endif							/* SJ_DEPARTURE_H */
