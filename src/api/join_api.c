/*-------------------------------------------------------------------------
 *
 * join_api.c
 *	  create_join, drop_join, get_joindef.
 *
 * A join is a view that holds its query, a table that holds its result, a row
 * of sjoin.join_def, and the triggers on its inputs.  All are made in the
 * caller's transaction with the caller's rights; the worker hears of it when
 * that commits.
 *
 * IDENTIFICATION
 *	  src/api/join_api.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "api/api.h"
#include "api/definition_view.h"
#include "api/join_start.h"
#include "catalog/dependency.h"
#include "catalog/join_plan.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/privileges.h"
#include "emit/result_query.h"
#include "emit/result_table.h"
#include "emit/side_output.h"
#include "executor/spi.h"
#include "guc.h"
#include "miscadmin.h"
#include "pgtime.h"
#include "shmem.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/varlena.h"

PG_FUNCTION_INFO_V1(sjoin_create_join);
PG_FUNCTION_INFO_V1(sjoin_drop_join);
PG_FUNCTION_INFO_V1(sjoin_get_joindef);

/* -- the relations -------------------------------------------------------- */

static void
run_command(const char *command)
{
	if (SPI_execute(command, false, 0) < 0)
		elog(ERROR, "could not execute \"%s\"", command);
}

/* sjoin's own columns of the table, by which its rows are found. */
static void
add_columns(const char *table_sql, SjOutputMode mode)
{
	bool		numbered = mode != SJ_OUTPUT_UPSERT;
	bool		changelog = mode == SJ_OUTPUT_CHANGELOG;

	run_command(psprintf("ALTER TABLE %s ADD COLUMN %s pg_catalog.uuid NOT NULL, "
						 "ADD COLUMN %s pg_catalog.int4 NOT NULL, "
						 "ADD COLUMN %s pg_catalog.timestamptz NOT NULL%s%s, "
						 "ADD PRIMARY KEY (%s)", table_sql,
						 SJ_COLUMN_ID, SJ_COLUMN_VERSION, SJ_COLUMN_AT,
						 numbered ? ", ADD COLUMN " SJ_COLUMN_SEQ " pg_catalog.int8 NOT NULL" : "",
						 changelog ? ", ADD COLUMN " SJ_COLUMN_OP " pg_catalog.text NOT NULL "
						 "CHECK (" SJ_COLUMN_OP " OPERATOR(pg_catalog.=) ANY ('{+I,-U,+U,-D}'::pg_catalog.text[]))" : "",
						 numbered ? SJ_COLUMN_SEQ : SJ_COLUMN_ID));
	/* the newest row of an identity is what a retraction repeats */
	if (changelog)
		run_command(psprintf("CREATE INDEX ON %s (%s, %s)", table_sql,
							 SJ_COLUMN_ID, SJ_COLUMN_SEQ));
}

/* The view and the table; sets def->definition and def->result. */
static void
create_relations(SjJoinDef *def, const char *schema, const char *name)
{
	Oid			namespace = get_namespace_oid(schema, false);
	char	   *view = sj_definition_name(name, namespace);
	char	   *view_sql = quote_qualified_identifier(schema, view);
	char	   *table_sql = quote_qualified_identifier(schema, name);
	ObjectAddress view_address;
	ObjectAddress table_address;

	SPI_connect();
	run_command(psprintf("CREATE VIEW %s AS %s", view_sql, def->query));
	run_command(psprintf("CREATE TABLE %s AS SELECT * FROM %s WITH NO DATA",
						 table_sql, view_sql));
	add_columns(table_sql, def->output_mode);
	run_command(psprintf("COMMENT ON VIEW %s IS %s", view_sql,
						 quote_literal_cstr(psprintf("query of the join %s",
													 table_sql))));
	run_command(psprintf("COMMENT ON TABLE %s IS 'result of a streaming join'",
						 table_sql));
	SPI_finish();

	def->definition = get_relname_relid(view, namespace);
	def->result = get_relname_relid(name, namespace);
	ObjectAddressSet(view_address, RelationRelationId, def->definition);
	ObjectAddressSet(table_address, RelationRelationId, def->result);
	recordDependencyOn(&view_address, &table_address, DEPENDENCY_AUTO);
	CommandCounterIncrement();
}

/* -- create_join ---------------------------------------------------------- */

/* Is there room for one more join? */
static void
check_free_slot(void)
{
	int			taken = 0;

	LWLockAcquire(sj_shared->lock, LW_SHARED);
	for (int i = 0; i < sj_max_joins; i++)
		if (OidIsValid(sj_shared->joins[i].database))
			taken++;
	LWLockRelease(sj_shared->lock);
	if (taken >= sj_max_joins)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("too many joins"),
				 errdetail("The server runs %d joins already.", taken),
				 errhint("Raise sjoin.max_joins and restart the server.")));
}

static SjJoinQuery *
analyze(const SjJoinDef *def)
{
	SjJoinShape shape;

	sj_join_shape(def, &shape);
	return sj_query_analyze(sj_query_parse(def->query), &shape);
}

static void
notice_plan(const SjJoinDef *def, const SjJoinQuery *query)
{
	SjExplainOptions options;
	ListCell   *lc;

	sj_explain_options(def, query, &options);
	foreach(lc, sj_notice_lines(query, &options))
		ereport(NOTICE, (errmsg("%s", (char *) lfirst(lc))));
}

/* Errors that every row would meet: constants that cannot be computed ... */
static void
check_plan(const SjJoinDef *def, const SjJoinQuery *query)
{
	SjJoinPlan *plan = sj_join_plan(query);

	if (plan->sub_queries != NULL)
		(void) sj_result_query_open(plan->sub_queries, def->query, 0);
}

/* Everything of a new join but the looking at its name. */
static void
create_join(SjJoinDef *def, const char *schema, const char *name)
{
	SjJoinQuery *query;

	sj_lock_inputs(analyze, def, InvalidOid);
	query = analyze(def);		/* what may have changed before the lock */
	sj_check_may_read(query);
	sj_check_finality(def, query);
	sj_check_result_columns(query);
	check_plan(def, query);
	sj_declare_streams(query);
	create_relations(def, schema, name);
	sj_start_join(def, query);
	sj_join_def_insert(def);
	sj_definitions_changed();
	notice_plan(def, query);
}

/* True when a relation of the name is in the way and that is all right. */
static bool
skip_existing(const char *schema, const char *name, bool if_not_exists,
			  Oid *relid)
{
	*relid = get_relname_relid(name, get_namespace_oid(schema, false));
	if (!OidIsValid(*relid))
		return false;
	if (!if_not_exists || !sj_is_result(*relid))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation \"%s\" already exists", name),
				 errhint("Give the join another name; its result table has that name.")));
	ereport(NOTICE,
			(errcode(ERRCODE_DUPLICATE_TABLE),
			 errmsg("join \"%s\" already exists, skipping", name)));
	return true;
}

/*
 * create_join(name text, query text, options ...) RETURNS regclass
 */
Datum
sjoin_create_join(PG_FUNCTION_ARGS)
{
	text	   *name_text = sj_arg_text_required(fcinfo, 0, "name");
	RangeVar   *name = makeRangeVarFromNameList(textToQualifiedNameList(name_text));
	char	   *query = text_to_cstring(sj_arg_text_required(fcinfo, 1, "query"));
	Oid			namespace = RangeVarGetCreationNamespace(name);
	char	   *schema = get_namespace_name(namespace);
	SjJoinDef	def = {0};
	Oid			relid;

	sj_require_preload();
	if (isTempNamespace(namespace))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("the result of a join cannot be a temporary table"),
				 errhint("The worker that writes it does not see tables of a session.")));
	sj_read_join_options(fcinfo, 2, &def);
	if (skip_existing(schema, name->relname, sj_arg_flag(fcinfo, 16), &relid))
		PG_RETURN_OID(relid);
	check_free_slot();
	def.query = query;
	def.time_zone = pstrdup(pg_get_timezone_name(session_timezone));
	def.created_at = GetCurrentTimestamp();
	create_join(&def, schema, name->relname);
	PG_RETURN_OID(def.result);
}

/* -- drop_join ------------------------------------------------------------ */

/* Does another join read the table? */
static bool
is_still_read(Oid relid, int32 by_other_than)
{
	ListCell   *lc;

	foreach(lc, sj_join_def_all())
	{
		SjJoinDef  *def = lfirst(lc);

		if (def->join_id != by_other_than &&
			(def->input[SJ_LEFT] == relid || def->input[SJ_RIGHT] == relid))
			return true;
	}
	return false;
}

/*
 * Removes the join's row and stops capturing what no other join reads.  Called
 * before its result goes, by whichever way it goes.
 */
void
sj_forget_join(const SjJoinDef *def)
{
	sj_join_def_lock();
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		if (get_rel_name(def->input[side]) != NULL &&
			!is_still_read(def->input[side], def->join_id))
			sj_layout_delete(def->input[side]);
	sj_late_rows_delete(def->join_id);
	sj_join_def_delete(def->join_id);
	sj_definitions_changed();
}

static void
drop_relation(Oid relid)
{
	ObjectAddress address;

	ObjectAddressSet(address, RelationRelationId, relid);
	performDeletion(&address, DROP_RESTRICT, 0);
}

void
sj_drop_join(const SjJoinDef *def, bool keep_result)
{
	if (!keep_result)
	{
		LockRelationOid(def->result, AccessExclusiveLock);
		drop_relation(def->result); /* hooks.c forgets the join */
		return;
	}
	/* no batch is being written, and none will be */
	LockRelationOid(def->result, ShareRowExclusiveLock);
	sj_forget_join(def);
	if (get_rel_name(def->definition) != NULL)
		drop_relation(def->definition);
}

/* drop_join(name text, if_exists boolean, keep_result boolean) RETURNS boolean */
Datum
sjoin_drop_join(PG_FUNCTION_ARGS)
{
	text	   *name_text = sj_arg_text_required(fcinfo, 0, "name");
	RangeVar   *name = makeRangeVarFromNameList(textToQualifiedNameList(name_text));
	bool		if_exists = sj_arg_flag(fcinfo, 1);
	Oid			relid = RangeVarGetRelid(name, AccessShareLock, if_exists);
	SjJoinDef  *def = sj_join_def_by_result(relid);

	if (def == NULL)
	{
		ereport(if_exists ? NOTICE : ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("\"%s\" is not the result of a join%s", name->relname,
						if_exists ? ", skipping" : "")));
		PG_RETURN_BOOL(false);
	}
	sj_check_owner(relid);
	sj_drop_join(def, sj_arg_flag(fcinfo, 2));
	PG_RETURN_BOOL(true);
}

/* get_joindef(name regclass) RETURNS text: the query as PostgreSQL prints it */
Datum
sjoin_get_joindef(PG_FUNCTION_ARGS)
{
	SjJoinDef  *def = sj_arg_join(fcinfo, 0);

	if (get_rel_name(def->definition) == NULL)
		PG_RETURN_TEXT_P(cstring_to_text(def->query));
	return OidFunctionCall2(F_PG_GET_VIEWDEF_OID_BOOL,
							ObjectIdGetDatum(def->definition),
							BoolGetDatum(true));
}
