/*-------------------------------------------------------------------------
 *
 * result_padded.c
 *	  Finding padded rows of the result by their values.
 *
 * When a row has left the state nobody knows its number any more, which is what
 * its rows in the result are known by.  A padded row that has to go is found by
 * what it shows; of several that show the same one is as good as another.
 * Columns that may come out differently each time are left out of that, as
 * verify() does.
 *
 * IDENTIFICATION
 *	  src/emit/result_padded.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "catalog/query_vars.h"
#include "emit/attempt.h"
#include "emit/result_run.h"
#include "emit/side_output.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* The columns that rows are told apart by. */
typedef struct Shown
{
	int		   *place;			/* among the targets, from 0 */
	int			n;
	TupleDesc	desc;			/* of these columns */
} Shown;

/* A padded row that is looked for. */
typedef struct Wanted
{
	pg_uuid_t	hash;
	int			number;
	int			served;			/* in the first of equal hashes: how many of
								 * them have got a row */
} Wanted;

typedef struct Search
{
	SjResultWriter *writer;
	Shown		shown;
	const SjChange *change;		/* whose values are computed */
	pg_uuid_t	hash;
	bool		there;
} Search;

static bool
is_shown(const SjResultWriter *writer, int i)
{
	TargetEntry *target = list_nth(writer->plan->query->targets, i);
	TargetEntry *planned = list_nth(writer->plan->targets, i);

	return !sj_has_sub_query((Node *) target->expr) &&
		!contain_mutable_functions((Node *) planned->expr);
}

static void
find_shown(const SjResultWriter *writer, Shown *shown)
{
	shown->place = palloc(sizeof(int) * (writer->ntargets + 1));
	shown->n = 0;
	for (int i = 0; i < writer->ntargets; i++)
		if (is_shown(writer, i))
			shown->place[shown->n++] = i;
	shown->desc = CreateTemplateTupleDesc(shown->n);
	for (int i = 0; i < shown->n; i++)
		TupleDescCopyEntry(shown->desc, i + 1, writer->desc,
						   shown->place[i] + 1);
}

/* The hash of what a padded row shows, for sj_attempt(). */
static void
compute_hash(void *arg)
{
	Search	   *search = arg;
	SjResultWriter *writer = search->writer;
	const Shown *shown = &search->shown;
	Datum	   *values = palloc(sizeof(Datum) * (shown->n + 1));
	bool	   *isnull = palloc(sizeof(bool) * (shown->n + 1));

	ResetExprContext(writer->econtext);
	search->there = sj_result_project(writer, search->change, writer->values,
									  writer->isnull);
	for (int i = 0; search->there && i < shown->n; i++)
	{
		values[i] = writer->values[shown->place[i]];
		isnull[i] = writer->isnull[shown->place[i]];
	}
	if (search->there)
		sj_image_hash(shown->desc, shown->n, values, isnull, &search->hash);
	pfree(values);
	pfree(isnull);
}

static int
compare_wanted(const void *a, const void *b)
{
	const Wanted *x = a;
	const Wanted *y = b;
	int			order = memcmp(&x->hash, &y->hash, sizeof(pg_uuid_t));

	return order != 0 ? order : x->number - y->number;
}

/* What is looked for, by hash; a row that cannot be computed is not there. */
static Wanted *
make_wanted(Search *search, const SjChange *padded, int n, int *nwanted)
{
	Wanted	   *wanted = palloc(sizeof(Wanted) * (n + 1));

	*nwanted = 0;
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		search->change = &padded[i];
		if (sj_attempt(compute_hash, search,
					   sj_error_is_of_expression) != NULL || !search->there)
			continue;
		wanted[*nwanted].hash = search->hash;
		wanted[*nwanted].served = 0;
		wanted[(*nwanted)++].number = i;
	}
	qsort(wanted, *nwanted, sizeof(Wanted), compare_wanted);
	return wanted;
}

/* "sjoin.image_hash(ROW(columns))" with the types that they have for us. */
static char *
hash_expression(const SjResultWriter *writer, const Shown *shown)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < shown->n; i++)
	{
		Form_pg_attribute att = TupleDescAttr(shown->desc, i);
		int			attno = shown->place[i] + 1;

		appendStringInfo(&buf, "%s%s", i > 0 ? ", " : "",
						 sj_result_column(writer, attno));
		if (get_atttype(writer->def->result, attno) != att->atttypid)
			appendStringInfo(&buf, "::%s",
							 format_type_be_qualified(att->atttypid));
	}
	return psprintf("sjoin.image_hash(ROW(%s))", buf.data);
}

/* The unmatched rows of the left input that are in the result now. */
static char *
padded_rows(const SjResultWriter *writer)
{
	int			meta = writer->ntargets;
	const char *id = sj_result_column(writer, meta + SJ_META_ID);
	char	   *is_padded = psprintf("%s::pg_catalog.text LIKE '%%-0000-000000000000'",
									 id);

	if (!writer->changelog)
		return psprintf("SELECT * FROM %s WHERE %s", sj_result_name(writer),
						is_padded);
	return psprintf("SELECT * FROM (SELECT DISTINCT ON (%s) * FROM %s WHERE %s ORDER BY %s, %s DESC) sjoin_newest "
					"WHERE %s = ANY ('{+I,+U}')", id, sj_result_name(writer),
					is_padded, id,
					sj_result_column(writer, meta + SJ_META_SEQ),
					sj_result_column(writer, meta + SJ_META_OP));
}

static char *
search_query(const Search *search)
{
	const SjResultWriter *writer = search->writer;

	return psprintf("SELECT id, hash FROM (SELECT %s::pg_catalog.uuid AS id, %s AS hash FROM (%s) sjoin_padded OFFSET 0) sjoin_shown "
					"WHERE hash = ANY ($1) ORDER BY id",
					sj_result_column(writer, writer->ntargets + SJ_META_ID),
					hash_expression(writer, &search->shown),
					padded_rows(writer));
}

static Datum
hashes_of(Wanted *wanted, int n)
{
	Datum	   *hashes = palloc(sizeof(Datum) * (n + 1));

	for (int i = 0; i < n; i++)
		hashes[i] = UUIDPGetDatum(&wanted[i].hash);
	return PointerGetDatum(construct_array(hashes, n, UUIDOID, UUID_LEN, false,
										   TYPALIGN_CHAR));
}

/* The first of those that look for the hash; n: nobody does. */
static int
first_wanted(const Wanted *wanted, int n, const pg_uuid_t *hash)
{
	int			first = 0;
	int			end = n;

	while (first < end)
	{
		int			middle = first + (end - first) / 2;

		if (memcmp(&wanted[middle].hash, hash, sizeof(pg_uuid_t)) < 0)
			first = middle + 1;
		else
			end = middle;
	}
	return first;
}

/* Gives a row of the result to one of those that look for its values. */
static void
take(Wanted *wanted, int n, int64 seq, const pg_uuid_t *hash, int64 *seqs)
{
	int			first = first_wanted(wanted, n, hash);
	int			next;

	if (first == n)
		return;
	next = first + wanted[first].served;
	if (next == n ||
		memcmp(&wanted[next].hash, hash, sizeof(pg_uuid_t)) != 0)
		return;
	seqs[wanted[next].number] = seq;
	wanted[first].served++;
}

/* The number of the left row in an identity. */
static int64
left_number(const pg_uuid_t *id)
{
	uint64		left;

	memcpy(&left, id->data, sizeof(left));
	return (int64) pg_ntoh64(left);
}

void
sj_result_find_padded(SjResultWriter *writer, const SjChange *padded, int n,
					  bool (*is_known) (void *arg, int64 seq), void *arg,
					  int64 *seqs)
{
	Search		search = {.writer = writer};
	Oid			type = UUIDARRAYOID;
	Wanted	   *wanted;
	Datum		hashes;
	int			nwanted;

	memset(seqs, 0, sizeof(int64) * n);
	find_shown(writer, &search.shown);
	wanted = make_wanted(&search, padded, n, &nwanted);
	if (nwanted == 0)
		return;
	hashes = hashes_of(wanted, nwanted);
	SPI_connect();
	if (SPI_execute_with_args(search_query(&search), 1, &type, &hashes, NULL,
							  true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read the result");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		bool		isnull;
		int64		seq = left_number(DatumGetUUIDP(SPI_getbinval(row, desc, 1,
																  &isnull)));

		CHECK_FOR_INTERRUPTS();
		/* one that the engine has would be taken from it */
		if (!is_known(arg, seq))
			take(wanted, nwanted, seq,
				 DatumGetUUIDP(SPI_getbinval(row, desc, 2, &isnull)), seqs);
	}
	SPI_finish();
}
