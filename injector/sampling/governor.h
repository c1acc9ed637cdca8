/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses how long to look and how often, so that windows hold whole steps and tracing costs at most the
 * budget as a share of step time. docs/architecture.md, "Sampling", is the prose.
 *
 * Perturbation. Step time while kernels are traced over step time while nothing is (steps.h), minus one, of
 * the graph that suffers most. Where that cannot be measured, an upper bound from the windows' own records:
 * CS_GOVERNOR_KERNEL_NS for each kernel. Before the first records CS_GOVERNOR_UNMEASURED. Once launches are
 * not seen any more a measurement grows old: a server whose CPU was ahead of the GPU, which loses nothing,
 * may begin to wait for each step. From then on the larger one holds, of what was measured and
 * CS_GOVERNOR_OLD_PART of CS_GOVERNOR_KERNEL_NS for each kernel.
 *
 * Window. At least CS_GOVERNOR_STEPS of the longest usual step (launches while they are seen, else the
 * records, pace.h), as base x 2^n, n <= CS_GOVERNOR_WINDOW_EXPONENT_MAX and at most
 * CS_GOVERNOR_WINDOW_MAX_NS unless the base is longer: processes that see the same steps
 * choose the same. Grows at once when the step is known, doubles when a busy window held no two whole steps,
 * shrinks by one after CS_GOVERNOR_WINDOW_CALM windows that needed less. Where the minute's allowance does
 * not pay for it, it is halved until it does, down to a 64th of the base and a millisecond. When the longest
 * one held no two steps either, the base is used for CS_GOVERNOR_VAIN windows before the next try: such work
 * has no boundaries to be seen.
 *
 * Period. base x 2^n, n <= CS_GOVERNOR_EXPONENT_MAX, such that perturbation x window / period is within the
 * budget, the account pays for every window of it (processes that came up at different moments would else
 * lack different ones), and the window at most an eighth of it (or what the settings have, if that is more).
 * One doubling or halving at a time, halving after CS_GOVERNOR_CALM periods in a row that would allow it with
 * a margin of one quarter; only when a window had to be skipped as many doublings at once as it takes.
 *
 * Account. spending.h: no window is opened that would overdraw budget x 60 s within any minute; this holds
 * whatever was chosen above, also at the longest period. Traces that somebody asked for are not in it.
 *
 * Quick start. The first CS_GOVERNOR_QUICK windows with records, after start and after idle time, come on a
 * grid of at most CS_GOVERNOR_QUICK_NS, while the account pays for them.
 *
 * Pure; one thread.
 */
#ifndef CS_GOVERNOR_H
#define CS_GOVERNOR_H

#include "pace.h"
#include "spending.h"
#include "steps.h"

#include <stdint.h>

#define CS_GOVERNOR_UNMEASURED 0.45
/* CPU time per traced kernel: 0.8 to 1.8 us were measured (docs/overhead.md). */
#define CS_GOVERNOR_KERNEL_NS 2000U
/* A microsecond a kernel: 49 % on a step of 850 kernels in 2.6 ms, of which 45 % was the worst that was
 * measured (docs/overhead.md). */
#define CS_GOVERNOR_OLD_PART            0.5
#define CS_GOVERNOR_EXPONENT_MAX        6U
#define CS_GOVERNOR_CALM                3U
#define CS_GOVERNOR_STEPS               3U
#define CS_GOVERNOR_WINDOW_EXPONENT_MAX 6U
#define CS_GOVERNOR_WINDOW_MAX_NS       10000000000ULL
#define CS_GOVERNOR_WINDOW_CALM         8U
#define CS_GOVERNOR_VAIN                64U
/* A window whose work began in its second half says nothing of its length: it was idle, or cut off. So many
 * in a row do: what ran before was launched before it and is not on record, as of steps that are longer than
 * the window. */
#define CS_GOVERNOR_STUMPS   2U
#define CS_GOVERNOR_QUICK    6U
#define CS_GOVERNOR_QUICK_NS 2500000000ULL
/* Intervals in each state before a measurement counts; of steps from CS_GOVERNOR_LONG_NS on, which vary less
 * and come rarely, fewer. */
#define CS_GOVERNOR_SAMPLES_MIN  8U
#define CS_GOVERNOR_LONG_NS      200000000ULL
#define CS_GOVERNOR_SAMPLES_LONG 3U

struct cs_governor {
	double budget;
	uint64_t base_period_ns, base_window_ns;
	double perturbation; /* < 0: not measured yet */
	double bound;        /* from kernels; < 0: no records yet */
	bool old;            /* the measurement is: launches are not seen any more */
	unsigned int exponent, calm;
	unsigned int window_exponent, window_calm;
	unsigned int stumps; /* in a row, none of which taught anything */
	unsigned int vain;   /* windows until boundaries are looked for again */
	unsigned int quick;  /* windows with records that are still to come quickly */
	bool skipped;        /* since the last choice */
	struct cs_spending spending;
};

struct cs_governor_choice {
	uint64_t period_ns;
	uint64_t window_ns;
	uint64_t quick_ns; /* grid of the quick start; 0: it is over */
	double cost;       /* expected share of step time */
};

void cs_governor_init(
	struct cs_governor *governor, double budget, uint64_t base_period_ns, uint64_t base_window_ns);

/* Whether a graph's intervals are enough to tell its ratio (traced over untraced time, at least 1). */
bool cs_governor_ratio(const struct cs_steps_graph *graph, double *ratio);
/* What callbacks saw. Measurements are smoothed: half old, half new. */
void cs_governor_measure(struct cs_governor *governor, const struct cs_steps_graph *graphs, size_t count);

/* Launches are not seen any more, until the next cs_governor_measure. Idempotent. */
void cs_governor_lose_sight(struct cs_governor *governor);
/* The share of step time that a window is taken to cost while it is open: the perturbation, or what stands
 * for it. */
double cs_governor_expected(const struct cs_governor *governor);

/* What the records of a sample window show. It ended at end_ns (CLOCK_MONOTONIC) and is settled. */
void cs_governor_learn(struct cs_governor *governor, const struct cs_pace_summary *summary, uint64_t end_ns);
/* The same of a window some of whose records are still with CUPTI: what it was reserved at is booked at
 * least, and what its records do not show is not taken for idle time or for a lack of steps. */
void cs_governor_learn_part(
	struct cs_governor *governor, const struct cs_pace_summary *summary, uint64_t end_ns);

/* Once per window, after learn. */
void cs_governor_choose(struct cs_governor *governor, struct cs_governor_choice *choice);

/* Before a window of window_ns is opened at now_ns (CLOCK_MONOTONIC). false: it would overdraw the account;
 * do not open it. */
bool cs_governor_afford(struct cs_governor *governor, uint64_t now_ns, uint64_t window_ns);

/* Whether a window that is still open, with so much work and so many kernels up to now, does so already. */
bool cs_governor_overdraws(
	const struct cs_governor *governor, uint64_t now_ns, uint64_t active_ns, uint64_t kernels);

#endif
