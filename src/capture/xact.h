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

/* Counts the transactions of this backend. */
extern uint64 sj_transaction_number;

/*
 * Room for a record of 'size' bytes (MAXALIGNed, header included) of the
 * current subtransaction.  'source': the partition that the images are of,
 * InvalidOid for the stream's own table.  The header is filled in, the rest is
 * zero.  May write earlier records to the log; the caller fills in the record
 * before anything else is buffered.
 */
extern SjLogRecord *sj_buffer_record(int32 layout, Oid source, char op,
									 Size size);

#endif							/* SJ_XACT_H */
