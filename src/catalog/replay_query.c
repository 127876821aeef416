/*-------------------------------------------------------------------------
 *
 * replay_query.c
 *	  What the tables have for late rows that are taken in after all.
 *
 * The queries are made of the same parts as that of verify(), so that what a
 * replay takes for accepted is what verify() does.
 *
 * IDENTIFICATION
 *	  src/catalog/replay_query.c
 *
 *-------------------------------------------------------------------------
 */
#include "sjoin.h"

#include "catalog/query_parts.h"
#include "catalog/replay_query.h"
#include "catalog/verify_parts.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* "the event time is from .. until", whatever of that is finite; or NULL. */
static char *
within(SjVerifyContext *context, const char *event_time, SjTime from,
	   SjTime until)
{
	StringInfoData buf;

	initStringInfo(&buf);
	if (from >= MIN_TIMESTAMP)
		sj_verify_add_condition(&buf, psprintf("%s >= %s", event_time,
											   sj_verify_time(context->q, from)));
	if (until < END_TIMESTAMP)
		sj_verify_add_condition(&buf, psprintf("%s <= %s", event_time,
											   sj_verify_time(context->q, until)));
	return buf.len == 0 ? NULL : buf.data;
}

/* Lets only rows of a table from .. until be looked at. */
static void
set_range(SjVerifyContext *context, SjVerifySpec *spec, SjSide side,
		  SjTime from, SjTime until)
{
	const SjJoinInput *input = &context->q->input[side];

	spec->range[side] = within(context,
							   psprintf("t.%s",
										quote_identifier(get_attname(input->relid,
																	 input->time_attno,
																	 false))),
							   from, until);
}

/* For a query over rows of the side from .. until; 'ranged' becomes its spec. */
static void
begin_query(SjVerifyContext *context, SjVerifySpec *ranged,
			const SjJoinQuery *q, const SjVerifySpec *spec, SjSide side,
			SjTime from, SjTime until)
{
	*ranged = *spec;
	sj_verify_init(context, q, ranged);
	set_range(context, ranged, side, from, until);
}

char *
sj_replay_image_query(const SjJoinQuery *q, const SjVerifySpec *spec,
					  SjSide side, SjTime from, SjTime until)
{
	SjVerifySpec ranged;
	SjVerifyContext context;

	begin_query(&context, &ranged, q, spec, side, from, until);
	return psprintf("SELECT %st.sjoin_hash, pg_catalog.count(*) OVER (PARTITION BY t.sjoin_hash), %s::pg_catalog.int8 "
					"FROM (%s OFFSET 0) t %s "
					"WHERE t.sjoin_hash = ANY ($1)",
					sj_verify_inner_columns(&q->input[side]),
					spec->has_records ? "COALESCE(n.n, 0)" : "0",
					sj_verify_table_rows(&context, side),
					!spec->has_records ? "" :
					psprintf("LEFT JOIN (%s) n ON n.hash = t.sjoin_hash",
							 sj_verify_net_records(side)));
}

char *
sj_replay_spare_query(const SjJoinQuery *q, const SjVerifySpec *spec,
					  SjSide side, SjTime from, SjTime until)
{
	SjVerifySpec ranged;
	SjVerifyContext context;

	begin_query(&context, &ranged, q, spec, side, from, until);
	return psprintf("SELECT n.hash, (n.n - COALESCE(t.n, 0))::pg_catalog.int8 "
					"FROM (%s) n LEFT JOIN (SELECT t.sjoin_hash, pg_catalog.count(*) AS n FROM (%s OFFSET 0) t "
					"WHERE t.sjoin_hash = ANY ($1) GROUP BY 1) t ON t.sjoin_hash = n.hash "
					"WHERE n.hash = ANY ($1) AND n.n > COALESCE(t.n, 0)",
					sj_verify_net_records(side),
					sj_verify_table_rows(&context, side));
}

/*
 * The accepted rows of the side, numbered.  Rows that are accepted though the
 * table has them no more are not of the range yet.
 */
static char *
numbered_rows(SjVerifyContext *context, SjSide side, SjTime from, SjTime until)
{
	char	   *condition = within(context,
								   psprintf("t.c%d",
											context->q->input[side].time_attno),
								   from, until);

	return psprintf("SELECT t.*, pg_catalog.row_number() OVER () AS sjoin_row FROM (%s) t%s%s",
					sj_verify_accepted_rows(context, side),
					condition ? " WHERE " : "", condition ? condition : "");
}

/* The numbers of the left rows in "t" that have a partner. */
static char *
matched_rows(SjVerifyContext *context)
{
	SjConditions conditions;
	StringInfoData on;

	sj_query_conditions(context->q->query, &conditions);
	initStringInfo(&on);
	sj_verify_add_ttl(&on, context);
	sj_verify_add_conditions(&on, context, conditions.join,
							 context->q->residual);
	return psprintf("SELECT DISTINCT l.sjoin_row FROM t l JOIN (%s) r ON %s",
					sj_verify_accepted_rows(context, SJ_RIGHT), on.data);
}

/* Event times that partners of left rows from .. until can have. */
static void
set_partners_range(SjVerifyContext *context, SjVerifySpec *spec, SjTime from,
				   SjTime until)
{
	SjReach		first;
	SjReach		last;

	sj_bounds_reach(&context->q->bounds, SJ_LEFT, from, &first);
	sj_bounds_reach(&context->q->bounds, SJ_LEFT, until, &last);
	set_range(context, spec, SJ_RIGHT, first.from, last.until);
}

char *
sj_replay_partner_query(const SjJoinQuery *q, const SjVerifySpec *spec,
						SjSide side, SjTime from, SjTime until)
{
	SjVerifySpec ranged;
	SjVerifyContext context;
	bool		tell = side == SJ_LEFT && q->pad[SJ_LEFT];

	begin_query(&context, &ranged, q, spec, side, from, until);
	if (tell)
		set_partners_range(&context, &ranged, from, until);
	return psprintf("WITH t AS MATERIALIZED (%s), m AS (%s) "
					"SELECT %st.sjoin_hash, m.sjoin_row IS NOT NULL FROM t LEFT JOIN m ON m.sjoin_row = t.sjoin_row",
					numbered_rows(&context, side, from, until),
					tell ? matched_rows(&context) :
					"SELECT 0::pg_catalog.int8 AS sjoin_row",
					sj_verify_inner_columns(&q->input[side]));
}
