/*-------------------------------------------------------------------------
 *
 * sandbox.h
 *	  Running user code as the owner of a result, and as nobody else (A9, P6).
 *
 * IDENTIFICATION
 *	  src/worker/sandbox.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_SANDBOX_H
#define SJ_SANDBOX_H

#include "sjoin.h"

typedef struct SjSandbox
{
	Oid			saved_user;
	int			saved_context;
	int			guc_level;
} SjSandbox;

/*
 * From here on: the owner's rights, restricted operations, a safe search_path,
 * the join's time zone, ISO output.  An error ends it with the transaction.
 */
extern void sj_sandbox_enter(SjSandbox *sandbox, Oid owner,
							 const char *time_zone);
extern void sj_sandbox_leave(SjSandbox *sandbox);

#endif							/* SJ_SANDBOX_H */
