/* SPDX-License-Identifier: Apache-2.0 */
#include "graphs.h"

/* The window, or nothing at all, cut something off before or after the step. A step of several launches, or
 * of none, has no beginning of its own: at a window's edge some of it may be missing. */
static bool
is_at_edge(const struct cs_unit *unit, const struct cs_span *span)
{
	bool first = span->start_ns > 0 && unit->activity_before_ns < span->start_ns;
	bool last = span->end_ns != UINT64_MAX && unit->activity_after_ns > span->end_ns;
	const struct cs_graph *graph;

	if (unit->kind == CS_UNIT_EAGER || unit->piece)
		return (first && unit->step.start_ns - span->start_ns < CS_EAGER_GAP_NS) ||
		       (last && span->end_ns - unit->step.end_ns < CS_EAGER_GAP_NS);
	if (unit->goes_on && !unit->launch_items)
		return first;
	graph = cs_graphs_find(unit->lane->graphs, unit->last_graph_id);
	return (first || last) && graph && unit->launch_items < graph->collectives;
}

static bool
is_whole(const struct cs_unit *unit)
{
	const struct cs_windows *windows = &unit->lane->source->windows;
	struct cs_span span;

	if (unit->kind == CS_UNIT_LIGHT)
		return true;
	if (!cs_windows_saw(windows, unit->step.start_ns, unit->step.end_ns) ||
		!cs_windows_find(windows, unit->step.start_ns, &span))
		return false;
	return !is_at_edge(unit, &span) && !cs_replay_is_cut(unit);
}

/* The number of the step that a launch stopped in: the one it was handed out with, or else would have had. */
static void
note_cut(const struct cs_unit *unit)
{
	struct cs_replay *replay;

	if (!cs_replay_is_cut(unit))
		return;
	replay = cs_replay_find(unit->lane, unit->last_correlation_id);
	replay->step = unit->step.step ? unit->step.step : unit->lane->source->step_count + 1;
}

static void
hide_overlap(struct cs_collective *item)
{
	for (unsigned int k = 0; k < CS_BUSY_CLASS_COUNT; k++)
		item->overlap_ns[k] = CS_NS_UNKNOWN;
	for (unsigned int d = 0; d < CS_COPY_DIRECTION_COUNT; d++)
		item->copy_ns[d] = CS_NS_UNKNOWN;
	item->exposed_ns = item->dependent_ns = CS_NS_UNKNOWN;
}

/* What follows a step over the edge of the newest window is still that step: no other window has opened for
 * it. */
static bool
saw_item(const struct cs_windows *windows, const struct cs_step *step, const struct cs_collective *item)
{
	if (item->start_ns >= windows->newest_end_ns && step->start_ns < windows->newest_end_ns)
		return false;
	return cs_windows_saw(windows, item->start_ns, item->end_ns);
}

static void
finish_items(struct cs_unit *unit)
{
	const struct cs_source *source = unit->lane->source;
	struct cs_step *step = &unit->step;
	bool seen = cs_windows_saw(&source->windows, step->start_ns, step->end_ns);
	uint64_t reach_ns = 0;

	for (uint32_t i = 0; i < step->collectives; i++) {
		struct cs_collective *item = &unit->items[i];

		item->label = cs_dictionary_borrow_label(source->dictionary, item->label_id);
		item->step = step->step;
		item->ordinal = i;
		item->phase = step->phase;
		if (item->end_ns > reach_ns) {
			step->collective_ns +=
				item->end_ns - (item->start_ns > reach_ns ? item->start_ns : reach_ns);
			reach_ns = item->end_ns;
		}
		if (unit->extra[i].blind || (!seen && !saw_item(&source->windows, step, item))) {
			hide_overlap(item);
			step->exposed_collective_ns = CS_NS_UNKNOWN;
		} else if (step->exposed_collective_ns != CS_NS_UNKNOWN) {
			step->exposed_collective_ns += unit->extra[i].share_ns;
		}
	}
}

static void
deliver(struct cs_source *source, struct cs_unit *unit)
{
	struct cs_analysis *analysis = source->analysis;
	struct cs_step *step = &unit->step;
	bool handed_out = false;

	step->rank = unit->lane->rank;
	step->part = unit->split;
	if (unit->kind != CS_UNIT_LATE) {
		step->complete = is_whole(unit);
		if (step->complete)
			analysis->counts.steps++;
		else
			analysis->counts.incomplete_steps++;
		handed_out = step->complete || analysis->incomplete_steps;
	}
	if (handed_out)
		step->step = ++source->step_count;
	note_cut(unit);
	finish_items(unit);
	step->items = step->collectives ? unit->items : NULL;
	if (handed_out && analysis->sink.step)
		analysis->sink.step(analysis->sink.context, step);
	for (uint32_t i = 0; analysis->sink.collective && i < step->collectives; i++)
		analysis->sink.collective(analysis->sink.context, &unit->items[i]);
	analysis->waiting_items -= step->collectives;
	cs_unit_give(unit);
}

/* The lane whose next step comes first; NULL while something earlier may still come from another lane. */
static struct cs_lane *
find_next(struct cs_source *source)
{
	struct cs_lane *next = NULL;

	for (uint32_t i = 0; i < CS_GPUS_MAX; i++) {
		struct cs_lane *lane = source->lanes[i];

		if (lane && lane->steps.first &&
			(!next || lane->steps.first->step.start_ns < next->steps.first->step.start_ns))
			next = lane;
	}
	for (uint32_t i = 0; next && i < CS_GPUS_MAX; i++) {
		struct cs_lane *lane = source->lanes[i];

		if (lane && lane != next && !lane->steps.first &&
			lane->watermark_ns < next->steps.first->step.start_ns)
			return NULL;
	}
	return next && next->steps.first->open_parts == 0 ? next : NULL;
}

void
cs_source_deliver(struct cs_source *source)
{
	struct cs_lane *lane;

	while ((lane = find_next(source)))
		deliver(source, cs_unit_list_pop(&lane->steps));
}
