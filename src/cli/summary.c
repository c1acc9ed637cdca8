/* SPDX-License-Identifier: Apache-2.0 */
#include "summary.h"

#include "table.h"
#include "units.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

/* What deep tracing the ring of one process still covers. */
struct cs_summary_coverage {
	const struct cs_target *target;
	uint32_t gpus;      /* bit per index: those with collectives */
	uint64_t oldest_ns; /* start of the oldest collective in the ring */
	uint64_t newest_ns;
	uint64_t window_ns; /* closed deep windows, from oldest_ns on */
	struct cs_record *windows;
	size_t window_count;
};

void
cs_summary_init(struct cs_summary *summary)
{
	*summary = (struct cs_summary){0};
}

static void
keep_node(void *node)
{
	(void)node; /* rows are freed through summary->rows */
}

void
cs_summary_fini(struct cs_summary *summary)
{
	tdestroy(summary->tree, keep_node);
	for (size_t i = 0; i < summary->count; i++) {
		free(summary->rows[i]->durations_ns);
		free(summary->rows[i]);
	}
	free(summary->rows);
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
	return left->phase - right->phase;
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

static int
add_duration(struct cs_summary_row *row, uint64_t duration_ns)
{
	if (row->count == row->duration_capacity) {
		size_t capacity = row->duration_capacity ? row->duration_capacity * 2 : 256;
		void *grown = reallocarray(row->durations_ns, capacity, sizeof(*row->durations_ns));

		if (!grown)
			return -ENOMEM;
		row->durations_ns = grown;
		row->duration_capacity = capacity;
	}
	row->durations_ns[row->count++] = duration_ns;
	return 0;
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
		.bytes = collective->bytes};
	struct cs_summary_row *row = find_row(summary, &key);
	struct cs_summary_coverage *coverage = find_coverage(summary, target);

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
	if (add_duration(row, collective->end_ns - collective->start_ns))
		summary->failure = -ENOMEM;
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
take_other(void *context, uint32_t source, const struct cs_record *record)
{
	struct cs_summary *summary = context;
	struct cs_summary_coverage *coverage;
	void *grown;

	if (record->type != CS_RECORD_WINDOW || (record->flags & 0xf) != CS_DEPTH_DEEP ||
		(record->flags & CS_RECORD_WINDOW_FOREIGN))
		return;
	coverage = find_coverage(summary, cs_feed_borrow_target(summary->feed, source));
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
		.context = summary, .collective = take_collective, .other = take_other};
}

void
cs_summary_attach(struct cs_summary *summary, const struct cs_feed *feed)
{
	summary->feed = feed;
}

/* Closed windows as far as the ring still holds their records, and the one that is open now. */
static uint64_t
covered_ns(const struct cs_summary_coverage *coverage)
{
	const struct cs_status *status = &coverage->target->status;
	uint64_t sum_ns = 0;
	uint64_t since_ns = status->depth_since_ns;

	if (coverage->oldest_ns == UINT64_MAX)
		return 0;
	for (size_t i = 0; i < coverage->window_count; i++) {
		const struct cs_record *window = &coverage->windows[i];
		uint64_t start_ns =
			window->start_ns > coverage->oldest_ns ? window->start_ns : coverage->oldest_ns;

		if (window->end_ns > start_ns)
			sum_ns += window->end_ns - start_ns;
	}
	if (status->depth == CS_DEPTH_DEEP) {
		if (since_ns < coverage->oldest_ns)
			since_ns = coverage->oldest_ns;
		if (coverage->newest_ns > since_ns)
			sum_ns += coverage->newest_ns - since_ns;
	}
	return sum_ns;
}

static int
compare_numbers(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a;
	uint64_t right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

/* Nearest rank: the least value that at least the share q of all is not above. */
static uint64_t
quantile(const uint64_t *sorted, uint64_t count, unsigned int percent)
{
	return sorted[(count * percent + 99) / 100 - 1];
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
	for (size_t i = 0; i < summary->coverage_count; i++) {
		unsigned int gpus = (unsigned int)__builtin_popcount(summary->coverage[i].gpus);

		summary->traced_ns += covered_ns(&summary->coverage[i]) * gpus;
		summary->gpu_count += gpus;
	}
	for (size_t i = 0; i < summary->count; i++) {
		struct cs_summary_row *row = summary->rows[i];

		row->share = summary->traced_ns ? (double)row->sum_ns / (double)summary->traced_ns
						: CS_SHARE_UNKNOWN;
		if (row->count == 0)
			continue;
		qsort(row->durations_ns, row->count, sizeof(*row->durations_ns), compare_numbers);
		row->p50_ns = quantile(row->durations_ns, row->count, 50);
		row->p99_ns = quantile(row->durations_ns, row->count, 99);
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

static void
print_impls(uint32_t impls, FILE *stream)
{
	const char *separator = " ";

	for (unsigned int impl = 0; impl < CS_IMPL_COUNT; impl++) {
		if (!(impls & (1U << impl)))
			continue;
		fprintf(stream, "%s%s", separator, cs_impl_name(impl));
		separator = " and ";
	}
}

static void
print_switches(const struct cs_summary_range *ranges, size_t count, FILE *stream)
{
	char from[CS_UNITS_TEXT_BYTES], to[CS_UNITS_TEXT_BYTES], times[CS_UNITS_TEXT_BYTES];

	for (size_t i = 0; i < count; i++) {
		const struct cs_summary_range *range = &ranges[i];

		if (i == 0 || !same_kind(&ranges[i - 1], range)) {
			fprintf(stream, "\nImplementation by size: %s", cs_op_name(range->op));
			if (range->dtype)
				fprintf(stream, " %s", cs_dtype_name(range->dtype));
			fputc(':', stream);
		} else {
			fputc(',', stream);
		}
		print_impls(range->impls, stream);
		if (range->from_bytes == range->to_bytes)
			fprintf(stream, " at %s", cs_units_format_bytes(range->from_bytes, from));
		else
			fprintf(stream, " from %s to %s", cs_units_format_bytes(range->from_bytes, from),
				cs_units_format_bytes(range->to_bytes, to));
		fprintf(stream, " (%s times)", cs_units_format_count(range->count, times));
	}
	if (count)
		fputc('\n', stream);
}

static void
add_row(struct cs_table *table, const struct cs_summary_row *row)
{
	char text[CS_UNITS_TEXT_BYTES];

	cs_table_add(table, CS_STYLE_PLAIN, "%s", cs_op_name(row->op));
	cs_table_add(table, CS_STYLE_PLAIN, "%s", cs_impl_name(row->impl));
	cs_table_add(table, CS_STYLE_PLAIN, "%s", cs_units_format_bytes(row->bytes, text));
	cs_table_add(table, CS_STYLE_PLAIN, "%s", row->dtype ? cs_dtype_name(row->dtype) : "-");
	cs_table_add(table, CS_STYLE_PLAIN, "%s", cs_phase_name(row->phase));
	cs_table_add(table, CS_STYLE_PLAIN, "%s", cs_units_format_count(row->count, text));
	cs_table_add(
		table, CS_STYLE_PLAIN, "%s", row->count ? cs_units_format_duration(row->p50_ns, text) : "-");
	cs_table_add(
		table, CS_STYLE_PLAIN, "%s", row->count ? cs_units_format_duration(row->p99_ns, text) : "-");
	cs_table_add(table, CS_STYLE_PLAIN, "%s",
		row->matched ? cs_units_format_duration(row->wait_ns / row->matched, text) : "-");
	if (row->transfer_ns && row->bus_bytes)
		cs_table_add(table, CS_STYLE_PLAIN, "%.3g GB/s",
			(double)row->bus_bytes / (double)row->transfer_ns);
	else
		cs_table_add(table, CS_STYLE_PLAIN, "-");
	if (row->share < 0)
		cs_table_add(table, CS_STYLE_PLAIN, "-");
	else
		cs_table_add(table, CS_STYLE_PLAIN, "%.1f %%", row->share * 100);
}

int
cs_summary_print(const struct cs_summary *summary, FILE *stream, size_t limit, unsigned int width)
{
	static const char *const headings[] = {"OP", "IMPL", ">SIZE", "DTYPE", "PHASE", ">COUNT", ">P50",
		">P99", ">MEAN WAIT", ">BUS BW", ">GPU TIME"};
	struct cs_table *table = cs_table_new(headings, sizeof(headings) / sizeof(headings[0]));
	struct cs_summary_range *ranges = NULL;
	size_t range_count = 0;
	int result = -ENOMEM;

	if (!table)
		goto out;
	for (size_t i = 0; i < summary->count && (limit == 0 || i < limit); i++)
		add_row(table, summary->rows[i]);
	result = cs_table_print(table, stream, width);
	if (result)
		goto out;
	if (limit && summary->count > limit)
		fprintf(stream, "... and %zu more\n", summary->count - limit);
	result = cs_summary_switches(summary, &ranges, &range_count);
	if (result == 0)
		print_switches(ranges, range_count, stream);
out:
	free(ranges);
	cs_table_destroy(table);
	return result;
}
