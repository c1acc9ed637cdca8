/* SPDX-License-Identifier: Apache-2.0 */
#include "overlap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* On how many streams something is open: none, one (then which), more. */
struct presence {
	uint32_t stream_id;
	uint8_t streams; /* 0, 1, 2 = two or more */
};

struct beside {
	struct presence klass[CS_BUSY_CLASS_COUNT];
	struct presence direction[CS_COPY_DIRECTION_COUNT];
	bool opaque;
};

static void
note_presence(struct presence *presence, uint32_t stream_id)
{
	if (presence->streams == 0) {
		presence->stream_id = stream_id;
		presence->streams = 1;
	} else if (presence->stream_id != stream_id) {
		presence->streams = 2;
	}
}

static bool
is_elsewhere(const struct presence *presence, uint32_t stream_id)
{
	return presence->streams == 2 || (presence->streams == 1 && presence->stream_id != stream_id);
}

static void
survey(const struct cs_sweep *sweep, struct beside *beside)
{
	memset(beside, 0, sizeof(*beside));
	for (size_t i = 0; i < sweep->count; i++) {
		const struct cs_active *active = &sweep->active[i];

		if (active->opaque) {
			beside->opaque = true;
			continue;
		}
		note_presence(&beside->klass[active->klass], active->stream_id);
		if (active->klass == CS_BUSY_COPY)
			note_presence(&beside->direction[active->direction], active->stream_id);
	}
}

/* Does the stream's predecessor still run? `active` is in order of start. */
static bool
has_predecessor(const struct cs_sweep *sweep, size_t index)
{
	const struct cs_active *self = &sweep->active[index];

	for (size_t i = 0; i < index; i++) {
		const struct cs_active *other = &sweep->active[i];

		if (other->stream_id == self->stream_id && !other->opaque && other->start_ns < self->start_ns)
			return true;
	}
	return false;
}

/* The one of its unit's open collectives that answers for the unit's exposed time. */
static bool
answers_for_unit(const struct cs_sweep *sweep, size_t index)
{
	for (size_t i = 0; i < index; i++) {
		if (sweep->active[i].unit == sweep->active[index].unit)
			return false;
	}
	return true;
}

static void
account_one(struct cs_sweep *sweep, size_t index, const struct beside *beside, uint64_t span_ns)
{
	struct cs_active *self = &sweep->active[index];
	struct cs_collective *item = &self->unit->items[self->item];
	struct cs_item_extra *extra = &self->unit->extra[self->item];
	bool covered = false;

	for (unsigned int k = 0; k < CS_BUSY_CLASS_COUNT; k++) {
		if (is_elsewhere(&beside->klass[k], self->stream_id)) {
			item->overlap_ns[k] += span_ns;
			covered = true;
		}
	}
	for (unsigned int d = 0; d < CS_COPY_DIRECTION_COUNT; d++) {
		if (is_elsewhere(&beside->direction[d], self->stream_id))
			item->copy_ns[d] += span_ns;
	}
	if (beside->opaque)
		extra->blind = true;
	if (!covered)
		item->exposed_ns += span_ns;
	if (has_predecessor(sweep, index))
		item->dependent_ns += span_ns;
	if (!beside->klass[CS_BUSY_COMPUTE].streams && !beside->klass[CS_BUSY_COPY].streams &&
		answers_for_unit(sweep, index))
		extra->share_ns += span_ns;
}

static void
account(struct cs_sweep *sweep, uint64_t span_ns)
{
	struct beside beside;

	if (sweep->count == 1) {
		struct cs_active *self = &sweep->active[0];

		if (self->unit) {
			self->unit->items[self->item].exposed_ns += span_ns;
			self->unit->extra[self->item].share_ns += span_ns;
		}
		return;
	}
	survey(sweep, &beside);
	if (!beside.klass[CS_BUSY_COLLECTIVE].streams)
		return;
	for (size_t i = 0; i < sweep->count; i++) {
		if (sweep->active[i].unit)
			account_one(sweep, i, &beside, span_ns);
	}
}

/* Takes out what has ended, keeping the order. */
static void
close_ended(struct cs_sweep *sweep)
{
	size_t kept = 0;

	sweep->first_end_ns = UINT64_MAX;
	for (size_t i = 0; i < sweep->count; i++) {
		struct cs_active *active = &sweep->active[i];

		if (active->end_ns <= sweep->now_ns) {
			if (active->unit)
				active->unit->open_items--;
			continue;
		}
		if (active->end_ns < sweep->first_end_ns)
			sweep->first_end_ns = active->end_ns;
		if (kept != i)
			sweep->active[kept] = *active;
		kept++;
	}
	sweep->count = kept;
}

void
cs_sweep_advance(struct cs_sweep *sweep, uint64_t now_ns)
{
	while (sweep->count > 0 && sweep->now_ns < now_ns) {
		uint64_t until = sweep->first_end_ns < now_ns ? sweep->first_end_ns : now_ns;

		if (until > sweep->now_ns) {
			account(sweep, until - sweep->now_ns);
			sweep->now_ns = until;
		}
		if (sweep->first_end_ns > until)
			break;
		close_ended(sweep);
	}
	if (now_ns > sweep->now_ns)
		sweep->now_ns = now_ns;
}

static enum cs_copy_direction
direction_of(const struct cs_record *record)
{
	if (record->flags & CS_RECORD_COPY_TO_HOST)
		return CS_COPY_TO_HOST;
	if (record->flags & CS_RECORD_COPY_FROM_HOST)
		return CS_COPY_FROM_HOST;
	if (record->flags & CS_RECORD_COPY_PEER)
		return CS_COPY_PEER;
	return CS_COPY_LOCAL;
}

static uint8_t
class_of(const struct cs_record *record)
{
	if (record->type == CS_RECORD_COLLECTIVE)
		return CS_BUSY_COLLECTIVE;
	if (record->type == CS_RECORD_BUSY && record->klass == CS_BUSY_COPY)
		return CS_BUSY_COPY;
	return CS_BUSY_COMPUTE;
}

int
cs_sweep_add(struct cs_sweep *sweep, const struct cs_record *record, struct cs_unit *unit, uint32_t item)
{
	struct cs_active *active;

	cs_sweep_advance(sweep, record->start_ns);
	if (record->end_ns <= sweep->now_ns)
		return 0;
	if (sweep->count == CS_ACTIVE_MAX) {
		if (unit)
			unit->extra[item].blind = true;
		return -ENOMEM;
	}
	if (sweep->count == sweep->capacity) {
		size_t capacity = sweep->capacity ? 2 * sweep->capacity : 16;
		struct cs_active *grown = reallocarray(sweep->active, capacity, sizeof(*grown));

		if (!grown) {
			if (unit)
				unit->extra[item].blind = true;
			return -ENOMEM;
		}
		sweep->active = grown;
		sweep->capacity = capacity;
	}
	active = &sweep->active[sweep->count++];
	*active = (struct cs_active){
		.start_ns = record->start_ns,
		.end_ns = record->end_ns,
		.unit = unit,
		.item = item,
		.stream_id = record->stream_id,
		.klass = class_of(record),
		.direction = (uint8_t)direction_of(record),
		.opaque = record->type == CS_RECORD_GRAPH_LAUNCH,
	};
	if (unit)
		unit->open_items++;
	if (sweep->count == 1 || active->end_ns < sweep->first_end_ns)
		sweep->first_end_ns = active->end_ns;
	return 0;
}

void
cs_sweep_fini(struct cs_sweep *sweep)
{
	free(sweep->active);
	memset(sweep, 0, sizeof(*sweep));
}
