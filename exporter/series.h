/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The series of one node: label sets with a counter or a histogram, shared by the processes that feed them.
 *
 * A series is identified by its labels alone, as Prometheus does. A process takes a reference to each series
 * it feeds and drops them when its retention time is over; a series without a reference goes away. So a
 * server that restarts within the retention time goes on counting where its predecessor stopped, a value
 * never falls while its series exists, and the series of a dead process vanish.
 *
 * Bounded: when the number of time series (a histogram is as many as it has lines) would pass the limit, the
 * observation goes to the family's one series with every label "other", and is counted as folded.
 *
 * Thread context: none inside; the node's lock guards it.
 */
#ifndef CS_EXPORTER_SERIES_H
#define CS_EXPORTER_SERIES_H

#include "families.h"
#include "histogram.h"
#include "snapshot.h"

#include <stdbool.h>
#include <stdint.h>

/* Fields that the family has no label for are zero. */
struct cs_series_key {
	int32_t rank;  /* CS_RANK_UNKNOWN */
	int16_t gpu;   /* NVML index; -1 unknown */
	uint8_t op;    /* enum cs_op */
	uint8_t impl;  /* enum cs_impl */
	uint8_t phase; /* enum cs_phase */
	uint8_t size;  /* cs_size_bucket */
	uint8_t part;  /* value of with (enum cs_busy_class, CS_WITH_NONE), direction, depth, kind, cause or
			  reason */
	uint8_t other; /* 1: the folded series */
	uint32_t comm; /* cs_series_comm; 0 none */
};

#define CS_WITH_NONE 255U /* part: nothing ran beside it */

struct cs_series {
	struct cs_series_key key;
	enum cs_family_id family;
	uint32_t references;
	uint64_t counter;               /* of a counter family; nanoseconds when its unit is seconds */
	struct cs_histogram *histogram; /* of a histogram family */
	uint64_t created_ns;            /* CLOCK_REALTIME */
};

struct cs_series_vector {
	struct cs_series **items; /* sorted by key */
	size_t count;
	size_t capacity;
};

struct cs_series_table {
	struct cs_series_vector families[CS_FAMILY_SERIES_COUNT];
	uint64_t *comms; /* hashes by index - 1 */
	uint32_t comm_count, comm_capacity;
	uint64_t limit;   /* time series */
	uint64_t lines;   /* time series now, folded ones not counted */
	uint64_t folded;  /* observations */
	uint64_t dropped; /* observations without memory */
};

void cs_series_table_init(struct cs_series_table *table, uint64_t limit);
void cs_series_table_fini(struct cs_series_table *table);

/* The series of these labels (made when new), or the family's folded one at the limit; one reference more.
 * NULL without memory. */
struct cs_series *cs_series_take(
	struct cs_series_table *table, enum cs_family_id family, const struct cs_series_key *key);
void cs_series_drop(struct cs_series_table *table, struct cs_series *series);

/* The number that stands for a communicator in keys, from 1; 0 for hash 0, and beyond CS_SERIES_COMMS_MAX or
 * without memory: such collectives are in no family with a comm label. */
#define CS_SERIES_COMMS_MAX 65536U
uint32_t cs_series_comm(struct cs_series_table *table, uint64_t hash);

/* Copies all series into the snapshot. */
void cs_series_collect(const struct cs_series_table *table, struct cs_snapshot *snapshot);

/* NULL series: counted as dropped. */
static inline void
cs_series_add(struct cs_series_table *table, struct cs_series *series, uint64_t amount)
{
	if (!series) {
		table->dropped++;
		return;
	}
	table->folded += series->key.other;
	series->counter += amount;
}

static inline void
cs_series_observe(struct cs_series_table *table, struct cs_series *series, uint64_t observation)
{
	if (!series || cs_histogram_observe(series->histogram, observation) < 0) {
		table->dropped++;
		return;
	}
	table->folded += series->key.other;
}

#endif
