/* SPDX-License-Identifier: Apache-2.0 */
/* Text formats byte for byte, numbers as the specifications spell them, and the snapshot's order. */
#include "exposition.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs those above first. */
#include <cmocka.h>

static const char *
real_text(double value)
{
	static char text[64];
	struct cs_buffer buffer;

	cs_buffer_init(&buffer);
	cs_buffer_real(&buffer, value);
	snprintf(text, sizeof(text), "%.*s", (int)buffer.length, buffer.data);
	cs_buffer_fini(&buffer);
	return text;
}

/* The canonical floats of the OpenMetrics specification. */
static void
test_reals(void **state)
{
	static const struct {
		double value;
		const char *text;
	} cases[] = {
		{0, "0.0"},
		{1, "1.0"},
		{-1, "-1.0"},
		{10, "10.0"},
		{100000, "100000.0"},
		{1e6, "1e+06"},
		{1.5e6, "1.5e+06"},
		{0.1, "0.1"},
		{0.001, "0.001"},
		{0.0001, "0.0001"},
		{0.00025, "0.00025"},
		{7.5e-05, "7.5e-05"},
		{1e-05, "1e-05"},
		{1e-10, "1e-10"},
		{123.456, "123.456"},
		{1.0 / 3, "0.3333333333333333"},
		{1e100, "1e+100"},
		{INFINITY, "+Inf"},
		{-INFINITY, "-Inf"},
		{NAN, "NaN"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(real_text(cases[i].value), cases[i].text);
}

/* Bounds are written from a table of texts: each is what the number's canonical text is. */
static void
test_bounds(void **state)
{
	static const struct cs_histogram_class *const classes[] = {
		&cs_histogram_collective_seconds, &cs_histogram_step_seconds, &cs_histogram_count};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		for (size_t bound = 0; bound < classes[i]->bound_count; bound++)
			assert_string_equal(real_text(strtod(classes[i]->bound_texts[bound], NULL)),
				classes[i]->bound_texts[bound]);
	}
}

static char *
written(const struct cs_snapshot *snapshot, enum cs_format format, enum cs_family_id family, bool created)
{
	bool wanted[CS_FAMILY_COUNT] = {0};
	struct cs_exposition_options options = {.format = format, .wanted = wanted, .created = created};
	struct cs_buffer buffer;

	wanted[family] = true;
	cs_buffer_init(&buffer);
	assert_int_equal(cs_exposition_write(snapshot, &options, &buffer), 0);
	cs_buffer_char(&buffer, '\0');
	return buffer.data;
}

#define assert_written(snapshot, format, family, created, expected)                                          \
	do {                                                                                                 \
		char *text = written((snapshot), (format), (family), (created));                             \
		assert_string_equal(text, (expected));                                                       \
		free(text);                                                                                  \
	} while (0)

static void
test_counter(void **state)
{
	struct cs_snapshot snapshot;
	struct cs_sample *sample;

	(void)state;
	cs_snapshot_init(&snapshot, false);
	sample = cs_snapshot_add(&snapshot, CS_FAMILY_EXPORTER_RECORDS);
	sample->value = cs_value_integer(UINT64_MAX);
	sample->created_ns = 1500000000;
	assert_int_equal(cs_snapshot_finish(&snapshot), 0);
	assert_written(&snapshot, CS_FORMAT_TEXT, CS_FAMILY_EXPORTER_RECORDS, false,
		"# HELP collscope_exporter_records_read_total Records that the exporter has read from "
		"segments.\n"
		"# TYPE collscope_exporter_records_read_total counter\n"
		"collscope_exporter_records_read_total 18446744073709551615\n");
	assert_written(&snapshot, CS_FORMAT_OPENMETRICS, CS_FAMILY_EXPORTER_RECORDS, true,
		"# HELP collscope_exporter_records_read Records that the exporter has read from segments.\n"
		"# TYPE collscope_exporter_records_read counter\n"
		"collscope_exporter_records_read_total 18446744073709551615\n"
		"collscope_exporter_records_read_created 1.5\n"
		"# EOF\n");
	cs_snapshot_fini(&snapshot);
}

static void
add_state(struct cs_snapshot *snapshot, const char *gpu, const char *which, uint64_t value)
{
	struct cs_sample *sample = cs_snapshot_add(snapshot, CS_FAMILY_INJECTOR_STATE);

	sample->labels[0] = gpu;
	sample->labels[1] = "0";
	sample->labels[2] = which;
	sample->value = cs_value_integer(value);
}

/* Escaping of label values; numbers sort as numbers; equal labels are one sample. */
static void
test_labels(void **state)
{
	struct cs_snapshot snapshot;

	(void)state;
	cs_snapshot_init(&snapshot, false);
	add_state(&snapshot, "10", "idle", 0);
	add_state(&snapshot, "9", "a\"b\\c\nx", 0);
	add_state(&snapshot, "10", "idle", 1);
	assert_int_equal(cs_snapshot_finish(&snapshot), 0);
	assert_written(&snapshot, CS_FORMAT_OPENMETRICS, CS_FAMILY_INJECTOR_STATE, false,
		"# HELP collscope_injector_state 1 for the state that the injected library is in, 0 for "
		"every other state.\n"
		"# TYPE collscope_injector_state stateset\n"
		"collscope_injector_state{gpu=\"9\",rank=\"0\",collscope_injector_state=\"a\\\"b\\\\c\\nx\"} "
		"0\n"
		"collscope_injector_state{gpu=\"10\",rank=\"0\",collscope_injector_state=\"idle\"} 1\n"
		"# EOF\n");
	cs_snapshot_fini(&snapshot);
}

static void
test_help(void **state)
{
	struct cs_buffer buffer;

	(void)state;
	cs_buffer_init(&buffer);
	cs_exposition_help(&buffer, "a \"b\" \\ c\nx", CS_FORMAT_TEXT);
	cs_buffer_char(&buffer, '|');
	cs_exposition_help(&buffer, "a \"b\" \\ c\nx", CS_FORMAT_OPENMETRICS);
	cs_buffer_char(&buffer, '\0');
	assert_string_equal(buffer.data, "a \"b\" \\\\ c\\nx|a \\\"b\\\" \\\\ c\\nx");
	cs_buffer_fini(&buffer);
}

/* Three collectives of 7, 10 and 99 us: buckets are cumulative, le=1e-05 includes its bound, the sum is
 * exact. */
static void
test_histogram(void **state)
{
	struct cs_histogram *histogram = cs_histogram_new(&cs_histogram_collective_seconds);
	struct cs_snapshot snapshot;
	struct cs_sample *sample;
	char *text;

	(void)state;
	cs_histogram_observe(histogram, 7000);
	cs_histogram_observe(histogram, 10000);
	cs_histogram_observe(histogram, 99000);
	cs_snapshot_init(&snapshot, false);
	sample = cs_snapshot_add(&snapshot, CS_FAMILY_COLLECTIVE_TRANSFER);
	sample->labels[0] = "all_reduce";
	sample->labels[1] = "nccl";
	sample->labels[2] = "verify";
	sample->labels[3] = "65536";
	sample->histogram = cs_snapshot_histogram(&snapshot, histogram);
	assert_int_equal(cs_snapshot_finish(&snapshot), 0);
	text = written(&snapshot, CS_FORMAT_TEXT, CS_FAMILY_COLLECTIVE_TRANSFER, false);
#define LABELS "{op=\"all_reduce\",impl=\"nccl\",phase=\"verify\",size=\"65536\""
#define NAME   "collscope_collective_transfer_seconds"
	assert_non_null(strstr(text, NAME "_bucket" LABELS ",le=\"5e-06\"} 0\n"));
	assert_non_null(strstr(text, NAME "_bucket" LABELS ",le=\"1e-05\"} 2\n"));
	assert_non_null(strstr(text, NAME "_bucket" LABELS ",le=\"7.5e-05\"} 2\n"));
	assert_non_null(strstr(text, NAME "_bucket" LABELS ",le=\"0.0001\"} 3\n"));
	assert_non_null(strstr(text, NAME "_bucket" LABELS ",le=\"+Inf\"} 3\n"));
	assert_non_null(strstr(text, NAME "_sum" LABELS "} 0.000116\n"));
	assert_non_null(strstr(text, NAME "_count" LABELS "} 3\n"));
	free(text);
	cs_snapshot_fini(&snapshot);
	cs_histogram_destroy(histogram);
}

/* Names end with their units, labels are few and not those that scrapers add themselves. */
static void
test_table(void **state)
{
	(void)state;
	for (unsigned int id = 0; id < CS_FAMILY_COUNT; id++) {
		const struct cs_family *family = cs_family_borrow(id);
		size_t name = strlen(family->name);
		size_t unit = strlen(family->unit);

		assert_true(name > unit);
		if (unit)
			assert_string_equal(family->name + name - unit, family->unit);
		assert_int_equal(family->help[strlen(family->help) - 1], '.');
		for (unsigned int i = 0; i < family->label_count; i++) {
			assert_string_not_equal(family->labels[i], "instance");
			assert_string_not_equal(family->labels[i], "job");
			assert_string_not_equal(family->labels[i], "le");
		}
		for (unsigned int other = 0; other < id; other++)
			assert_string_not_equal(family->name, cs_family_borrow(other)->name);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reals),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_counter),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_histogram),
		cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
