/*-------------------------------------------------------------------------
 *
 * result_query.h
 *	  Values of the target list that come from sub-queries.
 *
 * IDENTIFICATION
 *	  src/emit/result_query.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_RESULT_QUERY_H
#define SJ_RESULT_QUERY_H

#include "sjoin.h"

#include "catalog/sub_query.h"
#include "executor/tuptable.h"

typedef struct SjResultQuery SjResultQuery;

/*
 * Plans the sub-queries for about so many rows and runs them over none, so
 * that what is wrong with the query and not with a row (a right that is
 * missing, an unpopulated view) is an error here.  To be used in this
 * transaction; memory in the current context.
 */
extern SjResultQuery *sj_result_query_open(const SjSubQueries *sub,
										   const char *query_text,
										   double nrows);

/*
 * A range of rows: begin, put each row, run, and then ask for the values of
 * each row in the same order.  Begin may follow anything, an error included.
 */
extern void sj_result_query_begin(SjResultQuery *query);
extern void sj_result_query_put(SjResultQuery *query,
								TupleTableSlot *const side_slot[2],
								const bool absent[2]);
extern void sj_result_query_run(SjResultQuery *query);
/* Sets the targets that have sub-queries; valid until the next call. */
extern void sj_result_query_next(SjResultQuery *query, Datum *values,
								 bool *isnull);

#endif							/* SJ_RESULT_QUERY_H */
