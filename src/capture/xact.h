/*-------------------------------------------------------------------------
 *
 * xact.h
 *	  Records on their way to the log, per subtransaction.
 *
 * IDENTIFICATION
 *	  src/capture/xact.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_XACT_H
#define SJ_XACT_H

#include "sjoin.h"

#include "log/event_log.h"

extern void sj_xact_init(void);

/*
 * Room for a record of 'size' bytes (MAXALIGNed, header included) of the
 * current subtransaction.  The header is filled in, the rest is zero.  May
 * write earlier records to the log; the caller has an active snapshot and
 * fills in the record before anything else is buffered.
 */
extern SjLogRecord *sj_buffer_record(int32 layout, char op, Size size);

/*
 * Notes that the relation is being truncated.  What stream it belongs to is
 * looked up later, when the statement surely has its locks.
 */
extern void sj_buffer_truncate(Oid relid);

#endif							/* SJ_XACT_H */
