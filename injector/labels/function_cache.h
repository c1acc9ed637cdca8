/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel handle (CUfunction, or the CUkernel that the runtime launches under that name) is: an
 * ordinary kernel, or a collective with its catalogue row and parameter layout. Asked at every launch, so the
 * answer for an ordinary kernel is one cache line; the rest is worked out once per handle.
 *
 * It is a cache: a full bucket forgets somebody, who is worked out again at his next launch. Handles are
 * reused after a module was unloaded; cs_function_cache_flush makes every entry prove its name again.
 *
 * Thread context: any thread, all functions at once; host-safe. The driver's parameter queries run on the
 * calling thread, inside the launch callback (measured on CUDA 13.0: allowed; they read the module's tables
 * only).
 */
#ifndef CS_FUNCTION_CACHE_H
#define CS_FUNCTION_CACHE_H

#include "catalog/catalog.h"
#include "cupti/cupti_api.h"
#include "pair.h"
#include "segment/segment_writer.h"

#define CS_FUNCTION_CACHE_SLOTS   8192U
#define CS_FUNCTION_CACHE_WAYS    4U   /* one cache line */
#define CS_FUNCTIONS_MAX          256U /* collective kernels, of all modules ever loaded */
#define CS_FUNCTION_PARAMETER_MAX 64U

/* A collective kernel; never changes once handed out. */
struct cs_function {
	struct cs_catalog_match match;
	uint32_t name_id;     /* 0: the segment had no room */
	uint32_t name_hash;   /* cs_name_hash */
	uint32_t param_count; /* 0: layout unknown */
	uint32_t param_offsets[CS_FUNCTION_PARAMETER_MAX];
	uint32_t param_bytes[CS_FUNCTION_PARAMETER_MAX];
};

static inline bool
cs_function_is_nccl(const struct cs_function *function)
{
	return function->match.impl == CS_IMPL_NCCL || function->match.impl == CS_IMPL_NCCL_SYMMETRIC;
}

struct cs_function_entry {
	_Atomic bool ready;
	struct cs_function function;
};

struct cs_function_cache {
	const struct cs_cupti_api *cupti;
	const struct cs_catalog *catalog;
	struct cs_segment_writer *writer;
	_Atomic uint32_t generation;
	_Atomic uint32_t function_count; /* taken; may run past CS_FUNCTIONS_MAX */
	_Alignas(64) struct cs_pair slots[CS_FUNCTION_CACHE_SLOTS];
	struct cs_function_entry functions[CS_FUNCTIONS_MAX];
};

/* Value of a slot: bits 0-1 enum cs_catalog_kind, 2-11 index of the function, 12-31 generation, 32-63 hash of
 * the name. */
#define CS_FUNCTION_KIND(value)       ((unsigned int)(value)&3U)
#define CS_FUNCTION_GENERATION(value) ((uint32_t)(value) >> 12)
#define CS_FUNCTION_GENERATION_MASK   0xfffffU

/* The memory must be zero. Borrows all three pointers. */
void cs_function_cache_init(struct cs_function_cache *cache, const struct cs_cupti_api *cupti,
	const struct cs_catalog *catalog, struct cs_segment_writer *writer);

/* true: known, and no collective. false: ask cs_function_cache_get. */
static inline bool
cs_function_cache_ordinary(const struct cs_function_cache *cache, const void *handle)
{
	uint64_t key = (uint64_t)(uintptr_t)handle;
	size_t start = (size_t)(cs_pair_hash(key) & (CS_FUNCTION_CACHE_SLOTS / CS_FUNCTION_CACHE_WAYS - 1)) *
		       CS_FUNCTION_CACHE_WAYS;
	uint32_t generation = atomic_load_explicit(&cache->generation, memory_order_relaxed);
	uint64_t value;

	for (unsigned int i = 0; i < CS_FUNCTION_CACHE_WAYS; i++)
		if (cs_pair_read(&cache->slots[start + i], key, &value))
			return CS_FUNCTION_KIND(value) != CS_CATALOG_COLLECTIVE &&
			       CS_FUNCTION_GENERATION(value) == (generation & CS_FUNCTION_GENERATION_MASK);
	return false;
}

/*
 * The collective that this handle is; NULL: an ordinary kernel, a marker, or no kernel that has a name.
 * `name`: as CUPTI gives it, NULL when it does not (the driver is asked then, where it can tell). `scratch`
 * is what the answer points to when there was no room to keep it.
 */
const struct cs_function *cs_function_cache_get(
	struct cs_function_cache *cache, const void *handle, const char *name, struct cs_function *scratch);

/* The segment's name id of a collective kernel by its name's hash; 0: not known. Looks at all of them. */
uint32_t cs_function_cache_name_id(const struct cs_function_cache *cache, uint32_t name_hash);

/* A module goes away. */
void cs_function_cache_flush(struct cs_function_cache *cache);

#endif
