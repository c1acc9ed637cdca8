/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interning and texts of the writing side.
 *
 * A value that is known already is found without the lock: entries never change, and an index word is stored
 * (release) after the entry that it names. Only an insertion takes the lock, and looks again under it.
 */
#include "barrier.h"
#include "segment_writer_private.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

/* An insertion copies at most 1 KiB: a few microseconds. Someone who waits this many pauses (0.1 to 1 ms by
 * processor) waits for a thread that is not running, perhaps because this one has its processor: it is given
 * away some times, which on a busy machine with two processors is what the other needs. Only new values come
 * here, so a host's thread does so while graphs are captured, never in steady state; a label that is refused
 * then is missing for the life of the graph. */
#define LOCK_SPINS  16384U
#define LOCK_YIELDS 64U
/* Once the lock could not be had so often in a row, its owner is taken for dead (a cancelled thread) and
 * nobody spins for it any more, until somebody gets it. */
#define LOCK_FAILURES_MAX 8U

static inline void
relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static bool
try_lock(struct cs_segment_writer *writer)
{
	return atomic_load_explicit(&writer->lock, memory_order_relaxed) == 0 &&
	       atomic_exchange_explicit(&writer->lock, 1, memory_order_acquire) == 0;
}

static bool
lock(struct cs_segment_writer *writer)
{
	uint32_t failures = atomic_load_explicit(&writer->lock_failures, memory_order_relaxed);
	uint32_t spins = failures < LOCK_FAILURES_MAX ? LOCK_SPINS : 1;
	uint32_t yields = failures < LOCK_FAILURES_MAX ? LOCK_YIELDS : 0;

	for (uint32_t i = 0; i < spins + yields; i++) {
		if (try_lock(writer)) {
			if (failures != 0)
				atomic_store_explicit(&writer->lock_failures, 0, memory_order_relaxed);
			return true;
		}
		if (i < spins)
			relax();
		else
			sched_yield();
	}
	atomic_fetch_add_explicit(&writer->lock_failures, 1, memory_order_relaxed);
	return false;
}

/*
 * What is said once and cannot be said again: a GPU without its entry has its records dropped, a text that is
 * put off stays empty. No host's thread sets these while it works, so the thread may sleep, 127 ms in all,
 * until the holder has had a processor.
 */
static bool
lock_patiently(struct cs_segment_writer *writer)
{
	struct timespec pause = {.tv_nsec = 1000000};

	while (!lock(writer)) {
		if (atomic_load_explicit(&writer->lock_failures, memory_order_relaxed) >= LOCK_FAILURES_MAX)
			return false;
		nanosleep(&pause, NULL);
		pause.tv_nsec *= 2;
	}
	return true;
}

static void
unlock(struct cs_segment_writer *writer)
{
	atomic_store_explicit(&writer->lock, 0, memory_order_release);
}

/* -- index ----------------------------------------------------------------------------------------------- */

/* FNV-1a over words, with a final mix that brings every bit to the top and the bottom. */
static uint64_t
hash_bytes(const void *bytes, size_t length)
{
	const unsigned char *at = bytes;
	uint64_t hash = 0xcbf29ce484222325ULL ^ length;

	while (length >= sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, at, sizeof(word));
		hash = (hash ^ word) * 0x100000001b3ULL;
		hash ^= hash >> 29;
		at += sizeof(word);
		length -= sizeof(word);
	}
	while (length-- > 0)
		hash = (hash ^ *at++) * 0x100000001b3ULL;
	hash ^= hash >> 32;
	hash *= 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 31);
}

static uint32_t
index_word(uint64_t hash, uint32_t id)
{
	return (uint32_t)(hash >> 48) << 16 | id;
}

/* What the comparison of a key with entry `id` needs. */
struct key {
	const struct cs_segment_writer *writer;
	const void *bytes;
	size_t length;
};

/* The id of an equal entry, or 0 with *free_slot = where it would go. The table is never full: it has twice
 * the entries. */
static uint32_t
index_find(_Atomic uint32_t *slots, uint32_t slot_count, uint64_t hash, const struct key *key,
	bool (*equal)(const struct key *key, uint32_t id), uint32_t *free_slot)
{
	uint32_t at = (uint32_t)hash & (slot_count - 1);

	for (;;) {
		/* Pairs with index_put. */
		uint32_t word = atomic_load_explicit(&slots[at], memory_order_acquire);

		if (word == 0) {
			*free_slot = at;
			return 0;
		}
		if (word == index_word(hash, word & UINT16_MAX) && equal(key, word & UINT16_MAX))
			return word & UINT16_MAX;
		at = (at + 1) & (slot_count - 1);
	}
}

static void
index_put(_Atomic uint32_t *slots, uint32_t free_slot, uint64_t hash, uint32_t id)
{
	atomic_store_explicit(&slots[free_slot], index_word(hash, id), memory_order_release);
}

static void
refuse(struct cs_segment_writer *writer, struct cs_table_head *head)
{
	atomic_fetch_add_explicit(&head->refused, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&writer->status->lost[CS_LOSS_TABLE_FULL], 1, memory_order_relaxed);
}

/* The table may have room; whoever holds the lock does not run. */
static void
put_off(struct cs_segment_writer *writer, bool *again)
{
	atomic_fetch_add_explicit(&writer->status->lost[CS_LOSS_TABLE_BUSY], 1, memory_order_relaxed);
	*again = true;
}

/* Makes entry number *count visible to readers; pairs with the acquire load of a table's count. */
static void
publish_entry(_Atomic uint32_t *count, struct cs_table_head *head)
{
	uint32_t next = atomic_load_explicit(count, memory_order_relaxed) + 1;

	atomic_store_explicit(&head->count, next, memory_order_release);
	atomic_store_explicit(count, next, memory_order_release);
}

/* Length of text cut to at most `limit` bytes, not inside a UTF-8 character. */
static size_t
cut_length(const char *text, size_t limit)
{
	size_t length = strnlen(text, limit + 1);

	if (length <= limit)
		return length;
	length = limit;
	while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
		length--;
	return length;
}

/* -- names ----------------------------------------------------------------------------------------------- */

static bool
name_equal(const struct key *key, uint32_t id)
{
	const struct cs_name_place *place = &key->writer->name_places[id];

	return place->length_bytes == key->length &&
	       memcmp(key->writer->text + place->offset_bytes, key->bytes, key->length) == 0;
}

static uint32_t
insert_name(struct cs_segment_writer *writer, const struct key *key, uint64_t hash, uint32_t free_slot)
{
	uint32_t id = atomic_load_explicit(&writer->name_count, memory_order_relaxed);
	struct cs_name_place place = {
		.offset_bytes = writer->text_bytes, .length_bytes = (uint32_t)key->length};

	if (id >= CS_NAMES_MAX || key->length + 1 > CS_TEXT_BYTES - writer->text_bytes) {
		refuse(writer, writer->name_head);
		return 0;
	}
	/* The NUL behind it is there: TEXT was zero and is only appended to. */
	memcpy(writer->text + place.offset_bytes, key->bytes, key->length);
	writer->text_bytes += place.length_bytes + 1;
	atomic_store_explicit(&writer->text_head->count, writer->text_bytes, memory_order_release);
	writer->name_places[id] = place;
	writer->names[id].offset_bytes = place.offset_bytes;
	writer->names[id].length_bytes = place.length_bytes;
	publish_entry(&writer->name_count, writer->name_head);
	index_put(writer->name_index, free_slot, hash, id);
	return id;
}

uint32_t
cs_segment_writer_name_or_again(struct cs_segment_writer *writer, const char *name, bool *again)
{
	struct key key = {.writer = writer, .bytes = name};
	uint32_t free_slot = 0;
	uint64_t hash;
	uint32_t id;

	*again = false;
	if (!cs_segment_writer_usable(writer) || !name || !name[0])
		return 0;
	key.length = cut_length(name, CS_NAME_BYTES_MAX);
	hash = hash_bytes(key.bytes, key.length);
	id = index_find(writer->name_index, CS_NAME_INDEX_SLOTS, hash, &key, name_equal, &free_slot);
	if (id != 0)
		return id;
	if (!lock(writer)) {
		put_off(writer, again);
		return 0;
	}
	id = index_find(writer->name_index, CS_NAME_INDEX_SLOTS, hash, &key, name_equal, &free_slot);
	if (id == 0)
		id = insert_name(writer, &key, hash, free_slot);
	unlock(writer);
	return id;
}

uint32_t
cs_segment_writer_name(struct cs_segment_writer *writer, const char *name)
{
	bool again;

	return cs_segment_writer_name_or_again(writer, name, &again);
}

/* -- labels ---------------------------------------------------------------------------------------------- */

static bool
label_equal(const struct key *key, uint32_t id)
{
	return memcmp(&key->writer->labels[id], key->bytes, sizeof(struct cs_label)) == 0;
}

static uint32_t
insert_label(struct cs_segment_writer *writer, const struct key *key, uint64_t hash, uint32_t free_slot)
{
	uint32_t id = atomic_load_explicit(&writer->label_count, memory_order_relaxed);

	if (id >= CS_LABELS_MAX) {
		refuse(writer, writer->label_head);
		return 0;
	}
	memcpy(&writer->labels[id], key->bytes, sizeof(struct cs_label));
	publish_entry(&writer->label_count, writer->label_head);
	index_put(writer->label_index, free_slot, hash, id);
	return id;
}

uint32_t
cs_segment_writer_label_or_again(struct cs_segment_writer *writer, const struct cs_label *label, bool *again)
{
	struct key key = {.writer = writer, .bytes = label, .length = sizeof(*label)};
	uint32_t free_slot = 0;
	uint64_t hash;
	uint32_t id;

	*again = false;
	if (!cs_segment_writer_usable(writer))
		return 0;
	hash = hash_bytes(label, sizeof(*label));
	id = index_find(writer->label_index, CS_LABEL_INDEX_SLOTS, hash, &key, label_equal, &free_slot);
	if (id != 0)
		return id;
	if (!lock(writer)) {
		put_off(writer, again);
		return 0;
	}
	id = index_find(writer->label_index, CS_LABEL_INDEX_SLOTS, hash, &key, label_equal, &free_slot);
	if (id == 0)
		id = insert_label(writer, &key, hash, free_slot);
	unlock(writer);
	return id;
}

uint32_t
cs_segment_writer_label(struct cs_segment_writer *writer, const struct cs_label *label)
{
	bool again;

	return cs_segment_writer_label_or_again(writer, label, &again);
}

const struct cs_label *
cs_segment_writer_borrow_label(const struct cs_segment_writer *writer, uint32_t id)
{
	/* Pairs with publish_entry. */
	if (!cs_segment_writer_usable(writer) || id == 0 ||
		id >= atomic_load_explicit(&writer->label_count, memory_order_acquire))
		return NULL;
	return &writer->labels[id];
}

/* -- communicators --------------------------------------------------------------------------------------- */

static bool
communicator_equal(const struct key *key, uint32_t id)
{
	return memcmp(&key->writer->communicator_identities[id - 1], key->bytes,
		       sizeof(struct cs_communicator_identity)) == 0;
}

static uint32_t
insert_communicator(struct cs_segment_writer *writer, const struct key *key,
	const struct cs_communicator *communicator, uint64_t hash, uint32_t free_slot)
{
	uint32_t index = atomic_load_explicit(&writer->communicator_count, memory_order_relaxed);

	if (index >= CS_COMMUNICATORS_MAX) {
		refuse(writer, writer->communicator_head);
		return 0;
	}
	memcpy(&writer->communicator_identities[index], key->bytes, key->length);
	writer->communicators[index] = *communicator;
	publish_entry(&writer->communicator_count, writer->communicator_head);
	index_put(writer->communicator_index, free_slot, hash, index + 1);
	return index + 1;
}

uint32_t
cs_segment_writer_communicator(struct cs_segment_writer *writer, const struct cs_communicator *communicator)
{
	struct cs_communicator_identity identity = {.hash = communicator->hash, .rank = communicator->rank};
	struct key key = {.writer = writer, .bytes = &identity, .length = sizeof(identity)};
	uint32_t free_slot = 0;
	bool again;
	uint64_t hash;
	uint32_t id;

	if (!cs_segment_writer_usable(writer))
		return 0;
	hash = hash_bytes(&identity, sizeof(identity));
	id = index_find(
		writer->communicator_index, CS_COMM_INDEX_SLOTS, hash, &key, communicator_equal, &free_slot);
	if (id != 0)
		return id;
	if (!lock(writer)) {
		put_off(writer, &again);
		return 0;
	}
	id = index_find(
		writer->communicator_index, CS_COMM_INDEX_SLOTS, hash, &key, communicator_equal, &free_slot);
	if (id == 0)
		id = insert_communicator(writer, &key, communicator, hash, free_slot);
	unlock(writer);
	return id;
}

/* -- GPUs and environment -------------------------------------------------------------------------------- */

static bool
same_gpu(const struct cs_gpu *a, const struct cs_gpu *b)
{
	static const uint8_t no_uuid[16];

	if (memcmp(a->uuid, no_uuid, sizeof(no_uuid)) == 0 && memcmp(b->uuid, no_uuid, sizeof(no_uuid)) == 0)
		return a->cuda_ordinal == b->cuda_ordinal;
	return memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0;
}

static int
find_gpu(const struct cs_segment_writer *writer, const struct cs_gpu *gpu)
{
	/* Pairs with publish_entry. */
	uint32_t count = atomic_load_explicit(&writer->gpu_count, memory_order_acquire);

	for (uint32_t i = 0; i < count; i++)
		if (same_gpu(&writer->gpus[i], gpu))
			return (int)i;
	return -ENOENT;
}

int
cs_segment_writer_gpu(struct cs_segment_writer *writer, const struct cs_gpu *gpu)
{
	int index;

	if (!cs_segment_writer_usable(writer))
		return -ENODEV;
	index = find_gpu(writer, gpu);
	if (index >= 0)
		return index;
	if (!lock_patiently(writer))
		return -EBUSY;
	index = find_gpu(writer, gpu);
	if (index < 0) {
		index = (int)atomic_load_explicit(&writer->gpu_count, memory_order_relaxed);
		if (index < (int)CS_GPUS_MAX) {
			writer->gpus[index] = *gpu;
			publish_entry(&writer->gpu_count, writer->gpu_head);
		} else {
			refuse(writer, writer->gpu_head);
			index = -ENOSPC;
		}
	}
	unlock(writer);
	return index;
}

static void
copy_cut(char *field, size_t field_bytes, const char *text)
{
	size_t length = cut_length(text, field_bytes - 1);

	memset(field, 0, field_bytes);
	memcpy(field, text, length);
}

int
cs_segment_writer_environment(struct cs_segment_writer *writer, const char *name, const char *value)
{
	struct cs_environment entry;
	uint32_t index;
	int result = 0;

	if (!cs_segment_writer_usable(writer))
		return 0;
	copy_cut(entry.name, sizeof(entry.name), name);
	copy_cut(entry.value, sizeof(entry.value), value ? value : "");
	if (!lock_patiently(writer))
		return -EBUSY;
	index = atomic_load_explicit(&writer->environment_count, memory_order_relaxed);
	if (index < CS_ENVIRONMENT_MAX) {
		writer->environment[index] = entry;
		publish_entry(&writer->environment_count, writer->environment_head);
	} else {
		atomic_fetch_add_explicit(&writer->environment_head->refused, 1, memory_order_relaxed);
		result = -ENOSPC;
	}
	unlock(writer);
	return result;
}

/* -- texts of the process -------------------------------------------------------------------------------- */

#define LONGEST_TEXT_BYTES 256U

static const struct {
	uint16_t offset_bytes;
	uint16_t length_bytes;
} text_fields[CS_TEXT_COUNT] = {
#define FIELD(member)                                                                                        \
	{                                                                                                    \
		offsetof(struct cs_process, member), sizeof(((struct cs_process *)0)->member)                \
	}
	[CS_TEXT_COMM] = FIELD(comm),
	[CS_TEXT_COMMAND_LINE] = FIELD(command_line),
	[CS_TEXT_REASON] = FIELD(reason),
	[CS_TEXT_CUDA_DRIVER] = FIELD(cuda_driver),
	[CS_TEXT_CUPTI] = FIELD(cupti),
	[CS_TEXT_CUPTI_PATH] = FIELD(cupti_path),
	[CS_TEXT_NCCL] = FIELD(nccl),
	[CS_TEXT_DRIVER] = FIELD(driver),
	[CS_TEXT_POD] = FIELD(pod),
#undef FIELD
};

/* Replaces a stretch of PROCESS between two values of its sequence word. The words are stored whole, so that
 * a reader's copy is a race of atomics, decided by the sequence. Caller holds the lock. */
static void
store_process(struct cs_segment_writer *writer, size_t offset_bytes, const void *bytes, size_t length_bytes)
{
	_Atomic uint64_t *to = (_Atomic uint64_t *)(void *)((uint8_t *)writer->process + offset_bytes);
	_Atomic uint64_t *sequence = &writer->process->sequence;
	uint64_t before = atomic_load_explicit(sequence, memory_order_relaxed) & ~UINT64_C(1);
	const uint8_t *from = bytes;

	atomic_store_explicit(sequence, before + 1, memory_order_relaxed);
	cs_fence_fill();
	for (size_t i = 0; i < length_bytes / sizeof(uint64_t); i++) {
		uint64_t word;

		memcpy(&word, from + i * sizeof(word), sizeof(word));
		atomic_store_explicit(&to[i], word, memory_order_relaxed);
	}
	/* Pairs with the reader's first load of the sequence. */
	atomic_store_explicit(sequence, before + 2, memory_order_release);
}

void
cs_segment_writer_text(struct cs_segment_writer *writer, enum cs_process_text which, const char *text)
{
	char field[LONGEST_TEXT_BYTES];

	if (!cs_segment_writer_usable(writer) || (unsigned int)which >= CS_TEXT_COUNT)
		return;
	copy_cut(field, text_fields[which].length_bytes, text ? text : "");
	if (!lock_patiently(writer))
		return;
	store_process(writer, text_fields[which].offset_bytes, field, text_fields[which].length_bytes);
	unlock(writer);
}

void
cs_segment_writer_rank(struct cs_segment_writer *writer, int32_t rank, int32_t world)
{
	int32_t pair[2] = {rank, world};

	if (!cs_segment_writer_usable(writer) || !lock(writer))
		return;
	store_process(writer, offsetof(struct cs_process, rank), pair, sizeof(pair));
	unlock(writer);
}

_Static_assert(offsetof(struct cs_process, rank) % 8 == 0 &&
		       offsetof(struct cs_process, world) == offsetof(struct cs_process, rank) + 4,
	"rank and world are one word");
_Static_assert(offsetof(struct cs_process, comm) % 8 == 0, "texts begin at words");
