/* SPDX-License-Identifier: Apache-2.0 */
/* The summary for people: steps, collectives, where implementations change. */
#include "summary.h"

#include "clock.h"
#include "table.h"
#include "units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

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

		if (i == 0 || ranges[i - 1].op != range->op || ranges[i - 1].dtype != range->dtype) {
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

/* "ring/ll", "one_shot", "-". */
static void
format_algorithm(const struct cs_summary_row *row, char *text, size_t text_bytes)
{
	const char *algorithm = row->algorithm ? cs_algorithm_name(row->algorithm) : "-";

	if (row->protocol)
		snprintf(text, text_bytes, "%s/%s", algorithm, cs_protocol_name(row->protocol));
	else
		snprintf(text, text_bytes, "%s", algorithm);
}

static void
add_row(struct cs_table *table, const struct cs_summary_row *row)
{
	char text[CS_UNITS_TEXT_BYTES];
	char algorithm[48];

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
	format_algorithm(row, algorithm, sizeof(algorithm));
	cs_table_add(table, CS_STYLE_PLAIN, "%s", algorithm);
}

/* "A, B: sentence" of those that are shown, in the line that *used tells of. */
static void
explain(const struct cs_page *page, FILE *stream, bool *used, const char *const names[2],
	const char *sentence)
{
	const char *separator = *used ? " " : "";
	bool any = false;

	for (size_t i = 0; i < 2 && names[i]; i++) {
		if (!cs_page_shows(page, names[i]))
			continue;
		fprintf(stream, "%s%s", any ? ", " : separator, names[i]);
		any = true;
	}
	if (any)
		fprintf(stream, ": %s", sentence);
	*used = *used || any;
}

static void
end_line(FILE *stream, bool *used)
{
	if (*used)
		fputc('\n', stream);
	*used = false;
}

/* What the columns rest on: a mean over one collective in ten is not a mean. */
static void
print_basis(const struct cs_summary *summary, const struct cs_page *page, FILE *stream)
{
	static const char *const names[][2] = {{"STEPS", "COLLECTIVES"}, {"IN COLLECTIVES", "EXPOSED"},
		{"COUNT"}, {"GPU TIME"}, {"MEAN WAIT", "BUS BW"}};
	char matching[96] = "unknown, as no collective was seen on every rank.";
	uint64_t matched = 0, count = 0;
	bool used = false;

	for (size_t i = 0; i < summary->count; i++) {
		matched += summary->rows[i]->matched;
		count += summary->rows[i]->count;
	}
	if (matched)
		snprintf(matching, sizeof(matching),
			"from the %.1f %% of the collectives that were seen on every rank.",
			100 * (double)matched / (double)count);
	if (summary->steps.count) {
		explain(page, stream, &used, names[0], "whole steps only.");
		explain(page, stream, &used, names[1], "means of a step.");
		end_line(stream, &used);
	}
	explain(page, stream, &used, names[2], "all collectives, over all ranks.");
	explain(page, stream, &used, names[3], "share of the traced time.");
	end_line(stream, &used);
	explain(page, stream, &used, names[4], matching);
	end_line(stream, &used);
}

static void
print_skipped(const struct cs_summary *summary, FILE *stream)
{
	const char *separator = "";

	for (size_t i = 0; i < summary->coverage_count; i++) {
		const struct cs_target *target = summary->coverage[i].target;
		uint64_t skipped = target->status.windows_skipped;
		int32_t rank = target->dictionary->process.rank;

		if (skipped == 0)
			continue;
		if (rank >= 0)
			fprintf(stream, "%sRank %d", separator, rank);
		else
			fprintf(stream, "%sProcess %u", separator, target->pid);
		fprintf(stream, " skipped %" PRIu64 " window%s (budget)", skipped, skipped == 1 ? "" : "s");
		separator = "; ";
	}
	if (*separator)
		fputc('\n', stream);
}

int
cs_summary_print(const struct cs_summary *summary, FILE *stream, size_t limit, struct cs_page *page)
{
	static const char *const expendable[] = {
		"ALGORITHM", "DTYPE", "BUS BW", "P99", "MEAN WAIT", "GPU TIME", NULL};
	static const char *const headings[] = {"OP", "IMPL", ">SIZE", "DTYPE", "PHASE", ">COUNT", ">P50",
		">P99", ">MEAN WAIT", ">BUS BW", ">GPU TIME", "ALGORITHM"};
	struct cs_table *table = cs_table_new(headings, sizeof(headings) / sizeof(headings[0]));
	struct cs_summary_range *ranges = NULL;
	size_t range_count = 0;
	int result = -ENOMEM;

	if (!table)
		goto out;
	result = cs_step_summary_print(&summary->steps, stream, page);
	if (result)
		goto out;
	if (summary->steps.count)
		fputc('\n', stream);
	for (size_t i = 0; i < summary->count && (limit == 0 || i < limit); i++)
		add_row(table, summary->rows[i]);
	cs_table_set_name(table, "collectives");
	cs_table_set_expendable(table, expendable);
	result = cs_table_print(table, stream, page);
	if (result)
		goto out;
	if (limit && summary->count > limit)
		fprintf(stream, "... and %zu more\n", summary->count - limit);
	print_basis(summary, page, stream);
	print_skipped(summary, stream);
	result = cs_summary_switches(summary, &ranges, &range_count);
	if (result == 0)
		print_switches(ranges, range_count, stream);
out:
	free(ranges);
	cs_table_destroy(table);
	return result;
}

void
cs_summary_print_span(const struct cs_summary *summary, FILE *stream)
{
	const struct cs_summary_span *span = &summary->span;
	uint64_t now_ns = cs_clock_realtime_ns();
	char since[CS_UNITS_TEXT_BYTES], from[CS_UNITS_TEXT_BYTES], to[CS_UNITS_TEXT_BYTES];
	char traced[CS_UNITS_TEXT_BYTES];

	fputs("In the rings", stream);
	if (summary->since_ns)
		fprintf(stream, " since %s", cs_units_format_when(summary->since_ns, now_ns, since));
	if (span->traced_ns)
		fprintf(stream, ": %s traced,", cs_units_format_duration(span->traced_ns, traced));
	else
		fputs(": an unknown part of the time from", stream);
	fprintf(stream, " %s to %s\n", cs_units_format_when(span->from_ns, now_ns, from),
		cs_units_format_when(span->to_ns, now_ns, to));
}
