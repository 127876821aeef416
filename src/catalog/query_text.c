/*-------------------------------------------------------------------------
 *
 * query_text.c
 *	  What a streaming join does, in words and as SQL.
 *
 * Expressions are deparsed by PostgreSQL.  The one deparse context for several
 * relations that it offers to extensions is that of a plan tree, so a range
 * table is passed off as one.
 *
 * IDENTIFICATION
 *	  src/catalog/query_text.c
 *
 *-------------------------------------------------------------------------
 */
#include "sjoin.h"

#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/plannodes.h"
#include "pgtime.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

#include "catalog/query_parts.h"
#include "catalog/query_text.h"
#include "catalog/query_vars.h"

/* Deparse context for expressions of the query. */
static List *
query_context(const SjJoinQuery *q)
{
	PlannedStmt *stmt = makeNode(PlannedStmt);
	List	   *names = NIL;
	Index		rti;

	for (rti = 1; rti <= list_length(q->query->rtable); rti++)
	{
		RangeTblEntry *rte = list_nth(q->query->rtable, rti - 1);
		bool		input = rti == q->input[SJ_LEFT].rti ||
		rti == q->input[SJ_RIGHT].rti;

		if (!input)
		{
			/* OLD, NEW and joins: never referred to */
			rte = makeNode(RangeTblEntry);
			rte->rtekind = RTE_RESULT;
			rte->eref = makeAlias("", NIL);
		}
		stmt->rtable = lappend(stmt->rtable, rte);
		names = lappend(names, input ? rte->eref->aliasname : NULL);
	}
	return deparse_context_for_plan_tree(stmt, names);
}

char *
sj_conditions_text(const SjJoinQuery *q, List *conditions)
{
	if (conditions == NIL)
		return NULL;
	return deparse_expression((Node *) make_ands_explicit(conditions),
							  query_context(q), true, false);
}

char *
sj_key_text(const SjJoinQuery *q)
{
	List	   *context = query_context(q);
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, q->keys)
	{
		SjJoinKey  *key = lfirst(lc);

		appendStringInfo(&buf, "%s%s = %s", buf.len > 0 ? " AND " : "",
						 deparse_expression((Node *) key->expr[SJ_LEFT],
											context, true, false),
						 deparse_expression((Node *) key->expr[SJ_RIGHT],
											context, true, false));
	}
	return buf.data;
}

static char *
interval_text(const Interval *interval)
{
	return DatumGetCString(DirectFunctionCall1(interval_out,
											   PointerGetDatum(interval)));
}

char *
sj_usec_text(int64 usec)
{
	Interval	interval;

	interval.month = 0;
	interval.day = (int32) (usec / USECS_PER_DAY);
	interval.time = usec % USECS_PER_DAY;
	return interval_text(&interval);
}

/* Event time of an input: "o.created_at". */
static char *
time_name(const SjJoinInput *input)
{
	return psprintf("%s.%s", quote_identifier(input->alias),
					quote_identifier(get_attname(input->relid,
												 input->time_attno, false)));
}

/* "o.created_at + 00:05:00" */
static char *
shifted_time(const SjJoinInput *input, const SjBound *bound)
{
	char	   *name = time_name(input);
	int64		usec = bound->usec;

	if (bound->calendar)
		return psprintf("%s %c %s", name, bound->subtracted ? '-' : '+',
						interval_text(&bound->interval));
	if (usec == 0)
		return name;
	return psprintf("%s %c %s", name, usec < 0 ? '-' : '+',
					sj_usec_text(usec < 0 ? -usec : usec));
}

/* One end of the time range as a condition. */
static char *
end_text(const SjJoinQuery *q, const SjBound *bound, const char *op)
{
	const SjJoinInput *left = &q->input[SJ_LEFT];
	const SjJoinInput *right = &q->input[SJ_RIGHT];

	if (bound->calendar && bound->base == SJ_RIGHT)
		return psprintf("%s %s %s", shifted_time(right, bound), op,
						time_name(left));
	return psprintf("%s %s %s", time_name(right), op,
					shifted_time(left, bound));
}

char *
sj_bounds_text(const SjJoinQuery *q)
{
	const SjBound *lower = &q->bounds.lower;
	const SjBound *upper = &q->bounds.upper;

	if ((lower->calendar && lower->base == SJ_RIGHT) ||
		(upper->calendar && upper->base == SJ_RIGHT))
		return psprintf("%s and %s", end_text(q, lower, ">="),
						end_text(q, upper, "<="));
	return psprintf("%s between %s and %s", time_name(&q->input[SJ_RIGHT]),
					shifted_time(&q->input[SJ_LEFT], lower),
					shifted_time(&q->input[SJ_LEFT], upper));
}

/* Text of 'usec' after an event time: "its event time + 00:05:00". */
static char *
after_event_time(int64 usec)
{
	if (usec == 0)
		return pstrdup("its event time");
	return psprintf("its event time %c %s", usec < 0 ? '-' : '+',
					sj_usec_text(usec < 0 ? -usec : usec));
}

/* What the join's progress is measured by: its watermark or its horizon. */
static const char *
clock_name(const SjExplainOptions *options)
{
	return options->final && options->allowed_lateness > 0 ?
		"the horizon (watermark - allowed lateness)" : "the watermark";
}

/* When an unmatched row of the preserved side is written. */
static char *
unmatched_text(const SjJoinQuery *q, const SjExplainOptions *options)
{
	const SjBound *upper = &q->bounds.upper;
	int64		timeout = q->bounds.timeout[SJ_LEFT];
	char	   *deadline;

	if (timeout >= 0 && !options->final)
		deadline = after_event_time(timeout);
	else if (upper->calendar)
		deadline = psprintf("the end of its time range (%s)",
							end_text(q, upper, "<="));
	else
		deadline = after_event_time(upper->usec);
	return psprintf("unmatched row of %s: written with nulls when %s has passed %s%s",
					quote_identifier(q->input[SJ_LEFT].alias),
					clock_name(options), deadline,
					!options->final ? "; corrected if a partner is accepted later" :
					sj_query_replaces(q) > 0 ? "; corrected only where a newer row replaces an older one" :
					"; never corrected");
}

/* How far the watermark passes a row before it leaves the state, at most. */
static int64
keep_time(const SjJoinQuery *q, const SjExplainOptions *options, SjSide side)
{
	return sj_time_add(sj_time_add(sj_bounds_keep(&q->bounds, side),
								   sj_query_replaces(q)),
					   options->allowed_lateness);
}

/* How long a row of an input stays in the state. */
static char *
keep_text(const SjJoinQuery *q, const SjExplainOptions *options, SjSide side)
{
	const SjBound *bound = (side == SJ_LEFT) ? &q->bounds.upper :
	&q->bounds.lower;
	char	   *lateness = "";

	if (options->allowed_lateness > 0)
		lateness = psprintf(", of which allowed lateness %s",
							sj_usec_text(options->allowed_lateness));
	return psprintf("state of %s: a row is kept until the watermark has passed %s%s%s",
					quote_identifier(q->input[side].alias),
					after_event_time(keep_time(q, options, side)),
					bound->calendar ? " (at most)" : "", lateness);
}

/* Event time and watermark of an input. */
static char *
event_time_text(const SjJoinQuery *q, const SjExplainOptions *options,
				SjSide side)
{
	const SjJoinInput *input = &q->input[side];

	return psprintf("event time of %s: %s (%s), watermark %s behind the newest row",
					quote_identifier(input->alias), time_name(input),
					input->inferred ? "inferred" : "declared",
					sj_usec_text(options->delay[side]));
}

/* What becomes of the join when an input falls silent (T7). */
static char *
idle_text(const SjJoinQuery *q, const SjExplainOptions *options, SjSide side)
{
	const char *input = quote_identifier(q->input[side].alias);
	const char *timeout = sj_usec_text(options->idle_timeout[side]);

	if (options->idle_timeout[side] > 0)
		switch (options->on_idle[side])
		{
			case SJ_ON_IDLE_ADVANCE:
				return psprintf("silence of %s: after %s without rows its watermark moves on with the clock", input, timeout);
			case SJ_ON_IDLE_IGNORE:
				return psprintf("silence of %s: after %s without rows it is not waited for", input, timeout);
			case SJ_ON_IDLE_HOLD:
				break;
		}
	return psprintf("silence of %s: its rows are waited for, however long; sjoin.advance_watermark() releases what waits", input);
}

/* The same for both inputs, and what holds for those without any row yet. */
static List *
append_idle(List *lines, const SjJoinQuery *q, const SjExplainOptions *options)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		lines = lappend(lines, idle_text(q, options, side));
	return lappend(lines, pstrdup("an input that never had a row starts at the join's first event, so that its history can still be loaded; sjoin.advance_watermark() releases what waits for it"));
}

/* "o.order_id, o.region" */
static char *
upsert_key_text(const SjJoinInput *input)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, input->upsert_key)
		appendStringInfo(&buf, "%s%s", buf.len > 0 ? ", " : "",
						 quote_identifier(get_attname(input->relid,
													  lfirst_int(lc), false)));
	return buf.data;
}

/* What upsert keys do. */
static List *
append_upsert_keys(List *lines, const SjJoinQuery *q)
{
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
		if (q->input[side].upsert_key != NIL)
			lines = lappend(lines, psprintf("rows of %s with the same (%s) replace older ones, up to %s older",
											quote_identifier(q->input[side].alias),
											upsert_key_text(&q->input[side]),
											sj_usec_text(sj_query_replaces(q))));
	return lines;
}

/* What becomes of late rows. */
static const char *
late_rows_text(const char *late_rows)
{
	if (strcmp(late_rows, "drop") == 0)
		return "late rows are counted and dropped";
	if (strcmp(late_rows, "join") == 0)
		return "rows that a waiting row can still take are joined, later ones are kept in sjoin.late_rows";
	if (strcmp(late_rows, "error") == 0)
		return "a late row stops the join before its transaction";
	return "late rows are kept in sjoin.late_rows";
}

/* A clock beside event times of type timestamp; nothing to say otherwise. */
static List *
append_clock(List *lines, const SjJoinQuery *q)
{
	if (q->bounds.with_zone)
		return lines;
	return lappend(lines, psprintf("event times of type timestamp: the clock that max_future compares them with is read in time zone %s",
								   pg_get_timezone_name(session_timezone)));
}

static char *
late_text(const SjExplainOptions *options)
{
	return psprintf("late: a row older than the watermark of the join%s; %s",
					options->allowed_lateness > 0 ?
					psprintf(" - %s", sj_usec_text(options->allowed_lateness)) :
					"", late_rows_text(options->late_rows));
}

static const char *
kind_name(const SjJoinQuery *q)
{
	return q->kind == SJ_INTERVAL_JOIN ? "interval" : "wide";
}

/* The time range and where it comes from. */
static char *
range_text(const SjJoinQuery *q)
{
	SjBounds	written;
	const char *source = "";

	sj_written_bounds(q, &written);
	if (!written.lower.known && !written.upper.known)
		source = " (from the ttl)";
	else if (!written.lower.known)
		source = " (lower end from the ttl)";
	else if (!written.upper.known)
		source = " (upper end from the ttl)";
	return psprintf("time range: %s%s", sj_bounds_text(q), source);
}

static List *
append_conditions(List *lines, const SjJoinQuery *q, const char *label,
				  List *conditions)
{
	if (conditions == NIL)
		return lines;
	return lappend(lines, psprintf("%s: %s", label,
								   sj_conditions_text(q, conditions)));
}

/* Names of the targets that sub-queries read other tables for; "" if none. */
static char *
read_target_names(const SjJoinQuery *q)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, q->targets)
	{
		TargetEntry *target = lfirst(lc);

		if (sj_reads_relations((Node *) target->expr))
			appendStringInfo(&buf, "%s%s", buf.len > 0 ? ", " : "",
							 quote_identifier(target->resname));
	}
	return buf.data;
}

/* Names of the inputs that are read by sub-queries, too; "" if none. */
static char *
read_input_names(const SjJoinQuery *q)
{
	List	   *relids = sj_relations_read((Node *) q->targets);
	StringInfoData buf;

	initStringInfo(&buf);
	for (SjSide side = SJ_LEFT; side <= SJ_RIGHT; side++)
	{
		Oid			relid = q->input[side].relid;

		if (list_member_oid(relids, relid) &&
			(side == SJ_LEFT || relid != q->input[SJ_LEFT].relid))
			appendStringInfo(&buf, "%s%s", buf.len > 0 ? ", " : "",
							 quote_identifier(get_rel_name(relid)));
	}
	return buf.data;
}

/* What the user may not expect of sub-queries. */
static List *
append_sub_queries(List *lines, const SjJoinQuery *q)
{
	char	   *targets = read_target_names(q);
	char	   *inputs = read_input_names(q);

	if (targets[0] != '\0')
		lines = lappend(lines, psprintf("columns with sub-queries (%s): read when a row is written, not followed when what they read changes later; left out by verify",
										targets));
	if (inputs[0] != '\0')
		lines = lappend(lines, psprintf("sub-queries read %s as it is when a row is written, with rows that the join has not read or has refused",
										inputs));
	return lines;
}

/* The lines that come from the query alone. */
static List *
query_lines(const SjJoinQuery *q)
{
	const char *alias[2];
	List	   *lines = NIL;
	int			side;

	for (side = 0; side < 2; side++)
		alias[side] = quote_identifier(q->input[side].alias);
	if (q->pad[SJ_LEFT])
		lines = lappend(lines, psprintf("%s join, outer (all rows of %s)",
										kind_name(q), alias[SJ_LEFT]));
	else
		lines = lappend(lines, psprintf("%s join, inner", kind_name(q)));
	lines = lappend(lines, psprintf("key: %s", sj_key_text(q)));
	lines = lappend(lines, range_text(q));
	lines = append_upsert_keys(lines, q);
	for (side = 0; side < 2; side++)
		lines = append_conditions(lines, q,
								  psprintf("filter of %s", alias[side]),
								  q->input[side].filters);
	lines = append_conditions(lines, q, "condition on pairs", q->residual);
	lines = append_conditions(lines, q, "condition on joined rows", q->post);
	if (q->has_stable)
		lines = lappend(lines, pstrdup("stable functions: evaluated when a row is joined, not again later"));
	return append_sub_queries(lines, q);
}

static const char *
output_text(const char *output_mode)
{
	if (strcmp(output_mode, "append") == 0)
		return "append (rows are only inserted)";
	if (strcmp(output_mode, "changelog") == 0)
		return "changelog (rows are only inserted: +I, -U, +U, -D by sjoin_id, numbered by sjoin_seq)";
	return "upsert (the table shows the current truth)";
}

static List *
append_paused(List *lines, const SjExplainOptions *options)
{
	if (!options->paused)
		return lines;
	return lappend(lines, pstrdup("paused: starts, as of its creation, when sjoin.resume_join() is called"));
}

List *
sj_explain_lines(const SjJoinQuery *q, const SjExplainOptions *options)
{
	List	   *lines = query_lines(q);
	int			side;

	for (side = 0; side < 2; side++)
		lines = lappend(lines, event_time_text(q, options, side));
	lines = append_clock(lines, q);
	lines = lappend(lines, pstrdup("watermark of the join: the smaller one of its inputs"));
	lines = append_idle(lines, q, options);
	for (side = 0; side < 2; side++)
		lines = lappend(lines, keep_text(q, options, side));
	lines = lappend(lines, pstrdup("pair: written when its second row is read"));
	if (q->pad[SJ_LEFT])
		lines = lappend(lines, unmatched_text(q, options));
	lines = lappend(lines, late_text(options));
	lines = lappend(lines, psprintf("output: %s",
									output_text(options->output_mode)));
	if (options->notify_channel != NULL)
		lines = lappend(lines, psprintf("notification: on channel %s for each batch that writes rows",
										quote_identifier(options->notify_channel)));
	return append_paused(lines, options);
}

List *
sj_notice_lines(const SjJoinQuery *q, const SjExplainOptions *options)
{
	const SjJoinInput *input = q->input;
	List	   *lines = NIL;

	lines = lappend(lines, psprintf("%s join on %s", kind_name(q),
									sj_key_text(q)));
	lines = lappend(lines, range_text(q));
	lines = append_upsert_keys(lines, q);
	lines = lappend(lines, psprintf("rows are kept until the watermark is past their event time + %s (%s), %s (%s), including %s of allowed lateness",
									sj_usec_text(keep_time(q, options, SJ_LEFT)),
									quote_identifier(input[SJ_LEFT].alias),
									sj_usec_text(keep_time(q, options, SJ_RIGHT)),
									quote_identifier(input[SJ_RIGHT].alias),
									sj_usec_text(options->allowed_lateness)));
	if (q->pad[SJ_LEFT])
		lines = lappend(lines, unmatched_text(q, options));
	lines = append_idle(lines, q, options);
	lines = append_clock(lines, q);
	return append_paused(append_sub_queries(lines, q), options);
}
