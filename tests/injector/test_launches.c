/* SPDX-License-Identifier: Apache-2.0 */
#include "records/launches.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Nodes of two launches at a time are interleaved; each launch counts once, also when its nodes come in two
 * buffers. */
static void
test_count(void **state)
{
	struct cs_launches launches = {0};

	(void)state;
	for (uint32_t step = 0; step < 50; step++)
		for (uint32_t node = 0; node < 40; node++) {
			cs_launches_node(&launches, 2 * step, 7);
			cs_launches_node(&launches, 2 * step + 1, 8);
		}
	assert_int_equal(launches.count, 100);
	cs_launches_node(&launches, 99, 8);
	assert_int_equal(launches.count, 100);
}

/* Correlation ids start anew in a process; the executable graph tells launches apart then. */
static void
test_same_correlation(void **state)
{
	struct cs_launches launches = {0};

	(void)state;
	cs_launches_node(&launches, 1, 7);
	cs_launches_node(&launches, 1, 8);
	assert_int_equal(launches.count, 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_count),
		cmocka_unit_test(test_same_correlation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
