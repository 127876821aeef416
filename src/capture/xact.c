/*-------------------------------------------------------------------------
 *
 * xact.c
 *	  When buffered records are written: early when there are many, else just
 *	  before the top-level commit (or PREPARE).
 *
 * IDENTIFICATION
 *	  src/capture/xact.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "capture/buffer.h"
#include "capture/capture.h"
#include "capture/departure.h"
#include "capture/xact.h"
#include "catalog/stream_def.h"
#include "miscadmin.h"
#include "shmem.h"

/* A subtransaction's own buffers are written beyond this many bytes. */
#define FLUSH_BYTES			(4 * 1024 * 1024)
/* The same, however little its own, when all that is buffered is this much. */
#define FLUSH_TOTAL_BYTES	(64 * 1024 * 1024)

uint64		sj_transaction_number = 1;

static bool wrote_log = false;	/* this transaction has */

static void
write_scope(void)
{
	sj_scope_write();
	wrote_log = true;
}

/* The memory goes with TopTransactionContext. */
static void
forget_all(void)
{
	sj_scopes_forget();
	sj_departures_pending = 0;
	wrote_log = false;
	sj_transaction_number++;
}

/* interface ----------------------------------------------------------- */

SjLogRecord *
sj_buffer_record(int32 layout, Oid source, char op, Size size)
{
	SjScope    *scope = sj_scope_mine();

	if (unlikely(sj_departures_pending > 0))
		sj_departures_settle(false);
	if (unlikely(scope->bytes > FLUSH_BYTES ||
				 (sj_buffered_bytes > FLUSH_TOTAL_BYTES &&
				  scope->bytes > SJ_CHUNK_BYTES)))
		write_scope();
	return sj_buffer_add(scope, sj_scope_buffer(scope, layout, source), op,
						 size);
}

void
sj_capture_control(Oid relid, char op, const void *body, Size size)
{
	SjLayout   *layout = sj_layout_current(relid);
	SjLogRecord *record;

	Assert(SJ_OP_IS_CONTROL(op));
	if (layout == NULL)
		return;
	record = sj_buffer_record(layout->id, InvalidOid, op,
							  MAXALIGN(sizeof(SjLogRecord)) + MAXALIGN(size));
	memcpy(SJ_RECORD_BODY(record), body, size);
}

void
sj_capture_replay(Oid relid, Oid result, int32 join_id, const int64 *late_ids,
				  int n)
{
	SjLayout   *layout = sj_layout_current(relid);
	Size		ids = sizeof(int64) * n;
	SjReplayRequest *request;

	if (layout == NULL)
		elog(ERROR, "stream %u has no layout", relid);
	request = SJ_RECORD_REPLAY(sj_buffer_record(layout->id, result,
												SJ_OP_REPLAY,
												MAXALIGN(sizeof(SjLogRecord)) +
												MAXALIGN(sizeof(SjReplayRequest) + ids)));
	request->join_id = join_id;
	request->n = n;
	memcpy(request->late_id, late_ids, ids);
}

void
sj_capture_wake(void)
{
	SjDatabaseSlot *slot = sj_database_slot(MyDatabaseId, false);

	if (slot == NULL)
		return;
	pg_atomic_fetch_add_u64(&slot->commits, 1);
	sj_wake_worker(slot);
}

/* ends of transactions ------------------------------------------------ */

static void
at_subxact_event(SubXactEvent event, SubTransactionId subid,
				 SubTransactionId parent_subid, void *arg)
{
	if (sj_current_scope == NULL || sj_current_scope->subid != subid)
		return;
	switch (event)
	{
		case SUBXACT_EVENT_PRE_COMMIT_SUB:
			sj_departures_settle(true);
			if (sj_buffered_bytes > FLUSH_TOTAL_BYTES)
				write_scope();
			break;
		case SUBXACT_EVENT_COMMIT_SUB:
			if (sj_current_scope->parent != NULL &&
				sj_current_scope->parent->subid == parent_subid)
				sj_scope_merge_into_parent();
			else
				sj_current_scope->subid = parent_subid;
			break;
		case SUBXACT_EVENT_ABORT_SUB:
			sj_scope_pop();
			break;
		case SUBXACT_EVENT_START_SUB:
			break;
	}
}

static void
before_commit(void)
{
	if (sj_current_scope == NULL)
		return;
	Assert(sj_current_scope->parent == NULL);
	sj_departures_settle(true);
	if (sj_current_scope->buffers != NULL)
		write_scope();
}

static void
at_xact_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			before_commit();
			break;
		case XACT_EVENT_COMMIT:
			if (wrote_log)
				sj_capture_wake();
			forget_all();
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			forget_all();
			break;
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			break;
	}
}

void
sj_xact_init(void)
{
	RegisterXactCallback(at_xact_event, NULL);
	RegisterSubXactCallback(at_subxact_event, NULL);
}

bool
sj_capture_has_written(void)
{
	return wrote_log || sj_buffered_bytes > 0 || sj_departures_pending > 0;
}
