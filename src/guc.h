/*-------------------------------------------------------------------------
 *
 * guc.h
 *	  Settings.
 *
 * IDENTIFICATION
 *	  src/guc.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_GUC_H
#define SJ_GUC_H

extern int	sj_state_memory;	/* kB */
extern int	sj_max_workers;
extern int	sj_max_joins;
extern int	sj_batch_interval;	/* ms */
extern int	sj_batch_rows;
extern int	sj_watermark_delay; /* ms */
extern int	sj_idle_timeout;	/* ms; 0: never idle */
extern int	sj_max_future;		/* ms; -1: no guard */
extern int	sj_wait_timeout;	/* ms; 0: none */
extern int	sj_restart_delay;	/* ms */
extern int	sj_log_min_batch_duration;	/* ms; -1: off */
extern int	sj_log_segment_size;	/* MB */

extern void sj_guc_init(void);

#endif							/* SJ_GUC_H */
