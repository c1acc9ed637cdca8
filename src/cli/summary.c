/* SPDX-License-Identifier: Apache-2.0 */
#include "summary.h"

#include "quantile.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

/* Windows that wait for their collectives when nothing restarts the summary, as on an idle server. */
#define LIVE_WINDOWS 64U

void
cs_summary_init(struct cs_summary *summary)
{
	*summary = (struct cs_summary){0};
	cs_step_summary_init(&summary->steps);
}

static void
keep_node(void *node)
{
	(void)node; /* rows are freed through summary->rows */
}

static void
forget_rows(struct cs_summary *summary)
{
	tdestroy(summary->tree, keep_node);
	for (size_t i = 0; i < summary->count; i++) {
		free(summary->rows[i]->durations_ns);
		free(summary->rows[i]);
	}
	free(summary->rows);
	summary->tree = NULL;
	summary->rows = NULL;
	summary->count = 0;
	cs_step_summary_fini(&summary->steps);
	cs_step_summary_init(&summary->steps);
	cs_phase_rules_fini(&summary->phase_rules);
}

void
cs_summary_restart(struct cs_summary *summary)
{
	forget_rows(summary);
	for (size_t i = 0; i < summary->coverage_count; i++) {
		struct cs_summary_coverage *coverage = &summary->coverage[i];
		size_t kept = 0;

		for (size_t j = 0; j < coverage->window_count; j++) {
			if (coverage->windows[j].end_ns > coverage->newest_ns)
				coverage->windows[kept++] = coverage->windows[j];
		}
		coverage->window_count = kept;
		coverage->gpus = 0;
		coverage->oldest_ns = UINT64_MAX;
		coverage->newest_ns = 0;
	}
}

void
cs_summary_fini(struct cs_summary *summary)
{
	forget_rows(summary);
	for (size_t i = 0; i < summary->coverage_count; i++)
		free(summary->coverage[i].windows);
	free(summary->coverage);
	*summary = (struct cs_summary){0};
}

static int
compare_keys(const void *a, const void *b)
{
	const struct cs_summary_row *left = a;
	const struct cs_summary_row *right = b;

	if (left->op != right->op)
		return left->op - right->op;
	if (left->dtype != right->dtype)
		return left->dtype - right->dtype;
	if (left->bytes != right->bytes)
		return left->bytes < right->bytes ? -1 : 1;
	if (left->impl != right->impl)
		return left->impl - right->impl;
	if (left->phase != right->phase)
		return left->phase - right->phase;
	if (left->algorithm != right->algorithm)
		return left->algorithm - right->algorithm;
	return left->protocol - right->protocol;
}

static struct cs_summary_row *
find_row(struct cs_summary *summary, const struct cs_summary_row *key)
{
	struct cs_summary_row **found = tfind(key, &summary->tree, compare_keys);
	struct cs_summary_row *row;
	void *grown;

	if (found)
		return *found;
	row = calloc(1, sizeof(*row));
	grown = reallocarray(summary->rows, summary->count + 1, sizeof(*summary->rows));
	if (grown)
		summary->rows = grown;
	if (!row || !grown)
		goto fail;
	*row = *key;
	if (!tsearch(row, &summary->tree, compare_keys))
		goto fail;
	summary->rows[summary->count++] = row;
	return row;
fail:
	free(row);
	return NULL;
}

static struct cs_summary_coverage *
find_coverage(struct cs_summary *summary, const struct cs_target *target)
{
	void *grown;

	for (size_t i = 0; i < summary->coverage_count; i++) {
		if (summary->coverage[i].target == target)
			return &summary->coverage[i];
	}
	grown = reallocarray(summary->coverage, summary->coverage_count + 1, sizeof(*summary->coverage));
	if (!grown)
		return NULL;
	summary->coverage = grown;
	summary->coverage[summary->coverage_count] =
		(struct cs_summary_coverage){.target = target, .oldest_ns = UINT64_MAX};
	return &summary->coverage[summary->coverage_count++];
}

static void
take_collective(void *context, const struct cs_collective *collective)
{
	struct cs_summary *summary = context;
	const struct cs_target *target = cs_feed_borrow_target(summary->feed, collective->source);
	struct cs_summary_row key = {.op = collective->label->op,
		.impl = collective->label->impl,
		.dtype = collective->label->dtype,
		.phase = collective->phase,
		.algorithm = collective->label->algorithm,
		.protocol = collective->label->protocol,
		.bytes = collective->bytes};
	struct cs_summary_row *row;
	struct cs_summary_coverage *coverage;

	if (collective->end_ns < summary->since_ns)
		return;
	row = find_row(summary, &key);
	coverage = find_coverage(summary, target);
	if (!row || !coverage) {
		summary->failure = -ENOMEM;
		return;
	}
	coverage->gpus |= 1U << (collective->gpu & 31);
	if (collective->start_ns < coverage->oldest_ns)
		coverage->oldest_ns = collective->start_ns;
	if (collective->end_ns > coverage->newest_ns)
		coverage->newest_ns = collective->end_ns;
	row->sum_ns += collective->end_ns - collective->start_ns;
	if (collective->record_flags & CS_RECORD_PART)
		return;
	if (cs_quantile_add(&row->durations_ns, &row->duration_capacity, row->count,
		    collective->end_ns - collective->start_ns))
		summary->failure = -ENOMEM;
	else
		row->count++;
	if (collective->wait_ns != CS_NS_UNKNOWN) {
		row->wait_ns += collective->wait_ns;
		row->matched++;
	}
	/* Once per collective: the rank that came last has the transfer alone. */
	if (collective->last_arrival && collective->bytes != CS_BYTES_UNKNOWN) {
		row->transfer_ns += collective->transfer_ns;
		row->bus_bytes +=
			cs_op_bus_bytes(collective->label->op, collective->label->world, collective->bytes);
	}
}

static void
take_step(void *context, const struct cs_step *step)
{
	struct cs_summary *summary = context;

	if (step->end_ns < summary->since_ns)
		return;
	if (cs_step_summary_add(&summary->steps, step) ||
		cs_phase_rules_add(
			&summary->phase_rules, cs_feed_borrow_target(summary->feed, step->source), step))
		summary->failure = -ENOMEM;
}

static void
take_other(void *context, uint32_t source, const struct cs_record *record)
{
	struct cs_summary *summary = context;
	struct cs_summary_coverage *coverage;
	void *grown;

	if (record->type != CS_RECORD_WINDOW || (record->flags & 0xf) != CS_DEPTH_DEEP ||
		(record->flags & CS_RECORD_WINDOW_FOREIGN) || record->end_ns < summary->since_ns)
		return;
	coverage = find_coverage(summary, cs_feed_borrow_target(summary->feed, source));
	if (coverage && summary->live && coverage->window_count == LIVE_WINDOWS)
		memmove(coverage->windows, coverage->windows + 1,
			--coverage->window_count * sizeof(*coverage->windows));
	grown = coverage ? reallocarray(
				   coverage->windows, coverage->window_count + 1, sizeof(*coverage->windows))
			 : NULL;
	if (!grown) {
		summary->failure = -ENOMEM;
		return;
	}
	coverage->windows = grown;
	coverage->windows[coverage->window_count++] = *record;
}

struct cs_analysis_sink
cs_summary_sink(struct cs_summary *summary)
{
	return (struct cs_analysis_sink){
		.context = summary, .step = take_step, .collective = take_collective, .other = take_other};
}

void
cs_summary_attach(struct cs_summary *summary, const struct cs_feed *feed)
{
	summary->feed = feed;
}

static int
compare_sums(const void *a, const void *b)
{
	const struct cs_summary_row *left = *(struct cs_summary_row *const *)a;
	const struct cs_summary_row *right = *(struct cs_summary_row *const *)b;

	if (left->sum_ns != right->sum_ns)
		return left->sum_ns > right->sum_ns ? -1 : 1;
	return compare_keys(left, right);
}

int
cs_summary_finish(struct cs_summary *summary)
{
	summary->traced_ns = 0;
	summary->gpu_count = 0;
	summary->newest_ns = 0;
	cs_step_summary_finish(&summary->steps);
	cs_phase_rules_finish(&summary->phase_rules);
	for (size_t i = 0; i < summary->coverage_count; i++) {
		unsigned int gpus = (unsigned int)__builtin_popcount(summary->coverage[i].gpus);

		summary->traced_ns += cs_summary_covered_ns(&summary->coverage[i], summary->live) * gpus;
		summary->gpu_count += gpus;
		if (summary->coverage[i].newest_ns > summary->newest_ns)
			summary->newest_ns = summary->coverage[i].newest_ns;
	}
	if (cs_summary_find_span(summary, &summary->span))
		summary->failure = -ENOMEM;
	for (size_t i = 0; i < summary->count; i++) {
		struct cs_summary_row *row = summary->rows[i];

		row->share = summary->traced_ns ? (double)row->sum_ns / (double)summary->traced_ns
						: CS_SHARE_UNKNOWN;
		if (row->count == 0)
			continue;
		cs_quantile_sort(row->durations_ns, row->count);
		row->p50_ns = cs_quantile_of(row->durations_ns, row->count, 50);
		row->p99_ns = cs_quantile_of(row->durations_ns, row->count, 99);
	}
	if (summary->count)
		qsort(summary->rows, summary->count, sizeof(*summary->rows), compare_sums);
	return summary->failure;
}

static int
compare_ranges(const void *a, const void *b)
{
	const struct cs_summary_range *left = a;
	const struct cs_summary_range *right = b;

	if (left->op != right->op)
		return left->op - right->op;
	if (left->dtype != right->dtype)
		return left->dtype - right->dtype;
	return (left->from_bytes > right->from_bytes) - (left->from_bytes < right->from_bytes);
}

static bool
same_kind(const struct cs_summary_range *a, const struct cs_summary_range *b)
{
	return a->op == b->op && a->dtype == b->dtype;
}

/* Joins entries of one size, which collects their implementations. */
static size_t
join_sizes(struct cs_summary_range *ranges, size_t count)
{
	size_t joined = 0;

	for (size_t i = 0; i < count; i++) {
		struct cs_summary_range *last = joined ? &ranges[joined - 1] : NULL;

		if (last && same_kind(last, &ranges[i]) && last->from_bytes == ranges[i].from_bytes) {
			last->impls |= ranges[i].impls;
			last->count += ranges[i].count;
		} else {
			ranges[joined++] = ranges[i];
		}
	}
	return joined;
}

/* Joins neighbouring sizes that have the same implementations. */
static size_t
join_neighbours(struct cs_summary_range *ranges, size_t count)
{
	size_t joined = 0;

	for (size_t i = 0; i < count; i++) {
		struct cs_summary_range *last = joined ? &ranges[joined - 1] : NULL;

		if (last && same_kind(last, &ranges[i]) && last->impls == ranges[i].impls) {
			last->to_bytes = ranges[i].to_bytes;
			last->count += ranges[i].count;
		} else {
			ranges[joined++] = ranges[i];
		}
	}
	return joined;
}

/* Leaves out kinds that one implementation runs alone. Writing never runs ahead of reading, so the neighbours
 * that are compared are as they were. */
static size_t
keep_switches(struct cs_summary_range *ranges, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		bool alone = !(i > 0 && same_kind(&ranges[i - 1], &ranges[i])) &&
			     !(i + 1 < count && same_kind(&ranges[i + 1], &ranges[i]));

		if (!alone || __builtin_popcount(ranges[i].impls) > 1)
			ranges[kept++] = ranges[i];
	}
	return kept;
}

int
cs_summary_switches(const struct cs_summary *summary, struct cs_summary_range **ranges, size_t *count)
{
	size_t known = 0;

	*count = 0;
	*ranges = calloc(summary->count + 1, sizeof(**ranges));
	if (!*ranges)
		return -ENOMEM;
	for (size_t i = 0; i < summary->count; i++) {
		const struct cs_summary_row *row = summary->rows[i];

		if (row->bytes == CS_BYTES_UNKNOWN || row->count == 0)
			continue;
		(*ranges)[known++] = (struct cs_summary_range){.op = row->op,
			.dtype = row->dtype,
			.impls = 1U << row->impl,
			.from_bytes = row->bytes,
			.to_bytes = row->bytes,
			.count = row->count};
	}
	qsort(*ranges, known, sizeof(**ranges), compare_ranges);
	known = join_sizes(*ranges, known);
	known = join_neighbours(*ranges, known);
	*count = keep_switches(*ranges, known);
	return 0;
}
