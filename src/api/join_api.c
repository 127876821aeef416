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
 * The inputs are locked against writers while the triggers come, all of them
 * or none, never queueing in front of a writer (A13).
 *
 * IDENTIFICATION
 *	  src/api/join_api.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "api/api.h"
#include "capture/capture.h"
#include "catalog/dependency.h"
#include "catalog/join_plan.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_rewrite.h"
#include "catalog/privileges.h"
#include "relations.h"
#include "commands/defrem.h"
#include "common/int.h"
#include "commands/sequence.h"
#include "emit/result_query.h"
#include "emit/result_table.h"
#include "emit/side_output.h"
#include "executor/spi.h"
#include "guc.h"
#include "log/tick.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "pgtime.h"
#include "rewrite/rewriteSupport.h"
#include "shmem.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/varlena.h"

PG_FUNCTION_INFO_V1(sjoin_create_join);
PG_FUNCTION_INFO_V1(sjoin_drop_join);
PG_FUNCTION_INFO_V1(sjoin_get_joindef);

/* Between tries to lock the inputs, in ms. */
#define LOCK_RETRY_INTERVAL 10

/*
 * One transaction at a time makes or drops joins: what is captured of a stream
 * is what all its joins need.
 */
static void
lock_definitions(void)
{
	LockRelationOid(sj_relation_oid("join_def"), ShareRowExclusiveLock);
}

/* -- the inputs ----------------------------------------------------------- */

/* Relations of the query that are tables, with their partitions. */
static List *
relations_to_lock(const SjJoinQuery *query)
{
	List	   *relids = NIL;

	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		relids = list_concat_unique_oid(relids,
										find_all_inheritors(query->input[side].relid,
															NoLock, NULL));
	return lappend_oid(relids, sj_relation_oid("join_def"));
}

/* Takes all of the locks, or none. */
static bool
try_lock_all(List *relids)
{
	ListCell   *lc;

	foreach(lc, relids)
	{
		if (ConditionalLockRelationOid(lfirst_oid(lc), ShareRowExclusiveLock))
			continue;
		for (int i = 0; i < foreach_current_index(lc); i++)
			UnlockRelationOid(list_nth_oid(relids, i), ShareRowExclusiveLock);
		return false;
	}
	return true;
}

/*
 * Locks the inputs, and the definitions with them, without ever making a
 * writer wait.  The caller holds no lock on the inputs: a command queueing for
 * a stronger one than ours would wait for us, and we for it.
 */
static void
lock_inputs(List *relids)
{
	int			timeout_ms = LockTimeout > 0 ? LockTimeout : sj_wait_timeout;
	TimestampTz give_up = timeout_ms > 0 ?
	TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms) : DT_NOEND;

	while (!try_lock_all(relids))
	{
		if (GetCurrentTimestamp() >= give_up)
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("could not lock the inputs of the join"),
					 errhint("A transaction that writes to them, or makes another join, is open; see pg_locks.")));
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 LOCK_RETRY_INTERVAL, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* An input whose event time was inferred becomes a stream. */
static void
declare_stream(const SjJoinInput *input)
{
	SjStreamDef def = {.relid = input->relid,.time_attno = input->time_attno,
		.watermark_delay = -1,.idle_timeout = -1,
		.on_idle = SJ_ON_IDLE_ADVANCE,.max_future = -2,
		.created_at = GetCurrentTimestamp()};

	if (sj_stream_def_get(input->relid) != NULL)
		return;
	sj_check_owner(input->relid);
	sj_create_stream(&def);
	ereport(NOTICE,
			(errmsg("table \"%s\" is now a stream with event time \"%s\"",
					get_rel_name(input->relid),
					get_attname(input->relid, input->time_attno, false))));
}

/* Adds the triggers as the owner of the table, who has declared the stream. */
static void
install_capture(Oid relid)
{
	Oid			user;
	int			context;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(sj_relation_owner(relid),
						   context | SECURITY_LOCAL_USERID_CHANGE);
	sj_capture_install(relid);
	SetUserIdAndSecContext(user, context);
}

/* The columns that the join needs are captured from now on. */
static void
capture_input(const SjJoinInput *input)
{
	AttrNumber *attnos = palloc(sizeof(AttrNumber) *
								bms_num_members(input->columns));
	int			n = 0;
	int			attno = -1;

	while ((attno = bms_next_member(input->columns, attno)) >= 0)
		attnos[n++] = (AttrNumber) attno;
	sj_layout_extend(input->relid, n, attnos);
	install_capture(input->relid);
}

/* -- the relations -------------------------------------------------------- */

static void
run_command(const char *command)
{
	if (SPI_execute(command, false, 0) < 0)
		elog(ERROR, "could not execute \"%s\"", command);
}

/* A name for the view that no relation of the schema has. */
static char *
definition_name(const char *result, Oid namespace)
{
	char	   *name = makeObjectName(result, NULL, "query");

	for (int i = 1; OidIsValid(get_relname_relid(name, namespace)); i++)
		name = makeObjectName(result, NULL, psprintf("query%d", i));
	return name;
}

/* The view and the table; sets def->definition and def->result. */
static void
create_relations(SjJoinDef *def, const char *schema, const char *name)
{
	Oid			namespace = get_namespace_oid(schema, false);
	char	   *view = definition_name(name, namespace);
	char	   *view_sql = quote_qualified_identifier(schema, view);
	char	   *table_sql = quote_qualified_identifier(schema, name);
	bool		append = def->output_mode == SJ_OUTPUT_APPEND;
	ObjectAddress view_address;
	ObjectAddress table_address;

	SPI_connect();
	run_command(psprintf("CREATE VIEW %s AS %s", view_sql, def->query));
	run_command(psprintf("CREATE TABLE %s AS SELECT * FROM %s WITH NO DATA",
						 table_sql, view_sql));
	run_command(psprintf("ALTER TABLE %s ADD COLUMN %s pg_catalog.uuid NOT NULL, "
						 "ADD COLUMN %s pg_catalog.int4 NOT NULL, "
						 "ADD COLUMN %s pg_catalog.timestamptz NOT NULL%s, "
						 "ADD PRIMARY KEY (%s)", table_sql,
						 SJ_COLUMN_ID, SJ_COLUMN_VERSION, SJ_COLUMN_AT,
						 append ? ", ADD COLUMN " SJ_COLUMN_SEQ " pg_catalog.int8 NOT NULL" : "",
						 append ? SJ_COLUMN_SEQ : SJ_COLUMN_ID));
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

/* Who may not read an input, or not make it a stream, must not lock it. */
static void
check_may_read(const SjJoinQuery *query)
{
	sj_check_input_privileges(query);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		if (query->input[side].inferred)
			sj_check_owner(query->input[side].relid);
}

/*
 * The relations to lock.  Looking at the query takes locks itself; these go
 * with a subtransaction, so that none is held while others are waited for.
 */
static List *
find_inputs(const SjJoinDef *def)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	List	   *volatile relids = NIL;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		SjJoinQuery *query = analyze(def);

		check_may_read(query);
		relids = relations_to_lock(query);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	if (error != NULL)
		ReThrowError(error);
	return relids;
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

/* The view protects the event time, too, where its query does not name it. */
static void
protect_event_time(Oid view, const SjJoinInput *input)
{
	ObjectAddress rule;
	ObjectAddress column;

	ObjectAddressSet(rule, RewriteRelationId,
					 get_rewrite_oid(view, ViewSelectRuleName, false));
	ObjectAddressSubSet(column, RelationRelationId, input->relid,
						input->time_attno);
	recordDependencyOn(&rule, &column, DEPENDENCY_NORMAL);
}

/* What sjoin.joins says of the join; the definition cannot change. */
static void
describe(SjJoinDef *def, const SjJoinQuery *query)
{
	int64		keep = Max(sj_bounds_keep(&query->bounds, SJ_LEFT),
						   sj_bounds_keep(&query->bounds, SJ_RIGHT));

	def->kind = query->kind == SJ_WIDE_JOIN ? "wide" : "interval";
	def->join_type = query->join_type == JOIN_INNER ? "inner" :
		query->join_type == JOIN_LEFT ? "left" : "right";
	def->lateness = sj_join_lateness(def, query);
	if (pg_add_s64_overflow(keep, def->lateness, &def->retention))
		def->retention = PG_INT64_MAX;
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		def->alias[side] = query->input[side].alias;
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

	lock_inputs(find_inputs(def));
	query = analyze(def);		/* what may have changed before the lock */
	check_may_read(query);
	sj_check_result_columns(query);
	check_plan(def, query);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		declare_stream(&query->input[side]);
		def->input[side] = query->input[side].relid;
	}
	create_relations(def, schema, name);
	def->signature = sj_query_signature(sj_join_definition(def->definition));
	def->input_signature = sj_input_signature(query);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		protect_event_time(def->definition, &query->input[side]);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		capture_input(&query->input[side]);
	describe(def, query);
	def->start = sj_tick_serialize(sj_tick_take(0, GetLatestSnapshot()));
	def->join_id = (int32) nextval_internal(sj_relation_oid("join_id"), false);
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
	lock_definitions();
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
