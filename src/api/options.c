/*-------------------------------------------------------------------------
 *
 * options.c
 *	  Options of a join: what create_join() and explain() have in common.
 *
 * IDENTIFICATION
 *	  src/api/options.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "api/api.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

/* Arguments in the order of create_join(), from output_mode on. */
enum
{
	ARG_OUTPUT_MODE,
	ARG_EMIT,
	ARG_TIMEOUT,
	ARG_TTL,
	ARG_SIDE_TTL,
	ARG_ALLOWED_LATENESS,
	ARG_LATE_ROWS,
	ARG_LOOKUPS,
	ARG_MAX_ROWS_PER_KEY,
	ARG_MATCHING,
	ARG_PARALLELISM,
	ARG_WITH_DATA,
	ARG_PAUSED,
	ARG_NOTIFY_CHANNEL
};

/* A valid value that this version does not run yet. */
static void
refuse(const char *option, const char *value)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s => %s is not supported in this version", option, value),
			 errhint("Leave %s at its default.", option)));
}

SjLateRows
sj_arg_late_rows(FunctionCallInfo fcinfo, int n)
{
	static const char *const lates[] = {
		[SJ_LATE_KEEP] = "keep",[SJ_LATE_DROP] = "drop",
		[SJ_LATE_JOIN] = "join",[SJ_LATE_ERROR] = "error"
	};

	return (SjLateRows) sj_arg_choice(fcinfo, n, "late_rows", lates,
									  lengthof(lates));
}

static void
read_modes(FunctionCallInfo fcinfo, int first, SjJoinDef *def)
{
	static const char *const modes[] = {"upsert", "changelog", "append"};
	static const char *const emits[] = {"auto", "eager", "final"};
	static const char *const matchings[] = {"all", "one_to_one"};
	int			mode = sj_arg_choice(fcinfo, first + ARG_OUTPUT_MODE,
									 "output_mode", modes, lengthof(modes));
	int			emit = sj_arg_choice(fcinfo, first + ARG_EMIT, "emit", emits,
									 lengthof(emits));
	int			matching = sj_arg_choice(fcinfo, first + ARG_MATCHING,
										 "matching", matchings,
										 lengthof(matchings));

	if (emit == 1)
		refuse("emit", emits[emit]);
	if (matching != 0)
		refuse("matching", matchings[matching]);
	def->output_mode = mode == 0 ? SJ_OUTPUT_UPSERT :
		mode == 1 ? SJ_OUTPUT_CHANGELOG : SJ_OUTPUT_APPEND;
	def->emit = emit == 0 ? SJ_EMIT_AUTO : SJ_EMIT_FINAL;
	def->late_rows = sj_arg_late_rows(fcinfo, first + ARG_LATE_ROWS);
}

void
sj_check_max_rows_per_key(FunctionCallInfo fcinfo, int n)
{
	if (!PG_ARGISNULL(n))
		refuse("max_rows_per_key", "a number");
}

void
sj_check_parallelism(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n) || PG_GETARG_INT32(n) < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("parallelism must be at least 1")));
	if (PG_GETARG_INT32(n) > 1)
		refuse("parallelism", "more than 1");
}

/* A channel that LISTEN and NOTIFY can name, or NULL. */
char *
sj_arg_channel(FunctionCallInfo fcinfo, int n)
{
	char	   *channel = sj_arg_cstring(fcinfo, n);

	if (channel == NULL)
		return NULL;
	if (channel[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("notify_channel must not be empty"),
				 errhint("NULL, the default, sends no notifications.")));
	if (strlen(channel) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("notify_channel is too long"),
				 errhint("The name of a channel has at most %d bytes.",
						 NAMEDATALEN - 1)));
	return channel;
}

void
sj_check_timeout_has_effect(const SjJoinDef *def)
{
	if (def->timeout >= 0 && sj_join_is_final(def))
		ereport(NOTICE,
				(errmsg("timeout has no effect where rows are final"),
				 errdetail("With output_mode => append or emit => final an unmatched row waits for the whole time range or ttl.")));
}

/* Reads output_mode and all options after it; times come out in usec. */
void
sj_read_join_options(FunctionCallInfo fcinfo, int first, SjJoinDef *def)
{
	read_modes(fcinfo, first, def);
	if (!PG_ARGISNULL(first + ARG_LOOKUPS))
		refuse("lookups", "a list of tables");
	sj_check_max_rows_per_key(fcinfo, first + ARG_MAX_ROWS_PER_KEY);
	sj_check_parallelism(fcinfo, first + ARG_PARALLELISM);
	def->timeout = sj_arg_interval(fcinfo, first + ARG_TIMEOUT, "timeout");
	def->ttl = sj_arg_interval(fcinfo, first + ARG_TTL, "ttl");
	def->allowed_lateness = sj_arg_interval(fcinfo,
											first + ARG_ALLOWED_LATENESS,
											"allowed_lateness");
	sj_check_timeout_has_effect(def);
	def->with_data = sj_arg_flag(fcinfo, first + ARG_WITH_DATA);
	def->paused = sj_arg_flag(fcinfo, first + ARG_PAUSED);
	def->notify_channel = sj_arg_channel(fcinfo, first + ARG_NOTIFY_CHANNEL);
	if (!PG_ARGISNULL(first + ARG_SIDE_TTL))
		def->side_ttl =
			DatumGetCString(DirectFunctionCall1(jsonb_out,
												PG_GETARG_DATUM(first + ARG_SIDE_TTL)));
}

/* What explain() and the NOTICEs tell beyond the query. */
void
sj_explain_options(const SjJoinDef *def, const SjJoinQuery *query,
				   SjExplainOptions *options)
{
	options->output_mode = sj_output_mode_name(def->output_mode);
	options->final = sj_join_is_final(def);
	options->allowed_lateness = sj_join_lateness(def, query);
	options->late_rows = sj_late_rows_name(def->late_rows);
	options->paused = def->paused;
	options->notify_channel = def->notify_channel;
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		SjStreamDef inferred = {.watermark_delay = -1,.idle_timeout = -1,
		.on_idle = SJ_ON_IDLE_ADVANCE};
		SjStreamDef *stream = sj_stream_def_get(query->input[side].relid);

		if (stream == NULL)
			stream = &inferred;
		options->delay[side] = sj_stream_delay(stream);
		options->idle_timeout[side] = sj_stream_idle_timeout(stream);
		options->on_idle[side] = stream->on_idle;
	}
}
