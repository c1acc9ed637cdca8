/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include "cupti/coexist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define S    CS_NS_PER_S
#define BASE (1700000000 * S)

static void
test_unsubscribe(void **state)
{
	const uint64_t context_ns = BASE;

	(void)state;
	assert_false(cs_coexist_should_unsubscribe(CS_MODE_SAMPLE, BASE, 0, 0));
	/* Graphs keep coming for ten minutes. */
	assert_false(
		cs_coexist_should_unsubscribe(CS_MODE_SAMPLE, BASE + 600 * S, context_ns, BASE + 590 * S));
	assert_true(
		cs_coexist_should_unsubscribe(CS_MODE_SAMPLE, BASE + 600 * S, context_ns, BASE + 570 * S));
	assert_true(
		cs_coexist_should_unsubscribe(CS_MODE_DEMAND, BASE + 600 * S, context_ns, BASE + 570 * S));
	assert_false(cs_coexist_should_unsubscribe(CS_MODE_FULL, BASE + 600 * S, context_ns, BASE + 570 * S));
	/* Never a graph. */
	assert_false(cs_coexist_should_unsubscribe(CS_MODE_SAMPLE, BASE + 119 * S, context_ns, 0));
	assert_true(cs_coexist_should_unsubscribe(CS_MODE_SAMPLE, BASE + 120 * S, context_ns, 0));
	/* The clock was set back. */
	assert_false(
		cs_coexist_should_unsubscribe(CS_MODE_SAMPLE, BASE - 600 * S, context_ns, BASE + 570 * S));
}

/* Longer for measuring: a minute at most, and only while there is work. */
static void
test_hold(void **state)
{
	(void)state;
	assert_false(cs_coexist_should_hold(1000 * S, 1000 * S, 0));
	assert_true(cs_coexist_should_hold(1000 * S, 1000 * S, 999 * S));
	assert_true(cs_coexist_should_hold(1059 * S, 1000 * S, 1058 * S));
	assert_false(cs_coexist_should_hold(1060 * S, 1000 * S, 1059 * S));
	assert_false(cs_coexist_should_hold(1020 * S, 1000 * S, 1010 * S));
}

/* Ten times sooner; 0 is no divisor. */
static void
test_haste(void **state)
{
	(void)state;
	cs_coexist_hurry(10);
	assert_int_equal(cs_coexist_step_back_ns(60, 0), 6 * S);
	assert_true(cs_coexist_forgives(360 * S));
	assert_false(cs_coexist_should_unsubscribe(CS_MODE_SAMPLE, BASE + 29 * S / 10, BASE, BASE));
	assert_true(cs_coexist_should_unsubscribe(CS_MODE_SAMPLE, BASE + 3 * S, BASE, BASE));
	assert_false(cs_coexist_should_unsubscribe(CS_MODE_SAMPLE, BASE + 11 * S, BASE, 0));
	assert_true(cs_coexist_should_unsubscribe(CS_MODE_SAMPLE, BASE + 12 * S, BASE, 0));
	assert_int_equal(cs_coexist_look_ns(), S / 10);
	cs_coexist_hurry(CS_COEXIST_HASTE_MAX);
	assert_int_equal(cs_coexist_look_ns(), S / 50);
	cs_coexist_hurry(0);
	assert_int_equal(cs_coexist_look_ns(), S);
	assert_int_equal(cs_coexist_step_back_ns(60, 0), 60 * S);
	assert_false(cs_coexist_forgives(3599 * S));
}

/* A minute, two, five, ten, and never more. */
static void
test_back_off(void **state)
{
	(void)state;
	assert_int_equal(cs_coexist_step_back_ns(60, 0), 60 * S);
	assert_int_equal(cs_coexist_step_back_ns(60, 1), 120 * S);
	assert_int_equal(cs_coexist_step_back_ns(60, 2), 300 * S);
	assert_int_equal(cs_coexist_step_back_ns(60, 3), 600 * S);
	assert_int_equal(cs_coexist_step_back_ns(60, 1000000), 600 * S);
	assert_int_equal(cs_coexist_step_back_ns(86400, 3), 864000 * S);
}

static void
test_verdicts(void **state)
{
	static const struct {
		struct cs_coexist_window window;
		enum cs_coexist_verdict verdict;
	} rows[] = {
		{{.requested = 1, .subscribed = true, .launches = 5}, CS_COEXIST_OURS},
		{{.completed = 1, .held = 1}, CS_COEXIST_OURS},
		{{.subscribed = true, .launches = 0}, CS_COEXIST_IDLE},
		{{.subscribed = true, .launches = 1}, CS_COEXIST_FOREIGN},
		{{.cpu_ns = 19, .length_ns = 100}, CS_COEXIST_IDLE},
		{{.cpu_ns = 20, .length_ns = 100}, CS_COEXIST_FOREIGN},
		{{.cpu_ns = 20, .length_ns = 100, .held = 1}, CS_COEXIST_SILENT},
		{{0}, CS_COEXIST_IDLE},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned int silent = 0;

		assert_int_equal(cs_coexist_judge(&rows[i].window, &silent), rows[i].verdict);
	}
}

static void
test_silence_adds_up(void **state)
{
	struct cs_coexist_window silent_window = {.subscribed = true, .launches = 9, .held = 2};
	struct cs_coexist_window ours = {.completed = 1};
	unsigned int silent = 0;

	(void)state;
	assert_int_equal(cs_coexist_judge(&silent_window, &silent), CS_COEXIST_SILENT);
	assert_int_equal(cs_coexist_judge(&silent_window, &silent), CS_COEXIST_SILENT);
	assert_int_equal(cs_coexist_judge(&ours, &silent), CS_COEXIST_OURS);
	for (unsigned int i = 1; i < CS_COEXIST_SILENT_MAX; i++)
		assert_int_equal(cs_coexist_judge(&silent_window, &silent), CS_COEXIST_SILENT);
	assert_int_equal(cs_coexist_judge(&silent_window, &silent), CS_COEXIST_FOREIGN);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unsubscribe),
		cmocka_unit_test(test_hold),
		cmocka_unit_test(test_haste),
		cmocka_unit_test(test_back_off),
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_silence_adds_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
