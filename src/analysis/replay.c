/* SPDX-License-Identifier: Apache-2.0 */
#include "graphs.h"

struct cs_replay *
cs_replay_find(struct cs_lane *lane, uint32_t correlation_id)
{
	/* Mostly the newest. */
	for (uint32_t i = 1; i <= CS_REPLAYS_KEPT; i++) {
		struct cs_replay *replay =
			&lane->recent[(lane->recent_next + CS_REPLAYS_KEPT - i) % CS_REPLAYS_KEPT];

		if (replay->known && replay->correlation_id == correlation_id)
			return replay;
	}
	return NULL;
}

/* Was every record of it seen, from the first to the last, given that the next work began at next_ns? */
static bool
was_seen_whole(const struct cs_lane *lane, const struct cs_replay *replay, uint64_t next_ns)
{
	const struct cs_windows *windows = &lane->source->windows;
	struct cs_span span;

	if (!cs_windows_saw(windows, replay->start_ns, replay->end_ns) ||
		!cs_windows_find(windows, replay->start_ns, &span))
		return false;
	if (span.start_ns > 0 && replay->before_ns < span.start_ns)
		return false;
	return next_ns <= span.end_ns;
}

static void
finish(struct cs_lane *lane, struct cs_replay *replay, uint64_t next_ns)
{
	replay->over = true;
	if (replay->graph_id && was_seen_whole(lane, replay, next_ns))
		cs_graphs_learn_whole(lane->graphs, replay->graph_id, replay->ended, replay->end_ns);
}

/* A stream does one thing after the other, and an executable graph does not run beside itself. */
static void
finish_before(struct cs_lane *lane, const struct cs_record *record)
{
	bool in_graph = record->flags & CS_RECORD_IN_GRAPH;

	for (uint32_t i = 0; i < CS_REPLAYS_KEPT; i++) {
		struct cs_replay *replay = &lane->recent[i];

		if (!replay->known || replay->over)
			continue;
		if (replay->stream_id == record->stream_id ||
			(in_graph && replay->graph_id && replay->graph_id == record->graph_id))
			finish(lane, replay, record->start_ns);
	}
}

void
cs_replay_begin(struct cs_unit *unit, const struct cs_record *record)
{
	struct cs_lane *lane = unit->lane;
	struct cs_replay *replay = cs_replay_find(lane, record->correlation_id);

	unit->last_graph_id = record->graph_id;
	unit->last_correlation_id = record->correlation_id;
	if (replay && !replay->over) {
		/* Behind a marker, or after a pause so long that it was taken for its end. */
		unit->launch_first = replay->ended;
		return;
	}
	finish_before(lane, record);
	lane->recent[lane->recent_next++ % CS_REPLAYS_KEPT] = (struct cs_replay){
		.known = true,
		.graph_id = record->graph_id,
		.correlation_id = record->correlation_id,
		.stream_id = record->stream_id,
		.start_ns = record->start_ns,
		.end_ns = record->end_ns,
		.before_ns = unit->activity_before_ns,
	};
}

void
cs_replay_advance(struct cs_lane *lane, const struct cs_record *record, uint32_t ordinal)
{
	struct cs_replay *replay = cs_replay_find(lane, record->correlation_id);

	if (!replay)
		return;
	if (record->end_ns > replay->end_ns)
		replay->end_ns = record->end_ns;
	replay->trailing = ordinal == UINT32_MAX;
	if (ordinal != UINT32_MAX)
		replay->ended = ordinal + 1;
}

void
cs_replay_pass(struct cs_lane *lane, const struct cs_record *record)
{
	finish_before(lane, record);
}

void
cs_replay_close(struct cs_unit *unit)
{
	if (!unit->goes_on)
		unit->launch_items = unit->launch_first + unit->step.collectives;
	if (unit->step.graph_id)
		cs_graphs_learn_items(unit->lane->graphs, unit);
}

bool
cs_replay_lacks(const struct cs_unit *unit)
{
	const struct cs_graph *graph = cs_graphs_find(unit->lane->graphs, unit->last_graph_id);

	return unit->kind == CS_UNIT_LAUNCH && !unit->goes_on && graph &&
	       unit->launch_items < graph->collectives;
}

bool
cs_replay_is_cut(const struct cs_unit *unit)
{
	const struct cs_replay *replay;

	if (!cs_replay_lacks(unit))
		return false;
	replay = cs_replay_find(unit->lane, unit->last_correlation_id);
	return replay && !replay->over;
}
