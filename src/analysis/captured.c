/* SPDX-License-Identifier: Apache-2.0 */
#include "captured.h"

#include "graphs.h"

/* More small graphs for each large one than any drafter has: pieces of passes (prefills, mixed batches). */
#define SMALL_PER_LARGE_MAX 3U
/* A draft of one layer reduces once at least, and gathers its logits. */
#define DRAFT_COLLECTIVES_MIN 2U

static void
withdraw(struct cs_graph *graph)
{
	if (graph->alike == 0 && graph->collectives == graph->captured.collectives)
		graph->collectives = 0;
	graph->captured = (struct cs_captured){0};
}

/* The first time, or an update has changed it. */
static void
begin(struct cs_graph *graph, uint32_t collectives)
{
	bool changed = graph->captured.collectives != 0;

	if (changed || (graph->alike == 0 && graph->collectives < collectives)) {
		graph->collectives = collectives;
		graph->alike = 0;
	}
	graph->captured = (struct cs_captured){
		.collectives = collectives, .contradicted = graph->collectives != collectives};
}

static void
add_run(const struct cs_lane *lane, struct cs_captured *captured, const struct cs_record *record)
{
	const struct cs_label *label = cs_dictionary_borrow_label(lane->source->dictionary, record->ref);

	if (captured->run_count == CS_GRAPH_RUNS_MAX || record->value == 0 || record->value > UINT32_MAX)
		return;
	captured->runs[captured->run_count++] = (struct cs_captured_run){
		.first = record->correlation_id,
		.count = (uint32_t)record->value,
		.label_id = record->ref,
		.node_id = record->graph_node_id,
	};
	if (record->ref && label->op == CS_OP_ALL_REDUCE && label->bytes != CS_BYTES_UNKNOWN &&
		label->bytes > captured->bytes)
		captured->bytes = label->bytes;
}

void
cs_captured_note(struct cs_lane *lane, const struct cs_record *record)
{
	struct cs_graph *graph = cs_graphs_find(lane->graphs, record->graph_id);

	if (record->graph_id == 0 || record->sequence > CS_STEP_ITEMS_MAX) {
		if (graph && record->sequence == CS_GRAPH_UNKNOWN)
			withdraw(graph);
		return;
	}
	if (record->sequence == 0) {
		if (graph)
			withdraw(graph);
		return;
	}
	if (!graph)
		graph = cs_graphs_get(lane->graphs, record->graph_id, record->end_ns);
	/* The records of one saying come in order. */
	if (record->correlation_id == 0)
		begin(graph, record->sequence);
	if (graph->captured.collectives != record->sequence)
		return;
	cs_graphs_tell(lane->graphs);
	add_run(lane, &graph->captured, record);
}

void
cs_captured_find(const struct cs_captured *captured, uint32_t ordinal, uint32_t *label_id, uint64_t *node_id)
{
	*label_id = 0;
	*node_id = 0;
	for (uint32_t i = 0; i < captured->run_count; i++) {
		const struct cs_captured_run *run = &captured->runs[i];

		if (ordinal < run->first || ordinal - run->first >= run->count)
			continue;
		*label_id = run->label_id;
		*node_id = ordinal == run->first ? run->node_id : 0;
	}
}

/* Small graphs that are a drafter's, not the pieces of larger passes. */
static bool
has_drafts(const struct cs_survey *survey)
{
	return survey->small_graphs > 0 && survey->small_collectives >= DRAFT_COLLECTIVES_MIN &&
	       survey->small_graphs <= SMALL_PER_LARGE_MAX * survey->large_graphs;
}

/* Against the message of the target's pass before it; if there was none, against the largest of all its
 * graphs, since both are captured for the same batches. */
static int
choose_draft(const struct cs_survey *survey, const struct cs_passes *passes, uint64_t bytes)
{
	if (bytes && passes->bytes && passes->collectives > survey->largest / CS_SMALL_SHARE)
		return cs_phase_of_draft(bytes, passes->bytes);
	/* More of them than targets: two kinds of pass with the same number. */
	if (!survey->like_bytes || !survey->large_bytes || survey->like_graphs > survey->large_graphs)
		return CS_PHASE_UNKNOWN;
	return cs_phase_of_draft(survey->like_bytes, survey->large_bytes);
}

int
cs_captured_phase(const struct cs_unit *unit, uint64_t bytes)
{
	const struct cs_graphs *graphs = unit->lane->graphs;
	const struct cs_passes *passes = cs_graphs_passes(graphs);
	const struct cs_graph *graph = cs_graphs_find(unit->lane->graphs, unit->step.graph_id);
	struct cs_survey survey;

	if (unit->kind != CS_UNIT_LAUNCH || unit->piece || unit->split || unit->step.launches != 1 ||
		!graph || !graph->captured.collectives || graph->captured.contradicted)
		return CS_PHASE_UNKNOWN;
	cs_graphs_survey(graphs, graph->captured.collectives, &survey);
	if (survey.largest < CS_TARGET_COLLECTIVES_MIN || !has_drafts(&survey))
		return CS_PHASE_UNKNOWN;
	if (graph->captured.collectives <= survey.largest / CS_SMALL_SHARE)
		return choose_draft(&survey, passes, bytes);
	/* Drafts are there, but are they used? One comes with every verify, before or after it. */
	return (passes->small + 1) * 2 >= passes->large ? CS_PHASE_VERIFY : CS_PHASE_UNKNOWN;
}
