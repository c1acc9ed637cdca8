/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step times as the host sees them: the time from one launch of a graph to its next launch, while nothing is
 * traced and while kernels are. In a server that is busy that is the step time, whether its CPU runs ahead of
 * the GPU or waits for each step; the ratio of the two medians is what tracing costs there, which is what the
 * governor needs.
 *
 * The obvious instrument, CUPTI's GRAPH_TRACE in windows around the deep ones, is out of the question: when
 * it is switched on after a graph was instantiated, the next launch of that graph is a segmentation fault in
 * CUPTI (13.0 Update 1, driver 580, H200: 14 of 14 processes, with and without a subscription).
 *
 * Launches are seen only while we are subscribed; what was measured then holds for later.
 *
 * Thread context: note from any application thread, host-safe; read from the worker.
 */
#ifndef CS_STEPS_H
#define CS_STEPS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CS_STEPS_GRAPHS    16U
#define CS_STEPS_INTERVALS 256U
/* Longer than the longest step: an interval like that spans idle time. */
#define CS_STEPS_INTERVAL_MAX_NS 5000000000ULL

struct cs_steps {
	struct {
		_Atomic uint64_t graph; /* any number that names the graph, 0: free */
		_Atomic uint64_t last;  /* time of its last launch << 1 | traced */
	} graphs[CS_STEPS_GRAPHS];
	/* [0] untraced, [1] traced: hash of the graph in the upper 24 bits, interval below; 0: free */
	_Atomic uint64_t intervals[2][CS_STEPS_INTERVALS];
	_Atomic uint32_t next[2];
};

/* A launch of a graph at monotonic_ns; traced: kernels are being traced now. */
void cs_steps_note(struct cs_steps *steps, uint64_t graph, uint64_t monotonic_ns, bool traced);

struct cs_steps_medians {
	uint32_t untraced_count, traced_count;
	uint64_t untraced_ns, traced_ns;
};

/* Of the graph that was seen most often in both states. false: none was. */
bool cs_steps_medians(const struct cs_steps *steps, struct cs_steps_medians *medians);

#endif
