/*-------------------------------------------------------------------------
 *
 * replay_tables.h
 *	  What the tables have for late rows that are taken in after all.
 *
 * IDENTIFICATION
 *	  src/worker/replay_tables.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_REPLAY_TABLES_H
#define SJ_REPLAY_TABLES_H

#include "sjoin.h"

#include "catalog/verify_query.h"
#include "emit/late_choice.h"
#include "worker/pending.h"

/* The tables of a join under one snapshot. */
typedef struct SjReplayTables
{
	const SjJoinDef *def;
	const SjJoinQuery *query;
	const SjJoinPlan *plan;
	Snapshot	snapshot;
	Tuplestorestate *records;	/* what was not taken in; NULL: nobody asks */
	SjRejections rejections;
	SjVerifySpec spec;
} SjReplayTables;

/* Takes a new snapshot.  Caller is in the owner's sandbox. */
extern void sj_replay_tables_open(SjReplayTables *tables, const SjJoinDef *def,
								  const SjJoinQuery *query,
								  const SjJoinPlan *plan);
/* From here on the tables are as a join has consumed them that has come to the
 * position. */
extern void sj_replay_tables_read_records(SjReplayTables *tables,
										  const SjPosition *position);
extern void sj_replay_tables_close(SjReplayTables *tables);

/* A row of a table: a tuple of the input without its computed keys. */
typedef struct SjTableRow
{
	MinimalTuple tuple;
	pg_uuid_t	hash;
	int64		there;			/* how often the table has the image */
	int64		refused;		/* how often it was not taken in, what is not
								 * consumed yet included */
	bool		has_partners;	/* a left row of an outer join: has accepted
								 * ones */
} SjTableRow;

typedef void (*SjTableRowVisitor) (void *arg, const SjTableRow *row);

/* The rows that the table has of the choices of one side. */
extern void sj_replay_visit_images(SjReplayTables *tables, SjSide side,
								   const SjLateChoice *choices, int n,
								   SjTableRowVisitor visit, void *arg);

/* Images of the choices of one side that are more often recorded as not taken in
 * than their table has them, and how much more often. */
extern void sj_replay_visit_spare(SjReplayTables *tables, SjSide side,
								  const SjLateChoice *choices, int n,
								  void (*visit) (void *arg,
												 const pg_uuid_t *hash,
												 int64 spare),
								  void *arg);

/*
 * Would a late row of the side contradict unmatched rows that are written and
 * final?
 */
extern bool sj_replay_is_against_final(const SjJoinDef *def,
									   const SjJoinQuery *query, SjSide side);

/* The accepted rows of a side with event times from .. until. */
extern void sj_replay_visit_accepted(SjReplayTables *tables, SjSide side,
									 SjTime from, SjTime until,
									 SjTableRowVisitor visit, void *arg);

#endif							/* SJ_REPLAY_TABLES_H */
