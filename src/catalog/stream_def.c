/*-------------------------------------------------------------------------
 *
 * stream_def.c
 *	  Definitions of streams and of what is captured of them.
 *
 * Rows are read under a snapshot of the moment, not the transaction's: a
 * trigger must see the layout that a join's creation has committed, whatever
 * the isolation level.  Access is by heap and index alone, so no right of the
 * current user matters.
 *
 * IDENTIFICATION
 *	  src/catalog/stream_def.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "catalog/stream_def.h"
#include "commands/sequence.h"
#include "guc.h"
#include "relations.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

enum
{
	Anum_stream_relid = 1,
	Anum_stream_time_attno,
	Anum_stream_watermark_delay,
	Anum_stream_idle_timeout,
	Anum_stream_on_idle,
	Anum_stream_max_future,
	Anum_stream_upsert_attnos,
	Anum_stream_created_at,
	Natts_stream = Anum_stream_created_at
};

enum
{
	Anum_layout_layout = 1,
	Anum_layout_relid,
	Anum_layout_attnos,
	Anum_layout_typids,
	Anum_layout_forms,
	Natts_layout = Anum_layout_forms
};

/* in the order of SjOnIdle */
static const char *const on_idle_names[] = {"advance", "ignore", "hold"};

/* A scan under a snapshot of the moment. */
typedef struct DefScan
{
	Relation	rel;
	Snapshot	snapshot;
	SysScanDesc scan;
} DefScan;

/*
 * Starts a scan of sjoin.<name>, with 'key' through sjoin.<index>; false when
 * the extension is not installed.
 */
static bool
begin_scan(DefScan *scan, const char *name, LOCKMODE lockmode,
		   const char *index, ScanKey key)
{
	scan->rel = sj_try_open(name, lockmode);
	if (scan->rel == NULL)
		return false;
	scan->snapshot = RegisterSnapshot(GetLatestSnapshot());
	scan->scan = systable_beginscan(scan->rel,
									key ? sj_relation_oid(index) : InvalidOid,
									key != NULL, scan->snapshot,
									key ? 1 : 0, key);
	return true;
}

static void
end_scan(DefScan *scan, LOCKMODE lockmode)
{
	systable_endscan(scan->scan);
	UnregisterSnapshot(scan->snapshot);
	relation_close(scan->rel, lockmode);
}

static void
insert_row(const char *name, Datum *value, bool *null)
{
	Relation	rel = sj_open(name, RowExclusiveLock);
	HeapTuple	tuple = heap_form_tuple(RelationGetDescr(rel), value, null);

	CatalogTupleInsert(rel, tuple);
	heap_freetuple(tuple);
	relation_close(rel, NoLock);
	CommandCounterIncrement();
}

/* Deletes the rows of 'relid', which is column 'attno' with an index. */
static void
delete_rows(const char *name, const char *index, AttrNumber attno, Oid relid)
{
	DefScan		scan;
	ScanKeyData key;
	HeapTuple	tuple;

	ScanKeyInit(&key, attno, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	if (!begin_scan(&scan, name, RowExclusiveLock, index, &key))
		return;
	while (HeapTupleIsValid(tuple = systable_getnext(scan.scan)))
		CatalogTupleDelete(scan.rel, &tuple->t_self);
	end_scan(&scan, NoLock);
	CommandCounterIncrement();
}

/* streams ------------------------------------------------------------- */

static SjOnIdle
on_idle_from_name(const char *name)
{
	for (int i = 0; i < lengthof(on_idle_names); i++)
		if (strcmp(name, on_idle_names[i]) == 0)
			return (SjOnIdle) i;
	elog(ERROR, "unknown value \"%s\" of on_idle in sjoin.stream_def", name);
}

/* An int2[] as a list. */
static List *
attnos_from_array(Datum array)
{
	ArrayType  *attnos = DatumGetArrayTypePCopy(array);
	int			n = ArrayGetNItems(ARR_NDIM(attnos), ARR_DIMS(attnos));
	List	   *list = NIL;

	for (int i = 0; i < n; i++)
		list = lappend_int(list, ((AttrNumber *) ARR_DATA_PTR(attnos))[i]);
	return list;
}

static Datum
array_from_attnos(const List *list)
{
	Datum	   *element = palloc(sizeof(Datum) * list_length(list));
	ListCell   *lc;

	foreach(lc, list)
		element[foreach_current_index(lc)] = Int16GetDatum(lfirst_int(lc));
	return PointerGetDatum(construct_array(element, list_length(list), INT2OID,
										   sizeof(int16), true,
										   TYPALIGN_SHORT));
}

static SjStreamDef *
stream_from_tuple(HeapTuple tuple, TupleDesc desc)
{
	SjStreamDef *def = palloc0(sizeof(SjStreamDef));
	Datum		value[Natts_stream];
	bool		null[Natts_stream];

	heap_deform_tuple(tuple, desc, value, null);
	def->relid = DatumGetObjectId(value[Anum_stream_relid - 1]);
	def->time_attno = DatumGetInt16(value[Anum_stream_time_attno - 1]);
	def->watermark_delay =
		DatumGetInt64(value[Anum_stream_watermark_delay - 1]);
	def->idle_timeout = DatumGetInt64(value[Anum_stream_idle_timeout - 1]);
	def->on_idle =
		on_idle_from_name(TextDatumGetCString(value[Anum_stream_on_idle - 1]));
	def->max_future = DatumGetInt64(value[Anum_stream_max_future - 1]);
	if (!null[Anum_stream_upsert_attnos - 1])
		def->upsert_key =
			attnos_from_array(value[Anum_stream_upsert_attnos - 1]);
	def->created_at = DatumGetTimestampTz(value[Anum_stream_created_at - 1]);
	return def;
}

SjStreamDef *
sj_stream_def_get(Oid relid)
{
	DefScan		scan;
	ScanKeyData key;
	HeapTuple	tuple;
	SjStreamDef *def = NULL;

	ScanKeyInit(&key, Anum_stream_relid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	if (!begin_scan(&scan, "stream_def", AccessShareLock, "stream_def_relid",
					&key))
		return NULL;
	tuple = systable_getnext(scan.scan);
	if (HeapTupleIsValid(tuple))
		def = stream_from_tuple(tuple, RelationGetDescr(scan.rel));
	end_scan(&scan, AccessShareLock);
	return def;
}

List *
sj_stream_def_all(void)
{
	DefScan		scan;
	HeapTuple	tuple;
	List	   *defs = NIL;

	if (!begin_scan(&scan, "stream_def", AccessShareLock, NULL, NULL))
		return NIL;
	while (HeapTupleIsValid(tuple = systable_getnext(scan.scan)))
		defs = lappend(defs,
					   stream_from_tuple(tuple, RelationGetDescr(scan.rel)));
	end_scan(&scan, AccessShareLock);
	return defs;
}

void
sj_stream_def_insert(const SjStreamDef *def)
{
	Datum		value[Natts_stream];
	bool		null[Natts_stream] = {false};

	value[Anum_stream_relid - 1] = ObjectIdGetDatum(def->relid);
	value[Anum_stream_time_attno - 1] = Int16GetDatum(def->time_attno);
	value[Anum_stream_watermark_delay - 1] =
		Int64GetDatum(def->watermark_delay);
	value[Anum_stream_idle_timeout - 1] = Int64GetDatum(def->idle_timeout);
	value[Anum_stream_on_idle - 1] =
		CStringGetTextDatum(on_idle_names[def->on_idle]);
	value[Anum_stream_max_future - 1] = Int64GetDatum(def->max_future);
	null[Anum_stream_upsert_attnos - 1] = def->upsert_key == NIL;
	if (def->upsert_key != NIL)
		value[Anum_stream_upsert_attnos - 1] =
			array_from_attnos(def->upsert_key);
	value[Anum_stream_created_at - 1] = TimestampTzGetDatum(def->created_at);
	insert_row("stream_def", value, null);
}

void
sj_stream_def_delete(Oid relid)
{
	delete_rows("stream_def", "stream_def_relid", Anum_stream_relid, relid);
}

void
sj_stream_def_update(const SjStreamDef *def)
{
	sj_stream_def_delete(def->relid);
	sj_stream_def_insert(def);
}

int64
sj_default_delay(void)
{
	return (int64) sj_watermark_delay * 1000;
}

int64
sj_default_max_future(void)
{
	return sj_max_future < 0 ? -1 : (int64) sj_max_future * 1000;
}

int64
sj_stream_delay(const SjStreamDef *def)
{
	return def->watermark_delay >= 0 ? def->watermark_delay :
		sj_default_delay();
}

int64
sj_stream_idle_timeout(const SjStreamDef *def)
{
	return def->idle_timeout >= 0 ? def->idle_timeout :
		(int64) sj_idle_timeout * 1000;
}

int64
sj_stream_max_future(const SjStreamDef *def)
{
	return def->max_future >= -1 ? def->max_future : sj_default_max_future();
}

bool
sj_stream_has_local_time(const SjStreamDef *def)
{
	return def != NULL &&
		get_atttype(def->relid, def->time_attno) == TIMESTAMPOID;
}

/* layouts ------------------------------------------------------------- */

/* How a column is stored, as one number. */
static int32
form_of(Form_pg_attribute att)
{
	return (int32) ((uint16) att->attlen | (uint8) att->attalign << 16 |
					(att->attbyval ? 1 : 0) << 24);
}

static void
set_form(Form_pg_attribute att, int32 form)
{
	att->attlen = (int16) (form & 0xffff);
	att->attalign = (char) (form >> 16 & 0xff);
	att->attbyval = (form >> 24 & 1) != 0;
}

TupleDesc
sj_layout_desc(const SjLayout *layout)
{
	TupleDesc	desc = CreateTemplateTupleDesc(layout->natts);

	for (int i = 0; i < layout->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		memset(att, 0, ATTRIBUTE_FIXED_PART_SIZE);
		att->attnum = i + 1;
		att->attcacheoff = -1;
		att->atttypid = layout->typids[i];
		att->atttypmod = -1;
		att->attstorage = TYPSTORAGE_PLAIN;
		set_form(att, layout->forms[i]);
	}
	return desc;
}

bool
sj_layout_fits(const SjLayout *layout, int i)
{
	HeapTuple	tuple = SearchSysCache2(ATTNUM,
										ObjectIdGetDatum(layout->relid),
										Int16GetDatum(layout->attnos[i]));
	bool		fits = false;

	if (HeapTupleIsValid(tuple))
	{
		Form_pg_attribute att = (Form_pg_attribute) GETSTRUCT(tuple);

		fits = !att->attisdropped && att->atttypid == layout->typids[i] &&
			form_of(att) == layout->forms[i];
		ReleaseSysCache(tuple);
	}
	return fits;
}

static SjLayout *
layout_from_tuple(HeapTuple tuple, TupleDesc desc)
{
	SjLayout   *layout = palloc(sizeof(SjLayout));
	Datum		value[Natts_layout];
	bool		null[Natts_layout];
	ArrayType  *attnos;

	heap_deform_tuple(tuple, desc, value, null);
	attnos = DatumGetArrayTypePCopy(value[Anum_layout_attnos - 1]);
	layout->typids = (Oid *)
		ARR_DATA_PTR(DatumGetArrayTypePCopy(value[Anum_layout_typids - 1]));
	layout->forms = (int32 *)
		ARR_DATA_PTR(DatumGetArrayTypePCopy(value[Anum_layout_forms - 1]));
	layout->id = DatumGetInt32(value[Anum_layout_layout - 1]);
	layout->relid = DatumGetObjectId(value[Anum_layout_relid - 1]);
	layout->natts = ArrayGetNItems(ARR_NDIM(attnos), ARR_DIMS(attnos));
	layout->attnos = (AttrNumber *) ARR_DATA_PTR(attnos);
	return layout;
}

SjLayout *
sj_layout_get(int32 id)
{
	DefScan		scan;
	ScanKeyData key;
	HeapTuple	tuple;
	SjLayout   *layout = NULL;

	ScanKeyInit(&key, Anum_layout_layout, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(id));
	if (!begin_scan(&scan, "layout", AccessShareLock, "layout_layout", &key))
		return NULL;
	tuple = systable_getnext(scan.scan);
	if (HeapTupleIsValid(tuple))
		layout = layout_from_tuple(tuple, RelationGetDescr(scan.rel));
	end_scan(&scan, AccessShareLock);
	return layout;
}

/* The one with the greatest number. */
SjLayout *
sj_layout_current(Oid relid)
{
	DefScan		scan;
	ScanKeyData key;
	HeapTuple	tuple;
	SjLayout   *current = NULL;

	ScanKeyInit(&key, Anum_layout_relid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	if (!begin_scan(&scan, "layout", AccessShareLock, "layout_relid", &key))
		return NULL;
	while (HeapTupleIsValid(tuple = systable_getnext(scan.scan)))
	{
		SjLayout   *layout = layout_from_tuple(tuple,
											   RelationGetDescr(scan.rel));

		if (current == NULL || layout->id > current->id)
			current = layout;
	}
	end_scan(&scan, AccessShareLock);
	return current;
}

/*
 * Writers of the table and of all its partitions look again.  The table may be
 * gone already.
 */
void
sj_stream_invalidate(Oid relid)
{
	ListCell   *cell;

	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		return;
	foreach(cell, find_all_inheritors(relid, NoLock, NULL))
	{
		Oid			member = lfirst_oid(cell);

		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(member)))
			CacheInvalidateRelcacheByRelid(member);
	}
}

static Bitmapset *
add_attnos(Bitmapset *set, int natts, const AttrNumber *attnos)
{
	for (int i = 0; i < natts; i++)
	{
		Assert(attnos[i] > 0);
		set = bms_add_member(set, attnos[i]);
	}
	return set;
}

static void
insert_layout(Oid relid, const Bitmapset *attnos)
{
	Relation	rel = table_open(relid, AccessShareLock);
	Datum		value[Natts_layout];
	bool		null[Natts_layout] = {false};
	Datum	   *element = palloc(bms_num_members(attnos) * sizeof(Datum));
	Datum	   *typid = palloc(bms_num_members(attnos) * sizeof(Datum));
	Datum	   *form = palloc(bms_num_members(attnos) * sizeof(Datum));
	int			n = 0;
	int			attno = -1;
	int64		id;

	while ((attno = bms_next_member(attnos, attno)) >= 0)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attno - 1);

		element[n] = Int16GetDatum(attno);
		typid[n] = ObjectIdGetDatum(att->atttypid);
		form[n++] = Int32GetDatum(form_of(att));
	}
	table_close(rel, NoLock);
	id = nextval_internal(sj_relation_oid("layout_id"), false);

	value[Anum_layout_layout - 1] = Int32GetDatum((int32) id);
	value[Anum_layout_relid - 1] = ObjectIdGetDatum(relid);
	value[Anum_layout_attnos - 1] =
		PointerGetDatum(construct_array(element, n, INT2OID, sizeof(int16),
										true, TYPALIGN_SHORT));
	value[Anum_layout_typids - 1] =
		PointerGetDatum(construct_array(typid, n, OIDOID, sizeof(Oid), true,
										TYPALIGN_INT));
	value[Anum_layout_forms - 1] =
		PointerGetDatum(construct_array(form, n, INT4OID, sizeof(int32), true,
										TYPALIGN_INT));
	insert_row("layout", value, null);
}

bool
sj_layout_extend(Oid relid, int natts, const AttrNumber *attnos)
{
	SjLayout   *current = sj_layout_current(relid);
	Bitmapset  *old = NULL;
	Bitmapset  *all;

	/* columns that are gone or have become something else are let go */
	for (int i = 0; current != NULL && i < current->natts; i++)
		if (sj_layout_fits(current, i))
			old = bms_add_member(old, current->attnos[i]);
	all = add_attnos(bms_copy(old), natts, attnos);
	if (current != NULL && bms_equal(old, all) &&
		bms_num_members(old) == current->natts)
		return false;

	insert_layout(relid, all);
	sj_stream_invalidate(relid);
	return true;
}

void
sj_layout_delete(Oid relid)
{
	delete_rows("layout", "layout_relid", Anum_layout_relid, relid);
	if (OidIsValid(sj_relation_oid("layout")))
		sj_stream_invalidate(relid);
}
