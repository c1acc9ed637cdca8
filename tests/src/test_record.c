/* SPDX-License-Identifier: Apache-2.0 */
/* The values and names of records, which are part of the format. The layout is in test_segment_format.c. */
#include "record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct value {
	unsigned int value;
	const char *name;
};

static void
check(const struct value *values, size_t count, const char *(*name)(unsigned int), unsigned int end)
{
	for (size_t i = 0; i < count; i++)
		assert_string_equal(name(values[i].value), values[i].name);
	assert_string_equal(name(end), "unknown");
	assert_string_equal(name(UINT32_MAX), "unknown");
}

static void
test_types(void **state)
{
	static const struct value values[] = {{0, "unknown"}, {1, "collective"}, {2, "busy"},
		{3, "graph_launch"}, {4, "window"}, {5, "mark"}, {6, "loss"}, {7, "marker"},
		{8, "host_launch"}, {9, "still"}, {10, "graph"}, {11, "window_open"}};

	(void)state;
	check(values, 12, cs_record_type_name, 12);
	assert_int_equal(CS_RECORD_TYPE_COUNT, 12);
}

static void
test_causes(void **state)
{
	static const struct value values[] = {{0, "cupti_dropped"}, {1, "bad_timestamp"}, {2, "pool_empty"},
		{3, "ring_contended"}, {4, "ring_overrun"}, {5, "ring_hole"}, {6, "table_full"},
		{7, "foreign_owner"}, {8, "invalid_record"}, {9, "table_busy"}, {10, "unknown_device"},
		{11, "marks_full"}};

	(void)state;
	check(values, 12, cs_loss_cause_name, 12);
	assert_int_equal(CS_LOSS_CAUSE_COUNT, 12);
}

static void
test_depths(void **state)
{
	static const struct value values[] = {{0, "off"}, {1, "light"}, {2, "deep"}};

	(void)state;
	check(values, 3, cs_depth_name, 3);
	assert_int_equal(CS_DEPTH_COUNT, 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_causes),
		cmocka_unit_test(test_depths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
