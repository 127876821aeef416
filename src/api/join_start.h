/*-------------------------------------------------------------------------
 *
 * join_start.h
 *	  What making a join and starting it over have in common.
 *
 * IDENTIFICATION
 *	  src/api/join_start.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_JOIN_START_H
#define SJ_JOIN_START_H

#include "sjoin.h"

#include "catalog/join_def.h"

/* Takes the query of a definition apart, wherever that keeps it. */
typedef SjJoinQuery *(*SjAnalyzer) (const SjJoinDef *def);

/*
 * Locks the inputs of a join against writers, the definitions, and a result
 * (InvalidOid: none yet) against everybody: all of them or none, so that
 * nobody ever waits for us while we wait.  The caller holds no lock on them
 * that it has not had before.
 */
extern void sj_lock_inputs(SjAnalyzer analyze, const SjJoinDef *def,
						   Oid result);
/* Who may not read an input, or not make it a stream, must not go on. */
extern void sj_check_may_read(const SjJoinQuery *query);
/* Error when its results would have to change where they are final. */
extern void sj_check_finality(const SjJoinDef *def, const SjJoinQuery *query);
/* What sjoin.joins says of the join. */
extern void sj_describe_join(SjJoinDef *def, const SjJoinQuery *query);
/* Inputs whose event time was inferred become streams. */
extern void sj_declare_streams(const SjJoinQuery *query);
/*
 * The join begins here: what its inputs hold now is history, what is written
 * from now on is captured.  Sets all of the definition that follows from the
 * query, and a new number.
 */
extern void sj_start_join(SjJoinDef *def, const SjJoinQuery *query);

#endif							/* SJ_JOIN_START_H */
