/*-------------------------------------------------------------------------
 *
 * segments.h
 *	  The rotating segments of the event log: which one is open, locking,
 *	  column numbers.
 *
 * IDENTIFICATION
 *	  src/log/segments.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_SEGMENTS_H
#define SJ_SEGMENTS_H

#include "sjoin.h"

#include "log/event_log.h"
#include "utils/relcache.h"

enum
{
	Anum_log_xid = 1,
	Anum_log_seq,
	Anum_log_n,
	Anum_log_layout,
	Anum_log_source,
	Anum_log_changes,
	Anum_log_captured_at,
	Anum_log_data,
	Natts_log = Anum_log_data
};

/* The segment, or NULL where the extension is not installed. */
extern Relation sj_segment_open(int segment, LOCKMODE lockmode);
/* Its btree on xid. */
extern Relation sj_segment_open_index(int segment, LOCKMODE lockmode);

/*
 * The segment to append to, under RowExclusiveLock, to be kept until the end
 * of the transaction; NULL where the extension is not installed.  Caller has
 * an active snapshot.
 */
extern Relation sj_segment_open_to_append(void);

#endif							/* SJ_SEGMENTS_H */
