/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger.h"

#include "pair.h"

#include <errno.h>
#include <sys/mman.h>

#define BUCKET_SLOTS 8U
/* Rereads while a slot is being written: the writer needs some nanoseconds, unless it is not running. */
#define FIND_TRIES 64U
/* Other threads can take the slot that was chosen; each round one of them got its entry in. */
#define PUT_TRIES 64U

struct cs_ledger {
	_Alignas(64) uint32_t mask; /* of buckets */
	size_t mapped_bytes;
	_Alignas(64) _Atomic uint64_t count;
	_Alignas(64) struct cs_pair slots[];
};

int
cs_ledger_create(uint32_t slots, struct cs_ledger **ledger)
{
	size_t bytes = sizeof(struct cs_ledger) + (size_t)slots * sizeof(struct cs_pair);
	void *memory;

	*ledger = NULL;
	if (slots < 2 * BUCKET_SLOTS || (slots & (slots - 1)) != 0)
		return -EINVAL;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	*ledger = memory;
	(*ledger)->mask = slots / BUCKET_SLOTS - 1;
	(*ledger)->mapped_bytes = bytes;
	return 0;
}

void
cs_ledger_destroy(struct cs_ledger *ledger)
{
	if (ledger)
		munmap(ledger, ledger->mapped_bytes);
}

static inline void
find_buckets(const struct cs_ledger *ledger, uint64_t id, uint32_t buckets[2])
{
	uint64_t hash = cs_pair_hash(id);

	buckets[0] = (uint32_t)hash & ledger->mask;
	buckets[1] = (uint32_t)(hash >> 32) & ledger->mask;
	if (buckets[1] == buckets[0])
		buckets[1] ^= 1;
}

static inline bool
valid_id(uint64_t id)
{
	return id != CS_PAIR_FREE && id != CS_PAIR_BUSY;
}

bool
cs_ledger_find(const struct cs_ledger *ledger, uint64_t id, uint64_t *value)
{
	uint32_t buckets[2];

	if (!valid_id(id))
		return false;
	find_buckets(ledger, id, buckets);
	for (unsigned int attempt = 0; attempt < FIND_TRIES; attempt++) {
		bool busy = false;

		for (unsigned int which = 0; which < 2; which++) {
			const struct cs_pair *bucket = &ledger->slots[(size_t)buckets[which] * BUCKET_SLOTS];

			for (unsigned int i = 0; i < BUCKET_SLOTS; i++) {
				uint64_t key;

				if (cs_pair_read(&bucket[i], id, value))
					return true;
				key = atomic_load_explicit(&bucket[i].key, memory_order_relaxed);
				/* The id itself: it has been replaced just now, behind the read. */
				busy |= key == CS_PAIR_BUSY || key == id;
			}
		}
		if (!busy)
			return false;
	}
	return false;
}

/* The slot that holds the id, or NULL with *target = a free slot of the emptier bucket (NULL: none). */
static struct cs_pair *
choose_slot(struct cs_ledger *ledger, uint64_t id, struct cs_pair **target)
{
	uint32_t buckets[2];
	unsigned int best = 0;

	*target = NULL;
	find_buckets(ledger, id, buckets);
	for (unsigned int which = 0; which < 2; which++) {
		struct cs_pair *bucket = &ledger->slots[(size_t)buckets[which] * BUCKET_SLOTS];
		struct cs_pair *first = NULL;
		unsigned int empty = 0;

		for (unsigned int i = 0; i < BUCKET_SLOTS; i++) {
			uint64_t key = atomic_load_explicit(&bucket[i].key, memory_order_relaxed);

			if (key == id)
				return &bucket[i];
			if (key == CS_PAIR_FREE) {
				if (!first)
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

int
cs_ledger_put(struct cs_ledger *ledger, uint64_t id, uint64_t value)
{
	if (!valid_id(id))
		return -EINVAL;
	for (unsigned int attempt = 0; attempt < PUT_TRIES; attempt++) {
		struct cs_pair *target;
		struct cs_pair *own = choose_slot(ledger, id, &target);

		if (own) {
			if (!cs_pair_claim(own, id))
				continue;
			cs_pair_publish(own, id, value);
			return 0;
		}
		if (!target)
			return -ENOSPC;
		if (!cs_pair_claim(target, CS_PAIR_FREE))
			continue;
		cs_pair_publish(target, id, value);
		atomic_fetch_add_explicit(&ledger->count, 1, memory_order_relaxed);
		return 1;
	}
	return -ENOSPC;
}

bool
cs_ledger_replace(struct cs_ledger *ledger, uint64_t id, uint64_t value)
{
	struct cs_pair *target;
	struct cs_pair *own = valid_id(id) ? choose_slot(ledger, id, &target) : NULL;

	if (!own || !cs_pair_claim(own, id))
		return false;
	cs_pair_publish(own, id, value);
	return true;
}

bool
cs_ledger_remove(struct cs_ledger *ledger, uint64_t id)
{
	struct cs_pair *target;
	struct cs_pair *own = valid_id(id) ? choose_slot(ledger, id, &target) : NULL;

	if (!own || !cs_pair_claim(own, id))
		return false;
	cs_pair_release(own);
	atomic_fetch_sub_explicit(&ledger->count, 1, memory_order_relaxed);
	return true;
}

static bool
is_among(uint32_t graph_id, const uint32_t *graph_ids, uint32_t graph_count)
{
	uint32_t first = 0, end = graph_count;

	while (first < end) {
		uint32_t middle = (first + end) / 2;

		if (graph_ids[middle] == graph_id)
			return true;
		if (graph_ids[middle] < graph_id)
			first = middle + 1;
		else
			end = middle;
	}
	return false;
}

uint32_t
cs_ledger_collect(const struct cs_ledger *ledger, const uint32_t *graph_ids, uint32_t graph_count,
	struct cs_ledger_entry *entries, uint32_t room)
{
	size_t slots = ((size_t)ledger->mask + 1) * BUCKET_SLOTS;
	uint32_t count = 0;

	for (size_t i = 0; i < slots; i++) {
		uint64_t id = atomic_load_explicit(&ledger->slots[i].key, memory_order_relaxed);
		uint64_t value;

		if (!valid_id(id) || !is_among((uint32_t)(id >> 32), graph_ids, graph_count) ||
			!cs_pair_read(&ledger->slots[i], id, &value))
			continue;
		if (count < room)
			entries[count] = (struct cs_ledger_entry){id, value};
		count++;
	}
	return count;
}

void
cs_ledger_rewrite(struct cs_ledger *ledger, uint64_t (*rewrite)(uint64_t value))
{
	size_t slots = ((size_t)ledger->mask + 1) * BUCKET_SLOTS;

	for (size_t i = 0; i < slots; i++) {
		uint64_t id = atomic_load_explicit(&ledger->slots[i].key, memory_order_relaxed);
		uint64_t value, better;

		if (!valid_id(id) || !cs_pair_read(&ledger->slots[i], id, &value))
			continue;
		better = rewrite(value);
		if (better != value)
			cs_pair_exchange(&ledger->slots[i], value, better);
	}
}

uint64_t
cs_ledger_count(const struct cs_ledger *ledger)
{
	return atomic_load_explicit(&ledger->count, memory_order_relaxed);
}

size_t
cs_ledger_mapped_bytes(const struct cs_ledger *ledger)
{
	return ledger->mapped_bytes;
}
