/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

#include "size.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 64U
/* In cs_feed.comms: asked for, and there is none. */
#define NO_COMM UINT32_MAX
/* More GPUs than a machine can have: an index beyond it is nonsense. */
#define NVML_INDEX_MAX 1023

void
cs_feed_init(struct cs_feed *feed, struct cs_series_table *table)
{
	*feed = (struct cs_feed){.table = table};
}

static void
map_fini(struct cs_feed_map *map, struct cs_series_table *table)
{
	for (size_t i = 0; i < map->capacity; i++) {
		for (size_t slot = 0; map->entries[i].used && slot < CS_FEED_SLOT_COUNT; slot++)
			cs_series_drop(table, map->entries[i].series[slot]);
	}
	free(map->entries);
	*map = (struct cs_feed_map){0};
}

void
cs_feed_fini(struct cs_feed *feed)
{
	map_fini(&feed->collectives, feed->table);
	map_fini(&feed->steps, feed->table);
	cs_impl_changes_fini(&feed->changes);
	free(feed->comms);
	feed->comms = NULL;
	feed->comm_count = 0;
}

static bool
same_key(const struct cs_series_key *a, const struct cs_series_key *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static size_t
hash_key(const struct cs_series_key *key)
{
	uint64_t words[2];

	_Static_assert(sizeof(words) == sizeof(*key), "the whole key is hashed");
	memcpy(words, key, sizeof(words));
	words[0] = (words[0] ^ words[1] * UINT64_C(0x9E3779B97F4A7C15)) * UINT64_C(0xD6E8FEB86659FD93);
	return (size_t)(words[0] ^ words[0] >> 32);
}

/* The entry of the key, or the free one where it goes. There is always a free one. */
static struct cs_feed_entry *
map_slot(struct cs_feed_entry *entries, size_t capacity, const struct cs_series_key *key)
{
	size_t at = hash_key(key) & (capacity - 1);

	while (entries[at].used && !same_key(&entries[at].key, key))
		at = (at + 1) & (capacity - 1);
	return &entries[at];
}

static bool
map_grow(struct cs_feed_map *map)
{
	size_t capacity = map->capacity ? map->capacity * 2 : FIRST_CAPACITY;
	struct cs_feed_entry *entries = calloc(capacity, sizeof(*entries));

	if (!entries)
		return false;
	for (size_t i = 0; i < map->capacity; i++) {
		if (map->entries[i].used)
			*map_slot(entries, capacity, &map->entries[i].key) = map->entries[i];
	}
	free(map->entries);
	map->entries = entries;
	map->capacity = capacity;
	map->last = NULL;
	return true;
}

/* NULL without memory. */
static struct cs_feed_entry *
map_find(struct cs_feed_map *map, const struct cs_series_key *key)
{
	static const struct cs_series_key other = {.other = 1};
	struct cs_feed_entry *entry;

	if (map->last && same_key(&map->last->key, key))
		return map->last;
	if (map->count >= map->capacity / 4 * 3 && !map_grow(map) && map->count + 1 >= map->capacity)
		return NULL;
	entry = map_slot(map->entries, map->capacity, key);
	if (!entry->used && map->count >= CS_FEED_ENTRIES_MAX && !key->other)
		return map_find(map, &other);
	if (!entry->used) {
		*entry = (struct cs_feed_entry){.key = *key, .used = true};
		map->count++;
	}
	map->last = entry;
	return entry;
}

static struct cs_series_key
family_key(enum cs_family_id family, const struct cs_series_key *full, uint8_t part)
{
	struct cs_series_key key = {.other = full->other};

	if (key.other)
		return key;
	/* What the cases below start from; most families know nothing of communicators. */
	const struct cs_series_key without_comm = {.rank = full->rank,
		.gpu = full->gpu,
		.op = full->op,
		.impl = full->impl,
		.phase = full->phase,
		.size = full->size,
		.part = full->part};
	switch (family) {
	case CS_FAMILY_COLLECTIVE_CONTENDED:
		key = (struct cs_series_key){
			.op = full->op, .impl = full->impl, .size = full->size, .part = part};
		break;
	case CS_FAMILY_COLLECTIVE_OVERLAP:
	case CS_FAMILY_COLLECTIVE_COPY_OVERLAP:
	case CS_FAMILY_COLLECTIVE_WAIT:
		key = without_comm;
		key.size = 0;
		key.part = part;
		break;
	case CS_FAMILY_COLLECTIVE_TRANSFER:
	case CS_FAMILY_COLLECTIVE_TRANSFER_BYTES:
	case CS_FAMILY_COLLECTIVE_TRANSFER_BUS_BYTES:
		key = without_comm;
		key.gpu = 0;
		key.rank = 0;
		break;
	case CS_FAMILY_COMMUNICATOR_SECONDS:
	case CS_FAMILY_COMMUNICATOR_COLLECTIVES:
		key = (struct cs_series_key){
			.gpu = full->gpu, .rank = full->rank, .op = full->op, .comm = full->comm};
		break;
	case CS_FAMILY_COLLECTIVES_MATCHED:
	case CS_FAMILY_COLLECTIVE_LAST_ARRIVALS:
		key = (struct cs_series_key){.gpu = full->gpu, .rank = full->rank, .phase = full->phase};
		break;
	case CS_FAMILY_COLLECTIVES_UNLABELLED:
	case CS_FAMILY_COLLECTIVES_PARTIAL:
	case CS_FAMILY_COLLECTIVES_UNMATCHED:
		key = (struct cs_series_key){.gpu = full->gpu, .rank = full->rank, .impl = full->impl};
		break;
	case CS_FAMILY_STEP_COLLECTIVES:
		key = (struct cs_series_key){.phase = full->phase};
		break;
	default:
		key = without_comm;
		break;
	}
	return key;
}

static inline struct cs_series *
slot_series(struct cs_feed *feed, struct cs_feed_entry *entry, unsigned int slot, enum cs_family_id family,
	uint8_t part)
{
	if (__builtin_expect(!entry->series[slot], 0)) {
		struct cs_series_key key = family_key(family, &entry->key, part);

		entry->series[slot] = cs_series_take(feed->table, family, &key);
	}
	return entry->series[slot];
}

static void
observe(struct cs_feed *feed, struct cs_feed_entry *entry, unsigned int slot, enum cs_family_id family,
	uint8_t part, uint64_t observation)
{
	cs_series_observe(feed->table, slot_series(feed, entry, slot, family, part), observation);
}

static void
add(struct cs_feed *feed, struct cs_feed_entry *entry, unsigned int slot, enum cs_family_id family,
	uint8_t part, uint64_t amount)
{
	cs_series_add(feed->table, slot_series(feed, entry, slot, family, part), amount);
}

int16_t
cs_feed_gpu(const struct cs_dictionary *dictionary, uint32_t index)
{
	int32_t nvml_index = index < dictionary->gpu_count ? dictionary->gpus[index].nvml_index : -1;

	if (nvml_index < 0 || nvml_index > NVML_INDEX_MAX)
		return -1;
	return (int16_t)nvml_index;
}

/* One moment beside another collective counts as contended by it, even when copies ran too: the worst
 * neighbour names the class. */
static unsigned int
contended_slot(const struct cs_collective *collective)
{
	if (collective->overlap_ns[CS_BUSY_COLLECTIVE])
		return CS_FEED_CONTENDED + CS_BUSY_COLLECTIVE;
	if (collective->overlap_ns[CS_BUSY_COPY])
		return CS_FEED_CONTENDED + CS_BUSY_COPY;
	if (collective->overlap_ns[CS_BUSY_COMPUTE])
		return CS_FEED_CONTENDED + CS_BUSY_COMPUTE;
	return CS_FEED_CONTENDED_NONE;
}

static void
feed_overlap(struct cs_feed *feed, struct cs_feed_entry *entry, const struct cs_collective *collective)
{
	if (collective->exposed_ns == CS_NS_UNKNOWN)
		return;
	add(feed, entry, CS_FEED_OVERLAP_NONE, CS_FAMILY_COLLECTIVE_OVERLAP, CS_WITH_NONE,
		collective->exposed_ns);
	for (unsigned int klass = 0; klass < CS_BUSY_CLASS_COUNT; klass++) {
		uint64_t overlap_ns = collective->overlap_ns[klass];

		add(feed, entry, CS_FEED_OVERLAP + klass, CS_FAMILY_COLLECTIVE_OVERLAP, (uint8_t)klass,
			overlap_ns == CS_NS_UNKNOWN ? 0 : overlap_ns);
	}
	for (unsigned int direction = 0; direction < CS_COPY_DIRECTION_COUNT; direction++) {
		uint64_t copy_ns = collective->copy_ns[direction];

		if (copy_ns && copy_ns != CS_NS_UNKNOWN)
			add(feed, entry, CS_FEED_COPY_OVERLAP + direction, CS_FAMILY_COLLECTIVE_COPY_OVERLAP,
				(uint8_t)direction, copy_ns);
	}
}

static void
feed_contended(struct cs_feed *feed, struct cs_feed_entry *entry, const struct cs_collective *collective)
{
	unsigned int slot = contended_slot(collective);
	uint8_t part = slot == CS_FEED_CONTENDED_NONE ? CS_WITH_NONE : (uint8_t)(slot - CS_FEED_CONTENDED);

	if (collective->exposed_ns == CS_NS_UNKNOWN)
		return;
	observe(feed, entry, slot, CS_FAMILY_COLLECTIVE_CONTENDED, part,
		collective->end_ns - collective->start_ns);
}

/* The transfer is the same on all ranks: counted where it is known to be reached once. */
static void
feed_transfer(struct cs_feed *feed, struct cs_feed_entry *entry, const struct cs_collective *collective)
{
	const struct cs_label *label = collective->label;

	if (!collective->last_arrival || collective->transfer_ns == CS_NS_UNKNOWN)
		return;
	observe(feed, entry, CS_FEED_TRANSFER, CS_FAMILY_COLLECTIVE_TRANSFER, 0, collective->transfer_ns);
	if (collective->bytes == CS_BYTES_UNKNOWN)
		return;
	add(feed, entry, CS_FEED_TRANSFER_BYTES, CS_FAMILY_COLLECTIVE_TRANSFER_BYTES, 0, collective->bytes);
	add(feed, entry, CS_FEED_TRANSFER_BUS_BYTES, CS_FAMILY_COLLECTIVE_TRANSFER_BUS_BYTES, 0,
		cs_op_bus_bytes(label->op, label->world, collective->bytes));
}

static void
feed_ranks(struct cs_feed *feed, struct cs_feed_entry *entry, const struct cs_collective *collective)
{
	bool matched = collective->wait_ns != CS_NS_UNKNOWN;

	if (collective->label->world > 1) {
		add(feed, entry, CS_FEED_UNMATCHED, CS_FAMILY_COLLECTIVES_UNMATCHED, 0,
			!collective->matched_ranks);
		add(feed, entry, CS_FEED_PARTIAL, CS_FAMILY_COLLECTIVES_PARTIAL, 0,
			collective->matched_ranks && !matched);
	}
	if (!matched)
		return;
	add(feed, entry, CS_FEED_MATCHED, CS_FAMILY_COLLECTIVES_MATCHED, 0, 1);
	observe(feed, entry, CS_FEED_WAIT, CS_FAMILY_COLLECTIVE_WAIT, 0, collective->wait_ns);
	add(feed, entry, CS_FEED_LAST_ARRIVALS, CS_FAMILY_COLLECTIVE_LAST_ARRIVALS, 0,
		collective->last_arrival);
	feed_transfer(feed, entry, collective);
}

static void
feed_communicator(struct cs_feed *feed, struct cs_feed_entry *entry, const struct cs_collective *collective)
{
	if (!entry->key.comm)
		return;
	add(feed, entry, CS_FEED_COMMUNICATOR_SECONDS, CS_FAMILY_COMMUNICATOR_SECONDS, 0,
		collective->end_ns - collective->start_ns);
	add(feed, entry, CS_FEED_COMMUNICATOR_COLLECTIVES, CS_FAMILY_COMMUNICATOR_COLLECTIVES, 0, 1);
}

/* What is not known is no change: neither an unknown implementation nor a size that nobody could tell. */
static void
feed_impl(struct cs_feed *feed, struct cs_feed_entry *entry, uint32_t pid,
	const struct cs_collective *collective)
{
	const struct cs_series_key *key = &entry->key;
	uint8_t dtype = collective->label->dtype;
	struct cs_impl_line line;

	if (key->impl == CS_IMPL_UNKNOWN || key->size == CS_SIZE_UNKNOWN || key->other)
		return;
	if (!entry->impls || entry->dtype != dtype) {
		struct cs_impl_key like = {
			.gpu = key->gpu,
			.rank = key->rank,
			.op = key->op,
			.dtype = dtype,
			.size = key->size,
			.phase = key->phase,
		};

		entry->impls = cs_impl_changes_find(&feed->changes, &like);
		entry->dtype = dtype;
	}
	if (entry->impls && cs_impl_change_see(entry->impls, key->impl, collective->start_ns, &line))
		cs_impl_change_log(entry->impls, &line, pid);
}

/* cs_series_comm of a communicator of the process; 0 none. */
static uint32_t
comm_of(struct cs_feed *feed, const struct cs_dictionary *dictionary, uint32_t comm_id)
{
	if (comm_id == 0 || comm_id > dictionary->communicator_count)
		return 0;
	if (comm_id > feed->comm_count) {
		uint32_t *grown = reallocarray(feed->comms, dictionary->communicator_count, sizeof(*grown));

		if (!grown)
			return 0;
		memset(grown + feed->comm_count, 0,
			(dictionary->communicator_count - feed->comm_count) * sizeof(*grown));
		feed->comms = grown;
		feed->comm_count = dictionary->communicator_count;
	}
	if (!feed->comms[comm_id - 1]) {
		uint32_t comm = cs_series_comm(feed->table, dictionary->communicators[comm_id - 1].hash);

		feed->comms[comm_id - 1] = comm ? comm : NO_COMM;
	}
	return feed->comms[comm_id - 1] == NO_COMM ? 0 : feed->comms[comm_id - 1];
}

void
cs_feed_collective(
	struct cs_feed *feed, const struct cs_dictionary *dictionary, const struct cs_collective *collective)
{
	const struct cs_label *label = collective->label;
	struct cs_series_key key = {
		.rank = label->rank != CS_RANK_UNKNOWN && collective->label_id ? label->rank
									       : dictionary->process.rank,
		.gpu = cs_feed_gpu(dictionary, collective->gpu),
		.op = label->op,
		.impl = label->impl,
		.phase = collective->phase,
		.size = cs_size_bucket(collective->bytes),
		.comm = comm_of(feed, dictionary, label->comm_id),
	};
	struct cs_feed_entry *entry = map_find(&feed->collectives, &key);

	if (!entry) {
		feed->table->dropped++;
		return;
	}
	feed_overlap(feed, entry, collective);
	if (collective->record_flags & CS_RECORD_PART)
		return;
	observe(feed, entry, CS_FEED_DURATION, CS_FAMILY_COLLECTIVE_DURATION, 0,
		collective->end_ns - collective->start_ns);
	add(feed, entry, CS_FEED_BYTES, CS_FAMILY_COLLECTIVE_BYTES, 0,
		collective->bytes == CS_BYTES_UNKNOWN ? 0 : collective->bytes);
	add(feed, entry, CS_FEED_UNLABELLED, CS_FAMILY_COLLECTIVES_UNLABELLED, 0,
		collective->bytes == CS_BYTES_UNKNOWN);
	feed_contended(feed, entry, collective);
	feed_ranks(feed, entry, collective);
	feed_communicator(feed, entry, collective);
	feed_impl(feed, entry, dictionary->process.pid, collective);
}

void
cs_feed_step(struct cs_feed *feed, const struct cs_dictionary *dictionary, const struct cs_step *step)
{
	struct cs_series_key key = {
		.rank = step->rank != CS_RANK_UNKNOWN ? step->rank : dictionary->process.rank,
		.gpu = cs_feed_gpu(dictionary, step->gpu),
		.phase = step->phase,
	};
	struct cs_feed_entry *entry = map_find(&feed->steps, &key);

	if (!entry) {
		feed->table->dropped++;
		return;
	}
	observe(feed, entry, CS_FEED_STEP_DURATION, CS_FAMILY_STEP_DURATION, 0,
		step->end_ns - step->start_ns);
	if (step->depth != CS_DEPTH_DEEP)
		return;
	observe(feed, entry, CS_FEED_STEP_COLLECTIVE, CS_FAMILY_STEP_COLLECTIVE, 0, step->collective_ns);
	observe(feed, entry, CS_FEED_STEP_COLLECTIVES, CS_FAMILY_STEP_COLLECTIVES, 0, step->collectives);
	if (step->exposed_collective_ns != CS_NS_UNKNOWN)
		observe(feed, entry, CS_FEED_STEP_EXPOSED, CS_FAMILY_STEP_EXPOSED, 0,
			step->exposed_collective_ns);
}
