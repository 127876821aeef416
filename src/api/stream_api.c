/*-------------------------------------------------------------------------
 *
 * stream_api.c
 *	  create_stream, drop_stream, advance_watermark.
 *
 * IDENTIFICATION
 *	  src/api/stream_api.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "api/api.h"
#include "capture/capture.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "catalog/privileges.h"
#include "catalog/query_analysis.h"
#include "local_time.h"
#include "log/event_log.h"
#include "miscadmin.h"
#include "shmem.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"
#include "utils/varlena.h"

PG_FUNCTION_INFO_V1(sjoin_create_stream);
PG_FUNCTION_INFO_V1(sjoin_alter_stream);
PG_FUNCTION_INFO_V1(sjoin_drop_stream);
PG_FUNCTION_INFO_V1(sjoin_advance_watermark);

/* The column by name, of a type that can be an event time. */
static AttrNumber
event_time_column(Oid relid, const char *name)
{
	HeapTuple	tuple = SearchSysCacheAttName(relid, name);
	Form_pg_attribute att;
	AttrNumber	attno;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist",
						name, get_rel_name(relid))));
	att = (Form_pg_attribute) GETSTRUCT(tuple);
	attno = att->attnum;
	if (attno < 0 ||
		(att->atttypid != TIMESTAMPOID && att->atttypid != TIMESTAMPTZOID))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("event time column \"%s\" is of type %s", name,
						format_type_be(att->atttypid)),
				 errhint("An event time is of type timestamp with time zone or timestamp without time zone.")));
	ReleaseSysCache(tuple);
	return attno;
}

/* A row belongs to one stream: not to a partition and to its parent, too. */
static void
check_overlap(Oid relid)
{
	List	   *relids = list_concat(get_partition_ancestors(relid),
									 find_all_inheritors(relid, NoLock, NULL));
	ListCell   *lc;

	foreach(lc, relids)
	{
		if (lfirst_oid(lc) == relid || sj_stream_def_get(lfirst_oid(lc)) == NULL)
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot make \"%s\" a stream", get_rel_name(relid)),
				 errdetail("Table \"%s\" of the same partition tree is a stream already.",
						   get_rel_name(lfirst_oid(lc))),
				 errhint("Join that one, or drop it with sjoin.drop_stream().")));
	}
}

/* Stores a new stream; the caller has checked the table and its column. */
void
sj_create_stream(const SjStreamDef *def)
{
	check_overlap(def->relid);
	sj_stream_def_insert(def);
	sj_definitions_changed();
}

/* max_future: -1 for '-1' has no interval; NULL is the setting. */
static int64
max_future_argument(FunctionCallInfo fcinfo, int n)
{
	int64		usec = sj_arg_interval(fcinfo, n, "max_future");

	return usec < 0 ? -2 : usec;
}

/* on_idle: advance, ignore or hold. */
static SjOnIdle
on_idle_argument(FunctionCallInfo fcinfo, int n)
{
	static const char *const names[] = {"advance", "ignore", "hold"};

	return (SjOnIdle) sj_arg_choice(fcinfo, n, "on_idle", names,
									lengthof(names));
}

/* A column of an upsert key by name: one whose values can be told apart. */
static AttrNumber
upsert_key_column(Oid relid, const char *name)
{
	AttrNumber	attno = get_attnum(relid, name);
	Oid			type = InvalidOid;
	TypeCacheEntry *entry;

	if (attno == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist",
						name, get_rel_name(relid)),
				 errhint("upsert_key names columns of the stream.")));
	if (attno < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
				 errmsg("system column \"%s\" cannot be in an upsert key",
						name),
				 errhint("upsert_key names columns that say which rows are versions of the same thing.")));
	type = get_atttype(relid, attno);
	entry = lookup_type_cache(type, TYPECACHE_EQ_OPR | TYPECACHE_HASH_PROC);
	if (!OidIsValid(entry->eq_opr) || !OidIsValid(entry->hash_proc))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of type %s cannot be in an upsert key",
						name, format_type_be(type)),
				 errdetail("The type has no equality with hash support."),
				 errhint("Name columns of types that can be hashed.")));
	return attno;
}

/* The columns of an upsert key, in the order given; NIL for NULL. */
static List *
upsert_key_argument(FunctionCallInfo fcinfo, int n, Oid relid)
{
	List	   *attnos = NIL;
	Datum	   *names;
	bool	   *nulls;
	int			nnames;

	if (PG_ARGISNULL(n))
		return NIL;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(n), NAMEOID, NAMEDATALEN, false,
					  TYPALIGN_CHAR, &names, &nulls, &nnames);
	if (nnames == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("upsert_key must name at least one column"),
				 errhint("NULL, the default, is no upsert key.")));
	for (int i = 0; i < nnames; i++)
	{
		AttrNumber	attno;

		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("upsert_key must not contain nulls"),
					 errhint("upsert_key names columns of the stream.")));
		attno = upsert_key_column(relid, NameStr(*DatumGetName(names[i])));
		if (list_member_int(attnos, attno))
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_COLUMN),
					 errmsg("column \"%s\" is twice in the upsert key",
							NameStr(*DatumGetName(names[i]))),
					 errhint("Name each column once.")));
		attnos = lappend_int(attnos, attno);
	}
	return attnos;
}

/*
 * create_stream(source regclass, event_time name, watermark_delay interval,
 *				 idle_timeout interval, on_idle text, max_future interval,
 *				 upsert_key name[], if_not_exists boolean) RETURNS regclass
 */
Datum
sjoin_create_stream(PG_FUNCTION_ARGS)
{
	Oid			relid = sj_arg_relation(fcinfo, 0, "source");
	SjStreamDef def = {.relid = relid};
	SjStreamDef *old;

	sj_require_preload();
	PreventCommandIfReadOnly("sjoin.create_stream()");
	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("event_time must not be null")));
	LockRelationOid(relid, ShareUpdateExclusiveLock);
	sj_check_owner(relid);
	sj_check_source(relid);
	def.time_attno = event_time_column(relid, NameStr(*PG_GETARG_NAME(1)));
	def.watermark_delay = sj_arg_interval(fcinfo, 2, "watermark_delay");
	def.idle_timeout = sj_arg_interval(fcinfo, 3, "idle_timeout");
	def.on_idle = on_idle_argument(fcinfo, 4);
	def.max_future = max_future_argument(fcinfo, 5);
	def.upsert_key = upsert_key_argument(fcinfo, 6, relid);
	def.created_at = GetCurrentTimestamp();

	old = sj_stream_def_get(relid);
	if (old == NULL)
		sj_create_stream(&def);
	else if (sj_arg_flag(fcinfo, 7))
		ereport(NOTICE,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("table \"%s\" is a stream already, skipping",
						get_rel_name(relid))));
	else
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("table \"%s\" is a stream already",
						get_rel_name(relid)),
				 errhint("Drop the stream first, or pass if_not_exists => true.")));
	PG_RETURN_OID(relid);
}

/* Arguments of alter_stream() from the second on, and what reset may name. */
enum
{
	ALTER_WATERMARK_DELAY,
	ALTER_IDLE_TIMEOUT,
	ALTER_ON_IDLE,
	ALTER_MAX_FUTURE,
	NALTER
};

static const char *const setting_names[] = {"watermark_delay", "idle_timeout",
"on_idle", "max_future"};

static void
reset_settings(SjStreamDef *def, const Bitmapset *reset)
{
	if (bms_is_member(ALTER_WATERMARK_DELAY, reset))
		def->watermark_delay = -1;
	if (bms_is_member(ALTER_IDLE_TIMEOUT, reset))
		def->idle_timeout = -1;
	if (bms_is_member(ALTER_ON_IDLE, reset))
		def->on_idle = SJ_ON_IDLE_ADVANCE;
	if (bms_is_member(ALTER_MAX_FUTURE, reset))
		def->max_future = -2;
}

static void
set_settings(FunctionCallInfo fcinfo, SjStreamDef *def)
{
	if (!PG_ARGISNULL(1 + ALTER_WATERMARK_DELAY))
		def->watermark_delay = sj_arg_interval(fcinfo,
											   1 + ALTER_WATERMARK_DELAY,
											   "watermark_delay");
	if (!PG_ARGISNULL(1 + ALTER_IDLE_TIMEOUT))
		def->idle_timeout = sj_arg_interval(fcinfo, 1 + ALTER_IDLE_TIMEOUT,
											"idle_timeout");
	if (!PG_ARGISNULL(1 + ALTER_ON_IDLE))
		def->on_idle = on_idle_argument(fcinfo, 1 + ALTER_ON_IDLE);
	if (!PG_ARGISNULL(1 + ALTER_MAX_FUTURE))
		def->max_future = max_future_argument(fcinfo, 1 + ALTER_MAX_FUTURE);
}

/* What moves the clock of joins is a record in the log (T2, T9). */
static void
log_settings(const SjStreamDef *def)
{
	SjSettingsRecord record = {.delay = def->watermark_delay,
	.max_future = def->max_future};

	sj_capture_control(def->relid, SJ_OP_SETTINGS, &record, sizeof(record));
}

/* The definition of a stream that the caller owns. */
static SjStreamDef *
own_stream(Oid relid)
{
	SjStreamDef *def;

	sj_check_owner(relid);
	def = sj_stream_def_get(relid);
	if (def == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a stream", get_rel_name(relid)),
				 errhint("Make it one with sjoin.create_stream().")));
	return def;
}

/*
 * alter_stream(source regclass, watermark_delay interval,
 *				idle_timeout interval, on_idle text, max_future interval,
 *				reset text[])
 *		RETURNS void
 *
 * NULL leaves a setting as it is.
 */
Datum
sjoin_alter_stream(PG_FUNCTION_ARGS)
{
	Oid			relid = sj_arg_relation(fcinfo, 0, "source");
	SjStreamDef *def;

	StaticAssertStmt(lengthof(setting_names) == NALTER, "names of settings");
	sj_require_preload();
	PreventCommandIfReadOnly("sjoin.alter_stream()");
	(void) own_stream(relid);
	LockRelationOid(relid, ShareUpdateExclusiveLock);
	sj_join_def_lock();
	def = own_stream(relid);	/* as it is now */
	reset_settings(def, sj_arg_reset(fcinfo, 1 + NALTER, 1, setting_names,
									 NALTER));
	set_settings(fcinfo, def);
	sj_stream_def_update(def);
	log_settings(def);
	sj_stream_invalidate(relid);
	sj_definitions_changed();
	PG_RETURN_VOID();
}

/* Joins that have the table as an input. */
static List *
joins_over(Oid relid)
{
	List	   *joins = NIL;
	ListCell   *lc;

	foreach(lc, sj_join_def_all())
	{
		SjJoinDef  *def = lfirst(lc);

		if (def->input[SJ_LEFT] == relid || def->input[SJ_RIGHT] == relid)
			joins = lappend(joins, def);
	}
	return joins;
}

static void
drop_joins_over(Oid relid, bool cascade)
{
	List	   *joins = joins_over(relid);
	ListCell   *lc;

	if (joins != NIL && !cascade)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot drop stream \"%s\" because joins use it",
						get_rel_name(relid)),
				 errdetail("Join \"%s\" reads it.",
						   get_rel_name(((SjJoinDef *) linitial(joins))->result)),
				 errhint("Pass cascade => true to drop the joins with their results.")));
	foreach(lc, joins)
	{
		SjJoinDef  *def = lfirst(lc);
		bool		mine = pg_class_ownercheck(def->result, GetUserId());

		/* another owner's rows are not ours to drop */
		sj_drop_join(def, !mine);
	}
}

/* Removes the definition and the capture of a table. */
void
sj_drop_stream(Oid relid)
{
	sj_capture_remove(relid);
	sj_layout_delete(relid);
	sj_stream_def_delete(relid);
	sj_definitions_changed();
}

/* drop_stream(source text, if_exists boolean, cascade boolean) RETURNS boolean */
Datum
sjoin_drop_stream(PG_FUNCTION_ARGS)
{
	text	   *source = sj_arg_text_required(fcinfo, 0, "source");
	RangeVar   *name = makeRangeVarFromNameList(textToQualifiedNameList(source));
	bool		if_exists = sj_arg_flag(fcinfo, 1);
	Oid			relid = RangeVarGetRelid(name, AccessShareLock, if_exists);

	sj_require_preload();
	PreventCommandIfReadOnly("sjoin.drop_stream()");
	if (OidIsValid(relid))
	{
		sj_check_owner(relid);
		LockRelationOid(relid, ShareRowExclusiveLock);
	}
	if (!OidIsValid(relid) || sj_stream_def_get(relid) == NULL)
	{
		ereport(if_exists ? NOTICE : ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("\"%s\" is not a stream%s", name->relname,
						if_exists ? ", skipping" : "")));
		PG_RETURN_BOOL(false);
	}
	drop_joins_over(relid, sj_arg_flag(fcinfo, 2));
	sj_drop_stream(relid);
	PG_RETURN_BOOL(true);
}

/*
 * advance_watermark(source regclass, event_time timestamptz) RETURNS timestamptz
 *
 * A record of the log like any row: it is captured now and takes effect at the
 * end of this transaction's step.
 */
Datum
sjoin_advance_watermark(PG_FUNCTION_ARGS)
{
	Oid			relid = sj_arg_relation(fcinfo, 0, "source");
	SjTime		watermark = PG_ARGISNULL(1) ? SJ_TIME_MIN :
	PG_GETARG_TIMESTAMPTZ(1);
	TimestampTz newest;
	bool		local;
	SjStreamDef *def;

	sj_require_preload();
	PreventCommandIfReadOnly("sjoin.advance_watermark()");
	def = own_stream(relid);
	if (!PG_ARGISNULL(1) && !SJ_TIME_IS_FINITE(watermark))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a watermark must be finite"),
				 errhint("Pass NULL for the newest event time seen.")));
	local = sj_stream_has_local_time(def);
	watermark = sj_time_of_zoned(watermark, local);
	sj_capture_control(relid, SJ_OP_WATERMARK, &watermark, sizeof(watermark));

	if (!PG_ARGISNULL(1))
		PG_RETURN_TIMESTAMPTZ(PG_GETARG_TIMESTAMPTZ(1));
	newest = sj_time_to_zoned(sj_stream_newest_event_time(relid), local);
	if (!IS_VALID_TIMESTAMP(newest))
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(newest);
}
