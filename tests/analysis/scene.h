/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stage for the analysis: ranks with their dictionaries, records written by hand, results kept for looking
 * at. Times are relative: 0 is SCENE_EPOCH_NS. Any failure of the stage itself aborts.
 */
#ifndef CS_TEST_SCENE_H
#define CS_TEST_SCENE_H

#include "analysis/analysis.h"

#define SCENE_EPOCH_NS  1700000000000000000ULL
#define SCENE_RANKS_MAX 16U
#define US              1000ULL
#define MS              1000000ULL

struct scene_rank {
	struct cs_dictionary dictionary;
	uint32_t source;
	struct cs_record *records; /* not fed yet */
	size_t count, capacity;
	int64_t clock_ns;        /* added to every time on its way in */
	double drift;            /* and this much per nanosecond since the epoch */
	uint32_t correlation_id; /* of the last launch */
};

struct scene {
	struct cs_analysis *analysis;
	struct scene_rank ranks[SCENE_RANKS_MAX];
	unsigned int rank_count;
	struct cs_step *steps; /* items are NULL: see collectives */
	size_t step_count, step_capacity;
	struct cs_collective *collectives; /* label is NULL */
	size_t collective_count, collective_capacity;
	size_t other_count;
};

/* options may be NULL; each rank has one GPU. */
void scene_open(struct scene *scene, unsigned int ranks, const struct cs_analysis_options *options);
void scene_close(struct scene *scene);

/* Adds to the rank's dictionary; the id. */
uint32_t scene_label(struct scene *scene, unsigned int rank, enum cs_op op, uint64_t bytes, int32_t world,
	uint32_t comm_id);
/* A communicator of `world` in which the rank is number `member`; its id (index + 1). */
uint32_t scene_communicator(
	struct scene *scene, unsigned int rank, uint64_t hash, int32_t member, int32_t world);
uint32_t scene_name(struct scene *scene, unsigned int rank, const char *text);

/* Queues a record: times relative to the epoch. */
void scene_put(struct scene *scene, unsigned int rank, struct cs_record record);
void scene_collective(struct scene *scene, unsigned int rank, uint32_t label, uint32_t stream,
	uint64_t start_ns, uint64_t end_ns);
void scene_busy(struct scene *scene, unsigned int rank, enum cs_busy_class klass, unsigned int flags,
	uint32_t stream, uint64_t start_ns, uint64_t end_ns);
void scene_marker(struct scene *scene, unsigned int rank, const char *name, uint64_t start_ns);
void scene_window(
	struct scene *scene, unsigned int rank, enum cs_depth depth, uint64_t start_ns, uint64_t end_ns);
/* A deep window has opened. */
void scene_window_open(struct scene *scene, unsigned int rank, uint64_t start_ns);
/* One launch on stream 7: for each collective compute_ns of compute, then reduce_ns. Returns when it ends. */
uint64_t scene_graph(struct scene *scene, unsigned int rank, uint32_t graph, uint32_t label,
	uint32_t collectives, uint64_t start_ns, uint64_t compute_ns, uint64_t reduce_ns);
/* A GRAPH record: at_ns, the graph was captured with so many collectives, `count` of them from `first` on
 * with this label. */
void scene_captured(struct scene *scene, unsigned int rank, uint32_t graph, uint32_t collectives,
	uint32_t label, uint32_t first, uint32_t count, uint64_t at_ns);
/* As scene_graph, outside graphs. */
uint64_t scene_eager(struct scene *scene, unsigned int rank, uint32_t label, uint32_t collectives,
	uint64_t start_ns, uint64_t compute_ns, uint64_t reduce_ns);

/* Feeds what is queued, rank by rank in order of queueing, and drains. */
void scene_play(struct scene *scene);
/* Feeds it in slices of slice_ns of record time as a live reader does, advancing after each; then drains. */
void scene_play_live(struct scene *scene, uint64_t slice_ns);
/* Feeds what is queued and advances to now_ns (relative). */
void scene_advance(struct scene *scene, uint64_t now_ns);

#endif
