/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

#include <stdlib.h>
#include <string.h>

#define INTERVAL_BITS 40U
#define INTERVAL_MASK ((UINT64_C(1) << INTERVAL_BITS) - 1)
#define STATE_BITS    8U /* of `last`: whether traced, and the last of the number of switches */
#define STATE_MASK    ((UINT64_C(1) << STATE_BITS) - 1)
#define NAMED         (UINT64_C(1) << 32)

_Static_assert(CS_STEPS_INTERVAL_MAX_NS <= INTERVAL_MASK, "an interval fits");

/* Never 0. */
static uint64_t
hash_graph(uint64_t graph)
{
	return ((graph * 0x9e3779b97f4a7c15ULL) >> INTERVAL_BITS) | 1;
}

/* The graph's place, taken over from another one when all are in use: a wrong interval then is one of 32. */
static struct cs_steps_place *
find_place(struct cs_steps *steps, uint64_t graph, bool *found)
{
	unsigned int first = (unsigned int)(hash_graph(graph) >> 1) % CS_STEPS_GRAPHS;

	for (unsigned int i = 0; i < CS_STEPS_GRAPHS; i++) {
		unsigned int place = (first + i) % CS_STEPS_GRAPHS;
		uint64_t there = atomic_load_explicit(&steps->graphs[place].graph, memory_order_relaxed);

		if (there == graph) {
			*found = true;
			return &steps->graphs[place];
		}
		if (there == 0) {
			first = place;
			break;
		}
	}
	*found = false;
	return &steps->graphs[first];
}

void
cs_steps_note(struct cs_steps *steps, const struct cs_steps_launch *launch)
{
	uint64_t state = ((uint64_t)launch->switches << 1 | (launch->traced ? 1 : 0)) & STATE_MASK;
	bool found;
	struct cs_steps_place *place = find_place(steps, launch->graph, &found);
	uint64_t last = atomic_exchange_explicit(
		&place->last, launch->monotonic_ns << STATE_BITS | state, memory_order_relaxed);
	uint64_t interval_ns = launch->monotonic_ns - (last >> STATE_BITS);
	bool switched = (last & STATE_MASK) != state;
	uint32_t next;

	if (launch->traced && (!found || switched))
		atomic_store_explicit(&place->correlation, launch->correlation_id, memory_order_relaxed);
	else if (!found) /* whoever had the place may yet be named by it */
		atomic_store_explicit(&place->correlation, 0, memory_order_relaxed);
	if (!found) {
		atomic_store_explicit(
			&place->named, launch->graph == CS_STEPS_EAGER ? NAMED : 0, memory_order_relaxed);
		atomic_store_explicit(&place->graph, launch->graph, memory_order_relaxed);
		return;
	}
	/* Tracing was switched in between, or the server was idle, or two threads launch it. */
	if (switched || (last >> STATE_BITS) >= launch->monotonic_ns ||
		interval_ns > CS_STEPS_INTERVAL_MAX_NS)
		return;
	next = atomic_fetch_add_explicit(&place->next[launch->traced], 1, memory_order_relaxed);
	atomic_store_explicit(&place->intervals[launch->traced][next % CS_STEPS_INTERVALS],
		hash_graph(launch->graph) << INTERVAL_BITS | interval_ns, memory_order_relaxed);
}

void
cs_steps_name(struct cs_steps *steps, uint32_t correlation_id, uint32_t graph_id)
{
	for (unsigned int i = 0; i < CS_STEPS_GRAPHS; i++) {
		struct cs_steps_place *place = &steps->graphs[i];
		uint64_t graph = atomic_load_explicit(&place->graph, memory_order_relaxed);

		if (graph != 0 && graph != CS_STEPS_EAGER &&
			atomic_load_explicit(&place->correlation, memory_order_relaxed) == correlation_id)
			atomic_store_explicit(&place->named, NAMED | graph_id, memory_order_relaxed);
	}
}

/* -- medians --------------------------------------------------------------------------------------------- */

static int
compare_ns(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left;
	uint64_t b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

/* How many intervals of the place's graph there are, and their median. */
static uint32_t
median_of(const struct cs_steps_place *place, bool traced, uint64_t hash, uint64_t *median_ns)
{
	uint64_t sorted[CS_STEPS_INTERVALS];
	uint32_t count = 0;

	for (unsigned int i = 0; i < CS_STEPS_INTERVALS; i++) {
		uint64_t interval = atomic_load_explicit(&place->intervals[traced][i], memory_order_relaxed);

		if (interval >> INTERVAL_BITS == hash)
			sorted[count++] = interval & INTERVAL_MASK;
	}
	if (count == 0)
		return 0;
	qsort(sorted, count, sizeof(sorted[0]), compare_ns);
	*median_ns = sorted[count / 2];
	return count;
}

size_t
cs_steps_read(const struct cs_steps *steps, struct cs_steps_graph *graphs)
{
	size_t count = 0;

	for (unsigned int i = 0; i < CS_STEPS_GRAPHS; i++) {
		const struct cs_steps_place *place = &steps->graphs[i];
		uint64_t graph = atomic_load_explicit(&place->graph, memory_order_relaxed);
		struct cs_steps_graph seen = {
			.eager = graph == CS_STEPS_EAGER,
			.graph_id = (uint32_t)atomic_load_explicit(&place->named, memory_order_relaxed),
			.untraced_total = atomic_load_explicit(&place->next[0], memory_order_relaxed),
		};

		if (graph == 0)
			continue;
		seen.untraced_count = median_of(place, false, hash_graph(graph), &seen.untraced_ns);
		seen.traced_count = median_of(place, true, hash_graph(graph), &seen.traced_ns);
		if (seen.untraced_count != 0 || seen.traced_count != 0)
			graphs[count++] = seen;
	}
	return count;
}
