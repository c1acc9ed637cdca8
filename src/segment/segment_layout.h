/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shape of each section: the one table behind the writer that lays a segment out and the reader that
 * checks it (docs/segment-format.md, "Sections").
 */
#ifndef CS_SEGMENT_LAYOUT_H
#define CS_SEGMENT_LAYOUT_H

#include "segment.h"

/* Fewest and most slots of a ring. The least keeps a lap longer than any preempted writer's neighbours can
 * fill in one buffer; the most is a 64 MiB file. */
#define CS_RING_SLOTS_MIN 1024U
#define CS_RING_SLOTS_MAX 1048576U

struct cs_section_rule {
	uint32_t head_bytes;   /* cs_table_head or cs_ring_head; 0 for CONTROL, STATUS, PROCESS */
	uint32_t stride_bytes; /* of one entry; 0 for CONTROL, STATUS, PROCESS */
	uint32_t body_bytes;   /* of the struct when the section is one struct, else 0 */
	uint64_t capacity_min; /* entries */
	uint64_t capacity_max;
};

/* The rule of a section type; NULL for CS_SECTION_NONE and types that this build does not know. */
const struct cs_section_rule *cs_section_rule(uint32_t type);

/* Bytes that a section with so many entries needs, rounded up to whole pages. capacity must be within the
 * rule. */
uint64_t cs_section_length_bytes(const struct cs_section_rule *rule, uint64_t capacity);

#endif
