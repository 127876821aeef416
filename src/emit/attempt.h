/*-------------------------------------------------------------------------
 *
 * attempt.h
 *	  Running user code so that an error of one row does not end the batch.
 *
 * IDENTIFICATION
 *	  src/emit/attempt.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_ATTEMPT_H
#define SJ_ATTEMPT_H

#include "sjoin.h"

/* Is the error one that a row can cause on its way into the result, so that
 * leaving the row out helps? */
extern bool sj_error_is_of_row(const ErrorData *error);
/* The same for expressions of the query, which may name what is missing. */
extern bool sj_error_is_of_expression(const ErrorData *error);

/*
 * Runs action(arg) in a subtransaction.  NULL when it went well; when it threw
 * an error that 'is_caught' knows, that error, with the subtransaction rolled
 * back; other errors are thrown on.
 */
extern ErrorData *sj_attempt(void (*action) (void *arg), void *arg,
							 bool (*is_caught) (const ErrorData *error));

#endif							/* SJ_ATTEMPT_H */
