/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What deep windows taught about the graphs of one lane: how many collectives, of what size, in which phase.
 * Light windows, which see launches only, are read with it. Bounded: 4096 graphs, the least recently used of
 * four leaves.
 */
#ifndef CS_GRAPHS_H
#define CS_GRAPHS_H

#include "private.h"

struct cs_graph {
	uint32_t graph_id; /* 0: free */
	uint32_t collectives;
	uint32_t run_id; /* last run that it was a piece of */
	uint8_t phase;
	uint8_t phase_rule;
	/* What ranges or markers said of its whole launches, told_rule: which of the two. */
	uint8_t told_phase;
	uint8_t told_rule;
	bool told_otherwise; /* they did not always agree: it serves several phases */
	bool piece;          /* of a piecewise step */
	uint64_t bytes;
	uint64_t used_ns;
	/* Labels by ordinal of a whole launch, for telling where a rank stands. May be NULL. */
	uint32_t *labels;
	uint32_t label_count;
};

/* The passes of this lane so far: what is large, and is there anything small beside it? */
struct cs_passes {
	uint32_t collectives;  /* of the largest pass */
	uint64_t large, small; /* launches since that was known */
	uint64_t large_whole;  /* of these large: in one graph */
	uint32_t small_in_a_row;
	uint64_t bytes; /* message size of the last large pass */
};

struct cs_graphs *cs_graphs_new(void);
void cs_graphs_destroy(struct cs_graphs *graphs);
/* Time starts again: which graph was used last is no longer known. */
void cs_graphs_restart(struct cs_graphs *graphs);
/* NULL when it was never noted (or forgotten). */
struct cs_graph *cs_graphs_find(struct cs_graphs *graphs, uint32_t graph_id);
/* Finds or makes room; never NULL. graph_id > 0. */
struct cs_graph *cs_graphs_get(struct cs_graphs *graphs, uint32_t graph_id, uint64_t now_ns);
/* A whole deep launch, or a merged step. `bytes`: its largest all-reduce, 0 unknown. */
void cs_graphs_note(struct cs_graphs *graphs, const struct cs_unit *unit, uint64_t bytes);
const struct cs_passes *cs_graphs_passes(const struct cs_graphs *graphs);

#endif
