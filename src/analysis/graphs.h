/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What deep windows taught about the graphs of one lane: how many collectives, of what size, in which phase.
 * Light windows, which see launches only, are read with it, and a launch that stops in the middle is told by
 * it. Learnt from launches as they are, before they are joined to steps or cut into several. Bounded: 4096
 * graphs, the least recently used of four leaves.
 */
#ifndef CS_GRAPHS_H
#define CS_GRAPHS_H

#include "captured.h"
#include "private.h"

/* A collective of a graph, by its position in a launch. */
struct cs_graph_item {
	uint64_t node_id;
	uint32_t label_id;
};

struct cs_graph {
	uint32_t graph_id; /* 0: free */
	/* In its last launch that was seen whole, or in a later one that had more; before there was one, what
	 * was said of it at capture. An update of the executable or a conditional node may change it. */
	uint32_t collectives;
	uint32_t alike;  /* launches seen whole in a row with that number */
	bool varies;     /* they did not always have the same number */
	uint32_t run_id; /* last run that it was a piece of */
	uint8_t phase;
	uint8_t phase_rule;
	uint32_t phase_line, phase_name;
	/* What ranges or markers said of its whole launches, told_rule: which of the two. */
	uint8_t told_phase;
	uint8_t told_rule;
	uint32_t told_name;    /* of the range or marker */
	bool told_otherwise;   /* they did not always agree: it serves several phases */
	bool piece;            /* of a step of several launches */
	bool alone;            /* markers told that it is a whole pass, whatever follows it */
	struct cs_split split; /* of its last whole launch; at 0: one step */
	struct cs_captured captured;
	uint64_t used_ns;
	/* For telling where a rank stands. May be NULL. */
	struct cs_graph_item *items;
	uint32_t item_count;
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
/* A unit of a launch, closed: its collectives have these labels and nodes, and there are at least so many. */
void cs_graphs_learn_items(struct cs_graphs *graphs, const struct cs_unit *unit);
/* A launch that was seen from its beginning to its end had so many collectives. */
void cs_graphs_learn_whole(
	struct cs_graphs *graphs, uint32_t graph_id, uint32_t collectives, uint64_t now_ns);
/* A step that is to have a phase. `bytes`: its largest all-reduce, 0 unknown. */
void cs_graphs_note(struct cs_graphs *graphs, const struct cs_unit *unit, uint64_t bytes);
/* Something was said of a graph (captured.h). */
void cs_graphs_tell(struct cs_graphs *graphs);
/* What was said of all graphs, and of those with so many collectives; all 0: nothing. Looks at each of them.
 */
void cs_graphs_survey(const struct cs_graphs *graphs, uint32_t collectives, struct cs_survey *survey);
const struct cs_passes *cs_graphs_passes(const struct cs_graphs *graphs);

#endif
