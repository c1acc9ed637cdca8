/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

#include <stdlib.h>
#include <string.h>

#define INTERVAL_BITS 40U
#define INTERVAL_MASK ((UINT64_C(1) << INTERVAL_BITS) - 1)

_Static_assert(CS_STEPS_INTERVAL_MAX_NS <= INTERVAL_MASK, "an interval fits");

/* Never 0. */
static uint64_t
hash_graph(uint64_t graph)
{
	return ((graph * 0x9e3779b97f4a7c15ULL) >> INTERVAL_BITS) | 1;
}

/* The graph's place, taken over from another one when all are in use: a wrong interval then is one of 256. */
static unsigned int
find_place(struct cs_steps *steps, uint64_t graph, bool *found)
{
	unsigned int first = (unsigned int)(hash_graph(graph) >> 1) % CS_STEPS_GRAPHS;

	for (unsigned int i = 0; i < CS_STEPS_GRAPHS; i++) {
		unsigned int place = (first + i) % CS_STEPS_GRAPHS;
		uint64_t there = atomic_load_explicit(&steps->graphs[place].graph, memory_order_relaxed);

		if (there == graph) {
			*found = true;
			return place;
		}
		if (there == 0) {
			first = place;
			break;
		}
	}
	*found = false;
	return first;
}

void
cs_steps_note(struct cs_steps *steps, uint64_t graph, uint64_t monotonic_ns, bool traced)
{
	uint64_t now = monotonic_ns << 1 | (traced ? 1 : 0);
	bool found;
	unsigned int place = find_place(steps, graph, &found);
	uint64_t last = atomic_exchange_explicit(&steps->graphs[place].last, now, memory_order_relaxed);
	uint64_t interval_ns = monotonic_ns - (last >> 1);
	uint32_t next;

	if (!found) {
		atomic_store_explicit(&steps->graphs[place].graph, graph, memory_order_relaxed);
		return;
	}
	/* Tracing was switched in between, or the server was idle, or two threads launch it. */
	if ((last & 1) != (now & 1) || (last >> 1) >= monotonic_ns || interval_ns > CS_STEPS_INTERVAL_MAX_NS)
		return;
	next = atomic_fetch_add_explicit(&steps->next[traced], 1, memory_order_relaxed);
	atomic_store_explicit(&steps->intervals[traced][next % CS_STEPS_INTERVALS],
		hash_graph(graph) << INTERVAL_BITS | interval_ns, memory_order_relaxed);
}

/* -- medians --------------------------------------------------------------------------------------------- */

static int
compare_ns(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left;
	uint64_t b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

/* How many intervals of a graph there are, and their median. */
static uint32_t
median_of(const uint64_t *intervals, uint64_t hash, uint64_t *median_ns)
{
	uint64_t sorted[CS_STEPS_INTERVALS]; /* of which qsort makes a copy on the heap: the worker may */
	uint32_t count = 0;

	for (unsigned int i = 0; i < CS_STEPS_INTERVALS; i++)
		if (intervals[i] >> INTERVAL_BITS == hash)
			sorted[count++] = intervals[i] & INTERVAL_MASK;
	if (count == 0)
		return 0;
	qsort(sorted, count, sizeof(sorted[0]), compare_ns);
	*median_ns = sorted[count / 2];
	return count;
}

bool
cs_steps_medians(const struct cs_steps *steps, struct cs_steps_medians *medians)
{
	uint64_t copy[2][CS_STEPS_INTERVALS];
	uint32_t best = 0;

	memset(medians, 0, sizeof(*medians));
	for (unsigned int traced = 0; traced < 2; traced++)
		for (unsigned int i = 0; i < CS_STEPS_INTERVALS; i++)
			copy[traced][i] =
				atomic_load_explicit(&steps->intervals[traced][i], memory_order_relaxed);
	for (unsigned int i = 0; i < CS_STEPS_GRAPHS; i++) {
		uint64_t graph = atomic_load_explicit(&steps->graphs[i].graph, memory_order_relaxed);
		struct cs_steps_medians seen = {0};
		uint32_t both;

		if (graph == 0)
			continue;
		seen.untraced_count = median_of(copy[0], hash_graph(graph), &seen.untraced_ns);
		seen.traced_count = median_of(copy[1], hash_graph(graph), &seen.traced_ns);
		both = seen.traced_count < seen.untraced_count ? seen.traced_count : seen.untraced_count;
		if (both > best) {
			best = both;
			*medians = seen;
		}
	}
	return best > 0;
}
