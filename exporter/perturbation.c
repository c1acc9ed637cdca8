/* SPDX-License-Identifier: Apache-2.0 */
#include "perturbation.h"

#define MEMORY_STEPS 32U

static struct cs_perturbation_graph *
find_graph(struct cs_perturbation *perturbation, const struct cs_step *step)
{
	for (unsigned int i = 0; i < CS_PERTURBATION_GRAPHS; i++) {
		struct cs_perturbation_graph *graph = &perturbation->graphs[i];

		if (!graph->graph_id)
			*graph = (struct cs_perturbation_graph){.graph_id = step->graph_id, .gpu = step->gpu};
		if (graph->graph_id == step->graph_id && graph->gpu == step->gpu)
			return graph;
	}
	return NULL;
}

void
cs_perturbation_step(struct cs_perturbation *perturbation, const struct cs_step *step)
{
	struct cs_perturbation_graph *graph;
	/* Eager work behind a graph is seen in deep windows only. */
	uint64_t end_ns = step->launch_end_ns > step->start_ns ? step->launch_end_ns : step->end_ns;
	double duration_ns = (double)(end_ns - step->start_ns);
	uint64_t weight;

	if (!step->graph_id || (step->depth != CS_DEPTH_DEEP && step->depth != CS_DEPTH_LIGHT))
		return;
	graph = find_graph(perturbation, step);
	if (!graph)
		return;
	if (step->phase != CS_PHASE_UNKNOWN)
		graph->phase = step->phase;
	weight = ++graph->steps[step->depth];
	if (weight > MEMORY_STEPS)
		weight = MEMORY_STEPS;
	graph->mean_ns[step->depth] += (duration_ns - graph->mean_ns[step->depth]) / (double)weight;
}

bool
cs_perturbation_ratio(
	const struct cs_perturbation *perturbation, uint32_t gpu, enum cs_phase phase, double *ratio)
{
	double sum = 0;
	double weights = 0;

	for (unsigned int i = 0; i < CS_PERTURBATION_GRAPHS; i++) {
		const struct cs_perturbation_graph *graph = &perturbation->graphs[i];
		double weight = (double)graph->steps[CS_DEPTH_DEEP];

		if (!graph->graph_id || graph->gpu != gpu || graph->phase != phase ||
			graph->steps[CS_DEPTH_DEEP] < CS_PERTURBATION_STEPS_MIN ||
			graph->steps[CS_DEPTH_LIGHT] < CS_PERTURBATION_STEPS_MIN ||
			graph->mean_ns[CS_DEPTH_LIGHT] <= 0)
			continue;
		sum += weight * (graph->mean_ns[CS_DEPTH_DEEP] / graph->mean_ns[CS_DEPTH_LIGHT] - 1);
		weights += weight;
	}
	if (weights <= 0)
		return false;
	*ratio = sum / weights;
	return true;
}
