/* SPDX-License-Identifier: Apache-2.0 */
#include "pace.h"

#include <stdlib.h>
#include <string.h>

#define UNITS_MAX (CS_PACE_LAUNCHES + CS_PACE_STRETCHES)
/* Share of the busy time from which on a graph is usual, whatever its number. */
#define USUAL_SHARE 10U
#define USUAL_COUNT 3U

void
cs_pace_begin(struct cs_pace *pace, uint64_t now_ns)
{
	pace->open_ns = now_ns;
	pace->close_ns = 0;
	pace->kernels = 0;
	pace->first_ns = 0;
	pace->waiting_ns = pace->after_ns = 0;
	pace->launch_count = pace->stretch_count = 0;
	pace->last_launch = pace->last_stretch = 0;
	memset(pace->index, 0, sizeof(pace->index));
}

void
cs_pace_end(struct cs_pace *pace, uint64_t now_ns)
{
	if (pace->open_ns != 0 && pace->close_ns == 0)
		pace->close_ns = now_ns;
}

void
cs_pace_wait(struct cs_pace *pace, uint64_t now_ns)
{
	if (pace->open_ns != 0 && pace->close_ns == 0 && pace->waiting_ns == 0)
		pace->waiting_ns = now_ns;
}

static void
widen(struct cs_pace_unit *unit, uint64_t start_ns, uint64_t end_ns)
{
	if (start_ns < unit->start_ns)
		unit->start_ns = start_ns;
	if (end_ns > unit->end_ns)
		unit->end_ns = end_ns;
}

/* Its place in the table; CS_PACE_LAUNCHES: it is new and there is no room. */
static uint32_t
find_launch(struct cs_pace *pace, uint32_t correlation_id, uint32_t graph_id)
{
	const uint32_t mask = 2 * CS_PACE_LAUNCHES - 1;
	uint32_t at = (correlation_id * 2654435769U) >> 16 & mask;

	for (; pace->index[at] != 0; at = (at + 1) & mask)
		if (pace->launches[pace->index[at] - 1].correlation_id == correlation_id)
			return pace->index[at] - 1;
	if (pace->launch_count == CS_PACE_LAUNCHES)
		return CS_PACE_LAUNCHES;
	pace->launches[pace->launch_count] = (struct cs_pace_unit){
		.start_ns = UINT64_MAX, .graph_id = graph_id, .correlation_id = correlation_id};
	pace->index[at] = (uint16_t)++pace->launch_count;
	return pace->launch_count - 1;
}

static void
add_to_launch(
	struct cs_pace *pace, uint32_t correlation_id, uint32_t graph_id, uint64_t start_ns, uint64_t end_ns)
{
	uint32_t at = pace->last_launch;

	if (pace->launch_count == 0 || pace->launches[at].correlation_id != correlation_id) {
		at = find_launch(pace, correlation_id, graph_id);
		if (at == CS_PACE_LAUNCHES)
			return;
		pace->last_launch = at;
	}
	widen(&pace->launches[at], start_ns, end_ns);
}

static bool
touches(const struct cs_pace_unit *unit, uint64_t start_ns, uint64_t end_ns)
{
	return start_ns <= unit->end_ns + CS_PACE_GAP_NS && unit->start_ns <= end_ns + CS_PACE_GAP_NS;
}

/* Makes one of stretch `at` and those behind it that it touches now. */
static void
join(struct cs_pace *pace, uint32_t at)
{
	struct cs_pace_unit *unit = &pace->stretches[at];
	uint32_t next = at + 1;

	while (next < pace->stretch_count &&
		touches(unit, pace->stretches[next].start_ns, pace->stretches[next].end_ns)) {
		widen(unit, pace->stretches[next].start_ns, pace->stretches[next].end_ns);
		next++;
	}
	memmove(&pace->stretches[at + 1], &pace->stretches[next],
		(pace->stretch_count - next) * sizeof(pace->stretches[0]));
	pace->stretch_count -= next - at - 1;
}

/* Records come in nearly the order of time, so the last stretch is tried first. */
static void
add_to_stretch(struct cs_pace *pace, uint64_t start_ns, uint64_t end_ns)
{
	struct cs_pace_unit *last = &pace->stretches[pace->last_stretch];
	uint32_t at = 0;

	if (pace->stretch_count != 0 && start_ns >= last->start_ns && end_ns <= last->end_ns)
		return;
	if (pace->stretch_count != 0 && start_ns >= pace->stretches[pace->stretch_count - 1].start_ns)
		at = pace->stretch_count - 1;
	while (at < pace->stretch_count && pace->stretches[at].end_ns + CS_PACE_GAP_NS < start_ns)
		at++;
	if (at == pace->stretch_count || !touches(&pace->stretches[at], start_ns, end_ns)) {
		if (pace->stretch_count == CS_PACE_STRETCHES)
			return;
		memmove(&pace->stretches[at + 1], &pace->stretches[at],
			(pace->stretch_count - at) * sizeof(pace->stretches[0]));
		pace->stretches[at] = (struct cs_pace_unit){.start_ns = start_ns, .end_ns = end_ns};
		pace->stretch_count++;
	} else {
		widen(&pace->stretches[at], start_ns, end_ns);
		join(pace, at);
	}
	pace->last_stretch = at;
}

void
cs_pace_kernel(
	struct cs_pace *pace, uint32_t correlation_id, uint32_t graph_id, uint64_t start_ns, uint64_t end_ns)
{
	if (pace->open_ns == 0 || end_ns < pace->open_ns ||
		(pace->close_ns != 0 && start_ns > pace->close_ns))
		return;
	pace->kernels++;
	if (pace->first_ns == 0 || start_ns < pace->first_ns)
		pace->first_ns = start_ns;
	if (pace->waiting_ns != 0 && start_ns >= pace->waiting_ns &&
		(pace->after_ns == 0 || start_ns < pace->after_ns))
		pace->after_ns = start_ns;
	if (graph_id != 0)
		add_to_launch(pace, correlation_id, graph_id, start_ns, end_ns);
	else
		add_to_stretch(pace, start_ns, end_ns);
}

/* -- summing up ------------------------------------------------------------------------------------------ */

static int
compare_units(const void *left, const void *right)
{
	const struct cs_pace_unit *a = left, *b = right;

	return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static int
compare_ns(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

struct group {
	uint32_t graph_id;
	uint32_t count; /* whole units */
	uint64_t busy_ns;
	uint64_t longest_ns;
};

/* at_ns: the units' starts with idle time taken out. */
struct units {
	uint32_t count;
	struct cs_pace_unit unit[UNITS_MAX];
	uint64_t at_ns[UNITS_MAX];
	bool whole[UNITS_MAX];
};

static void
gather(struct cs_pace *pace, struct units *units, struct cs_pace_summary *summary)
{
	uint64_t edge_ns =
		summary->length_ns / 50 < CS_PACE_EDGE_NS ? summary->length_ns / 50 : CS_PACE_EDGE_NS;
	uint64_t idle_ns = 0, end_ns = 0;

	memcpy(units->unit, pace->launches, pace->launch_count * sizeof(units->unit[0]));
	memcpy(units->unit + pace->launch_count, pace->stretches,
		pace->stretch_count * sizeof(units->unit[0]));
	units->count = pace->launch_count + pace->stretch_count;
	qsort(units->unit, units->count, sizeof(units->unit[0]), compare_units);
	for (uint32_t i = 0; i < units->count; i++) {
		const struct cs_pace_unit *unit = &units->unit[i];

		if (end_ns != 0 && unit->start_ns > end_ns + CS_PACE_IDLE_NS)
			idle_ns += unit->start_ns - end_ns - CS_PACE_IDLE_NS;
		if (unit->end_ns > end_ns) {
			summary->busy_ns +=
				unit->end_ns - (unit->start_ns > end_ns ? unit->start_ns : end_ns);
			end_ns = unit->end_ns;
		}
		units->at_ns[i] = unit->start_ns - idle_ns;
		units->whole[i] =
			unit->start_ns > pace->open_ns + edge_ns && unit->end_ns + edge_ns < pace->close_ns;
	}
	if (summary->busy_ns > summary->active_ns)
		summary->busy_ns = summary->active_ns;
}

static uint32_t
group_units(const struct units *units, struct group *groups)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < units->count; i++) {
		const struct cs_pace_unit *unit = &units->unit[i];
		uint64_t length_ns = unit->end_ns - unit->start_ns;
		uint32_t g = 0;

		if (!units->whole[i])
			continue;
		while (g < count && groups[g].graph_id != unit->graph_id)
			g++;
		if (g == CS_PACE_GRAPHS)
			continue;
		if (g == count)
			groups[count++] = (struct group){.graph_id = unit->graph_id};
		groups[g].count++;
		groups[g].busy_ns += length_ns;
		if (length_ns > groups[g].longest_ns)
			groups[g].longest_ns = length_ns;
	}
	return count;
}

/* From one whole unit of the group to the next. 0: there are no two. */
static uint64_t
median_interval(const struct units *units, uint32_t graph_id)
{
	uint64_t sorted[UNITS_MAX];
	uint64_t last_ns = 0;
	uint32_t count = 0;

	for (uint32_t i = 0; i < units->count; i++) {
		if (!units->whole[i] || units->unit[i].graph_id != graph_id)
			continue;
		if (last_ns != 0)
			sorted[count++] = units->at_ns[i] - last_ns;
		last_ns = units->at_ns[i];
	}
	if (count == 0)
		return 0;
	qsort(sorted, count, sizeof(sorted[0]), compare_ns);
	return sorted[count / 2];
}

static void
find_step(const struct units *units, struct cs_pace_summary *summary)
{
	struct group groups[CS_PACE_GRAPHS];
	uint32_t count = group_units(units, groups);
	uint64_t busy_ns = 0;

	for (uint32_t g = 0; g < count; g++) {
		busy_ns += groups[g].busy_ns;
		if (groups[g].count > summary->whole)
			summary->whole = groups[g].count;
	}
	if (summary->whole < 2)
		return;
	for (uint32_t g = 0; g < count; g++) {
		bool large = groups[g].busy_ns * USUAL_SHARE >= busy_ns;
		uint64_t step_ns;

		if (groups[g].count < USUAL_COUNT && !large)
			continue;
		step_ns = groups[g].count > 1 ? median_interval(units, groups[g].graph_id)
					      : groups[g].longest_ns;
		if (step_ns > summary->step_ns)
			summary->step_ns = step_ns;
	}
}

static uint64_t
between(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

static uint64_t
active_ns(const struct cs_pace *pace)
{
	uint64_t from_ns = pace->first_ns > pace->open_ns ? pace->first_ns : pace->open_ns;

	if (pace->waiting_ns == 0)
		return between(from_ns, pace->close_ns);
	return between(from_ns, pace->waiting_ns) +
	       (pace->after_ns != 0 ? between(pace->after_ns, pace->close_ns) : 0);
}

void
cs_pace_sum_up(struct cs_pace *pace, struct cs_pace_summary *summary)
{
	struct units units;

	memset(summary, 0, sizeof(*summary));
	if (pace->open_ns == 0 || pace->close_ns <= pace->open_ns)
		return;
	summary->length_ns = pace->close_ns - pace->open_ns;
	summary->kernels = pace->kernels;
	if (pace->kernels == 0)
		return;
	summary->active_ns = active_ns(pace);
	gather(pace, &units, summary);
	find_step(&units, summary);
}
