/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define US 1000ULL

static struct cs_steps steps;

static int
setup(void **state)
{
	(void)state;
	memset(&steps, 0, sizeof(steps));
	return 0;
}

/* 2,600 us untraced, 3,900 us traced; the interval across the switch is neither. */
static void
test_two_states(void **state)
{
	struct cs_steps_medians medians;
	uint64_t now_ns = 1000000;

	(void)state;
	for (unsigned int i = 0; i < 40; i++, now_ns += 2600 * US)
		cs_steps_note(&steps, 0x7f0000001000, now_ns, false);
	assert_false(cs_steps_medians(&steps, &medians));
	for (unsigned int i = 0; i < 20; i++, now_ns += 3900 * US)
		cs_steps_note(&steps, 0x7f0000001000, now_ns, true);
	assert_true(cs_steps_medians(&steps, &medians));
	assert_int_equal(medians.untraced_count, 39);
	assert_int_equal(medians.traced_count, 19);
	assert_int_equal(medians.untraced_ns, 2600 * US);
	assert_int_equal(medians.traced_ns, 3900 * US);
}

static void
test_graphs_apart(void **state)
{
	struct cs_steps_medians medians;

	(void)state;
	/* A draft graph three times per step, and the verify graph, of which there is more in both states. */
	for (uint64_t i = 0; i < 30; i++) {
		cs_steps_note(&steps, 0x1000, 1000 * US + i * 5000 * US, i >= 15);
		cs_steps_note(&steps, 0x2000, 2000 * US + i * 5000 * US, false);
	}
	assert_true(cs_steps_medians(&steps, &medians));
	assert_int_equal(medians.untraced_ns, 5000 * US);
	assert_int_equal(medians.traced_ns, 5000 * US);
	assert_int_equal(medians.traced_count, 14);
}

static void
test_idle_is_no_step(void **state)
{
	(void)state;
	cs_steps_note(&steps, 1, 1, false);
	cs_steps_note(&steps, 1, 2 + CS_STEPS_INTERVAL_MAX_NS, false);
	cs_steps_note(&steps, 1, 5, false); /* not after its predecessor */
	assert_int_equal(steps.next[0], 0);
}

static void
test_many_graphs(void **state)
{
	struct cs_steps_medians medians;

	(void)state;
	for (uint64_t round = 0; round < 50; round++)
		for (uint64_t graph = 1; graph <= 3 * CS_STEPS_GRAPHS; graph++)
			cs_steps_note(&steps, graph << 12, 1 + round * 1000 + graph, round % 2);
	cs_steps_medians(&steps, &medians);
	assert_true(steps.next[0] <= 50 * 3 * CS_STEPS_GRAPHS);
}

static void *
launch(void *argument)
{
	uint64_t graph = (uint64_t)(uintptr_t)argument;

	for (uint64_t i = 1; i < 10000; i++)
		cs_steps_note(&steps, graph, i * US, i % 100 < 50);
	return NULL;
}

static void
test_threads(void **state)
{
	struct cs_steps_medians medians;
	pthread_t threads[4];

	(void)state;
	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, launch, (void *)((i + 1) << 12)), 0);
	for (unsigned int i = 0; i < 100; i++)
		cs_steps_medians(&steps, &medians);
	for (unsigned int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_true(cs_steps_medians(&steps, &medians));
	assert_int_equal(medians.traced_ns, US);
	assert_int_equal(medians.untraced_ns, US);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_two_states, setup),
		cmocka_unit_test_setup(test_graphs_apart, setup),
		cmocka_unit_test_setup(test_idle_is_no_step, setup),
		cmocka_unit_test_setup(test_many_graphs, setup),
		cmocka_unit_test_setup(test_threads, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
