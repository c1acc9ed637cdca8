/* SPDX-License-Identifier: Apache-2.0 */
#include "captured.h"
#include "catalog/catalog.h"
#include "host.h"
#include "private.h"
#include "rules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of record time, released at once from all sources. */
#define SLICE_NS 20000000ULL
/* No record is so far ahead of its reader's clock. */
#define FUTURE_NS 60000000000ULL
/* For so long after the clock was set back records from before may come: longer than they are on their way
 * and a reader is behind. They are at least CS_ANALYSIS_STEP_BACK_NS less that time ahead. */
#define UNSETTLED_NS        60000000000ULL
#define UNSETTLED_FUTURE_NS 5000000000ULL
/* The year 2100: for readers that have no clock, of a capture. */
#define LATEST_NS 4102444800000000000ULL

int
cs_analysis_new(const struct cs_analysis_options *options, const struct cs_analysis_sink *sink,
	struct cs_analysis **analysis, char *complaint, size_t complaint_bytes)
{
	static const struct cs_analysis_options defaults;
	struct cs_analysis *made = calloc(1, sizeof(*made));
	int result;

	*analysis = NULL;
	if (complaint && complaint_bytes)
		complaint[0] = '\0';
	if (!made)
		return -ENOMEM;
	if (!options)
		options = &defaults;
	if (sink)
		made->sink = *sink;
	made->horizon_ns = options->horizon_ns ? options->horizon_ns : CS_ANALYSIS_HORIZON_NS;
	made->pending_max = options->pending_records ? options->pending_records : CS_ANALYSIS_PENDING_RECORDS;
	made->incomplete_steps = options->incomplete_steps;
	result = cs_catalog_load(NULL, &made->catalog, NULL, 0);
	if (result == 0 && options->steps_file && *options->steps_file)
		result = cs_rules_load(options->steps_file, &made->rules, complaint, complaint_bytes);
	if (result) {
		cs_analysis_destroy(made);
		return result;
	}
	*analysis = made;
	return 0;
}

static void
destroy_source(struct cs_source *source)
{
	for (uint32_t i = 0; i < CS_GPUS_MAX; i++) {
		if (source->lanes[i])
			cs_lane_destroy(source->lanes[i]);
	}
	cs_reorder_fini(&source->reorder);
	cs_host_destroy(source->host);
	free(source->markers);
	free(source);
}

void
cs_analysis_destroy(struct cs_analysis *analysis)
{
	if (!analysis)
		return;
	cs_group_destroy(analysis);
	for (uint32_t i = 0; i < analysis->source_count; i++) {
		if (analysis->sources[i])
			destroy_source(analysis->sources[i]);
	}
	free(analysis->sources);
	while (analysis->spare_units) {
		struct cs_unit *unit = analysis->spare_units;

		analysis->spare_units = unit->next;
		cs_unit_destroy(unit);
	}
	cs_rules_destroy(analysis->rules);
	cs_catalog_destroy(analysis->catalog);
	free(analysis);
}

static struct cs_source *
new_source(struct cs_analysis *analysis, const struct cs_dictionary *dictionary)
{
	struct cs_source *source = calloc(1, sizeof(*source));

	if (!source)
		return NULL;
	source->analysis = analysis;
	source->dictionary = dictionary;
	source->host = cs_host_new();
	if (!source->host || cs_reorder_init(&source->reorder, analysis->horizon_ns)) {
		cs_host_destroy(source->host);
		free(source);
		return NULL;
	}
	return source;
}

int
cs_analysis_add_source(struct cs_analysis *analysis, const struct cs_dictionary *dictionary, uint32_t *id)
{
	struct cs_source *source = new_source(analysis, dictionary);
	uint32_t at = 0;

	if (!source)
		return -ENOMEM;
	while (at < analysis->source_count && analysis->sources[at])
		at++;
	if (at == analysis->source_count) {
		struct cs_source **grown = reallocarray(
			analysis->sources, analysis->source_count + 1, sizeof(struct cs_source *));

		if (!grown) {
			destroy_source(source);
			return -ENOMEM;
		}
		analysis->sources = grown;
		analysis->source_count++;
	}
	analysis->sources[at] = source;
	source->id = at;
	*id = at;
	return 0;
}

static struct cs_source *
find_source(const struct cs_analysis *analysis, uint32_t id)
{
	return id < analysis->source_count ? analysis->sources[id] : NULL;
}

static struct cs_lane *
find_lane(struct cs_source *source, uint32_t gpu)
{
	if (!source->lanes[gpu])
		source->lanes[gpu] = cs_lane_new(source, gpu);
	return source->lanes[gpu];
}

static void
advance_lanes(struct cs_source *source, uint64_t frontier_ns)
{
	for (uint32_t i = 0; i < CS_GPUS_MAX; i++) {
		if (source->lanes[i])
			cs_lane_advance(source->lanes[i], frontier_ns);
	}
}

/* Takes one bucket through. false: there is none before until_ns, or no memory. */
static bool
release_bucket(struct cs_source *source, uint64_t until_ns, size_t *count)
{
	struct cs_analysis *analysis = source->analysis;
	const struct cs_record *records;

	if (cs_reorder_release(&source->reorder, until_ns, &records, count) || *count == 0)
		return false;
	analysis->pending -= *count;
	for (size_t i = 0; i < *count; i++) {
		struct cs_lane *lane = find_lane(source, records[i].gpu);

		if (!lane || cs_lane_take(lane, &records[i]))
			analysis->counts.dropped++;
	}
	advance_lanes(source, source->reorder.frontier_ns);
	return true;
}

static void
release(struct cs_source *source, uint64_t until_ns)
{
	size_t count;

	while (release_bucket(source, until_ns, &count))
		;
	advance_lanes(source, until_ns == UINT64_MAX ? UINT64_MAX : source->reorder.frontier_ns);
}

static void
deliver_all(struct cs_analysis *analysis)
{
	for (uint32_t i = 0; i < analysis->source_count; i++) {
		if (analysis->sources[i])
			cs_source_deliver(analysis->sources[i]);
	}
}

static void
settle(struct cs_analysis *analysis, bool force)
{
	for (struct cs_group *group = analysis->groups; group; group = group->next)
		cs_group_resolve(group, force);
	deliver_all(analysis);
}

static void
force_lanes(struct cs_source *source)
{
	for (uint32_t i = 0; source && i < CS_GPUS_MAX; i++) {
		if (source->lanes[i])
			cs_lane_force(source->lanes[i]);
	}
}

static bool
is_crowded(const struct cs_analysis *analysis)
{
	return analysis->waiting_items > CS_WAITING_ITEMS_MAX ||
	       analysis->waiting_units > CS_WAITING_UNITS_MAX;
}

/* Too much waits for peers or for something beside it to end: it leaves with what is known. */
static void
relieve_items(struct cs_analysis *analysis)
{
	if (!is_crowded(analysis))
		return;
	settle(analysis, true);
	if (!is_crowded(analysis))
		return;
	for (uint32_t i = 0; i < analysis->source_count; i++)
		force_lanes(analysis->sources[i]);
	settle(analysis, true);
}

static uint64_t
find_oldest(const struct cs_analysis *analysis)
{
	uint64_t oldest_ns = UINT64_MAX;

	for (uint32_t i = 0; i < analysis->source_count; i++) {
		uint64_t at_ns = analysis->sources[i] ? cs_reorder_oldest_ns(&analysis->sources[i]->reorder)
						      : UINT64_MAX;

		if (at_ns < oldest_ns)
			oldest_ns = at_ns;
	}
	return oldest_ns;
}

static uint64_t
find_newest(const struct cs_analysis *analysis)
{
	uint64_t newest_ns = 0;

	for (uint32_t i = 0; i < analysis->source_count; i++) {
		if (analysis->sources[i] && analysis->sources[i]->newest_ns > newest_ns)
			newest_ns = analysis->sources[i]->newest_ns;
	}
	return newest_ns;
}

static void
release_all(struct cs_analysis *analysis, uint64_t until_ns)
{
	for (uint32_t i = 0; i < analysis->source_count; i++) {
		if (analysis->sources[i])
			release(analysis->sources[i], until_ns);
	}
}

/* All sources side by side, so that steps find their peers soon and little waits. */
static void
release_in_slices(struct cs_analysis *analysis, uint64_t until_ns)
{
	uint64_t at_ns = find_oldest(analysis);
	uint64_t last_ns = find_newest(analysis);

	if (last_ns > until_ns)
		last_ns = until_ns;
	while (at_ns < last_ns && last_ns - at_ns > SLICE_NS) {
		uint64_t next_ns;

		release_all(analysis, at_ns + SLICE_NS);
		settle(analysis, false);
		relieve_items(analysis);
		next_ns = find_oldest(analysis);
		at_ns = next_ns > at_ns + SLICE_NS ? next_ns : at_ns + SLICE_NS;
		if (next_ns == UINT64_MAX)
			break;
	}
	release_all(analysis, until_ns);
}

/* Too many wait: the oldest bucket of all leaves. */
static void
relieve(struct cs_analysis *analysis)
{
	while (analysis->pending > analysis->pending_max) {
		struct cs_source *oldest = NULL;
		uint64_t oldest_ns = UINT64_MAX;
		size_t count;

		for (uint32_t i = 0; i < analysis->source_count; i++) {
			struct cs_source *source = analysis->sources[i];
			uint64_t at_ns = source ? cs_reorder_oldest_ns(&source->reorder) : UINT64_MAX;

			if (at_ns < oldest_ns) {
				oldest_ns = at_ns;
				oldest = source;
			}
		}
		if (!oldest || !release_bucket(oldest, oldest_ns + oldest->reorder.width_ns, &count))
			break;
		analysis->counts.forced += count;
	}
}

/* Record time has reached start_ns, as far as this source goes. Unless its reader's clock denies that, so it
 * has for the others, which a reader of captures feeds side by side. */
static void
make_room(struct cs_source *source, uint64_t start_ns)
{
	struct cs_analysis *analysis = source->analysis;

	if (analysis->now_ns && start_ns > analysis->now_ns) {
		release(source, start_ns - analysis->horizon_ns);
		return;
	}
	release_in_slices(analysis, start_ns - analysis->horizon_ns);
	settle(analysis, false);
	relieve_items(analysis);
}

/* Records are nearly in order, and work inside a launch is never farther apart than CS_QUIET_NS: whatever
 * lacks a record that came before this one begins until then. */
static void
end_gap(struct cs_source *source, const struct cs_record *record)
{
	const struct cs_record loss = {.type = CS_RECORD_LOSS,
		.ref = CS_LOSS_RING_OVERRUN,
		.start_ns = source->newest_ns < record->start_ns ? source->newest_ns : record->start_ns,
		.end_ns = record->end_ns + CS_QUIET_NS};

	source->gap = false;
	cs_windows_note(&source->windows, &loss);
}

static int
keep(struct cs_source *source, const struct cs_record *record)
{
	struct cs_analysis *analysis = source->analysis;
	int result;

	if (source->gap)
		end_gap(source, record);
	result = cs_reorder_add(&source->reorder, record);

	if (result == -EOVERFLOW) {
		make_room(source, record->start_ns);
		result = cs_reorder_add(&source->reorder, record);
	}
	if (result == 0) {
		analysis->pending++;
		if (record->end_ns > source->newest_ns)
			source->newest_ns = record->end_ns;
		return 0;
	}
	if (result != -ESTALE)
		return result;
	analysis->counts.late_records++;
	if (record->type == CS_RECORD_COLLECTIVE) {
		struct cs_lane *lane = find_lane(source, record->gpu);

		return lane ? cs_lane_take_late(lane, record) : -ENOMEM;
	}
	return 0;
}

static bool
is_too_far_ahead(const struct cs_analysis *analysis, uint64_t start_ns)
{
	uint64_t clock_ns = analysis->clock_ns ? analysis->clock_ns : analysis->now_ns;
	bool unsettled = clock_ns < analysis->unsettled_until_ns;

	if (start_ns > LATEST_NS)
		return true;
	return clock_ns && start_ns > clock_ns + (unsettled ? UNSETTLED_FUTURE_NS : FUTURE_NS);
}

static int
take(struct cs_source *source, const struct cs_record *record)
{
	struct cs_analysis *analysis = source->analysis;

	if (record->end_ns < record->start_ns || record->gpu >= CS_GPUS_MAX ||
		is_too_far_ahead(analysis, record->start_ns)) {
		analysis->counts.dropped++;
		return 0;
	}
	switch (record->type) {
	case CS_RECORD_COLLECTIVE:
	case CS_RECORD_BUSY:
	case CS_RECORD_GRAPH_LAUNCH:
	case CS_RECORD_MARKER:
		return keep(source, record);
	case CS_RECORD_WINDOW:
	case CS_RECORD_WINDOW_OPEN:
	case CS_RECORD_LOSS:
		cs_windows_note(&source->windows, record);
		break;
	case CS_RECORD_MARK:
	case CS_RECORD_HOST_LAUNCH:
		cs_host_note(source->host, record);
		break;
	case CS_RECORD_STILL:
		if (!find_lane(source, record->gpu))
			return -ENOMEM;
		cs_stillness_note(&source->lanes[record->gpu]->stillness, record, source->newest_ns);
		break;
	case CS_RECORD_GRAPH:
		if (!find_lane(source, record->gpu))
			return -ENOMEM;
		cs_captured_note(source->lanes[record->gpu], record);
		break;
	default:
		analysis->counts.dropped++;
		return 0;
	}
	if (analysis->sink.other)
		analysis->sink.other(analysis->sink.context, source->id, record);
	return 0;
}

void
cs_analysis_note_gap(struct cs_analysis *analysis, uint32_t id)
{
	struct cs_source *source = find_source(analysis, id);

	if (source)
		source->gap = true;
}

int
cs_analysis_ingest(struct cs_analysis *analysis, uint32_t id, const struct cs_record *records, size_t count)
{
	struct cs_source *source = find_source(analysis, id);
	int result = 0;

	if (!source)
		return 0;
	analysis->counts.records += count;
	for (size_t i = 0; i < count; i++) {
		if (take(source, &records[i])) {
			analysis->counts.dropped++;
			result = -ENOMEM;
		}
	}
	if (analysis->pending > analysis->pending_max)
		relieve(analysis);
	relieve_items(analysis);
	return result;
}

void
cs_analysis_drain(struct cs_analysis *analysis)
{
	release_in_slices(analysis, UINT64_MAX);
	settle(analysis, true);
}

static void
restart_source(struct cs_source *source)
{
	/* Without memory something may have stayed. */
	if (source->reorder.pending == 0)
		cs_reorder_restart(&source->reorder);
	cs_host_clear(source->host);
	source->windows = (struct cs_windows){0};
	source->newest_ns = 0;
	for (uint32_t i = 0; i < CS_GPUS_MAX; i++) {
		if (source->lanes[i])
			cs_lane_restart(source->lanes[i]);
	}
}

/* The clock was set back: no record of a time that has been will fit what was before. */
static void
restart(struct cs_analysis *analysis, uint64_t now_ns)
{
	cs_analysis_drain(analysis);
	for (uint32_t i = 0; i < analysis->source_count; i++)
		force_lanes(analysis->sources[i]);
	settle(analysis, true);
	for (uint32_t i = 0; i < analysis->source_count; i++) {
		if (analysis->sources[i])
			restart_source(analysis->sources[i]);
	}
	for (struct cs_group *group = analysis->groups; group; group = group->next)
		cs_group_restart(group);
	analysis->now_ns = now_ns;
	analysis->unsettled_until_ns = now_ns + UNSETTLED_NS;
}

void
cs_analysis_advance(struct cs_analysis *analysis, uint64_t now_ns)
{
	if (now_ns > analysis->now_ns)
		analysis->now_ns = now_ns;
	else if (analysis->now_ns - now_ns > CS_ANALYSIS_STEP_BACK_NS)
		restart(analysis, now_ns);
	if (analysis->now_ns < analysis->horizon_ns)
		return;
	release_in_slices(analysis, analysis->now_ns - analysis->horizon_ns);
	settle(analysis, false);
}

void
cs_analysis_tell_clock(struct cs_analysis *analysis, uint64_t clock_ns)
{
	if (analysis->clock_ns == 0)
		analysis->unsettled_until_ns = clock_ns + UNSETTLED_NS;
	analysis->clock_ns = clock_ns;
}

static bool
has_member_of(const struct cs_group *group, const struct cs_source *source)
{
	for (uint32_t i = 0; i < group->member_count; i++) {
		if (group->members[i]->lane->source == source)
			return true;
	}
	return false;
}

void
cs_analysis_end_source(struct cs_analysis *analysis, uint32_t id)
{
	struct cs_source *source = find_source(analysis, id);

	if (source)
		source->ended = true;
}

/* Its peers may wait for it after it is forgotten. */
static void
remember_ended(struct cs_analysis *analysis, const struct cs_source *source)
{
	for (struct cs_group *group = analysis->groups; source->ended && group; group = group->next) {
		for (uint32_t i = 0; i < group->member_count; i++) {
			if (group->members[i]->lane->source == source)
				group->gone = (uint32_t)group->members[i]->rank + 1;
		}
	}
}

void
cs_analysis_remove_source(struct cs_analysis *analysis, uint32_t id)
{
	struct cs_source *source = find_source(analysis, id);

	if (!source)
		return;
	remember_ended(analysis, source);
	release(source, UINT64_MAX);
	for (struct cs_group *group = analysis->groups; group; group = group->next)
		cs_group_resolve(group, has_member_of(group, source));
	deliver_all(analysis);
	for (uint32_t i = 0; i < CS_GPUS_MAX; i++) {
		if (source->lanes[i])
			cs_group_leave(analysis, source->lanes[i]);
	}
	analysis->sources[id] = NULL;
	destroy_source(source);
}

void
cs_analysis_read_counts(const struct cs_analysis *analysis, struct cs_analysis_counts *counts)
{
	*counts = analysis->counts;
}

int
cs_analysis_read_clock(
	const struct cs_analysis *analysis, uint32_t id, uint32_t gpu, struct cs_clock_estimate *estimate)
{
	const struct cs_source *source = find_source(analysis, id);
	const struct cs_member *best = NULL;

	if (!source || gpu >= CS_GPUS_MAX || !source->lanes[gpu])
		return -ENODATA;
	for (const struct cs_group *group = analysis->groups; group; group = group->next) {
		for (uint32_t i = 0; group->member_count > 1 && i < group->member_count; i++) {
			const struct cs_member *member = group->members[i];

			if (member->lane == source->lanes[gpu] &&
				cs_match_knows_clock(member, analysis->now_ns) &&
				(!best || member->sample_count > best->sample_count))
				best = member;
		}
	}
	if (!best)
		return -ENODATA;
	cs_match_tell_clock(best, analysis->now_ns, estimate);
	return 0;
}
