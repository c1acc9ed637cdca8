/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From results of the analysis to series, for one process. Each distinct set of labels is looked up once;
 * after that an observation costs a comparison with the labels of the one before, or a hash.
 *
 * Rank: of the collective's label, else of the process. Sizes: from the collective. A second kernel of a
 * collective (CS_RECORD_PART) adds to overlap times alone: it is no collective of its own.
 *
 * Thread context: one thread at a time, under the lock of the series table.
 */
#ifndef CS_EXPORTER_FEED_H
#define CS_EXPORTER_FEED_H

#include "analysis/analysis.h"
#include "impl_change.h"
#include "segment/dictionary.h"
#include "series.h"

/* Series of one label set: as many as a collective feeds; a step uses the first ones. */
enum cs_feed_slot {
	CS_FEED_DURATION,
	CS_FEED_BYTES,
	CS_FEED_OVERLAP_NONE,
	CS_FEED_OVERLAP,                                              /* by enum cs_busy_class */
	CS_FEED_COPY_OVERLAP = CS_FEED_OVERLAP + CS_BUSY_CLASS_COUNT, /* by enum cs_copy_direction */
	CS_FEED_CONTENDED_NONE = CS_FEED_COPY_OVERLAP + CS_COPY_DIRECTION_COUNT,
	CS_FEED_CONTENDED, /* by enum cs_busy_class */
	CS_FEED_WAIT = CS_FEED_CONTENDED + CS_BUSY_CLASS_COUNT,
	CS_FEED_TRANSFER,
	CS_FEED_TRANSFER_BYTES,
	CS_FEED_TRANSFER_BUS_BYTES,
	CS_FEED_LAST_ARRIVALS,
	CS_FEED_UNLABELLED,
	CS_FEED_MATCHED,
	CS_FEED_PARTIAL,
	CS_FEED_UNMATCHED,
	CS_FEED_COMMUNICATOR_SECONDS,
	CS_FEED_COMMUNICATOR_COLLECTIVES,
	CS_FEED_SLOT_COUNT,
	CS_FEED_STEP_DURATION = 0,
	CS_FEED_STEP_COLLECTIVE,
	CS_FEED_STEP_EXPOSED,
	CS_FEED_STEP_COLLECTIVES
};

struct cs_feed_entry {
	struct cs_series_key key;
	bool used;
	struct cs_series *series[CS_FEED_SLOT_COUNT]; /* NULL: not fed yet */
	/* Of collectives: whose implementation is watched with them; of the last one's element type. */
	struct cs_impl_series *impls;
	uint8_t dtype;
};

struct cs_feed_map {
	struct cs_feed_entry *entries;
	size_t capacity; /* power of two, or 0 */
	size_t count;
	struct cs_feed_entry *last;
};

/* Label sets of one process; what is beyond goes to the series with the value "other". No real process comes
 * near: it keeps one that writes nonsense from taking memory without bound. */
#define CS_FEED_ENTRIES_MAX 4096U

struct cs_feed {
	struct cs_series_table *table;
	struct cs_feed_map collectives;
	struct cs_feed_map steps;
	/* cs_series_comm of the process's communicators by id - 1; 0 not asked for yet, UINT32_MAX asked in
	 * vain. */
	uint32_t *comms;
	uint32_t comm_count;
	struct cs_impl_changes changes;
};

void cs_feed_init(struct cs_feed *feed, struct cs_series_table *table);
/* Drops the references to all series. */
void cs_feed_fini(struct cs_feed *feed);

/* dictionary: that of the source. */
void cs_feed_collective(
	struct cs_feed *feed, const struct cs_dictionary *dictionary, const struct cs_collective *collective);
void cs_feed_step(struct cs_feed *feed, const struct cs_dictionary *dictionary, const struct cs_step *step);

/* The gpu label: NVML index of GPU `index` of the dictionary, -1 when nobody could tell. */
int16_t cs_feed_gpu(const struct cs_dictionary *dictionary, uint32_t index);

#endif
