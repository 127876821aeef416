/*-------------------------------------------------------------------------
 *
 * histogram_test.c
 *	  Buckets against their bounds, and percentiles against a sorted array.
 *
 * IDENTIFICATION
 *	  test/module/histogram_test.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "common/pg_prng.h"
#include "fmgr.h"
#include "histogram.h"

PG_FUNCTION_INFO_V1(sj_test_histogram_buckets);
PG_FUNCTION_INFO_V1(sj_test_histogram_percentiles);

#define MAX_SAMPLES	500

/* A length of time and what is a microsecond longer, at each bound. */
Datum
sj_test_histogram_buckets(PG_FUNCTION_ARGS)
{
	if (sj_bucket(PG_INT64_MIN) != 0 || sj_bucket(0) != 0 ||
		sj_bucket(1) != 1 || sj_bucket(PG_INT64_MAX) != SJ_BUCKETS - 1)
		elog(ERROR, "wrong bucket at an end");
	for (int i = 1; i < SJ_BUCKETS; i++)
	{
		int64		limit = (int64) floor(sj_bucket_limit(i));

		if (sj_bucket(limit) != i ||
			sj_bucket(limit + 1) != Min(i + 1, SJ_BUCKETS - 1))
			elog(ERROR, INT64_FORMAT " is in bucket %d, the next one in %d",
				 limit, sj_bucket(limit), sj_bucket(limit + 1));
	}
	PG_RETURN_VOID();
}

static int
compare_usec(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}

/* What a percentile may be said to be, when it is 'usec'. */
static bool
fits(double said, int64 usec)
{
	if (usec > 0)
		return said >= usec && said <= Max(64, usec * 1.1893);
	return said >= usec && said <= Min(0, usec / 1.1893 + 64);
}

static void
run_round(uint64 seed, SjHistogram *negative, SjHistogram *positive)
{
	SjTally		below = {{0}};
	SjTally		above = {{0}};
	int64		sample[MAX_SAMPLES];
	pg_prng_state prng;
	int			n;
	double		usec;

	pg_prng_seed(&prng, seed);
	n = (int) pg_prng_uint64_range(&prng, 1, MAX_SAMPLES);
	for (int i = 0; i < n; i++)
	{
		int64		usec = (int64) (pg_prng_uint64(&prng) >>
									pg_prng_uint64_range(&prng, 20, 63));

		sample[i] = pg_prng_bool(&prng) ? usec : -usec;
		if (sample[i] < 0)
			below.n[sj_bucket(-sample[i])]++;
		else
			above.n[sj_bucket(sample[i])]++;
	}
	qsort(sample, n, sizeof(int64), compare_usec);
	sj_histogram_init(negative);
	sj_histogram_init(positive);
	if (sj_percentile(negative, positive, 0.5, &usec))
		elog(ERROR, "an empty histogram has a median");
	sj_histogram_add(negative, &below);
	sj_histogram_add(positive, &above);
	for (int percent = 1; percent <= 100; percent++)
	{
		int64		exact = sample[(int) ceil(percent / 100.0 * n) - 1];

		if (!sj_percentile(negative, positive, percent / 100.0, &usec) ||
			!fits(usec, exact))
			elog(ERROR, "seed " UINT64_FORMAT ": percentile %d is %f, should be " INT64_FORMAT,
				 seed, percent, usec, exact);
	}
}

/* histogram_percentiles(seed bigint, rounds int) RETURNS void */
Datum
sj_test_histogram_percentiles(PG_FUNCTION_ARGS)
{
	SjHistogram *negative = palloc(sizeof(SjHistogram));
	SjHistogram *positive = palloc(sizeof(SjHistogram));

	for (int32 i = 0; i < PG_GETARG_INT32(1); i++)
		run_round((uint64) PG_GETARG_INT64(0) + i, negative, positive);
	PG_RETURN_VOID();
}
