/* SPDX-License-Identifier: Apache-2.0 */
/* Which implementation ran at which size; the rest of the summary is checked through `collscope status
 * --collectives`. */
#include "summary.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KIB 1024U

struct expected {
	uint8_t op;
	uint32_t impls;
	uint64_t from_bytes, to_bytes, count;
};

static void
assert_switches(
	struct cs_summary_row *rows, size_t row_count, const struct expected *expected, size_t expected_count)
{
	struct cs_summary_row *pointers[16];
	struct cs_summary summary = {.rows = pointers, .count = row_count};
	struct cs_summary_range *ranges;
	size_t count;

	for (size_t i = 0; i < row_count; i++)
		pointers[i] = &rows[i];
	assert_int_equal(cs_summary_switches(&summary, &ranges, &count), 0);
	assert_int_equal(count, expected_count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(ranges[i].op, expected[i].op);
		assert_int_equal(ranges[i].impls, expected[i].impls);
		assert_int_equal(ranges[i].from_bytes, expected[i].from_bytes);
		assert_int_equal(ranges[i].to_bytes, expected[i].to_bytes);
		assert_int_equal(ranges[i].count, expected[i].count);
	}
	free(ranges);
}

static void
a_switch_is_found(void **state)
{
	/* Custom below 512 KiB in two phases, NCCL from there; all-gather by one implementation alone; an
	 * unknown size. */
	struct cs_summary_row rows[] = {
		{.op = CS_OP_ALL_REDUCE, .impl = CS_IMPL_NCCL, .bytes = 512 * KIB, .count = 3},
		{.op = CS_OP_ALL_REDUCE, .impl = CS_IMPL_VLLM_CUSTOM, .bytes = 42 * KIB, .count = 5},
		{.op = CS_OP_ALL_REDUCE,
			.impl = CS_IMPL_VLLM_CUSTOM,
			.phase = CS_PHASE_DRAFT,
			.bytes = 42 * KIB,
			.count = 7},
		{.op = CS_OP_ALL_REDUCE, .impl = CS_IMPL_VLLM_CUSTOM, .bytes = 8 * KIB, .count = 11},
		{.op = CS_OP_ALL_REDUCE, .impl = CS_IMPL_NCCL, .bytes = 4096 * KIB, .count = 13},
		{.op = CS_OP_ALL_GATHER, .impl = CS_IMPL_NCCL, .bytes = 8 * KIB, .count = 1},
		{.op = CS_OP_ALL_GATHER, .impl = CS_IMPL_NCCL, .bytes = 16 * KIB, .count = 1},
		{.op = CS_OP_ALL_REDUCE, .impl = CS_IMPL_TRTLLM, .bytes = CS_BYTES_UNKNOWN, .count = 1},
	};
	const struct expected expected[] = {
		{CS_OP_ALL_REDUCE, 1U << CS_IMPL_VLLM_CUSTOM, 8 * KIB, 42 * KIB, 23},
		{CS_OP_ALL_REDUCE, 1U << CS_IMPL_NCCL, 512 * KIB, 4096 * KIB, 16},
	};

	(void)state;
	assert_switches(rows, sizeof(rows) / sizeof(rows[0]), expected, 2);
}

static void
two_at_one_size(void **state)
{
	struct cs_summary_row rows[] = {
		{.op = CS_OP_ALL_REDUCE, .impl = CS_IMPL_NCCL, .bytes = 42 * KIB, .count = 1},
		{.op = CS_OP_ALL_REDUCE, .impl = CS_IMPL_VLLM_CUSTOM, .bytes = 42 * KIB, .count = 2},
	};
	const struct expected expected[] = {{CS_OP_ALL_REDUCE,
		(1U << CS_IMPL_NCCL) | (1U << CS_IMPL_VLLM_CUSTOM), 42 * KIB, 42 * KIB, 3}};

	(void)state;
	assert_switches(rows, 2, expected, 1);
}

static void
no_switch(void **state)
{
	struct cs_summary_row rows[] = {
		{.op = CS_OP_ALL_REDUCE,
			.impl = CS_IMPL_NCCL,
			.dtype = CS_DTYPE_FLOAT16,
			.bytes = 42 * KIB,
			.count = 1},
		{.op = CS_OP_ALL_REDUCE,
			.impl = CS_IMPL_VLLM_CUSTOM,
			.dtype = CS_DTYPE_FLOAT32,
			.bytes = 42 * KIB,
			.count = 2},
	};

	(void)state;
	assert_switches(rows, 2, NULL, 0);
	assert_switches(rows, 0, NULL, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_switch_is_found),
		cmocka_unit_test(two_at_one_size),
		cmocka_unit_test(no_switch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
