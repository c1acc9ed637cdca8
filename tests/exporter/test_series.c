/* SPDX-License-Identifier: Apache-2.0 */
/* The table of series, its limit, and the size label. */
#include "collective.h"
#include "series.h"
#include "size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
/* cmocka.h needs the four above first. */
#include <cmocka.h>

#define LINES 23U /* of a collective histogram: 20 bounds, +Inf, sum, count */

static void
test_sizes(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{0, "0"},
		{1, "1"},
		{2, "2"},
		{3, "4"},
		{4, "4"},
		{43008, "65536"}, /* 42 KiB */
		{65536, "65536"},
		{65537, "131072"},
		{UINT64_C(1) << 63, "9223372036854775808"},
		{(UINT64_C(1) << 63) + 1, "18446744073709551616"},
		{CS_BYTES_UNKNOWN, "unknown"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[CS_SIZE_TEXT_BYTES];

		cs_size_text(cs_size_bucket(cases[i].bytes), text);
		assert_string_equal(text, cases[i].text);
	}
}

static struct cs_series_key
key_of(int32_t rank)
{
	return (struct cs_series_key){
		.rank = rank, .gpu = (int16_t)rank, .op = CS_OP_ALL_REDUCE, .impl = CS_IMPL_NCCL};
}

/* Two processes share a series; it lives until the last lets go, and its value stays meanwhile. */
static void
test_references(void **state)
{
	struct cs_series_table table;
	struct cs_series_key key = key_of(3);
	struct cs_series *first, *second;

	(void)state;
	cs_series_table_init(&table, 1000);
	first = cs_series_take(&table, CS_FAMILY_COLLECTIVE_BYTES, &key);
	second = cs_series_take(&table, CS_FAMILY_COLLECTIVE_BYTES, &key);
	assert_ptr_equal(first, second);
	cs_series_add(&table, first, 40);
	cs_series_drop(&table, first);
	cs_series_add(&table, second, 2);
	assert_int_equal(second->counter, 42);
	assert_int_equal(table.lines, 1);
	cs_series_drop(&table, second);
	assert_int_equal(table.lines, 0);
	assert_int_equal(table.families[CS_FAMILY_COLLECTIVE_BYTES].count, 0);
	cs_series_table_fini(&table);
}

/* Room for two histograms: the third label set goes to "other", is counted, and room that becomes free is
 * used again. */
static void
test_limit(void **state)
{
	struct cs_series_table table;
	struct cs_series *series[4];

	(void)state;
	cs_series_table_init(&table, 2 * LINES);
	for (int32_t rank = 0; rank < 4; rank++) {
		struct cs_series_key key = key_of(rank);

		series[rank] = cs_series_take(&table, CS_FAMILY_COLLECTIVE_WAIT, &key);
		cs_series_observe(&table, series[rank], 1000);
	}
	assert_int_equal(table.lines, 2 * LINES);
	assert_int_equal(table.folded, 2);
	assert_ptr_equal(series[2], series[3]);
	assert_int_equal(series[2]->key.other, 1);
	assert_int_equal(cs_histogram_count_total(series[2]->histogram), 2);
	assert_int_equal(cs_histogram_count_total(series[0]->histogram), 1);
	cs_series_drop(&table, series[0]);
	{
		struct cs_series_key key = key_of(9);

		series[0] = cs_series_take(&table, CS_FAMILY_COLLECTIVE_WAIT, &key);
	}
	assert_int_equal(series[0]->key.other, 0);
	for (int i = 0; i < 4; i++)
		cs_series_drop(&table, series[i]);
	assert_int_equal(table.lines, 0);
	cs_series_table_fini(&table);
}

static void
test_collected(void **state)
{
	struct cs_series_table table;
	struct cs_snapshot snapshot;
	struct cs_series_key late = key_of(10), early = key_of(2), unknown = key_of(CS_RANK_UNKNOWN);
	const struct cs_sample_list *list = &snapshot.families[CS_FAMILY_COLLECTIVE_BYTES];

	(void)state;
	early.size = cs_size_bucket(43008);
	cs_series_table_init(&table, 1000);
	cs_series_add(&table, cs_series_take(&table, CS_FAMILY_COLLECTIVE_BYTES, &late), 1);
	cs_series_add(&table, cs_series_take(&table, CS_FAMILY_COLLECTIVE_BYTES, &early), 2);
	cs_series_add(&table, cs_series_take(&table, CS_FAMILY_COLLECTIVE_BYTES, &unknown), 3);
	cs_snapshot_init(&snapshot, false);
	cs_series_collect(&table, &snapshot);
	assert_int_equal(cs_snapshot_finish(&snapshot), 0);
	assert_int_equal(list->count, 3);
	assert_string_equal(list->samples[0].labels[0], "unknown");
	assert_string_equal(list->samples[0].labels[1], "unknown");
	assert_int_equal(list->samples[1].value.integer, 2);
	assert_string_equal(list->samples[1].labels[1], "2");
	assert_string_equal(list->samples[1].labels[2], "all_reduce");
	assert_string_equal(list->samples[1].labels[3], "nccl");
	assert_string_equal(list->samples[1].labels[5], "65536");
	assert_string_equal(list->samples[2].labels[1], "10");
	cs_snapshot_fini(&snapshot);
	cs_series_table_fini(&table);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_references),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_collected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
