/* SPDX-License-Identifier: Apache-2.0 */
/* Records out of the ring. What records refer to is in segment_refresh.c. */
#include "segment_reader.h"

#include "barrier.h"
#include "bus_guard.h"
#include "clock.h"
#include "collective.h"
#include "segment_reader_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A reserved record that is still not there after this time, while later ones are, is given up: its thread
 * was stopped or cancelled inside an append. Far above any scheduling delay. */
#define STALL_NS (1 * CS_NS_PER_S)

static int
map_segment(struct cs_segment_reader *reader)
{
	const struct cs_segment_map *map = &reader->map;
	void *base = mmap(NULL, map->file_bytes, PROT_READ, MAP_SHARED, reader->fd, 0);

	if (base == MAP_FAILED)
		return -errno;
	reader->base = base;
	reader->status = cs_reader_section(reader, CS_SECTION_STATUS);
	reader->ring_head = cs_reader_section(reader, CS_SECTION_RING);
	reader->slots = (const void *)(reader->ring_head + 1);
	reader->ring_slots = map->capacity[CS_SECTION_RING];
	return 0;
}

static uint64_t
load_head(const struct cs_segment_reader *reader)
{
	return atomic_load_explicit(&reader->ring_head->head, memory_order_acquire);
}

static uint64_t
load_contended(const struct cs_segment_reader *reader)
{
	return atomic_load_explicit(&reader->status->lost[CS_LOSS_RING_CONTENDED], memory_order_relaxed);
}

/* Body of the guarded call. */
static int
find_start(void *context)
{
	struct cs_segment_reader *reader = context;
	uint64_t head = load_head(reader);

	reader->position = head;
	if (reader->from_oldest)
		reader->position = head > reader->ring_slots ? head - reader->ring_slots : 0;
	/* Drops of laps that are gone leave no gap that we could meet. */
	if (reader->position != 0) {
		reader->contended_seen = load_contended(reader);
		reader->gap_ahead = true;
	}
	return 0;
}

int
cs_segment_reader_open(
	const char *path, bool from_oldest, struct cs_segment_reader **reader, struct cs_error *error)
{
	struct cs_segment_reader *made = calloc(1, sizeof(*made));
	struct cs_segment_header header;
	int result = -ENOMEM;

	*reader = NULL;
	if (!made)
		return cs_error_set(error, -ENOMEM, "cannot open segment %s: out of memory", path);
	made->fd = -1;
	made->from_oldest = from_oldest;
	cs_dictionary_init(&made->dictionary);
	made->path = strdup(path);
	if (!made->path) {
		cs_error_set(error, result, "out of memory");
		goto fail;
	}
	result = cs_segment_open_checked(path, O_RDONLY, &header, &made->map, error);
	if (result < 0)
		goto fail;
	made->fd = result;
	result = map_segment(made);
	if (result < 0) {
		cs_error_set(error, result, "cannot map it: %s", strerror(-result));
		goto fail;
	}
	cs_reader_set_identity(made, &header);
	result = cs_bus_guard_call(made->base, made->map.file_bytes, find_start, made);
	if (result == 0)
		result = cs_segment_reader_refresh(made);
	if (result < 0) {
		cs_error_set(error, result, "%s",
			result == -EIO       ? "it shrank while it was read"
			: result == -EBADMSG ? "its tables contradict themselves"
					     : strerror(-result));
		goto fail;
	}
	*reader = made;
	return 0;

fail:
	cs_segment_reader_close(made);
	return cs_error_wrap(error, result, "cannot open segment %s", path);
}

void
cs_segment_reader_let_go(struct cs_segment_reader *reader)
{
	if (reader->base)
		munmap(reader->base, reader->map.file_bytes);
	if (reader->fd >= 0)
		close(reader->fd);
	reader->base = NULL;
	reader->ring_head = NULL;
	reader->slots = NULL;
	reader->status = NULL;
	reader->fd = -1;
}

void
cs_segment_reader_close(struct cs_segment_reader *reader)
{
	if (!reader)
		return;
	cs_segment_reader_let_go(reader);
	cs_dictionary_fini(&reader->dictionary);
	free(reader->path);
	free(reader);
}

/* -- ring ------------------------------------------------------------------------------------------------ */

/* A seqlock read. true: *record is record number `position`, whole. */
static inline bool
copy_slot(const struct cs_ring_slot *slot, uint64_t complete, struct cs_record *record)
{
	uint64_t words[sizeof(*record) / sizeof(uint64_t)];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		words[i] = atomic_load_explicit(&slot->words[i], memory_order_relaxed);
	cs_fence_check();
	if (atomic_load_explicit(&slot->sequence, memory_order_relaxed) != complete)
		return false;
	memcpy(record, words, sizeof(words));
	return true;
}

/* The record at position has been overwritten; so have all that are more than a lap behind `head`. */
static void
skip_overrun(struct cs_segment_reader *reader, uint64_t head)
{
	uint64_t ahead = head - reader->position;
	uint64_t skip = ahead > reader->ring_slots && ahead <= INT64_MAX ? ahead - reader->ring_slots : 1;

	reader->losses.overrun += skip;
	reader->position += skip;
	reader->gap_ahead = true;
}

static bool
writer_gone(struct cs_segment_reader *reader)
{
	if (!reader->writer_gone)
		reader->writer_gone = cs_segment_lock_held(reader->fd) == 0;
	return reader->writer_gone;
}

/* The record at position was reserved and is not there. Is it time to go on without it? */
static bool
stalled(struct cs_segment_reader *reader)
{
	uint64_t later = load_head(reader) - reader->position - 1;
	uint64_t now_ns;

	if (later >= reader->ring_slots / CS_READER_STALL_DIVISOR)
		return true;
	if (writer_gone(reader))
		return true;
	now_ns = cs_clock_monotonic_ns();
	if (reader->stall_position != reader->position || reader->stall_since_ns == 0) {
		reader->stall_position = reader->position;
		reader->stall_since_ns = now_ns;
		return false;
	}
	return later > 0 && now_ns - reader->stall_since_ns >= STALL_NS;
}

/* Records that the writer dropped itself (and counted) leave the same gap as those that were never finished;
 * as many gaps as it counted are not counted again. */
static void
skip_gap(struct cs_segment_reader *reader)
{
	if (load_contended(reader) > reader->contended_seen)
		reader->contended_seen++;
	else
		reader->losses.hole++;
	reader->position++;
	reader->gap_ahead = true;
}

struct ring_read {
	struct cs_segment_reader *reader;
	struct cs_record *records;
	size_t capacity;
	size_t count;
	uint64_t end; /* head when the call began: a bound on the work of one call */
};

/* Negative when `end` is behind position: a head that went back, which no writer does. */
static int64_t
unread(const struct ring_read *read)
{
	return (int64_t)(read->end - read->reader->position);
}

static void
note_taken(struct cs_segment_reader *reader)
{
	reader->gap |= reader->gap_ahead;
	reader->gap_ahead = false;
	reader->position++;
}

/* Body of the guarded call: complete records, in order, up to a gap or the first one that has to be waited
 * for. */
static int
copy_records(void *context)
{
	struct ring_read *read = context;
	struct cs_segment_reader *reader = read->reader;
	uint64_t mask = reader->ring_slots - 1;

	/* From here on `end` is at most a lap away, whatever the file says meanwhile: the loop is bounded. */
	if (unread(read) > (int64_t)reader->ring_slots)
		skip_overrun(reader, read->end);
	while (read->count < read->capacity && unread(read) > 0 && !(read->count > 0 && reader->gap_ahead)) {
		const struct cs_ring_slot *slot = &reader->slots[reader->position & mask];
		uint64_t complete = reader->position * 2 + 2;
		/* Pairs with the writer's release of the finished slot. */
		uint64_t sequence = atomic_load_explicit(&slot->sequence, memory_order_acquire);

		if (sequence == complete && copy_slot(slot, complete, &read->records[read->count])) {
			read->count++;
			note_taken(reader);
		} else if (sequence >= complete) {
			skip_overrun(reader, load_head(reader));
		} else if (!stalled(reader)) {
			break;
		} else if (atomic_load_explicit(&slot->sequence, memory_order_acquire) < complete) {
			/* Looked at once more: it may have been finished before its writer died. */
			skip_gap(reader);
		}
	}
	return 0;
}

static int
load_end(void *context)
{
	struct ring_read *read = context;

	read->end = load_head(read->reader);
	return 0;
}

int
cs_segment_reader_read(
	struct cs_segment_reader *reader, struct cs_record *records, size_t capacity, size_t *count)
{
	struct ring_read read = {.reader = reader, .records = records, .capacity = capacity};
	const uint64_t file_bytes = reader->map.file_bytes;
	int result;

	*count = 0;
	reader->gap = false;
	result = cs_bus_guard_call(reader->base, file_bytes, load_end, &read);
	while (result == 0 && *count == 0 && capacity != 0) {
		uint64_t before = reader->position;

		read.count = 0;
		result = cs_bus_guard_call(reader->base, file_bytes, copy_records, &read);
		if (result == 0)
			/* After the records: what they refer to was there before them. */
			result = cs_segment_reader_refresh(reader);
		if (result == 0)
			*count = cs_reader_keep_valid(reader, records, read.count);
		if (reader->position == before)
			break;
	}
	/* Nothing came after it yet that a caller saw. */
	if (*count == 0)
		reader->gap_ahead |= reader->gap;
	return result;
}

/* -- the rest -------------------------------------------------------------------------------------------- */

struct status_read {
	const struct cs_segment_reader *reader;
	struct cs_status *status;
};

static int
copy_status(void *context)
{
	struct status_read *read = context;
	const _Atomic uint64_t *from = (const _Atomic uint64_t *)(const void *)read->reader->status;
	_Atomic uint64_t *to = (_Atomic uint64_t *)(void *)read->status;

	for (size_t i = 0; i < sizeof(struct cs_status) / sizeof(uint64_t); i++)
		atomic_store_explicit(
			&to[i], atomic_load_explicit(&from[i], memory_order_acquire), memory_order_relaxed);
	return 0;
}

int
cs_segment_reader_status(struct cs_segment_reader *reader, struct cs_status *status)
{
	struct status_read read = {.reader = reader, .status = status};

	return cs_bus_guard_call(reader->base, reader->map.file_bytes, copy_status, &read);
}

void
cs_segment_reader_losses(const struct cs_segment_reader *reader, struct cs_reader_losses *losses)
{
	*losses = reader->losses;
}

bool
cs_segment_reader_gap(const struct cs_segment_reader *reader)
{
	return reader->gap;
}

bool
cs_segment_reader_gap_ahead(const struct cs_segment_reader *reader)
{
	return reader->gap_ahead;
}

void
cs_segment_reader_trim(struct cs_segment_reader *reader)
{
	madvise(reader->base, reader->map.file_bytes, MADV_DONTNEED);
}

const struct cs_dictionary *
cs_segment_reader_borrow_dictionary(const struct cs_segment_reader *reader)
{
	return &reader->dictionary;
}

const char *
cs_segment_reader_path(const struct cs_segment_reader *reader)
{
	return reader->path;
}

int
cs_segment_reader_writer_alive(const struct cs_segment_reader *reader)
{
	return cs_segment_lock_held(reader->fd);
}
