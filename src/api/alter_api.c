/*-------------------------------------------------------------------------
 *
 * alter_api.c
 *	  alter_join: settings of a running join.
 *
 * What the outcome depends on travels through the log (T9): it holds for rows
 * consumed after it, and rows keep the deadline that they came with.  What is
 * done with late rows, and who is notified, holds from the commit on.
 *
 * IDENTIFICATION
 *	  src/api/alter_api.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "api/api.h"
#include "api/join_start.h"
#include "capture/capture.h"
#include "catalog/privileges.h"
#include "log/event_log.h"
#include "miscadmin.h"
#include "shmem.h"
#include "utils/lsyscache.h"
#include "worker/sandbox.h"

PG_FUNCTION_INFO_V1(sjoin_alter_join);

/* Arguments of alter_join() from the second on, and what reset may name. */
enum
{
	ALTER_TIMEOUT,
	ALTER_TTL,
	ALTER_SIDE_TTL,
	ALTER_ALLOWED_LATENESS,
	ALTER_LATE_ROWS,
	ALTER_MAX_ROWS_PER_KEY,
	ALTER_PARALLELISM,
	ALTER_NOTIFY_CHANNEL,
	NALTER
};

static const char *const setting_names[] = {"timeout", "ttl", "side_ttl",
	"allowed_lateness", "late_rows", "max_rows_per_key", "parallelism",
"notify_channel"};

/* What decides which rows are partners cannot become something else. */
static void
refuse_ttl(FunctionCallInfo fcinfo, const SjJoinDef *def,
		   const Bitmapset *reset)
{
	for (int i = ALTER_TTL; i <= ALTER_SIDE_TTL; i++)
		if (!PG_ARGISNULL(1 + i) || bms_is_member(i, reset))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("%s of join \"%s\" cannot be altered in this version",
							setting_names[i], get_rel_name(def->result)),
					 errdetail("It says which rows are partners."),
					 errhint("Create another join with it, and drop this one when that has caught up.")));
}

static void
reset_settings(SjJoinDef *def, const Bitmapset *reset)
{
	if (bms_is_member(ALTER_TIMEOUT, reset))
		def->timeout = -1;
	if (bms_is_member(ALTER_ALLOWED_LATENESS, reset))
		def->allowed_lateness = -1;
	if (bms_is_member(ALTER_LATE_ROWS, reset))
		def->late_rows = SJ_LATE_KEEP;
	if (bms_is_member(ALTER_NOTIFY_CHANNEL, reset))
		def->notify_channel = NULL;
}

static void
set_settings(FunctionCallInfo fcinfo, SjJoinDef *def)
{
	if (!PG_ARGISNULL(1 + ALTER_TIMEOUT))
		def->timeout = sj_arg_interval(fcinfo, 1 + ALTER_TIMEOUT, "timeout");
	if (!PG_ARGISNULL(1 + ALTER_ALLOWED_LATENESS))
		def->allowed_lateness = sj_arg_interval(fcinfo,
												1 + ALTER_ALLOWED_LATENESS,
												"allowed_lateness");
	if (!PG_ARGISNULL(1 + ALTER_LATE_ROWS))
		def->late_rows = sj_arg_late_rows(fcinfo, 1 + ALTER_LATE_ROWS);
	sj_check_max_rows_per_key(fcinfo, 1 + ALTER_MAX_ROWS_PER_KEY);
	if (!PG_ARGISNULL(1 + ALTER_PARALLELISM))
		sj_check_parallelism(fcinfo, 1 + ALTER_PARALLELISM);
	if (!PG_ARGISNULL(1 + ALTER_NOTIFY_CHANNEL))
		def->notify_channel = sj_arg_channel(fcinfo, 1 + ALTER_NOTIFY_CHANNEL);
}

static void
log_settings(const SjJoinDef *def)
{
	SjSettingsRecord record = {.join_id = def->join_id,
		.late_rows = def->late_rows,.timeout = def->timeout,
	.allowed_lateness = def->allowed_lateness};

	sj_capture_control(def->input[SJ_LEFT], SJ_OP_SETTINGS, &record,
					   sizeof(record));
}

/*
 * alter_join(name regclass, timeout interval, ttl interval, side_ttl jsonb,
 *			  allowed_lateness interval, late_rows text,
 *			  max_rows_per_key integer, parallelism integer,
 *			  notify_channel text, reset text[])
 *		RETURNS void
 *
 * NULL leaves a setting as it is.
 */
Datum
sjoin_alter_join(PG_FUNCTION_ARGS)
{
	SjJoinDef  *def = sj_arg_join(fcinfo, 0);
	Bitmapset  *reset;
	SjSandbox	sandbox;

	StaticAssertStmt(lengthof(setting_names) == NALTER, "names of settings");
	sj_require_preload();
	PreventCommandIfReadOnly("sjoin.alter_join()");
	sj_check_owner(def->result);
	sj_join_def_lock();
	def = sj_arg_join(fcinfo, 0);	/* as it is now */
	reset = sj_arg_reset(fcinfo, 1 + NALTER, 1, setting_names, NALTER);
	refuse_ttl(fcinfo, def, reset);
	reset_settings(def, reset);
	set_settings(fcinfo, def);
	sj_check_timeout_has_effect(def);

	sj_sandbox_enter(&sandbox, sj_relation_owner(def->result),
					 def->time_zone);
	sj_describe_join(def, sj_join_query(def));
	sj_sandbox_leave(&sandbox);

	sj_join_def_update(def->join_id, def);
	log_settings(def);
	sj_definitions_changed();
	PG_RETURN_VOID();
}
