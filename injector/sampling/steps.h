/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step times as the host sees them: the time from one launch of a graph to its next launch, while nothing is
 * traced and while kernels are. In a server that is busy that is the step time, whether its CPU runs ahead of
 * the GPU or waits for each step; the ratio of the two medians is what tracing costs there, which is what the
 * governor needs.
 *
 * Eager work has no such launch. There a step begins, as graph CS_STEPS_EAGER, with the first collective that
 * is launched after a pause of CS_STEPS_EAGER_PAUSE_NS without any. Where launches never pause (a CPU that is
 * always ahead) eager steps are not measured.
 *
 * The obvious instrument, CUPTI's GRAPH_TRACE in windows around the deep ones, is out of the question: when
 * it is switched on after a graph was instantiated, the next launch of that graph is a segmentation fault in
 * CUPTI (13.0 Update 1, driver 580, H200: 14 of 14 processes, with and without a subscription).
 *
 * Launches are seen only while we are subscribed; what was measured then holds for later. Intervals are kept
 * over windows, so long steps are measured too, only later. One in which tracing was switched is left out.
 *
 * Thread context: note from any application thread, host-safe; the others from the worker.
 */
#ifndef CS_STEPS_H
#define CS_STEPS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CS_STEPS_GRAPHS    16U
#define CS_STEPS_INTERVALS 32U /* newest ones of each graph and state */
/* Longer than the longest step: an interval like that spans idle time. */
#define CS_STEPS_INTERVAL_MAX_NS 5000000000ULL
#define CS_STEPS_EAGER           1U
#define CS_STEPS_EAGER_PAUSE_NS  1000000ULL

struct cs_steps {
	struct cs_steps_place {
		_Atomic uint64_t graph;       /* any number that names the graph, 0: free */
		_Atomic uint64_t last;        /* time of its last launch << 8 | switches << 1 | traced */
		_Atomic uint64_t named;       /* 1 << 32 | CUPTI's graph id; 0 not known */
		_Atomic uint32_t correlation; /* of its first launch in the last window that had one */
		/* [0] untraced, [1] traced: hash of the graph in the upper 24 bits, interval below; 0: free
		 */
		_Atomic uint64_t intervals[2][CS_STEPS_INTERVALS];
		_Atomic uint32_t next[2];
	} graphs[CS_STEPS_GRAPHS];
};

struct cs_steps_launch {
	uint64_t graph;
	uint64_t monotonic_ns;
	uint32_t correlation_id; /* as kernel records will have it */
	uint32_t switches;       /* how often tracing was switched on or off before */
	bool traced;             /* kernels are being traced now */
};

void cs_steps_note(struct cs_steps *steps, const struct cs_steps_launch *launch);

/* Kernel records show that the launch with this correlation id was one of CUPTI's graph `graph_id`. */
void cs_steps_name(struct cs_steps *steps, uint32_t correlation_id, uint32_t graph_id);

struct cs_steps_graph {
	bool eager;
	uint32_t graph_id;                     /* CUPTI's, as in records; 0: eager, or not known yet */
	uint32_t untraced_count, traced_count; /* that the medians rest on */
	uint32_t untraced_total;               /* ever */
	uint64_t untraced_ns, traced_ns;       /* medians; 0: none */
};

/* All graphs of which an interval was seen, at most CS_STEPS_GRAPHS; returns how many. */
size_t cs_steps_read(const struct cs_steps *steps, struct cs_steps_graph *graphs);

#endif
