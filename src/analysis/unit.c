/* SPDX-License-Identifier: Apache-2.0 */
#include "private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 16U

struct cs_unit *
cs_unit_take(struct cs_lane *lane, enum cs_unit_kind kind, const struct cs_record *record)
{
	struct cs_analysis *analysis = lane->source->analysis;
	struct cs_unit *unit = analysis->spare_units;
	struct cs_collective *items = NULL;
	struct cs_item_extra *extra = NULL;
	uint32_t capacity = 0;

	if (unit) {
		analysis->spare_units = unit->next;
		analysis->spare_unit_count--;
		items = unit->items;
		extra = unit->extra;
		capacity = unit->capacity;
	} else {
		unit = malloc(sizeof(*unit));
		if (!unit)
			return NULL;
	}
	memset(unit, 0, sizeof(*unit));
	analysis->waiting_units++;
	unit->items = items;
	unit->extra = extra;
	unit->capacity = capacity;
	unit->lane = lane;
	unit->kind = kind;
	unit->stream_id = record->stream_id;
	unit->activity_before_ns = lane->busy_until_ns;
	unit->activity_after_ns = UINT64_MAX;
	if (record->start_ns > lane->busy_until_ns)
		unit->idle_ns = record->start_ns - lane->busy_until_ns;
	unit->step = (struct cs_step){
		.source = lane->source->id,
		.gpu = lane->gpu,
		.depth = kind == CS_UNIT_LIGHT ? CS_DEPTH_LIGHT : CS_DEPTH_DEEP,
		.start_ns = record->start_ns,
		.end_ns = record->end_ns,
		.graph_id = record->graph_id,
		.correlation_id = record->correlation_id,
		.rank = lane->rank,
	};
	return unit;
}

void
cs_unit_destroy(struct cs_unit *unit)
{
	free(unit->singles);
	free(unit->items);
	free(unit->extra);
	free(unit);
}

void
cs_unit_give(struct cs_unit *unit)
{
	struct cs_analysis *analysis = unit->lane->source->analysis;

	analysis->waiting_units--;
	free(unit->singles);
	unit->singles = NULL;
	if (analysis->spare_unit_count >= CS_SPARE_UNITS || unit->capacity > 1024) {
		cs_unit_destroy(unit);
		return;
	}
	unit->next = analysis->spare_units;
	analysis->spare_units = unit;
	analysis->spare_unit_count++;
}

static int
reserve(struct cs_unit *unit, uint32_t count)
{
	uint32_t capacity = unit->capacity ? unit->capacity : FIRST_CAPACITY;
	struct cs_collective *items;
	struct cs_item_extra *extra;

	if (count <= unit->capacity)
		return 0;
	while (capacity < count)
		capacity *= 2;
	items = reallocarray(unit->items, capacity, sizeof(*items));
	if (!items)
		return -ENOMEM;
	unit->items = items;
	extra = reallocarray(unit->extra, capacity, sizeof(*extra));
	if (!extra)
		return -ENOMEM;
	unit->extra = extra;
	unit->capacity = capacity;
	return 0;
}

int
cs_unit_add_item(struct cs_unit *unit, const struct cs_record *record, struct cs_member *member)
{
	uint32_t index = unit->step.collectives;
	int result = reserve(unit, index + 1);

	if (result)
		return result;
	unit->items[index] = (struct cs_collective){
		.source = unit->step.source,
		.gpu = unit->step.gpu,
		.label_id = record->ref,
		.record_flags = record->flags,
		.start_ns = record->start_ns,
		.end_ns = record->end_ns,
		.bytes = record->value,
		.graph_node_id = record->graph_node_id,
		.graph_id = record->graph_id,
		.correlation_id = record->correlation_id,
		.stream_id = record->stream_id,
		.wait_ns = CS_NS_UNKNOWN,
		.transfer_ns = CS_NS_UNKNOWN,
	};
	unit->extra[index] = (struct cs_item_extra){.member = member, .sequence = record->sequence};
	unit->step.collectives++;
	unit->lane->source->analysis->waiting_items++;
	if (record->end_ns > unit->step.end_ns)
		unit->step.end_ns = record->end_ns;
	return (int)index;
}

int
cs_unit_absorb(struct cs_unit *unit, struct cs_unit *from)
{
	uint32_t count = unit->step.collectives;
	int result = reserve(unit, count + from->step.collectives);

	if (result)
		return result;
	if (from->step.collectives) {
		memcpy(unit->items + count, from->items, from->step.collectives * sizeof(*from->items));
		memcpy(unit->extra + count, from->extra, from->step.collectives * sizeof(*from->extra));
	}
	unit->step.collectives += from->step.collectives;
	if (!from->continues)
		unit->step.launches += from->step.launches;
	if (from->step.end_ns > unit->step.end_ns)
		unit->step.end_ns = from->step.end_ns;
	if (from->step.launch_end_ns > unit->step.launch_end_ns)
		unit->step.launch_end_ns = from->step.launch_end_ns;
	if (!unit->step.graph_id) {
		unit->step.graph_id = from->step.graph_id;
		unit->step.correlation_id = from->step.correlation_id;
	}
	if (from->kind == CS_UNIT_LAUNCH) {
		unit->goes_on = from->goes_on;
		unit->launch_items = from->launch_items;
		unit->last_graph_id = from->last_graph_id;
		unit->last_correlation_id = from->last_correlation_id;
	}
	unit->activity_after_ns = from->activity_after_ns;
	cs_unit_give(from);
	return 0;
}

struct cs_unit *
cs_unit_cut(struct cs_unit *unit, uint32_t index)
{
	uint32_t count = unit->step.collectives - index;
	const struct cs_record like = {
		.start_ns = unit->items[index].start_ns,
		.end_ns = unit->step.end_ns,
		.graph_id = unit->step.graph_id,
		.correlation_id = unit->step.correlation_id,
		.stream_id = unit->stream_id,
	};
	struct cs_unit *rest = cs_unit_take(unit->lane, unit->kind, &like);

	if (!rest)
		return NULL;
	if (reserve(rest, count) || !rest->items || !rest->extra) {
		cs_unit_give(rest);
		return NULL;
	}
	memcpy(rest->items, unit->items + index, count * sizeof(*rest->items));
	memcpy(rest->extra, unit->extra + index, count * sizeof(*rest->extra));
	rest->step.collectives = count;
	rest->step.launches = unit->step.launches;
	rest->step.launch_end_ns = unit->step.launch_end_ns;
	rest->launch_first = unit->launch_first + index;
	rest->launch_items = unit->launch_items;
	rest->last_graph_id = unit->last_graph_id;
	rest->last_correlation_id = unit->last_correlation_id;
	rest->closed = true;
	rest->continues = true;
	rest->split = true;
	rest->idle_ns = 0;
	rest->activity_before_ns = unit->items[index - 1].end_ns;
	rest->activity_after_ns = unit->activity_after_ns;
	rest->name_after = unit->name_after;
	rest->phase_after = unit->phase_after;
	unit->name_after = 0;
	unit->phase_after = CS_PHASE_UNKNOWN;
	unit->split = true;
	unit->goes_on = true;
	unit->activity_after_ns = rest->step.start_ns;
	unit->step.collectives = index;
	/* What computes between the two passes belongs to the first. */
	unit->step.end_ns = rest->step.start_ns;
	unit->step.launch_end_ns = rest->step.start_ns;
	return rest;
}

void
cs_unit_list_append(struct cs_unit_list *list, struct cs_unit *unit)
{
	unit->next = NULL;
	if (list->last)
		list->last->next = unit;
	else
		list->first = unit;
	list->last = unit;
	list->count++;
}

struct cs_unit *
cs_unit_list_pop(struct cs_unit_list *list)
{
	struct cs_unit *unit = list->first;

	if (!unit)
		return NULL;
	list->first = unit->next;
	if (!list->first)
		list->last = NULL;
	list->count--;
	unit->next = NULL;
	return unit;
}
