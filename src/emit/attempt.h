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

/* Is the error one that a single row can cause, so that leaving it out helps? */
extern bool sj_error_is_of_row(int sqlerrcode);
/* The same where only expressions of the query are run, so that what they name
 * may be missing, too. */
extern bool sj_error_is_of_expression(int sqlerrcode);

/*
 * Runs action(arg) in a subtransaction.  NULL when it went well; when it threw
 * an error that 'is_caught' knows, that error, with the subtransaction rolled
 * back; other errors are thrown on.
 */
extern ErrorData *sj_attempt(void (*action) (void *arg), void *arg,
							 bool (*is_caught) (int sqlerrcode));

#endif							/* SJ_ATTEMPT_H */
