/*-------------------------------------------------------------------------
 *
 * guc.c
 *	  Settings: the sjoin.* parameters.
 *
 * IDENTIFICATION
 *	  src/guc.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "guc.h"
#include "miscadmin.h"
#include "utils/guc.h"

int			sj_state_memory = 262144;
int			sj_max_workers = 4;
int			sj_max_joins = 128;
int			sj_batch_interval = 5;
int			sj_batch_rows = 20000;
int			sj_watermark_delay = 5000;
int			sj_idle_timeout = 60000;
int			sj_max_future = 60000;
int			sj_wait_timeout = 30000;
int			sj_restart_delay = 1000;
int			sj_log_min_batch_duration = -1;
int			sj_log_segment_size = 64;

/* Settings of the shared memory and the processes, fixed at server start. */
static void
define_postmaster_settings(void)
{
	DefineCustomIntVariable("sjoin.state_memory",
							"Sets the shared memory for the state of joins.",
							NULL,
							&sj_state_memory,
							262144, 1024, 64 * 1024 * 1024 - 64,
							PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("sjoin.max_workers",
							"Sets the maximum number of sjoin worker processes.",
							"Each database with joins needs one; they are taken from max_worker_processes.",
							&sj_max_workers,
							4, 1, 1024,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("sjoin.max_joins",
							"Sets the maximum number of joins in all databases.",
							NULL,
							&sj_max_joins,
							128, 1, 65536,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
}

/* Settings of the worker's turns. */
static void
define_worker_settings(void)
{
	DefineCustomIntVariable("sjoin.batch_interval",
							"Sets how long to gather rows before a batch when they trickle in.",
							NULL,
							&sj_batch_interval,
							5, 0, 60000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("sjoin.batch_rows",
							"Sets the number of rows after which a batch ends.",
							"A transaction is never split; a larger one is a batch of its own.",
							&sj_batch_rows,
							20000, 1, INT_MAX,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("sjoin.restart_delay",
							"Sets the delay before a join or worker is tried again after an error.",
							"The delay doubles with each failure in a row, up to one minute.",
							&sj_restart_delay,
							1000, 1, 60000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("sjoin.log_min_batch_duration",
							"Sets the duration of a batch above which it is logged.",
							"0 logs all batches, -1 none.",
							&sj_log_min_batch_duration,
							-1, -1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("sjoin.log_segment_size",
							"Sets the size at which a segment of the event log is sealed.",
							NULL,
							&sj_log_segment_size,
							64, 1, 1024 * 1024,
							PGC_SIGHUP,
							GUC_UNIT_MB | GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE,
							NULL, NULL, NULL);
}

/* Defaults of streams, and wait_for. */
static void
define_stream_settings(void)
{
	DefineCustomIntVariable("sjoin.watermark_delay",
							"Sets how far the watermark of a stream stays behind the greatest event time seen.",
							"Default for streams that do not set their own.",
							&sj_watermark_delay,
							5000, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("sjoin.idle_timeout",
							"Sets the time without rows after which an input is idle.",
							"0 means never idle.  Default for streams that do not set their own.",
							&sj_idle_timeout,
							60000, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("sjoin.max_future",
							"Sets how far ahead of the clock a row may be and still move the watermark.",
							"-1 means no guard.  Default for streams that do not set their own.",
							&sj_max_future,
							60000, -1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("sjoin.wait_timeout",
							"Sets how long sjoin.wait_for waits.",
							"0 means without limit.",
							&sj_wait_timeout,
							30000, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
}

/*
 * Defines all settings; the ones fixed at server start only while preloading.
 */
void
sj_guc_init(void)
{
	if (process_shared_preload_libraries_in_progress)
		define_postmaster_settings();
	define_worker_settings();
	define_stream_settings();
	MarkGUCPrefixReserved("sjoin");
}
