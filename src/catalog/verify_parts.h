/*-------------------------------------------------------------------------
 *
 * verify_parts.h
 *	  What queries over accepted rows are put together from; private to
 *	  verify_query.c and replay_query.c.
 *
 * All strings are SQL.  The rows of the left input are called l, those of the
 * right one r; see verify_query.c for their columns.
 *
 * IDENTIFICATION
 *	  src/catalog/verify_parts.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_VERIFY_PARTS_H
#define SJ_VERIFY_PARTS_H

#include "sjoin.h"

#include "catalog/verify_query.h"
#include "lib/stringinfo.h"

typedef struct SjVerifyContext
{
	const SjJoinQuery *q;
	const SjVerifySpec *spec;
	List	   *deparse;		/* Vars as l.c<n> and r.c<n> */
	int			natts[2];		/* of the tables */
} SjVerifyContext;

extern void sj_verify_init(SjVerifyContext *context, const SjJoinQuery *q,
						   const SjVerifySpec *spec);

/* "t.c1, t.c2, ": the columns that the join needs, by their names here */
extern char *sj_verify_inner_columns(const SjJoinInput *input);
/* the rows of the table that can be in a state */
extern char *sj_verify_table_rows(const SjVerifyContext *context,
								  SjSide side);
/* (hash, n, image): how often each image is recorded as not taken in */
extern char *sj_verify_net_records(SjSide side);
extern char *sj_verify_accepted_rows(SjVerifyContext *context, SjSide side);

/* Adds a condition (NULL: none), those of the query, those of the ttl. */
extern void sj_verify_add_condition(StringInfo buf, const char *condition);
extern void sj_verify_add_conditions(StringInfo buf, SjVerifyContext *context,
									 List *conditions, List *fallible);
extern void sj_verify_add_ttl(StringInfo buf, SjVerifyContext *context);

/* the event time of a side's row */
extern char *sj_verify_event_time(SjVerifyContext *context, SjSide side);

#endif							/* SJ_VERIFY_PARTS_H */
