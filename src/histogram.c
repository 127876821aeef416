/*-------------------------------------------------------------------------
 *
 * histogram.c
 *	  How often lengths of time were seen, in fixed memory.
 *
 * IDENTIFICATION
 *	  src/histogram.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "histogram.h"
#include "port/pg_bitutils.h"

/* The bound of bucket 1 is 2^FIRST_POWER usec. */
#define FIRST_POWER		6

/*
 * The highest bit says which power of two, three comparisons with what is below
 * it which quarter: no logarithm, since this is done for each row.
 */
int
sj_bucket(int64 usec)
{
	/* 2^63 times 1, 2^(1/4), 2^(2/4), 2^(3/4) */
	static const uint64 quarter[] = {
		UINT64CONST(9223372036854775808), UINT64CONST(10968499650544839023),
		UINT64CONST(13043817825332782212), UINT64CONST(15511800964685064948)
	};
	int			power;
	uint64		scaled;
	int			bucket;

	if (usec <= 0)
		return 0;
	if (usec <= 1 << FIRST_POWER)
		return 1;
	power = pg_leftmost_one_pos64(usec);
	scaled = (uint64) usec << (63 - power);
	bucket = 1 + 4 * (power - FIRST_POWER) + (scaled > quarter[0]) +
		(scaled > quarter[1]) + (scaled > quarter[2]) + (scaled > quarter[3]);
	return Min(bucket, SJ_BUCKETS - 1);
}

double
sj_bucket_limit(int bucket)
{
	return bucket == 0 ? 0 : pow(2.0, FIRST_POWER + (bucket - 1) / 4.0);
}

void
sj_histogram_init(SjHistogram *histogram)
{
	for (int i = 0; i < SJ_BUCKETS; i++)
		pg_atomic_init_u64(&histogram->n[i], 0);
}

void
sj_histogram_add(SjHistogram *histogram, const SjTally *tally)
{
	for (int i = 0; i < SJ_BUCKETS; i++)
		if (tally->n[i] > 0)
			pg_atomic_fetch_add_u64(&histogram->n[i], tally->n[i]);
}

static int64
read_counts(SjHistogram *histogram, uint64 *n)
{
	uint64		total = 0;

	for (int i = 0; i < SJ_BUCKETS; i++)
		total += n[i] = histogram == NULL ? 0 :
			pg_atomic_read_u64(&histogram->n[i]);
	return (int64) total;
}

int64
sj_histogram_total(SjHistogram *histogram)
{
	uint64		n[SJ_BUCKETS];

	return read_counts(histogram, n);
}

bool
sj_percentile(SjHistogram *negative, SjHistogram *positive, double share,
			  double *usec)
{
	uint64		below[SJ_BUCKETS];
	uint64		above[SJ_BUCKETS];
	int64		total = read_counts(negative, below) +
	read_counts(positive, above);
	int64		wanted = (int64) ceil(share * total);
	int64		seen = 0;

	/* what lies in a negative bucket is at most its shorter end, negated */
	for (int i = SJ_BUCKETS - 1; i > 0; i--)
	{
		seen += below[i];
		*usec = 0 - sj_bucket_limit(i - 1);
		if (seen >= wanted && seen > 0)
			return true;
	}
	seen += below[0];
	for (int i = 0; i < SJ_BUCKETS; i++)
	{
		seen += above[i];
		*usec = sj_bucket_limit(i);
		if (seen >= wanted && seen > 0)
			return true;
	}
	return false;
}
