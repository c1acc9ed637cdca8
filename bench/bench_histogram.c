/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of one observation: finding both buckets and adding. Prints one line of name=value data; run it on an
 * idle core. The observations are spread over four decades as durations of collectives are.
 */
#include "clock.h"
#include "histogram.h"

#include <math.h>
#include <stdio.h>

#define OBSERVATIONS 4096U /* a power of two; fits the first-level cache */
#define ROUNDS       5000U
#define REPEATS      5U

static double
measure(struct cs_histogram *histogram, const uint64_t *observations)
{
	double best = INFINITY;

	for (unsigned int repeat = 0; repeat < REPEATS; repeat++) {
		uint64_t start = cs_clock_monotonic_ns();
		double each;

		for (size_t i = 0; i < (size_t)OBSERVATIONS * ROUNDS; i++)
			cs_histogram_observe(histogram, observations[i % OBSERVATIONS]);
		each = (double)(cs_clock_monotonic_ns() - start) / ((double)OBSERVATIONS * ROUNDS);
		best = fmin(best, each);
	}
	return best;
}

int
main(void)
{
	static uint64_t spread[OBSERVATIONS];
	static uint64_t alike[OBSERVATIONS];
	struct cs_histogram *histogram = cs_histogram_new(&cs_histogram_collective_seconds);
	struct cs_histogram *other = cs_histogram_new(&cs_histogram_collective_seconds);
	uint64_t seed = 88172645463325252U;
	uint64_t start;
	double merge_ns;

	if (histogram == NULL || other == NULL)
		return 1;
	for (size_t i = 0; i < OBSERVATIONS; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		spread[i] = (uint64_t)(5000 * pow(10, 4 * (double)(seed >> 11) / 9007199254740992.0));
		alike[i] = 200000 + seed % 20000;
	}
	printf("observe_spread_ns=%.2f ", measure(histogram, spread));
	printf("observe_alike_ns=%.2f ", measure(histogram, alike));
	cs_histogram_merge(other, histogram);
	start = cs_clock_monotonic_ns();
	for (unsigned int i = 0; i < 100000; i++)
		cs_histogram_merge(other, histogram);
	merge_ns = (double)(cs_clock_monotonic_ns() - start) / 100000;
	printf("merge_ns=%.1f count=%llu\n", merge_ns, (unsigned long long)cs_histogram_count_total(other));
	cs_histogram_destroy(histogram);
	cs_histogram_destroy(other);
	return 0;
}
