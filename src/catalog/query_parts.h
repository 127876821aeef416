/*-------------------------------------------------------------------------
 *
 * query_parts.h
 *	  What the files of query analysis share with each other.
 *
 * query_analysis.c leads; query_check.c says what is not a streaming join,
 * query_range.c reads one time condition, query_bounds.c makes event times
 * and bounds of them, query_shape.c puts the options in, query_keys.c finds
 * the equalities.  query_vars.c walks expressions, sub-queries included.
 *
 * IDENTIFICATION
 *	  src/catalog/query_parts.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_QUERY_PARTS_H
#define SJ_QUERY_PARTS_H

#include "catalog/query_analysis.h"

/* The conditions of a query, join aliases flattened, as implicit ANDs. */
typedef struct SjConditions
{
	List	   *join;			/* ON; for an inner join WHERE as well */
	List	   *where;			/* WHERE of an outer join */
} SjConditions;

/*
 * A comparison of two event times (or of what may be such), normalised to
 * right.ts - left.ts  op  bound.
 */
typedef struct SjRange
{
	Expr	   *condition;		/* as in SjConditions.join */
	AttrNumber	attno[2];		/* column of each input */
	Oid			type[2];		/* its type */
	int			strategy;		/* btree strategy number of op */
	bool		complex;		/* more than one calendar interval in it, or
								 * one that is not added first */
	bool		null_interval;
	SjBound		bound;			/* before strictness is applied */
} SjRange;

/* query_check.c */
extern void sj_check_clauses(Query *query);
extern void sj_check_input(Query *query, Index rti);
/* refuse volatile functions and such; set q->has_stable */
extern void sj_check_conditions(SjJoinQuery *q, List *conditions);
extern void sj_check_targets(SjJoinQuery *q);

/* query_analysis.c */
extern void sj_query_conditions(Query *query, SjConditions *conditions);
/* flattens join aliases; Vars then name their table in every field */
extern Node *sj_query_flatten(Query *query, Node *node);
/* qualified and quoted as an SQL text needs it */
extern char *sj_relation_name(Oid relid);
/* the sides that an expression reads: bit 0 left, bit 1 right */
extern int	sj_expr_sides(const SjJoinQuery *q, Node *node);

#define SJ_READS_NONE	0
#define SJ_READS_LEFT	1
#define SJ_READS_RIGHT	2
#define SJ_READS_BOTH	3

/* query_range.c: those of the conditions that compare two times */
extern List *sj_ranges_read(const SjJoinQuery *q, List *conditions);
extern bool sj_range_is_equality(const SjRange *range);

/* query_bounds.c */
extern void sj_set_event_times(SjJoinQuery *q, List *ranges);
/* returns the conditions that the bounds cover entirely */
extern List *sj_set_bounds(SjJoinQuery *q, List *ranges);
/* the time range without what a ttl has put in */
extern void sj_written_bounds(const SjJoinQuery *q, SjBounds *bounds);

/* query_shape.c: ttl closes open ends, timeout shortens the wait */
extern void sj_apply_shape(SjJoinQuery *q, const SjJoinShape *shape);

/* query_keys.c */
/*
 * Moves the equalities between the inputs from 'conditions' to q->keys and
 * returns the conditions that are left; an error when there are none.
 */
extern List *sj_take_keys(SjJoinQuery *q, List *conditions);

#endif							/* SJ_QUERY_PARTS_H */
