/* SPDX-License-Identifier: Apache-2.0 */
#include "function_cache.h"

#include <string.h>

#define PUT_TRIES 8U

_Static_assert(CS_FUNCTIONS_MAX <= 1024, "an index has ten bits");

void
cs_function_cache_init(struct cs_function_cache *cache, const struct cs_cupti_api *cupti,
	const struct cs_catalog *catalog, struct cs_segment_writer *writer)
{
	cache->cupti = cupti;
	cache->catalog = catalog;
	cache->writer = writer;
}

uint32_t
cs_function_cache_name_id(const struct cs_function_cache *cache, uint32_t name_hash)
{
	uint32_t count = atomic_load_explicit(&cache->function_count, memory_order_relaxed);

	for (uint32_t i = 0; i < count && i < CS_FUNCTIONS_MAX; i++) {
		const struct cs_function_entry *entry = &cache->functions[i];

		if (atomic_load_explicit(&entry->ready, memory_order_acquire) &&
			entry->function.name_hash == name_hash)
			return entry->function.name_id;
	}
	return 0;
}

void
cs_function_cache_flush(struct cs_function_cache *cache)
{
	atomic_fetch_add_explicit(&cache->generation, 1, memory_order_relaxed);
}

static struct cs_pair *
bucket_of(struct cs_function_cache *cache, uint64_t key)
{
	uint64_t bucket = cs_pair_hash(key) & (CS_FUNCTION_CACHE_SLOTS / CS_FUNCTION_CACHE_WAYS - 1);

	return &cache->slots[(size_t)bucket * CS_FUNCTION_CACHE_WAYS];
}

static bool
find(struct cs_function_cache *cache, uint64_t key, uint64_t *value)
{
	const struct cs_pair *bucket = bucket_of(cache, key);

	for (unsigned int i = 0; i < CS_FUNCTION_CACHE_WAYS; i++)
		if (cs_pair_read(&bucket[i], key, value))
			return true;
	return false;
}

/* The key's own slot, else a free one, else one of an older generation, else any. */
static void
put(struct cs_function_cache *cache, uint64_t key, uint64_t value)
{
	struct cs_pair *bucket = bucket_of(cache, key);

	for (unsigned int attempt = 0; attempt < PUT_TRIES; attempt++) {
		unsigned int best = 0, best_rank = 0;
		uint64_t best_key = CS_PAIR_BUSY;

		for (unsigned int i = 0; i < CS_FUNCTION_CACHE_WAYS; i++) {
			uint64_t held = atomic_load_explicit(&bucket[i].key, memory_order_relaxed);
			uint64_t old = atomic_load_explicit(&bucket[i].value, memory_order_relaxed);
			unsigned int rank = 1 + ((value >> 32 & 3) == i);

			if (held == CS_PAIR_BUSY)
				continue;
			if (held == key)
				rank = 5;
			else if (held == CS_PAIR_FREE)
				rank = 4;
			else if (CS_FUNCTION_GENERATION(old) != CS_FUNCTION_GENERATION(value))
				rank = 3;
			if (rank > best_rank) {
				best = i;
				best_rank = rank;
				best_key = held;
			}
		}
		if (best_rank > 0 && cs_pair_claim(&bucket[best], best_key)) {
			cs_pair_publish(&bucket[best], key, value);
			return;
		}
	}
}

/* -- working a handle out ------------------------------------------------------------------------------ */

/* CUDA's runtime launches CUkernel handles as CUfunction. Each query refuses the other's handles with
 * CUDA_ERROR_INVALID_HANDLE, and says CUDA_ERROR_INVALID_VALUE past the last parameter. */
static CUresult
query_parameter(const struct cs_cupti_api *cupti, const void *handle, bool kernel, size_t index,
	size_t *offset, size_t *bytes)
{
	if (kernel)
		return cupti->kernel_get_parameter ? cupti->kernel_get_parameter((CUkernel)(uintptr_t)handle,
							     index, offset, bytes)
						   : CUDA_ERROR_NOT_SUPPORTED;
	return cupti->function_get_parameter
		       ? cupti->function_get_parameter((CUfunction)(uintptr_t)handle, index, offset, bytes)
		       : CUDA_ERROR_NOT_SUPPORTED;
}

static void
query_layout(const struct cs_cupti_api *cupti, const void *handle, struct cs_function *function)
{
	size_t offset = 0, bytes = 0;
	bool kernel = false;
	CUresult result = query_parameter(cupti, handle, kernel, 0, &offset, &bytes);
	uint32_t count = 0;

	function->param_count = 0;
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE) {
		kernel = true;
		result = query_parameter(cupti, handle, kernel, 0, &offset, &bytes);
	}
	while (result == CUDA_SUCCESS && count < CS_FUNCTION_PARAMETER_MAX) {
		if (offset > UINT32_MAX || bytes > UINT32_MAX)
			return;
		function->param_offsets[count] = (uint32_t)offset;
		function->param_bytes[count] = (uint32_t)bytes;
		count++;
		result = query_parameter(cupti, handle, kernel, count, &offset, &bytes);
	}
	if (result == CUDA_ERROR_INVALID_VALUE)
		function->param_count = count;
}

static const char *
query_name(const struct cs_cupti_api *cupti, const void *handle)
{
	const char *name = NULL;

	if (cupti->function_get_name &&
		cupti->function_get_name(&name, (CUfunction)(uintptr_t)handle) == CUDA_SUCCESS && name)
		return name;
	name = NULL;
	if (cupti->kernel_get_name &&
		cupti->kernel_get_name(&name, (CUkernel)(uintptr_t)handle) == CUDA_SUCCESS && name)
		return name;
	return NULL;
}

static bool
same_function(const struct cs_function *left, const struct cs_function *right)
{
	size_t bytes = (size_t)left->param_count * sizeof(uint32_t);

	return left->name_hash == right->name_hash && left->name_id == right->name_id &&
	       left->param_count == right->param_count && left->match.rule == right->match.rule &&
	       left->name_id != 0 && memcmp(left->param_offsets, right->param_offsets, bytes) == 0 &&
	       memcmp(left->param_bytes, right->param_bytes, bytes) == 0;
}

/* Keeps a function; the same one again (its module was loaded again) is not kept twice. CS_FUNCTIONS_MAX: no
 * room. An index is handed out before its entry is filled, so only entries that the caller's slot leads to
 * are read by others; here a half-filled one could be compared, hence `ready`. */
static uint32_t
keep(struct cs_function_cache *cache, const struct cs_function *function)
{
	uint32_t count = atomic_load_explicit(&cache->function_count, memory_order_acquire);
	uint32_t index;

	for (index = 0; index < count && index < CS_FUNCTIONS_MAX; index++)
		if (atomic_load_explicit(&cache->functions[index].ready, memory_order_acquire) &&
			same_function(&cache->functions[index].function, function))
			return index;
	if (count >= CS_FUNCTIONS_MAX)
		return CS_FUNCTIONS_MAX;
	index = atomic_fetch_add_explicit(&cache->function_count, 1, memory_order_acq_rel);
	if (index >= CS_FUNCTIONS_MAX)
		return CS_FUNCTIONS_MAX;
	cache->functions[index].function = *function;
	atomic_store_explicit(&cache->functions[index].ready, true, memory_order_release);
	return index;
}

const struct cs_function *
cs_function_cache_get(
	struct cs_function_cache *cache, const void *handle, const char *name, struct cs_function *scratch)
{
	uint64_t key = (uint64_t)(uintptr_t)handle;
	/* Before the work: an unload in between makes the answer old at once. */
	uint32_t generation =
		atomic_load_explicit(&cache->generation, memory_order_relaxed) & CS_FUNCTION_GENERATION_MASK;
	uint64_t value = 0;
	bool known = find(cache, key, &value);
	uint32_t hash, index = 0;
	bool again;

	if (key == CS_PAIR_FREE || key == CS_PAIR_BUSY)
		return NULL;
	if (known && CS_FUNCTION_GENERATION(value) == generation)
		goto answer;
	if (!name)
		name = query_name(cache->cupti, handle);
	if (!name)
		return NULL;
	hash = cs_name_hash(name);
	/* An ordinary kernel that still has its name; a collective's layout may be another build's. */
	if (!known || CS_FUNCTION_KIND(value) == CS_CATALOG_COLLECTIVE || value >> 32 != hash) {
		cs_catalog_classify(cache->catalog, name, &scratch->match);
		value = scratch->match.kind;
	}
	if (CS_FUNCTION_KIND(value) == CS_CATALOG_COLLECTIVE) {
		scratch->name_id = cs_segment_writer_name_or_again(cache->writer, name, &again);
		scratch->name_hash = hash;
		query_layout(cache->cupti, handle, scratch);
		if (!again)
			index = keep(cache, scratch);
		if (again || index == CS_FUNCTIONS_MAX)
			return scratch;
	}
	value = CS_FUNCTION_KIND(value) | (uint64_t)index << 2 | (uint64_t)generation << 12 |
		(uint64_t)hash << 32;
	put(cache, key, value);
answer:
	if (CS_FUNCTION_KIND(value) != CS_CATALOG_COLLECTIVE)
		return NULL;
	return &cache->functions[value >> 2 & 0x3ff].function;
}
