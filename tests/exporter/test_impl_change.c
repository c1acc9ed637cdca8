/* SPDX-License-Identifier: Apache-2.0 */
/* When a second implementation counts as new at a size. */
#include "collective.h"
#include "impl_change.h"
#include "size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct cs_series_key
all_reduce(uint8_t impl, uint64_t bytes)
{
	return (struct cs_series_key){.op = CS_OP_ALL_REDUCE,
		.impl = impl,
		.phase = CS_PHASE_VERIFY,
		.size = cs_size_bucket(bytes)};
}

static void
only_the_implementation_may_differ(void **state)
{
	struct cs_series_key key = all_reduce(CS_IMPL_VLLM_CUSTOM, 43008);
	struct cs_feed_entry entries[4] = {
		{.used = true, .key = all_reduce(CS_IMPL_VLLM_CUSTOM, 43008)},
		{.used = true, .key = all_reduce(CS_IMPL_NCCL, 8 << 20)},
	};
	struct cs_feed_map map = {.entries = entries, .capacity = 4, .count = 2};

	(void)state;
	assert_null(cs_impl_change_find(&map, &key));
	entries[2] = (struct cs_feed_entry){.used = true, .key = all_reduce(CS_IMPL_NCCL, 40000)};
	assert_ptr_equal(cs_impl_change_find(&map, &key), &entries[2].key);
	entries[2].key.phase = CS_PHASE_DRAFT;
	assert_null(cs_impl_change_find(&map, &key));
	entries[2].key.phase = CS_PHASE_VERIFY;
	entries[2].key.rank = 1;
	assert_null(cs_impl_change_find(&map, &key));
	entries[2].key.rank = 0;
	entries[2].used = false;
	assert_null(cs_impl_change_find(&map, &key));
}

static void
what_is_not_known_is_no_change(void **state)
{
	struct cs_series_key sized = all_reduce(CS_IMPL_NCCL, 43008);
	struct cs_series_key unsized = all_reduce(CS_IMPL_NCCL, CS_BYTES_UNKNOWN);
	struct cs_series_key unknown = all_reduce(CS_IMPL_UNKNOWN, 43008);
	struct cs_feed_entry entries[2] = {
		{.used = true, .key = all_reduce(CS_IMPL_UNKNOWN, 43008)},
		{.used = true, .key = all_reduce(CS_IMPL_TRTLLM, CS_BYTES_UNKNOWN)},
	};
	struct cs_feed_map map = {.entries = entries, .capacity = 2, .count = 2};

	(void)state;
	assert_null(cs_impl_change_find(&map, &sized));
	assert_null(cs_impl_change_find(&map, &unsized));
	assert_null(cs_impl_change_find(&map, &unknown));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_implementation_may_differ),
		cmocka_unit_test(what_is_not_known_is_no_change),
	};

	return cmocka_run_group_tests_name("impl change", tests, NULL, NULL);
}
