/*-------------------------------------------------------------------------
 *
 * refresh_api.c
 *	  refresh_join: starting a join over.
 *
 * The join keeps its result, its definition and its options and gets another
 * number, so that for the worker one join goes and another comes: position,
 * state, statistics and what the log holds of the old one are forgotten with
 * its number.  All of it is one transaction of the caller's; while that is
 * open nobody writes to the result, and when it is rolled back the old join
 * goes on.
 *
 * The query is looked at and the result emptied as the owner of the result,
 * whoever calls: both can run the owner's code.
 *
 * IDENTIFICATION
 *	  src/api/refresh_api.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "api/api.h"
#include "api/join_start.h"
#include "catalog/join_plan.h"
#include "catalog/pg_type.h"
#include "catalog/privileges.h"
#include "emit/result_empty.h"
#include "emit/side_output.h"
#include "log/position.h"
#include "miscadmin.h"
#include "shmem.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "worker/sandbox.h"

PG_FUNCTION_INFO_V1(sjoin_refresh_join);

/* The join as it is now, which can start over. */
static SjJoinDef *
read_join(Oid result)
{
	SjJoinDef  *def = sj_join_def_by_result(result);

	if (def == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the join has been dropped")));
	if (get_rel_name(def->definition) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the join \"%s\" has lost its definition, which has been dropped",
						get_rel_name(result)),
				 errhint("Drop the join and create it again.")));
	return def;
}

/* The query as the view has it, whatever it was when the join was created. */
static SjJoinQuery *
analyze_definition(const SjJoinDef *def)
{
	SjJoinShape shape;

	sj_join_shape(def, &shape);
	return sj_query_analyze(sj_join_definition(def->definition), &shape);
}

/* The query may have become another one while the locks were waited for. */
static void
check_locks(const SjJoinQuery *query)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		LOCKTAG		tag;

		SET_LOCKTAG_RELATION(tag, MyDatabaseId, query->input[side].relid);
		if (!LockHeldByMe(&tag, ShareRowExclusiveLock))
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("the definition of the join has changed just now"),
					 errhint("Refresh the join again.")));
	}
}

/* The columns of the query come first in the result, then sjoin's own. */
static void
check_columns(const SjJoinDef *def, const SjJoinQuery *query)
{
	int			n = list_length(query->targets);

	if (get_atttype(def->result, n + 1) != UUIDOID ||
		get_atttype(def->result, n + 2) != INT4OID)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the definition of the join has other columns than its result \"%s\"",
						get_rel_name(def->result)),
				 errhint("Drop the join and create it again.")));
}

/* The last sjoin_seq that was given; the numbers go on after it. */
static int64
last_result_seq(const SjJoinDef *def)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	SjPosition *position = sj_position_load(def->join_id, snapshot);

	UnregisterSnapshot(snapshot);
	return position == NULL ? def->result_seq : position->result_seq;
}

/* As the owner of the result; returns the number of rows taken out of it. */
static int64
refresh(Oid result, bool with_data)
{
	SjJoinDef  *def = read_join(result);
	SjJoinQuery *query;
	int32		old_id;
	int64		n;

	sj_lock_inputs(analyze_definition, def, result);
	def = read_join(result);	/* what may have changed before the lock */
	query = analyze_definition(def);
	check_locks(query);
	sj_check_may_read(query);
	sj_check_finality(def, query);
	check_columns(def, query);
	(void) sj_join_plan(query); /* constants that cannot be computed */
	sj_declare_streams(query);

	old_id = def->join_id;
	def->result_seq = last_result_seq(def);
	def->with_data = with_data;
	n = sj_result_empty(result);
	sj_late_rows_delete(old_id);
	sj_start_join(def, query);
	sj_join_def_update(old_id, def);
	return n;
}

/* refresh_join(name regclass, with_data boolean) RETURNS bigint */
Datum
sjoin_refresh_join(PG_FUNCTION_ARGS)
{
	SjJoinDef  *def = sj_arg_join(fcinfo, 0);
	bool		with_data = sj_arg_flag(fcinfo, 1);
	SjSandbox	sandbox;
	int64		n;

	sj_require_preload();
	sj_check_owner(def->result);
	sj_sandbox_enter(&sandbox, sj_relation_owner(def->result),
					 def->time_zone);
	n = refresh(def->result, with_data);
	sj_sandbox_leave(&sandbox);
	sj_definitions_changed();
	PG_RETURN_INT64(n);
}
