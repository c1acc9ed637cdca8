/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library in the traced process said of a graph when it was captured (GRAPH records): how many
 * collectives it has, and which. It may come late, in part or never, and need not hold: nodes of a
 * conditional part do not all run. What launches show goes before it, always.
 */
#ifndef CS_CAPTURED_H
#define CS_CAPTURED_H

#include "private.h"

struct cs_graph;
struct cs_graphs;

/* A row of collectives with one label. */
struct cs_captured_run {
	uint32_t first, count;
	uint32_t label_id;
	uint64_t node_id; /* of the first */
};

struct cs_captured {
	uint32_t collectives; /* 0: nothing was said, or it does not hold */
	uint32_t run_count;
	bool contradicted; /* a launch that was seen whole had another number */
	uint64_t bytes;    /* of its largest all-reduce, as far as that was said; 0 unknown */
	struct cs_captured_run runs[CS_GRAPH_RUNS_MAX];
};

/* The graphs of one lane of which something was said, by size. A graph is small when the largest has at least
 * CS_SMALL_SHARE times its collectives. */
struct cs_survey {
	uint32_t largest; /* collectives; 0: nothing was said */
	uint32_t large_graphs, small_graphs;
	uint32_t small_collectives; /* of the largest small graph */
	uint64_t large_bytes;       /* largest message of all large graphs; 0 unknown */
	/* Graphs with as many collectives as asked for. */
	uint32_t like_graphs;
	uint64_t like_bytes;
};

/* A pass is small when the largest has at least so many times its collectives: a target of 8 layers (17)
 * against a draft of one (3); three drafts in one graph (9) against 61 layers (123). */
#define CS_SMALL_SHARE 4U

/* A GRAPH record. */
void cs_captured_note(struct cs_lane *lane, const struct cs_record *record);
/* Label (0 unknown) and node (0 unknown) of a collective of the graph by its position. */
void cs_captured_find(
	const struct cs_captured *captured, uint32_t ordinal, uint32_t *label_id, uint64_t *node_id);
/* The phase of a launch by the numbers of collectives of its lane's graphs, while too few passes have been
 * seen to tell (phase.c); unknown where that cannot be decided. bytes: its largest all-reduce, 0 unknown. */
int cs_captured_phase(const struct cs_unit *unit, uint64_t bytes);

#endif
