/*-------------------------------------------------------------------------
 *
 * result_stored.c
 *	  What the table has of given identities, read as the owner.
 *
 * IDENTIFICATION
 *	  src/emit/result_stored.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "emit/attempt.h"
#include "emit/result_run.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* One query for identities, and whom its rows are told to. */
typedef struct Reading
{
	SjWriteRun *run;
	MemoryContext context;		/* of the values */
	char	   *query;
	bool		log;			/* has sjoin_op as third column */
	bool		with_values;	/* and the query's columns after it */
	ArrayType  *ids;
	SjStoredVisitor visit;
	void	   *arg;
} Reading;

static ArrayType *
ids_of(const SjChange *const *changes, int n)
{
	Datum	   *ids = palloc(sizeof(Datum) * n);
	int			nids = 0;

	for (int i = 0; i < n; i++)
	{
		pg_uuid_t  *id;

		if (changes[i] == NULL)
			continue;
		id = palloc(sizeof(pg_uuid_t));
		sj_result_id(id, changes[i]);
		ids[nids++] = UUIDPGetDatum(id);
	}
	if (nids == 0)
		return NULL;
	return construct_array(ids, nids, UUIDOID, UUID_LEN, false,
						   TYPALIGN_CHAR);
}

/* A row of the answer. */
static void
visit_row(Reading *reading, HeapTuple tuple, TupleDesc desc)
{
	SjResultWriter *writer = reading->run->writer;
	MinimalTuple values = NULL;
	bool		there = true;
	bool		null;
	pg_uuid_t  *id = DatumGetUUIDP(SPI_getbinval(tuple, desc, 1, &null));
	int32		version = DatumGetInt32(SPI_getbinval(tuple, desc, 2, &null));

	if (reading->log)
		there = DatumGetBool(SPI_getbinval(tuple, desc, 3, &null)) && !null;
	if (reading->with_values && there)
	{
		MemoryContext old = MemoryContextSwitchTo(reading->context);

		for (int i = 0; i < writer->ntargets; i++)
			writer->values[i] = SPI_getbinval(tuple, desc, i + 4,
											  &writer->isnull[i]);
		values = heap_form_minimal_tuple(writer->target_desc, writer->values,
										 writer->isnull);
		MemoryContextSwitchTo(old);
	}
	reading->visit(reading->arg, id, version, there, values);
}

static void
read_action(void *arg)
{
	Reading    *reading = arg;
	Oid			type = UUIDARRAYOID;
	Datum		value = PointerGetDatum(reading->ids);

	SPI_connect();
	if (SPI_execute_with_args(reading->query, 1, &type, &value, NULL, false,
							  0) != SPI_OK_SELECT)
		elog(ERROR, "could not read the result");
	for (uint64 i = 0; i < SPI_processed; i++)
		visit_row(reading, SPI_tuptable->vals[i], SPI_tuptable->tupdesc);
	SPI_finish();
}

void
sj_result_read_rows(SjWriteRun *run, const SjChange *const *changes, int n,
					SjStoredVisitor visit, void *arg)
{
	SjResultWriter *writer = run->writer;
	int			meta = writer->ntargets;
	Reading		reading = {.run = run,.visit = visit,.arg = arg,
	.context = CurrentMemoryContext,.ids = ids_of(changes, n)};

	if (reading.ids == NULL)
		return;
	reading.query = psprintf("SELECT %s::pg_catalog.uuid, %s::pg_catalog.int4 FROM %s WHERE %s",
							 sj_result_column(writer, meta + SJ_META_ID),
							 sj_result_column(writer, meta + SJ_META_VERSION),
							 sj_result_name(writer),
							 sj_result_id_condition(writer));
	read_action(&reading);
}

/* The query's columns, with the types that they have there. */
static char *
value_columns(const SjResultWriter *writer)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 1; i <= writer->ntargets; i++)
	{
		Form_pg_attribute att = TupleDescAttr(writer->desc, i - 1);

		appendStringInfo(&buf, ", %s::%s", sj_result_column(writer, i),
						 format_type_with_typemod(att->atttypid,
												  att->atttypmod));
	}
	return buf.data;
}

/*
 * The newest row of each identity.  By an index scan for each: an identity
 * that is often updated has many rows.
 */
static char *
log_query(const SjResultWriter *writer, bool with_values)
{
	int			meta = writer->ntargets;
	const char *id = sj_result_column(writer, meta + SJ_META_ID);
	Oid			id_type = get_atttype(writer->def->result, meta + SJ_META_ID);

	return psprintf("SELECT sjoin_newest.* FROM pg_catalog.unnest($1) AS sjoin_ids(id), "
					"LATERAL (SELECT %s::pg_catalog.uuid, %s::pg_catalog.int4, %s = ANY ('{+I,+U}')%s "
					"FROM %s AS sjoin_result WHERE sjoin_result.%s = sjoin_ids.id%s "
					"ORDER BY %s DESC LIMIT 1) AS sjoin_newest", id,
					sj_result_column(writer, meta + SJ_META_VERSION),
					sj_result_column(writer, meta + SJ_META_OP),
					with_values ? value_columns(writer) : "",
					sj_result_name(writer), id,
					id_type == UUIDOID ? "" :
					psprintf("::%s", format_type_be_qualified(id_type)),
					sj_result_column(writer, meta + SJ_META_SEQ));
}

/*
 * In a careful run values that cannot be read back, because the user has
 * changed a column's type, are left to be computed from the images.
 */
void
sj_result_read_log(SjWriteRun *run, const SjChange *const *changes, int n,
				   SjStoredVisitor visit, void *arg)
{
	Reading		reading = {.run = run,.log = true,.with_values = true,
		.visit = visit,.arg = arg,.context = CurrentMemoryContext,
	.ids = ids_of(changes, n)};

	if (reading.ids == NULL)
		return;
	reading.query = log_query(run->writer, true);
	if (!run->careful)
	{
		read_action(&reading);
		return;
	}
	if (sj_attempt(read_action, &reading, sj_error_is_of_row) == NULL)
		return;
	reading.with_values = false;
	reading.query = log_query(run->writer, false);
	read_action(&reading);
}
