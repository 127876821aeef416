/*-------------------------------------------------------------------------
 *
 * advise_api.c
 *	  advise: what has been seen of a join, as settings.
 *
 * Only what was seen is spoken of.  Percentiles are upper ends of buckets of a
 * histogram (histogram.h), advice is rounded up: it errs on the long side.
 *
 * IDENTIFICATION
 *	  src/api/advise_api.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "api/api.h"
#include "catalog/pg_authid.h"
#include "emit/late_read.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "shmem.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(sjoin_advise);

/* Fewer rows say nothing about the latest hundredth of them. */
#define MIN_ROWS	1000
#define MARGIN		1.5

/* One call. */
typedef struct Advice
{
	ReturnSetInfo *rsinfo;
	const SjJoinDef *def;
	SjJoinSlot *slot;
} Advice;

/* A row of the answer; NULL: there is no such value. */
static void
say(Advice *advice, const char *setting, const char *current,
	const char *advised, const char *reason)
{
	const char *text[] = {setting, current, advised, reason};
	Datum		value[lengthof(text)];
	bool		null[lengthof(text)];

	for (int i = 0; i < lengthof(text); i++)
	{
		null[i] = text[i] == NULL;
		value[i] = null[i] ? (Datum) 0 : CStringGetTextDatum(text[i]);
	}
	tuplestore_putvalues(advice->rsinfo->setResult, advice->rsinfo->setDesc,
						 value, null);
}

static void
say_not_enough(Advice *advice, const char *setting, const char *current,
			   const char *rows, int64 n)
{
	say(advice, setting, current, NULL,
		psprintf("not enough %s seen: " INT64_FORMAT " of %d", rows, n,
				 MIN_ROWS));
}

/* Rounded up to a multiple of a unit that is at most 1/parts of it. */
static int64
round_up(double usec, int parts)
{
	static const int64 units[] = {
		1000, 5000, 10000, 50000, 100000, 500000, USECS_PER_SEC,
		5 * USECS_PER_SEC, 10 * USECS_PER_SEC, USECS_PER_MINUTE,
		5 * USECS_PER_MINUTE, 10 * USECS_PER_MINUTE, USECS_PER_HOUR,
		6 * USECS_PER_HOUR, USECS_PER_DAY
	};
	int64		unit = units[0];

	for (int i = 1; i < lengthof(units) && units[i] <= usec / parts; i++)
		unit = units[i];
	return ((int64) usec + unit - 1) / unit * unit;
}

/* As advice: with the margin, in round figures. */
static char *
advised_text(double usec)
{
	return sj_usec_text(round_up(MARGIN * usec, 5));
}

/* As what was seen. */
static char *
seen_text(double usec)
{
	return sj_usec_text(round_up(usec, 50));
}

/* "watermark_delay of public.orders" */
static char *
setting_of_stream(const Advice *advice, const char *setting, SjSide side)
{
	Oid			relid = advice->def->input[side];

	return psprintf("%s of %s", setting,
					quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
											   get_rel_name(relid)));
}

static int64
count_of(pg_atomic_uint64 *count)
{
	return (int64) pg_atomic_read_u64(count);
}

/* -- streams -------------------------------------------------------------- */

static void
advise_delay(Advice *advice, SjSide side, const SjStreamDef *stream)
{
	SjHistogram *lateness = &advice->slot->input[side].lateness;
	char	   *setting = setting_of_stream(advice, "watermark_delay", side);
	char	   *current = sj_usec_text(sj_stream_delay(stream));
	int64		n = sj_histogram_total(lateness);
	double		usec;

	if (n < MIN_ROWS || !sj_percentile(NULL, lateness, 0.99, &usec))
		say_not_enough(advice, setting, current, "rows", n);
	else
		say(advice, setting, current, advised_text(usec),
			psprintf("99 %% of " INT64_FORMAT " rows came at most %s behind the newest event time committed before them",
					 n, seen_text(usec)));
}

/* Why rows are ahead of the clock, if most are. */
static const char *
reason_ahead(const Advice *advice)
{
	if (!advice->slot->local_time)
		return "the clock of their producer is ahead";
	return psprintf("the clock of their producer is ahead, or it is not in time zone %s, in which the join reads the clock for event times of type timestamp",
					advice->def->time_zone);
}

static void
advise_max_future(Advice *advice, SjSide side, const SjStreamDef *stream)
{
	SjInputStats *input = &advice->slot->input[side];
	char	   *setting = setting_of_stream(advice, "max_future", side);
	int64		max_future = sj_stream_max_future(stream);
	char	   *current = max_future < 0 ? "-1" : sj_usec_text(max_future);
	int64		future = count_of(&input->rows_future);
	int64		n = sj_histogram_total(&input->clock_behind) +
	sj_histogram_total(&input->clock_ahead);
	double		usec;

	if (future == 0)
		return;
	if (n < MIN_ROWS || !sj_percentile(&input->clock_behind,
									   &input->clock_ahead, 0.99, &usec))
		say_not_enough(advice, setting, current, "rows", n);
	else if (max_future >= 0 && usec > max_future)
		say(advice, setting, current, advised_text(usec),
			psprintf("rows too far ahead of the clock to move the watermark: " INT64_FORMAT "; 99 %% of " INT64_FORMAT " rows are at most %s ahead: %s",
					 future, n, seen_text(usec), reason_ahead(advice)));
	else
		say(advice, setting, current, current,
			psprintf("rows too far ahead of the clock to move the watermark: " INT64_FORMAT "; 99 %% of " INT64_FORMAT " rows are not, so these are strays",
					 future, n));
}

/* -- the join ------------------------------------------------------------- */

static bool
has_upsert_key(const Advice *advice, SjSide side)
{
	SjStreamDef *stream = sj_stream_def_get(advice->def->input[side]);

	return stream != NULL && stream->upsert_key != NIL;
}

/*
 * The largest distance at which rows join, from how long they are kept: as long
 * as that again where rows replace older ones (sj_query_replaces).
 */
static int64
reach_of_join(const Advice *advice)
{
	int64		kept = advice->def->retention - advice->def->lateness;

	return has_upsert_key(advice, SJ_LEFT) || has_upsert_key(advice, SJ_RIGHT) ?
		kept / 2 : kept;
}

/* ttl, or for a join with a time range what range would be enough. */
static void
advise_distance(Advice *advice)
{
	const SjJoinDef *def = advice->def;
	bool		wide = strcmp(def->kind, "wide") == 0;
	const char *setting = !wide ? "time range" :
	def->side_ttl != NULL ? "side_ttl" : "ttl";
	char	   *reach = sj_usec_text(reach_of_join(advice));
	char	   *current = wide && def->side_ttl != NULL ? def->side_ttl :
	wide && def->ttl >= 0 ? sj_usec_text(def->ttl) : reach;
	int64		n = count_of(&advice->slot->input[SJ_LEFT].rows_matched) +
	count_of(&advice->slot->input[SJ_RIGHT].rows_matched);
	int64		longest = count_of(&advice->slot->longest_match);

	if (n < MIN_ROWS)
		say_not_enough(advice, setting, current, "matched rows", n);
	else
		say(advice, setting, current, advised_text(longest),
			psprintf("the event times of partners, " INT64_FORMAT " rows, were at most %s apart%s",
					 n, seen_text(longest), wide ? "" :
					 "; the range is part of the query"));
}

/* How late the late rows were. */
typedef struct Lateness
{
	SjTally		needed;			/* allowed lateness that would have done */
	int64		n;
} Lateness;

static void
count_distance(void *arg, int64 behind)
{
	Lateness   *lateness = arg;

	lateness->needed.n[sj_bucket(behind)]++;
	lateness->n++;
}

/* The bucket up to which lie at least 'wanted' rows, *n in all. */
static int
bucket_of_share(const Lateness *lateness, double share, int64 *n)
{
	int			bucket = 0;

	*n = lateness->needed.n[0];
	while (*n < share * lateness->n)
		*n += lateness->needed.n[++bucket];
	return bucket;
}

/* What a larger allowed lateness would have taken in. */
static void
advise_lateness(Advice *advice)
{
	static const double shares[] = {0.5, 0.9, 1};
	char	   *current = sj_usec_text(advice->def->lateness);
	Lateness	lateness = {0};
	int			last = -1;

	sj_late_distances_visit(advice->def->join_id, count_distance, &lateness);
	for (int i = 0; i < lengthof(shares) && lateness.n > 0; i++)
	{
		int64		n;
		int			bucket = bucket_of_share(&lateness, shares[i], &n);
		int64		usec = round_up(sj_bucket_limit(bucket), 5);

		if (bucket == last)
			continue;
		last = bucket;
		say(advice, "allowed_lateness", current, sj_usec_text(usec),
			psprintf("would have taken in %s" INT64_FORMAT " of " INT64_FORMAT " late rows; rows would be kept %s longer",
					 n < lateness.n ? "at least " : "", n, lateness.n,
					 sj_usec_text(Max(0, usec - advice->def->lateness))));
	}
}

/* -- the call ------------------------------------------------------------- */

/* Statistics, and how many late rows there are, but none of these (P4). */
static void
check_may_see(const SjJoinDef *def)
{
	if (!pg_class_ownercheck(def->result, GetUserId()) &&
		!has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for statistics of join \"%s\"",
						get_rel_name(def->result)),
				 errhint("Only its owner and members of pg_read_all_stats may see them.")));
}

static void
advise_stream(Advice *advice, SjSide side)
{
	SjStreamDef *stream = sj_stream_def_get(advice->def->input[side]);

	if (stream == NULL)
		return;
	advise_delay(advice, side, stream);
	advise_max_future(advice, side, stream);
}

/*
 * advise(name regclass)
 *		RETURNS TABLE (setting text, current text, advised text, reason text)
 */
Datum
sjoin_advise(PG_FUNCTION_ARGS)
{
	Advice		advice = {.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo,
	.def = sj_arg_join(fcinfo, 0)};

	sj_require_preload();
	check_may_see(advice.def);
	advice.slot = sj_join_slot(advice.def->join_id, false);
	if (advice.slot == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the join \"%s\" has not started yet",
						get_rel_name(advice.def->result)),
				 errhint("View sjoin.joins shows its state.")));
	InitMaterializedSRF(fcinfo, 0);
	advise_stream(&advice, SJ_LEFT);
	if (advice.def->input[SJ_RIGHT] != advice.def->input[SJ_LEFT])
		advise_stream(&advice, SJ_RIGHT);
	advise_distance(&advice);
	advise_lateness(&advice);
	return (Datum) 0;
}
