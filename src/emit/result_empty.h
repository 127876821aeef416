/*-------------------------------------------------------------------------
 *
 * result_empty.h
 *	  Taking all rows out of a result.
 *
 * IDENTIFICATION
 *	  src/emit/result_empty.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_RESULT_EMPTY_H
#define SJ_RESULT_EMPTY_H

#include "sjoin.h"

/* Has the table no row now?  What is no plain table counts as empty. */
extern bool sj_result_is_empty(Oid relid);
/*
 * Empties the table as the current user, TRUNCATE and DELETE triggers
 * included; returns the number of rows.  Caller holds AccessExclusiveLock.
 */
extern int64 sj_result_empty(Oid relid);

#endif							/* SJ_RESULT_EMPTY_H */
