/* SPDX-License-Identifier: Apache-2.0 */
#include "label_table.h"

#include "pair.h"

#include <string.h>

#define STATE_FREE  0U
#define STATE_BUSY  1U
#define PROBE_LIMIT 512U

static uint32_t
hash_label(const struct cs_label *label)
{
	uint64_t words[sizeof(*label) / sizeof(uint64_t)];
	uint64_t hash = 0;

	memcpy(words, label, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		hash = cs_pair_hash(hash ^ words[i]);
	return (uint32_t)hash;
}

uint32_t
cs_label_table_put(struct cs_label_table *table, const struct cs_label *label)
{
	uint32_t hash = hash_label(label);
	uint32_t state = hash | 2;

	for (uint32_t i = 0; i < PROBE_LIMIT; i++) {
		uint32_t number = (hash / 4 + i) % CS_LABEL_TABLE_SLOTS;
		struct cs_label_entry *entry = &table->slots[number];
		uint32_t held = atomic_load_explicit(&entry->state, memory_order_acquire);

		if (held == STATE_FREE && atomic_compare_exchange_strong_explicit(&entry->state, &held,
						  STATE_BUSY, memory_order_acquire, memory_order_acquire)) {
			entry->label = *label;
			atomic_store_explicit(&entry->state, state, memory_order_release);
			return number + 1;
		}
		if (held == state && memcmp(&entry->label, label, sizeof(*label)) == 0)
			return number + 1;
	}
	return 0;
}

uint32_t
cs_label_entry_segment_id(struct cs_label_entry *entry, struct cs_segment_writer *writer, uint32_t name_id)
{
	uint32_t id = atomic_load_explicit(&entry->segment_id, memory_order_relaxed);
	struct cs_label label;

	if (id != 0)
		return id;
	label = entry->label;
	label.name_id = name_id;
	id = cs_segment_writer_label(writer, &label);
	/* Without its kernel's name it is not what others will want. */
	if (name_id != 0)
		atomic_store_explicit(&entry->segment_id, id, memory_order_relaxed);
	return id;
}
