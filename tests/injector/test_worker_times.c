/* SPDX-License-Identifier: Apache-2.0 */
/* When the times of records are not to be believed any more, with a clock and records of the test's own. */
#include "clock.h"
#include "cupti/tracing.h"
#include "life/release.h"
#include "worker/worker_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define S CS_NS_PER_S

static struct cs_worker w;
static struct cs_delivery_counts seen;
static enum cs_depth depth;
static unsigned int dormant;
static char given_way[256]; /* why */

void
cs_delivery_count(uint64_t ignore_before, struct cs_delivery_counts *counts)
{
	(void)ignore_before;
	*counts = seen;
}

enum cs_depth
cs_tracing_depth(void)
{
	return depth;
}

void
cs_worker_yield_clock(struct cs_worker *worker, const char *what)
{
	(void)worker;
	strncpy(given_way, what, sizeof(given_way) - 1);
}

void
cs_release(struct cs_instance *instance)
{
	(void)instance;
}

void
cs_instance_go_dormant(const char *format, ...)
{
	(void)format;
	dormant++;
}

/* A window is open. */
static int
setup(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	memset(&seen, 0, sizeof(seen));
	memset(given_way, 0, sizeof(given_way));
	w.monotonic_ns = 5000 * S;
	depth = CS_DEPTH_DEEP;
	dormant = 0;
	cs_worker_begin_timestamps(&w);
	return 0;
}

static void
look(uint64_t timed, uint64_t bad, uint64_t strange)
{
	seen.timed += timed;
	seen.bad += bad;
	seen.strange += strange;
	w.monotonic_ns += S;
	cs_worker_watch_timestamps(&w);
}

static void
test_some_are_bad(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 100; i++)
		look(1000, 500, 0);
	look(999, 999, 0); /* too few to tell */
	assert_int_equal(dormant, 0);
	assert_string_equal(given_way, "");
}

static void
test_most_have_none(void **state)
{
	(void)state;
	look(600, 600, 0);
	assert_int_equal(dormant, 0);
	look(400, 1, 0);
	assert_int_equal(dormant, 1);
	assert_string_equal(given_way, "");
}

static void
test_none_after_another_clock(void **state)
{
	(void)state;
	w.clock_replaced = true;
	look(1000, 1000, 0);
	assert_int_equal(dormant, 0);
	assert_non_null(strstr(given_way, "records have no times"));
}

static void
test_another_clock(void **state)
{
	(void)state;
	look(1000, 600, 400);
	assert_int_equal(dormant, 0);
	assert_string_equal(
		given_way, "has set CUPTI's clock, so that the times of its records mean nothing");
}

/* What comes between windows is another tool's; a window's last records come after its end. */
static void
test_between_windows(void **state)
{
	(void)state;
	depth = CS_DEPTH_OFF;
	look(5000, 5000, 5000);
	depth = CS_DEPTH_DEEP;
	look(5000, 0, 0);
	assert_string_equal(given_way, "");
	depth = CS_DEPTH_OFF;
	w.drain_until_ns = w.monotonic_ns + CS_WORKER_DRAIN_NS;
	look(1000, 1000, 1000);
	assert_string_not_equal(given_way, "");
}

/* CUPTI goes on by the old one for a window, and then follows; or it does not. */
static void
test_clock_is_set_forward(void **state)
{
	(void)state;
	cs_worker_note_clock_set(&w, true);
	look(5000, 5000, 5000);
	look(5000, 0, 0);
	assert_string_equal(given_way, "");
	look(5000, 5000, 5000);
	assert_non_null(strstr(given_way, "CUPTI has not followed the computer's"));
}

static void
test_clock_is_set_forward_and_not_followed(void **state)
{
	(void)state;
	cs_worker_note_clock_set(&w, true);
	look(5000, 5000, 5000);
	look(5000, 5000, 5000);
	assert_non_null(strstr(given_way, "CUPTI has not followed the computer's"));
}

/* That forgives no lack of times. */
static void
test_clock_is_set_and_most_have_none(void **state)
{
	(void)state;
	cs_worker_note_clock_set(&w, true);
	look(1000, 1000, 0);
	assert_int_equal(dormant, 1);
}

static void
test_clock_is_set_back(void **state)
{
	(void)state;
	cs_worker_note_clock_set(&w, false);
	look(1000, 600, 400);
	assert_string_equal(
		given_way, "has set CUPTI's clock, so that the times of its records mean nothing");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_some_are_bad, setup),
		cmocka_unit_test_setup(test_most_have_none, setup),
		cmocka_unit_test_setup(test_none_after_another_clock, setup),
		cmocka_unit_test_setup(test_another_clock, setup),
		cmocka_unit_test_setup(test_between_windows, setup),
		cmocka_unit_test_setup(test_clock_is_set_forward, setup),
		cmocka_unit_test_setup(test_clock_is_set_forward_and_not_followed, setup),
		cmocka_unit_test_setup(test_clock_is_set_and_most_have_none, setup),
		cmocka_unit_test_setup(test_clock_is_set_back, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
