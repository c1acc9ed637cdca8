/* SPDX-License-Identifier: Apache-2.0 */
/* How tracing rests while buffers run short, with a clock and buffers of the test's own. */
#include "clock.h"
#include "cupti/coexist.h"
#include "cupti/tracing.h"
#include "life/release.h"
#include "records/delivery.h"
#include "worker/worker_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define S CS_NS_PER_S

static struct cs_status status;
static struct cs_worker w;
static struct cs_delivery_counts seen;
static struct cs_buffers buffers;
static bool shortage, ours;
static enum cs_depth depth;
static unsigned int questions, yielded;

struct cs_buffers *
cs_delivery_buffers(void)
{
	return &buffers;
}

void
cs_delivery_count(uint64_t ignore_before, struct cs_delivery_counts *counts)
{
	(void)ignore_before;
	*counts = seen;
}

bool
cs_delivery_is_short(void)
{
	return shortage;
}

void
cs_delivery_end_shortage(void)
{
	shortage = false;
}

enum cs_depth
cs_tracing_depth(void)
{
	return depth;
}

bool
cs_worker_ask_witness(struct cs_worker *worker)
{
	(void)worker;
	questions++;
	return ours;
}

void
cs_worker_yield_to_other(struct cs_worker *worker)
{
	(void)worker;
	yielded++;
}

void
cs_worker_shed_sampling(struct cs_worker *worker)
{
	(void)worker;
}

void
cs_worker_close_window(struct cs_worker *worker, uint32_t ordinal)
{
	(void)worker, (void)ordinal;
	depth = CS_DEPTH_OFF;
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
}

/* Tracing was on, and 70 buffers are with CUPTI. */
static int
setup(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	memset(&status, 0, sizeof(status));
	w.status = &status;
	w.monotonic_ns = 5000 * S;
	depth = CS_DEPTH_DEEP;
	shortage = true;
	ours = true;
	questions = yielded = 0;
	seen = (struct cs_delivery_counts){.requested = 100, .completed = 30, .held = 70};
	return 0;
}

/* Turns of 100 ms; how long until it does not rest any more, at most so long. */
static uint64_t
rest_for(uint64_t at_most_ns)
{
	uint64_t begin_ns = w.monotonic_ns;

	while (yielded == 0 && cs_worker_sheds(&w) && w.monotonic_ns - begin_ns < at_most_ns)
		w.monotonic_ns += 100 * CS_NS_PER_MS;
	return w.monotonic_ns - begin_ns;
}

static void
test_until_they_are_back(void **state)
{
	(void)state;
	assert_int_equal(rest_for(20 * S), 20 * S);
	assert_int_equal(depth, CS_DEPTH_OFF);
	assert_int_equal(status.tracing_rests, 1);
	assert_true(w.drain_until_ns > w.monotonic_ns);
	assert_non_null(strstr(w.reason, "Tracing rests"));
	/* None came for that long, so it was asked whose they are. */
	assert_true(questions > 0);
	assert_int_equal(yielded, 0);
	seen.completed = 98;
	seen.held = 2;
	assert_false(cs_worker_sheds(&w));
	assert_false(shortage);
	assert_string_equal(w.reason, "");
}

/* Kernels that never end have some of them. */
static void
test_some_stay_away(void **state)
{
	(void)state;
	seen.held = CS_BUFFER_FRESH_SHORT;
	assert_int_equal(rest_for(20 * S), 20 * S);
	seen.held--;
	assert_false(cs_worker_sheds(&w));
	depth = CS_DEPTH_DEEP;
	shortage = true;
	assert_in_range(rest_for(20 * S), S, 5 * S);
}

static void
test_nobody_asks_while_they_come(void **state)
{
	(void)state;
	ours = false;
	for (unsigned int i = 0; i < 30; i++, seen.completed++, seen.held--)
		assert_true(rest_for(S) >= S);
	assert_int_equal(questions, 0);
}

/* Another tool has them: not for one answer, which may be wrong. */
static void
test_they_are_another_tools(void **state)
{
	(void)state;
	ours = false;
	assert_in_range(rest_for(3600 * S), CS_COEXIST_SILENT_MAX * cs_coexist_judge_ns(), 10 * S);
	assert_int_equal(questions, CS_COEXIST_SILENT_MAX);
	assert_int_equal(yielded, 1);
}

/* CUPTI is left alone. */
static void
test_paused(void **state)
{
	(void)state;
	rest_for(S);
	w.schedule.paused = true;
	ours = false;
	assert_int_equal(rest_for(60 * S), 60 * S);
	assert_int_equal(questions, 0);
	assert_true(w.drain_until_ns < w.monotonic_ns);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_until_they_are_back, setup),
		cmocka_unit_test_setup(test_some_stay_away, setup),
		cmocka_unit_test_setup(test_nobody_asks_while_they_come, setup),
		cmocka_unit_test_setup(test_they_are_another_tools, setup),
		cmocka_unit_test_setup(test_paused, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
