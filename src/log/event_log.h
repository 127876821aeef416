/*-------------------------------------------------------------------------
 *
 * event_log.h
 *	  The event log: what the streams' writers did, in chunks, in rotating
 *	  segments (A3).
 *
 * A segment is a relation sjoin.log_0 .. log_<SJ_LOG_SEGMENTS - 1> with the
 * columns
 *
 *		xid			xid8		top-level transaction that wrote the chunk
 *		seq			int8		sequence number of its first record
 *		n			int4		records in it
 *		layout		int4		whose rows these are (sjoin.layout), or a
 *								negative number: rows that join -layout
 *								carried forward
 *		source		oid			the partition they are of; 0: the stream's own
 *								table; of 'R' the result of the join
 *		changes		boolean		holds records other than insertions and
 *								control records
 *		captured_at	timestamptz	clock when the chunk was closed
 *		data		bytea		the records, each MAXALIGNed
 *
 * and a btree on xid.  The relations are of kind materialized view: they are
 * in no publication, whatever FOR ALL TABLES says.
 *
 * IDENTIFICATION
 *	  src/log/event_log.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_EVENT_LOG_H
#define SJ_EVENT_LOG_H

#include "sjoin.h"

#include "executor/tuptable.h"
#include "log/tick.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#define SJ_LOG_SEGMENTS		4

/* Bytes of records in a chunk, unless one record is larger. */
#define SJ_CHUNK_BYTES		8000

/*
 * A record.  'I' is followed by the new image, 'D' by the old one, 'U' by the
 * new and then, MAXALIGNed, the old one; 'T' (all rows of the chunk's source
 * left the stream: TRUNCATE, DROP or DETACH) by nothing; 'W'
 * (advance_watermark) by an SjTime, SJ_TIME_MIN for "newest event time seen";
 * 'R' (replay_late, in the layout of the join's left stream, in chunks of their
 * own) by an SjReplayRequest;
 * 'Q' (inputs without rows for a while) by an SjQuietRecord; 'A' (alteration) by
 * an SjSettingsRecord; 'C' (carried forward) by an SjCarriedRow and a tuple.  Images are
 * MinimalTuples in the chunk's layout.
 *
 * Within a transaction the records of one layout and source have ascending
 * numbers in the order in which they were captured; those of different sources
 * do not.
 */
#define SJ_OP_INSERT	'I'
#define SJ_OP_UPDATE	'U'
#define SJ_OP_DELETE	'D'
#define SJ_OP_TRUNCATE	'T'
#define SJ_OP_WATERMARK	'W'
#define SJ_OP_REPLAY	'R'
#define SJ_OP_QUIET		'Q'
#define SJ_OP_SETTINGS	'A'
#define SJ_OP_CARRIED	'C'

/* What says something of time or settings and not of a row (A4). */
#define SJ_OP_IS_CONTROL(op) \
	((op) == SJ_OP_WATERMARK || (op) == SJ_OP_QUIET || \
	 (op) == SJ_OP_SETTINGS || (op) == SJ_OP_REPLAY)

typedef struct SjLogRecord
{
	uint32		size;			/* of the whole record, MAXALIGNed */
	char		op;
	char		pad[3];
} SjLogRecord;

#define SJ_RECORD_IMAGE(record) \
	((MinimalTuple) ((char *) (record) + MAXALIGN(sizeof(SjLogRecord))))
/* 'U': the old image */
#define SJ_RECORD_OLD_IMAGE(record) \
	((MinimalTuple) ((char *) SJ_RECORD_IMAGE(record) + \
					 MAXALIGN(SJ_RECORD_IMAGE(record)->t_len)))
#define SJ_RECORD_BODY(record) \
	((void *) ((char *) (record) + MAXALIGN(sizeof(SjLogRecord))))
#define SJ_RECORD_WATERMARK(record) \
	(*(SjTime *) SJ_RECORD_BODY(record))
#define SJ_RECORD_REPLAY(record) ((SjReplayRequest *) SJ_RECORD_BODY(record))

/* Late rows that a join is to take in after all. */
typedef struct SjReplayRequest
{
	int32		join_id;
	int32		n;
	int64		late_id[FLEXIBLE_ARRAY_MEMBER];
} SjReplayRequest;

/* What the worker has found of the inputs of a join (T7), by side. */
typedef struct SjQuietRecord
{
	int32		join_id;
	int32		pad;
	int64		woken[2];		/* SjClock.woken when this was found; -1: holds
								 * whatever it is */
	int64		quiet[2];		/* usec without a row */
	int64		idle[2];		/* SjIdleness */
	int64		move[2];		/* usec that the watermark moves on */
} SjQuietRecord;

/*
 * Settings from now on, as SjLogSettings has them: those of a join, or with
 * join_id 0 those of the stream whose layout the chunk has.
 */
typedef struct SjSettingsRecord
{
	int32		join_id;
	int32		late_rows;
	int64		timeout;
	int64		allowed_lateness;
	int64		delay;
	int64		max_future;
} SjSettingsRecord;

typedef struct SjCarriedRow
{
	int64		seq;
	uint32		degree;
	Oid			source;			/* as in SjChunk, of this row */
	uint8		side;
	bool		padded;
	bool		has_key;
	char		pad;
	uint16		flags;			/* of SjRow: SJ_ROW_CARRIED */
	char		pad2[2];
	int64		version;		/* on a side with an upsert key */
	SjTime		due;			/* the deadline that it came with (T9) */
} SjCarriedRow;

/* A chunk in memory, to be written or as read. */
typedef struct SjChunk
{
	FullTransactionId xid;		/* set by sj_log_append */
	int64		seq;			/* set by sj_log_append */
	int32		n;
	int32		layout;
	Oid			source;			/* partition that the images are of; InvalidOid:
								 * the stream's own table */
	bool		changes;		/* has records other than insertions and
								 * control records */
	TimestampTz captured_at;	/* set by sj_log_append */
	Size		len;
	char	   *data;			/* MAXALIGNed */
} SjChunk;

/* A transaction of a tick, as sj_log_open_tick finds it. */
typedef struct SjLogTxn
{
	FullTransactionId xid;
	int64		last_seq;		/* orders the transactions of a tick (A4) */
	int64		nrecords;
	bool		changes;		/* one of its chunks has */
	int			first_chunk;	/* in SjTickReader.chunks */
	int			nchunks;
} SjLogTxn;

typedef struct SjChunkRef SjChunkRef;

/* The transactions of one tick; allocated in the current context. */
typedef struct SjTickReader
{
	SjLogTxn   *txns;			/* in consumption order */
	int			ntxns;
	SjChunkRef *chunks;			/* of a transaction: ascending seq */
	int			nchunks;
	Relation	segments[SJ_LOG_SEGMENTS];	/* open, AccessShareLock */
	TupleTableSlot *slots[SJ_LOG_SEGMENTS];
	Snapshot	snapshot;
} SjTickReader;

/*
 * Writes chunks into the open segment, in the current transaction, numbering
 * their records.  Needs no right of the caller's; pushes its own snapshot.
 * Does nothing where the extension is not installed (any more).
 *
 * Numbers are taken at that moment, never from a stock: a transaction that
 * builds on another's rows took its row locks after that one's commit, so its
 * last number is the greater one.  That is what makes the order of last_seq
 * within a tick an order of cause and effect.
 */
extern void sj_log_append(SjChunk *chunks, int nchunks);

/*
 * The two halves of sj_log_append, for a writer that must number chunks before
 * it can write them (a parent's, when a subtransaction writes its own first).
 * Numbers of later calls are greater.
 */
extern void sj_log_number(SjChunk *chunks, int nchunks);
extern void sj_log_write(SjChunk *chunks, int nchunks);

/*
 * The transactions visible in 'tick' and not in 'before', read under the
 * active snapshot, which must see at least what 'tick' sees.  Carried rows are
 * not among them.
 */
extern SjTickReader *sj_log_open_tick(const SjTick *before, const SjTick *tick);
/* Reads chunk 'i' of the reader; memory in the current context. */
extern void sj_log_read_chunk(SjTickReader *reader, int i, SjChunk *chunk);
/* What chunk 'i' says of itself, without reading it. */
extern int32 sj_log_chunk_layout(const SjTickReader *reader, int i);
extern bool sj_log_chunk_changes(const SjTickReader *reader, int i);
extern Oid	sj_log_chunk_source(const SjTickReader *reader, int i);
extern void sj_log_close_tick(SjTickReader *reader);

/* Chunks of one transaction with one layout (carried rows), ascending seq. */
extern SjTickReader *sj_log_open_txn(FullTransactionId xid, int32 layout);

/* Is there a chunk that 'before' does not see and the active snapshot does? */
extern bool sj_log_has_news(const SjTick *before);

/*
 * Upkeep, by the database worker, in a transaction of its own.  Opens the next
 * segment once the open one has grown beyond segment_bytes, and empties
 * sealed ones whose transactions are all older than 'needed'.  Never waits for
 * a lock; returns the bytes that the log now takes, and whether it has emptied
 * a segment.
 */
extern int64 sj_log_maintain(FullTransactionId needed, int64 segment_bytes,
							 bool *emptied);

/* Number of the segment writers append to; set in shared memory at start. */
extern void sj_log_choose_open_segment(void);

#endif							/* SJ_EVENT_LOG_H */
