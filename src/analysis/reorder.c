/* SPDX-License-Identifier: Apache-2.0 */
#include "reorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Power of two. Twice the horizon, so a bucket is 1 ms for the 2 s that the injector needs. */
#define BUCKETS 4096U
/* With its head a chunk is 688 bytes. A decode server puts some ten records of a rank into one bucket: of 8,
 * 12, 16 and 30, 12 held the exporter's memory lowest (33 MiB at eight ranks, 30 took 49) at the same speed
 * (bench/bench_exporter). */
#define CHUNK_RECORDS 12U
/* Chunks kept for reuse; what is beyond goes back to the heap. */
#define SPARE_MAX 1280U
/* Insertion sort gives up after this many moves per record: the input is not nearly sorted. */
#define MOVES_PER_RECORD 8U

struct cs_reorder_chunk {
	struct cs_reorder_chunk *next;
	size_t count;
	struct cs_record records[CHUNK_RECORDS];
};

struct cs_reorder_key {
	uint64_t start_ns;
	uint64_t index;
};

int
cs_reorder_init(struct cs_reorder *reorder, uint64_t horizon_ns)
{
	memset(reorder, 0, sizeof(*reorder));
	reorder->width_ns = horizon_ns / (BUCKETS / 2) + 1;
	reorder->buckets = calloc(BUCKETS, sizeof(*reorder->buckets));
	return reorder->buckets ? 0 : -ENOMEM;
}

static void
free_chunks(struct cs_reorder_chunk *chunk)
{
	while (chunk) {
		struct cs_reorder_chunk *next = chunk->next;

		free(chunk);
		chunk = next;
	}
}

void
cs_reorder_fini(struct cs_reorder *reorder)
{
	if (reorder->buckets) {
		for (size_t i = 0; i < BUCKETS; i++)
			free_chunks(reorder->buckets[i].first);
	}
	free_chunks(reorder->spare);
	free(reorder->buckets);
	free(reorder->scratch);
	free(reorder->keys);
	memset(reorder, 0, sizeof(*reorder));
}

static struct cs_reorder_chunk *
take_chunk(struct cs_reorder *reorder)
{
	struct cs_reorder_chunk *chunk = reorder->spare;

	if (chunk) {
		reorder->spare = chunk->next;
		reorder->spare_count--;
	} else {
		chunk = malloc(sizeof(*chunk));
		if (!chunk)
			return NULL;
	}
	chunk->next = NULL;
	chunk->count = 0;
	return chunk;
}

static void
give_chunk(struct cs_reorder *reorder, struct cs_reorder_chunk *chunk)
{
	if (reorder->spare_count >= SPARE_MAX) {
		free(chunk);
		return;
	}
	chunk->next = reorder->spare;
	reorder->spare = chunk;
	reorder->spare_count++;
}

int
cs_reorder_add(struct cs_reorder *reorder, const struct cs_record *record)
{
	uint64_t number = record->start_ns / reorder->width_ns;
	struct cs_reorder_bucket *bucket;

	if (!reorder->started) {
		/* Half the calendar before the first record: what is older may still come. */
		reorder->base = number > BUCKETS / 2 ? number - BUCKETS / 2 : 0;
		reorder->frontier_ns = reorder->base * reorder->width_ns;
		reorder->started = true;
	}
	if (number < reorder->base)
		return -ESTALE;
	if (number - reorder->base >= BUCKETS)
		return -EOVERFLOW;
	bucket = &reorder->buckets[number & (BUCKETS - 1)];
	if (!bucket->last || bucket->last->count == CHUNK_RECORDS) {
		struct cs_reorder_chunk *chunk = take_chunk(reorder);

		if (!chunk)
			return -ENOMEM;
		if (bucket->last)
			bucket->last->next = chunk;
		else
			bucket->first = chunk;
		bucket->last = chunk;
	}
	bucket->last->records[bucket->last->count++] = *record;
	reorder->pending++;
	return 0;
}

/* Total order, so that the result does not depend on the order of arrival. */
static int
compare_records(const struct cs_record *a, const struct cs_record *b)
{
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns ? -1 : 1;
	if (a->end_ns != b->end_ns)
		return a->end_ns < b->end_ns ? -1 : 1;
	return memcmp(a, b, sizeof(*a));
}

static bool
before(const struct cs_record *records, const struct cs_reorder_key *a, const struct cs_reorder_key *b)
{
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns;
	return compare_records(&records[a->index], &records[b->index]) < 0;
}

/* false: too many moves; the keys are still a permutation, partly sorted. */
static bool
sort_by_insertion(const struct cs_record *records, struct cs_reorder_key *keys, size_t count)
{
	size_t budget = count * MOVES_PER_RECORD;

	for (size_t i = 1; i < count; i++) {
		struct cs_reorder_key key = keys[i];
		size_t j = i;

		while (j > 0 && before(records, &key, &keys[j - 1])) {
			keys[j] = keys[j - 1];
			j--;
		}
		keys[j] = key;
		if (i - j > budget)
			return false;
		budget -= i - j;
	}
	return true;
}

static void
sort_by_merging(const struct cs_record *records, struct cs_reorder_key *keys, struct cs_reorder_key *other,
	size_t count)
{
	struct cs_reorder_key *from = keys;
	struct cs_reorder_key *to = other;

	for (size_t width = 1; width < count; width *= 2) {
		for (size_t left = 0; left < count; left += 2 * width) {
			size_t middle = left + width < count ? left + width : count;
			size_t right = left + 2 * width < count ? left + 2 * width : count;
			size_t a = left;
			size_t b = middle;

			for (size_t k = left; k < right; k++) {
				if (a < middle && (b >= right || !before(records, &from[b], &from[a])))
					to[k] = from[a++];
				else
					to[k] = from[b++];
			}
		}
		struct cs_reorder_key *swap = from;
		from = to;
		to = swap;
	}
	if (from != keys)
		memcpy(keys, from, count * sizeof(*keys));
}

/* Room for the bucket itself and its sorted copy, keys and their merge copy. */
static int
reserve_scratch(struct cs_reorder *reorder, size_t count)
{
	size_t capacity = reorder->scratch_capacity ? reorder->scratch_capacity : 256;
	struct cs_record *scratch;
	struct cs_reorder_key *keys;

	if (count <= reorder->scratch_capacity)
		return 0;
	while (capacity < count)
		capacity *= 2;
	scratch = malloc(2 * capacity * sizeof(*scratch));
	keys = malloc(2 * capacity * sizeof(*keys));
	if (!scratch || !keys) {
		free(scratch);
		free(keys);
		return -ENOMEM;
	}
	free(reorder->scratch);
	free(reorder->keys);
	reorder->scratch = scratch;
	reorder->keys = keys;
	reorder->scratch_capacity = capacity;
	return 0;
}

/* Copies the bucket's chunks to scratch; true when they are in order already. */
static bool
gather(struct cs_reorder *reorder, struct cs_reorder_bucket *bucket)
{
	struct cs_record *to = reorder->scratch;
	bool sorted = true;

	while (bucket->first) {
		struct cs_reorder_chunk *chunk = bucket->first;

		for (size_t i = 0; i < chunk->count; i++) {
			*to = chunk->records[i];
			if (to > reorder->scratch && compare_records(to, to - 1) < 0)
				sorted = false;
			to++;
		}
		bucket->first = chunk->next;
		give_chunk(reorder, chunk);
	}
	bucket->last = NULL;
	return sorted;
}

static const struct cs_record *
sort_scratch(struct cs_reorder *reorder, size_t count)
{
	struct cs_record *sorted = reorder->scratch + reorder->scratch_capacity;
	struct cs_reorder_key *keys = reorder->keys;

	for (size_t i = 0; i < count; i++)
		keys[i] = (struct cs_reorder_key){reorder->scratch[i].start_ns, i};
	if (!sort_by_insertion(reorder->scratch, keys, count))
		sort_by_merging(reorder->scratch, keys, keys + reorder->scratch_capacity, count);
	for (size_t i = 0; i < count; i++)
		sorted[i] = reorder->scratch[keys[i].index];
	return sorted;
}

static size_t
bucket_count(const struct cs_reorder_bucket *bucket)
{
	size_t count = 0;

	for (const struct cs_reorder_chunk *chunk = bucket->first; chunk; chunk = chunk->next)
		count += chunk->count;
	return count;
}

/* Moves over empty buckets; false when `limit` is reached before a filled one. */
static bool
find_filled(struct cs_reorder *reorder, uint64_t limit)
{
	if (reorder->pending == 0) {
		if (limit > reorder->base)
			reorder->base = limit;
		return false;
	}
	while (reorder->base < limit) {
		if (reorder->buckets[reorder->base & (BUCKETS - 1)].first)
			return true;
		reorder->base++;
	}
	return false;
}

int
cs_reorder_release(
	struct cs_reorder *reorder, uint64_t until_ns, const struct cs_record **records, size_t *count)
{
	/* At the end of time everything leaves, but the frontier stays where records can still be told late.
	 */
	uint64_t limit = until_ns == UINT64_MAX ? reorder->base + (reorder->pending ? BUCKETS : 0)
						: until_ns / reorder->width_ns;
	struct cs_reorder_bucket *bucket;
	bool sorted;

	*count = 0;
	if (!reorder->started)
		return 0;
	if (!find_filled(reorder, limit)) {
		reorder->frontier_ns = reorder->base * reorder->width_ns;
		return 0;
	}
	bucket = &reorder->buckets[reorder->base & (BUCKETS - 1)];
	*count = bucket_count(bucket);
	if (reserve_scratch(reorder, *count)) {
		*count = 0;
		return -ENOMEM;
	}
	sorted = gather(reorder, bucket);
	*records = sorted ? reorder->scratch : sort_scratch(reorder, *count);
	reorder->pending -= *count;
	reorder->base++;
	reorder->frontier_ns = reorder->base * reorder->width_ns;
	return 0;
}

void
cs_reorder_restart(struct cs_reorder *reorder)
{
	reorder->started = false;
	reorder->base = 0;
	reorder->frontier_ns = 0;
}

uint64_t
cs_reorder_oldest_ns(const struct cs_reorder *reorder)
{
	if (reorder->pending == 0)
		return UINT64_MAX;
	for (uint64_t number = reorder->base;; number++) {
		if (reorder->buckets[number & (BUCKETS - 1)].first)
			return number * reorder->width_ns;
	}
}
