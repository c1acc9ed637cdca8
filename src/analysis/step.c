/* SPDX-License-Identifier: Apache-2.0 */
#include "graphs.h"
#include "host.h"
#include "rules.h"

static bool
is_ready(const struct cs_unit *unit)
{
	return unit->closed && unit->open_items == 0;
}

static bool
is_piece(struct cs_lane *lane, const struct cs_unit *unit)
{
	if (unit->split || unit->continues)
		return false;
	if (unit->kind == CS_UNIT_LAUNCH)
		return unit->step.collectives <= CS_PIECE_COLLECTIVES_MAX;
	if (unit->kind == CS_UNIT_LIGHT) {
		const struct cs_graph *graph = cs_graphs_find(lane->graphs, unit->step.graph_id);

		return graph && graph->piece;
	}
	return false;
}

/* A graph comes once in a step: when it comes again, the next step has begun. */
static bool
was_in_run(struct cs_lane *lane, const struct cs_unit *unit)
{
	const struct cs_graph *graph = cs_graphs_find(lane->graphs, unit->step.graph_id);

	return graph && graph->run_id == lane->run_id;
}

static bool
shares_range(const struct cs_lane *lane, const struct cs_unit *a, const struct cs_unit *b)
{
	const struct cs_source *source = lane->source;
	const struct cs_rules *rules = source->analysis->rules;
	struct cs_host_range ranges_a[CS_HOST_RANGES_MAX], ranges_b[CS_HOST_RANGES_MAX];
	size_t count_a, count_b;

	if (!rules || !cs_rules_merge(rules))
		return false;
	count_a = cs_host_ranges(source->host, &a->step, ranges_a);
	count_b = cs_host_ranges(source->host, &b->step, ranges_b);
	for (size_t i = 0; i < count_a; i++) {
		for (size_t k = 0; k < count_b; k++) {
			if (ranges_a[i].start_ns == ranges_b[k].start_ns &&
				ranges_a[i].name_id == ranges_b[k].name_id &&
				cs_rules_merges(rules,
					cs_dictionary_borrow_name(source->dictionary, ranges_a[i].name_id)))
				return true;
		}
	}
	return false;
}

static uint32_t
count_run_items(const struct cs_lane *lane)
{
	uint32_t sum = 0;

	for (const struct cs_unit *unit = lane->run.first; unit; unit = unit->next)
		sum += unit->step.collectives;
	return sum;
}

/* Is the unit, which follows the run, still the same step? */
static bool
joins(struct cs_lane *lane, const struct cs_unit *unit)
{
	const struct cs_unit *first = lane->run.first;

	if (unit->step.collectives + count_run_items(lane) > CS_STEP_ITEMS_MAX)
		return false;
	if (unit->continues)
		return unit->step.collectives == 0;
	if (lane->run_sealed)
		return false;
	if (shares_range(lane, first, unit)) {
		lane->run_ranged = true;
		return true;
	}
	if (unit->idle_ns > CS_MERGE_GAP_NS)
		return false;
	if (unit->kind == CS_UNIT_EAGER)
		return lane->run.last && lane->run.last->kind == CS_UNIT_LAUNCH &&
		       first->kind == CS_UNIT_LAUNCH && unit->step.collectives <= CS_TAIL_COLLECTIVES_MAX;
	return unit->kind == first->kind && is_piece(lane, first) && is_piece(lane, unit) &&
	       !was_in_run(lane, unit);
}

static void
append_to_run(struct cs_lane *lane, struct cs_unit *unit)
{
	if (!lane->run.first)
		lane->run_sealed = false;
	if (!lane->run.first && lane->marker_name) {
		if (unit->step.start_ns - lane->marker_ns < CS_MARKER_WAIT_NS) {
			unit->name_before = lane->marker_name;
			unit->phase_before = lane->marker_phase;
		}
		lane->marker_name = 0;
	}
	if (unit->kind != CS_UNIT_EAGER) {
		lane->run_launches += !unit->continues;
		if (unit->step.graph_id)
			cs_graphs_get(lane->graphs, unit->step.graph_id, unit->step.end_ns)->run_id =
				lane->run_id;
	}
	cs_unit_list_append(&lane->run, unit);
}

static void
put_step(struct cs_lane *lane, struct cs_unit *unit)
{
	cs_unit_list_append(&lane->steps, unit);
	cs_group_enter(unit);
}

static void
finish_step(struct cs_lane *lane, struct cs_unit *unit)
{
	struct cs_split split = {0};
	uint32_t at = cs_phase_split(unit, &split);
	struct cs_unit *second = at ? cs_unit_cut(unit, at) : NULL;

	if (!second) {
		cs_phase_decide(unit);
		put_step(lane, unit);
		return;
	}
	unit->step.phase = split.first;
	second->step.phase = split.rest;
	unit->step.phase_rule = second->step.phase_rule = split.rule;
	unit->step.phase_line = second->step.phase_line = split.line;
	put_step(lane, unit);
	put_step(lane, second);
}

static void
note_piece(struct cs_lane *lane, const struct cs_unit *unit)
{
	struct cs_graph *graph;

	if (unit->kind != CS_UNIT_LAUNCH || unit->step.launches != 1 || !unit->step.graph_id ||
		!is_piece(lane, unit))
		return;
	graph = cs_graphs_get(lane->graphs, unit->step.graph_id, unit->step.end_ns);
	graph->piece = true;
	graph->alone = false;
}

/* Takes the run apart into steps: the whole run when `whole`, else each launch with the eager collectives
 * that follow. */
static void
end_run(struct cs_lane *lane, bool whole)
{
	struct cs_unit *step = cs_unit_list_pop(&lane->run);

	while (step) {
		struct cs_unit *next = cs_unit_list_pop(&lane->run);
		bool joined = next && (whole || next->continues || next->kind == CS_UNIT_EAGER);
		const struct cs_unit tail = next ? *next : *step;

		if (whole && next) {
			step->piece = true;
			note_piece(lane, step);
			note_piece(lane, next);
		}
		if (joined && cs_unit_absorb(step, next) == 0) {
			if (tail.name_after) {
				step->name_after = tail.name_after;
				step->phase_after = tail.phase_after;
			}
			/* A marker after the last collective cuts nothing off. */
			if (tail.continues && !step->continues)
				step->split = false;
			continue;
		}
		finish_step(lane, step);
		step = next;
	}
	lane->run_id++;
	lane->run_launches = 0;
	lane->run_ranged = false;
	lane->run_sealed = false;
}

/* Two or three pieces are one step only when markers on both sides say so and agree. */
static bool
is_marked_out(const struct cs_lane *lane)
{
	const struct cs_unit *first = lane->run.first;
	const struct cs_unit *last = lane->run.last;

	return first && last && lane->run_sealed && lane->run_launches > 1 &&
	       first->phase_before != CS_PHASE_UNKNOWN &&
	       (last->phase_after == CS_PHASE_UNKNOWN || last->phase_after == first->phase_before);
}

/* Markers on both sides that do not make one step of the run: each of its launches is a pass. */
static void
note_alone(struct cs_lane *lane)
{
	if (!lane->run_sealed || lane->run.first->phase_before == CS_PHASE_UNKNOWN)
		return;
	for (const struct cs_unit *unit = lane->run.first; unit; unit = unit->next) {
		if (unit->kind == CS_UNIT_LAUNCH && unit->step.graph_id)
			cs_graphs_get(lane->graphs, unit->step.graph_id, unit->step.end_ns)->alone = true;
	}
}

/*
 * Nothing marks the end of a drafter's last pass where the next kernels that matter are the target's (vLLM
 * V1). Two or three pieces behind a marker that begins a drafter's pass are one, unless one of their graphs
 * has been a pass of its own.
 */
static bool
is_last_of_drafter(const struct cs_lane *lane)
{
	uint8_t phase = lane->run.first->phase_before;

	if (lane->run_sealed || lane->run_launches < 2 ||
		(phase != CS_PHASE_DRAFT && phase != CS_PHASE_DRAFT_EXTEND))
		return false;
	for (const struct cs_unit *unit = lane->run.first; unit; unit = unit->next) {
		const struct cs_graph *graph = cs_graphs_find(lane->graphs, unit->step.graph_id);

		if (unit->kind == CS_UNIT_LIGHT || (graph && graph->alone))
			return false;
	}
	return true;
}

static void
close_run(struct cs_lane *lane)
{
	bool whole;

	if (!lane->run.first)
		return;
	whole = lane->run_ranged || lane->run_launches >= CS_PIECEWISE_MIN || is_marked_out(lane) ||
		is_last_of_drafter(lane);
	if (!whole)
		note_alone(lane);
	end_run(lane, whole);
}

/* Of several markers after a step the first that ends a phase speaks of it; of several before a step the
 * last. */
static void
take_boundary(struct cs_lane *lane, struct cs_unit *marker)
{
	struct cs_unit *last = lane->run.last;

	if (last && marker->step.start_ns < last->step.end_ns + CS_MARKER_WAIT_NS &&
		(!last->name_after || (!last->phase_after && marker->phase_after))) {
		last->name_after = marker->name_before;
		last->phase_after = marker->phase_after;
	}
	lane->run_sealed = true;
	lane->marker_name = marker->name_before;
	lane->marker_phase = marker->phase_before;
	lane->marker_ns = marker->step.end_ns;
	cs_unit_give(marker);
}

static void
take_unit(struct cs_lane *lane, struct cs_unit *unit)
{
	if (lane->run.last && lane->run.last->activity_after_ns == UINT64_MAX)
		lane->run.last->activity_after_ns = unit->step.start_ns;
	if (unit->kind == CS_UNIT_MARKER) {
		take_boundary(lane, unit);
		return;
	}
	if (lane->run.first && !joins(lane, unit))
		close_run(lane);
	append_to_run(lane, unit);
}

static void
move_watermark(struct cs_lane *lane, uint64_t frontier_ns)
{
	lane->watermark_ns = frontier_ns;
	if (lane->units.first && lane->units.first->step.start_ns < lane->watermark_ns)
		lane->watermark_ns = lane->units.first->step.start_ns;
	if (lane->run.first && lane->run.first->step.start_ns < lane->watermark_ns)
		lane->watermark_ns = lane->run.first->step.start_ns;
}

void
cs_lane_form(struct cs_lane *lane, uint64_t frontier_ns)
{
	while (lane->units.first && is_ready(lane->units.first))
		take_unit(lane, cs_unit_list_pop(&lane->units));
	if (lane->run.last && frontier_ns > lane->run.last->step.end_ns &&
		frontier_ns - lane->run.last->step.end_ns > CS_MARKER_WAIT_NS)
		close_run(lane);
	move_watermark(lane, frontier_ns);
}
