/*-------------------------------------------------------------------------
 *
 * join_def.c
 *	  Definitions of joins: the rows of sjoin.join_def.
 *
 * The query itself is an ordinary view (A1); here are the options and the
 * names of what belongs together.  Everything is read with a fresh snapshot
 * and written by plain heap access, so no right of the current user matters.
 *
 * IDENTIFICATION
 *	  src/catalog/join_def.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/join_def.h"
#include "catalog/stream_def.h"
#include "nodes/makefuncs.h"
#include "relations.h"
#include "rewrite/rewriteDefine.h"
#include "rewrite/rewriteHandler.h"
#include "rewrite/rewriteManip.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

enum
{
	Anum_join_id = 1,
	Anum_result,
	Anum_definition,
	Anum_output_mode,
	Anum_emit,
	Anum_timeout,
	Anum_ttl,
	Anum_side_ttl,
	Anum_allowed_lateness,
	Anum_late_rows,
	Anum_with_data,
	Anum_time_zone,
	Anum_signature,
	Anum_input_signature,
	Anum_query,
	Anum_input_left,
	Anum_input_right,
	Anum_start,
	Anum_kind,
	Anum_join_type,
	Anum_lateness,
	Anum_retention,
	Anum_alias_left,
	Anum_alias_right,
	Anum_paused,
	Anum_notify_channel,
	Anum_result_seq,
	Anum_created_at,
	Natts_join_def = Anum_created_at
};

static const char *const output_mode_names[] = {"upsert", "changelog", "append"};
static const char *const emit_names[] = {"auto", "final"};
static const char *const late_rows_names[] = {"keep", "drop", "join", "error"};

const char *
sj_output_mode_name(SjOutputMode mode)
{
	return output_mode_names[mode];
}

const char *
sj_emit_name(SjEmit emit)
{
	return emit_names[emit];
}

const char *
sj_late_rows_name(SjLateRows late_rows)
{
	return late_rows_names[late_rows];
}

/* Index of a stored name; the names were checked when they were stored. */
static int
name_index(Datum value, const char *const *names, int n)
{
	char	   *name = TextDatumGetCString(value);

	for (int i = 0; i < n; i++)
		if (strcmp(name, names[i]) == 0)
			return i;
	elog(ERROR, "unknown option value \"%s\" in sjoin.join_def", name);
}

static SjJoinDef *
def_from_tuple(HeapTuple tuple, TupleDesc desc)
{
	SjJoinDef  *def = palloc0(sizeof(SjJoinDef));
	Datum		value[Natts_join_def];
	bool		null[Natts_join_def];

	heap_deform_tuple(tuple, desc, value, null);
	def->join_id = DatumGetInt32(value[Anum_join_id - 1]);
	def->result = DatumGetObjectId(value[Anum_result - 1]);
	def->definition = DatumGetObjectId(value[Anum_definition - 1]);
	def->output_mode = name_index(value[Anum_output_mode - 1],
								  output_mode_names,
								  lengthof(output_mode_names));
	def->emit = name_index(value[Anum_emit - 1], emit_names,
						   lengthof(emit_names));
	def->timeout = DatumGetInt64(value[Anum_timeout - 1]);
	def->ttl = DatumGetInt64(value[Anum_ttl - 1]);
	if (!null[Anum_side_ttl - 1])
		def->side_ttl =
			DatumGetCString(DirectFunctionCall1(jsonb_out,
												value[Anum_side_ttl - 1]));
	def->allowed_lateness = DatumGetInt64(value[Anum_allowed_lateness - 1]);
	def->late_rows = name_index(value[Anum_late_rows - 1], late_rows_names,
								lengthof(late_rows_names));
	def->with_data = DatumGetBool(value[Anum_with_data - 1]);
	def->time_zone = TextDatumGetCString(value[Anum_time_zone - 1]);
	def->signature = DatumGetInt64(value[Anum_signature - 1]);
	def->input_signature =
		DatumGetInt64(value[Anum_input_signature - 1]);
	def->query = TextDatumGetCString(value[Anum_query - 1]);
	def->input[SJ_LEFT] = DatumGetObjectId(value[Anum_input_left - 1]);
	def->input[SJ_RIGHT] = DatumGetObjectId(value[Anum_input_right - 1]);
	def->start = DatumGetByteaPCopy(value[Anum_start - 1]);
	def->kind = TextDatumGetCString(value[Anum_kind - 1]);
	def->join_type = TextDatumGetCString(value[Anum_join_type - 1]);
	def->lateness = DatumGetInt64(value[Anum_lateness - 1]);
	def->retention = DatumGetInt64(value[Anum_retention - 1]);
	def->alias[SJ_LEFT] = TextDatumGetCString(value[Anum_alias_left - 1]);
	def->alias[SJ_RIGHT] = TextDatumGetCString(value[Anum_alias_right - 1]);
	def->paused = DatumGetBool(value[Anum_paused - 1]);
	if (!null[Anum_notify_channel - 1])
		def->notify_channel = TextDatumGetCString(value[Anum_notify_channel - 1]);
	def->result_seq = DatumGetInt64(value[Anum_result_seq - 1]);
	def->created_at = DatumGetTimestampTz(value[Anum_created_at - 1]);
	def->written_by = HeapTupleHeaderGetRawXmin(tuple->t_data);
	def->uncommitted =
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	return def;
}

static HeapTuple
tuple_from_def(const SjJoinDef *def, TupleDesc desc)
{
	Datum		value[Natts_join_def];
	bool		null[Natts_join_def] = {false};

	value[Anum_join_id - 1] = Int32GetDatum(def->join_id);
	value[Anum_result - 1] = ObjectIdGetDatum(def->result);
	value[Anum_definition - 1] = ObjectIdGetDatum(def->definition);
	value[Anum_output_mode - 1] =
		CStringGetTextDatum(output_mode_names[def->output_mode]);
	value[Anum_emit - 1] = CStringGetTextDatum(emit_names[def->emit]);
	value[Anum_timeout - 1] = Int64GetDatum(def->timeout);
	value[Anum_ttl - 1] = Int64GetDatum(def->ttl);
	null[Anum_side_ttl - 1] = def->side_ttl == NULL;
	value[Anum_side_ttl - 1] = def->side_ttl == NULL ? (Datum) 0 :
		DirectFunctionCall1(jsonb_in, CStringGetDatum(def->side_ttl));
	value[Anum_allowed_lateness - 1] = Int64GetDatum(def->allowed_lateness);
	value[Anum_late_rows - 1] =
		CStringGetTextDatum(late_rows_names[def->late_rows]);
	value[Anum_with_data - 1] = BoolGetDatum(def->with_data);
	value[Anum_time_zone - 1] = CStringGetTextDatum(def->time_zone);
	value[Anum_signature - 1] = Int64GetDatum(def->signature);
	value[Anum_input_signature - 1] = Int64GetDatum(def->input_signature);
	value[Anum_query - 1] = CStringGetTextDatum(def->query);
	value[Anum_input_left - 1] = ObjectIdGetDatum(def->input[SJ_LEFT]);
	value[Anum_input_right - 1] = ObjectIdGetDatum(def->input[SJ_RIGHT]);
	value[Anum_start - 1] = PointerGetDatum(def->start);
	value[Anum_kind - 1] = CStringGetTextDatum(def->kind);
	value[Anum_join_type - 1] = CStringGetTextDatum(def->join_type);
	value[Anum_lateness - 1] = Int64GetDatum(def->lateness);
	value[Anum_retention - 1] = Int64GetDatum(def->retention);
	value[Anum_alias_left - 1] = CStringGetTextDatum(def->alias[SJ_LEFT]);
	value[Anum_alias_right - 1] = CStringGetTextDatum(def->alias[SJ_RIGHT]);
	value[Anum_paused - 1] = BoolGetDatum(def->paused);
	null[Anum_notify_channel - 1] = def->notify_channel == NULL;
	value[Anum_notify_channel - 1] = def->notify_channel == NULL ? (Datum) 0 :
		CStringGetTextDatum(def->notify_channel);
	value[Anum_result_seq - 1] = Int64GetDatum(def->result_seq);
	value[Anum_created_at - 1] = TimestampTzGetDatum(def->created_at);
	return heap_form_tuple(desc, value, null);
}

/* Writers of the inputs look again at which joins there are. */
static void
invalidate_inputs(const SjJoinDef *def)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		sj_stream_invalidate(def->input[side]);
}

void
sj_join_def_insert(const SjJoinDef *def)
{
	Relation	rel = sj_open("join_def", RowExclusiveLock);

	CatalogTupleInsert(rel, tuple_from_def(def, RelationGetDescr(rel)));
	table_close(rel, NoLock);
	invalidate_inputs(def);
	CommandCounterIncrement();
}

/* The scan has a copy of the key. */
static SysScanDesc
scan_by_id(Relation rel, int32 join_id)
{
	ScanKeyData key;

	ScanKeyInit(&key, Anum_join_id, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(join_id));
	return systable_beginscan(rel, InvalidOid, false, NULL, 1, &key);
}

void
sj_join_def_update(int32 join_id, const SjJoinDef *def)
{
	Relation	rel = sj_open("join_def", RowExclusiveLock);
	SysScanDesc scan = scan_by_id(rel, join_id);
	HeapTuple	tuple = systable_getnext(scan);

	if (tuple == NULL)
		elog(ERROR, "join %d is not in sjoin.join_def", join_id);
	CatalogTupleUpdate(rel, &tuple->t_self,
					   tuple_from_def(def, RelationGetDescr(rel)));
	systable_endscan(scan);
	table_close(rel, NoLock);
	invalidate_inputs(def);
	CommandCounterIncrement();
}

void
sj_join_def_delete(int32 join_id)
{
	Relation	rel = sj_open("join_def", RowExclusiveLock);
	SysScanDesc scan = scan_by_id(rel, join_id);
	HeapTuple	tuple;

	while ((tuple = systable_getnext(scan)) != NULL)
	{
		SjJoinDef  *def = def_from_tuple(tuple, RelationGetDescr(rel));

		invalidate_inputs(def);
		CatalogTupleDelete(rel, &tuple->t_self);
	}
	systable_endscan(scan);
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

/* Definitions, all or those of one result; NIL without the extension. */
static List *
read_defs(Oid result)
{
	Relation	rel;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	List	   *defs = NIL;

	if (!OidIsValid(sj_relation_oid("join_def")))
		return NIL;
	rel = sj_open("join_def", AccessShareLock);
	ScanKeyInit(&key, Anum_result, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(result));
	scan = systable_beginscan(rel, InvalidOid, false, NULL,
							  OidIsValid(result) ? 1 : 0, &key);
	while ((tuple = systable_getnext(scan)) != NULL)
		defs = lappend(defs, def_from_tuple(tuple, RelationGetDescr(rel)));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return defs;
}

List *
sj_join_def_all(void)
{
	return read_defs(InvalidOid);
}

SjJoinDef *
sj_join_def_by_result(Oid result)
{
	List	   *defs = OidIsValid(result) ? read_defs(result) : NIL;

	return defs == NIL ? NULL : linitial(defs);
}

List *
sj_join_def_paused(Snapshot snapshot)
{
	Relation	rel = sj_open("join_def", AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0,
										  NULL);
	TupleDesc	desc = RelationGetDescr(rel);
	HeapTuple	tuple;
	List	   *join_ids = NIL;
	bool		isnull;

	while ((tuple = systable_getnext(scan)) != NULL)
		if (DatumGetBool(heap_getattr(tuple, Anum_paused, desc, &isnull)))
			join_ids = lappend_int(join_ids,
								   DatumGetInt32(heap_getattr(tuple, Anum_join_id,
															  desc, &isnull)));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return join_ids;
}

void
sj_join_def_lock(void)
{
	LockRelationOid(sj_relation_oid("join_def"), ShareRowExclusiveLock);
}

bool
sj_is_result(Oid relid)
{
	return sj_join_def_by_result(relid) != NULL;
}

bool
sj_join_is_final(const SjJoinDef *def)
{
	return def->output_mode == SJ_OUTPUT_APPEND || def->emit == SJ_EMIT_FINAL;
}

/* {"alias": "interval", ...} as a list of DefElem. */
static List *
side_ttl_list(const char *json)
{
	Jsonb	   *object;
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	v;
	List	   *list = NIL;
	char	   *alias = NULL;

	if (json == NULL)
		return NIL;
	object = DatumGetJsonbP(DirectFunctionCall1(jsonb_in,
												CStringGetDatum(json)));
	if (!JB_ROOT_IS_OBJECT(object))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("side_ttl must be a JSON object"),
				 errhint("Write {\"alias\": \"interval\"}.")));
	it = JsonbIteratorInit(&object->root);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			alias = pnstrdup(v.val.string.val, v.val.string.len);
		else if (token == WJB_VALUE && v.type == jbvString)
			list = lappend(list,
						   makeDefElem(alias,
									   (Node *) makeString(pnstrdup(v.val.string.val,
																	v.val.string.len)),
									   -1));
		else if (token == WJB_VALUE)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("side_ttl of \"%s\" must be a string", alias),
					 errhint("Write {\"%s\": \"1 hour\"}.", alias)));
	}
	return list;
}

void
sj_join_shape(const SjJoinDef *def, SjJoinShape *shape)
{
	shape->timeout = def->timeout;
	shape->ttl = def->ttl;
	shape->side_ttl = side_ttl_list(def->side_ttl);
}

int64
sj_join_lateness(const SjJoinDef *def, const SjJoinQuery *query)
{
	int64		widest = sj_bounds_widest(&query->bounds);
	int64		lateness = def->allowed_lateness;

	if (lateness < 0)
		lateness = sj_join_is_final(def) ? 0 : widest;
	return def->late_rows == SJ_LATE_JOIN ? Max(lateness, widest) : lateness;
}

Query *
sj_join_definition(Oid definition)
{
	Relation	view = table_open(definition, AccessShareLock);
	Query	   *query = copyObject(get_view_query(view));
	List	   *rtable = NIL;

	table_close(view, NoLock);

	/* a rule's range table starts with OLD and NEW, which nothing refers to */
	if (list_length(query->rtable) >= 2 &&
		((RangeTblEntry *) linitial(query->rtable))->relid == definition)
	{
		OffsetVarNodes((Node *) query, -2, 0);
		rtable = list_copy_tail(query->rtable, 2);
		query->rtable = rtable;
	}
	/* rights are those of whoever runs it, not of the view's owner */
	setRuleCheckAsUser((Node *) query, InvalidOid);
	return query;
}

SjJoinQuery *
sj_join_analyze(const SjJoinDef *def, const char **problem)
{
	SjJoinShape shape;
	SjJoinQuery *parts;
	Query	   *query;

	*problem = "has lost its definition, which has been dropped";
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(def->definition)))
		return NULL;
	*problem = "has got another definition";
	query = sj_join_definition(def->definition);
	if (sj_query_signature(query) != def->signature)
		return NULL;
	*problem = "reads other columns of its inputs than it was created with";
	sj_join_shape(def, &shape);
	parts = sj_query_analyze(query, &shape);
	return sj_input_signature(parts) == def->input_signature ? parts : NULL;
}

SjJoinQuery *
sj_join_query(const SjJoinDef *def)
{
	const char *problem;
	SjJoinQuery *query = sj_join_analyze(def, &problem);

	if (query == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the join \"%s\" %s", get_rel_name(def->result),
						problem),
				 errhint("sjoin.refresh_join() starts the join over if its definition is sound; otherwise drop it and create it again.")));
	return query;
}
