/*-------------------------------------------------------------------------
 *
 * side_output.c
 *	  Late rows: what a join did not take in or did not write, and why.
 *
 * Each rejection is a row of sjoin.late_row, written in the transaction that
 * moves the position past it.  The image is kept as jsonb for people, and as a
 * hash of its bytes for verify(), which subtracts rejected images from the
 * table: a hash is exact where output functions depend on settings, and is all
 * that the policy 'drop' keeps.
 *
 * IDENTIFICATION
 *	  src/emit/side_output.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "common/hashfn.h"
#include "emit/late_row.h"
#include "emit/side_output.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "relations.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"
#include "utils/fmgroids.h"
#include "utils/jsonb.h"
#include "utils/rel.h"

static const char *const reason_names[] = {
	"late", "dropped", "null_event_time", "infinite", "expired_change",
	"changed", "error", "replayed", "withdrawn"
};

const char *
sj_reason_name(SjReason reason)
{
	return reason_names[reason];
}

/* Mixes bytes into both halves of a hash. */
static void
mix_bytes(uint64 half[2], const void *data, Size len)
{
	half[0] = hash_bytes_extended(data, (int) len, half[0] + 1);
	half[1] = hash_bytes_extended(data, (int) len, half[1] ^ UINT64CONST(0x9e3779b97f4a7c15));
}

static void
mix_value(uint64 half[2], Form_pg_attribute att, Datum value)
{
	if (att->attlen == -1)
	{
		struct varlena *flat = PG_DETOAST_DATUM_PACKED(value);

		mix_bytes(half, VARDATA_ANY(flat), VARSIZE_ANY_EXHDR(flat));
		if ((Pointer) flat != DatumGetPointer(value))
			pfree(flat);
	}
	else if (att->attlen == -2)
		mix_bytes(half, DatumGetCString(value),
				  strlen(DatumGetCString(value)));
	else if (att->attbyval)
	{
		/* what is beyond the type's length depends on who made the datum */
		int64		bits = att->attlen == 1 ? DatumGetChar(value) :
		att->attlen == 2 ? DatumGetInt16(value) :
		att->attlen == 4 ? DatumGetInt32(value) : DatumGetInt64(value);

		mix_bytes(half, &bits, sizeof(bits));
	}
	else
		mix_bytes(half, DatumGetPointer(value), att->attlen);
}

void
sj_image_hash(TupleDesc desc, int natts, const Datum *values,
			  const bool *nulls, pg_uuid_t *hash)
{
	uint64		half[2] = {0, 0};

	for (int i = 0; i < natts; i++)
	{
		mix_bytes(half, &nulls[i], 1);
		if (!nulls[i])
			mix_value(half, TupleDescAttr(desc, i), values[i]);
	}
	memcpy(hash->data, half, UUID_LEN);
}

void
sj_tuple_hash(const SjPlanInput *input, MinimalTuple image, pg_uuid_t *hash)
{
	Datum	   *values = palloc(sizeof(Datum) * input->desc->natts);
	bool	   *nulls = palloc(sizeof(bool) * input->desc->natts);
	HeapTupleData htup = sj_heap_tuple(image);

	heap_deform_tuple(&htup, input->desc, values, nulls);
	sj_image_hash(input->desc, input->ncolumns, values, nulls, hash);
	pfree(values);
	pfree(nulls);
}

void
sj_image_key(const SjPlanInput *input, SjSide side, Oid source,
			 MinimalTuple image, SjImageKey *key)
{
	memset(key, 0, sizeof(SjImageKey));
	sj_tuple_hash(input, image, &key->hash);
	key->source = source;
	key->side = side;
}

/* The first natts columns of a tuple as a record datum with their names. */
static Datum
record_of(TupleDesc desc, int natts, Datum *values, bool *nulls)
{
	TupleDesc	named = CreateTemplateTupleDesc(natts);

	for (int i = 0; i < natts; i++)
		TupleDescCopyEntry(named, i + 1, desc, i + 1);
	BlessTupleDesc(named);
	return heap_copy_tuple_as_datum(heap_form_tuple(named, values, nulls),
									named);
}

/* to_jsonb(record): the function asks its call expression for the type. */
static Datum
record_to_jsonb(Datum record)
{
	FmgrInfo	flinfo;
	Node	   *arg;

	fmgr_info(F_TO_JSONB, &flinfo);
	arg = (Node *) makeNullConst(RECORDOID, -1, InvalidOid);
	fmgr_info_set_expr((Node *) makeFuncExpr(F_TO_JSONB, JSONBOID,
											 list_make1(arg),
											 InvalidOid, InvalidOid,
											 COERCE_EXPLICIT_CALL),
					   &flinfo);
	return FunctionCall1(&flinfo, record);
}

/* Sets the jsonb and the hash of an image; NULLs when there is none. */
void
sj_late_row_set_image(const SjPlanInput *input, MinimalTuple image, bool keep,
					  Datum *value, bool *null, int data_column,
					  int hash_column)
{
	TupleTableSlot *slot;
	pg_uuid_t  *hash = palloc(sizeof(pg_uuid_t));

	null[data_column - 1] = null[hash_column - 1] = true;
	if (image == NULL)
		return;

	slot = MakeSingleTupleTableSlot(input->desc, &TTSOpsMinimalTuple);
	ExecStoreMinimalTuple(image, slot, false);
	slot_getallattrs(slot);
	sj_image_hash(input->desc, input->ncolumns, slot->tts_values,
				  slot->tts_isnull, hash);
	value[hash_column - 1] = UUIDPGetDatum(hash);
	null[hash_column - 1] = false;
	if (keep)
	{
		Datum		record = record_of(input->desc, input->ncolumns,
									   slot->tts_values, slot->tts_isnull);

		value[data_column - 1] = record_to_jsonb(record);
		null[data_column - 1] = false;
	}
	ExecDropSingleTupleTableSlot(slot);
}

static HeapTuple
form_late_row(Relation rel, int32 join_id, const SjJoinPlan *plan,
			  const SjLateRow *row)
{
	bool		keep = row->reason != SJ_REASON_DROPPED &&
	row->reason != SJ_REASON_REPLAYED && row->reason != SJ_REASON_WITHDRAWN;
	SjSide		old_side = SJ_OP_IS_OF_PAIR(row->op) ? SJ_RIGHT : row->side;
	Datum		value[Natts_late_row];
	bool		null[Natts_late_row] = {false};

	value[Anum_late_id - 1] =
		Int64GetDatum(nextval_internal(sj_relation_oid("late_id"), false));
	value[Anum_join_id - 1] = Int32GetDatum(join_id);
	value[Anum_side - 1] = Int16GetDatum(row->side);
	value[Anum_seq - 1] = Int64GetDatum(row->seq);
	value[Anum_other_seq - 1] = Int64GetDatum(row->other_seq);
	value[Anum_op - 1] = CharGetDatum(row->op);
	value[Anum_event_time - 1] = Int64GetDatum(row->event_time);
	null[Anum_event_time - 1] = row->event_time == SJ_TIME_MIN &&
		row->reason != SJ_REASON_INFINITE;
	value[Anum_watermark - 1] = Int64GetDatum(row->watermark);
	value[Anum_reason - 1] = CStringGetTextDatum(reason_names[row->reason]);
	null[Anum_sqlstate - 1] = row->sqlstate == 0;
	value[Anum_sqlstate - 1] =
		CStringGetTextDatum(unpack_sql_state(row->sqlstate));
	null[Anum_message - 1] = row->message == NULL;
	value[Anum_message - 1] = row->message == NULL ? (Datum) 0 :
		CStringGetTextDatum(row->message);
	value[Anum_arrived_at - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	sj_late_row_set_image(&plan->input[row->side], row->image, keep, value,
						  null, Anum_row_data, Anum_row_hash);
	sj_late_row_set_image(&plan->input[old_side], row->old_image, keep, value,
						  null, Anum_old_data, Anum_old_hash);
	if (row->old_hash != NULL)
	{
		value[Anum_old_hash - 1] = UUIDPGetDatum(row->old_hash);
		null[Anum_old_hash - 1] = false;
	}
	value[Anum_partition - 1] = ObjectIdGetDatum(row->source);
	return heap_form_tuple(RelationGetDescr(rel), value, null);
}

void
sj_late_rows_store(int32 join_id, const SjJoinPlan *plan, List *late_rows)
{
	Relation	rel;
	CatalogIndexState indexes;
	ListCell   *lc;

	if (late_rows == NIL)
		return;
	rel = sj_open("late_row", RowExclusiveLock);
	indexes = CatalogOpenIndexes(rel);
	foreach(lc, late_rows)
		CatalogTupleInsertWithInfo(rel,
								   form_late_row(rel, join_id, plan,
												 lfirst(lc)),
								   indexes);
	CatalogCloseIndexes(indexes);
	table_close(rel, NoLock);
}

void
sj_late_rows_visit(int32 join_id, Snapshot snapshot, LOCKMODE lockmode,
				   void (*visit) (void *arg, Relation rel, HeapTuple tuple),
				   void *arg)
{
	Relation	rel = sj_open("late_row", lockmode);
	Relation	index = index_open(sj_relation_oid("late_row_join_id"),
								   AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_join_id, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(join_id));
	scan = systable_beginscan_ordered(rel, index, snapshot, 1, &key);
	while ((tuple = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		visit(arg, rel, tuple);
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(rel, NoLock);
}

static void
delete_late_row(void *arg, Relation rel, HeapTuple tuple)
{
	CatalogTupleDelete(rel, &tuple->t_self);
}

void
sj_late_rows_delete(int32 join_id)
{
	sj_late_rows_visit(join_id, NULL, RowExclusiveLock, delete_late_row, NULL);
}

int
sj_failure_compare(const void *a, const void *b)
{
	const SjFailure *x = a;
	const SjFailure *y = b;

	if (x->seq != y->seq)
		return x->seq < y->seq ? -1 : 1;
	if (x->other_seq != y->other_seq)
		return x->other_seq < y->other_seq ? -1 : 1;
	if (x->op != y->op)
		return x->op < y->op ? -1 : 1;
	return (int) x->side - (int) y->side;
}

/* Sets the failure that a late row stands for; false when it is none. */
static bool
failure_from_tuple(HeapTuple tuple, TupleDesc desc, SjFailure *failure)
{
	Datum		value[Natts_late_row];
	bool		null[Natts_late_row];

	heap_deform_tuple(tuple, desc, value, null);
	failure->op = DatumGetChar(value[Anum_op - 1]);
	if (failure->op != SJ_OP_UNPAIR && failure->op != SJ_OP_WITHDRAWN &&
		strcmp(TextDatumGetCString(value[Anum_reason - 1]),
			   reason_names[SJ_REASON_ERROR]) != 0)
		return false;
	failure->side = DatumGetInt16(value[Anum_side - 1]);
	failure->seq = DatumGetInt64(value[Anum_seq - 1]);
	failure->other_seq = DatumGetInt64(value[Anum_other_seq - 1]);
	memset(failure->hash, 0, sizeof(failure->hash));
	if (!SJ_OP_IS_OF_PAIR(failure->op))
		return true;
	if (!null[Anum_row_hash - 1])
		failure->hash[0] = *DatumGetUUIDP(value[Anum_row_hash - 1]);
	if (!null[Anum_old_hash - 1])
		failure->hash[1] = *DatumGetUUIDP(value[Anum_old_hash - 1]);
	return true;
}

typedef struct FailureList
{
	SjFailure  *failures;
	int			n;
	int			allocated;
} FailureList;

static void
add_failure(void *arg, Relation rel, HeapTuple tuple)
{
	FailureList *list = arg;

	if (list->n == list->allocated)
	{
		list->allocated *= 2;
		list->failures = repalloc_huge(list->failures,
									   sizeof(SjFailure) * list->allocated);
	}
	if (failure_from_tuple(tuple, RelationGetDescr(rel),
						   &list->failures[list->n]))
		list->n++;
}

SjFailure *
sj_failures_load(int32 join_id, int *n)
{
	FailureList list = {.allocated = 16};

	list.failures = palloc(sizeof(SjFailure) * list.allocated);
	sj_late_rows_visit(join_id, NULL, AccessShareLock, add_failure, &list);
	qsort(list.failures, list.n, sizeof(SjFailure), sj_failure_compare);
	*n = list.n;
	return list.failures;
}

static SjReason
reason_from_name(const char *name)
{
	for (int i = 0; i < lengthof(reason_names); i++)
		if (strcmp(reason_names[i], name) == 0)
			return i;
	elog(ERROR, "unknown reason \"%s\" of a late row", name);
}

/* Who looks at the images of late rows. */
typedef struct ImageVisit
{
	void		(*visit) (void *arg, SjReason reason, const SjImageKey *image,
						  const SjImageKey *old_image);
	void	   *arg;
} ImageVisit;

static void
visit_images(void *arg, Relation rel, HeapTuple tuple)
{
	ImageVisit *visit = arg;
	Datum		value[Natts_late_row];
	bool		null[Natts_late_row];
	SjImageKey	key[2];
	char		op;

	heap_deform_tuple(tuple, RelationGetDescr(rel), value, null);
	op = DatumGetChar(value[Anum_op - 1]);
	if (op != SJ_OP_INSERT && op != SJ_OP_UPDATE && op != SJ_OP_DELETE &&
		op != SJ_OP_WITHDRAWN)
		return;
	memset(key, 0, sizeof(key));
	for (int i = 0; i < 2; i++)
	{
		key[i].side = DatumGetInt16(value[Anum_side - 1]);
		key[i].source = DatumGetObjectId(value[Anum_partition - 1]);
	}
	if (!null[Anum_row_hash - 1])
		key[0].hash = *DatumGetUUIDP(value[Anum_row_hash - 1]);
	if (!null[Anum_old_hash - 1])
		key[1].hash = *DatumGetUUIDP(value[Anum_old_hash - 1]);
	visit->visit(visit->arg,
				 reason_from_name(TextDatumGetCString(value[Anum_reason - 1])),
				 null[Anum_row_hash - 1] ? NULL : &key[0],
				 null[Anum_old_hash - 1] ? NULL : &key[1]);
}

void
sj_late_images_visit(int32 join_id,
					 void (*visit) (void *arg, SjReason reason,
									const SjImageKey *image,
									const SjImageKey *old_image),
					 void *arg)
{
	ImageVisit	visitor = {visit, arg};

	sj_late_rows_visit(join_id, NULL, AccessShareLock, visit_images, &visitor);
}
