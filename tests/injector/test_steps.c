/* SPDX-License-Identifier: Apache-2.0 */
#include "sampling/steps.h"

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
static struct cs_steps_graph graphs[CS_STEPS_GRAPHS];

static int
setup(void **state)
{
	(void)state;
	memset(&steps, 0, sizeof(steps));
	return 0;
}

/* Tracing is switched as `traced` says: odd numbers of switches are on. */
static void
note(uint64_t graph, uint64_t monotonic_ns, uint32_t switches)
{
	struct cs_steps_launch launch = {
		.graph = graph,
		.monotonic_ns = monotonic_ns,
		.correlation_id = (uint32_t)(graph + monotonic_ns / US),
		.switches = switches,
		.traced = switches % 2,
	};

	cs_steps_note(&steps, &launch);
}

/* 2,600 us untraced, 3,900 us traced; the interval across the switch is neither. */
static void
test_two_states(void **state)
{
	uint64_t now_ns = 1000000;

	(void)state;
	for (unsigned int i = 0; i < 20; i++, now_ns += 2600 * US)
		note(0x7f0000001000, now_ns, 0);
	assert_int_equal(cs_steps_read(&steps, graphs), 1);
	assert_int_equal(graphs[0].traced_count, 0);
	for (unsigned int i = 0; i < 20; i++, now_ns += 3900 * US)
		note(0x7f0000001000, now_ns, 1);
	assert_int_equal(cs_steps_read(&steps, graphs), 1);
	assert_int_equal(graphs[0].untraced_count, 19);
	assert_int_equal(graphs[0].untraced_total, 19);
	assert_int_equal(graphs[0].traced_count, 19);
	assert_int_equal(graphs[0].untraced_ns, 2600 * US);
	assert_int_equal(graphs[0].traced_ns, 3900 * US);
	assert_false(graphs[0].eager);
}

/* Two steps of two seconds in each of four windows: the intervals of all of them count. */
static void
test_over_windows(void **state)
{
	uint64_t now_ns = 1000000;

	(void)state;
	for (uint32_t window = 0; window < 4; window++) {
		for (unsigned int i = 0; i < 2; i++, now_ns += 2000000 * US)
			note(7, now_ns, 2 * window);
		for (unsigned int i = 0; i < 3; i++, now_ns += 2400000 * US)
			note(7, now_ns, 2 * window + 1);
	}
	assert_int_equal(cs_steps_read(&steps, graphs), 1);
	assert_int_equal(graphs[0].traced_count, 8);
	assert_int_equal(graphs[0].untraced_count, 4);
	assert_int_equal(graphs[0].traced_ns, 2400000 * US);
}

/* A whole window lies between two launches, both of them untraced: the interval is neither. */
static void
test_window_between(void **state)
{
	(void)state;
	note(7, 1000 * US, 0);
	note(7, 501000 * US, 2);
	assert_int_equal(cs_steps_read(&steps, graphs), 0);
	note(7, 901000 * US, 2);
	assert_int_equal(cs_steps_read(&steps, graphs), 1);
	assert_int_equal(graphs[0].untraced_ns, 400000 * US);
}

static void
test_graphs_apart(void **state)
{
	(void)state;
	/* The verify graph runs in both states, the draft graph in one. */
	for (uint64_t i = 0; i < 30; i++) {
		note(0x1000, 1000 * US + i * 5000 * US, i >= 15);
		note(0x2000, 2000 * US + i * 4000 * US, 0);
	}
	assert_int_equal(cs_steps_read(&steps, graphs), 2);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(graphs[i].untraced_ns, graphs[i].traced_count ? 5000 * US : 4000 * US);
		assert_true(graphs[i].traced_count == 0 || graphs[i].traced_count == 14);
	}
}

/* Records name the graph by the correlation id of its first launch of a window. */
static void
test_names(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 10; i++)
		note(0x1000, (1 + i) * 1000 * US, i >= 5);
	for (uint64_t i = 0; i < 10; i++)
		note(CS_STEPS_EAGER, (1 + i) * 1000 * US, i >= 5);
	cs_steps_name(&steps, 99, 4);
	cs_steps_name(&steps, (uint32_t)(0x1000 + 6000), 5);
	assert_int_equal(cs_steps_read(&steps, graphs), 2);
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(graphs[i].graph_id, graphs[i].eager ? 0 : 5);
}

/* A graph that takes over the place of one whose records have yet to name it does not get that name. */
static void
test_names_do_not_pass_on(void **state)
{
	const uint64_t newcomer = 0x9000;
	size_t count;

	(void)state;
	for (uint64_t graph = 1; graph <= CS_STEPS_GRAPHS; graph++)
		note(graph << 20, graph * 1000 * US, 1);
	note(newcomer, 100000 * US, 2);
	for (uint64_t graph = 1; graph <= CS_STEPS_GRAPHS; graph++)
		cs_steps_name(&steps, (uint32_t)((graph << 20) + graph * 1000), (uint32_t)graph);
	for (unsigned int i = 1; i <= 8; i++)
		note(newcomer, (100000 + 777 * i) * US, 2);
	count = cs_steps_read(&steps, graphs);
	assert_int_equal(count, 1);
	assert_int_equal(graphs[0].untraced_ns, 777 * US);
	assert_int_equal(graphs[0].graph_id, 0);
}

static void
test_idle_is_no_step(void **state)
{
	(void)state;
	note(7, 1, 0);
	note(7, 2 + CS_STEPS_INTERVAL_MAX_NS, 0);
	note(7, 5, 0); /* not after its predecessor */
	assert_int_equal(cs_steps_read(&steps, graphs), 0);
}

static void
test_many_graphs(void **state)
{
	(void)state;
	for (uint64_t round = 0; round < 50; round++)
		for (uint64_t graph = 1; graph <= 3 * CS_STEPS_GRAPHS; graph++)
			note(graph << 12, 1 + round * 1000 + graph, round % 2);
	assert_true(cs_steps_read(&steps, graphs) <= CS_STEPS_GRAPHS);
}

static void *
launch(void *argument)
{
	uint64_t graph = (uint64_t)(uintptr_t)argument;

	for (uint64_t i = 1; i < 10000; i++)
		note(graph, i * US, (uint32_t)(i / 50));
	return NULL;
}

static void
test_threads(void **state)
{
	pthread_t threads[4];
	size_t count;

	(void)state;
	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, launch, (void *)((i + 1) << 12)), 0);
	for (unsigned int i = 0; i < 100; i++) {
		struct cs_steps_graph seen[CS_STEPS_GRAPHS];

		cs_steps_read(&steps, seen);
		cs_steps_name(&steps, i, i);
	}
	for (unsigned int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	count = cs_steps_read(&steps, graphs);
	assert_true(count >= 1);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(graphs[i].traced_ns, US);
		assert_int_equal(graphs[i].untraced_ns, US);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_two_states, setup),
		cmocka_unit_test_setup(test_over_windows, setup),
		cmocka_unit_test_setup(test_window_between, setup),
		cmocka_unit_test_setup(test_graphs_apart, setup),
		cmocka_unit_test_setup(test_names, setup),
		cmocka_unit_test_setup(test_names_do_not_pass_on, setup),
		cmocka_unit_test_setup(test_idle_is_no_step, setup),
		cmocka_unit_test_setup(test_many_graphs, setup),
		cmocka_unit_test_setup(test_threads, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
