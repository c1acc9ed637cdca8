/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One slot of the label side's hash tables: a key and a value, two words that any thread may read while
 * another replaces them, without a lock. Header-only; host-safe.
 *
 * A writer owns a slot between cs_pair_claim (the key becomes BUSY) and cs_pair_publish or cs_pair_release. A
 * reader that finds its key before and after the value has that key's value: whoever reuses the slot makes
 * the key BUSY first, and the value is stored with release.
 */
#ifndef CS_PAIR_H
#define CS_PAIR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CS_PAIR_FREE 0U
#define CS_PAIR_BUSY UINT64_MAX

struct cs_pair {
	_Atomic uint64_t key; /* CS_PAIR_FREE, CS_PAIR_BUSY or the key */
	_Atomic uint64_t value;
};

/* false: the slot does not hold this key (any more). */
static inline bool
cs_pair_read(const struct cs_pair *pair, uint64_t key, uint64_t *value)
{
	if (atomic_load_explicit(&pair->key, memory_order_acquire) != key)
		return false;
	*value = atomic_load_explicit(&pair->value, memory_order_acquire);
	return atomic_load_explicit(&pair->key, memory_order_relaxed) == key;
}

/* Takes the slot if it still holds `key` (CS_PAIR_FREE: if it is free). */
static inline bool
cs_pair_claim(struct cs_pair *pair, uint64_t key)
{
	return atomic_compare_exchange_strong_explicit(
		&pair->key, &key, CS_PAIR_BUSY, memory_order_acq_rel, memory_order_relaxed);
}

static inline void
cs_pair_publish(struct cs_pair *pair, uint64_t key, uint64_t value)
{
	atomic_store_explicit(&pair->value, value, memory_order_release);
	atomic_store_explicit(&pair->key, key, memory_order_release);
}

static inline void
cs_pair_release(struct cs_pair *pair)
{
	atomic_store_explicit(&pair->key, CS_PAIR_FREE, memory_order_release);
}

/* Replaces the value alone, without owning the slot, if it is still `before`: for marks that are true of
 * every key with that value, as the slot may have another one by then. */
static inline void
cs_pair_exchange(struct cs_pair *pair, uint64_t before, uint64_t value)
{
	atomic_compare_exchange_strong_explicit(
		&pair->value, &before, value, memory_order_release, memory_order_relaxed);
}

/* Spreads every bit of a key to the top and the bottom (the finaliser of MurmurHash3). */
static inline uint64_t
cs_pair_hash(uint64_t key)
{
	key ^= key >> 33;
	key *= 0xff51afd7ed558ccdULL;
	key ^= key >> 33;
	key *= 0xc4ceb9fe1a85ec53ULL;
	return key ^ (key >> 33);
}

/* FNV-1a of a kernel name. */
static inline uint32_t
cs_name_hash(const char *name)
{
	uint32_t hash = 0x811c9dc5U;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x01000193U;
	return hash;
}

#endif
