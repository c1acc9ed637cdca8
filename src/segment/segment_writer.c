/* SPDX-License-Identifier: Apache-2.0 */
/* Records into the ring. */
#include "barrier.h"
#include "segment_writer_private.h"

#include <errno.h>
#include <string.h>

/* Slots ahead of the head to have in our cache when their turn comes. A slot that a reader on another core
 * has looked at costs some 100 ns to get back; a record takes about 10. */
#define PREFETCH_SLOTS 16U

/*
 * Takes the slot for record number `number`. Acquire pairs with the release of the slot's last writer: our
 * words must come after its words in the order that everybody sees. false: an earlier writer is still in it,
 * or a later one has already been there (we were the one that slept a whole lap); in both cases our record is
 * the one to drop.
 */
static inline bool
claim(struct cs_ring_slot *slot, uint64_t number)
{
	uint64_t seen = atomic_load_explicit(&slot->sequence, memory_order_relaxed);
	uint64_t busy = number * 2 + 1;

	do {
		if ((seen & 1) != 0 || seen > busy)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&slot->sequence, &seen, busy, memory_order_acquire, memory_order_relaxed));
	return true;
}

int
cs_segment_writer_append(struct cs_segment_writer *writer, const struct cs_record *record)
{
	uint64_t words[sizeof(*record) / sizeof(uint64_t)];
	struct cs_ring_slot *slot;
	uint64_t number;

	if (!cs_segment_writer_usable(writer))
		return 0;
	if (record->type == 0 || record->type >= CS_RECORD_TYPE_COUNT)
		return -EINVAL;
	number = atomic_fetch_add_explicit(&writer->ring_head->head, 1, memory_order_relaxed);
	slot = &writer->slots[number & writer->ring_mask];
	__builtin_prefetch(&writer->slots[(number + PREFETCH_SLOTS) & writer->ring_mask], 1);
	if (!claim(slot, number)) {
		atomic_fetch_add_explicit(
			&writer->status->lost[CS_LOSS_RING_CONTENDED], 1, memory_order_relaxed);
		return -EBUSY;
	}
	cs_fence_fill();
	memcpy(words, record, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		atomic_store_explicit(&slot->words[i], words[i], memory_order_relaxed);
	/* Pairs with the reader's first load of the slot's sequence. */
	atomic_store_explicit(&slot->sequence, number * 2 + 2, memory_order_release);
	atomic_fetch_add_explicit(&writer->status->records[record->type], 1, memory_order_relaxed);
	return 0;
}

void
cs_segment_writer_lose_since(struct cs_segment_writer *writer, enum cs_loss_cause cause, uint64_t count,
	uint64_t since_ns, uint64_t at_ns)
{
	struct cs_record record = {
		.type = CS_RECORD_LOSS,
		.ref = cause,
		.start_ns = since_ns < at_ns ? since_ns : at_ns,
		.end_ns = at_ns,
		.value = count,
	};

	if (!cs_segment_writer_usable(writer) || (unsigned int)cause >= CS_LOSS_CAUSE_COUNT)
		return;
	atomic_fetch_add_explicit(&writer->status->lost[cause], count, memory_order_relaxed);
	cs_segment_writer_append(writer, &record);
}

void
cs_segment_writer_lose(
	struct cs_segment_writer *writer, enum cs_loss_cause cause, uint64_t count, uint64_t at_ns)
{
	cs_segment_writer_lose_since(writer, cause, count, at_ns, at_ns);
}
