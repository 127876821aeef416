/*-------------------------------------------------------------------------
 *
 * late_read.c
 *	  Reading late rows back, for verify() and advise().
 *
 * IDENTIFICATION
 *	  src/emit/late_read.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "emit/late_read.h"
#include "emit/late_row.h"
#include "utils/builtins.h"
#include "utils/rel.h"

enum
{
	Column_side = 1,
	Column_op,
	Column_row_hash,
	Column_old_hash,
	Column_old_data,
	Column_row_data,			/* computed and left out */
	Ncolumns = Column_old_data
};

TupleDesc
sj_rejections_desc(void)
{
	TupleDesc	desc = CreateTemplateTupleDesc(Ncolumns);

	TupleDescInitEntry(desc, Column_side, "side", INT2OID, -1, 0);
	TupleDescInitEntry(desc, Column_op, "op", CHAROID, -1, 0);
	TupleDescInitEntry(desc, Column_row_hash, "row_hash", UUIDOID, -1, 0);
	TupleDescInitEntry(desc, Column_old_hash, "old_hash", UUIDOID, -1, 0);
	TupleDescInitEntry(desc, Column_old_data, "old_data", JSONBOID, -1, 0);
	return desc;
}

static void
note_kind(char op, SjRejections *rejections)
{
	if (op == SJ_OP_PAIR)
		rejections->failed_pairs = true;
	else if (SJ_OP_IS_OF_PAIR(op))
		return;
	else if (op == SJ_OP_TRUNCATE)
		rejections->truncated = true;
	else
		rejections->any = true;
}

typedef struct RejectionStore
{
	Tuplestorestate *store;
	SjRejections *rejections;
	TupleDesc	desc;
} RejectionStore;

static void
put_stored(void *arg, Relation rel, HeapTuple tuple)
{
	RejectionStore *to = arg;
	Datum		from[Natts_late_row];
	bool		from_null[Natts_late_row];
	Datum		value[Ncolumns];
	bool		null[Ncolumns];
	static const int source[Ncolumns] = {
		Anum_side, Anum_op, Anum_row_hash, Anum_old_hash, Anum_old_data
	};

	heap_deform_tuple(tuple, RelationGetDescr(rel), from, from_null);
	for (int i = 0; i < Ncolumns; i++)
	{
		value[i] = from[source[i] - 1];
		null[i] = from_null[source[i] - 1];
	}
	tuplestore_putvalues(to->store, to->desc, value, null);
	note_kind(DatumGetChar(from[Anum_op - 1]), to->rejections);
}

void
sj_rejections_read(int32 join_id, Snapshot snapshot, Tuplestorestate *store,
				   SjRejections *rejections)
{
	RejectionStore to = {store, rejections, sj_rejections_desc()};

	sj_late_rows_visit(join_id, snapshot, AccessShareLock, put_stored, &to);
}

void
sj_rejection_put(const SjPlanInput *input, SjSide side, char op,
				 MinimalTuple image, MinimalTuple old_image,
				 Tuplestorestate *store, SjRejections *rejections)
{
	Datum		value[Ncolumns + 1];
	bool		null[Ncolumns + 1] = {false};

	value[Column_side - 1] = Int16GetDatum(side);
	value[Column_op - 1] = CharGetDatum(op);
	sj_late_row_set_image(input, image, false, value, null, Column_row_data,
						  Column_row_hash);
	sj_late_row_set_image(input, old_image, true, value, null,
						  Column_old_data, Column_old_hash);
	tuplestore_putvalues(store, sj_rejections_desc(), value, null);
	note_kind(op, rejections);
}

/* Who looks at how late rows were. */
typedef struct DistanceVisit
{
	void		(*visit) (void *arg, int64 behind);
	void	   *arg;
} DistanceVisit;

static bool
was_too_late(Datum reason)
{
	const char *name = TextDatumGetCString(reason);

	return strcmp(name, sj_reason_name(SJ_REASON_LATE)) == 0 ||
		strcmp(name, sj_reason_name(SJ_REASON_DROPPED)) == 0;
}

static void
visit_distance(void *arg, Relation rel, HeapTuple tuple)
{
	DistanceVisit *visit = arg;
	Datum		value[Natts_late_row];
	bool		null[Natts_late_row];

	heap_deform_tuple(tuple, RelationGetDescr(rel), value, null);
	if (!null[Anum_event_time - 1] && was_too_late(value[Anum_reason - 1]))
		visit->visit(visit->arg,
					 sj_time_sub(DatumGetInt64(value[Anum_watermark - 1]),
								 DatumGetInt64(value[Anum_event_time - 1])));
}

void
sj_late_distances_visit(int32 join_id,
						void (*visit) (void *arg, int64 behind), void *arg)
{
	DistanceVisit visitor = {visit, arg};

	sj_late_rows_visit(join_id, NULL, AccessShareLock, visit_distance,
					   &visitor);
}
