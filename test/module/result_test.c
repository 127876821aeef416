/*-------------------------------------------------------------------------
 *
 * result_test.c
 *	  Changes that are made up, written to the result of a join by the writer
 *	  of the sjoin library that the server has loaded.
 *
 * IDENTIFICATION
 *	  test/module/result_test.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/join_def.h"
#include "catalog/join_plan.h"
#include "emit/result_table.h"
#include "emit/side_output.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(sj_test_write_changes);

#define LIBRARY "$libdir/sjoin"

/* Functions of the library; this module has parts of it in itself. */
#define FROM_LIBRARY(function) \
	((__typeof__(function) *) load_external_function(LIBRARY, #function, true, NULL))

/* A row of the state with the image that a composite value is. */
static SjRow *
make_row(const SjPlanInput *input, SjSide side, int64 seq, Datum image)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(image);
	TupleDesc	desc = lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(header),
											  HeapTupleHeaderGetTypMod(header));
	HeapTupleData tuple = {.t_data = header,
		.t_len = HeapTupleHeaderGetDatumLength(header)};
	Datum		value[MaxTupleAttributeNumber];
	bool		null[MaxTupleAttributeNumber];
	Datum		ours[MaxTupleAttributeNumber];
	bool		ours_null[MaxTupleAttributeNumber];
	MinimalTuple minimal;
	SjRow	   *row;

	heap_deform_tuple(&tuple, desc, value, null);
	memset(ours_null, true, sizeof(ours_null));
	for (int i = 0; i < input->ncolumns; i++)
	{
		ours[i] = value[input->columns[i] - 1];
		ours_null[i] = null[input->columns[i] - 1];
	}
	minimal = heap_form_minimal_tuple(input->desc, ours, ours_null);
	ReleaseTupleDesc(desc);

	row = palloc0(MAXALIGN(sizeof(SjRow)) + minimal->t_len);
	row->seq = seq;
	row->side = side;
	memcpy(SJ_ROW_TUPLE(row), minimal, minimal->t_len);
	return row;
}

/* One change: step, sign, update, left_seq, l, right_seq, r. */
static void
read_change(SjChange *change, const SjJoinPlan *plan, HeapTuple tuple,
			TupleDesc desc)
{
	bool		null[8];
	Datum		value[8];

	for (int i = 1; i <= 7; i++)
		value[i] = SPI_getbinval(tuple, desc, i, &null[i]);
	change->step = DatumGetInt32(value[1]);
	change->sign = (int8) DatumGetInt32(value[2]);
	change->update = DatumGetBool(value[3]);
	change->left = null[4] ? NULL :
		make_row(&plan->input[SJ_LEFT], SJ_LEFT, DatumGetInt64(value[4]),
				 value[5]);
	change->right = null[6] ? NULL :
		make_row(&plan->input[SJ_RIGHT], SJ_RIGHT, DatumGetInt64(value[6]),
				 value[7]);
}

/* The rows of a query as changes, in the caller's memory. */
static SjChange *
read_changes(const char *query, const SjJoinPlan *plan, int64 *n)
{
	MemoryContext context = CurrentMemoryContext;
	SjChange   *changes;

	SPI_connect();
	if (SPI_execute(query, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "not a query: %s", query);
	MemoryContextSwitchTo(context);
	*n = SPI_processed;
	changes = palloc0(sizeof(SjChange) * (*n + 1));
	for (int64 i = 0; i < *n; i++)
		read_change(&changes[i], plan, SPI_tuptable->vals[i],
					SPI_tuptable->tupdesc);
	SPI_finish();
	return changes;
}

/* The greatest sjoin_seq of the result, 0: none. */
static int64
last_seq(const SjJoinDef *def, const char *name)
{
	int64		seq;
	bool		null;

	if (def->output_mode == SJ_OUTPUT_UPSERT)
		return 0;
	SPI_connect();
	(void) SPI_execute(psprintf("SELECT COALESCE(max(sjoin_seq), 0) FROM %s",
								name), true, 0);
	seq = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
									  SPI_tuptable->tupdesc, 1, &null));
	SPI_finish();
	return seq;
}

/*
 * write_changes(result regclass, changes text, careful boolean)
 *		RETURNS (inserted bigint, retracted bigint)
 *
 * Writes the changes that a query returns as one batch, late rows included.
 */
Datum
sj_test_write_changes(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	char	   *query = text_to_cstring(PG_GETARG_TEXT_PP(1));
	bool		careful = PG_GETARG_BOOL(2);
	char	   *name = DatumGetCString(DirectFunctionCall1(regclassout, relid));
	SjJoinDef  *def = FROM_LIBRARY(sj_join_def_by_result) (relid);
	const char *problem;
	SjJoinQuery *parts;
	SjJoinPlan *plan;
	SjResultWriter *writer;
	SjWritten	written;
	int64		n;
	int64		seq;
	SjChange   *changes;
	TupleDesc	desc;
	Datum		value[2];
	bool		null[2] = {false};

	parts = FROM_LIBRARY(sj_join_analyze) (def, &problem);
	if (parts == NULL)
		elog(ERROR, "the join %s", problem);
	plan = FROM_LIBRARY(sj_join_plan) (parts);
	writer = FROM_LIBRARY(sj_result_open) (def, plan);
	changes = read_changes(query, plan, &n);
	seq = last_seq(def, name);
	FROM_LIBRARY(sj_result_write) (writer, changes, n, careful, 0, &seq,
								   &written);
	FROM_LIBRARY(sj_late_rows_store) (def->join_id, plan, written.late_rows);

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	value[0] = Int64GetDatum(written.inserted);
	value[1] = Int64GetDatum(written.retracted);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  value, null)));
}
