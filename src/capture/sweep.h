/*-------------------------------------------------------------------------
 *
 * sweep.h
 *	  DELETE of many settled rows: retention.
 *
 * Private to src/capture.
 *
 * IDENTIFICATION
 *	  src/capture/sweep.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_SWEEP_H
#define SJ_SWEEP_H

#include "sjoin.h"

extern void sj_sweep_init(void);

#endif							/* SJ_SWEEP_H */
