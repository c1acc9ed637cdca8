/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram that is at once a Prometheus classic histogram and a native (exponential) one of schema 3; both
 * exact for integer observations (nanoseconds, bytes, counts), mergeable, with the sum kept as an integer.
 *
 * Classic bucket i counts observations <= bounds[i]. Native bucket i of schema 3 covers (2^((i-1)/8),
 * 2^(i/8)] in the exposed unit (seconds, bytes, ...): Prometheus's own definition. Zero has its own bucket
 * (zero_threshold 0). An integer observation is compared with integer thresholds floor(2^(i/8) / scale), so
 * there is no rounding at edges.
 *
 * Thread context: none inside; the owner locks.
 */
#ifndef CS_HISTOGRAM_H
#define CS_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define CS_HISTOGRAM_SCHEMA      3
#define CS_HISTOGRAM_CLASSIC_MAX 48

struct cs_histogram_class {
	const char *unit_name; /* "seconds", "bytes", "" */
	double scale;          /* exposed value = observation * scale: 1e-9 for ns -> s, 1 for counts */
	size_t bound_count;    /* without +Inf */
	uint64_t bounds[CS_HISTOGRAM_CLASSIC_MAX];         /* in observation units, ascending */
	const char *bound_texts[CS_HISTOGRAM_CLASSIC_MAX]; /* canonical floats, as in le="..." */
};

/* Collective durations, waits, transfers: the bounds of docs/metrics.md, 5 us to 1 s. */
extern const struct cs_histogram_class cs_histogram_collective_seconds;
/* Step durations: 250 us to 10 s, in steps of at most 20 % from 1 to 250 ms, where those of servers are. */
extern const struct cs_histogram_class cs_histogram_step_seconds;
/* Collectives per step: 1 to 4096. */
extern const struct cs_histogram_class cs_histogram_count;

struct cs_histogram; /* opaque */

struct cs_histogram *cs_histogram_new(const struct cs_histogram_class *histogram_class); /* NULL: no memory */
void cs_histogram_destroy(struct cs_histogram *histogram);                               /* NULL is fine */

/* 0, or -ENOMEM (the observation is then not counted anywhere). */
int cs_histogram_observe(struct cs_histogram *histogram, uint64_t observation);
/* Adds `from` to `into`; both of one class, else -EINVAL. -ENOMEM leaves `into` as it was. */
int cs_histogram_merge(struct cs_histogram *into, const struct cs_histogram *from);
void cs_histogram_reset(struct cs_histogram *histogram);

const struct cs_histogram_class *cs_histogram_borrow_class(const struct cs_histogram *histogram);
uint64_t cs_histogram_count_total(const struct cs_histogram *histogram);
/* Sum in observation units; 128-bit inside, saturated here. */
uint64_t cs_histogram_sum(const struct cs_histogram *histogram);
/* Sum in the exposed unit. */
double cs_histogram_sum_scaled(const struct cs_histogram *histogram);
/* Cumulative count of classic bucket i; i == bound_count is +Inf. */
uint64_t cs_histogram_classic(const struct cs_histogram *histogram, size_t i);
uint64_t cs_histogram_zero_count(const struct cs_histogram *histogram);
/* Native buckets: first and last populated index; returns 0 when there are none, else 1. */
int cs_histogram_native_range(const struct cs_histogram *histogram, int *first, int *last);
uint64_t cs_histogram_native(const struct cs_histogram *histogram, int index);
/* Native bucket of an observation > 0 for a class. */
int cs_histogram_native_index(const struct cs_histogram_class *histogram_class, uint64_t observation);
/* Quantile 0..1 from the native buckets (geometric interpolation inside a bucket), in observation units; NAN
 * if empty. Relative error at most 2^(1/8) - 1 = 9 %. */
double cs_histogram_quantile(const struct cs_histogram *histogram, double q);

#endif
