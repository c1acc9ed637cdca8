/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that stand still: which collective each waits for, and which one the others wait for. For `collscope
 * status`. Thread context: main thread.
 */
#ifndef CS_STALLS_H
#define CS_STALLS_H

#include "feed.h"

#include <stdio.h>

struct cs_stalled_rank {
	uint32_t pid;
	int32_t rank, gpu; /* -1 unknown */
	uint64_t since_ns;
	uint64_t for_ns;
	uint64_t step; /* 0: it stopped while nothing was traced */
	uint32_t graph_id;
	uint64_t node_id; /* of CUPTI, in the graph; 0 not known */
	uint32_t ordinal; /* of the collective in its launch, from 0 */
	bool ordinal_known;
	uint8_t op, impl;
	uint64_t bytes; /* CS_BYTES_UNKNOWN */
	/* The collective that it ended last. */
	uint32_t last_ordinal;
	uint64_t last_node_id; /* 0 outside graphs */
	uint64_t last_end_ns;  /* 0: none has ended yet; then the others of last_ say nothing */
	uint8_t last_op, last_impl;
	bool behind;        /* the others wait for it */
	int32_t ended_rank; /* of its group: its process has ended; -1 none has */
};

struct cs_stalls {
	struct cs_stalled_rank *ranks;
	size_t count;
	/* private */
	const struct cs_feed *feed;
	uint64_t now_ns;
	bool no_memory;
};

/* Whether it is worth reading all rings: a running process has ended no kernel that was traced for
 * threshold_ns, or none since the clock was set back. Between windows that says little, but a rank may stand
 * still there. */
bool cs_stalls_suspected(const struct cs_targets *targets, uint64_t now_ns, uint64_t threshold_ns);

/* After cs_feed_poll, before cs_feed_drain. 0 or -ENOMEM. */
int cs_stalls_collect(struct cs_stalls *stalls, struct cs_feed *feed, uint64_t threshold_ns);
void cs_stalls_fini(struct cs_stalls *stalls);

/* One sentence per rank. */
void cs_stalls_print(const struct cs_stalls *stalls, FILE *stream);

#endif
