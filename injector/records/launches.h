/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the graph launches that kernel records belong to. The nodes of a launch share a correlation id;
 * nodes of some launches may be interleaved, so the last few launches are remembered.
 *
 * Pure; one thread at a time (the parser's lock).
 */
#ifndef CS_LAUNCHES_H
#define CS_LAUNCHES_H

#include <stdint.h>

#define CS_LAUNCHES_OPEN 8U

struct cs_launches {
	uint64_t count;
	uint32_t next;
	struct {
		uint32_t correlation_id;
		uint32_t graph_id; /* 0: free */
	} open[CS_LAUNCHES_OPEN];
};

/* A node of a launch. */
void cs_launches_node(struct cs_launches *launches, uint32_t correlation_id, uint32_t graph_id);

#endif
