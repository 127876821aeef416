/*-------------------------------------------------------------------------
 *
 * trim_api.c
 *	  trim_late: removes late rows that nothing depends on any more.
 *
 * A late row has to be remembered while its table has the image, or verify()
 * would take it for accepted.  When the table has lost it, as after a retention
 * job, it stands for nothing: whatever equals it is too old, too, and will be
 * late by itself.  So of the records that an image was late as many can go as
 * are left when those are counted off that the table still has, and what later
 * changes, consumed or not, take off.  A late row that has been replayed goes
 * together with what says so.
 *
 * IDENTIFICATION
 *	  src/api/trim_api.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "api/api.h"
#include "catalog/join_plan.h"
#include "catalog/privileges.h"
#include "emit/late_choice.h"
#include "miscadmin.h"
#include "shmem.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "worker/replay_tables.h"
#include "worker/sandbox.h"

PG_FUNCTION_INFO_V1(sjoin_trim_late);

/* An image, and how many records of it nothing depends on. */
typedef struct Image
{
	SjLateImage key;
	int64		spare;
} Image;

/* One call. */
typedef struct Trim
{
	SjJoinDef  *def;
	SjJoinQuery *query;
	TimestampTz before;
	SjLateChoice *choices;
	int			nchoices;
	SjSide		side;			/* whose table is being read */
	HTAB	   *images;
	int64	   *late_ids;		/* to remove */
	int			n;
} Trim;

static Image *
find_image(Trim *trim, const pg_uuid_t *hash, SjSide side, HASHACTION action)
{
	SjLateImage key = {*hash, side};

	return hash_search(trim->images, &key, action, NULL);
}

static void
note_spare(void *arg, const pg_uuid_t *hash, int64 spare)
{
	Trim	   *trim = arg;

	find_image(trim, hash, trim->side, HASH_ENTER)->spare = spare;
}

static void
read_spare(Trim *trim, SjReplayTables *tables)
{
	trim->images = sj_late_images_create(CurrentMemoryContext, sizeof(Image));
	for (trim->side = SJ_LEFT; trim->side <= SJ_RIGHT; trim->side++)
		sj_replay_visit_spare(tables, trim->side, trim->choices,
							  trim->nchoices, note_spare, trim);
}

/* Does nothing depend on the late row? */
static bool
can_go(Trim *trim, const SjLateChoice *choice)
{
	Image	   *image;

	if (choice->state == SJ_CHOICE_REPLAYED)
		return true;
	image = find_image(trim, &choice->hash, choice->side, HASH_FIND);
	return image != NULL && image->spare-- > 0;
}

static void
choose(Trim *trim)
{
	trim->late_ids = palloc(sizeof(int64) * (trim->nchoices + 1));
	for (int i = 0; i < trim->nchoices; i++)
		if (can_go(trim, &trim->choices[i]))
			trim->late_ids[trim->n++] = trim->choices[i].late_id;
}

/*
 * What is about to be replayed must not go; nor is anything known of rows that
 * a truncation takes.
 */
static bool
is_certain(const SjReplayTables *tables)
{
	if (!tables->rejections.truncated && !tables->rejections.replays)
		return true;
	ereport(NOTICE,
			(errmsg("late rows are not removed: the join has not consumed %s yet",
					tables->rejections.replays ? "a replay of late rows" :
					"a TRUNCATE of its streams"),
			 errhint("Call sjoin.trim_late() again when it has.")));
	return false;
}

static void
look_up(Trim *trim)
{
	SjReplayTables tables;
	SjPosition *position;

	sj_replay_tables_open(&tables, trim->def, trim->query,
						  sj_join_plan(trim->query));
	position = sj_position_load(trim->def->join_id, tables.snapshot);
	/* a join that has not started has no late rows */
	if (position != NULL)
	{
		sj_replay_tables_read_records(&tables, position);
		if (is_certain(&tables))
			trim->choices = sj_late_choose_old(trim->def->join_id,
											   tables.snapshot, trim->before,
											   &trim->nchoices);
		read_spare(trim, &tables);
	}
	sj_replay_tables_close(&tables);
	if (position != NULL)
		choose(trim);
}

/* trim_late(name regclass, older_than interval) RETURNS bigint */
Datum
sjoin_trim_late(PG_FUNCTION_ARGS)
{
	Trim		trim = {.def = sj_arg_join(fcinfo, 0)};
	int64		older_than = sj_arg_interval(fcinfo, 1, "older_than");
	SjSandbox	sandbox;

	sj_require_preload();
	PreventCommandIfReadOnly("sjoin.trim_late()");
	sj_check_owner(trim.def->result);
	if (older_than < 0)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("older_than must not be null"),
				 errhint("Pass '0 s' for late rows of any age.")));
	trim.before = sj_time_sub(GetCurrentTimestamp(), older_than);

	/* nobody else removes late rows, starts the join over, or drops it */
	LockRelationOid(trim.def->result, ShareUpdateExclusiveLock);
	trim.def = sj_arg_join(fcinfo, 0);	/* as it is now */
	sj_check_owner(trim.def->result);
	sj_sandbox_enter(&sandbox, sj_relation_owner(trim.def->result),
					 trim.def->time_zone);
	trim.query = sj_join_query(trim.def);
	look_up(&trim);
	sj_sandbox_leave(&sandbox);
	sj_late_rows_remove(trim.def->join_id, trim.late_ids, trim.n);
	PG_RETURN_INT64(trim.n);
}
