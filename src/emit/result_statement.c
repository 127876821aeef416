/*-------------------------------------------------------------------------
 *
 * result_statement.c
 *	  Writing to a result by SQL statements over rows: INSERT, UPDATE, DELETE.
 *
 * The rows are an ephemeral relation.  Tables and columns are named as they
 * are called now, the columns by their numbers: the user may have renamed
 * them, or changed their types, to which the values are assigned.
 *
 * IDENTIFICATION
 *	  src/emit/result_statement.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "emit/result_run.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "relations.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/tuplestore.h"

#define ROWS_NAME	"sjoin_changes"

/* -- text ----------------------------------------------------------------- */

char *
sj_result_name(const SjResultWriter *writer)
{
	Oid			relid = writer->def->result;

	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
}

/* The name of column n, quoted. */
const char *
sj_result_column(const SjResultWriter *writer, int n)
{
	return quote_identifier(get_attname(writer->def->result, n, false));
}

/* "::type" for sjoin_id, unless it has the type it was created with. */
static char *
id_cast(const SjResultWriter *writer, const char *suffix)
{
	Oid			type = get_atttype(writer->def->result,
								   writer->ntargets + SJ_META_ID);

	return type == UUIDOID ? "" :
		psprintf("::%s%s", format_type_be_qualified(type), suffix);
}

/* "sjoin_id = ANY ($1)", with the parameter an array of uuid */
char *
sj_result_id_condition(const SjResultWriter *writer)
{
	return psprintf("%s = ANY ($1%s)",
					sj_result_column(writer, writer->ntargets + SJ_META_ID),
					id_cast(writer, "[]"));
}

/* INSERT INTO result (its columns) SELECT (ours) FROM the rows. */
static char *
insert_command(const SjResultWriter *writer)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "INSERT INTO %s (", sj_result_name(writer));
	for (int i = 1; i <= writer->desc->natts; i++)
		appendStringInfo(&buf, "%s%s", i > 1 ? ", " : "",
						 sj_result_column(writer, i));
	appendStringInfoString(&buf, ") SELECT ");
	for (int i = 1; i <= writer->desc->natts; i++)
		appendStringInfo(&buf, "%sc%d", i > 1 ? ", " : "", i);
	appendStringInfoString(&buf, " FROM " ROWS_NAME);
	return buf.data;
}

/* UPDATE result SET (all columns but its identity) FROM the rows. */
static char *
update_command(const SjResultWriter *writer)
{
	int			id = writer->ntargets + SJ_META_ID;
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "UPDATE %s AS sjoin_result SET ",
					 sj_result_name(writer));
	for (int i = 1; i <= writer->desc->natts; i++)
		if (i != id)
			appendStringInfo(&buf, "%s%s = " ROWS_NAME ".c%d",
							 i > 1 ? ", " : "", sj_result_column(writer, i),
							 i);
	appendStringInfo(&buf, " FROM " ROWS_NAME " WHERE sjoin_result.%s = "
					 ROWS_NAME ".c%d%s", sj_result_column(writer, id), id,
					 id_cast(writer, ""));
	return buf.data;
}

/* -- the rows as a relation ------------------------------------------------ */

/* The row's columns as c1, c2, ...: names of the user's need not be unique. */
static TupleDesc
ephemeral_desc(const SjResultWriter *writer)
{
	TupleDesc	desc = CreateTupleDescCopy(writer->desc);

	for (int i = 0; i < desc->natts; i++)
		snprintf(NameStr(TupleDescAttr(desc, i)->attname), NAMEDATALEN,
				 "c%d", i + 1);
	return desc;
}

/* Rows of a list; how many of them take back, and how many do not. */
typedef struct Rows
{
	Tuplestorestate *store;
	Datum	   *values;
	bool	   *isnull;
	int64		n[2];
} Rows;

static void
add_row(SjWriteRun *run, Rows *rows, const SjResultRow *row, bool back)
{
	if (!sj_result_fill(run, row, back, rows->values, rows->isnull))
		return;
	tuplestore_putvalues(rows->store, run->writer->desc, rows->values,
						 rows->isnull);
	rows->n[back]++;
}

static void
collect_rows(SjWriteRun *run, Rows *rows, const SjRowList *list, int64 first,
			 int64 last)
{
	int			natts = run->writer->desc->natts;
	SjResultRow space;

	memset(rows, 0, sizeof(Rows));
	rows->store = tuplestore_begin_heap(false, false, work_mem);
	rows->values = palloc(sizeof(Datum) * natts);
	rows->isnull = palloc(sizeof(bool) * natts);
	for (int64 i = first; i < last; i++)
	{
		const SjResultRow *row = sj_result_row(list, i, &space);

		CHECK_FOR_INTERRUPTS();
		if (sj_result_row_is_pair(run, row))
			add_row(run, rows, row, true);
		add_row(run, rows, row, row->op == SJ_ROW_DELETE);
	}
}

/* Runs a command over rows of a list. */
static void
run_over_rows(SjWriteRun *run, const SjRowList *list, int64 first, int64 last,
			  char *(*command) (const SjResultWriter *writer))
{
	Rows		rows;

	SPI_connect();
	collect_rows(run, &rows, list, first, last);
	if (rows.n[false] + rows.n[true] > 0)
	{
		sj_register_rows(ROWS_NAME, ephemeral_desc(run->writer), rows.store);
		if (SPI_execute(command(run->writer), false, 0) < 0)
			elog(ERROR, "could not write to the result");
	}
	tuplestore_end(rows.store);
	SPI_finish();
	run->written->inserted += rows.n[false];
	run->written->retracted += rows.n[true];
}

/* -- the three commands ---------------------------------------------------- */

void
sj_result_insert_by_statement(SjWriteRun *run, const SjRowList *list,
							  int64 first, int64 last)
{
	run_over_rows(run, list, first, last, insert_command);
}

/* The rows are in the table, with the values that they were written with. */
void
sj_result_update(SjWriteRun *run, const SjRowList *list, int64 first,
				 int64 last)
{
	run_over_rows(run, list, first, last, update_command);
}

/* The rows are in the table. */
void
sj_result_delete(SjWriteRun *run, const SjRowList *list, int64 first,
				 int64 last)
{
	int64		n = last - first;
	Datum	   *ids = palloc(sizeof(Datum) * n);
	Oid			type = UUIDARRAYOID;
	Datum		value;

	for (int64 i = 0; i < n; i++)
	{
		pg_uuid_t  *id = palloc(sizeof(pg_uuid_t));

		sj_result_id(id, list->rows[first + i].old);
		ids[i] = UUIDPGetDatum(id);
	}
	value = PointerGetDatum(construct_array(ids, (int) n, UUIDOID, UUID_LEN,
											false, TYPALIGN_CHAR));
	SPI_connect();
	if (SPI_execute_with_args(psprintf("DELETE FROM %s WHERE %s",
									   sj_result_name(run->writer),
									   sj_result_id_condition(run->writer)),
							  1, &type, &value, NULL, false, 0) < 0)
		elog(ERROR, "could not delete from the result");
	SPI_finish();
	run->written->retracted += n;
}
