/*-------------------------------------------------------------------------
 *
 * replay_api.c
 *	  replay_late: has a join take in late rows after all.
 *
 * The call looks what there is to replay, says what is not, and writes a
 * control record to the log; the worker does the rest (worker/replay.c), and has
 * the last word: by then a row may have gone.
 *
 * IDENTIFICATION
 *	  src/api/replay_api.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "api/api.h"
#include "capture/capture.h"
#include "catalog/join_plan.h"
#include "catalog/pg_type.h"
#include "catalog/privileges.h"
#include "emit/late_choice.h"
#include "miscadmin.h"
#include "shmem.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "worker/replay_tables.h"
#include "worker/sandbox.h"

PG_FUNCTION_INFO_V1(sjoin_replay_late);

/* Numbers in one record of the log. */
#define IDS_PER_RECORD	900

/* An image, and how many of it the table has left to give. */
typedef struct Image
{
	SjLateImage key;
	int64		left;
} Image;

/* One call. */
typedef struct Replay
{
	SjJoinDef  *def;
	SjJoinQuery *query;
	SjJoinPlan *plan;
	int64	   *late_ids;		/* NULL: all */
	int			nids;
	SjLateChoice *choices;
	int			nchoices;
	SjSide		side;			/* whose table is being read */
	HTAB	   *images;
	int64	   *taken;			/* numbers to hand over */
	int			ntaken;

	/* what is not */
	int			nreplayed;
	int			nother;
	int			nfinal;
	int			ngone;
} Replay;

/* The numbers of an array, in ascending order and each once. */
static void
read_ids(Replay *replay, ArrayType *array)
{
	Datum	   *values;
	bool	   *nulls;
	int			n;
	int			kept = 0;

	deconstruct_array(array, INT8OID, sizeof(int64), FLOAT8PASSBYVAL,
					  TYPALIGN_DOUBLE, &values, &nulls, &n);
	replay->late_ids = palloc(sizeof(int64) * (n + 1));
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("late_ids must not contain nulls"),
					 errhint("View sjoin.late_rows has the numbers; NULL for the whole array stands for all.")));
		replay->late_ids[i] = DatumGetInt64(values[i]);
	}
	sj_late_ids_sort(replay->late_ids, n);
	for (int i = 0; i < n; i++)
		if (kept == 0 || replay->late_ids[kept - 1] != replay->late_ids[i])
			replay->late_ids[kept++] = replay->late_ids[i];
	replay->nids = kept;
}

/* The definition as it runs, if its late rows can be replayed at all. */
static void
read_definition(Replay *replay)
{
	replay->query = sj_join_query(replay->def);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		if (replay->query->input[side].upsert_key != NIL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("late rows of a join with an upsert key cannot be replayed"),
					 errdetail("A late version may have been replaced by newer ones, or have replaced older ones, that nobody knows any more."),
					 errhint("sjoin.refresh_join() reads the tables again, late rows included.")));
	replay->plan = sj_join_plan(replay->query);
}

/* -- what there is to replay ---------------------------------------------- */

static void
note_image(void *arg, const SjTableRow *row)
{
	Replay	   *replay = arg;
	SjLateImage key = {row->hash, replay->side};
	Image	   *image = hash_search(replay->images, &key, HASH_ENTER, NULL);

	image->left = row->there;
}

/* Has the table a row that has this image, for this late row alone? */
static bool
take_image(Replay *replay, const SjLateChoice *choice)
{
	SjLateImage key = {choice->hash, choice->side};
	Image	   *image = hash_search(replay->images, &key, HASH_FIND, NULL);

	return image != NULL && image->left-- > 0;
}

static void
judge(Replay *replay, const SjLateChoice *choice)
{
	if (choice->state == SJ_CHOICE_REPLAYED)
		replay->nreplayed++;
	else if (choice->state == SJ_CHOICE_OTHER)
		replay->nother++;
	else if (sj_replay_is_against_final(replay->def, replay->query,
										choice->side))
		replay->nfinal++;
	else if (!take_image(replay, choice))
		replay->ngone++;
	else
		replay->taken[replay->ntaken++] = choice->late_id;
}

static void
look_up(Replay *replay)
{
	SjReplayTables tables;

	sj_replay_tables_open(&tables, replay->def, replay->query, replay->plan);
	replay->images = sj_late_images_create(CurrentMemoryContext, sizeof(Image));
	replay->choices = sj_late_choose(replay->def->join_id, tables.snapshot,
									 replay->late_ids, replay->nids,
									 &replay->nchoices);
	for (replay->side = SJ_LEFT; replay->side <= SJ_RIGHT; replay->side++)
		sj_replay_visit_images(&tables, replay->side, replay->choices,
							   replay->nchoices, note_image, replay);
	sj_replay_tables_close(&tables);

	replay->taken = palloc(sizeof(int64) * (replay->nchoices + 1));
	for (int i = 0; i < replay->nchoices; i++)
		judge(replay, &replay->choices[i]);
}

/* -- what is said and done ------------------------------------------------ */

static void
say(int n, const char *reason, const char *hint)
{
	if (n == 0)
		return;
	ereport(NOTICE,
			(errmsg_plural("%d late row is not replayed: %s",
						   "%d late rows are not replayed: %s", n, n, reason),
			 hint == NULL ? 0 : errhint("%s", hint)));
}

static void
say_what_is_not_replayed(const Replay *replay)
{
	if (replay->late_ids != NULL)
		say(replay->nids - replay->nchoices, "the join has no such late row",
			"View sjoin.late_rows lists the late rows with their late_id.");
	say(replay->nreplayed, "replayed before", NULL);
	say(replay->nother, "not taken in for another reason than being late",
		NULL);
	say(replay->nfinal, "unmatched rows that have been written are final",
		"With output_mode => append or emit => final only late rows of the input whose unmatched rows are written can be replayed.");
	say(replay->ngone, "the table no longer has the row as it was",
		"The row has been changed or deleted since it was late.");
}

static void
hand_over(const Replay *replay)
{
	const SjJoinDef *def = replay->def;

	for (int i = 0; i < replay->ntaken; i += IDS_PER_RECORD)
		sj_capture_replay(def->input[SJ_LEFT], def->result, def->join_id,
						  replay->taken + i,
						  Min(IDS_PER_RECORD, replay->ntaken - i));
}

/* replay_late(name regclass, late_ids bigint[]) RETURNS bigint */
Datum
sjoin_replay_late(PG_FUNCTION_ARGS)
{
	Replay		replay = {.def = sj_arg_join(fcinfo, 0)};
	SjSandbox	sandbox;

	sj_require_preload();
	sj_check_owner(replay.def->result);
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot replay late rows on a standby"),
				 errhint("Call sjoin.replay_late() on the primary.")));
	PreventCommandIfReadOnly("sjoin.replay_late()");
	if (!PG_ARGISNULL(1))
		read_ids(&replay, PG_GETARG_ARRAYTYPE_P(1));

	/* the result before its view, as whoever alters or refreshes it */
	LockRelationOid(replay.def->result, AccessShareLock);
	replay.def = sj_arg_join(fcinfo, 0);	/* as it is now */
	sj_check_owner(replay.def->result);
	sj_sandbox_enter(&sandbox, sj_relation_owner(replay.def->result),
					 replay.def->time_zone);
	read_definition(&replay);
	look_up(&replay);
	sj_sandbox_leave(&sandbox);
	say_what_is_not_replayed(&replay);
	hand_over(&replay);
	PG_RETURN_INT64(replay.ntaken);
}
