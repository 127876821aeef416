/*-------------------------------------------------------------------------
 *
 * join_plan.h
 *	  A join ready to run: what its inputs' tuples look like in the state, and
 *	  its expressions over them.
 *
 * IDENTIFICATION
 *	  src/catalog/join_plan.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_JOIN_PLAN_H
#define SJ_JOIN_PLAN_H

#include "sjoin.h"

#include "access/tupdesc.h"
#include "catalog/query_analysis.h"
#include "catalog/sub_query.h"
#include "nodes/primnodes.h"

/*
 * One input.  Its tuples hold the columns of the table that the join needs, in
 * ascending attribute number, and then the key expressions that are not plain
 * columns.
 */
typedef struct SjPlanInput
{
	int			ncolumns;
	AttrNumber *columns;		/* attribute numbers of the table */
	TupleDesc	desc;			/* of the tuples, ncolumns + ncomputed */
	int			time_index;		/* event time, 0-based in desc */
	List	   *filter;			/* planned, over scan Vars (implicit AND) */
	int			ncomputed;
	Expr	  **computed;		/* planned key expressions, over scan Vars */
	AttrNumber *key_attno;		/* of each key, its place in desc, 1-based */
	int			nupsert;		/* columns of the upsert key; 0: none */
	AttrNumber *upsert_attno;	/* of each its place in desc, 1-based, */
	Oid		   *upsert_equal;	/* its equality */
	Oid		   *upsert_hash;	/* and its hash function */
} SjPlanInput;

/*
 * Expressions have the left tuple as OUTER_VAR and the right one as INNER_VAR;
 * those of padded rows expect NULLs in that of the missing side.  A target
 * with a sub-query is a NULL in them; its value comes from sub_queries.
 */
typedef struct SjJoinPlan
{
	const SjJoinQuery *query;
	SjPlanInput input[2];
	List	   *residual;		/* planned (implicit AND) */
	List	   *targets;		/* of TargetEntry, planned: for pairs */
	List	   *post;
	List	   *padded_targets[2];	/* for padded rows of each side */
	List	   *padded_post[2];
	SjSubQueries *sub_queries;	/* NULL: none in the target list */
} SjJoinPlan;

/* Memory in the current context; may run user code (constant folding). */
extern SjJoinPlan *sj_join_plan(const SjJoinQuery *query);

/* Place of a column of the table in the input's tuple, from 1. */
extern AttrNumber sj_plan_column(const SjPlanInput *input, AttrNumber attno);

#endif							/* SJ_JOIN_PLAN_H */
