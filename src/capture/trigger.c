/*-------------------------------------------------------------------------
 *
 * trigger.c
 *	  The trigger function: from a row change to a record.
 *
 * The same function serves all triggers of a stream.  An image is formed right
 * in the buffer it is written from; where the captured columns are the whole
 * row, the row is copied as it is.  Values that the heap stores out of line are
 * fetched: by the time the log is read they may be gone.
 *
 * IDENTIFICATION
 *	  src/capture/trigger.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "capture/capture.h"
#include "capture/departure.h"
#include "capture/relinfo.h"
#include "capture/sweep.h"
#include "capture/xact.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Two images in one record are no longer than this; else two records. */
#define MAX_UPDATE_BYTES	(MaxAllocSize / 2)

/* An image to be. */
typedef struct Image
{
	HeapTuple	row;			/* copied as it is, or NULL */
	SjColumns  *columns;		/* else formed from these */
	bool		has_null;
	Size		hoff;			/* where its data start */
	Size		data_len;
	Size		len;
} Image;

PG_FUNCTION_INFO_V1(sjoin_capture);

/* columns ------------------------------------------------------------- */

static inline void
read_columns(const SjRelInfo *info, TupleTableSlot *slot, SjColumns *columns)
{
	slot_getsomeattrs(slot, info->max_attno);
	for (int i = 0; i < info->desc->natts; i++)
	{
		int			attno = info->attnos[i];

		if (attno == 0)
		{
			columns->null[i] = true;
			continue;
		}
		columns->null[i] = slot->tts_isnull[attno - 1];
		columns->value[i] = slot->tts_values[attno - 1];
	}
}

/* Replaces values stored elsewhere; memory in the current context. */
static inline void
fetch_external(const SjRelInfo *info, SjColumns *columns)
{
	for (int i = 0; i < info->desc->natts; i++)
	{
		struct varlena *value;

		if (columns->null[i] || TupleDescAttr(info->desc, i)->attlen != -1)
			continue;
		value = (struct varlena *) DatumGetPointer(columns->value[i]);
		if (VARATT_IS_EXTERNAL(value))
			columns->value[i] = PointerGetDatum(detoast_external_attr(value));
	}
}

/* Bytewise, as datum_image_eq; the same TOAST pointer is the same value. */
static bool
same_value(Form_pg_attribute column, Datum a, Datum b)
{
	if (column->attlen == -1 &&
		VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(a)) &&
		VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(b)) &&
		memcmp(DatumGetPointer(a), DatumGetPointer(b),
			   VARSIZE_EXTERNAL(DatumGetPointer(a))) == 0)
		return true;
	return datum_image_eq(a, b, column->attbyval, column->attlen);
}

static bool
same_columns(const SjRelInfo *info)
{
	const SjColumns *new = &info->columns[0];
	const SjColumns *old = &info->columns[1];

	for (int i = 0; i < info->desc->natts; i++)
	{
		if (new->null[i] != old->null[i])
			return false;
		if (!new->null[i] &&
			!same_value(TupleDescAttr(info->desc, i), new->value[i],
						old->value[i]))
			return false;
	}
	return true;
}

/* images -------------------------------------------------------------- */

/* Columns added after the row was written are not in it. */
static inline bool
is_whole_row(const SjRelInfo *info, HeapTuple row)
{
	return info->whole && !HeapTupleHasExternal(row) &&
		HeapTupleHeaderGetNatts(row->t_data) == info->desc->natts;
}

static inline void
plan_row(Image *image, HeapTuple row)
{
	image->row = row;
	image->len = row->t_len - MINIMAL_TUPLE_OFFSET;
}

/* The columns have been read; external values are fetched here. */
static inline void
plan_columns(const SjRelInfo *info, Image *image, SjColumns *columns)
{
	fetch_external(info, columns);
	image->row = NULL;
	image->columns = columns;
	image->has_null = false;
	for (int i = 0; i < info->desc->natts; i++)
		image->has_null |= columns->null[i];
	image->hoff = SizeofMinimalTupleHeader;
	if (image->has_null)
		image->hoff += BITMAPLEN(info->desc->natts);
	image->hoff = MAXALIGN(image->hoff);
	image->data_len = heap_compute_data_size(info->desc, columns->value,
											 columns->null);
	image->len = image->hoff + image->data_len;
}

/* Writes the image into zeroed memory. */
static inline void
form_image(const SjRelInfo *info, const Image *image, MinimalTuple tuple)
{
	if (image->row != NULL)
	{
		memcpy(tuple, (char *) image->row->t_data + MINIMAL_TUPLE_OFFSET,
			   image->len);
		tuple->t_len = image->len;
		return;
	}
	tuple->t_len = image->len;
	HeapTupleHeaderSetNatts(tuple, info->desc->natts);
	tuple->t_hoff = image->hoff + MINIMAL_TUPLE_OFFSET;
	heap_fill_tuple(info->desc, image->columns->value, image->columns->null,
					(char *) tuple + image->hoff, image->data_len,
					&tuple->t_infomask,
					image->has_null ? tuple->t_bits : NULL);
}

static inline void
plan_image(SjRelInfo *info, Image *image, HeapTuple row, TupleTableSlot *slot)
{
	if (is_whole_row(info, row))
	{
		plan_row(image, row);
		return;
	}
	read_columns(info, slot, &info->columns[0]);
	plan_columns(info, image, &info->columns[0]);
}

/* records ------------------------------------------------------------- */

static void
add_image_record(const SjRelInfo *info, char op, const Image *image)
{
	SjLogRecord *record;

	info->use->written_in = sj_transaction_number;
	record = sj_buffer_record(info->layout, info->source, op,
							  MAXALIGN(sizeof(SjLogRecord)) +
							  MAXALIGN(image->len));
	form_image(info, image, SJ_RECORD_IMAGE(record));
}

static void
add_update_record(const SjRelInfo *info, const Image *new, const Image *old)
{
	Size		size = MAXALIGN(sizeof(SjLogRecord)) + MAXALIGN(new->len) +
		MAXALIGN(old->len);
	SjLogRecord *record;

	if (size > MAX_UPDATE_BYTES)
	{
		add_image_record(info, SJ_OP_DELETE, old);
		add_image_record(info, SJ_OP_INSERT, new);
		return;
	}
	info->use->written_in = sj_transaction_number;
	record = sj_buffer_record(info->layout, info->source, SJ_OP_UPDATE, size);
	form_image(info, new, SJ_RECORD_IMAGE(record));
	form_image(info, old, SJ_RECORD_OLD_IMAGE(record));
}

static bool
same_rows(HeapTuple a, HeapTuple b)
{
	const Size	start = offsetof(HeapTupleHeaderData, t_bits);

	return a->t_len == b->t_len &&
		a->t_data->t_hoff == b->t_data->t_hoff &&
		memcmp((char *) a->t_data + start, (char *) b->t_data + start,
			   a->t_len - start) == 0;
}

/* An update that changes nothing that is captured leaves no record. */
static void
capture_update(SjRelInfo *info, TriggerData *trigger)
{
	HeapTuple	new_row = trigger->tg_newtuple;
	HeapTuple	old_row = trigger->tg_trigtuple;
	Image		new;
	Image		old;

	if (info->whole && same_rows(new_row, old_row))
		return;
	read_columns(info, trigger->tg_newslot, &info->columns[0]);
	read_columns(info, trigger->tg_trigslot, &info->columns[1]);
	if (same_columns(info))
		return;

	if (is_whole_row(info, new_row))
		plan_row(&new, new_row);
	else
		plan_columns(info, &new, &info->columns[0]);
	if (is_whole_row(info, old_row))
		plan_row(&old, old_row);
	else
		plan_columns(info, &old, &info->columns[1]);
	add_update_record(info, &new, &old);
}

static void
capture_row(TriggerData *trigger)
{
	SjRelInfo  *info = sj_relinfo_get(trigger->tg_trigger->tgoid,
									  trigger->tg_relation);
	Image		image;

	if (info->layout == 0)
		return;
	if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
	{
		capture_update(info, trigger);
		return;
	}
	plan_image(info, &image, trigger->tg_trigtuple, trigger->tg_trigslot);
	add_image_record(info,
					 TRIGGER_FIRED_BY_INSERT(trigger->tg_event) ? SJ_OP_INSERT :
					 SJ_OP_DELETE,
					 &image);
}

/*
 * Every row that the table has, as if it were inserted now: the table has come
 * to a stream.  The caller holds a lock that keeps writers away.
 */
void
sj_capture_rows(Oid relid)
{
	Relation	rel = table_open(relid, NoLock);
	SjRelInfo  *info = sj_relinfo_get(get_trigger_oid(relid, SJ_ROW_TRIGGER,
													  false), rel);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	TableScanDesc scan = table_beginscan(rel, snapshot, 0, NULL);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "sjoin row",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	while (info->layout != 0 &&
		   table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		Image		image;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(context);
		plan_image(info, &image, ExecFetchSlotHeapTuple(slot, false, NULL),
				   slot);
		add_image_record(info, SJ_OP_INSERT, &image);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	UnregisterSnapshot(snapshot);
	table_close(rel, NoLock);
}

/* entry points -------------------------------------------------------- */

static void
check_trigger(FunctionCallInfo fcinfo)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("sjoin.capture() must be called as a trigger")));
	if (!TRIGGER_FIRED_AFTER(trigger->tg_event) ||
		TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ==
		TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("sjoin.capture() must be fired AFTER, for each row or by TRUNCATE"),
				 errhint("Streams get their triggers from sjoin.create_stream() and sjoin.create_join().")));
}

/* Fired by every change of a stream; fails for no reason of sjoin's own. */
Datum
sjoin_capture(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	check_trigger(fcinfo);
	if (!IsBinaryUpgrade)
	{
		if (TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event))
			sj_departure_truncated(RelationGetRelid(trigger->tg_relation));
		else
			capture_row(trigger);
	}
	return PointerGetDatum(NULL);
}

void
sj_capture_init(void)
{
	sj_xact_init();
	sj_departures_init();
	sj_sweep_init();
}
