/* SPDX-License-Identifier: Apache-2.0 */
#include "launches.h"

#include <stdlib.h>

static struct cs_launch_open *
find_last(struct cs_launch_depth *depth, uint32_t graph_id)
{
	for (unsigned int i = 0; i < CS_LAUNCHES_GRAPHS; i++)
		if (depth->last[i].graph_id == graph_id)
			return &depth->last[i];
	return NULL;
}

static void
note_launch(struct cs_launch_depth *depth, const struct cs_launch_open *launch)
{
	struct cs_launch_open *last = find_last(depth, launch->graph_id);

	depth->count++;
	if (!last)
		last = &depth->last[depth->next_graph++ % CS_LAUNCHES_GRAPHS];
	else if (launch->start_ns > last->start_ns &&
		 launch->start_ns - last->start_ns <= CS_LAUNCHES_INTERVAL_MAX_NS)
		depth->intervals[depth->intervals_kept++ % CS_LAUNCHES_INTERVALS] =
			(struct cs_launch_interval){.graph_id = launch->graph_id,
				.interval_ns = launch->start_ns - last->start_ns};
	*last = *launch;
}

void
cs_launches_whole(struct cs_launches *launches, uint32_t correlation_id, uint32_t graph_id, uint64_t start_ns)
{
	struct cs_launch_open launch = {
		.correlation_id = correlation_id, .graph_id = graph_id, .start_ns = start_ns};

	note_launch(&launches->depth[CS_DEPTH_LIGHT], &launch);
}

void
cs_launches_node(struct cs_launches *launches, uint32_t correlation_id, uint32_t graph_id, uint64_t start_ns)
{
	struct cs_launch_open *open;

	for (unsigned int i = 0; i < CS_LAUNCHES_OPEN; i++) {
		open = &launches->open[i];
		if (open->correlation_id != correlation_id || open->graph_id != graph_id)
			continue;
		if (start_ns < open->start_ns)
			open->start_ns = start_ns;
		return;
	}
	open = &launches->open[launches->next_open++ % CS_LAUNCHES_OPEN];
	if (open->graph_id != 0)
		note_launch(&launches->depth[CS_DEPTH_DEEP], open);
	*open = (struct cs_launch_open){
		.correlation_id = correlation_id, .graph_id = graph_id, .start_ns = start_ns};
}

/* -- medians --------------------------------------------------------------------------------------------- */

static unsigned int
kept(const struct cs_launch_depth *depth)
{
	return depth->intervals_kept < CS_LAUNCHES_INTERVALS ? depth->intervals_kept : CS_LAUNCHES_INTERVALS;
}

static uint32_t
count_graph(const struct cs_launch_depth *depth, uint32_t graph_id)
{
	uint32_t count = 0;

	for (unsigned int i = 0; i < kept(depth); i++)
		if (depth->intervals[i].graph_id == graph_id)
			count++;
	return count;
}

static int
compare_ns(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left;
	uint64_t b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static uint64_t
median_ns(const struct cs_launch_depth *depth, uint32_t graph_id)
{
	uint64_t sorted[CS_LAUNCHES_INTERVALS]; /* 2 KiB; qsort of this much needs no heap */
	unsigned int count = 0;

	for (unsigned int i = 0; i < kept(depth); i++)
		if (depth->intervals[i].graph_id == graph_id)
			sorted[count++] = depth->intervals[i].interval_ns;
	if (count == 0)
		return 0;
	qsort(sorted, count, sizeof(sorted[0]), compare_ns);
	return sorted[count / 2];
}

bool
cs_launches_steps(const struct cs_launches *launches, struct cs_launches_steps *steps)
{
	const struct cs_launch_depth *deep = &launches->depth[CS_DEPTH_DEEP];
	const struct cs_launch_depth *light = &launches->depth[CS_DEPTH_LIGHT];
	uint32_t best = 0;

	for (unsigned int i = 0; i < CS_LAUNCHES_GRAPHS; i++) {
		uint32_t graph_id = deep->last[i].graph_id;
		uint32_t deep_count = graph_id ? count_graph(deep, graph_id) : 0;
		uint32_t light_count = graph_id ? count_graph(light, graph_id) : 0;
		uint32_t both = deep_count < light_count ? deep_count : light_count;

		if (both <= best)
			continue;
		best = both;
		steps->graph_id = graph_id;
		steps->deep_count = deep_count;
		steps->light_count = light_count;
	}
	if (best == 0)
		return false;
	steps->deep_ns = median_ns(deep, steps->graph_id);
	steps->light_ns = median_ns(light, steps->graph_id);
	return true;
}
