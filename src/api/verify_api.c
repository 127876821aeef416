/*-------------------------------------------------------------------------
 *
 * verify_api.c
 *	  verify: is the result what the batch query says (R1)?
 *
 * Everything is read under one snapshot: the result, the tables, the position
 * of the join, and the log.  What the snapshot sees of the tables but the
 * position has not consumed is subtracted like a late row, so the answer is
 * exact while rows are written at full rate.  The comparison is by bags, on
 * hashes of whole rows; columns that STABLE functions compute, or that
 * sub-queries read from other tables, are left out.
 *
 * IDENTIFICATION
 *	  src/api/verify_api.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "api/api.h"
#include "api/verify_settled.h"
#include "capture/capture.h"
#include "catalog/pg_type.h"
#include "catalog/privileges.h"
#include "catalog/query_vars.h"
#include "catalog/verify_query.h"
#include "emit/late_read.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "guc.h"
#include "local_time.h"
#include "log/event_log.h"
#include "log/numbers.h"
#include "log/position.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "relations.h"
#include "shmem.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "worker/pending.h"
#include "worker/sandbox.h"
#include "worker/task.h"

PG_FUNCTION_INFO_V1(sjoin_verify);

/* One call. */
typedef struct Verification
{
	SjJoinDef  *def;
	SjJoinQuery *query;
	SjJoinPlan *plan;
	SjPosition *position;
	Snapshot	snapshot;
	Tuplestorestate *records;
	SjRejections rejections;
	bool		bounded;		/* since or until given */
	SjTime		since;
	SjTime		until;
	int			max_examples;
} Verification;

/* -- the comparison ------------------------------------------------------- */

/* Is the column the same whenever it is computed? */
static bool
is_comparable(const Verification *v, int i)
{
	TargetEntry *target = list_nth(v->query->targets, i);
	TargetEntry *planned = list_nth(v->plan->targets, i);

	if (sj_has_sub_query((Node *) target->expr))
		return !sj_reads_relations((Node *) target->expr) &&
			!contain_mutable_functions((Node *) target->expr);
	return !contain_mutable_functions((Node *) planned->expr);
}

/* A column of the result by its number, quoted. */
static const char *
column_name(const Verification *v, int number)
{
	return quote_identifier(get_attname(v->def->result, number, false));
}

/* Columns of the row under the alias sjoin_row, by their places. */
static char *
column_list(const Verification *v, List *places)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, places)
		appendStringInfo(&buf, "%ssjoin_row.%s", buf.len > 0 ? ", " : "",
						 column_name(v, lfirst_int(lc)));
	return buf.data;
}

/* The columns that are compared. */
static char *
compared_columns(const Verification *v)
{
	List	   *places = NIL;

	for (int i = 0; i < list_length(v->plan->targets); i++)
		if (is_comparable(v, i))
			places = lappend_int(places, i + 1);
	return column_list(v, places);
}

/* Names for the columns of a sub-query: those of the result. */
static char *
column_aliases(const Verification *v)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < list_length(v->plan->targets); i++)
		appendStringInfo(&buf, "%s%s", i > 0 ? ", " : "",
						 column_name(v, i + 1));
	return buf.data;
}

/* The result's own columns of the query, by position. */
static char *
result_columns(const Verification *v)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < list_length(v->plan->targets); i++)
	{
		TargetEntry *target = list_nth(v->plan->targets, i);
		Oid			type = exprType((Node *) target->expr);

		appendStringInfo(&buf, "%s%s", i > 0 ? ", " : "",
						 column_name(v, i + 1));
		if (get_atttype(v->def->result, i + 1) != type)
			appendStringInfo(&buf, "::%s", format_type_be_qualified(type));
	}
	return buf.data;
}

/* Number of a column that is the event time of a side never padded. */
static int
event_time_target(const Verification *v)
{
	ListCell   *lc;

	foreach(lc, v->query->targets)
	{
		TargetEntry *target = lfirst(lc);

		for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		{
			const SjJoinInput *input = &v->query->input[side];

			if (!v->query->pad[SJ_OTHER(side)] && IsA(target->expr, Var) &&
				((Var *) target->expr)->varno == input->rti &&
				((Var *) target->expr)->varattno == input->time_attno)
				return foreach_current_index(lc) + 1;
		}
	}
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("the join has no event time among its columns"),
			 errhint("Verify without since and until, or select the event time of an input that is never padded.")));
}

/* " WHERE event time >= since AND event time < until", or nothing. */
static char *
range_condition(const Verification *v)
{
	const char *column;

	if (!v->bounded)
		return "";
	column = column_name(v, event_time_target(v));
	return psprintf(" WHERE sjoin_row.%s >= %s AND sjoin_row.%s < %s", column,
					sj_verify_time(v->query, v->since), column,
					sj_verify_time(v->query, v->until));
}

/* Rows of a relation with their hash and how often each is there. */
static char *
bag(const Verification *v, const char *rows)
{
	return psprintf("SELECT h, pg_catalog.count(*) AS n, (pg_catalog.array_agg(d))[1] AS d "
					"FROM (SELECT sjoin.image_hash(ROW(%s)) AS h, pg_catalog.to_jsonb(sjoin_row.*) - 'sjoin_id' AS d "
					"FROM (%s) sjoin_row(%s, sjoin_id)%s) b GROUP BY h",
					compared_columns(v), rows, column_aliases(v),
					range_condition(v));
}

static void
set_query_spec(const Verification *v, SjVerifySpec *spec)
{
	memset(spec, 0, sizeof(SjVerifySpec));
	spec->final = sj_join_is_final(v->def);
	spec->start = v->def->with_data ? NULL : sj_verify_start(v->def->start);
	spec->timeout[0] = v->position->settings.shortest_timeout;
	spec->timeout[1] = v->position->settings.longest_timeout;
	spec->due_before = spec->final ? v->position->clock.horizon :
		v->position->clock.watermark;
	spec->has_failed_pairs = v->rejections.failed_pairs;
	spec->has_records = v->rejections.any;
}

/*
 * The rows of the result, with their sjoin_id; of a changelog those that its
 * replay leaves.
 */
static char *
result_rows(const Verification *v)
{
	char	   *name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(v->def->result)),
												  get_rel_name(v->def->result));
	int			meta = list_length(v->plan->targets);
	const char *id = column_name(v, meta + SJ_META_ID);

	if (v->def->output_mode != SJ_OUTPUT_CHANGELOG)
		return psprintf("SELECT %s, %s FROM %s", result_columns(v), id, name);
	return psprintf("SELECT %s, %s FROM (SELECT DISTINCT ON (%s) * FROM %s ORDER BY %s, %s DESC) sjoin_newest "
					"WHERE %s = ANY ('{+I,+U}')",
					result_columns(v), id, id, name, id,
					column_name(v, meta + SJ_META_SEQ),
					column_name(v, meta + SJ_META_OP));
}

/* All columns of the query. */
static char *
all_columns(const Verification *v)
{
	List	   *places = NIL;

	for (int i = 0; i < list_length(v->plan->targets); i++)
		places = lappend_int(places, i + 1);
	return column_list(v, places);
}

/*
 * The rows of the batch query.  Which timeout a row came with is not known
 * (T9): an unmatched row that is due by one that was in force, and not by
 * another, may be in the result or not.
 */
static char *
wanted_rows(const Verification *v, SjVerifySpec *spec)
{
	char	   *surely;
	char	   *columns = all_columns(v);
	char	   *aliases = column_aliases(v);
	char	   *compared = compared_columns(v);

	spec->says_padded = true;
	surely = sj_verify_query(v->query, spec);
	if (spec->final || spec->timeout[0] == spec->timeout[1])
		return surely;
	spec->perhaps_due = true;
	return psprintf("%s UNION ALL SELECT %s, sjoin_row.sjoin_id FROM "
					"(SELECT sjoin_row.*, sjoin.image_hash(ROW(%s)) AS sjoin_h, "
					"pg_catalog.row_number() OVER (PARTITION BY sjoin.image_hash(ROW(%s))) AS sjoin_i "
					"FROM (%s) sjoin_row(%s, sjoin_id)) sjoin_row JOIN "
					"(SELECT sjoin.image_hash(ROW(%s)) AS h, pg_catalog.count(*) AS n FROM (%s) sjoin_row(%s, sjoin_id) GROUP BY 1) g "
					"ON g.h = sjoin_row.sjoin_h AND sjoin_row.sjoin_i <= g.n",
					surely, columns, compared, compared,
					sj_verify_query(v->query, spec), aliases, compared,
					result_rows(v), aliases);
}

static char *
comparison(const Verification *v)
{
	SjVerifySpec spec;

	set_query_spec(v, &spec);
	return psprintf("WITH diff AS ("
					"SELECT CASE WHEN COALESCE(w.n, 0) > COALESCE(g.n, 0) THEN 'missing' "
					"WHEN w.n IS NULL THEN 'extra' ELSE 'duplicate' END AS difference, "
					"pg_catalog.abs(COALESCE(w.n, 0) - COALESCE(g.n, 0)) AS n, "
					"COALESCE(w.d, g.d) AS d "
					"FROM (%s) w FULL JOIN (%s) g ON w.h = g.h "
					"WHERE w.n IS DISTINCT FROM g.n), "
					"numbered AS (SELECT *, pg_catalog.row_number() OVER (PARTITION BY difference ORDER BY d::text) AS i FROM diff) "
					"SELECT difference, n, d FROM numbered WHERE i <= %d "
					"UNION ALL SELECT difference, pg_catalog.sum(n)::bigint, NULL FROM numbered WHERE i > %d GROUP BY difference",
					bag(v, wanted_rows(v, &spec)),
					bag(v, result_rows(v)),
					v->max_examples, v->max_examples);
}

/* Places of the columns that are plainly of one side, and what they are. */
static void
own_columns(const Verification *v, SjSide side, List **places, List **attnos)
{
	ListCell   *lc;

	*places = *attnos = NIL;
	foreach(lc, v->query->targets)
	{
		Var		   *var = (Var *) ((TargetEntry *) lfirst(lc))->expr;

		if (!IsA(var, Var) || var->varattno <= 0 ||
			var->varno != v->query->input[side].rti)
			continue;
		*places = lappend_int(*places, foreach_current_index(lc) + 1);
		*attnos = lappend_int(*attnos, var->varattno);
	}
}

/* The comparison that tells what rests on settled rows from what does not. */
static char *
settled_comparison(const Verification *v)
{
	SjVerifySpec spec;
	SjSettledSpec settled = {.got = result_rows(v),
		.aliases = column_aliases(v),.compared = compared_columns(v),
		.range = range_condition(v),.next_seq = sj_numbers_take(1),
	.max_examples = v->max_examples};

	set_query_spec(v, &spec);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		List	   *places;
		List	   *attnos;

		own_columns(v, side, &places, &attnos);
		if (places == NIL)
			continue;
		settled.own[side] = column_list(v, places);
		settled.have[side] = sj_verify_accepted(v->query, &spec, side, attnos,
												v->position->clock.horizon);
	}
	settled.want = wanted_rows(v, &spec);
	return sj_settled_comparison(&settled);
}

/* -- the call ------------------------------------------------------------- */

/* Runs a comparison; are there differences? */
static bool
compare(const char *command)
{
	if (SPI_execute(command, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not compare the result with the batch query");
	return SPI_processed > 0;
}

/* Differences can rest on settled rows only once there are any. */
static void
run_comparison(Verification *v, ReturnSetInfo *rsinfo)
{
	Tuplestorestate *live = NULL;

	SPI_connect();
	sj_register_rows(SJ_RECORDS, sj_rejections_desc(), v->records);
	if (compare(comparison(v)) &&
		v->position->clock.horizon != SJ_TIME_MIN)
	{
		live = sj_live_rows(v->def, v->plan, v->query, v->position,
							v->snapshot);
		sj_register_rows(SJ_LIVE, sj_live_desc(), live);
		(void) compare(settled_comparison(v));
	}
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		Datum		value[3];
		bool		null[3];

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, value,
						  null);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, value, null);
	}
	if (live != NULL)
		tuplestore_end(live);
	SPI_finish();
}

/* The definition as it runs; an error when it does not any more. */
static void
read_definition(Verification *v)
{
	v->query = sj_join_query(v->def);
	v->plan = sj_join_plan(v->query);
}

/*
 * Compares under a new snapshot; false when it sees a TRUNCATE that the join
 * has not consumed: nobody knows which rows that took, so the caller waits and
 * tries again.
 */
static bool
verify(Verification *v, ReturnSetInfo *rsinfo)
{
	SjSandbox	sandbox;
	bool		known;

	memset(&v->rejections, 0, sizeof(v->rejections));
	/* the result before its view, as whoever alters or refreshes it */
	LockRelationOid(v->def->result, AccessShareLock);
	v->snapshot = RegisterSnapshot(GetLatestSnapshot());
	PushActiveSnapshot(v->snapshot);
	v->position = sj_position_load(v->def->join_id, v->snapshot);
	if (v->position == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the join \"%s\" has not started yet",
						get_rel_name(v->def->result)),
				 errhint("View sjoin.joins shows its state.")));
	v->records = tuplestore_begin_heap(false, false, work_mem);

	sj_sandbox_enter(&sandbox, sj_relation_owner(v->def->result),
					 v->def->time_zone);
	read_definition(v);
	sj_rejections_read(v->def->join_id, v->snapshot, v->records,
					   &v->rejections);
	sj_pending_put(v->def, v->query, v->plan, v->position, v->snapshot,
				   v->records, &v->rejections);
	known = !v->rejections.truncated;
	if (known)
		run_comparison(v, rsinfo);
	sj_sandbox_leave(&sandbox);
	tuplestore_end(v->records);
	PopActiveSnapshot();
	UnregisterSnapshot(v->snapshot);
	return known;
}

/*
 * verify(name regclass, since timestamptz, until timestamptz,
 *		  max_examples integer)
 *		RETURNS TABLE (difference text, n bigint, row_data jsonb)
 *
 * One row per row of the result that differs, at most max_examples of each
 * difference, and one row for the rest of them.
 */
Datum
sjoin_verify(PG_FUNCTION_ARGS)
{
	Verification v = {.def = sj_arg_join(fcinfo, 0)};
	bool		local;

	sj_require_preload();
	sj_check_owner(v.def->result);
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot verify a join on a standby"),
				 errhint("Verify it on the primary.")));
	if (sj_capture_has_written())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("cannot verify a join in a transaction that has written to its streams"),
				 errhint("Commit first: the join sees rows when they are committed.")));
	v.bounded = !PG_ARGISNULL(1) || !PG_ARGISNULL(2);
	local = sj_stream_has_local_time(sj_stream_def_get(v.def->input[SJ_LEFT]));
	v.since = PG_ARGISNULL(1) ? SJ_TIME_MIN :
		sj_time_of_zoned(PG_GETARG_TIMESTAMPTZ(1), local);
	v.until = PG_ARGISNULL(2) ? SJ_TIME_MAX :
		sj_time_of_zoned(PG_GETARG_TIMESTAMPTZ(2), local);
	v.max_examples = PG_ARGISNULL(3) ? 10 : Max(0, PG_GETARG_INT32(3));

	InitMaterializedSRF(fcinfo, 0);
	for (;;)
	{
		bool		reached = sj_wait_for_joins(list_make1(v.def), SJ_TIME_MIN,
												sj_wait_timeout);

		if (verify(&v, (ReturnSetInfo *) fcinfo->resultinfo))
			break;
		if (!reached)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("cannot verify a join that has not consumed a TRUNCATE of its streams yet"),
					 errhint("Let the join catch up; view sjoin.joins shows its state and last error.")));
	}
	return (Datum) 0;
}
