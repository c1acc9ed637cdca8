/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that is checked before a segment is mapped: docs/segment-format.md, "What a reader checks".
 * Works on a private copy of the header, which nobody can change between check and use.
 */
#ifndef CS_SEGMENT_CHECK_H
#define CS_SEGMENT_CHECK_H

#include "error.h"
#include "segment_layout.h"

/* Where the sections of a checked segment are; by enum cs_section_type. */
struct cs_segment_map {
	uint64_t file_bytes;
	uint64_t offset_bytes[CS_SECTION_TYPE_COUNT];
	uint64_t capacity[CS_SECTION_TYPE_COUNT];
};

/* Largest file that a reader maps. The largest that this version writes is 68 MiB; the rest is for sections
 * that later minors may add. */
#define CS_SEGMENT_FILE_BYTES_MAX (UINT64_C(1) << 30)

/*
 * Opens `path` with `open_flags` (O_RDONLY or O_RDWR) as a segment that may be mapped: no symbolic link,
 * regular file, header as it should be. Returns the descriptor, or the errors of cs_segment_reader_open.
 */
int cs_segment_open_checked(const char *path, int open_flags, struct cs_segment_header *header,
	struct cs_segment_map *map, struct cs_error *error);

/* The check alone. file_bytes: of the file as it is. 0, -EAGAIN, -EPROTO, -EBADMSG. */
int cs_segment_check(const struct cs_segment_header *header, uint64_t file_bytes, struct cs_segment_map *map,
	struct cs_error *error);

/* 1: the writer of this open segment holds its lock; 0: it is gone; negative errno: cannot tell. */
int cs_segment_lock_held(int fd);

#endif
