/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the segment tests share: a run directory per test, records that prove themselves whole, and the raw
 * file for tests that damage it.
 */
#ifndef CS_SEGMENT_FIXTURE_H
#define CS_SEGMENT_FIXTURE_H

#include "segment/segment.h"
#include "segment/segment_reader.h"
#include "segment/segment_writer.h"

#include <stdbool.h>

#define FIXTURE_PATH_BYTES 256

struct fixture {
	char directory[FIXTURE_PATH_BYTES];
};

/* cmocka set-up and teardown of one test: *state is a struct fixture; the directory goes with its files. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* A writer in the fixture's directory; fails the test when there is none. */
struct cs_segment_writer *fixture_writer(const struct fixture *fixture, uint32_t ring_slots);
struct cs_segment_reader *fixture_reader(const char *path, bool from_oldest);
/* The only segment of the directory. */
void fixture_only_path(const struct fixture *fixture, char *path, size_t path_bytes);
unsigned int fixture_files(const struct fixture *fixture);

/* MARK record whose every field follows from `serial` (below 2^60). */
struct cs_record fixture_record(uint64_t serial);
/* Is it, bit by bit, one that fixture_record made? Its serial is start_ns. */
bool fixture_intact(const struct cs_record *record);

/* The file itself, writable. */
struct fixture_raw {
	uint8_t *base;
	size_t length_bytes;
	struct cs_segment_header *header;
};
void fixture_map(const char *path, struct fixture_raw *raw);
void fixture_unmap(struct fixture_raw *raw);
void *fixture_section(const struct fixture_raw *raw, enum cs_section_type type);
struct cs_ring_slot *fixture_slot(const struct fixture_raw *raw, uint64_t number);

/* How a child ended: exit status of waitpid, -1 when a signal ended it. */
int fixture_wait(int pid);

#endif
