/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include "sampling/growth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define MIB    (1ULL << 20)
#define S      CS_NS_PER_S
#define BASE   (1000 * MIB)
#define PERIOD (10 * S)

static struct cs_growth growth;
static uint64_t now_ns, bytes;

static int
setup(void **state)
{
	(void)state;
	cs_growth_forget(&growth);
	now_ns = 5 * S;
	bytes = BASE;
	return 0;
}

/* A window of 200 ms, then the rest of ten seconds. */
static bool
play(uint64_t in_bytes, int64_t between_bytes, uint64_t threshold_bytes)
{
	struct cs_growth_window window = {.before_bytes = bytes,
		.after_bytes = bytes + in_bytes,
		.begin_ns = now_ns,
		.end_ns = now_ns + S / 5};

	bytes += in_bytes + (uint64_t)between_bytes;
	now_ns += PERIOD;
	return cs_growth_add(&growth, &window, threshold_bytes);
}

static void
test_leak(void **state)
{
	(void)state;
	/* Enough memory after four windows, enough windows after eight. */
	for (unsigned int i = 0; i < 7; i++)
		assert_false(play(64 * MIB, 0, 256 * MIB));
	assert_true(play(64 * MIB, 0, 256 * MIB));
	assert_int_equal(growth.grown_bytes, 512 * MIB);
}

static void
test_slow_leak(void **state)
{
	unsigned int windows = 1;

	(void)state;
	/* Two MiB, in every third window alone: what a buffer of CUPTI's takes. */
	while (!play(windows % 3 == 0 ? 2 * MIB : 0, 0, 256 * MIB))
		windows++;
	assert_int_equal(windows, 3 * 128);
}

static void
test_off(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 1000; i++)
		assert_false(play(64 * MIB, 0, 0));
}

/* The pool that CUPTI takes when tracing begins, and nothing after it. */
static void
test_first_windows(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 1000; i++)
		assert_false(play(i < 7 ? 100 * MIB : 0, 0, 256 * MIB));
}

static void
test_server_grows(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 1000; i++)
		assert_false(play(64 * MIB, i % 7 == 6 ? 2 * (int64_t)MIB : 0, 256 * MIB));
}

/* At any moment, on its own account: of a hundred million MiB of growth none is taken for a leak. */
static void
test_server_grows_at_random(void **state)
{
	(void)state;
	srand(7);
	for (unsigned int i = 0; i < 100000; i++) {
		bool in = rand() % 1000 < 20; /* the share of the window */
		bool grows = rand() % 3 == 0;

		assert_false(play(
			grows && in ? 1000 * MIB : 0, grows && !in ? 1000 * (int64_t)MIB : 0, 256 * MIB));
	}
}

/* A server that gives back between windows what it took in them (a graph pool, a cache that is emptied). */
static void
test_given_back(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 1000; i++)
		assert_false(play(64 * MIB, -64 * (int64_t)MIB, 256 * MIB));
	for (unsigned int i = 0; i < 1000; i++)
		assert_false(play(64 * MIB, -63 * (int64_t)MIB, 2000 * MIB));
}

/* Windows that fill half of the time tell nothing: everything grows in them. */
static void
test_windows_everywhere(void **state)
{
	struct cs_growth_window window = {.before_bytes = BASE};

	(void)state;
	for (uint64_t i = 0; i < 1000; i++) {
		window.after_bytes = window.before_bytes + 64 * MIB;
		window.begin_ns = i * S;
		window.end_ns = i * S + S / 2;
		assert_false(cs_growth_add(&growth, &window, 256 * MIB));
		window.before_bytes = window.after_bytes;
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_leak, setup),
		cmocka_unit_test_setup(test_slow_leak, setup),
		cmocka_unit_test_setup(test_off, setup),
		cmocka_unit_test_setup(test_first_windows, setup),
		cmocka_unit_test_setup(test_server_grows, setup),
		cmocka_unit_test_setup(test_server_grows_at_random, setup),
		cmocka_unit_test_setup(test_given_back, setup),
		cmocka_unit_test_setup(test_windows_everywhere, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
