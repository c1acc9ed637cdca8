/* SPDX-License-Identifier: Apache-2.0 */
#include "eager.h"

/* Each round another thread has filled the slot that was chosen. */
#define PUT_TRIES 16U

static size_t
bucket_start(uint32_t correlation_id)
{
	uint64_t bucket = cs_pair_hash(correlation_id) & (CS_EAGER_SLOTS / CS_EAGER_WAYS - 1);

	return (size_t)bucket * CS_EAGER_WAYS;
}

/* The slot of this id, else a free one, else the one with the oldest id; ids wrap around. */
static struct cs_pair *
choose_slot(struct cs_eager *eager, uint32_t correlation_id, uint64_t *key)
{
	struct cs_pair *bucket = &eager->slots[bucket_start(correlation_id)];
	struct cs_pair *choice = NULL;
	uint32_t oldest = 0;

	for (unsigned int i = 0; i < CS_EAGER_WAYS; i++) {
		uint64_t held = atomic_load_explicit(&bucket[i].key, memory_order_relaxed);
		uint32_t age;

		if (held == CS_PAIR_BUSY)
			continue;
		if (held == correlation_id) {
			*key = held;
			return &bucket[i];
		}
		age = held == CS_PAIR_FREE ? UINT32_MAX : correlation_id - (uint32_t)held;
		if (!choice || age > oldest) {
			choice = &bucket[i];
			*key = held;
			oldest = age;
		}
	}
	return choice;
}

void
cs_eager_put(struct cs_eager *eager, uint32_t correlation_id, uint64_t value)
{
	if (correlation_id == 0)
		return;
	for (unsigned int attempt = 0; attempt < PUT_TRIES; attempt++) {
		uint64_t key = CS_PAIR_FREE;
		struct cs_pair *slot = choose_slot(eager, correlation_id, &key);

		if (slot && cs_pair_claim(slot, key)) {
			cs_pair_publish(slot, correlation_id, value);
			return;
		}
	}
}

bool
cs_eager_replace(struct cs_eager *eager, uint32_t correlation_id, uint64_t value)
{
	uint64_t key = CS_PAIR_FREE;
	struct cs_pair *slot = choose_slot(eager, correlation_id, &key);

	if (correlation_id == 0 || !slot || key != correlation_id || !cs_pair_claim(slot, key))
		return false;
	cs_pair_publish(slot, correlation_id, value);
	return true;
}

bool
cs_eager_find(const struct cs_eager *eager, uint32_t correlation_id, uint64_t *value)
{
	const struct cs_pair *bucket = &eager->slots[bucket_start(correlation_id)];

	if (correlation_id == 0)
		return false;
	for (unsigned int i = 0; i < CS_EAGER_WAYS; i++)
		if (cs_pair_read(&bucket[i], correlation_id, value))
			return true;
	return false;
}

void
cs_eager_age(struct cs_eager *eager, uint64_t old)
{
	for (size_t i = 0; i < CS_EAGER_SLOTS; i++) {
		struct cs_pair *slot = &eager->slots[i];
		uint64_t key = atomic_load_explicit(&slot->key, memory_order_relaxed);
		uint64_t value;

		if (key == CS_PAIR_FREE || key == CS_PAIR_BUSY || !cs_pair_read(slot, key, &value))
			continue;
		if ((value & old) == 0)
			cs_pair_exchange(slot, value, value | old);
		else if (cs_pair_claim(slot, key)) {
			value = atomic_load_explicit(&slot->value, memory_order_relaxed);
			/* Filed anew in between, under the same id. */
			if ((value & old) == 0)
				cs_pair_publish(slot, key, value);
			else
				cs_pair_release(slot);
		}
	}
}
