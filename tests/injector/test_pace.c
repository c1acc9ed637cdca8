/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel records of a window in which the step is known: 1, 5, 30, 500 and 2,000 ms, in graphs and eager. */
#include "clock.h"
#include "sampling/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS    CS_NS_PER_MS
#define US    CS_NS_PER_US
#define BEGIN (UINT64_C(1700000000) * CS_NS_PER_S)

static struct cs_pace pace;
static struct cs_pace_summary summary;

/* Steps of `step_ns` without a pause from long before the window; each of kernels that fill it but for 1 ms
 * (or a quarter). A kernel is recorded when it lies in the window. */
static void
run(uint64_t step_ns, uint64_t window_ns, bool eager)
{
	uint64_t pause_ns = step_ns < 4 * MS ? step_ns / 4 : MS;
	uint64_t kernel_ns = (step_ns - pause_ns) / 20;
	uint64_t phase_ns = step_ns * 2 / 5;
	uint32_t step = 1;

	if (eager && pause_ns < CS_PACE_GAP_NS)
		pause_ns = 600 * US, kernel_ns = (step_ns - pause_ns) / 20;
	cs_pace_begin(&pace, BEGIN);
	for (uint64_t at_ns = BEGIN - phase_ns; at_ns < BEGIN + window_ns; at_ns += step_ns, step++) {
		for (unsigned int i = 0; i < 20; i++) {
			uint64_t start_ns = at_ns + i * kernel_ns;

			if (start_ns >= BEGIN && start_ns + kernel_ns <= BEGIN + window_ns)
				cs_pace_kernel(&pace, eager ? step * 100 + i : step, eager ? 0 : 9, start_ns,
					start_ns + kernel_ns);
		}
	}
	cs_pace_end(&pace, BEGIN + window_ns);
	cs_pace_sum_up(&pace, &summary);
}

static void
test_steps(void **state)
{
	static const uint64_t steps_ms[] = {1, 5, 30, 500, 2000};

	(void)state;
	for (size_t i = 0; i < sizeof(steps_ms) / sizeof(steps_ms[0]); i++) {
		for (unsigned int eager = 0; eager < 2; eager++) {
			uint64_t step_ns = steps_ms[i] * MS;

			run(step_ns, 4 * step_ns, eager);
			assert_int_equal(summary.step_ns, step_ns);
			assert_true(summary.whole >= 2 && summary.whole <= 4);
			assert_int_equal(summary.length_ns, 4 * step_ns);
			run(step_ns, step_ns, eager);
			assert_int_equal(summary.step_ns, 0);
			assert_true(summary.whole < 2);
			assert_true(summary.kernels > 10);
			assert_true(summary.busy_ns > step_ns / 4);
		}
	}
}

/* More launches than the table holds. */
static void
test_many_launches(void **state)
{
	(void)state;
	run(1 * MS, 1000 * MS, false);
	assert_int_equal(summary.step_ns, 1 * MS);
	run(1 * MS, 1000 * MS, true);
	assert_int_equal(summary.step_ns, 1 * MS);
	assert_true(summary.kernels > 19000);
}

/* Records in no order. */
static void
test_order_does_not_matter(void **state)
{
	enum { STEPS = 10, KERNELS = 30 };
	unsigned int order[STEPS * KERNELS];

	(void)state;
	srand(3);
	for (unsigned int eager = 0; eager < 2; eager++) {
		for (unsigned int i = 0; i < STEPS * KERNELS; i++) {
			unsigned int other = (unsigned int)rand() % (i + 1);

			order[i] = order[other];
			order[other] = i;
		}
		cs_pace_begin(&pace, BEGIN);
		for (unsigned int i = 0; i < STEPS * KERNELS; i++) {
			uint64_t start_ns =
				BEGIN + order[i] / KERNELS * 30 * MS + order[i] % KERNELS * 900 * US;

			cs_pace_kernel(&pace, order[i] / KERNELS + 1, eager ? 0 : 9, start_ns + 5 * MS,
				start_ns + 5 * MS + 880 * US);
		}
		cs_pace_end(&pace, BEGIN + 310 * MS);
		cs_pace_sum_up(&pace, &summary);
		assert_int_equal(summary.step_ns, 30 * MS);
		assert_int_equal(summary.whole, STEPS);
		assert_int_equal(summary.kernels, STEPS * KERNELS);
	}
}

/* A verify graph of 30 ms and three launches of a draft graph of 1 ms: the step is 33 ms, verify to verify.
 */
static void
test_longest_graph(void **state)
{
	uint32_t launch = 1;

	(void)state;
	cs_pace_begin(&pace, BEGIN);
	for (uint64_t at_ns = BEGIN + 5 * MS; at_ns < BEGIN + 190 * MS; at_ns += 33 * MS) {
		cs_pace_kernel(&pace, launch++, 1, at_ns, at_ns + 30 * MS);
		for (uint64_t i = 0; i < 3; i++)
			cs_pace_kernel(
				&pace, launch++, 2, at_ns + (30 + i) * MS, at_ns + (30 + i) * MS + 900 * US);
	}
	cs_pace_end(&pace, BEGIN + 250 * MS);
	cs_pace_sum_up(&pace, &summary);
	assert_int_equal(summary.step_ns, 33 * MS);
}

/* Once a prefill of 80 ms among decode steps of 10 ms: it has much of the time, so it is usual. A graph of
 * half a millisecond that came twice is not. */
static void
test_usual(void **state)
{
	uint64_t at_ns = BEGIN + 3 * MS;
	uint32_t launch = 1;

	(void)state;
	cs_pace_begin(&pace, BEGIN);
	for (unsigned int i = 0; i < 16; i++, at_ns += 11 * MS) {
		cs_pace_kernel(&pace, launch++, 1, at_ns, at_ns + 10 * MS);
		if (i == 2 || i == 14)
			cs_pace_kernel(&pace, launch++, 2, at_ns + 10100 * US, at_ns + 10600 * US);
	}
	cs_pace_end(&pace, at_ns + 3 * MS);
	cs_pace_sum_up(&pace, &summary);
	assert_int_equal(summary.step_ns, 11 * MS);

	at_ns = BEGIN + 3 * MS;
	cs_pace_begin(&pace, BEGIN);
	for (unsigned int i = 0; i < 16; i++, at_ns += 11 * MS)
		cs_pace_kernel(&pace, launch++, 1, at_ns, at_ns + 10 * MS);
	cs_pace_kernel(&pace, launch++, 3, at_ns, at_ns + 80 * MS);
	cs_pace_end(&pace, at_ns + 100 * MS);
	cs_pace_sum_up(&pace, &summary);
	assert_int_equal(summary.step_ns, 80 * MS);
}

/* A step of 10 ms twice a second: the time between them is idle and no part of the step. */
static void
test_idle_time(void **state)
{
	(void)state;
	cs_pace_begin(&pace, BEGIN);
	for (uint32_t i = 0; i < 6; i++)
		cs_pace_kernel(&pace, i + 1, 1, BEGIN + (100 + i * 500) * MS, BEGIN + (110 + i * 500) * MS);
	cs_pace_end(&pace, BEGIN + 3000 * MS);
	cs_pace_sum_up(&pace, &summary);
	assert_int_equal(summary.step_ns, 10 * MS + CS_PACE_IDLE_NS);
	assert_int_equal(summary.busy_ns, 60 * MS);
	assert_int_equal(summary.active_ns, 2900 * MS);
}

/* Work for 30 ms, then the window waits for an hour, then work for 50: that is 130 with its last 50. */
static void
test_waiting(void **state)
{
	const uint64_t hour_ns = 3600 * CS_NS_PER_S;

	(void)state;
	cs_pace_begin(&pace, BEGIN);
	cs_pace_kernel(&pace, 1, 1, BEGIN + 20 * MS, BEGIN + 50 * MS);
	cs_pace_wait(&pace, BEGIN + 100 * MS);
	cs_pace_wait(&pace, BEGIN + 200 * MS); /* it does already */
	cs_pace_kernel(&pace, 2, 1, BEGIN + hour_ns, BEGIN + hour_ns + 5 * MS);
	cs_pace_end(&pace, BEGIN + hour_ns + 50 * MS);
	cs_pace_sum_up(&pace, &summary);
	assert_int_equal(summary.active_ns, 80 * MS + 50 * MS);
	/* No work came any more. */
	cs_pace_begin(&pace, BEGIN);
	cs_pace_kernel(&pace, 1, 1, BEGIN + 20 * MS, BEGIN + 50 * MS);
	cs_pace_wait(&pace, BEGIN + 100 * MS);
	cs_pace_end(&pace, BEGIN + hour_ns);
	cs_pace_sum_up(&pace, &summary);
	assert_int_equal(summary.active_ns, 80 * MS);
}

static void
test_nothing(void **state)
{
	(void)state;
	cs_pace_begin(&pace, BEGIN);
	cs_pace_kernel(&pace, 1, 1, BEGIN - 10 * MS, BEGIN - 5 * MS); /* of the last window */
	cs_pace_end(&pace, BEGIN + 100 * MS);
	cs_pace_kernel(&pace, 2, 1, BEGIN + 101 * MS, BEGIN + 102 * MS);
	cs_pace_sum_up(&pace, &summary);
	assert_int_equal(summary.kernels, 0);
	assert_int_equal(summary.active_ns, 0);
	assert_int_equal(summary.length_ns, 100 * MS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_many_launches),
		cmocka_unit_test(test_order_does_not_matter),
		cmocka_unit_test(test_longest_graph),
		cmocka_unit_test(test_usual),
		cmocka_unit_test(test_idle_time),
		cmocka_unit_test(test_waiting),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
