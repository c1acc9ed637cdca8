/* SPDX-License-Identifier: Apache-2.0 */
#include "name_cache.h"

#include "pair.h"

#include <string.h>

_Static_assert(sizeof(struct cs_kernel_name) == 64, "one cache line");

void
cs_name_cache_init(
	struct cs_name_cache *cache, const struct cs_catalog *catalog, struct cs_segment_writer *writer)
{
	cache->catalog = catalog;
	cache->writer = writer;
}

static void
work_out(struct cs_name_cache *cache, const char *name, uint32_t generation, struct cs_kernel_name *slot)
{
	struct cs_catalog_match match;
	struct cs_label label = {
		.rank = CS_RANK_UNKNOWN, .world = CS_RANK_UNKNOWN, .bytes = CS_BYTES_UNKNOWN};
	const struct cs_launch nothing = {0};
	bool again;

	cs_catalog_classify(cache->catalog, name, &match);
	*slot = (struct cs_kernel_name){.address = name,
		.generation = generation,
		.hash = cs_name_hash(name),
		.kind = (uint8_t)match.kind,
		.has_size_rule = match.has_size_rule,
		.nccl = match.kind == CS_CATALOG_COLLECTIVE &&
			(match.impl == CS_IMPL_NCCL || match.impl == CS_IMPL_NCCL_SYMMETRIC)};
	memcpy(slot->prefix, name, strnlen(name, sizeof(slot->prefix)));
	if (match.kind == CS_CATALOG_NONE)
		return;
	slot->name_id = (uint16_t)cs_segment_writer_name_or_again(cache->writer, name, &again);
	slot->unfinished = again;
	if (match.kind != CS_CATALOG_COLLECTIVE)
		return;
	slot->record_flags = (match.label_flags & CS_LABEL_FUSED ? CS_RECORD_FUSED : 0) |
			     (match.label_flags & CS_LABEL_PART ? CS_RECORD_PART : 0);
	/* Without parameters this fills what the name tells, and no size. */
	cs_catalog_decode(&match, &nothing, &label);
	label.name_id = slot->name_id;
	label.bytes = CS_BYTES_UNKNOWN;
	label.count = 0;
	slot->label_id = (uint16_t)cs_segment_writer_label_or_again(cache->writer, &label, &again);
	slot->unfinished |= again;
}

/* The slot of an address, in one of two buckets, or NULL with *target = where it goes: a free slot of the
 * emptier bucket, else anybody's. */
static struct cs_kernel_name *
find_slot(struct cs_name_cache *cache, const char *name, struct cs_kernel_name **target)
{
	const uint64_t mask = CS_NAME_CACHE_SLOTS / CS_NAME_CACHE_WAYS - 1;
	uint64_t hash = cs_pair_hash((uint64_t)(uintptr_t)name);
	struct cs_kernel_name *victim = &cache->slots[(hash & mask) * CS_NAME_CACHE_WAYS];
	unsigned int best = 0;

	*target = &victim[cache->next_victim++ % CS_NAME_CACHE_WAYS];
	for (unsigned int which = 0; which < 2; which++, hash >>= 32) {
		struct cs_kernel_name *bucket = &cache->slots[(hash & mask) * CS_NAME_CACHE_WAYS];
		struct cs_kernel_name *first = NULL;
		unsigned int empty = 0;

		for (unsigned int i = 0; i < CS_NAME_CACHE_WAYS; i++) {
			if (bucket[i].address == name)
				return &bucket[i];
			if (!bucket[i].address) {
				first = &bucket[i];
				empty++;
			}
		}
		if (empty > best) {
			best = empty;
			*target = first;
		}
	}
	return NULL;
}

const struct cs_kernel_name *
cs_name_cache_get(struct cs_name_cache *cache, const char *name, uint32_t generation)
{
	struct cs_kernel_name *target;
	struct cs_kernel_name *slot = find_slot(cache, name, &target);

	if (slot && !slot->unfinished && strncmp(slot->prefix, name, sizeof(slot->prefix)) == 0) {
		if (slot->generation == generation)
			return slot;
		if (slot->hash == cs_name_hash(name)) {
			slot->generation = generation;
			return slot;
		}
	}
	if (!slot)
		slot = target;
	work_out(cache, name, generation, slot);
	return slot;
}
