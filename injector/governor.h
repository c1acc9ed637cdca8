/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses how often to look, so that tracing costs at most the budget as a share of step time.
 *
 * Cost of a period = perturbation x window / period. The perturbation is measured: step time while kernels
 * are traced over step time while nothing is (steps.h), minus one. Until it has been measured
 * CS_GOVERNOR_UNMEASURED is assumed, the worst that was seen (a CPU that waits for each step, 850 nodes).
 *
 * The period is the configured one times 2^n, 0 <= n <= CS_GOVERNOR_EXPONENT_MAX: powers of two keep the
 * windows of processes that chose differently aligned. n grows by up to two at once when the cost is over the
 * budget, and shrinks by one, after CS_GOVERNOR_CALM periods in a row that would allow it with a margin of
 * one quarter.
 *
 * Pure; one thread.
 */
#ifndef CS_GOVERNOR_H
#define CS_GOVERNOR_H

#include "steps.h"

#include <stdint.h>

#define CS_GOVERNOR_UNMEASURED   0.45
#define CS_GOVERNOR_EXPONENT_MAX 6U
#define CS_GOVERNOR_CALM         3U
#define CS_GOVERNOR_SAMPLES_MIN  8U /* intervals in each state before a measurement counts */

struct cs_governor {
	double budget;
	uint64_t base_period_ns;
	uint64_t window_ns;  /* per period */
	double perturbation; /* < 0: not measured yet */
	unsigned int exponent;
	unsigned int calm;
};

struct cs_governor_choice {
	uint64_t period_ns;
	double cost; /* expected share of step time */
};

void cs_governor_init(
	struct cs_governor *governor, double budget, uint64_t base_period_ns, uint64_t window_ns);
/* A measurement; ignored when too few steps were seen. Smoothed: half old, half new. */
void cs_governor_measure(struct cs_governor *governor, const struct cs_steps_medians *steps);
/* Once per period, after its window. */
void cs_governor_choose(struct cs_governor *governor, struct cs_governor_choice *choice);

#endif
