/*-------------------------------------------------------------------------
 *
 * privileges.h
 *	  What the owner of a join must be allowed to do (P2, P3).
 *
 * IDENTIFICATION
 *	  src/catalog/privileges.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_PRIVILEGES_H
#define SJ_PRIVILEGES_H

#include "sjoin.h"

#include "catalog/query_analysis.h"

/*
 * Error unless the current user may read all that the join reads: its inputs
 * past row security.
 */
extern void sj_check_input_privileges(const SjJoinQuery *query);

/* The owner of a relation that exists. */
extern Oid	sj_relation_owner(Oid relid);

/* Error unless the current user owns the relation. */
extern void sj_check_owner(Oid relid);

#endif							/* SJ_PRIVILEGES_H */
