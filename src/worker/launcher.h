/*-------------------------------------------------------------------------
 *
 * launcher.h
 *	  The process that starts workers where joins are.
 *
 * IDENTIFICATION
 *	  src/worker/launcher.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_LAUNCHER_H
#define SJ_LAUNCHER_H

#include "sjoin.h"

/* From _PG_init, while preloading. */
extern void sj_launcher_register(void);

/* Asks for a worker in the database, or wakes the one that it has; false when
 * there is no room for another database. */
extern bool sj_request_worker(Oid database);

#endif							/* SJ_LAUNCHER_H */
