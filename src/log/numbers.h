/*-------------------------------------------------------------------------
 *
 * numbers.h
 *	  Sequence numbers of log records.
 *
 * IDENTIFICATION
 *	  src/log/numbers.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_NUMBERS_H
#define SJ_NUMBERS_H

#include "sjoin.h"

/*
 * The first of 'count' consecutive numbers, all greater than any given out
 * before, by whomever; 0 where the extension is not installed.  Assigns a
 * transaction id.
 */
extern int64 sj_numbers_take(int64 count);

#endif							/* SJ_NUMBERS_H */
