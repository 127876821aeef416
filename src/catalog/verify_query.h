/*-------------------------------------------------------------------------
 *
 * verify_query.h
 *	  The batch query that a result must equal (R1).
 *
 * IDENTIFICATION
 *	  src/catalog/verify_query.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_VERIFY_QUERY_H
#define SJ_VERIFY_QUERY_H

#include "sjoin.h"

#include "catalog/query_analysis.h"

/*
 * Relation that the query reads: what the join did not take in.  Columns side
 * int2, op "char" ('P' is a pair that failed, 'p' one that was taken back
 * afterwards, 'K' one that could not be: row_hash is the left image's, old_hash
 * the right one's; 'V' is a version that was replaced, 'v' one that was taken
 * out afterwards), row_hash uuid (of the new image), old_hash uuid,
 * old_data jsonb (of the old image).
 */
#define SJ_RECORDS	"sjoin_records"

typedef struct SjVerifySpec
{
	bool		final;			/* unmatched rows wait for the full bound,
								 * whatever the timeout */
	SjTime		due_before;		/* unmatched rows with an earlier deadline are
								 * due: the watermark, or the horizon when
								 * final; SJ_TIME_MIN: none */
	int64		timeout[2];		/* shortest and longest of them that a row may
								 * have come with; -1: the bound */
	bool		perhaps_due;	/* only unmatched rows that are due by the
								 * shortest and not by the longest; else all
								 * that is due by the longest */
	const char *start;			/* SQL of the snapshot whose rows the join did
								 * not read; NULL: it read all */
	bool		has_failed_pairs;	/* SJ_RECORDS has rows of op 'P' */
	bool		has_records;	/* ... of any other op */
	const char *range[2];		/* SQL: conditions on the rows t of a table, by
								 * side; NULL: all rows are looked at */
	bool		says_padded;	/* with a last column: NULL for a pair, else
								 * whether a pair of the row had been refused */
} SjVerifySpec;

/* SjVerifySpec.start of a join that did not read its tables. */
extern char *sj_verify_start(const bytea *start);

/*
 * SQL text of the query over the accepted rows, with the time conditions that
 * options added and without unmatched rows that are not due.  Its columns are
 * those of the join's query.
 *
 * Everything in it is qualified, provided that the caller has set search_path
 * to pg_catalog, pg_temp; it is to run with the join's time zone.
 */
extern char *sj_verify_query(const SjJoinQuery *q, const SjVerifySpec *spec);

/* A point of event time, or an infinite one, as a constant. */
extern char *sj_verify_time(const SjJoinQuery *q, SjTime event_time);

/*
 * The accepted rows of one side that its filter lets pass and that are older
 * than a time, with the columns
 * of the table that are given by their attribute numbers.
 */
extern char *sj_verify_accepted(const SjJoinQuery *q, const SjVerifySpec *spec,
								SjSide side, List *attnos, SjTime older_than);

/* A copy of an expression in which sums of times and intervals saturate. */
extern Node *sj_saturate_sums(Node *expr);

#endif							/* SJ_VERIFY_QUERY_H */
