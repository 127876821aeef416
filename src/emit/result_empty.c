/*-------------------------------------------------------------------------
 *
 * result_empty.c
 *	  Taking all rows out of a result.
 *
 * IDENTIFICATION
 *	  src/emit/result_empty.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "catalog/heap.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "emit/result_empty.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

bool
sj_result_is_empty(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan;
	TupleTableSlot *slot;
	bool		empty = true;

	if (rel->rd_rel->relkind == RELKIND_RELATION)
	{
		slot = table_slot_create(rel, NULL);
		scan = table_beginscan(rel, snapshot, 0, NULL);
		empty = !table_scan_getnextslot(scan, ForwardScanDirection, slot);
		table_endscan(scan);
		ExecDropSingleTupleTableSlot(slot);
	}
	UnregisterSnapshot(snapshot);
	table_close(rel, NoLock);
	return empty;
}

/*
 * Under a snapshot of the moment: that of a REPEATABLE READ transaction does
 * not see what the worker has written since.
 */
static void
run_now(const char *command, bool read_only)
{
	SPIPlanPtr	plan = SPI_prepare(command, 0, NULL);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());

	if (plan == NULL ||
		SPI_execute_snapshot(plan, NULL, NULL, snapshot, InvalidSnapshot,
							 read_only, true, 0) < 0)
		elog(ERROR, "could not execute \"%s\"", command);
	UnregisterSnapshot(snapshot);
	SPI_freeplan(plan);
}

static int64
truncate_table(const char *name)
{
	bool		isnull;
	int64		n;

	run_now(psprintf("SELECT pg_catalog.count(*) FROM %s", name), true);
	n = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
									SPI_tuptable->tupdesc, 1, &isnull));
	if (SPI_execute(psprintf("TRUNCATE %s", name), false, 0) < 0)
		elog(ERROR, "could not truncate the result");
	return n;
}

int64
sj_result_empty(Oid relid)
{
	const char *name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
												  get_rel_name(relid));
	List	   *relids = find_all_inheritors(relid, NoLock, NULL);
	int64		n;

	SPI_connect();
	if (heap_truncate_find_FKs(relids) == NIL)
		n = truncate_table(name);
	else
	{
		/* what refers to the rows has its say, which TRUNCATE would not ask */
		run_now(psprintf("DELETE FROM %s", name), false);
		n = (int64) SPI_processed;
	}
	SPI_finish();
	if (!sj_result_is_empty(relid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("could not empty the result \"%s\"",
						get_rel_name(relid)),
				 errhint("A trigger, rule or policy of the table keeps rows in it.")));
	return n;
}
