/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of the reading side share: segment_reader.c (records) and segment_refresh.c (the
 * dictionary, and the check of records against it). */
#ifndef CS_SEGMENT_READER_PRIVATE_H
#define CS_SEGMENT_READER_PRIVATE_H

#include "segment_check.h"
#include "segment_reader.h"

/* A reserved record is waited for until a quarter of the ring has been reserved after it: later records are
 * then still there to be read at leisure. */
#define CS_READER_STALL_DIVISOR 4U

struct cs_segment_reader {
	/* The ring. Pointers into the mapping; what they point to is checked at each use. */
	const struct cs_ring_head *ring_head;
	const struct cs_ring_slot *slots;
	const struct cs_status *status;
	uint64_t ring_slots;
	uint64_t position; /* number of the next record to read */
	struct cs_reader_losses losses;
	uint64_t contended_seen; /* drops that the writer counted and that explain a gap or are of the past */
	uint64_t stall_position; /* the record that is being waited for, and since when */
	uint64_t stall_since_ns; /* CLOCK_MONOTONIC */
	bool writer_gone;
	bool gap_ahead; /* records before `position` were passed over since the last one that was handed out
			 */
	bool gap;       /* the same of the first record of the last read */

	struct cs_dictionary dictionary;
	uint64_t process_sequence; /* of the texts in the dictionary */

	bool from_oldest;
	int fd;
	uint8_t *base;
	struct cs_segment_map map;
	char *path;
};

static inline const void *
cs_reader_section(const struct cs_segment_reader *reader, enum cs_section_type type)
{
	return reader->base + reader->map.offset_bytes[type];
}

/* Fills the constant part of dictionary.process. */
void cs_reader_set_identity(struct cs_segment_reader *reader, const struct cs_segment_header *header);

/* Moves the records that a writer of this format writes to the front; counts the rest as invalid. Returns how
 * many. */
size_t cs_reader_keep_valid(struct cs_segment_reader *reader, struct cs_record *records, size_t count);

#endif
