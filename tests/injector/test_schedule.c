/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include "sampling/schedule.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MS   CS_NS_PER_MS
#define BASE 1700000000000000000ULL /* a multiple of ten seconds */

static struct cs_schedule
make(enum cs_mode mode)
{
	struct cs_settings settings = {
		.mode = mode, .period_ms = 10000, .window_ms = 100, .trace_max_s = 600};
	struct cs_schedule schedule;

	cs_schedule_init(&schedule, &settings);
	return schedule;
}

static struct cs_schedule_plan
look(struct cs_schedule *schedule, uint64_t now_ns)
{
	struct cs_schedule_plan plan;

	cs_schedule_look(schedule, now_ns, now_ns, &plan);
	assert_true(plan.until_ns > now_ns);
	return plan;
}

static void
test_sample_windows(void **state)
{
	static const struct {
		uint64_t offset_ns;
		enum cs_depth depth;
		uint64_t until_ns;
	} rows[] = {
		{0, CS_DEPTH_DEEP, 100 * MS},
		{100 * MS - 1, CS_DEPTH_DEEP, 100 * MS},
		{100 * MS, CS_DEPTH_OFF, 10000 * MS},
		{9999 * MS, CS_DEPTH_OFF, 10000 * MS},
	};
	struct cs_schedule schedule = make(CS_MODE_SAMPLE);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cs_schedule_plan plan = look(&schedule, BASE + rows[i].offset_ns);

		assert_int_equal(plan.depth, rows[i].depth);
		assert_int_equal(plan.until_ns, BASE + rows[i].until_ns);
		assert_int_equal(plan.ordinal, (uint32_t)(BASE / MS));
	}
}

/* Walking from edge to edge through ten periods meets every window once, in order. */
static void
test_walk(void **state)
{
	struct cs_schedule schedule = make(CS_MODE_SAMPLE);
	uint64_t now_ns = BASE, time_ns[CS_DEPTH_COUNT] = {0};

	(void)state;
	while (now_ns < BASE + 100000 * MS) {
		struct cs_schedule_plan plan = look(&schedule, now_ns);

		time_ns[plan.depth] += plan.until_ns - now_ns;
		now_ns = plan.until_ns;
	}
	assert_int_equal(time_ns[CS_DEPTH_DEEP], 1000 * MS);
	assert_int_equal(time_ns[CS_DEPTH_LIGHT], 0);
	assert_int_equal(time_ns[CS_DEPTH_OFF], 99000 * MS);
}

/* A process that looks four times less often looks when the others do. */
static void
test_longer_periods_meet(void **state)
{
	struct cs_schedule often = make(CS_MODE_SAMPLE);
	struct cs_schedule rarely = make(CS_MODE_SAMPLE);
	unsigned int met = 0;

	(void)state;
	rarely.period_ns *= 4;
	for (uint64_t now_ns = BASE; now_ns < BASE + 400000 * MS; now_ns += 50 * MS) {
		enum cs_depth depth = look(&rarely, now_ns).depth;

		if (depth == CS_DEPTH_OFF)
			continue;
		assert_int_equal(depth, look(&often, now_ns).depth);
		met++;
	}
	assert_int_equal(met, 10 * 2);
}

/* Windows that begin at one moment have one ordinal in all processes, others another. */
static void
test_one_ordinal(void **state)
{
	struct cs_schedule base = make(CS_MODE_SAMPLE);
	struct cs_schedule others[] = {base, base, base, make(CS_MODE_FULL)};
	uint32_t last = 0;

	(void)state;
	others[0].period_ns *= 4;
	others[1].window_ns *= 8;
	others[2].quick_ns = 2500 * MS;
	for (uint64_t since_ns = 0; since_ns < 400000 * MS; since_ns += 10000 * MS) {
		uint32_t ordinal = look(&base, BASE + since_ns + 20 * MS).ordinal;

		assert_int_not_equal(ordinal, last);
		last = ordinal;
		for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
			struct cs_schedule_plan plan = look(&others[i], BASE + since_ns + 20 * MS);

			if (plan.depth == CS_DEPTH_DEEP)
				assert_int_equal(plan.ordinal, ordinal);
		}
		assert_int_not_equal(look(&others[2], BASE + since_ns + 2500 * MS).ordinal, ordinal);
		assert_int_not_equal(look(&others[3], BASE + since_ns + 1000 * MS).ordinal, ordinal);
	}
}

/* On the finer grid too the regular windows are met: their starts are among its starts. */
static void
test_quick_grid(void **state)
{
	struct cs_schedule quick = make(CS_MODE_SAMPLE);
	struct cs_schedule regular = make(CS_MODE_SAMPLE);
	unsigned int windows = 0;

	(void)state;
	quick.quick_ns = 2500 * MS;
	for (uint64_t now_ns = BASE; now_ns < BASE + 40000 * MS; now_ns = look(&quick, now_ns).until_ns)
		windows += look(&quick, now_ns).depth == CS_DEPTH_DEEP;
	assert_int_equal(windows, 16);
	for (uint64_t now_ns = BASE; now_ns < BASE + 40000 * MS; now_ns = look(&regular, now_ns).until_ns)
		if (look(&regular, now_ns).depth == CS_DEPTH_DEEP)
			assert_int_equal(look(&quick, now_ns).depth, CS_DEPTH_DEEP);
}

/* One process looks for a shorter time than the other: its windows begin together with, and lie in, the
 * other's. */
static void
test_longer_windows_meet(void **state)
{
	struct cs_schedule brief = make(CS_MODE_SAMPLE);
	struct cs_schedule lengthy = make(CS_MODE_SAMPLE);

	(void)state;
	lengthy.window_ns = 3200 * MS;
	lengthy.period_ns *= 4;
	for (uint64_t now_ns = BASE; now_ns < BASE + 160000 * MS; now_ns += 20 * MS)
		if (look(&lengthy, now_ns).depth == CS_DEPTH_DEEP && now_ns % (10000 * MS) < 100 * MS)
			assert_int_equal(look(&brief, now_ns).depth, CS_DEPTH_DEEP);
}

/* What the budget pays for is told from what somebody asked for. */
static void
test_who_pays(void **state)
{
	struct cs_schedule schedule = make(CS_MODE_SAMPLE);

	(void)state;
	assert_true(look(&schedule, BASE).sampled);
	schedule.asked = true;
	schedule.asked_until_ns = schedule.asked_until_monotonic_ns = BASE + 60 * MS;
	assert_false(look(&schedule, BASE).sampled);
	assert_true(look(&schedule, BASE + 60 * MS).sampled);
	schedule.window_ns = schedule.period_ns; /* always on */
	assert_true(look(&schedule, BASE + 60 * MS).sampled);
}

static void
test_crowded_period(void **state)
{
	struct cs_schedule schedule = make(CS_MODE_SAMPLE);

	(void)state;
	schedule.period_ns = 200 * MS;
	assert_int_equal(look(&schedule, BASE + 99 * MS).depth, CS_DEPTH_DEEP);
	assert_int_equal(look(&schedule, BASE + 100 * MS).depth, CS_DEPTH_OFF);
	schedule.period_ns = 100 * MS;
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(look(&schedule, BASE + i * MS).depth, CS_DEPTH_DEEP);
}

static void
test_modes(void **state)
{
	struct cs_schedule full = make(CS_MODE_FULL);
	struct cs_schedule demand = make(CS_MODE_DEMAND);

	(void)state;
	assert_int_equal(look(&full, BASE + 5 * MS).depth, CS_DEPTH_DEEP);
	assert_int_equal(look(&full, BASE + 5 * MS).until_ns, BASE + 1000 * MS);
	assert_int_not_equal(look(&full, BASE).ordinal, look(&full, BASE + 1000 * MS).ordinal);
	assert_int_equal(look(&demand, BASE).depth, CS_DEPTH_OFF);
}

static int
request(struct cs_schedule *schedule, uint64_t command, uint64_t from_ns, uint64_t until_ns, uint64_t now_ns)
{
	struct cs_segment_request request = {.command = command, .from_ns = from_ns, .until_ns = until_ns};

	return cs_schedule_request(schedule, &request, now_ns, now_ns);
}

static void
test_asked(void **state)
{
	struct cs_schedule schedule = make(CS_MODE_DEMAND);

	(void)state;
	assert_int_equal(request(&schedule, CS_COMMAND_TRACE, BASE + 500 * MS, BASE + 2500 * MS, BASE), 0);
	assert_int_equal(look(&schedule, BASE).depth, CS_DEPTH_OFF);
	assert_int_equal(look(&schedule, BASE).until_ns, BASE + 500 * MS);
	assert_int_equal(look(&schedule, BASE + 500 * MS).depth, CS_DEPTH_DEEP);
	assert_int_equal(look(&schedule, BASE + 2400 * MS).until_ns, BASE + 2500 * MS);
	assert_int_equal(look(&schedule, BASE + 2500 * MS).depth, CS_DEPTH_OFF);
	/* It is over, even if the clock is set back into it. */
	assert_int_equal(look(&schedule, BASE + 1000 * MS).depth, CS_DEPTH_OFF);
}

static void
test_refused(void **state)
{
	struct cs_schedule schedule = make(CS_MODE_SAMPLE);
	const uint64_t longest_ns = 600000 * MS;

	(void)state;
	assert_int_equal(request(&schedule, CS_COMMAND_TRACE, BASE, BASE, BASE), EINVAL);
	assert_int_equal(request(&schedule, CS_COMMAND_TRACE, BASE + 2, BASE + 1, BASE), EINVAL);
	/* Others have begun without it. */
	assert_int_equal(request(&schedule, CS_COMMAND_TRACE, BASE - 1, BASE + 1000 * MS, BASE), ETIME);
	assert_int_equal(request(&schedule, CS_COMMAND_TRACE, BASE, BASE + longest_ns + 1, BASE), ERANGE);
	assert_int_equal(request(&schedule, CS_COMMAND_TRACE, BASE, UINT64_MAX, BASE), ERANGE);
	assert_int_equal(request(&schedule, CS_COMMAND_TRACE, BASE + CS_REQUEST_AHEAD_MAX_NS + 1,
				 BASE + CS_REQUEST_AHEAD_MAX_NS + 2, BASE),
		ERANGE);
	assert_int_equal(request(&schedule, 99, 0, 0, BASE), EOPNOTSUPP);
	assert_false(schedule.asked);
	schedule.trace_max_ns = 0;
	assert_int_equal(request(&schedule, CS_COMMAND_TRACE, BASE, BASE + 1, BASE), EPERM);
	schedule.trace_max_ns = longest_ns;
	assert_int_equal(request(&schedule, CS_COMMAND_TRACE, BASE, BASE + longest_ns, BASE), 0);
}

/* A second trace is refused while the first runs or waits, unless it says that it takes its place. */
static void
test_second_trace(void **state)
{
	struct cs_schedule schedule = make(CS_MODE_DEMAND);
	struct cs_segment_request replacing = {.command = CS_COMMAND_TRACE,
		.from_ns = BASE + 600 * MS,
		.until_ns = BASE + 700 * MS,
		.argument = CS_TRACE_REPLACE | 500000};

	(void)state;
	assert_int_equal(request(&schedule, CS_COMMAND_TRACE, BASE + 500 * MS, BASE + 2000 * MS, BASE), 0);
	assert_int_equal(
		request(&schedule, CS_COMMAND_TRACE, BASE + 100 * MS, BASE + 200 * MS, BASE), EALREADY);
	assert_int_equal(
		request(&schedule, CS_COMMAND_TRACE, BASE + 1999 * MS, BASE + 3000 * MS, BASE + 1999 * MS),
		EALREADY);
	assert_int_equal(look(&schedule, BASE + 1000 * MS).depth, CS_DEPTH_DEEP);
	assert_int_equal(cs_schedule_request(&schedule, &replacing, BASE, BASE), 0);
	assert_int_equal(schedule.asked_until_ns, replacing.until_ns);
	assert_int_equal(
		schedule.asked_window_ns, 50 * MS); /* the share is what the flag leaves of the argument */
	/* It has ended, though nobody has looked since. */
	assert_int_equal(
		request(&schedule, CS_COMMAND_TRACE, BASE + 700 * MS, BASE + 800 * MS, BASE + 700 * MS), 0);
}

/* Only that very trace. */
static void
test_cancelled(void **state)
{
	struct cs_schedule schedule = make(CS_MODE_DEMAND);

	(void)state;
	assert_int_equal(request(&schedule, CS_COMMAND_CANCEL, BASE, BASE + 1000 * MS, BASE), 0);
	assert_int_equal(request(&schedule, CS_COMMAND_TRACE, BASE, BASE + 1000 * MS, BASE), 0);
	assert_int_equal(request(&schedule, CS_COMMAND_CANCEL, BASE, BASE + 1001 * MS, BASE), 0);
	assert_int_equal(look(&schedule, BASE + MS).depth, CS_DEPTH_DEEP);
	assert_int_equal(request(&schedule, CS_COMMAND_CANCEL, BASE, BASE + 1000 * MS, BASE), 0);
	assert_int_equal(look(&schedule, BASE + MS).depth, CS_DEPTH_OFF);
}

/* Time that is traced of a request with a share, walking from edge to edge; and when its windows begin. */
static uint64_t
traced_ns(double perturbation, uint64_t share_ppm, uint64_t length_ns, uint64_t *windows, uint64_t *grid_ns)
{
	struct cs_schedule schedule = make(CS_MODE_DEMAND);
	struct cs_segment_request request = {.command = CS_COMMAND_TRACE,
		.from_ns = BASE + 123 * MS,
		.until_ns = BASE + 123 * MS + length_ns,
		.argument = share_ppm};
	uint64_t now_ns = request.from_ns, sum_ns = 0;

	schedule.perturbation = perturbation;
	assert_int_equal(cs_schedule_request(&schedule, &request, BASE, BASE), 0);
	*windows = 0;
	*grid_ns = schedule.asked_period_ns;
	assert_int_equal(look(&schedule, now_ns).depth, CS_DEPTH_DEEP);
	while (now_ns < request.until_ns) {
		struct cs_schedule_plan plan = look(&schedule, now_ns);

		if (plan.depth == CS_DEPTH_DEEP) {
			sum_ns += plan.until_ns - now_ns;
			*windows += (now_ns - request.from_ns) % (*grid_ns ? *grid_ns : length_ns) == 0;
		}
		now_ns = plan.until_ns;
	}
	return sum_ns;
}

static void
test_share(void **state)
{
	uint64_t windows, grid_ns;

	(void)state;
	/* No limit, and one that deep tracing keeps to anyway. */
	assert_int_equal(traced_ns(0.45, 0, 10000 * MS, &windows, &grid_ns), 10000 * MS);
	assert_int_equal(traced_ns(0.05, 50000, 10000 * MS, &windows, &grid_ns), 10000 * MS);
	/* 0.09 of the time is a fifth of 0.45. */
	assert_in_range(traced_ns(0.45, 90000, 10000 * MS, &windows, &grid_ns), 1999 * MS, 2000 * MS);
	assert_int_equal(windows, 10);
	/* 1/45 of a second is shorter than a window of 100 ms: each eight seconds 178 ms. */
	assert_in_range(traced_ns(0.45, 10000, 80000 * MS, &windows, &grid_ns), 1777 * MS, 1778 * MS);
	assert_int_equal(windows, 10);
	assert_int_equal(grid_ns, 8000 * MS);
	/* Never more than the share of the request. */
	assert_in_range(traced_ns(0.45, 10000, 2000 * MS, &windows, &grid_ns), 44 * MS, 45 * MS);
	assert_int_equal(windows, 1);
	/* Where it costs nothing it is no limit. */
	assert_int_equal(traced_ns(0.00001, 100, 2000 * MS, &windows, &grid_ns), 2000 * MS);
}

static void
test_share_in_full_mode(void **state)
{
	struct cs_schedule schedule = make(CS_MODE_FULL);
	struct cs_segment_request request = {
		.command = CS_COMMAND_TRACE, .from_ns = BASE, .until_ns = BASE + 9000 * MS, .argument = 1000};

	(void)state;
	assert_int_equal(cs_schedule_request(&schedule, &request, BASE, BASE), 0);
	assert_int_equal(look(&schedule, BASE + 999 * MS).depth, CS_DEPTH_DEEP);
	request.argument = 1000001;
	assert_int_equal(cs_schedule_request(&schedule, &request, BASE, BASE), EINVAL);
}

static void
test_pause(void **state)
{
	struct cs_schedule schedule = make(CS_MODE_FULL);

	(void)state;
	assert_int_equal(request(&schedule, CS_COMMAND_PAUSE, 0, 0, BASE), 0);
	assert_int_equal(look(&schedule, BASE).depth, CS_DEPTH_OFF);
	assert_int_equal(request(&schedule, CS_COMMAND_TRACE, BASE, BASE + MS, BASE), EBUSY);
	assert_int_equal(request(&schedule, CS_COMMAND_RESUME, 0, 0, BASE), 0);
	assert_int_equal(look(&schedule, BASE).depth, CS_DEPTH_DEEP);
}

/* The clock is set back an hour in the middle of a request of two seconds: it still ends after two. */
static void
test_clock_set_back(void **state)
{
	struct cs_schedule schedule = make(CS_MODE_DEMAND);
	struct cs_schedule_plan plan;

	(void)state;
	assert_int_equal(request(&schedule, CS_COMMAND_TRACE, BASE, BASE + 2000 * MS, BASE), 0);
	cs_schedule_look(&schedule, BASE + 1000 * MS - 3600000 * MS, BASE + 2001 * MS, &plan);
	assert_int_equal(plan.depth, CS_DEPTH_OFF);
	assert_false(schedule.asked);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sample_windows),
		cmocka_unit_test(test_walk),
		cmocka_unit_test(test_longer_periods_meet),
		cmocka_unit_test(test_one_ordinal),
		cmocka_unit_test(test_quick_grid),
		cmocka_unit_test(test_longer_windows_meet),
		cmocka_unit_test(test_who_pays),
		cmocka_unit_test(test_crowded_period),
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_asked),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_second_trace),
		cmocka_unit_test(test_cancelled),
		cmocka_unit_test(test_share),
		cmocka_unit_test(test_share_in_full_mode),
		cmocka_unit_test(test_pause),
		cmocka_unit_test(test_clock_set_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
