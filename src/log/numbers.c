/*-------------------------------------------------------------------------
 *
 * numbers.c
 *	  Sequence numbers of log records, from the sequence sjoin.log_seq.
 *
 * The sequence counts blocks of SJ_NUMBER_BLOCK numbers, so one fetch serves
 * a whole transaction, and it is a sequence so that a dump carries it: what a
 * restored database writes is numbered above what it had written before.
 *
 * nextval() itself will not do in somebody else's transaction.  It would
 * change what lastval() returns to him, it refuses a transaction that has been
 * made read-only after its last write, and it gives one value at a time.  This
 * is its heart without these: the page under its buffer lock, a WAL record for
 * every BLOCKS_LOGGED_AHEAD blocks, as nextval() does, so that the two can be
 * mixed.
 *
 * IDENTIFICATION
 *	  src/log/numbers.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "commands/sequence.h"
#include "log/numbers.h"
#include "miscadmin.h"
#include "relations.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#define SJ_NUMBER_BLOCK		65536	/* INCREMENT of the sequence */
#define BLOCKS_LOGGED_AHEAD	32

/* Logs the sequence as it will be BLOCKS_LOGGED_AHEAD blocks after 'last'. */
static void
log_sequence(Relation rel, Buffer buffer, HeapTupleHeader tuple, Size len,
			 int64 last)
{
	Form_pg_sequence_data seq;
	xl_seq_rec	xlrec;
	XLogRecPtr	lsn;

	seq = (Form_pg_sequence_data) ((char *) tuple + tuple->t_hoff);
	seq->last_value = last + BLOCKS_LOGGED_AHEAD * (int64) SJ_NUMBER_BLOCK;
	seq->is_called = true;
	seq->log_cnt = 0;

	xlrec.node = rel->rd_node;
	XLogBeginInsert();
	XLogRegisterBuffer(0, buffer, REGBUF_WILL_INIT);
	XLogRegisterData((char *) &xlrec, sizeof(xl_seq_rec));
	XLogRegisterData((char *) tuple, len);
	lsn = XLogInsert(RM_SEQ_ID, XLOG_SEQ_LOG);
	PageSetLSN(BufferGetPage(buffer), lsn);
}

/* Advances the sequence by whole blocks; returns the first number of them. */
static int64
take_blocks(Relation rel, int64 nblocks)
{
	Buffer		buffer = ReadBuffer(rel, 0);
	Page		page;
	ItemId		item;
	HeapTupleHeader tuple;
	Form_pg_sequence_data seq;
	int64		first;
	int64		last;
	int64		logged;

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	page = BufferGetPage(buffer);
	item = PageGetItemId(page, FirstOffsetNumber);
	tuple = (HeapTupleHeader) PageGetItem(page, item);
	seq = (Form_pg_sequence_data) ((char *) tuple + tuple->t_hoff);

	first = seq->last_value + (seq->is_called ? SJ_NUMBER_BLOCK : 0);
	last = first + (nblocks - 1) * SJ_NUMBER_BLOCK;
	logged = seq->log_cnt - nblocks;

	START_CRIT_SECTION();
	MarkBufferDirty(buffer);
	/* after a checkpoint recovery starts behind the last record */
	if (!seq->is_called || logged < 0 || PageGetLSN(page) <= GetRedoRecPtr())
	{
		if (RelationNeedsWAL(rel))
			log_sequence(rel, buffer, tuple, ItemIdGetLength(item), last);
		logged = BLOCKS_LOGGED_AHEAD;
	}
	seq->last_value = last;
	seq->is_called = true;
	seq->log_cnt = logged;
	END_CRIT_SECTION();

	UnlockReleaseBuffer(buffer);
	return first;
}

int64
sj_numbers_take(int64 count)
{
	Relation	rel = sj_try_open("log_seq", RowExclusiveLock);
	int64		first;

	if (rel == NULL)
		return 0;
	/* before the critical section */
	(void) GetTopTransactionId();
	first = take_blocks(rel, (count + SJ_NUMBER_BLOCK - 1) / SJ_NUMBER_BLOCK);
	relation_close(rel, NoLock);
	return first;
}
