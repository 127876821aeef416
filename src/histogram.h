/*-------------------------------------------------------------------------
 *
 * histogram.h
 *	  How often lengths of time were seen, in fixed memory.
 *
 * Bounds of the buckets grow by 2^(1/4) from 64 microseconds to a year and a
 * half: what is read out is at most 19 % too long.  Bucket 0 is "no time at
 * all"; the last one takes whatever is longer.
 *
 * Who counts for a while collects in an SjTally of its own and adds that to an
 * SjHistogram, which others may read meanwhile.  Signed lengths take two, one
 * for each sign.
 *
 * IDENTIFICATION
 *	  src/histogram.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SJ_HISTOGRAM_H
#define SJ_HISTOGRAM_H

#include "sjoin.h"

#include "port/atomics.h"

#define SJ_BUCKETS		160

/* One process's counts; all zero is empty. */
typedef struct SjTally
{
	uint32		n[SJ_BUCKETS];
} SjTally;

/* Counts in shared memory: one process adds, anyone reads. */
typedef struct SjHistogram
{
	pg_atomic_uint64 n[SJ_BUCKETS];
} SjHistogram;

/* Bucket of a length of time in usec; a negative one counts as 0. */
extern int	sj_bucket(int64 usec);
/* The longest time of a bucket, in usec. */
extern double sj_bucket_limit(int bucket);

extern void sj_histogram_init(SjHistogram *histogram);
extern void sj_histogram_add(SjHistogram *histogram, const SjTally *tally);
extern int64 sj_histogram_total(SjHistogram *histogram);

/*
 * Length of time, in usec, that a share (0 < share <= 1) of what was seen does
 * not exceed; those of 'negative' (or NULL) count as that much below zero.
 * False when nothing was seen.
 */
extern bool sj_percentile(SjHistogram *negative, SjHistogram *positive,
						  double share, double *usec);

#endif							/* SJ_HISTOGRAM_H */
