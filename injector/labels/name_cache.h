/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel name in an activity record is, by the address of the name: CUPTI keeps one string per kernel.
 * A hit is one cache line and a comparison of the name's first bytes; the address may be another kernel's
 * after a module was unloaded, so after an unload every entry proves its whole name again.
 *
 * A name has two buckets of four slots and goes into the emptier one; when both are full, somebody is
 * forgotten. Thread context: one caller at a time (the activity parser).
 */
#ifndef CS_NAME_CACHE_H
#define CS_NAME_CACHE_H

#include "catalog/catalog.h"
#include "segment/segment_writer.h"

#define CS_NAME_CACHE_SLOTS  4096U
#define CS_NAME_CACHE_WAYS   4U
#define CS_NAME_PREFIX_BYTES 40U

struct cs_kernel_name {
	const char *address; /* NULL: free */
	uint32_t generation;
	uint32_t hash;     /* of the whole name */
	uint16_t name_id;  /* COLLECTIVE and MARKER */
	uint16_t label_id; /* COLLECTIVE: by name only */
	uint8_t kind;      /* enum cs_catalog_kind */
	uint8_t record_flags;
	bool has_size_rule;
	bool nccl : 1;
	bool unfinished : 1;               /* the segment was busy: worked out again at the next look */
	char prefix[CS_NAME_PREFIX_BYTES]; /* NUL-padded, not terminated */
};

struct cs_name_cache {
	const struct cs_catalog *catalog;
	struct cs_segment_writer *writer;
	uint32_t next_victim;
	_Alignas(64) struct cs_kernel_name slots[CS_NAME_CACHE_SLOTS];
};

/* The memory must be zero. */
void cs_name_cache_init(
	struct cs_name_cache *cache, const struct cs_catalog *catalog, struct cs_segment_writer *writer);

/* Never NULL; valid until the next call. generation: counts module unloads. */
const struct cs_kernel_name *cs_name_cache_get(
	struct cs_name_cache *cache, const char *name, uint32_t generation);

#endif
