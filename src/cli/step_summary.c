/* SPDX-License-Identifier: Apache-2.0 */
#include "step_summary.h"

#include "quantile.h"
#include "table.h"
#include "units.h"

#include <errno.h>
#include <stdlib.h>

void
cs_step_summary_init(struct cs_step_summary *summary)
{
	*summary = (struct cs_step_summary){0};
	for (unsigned int phase = 0; phase < CS_PHASE_COUNT; phase++)
		summary->rows[phase].phase = (uint8_t)phase;
}

void
cs_step_summary_fini(struct cs_step_summary *summary)
{
	for (size_t i = 0; i < CS_PHASE_COUNT; i++)
		free(summary->rows[i].durations_ns);
	*summary = (struct cs_step_summary){0};
}

/* They stand in another order once the summary has been finished. */
static struct cs_step_row *
find_row(struct cs_step_summary *summary, uint8_t phase)
{
	for (size_t i = 0; i < CS_PHASE_COUNT; i++) {
		if (summary->rows[i].phase == phase)
			return &summary->rows[i];
	}
	return find_row(summary, CS_PHASE_UNKNOWN);
}

int
cs_step_summary_add(struct cs_step_summary *summary, const struct cs_step *step)
{
	struct cs_step_row *row = find_row(summary, step->phase);
	uint64_t duration_ns = step->end_ns - step->start_ns;

	if (!step->complete || step->depth != CS_DEPTH_DEEP)
		return 0;
	if (cs_quantile_add(&row->durations_ns, &row->duration_capacity, row->count, duration_ns))
		return -ENOMEM;
	row->count++;
	row->sum_ns += duration_ns;
	row->collectives += step->collectives;
	row->collective_ns += step->collective_ns;
	if (step->exposed_collective_ns != CS_NS_UNKNOWN) {
		row->exposed_count++;
		row->exposed_ns += step->exposed_collective_ns;
		row->exposed_sum_ns += duration_ns;
	}
	return 0;
}

static int
compare_rows(const void *a, const void *b)
{
	const struct cs_step_row *left = a;
	const struct cs_step_row *right = b;

	if (left->sum_ns != right->sum_ns)
		return left->sum_ns > right->sum_ns ? -1 : 1;
	return left->phase - right->phase;
}

void
cs_step_summary_finish(struct cs_step_summary *summary)
{
	summary->count = 0;
	for (size_t i = 0; i < CS_PHASE_COUNT; i++) {
		struct cs_step_row *row = &summary->rows[i];

		if (row->count == 0)
			continue;
		cs_quantile_sort(row->durations_ns, row->count);
		row->p50_ns = cs_quantile_of(row->durations_ns, row->count, 50);
		row->p99_ns = cs_quantile_of(row->durations_ns, row->count, 99);
		summary->count++;
	}
	qsort(summary->rows, CS_PHASE_COUNT, sizeof(summary->rows[0]), compare_rows);
}

static void
add_row(struct cs_table *table, const struct cs_step_row *row)
{
	char text[CS_UNITS_TEXT_BYTES];

	cs_table_add(table, CS_STYLE_PLAIN, "%s", cs_phase_name(row->phase));
	cs_table_add(table, CS_STYLE_PLAIN, "%s", cs_units_format_count(row->count, text));
	cs_table_add(table, CS_STYLE_PLAIN, "%s", cs_units_format_duration(row->p50_ns, text));
	cs_table_add(table, CS_STYLE_PLAIN, "%s", cs_units_format_duration(row->p99_ns, text));
	/* The same number in each is the rule: a digit behind the point says that it was not so. */
	cs_table_add(table, CS_STYLE_PLAIN, "%.*f", row->collectives % row->count ? 1 : 0,
		(double)row->collectives / (double)row->count);
	cs_table_add(
		table, CS_STYLE_PLAIN, "%s", cs_units_format_duration(row->collective_ns / row->count, text));
	if (row->exposed_count == 0) {
		cs_table_add(table, CS_STYLE_PLAIN, "-");
		cs_table_add(table, CS_STYLE_PLAIN, "-");
		return;
	}
	cs_table_add(table, CS_STYLE_PLAIN, "%s",
		cs_units_format_duration(row->exposed_ns / row->exposed_count, text));
	if (row->exposed_sum_ns)
		cs_table_add(table, CS_STYLE_PLAIN, "%.1f %%",
			100 * (double)row->exposed_ns / (double)row->exposed_sum_ns);
	else
		cs_table_add(table, CS_STYLE_PLAIN, "-");
}

int
cs_step_summary_print(const struct cs_step_summary *summary, FILE *stream, struct cs_page *page)
{
	static const char *const expendable[] = {"P99", "EXPOSED %", NULL};
	static const char *const headings[] = {"PHASE", ">STEPS", ">P50", ">P99", ">COLLECTIVES",
		">IN COLLECTIVES", ">EXPOSED", ">EXPOSED %"};
	struct cs_table *table;
	int result;

	if (summary->count == 0)
		return 0;
	table = cs_table_new(headings, sizeof(headings) / sizeof(headings[0]));
	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < summary->count; i++)
		add_row(table, &summary->rows[i]);
	cs_table_set_name(table, "steps");
	cs_table_set_expendable(table, expendable);
	result = cs_table_print(table, stream, page);
	cs_table_destroy(table);
	return result;
}
