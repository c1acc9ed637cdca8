/* SPDX-License-Identifier: Apache-2.0 */
#include "private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Operations after which all ranks go on together. The others (a root's broadcast, send, receive) tell
 * nothing of who was waited for. */
static bool
ends_together(uint8_t op)
{
	switch (op) {
	case CS_OP_ALL_REDUCE:
	case CS_OP_ALL_GATHER:
	case CS_OP_REDUCE_SCATTER:
	case CS_OP_ALL_TO_ALL:
	case CS_OP_BARRIER:
		return true;
	default:
		return false;
	}
}

static uint64_t
mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 29);
}

/* Who belongs together. */
struct identity {
	uint64_t key;
	int32_t world, rank;
	bool exact;
};

static bool
is_of(const struct cs_communicator *communicator, int32_t world, int32_t rank)
{
	return communicator->hash && communicator->world == world &&
	       (rank == CS_RANK_UNKNOWN || communicator->rank == CS_RANK_UNKNOWN ||
		       communicator->rank == rank);
}

/* A group of a custom all-reduce has no hash of its own, but its process has made a communicator of the same
 * ranks. */
static const struct cs_communicator *
find_twin(const struct cs_dictionary *dictionary, const struct cs_label *label)
{
	for (uint32_t i = 0; i < dictionary->communicator_count; i++) {
		const struct cs_communicator *communicator = &dictionary->communicators[i];

		if (label->world > 1 ? is_of(communicator, label->world, label->rank)
				     : dictionary->communicator_count == 1 && communicator->hash)
			return communicator;
	}
	return NULL;
}

/* Without any communicator: processes of one user in one PID namespace (one container) that one parent has
 * started, as engines and launchers start their ranks. */
static uint64_t
family_key(const struct cs_dictionary *dictionary)
{
	uint64_t key = mix(dictionary->process.pid_namespace_inode, dictionary->process.uid);

	key = mix(key, dictionary->process.parent_pid);
	for (size_t i = 0; i < sizeof(dictionary->process.boot_id); i++)
		key = mix(key, dictionary->process.boot_id[i]);
	return key;
}

static bool
identify(const struct cs_dictionary *dictionary, const struct cs_label *label, struct identity *identity)
{
	const struct cs_communicator *communicator = NULL;

	if (label->comm_id && label->comm_id <= dictionary->communicator_count)
		communicator = &dictionary->communicators[label->comm_id - 1];
	if (!communicator || !communicator->hash)
		communicator = find_twin(dictionary, label);
	if (communicator) {
		*identity =
			(struct identity){communicator->hash, communicator->world, communicator->rank, true};
	} else {
		*identity = (struct identity){family_key(dictionary), label->world, label->rank, false};
	}
	if (identity->rank == CS_RANK_UNKNOWN)
		identity->rank = label->rank;
	return identity->world > 1;
}

static struct cs_group *
find_group(struct cs_analysis *analysis, const struct identity *identity)
{
	struct cs_group *group;

	for (group = analysis->groups; group; group = group->next) {
		if (group->key == identity->key && group->world == identity->world &&
			group->exact == identity->exact)
			return group;
	}
	group = calloc(1, sizeof(*group));
	if (!group)
		return NULL;
	group->key = identity->key;
	group->world = identity->world;
	group->exact = identity->exact;
	group->next = analysis->groups;
	analysis->groups = group;
	return group;
}

static void
judge(struct cs_group *group)
{
	group->ambiguous = group->member_count > (uint32_t)group->world;
	for (uint32_t i = 0; i < group->member_count; i++) {
		for (uint32_t k = 0; k < i; k++) {
			if (group->members[i]->rank != CS_RANK_UNKNOWN &&
				group->members[i]->rank == group->members[k]->rank)
				group->ambiguous = true;
		}
	}
}

static struct cs_member *
join(struct cs_lane *lane, const struct identity *identity)
{
	struct cs_group *group = find_group(lane->source->analysis, identity);
	struct cs_member *member;

	if (!group)
		return NULL;
	for (uint32_t i = 0; i < group->member_count; i++) {
		if (group->members[i]->lane == lane)
			return group->members[i];
	}
	if (group->member_count == CS_MEMBERS_MAX)
		return NULL;
	member = calloc(1, sizeof(*member));
	if (!member)
		return NULL;
	member->group = group;
	member->lane = lane;
	member->rank = identity->rank;
	group->members[group->member_count++] = member;
	judge(group);
	return member;
}

static bool
make_room(struct cs_lane *lane, uint32_t label_id)
{
	uint32_t count = label_id < 64 ? 64 : 2 * label_id;
	struct cs_membership *grown;

	if (label_id < lane->membership_count)
		return true;
	if (label_id >= CS_LABELS_MAX)
		return false;
	grown = reallocarray(lane->membership, count, sizeof(*grown));
	if (!grown)
		return false;
	memset(grown + lane->membership_count, 0, (count - lane->membership_count) * sizeof(*grown));
	lane->membership = grown;
	lane->membership_count = count;
	return true;
}

struct cs_member *
cs_group_find_slowly(struct cs_lane *lane, uint32_t label_id)
{
	const struct cs_dictionary *dictionary = lane->source->dictionary;
	const struct cs_label *label;
	struct cs_membership *membership;
	struct identity identity;

	/* A label that the dictionary has not got yet may come. */
	if (label_id == 0 || label_id >= dictionary->label_count || !make_room(lane, label_id))
		return NULL;
	label = cs_dictionary_borrow_label(dictionary, label_id);
	membership = &lane->membership[label_id];
	membership->known = true;
	membership->identity = mix(mix(0, label->op), label->bytes);
	if (ends_together(label->op) && identify(dictionary, label, &identity)) {
		membership->member = join(lane, &identity);
		if (lane->rank == CS_RANK_UNKNOWN)
			lane->rank = identity.rank;
	}
	return membership->member;
}

static void
forget_clock(struct cs_member *member)
{
	member->locked = false;
	member->offset_ns = 0;
	member->uncertainty_ns = 0;
	member->sample_count = 0;
	member->sample_next = 0;
}

void
cs_group_restart(struct cs_group *group)
{
	for (uint32_t i = 0; i < group->member_count; i++) {
		struct cs_member *member = group->members[i];

		forget_clock(member);
		member->locked_at_ns = 0;
		member->misses = 0;
		memset(member->recent, 0, sizeof(member->recent));
	}
}

void
cs_group_leave(struct cs_analysis *analysis, struct cs_lane *lane)
{
	struct cs_group **at = &analysis->groups;

	while (*at) {
		struct cs_group *group = *at;

		for (uint32_t i = 0; i < group->member_count; i++) {
			if (group->members[i]->lane != lane)
				continue;
			free(group->members[i]);
			group->member_count--;
			memmove(&group->members[i], &group->members[i + 1],
				(group->member_count - i) * sizeof(struct cs_member *));
			/* The others' offsets were against the first. */
			for (uint32_t k = 0; i == 0 && k < group->member_count; k++)
				forget_clock(group->members[k]);
			judge(group);
			break;
		}
		if (group->member_count == 0) {
			*at = group->next;
			free(group);
		} else {
			at = &group->next;
		}
	}
}

void
cs_group_destroy(struct cs_analysis *analysis)
{
	while (analysis->groups) {
		struct cs_group *group = analysis->groups;

		analysis->groups = group->next;
		for (uint32_t i = 0; i < group->member_count; i++)
			free(group->members[i]);
		free(group);
	}
}

static struct cs_part *
part_of(struct cs_unit *unit, struct cs_member *member, uint32_t item)
{
	struct cs_part *part;

	for (uint32_t i = 0; i < unit->part_count; i++) {
		if (unit->parts[i].member == member)
			return &unit->parts[i];
	}
	if (unit->part_count == CS_PARTS_MAX)
		return NULL;
	part = &unit->parts[unit->part_count++];
	*part = (struct cs_part){.unit = unit,
		.member = member,
		.first_item = item,
		.first_start_ns = unit->items[item].start_ns};
	return part;
}

/* With both clocks off by up to CS_CLOCK_FAR_NS the one may be taken for the other. */
static void
note_recent(struct cs_member *member, struct cs_part *part)
{
	for (uint32_t i = 0; i < CS_RECENT_PARTS; i++) {
		if (member->recent[i].signature == part->signature &&
			part->last_end_ns < member->recent[i].end_ns + 2 * CS_CLOCK_FAR_NS)
			part->crowded = true;
	}
	member->recent[member->recent_next].signature = part->signature;
	member->recent[member->recent_next].end_ns = part->last_end_ns;
	member->recent_next = (member->recent_next + 1) % CS_RECENT_PARTS;
}

void
cs_group_enter(struct cs_unit *unit)
{
	struct cs_part *part = NULL;

	for (uint32_t i = 0; i < unit->step.collectives; i++) {
		const struct cs_collective *item = &unit->items[i];
		struct cs_member *member = unit->extra[i].member;

		if (!member)
			continue;
		if (!part || part->member != member)
			part = part_of(unit, member, i);
		if (!part) {
			unit->extra[i].member = NULL;
			unit->lane->source->analysis->counts.unmatched_collectives++;
			continue;
		}
		if (part->count == 0)
			part->sequence = unit->extra[i].sequence;
		part->signature = mix(part->signature, unit->lane->membership[item->label_id].identity);
		part->count++;
		if (item->end_ns > part->last_end_ns)
			part->last_end_ns = item->end_ns;
	}
	for (uint32_t i = 0; i < unit->part_count; i++) {
		struct cs_member *member = unit->parts[i].member;

		if (member->last_part)
			member->last_part->next = &unit->parts[i];
		else
			member->first_part = &unit->parts[i];
		member->last_part = &unit->parts[i];
		unit->open_parts++;
		note_recent(member, &unit->parts[i]);
	}
}

/* One collective of a stretch, as a part of its own. */
static struct cs_part
single_of(const struct cs_part *part, uint32_t index)
{
	const struct cs_unit *unit = part->unit;
	const struct cs_collective *item = &unit->items[index];

	return (struct cs_part){
		.unit = part->unit,
		.member = part->member,
		.signature = mix(0, unit->lane->membership[item->label_id].identity),
		.first_start_ns = item->start_ns,
		.last_end_ns = item->end_ns,
		.first_item = index,
		.count = 1,
		.sequence = unit->extra[index].sequence,
		.single = true,
	};
}

int
cs_group_dissolve(struct cs_part *part)
{
	struct cs_unit *unit = part->unit;
	struct cs_member *member = part->member;
	struct cs_part **at = &member->first_part;
	struct cs_part *before = NULL, *last = NULL;

	if (!unit->singles)
		unit->singles = calloc(unit->step.collectives, sizeof(*unit->singles));
	if (!unit->singles)
		return -ENOMEM;
	while (*at != part) {
		before = *at;
		at = &(*at)->next;
	}
	for (uint32_t i = part->first_item; i < unit->step.collectives; i++) {
		struct cs_part *single = &unit->singles[unit->single_count];

		if (unit->extra[i].member != member)
			continue;
		unit->single_count++;
		*single = single_of(part, i);
		single->crowded = last && last->signature == single->signature &&
				  single->last_end_ns < last->last_end_ns + 2 * CS_CLOCK_FAR_NS;
		if (last)
			last->next = single;
		else
			*at = single;
		last = single;
	}
	if (last) {
		last->next = part->next;
		if (member->last_part == part)
			member->last_part = last;
	} else {
		*at = part->next;
		if (member->last_part == part)
			member->last_part = before;
	}
	unit->open_parts += part->count - 1;
	part->resolved = true;
	return 0;
}
