/*-------------------------------------------------------------------------
 *
 * relinfo.c
 *	  How rows of a table become images, per backend.
 *
 * A partition's rows are images of the stream it belongs to, which is the
 * table of the topmost of the triggers that its own was cloned from.  Columns
 * are matched by name: partitions may have them in any order.
 *
 * Entries are by trigger and stay for the life of the backend; a relcache
 * message for the table or the stream (DDL, a new layout) makes the next
 * caller build them anew.  An entry in use is never freed by a message.
 *
 * IDENTIFICATION
 *	  src/capture/relinfo.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "capture/capture.h"
#include "capture/relinfo.h"
#include "catalog/pg_trigger.h"
#include "catalog/stream_def.h"
#include "nodes/nodes.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

static HTAB *relinfos = NULL;
static SjRelInfo *last_used = NULL;
static uint64 messages = 0;		/* relcache messages that concerned an entry */

static void
forget_relation(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS status;
	SjRelInfo  *info;

	hash_seq_init(&status, relinfos);
	while ((info = hash_seq_search(&status)) != NULL)
	{
		if (OidIsValid(relid) && info->relid != relid && info->root != relid)
			continue;
		info->valid = false;
		messages++;
	}
}

static void
make_hash(void)
{
	HASHCTL		ctl = {0};

	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(SjRelInfo);
	ctl.hcxt = TopMemoryContext;
	relinfos = hash_create("sjoin tables", 32, &ctl,
						   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	CacheRegisterRelcacheCallback(forget_relation, (Datum) 0);
}

/* Reads a trigger's table and the trigger it was cloned from. */
static bool
read_trigger(Relation pg_trigger, Oid trigger, Oid *parent, Oid *relid)
{
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found;

	ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(trigger));
	scan = systable_beginscan(pg_trigger, TriggerOidIndexId, true, NULL, 1,
							  &key);
	tuple = systable_getnext(scan);
	found = HeapTupleIsValid(tuple);
	if (found)
	{
		*parent = ((Form_pg_trigger) GETSTRUCT(tuple))->tgparentid;
		*relid = ((Form_pg_trigger) GETSTRUCT(tuple))->tgrelid;
	}
	systable_endscan(scan);
	return found;
}

/* The table whose trigger this one descends from. */
static Oid
find_root(Oid trigger, Oid relid)
{
	Relation	pg_trigger = table_open(TriggerRelationId, AccessShareLock);
	Oid			root = relid;

	while (OidIsValid(trigger) &&
		   read_trigger(pg_trigger, trigger, &trigger, &root))
		 /* go on */ ;
	table_close(pg_trigger, AccessShareLock);
	return root;
}

/*
 * Finds a column of the layout in the table; one that has gone or has become
 * something else, which no join reads any more, is captured as NULL.  The
 * stream itself is not locked: it cannot change its columns without a lock on
 * the table, which the caller has.
 */
static void
add_column(SjRelInfo *info, int i, const SjLayout *layout)
{
	if (!sj_layout_fits(layout, i))
		info->attnos[i] = 0;
	else if (info->root == info->relid)
		info->attnos[i] = layout->attnos[i];
	else
		info->attnos[i] = get_attnum(info->relid,
									 get_attname(info->root, layout->attnos[i],
												 false));
	info->max_attno = Max(info->max_attno, info->attnos[i]);
}

static void
make_workspace(SjColumns *columns, int natts)
{
	columns->value = palloc0(natts * sizeof(Datum));
	columns->null = palloc0(natts * sizeof(bool));
}

/* Are the captured columns all that the table has, in its order? */
static bool
is_whole(const SjRelInfo *info, TupleDesc desc)
{
	if (desc->natts != info->desc->natts)
		return false;
	for (int i = 0; i < desc->natts; i++)
		if (info->attnos[i] != i + 1)
			return false;
	return true;
}

static void
add_columns(SjRelInfo *info, const SjLayout *layout, TupleDesc desc)
{
	info->layout = layout->id;
	info->desc = sj_layout_desc(layout);
	info->attnos = palloc0(layout->natts * sizeof(AttrNumber));
	info->max_attno = 0;
	for (int i = 0; i < layout->natts; i++)
		add_column(info, i, layout);
	make_workspace(&info->columns[0], layout->natts);
	make_workspace(&info->columns[1], layout->natts);
	info->whole = is_whole(info, desc);
}

/* The event time that the trigger's condition looks at. */
static AttrNumber
condition_attno(Oid trigger, const TriggerDesc *desc)
{
	for (int i = 0; desc != NULL && i < desc->numtriggers; i++)
		if (desc->triggers[i].tgoid == trigger &&
			desc->triggers[i].tgqual != NULL)
			return sj_capture_condition_attno(stringToNode(desc->triggers[i].tgqual));
	return InvalidAttrNumber;
}

/* Fills the entry; it stays invalid if this fails, or is overtaken. */
static void
load(SjRelInfo *info, Relation rel)
{
	uint64		messages_before = messages;
	MemoryContext old;
	SjLayout   *layout;

	if (info->context == NULL)
		info->context = AllocSetContextCreate(TopMemoryContext,
											  "sjoin table",
											  ALLOCSET_SMALL_SIZES);
	MemoryContextReset(info->context);
	info->relid = RelationGetRelid(rel);
	info->root = find_root(info->trigger, info->relid);
	info->source = info->root == info->relid ? InvalidOid : info->relid;
	info->use = sj_stream_use(info->root);
	info->time_attno = condition_attno(info->trigger, rel->trigdesc);
	info->layout = 0;

	old = MemoryContextSwitchTo(info->context);
	layout = sj_layout_current(info->root);
	if (layout != NULL)
		add_columns(info, layout, RelationGetDescr(rel));
	MemoryContextSwitchTo(old);
	info->valid = messages == messages_before;
}

static SjRelInfo *
find_or_add(Oid trigger)
{
	bool		found;
	SjRelInfo  *info;

	if (relinfos == NULL)
		make_hash();
	info = hash_search(relinfos, &trigger, HASH_ENTER, &found);
	if (!found)
	{
		memset(info, 0, sizeof(SjRelInfo));
		info->trigger = trigger;
	}
	return info;
}

SjRelInfo *
sj_relinfo_get(Oid trigger, Relation rel)
{
	if (last_used == NULL || last_used->trigger != trigger)
		last_used = find_or_add(trigger);
	if (!last_used->valid)
		load(last_used, rel);
	return last_used;
}
