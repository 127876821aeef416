/*-------------------------------------------------------------------------
 *
 * join_input.c
 *	  One input of a running join: from an image in the log to an event.
 *
 * An image has the columns that all joins over the stream need (its layout);
 * the tuple of an input has those that this join needs, and its computed keys.
 * Where both are the same the image goes into the state as it is.
 *
 * IDENTIFICATION
 *	  src/worker/join_input.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/stream_def.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "worker/join_input.h"

static void
open_keys(SjTaskInput *input, const SjJoinQuery *query)
{
	ListCell   *lc;

	input->nkeys = list_length(query->keys);
	input->hash = palloc0(sizeof(FmgrInfo) * input->nkeys);
	input->collation = palloc0(sizeof(Oid) * input->nkeys);
	foreach(lc, query->keys)
	{
		SjJoinKey  *key = lfirst(lc);
		int			i = foreach_current_index(lc);

		fmgr_info(key->hash[input->side], &input->hash[i]);
		input->collation[i] = key->collation;
	}
}

static void
open_upsert_key(SjTaskInput *input)
{
	int			n = input->plan->nupsert;

	input->upsert_hash = palloc0(sizeof(FmgrInfo) * n);
	input->upsert_equal = palloc0(sizeof(FmgrInfo) * n);
	for (int i = 0; i < n; i++)
	{
		fmgr_info(input->plan->upsert_hash[i], &input->upsert_hash[i]);
		fmgr_info(input->plan->upsert_equal[i], &input->upsert_equal[i]);
	}
}

void
sj_input_open(SjTaskInput *input, SjSide side, const SjJoinQuery *query,
			  const SjJoinPlan *plan)
{
	memset(input, 0, sizeof(SjTaskInput));
	input->context = CurrentMemoryContext;
	input->side = side;
	input->bounds = &query->bounds;
	input->plan = &plan->input[side];
	input->relid = query->input[side].relid;
	input->econtext = CreateStandaloneExprContext();
	input->row = MakeSingleTupleTableSlot(input->plan->desc, &TTSOpsVirtual);
	input->econtext->ecxt_scantuple = input->row;
	if (input->plan->filter != NIL)
		input->filter = ExecInitQual(input->plan->filter, NULL);
	input->computed = palloc(sizeof(ExprState *) * (input->plan->ncomputed + 1));
	for (int i = 0; i < input->plan->ncomputed; i++)
		input->computed[i] = ExecInitExpr(input->plan->computed[i], NULL);
	open_keys(input, query);
	open_upsert_key(input);
	input->replaces = sj_query_replaces(query);
	input->local_time = !query->bounds.with_zone;
}

static int
place_in_layout(const SjLayout *layout, AttrNumber attno)
{
	for (int i = 0; i < layout->natts; i++)
		if (layout->attnos[i] == attno)
			return i;
	elog(ERROR, "layout %d of the event log lacks column %d",
		 layout->id, attno);
}

static SjImageLayout *
make_layout(SjTaskInput *input, int32 layout_id)
{
	SjLayout   *layout = sj_layout_get(layout_id);
	SjImageLayout *image = palloc0(sizeof(SjImageLayout));

	image->id = layout_id;
	image->ours = layout != NULL && layout->relid == input->relid;
	if (!image->ours)
		return image;
	image->slot = MakeSingleTupleTableSlot(sj_layout_desc(layout),
										   &TTSOpsMinimalTuple);
	image->place = palloc(sizeof(int) * input->plan->ncolumns);
	for (int i = 0; i < input->plan->ncolumns; i++)
		image->place[i] = place_in_layout(layout, input->plan->columns[i]);
	image->same = layout->natts == input->plan->ncolumns &&
		input->plan->ncomputed == 0;
	return image;
}

SjImageLayout *
sj_input_layout(SjTaskInput *input, int32 layout_id)
{
	SjImageLayout *layout = input->last_layout;
	ListCell   *lc;
	MemoryContext old;

	if (layout != NULL && layout->id == layout_id)
		return layout->ours ? layout : NULL;

	layout = NULL;
	foreach(lc, input->layouts)
		if (((SjImageLayout *) lfirst(lc))->id == layout_id)
			layout = lfirst(lc);
	if (layout == NULL)
	{
		old = MemoryContextSwitchTo(input->context);
		layout = make_layout(input, layout_id);
		input->layouts = lappend(input->layouts, layout);
		MemoryContextSwitchTo(old);
	}
	input->last_layout = layout;
	return layout->ours ? layout : NULL;
}

/* Sets the input's row from an image, computed keys aside. */
static void
load_row(SjTaskInput *input, SjImageLayout *layout, MinimalTuple image)
{
	TupleTableSlot *row = input->row;
	TupleTableSlot *slot = layout->slot;

	ResetExprContext(input->econtext);
	ExecClearTuple(row);
	ExecStoreMinimalTuple(image, slot, false);
	slot_getallattrs(slot);
	for (int i = 0; i < input->plan->ncolumns; i++)
	{
		row->tts_values[i] = slot->tts_values[layout->place[i]];
		row->tts_isnull[i] = slot->tts_isnull[layout->place[i]];
	}
	for (int i = 0; i < input->plan->ncomputed; i++)
		row->tts_isnull[input->plan->ncolumns + i] = true;
	ExecStoreVirtualTuple(row);
}

/* The row as a tuple in per-tuple memory. */
static MinimalTuple
form_tuple(SjTaskInput *input)
{
	MemoryContext old =
	MemoryContextSwitchTo(input->econtext->ecxt_per_tuple_memory);
	MinimalTuple tuple = heap_form_minimal_tuple(input->plan->desc,
												 input->row->tts_values,
												 input->row->tts_isnull);

	MemoryContextSwitchTo(old);
	return tuple;
}

MinimalTuple
sj_input_tuple(SjTaskInput *input, SjImageLayout *layout, MinimalTuple image)
{
	if (layout->same)
		return image;
	load_row(input, layout, image);
	return form_tuple(input);
}

bool
sj_input_event_time(SjTaskInput *input, SjImageLayout *layout,
					MinimalTuple image, SjTime *event_time)
{
	bool		isnull;

	ExecStoreMinimalTuple(image, layout->slot, false);
	*event_time = DatumGetInt64(slot_getattr(layout->slot,
											 layout->place[input->plan->time_index] + 1,
											 &isnull));
	return !isnull;
}

static void
compute_keys(SjTaskInput *input)
{
	MemoryContext old =
	MemoryContextSwitchTo(input->econtext->ecxt_per_tuple_memory);

	for (int i = 0; i < input->plan->ncomputed; i++)
	{
		int			place = input->plan->ncolumns + i;

		input->row->tts_values[place] =
			ExecEvalExpr(input->computed[i], input->econtext,
						 &input->row->tts_isnull[place]);
	}
	MemoryContextSwitchTo(old);
}

/* Sets has_key and hash of the event from the row's key columns. */
static void
hash_keys(SjTaskInput *input, SjEvent *event)
{
	MemoryContext old =
	MemoryContextSwitchTo(input->econtext->ecxt_per_tuple_memory);
	uint32		hash = 0;

	event->has_key = true;
	for (int i = 0; i < input->nkeys && event->has_key; i++)
	{
		int			place = input->plan->key_attno[i] - 1;

		event->has_key = !input->row->tts_isnull[place];
		if (event->has_key)
			hash = hash_combine(hash,
								DatumGetUInt32(FunctionCall1Coll(&input->hash[i],
																 input->collation[i],
																 input->row->tts_values[place])));
	}
	event->hash = hash;
	MemoryContextSwitchTo(old);
}

static Oid
upsert_collation(const SjTaskInput *input, int place)
{
	return TupleDescAttr(input->plan->desc, place)->attcollation;
}

/* Sets has_entity and entity_hash of the event from the upsert key's columns. */
static void
hash_upsert_key(SjTaskInput *input, SjEvent *event)
{
	MemoryContext old =
	MemoryContextSwitchTo(input->econtext->ecxt_per_tuple_memory);
	uint32		hash = 0;

	event->has_entity = input->plan->nupsert > 0;
	for (int i = 0; i < input->plan->nupsert && event->has_entity; i++)
	{
		int			place = input->plan->upsert_attno[i] - 1;

		event->has_entity = !input->row->tts_isnull[place];
		if (event->has_entity)
			hash = hash_combine(hash,
								DatumGetUInt32(FunctionCall1Coll(&input->upsert_hash[i],
																 upsert_collation(input, place),
																 input->row->tts_values[place])));
	}
	event->entity_hash = hash;
	MemoryContextSwitchTo(old);
}

bool
sj_input_same_entity(SjTaskInput *input, MinimalTuple a, MinimalTuple b)
{
	HeapTupleData htup_a = sj_heap_tuple(a);
	HeapTupleData htup_b = sj_heap_tuple(b);
	TupleDesc	desc = input->plan->desc;
	MemoryContext old =
	MemoryContextSwitchTo(input->econtext->ecxt_per_tuple_memory);
	bool		same = true;

	for (int i = 0; i < input->plan->nupsert && same; i++)
	{
		AttrNumber	attno = input->plan->upsert_attno[i];
		bool		null_a;
		bool		null_b;
		Datum		value_a = heap_getattr(&htup_a, attno, desc, &null_a);
		Datum		value_b = heap_getattr(&htup_b, attno, desc, &null_b);

		Assert(!null_a && !null_b);
		same = DatumGetBool(FunctionCall2Coll(&input->upsert_equal[i],
											  upsert_collation(input, attno - 1),
											  value_a, value_b));
	}
	MemoryContextSwitchTo(old);
	return same;
}

/* Sets what the event's time says of it. */
static void
set_reach(SjTaskInput *input, SjTime event_time, SjEvent *event)
{
	SjReach		reach;

	sj_bounds_reach(input->bounds, input->side, event_time, &reach);
	event->side = input->side;
	event->event_time = event_time;
	event->from = reach.from;
	event->until = reach.until;
	event->due = reach.due;
	event->expires = sj_time_add(reach.expires, input->replaces);
}

/* Judges the row at hand; sets the event, all but seq, source and tuple. */
static SjImageVerdict
judge_row(SjTaskInput *input, SjEvent *event)
{
	TupleTableSlot *row = input->row;
	int			time_index = input->plan->time_index;
	SjTime		event_time;

	if (input->filter != NULL && !ExecQual(input->filter, input->econtext))
		return SJ_IMAGE_FILTERED;
	if (row->tts_isnull[time_index])
		return SJ_IMAGE_NULL_TIME;
	event_time = DatumGetInt64(row->tts_values[time_index]);
	if (!SJ_TIME_IS_FINITE(event_time))
		return SJ_IMAGE_INFINITE;

	compute_keys(input);
	hash_keys(input, event);
	hash_upsert_key(input, event);
	set_reach(input, event_time, event);
	return SJ_IMAGE_EVENT;
}

SjImageVerdict
sj_input_event(SjTaskInput *input, SjImageLayout *layout, MinimalTuple image,
			   SjEvent *event)
{
	SjImageVerdict verdict;

	load_row(input, layout, image);
	verdict = judge_row(input, event);
	if (verdict == SJ_IMAGE_EVENT)
		event->tuple = layout->same ? image : form_tuple(input);
	return verdict;
}

/* Sets the input's row from one of its own tuples. */
static void
load_tuple(SjTaskInput *input, MinimalTuple tuple)
{
	HeapTupleData htup = sj_heap_tuple(tuple);

	ResetExprContext(input->econtext);
	ExecClearTuple(input->row);
	heap_deform_tuple(&htup, input->plan->desc, input->row->tts_values,
					  input->row->tts_isnull);
	ExecStoreVirtualTuple(input->row);
}

SjImageVerdict
sj_input_tuple_event(SjTaskInput *input, MinimalTuple tuple, SjEvent *event)
{
	SjImageVerdict verdict;

	load_tuple(input, tuple);
	verdict = judge_row(input, event);
	if (verdict == SJ_IMAGE_EVENT)
		event->tuple = input->plan->ncomputed == 0 ? tuple :
			form_tuple(input);
	return verdict;
}

SjTime
sj_input_tuple_time(const SjTaskInput *input, MinimalTuple tuple)
{
	HeapTupleData htup = sj_heap_tuple(tuple);
	bool		isnull;
	Datum		value;

	value = heap_getattr(&htup, input->plan->time_index + 1,
						 input->plan->desc, &isnull);
	return isnull ? SJ_TIME_MIN : DatumGetInt64(value);
}

void
sj_input_stored_event(SjTaskInput *input, MinimalTuple tuple, SjEvent *event)
{
	TupleTableSlot *row = input->row;

	load_tuple(input, tuple);
	hash_keys(input, event);
	hash_upsert_key(input, event);
	set_reach(input,
			  DatumGetInt64(row->tts_values[input->plan->time_index]), event);
	event->tuple = tuple;
}
