/*-------------------------------------------------------------------------
 *
 * verify_query.c
 *	  The batch query that a result must equal (R1).
 *
 * The query is put together as text:
 *
 *		SELECT targets
 *		  FROM (accepted rows) l LEFT JOIN (accepted rows) r ON conditions
 *		 WHERE conditions
 *
 * with the conditions as the user wrote them, not as the analysis sorted
 * them, so that a mistake of the analysis shows.  Only sums of times and
 * intervals are others (verify_sums.c).
 *
 * Accepted rows
 * -------------
 * are computed by bag arithmetic on images: the rows of the table, less the
 * new images that were recorded as not taken in, plus the old images whose
 * removal was recorded as not carried out.  Images are told apart by
 * sjoin.image_hash() of the columns that the join needs, in ascending order
 * of attribute number.  An image that was recorded in both roles cancels
 * out.  Sub-query columns are called c<attribute number>, then sjoin_hash,
 * which is never null and so also says whether a side is there.
 *
 * Versions of an upsert key that have been replaced are not accepted, either.
 * Which they are is recorded (worker/versions.c: V, less v for those that the
 * table has no more) and goes into the same arithmetic.
 *
 * Failed pairs
 * ------------
 * (op P, less op p) count as partners and are not in the result: a condition
 * that may fail is not evaluated for them and counts as true, and they are
 * taken out at the end.
 *
 * IDENTIFICATION
 *	  src/catalog/verify_query.c
 *
 *-------------------------------------------------------------------------
 */
#include "sjoin.h"

#include "access/relation.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "catalog/verify_parts.h"
#include "catalog/query_parts.h"
#include "catalog/query_vars.h"

static const char *const side_name[2] = {"l", "r"};

/* ---- expressions ---- */

/* A range table entry with columns c1 .. c<natts> and sjoin_hash. */
static RangeTblEntry *
make_entry(int natts)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	List	   *names = NIL;
	int			i;

	for (i = 1; i <= natts; i++)
		names = lappend(names, makeString(psprintf("c%d", i)));
	if (natts > 0)
		names = lappend(names, makeString(pstrdup("sjoin_hash")));
	rte->rtekind = natts > 0 ? RTE_SUBQUERY : RTE_RESULT;
	rte->eref = makeAlias("", names);
	return rte;
}

static int
column_count(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	int			natts = RelationGetNumberOfAttributes(rel);

	relation_close(rel, NoLock);
	return natts;
}

void
sj_verify_init(SjVerifyContext *context, const SjJoinQuery *q,
			   const SjVerifySpec *spec)
{
	PlannedStmt *stmt = makeNode(PlannedStmt);
	List	   *names = NIL;
	Index		rti;
	int			side;

	context->q = q;
	context->spec = spec;
	for (side = 0; side < 2; side++)
		context->natts[side] = column_count(q->input[side].relid);

	for (rti = 1; rti <= list_length(q->query->rtable); rti++)
	{
		const char *name = NULL;
		int			natts = 0;

		for (side = 0; side < 2; side++)
			if (rti == q->input[side].rti)
			{
				name = side_name[side];
				natts = context->natts[side];
			}
		stmt->rtable = lappend(stmt->rtable, make_entry(natts));
		names = lappend(names, unconstify(char *, name));
	}
	context->deparse = deparse_context_for_plan_tree(stmt, names);
}

/* A column of an input, for sj_whole_row(). */
static Node *
input_column(void *arg, const Var *var, Form_pg_attribute att)
{
	return (Node *) makeVar(var->varno, att->attnum, att->atttypid,
							att->atttypmod, att->attcollation,
							var->varlevelsup);
}

/*
 * sj_vars_replace: what a whole-row Var means, NULL when its side is not
 * there, else a row.  (Where it always is, CASE is there for opaque_row().)
 */
static Node *
expand_row(void *arg, const Var *var)
{
	SjVerifyContext *context = arg;
	SjSide		side = (var->varno == context->q->input[SJ_RIGHT].rti) ?
	SJ_RIGHT : SJ_LEFT;
	const SjJoinInput *input = &context->q->input[side];
	NullTest   *absent;
	Node	   *row;

	if (var->varattno != InvalidAttrNumber)
		return (Node *) copyObject(unconstify(Var *, var));
	row = sj_whole_row(var, input->relid, COERCE_EXPLICIT_CAST, input_column,
					   NULL);
	absent = makeNode(NullTest);
	absent->arg = (Expr *) makeVar(input->rti, context->natts[side] + 1,
								   UUIDOID, -1, InvalidOid, var->varlevelsup);
	absent->nulltesttype = IS_NULL;
	absent->location = -1;
	return sj_null_if((Expr *) absent, row);
}

static char *
expression_text(SjVerifyContext *context, Node *node)
{
	return deparse_expression(sj_vars_replace(node, expand_row, context),
							  context->deparse, true, false);
}

/* ---- accepted rows ---- */

/* "t.a AS c1, t.b AS c2" of the columns that the join needs. */
static char *
column_list(const SjJoinInput *input, const char *alias, bool named)
{
	StringInfoData buf;
	int			attno = -1;

	initStringInfo(&buf);
	while ((attno = bms_next_member(input->columns, attno)) >= 0)
	{
		appendStringInfo(&buf, "%s%s.%s", buf.len > 0 ? ", " : "", alias,
						 quote_identifier(get_attname(input->relid, attno,
													  false)));
		if (named)
			appendStringInfo(&buf, " AS c%d", attno);
	}
	return buf.data;
}

/* The same columns by the names that they have here. */
char *
sj_verify_inner_columns(const SjJoinInput *input)
{
	StringInfoData buf;
	int			attno = -1;

	initStringInfo(&buf);
	while ((attno = bms_next_member(input->columns, attno)) >= 0)
		appendStringInfo(&buf, "t.c%d, ", attno);
	return buf.data;
}

/* Rows that can be in a state at all have a finite event time. */
static char *
finite_time(const SjJoinInput *input, const char *alias)
{
	return psprintf("pg_catalog.isfinite(%s.%s)", alias,
					quote_identifier(get_attname(input->relid,
												 input->time_attno, false)));
}

char *
sj_verify_table_rows(const SjVerifyContext *context, SjSide side)
{
	const SjJoinInput *input = &context->q->input[side];
	const SjVerifySpec *spec = context->spec;

	return psprintf("SELECT %s, sjoin.image_hash(ROW(%s)) AS sjoin_hash FROM %s t WHERE %s%s%s",
					column_list(input, "t", true),
					column_list(input, "t", false),
					sj_relation_name(input->relid), finite_time(input, "t"),
					spec->start == NULL ? "" :
					psprintf(" AND sjoin.written_after(t.xmin, %s)",
							 spec->start),
					spec->range[side] == NULL ? "" :
					psprintf(" AND %s", spec->range[side]));
}

/* Per image how often it was refused less how often its removal was. */
char *
sj_verify_net_records(SjSide side)
{
	char	   *from = psprintf("FROM " SJ_RECORDS " WHERE side = %d "
								"AND op OPERATOR(pg_catalog.<>) ALL ('{P,p,K}'::pg_catalog.\"char\"[])",
								(int) side);

	return psprintf("SELECT h AS hash, pg_catalog.sum(d) AS n, "
					"(pg_catalog.array_agg(image) FILTER (WHERE image IS NOT NULL))[1] AS image "
					"FROM (SELECT row_hash, 1, NULL::pg_catalog.jsonb %s AND row_hash IS NOT NULL "
					"UNION ALL SELECT old_hash, -1, old_data %s AND old_hash IS NOT NULL) u(h, d, image) "
					"GROUP BY h", from, from);
}

/* OFFSET 0 keeps conditions that may fail away from refused rows. */
char *
sj_verify_accepted_rows(SjVerifyContext *context, SjSide side)
{
	const SjJoinInput *input = &context->q->input[side];
	char	   *net;

	if (!context->spec->has_records)
		return sj_verify_table_rows(context, side);

	net = sj_verify_net_records(side);
	return psprintf("SELECT %st.sjoin_hash "
					"FROM (SELECT t.*, pg_catalog.row_number() OVER (PARTITION BY t.sjoin_hash) AS sjoin_n FROM (%s) t) t "
					"LEFT JOIN (%s) n ON n.hash = t.sjoin_hash "
					"WHERE t.sjoin_n > COALESCE(n.n, 0) "
					"UNION ALL "
					"SELECT %s, n.hash FROM (%s) n, "
					"LATERAL pg_catalog.generate_series(1, -n.n), "
					"LATERAL pg_catalog.jsonb_populate_record(NULL::%s, n.image) o "
					"WHERE n.n < 0 AND n.image IS NOT NULL AND %s OFFSET 0",
					sj_verify_inner_columns(input), sj_verify_table_rows(context, side), net,
					column_list(input, "o", false), net,
					sj_relation_name(input->relid), finite_time(input, "o"));
}

/* ---- conditions ---- */

void
sj_verify_add_condition(StringInfo buf, const char *condition)
{
	if (condition)
		appendStringInfo(buf, "%s(%s)", buf->len > 0 ? " AND " : "",
						 condition);
}

/* The hashes of a pair; that of a missing row is never an image's. */
static char *
pair_of_hashes(const char *left, const char *right)
{
	static const char none[] = "'00000000-0000-0000-0000-000000000000'::pg_catalog.uuid";

	return psprintf("COALESCE(%s, %s), COALESCE(%s, %s)", left, none, right,
					none);
}

/*
 * True for pairs and padded rows that were refused (op P) more often than
 * refused ones were taken back (op p).
 */
static char *
failed_pair(void)
{
	return psprintf("(%s) IN (SELECT %s FROM " SJ_RECORDS " f "
					"WHERE f.op OPERATOR(pg_catalog.=) ANY ('{P,p}'::pg_catalog.\"char\"[]) GROUP BY 1, 2 "
					"HAVING pg_catalog.sum(CASE f.op WHEN 'P' THEN 1 ELSE -1 END) OPERATOR(pg_catalog.>) 0)",
					pair_of_hashes("l.sjoin_hash", "r.sjoin_hash"),
					pair_of_hashes("f.row_hash", "f.old_hash"));
}

/*
 * Appends conditions of the query; those of 'fallible' are not evaluated for
 * pairs that failed.
 */
void
sj_verify_add_conditions(StringInfo buf, SjVerifyContext *context,
						 List *conditions, List *fallible)
{
	ListCell   *lc;

	foreach(lc, conditions)
	{
		char	   *text = expression_text(context,
										   sj_saturate_sums(lfirst(lc)));

		if (context->spec->has_failed_pairs &&
			list_member(fallible, lfirst(lc)))
			text = psprintf("CASE WHEN %s THEN true ELSE %s END",
							failed_pair(), text);
		sj_verify_add_condition(buf, text);
	}
}

/* 'usec' as an interval of hours, minutes and seconds: exact everywhere. */
static char *
usec_interval(int64 usec)
{
	uint64		length = usec < 0 ? -(uint64) usec : (uint64) usec;

	return psprintf("'%s" UINT64_FORMAT ":%02d:%02d.%06d'::pg_catalog.interval",
					usec < 0 ? "-" : "+", length / USECS_PER_HOUR,
					(int) (length % USECS_PER_HOUR / USECS_PER_MINUTE),
					(int) (length % USECS_PER_MINUTE / USECS_PER_SEC),
					(int) (length % USECS_PER_SEC));
}

/* A calendar interval; signs everywhere, so that IntervalStyle is no matter. */
static char *
calendar_interval(const Interval *interval)
{
	return psprintf("('%+d months %+d days'::pg_catalog.interval + %s)",
					interval->month, interval->day,
					usec_interval(interval->time));
}

/* "l.c2": an event time. */
char *
sj_verify_event_time(SjVerifyContext *context, SjSide side)
{
	return psprintf("%s.c%d", side_name[side],
					context->q->input[side].time_attno);
}

/* The ends of the time range that a ttl has closed. */
void
sj_verify_add_ttl(StringInfo buf, SjVerifyContext *context)
{
	const SjBounds *bounds = &context->q->bounds;
	char	   *left = sj_verify_event_time(context, SJ_LEFT);
	char	   *right = sj_verify_event_time(context, SJ_RIGHT);
	SjBounds	written;

	sj_written_bounds(context->q, &written);
	if (!written.upper.known && bounds->upper.known)
		sj_verify_add_condition(buf, psprintf("%s <= sjoin.time_add(%s, " INT64_FORMAT ")",
											  right, left, bounds->upper.usec));
	if (!written.lower.known && bounds->lower.known)
		sj_verify_add_condition(buf, psprintf("%s >= sjoin.time_add(%s, " INT64_FORMAT ")",
											  right, left, bounds->lower.usec));
}

/* ---- rows that are due ---- */

/* A point of event time as a constant of the join's type. */
char *
sj_verify_time(const SjJoinQuery *q, SjTime event_time)
{
	bool		with_zone = q->bounds.with_zone;
	char		buf[MAXDATELEN + 1];
	int			utc = 0;

	JsonEncodeDateTime(buf, TimestampTzGetDatum(event_time),
					   with_zone ? TIMESTAMPTZOID : TIMESTAMPOID,
					   with_zone ? &utc : NULL);
	return psprintf("'%s'::pg_catalog.%s", buf,
					with_zone ? "timestamptz" : "timestamp");
}

/* Is the deadline of the left row, a fixed distance away, before 'due'? */
static char *
fixed_deadline_passed(SjVerifyContext *context, int64 distance, SjTime due)
{
	SjTime		latest = sj_time_sub(due, distance);

	if (latest < MIN_TIMESTAMP)
		return pstrdup("false");
	if (latest >= END_TIMESTAMP)
		return pstrdup("true");
	return psprintf("%s < %s", sj_verify_event_time(context, SJ_LEFT),
					sj_verify_time(context->q, latest));
}

/* The same for a calendar bound; its inverse is taken later. */
static char *
calendar_deadline_passed(SjVerifyContext *context, const SjBound *bound,
						 SjTime due)
{
	bool		exact = bound->base == SJ_LEFT;
	bool		subtract = exact ? bound->subtracted : !bound->subtracted;

	due = exact ? due : sj_time_sub(due, SJ_DUE_SLACK);
	if (due < MIN_TIMESTAMP)
		return pstrdup("false");
	if (due >= END_TIMESTAMP)
		return pstrdup("true");
	return psprintf("sjoin.time_add(%s, %s%s) < %s",
					sj_verify_event_time(context, SJ_LEFT),
					subtract ? "OPERATOR(pg_catalog.-) " : "",
					calendar_interval(&bound->interval),
					sj_verify_time(context->q, due));
}

/* Has the deadline of the left row passed, with that timeout? */
static char *
deadline_passed(SjVerifyContext *context, int64 timeout)
{
	const SjBounds *bounds = &context->q->bounds;
	const SjVerifySpec *spec = context->spec;

	if (timeout >= 0 && !spec->final)
		return fixed_deadline_passed(context, timeout, spec->due_before);
	if (bounds->upper.calendar)
		return calendar_deadline_passed(context, &bounds->upper,
										spec->due_before);
	return fixed_deadline_passed(context, bounds->upper.usec,
								 spec->due_before);
}

/* Leaves out unmatched rows of the preserved side that are not due. */
static void
append_due(StringInfo buf, SjVerifyContext *context)
{
	const SjVerifySpec *spec = context->spec;
	char	   *surely;

	if (!context->q->pad[SJ_LEFT])
		return;
	surely = deadline_passed(context, spec->timeout[1]);
	if (spec->perhaps_due)
		sj_verify_add_condition(buf, psprintf("r.sjoin_hash IS NULL AND %s AND NOT (%s)",
											  deadline_passed(context, spec->timeout[0]),
											  surely));
	else
		sj_verify_add_condition(buf, psprintf("r.sjoin_hash IS NOT NULL OR %s",
											  surely));
}

/* ---- the query ---- */

char *
sj_verify_start(const bytea *start)
{
	char	   *hex = DatumGetCString(DirectFunctionCall1(byteaout,
														 PointerGetDatum(start)));

	return psprintf("%s::pg_catalog.bytea", quote_literal_cstr(hex));
}

/*
 * A target as it is compared.  What is read of other tables is not, and might
 * fail by now.
 */
static Node *
compared_target(const TargetEntry *target)
{
	Node	   *expr = (Node *) target->expr;

	if (!sj_reads_relations(expr))
		return expr;
	/* a domain may not allow it */
	return (Node *) makeNullConst(getBaseType(exprType(expr)), -1, InvalidOid);
}

static char *
target_list(SjVerifyContext *context)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, context->q->targets)
	{
		TargetEntry *target = lfirst_node(TargetEntry, lc);

		appendStringInfo(&buf, "%s%s AS %s", buf.len > 0 ? ", " : "",
						 expression_text(context, compared_target(target)),
						 quote_identifier(target->resname));
	}
	return buf.data;
}

/* The column that SjVerifySpec.says_padded asks for. */
static char *
padded_column(const SjVerifySpec *spec)
{
	return psprintf(", CASE WHEN r.sjoin_hash IS NULL THEN %s END",
					!spec->has_failed_pairs ? "false" :
					"l.sjoin_hash IN (SELECT row_hash FROM " SJ_RECORDS
					" WHERE op OPERATOR(pg_catalog.=) 'P' AND row_hash IS NOT NULL AND old_hash IS NOT NULL)");
}

char *
sj_verify_query(const SjJoinQuery *q, const SjVerifySpec *spec)
{
	SjVerifyContext context;
	SjConditions conditions;
	StringInfoData on;
	StringInfoData where;

	sj_verify_init(&context, q, spec);
	sj_query_conditions(q->query, &conditions);

	initStringInfo(&on);
	sj_verify_add_ttl(&on, &context);
	sj_verify_add_conditions(&on, &context, conditions.join, q->residual);

	initStringInfo(&where);
	sj_verify_add_conditions(&where, &context, conditions.where, q->post);
	append_due(&where, &context);
	if (spec->has_failed_pairs)
		sj_verify_add_condition(&where, psprintf("(%s) IS NOT TRUE",
												 failed_pair()));

	return psprintf("SELECT %s%s FROM (%s) l %s (%s) r ON %s%s%s",
					target_list(&context),
					spec->says_padded ? padded_column(spec) : "",
					sj_verify_accepted_rows(&context, SJ_LEFT),
					q->pad[SJ_LEFT] ? "LEFT JOIN" : "JOIN",
					sj_verify_accepted_rows(&context, SJ_RIGHT), on.data,
					where.len > 0 ? " WHERE " : "", where.data);
}

char *
sj_verify_accepted(const SjJoinQuery *q, const SjVerifySpec *spec, SjSide side,
				   List *attnos, SjTime older_than)
{
	SjVerifyContext context;
	StringInfoData buf;
	StringInfoData where;
	ListCell   *lc;

	sj_verify_init(&context, q, spec);
	initStringInfo(&buf);
	initStringInfo(&where);
	sj_verify_add_conditions(&where, &context, q->input[side].filters, NIL);
	if (older_than < MIN_TIMESTAMP)
		sj_verify_add_condition(&where, "false");
	else if (older_than < END_TIMESTAMP)
		sj_verify_add_condition(&where, psprintf("%s < %s", sj_verify_event_time(&context, side),
												 sj_verify_time(q, older_than)));

	foreach(lc, attnos)
		appendStringInfo(&buf, "%s%s.c%d", buf.len > 0 ? ", " : "SELECT ",
						 side_name[side], lfirst_int(lc));
	appendStringInfo(&buf, " FROM (%s) %s", sj_verify_accepted_rows(&context, side),
					 side_name[side]);
	if (where.len > 0)
		appendStringInfo(&buf, " WHERE %s", where.data);
	return buf.data;
}
