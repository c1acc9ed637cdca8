/* SPDX-License-Identifier: Apache-2.0 */
/* When collscope status reads the rings to look for ranks that stand still. */
#include "clock.h"
#include "stalls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NOW_NS       (1000000 * CS_NS_PER_S)
#define THRESHOLD_NS (10 * CS_NS_PER_S)

static bool
is_suspected(bool alive, uint64_t last_record_end_ns)
{
	struct cs_target target = {.alive = alive, .status = {.last_record_end_ns = last_record_end_ns}};
	struct cs_target *items[] = {&target};
	const struct cs_targets targets = {.items = items, .count = 1};

	return cs_stalls_suspected(&targets, NOW_NS, THRESHOLD_NS);
}

static void
test_suspected(void **state)
{
	(void)state;
	assert_true(is_suspected(true, NOW_NS - THRESHOLD_NS - 1));
	assert_false(is_suspected(true, NOW_NS - THRESHOLD_NS));
	assert_false(is_suspected(true, NOW_NS));
	assert_false(is_suspected(false, NOW_NS - THRESHOLD_NS - 1));
	assert_false(is_suspected(true, 0));
	/* The clock was set back since. */
	assert_true(is_suspected(true, NOW_NS + 3600 * CS_NS_PER_S));
	assert_false(is_suspected(false, NOW_NS + 3600 * CS_NS_PER_S));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_suspected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
