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

static void
add_step(struct cs_step_summary *steps, enum cs_phase phase, uint64_t duration_ns, uint32_t collectives,
	uint64_t collective_ns, uint64_t exposed_ns)
{
	struct cs_step step = {.phase = (uint8_t)phase,
		.depth = CS_DEPTH_DEEP,
		.start_ns = 1000,
		.end_ns = 1000 + duration_ns,
		.collectives = collectives,
		.collective_ns = collective_ns,
		.exposed_collective_ns = exposed_ns,
		.complete = true};

	assert_int_equal(cs_step_summary_add(steps, &step), 0);
	/* Neither what was seen of the launch alone nor what was cut is like the others. */
	step.depth = CS_DEPTH_LIGHT;
	assert_int_equal(cs_step_summary_add(steps, &step), 0);
	step.depth = CS_DEPTH_DEEP;
	step.complete = false;
	assert_int_equal(cs_step_summary_add(steps, &step), 0);
}

static void
steps_are_summed_by_phase(void **state)
{
	struct cs_step_summary steps;
	const struct cs_step_row *verify = &steps.rows[0], *draft = &steps.rows[1];

	(void)state;
	cs_step_summary_init(&steps);
	add_step(&steps, CS_PHASE_DRAFT, 10, 4, 5, CS_NS_UNKNOWN);
	add_step(&steps, CS_PHASE_VERIFY, 300, 122, 250, 200);
	add_step(&steps, CS_PHASE_VERIFY, 100, 122, 90, 80);
	add_step(&steps, CS_PHASE_VERIFY, 200, 122, 170, CS_NS_UNKNOWN);
	cs_step_summary_finish(&steps);
	assert_int_equal(steps.count, 2);
	assert_int_equal(verify->phase, CS_PHASE_VERIFY);
	assert_int_equal(verify->count, 3);
	assert_int_equal(verify->sum_ns, 600);
	assert_int_equal(verify->p50_ns, 200);
	assert_int_equal(verify->p99_ns, 300);
	assert_int_equal(verify->collectives, 366);
	assert_int_equal(verify->collective_ns, 510);
	assert_int_equal(verify->exposed_count, 2);
	assert_int_equal(verify->exposed_ns, 280);
	assert_int_equal(verify->exposed_sum_ns, 400);
	assert_int_equal(draft->phase, CS_PHASE_DRAFT);
	assert_int_equal(draft->count, 1);
	assert_int_equal(draft->exposed_count, 0);
	cs_step_summary_fini(&steps);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_switch_is_found),
		cmocka_unit_test(two_at_one_size),
		cmocka_unit_test(no_switch),
		cmocka_unit_test(steps_are_summed_by_phase),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
