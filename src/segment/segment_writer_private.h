/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the three files of the writing side share: segment_create.c (life of the file), segment_writer.c
 * (records), segment_tables.c (interning and texts).
 *
 * The writer is private memory of the process (a fork child has its own copy). Everything that is used as an
 * index, offset or count when writing lives here, never in the mapping: whoever else can write the file must
 * not be able to steer the host's stores.
 */
#ifndef CS_SEGMENT_WRITER_PRIVATE_H
#define CS_SEGMENT_WRITER_PRIVATE_H

#include "segment_layout.h"
#include "segment_writer.h"

#include <sys/types.h>

#define CS_CACHE_LINE_BYTES 64

/* Hash tables at most half full. */
#define CS_NAME_INDEX_SLOTS  (2U * CS_NAMES_MAX)
#define CS_LABEL_INDEX_SLOTS (2U * CS_LABELS_MAX)
#define CS_COMM_INDEX_SLOTS  (2U * CS_COMMUNICATORS_MAX)

/* Where a name lies in TEXT, as the writer remembers it. */
struct cs_name_place {
	uint32_t offset_bytes;
	uint32_t length_bytes;
};

struct cs_communicator_identity {
	uint64_t hash;
	int32_t rank;
	uint32_t unused;
};

struct cs_segment_writer {
	/* Used by every append; one cache line, constant after creation but for `abandoned`. */
	_Alignas(CS_CACHE_LINE_BYTES) struct cs_ring_head *ring_head;
	struct cs_ring_slot *slots;
	struct cs_status *status;
	uint64_t ring_mask;
	_Atomic bool abandoned;

	/* Cold, constant after creation. */
	_Alignas(CS_CACHE_LINE_BYTES) uint8_t *base;
	uint64_t file_bytes;
	int lock_fd; /* -1: the mapping holds the lock (segment_create.c, settle_lock) */
	dev_t lock_device;
	ino_t lock_inode;
	struct cs_segment_header *header;
	struct cs_control *control;
	struct cs_process *process;
	struct cs_table_head *gpu_head, *communicator_head, *name_head, *text_head, *label_head,
		*environment_head;
	struct cs_gpu *gpus;
	struct cs_communicator *communicators;
	struct cs_name *names;
	char *text;
	struct cs_label *labels;
	struct cs_environment *environment;

	/* Insertion. The counts are read without the lock, and only grow. */
	_Alignas(CS_CACHE_LINE_BYTES) _Atomic uint32_t lock;
	_Atomic uint32_t lock_failures;
	_Atomic uint32_t gpu_count, communicator_count, name_count, label_count, environment_count;
	uint32_t text_bytes;

	/* id in the low 16 bits, the hash's top 16 above; 0 is free (ids in an index are >= 1). */
	_Atomic uint32_t name_index[CS_NAME_INDEX_SLOTS];
	_Atomic uint32_t label_index[CS_LABEL_INDEX_SLOTS];
	_Atomic uint32_t communicator_index[CS_COMM_INDEX_SLOTS];
	struct cs_name_place name_places[CS_NAMES_MAX];
	struct cs_communicator_identity communicator_identities[CS_COMMUNICATORS_MAX];

	char path[CS_SEGMENT_PATH_BYTES];
};

_Static_assert(CS_NAMES_MAX <= UINT16_MAX && CS_LABELS_MAX <= UINT16_MAX, "an id fits in an index word");

static inline bool
cs_segment_writer_usable(const struct cs_segment_writer *writer)
{
	return writer && !atomic_load_explicit(&writer->abandoned, memory_order_relaxed);
}

#endif
