/* SPDX-License-Identifier: Apache-2.0 */
#include "launches.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void
test_deep_launches(void **state)
{
	static struct cs_launches launches;
	struct cs_launches_steps steps;

	(void)state;
	memset(&launches, 0, sizeof(launches));
	/* 20 launches of graph 5, 3 ms apart, of 10 nodes each, newest node first. */
	for (uint32_t launch = 0; launch < 20; launch++)
		for (uint32_t node = 10; node-- > 0;)
			cs_launches_node(
				&launches, 100 + launch, 5, 1000000000 + launch * 3000000 + node * 1000);
	assert_int_equal(launches.depth[CS_DEPTH_DEEP].count, 20 - CS_LAUNCHES_OPEN);
	assert_false(cs_launches_steps(&launches, &steps));
	for (uint32_t launch = 0; launch < 30; launch++)
		cs_launches_whole(&launches, 500 + launch, 5, 2000000000 + launch * 2000000);
	assert_int_equal(launches.depth[CS_DEPTH_LIGHT].count, 30);
	assert_true(cs_launches_steps(&launches, &steps));
	assert_int_equal(steps.graph_id, 5);
	assert_int_equal(steps.deep_ns, 3000000);
	assert_int_equal(steps.light_ns, 2000000);
	assert_int_equal(steps.deep_count, 20 - CS_LAUNCHES_OPEN - 1);
	assert_int_equal(steps.light_count, 29);
}

/* Draft and verify graphs take turns; nodes of two launches are interleaved; each graph has its own interval.
 */
static void
test_two_graphs(void **state)
{
	static struct cs_launches launches;
	struct cs_launches_steps steps;

	(void)state;
	memset(&launches, 0, sizeof(launches));
	for (uint32_t step = 0; step < 50; step++) {
		for (uint32_t node = 0; node < 4; node++) {
			cs_launches_node(&launches, 2 * step, 7, 1000000 + step * 9000 + node);
			cs_launches_node(&launches, 2 * step + 1, 8, 1002000 + step * 9000 + node);
		}
		cs_launches_whole(&launches, step, 7, 9000000 + step * 6000);
	}
	assert_true(cs_launches_steps(&launches, &steps));
	assert_int_equal(steps.graph_id, 7);
	assert_int_equal(steps.deep_ns, 9000);
	assert_int_equal(steps.light_ns, 6000);
}

/* What lies between two windows is no step. */
static void
test_gap(void **state)
{
	static struct cs_launches launches;

	(void)state;
	memset(&launches, 0, sizeof(launches));
	cs_launches_whole(&launches, 1, 3, 1000);
	cs_launches_whole(&launches, 2, 3, 1000 + CS_LAUNCHES_INTERVAL_MAX_NS + 1);
	cs_launches_whole(&launches, 3, 3, 500);
	assert_int_equal(launches.depth[CS_DEPTH_LIGHT].count, 3);
	assert_int_equal(launches.depth[CS_DEPTH_LIGHT].intervals_kept, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deep_launches),
		cmocka_unit_test(test_two_graphs),
		cmocka_unit_test(test_gap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
