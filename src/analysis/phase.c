/* SPDX-License-Identifier: Apache-2.0 */
#include "catalog/catalog.h"
#include "graphs.h"
#include "host.h"
#include "rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Launches after which the absence of drafts says something. */
#define ENOUGH_LAUNCHES 8U

void
cs_phase_marker(struct cs_source *source, uint32_t name_id, uint8_t *ends, uint8_t *begins)
{
	struct cs_marker_sense *sense;

	*ends = *begins = CS_PHASE_UNKNOWN;
	if (name_id >= source->marker_count) {
		uint32_t count = name_id < 64 ? 64 : name_id + 64;
		struct cs_marker_sense *grown;

		if (name_id >= CS_NAMES_MAX)
			return;
		grown = reallocarray(source->markers, count, sizeof(*grown));
		if (!grown)
			return;
		memset(grown + source->marker_count, 0, (count - source->marker_count) * sizeof(*grown));
		source->markers = grown;
		source->marker_count = count;
	}
	sense = &source->markers[name_id];
	if (!sense->known) {
		struct cs_catalog_match match;

		cs_catalog_classify(source->analysis->catalog,
			cs_dictionary_borrow_name(source->dictionary, name_id), &match);
		if (match.kind == CS_CATALOG_MARKER)
			*sense = (struct cs_marker_sense){.ends = match.phase, .begins = match.phase_next};
		sense->known = true;
	}
	*ends = sense->ends;
	*begins = sense->begins;
}

/* The largest all-reduce of the step: tokens x hidden x element, where the gather of logits would mislead. */
static const struct cs_label *
find_largest(const struct cs_unit *unit)
{
	const struct cs_dictionary *dictionary = unit->lane->source->dictionary;
	const struct cs_label *largest = NULL;
	uint32_t last_id = UINT32_MAX;

	for (uint32_t i = 0; i < unit->step.collectives; i++) {
		const struct cs_label *label;

		if (unit->items[i].label_id == last_id)
			continue;
		last_id = unit->items[i].label_id;
		label = cs_dictionary_borrow_label(dictionary, last_id);
		if (label->op == CS_OP_ALL_REDUCE && last_id != 0 && label->bytes != CS_BYTES_UNKNOWN &&
			(!largest || label->bytes > largest->bytes))
			largest = label;
	}
	return largest;
}

static void
gather_facts(const struct cs_unit *unit, const struct cs_label *largest, struct cs_step_facts *facts)
{
	const struct cs_source *source = unit->lane->source;
	struct cs_host_range ranges[CS_HOST_RANGES_MAX];
	unsigned int element_bytes = largest ? cs_dtype_bytes(largest->dtype) : 0;

	*facts = (struct cs_step_facts){
		.after = cs_dictionary_borrow_name(source->dictionary, unit->name_before),
		.before = cs_dictionary_borrow_name(source->dictionary, unit->name_after),
		.collectives = unit->step.collectives,
		.launches = unit->step.launches,
		.graph = unit->kind != CS_UNIT_EAGER,
		.bytes = largest ? largest->bytes : CS_BYTES_UNKNOWN,
		.count = largest ? largest->count : 0,
	};
	if (facts->count == 0 && element_bytes)
		facts->count = largest->bytes / element_bytes;
	facts->range_count = cs_host_ranges(source->host, &unit->step, ranges);
	for (size_t i = 0; i < facts->range_count; i++) {
		facts->ranges[i] = cs_dictionary_borrow_name(source->dictionary, ranges[i].name_id);
		facts->range_ids[i] = ranges[i].name_id;
	}
}

/* Names that say it in so many words; the stacks' own (docs/steps.md). */
static int
phase_of_range(const char *name)
{
	unsigned int context;
	int phase = cs_phase_parse(name);

	if (phase > CS_PHASE_UNKNOWN)
		return phase;
	if (strcmp(name, "gpu_model_runner: draft") == 0)
		return CS_PHASE_DRAFT;
	if (strncmp(name, "step[TARGET_VERIFY", 18) == 0)
		return CS_PHASE_VERIFY;
	if (strncmp(name, "step[DRAFT_EXTEND", 17) == 0)
		return CS_PHASE_DRAFT_EXTEND;
	if (strncmp(name, "step[DECODE", 11) == 0)
		return CS_PHASE_DECODE;
	if (strncmp(name, "step[EXTEND", 11) == 0)
		return CS_PHASE_PREFILL;
	if (sscanf(name, "execute_context_%u(", &context) == 1 && context > 0)
		return CS_PHASE_PREFILL;
	if (sscanf(name, "[Executor] _forward_step %*u: %u ctx reqs", &context) == 1 && context > 0)
		return CS_PHASE_PREFILL;
	return CS_PHASE_UNKNOWN;
}

static int
phase_of_ranges(const struct cs_step_facts *facts, uint32_t *name_id)
{
	for (size_t i = 0; i < facts->range_count; i++) {
		int phase = phase_of_range(facts->ranges[i]);

		if (phase == CS_PHASE_UNKNOWN)
			continue;
		*name_id = facts->range_ids[i];
		return phase;
	}
	return CS_PHASE_UNKNOWN;
}

/* The marker that ends a step knows it better than the one before it, which may be far. */
static int
phase_of_markers(const struct cs_unit *unit, uint32_t *name_id)
{
	if (unit->phase_after || unit->phase_before)
		*name_id = unit->phase_after ? unit->name_after : unit->name_before;
	return unit->phase_after ? unit->phase_after : unit->phase_before;
}

int
cs_phase_of_draft(uint64_t bytes, uint64_t target_bytes)
{
	if (bytes >= target_bytes)
		return CS_PHASE_DRAFT_EXTEND;
	return bytes <= target_bytes / 2 ? CS_PHASE_DRAFT : CS_PHASE_UNKNOWN;
}

static int
phase_of_signature(const struct cs_unit *unit, uint64_t bytes)
{
	const struct cs_passes *passes = cs_graphs_passes(unit->lane->graphs);
	bool drafts = passes->small > 0 && passes->small * 2 >= passes->large;
	uint32_t count = unit->step.collectives;

	if (count == 0)
		return CS_PHASE_UNKNOWN;
	if (passes->large + passes->small < ENOUGH_LAUNCHES)
		return cs_captured_phase(unit, bytes);
	if (passes->collectives < CS_TARGET_COLLECTIVES_MIN)
		return CS_PHASE_UNKNOWN;
	if (count * 4 <= passes->collectives) {
		if (unit->kind != CS_UNIT_LAUNCH || !drafts)
			return CS_PHASE_UNKNOWN;
		if (!bytes || !passes->bytes)
			return CS_PHASE_UNKNOWN;
		return cs_phase_of_draft(bytes, passes->bytes);
	}
	/* As large as the target. In one graph: a step of the running requests. Otherwise what no graph was
	 * captured for. */
	if (unit->kind == CS_UNIT_LAUNCH && !unit->piece) {
		if (drafts)
			return CS_PHASE_VERIFY;
		return passes->small == 0 ? CS_PHASE_DECODE : CS_PHASE_UNKNOWN;
	}
	return passes->large_whole > 0 && bytes > passes->bytes ? CS_PHASE_PREFILL : CS_PHASE_UNKNOWN;
}

/* The first pass of a launch that would have had more. */
static int
phase_of_cut(const struct cs_unit *unit, struct cs_step *decided)
{
	const struct cs_graph *graph = cs_graphs_find(unit->lane->graphs, unit->step.graph_id);

	if (!graph || !graph->split.at || unit->split || unit->piece || !cs_replay_is_cut(unit))
		return CS_PHASE_UNKNOWN;
	decided->phase_rule = graph->split.rule;
	decided->phase_line = graph->split.line;
	return graph->split.first;
}

/* A window's edge may cut off the marker that tells the phase; what it told of the same graph elsewhere
 * holds, unless that graph serves several phases. */
static int
phase_of_graph(const struct cs_unit *unit, struct cs_step *decided)
{
	const struct cs_graph *graph;

	if (unit->kind != CS_UNIT_LAUNCH || unit->split || unit->piece || unit->step.launches != 1)
		return CS_PHASE_UNKNOWN;
	graph = cs_graphs_find(unit->lane->graphs, unit->step.graph_id);
	if (!graph || graph->told_otherwise || graph->told_phase == CS_PHASE_UNKNOWN)
		return CS_PHASE_UNKNOWN;
	decided->phase_rule = graph->told_rule;
	decided->phase_name = graph->told_name;
	return graph->told_phase;
}

static void
note_phase(struct cs_graph *graph, const struct cs_unit *unit)
{
	const struct cs_step *step = &unit->step;

	if (step->phase == CS_PHASE_UNKNOWN)
		return;
	graph->phase = step->phase;
	graph->phase_rule = step->phase_rule;
	graph->phase_line = step->phase_line;
	graph->phase_name = step->phase_name;
	if (unit->split ||
		(step->phase_rule != CS_PHASE_RULE_NVTX && step->phase_rule != CS_PHASE_RULE_MARKER))
		return;
	if (graph->told_phase != CS_PHASE_UNKNOWN && graph->told_phase != step->phase)
		graph->told_otherwise = true;
	graph->told_phase = step->phase;
	graph->told_rule = step->phase_rule;
	graph->told_name = step->phase_name;
}

static void
decide_light(struct cs_unit *unit)
{
	const struct cs_graph *graph = cs_graphs_find(unit->lane->graphs, unit->step.graph_id);

	if (graph) {
		unit->step.phase = graph->phase;
		unit->step.phase_rule = graph->phase_rule;
		unit->step.phase_line = graph->phase_line;
		unit->step.phase_name = graph->phase_name;
	}
}

/* What is not the user's: the first that knows an answer. */
static int
decide_by_itself(const struct cs_unit *unit, const struct cs_step_facts *facts, uint64_t bytes,
	struct cs_step *decided)
{
	int phase;

	decided->phase_rule = CS_PHASE_RULE_NVTX;
	phase = phase_of_ranges(facts, &decided->phase_name);
	if (phase != CS_PHASE_UNKNOWN)
		return phase;
	decided->phase_rule = CS_PHASE_RULE_MARKER;
	phase = phase_of_markers(unit, &decided->phase_name);
	if (phase != CS_PHASE_UNKNOWN)
		return phase;
	phase = phase_of_cut(unit, decided);
	if (phase == CS_PHASE_UNKNOWN)
		phase = phase_of_graph(unit, decided);
	if (phase != CS_PHASE_UNKNOWN)
		return phase;
	phase = phase_of_signature(unit, bytes);
	decided->phase_rule = phase ? CS_PHASE_RULE_SIGNATURE : CS_PHASE_RULE_NONE;
	return phase;
}

static void
decide(struct cs_unit *unit, const struct cs_step_facts *facts, uint64_t bytes)
{
	const struct cs_rules *rules = unit->lane->source->analysis->rules;
	struct cs_step *step = &unit->step;
	int phase = rules ? cs_rules_phase(rules, facts, &step->phase_line) : -1;

	if (phase >= 0)
		step->phase_rule = CS_PHASE_RULE_USER;
	else
		phase = decide_by_itself(unit, facts, bytes, step);
	step->phase = (uint8_t)phase;
}

void
cs_phase_decide(struct cs_unit *unit)
{
	const struct cs_label *largest = find_largest(unit);
	struct cs_step_facts facts;
	struct cs_graph *graph;

	gather_facts(unit, largest, &facts);
	if (unit->kind == CS_UNIT_LIGHT) {
		decide_light(unit);
		return;
	}
	if (!cs_replay_is_cut(unit))
		cs_graphs_note(unit->lane->graphs, unit, largest ? largest->bytes : 0);
	decide(unit, &facts, largest ? largest->bytes : 0);
	graph = cs_graphs_find(unit->lane->graphs, unit->step.graph_id);
	if (graph)
		note_phase(graph, unit);
}

/* Each pass of a model ends with the gather of its logits: a long pass and then only short ones in one graph
 * are a target and its drafts. */
static uint32_t
split_by_gather(const struct cs_unit *unit)
{
	const struct cs_dictionary *dictionary = unit->lane->source->dictionary;
	uint32_t first = 0, since = 0, longest = 0;

	for (uint32_t i = 0; i < unit->step.collectives; i++) {
		since++;
		if (cs_dictionary_borrow_label(dictionary, unit->items[i].label_id)->op != CS_OP_ALL_GATHER)
			continue;
		if (!first)
			first = i + 1;
		else if (since > longest)
			longest = since;
		since = 0;
	}
	/* Something after the last gather, or no second pass: not that shape. */
	if (since || !longest || first < CS_TARGET_COLLECTIVES_MIN || longest * 4 > first)
		return 0;
	return first;
}

static uint32_t
split_whole(const struct cs_unit *unit, struct cs_split *split)
{
	const struct cs_rules *rules = unit->lane->source->analysis->rules;
	struct cs_step_facts facts;
	uint32_t at = 0;

	if (rules) {
		gather_facts(unit, find_largest(unit), &facts);
		split->rule = CS_PHASE_RULE_USER;
		at = cs_rules_split(rules, &facts, &split->first, &split->rest, &split->line);
	}
	if (!at && unit->step.collectives > CS_TARGET_COLLECTIVES_MIN) {
		*split = (struct cs_split){
			.first = CS_PHASE_VERIFY, .rest = CS_PHASE_DRAFT, .rule = CS_PHASE_RULE_SIGNATURE};
		at = split_by_gather(unit);
	}
	return at;
}

uint32_t
cs_phase_split(const struct cs_unit *unit, struct cs_split *split)
{
	struct cs_graph *graph = cs_graphs_find(unit->lane->graphs, unit->step.graph_id);

	if (unit->kind != CS_UNIT_LAUNCH || unit->split || unit->step.launches != 1)
		return 0;
	/* A launch that stopped has the first pass, and perhaps some of the rest, where they always are. */
	if (cs_replay_is_cut(unit)) {
		if (!graph->split.at || graph->split.at >= unit->step.collectives)
			return 0;
		*split = graph->split;
		return split->at;
	}
	split->at = split_whole(unit, split);
	if (graph)
		graph->split = *split;
	return split->at;
}
