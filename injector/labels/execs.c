/* SPDX-License-Identifier: Apache-2.0 */
#include "execs.h"

#include "pair.h"

/* Others can take the slot that was chosen. */
#define NOTE_TRIES 8U

static struct cs_exec *
find_slots(struct cs_execs *execs, uint32_t graph_id)
{
	return &execs->slots[(cs_pair_hash(graph_id) & (CS_EXECS / CS_EXECS_WAYS - 1)) * CS_EXECS_WAYS];
}

static bool
raise(struct cs_exec *slots, uint32_t graph_id)
{
	for (uint32_t i = 0; i < CS_EXECS_WAYS; i++) {
		uint64_t word = atomic_load_explicit(&slots[i].word, memory_order_relaxed);

		/* Being filled: whoever does that says so. */
		while (cs_exec_graph_id(word) == graph_id && (uint32_t)word != 0) {
			if (atomic_compare_exchange_weak_explicit(&slots[i].word, &word, word + 1,
				    memory_order_release, memory_order_relaxed))
				return true;
		}
	}
	return false;
}

/* A free slot, or that of the lowest id among those that have been told of; NULL none. *found: what is in it.
 */
static struct cs_exec *
choose(struct cs_exec *slots, uint64_t *found)
{
	struct cs_exec *chosen = NULL;

	for (uint32_t i = 0; i < CS_EXECS_WAYS; i++) {
		uint64_t word = atomic_load_explicit(&slots[i].word, memory_order_relaxed);
		uint64_t due;

		if (word != 0 && ((uint32_t)word == 0 || cs_exec_is_due(&slots[i], &due)))
			continue;
		if (!chosen || word < *found) {
			chosen = &slots[i];
			*found = word;
		}
	}
	return chosen;
}

void
cs_execs_note(struct cs_execs *execs, uint32_t graph_id, uint32_t context_id)
{
	struct cs_exec *slots = find_slots(execs, graph_id);

	for (uint32_t attempt = 0; attempt < NOTE_TRIES && !raise(slots, graph_id); attempt++) {
		uint64_t found = 0;
		struct cs_exec *slot = choose(slots, &found);
		uint64_t filling = (uint64_t)graph_id << 32;

		if (!slot)
			return;
		if (!atomic_compare_exchange_strong_explicit(
			    &slot->word, &found, filling, memory_order_acquire, memory_order_relaxed))
			continue;
		atomic_store_explicit(&slot->context_id, context_id, memory_order_relaxed);
		atomic_store_explicit(&slot->word, filling | 1, memory_order_release);
		break;
	}
	atomic_fetch_add_explicit(&execs->changes, 1, memory_order_release);
}

void
cs_execs_touch(struct cs_execs *execs, uint32_t graph_id)
{
	if (raise(find_slots(execs, graph_id), graph_id))
		atomic_fetch_add_explicit(&execs->changes, 1, memory_order_release);
}
