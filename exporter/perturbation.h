/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What deep tracing does to steps: the same graph's steps in deep windows against those in light ones.
 *
 * For each graph the mean step time at both depths over the last steps (exponentially weighted, 32 steps
 * deep). A phase's ratio is the mean of its graphs' ratios, weighted by the deep steps seen; only graphs with
 * at least 8 steps at both depths count. Times are compared graph by graph because a phase's graphs differ
 * (batch sizes) by more than tracing costs.
 *
 * Thread context: one thread at a time.
 */
#ifndef CS_EXPORTER_PERTURBATION_H
#define CS_EXPORTER_PERTURBATION_H

#include "analysis/analysis.h"

#include <stdbool.h>
#include <stdint.h>

/* Graphs of one process that are followed: servers capture some dozens. Later ones are left out. */
#define CS_PERTURBATION_GRAPHS 64U
/* Steps at each depth before a graph counts. */
#define CS_PERTURBATION_STEPS_MIN 8U

struct cs_perturbation_graph {
	uint32_t graph_id; /* 0: free */
	uint32_t gpu;
	uint8_t phase;
	uint64_t steps[CS_DEPTH_COUNT];
	double mean_ns[CS_DEPTH_COUNT];
};

struct cs_perturbation {
	struct cs_perturbation_graph graphs[CS_PERTURBATION_GRAPHS];
};

void cs_perturbation_step(struct cs_perturbation *perturbation, const struct cs_step *step);
/* Deep over light, less 1; false when there is not enough to tell. */
bool cs_perturbation_ratio(
	const struct cs_perturbation *perturbation, uint32_t gpu, enum cs_phase phase, double *ratio);

#endif
