/*-------------------------------------------------------------------------
 *
 * guard_api.c
 *	  no_rows: keeps REFRESH MATERIALIZED VIEW from emptying sjoin's relations.
 *
 * IDENTIFICATION
 *	  src/api/guard_api.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/extension.h"
#include "fmgr.h"

PG_FUNCTION_INFO_V1(sjoin_no_rows);

/*
 * no_rows() RETURNS boolean: false while the extension's script runs, an error
 * at any other time.
 */
Datum
sjoin_no_rows(PG_FUNCTION_ARGS)
{
	if (!creating_extension)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot refresh a relation of sjoin"),
				 errdetail("It is written by sjoin itself; refreshing it would lose what is in it.")));
	PG_RETURN_BOOL(false);
}
