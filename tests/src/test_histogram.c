/* SPDX-License-Identifier: Apache-2.0 */
#include "histogram.h"

#include "histogram_edges.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const struct cs_histogram_class *
class_for(uint64_t units)
{
	return units == 1 ? &cs_histogram_count : &cs_histogram_collective_seconds;
}

/* Every edge of both scales against integers of any length: the last observation inside, the first outside.
 */
static void
test_edges_are_exact(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(edges); i++) {
		const struct cs_histogram_class *histogram_class = class_for(edges[i].units);
		uint64_t threshold = edges[i].threshold;

		/* Small edges may hold no integer of their own: then the bucket before has the same one. */
		if (i == 0 || edges[i - 1].units != edges[i].units || edges[i - 1].threshold < threshold)
			assert_int_equal(
				cs_histogram_native_index(histogram_class, threshold), edges[i].index);
		if (threshold < UINT64_MAX)
			assert_true(
				cs_histogram_native_index(histogram_class, threshold + 1) > edges[i].index);
	}
}

/* Another way to the same answer, from the definition: ceil(8 * log2(value)), away from the edges. */
static void
test_index_by_logarithm(void **state)
{
	uint64_t observation = 1;

	(void)state;
	for (unsigned int i = 0; i < 200000; i++) {
		long double exact = 8 * log2l((long double)observation / 1e9L);
		long double near = fabsl(exact - roundl(exact));

		if (near > 1e-12L)
			assert_int_equal(
				cs_histogram_native_index(&cs_histogram_collective_seconds, observation),
				(int)ceill(exact));
		observation = observation * 6364136223846793005U + 1442695040888963407U;
		observation >>= i % 60;
		if (observation == 0)
			observation = 1;
	}
}

/* Values worked out by hand from Prometheus's definition: bucket i is (2^((i-1)/8), 2^(i/8)]. */
static void
test_index_by_hand(void **state)
{
	static const struct {
		uint64_t observation_ns;
		int index;
	} rows[] = {
		{1000000000, 0},                  /* 1 s = 2^0, the end of bucket 0 */
		{1000000001, 1},                  /* just over */
		{2000000000, 8},                  /* 2 s = 2^(8/8) */
		{1090507732, 1},                  /* 2^(1/8) = 1.090507732665... */
		{1090507733, 2}, {500000000, -8}, /* 2^-1 */
		{125000000, -24},                 /* 2^-3 */
		{200000, -98},                    /* 8 * log2(0.0002) = -98.3 */
		{43008, -116},                    /* 8 * log2(4.3008e-05) = -116.04 */
		{1, -239},                        /* 8 * log2(1e-9) = -239.2 */
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		assert_int_equal(
			cs_histogram_native_index(&cs_histogram_collective_seconds, rows[i].observation_ns),
			rows[i].index);
	assert_int_equal(cs_histogram_native_index(&cs_histogram_count, 1), 0);
	assert_int_equal(cs_histogram_native_index(&cs_histogram_count, 2), 8);
	assert_int_equal(cs_histogram_native_index(&cs_histogram_count, 3), 13); /* 8 * log2(3) = 12.7 */
	assert_int_equal(cs_histogram_native_index(&cs_histogram_count, UINT64_MAX), 512);
	assert_int_equal(cs_histogram_native_index(&cs_histogram_collective_seconds, UINT64_MAX), 273);
}

static void
check_class(const struct cs_histogram_class *histogram_class, size_t bound_count)
{
	struct cs_histogram *histogram = cs_histogram_new(histogram_class);

	assert_non_null(histogram);
	assert_ptr_equal(cs_histogram_borrow_class(histogram), histogram_class);
	assert_int_equal(histogram_class->bound_count, bound_count);
	for (size_t i = 0; i < bound_count; i++) {
		uint64_t bound = histogram_class->bounds[i];

		/* The text is the bound in the exposed unit, and has a point or an exponent. */
		assert_true(fabs(strtod(histogram_class->bound_texts[i], NULL) /
					    ((double)bound * histogram_class->scale) -
				    1) < 1e-12);
		assert_non_null(strpbrk(histogram_class->bound_texts[i], ".e"));
		/* At the bound: inside (le). One more: outside. */
		cs_histogram_reset(histogram);
		assert_int_equal(cs_histogram_observe(histogram, bound), 0);
		assert_int_equal(cs_histogram_classic(histogram, i), 1);
		assert_int_equal(i == 0 ? 0 : cs_histogram_classic(histogram, i - 1), 0);
		cs_histogram_reset(histogram);
		assert_int_equal(cs_histogram_observe(histogram, bound + 1), 0);
		assert_int_equal(cs_histogram_classic(histogram, i), 0);
		assert_int_equal(cs_histogram_classic(histogram, i + 1), 1);
	}
	cs_histogram_destroy(histogram);
}

static void
test_classes(void **state)
{
	(void)state;
	check_class(&cs_histogram_collective_seconds, 20);
	check_class(&cs_histogram_step_seconds, 48);
	check_class(&cs_histogram_count, 17);
	assert_int_equal(cs_histogram_collective_seconds.bounds[0], 5000);
	assert_int_equal(cs_histogram_collective_seconds.bounds[19], 1000000000);
	assert_int_equal(cs_histogram_step_seconds.bounds[0], 250000);
	assert_int_equal(cs_histogram_step_seconds.bounds[47], 10000000000);
	assert_int_equal(cs_histogram_count.bounds[0], 1);
	assert_int_equal(cs_histogram_count.bounds[16], 4096);
}

/* Fine where the steps of servers are; and what somebody selects by le since the first version stays. */
static void
test_step_bounds(void **state)
{
	static const uint64_t first_version_us[] = {250, 500, 1000, 2500, 5000, 7500, 10000, 15000, 20000,
		25000, 30000, 40000, 50000, 75000, 100000, 250000, 500000, 1000000, 2500000, 10000000};
	const struct cs_histogram_class *steps = &cs_histogram_step_seconds;
	size_t fine = 0;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(first_version_us); i++) {
		size_t at = 0;

		while (at < steps->bound_count && steps->bounds[at] != first_version_us[i] * 1000)
			at++;
		assert_true(at < steps->bound_count);
	}
	for (size_t i = 1; i < steps->bound_count; i++) {
		if (steps->bounds[i] <= 1000000 || steps->bounds[i] > 250000000)
			continue;
		assert_true(steps->bounds[i] * 5 <= steps->bounds[i - 1] * 6);
		fine++;
	}
	assert_int_equal(fine, 39);
}

static void
test_empty(void **state)
{
	struct cs_histogram *histogram = cs_histogram_new(&cs_histogram_collective_seconds);
	int first = 1;
	int last = 2;

	(void)state;
	assert_int_equal(cs_histogram_count_total(histogram), 0);
	assert_int_equal(cs_histogram_sum(histogram), 0);
	assert_int_equal(cs_histogram_native_range(histogram, &first, &last), 0);
	assert_int_equal(cs_histogram_native(histogram, 0), 0);
	assert_int_equal(cs_histogram_classic(histogram, 20), 0);
	assert_true(isnan(cs_histogram_quantile(histogram, 0.5)));
	cs_histogram_destroy(histogram);
	cs_histogram_destroy(NULL);
}

static void
test_edge_values(void **state)
{
	struct cs_histogram *histogram = cs_histogram_new(&cs_histogram_collective_seconds);
	int first;
	int last;

	(void)state;
	assert_int_equal(cs_histogram_observe(histogram, 0), 0);
	assert_int_equal(cs_histogram_zero_count(histogram), 1);
	assert_int_equal(cs_histogram_native_range(histogram, &first, &last), 0);
	assert_int_equal(cs_histogram_classic(histogram, 0), 1);
	assert_true(cs_histogram_quantile(histogram, 0.9) == 0);
	assert_int_equal(cs_histogram_observe(histogram, UINT64_MAX), 0);
	assert_int_equal(cs_histogram_observe(histogram, 1), 0);
	assert_int_equal(cs_histogram_native_range(histogram, &first, &last), 1);
	assert_int_equal(first, -239);
	assert_int_equal(last, 273);
	assert_int_equal(cs_histogram_native(histogram, 273), 1);
	assert_int_equal(cs_histogram_native(histogram, INT32_MIN / 2), 0);
	assert_int_equal(cs_histogram_native(histogram, INT32_MAX / 2), 0);
	assert_int_equal(cs_histogram_classic(histogram, 19), 2);
	assert_int_equal(cs_histogram_classic(histogram, 20), 3);
	assert_int_equal(cs_histogram_count_total(histogram), 3);
	/* 128 bits inside, saturated outside. */
	assert_int_equal(cs_histogram_sum(histogram), UINT64_MAX);
	assert_int_equal(cs_histogram_observe(histogram, UINT64_MAX), 0);
	assert_int_equal(cs_histogram_sum(histogram), UINT64_MAX);
	assert_true(fabs(cs_histogram_sum_scaled(histogram) / (2 * 18446744073.709551615) - 1) < 1e-15);
	cs_histogram_reset(histogram);
	assert_int_equal(cs_histogram_count_total(histogram), 0);
	assert_int_equal(cs_histogram_sum(histogram), 0);
	assert_int_equal(cs_histogram_zero_count(histogram), 0);
	assert_int_equal(cs_histogram_native_range(histogram, &first, &last), 0);
	assert_int_equal(cs_histogram_classic(histogram, 20), 0);
	cs_histogram_destroy(histogram);
}

static void
test_sum_is_exact(void **state)
{
	struct cs_histogram *histogram = cs_histogram_new(&cs_histogram_collective_seconds);

	(void)state;
	/* In doubles 2^53 + 1 is lost. */
	cs_histogram_observe(histogram, (uint64_t)1 << 53);
	cs_histogram_observe(histogram, 1);
	assert_int_equal(cs_histogram_sum(histogram), ((uint64_t)1 << 53) + 1);
	cs_histogram_reset(histogram);
	cs_histogram_observe(histogram, 1);
	/* Nearest double to 10^-9, what strtod makes of it. */
	assert_true(cs_histogram_sum_scaled(histogram) == 1e-9);
	cs_histogram_destroy(histogram);
}

static uint64_t seed;

static uint64_t
random_observation(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	/* All magnitudes alike, zero now and then. */
	return seed >> (seed & 63) >> (seed % 7 == 0);
}

/* Both kinds of buckets against counting by hand, the merge of two halves against the whole. */
static void
test_properties(void **state)
{
	enum { OBSERVATIONS = 5000 };
	static uint64_t observations[OBSERVATIONS];
	const struct cs_histogram_class *histogram_class = &cs_histogram_step_seconds;
	struct cs_histogram *whole = cs_histogram_new(histogram_class);
	struct cs_histogram *half[2] = {cs_histogram_new(histogram_class), cs_histogram_new(histogram_class)};
	uint64_t native_total = 0;
	int first;
	int last;

	(void)state;
	seed = 88172645463325252U;
	for (size_t i = 0; i < OBSERVATIONS; i++) {
		observations[i] = random_observation();
		assert_int_equal(cs_histogram_observe(whole, observations[i]), 0);
		assert_int_equal(cs_histogram_observe(half[i & 1], observations[i]), 0);
	}
	for (size_t bound = 0; bound <= histogram_class->bound_count; bound++) {
		uint64_t expected = 0;

		for (size_t i = 0; i < OBSERVATIONS; i++)
			expected += bound == histogram_class->bound_count ||
				    observations[i] <= histogram_class->bounds[bound];
		assert_int_equal(cs_histogram_classic(whole, bound), expected);
	}
	assert_int_equal(cs_histogram_native_range(whole, &first, &last), 1);
	assert_true(cs_histogram_native(whole, first) > 0 && cs_histogram_native(whole, last) > 0);
	for (size_t e = 0; e < COUNT_OF(edges); e++) {
		uint64_t expected = 0;
		uint64_t below = e > 0 && edges[e - 1].units == edges[e].units ? edges[e - 1].threshold : 0;

		if (edges[e].units == 1)
			break;
		for (size_t i = 0; i < OBSERVATIONS; i++)
			expected += observations[i] > below && observations[i] <= edges[e].threshold;
		assert_int_equal(cs_histogram_native(whole, edges[e].index), expected);
	}
	assert_int_equal(cs_histogram_merge(half[0], half[1]), 0);
	for (int i = first - 20; i <= last + 20; i++) {
		native_total += cs_histogram_native(whole, i);
		assert_int_equal(cs_histogram_native(half[0], i), cs_histogram_native(whole, i));
	}
	assert_int_equal(native_total + cs_histogram_zero_count(whole), OBSERVATIONS);
	for (size_t bound = 0; bound <= histogram_class->bound_count; bound++)
		assert_int_equal(cs_histogram_classic(half[0], bound), cs_histogram_classic(whole, bound));
	assert_int_equal(cs_histogram_zero_count(half[0]), cs_histogram_zero_count(whole));
	assert_int_equal(cs_histogram_count_total(half[0]), OBSERVATIONS);
	assert_true(cs_histogram_sum_scaled(half[0]) == cs_histogram_sum_scaled(whole));
	cs_histogram_destroy(whole);
	cs_histogram_destroy(half[0]);
	cs_histogram_destroy(half[1]);
}

static void
test_merge_of_classes(void **state)
{
	struct cs_histogram *seconds = cs_histogram_new(&cs_histogram_step_seconds);
	struct cs_histogram *count = cs_histogram_new(&cs_histogram_count);

	(void)state;
	cs_histogram_observe(count, 5);
	assert_int_equal(cs_histogram_merge(seconds, count), -EINVAL);
	assert_int_equal(cs_histogram_count_total(seconds), 0);
	/* Into an empty one, and of an empty one. */
	cs_histogram_destroy(seconds);
	seconds = cs_histogram_new(&cs_histogram_count);
	assert_int_equal(cs_histogram_merge(seconds, count), 0);
	assert_int_equal(cs_histogram_native(seconds, 19), 1); /* 8 * log2(5) = 18.6 */
	cs_histogram_reset(count);
	assert_int_equal(cs_histogram_merge(seconds, count), 0);
	assert_int_equal(cs_histogram_count_total(seconds), 1);
	cs_histogram_destroy(seconds);
	cs_histogram_destroy(count);
}

static void
test_unsound_classes(void **state)
{
	static const struct cs_histogram_class odd_scale = {.unit_name = "", .scale = 3, .bound_count = 0};
	static const struct cs_histogram_class descending = {.unit_name = "",
		.scale = 1,
		.bound_count = 2,
		.bounds = {2, 1},
		.bound_texts = {"2.0", "1.0"}};

	(void)state;
	assert_null(cs_histogram_new(&odd_scale));
	assert_int_equal(errno, EINVAL);
	assert_null(cs_histogram_new(&descending));
	assert_int_equal(errno, EINVAL);
}

static int
by_size(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a;
	uint64_t right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

/* Within one bucket's width of the true order statistic. */
static void
test_quantiles(void **state)
{
	enum { OBSERVATIONS = 10001 };
	static uint64_t observations[OBSERVATIONS];
	static const double quantiles[] = {0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1};
	struct cs_histogram *histogram = cs_histogram_new(&cs_histogram_collective_seconds);
	const double width = pow(2, 1.0 / 8) * (1 + 1e-9);

	(void)state;
	seed = 2463534242U;
	for (size_t i = 0; i < OBSERVATIONS; i++) {
		observations[i] = 5000 + random_observation() % 1000000;
		cs_histogram_observe(histogram, observations[i]);
	}
	qsort(observations, OBSERVATIONS, sizeof(observations[0]), by_size);
	for (size_t i = 0; i < COUNT_OF(quantiles); i++) {
		double truth = (double)observations[(size_t)(quantiles[i] * (OBSERVATIONS - 1))];
		double found = cs_histogram_quantile(histogram, quantiles[i]);

		assert_true(found <= truth * width && found >= truth / width);
	}
	assert_true(cs_histogram_quantile(histogram, -1) == cs_histogram_quantile(histogram, 0));
	assert_true(cs_histogram_quantile(histogram, 2) == cs_histogram_quantile(histogram, 1));
	assert_true(isnan(cs_histogram_quantile(histogram, NAN)));
	cs_histogram_destroy(histogram);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_edges_are_exact),
		cmocka_unit_test(test_index_by_logarithm),
		cmocka_unit_test(test_index_by_hand),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_step_bounds),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_edge_values),
		cmocka_unit_test(test_sum_is_exact),
		cmocka_unit_test(test_properties),
		cmocka_unit_test(test_merge_of_classes),
		cmocka_unit_test(test_unsound_classes),
		cmocka_unit_test(test_quantiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
