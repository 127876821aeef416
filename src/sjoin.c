/*-------------------------------------------------------------------------
 *
 * sjoin.c
 *	  The library's entry point.
 *
 * IDENTIFICATION
 *	  src/sjoin.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "api/api.h"
#include "capture/capture.h"
#include "fmgr.h"
#include "guc.h"
#include "miscadmin.h"
#include "shmem.h"
#include "worker/launcher.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

/*
 * Without preloading there is no shared memory and no worker; capture works
 * all the same, so that a writer is never refused.
 */
void
_PG_init(void)
{
	sj_guc_init();
	sj_capture_init();
	sj_api_init();
	if (!process_shared_preload_libraries_in_progress)
		return;
	sj_shmem_init();
	sj_launcher_register();
}
