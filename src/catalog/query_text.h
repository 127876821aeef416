/*-------------------------------------------------------------------------
 *
 * query_text.h
 *	  What a streaming join does, in words and as SQL.
 *
 * Names of tables and types are qualified as the search_path asks for.
 *
 * IDENTIFICATION
 *	  src/catalog/query_text.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_QUERY_TEXT_H
#define SJ_QUERY_TEXT_H

#include "sjoin.h"

#include "catalog/query_analysis.h"
#include "catalog/stream_def.h"

/* What explain() tells beyond the query; times in usec. */
typedef struct SjExplainOptions
{
	const char *output_mode;	/* upsert, changelog or append */
	bool		final;			/* emit final, or append */
	int64		allowed_lateness;
	const char *late_rows;		/* keep, drop, join or error */
	bool		paused;			/* waits to be resumed */
	const char *notify_channel; /* NULL: none */
	int64		delay[2];		/* watermark delay of each input */
	int64		idle_timeout[2];	/* 0: never idle */
	SjOnIdle	on_idle[2];
} SjExplainOptions;

/* "o.order_id = p.order_id", several joined by AND */
extern char *sj_key_text(const SjJoinQuery *q);
/* "p.paid_at between o.created_at and o.created_at + 00:05:00" */
extern char *sj_bounds_text(const SjJoinQuery *q);
/* conditions of q (implicit AND) as SQL; NULL when there are none */
extern char *sj_conditions_text(const SjJoinQuery *q, List *conditions);
/* a length of time for people: "1 day 00:05:00" */
extern char *sj_usec_text(int64 usec);

/* Lists of char *: the lines of explain(); the short form for NOTICEs. */
extern List *sj_explain_lines(const SjJoinQuery *q,
							  const SjExplainOptions *options);
extern List *sj_notice_lines(const SjJoinQuery *q,
							 const SjExplainOptions *options);

#endif							/* SJ_QUERY_TEXT_H */
