/* SPDX-License-Identifier: Apache-2.0 */
#include "graphs.h"
#include "host.h"
#include "overlap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct cs_lane *
cs_lane_new(struct cs_source *source, uint32_t gpu)
{
	struct cs_lane *lane = calloc(1, sizeof(*lane));

	if (!lane)
		return NULL;
	lane->graphs = cs_graphs_new();
	if (!lane->graphs) {
		free(lane);
		return NULL;
	}
	lane->source = source;
	lane->gpu = gpu;
	lane->run_id = 1;
	lane->rank = source->dictionary->gpu_count <= 1 ? source->dictionary->process.rank : CS_RANK_UNKNOWN;
	return lane;
}

static void
destroy_units(struct cs_unit_list *list)
{
	struct cs_unit *unit;

	while ((unit = cs_unit_list_pop(list))) {
		unit->lane->source->analysis->waiting_units--;
		unit->lane->source->analysis->waiting_items -= unit->step.collectives;
		cs_unit_destroy(unit);
	}
}

static void
open_unit(struct cs_lane *lane, struct cs_unit *unit)
{
	unit->open_next = lane->open;
	if (lane->open)
		lane->open->open_before = unit;
	lane->open = unit;
	cs_unit_list_append(&lane->units, unit);
}

static void
leave_open(struct cs_lane *lane, struct cs_unit *unit)
{
	if (unit->open_before)
		unit->open_before->open_next = unit->open_next;
	else
		lane->open = unit->open_next;
	if (unit->open_next)
		unit->open_next->open_before = unit->open_before;
	unit->open_before = unit->open_next = NULL;
}

void
cs_lane_destroy(struct cs_lane *lane)
{
	destroy_units(&lane->units);
	destroy_units(&lane->run);
	destroy_units(&lane->steps);
	cs_sweep_fini(&lane->sweep);
	cs_graphs_destroy(lane->graphs);
	free(lane->membership);
	free(lane);
}

static struct cs_unit **
launch_slot(struct cs_lane *lane, uint32_t correlation_id)
{
	return &lane->launches[correlation_id % CS_LAUNCH_HASH];
}

static void
forget_launch(struct cs_lane *lane, const struct cs_unit *unit)
{
	struct cs_unit **at = launch_slot(lane, unit->step.correlation_id);

	while (*at && *at != unit)
		at = &(*at)->hash_next;
	if (*at)
		*at = unit->hash_next;
	if (lane->last_launch == unit)
		lane->last_launch = NULL;
}

static void
close_unit(struct cs_lane *lane, struct cs_unit *unit)
{
	if (unit->closed)
		return;
	unit->closed = true;
	leave_open(lane, unit);
	if (unit->kind == CS_UNIT_LAUNCH) {
		forget_launch(lane, unit);
		cs_replay_close(unit);
	}
	if (lane->eager == unit)
		lane->eager = NULL;
}

/* A launch starts when the one before it on its stream is over. */
static void
close_stream(struct cs_lane *lane, uint32_t stream_id)
{
	struct cs_unit *next;

	for (struct cs_unit *unit = lane->open; unit; unit = next) {
		next = unit->open_next;
		if (unit->kind == CS_UNIT_LAUNCH && unit->stream_id == stream_id)
			close_unit(lane, unit);
	}
}

static struct cs_unit *
find_launch(struct cs_lane *lane, const struct cs_record *record)
{
	struct cs_unit *unit = lane->last_launch;

	if (unit && unit->step.correlation_id == record->correlation_id)
		return unit;
	for (unit = *launch_slot(lane, record->correlation_id); unit; unit = unit->hash_next) {
		if (unit->step.correlation_id == record->correlation_id)
			return unit;
	}
	return NULL;
}

static void
register_launch(struct cs_lane *lane, struct cs_unit *unit)
{
	struct cs_unit **slot = launch_slot(lane, unit->step.correlation_id);

	unit->hash_next = *slot;
	*slot = unit;
	unit->step.launches = 1;
	unit->step.launch_end_ns = unit->step.end_ns;
	open_unit(lane, unit);
	lane->last_launch = unit;
}

static struct cs_unit *
launch_of(struct cs_lane *lane, const struct cs_record *record)
{
	struct cs_unit *unit = find_launch(lane, record);

	if (!unit) {
		unit = cs_unit_take(lane, CS_UNIT_LAUNCH, record);
		if (!unit)
			return NULL;
		cs_host_seen(lane->source->host, record->correlation_id);
		close_stream(lane, record->stream_id);
		cs_replay_begin(unit, record);
		if (lane->eager)
			close_unit(lane, lane->eager);
		lane->eager_start_ns = 0;
		if (record->start_ns < lane->upcoming_ns + CS_MARKER_WAIT_NS)
			unit->phase_before = lane->upcoming_phase;
		lane->upcoming_phase = CS_PHASE_UNKNOWN;
		register_launch(lane, unit);
	}
	lane->last_launch = unit;
	if (record->end_ns > unit->step.end_ns)
		unit->step.end_ns = record->end_ns;
	if (record->end_ns > unit->step.launch_end_ns)
		unit->step.launch_end_ns = record->end_ns;
	return unit;
}

/* Eager work goes on, or begins anew after a pause. */
static void
note_eager(struct cs_lane *lane, const struct cs_record *record)
{
	if (!lane->eager_start_ns || record->start_ns > lane->eager_until_ns + CS_EAGER_GAP_NS) {
		if (lane->eager)
			close_unit(lane, lane->eager);
		lane->eager_start_ns = record->start_ns;
		lane->eager_until_ns = record->end_ns;
		lane->eager_before_ns = lane->busy_until_ns;
	}
	if (record->end_ns > lane->eager_until_ns)
		lane->eager_until_ns = record->end_ns;
	if (lane->eager && record->end_ns > lane->eager->step.end_ns)
		lane->eager->step.end_ns = record->end_ns;
}

static struct cs_unit *
eager_of(struct cs_lane *lane, const struct cs_record *record)
{
	struct cs_unit *unit;

	cs_host_seen(lane->source->host, record->correlation_id);
	cs_replay_pass(lane, record);
	note_eager(lane, record);
	if (lane->eager && lane->eager->step.collectives >= CS_STEP_ITEMS_MAX)
		close_unit(lane, lane->eager);
	if (lane->eager)
		return lane->eager;
	unit = cs_unit_take(lane, CS_UNIT_EAGER, record);
	if (!unit)
		return NULL;
	unit->step.graph_id = 0;
	unit->step.correlation_id = record->correlation_id;
	/* It began with the compute before the collective, and the pause before that is what counts. */
	unit->step.start_ns = lane->eager_start_ns;
	unit->activity_before_ns = lane->eager_before_ns;
	unit->idle_ns = lane->eager_start_ns > lane->eager_before_ns
				? lane->eager_start_ns - lane->eager_before_ns
				: 0;
	open_unit(lane, unit);
	lane->eager = unit;
	return unit;
}

static int
take_collective(struct cs_lane *lane, const struct cs_record *record)
{
	bool in_graph = record->flags & CS_RECORD_IN_GRAPH;
	struct cs_unit *unit = in_graph ? launch_of(lane, record) : eager_of(lane, record);
	uint32_t ordinal;
	int item;

	if (!unit)
		return -ENOMEM;
	item = cs_unit_add_item(unit, record, cs_group_find(lane, record->ref));
	if (item < 0)
		return item;
	ordinal = unit->launch_first + (uint32_t)item;
	if (in_graph)
		cs_replay_advance(lane, record, ordinal);
	if (record->end_ns >= lane->last_end_ns) {
		lane->last_end_ns = record->end_ns;
		lane->last_node_id = record->graph_node_id;
		lane->last_label_id = record->ref;
		lane->last_ordinal = ordinal;
	}
	return cs_sweep_add(&lane->sweep, record, unit, (uint32_t)item);
}

static int
take_light(struct cs_lane *lane, const struct cs_record *record)
{
	struct cs_unit *unit = cs_unit_take(lane, CS_UNIT_LIGHT, record);

	if (!unit)
		return -ENOMEM;
	if (lane->eager)
		close_unit(lane, lane->eager);
	lane->eager_start_ns = 0;
	cs_host_seen(lane->source->host, record->correlation_id);
	unit->closed = true;
	unit->step.launches = 1;
	unit->step.launch_end_ns = record->end_ns;
	cs_unit_list_append(&lane->units, unit);
	return cs_sweep_add(&lane->sweep, record, NULL, 0);
}

/* A marker inside a graph cuts the launch in two; outside it is a boundary of its own. */
static int
take_marker(struct cs_lane *lane, const struct cs_record *record)
{
	bool in_graph = record->flags & CS_RECORD_IN_GRAPH;
	struct cs_unit *launch = in_graph ? launch_of(lane, record) : NULL;
	struct cs_unit *unit;
	uint8_t ends, begins;
	int result = cs_sweep_add(&lane->sweep, record, NULL, 0);

	if (in_graph && !launch)
		return -ENOMEM;
	if (launch)
		cs_replay_advance(lane, record, UINT32_MAX);
	else
		cs_replay_pass(lane, record);
	cs_phase_marker(lane->source, record->ref, &ends, &begins);
	if (launch && launch->step.collectives == 0) {
		launch->name_before = record->ref;
		launch->phase_before = begins;
		return result;
	}
	/* A marker that says nothing, or "the same again": the passes of a draft in one graph stay one step.
	 */
	if (launch && begins == launch->phase_before && (ends == CS_PHASE_UNKNOWN || ends == begins))
		return result;
	unit = cs_unit_take(lane, in_graph ? CS_UNIT_LAUNCH : CS_UNIT_MARKER, record);
	if (!unit)
		return -ENOMEM;
	if (launch) {
		launch->name_after = record->ref;
		launch->phase_after = ends;
		launch->split = true;
		launch->goes_on = true;
		launch->activity_after_ns = record->start_ns;
		close_unit(lane, launch);
		cs_replay_begin(unit, record);
		unit->name_before = record->ref;
		unit->phase_before = begins;
		unit->continues = true;
		unit->split = true;
		unit->idle_ns = 0;
		register_launch(lane, unit);
		return result;
	}
	if (lane->eager)
		close_unit(lane, lane->eager);
	lane->eager_start_ns = 0;
	lane->upcoming_phase = begins;
	lane->upcoming_ns = record->end_ns;
	unit->closed = true;
	unit->name_before = record->ref;
	unit->phase_after = ends;
	unit->phase_before = begins;
	cs_unit_list_append(&lane->units, unit);
	return result;
}

static int
take_busy(struct cs_lane *lane, const struct cs_record *record)
{
	if (record->flags & CS_RECORD_IN_GRAPH) {
		if (!launch_of(lane, record))
			return -ENOMEM;
		cs_replay_advance(lane, record, UINT32_MAX);
	} else {
		cs_replay_pass(lane, record);
		if (record->klass != CS_BUSY_COPY)
			note_eager(lane, record);
	}
	return cs_sweep_add(&lane->sweep, record, NULL, 0);
}

int
cs_lane_take(struct cs_lane *lane, const struct cs_record *record)
{
	int result;

	switch (record->type) {
	case CS_RECORD_COLLECTIVE:
		result = take_collective(lane, record);
		break;
	case CS_RECORD_BUSY:
		result = take_busy(lane, record);
		break;
	case CS_RECORD_GRAPH_LAUNCH:
		result = take_light(lane, record);
		break;
	default:
		result = take_marker(lane, record);
		break;
	}
	if (record->end_ns > lane->busy_until_ns)
		lane->busy_until_ns = record->end_ns;
	return result;
}

int
cs_lane_take_late(struct cs_lane *lane, const struct cs_record *record)
{
	struct cs_unit *unit = cs_unit_take(lane, CS_UNIT_LATE, record);
	int item;

	if (!unit)
		return -ENOMEM;
	item = cs_unit_add_item(unit, record, NULL);
	if (item < 0) {
		cs_unit_give(unit);
		return item;
	}
	unit->closed = true;
	unit->extra[item].blind = true;
	cs_unit_list_append(&lane->steps, unit);
	return 0;
}

void
cs_lane_restart(struct cs_lane *lane)
{
	cs_sweep_fini(&lane->sweep);
	cs_graphs_restart(lane->graphs);
	lane->marker_name = 0;
	lane->marker_phase = lane->upcoming_phase = CS_PHASE_UNKNOWN;
	lane->marker_ns = lane->upcoming_ns = 0;
	lane->busy_until_ns = 0;
	lane->eager_start_ns = lane->eager_until_ns = lane->eager_before_ns = 0;
	lane->watermark_ns = 0;
	lane->last_end_ns = lane->last_node_id = 0;
	lane->last_label_id = lane->last_ordinal = 0;
	memset(lane->recent, 0, sizeof(lane->recent));
	lane->stillness = (struct cs_stillness){0};
}

static bool
is_over(const struct cs_unit *unit, uint64_t frontier_ns)
{
	uint64_t grace_ns = unit->kind == CS_UNIT_EAGER ? CS_EAGER_GAP_NS : CS_QUIET_NS;

	return frontier_ns > unit->step.end_ns && frontier_ns - unit->step.end_ns > grace_ns;
}

void
cs_lane_advance(struct cs_lane *lane, uint64_t frontier_ns)
{
	struct cs_unit *next;

	cs_sweep_advance(&lane->sweep, frontier_ns == UINT64_MAX ? lane->busy_until_ns : frontier_ns);
	for (struct cs_unit *unit = lane->open; unit; unit = next) {
		next = unit->open_next;
		if (is_over(unit, frontier_ns))
			close_unit(lane, unit);
	}
	cs_lane_form(lane, frontier_ns);
}

void
cs_lane_force(struct cs_lane *lane)
{
	for (size_t i = 0; i < lane->sweep.count; i++) {
		struct cs_active *active = &lane->sweep.active[i];

		if (!active->unit)
			continue;
		active->unit->extra[active->item].blind = true;
		active->unit->open_items--;
		active->unit = NULL;
	}
	while (lane->open)
		close_unit(lane, lane->open);
	cs_lane_form(lane, lane->watermark_ns);
}
