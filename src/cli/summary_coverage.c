/* SPDX-License-Identifier: Apache-2.0 */
/* How much time a summary covers: the windows of its processes, as far as their rings still hold the records.
 */
#include "summary.h"

#include <errno.h>
#include <stdlib.h>

struct interval {
	uint64_t start_ns, end_ns;
};

/* Closed window number `index`, as far as collectives reach; the one that is open now for index ==
 * window_count. Empty: start_ns >= end_ns. */
static struct interval
covered(const struct cs_summary_coverage *coverage, size_t index, bool live)
{
	const struct cs_status *status = &coverage->target->status;
	struct interval interval = {.start_ns = UINT64_MAX};

	if (coverage->oldest_ns == UINT64_MAX)
		return interval;
	if (index < coverage->window_count) {
		interval.start_ns = coverage->windows[index].start_ns;
		interval.end_ns = coverage->windows[index].end_ns;
		if (live && interval.end_ns > coverage->newest_ns)
			interval.end_ns = coverage->newest_ns;
	} else if (status->depth == CS_DEPTH_DEEP) {
		interval.start_ns = status->depth_since_ns;
		interval.end_ns = coverage->newest_ns;
	}
	if (interval.start_ns < coverage->oldest_ns)
		interval.start_ns = coverage->oldest_ns;
	return interval;
}

uint64_t
cs_summary_covered_ns(const struct cs_summary_coverage *coverage, bool live)
{
	uint64_t sum_ns = 0;

	for (size_t i = 0; i <= coverage->window_count; i++) {
		struct interval interval = covered(coverage, i, live);

		if (interval.end_ns > interval.start_ns)
			sum_ns += interval.end_ns - interval.start_ns;
	}
	return sum_ns;
}

static int
compare_starts(const void *a, const void *b)
{
	const struct interval *left = a;
	const struct interval *right = b;

	return (left->start_ns > right->start_ns) - (left->start_ns < right->start_ns);
}

/* Each moment once: ranks trace at the same moments. */
static uint64_t
union_ns(struct interval *intervals, size_t count)
{
	uint64_t sum_ns = 0, until_ns = 0;

	if (count)
		qsort(intervals, count, sizeof(*intervals), compare_starts);
	for (size_t i = 0; i < count; i++) {
		uint64_t start_ns = intervals[i].start_ns > until_ns ? intervals[i].start_ns : until_ns;

		if (intervals[i].end_ns <= start_ns)
			continue;
		sum_ns += intervals[i].end_ns - start_ns;
		until_ns = intervals[i].end_ns;
	}
	return sum_ns;
}

int
cs_summary_find_span(const struct cs_summary *summary, struct cs_summary_span *span)
{
	size_t count = 0, most = 1;
	uint64_t from_ns = UINT64_MAX;
	struct interval *intervals;

	*span = (struct cs_summary_span){0};
	for (size_t i = 0; i < summary->coverage_count; i++)
		most += summary->coverage[i].window_count + 1;
	intervals = calloc(most, sizeof(*intervals));
	if (!intervals)
		return -ENOMEM;
	for (size_t i = 0; i < summary->coverage_count; i++) {
		const struct cs_summary_coverage *coverage = &summary->coverage[i];

		if (coverage->oldest_ns < from_ns)
			from_ns = coverage->oldest_ns;
		if (coverage->newest_ns > span->to_ns)
			span->to_ns = coverage->newest_ns;
		for (size_t j = 0; j <= coverage->window_count; j++) {
			struct interval interval = covered(coverage, j, summary->live);

			if (interval.end_ns <= interval.start_ns)
				continue;
			if (interval.end_ns > span->to_ns)
				span->to_ns = interval.end_ns;
			intervals[count++] = interval;
		}
	}
	span->from_ns = from_ns == UINT64_MAX ? 0 : from_ns;
	span->traced_ns = union_ns(intervals, count);
	free(intervals);
	return 0;
}
