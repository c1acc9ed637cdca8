/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one scrape serves: values copied out of the live state under its lock, so that writing and compressing
 * them stops nothing. Samples are added in any order; cs_snapshot_finish sorts them and joins those with
 * equal labels, so that an exposition never holds one series twice.
 *
 * Everything is in the snapshot's arena. Thread context: one thread at a time.
 */
#ifndef CS_EXPORTER_SNAPSHOT_H
#define CS_EXPORTER_SNAPSHOT_H

#include "arena.h"
#include "families.h"
#include "histogram.h"

#include <stdbool.h>
#include <stdint.h>

enum cs_value_kind {
	CS_VALUE_INTEGER,
	CS_VALUE_NANOSECONDS, /* served as seconds, exactly */
	CS_VALUE_REAL
};

struct cs_value {
	enum cs_value_kind kind;
	uint64_t integer; /* INTEGER, NANOSECONDS */
	double real;      /* REAL */
};

struct cs_histogram_copy {
	const struct cs_histogram_class *histogram_class;
	uint64_t count;
	struct cs_value sum;
	uint64_t zero_count;
	int native_first;
	uint32_t native_count; /* 0: not asked for, or no observation above zero */
	const uint64_t *native;
	uint64_t cumulative[]; /* bound_count + 1; the last is +Inf */
};

struct cs_sample {
	const char **labels; /* family->label_count values; NULL when it has none */
	struct cs_value value;
	const struct cs_histogram_copy *histogram; /* of a histogram family */
	uint64_t created_ns;                       /* CLOCK_REALTIME; 0 unknown */
};

struct cs_sample_list {
	struct cs_sample *samples;
	size_t count;
	size_t capacity;
};

struct cs_snapshot {
	struct cs_arena arena;
	bool native; /* copy native buckets too */
	struct cs_sample_list families[CS_FAMILY_COUNT];
};

void cs_snapshot_init(struct cs_snapshot *snapshot, bool native);
void cs_snapshot_fini(struct cs_snapshot *snapshot);

/* A new sample with room for the family's labels (all ""). Label texts must live as long as the snapshot:
 * static, or from its arena. Valid until the next call for the family. NULL without memory (then arena.failed
 * is set). */
struct cs_sample *cs_snapshot_add(struct cs_snapshot *snapshot, enum cs_family_id family);
/* A sample without labels. */
void cs_snapshot_plain(struct cs_snapshot *snapshot, enum cs_family_id family, struct cs_value value);
/* Copies a histogram into the arena; NULL without memory. */
const struct cs_histogram_copy *cs_snapshot_histogram(
	struct cs_snapshot *snapshot, const struct cs_histogram *histogram);

/* Sorts and joins. 0, or -ENOMEM when anything could not be copied: then the snapshot must not be served. */
int cs_snapshot_finish(struct cs_snapshot *snapshot);

static inline struct cs_value
cs_value_integer(uint64_t integer)
{
	return (struct cs_value){.kind = CS_VALUE_INTEGER, .integer = integer};
}

static inline struct cs_value
cs_value_ns(uint64_t ns)
{
	return (struct cs_value){.kind = CS_VALUE_NANOSECONDS, .integer = ns};
}

static inline struct cs_value
cs_value_real(double real)
{
	return (struct cs_value){.kind = CS_VALUE_REAL, .real = real};
}

/* In the exposed unit. */
static inline double
cs_value_double(struct cs_value value)
{
	if (value.kind == CS_VALUE_REAL)
		return value.real;
	return value.kind == CS_VALUE_NANOSECONDS ? (double)value.integer / 1e9 : (double)value.integer;
}

#endif
