/* SPDX-License-Identifier: Apache-2.0 */
#include "graphs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SETS 1024U
#define WAYS 4U
/* So many small passes in a row: the large one was something else (a warm-up of many steps in one graph). */
#define SMALL_IN_A_ROW 64U
/* Counts are halved there, so that they follow a server that turns drafts on or off. */
#define PASSES_MEMORY 1024U

/* Labels and nodes by ordinal are kept for so many collectives in all: 16 bytes each. */
#define ITEMS_MAX 65536U

struct cs_graphs {
	struct cs_graph table[SETS][WAYS];
	struct cs_passes passes;
	size_t item_sum;
	bool told; /* something was said at capture of some of them */
};

struct cs_graphs *
cs_graphs_new(void)
{
	return calloc(1, sizeof(struct cs_graphs));
}

void
cs_graphs_destroy(struct cs_graphs *graphs)
{
	if (!graphs)
		return;
	for (size_t set = 0; set < SETS; set++) {
		for (size_t way = 0; way < WAYS; way++)
			free(graphs->table[set][way].items);
	}
	free(graphs);
}

void
cs_graphs_restart(struct cs_graphs *graphs)
{
	for (size_t set = 0; set < SETS; set++) {
		for (size_t way = 0; way < WAYS; way++)
			graphs->table[set][way].used_ns = 0;
	}
}

struct cs_graph *
cs_graphs_find(struct cs_graphs *graphs, uint32_t graph_id)
{
	struct cs_graph *set = graphs->table[graph_id % SETS];

	for (size_t way = 0; graph_id && way < WAYS; way++) {
		if (set[way].graph_id == graph_id)
			return &set[way];
	}
	return NULL;
}

struct cs_graph *
cs_graphs_get(struct cs_graphs *graphs, uint32_t graph_id, uint64_t now_ns)
{
	struct cs_graph *graph = cs_graphs_find(graphs, graph_id);
	struct cs_graph *set = graphs->table[graph_id % SETS];

	if (!graph) {
		graph = &set[0];
		for (size_t way = 1; way < WAYS; way++) {
			if (set[way].used_ns < graph->used_ns)
				graph = &set[way];
		}
		graphs->item_sum -= graph->item_count;
		free(graph->items);
		memset(graph, 0, sizeof(*graph));
		graph->graph_id = graph_id;
	}
	graph->used_ns = now_ns;
	return graph;
}

static int
make_room(struct cs_graphs *graphs, struct cs_graph *graph, uint32_t count)
{
	struct cs_graph_item *items;

	if (count <= graph->item_count)
		return 0;
	if (graphs->item_sum + count - graph->item_count > ITEMS_MAX)
		return -ENOSPC;
	items = reallocarray(graph->items, count, sizeof(*items));
	if (!items)
		return -ENOMEM;
	memset(items + graph->item_count, 0, (count - graph->item_count) * sizeof(*items));
	graphs->item_sum += count - graph->item_count;
	graph->items = items;
	graph->item_count = count;
	return 0;
}

void
cs_graphs_learn_items(struct cs_graphs *graphs, const struct cs_unit *unit)
{
	struct cs_graph *graph = cs_graphs_get(graphs, unit->step.graph_id, unit->step.end_ns);
	uint32_t first = unit->launch_first;
	uint32_t count = unit->step.collectives;

	graph->captured.contradicted |= first + count > graph->captured.collectives;
	if (first + count > graph->collectives) {
		graph->varies |= graph->alike > 0;
		graph->collectives = first + count;
		graph->alike = 0;
	}
	/* A launch of which the beginning was not recorded has other ordinals. */
	if (count == 0 || first + count < graph->collectives || make_room(graphs, graph, first + count))
		return;
	for (uint32_t i = 0; i < count; i++)
		graph->items[first + i] = (struct cs_graph_item){
			.node_id = unit->items[i].graph_node_id,
			.label_id = unit->items[i].label_id,
		};
}

void
cs_graphs_learn_whole(struct cs_graphs *graphs, uint32_t graph_id, uint32_t collectives, uint64_t now_ns)
{
	struct cs_graph *graph = cs_graphs_get(graphs, graph_id, now_ns);

	graph->captured.contradicted |= collectives != graph->captured.collectives;
	if (collectives == graph->collectives) {
		graph->alike++;
		return;
	}
	graph->varies |= graph->alike > 0;
	graph->collectives = collectives;
	graph->alike = 1;
}

static void
note_pass(struct cs_passes *passes, const struct cs_unit *unit, uint64_t bytes)
{
	uint32_t count = unit->step.collectives;

	if (count == 0)
		return;
	if (count > passes->collectives + passes->collectives / 2 || passes->small_in_a_row == SMALL_IN_A_ROW)
		*passes = (struct cs_passes){.collectives = count};
	if (passes->large + passes->small >= PASSES_MEMORY) {
		passes->large /= 2;
		passes->small /= 2;
		passes->large_whole /= 2;
	}
	if (count <= passes->collectives / CS_SMALL_SHARE) {
		passes->small++;
		passes->small_in_a_row++;
		return;
	}
	passes->small_in_a_row = 0;
	if (count > passes->collectives)
		passes->collectives = count;
	passes->large++;
	if (!unit->piece) {
		passes->large_whole++;
		passes->bytes = bytes;
	}
}

void
cs_graphs_note(struct cs_graphs *graphs, const struct cs_unit *unit, uint64_t bytes)
{
	if (unit->kind != CS_UNIT_LAUNCH)
		return;
	note_pass(&graphs->passes, unit, bytes);
}

void
cs_graphs_tell(struct cs_graphs *graphs)
{
	graphs->told = true;
}

static void
survey_one(const struct cs_captured *captured, uint32_t collectives, struct cs_survey *survey)
{
	if (captured->collectives > survey->largest / CS_SMALL_SHARE) {
		survey->large_graphs++;
		if (captured->bytes > survey->large_bytes)
			survey->large_bytes = captured->bytes;
	} else {
		survey->small_graphs++;
		if (captured->collectives > survey->small_collectives)
			survey->small_collectives = captured->collectives;
	}
	if (captured->collectives == collectives) {
		survey->like_graphs++;
		if (captured->bytes > survey->like_bytes)
			survey->like_bytes = captured->bytes;
	}
}

void
cs_graphs_survey(const struct cs_graphs *graphs, uint32_t collectives, struct cs_survey *survey)
{
	const struct cs_graph *all = &graphs->table[0][0];

	*survey = (struct cs_survey){0};
	for (size_t i = 0; graphs->told && i < (size_t)SETS * WAYS; i++) {
		if (all[i].graph_id && all[i].captured.collectives > survey->largest)
			survey->largest = all[i].captured.collectives;
	}
	for (size_t i = 0; survey->largest && i < (size_t)SETS * WAYS; i++) {
		if (all[i].graph_id && all[i].captured.collectives)
			survey_one(&all[i].captured, collectives, survey);
	}
}

const struct cs_passes *
cs_graphs_passes(const struct cs_graphs *graphs)
{
	return &graphs->passes;
}
