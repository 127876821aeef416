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

#include "access/attnum.h"
#include "nodes/nodes.h"

/* Names of the triggers, which sort before a user's. */
#define SJ_ROW_TRIGGER		"!sjoin_row"
#define SJ_DELETE_TRIGGER	"!sjoin_delete"
#define SJ_TRUNCATE_TRIGGER	"!sjoin_truncate"

/* Called once from _PG_init: transaction, invalidation and access hooks. */
extern void sj_capture_init(void);

/*
 * Adds the triggers to a stream and its partitions, or puts them right, as the
 * owner of each.  The caller holds ShareRowExclusiveLock on all of them and has
 * made sure that the stream has been declared by its owner.
 */
extern void sj_capture_install(Oid relid, AttrNumber time_attno);
extern void sj_capture_remove(Oid relid);
/* What a partition needs, or has had, of its own. */
extern void sj_capture_install_partition(Oid relid);
extern void sj_capture_remove_partition(Oid relid);

/* Buffers the rows that a partition has already, as insertions. */
extern void sj_capture_rows(Oid relid);

/* The event time in the condition of a delete trigger; 0: it is none of ours. */
extern AttrNumber sj_capture_condition_attno(Node *condition);

/* After CREATE TABLE and ALTER TABLE: partitions of streams that came or went. */
extern void sj_capture_after_command(Node *statement);
/* Runs a TRUNCATE. */
extern void sj_capture_truncate(void (*run) (void *arg), void *arg);

/*
 * Tells the database's worker that there is something to read.  Done after
 * every commit that wrote to the log; left to the caller after COMMIT
 * PREPARED.
 */
extern void sj_capture_wake(void);

/* Has the current transaction changed rows of streams? */
extern bool sj_capture_has_written(void);
/* The same, of one stream. */
extern bool sj_capture_has_written_to(Oid stream);

/*
 * Buffers a control record of the stream, written when the transaction
 * commits.
 */
extern PGDLLEXPORT void sj_capture_control(Oid relid, char op,
										   const void *body, Size size);
/* Records that a join is to take in late rows; 'relid' is its left stream. */
extern void sj_capture_replay(Oid relid, Oid result, int32 join_id,
							  const int64 *late_ids, int n);

#endif							/* SJ_CAPTURE_H */
