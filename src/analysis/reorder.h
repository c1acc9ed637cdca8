/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The waiting room: records come in any order, leave in order of start time. A calendar: one bucket per slice
 * of time, twice the horizon long, so that adding costs the same whatever the order; a bucket is sorted when
 * it leaves.
 *
 * Memory: 56 bytes a record, plus at most one half-filled chunk (1.7 KiB) per occupied bucket and 64 KiB of
 * buckets.
 */
#ifndef CS_REORDER_H
#define CS_REORDER_H

#include "record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cs_reorder_chunk;
struct cs_reorder_key;

struct cs_reorder_bucket {
	struct cs_reorder_chunk *first;
	struct cs_reorder_chunk *last;
};

struct cs_reorder {
	uint64_t width_ns;    /* of a bucket */
	uint64_t base;        /* number (start / width) of the next bucket to leave */
	uint64_t frontier_ns; /* every record that starts before it has left */
	size_t pending;       /* records waiting */
	bool started;         /* base and frontier are set */
	struct cs_reorder_bucket *buckets;
	struct cs_reorder_chunk *spare;
	size_t spare_count;
	struct cs_record *scratch; /* the bucket that leaves */
	struct cs_reorder_key *keys;
	size_t scratch_capacity;
};

/* 0 or -ENOMEM. */
int cs_reorder_init(struct cs_reorder *reorder, uint64_t horizon_ns);
void cs_reorder_fini(struct cs_reorder *reorder);

/* 0; -ENOMEM; -ESTALE: records of that time have left already; -EOVERFLOW: too far ahead, release first. */
int cs_reorder_add(struct cs_reorder *reorder, const struct cs_record *record);

/*
 * Takes out the next bucket that ends at or before until_ns (whole buckets only; UINT64_MAX: any), sorted,
 * and moves the frontier to its end. *count 0: there is none, and the frontier is the last bucket edge before
 * until_ns. The records are valid until the next call. -ENOMEM: the bucket stays.
 */
int cs_reorder_release(
	struct cs_reorder *reorder, uint64_t until_ns, const struct cs_record **records, size_t *count);

/* Time starts again with the next record. Nothing may wait. */
void cs_reorder_restart(struct cs_reorder *reorder);

/* Start of the oldest bucket that holds something; UINT64_MAX when nothing waits. */
uint64_t cs_reorder_oldest_ns(const struct cs_reorder *reorder);

#endif
