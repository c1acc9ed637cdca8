/* SPDX-License-Identifier: Apache-2.0 */
#include "history.h"

#define PUT_TRIES 16U

static size_t
bucket_start(uint64_t node_id)
{
	return (size_t)(cs_pair_hash(node_id) & (CS_HISTORY_SLOTS / CS_HISTORY_WAYS - 1)) * CS_HISTORY_WAYS;
}

void
cs_history_put(struct cs_history *history, uint64_t node_id, uint32_t since, uint32_t until, uint64_t filed)
{
	struct cs_history_entry *bucket = &history->slots[bucket_start(node_id)];

	for (unsigned int attempt = 0; attempt < PUT_TRIES; attempt++) {
		struct cs_history_entry *oldest = NULL;
		uint64_t oldest_key = CS_PAIR_FREE;
		uint32_t oldest_age = 0;

		for (unsigned int i = 0; i < CS_HISTORY_WAYS; i++) {
			uint64_t key = atomic_load_explicit(&bucket[i].pair.key, memory_order_relaxed);
			uint32_t age = until -
				       (uint32_t)atomic_load_explicit(&bucket[i].calls, memory_order_relaxed);

			if (key == CS_PAIR_BUSY)
				continue;
			if (key == CS_PAIR_FREE)
				age = UINT32_MAX;
			if (!oldest || age > oldest_age) {
				oldest = &bucket[i];
				oldest_key = key;
				oldest_age = age;
			}
		}
		if (!oldest || !cs_pair_claim(&oldest->pair, oldest_key))
			continue;
		atomic_store_explicit(&oldest->calls, (uint64_t)since << 32 | until, memory_order_release);
		cs_pair_publish(&oldest->pair, node_id, filed);
		return;
	}
}

bool
cs_history_find(const struct cs_history *history, uint64_t node_id, uint32_t correlation_id, uint64_t *filed)
{
	const struct cs_history_entry *bucket = &history->slots[bucket_start(node_id)];

	for (unsigned int i = 0; i < CS_HISTORY_WAYS; i++) {
		uint64_t calls, value;
		uint32_t since;

		if (atomic_load_explicit(&bucket[i].pair.key, memory_order_acquire) != node_id)
			continue;
		calls = atomic_load_explicit(&bucket[i].calls, memory_order_acquire);
		since = (uint32_t)(calls >> 32);
		if (!cs_call_before(correlation_id, (uint32_t)calls) ||
			(since != 0 && cs_call_before(correlation_id, since)))
			continue;
		/* The same node's next change may have taken the slot in between. */
		if (!cs_pair_read(&bucket[i].pair, node_id, &value) ||
			atomic_load_explicit(&bucket[i].calls, memory_order_acquire) != calls)
			continue;
		*filed = value;
		return true;
	}
	return false;
}
