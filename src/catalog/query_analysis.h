/*-------------------------------------------------------------------------
 *
 * query_analysis.h
 *	  From an analysed SELECT to the parts of a streaming join (A1).
 *
 * IDENTIFICATION
 *	  src/catalog/query_analysis.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_QUERY_ANALYSIS_H
#define SJ_QUERY_ANALYSIS_H

#include "sjoin.h"

#include "bounds.h"
#include "nodes/parsenodes.h"

/* One equality of the key: left expression = right expression. */
typedef struct SjJoinKey
{
	Expr	   *expr[2];		/* over the Vars of that side only */
	Oid			type[2];		/* as the operator takes them */
	Oid			equal[2][2];	/* equality function of side a = side b */
	Oid			hash[2];		/* hash function of each side */
	Oid			collation;
} SjJoinKey;

typedef struct SjJoinInput
{
	Index		rti;			/* in query->rtable */
	Oid			relid;
	char	   *alias;			/* as the query calls it */
	AttrNumber	time_attno;		/* event time; 0: not known yet */
	Oid			time_type;		/* TIMESTAMPOID or TIMESTAMPTZOID */
	bool		inferred;		/* event time inferred: not yet a stream */
	List	   *upsert_key;		/* of int: attribute numbers; NIL: none */
	List	   *filters;		/* quals on this input alone, before the state */
	Bitmapset  *columns;		/* attribute numbers needed, time included */
} SjJoinInput;

typedef enum SjJoinKind
{
	SJ_INTERVAL_JOIN,
	SJ_WIDE_JOIN
} SjJoinKind;

/*
 * A two-input join.  Expressions are those of the query with join aliases
 * flattened: Vars have varno = rti of the input, varattno = column of the
 * table.  Not yet planned (expression_planner is the executor's caller's).
 */
typedef struct SjJoinQuery
{
	Query	   *query;			/* as analysed; not changed */
	JoinType	join_type;		/* JOIN_INNER or JOIN_LEFT, as written */
	SjJoinKind	kind;
	SjJoinInput input[2];		/* left, right; a RIGHT join is turned round */
	bool		pad[2];			/* unmatched rows of this side are written */
	List	   *keys;			/* of SjJoinKey * */
	SjBounds	bounds;			/* time range; the ttls of a wide join */
	List	   *residual;		/* conditions on pairs that keys and fixed
								 * bounds do not cover (implicit AND) */
	List	   *post;			/* WHERE of an outer join: on pairs and padded
								 * rows, after the join (implicit AND) */
	List	   *targets;		/* of TargetEntry, no resjunk */
	bool		has_stable;		/* calls STABLE functions */
} SjJoinQuery;

/* Options that shape the join; times in usec, -1: not given. */
typedef struct SjJoinShape
{
	int64		timeout;
	int64		ttl;
	List	   *side_ttl;		/* of DefElem: alias -> makeString(interval) */
} SjJoinShape;

/* Parses and analyses one SELECT; errors name what is not supported. */
extern Query *sj_query_parse(const char *query_text);
/*
 * Takes the query apart; refuses what is not a streaming join, with a hint.
 * Memory in the current context.
 */
extern SjJoinQuery *sj_query_analyze(Query *query, const SjJoinShape *shape);
/* Error unless the table can be a stream. */
extern void sj_check_source(Oid relid);
/*
 * Upsert keys: a version replaces older ones that are at most so much older,
 * in usec, and rows are kept that much longer; 0 where there are none.
 */
extern int64 sj_query_replaces(const SjJoinQuery *query);
/* Hash of the columns that the join reads, its event times and upsert keys. */
extern int64 sj_input_signature(const SjJoinQuery *query);
/* Hash of what the definition means: changes when a rename does not. */
extern int64 sj_query_signature(const Query *query);

#endif							/* SJ_QUERY_ANALYSIS_H */
