/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of a group's members are the same step when they have the same collectives in the same order and end
 * together. Then the k-th collective of one is the k-th of the others, it ended at the same moment
 * everywhere, and
 *
 *   transfer = the least duration over the ranks (the last one to arrive did not wait)
 *   wait     = duration - transfer
 *
 * Durations are differences on one clock each, so an offset between clocks does not touch them; offsets
 * matter for finding the partner only.
 */
#include "private.h"

#include <stdlib.h>

/* Once the offset is known: jitter of ends and what a clock drifts until the next window (20 us a minute). */
#define NEAR_NS 30000
/* Ends that enter the clock estimate per step, and how old they may get. */
#define SAMPLES_PER_STEP 16U
#define SAMPLE_AGE_NS    1000000000ULL
#define SAMPLES_MIN      8U
/* An offset without a sample for so long is forgotten; so is one that finds no partner. */
#define LOCK_AGE_NS 120000000000ULL
#define MISSES_MAX  32U
/* Parts of a member that are looked at for one seed. Within the 200 us that clocks may be apart a GPU ends
 * some tens of collectives; a segment with thousands is no GPU's, and must not hold up the others. */
#define LOOKED_AT_MAX 1024U

static int64_t
magnitude(int64_t value)
{
	return value < 0 ? -value : value;
}

static int64_t
end_of(const struct cs_part *part)
{
	return (int64_t)part->last_end_ns - part->member->offset_ns;
}

static void
drop_resolved(struct cs_member *member)
{
	while (member->first_part && member->first_part->resolved) {
		member->first_part = member->first_part->next;
		if (!member->first_part)
			member->last_part = NULL;
	}
}

static struct cs_part *
find_seed(const struct cs_group *group)
{
	struct cs_part *seed = NULL;

	for (uint32_t i = 0; i < group->member_count; i++) {
		struct cs_part *part;

		drop_resolved(group->members[i]);
		part = group->members[i]->first_part;
		if (part && (!seed || end_of(part) < end_of(seed)))
			seed = part;
	}
	return seed;
}

/* Has every member formed all steps that could be the same? */
static bool
is_ready(const struct cs_group *group, const struct cs_part *seed)
{
	for (uint32_t i = 0; i < group->member_count; i++) {
		if (group->members[i]->lane->watermark_ns < seed->last_end_ns + 2 * CS_CLOCK_FAR_NS)
			return false;
	}
	return true;
}

bool
cs_match_knows_clock(const struct cs_member *member, uint64_t now_ns)
{
	if (member == member->group->members[0])
		return true;
	return member->locked && now_ns < member->locked_at_ns + LOCK_AGE_NS;
}

/* Has the member another one like it, so near that a clock's offset could exchange them? */
static bool
is_crowded(const struct cs_part *part)
{
	uint32_t looked_at = 0;

	if (part->crowded)
		return true;
	for (const struct cs_part *next = part->next; next && looked_at++ < LOOKED_AT_MAX;
		next = next->next) {
		if (next->signature == part->signature)
			return next->crowded;
	}
	return false;
}

/* The same collective by its number: outside graphs a communicator counts them. */
static bool
is_same_number(const struct cs_part *a, const struct cs_part *b)
{
	return a->sequence && a->sequence == b->sequence && a->unit->step.graph_id == 0 &&
	       b->unit->step.graph_id == 0;
}

static struct cs_part *
find_partner(const struct cs_part *seed, struct cs_member *member)
{
	bool locked = cs_match_knows_clock(member, seed->last_end_ns) &&
		      cs_match_knows_clock(seed->member, seed->last_end_ns);
	int64_t reach_ns = CS_CLOCK_FAR_NS;
	int64_t best_ns = INT64_MAX;
	struct cs_part *best = NULL;
	uint32_t looked_at = 0;

	if (locked)
		reach_ns = NEAR_NS + 4 * (int64_t)(member->uncertainty_ns + seed->member->uncertainty_ns);
	for (struct cs_part *part = member->first_part; part && looked_at < LOOKED_AT_MAX;
		part = part->next) {
		int64_t distance_ns = magnitude(end_of(part) - end_of(seed));

		if (part->first_start_ns > seed->last_end_ns + CS_CLOCK_FAR_NS)
			break;
		looked_at++;
		if (part->sequence && seed->sequence && part->sequence != seed->sequence)
			continue;
		if (part->resolved || part->signature != seed->signature || part->count != seed->count)
			continue;
		if (is_same_number(part, seed) && distance_ns <= CS_CLOCK_FAR_NS)
			return part;
		if (distance_ns > reach_ns)
			continue;
		if (distance_ns < best_ns) {
			best = part;
			best_ns = distance_ns;
		}
	}
	/* Before the offset is known the nearest of several may be the wrong one. */
	if (!locked && best && (is_crowded(best) || is_crowded(seed)))
		return NULL;
	return best;
}

static int
compare_differences(const void *a, const void *b)
{
	int64_t left = *(const int64_t *)a;
	int64_t right = *(const int64_t *)b;

	return (left > right) - (left < right);
}

static int64_t
median_of(int64_t *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare_differences);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void
estimate(struct cs_member *member, uint64_t now_ns)
{
	int64_t values[CS_CLOCK_SAMPLES];
	size_t count = 0;

	for (uint32_t i = 0; i < member->sample_count; i++) {
		if (member->samples[i].at_ns + SAMPLE_AGE_NS >= now_ns)
			values[count++] = member->samples[i].difference_ns;
	}
	if (count < SAMPLES_MIN)
		return;
	member->offset_ns = median_of(values, count);
	for (size_t i = 0; i < count; i++)
		values[i] = magnitude(values[i] - member->offset_ns);
	member->uncertainty_ns = (uint64_t)(median_of(values, count) * 14826 / 10000);
	if (member->uncertainty_ns == 0)
		member->uncertainty_ns = 1;
	member->locked = true;
	member->locked_at_ns = now_ns;
	member->misses = 0;
}

/* Walks the items of one part. */
struct cursor {
	struct cs_part *part;
	uint32_t index;
};

static uint32_t
next_item(struct cursor *cursor)
{
	const struct cs_item_extra *extra = cursor->part->unit->extra;

	while (extra[cursor->index].member != cursor->part->member)
		cursor->index++;
	return cursor->index++;
}

static void
add_sample(struct cs_member *member, int64_t difference_ns, uint64_t at_ns)
{
	member->samples[member->sample_next] = (struct cs_clock_sample){difference_ns, at_ns};
	member->sample_next = (member->sample_next + 1) % CS_CLOCK_SAMPLES;
	if (member->sample_count < CS_CLOCK_SAMPLES)
		member->sample_count++;
}

/* What one collective tells; items[i] of the same collective on each rank. Only a whole group can tell who
 * was waited for: the last to arrive may be one that was not seen. */
static void
compare_ranks(struct cs_collective *const *items, size_t count, bool whole)
{
	uint64_t transfer_ns = UINT64_MAX;
	size_t last = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t duration_ns = items[i]->end_ns - items[i]->start_ns;

		if (duration_ns < transfer_ns) {
			transfer_ns = duration_ns;
			last = i;
		}
	}
	for (size_t i = 0; i < count; i++) {
		items[i]->matched_ranks = (uint32_t)count;
		if (!whole)
			continue;
		items[i]->transfer_ns = transfer_ns;
		items[i]->wait_ns = items[i]->end_ns - items[i]->start_ns - transfer_ns;
		items[i]->last_arrival = i == last;
	}
}

/* The reference, when it is there, comes first. */
static void
compare_parts(struct cs_group *group, struct cs_part *const *parts, size_t count)
{
	struct cursor cursors[CS_MEMBERS_MAX];
	struct cs_collective *items[CS_MEMBERS_MAX];
	bool referenced = parts[0]->member == group->members[0];
	uint32_t stride = parts[0]->count / SAMPLES_PER_STEP + 1;

	for (size_t i = 0; i < count; i++)
		cursors[i] = (struct cursor){.part = parts[i], .index = parts[i]->first_item};
	for (uint32_t k = 0; k < parts[0]->count; k++) {
		for (size_t i = 0; i < count; i++)
			items[i] = &parts[i]->unit->items[next_item(&cursors[i])];
		compare_ranks(items, count, count == (size_t)group->world);
		for (size_t i = 1; referenced && k % stride == 0 && i < count; i++)
			add_sample(parts[i]->member, (int64_t)(items[i]->end_ns - items[0]->end_ns),
				items[0]->end_ns);
	}
	for (size_t i = 1; referenced && i < count; i++)
		estimate(parts[i]->member, parts[0]->last_end_ns);
}

static void
note_miss(struct cs_group *group, struct cs_member *member)
{
	if (member == group->members[0] || ++member->misses < MISSES_MAX)
		return;
	member->locked = false;
	member->sample_count = member->sample_next = 0;
}

/* Eager work has no launch that would cut it into the same steps on every rank. A stretch that lies beside
 * the seed and is not like it comes apart. Returns whether one did. */
static bool
dissolve_beside(const struct cs_part *seed, struct cs_member *member)
{
	uint32_t looked_at = 0;

	for (struct cs_part *part = member->first_part; part && looked_at++ < LOOKED_AT_MAX;
		part = part->next) {
		if (part->first_start_ns > seed->last_end_ns + CS_CLOCK_FAR_NS)
			break;
		if (!part->resolved && cs_part_is_stretch(part) &&
			part->last_end_ns + CS_CLOCK_FAR_NS > seed->first_start_ns)
			return cs_group_dissolve(part) == 0;
	}
	return false;
}

/* The seed and its partners, the reference first. Returns how many, or 0 when a part came apart: look again.
 */
static size_t
gather(struct cs_group *group, struct cs_part *seed, struct cs_part **parts)
{
	bool eager = seed->unit->step.graph_id == 0;
	size_t count = 0;

	for (uint32_t i = 0; i < group->member_count; i++) {
		struct cs_member *member = group->members[i];
		struct cs_part *part = NULL;

		if (member == seed->member) {
			parts[count++] = seed;
			continue;
		}
		if (group->ambiguous)
			continue;
		part = find_partner(seed, member);
		if (part)
			parts[count++] = part;
		else if (eager && dissolve_beside(seed, member))
			return 0;
	}
	return count;
}

static void
resolve_seed(struct cs_group *group, struct cs_part *seed)
{
	struct cs_analysis_counts *counts = &seed->unit->lane->source->analysis->counts;
	struct cs_part *parts[CS_MEMBERS_MAX];
	size_t count = gather(group, seed, parts);

	if (count == 0)
		return;
	if (count < group->member_count && !group->ambiguous && cs_part_is_stretch(seed) &&
		cs_group_dissolve(seed) == 0) {
		note_miss(group, seed->member);
		return;
	}
	if (count > 1) {
		compare_parts(group, parts, count);
		*(count < (size_t)group->world ? &counts->partial_collectives
					       : &counts->matched_collectives) +=
			(uint64_t)count * seed->count;
	} else {
		counts->unmatched_collectives += seed->count;
		if (!seed->single)
			note_miss(group, seed->member);
	}
	for (size_t i = 0; i < count; i++) {
		parts[i]->resolved = true;
		parts[i]->unit->open_parts--;
	}
}

void
cs_group_resolve(struct cs_group *group, bool force)
{
	struct cs_part *seed;

	while ((seed = find_seed(group)) && (force || is_ready(group, seed)))
		resolve_seed(group, seed);
	/* A resolved part may be freed with its unit: none may stay in a queue. */
	for (uint32_t i = 0; i < group->member_count; i++) {
		struct cs_part **at = &group->members[i]->first_part;

		group->members[i]->last_part = NULL;
		while (*at) {
			if ((*at)->resolved) {
				*at = (*at)->next;
				continue;
			}
			group->members[i]->last_part = *at;
			at = &(*at)->next;
		}
	}
}

/* An offset that nobody has seen for a while may have drifted away by this much more (NEAR_NS allows for the
 * same). */
#define DRIFT_NS_PER_S (20000 / 60)

void
cs_match_tell_clock(const struct cs_member *member, uint64_t now_ns, struct cs_clock_estimate *told)
{
	bool reference = member == member->group->members[0];
	uint64_t age_ns = !reference && now_ns > member->locked_at_ns ? now_ns - member->locked_at_ns : 0;

	*told = (struct cs_clock_estimate){
		.offset_ns = member->offset_ns,
		.uncertainty_ns = member->uncertainty_ns + age_ns / 1000000000 * DRIFT_NS_PER_S,
		.samples = member->sample_count,
		.reference = reference,
	};
}
