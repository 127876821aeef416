/*-------------------------------------------------------------------------
 *
 * feed.h
 *	  Taking the records of a transaction one by one; private to src/worker.
 *
 * IDENTIFICATION
 *	  src/worker/feed.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_FEED_H
#define SJ_FEED_H

#include "sjoin.h"

#include "log/event_log.h"
#include "worker/task.h"

/*
 * The place in a transaction: a record, and for which side it is taken next.
 *
 * 'take' is called in a subtransaction for each record and side; what it has
 * thrown on is offered to 'take_safely' outside of it, and then the rest goes
 * on.  'take' must change nothing before it throws.
 */
typedef struct SjFeed
{
	SjTask	   *task;
	SjBatch    *batch;
	void		(*take) (struct SjFeed *feed, SjSide side);
	void		(*take_safely) (struct SjFeed *feed, SjSide side);
	void	   *arg;			/* for the two */
	SjImageLayout *layout[2];	/* of the chunk; NULL: not that side's table */
	SjChunk		chunk;
	char	   *space;
	int			record;
	SjSide		side;
	TimestampTz captured_at;	/* latest of the chunks taken */
	bool		concerned;		/* a record meant this join */
} SjFeed;

/* The record at hand, and its sequence number. */
extern SjLogRecord *sj_feed_record(const SjFeed *feed);
extern int64 sj_feed_seq(const SjFeed *feed);

/*
 * Takes all records of the transaction that are of the join's streams, or only
 * chunks that hold changes of rows.
 */
extern void sj_feed_chunks(SjFeed *feed, SjTickReader *reader,
						   const SjLogTxn *txn, bool changes_only);

/*
 * T1: a finite time is seen before any filter.  'inserted': the row has come
 * with this image.
 */
extern void sj_feed_see_time(SjTask *task, SjBatch *batch, SjSide side,
							 SjImageLayout *layout, MinimalTuple image,
							 TimestampTz captured_at, bool inserted);

/* feed_control.c: a control record; false when the record is none */
extern bool sj_feed_control(SjFeed *feed, SjSide side);
/* Settings that the step has changed take hold. */
extern void sj_feed_end_settings(SjTask *task);

/* feed_changes.c: a transaction that has changed or removed rows */
extern void sj_feed_changes(SjFeed *feed, SjTickReader *reader,
							const SjLogTxn *txn);

#endif							/* SJ_FEED_H */
