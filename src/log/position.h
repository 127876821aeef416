/*-------------------------------------------------------------------------
 *
 * position.h
 *	  How far a join has come: the record that makes a batch exactly once.
 *
 * Written in the transaction that writes the batch's results (R6).  Rows are
 * appended to sjoin.position, the newest of a join counts; the database's
 * worker is their only writer.
 *
 * IDENTIFICATION
 *	  src/log/position.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_POSITION_H
#define SJ_POSITION_H

#include "sjoin.h"

#include "nodes/pg_list.h"
#include "utils/snapshot.h"

/* Totals that survive a restart. */
typedef struct SjInputTotals
{
	int64		rows_in;
	int64		rows_late;
	int64		rows_null_key;
	int64		rows_future;
	int64		rows_filtered;
	int64		rows_unknown;
	int64		rows_matched;
	int64		rows_expired;
} SjInputTotals;

typedef struct SjTotals
{
	int64		rows_out;
	int64		rows_retracted;
	int64		rows_unmatched;
	int64		longest_match;	/* usec between the event times of a pair */
	SjInputTotals input[2];
} SjTotals;

/* Where event time stands; SJ_TIME_MIN: nothing seen yet. */
typedef struct SjLogClock
{
	SjTime		input[2];
	SjTime		max_event_time[2];
	SjTime		watermark;
	SjTime		horizon;
	int64		quiet[2];		/* usec without a row */
	int64		idle[2];		/* SjIdleness */
	int64		woken[2];		/* steps with a row */
} SjLogClock;

/*
 * Settings that the outcome depends on (T9), as they were given; usec.  They
 * change with records of the log, but for the defaults: these change with a
 * checkpoint.
 */
typedef struct SjLogSettings
{
	int64		delay[2];		/* of the streams; -1: the default */
	int64		max_future[2];	/* of the streams; -1: no guard; -2: the
								 * default */
	int64		default_delay;
	int64		default_max_future; /* -1: no guard */
	int64		timeout;		/* of the join; -1: not given, the bound */
	int64		shortest_timeout;	/* of all that have been in force */
	int64		longest_timeout;
	int64		allowed_lateness;	/* the same */
	int64		late_rows;		/* SjLateRows; wide, so that no byte is
								 * padding */
} SjLogSettings;

/*
 * Where a rebuild starts: rows carried forward, and the log after them, read
 * with the settings that were in force then.
 */
typedef struct SjLogBase
{
	int64		start_tick;		/* consumed by the creation of the join, which
								 * saw more than this tick and less than the
								 * next */
	FullTransactionId log_mark; /* how far the log had been emptied then */
	SjLogClock	clock;
	SjLogSettings settings;
} SjLogBase;

typedef struct SjPosition
{
	int32		join_id;

	/* consumed: all ticks before 'tick' + 1, and of the next one 'txns' */
	int64		tick;
	int32		txns;
	SjLogClock	clock;
	SjLogSettings settings;		/* in force */
	int64		result_seq;		/* last sjoin_seq given */

	int64		base_tick;
	int32		base_txns;
	FullTransactionId base_xid; /* wrote the carried rows; invalid: none */
	SjLogBase	base;

	SjTotals	totals;
	int64		serial;			/* of the stored rows; the greatest counts */
} SjPosition;

/* Gives the position its next serial number. */
extern void sj_position_store(SjPosition *position);

/*
 * A position of no join, whose base_xid says how far the log has been emptied:
 * a rebuild must not start before it.
 */
#define SJ_LOG_MARK		0

extern void sj_log_mark_store(FullTransactionId emptied_before);
/* The newest position of each join, list of SjPosition. */
extern List *sj_position_load_all(void);
/* The newest position of a join under the given snapshot, or NULL. */
extern SjPosition *sj_position_load(int32 join_id, Snapshot snapshot);
/*
 * Drops superseded rows once there are many, and those of joins that are not
 * in 'join_ids'; never waits for a lock; in a transaction of its own.
 */
extern void sj_position_trim(List *join_ids);

#endif							/* SJ_POSITION_H */
