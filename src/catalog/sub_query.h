/*-------------------------------------------------------------------------
 *
 * sub_query.h
 *	  The targets of a join that have sub-queries, as a query of their own.
 *
 * IDENTIFICATION
 *	  src/catalog/sub_query.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_SUB_QUERY_H
#define SJ_SUB_QUERY_H

#include "sjoin.h"

#include "access/tupdesc.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

/* The ephemeral relation that the query reads, and its first column. */
#define SJ_JOINED_ROWS			"sjoin_joined_rows"
#define SJ_JOINED_ORDINAL		1

/* Where a column of it after the first comes from. */
typedef struct SjJoinedColumn
{
	SjSide		side;
	AttrNumber	attno;			/* of the input's tuple; 0: is it absent? */
} SjJoinedColumn;

/*
 * SELECT ordinal, targets FROM SJ_JOINED_ROWS: one row for each of these, in
 * their order.
 */
typedef struct SjSubQueries
{
	Query	   *query;
	int			ncolumns;		/* without the ordinal */
	SjJoinedColumn *columns;
	TupleDesc	desc;			/* of SJ_JOINED_ROWS: ordinal, columns */
	int			ntargets;
	int		   *targets;		/* places in the target list, from 0 */
} SjSubQueries;

struct SjJoinPlan;

/*
 * NULL when no target has a sub-query.  Of the plan its inputs and its query
 * are used; memory in the current context.
 */
extern SjSubQueries *sj_sub_queries_make(const struct SjJoinPlan *plan);

/*
 * Plans the query for so many rows, as the current user: his rights and
 * row-level security hold.  Takes locks that last to the end of the
 * transaction; may run user code.
 */
extern PlannedStmt *sj_sub_queries_plan(const SjSubQueries *sub,
										double nrows);

#endif							/* SJ_SUB_QUERY_H */
