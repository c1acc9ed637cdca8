/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bucket edges. Native bucket i of schema 3 ends at 2^(i/8) in the exposed unit, that is at 2^(i/8) * units
 * in observations, where units = 1 / scale (10^9 for nanoseconds shown as seconds). An integer observation
 * lies at or below that edge exactly when it is at most T(i) = floor(2^(i/8) * units), the largest T with
 *
 *         T^8 <= 2^i * units^8
 *
 * which is a question about integers. powl gives an estimate; multi-word integers decide.
 *
 * Finding the bucket: the position of the highest set bit names an octave, an octave has eight edges, so
 * eight independent comparisons do. Classic buckets follow from the native one, which meets one bound at most
 * as a rule.
 *
 * The tables are made once for each scale and each class and live as long as the process.
 */
#include "histogram.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define PER_OCTAVE (1 << CS_HISTOGRAM_SCHEMA)
/* Observations are 1 ... 2^64 - 1 and units at most 10^9 < 2^30: edges from 2^-30 to 2^64. */
#define INDEX_MIN   (-30 * PER_OCTAVE)
#define INDEX_MAX   (64 * PER_OCTAVE)
#define INDEX_COUNT (INDEX_MAX - INDEX_MIN + 1)
/* Native buckets are allocated in runs of this many. */
#define GROWTH 16

const struct cs_histogram_class cs_histogram_collective_seconds = {
	.unit_name = "seconds",
	.scale = 1e-9,
	.bound_count = 20,
	.bounds = {5000, 10000, 20000, 30000, 50000, 75000, 100000, 150000, 200000, 250000, 300000, 400000,
		500000, 750000, 1000000, 2500000, 5000000, 10000000, 100000000, 1000000000},
	.bound_texts = {"5e-06", "1e-05", "2e-05", "3e-05", "5e-05", "7.5e-05", "0.0001", "0.00015", "0.0002",
		"0.00025", "0.0003", "0.0004", "0.0005", "0.00075", "0.001", "0.0025", "0.005", "0.01", "0.1",
		"1.0"},
};

const struct cs_histogram_class cs_histogram_step_seconds = {
	.unit_name = "seconds",
	.scale = 1e-9,
	.bound_count = 48,
	.bounds = {250000, 500000, 700000, 1000000, 1200000, 1400000, 1600000, 1900000, 2200000, 2500000,
		3000000, 3500000, 4200000, 5000000, 5750000, 6500000, 7500000, 8750000, 10000000, 11500000,
		13000000, 15000000, 17500000, 20000000, 22500000, 25000000, 27500000, 30000000, 35000000,
		40000000, 45000000, 50000000, 57500000, 65000000, 75000000, 87500000, 100000000, 120000000,
		140000000, 160000000, 190000000, 220000000, 250000000, 350000000, 500000000, 1000000000,
		2500000000, 10000000000},
	.bound_texts = {"0.00025", "0.0005", "0.0007", "0.001", "0.0012", "0.0014", "0.0016", "0.0019",
		"0.0022", "0.0025", "0.003", "0.0035", "0.0042", "0.005", "0.00575", "0.0065", "0.0075",
		"0.00875", "0.01", "0.0115", "0.013", "0.015", "0.0175", "0.02", "0.0225", "0.025", "0.0275",
		"0.03", "0.035", "0.04", "0.045", "0.05", "0.0575", "0.065", "0.075", "0.0875", "0.1", "0.12",
		"0.14", "0.16", "0.19", "0.22", "0.25", "0.35", "0.5", "1.0", "2.5", "10.0"},
};

const struct cs_histogram_class cs_histogram_count = {
	.unit_name = "",
	.scale = 1,
	.bound_count = 17,
	.bounds = {1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096},
	.bound_texts = {"1.0", "2.0", "4.0", "8.0", "16.0", "32.0", "48.0", "64.0", "96.0", "128.0", "192.0",
		"256.0", "384.0", "512.0", "1024.0", "2048.0", "4096.0"},
};

/* Edges for one scale. */
struct edges {
	uint64_t units;
	uint64_t threshold[INDEX_COUNT + PER_OCTAVE]; /* T(INDEX_MIN + i); the tail is UINT64_MAX */
	int16_t first[64];                            /* bucket of 2^bit, less INDEX_MIN */
	bool ready;
};

/* What observing needs, for one class. */
struct plan {
	const struct cs_histogram_class *histogram_class;
	const struct edges *edges;
	struct plan *next;
	uint8_t classic[INDEX_COUNT]; /* classic bucket of the least observation of a native one */
};

struct cs_histogram {
	const struct plan *plan;
	unsigned __int128 sum;
	uint64_t count;
	uint64_t zero;
	uint64_t *native; /* buckets native_first ... native_first + native_count - 1 */
	int native_first;
	int native_count;
	uint64_t classic[]; /* bound_count + 1, not cumulative */
};

static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;
static struct edges tables[] = {{.units = 1}, {.units = 1000}, {.units = 1000000}, {.units = 1000000000}};
static struct plan *plans;

/* -- exact edges ----------------------------------------------------------------------------------------- */

/* T^8 takes 512 bits, 2^64 * (10^9)^8 takes 304, and the two sides are shifted by at most 240. */
#define WORDS 28
struct wide {
	uint32_t word[WORDS]; /* little end first */
};

static void
wide_multiply(struct wide *wide, uint32_t factor)
{
	uint64_t carry = 0;

	for (size_t i = 0; i < WORDS; i++) {
		carry += (uint64_t)wide->word[i] * factor;
		wide->word[i] = (uint32_t)carry;
		carry >>= 32;
	}
}

static void
wide_multiply_64(struct wide *wide, uint64_t factor)
{
	struct wide high = *wide;
	uint64_t carry = 0;

	wide_multiply(wide, (uint32_t)factor);
	wide_multiply(&high, (uint32_t)(factor >> 32));
	for (size_t i = 1; i < WORDS; i++) {
		carry += (uint64_t)wide->word[i] + high.word[i - 1];
		wide->word[i] = (uint32_t)carry;
		carry >>= 32;
	}
}

static void
wide_shift(struct wide *wide, unsigned int bits)
{
	for (; bits >= 31; bits -= 31)
		wide_multiply(wide, 1U << 31);
	wide_multiply(wide, 1U << bits);
}

static struct wide
wide_eighth_power(uint64_t base, unsigned int shift)
{
	struct wide wide = {{1}};

	for (int i = 0; i < 8; i++)
		wide_multiply_64(&wide, base);
	wide_shift(&wide, shift);
	return wide;
}

static int
wide_compare(const struct wide *a, const struct wide *b)
{
	for (size_t i = WORDS; i-- > 0;) {
		if (a->word[i] != b->word[i])
			return a->word[i] < b->word[i] ? -1 : 1;
	}
	return 0;
}

/* T^8 <= 2^index * units^8? */
static bool
at_or_below(uint64_t candidate, int index, uint64_t units)
{
	struct wide left = wide_eighth_power(candidate, index < 0 ? (unsigned int)-index : 0);
	struct wide right = wide_eighth_power(units, index < 0 ? 0 : (unsigned int)index);

	return wide_compare(&left, &right) <= 0;
}

static uint64_t
exact_threshold(int index, uint64_t units)
{
	long double estimate = floorl(powl(2, (long double)index / PER_OCTAVE) * (long double)units);
	uint64_t threshold = UINT64_MAX;

	if (estimate < 0x1p64L)
		threshold = (uint64_t)estimate;
	while (threshold > 0 && !at_or_below(threshold, index, units))
		threshold--;
	while (threshold < UINT64_MAX && at_or_below(threshold + 1, index, units))
		threshold++;
	return threshold;
}

static void
fill_edges(struct edges *edges)
{
	bool over = false;
	int bucket = 0;

	for (int i = 0; i < INDEX_COUNT; i++) {
		/* Once over 2^64 every edge is: no observation gets there. */
		edges->threshold[i] = over ? UINT64_MAX : exact_threshold(INDEX_MIN + i, edges->units);
		over = edges->threshold[i] == UINT64_MAX;
	}
	for (int i = INDEX_COUNT; i < INDEX_COUNT + PER_OCTAVE; i++)
		edges->threshold[i] = UINT64_MAX;
	for (int bit = 0; bit < 64; bit++) {
		while (edges->threshold[bucket] < (uint64_t)1 << bit)
			bucket++;
		edges->first[bit] = (int16_t)bucket;
	}
	edges->ready = true;
}

/* Lock held. NULL when the scale is none of ours. */
static const struct edges *
borrow_edges(double scale)
{
	for (size_t i = 0; i < COUNT_OF(tables); i++) {
		double units = 1 / scale;

		if (fabs(units - (double)tables[i].units) > 1e-6 * units)
			continue;
		if (!tables[i].ready)
			fill_edges(&tables[i]);
		return &tables[i];
	}
	return NULL;
}

/* Bucket less INDEX_MIN of an observation > 0. */
static inline int
find_native(const struct edges *edges, uint64_t observation)
{
	int bucket = edges->first[63 - __builtin_clzll(observation)];
	const uint64_t *threshold = edges->threshold + bucket;

	for (int i = 0; i < PER_OCTAVE; i++)
		bucket += observation > threshold[i];
	return bucket;
}

/* -- plans ----------------------------------------------------------------------------------------------- */

static bool
class_is_sound(const struct cs_histogram_class *histogram_class)
{
	if (histogram_class->bound_count > CS_HISTOGRAM_CLASSIC_MAX || !(histogram_class->scale > 0))
		return false;
	for (size_t i = 1; i < histogram_class->bound_count; i++) {
		if (histogram_class->bounds[i] <= histogram_class->bounds[i - 1])
			return false;
	}
	return true;
}

static struct plan *
new_plan(const struct cs_histogram_class *histogram_class)
{
	const struct edges *edges =
		class_is_sound(histogram_class) ? borrow_edges(histogram_class->scale) : NULL;
	struct plan *plan;
	size_t bound = 0;

	if (edges == NULL) {
		errno = EINVAL;
		return NULL;
	}
	plan = calloc(1, sizeof(*plan));
	if (plan == NULL)
		return NULL;
	plan->histogram_class = histogram_class;
	plan->edges = edges;
	for (int i = 0; i < INDEX_COUNT; i++) {
		uint64_t least = i == 0 ? 1 : edges->threshold[i - 1] + 1;

		if (least == 0) /* over the range */
			least = UINT64_MAX;
		while (bound < histogram_class->bound_count && least > histogram_class->bounds[bound])
			bound++;
		plan->classic[i] = (uint8_t)bound;
	}
	return plan;
}

static const struct plan *
borrow_plan(const struct cs_histogram_class *histogram_class)
{
	struct plan *plan;

	pthread_mutex_lock(&tables_lock);
	for (plan = plans; plan != NULL; plan = plan->next) {
		if (plan->histogram_class == histogram_class)
			goto out;
	}
	plan = new_plan(histogram_class);
	if (plan != NULL) {
		plan->next = plans;
		plans = plan;
	}
out:
	pthread_mutex_unlock(&tables_lock);
	return plan;
}

/* -- histograms ------------------------------------------------------------------------------------------ */

static size_t
classic_bytes(const struct cs_histogram_class *histogram_class)
{
	return (histogram_class->bound_count + 1) * sizeof(((struct cs_histogram *)NULL)->classic[0]);
}

struct cs_histogram *
cs_histogram_new(const struct cs_histogram_class *histogram_class)
{
	const struct plan *plan = borrow_plan(histogram_class);
	struct cs_histogram *histogram;

	if (plan == NULL)
		return NULL;
	histogram = calloc(1, sizeof(*histogram) + classic_bytes(histogram_class));
	if (histogram != NULL)
		histogram->plan = plan;
	return histogram;
}

void
cs_histogram_destroy(struct cs_histogram *histogram)
{
	if (histogram == NULL)
		return;
	free(histogram->native);
	free(histogram);
}

/* Makes buckets first ... last exist. */
static int
reserve(struct cs_histogram *histogram, int first, int last)
{
	uint64_t *grown;
	int count;

	if (histogram->native_count > 0) {
		if (first >= histogram->native_first &&
			last < histogram->native_first + histogram->native_count)
			return 0;
		if (histogram->native_first < first)
			first = histogram->native_first;
		if (histogram->native_first + histogram->native_count - 1 > last)
			last = histogram->native_first + histogram->native_count - 1;
	}
	/* Indices may be negative: round towards minus infinity. */
	first -= (first - INDEX_MIN) % GROWTH;
	count = (last - first) / GROWTH * GROWTH + GROWTH;
	grown = calloc((size_t)count, sizeof(*grown));
	if (grown == NULL)
		return -ENOMEM;
	if (histogram->native_count > 0)
		memcpy(grown + (histogram->native_first - first), histogram->native,
			(size_t)histogram->native_count * sizeof(*grown));
	free(histogram->native);
	histogram->native = grown;
	histogram->native_first = first;
	histogram->native_count = count;
	return 0;
}

int
cs_histogram_observe(struct cs_histogram *histogram, uint64_t observation)
{
	const struct plan *plan = histogram->plan;
	size_t bound = 0;

	if (observation == 0) {
		histogram->zero++;
	} else {
		int bucket = find_native(plan->edges, observation);
		int place = bucket + INDEX_MIN - histogram->native_first;

		if (place < 0 || place >= histogram->native_count) {
			int error = reserve(histogram, bucket + INDEX_MIN, bucket + INDEX_MIN);

			if (error < 0)
				return error;
			place = bucket + INDEX_MIN - histogram->native_first;
		}
		histogram->native[place]++;
		bound = plan->classic[bucket];
		while (bound < plan->histogram_class->bound_count &&
			observation > plan->histogram_class->bounds[bound])
			bound++;
	}
	histogram->classic[bound]++;
	histogram->count++;
	histogram->sum += observation;
	return 0;
}

int
cs_histogram_merge(struct cs_histogram *into, const struct cs_histogram *from)
{
	int first;
	int last;

	if (into->plan != from->plan)
		return -EINVAL;
	if (cs_histogram_native_range(from, &first, &last)) {
		int error = reserve(into, first, last);

		if (error < 0)
			return error;
		for (int i = first; i <= last; i++)
			into->native[i - into->native_first] += from->native[i - from->native_first];
	}
	for (size_t i = 0; i <= into->plan->histogram_class->bound_count; i++)
		into->classic[i] += from->classic[i];
	into->zero += from->zero;
	into->count += from->count;
	into->sum += from->sum;
	return 0;
}

void
cs_histogram_reset(struct cs_histogram *histogram)
{
	histogram->sum = 0;
	histogram->count = 0;
	histogram->zero = 0;
	memset(histogram->classic, 0, classic_bytes(histogram->plan->histogram_class));
	if (histogram->native_count > 0)
		memset(histogram->native, 0, (size_t)histogram->native_count * sizeof(*histogram->native));
}

const struct cs_histogram_class *
cs_histogram_borrow_class(const struct cs_histogram *histogram)
{
	return histogram->plan->histogram_class;
}

uint64_t
cs_histogram_count_total(const struct cs_histogram *histogram)
{
	return histogram->count;
}

uint64_t
cs_histogram_sum(const struct cs_histogram *histogram)
{
	return histogram->sum > UINT64_MAX ? UINT64_MAX : (uint64_t)histogram->sum;
}

double
cs_histogram_sum_scaled(const struct cs_histogram *histogram)
{
	/* One rounding: units is exact, where scale (1e-9) is not. */
	return (double)((long double)histogram->sum / (long double)histogram->plan->edges->units);
}

uint64_t
cs_histogram_classic(const struct cs_histogram *histogram, size_t i)
{
	uint64_t cumulative = 0;

	if (i > histogram->plan->histogram_class->bound_count)
		i = histogram->plan->histogram_class->bound_count;
	for (size_t bucket = 0; bucket <= i; bucket++)
		cumulative += histogram->classic[bucket];
	return cumulative;
}

uint64_t
cs_histogram_zero_count(const struct cs_histogram *histogram)
{
	return histogram->zero;
}

int
cs_histogram_native_range(const struct cs_histogram *histogram, int *first, int *last)
{
	int low = 0;
	int high = histogram->native_count - 1;

	while (low <= high && histogram->native[low] == 0)
		low++;
	while (high >= low && histogram->native[high] == 0)
		high--;
	if (low > high)
		return 0;
	*first = histogram->native_first + low;
	*last = histogram->native_first + high;
	return 1;
}

uint64_t
cs_histogram_native(const struct cs_histogram *histogram, int index)
{
	int place = index - histogram->native_first;

	return place >= 0 && place < histogram->native_count ? histogram->native[place] : 0;
}

int
cs_histogram_native_index(const struct cs_histogram_class *histogram_class, uint64_t observation)
{
	const struct plan *plan = borrow_plan(histogram_class);

	return plan == NULL || observation == 0 ? 0 : find_native(plan->edges, observation) + INDEX_MIN;
}

double
cs_histogram_quantile(const struct cs_histogram *histogram, double q)
{
	double units = (double)histogram->plan->edges->units;
	double before = (double)histogram->zero;
	double rank;
	int first;
	int last;

	if (histogram->count == 0 || isnan(q))
		return NAN;
	rank = fmin(fmax(q, 0), 1) * (double)histogram->count;
	if (!cs_histogram_native_range(histogram, &first, &last) || (rank <= before && histogram->zero > 0))
		return 0;
	for (int i = first; i <= last; i++) {
		double inside = (double)cs_histogram_native(histogram, i);

		if (inside > 0 && (before + inside >= rank || i == last))
			return exp2((i - 1 + fmin((rank - before) / inside, 1)) / PER_OCTAVE) * units;
		before += inside;
	}
	return NAN;
}
