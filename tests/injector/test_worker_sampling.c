/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's sampling, with a clock and records of the test's own; CUPTI and its rooms are doubles. */
#include "clock.h"
#include "cupti/subscription.h"
#include "labels/labels.h"
#include "records/delivery.h"
#include "worker/worker_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS   CS_NS_PER_MS
#define S    CS_NS_PER_S
#define HOUR (3600 * S)
/* A multiple of all grids. */
#define BASE (1700000000ULL / 640 * 640 * S)
#define BOOT (5000 * S)

static struct cs_status status;
static struct cs_worker w;
static struct cs_pace recorded;
static bool subscribed;
static unsigned int set_back;
static struct cs_steps_graph measured;

void
cs_delivery_pace_begin(uint64_t now_ns)
{
	cs_pace_begin(&recorded, now_ns);
}

void
cs_delivery_pace_end(uint64_t now_ns)
{
	cs_pace_end(&recorded, now_ns);
}

void
cs_delivery_pace_look(uint64_t *kernels, uint64_t *first_ns)
{
	*kernels = recorded.kernels;
	*first_ns = recorded.waiting_ns != 0 ? recorded.after_ns : recorded.first_ns;
}

void
cs_delivery_pace_take(struct cs_pace *pace)
{
	*pace = recorded;
}

void
cs_delivery_note_set(bool back)
{
	set_back += back;
}

void
cs_worker_note_clock_set(struct cs_worker *worker, bool forward)
{
	(void)worker, (void)forward;
}

bool
cs_subscription_held(void)
{
	return subscribed;
}

size_t
cs_subscription_steps(struct cs_steps_graph *graphs)
{
	graphs[0] = measured;
	return measured.untraced_count != 0;
}

void
cs_subscription_name_graph(uint32_t correlation_id, uint32_t graph_id)
{
	(void)correlation_id, (void)graph_id;
}

uint64_t
cs_labels_eager_collectives(void)
{
	return 0;
}

void
cs_windows_work(struct cs_windows *windows, uint64_t work_ns, uint64_t now_ns)
{
	(void)windows, (void)work_ns, (void)now_ns;
}

void
cs_windows_set_clock(struct cs_windows *windows, uint64_t before_ns, uint64_t now_ns)
{
	(void)windows, (void)before_ns, (void)now_ns;
}

static int
setup(void **state)
{
	struct cs_settings settings = {
		.mode = CS_MODE_SAMPLE, .period_ms = 10000, .window_ms = 100, .budget = 0.01};

	(void)state;
	memset(&w, 0, sizeof(w));
	memset(&status, 0, sizeof(status));
	memset(&recorded, 0, sizeof(recorded));
	memset(&measured, 0, sizeof(measured));
	subscribed = false;
	set_back = 0;
	w.status = &status;
	cs_schedule_init(&w.schedule, &settings);
	cs_governor_init(&w.governor, settings.budget, w.schedule.period_ns, w.schedule.window_ns);
	return 0;
}

static void
turn_to(enum cs_depth depth, uint32_t ordinal)
{
	if (w.windows.open.depth == CS_DEPTH_DEEP)
		cs_worker_end_sampling(&w);
	w.windows.open = (struct cs_window){.depth = depth, .ordinal = ordinal};
	if (depth == CS_DEPTH_DEEP)
		cs_worker_begin_sampling(&w);
}

/* As worker.c does. Returns whether the window is open then. */
static bool
turn(uint64_t now_ns, uint64_t monotonic_ns)
{
	struct cs_schedule_plan plan;

	cs_worker_take_clocks(&w, now_ns, monotonic_ns);
	cs_schedule_look(&w.schedule, now_ns, monotonic_ns, &plan);
	cs_worker_plan_sampling(&w, &plan);
	if (plan.depth != w.windows.open.depth ||
		(plan.depth != CS_DEPTH_OFF &&
			(plan.ordinal != w.windows.open.ordinal || plan.sampled == w.asked)))
		if (!w.lingering || plan.depth == CS_DEPTH_DEEP) {
			w.asked = !plan.sampled;
			turn_to(plan.depth, plan.ordinal);
		}
	if (w.unsettled && monotonic_ns >= w.settle_ns)
		cs_worker_govern(&w);
	return w.windows.open.depth == CS_DEPTH_DEEP;
}

static bool
turn_at(uint64_t since_ns)
{
	return turn(BASE + since_ns, BOOT + since_ns);
}

/* Kernels without a pause between. */
static void
hand_over(uint64_t from_ns, uint64_t until_ns, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		uint64_t start_ns = from_ns + (until_ns - from_ns) * i / count;

		cs_pace_kernel(&recorded, 0, 0, start_ns, start_ns + 1000);
	}
}

static uint64_t
spent_ns(void)
{
	return cs_spending_total_ns(&w.governor.spending, w.monotonic_ns) - w.governor.spending.reserved_ns;
}

/* Buffers run short before a record has been handed over: that is no window without work. */
static void
test_shed(void **state)
{
	(void)state;
	assert_true(turn_at(0));
	turn_at(10 * MS);
	/* As worker_shed.c does. */
	w.shedding_ns = w.monotonic_ns;
	cs_worker_shed_sampling(&w);
	turn_to(CS_DEPTH_OFF, w.windows.open.ordinal);
	assert_false(turn_at(20 * MS));
	assert_true(w.unsettled);
	w.shedding_ns = 0;
	/* It is not opened again, and has a second until it is settled. */
	assert_false(turn_at(30 * MS));
	assert_false(turn_at(500 * MS));
	assert_true(w.unsettled);
	assert_false(turn_at(1100 * MS));
	assert_false(w.unsettled);
	assert_int_equal(spent_ns(), 45 * MS);
	assert_int_equal(w.governor.quick, CS_GOVERNOR_QUICK - 1);
	/* The next one is. */
	assert_true(turn_at(10000 * MS));
	assert_int_equal(status.windows_skipped, 0);
}

/* Nor is it at what the few kernels cost that were handed over in time. */
static void
test_shed_in_part(void **state)
{
	(void)state;
	assert_true(turn_at(0));
	turn_at(10 * MS);
	hand_over(BASE, BASE + 1 * MS, 5);
	cs_worker_shed_sampling(&w);
	turn_to(CS_DEPTH_OFF, w.windows.open.ordinal);
	assert_false(turn_at(1100 * MS));
	assert_int_equal(spent_ns(), 45 * MS);
	assert_true(w.governor.bound < 0.01);
}

/* A window that is cut short is settled when its records are in, not at the next turn. */
static void
test_cut_short(void **state)
{
	(void)state;
	w.schedule.window_ns = 4000 * MS;
	w.governor.bound = 0.01; /* it looked cheap */
	assert_true(turn_at(0));
	hand_over(BASE, BASE + 1000 * MS, 310000);
	assert_false(turn_at(1000 * MS));
	assert_int_equal(status.windows_skipped, 1);
	assert_false(turn_at(1100 * MS));
	assert_true(w.unsettled);
	hand_over(BASE + 900 * MS, BASE + 1000 * MS, 10000);
	assert_false(turn_at(1950 * MS));
	assert_true(w.unsettled);
	assert_false(turn_at(2000 * MS));
	assert_false(w.unsettled);
	assert_int_equal(spent_ns(), 320000 * CS_GOVERNOR_KERNEL_NS);
}

/* The next window comes before that: its records are not there yet, which is not that there are none. */
static void
test_early(void **state)
{
	(void)state;
	w.schedule.period_ns = 500 * MS;
	assert_true(turn_at(0));
	assert_false(turn_at(100 * MS));
	turn_at(500 * MS);
	assert_false(w.unsettled);
	assert_int_equal(spent_ns(), 45 * MS);
	assert_int_equal(w.governor.quick, CS_GOVERNOR_QUICK - 1);
}

/* An idle server: the windows go on waiting, and cost nothing. */
static void
test_idle(void **state)
{
	(void)state;
	assert_true(turn_at(0));
	w.lingering = true; /* worker_windows.c: nothing has come */
	for (uint64_t since_ns = 100 * MS; since_ns < 600 * S; since_ns += 50 * MS) {
		turn_at(since_ns);
		w.lingering = true;
		assert_true(w.sampling);
	}
	assert_int_equal(spent_ns(), 0);
	assert_int_equal(w.governor.quick, CS_GOVERNOR_QUICK);
}

/* A request that begins or ends within a window of the plan takes it over, although both were due at the
 * same moment: only the plan's part is in the account. */
static void
test_asked_within_a_window(void **state)
{
	struct cs_segment_request request = {
		.command = CS_COMMAND_TRACE, .from_ns = BASE + 20 * MS, .until_ns = BASE + 10010 * MS};

	(void)state;
	w.schedule.trace_max_ns = HOUR;
	assert_true(turn_at(0));
	assert_int_equal(cs_schedule_request(&w.schedule, &request, BASE, BOOT), 0);
	hand_over(BASE, BASE + 20 * MS, 10);
	assert_true(turn_at(20 * MS));
	assert_false(w.sampling);
	for (uint64_t since_ns = 100 * MS; since_ns < 10000 * MS; since_ns += 100 * MS) {
		hand_over(BASE + since_ns, BASE + since_ns + 1 * MS, 1000);
		assert_true(turn_at(since_ns));
	}
	assert_int_equal(spent_ns(), 10 * CS_GOVERNOR_KERNEL_NS);
	assert_true(turn_at(10000 * MS));
	assert_false(w.sampling);
	assert_true(turn_at(10010 * MS));
	assert_true(w.sampling);
	assert_int_equal(spent_ns(), 10 * CS_GOVERNOR_KERNEL_NS);
	hand_over(BASE + 10010 * MS, BASE + 10100 * MS, 30);
	assert_false(turn_at(10100 * MS));
	turn_at(11100 * MS);
	assert_int_equal(spent_ns(), 40 * CS_GOVERNOR_KERNEL_NS);
}

/* The subscription is given up with a ratio of 1 on its books: from then on kernels are taken to cost time.
 */
static void
test_sight_is_lost(void **state)
{
	(void)state;
	subscribed = true;
	w.governor.perturbation = 0;
	measured = (struct cs_steps_graph){.graph_id = 3,
		.traced_count = 20,
		.untraced_count = 20,
		.untraced_total = 40,
		.traced_ns = 2600000,
		.untraced_ns = 2600000};
	assert_true(turn_at(0));
	hand_over(BASE, BASE + 100 * MS, 30000);
	assert_false(turn_at(100 * MS));
	assert_false(turn_at(1100 * MS));
	assert_int_equal(spent_ns(), 0);
	subscribed = false;
	assert_true(turn_at(10000 * MS));
	assert_int_equal(spent_ns(), 30 * MS);
	/* 30 ms of every 100, that is 3/7 of what is left. */
	assert_in_range(w.governor.spending.reserved_ns, w.schedule.window_ns * 3 / 7 - 1,
		w.schedule.window_ns * 3 / 7 + 1);
}

/* -- the clock is set ------------------------------------------------------------------------------------ */

/* Opens a window, lets it wait, and brings it work at 1 s. */
static void
prolong(void)
{
	assert_true(turn_at(0));
	w.lingering = true;
	cs_pace_wait(&recorded, BASE + 100 * MS);
	assert_true(turn_at(100 * MS));
	hand_over(BASE + 990 * MS, BASE + 1000 * MS, 10);
	turn_at(1000 * MS);
	w.lingering = false; /* worker_coexist.c: buffers have come */
	assert_true(cs_worker_prolong_sampling(&w));
}

static void
test_prolonged(void **state)
{
	(void)state;
	prolong();
	assert_true(turn_at(1089 * MS));
	assert_false(turn_at(1090 * MS));
}

static void
test_prolonged_and_set_back(void **state)
{
	(void)state;
	prolong();
	assert_true(turn(BASE - HOUR + 1089 * MS, BOOT + 1089 * MS));
	assert_false(turn(BASE - HOUR + 1090 * MS, BOOT + 1090 * MS));
}

static void
test_prolonged_and_set_forward(void **state)
{
	(void)state;
	prolong();
	assert_true(turn(BASE + HOUR + 1089 * MS, BOOT + 1089 * MS));
	assert_false(turn(BASE + HOUR + 1090 * MS, BOOT + 1090 * MS));
}

/* Set by an hour within a window: it was no longer for that, and did not cost nothing either. */
static void
test_set_in_a_window(void **state)
{
	static const int64_t steps_ns[] = {
		(int64_t)HOUR, -(int64_t)HOUR, 60 * (int64_t)MS, -60 * (int64_t)MS};

	for (size_t i = 0; i < sizeof(steps_ns) / sizeof(steps_ns[0]); i++) {
		uint64_t base_ns = BASE + (uint64_t)steps_ns[i];

		setup(state);
		assert_true(turn_at(0));
		hand_over(BASE + 10 * MS, BASE + 40 * MS, 1000);
		assert_true(turn_at(40 * MS));
		turn(base_ns + 50 * MS, BOOT + 50 * MS);
		turn(base_ns + 200 * MS, BOOT + 200 * MS);
		turn(base_ns + 1300 * MS, BOOT + 1300 * MS);
		assert_false(w.unsettled);
		assert_in_range(spent_ns(), 45 * MS, 90 * MS);
		assert_int_equal(status.windows_skipped, 0);
		assert_int_equal(set_back, steps_ns[i] < 0);
		/* What it had learnt, nothing: the next one is as long. */
		assert_int_equal(w.schedule.window_ns, 100 * MS);
	}
}

/* After its end, while its records are awaited: it is measured as ever. */
static void
test_set_after_a_window(void **state)
{
	(void)state;
	assert_true(turn_at(0));
	hand_over(BASE, BASE + 100 * MS, 1000);
	assert_false(turn_at(100 * MS));
	assert_false(turn(BASE + HOUR + 500 * MS, BOOT + 500 * MS));
	assert_false(turn(BASE + HOUR + 1100 * MS, BOOT + 1100 * MS));
	assert_int_equal(spent_ns(), 1000 * CS_GOVERNOR_KERNEL_NS);
}

/* The guard on the cost of an open window: 20 % of its length is 600 ms after 3 s, whatever the clock says.
 */
static void
test_guard_and_set_clock(void **state)
{
	static const int64_t steps_ns[] = {0, -(int64_t)(640 * S), 640 * S};

	for (size_t i = 0; i < sizeof(steps_ns) / sizeof(steps_ns[0]); i++) {
		uint64_t base_ns = BASE + (uint64_t)steps_ns[i];

		setup(state);
		w.schedule.period_ns = 640 * S;
		w.schedule.window_ns = 6400 * MS;
		subscribed = true; /* nothing else tells but time */
		w.governor.perturbation = 0.08;
		assert_true(turn_at(0));
		hand_over(BASE, BASE + 100 * MS, 100);
		w.governor.perturbation = 0.2;
		assert_true(turn_at(100 * MS));
		/* A whole period: the plan knows the window by another ordinal then, which is not the matter
		 * here. */
		w.windows.open.ordinal = (uint32_t)(base_ns / CS_SCHEDULE_ORDINAL_NS);
		assert_true(turn(base_ns + 2900 * MS, BOOT + 2900 * MS));
		assert_false(turn(base_ns + 3001 * MS, BOOT + 3001 * MS));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_shed, setup),
		cmocka_unit_test_setup(test_shed_in_part, setup),
		cmocka_unit_test_setup(test_cut_short, setup),
		cmocka_unit_test_setup(test_early, setup),
		cmocka_unit_test_setup(test_idle, setup),
		cmocka_unit_test_setup(test_asked_within_a_window, setup),
		cmocka_unit_test_setup(test_sight_is_lost, setup),
		cmocka_unit_test_setup(test_prolonged, setup),
		cmocka_unit_test_setup(test_prolonged_and_set_back, setup),
		cmocka_unit_test_setup(test_prolonged_and_set_forward, setup),
		cmocka_unit_test_setup(test_set_in_a_window, setup),
		cmocka_unit_test_setup(test_set_after_a_window, setup),
		cmocka_unit_test(test_guard_and_set_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
