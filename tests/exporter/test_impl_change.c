/* SPDX-License-Identifier: Apache-2.0 */
/* When a switch of implementation has a line, and when it waits for one. */
#include "clock.h"
#include "collective.h"
#include "impl_change.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define S CS_NS_PER_S

static void
assert_line(struct cs_impl_series *series, uint8_t impl, uint64_t at_ns, uint8_t before, uint32_t changes)
{
	struct cs_impl_line line;

	assert_true(cs_impl_change_see(series, impl, at_ns, &line));
	assert_int_equal(line.now, impl);
	assert_int_equal(line.before, before);
	assert_int_equal(line.changes, changes);
}

static void
assert_silent(struct cs_impl_series *series, uint8_t impl, uint64_t at_ns)
{
	struct cs_impl_line line;

	assert_false(cs_impl_change_see(series, impl, at_ns, &line));
}

static void
there_and_back(void **state)
{
	struct cs_impl_series series = {.used = true};

	(void)state;
	assert_silent(&series, CS_IMPL_NCCL, 100 * S);
	assert_silent(&series, CS_IMPL_NCCL, 101 * S);
	assert_line(&series, CS_IMPL_VLLM_CUSTOM, 102 * S, CS_IMPL_NCCL, 1);
	assert_silent(&series, CS_IMPL_VLLM_CUSTOM, 103 * S);
	assert_line(&series, CS_IMPL_NCCL, 110 * S, CS_IMPL_VLLM_CUSTOM, 1);
	assert_line(&series, CS_IMPL_FLASHINFER, 120 * S, CS_IMPL_NCCL, 1);
}

/* Back within the quiet time: no line is owed. There again: one, when the quiet time is over. */
static void
a_switch_in_the_quiet_time_is_told_after_it(void **state)
{
	struct cs_impl_series series = {.used = true};

	(void)state;
	assert_silent(&series, CS_IMPL_NCCL, 100 * S);
	assert_line(&series, CS_IMPL_VLLM_CUSTOM, 101 * S, CS_IMPL_NCCL, 1);
	assert_silent(&series, CS_IMPL_NCCL, 101 * S + S / 2);
	assert_silent(&series, CS_IMPL_VLLM_CUSTOM, 101 * S + S / 4 * 3);
	assert_silent(&series, CS_IMPL_VLLM_CUSTOM, 150 * S);
	assert_line(&series, CS_IMPL_NCCL, 151 * S, CS_IMPL_VLLM_CUSTOM, 3);
	assert_silent(&series, CS_IMPL_FLASHINFER, 152 * S);
	assert_line(&series, CS_IMPL_FLASHINFER, 153 * S, CS_IMPL_NCCL, 1);
}

/* Two groups, ten times a second for a day: lines ever further apart, up to an hour. */
static void
what_alternates_takes_few_lines(void **state)
{
	struct cs_impl_series series = {.used = true};
	struct cs_impl_line line;
	unsigned int lines = 0;
	uint64_t changes = 0;

	(void)state;
	for (uint64_t i = 0; i < 24 * 3600 * 10; i++) {
		uint8_t impl = i % 2 ? CS_IMPL_NCCL : CS_IMPL_VLLM_CUSTOM;

		if (!cs_impl_change_see(&series, impl, 100 * S + i * S / 10, &line))
			continue;
		lines++;
		changes += line.changes;
	}
	assert_in_range(lines, 24, 40);
	assert_int_equal(changes + series.changes, 24 * 3600 * 10 - 1);
	/* an hour without a change, and lines come at once again */
	assert_silent(&series, series.told, 200000 * S);
	assert_line(&series, CS_IMPL_FLASHINFER, 400000 * S, series.told, series.changes + 1);
	assert_line(&series, CS_IMPL_NCCL, 400001 * S, CS_IMPL_FLASHINFER, 1);
}

/* Records of streams may come a little out of order. */
static void
time_may_go_back(void **state)
{
	struct cs_impl_series series = {.used = true};

	(void)state;
	assert_silent(&series, CS_IMPL_NCCL, 100 * S);
	assert_line(&series, CS_IMPL_VLLM_CUSTOM, 101 * S, CS_IMPL_NCCL, 1);
	assert_silent(&series, CS_IMPL_NCCL, 50 * S);
	assert_line(&series, CS_IMPL_NCCL, 102 * S, CS_IMPL_VLLM_CUSTOM, 1);
}

static void
series_are_apart(void **state)
{
	struct cs_impl_changes changes = {0};
	const struct cs_impl_key key = {.gpu = 1,
		.rank = 1,
		.op = CS_OP_ALL_REDUCE,
		.dtype = CS_DTYPE_BFLOAT16,
		.size = 16,
		.phase = 1};
	struct cs_impl_series *series = cs_impl_changes_find(&changes, &key);
	struct cs_impl_key others[6] = {key, key, key, key, key, key};

	(void)state;
	assert_non_null(series);
	assert_ptr_equal(cs_impl_changes_find(&changes, &key), series);
	others[0].gpu = 0;
	others[1].rank = 0;
	others[2].op = CS_OP_ALL_GATHER;
	others[3].dtype = CS_DTYPE_FLOAT16;
	others[4].size = 17;
	others[5].phase = 2;
	for (size_t i = 0; i < 6; i++)
		assert_ptr_not_equal(cs_impl_changes_find(&changes, &others[i]), series);
	assert_int_equal(changes.count, 7);
	/* many: those beyond the limit are not watched, the known ones are */
	for (int rank = 100; rank < 100 + (int)CS_IMPL_SERIES_MAX; rank++) {
		others[0].rank = rank;
		(void)cs_impl_changes_find(&changes, &others[0]);
	}
	assert_null(cs_impl_changes_find(&changes, &others[0]));
	assert_ptr_equal(cs_impl_changes_find(&changes, &key), series);
	cs_impl_changes_fini(&changes);
	assert_null(changes.series);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(a_switch_in_the_quiet_time_is_told_after_it),
		cmocka_unit_test(what_alternates_takes_few_lines),
		cmocka_unit_test(time_may_go_back),
		cmocka_unit_test(series_are_apart),
	};

	return cmocka_run_group_tests_name("impl change", tests, NULL, NULL);
}
