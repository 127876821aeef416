/*-------------------------------------------------------------------------
 *
 * tick.h
 *	  Ticks: the snapshots that cut the log into what is consumed together
 *	  (A4).
 *
 * Stored in sjoin.tick: tick int8, xmin xid8, xmax xid8, xip xid8[], at
 * timestamptz.  Append-only; btree on tick.  Kind materialized view.
 *
 * IDENTIFICATION
 *	  src/log/tick.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_TICK_H
#define SJ_TICK_H

#include "sjoin.h"

#include "utils/snapshot.h"

typedef struct SjTick
{
	int64		number;			/* 1, 2, ... */
	FullTransactionId xmin;		/* all older ones are visible, if committed */
	FullTransactionId xmax;		/* this and all newer ones are not */
	int			nxip;
	FullTransactionId *xip;		/* running when it was taken, ascending */
} SjTick;

/* A tick of 'snapshot', not yet stored; memory in the current context. */
extern SjTick *sj_tick_take(int64 number, Snapshot snapshot);
/* Would a committed transaction's rows be seen in the tick? */
extern bool sj_tick_sees(const SjTick *tick, FullTransactionId xid);
extern SjTick *sj_tick_copy(const SjTick *tick);
/* Was 'a' taken later than 'b'? */
extern bool sj_tick_is_later(const SjTick *a, const SjTick *b);
/* A tick as bytes, and back; the number is not among them. */
extern bytea *sj_tick_serialize(const SjTick *tick);
extern SjTick *sj_tick_deserialize(const bytea *bytes, int64 number);
/* Appends it, in the current transaction. */
extern void sj_tick_store(const SjTick *tick);
/* The stored tick, or NULL; memory in the current context. */
extern SjTick *sj_tick_load(int64 number);
/* The newest stored tick, or NULL. */
extern SjTick *sj_tick_newest(void);
/*
 * Drops ticks older than 'needed' once there are many of them, without
 * waiting for a lock; in a transaction of its own.
 */
extern void sj_tick_trim(int64 needed);

#endif							/* SJ_TICK_H */
