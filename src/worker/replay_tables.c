/*-------------------------------------------------------------------------
 *
 * replay_tables.c
 *	  What the tables have for late rows that are taken in after all.
 *
 * IDENTIFICATION
 *	  src/worker/replay_tables.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heaptoast.h"
#include "catalog/pg_type.h"
#include "catalog/replay_query.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "relations.h"
#include "utils/array.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "worker/replay_tables.h"

#define ROWS_PER_FETCH	1000

bool
sj_replay_is_against_final(const SjJoinDef *def, const SjJoinQuery *query,
						   SjSide side)
{
	return sj_join_is_final(def) && side == SJ_RIGHT && query->pad[SJ_LEFT];
}

void
sj_replay_tables_read_records(SjReplayTables *tables,
							  const SjPosition *position)
{
	tables->records = tuplestore_begin_heap(false, false, work_mem);
	sj_rejections_read(tables->def->join_id, tables->snapshot,
					   tables->records, &tables->rejections);
	sj_pending_put(tables->def, tables->query, tables->plan, position,
				   tables->snapshot, tables->records, &tables->rejections);
	tables->spec.has_records = tables->rejections.any;
	tables->spec.has_failed_pairs = tables->rejections.failed_pairs;
	sj_register_rows(SJ_RECORDS, sj_rejections_desc(), tables->records);
}

void
sj_replay_tables_open(SjReplayTables *tables, const SjJoinDef *def,
					  const SjJoinQuery *query, const SjJoinPlan *plan)
{
	MemoryContext old = CurrentMemoryContext;

	memset(tables, 0, sizeof(SjReplayTables));
	tables->def = def;
	tables->query = query;
	tables->plan = plan;
	tables->snapshot = RegisterSnapshot(GetLatestSnapshot());
	tables->spec.start = def->with_data ? NULL : sj_verify_start(def->start);
	PushActiveSnapshot(tables->snapshot);
	SPI_connect();
	MemoryContextSwitchTo(old);
}

void
sj_replay_tables_close(SjReplayTables *tables)
{
	SPI_finish();
	if (tables->records != NULL)
		tuplestore_end(tables->records);
	PopActiveSnapshot();
	UnregisterSnapshot(tables->snapshot);
}

/* The columns of a row as a tuple of the input. */
static MinimalTuple
input_tuple(const SjPlanInput *input, HeapTuple row, TupleDesc desc)
{
	Datum	   *values = palloc(sizeof(Datum) * desc->natts);
	bool	   *isnull = palloc(sizeof(bool) * desc->natts);
	Datum	   *ours = palloc0(sizeof(Datum) * input->desc->natts);
	bool	   *ours_null = palloc(sizeof(bool) * input->desc->natts);

	/* values out of line are the table's, which may let them go */
	if (HeapTupleHasExternal(row))
		row = toast_flatten_tuple(row, desc);
	heap_deform_tuple(row, desc, values, isnull);
	memset(ours_null, true, sizeof(bool) * input->desc->natts);
	memcpy(ours, values, sizeof(Datum) * input->ncolumns);
	memcpy(ours_null, isnull, sizeof(bool) * input->ncolumns);
	return heap_form_minimal_tuple(input->desc, ours, ours_null);
}

/* One query, and whom its rows are told to. */
typedef struct Reading
{
	const SjPlanInput *input;
	bool		accepted;		/* of which query the columns are */
	SjTableRowVisitor visit;
	void	   *arg;
} Reading;

static void
visit_row(const Reading *reading, HeapTuple row, TupleDesc desc)
{
	int			n = reading->input->ncolumns;
	SjTableRow	found = {0};
	bool		isnull;

	found.tuple = input_tuple(reading->input, row, desc);
	found.hash = *DatumGetUUIDP(heap_getattr(row, n + 1, desc, &isnull));
	if (reading->accepted)
		found.has_partners = DatumGetBool(heap_getattr(row, n + 2, desc,
													   &isnull));
	else
	{
		found.there = DatumGetInt64(heap_getattr(row, n + 2, desc, &isnull));
		found.refused = DatumGetInt64(heap_getattr(row, n + 3, desc, &isnull));
	}
	reading->visit(reading->arg, &found);
}

/* Runs a query with at most one parameter, an array of hashes. */
static void
read_rows(const Reading *reading, const char *query, Datum hashes)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "sjoin table row",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = CurrentMemoryContext;
	Oid			type = UUIDARRAYOID;
	Portal		portal;

	portal = SPI_cursor_open_with_args(NULL, query,
									   reading->accepted ? 0 : 1, &type,
									   &hashes, NULL, true, 0);
	do
	{
		SPI_cursor_fetch(portal, true, ROWS_PER_FETCH);
		MemoryContextSwitchTo(context);
		for (uint64 i = 0; i < SPI_processed; i++)
		{
			CHECK_FOR_INTERRUPTS();
			visit_row(reading, SPI_tuptable->vals[i], SPI_tuptable->tupdesc);
			MemoryContextReset(context);
		}
		MemoryContextSwitchTo(old);
		SPI_freetuptable(SPI_tuptable);
	} while (SPI_processed > 0);
	SPI_cursor_close(portal);
	MemoryContextDelete(context);
}

/* The hashes of the choices of one side, and their event times. */
static Datum
hashes_of(const SjLateChoice *choices, int n, SjSide side, SjTime *from,
		  SjTime *until)
{
	Datum	   *hashes = palloc(sizeof(Datum) * (n + 1));
	int			nhashes = 0;

	*from = SJ_TIME_MAX;
	*until = SJ_TIME_MIN;
	for (int i = 0; i < n; i++)
	{
		if (choices[i].side != side || choices[i].state != SJ_CHOICE_LATE)
			continue;
		hashes[nhashes++] = UUIDPGetDatum(&choices[i].hash);
		*from = Min(*from, choices[i].event_time);
		*until = Max(*until, choices[i].event_time);
	}
	return nhashes == 0 ? (Datum) 0 :
		PointerGetDatum(construct_array(hashes, nhashes, UUIDOID, UUID_LEN,
										false, TYPALIGN_CHAR));
}

void
sj_replay_visit_images(SjReplayTables *tables, SjSide side,
					   const SjLateChoice *choices, int n,
					   SjTableRowVisitor visit, void *arg)
{
	Reading		reading = {.input = &tables->plan->input[side],
	.visit = visit,.arg = arg};
	SjTime		from;
	SjTime		until;
	Datum		hashes = hashes_of(choices, n, side, &from, &until);

	if (hashes == (Datum) 0)
		return;
	read_rows(&reading,
			  sj_replay_image_query(tables->query, &tables->spec, side, from,
									until), hashes);
}

void
sj_replay_visit_accepted(SjReplayTables *tables, SjSide side, SjTime from,
						 SjTime until, SjTableRowVisitor visit, void *arg)
{
	Reading		reading = {.input = &tables->plan->input[side],
		.accepted = true,.visit = visit,.arg = arg};

	read_rows(&reading,
			  sj_replay_partner_query(tables->query, &tables->spec, side, from,
									  until), (Datum) 0);
}

void
sj_replay_visit_spare(SjReplayTables *tables, SjSide side,
					  const SjLateChoice *choices, int n,
					  void (*visit) (void *arg, const pg_uuid_t *hash,
									 int64 spare),
					  void *arg)
{
	Oid			type = UUIDARRAYOID;
	SjTime		from;
	SjTime		until;
	Datum		hashes = hashes_of(choices, n, side, &from, &until);

	if (hashes == (Datum) 0)
		return;
	if (SPI_execute_with_args(sj_replay_spare_query(tables->query,
													&tables->spec, side, from,
													until), 1, &type, &hashes,
							  NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read the tables of the join");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		bool		isnull;

		visit(arg, DatumGetUUIDP(SPI_getbinval(row, desc, 1, &isnull)),
			  DatumGetInt64(SPI_getbinval(row, desc, 2, &isnull)));
	}
	SPI_freetuptable(SPI_tuptable);
}
