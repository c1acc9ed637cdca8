/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graph launches as the records show them: how many, and how far apart launches of the same graph are when
 * traced in depth and when traced lightly. The second is the step time of a server that is busy, and the
 * ratio of the two is what deep tracing costs (the governor's input).
 *
 * In light windows each launch is one record. In deep ones the nodes of a launch share a correlation id;
 * nodes of some launches may be interleaved, so the last few launches stay open until newer ones push them
 * out.
 *
 * Pure; one thread at a time (the parser's lock).
 */
#ifndef CS_LAUNCHES_H
#define CS_LAUNCHES_H

#include "record.h"

#include <stdbool.h>

#define CS_LAUNCHES_OPEN      4U
#define CS_LAUNCHES_GRAPHS    8U
#define CS_LAUNCHES_INTERVALS 256U
/* Longer than the longest step: an interval like that spans idle time or the time between windows. */
#define CS_LAUNCHES_INTERVAL_MAX_NS 5000000000ULL

struct cs_launch_open {
	uint32_t correlation_id;
	uint32_t graph_id; /* 0: free */
	uint64_t start_ns;
};

struct cs_launch_interval {
	uint32_t graph_id;
	uint32_t unused;
	uint64_t interval_ns;
};

struct cs_launch_depth {
	uint64_t count;
	uint32_t next_graph;
	uint32_t intervals_kept;                        /* also where the next one goes, modulo */
	struct cs_launch_open last[CS_LAUNCHES_GRAPHS]; /* newest launch of each graph */
	struct cs_launch_interval intervals[CS_LAUNCHES_INTERVALS];
};

struct cs_launches {
	uint32_t next_open;
	struct cs_launch_open open[CS_LAUNCHES_OPEN];
	struct cs_launch_depth depth[CS_DEPTH_COUNT]; /* OFF is unused */
};

/* A node of a launch (deep). */
void cs_launches_node(
	struct cs_launches *launches, uint32_t correlation_id, uint32_t graph_id, uint64_t start_ns);
/* A whole launch (light). */
void cs_launches_whole(
	struct cs_launches *launches, uint32_t correlation_id, uint32_t graph_id, uint64_t start_ns);

struct cs_launches_steps {
	uint32_t graph_id;
	uint32_t deep_count, light_count;
	uint64_t deep_ns, light_ns; /* medians */
};

/* Step times of the graph that was seen most often at both depths. false: none was seen at both. */
bool cs_launches_steps(const struct cs_launches *launches, struct cs_launches_steps *steps);

#endif
