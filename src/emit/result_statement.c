/*-------------------------------------------------------------------------
 *
 * result_statement.c
 *	  Writing to a result by SQL statements over the changes.
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
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/tuplestore.h"

#define CHANGES_NAME	"sjoin_changes"

static char *
result_name(const SjResultWriter *writer)
{
	Oid			relid = writer->def->result;

	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
}

/* INSERT INTO result (its columns) SELECT (ours) FROM the changes. */
static char *
insert_command(const SjResultWriter *writer)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "INSERT INTO %s (", result_name(writer));
	for (int i = 0; i < writer->desc->natts; i++)
		appendStringInfo(&buf, "%s%s", i > 0 ? ", " : "",
						 quote_identifier(get_attname(writer->def->result,
													  i + 1, false)));
	appendStringInfoString(&buf, ") SELECT ");
	for (int i = 0; i < writer->desc->natts; i++)
		appendStringInfo(&buf, "%sc%d", i > 0 ? ", " : "", i + 1);
	appendStringInfo(&buf, " FROM %s", CHANGES_NAME);
	return buf.data;
}

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

static Tuplestorestate *
collect_rows(SjWriteRun *run, int64 first, int64 last, uint64 *n)
{
	Tuplestorestate *store = tuplestore_begin_heap(false, false, work_mem);
	TupleDesc	desc = run->writer->desc;
	Datum	   *values = palloc(sizeof(Datum) * desc->natts);
	bool	   *isnull = palloc(sizeof(bool) * desc->natts);

	*n = 0;
	for (int64 i = first; i < last; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (run->changes[i].sign < 0 ||
			!sj_result_make_row(run, &run->changes[i], values, isnull))
			continue;
		tuplestore_putvalues(store, desc, values, isnull);
		(*n)++;
	}
	return store;
}

static void
register_changes(SjWriteRun *run, Tuplestorestate *store, uint64 n)
{
	EphemeralNamedRelation enr = palloc0(sizeof(EphemeralNamedRelationData));

	enr->md.name = CHANGES_NAME;
	enr->md.reliddesc = InvalidOid;
	enr->md.tupdesc = ephemeral_desc(run->writer);
	enr->md.enrtype = ENR_NAMED_TUPLESTORE;
	enr->md.enrtuples = (double) n;
	enr->reldata = store;
	if (SPI_register_relation(enr) != SPI_OK_REL_REGISTER)
		elog(ERROR, "could not register the changes as a relation");
}

uint64
sj_result_insert_by_statement(SjWriteRun *run, int64 first, int64 last)
{
	Tuplestorestate *store;
	uint64		n;

	SPI_connect();
	store = collect_rows(run, first, last, &n);
	if (n > 0)
	{
		register_changes(run, store, n);
		if (SPI_execute(insert_command(run->writer), false, 0) < 0)
			elog(ERROR, "could not insert into the result");
	}
	tuplestore_end(store);
	SPI_finish();
	return n;
}

static ArrayType *
retracted_ids(const SjChange *changes, int64 first, int64 last, int *n)
{
	Datum	   *ids = palloc(sizeof(Datum) * (last - first));

	*n = 0;
	for (int64 i = first; i < last; i++)
	{
		pg_uuid_t  *id;

		if (changes[i].sign > 0)
			continue;
		id = palloc(sizeof(pg_uuid_t));
		sj_result_identity(id, &changes[i]);
		ids[(*n)++] = UUIDPGetDatum(id);
	}
	return construct_array(ids, *n, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR);
}

/* Deletes the rows that the changes take back. */
void
sj_result_retract(SjWriteRun *run, int64 first, int64 last)
{
	int			n;
	ArrayType  *ids = retracted_ids(run->changes, first, last, &n);
	Oid			type = UUIDARRAYOID;
	Datum		value = PointerGetDatum(ids);
	int			id_attno = run->writer->ntargets + 1;

	if (n == 0)
		return;
	SPI_connect();
	if (SPI_execute_with_args(psprintf("DELETE FROM %s WHERE %s = ANY ($1)",
									   result_name(run->writer),
									   quote_identifier(get_attname(run->writer->def->result,
																	id_attno, false))),
							  1, &type, &value, NULL, false, 0) < 0)
		elog(ERROR, "could not delete from the result");
	SPI_finish();
	run->written->retracted += n;
}
