/*-------------------------------------------------------------------------
 *
 * capture.h
 *	  From a row change to the event log, in the writer's transaction (A2).
 *
 * IDENTIFICATION
 *	  src/capture/capture.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_CAPTURE_H
#define SJ_CAPTURE_H

#include "sjoin.h"

#include "utils/rel.h"

/* Names of the triggers, which sort before a user's. */
#define SJ_ROW_TRIGGER		"!sjoin_row"
#define SJ_TRUNCATE_TRIGGER	"!sjoin_truncate"

/* Called once from _PG_init: transaction, invalidation and access hooks. */
extern void sj_capture_init(void);

/* Adds the triggers to a table and its partitions; caller holds
 * ShareRowExclusiveLock on all of them. */
extern void sj_capture_install(Oid relid);
extern void sj_capture_remove(Oid relid);

/*
 * Tells the database's worker that there is something to read.  Done after
 * every commit that wrote to the log; left to the caller after COMMIT
 * PREPARED.
 */
extern void sj_capture_wake(void);

/* Has the current transaction changed rows of streams? */
extern bool sj_capture_has_written(void);

/* Buffers a 'W' record of the stream, written when the transaction commits. */
extern void sj_capture_watermark(Oid relid, SjTime watermark);

#endif							/* SJ_CAPTURE_H */
