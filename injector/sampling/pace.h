/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long steps are, learnt from the kernel records of one window, for when no launch is seen: between
 * windows nothing is recorded, and without a subscription no callback comes.
 *
 * A unit is what the analysis would call a step: a graph launch (its kernels share a correlation id), or a
 * stretch of eager kernels with gaps of at most CS_PACE_GAP_NS. Units that touch the window's edges may be
 * cut and do not count. The step of a graph is the time from one of its launches to the next, of eager work
 * from one stretch to the next, both less idle time beyond CS_PACE_IDLE_NS a gap; medians. The longest usual
 * step is the longest over graphs that came three times or had a tenth of the busy time.
 *
 * Memory is fixed: launches and stretches beyond the tables are left out, when there are that many the window
 * was long enough.
 *
 * Thread context: one at a time (begin, end, kernel: the parser's lock); cs_pace_sum_up on a copy.
 */
#ifndef CS_PACE_H
#define CS_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define CS_PACE_LAUNCHES  256U
#define CS_PACE_STRETCHES 128U
#define CS_PACE_GRAPHS    16U
#define CS_PACE_GAP_NS    500000ULL  /* docs/steps.md: what ends an eager step */
#define CS_PACE_IDLE_NS   5000000ULL /* a longer gap is idle time, of which so much counts */
#define CS_PACE_EDGE_NS   2000000ULL /* so near the window's edge a unit may be cut */

struct cs_pace_unit {
	uint64_t start_ns, end_ns; /* CLOCK_REALTIME, as in records */
	uint32_t graph_id;         /* 0 eager */
	uint32_t correlation_id;   /* of a graph launch */
};

struct cs_pace {
	uint64_t open_ns;    /* 0: no window, kernels are ignored */
	uint64_t close_ns;   /* 0: still open */
	uint64_t kernels;    /* of the window */
	uint64_t first_ns;   /* least start of one; 0 none */
	uint64_t waiting_ns; /* since then the window waits for work; 0: it does not */
	uint64_t after_ns;   /* least start of a kernel since then; 0 none */
	uint32_t launch_count, stretch_count;
	uint32_t last_launch, last_stretch;
	struct cs_pace_unit launches[CS_PACE_LAUNCHES];
	struct cs_pace_unit stretches[CS_PACE_STRETCHES]; /* apart and in order */
	uint16_t index[2 * CS_PACE_LAUNCHES];             /* hash of correlation id -> launch + 1 */
};

/* A window begins; what is known of the one before goes. end: nothing that starts later is of it. */
void cs_pace_begin(struct cs_pace *pace, uint64_t now_ns);
void cs_pace_end(struct cs_pace *pace, uint64_t now_ns);
/* Its work seems to be over, it waits for more: what lies between is idle time. Once per window. */
void cs_pace_wait(struct cs_pace *pace, uint64_t now_ns);

/* A kernel record. graph_id 0: eager. */
void cs_pace_kernel(
	struct cs_pace *pace, uint32_t correlation_id, uint32_t graph_id, uint64_t start_ns, uint64_t end_ns);

struct cs_pace_summary {
	uint64_t length_ns; /* of the window */
	uint64_t kernels;
	uint64_t active_ns; /* from the first kernel's start to the window's end, without waiting; 0: none */
	uint64_t busy_ns;   /* sum over units, cut ones too; at most active_ns */
	uint32_t whole;     /* whole steps of the graph (or of eager work) that has most of them */
	uint64_t step_ns;   /* longest usual step; 0: no two whole steps of one kind */
};

/* Sorts `pace`, which is good for nothing afterwards. */
void cs_pace_sum_up(struct cs_pace *pace, struct cs_pace_summary *summary);

#endif
