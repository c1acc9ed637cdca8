/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include "sampling/governor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS CS_NS_PER_MS
#define S  CS_NS_PER_S

static struct cs_governor
make(double budget)
{
	struct cs_governor governor;

	cs_governor_init(&governor, budget, 10000 * MS, 100 * MS);
	governor.quick = 0;
	return governor;
}

static struct cs_steps_graph
steps(uint64_t traced_ns, uint64_t untraced_ns)
{
	return (struct cs_steps_graph){.graph_id = 3,
		.traced_count = 20,
		.untraced_count = 30,
		.untraced_total = 80,
		.traced_ns = traced_ns,
		.untraced_ns = untraced_ns};
}

/* Before anything is known the default fits: 45 % of 100 ms in ten seconds. */
static void
test_unmeasured(void **state)
{
	struct cs_governor governor = make(0.01);
	struct cs_governor_choice choice;

	(void)state;
	cs_governor_choose(&governor, &choice);
	assert_int_equal(choice.period_ns, 10000 * MS);
	assert_int_equal(choice.window_ns, 100 * MS);
	assert_true(choice.cost > 0.00449 && choice.cost < 0.00451);
}

/* 0.45 % has to be halved three times: one doubling a time, all at once when a window had to be skipped. */
static void
test_grows_when_dear(void **state)
{
	struct cs_governor governor = make(0.001);
	struct cs_governor_choice choice;

	(void)state;
	for (unsigned int i = 1; i <= 3; i++) {
		cs_governor_choose(&governor, &choice);
		assert_int_equal(choice.period_ns, (10000 * MS) << i);
	}
	cs_governor_choose(&governor, &choice);
	assert_int_equal(choice.period_ns, 80000 * MS);
	governor = make(0.001);
	assert_true(cs_governor_afford(&governor, 1000 * S, 100 * MS));
	cs_spending_settle(&governor.spending, 1000 * S, 50 * MS, &(struct cs_spending_work){0});
	assert_false(cs_governor_afford(&governor, 1001 * S, 100 * MS));
	cs_governor_choose(&governor, &choice);
	assert_int_equal(choice.period_ns, 80000 * MS);
}

static void
test_bounded(void **state)
{
	struct cs_governor governor;
	struct cs_steps_graph dear = steps(50 * MS, 10 * MS);
	struct cs_governor_choice choice;

	(void)state;
	cs_governor_init(&governor, 0.0001, 100 * MS, 100 * MS);
	cs_governor_measure(&governor, &dear, 1);
	for (unsigned int i = 0; i < 20; i++)
		cs_governor_choose(&governor, &choice);
	assert_int_equal(choice.period_ns, (100 * MS) << CS_GOVERNOR_EXPONENT_MAX);
	assert_int_equal(choice.window_ns, 100 * MS >> CS_GOVERNOR_WINDOW_EXPONENT_MAX);
	/* Even there the cost is above the budget, and above what a minute has: never. */
	assert_true(choice.cost > 0.0001);
	assert_false(cs_governor_afford(&governor, 1000 * S, choice.window_ns));
}

static void
test_shrinks_slowly(void **state)
{
	struct cs_governor governor = make(0.003);
	struct cs_steps_graph dear = steps(20 * MS, 10 * MS), cheap = steps(101 * MS, 100 * MS);
	struct cs_governor_choice choice;

	(void)state;
	cs_governor_measure(&governor, &dear, 1);
	cs_governor_choose(&governor, &choice);
	cs_governor_choose(&governor, &choice);
	assert_int_equal(choice.period_ns, 40000 * MS);
	cheap.traced_ns = 10100000;
	cheap.untraced_ns = 10000000;
	for (unsigned int i = 0; i < 16; i++)
		cs_governor_measure(&governor, &cheap, 1);
	cs_governor_choose(&governor, &choice);
	cs_governor_choose(&governor, &choice);
	assert_int_equal(choice.period_ns, 40000 * MS);
	cs_governor_choose(&governor, &choice);
	assert_int_equal(choice.period_ns, 20000 * MS);
	for (unsigned int i = 0; i < 3; i++)
		cs_governor_choose(&governor, &choice);
	assert_int_equal(choice.period_ns, 10000 * MS);
	for (unsigned int i = 0; i < 30; i++)
		cs_governor_choose(&governor, &choice);
	assert_int_equal(choice.period_ns, 10000 * MS);
}

static void
test_too_few(void **state)
{
	struct cs_governor governor = make(0.01);
	struct cs_steps_graph few = steps(50 * MS, 10 * MS);

	(void)state;
	few.traced_count = CS_GOVERNOR_SAMPLES_MIN - 1;
	cs_governor_measure(&governor, &few, 1);
	assert_true(governor.perturbation < 0);
	/* Long steps vary less: three are enough. */
	few = steps(550 * MS, 500 * MS);
	few.traced_count = few.untraced_count = CS_GOVERNOR_SAMPLES_LONG;
	cs_governor_measure(&governor, &few, 1);
	assert_true(governor.perturbation > 0.099 && governor.perturbation < 0.101);
}

/* Of several graphs the one that suffers most counts, eager work too. */
static void
test_worst_graph(void **state)
{
	struct cs_governor governor = make(0.01);
	struct cs_steps_graph graphs[] = {
		steps(11 * MS, 10 * MS), steps(13 * MS, 10 * MS), steps(12 * MS, 10 * MS)};

	(void)state;
	graphs[1].eager = true;
	cs_governor_measure(&governor, graphs, 3);
	assert_true(governor.perturbation > 0.299 && governor.perturbation < 0.301);
}

/* -- what was measured grows old ------------------------------------------------------------------------- */

/* 850 kernels in 2.6 ms and a CPU that is ahead of the GPU: a ratio of 1, of which nobody can say any more
 * whether it still holds once launches are not seen. */
static void
test_measured_nothing(void **state)
{
	struct cs_governor governor = make(0.01);
	struct cs_steps_graph free_of_cost = steps(2600000, 2600000);
	struct cs_pace_summary seen = {
		.length_ns = 100 * MS, .active_ns = 100 * MS, .busy_ns = 100 * MS, .kernels = 32692};

	(void)state;
	cs_governor_measure(&governor, &free_of_cost, 1);
	cs_governor_learn(&governor, &seen, 1000 * S);
	assert_true(cs_governor_expected(&governor) == 0);
	assert_int_equal(cs_spending_total_ns(&governor.spending, 1000 * S), 0);
	/* 1 us a kernel, also for what is booked already. */
	cs_governor_lose_sight(&governor);
	assert_true(cs_governor_expected(&governor) > 0.485 && cs_governor_expected(&governor) < 0.487);
	assert_int_equal(cs_spending_total_ns(&governor.spending, 1000 * S), 32692000);
	cs_governor_learn(&governor, &seen, 1010 * S);
	assert_int_equal(cs_spending_total_ns(&governor.spending, 1010 * S), 2 * 32692000);
	assert_true(cs_governor_overdraws(&governor, 1010 * S, 2000 * MS, 600000));
	/* It is seen again. */
	cs_governor_measure(&governor, &free_of_cost, 1);
	assert_true(cs_governor_expected(&governor) == 0);
}

/* What was measured to be more than that holds on. */
static void
test_measured_much(void **state)
{
	struct cs_governor governor = make(0.01);
	struct cs_steps_graph dear = steps(15 * MS, 10 * MS);
	struct cs_pace_summary seen = {
		.length_ns = 100 * MS, .active_ns = 100 * MS, .busy_ns = 100 * MS, .kernels = 1000};

	(void)state;
	cs_governor_measure(&governor, &dear, 1);
	cs_governor_lose_sight(&governor);
	cs_governor_learn(&governor, &seen, 1000 * S);
	assert_true(cs_governor_expected(&governor) > 0.499 && cs_governor_expected(&governor) < 0.501);
	assert_in_range(cs_spending_total_ns(&governor.spending, 1000 * S), 49999999, 50000001);
}

/* Nothing was measured: the whole bound, sight or not. */
static void
test_never_measured(void **state)
{
	struct cs_governor governor = make(0.01);
	struct cs_pace_summary seen = {
		.length_ns = 100 * MS, .active_ns = 100 * MS, .busy_ns = 100 * MS, .kernels = 10000};

	(void)state;
	cs_governor_lose_sight(&governor);
	assert_true(cs_governor_expected(&governor) == CS_GOVERNOR_UNMEASURED);
	cs_governor_learn(&governor, &seen, 1000 * S);
	assert_true(cs_governor_expected(&governor) > 0.249 && cs_governor_expected(&governor) < 0.251);
	assert_int_equal(cs_spending_total_ns(&governor.spending, 1000 * S), 20 * MS);
}

/* What was booked at nothing is put right when a later measurement says otherwise. */
static void
test_rebooked_from_nothing(void **state)
{
	struct cs_governor governor = make(0.01);
	struct cs_steps_graph free_of_cost = steps(10 * MS, 10 * MS), dear = steps(14 * MS, 10 * MS);
	struct cs_pace_summary seen = {
		.length_ns = 100 * MS, .active_ns = 100 * MS, .busy_ns = 100 * MS, .kernels = 1000};

	(void)state;
	cs_governor_measure(&governor, &free_of_cost, 1);
	cs_governor_learn(&governor, &seen, 1000 * S);
	cs_governor_measure(&governor, &dear, 1); /* smoothed: 20 % */
	assert_in_range(cs_spending_total_ns(&governor.spending, 1000 * S), 19999999, 20000001);
}

/* -- length of windows ----------------------------------------------------------------------------------- */

/* A busy window of so many kernels, in which steps were seen (or not: 0). */
static struct cs_pace_summary
window(uint64_t length_ns, uint64_t step_ns, uint64_t kernels)
{
	return (struct cs_pace_summary){.length_ns = length_ns,
		.active_ns = length_ns,
		.busy_ns = length_ns,
		.kernels = kernels,
		.whole = step_ns ? (uint32_t)(length_ns / step_ns) : 0,
		.step_ns = step_ns};
}

/* At least three steps, as the base times a power of two. */
static void
test_window_covers_steps(void **state)
{
	static const struct {
		uint64_t step_ms, window_ms;
	} rows[] = {{1, 100}, {5, 100}, {30, 100}, {34, 200}, {500, 1600}, {2000, 6400}, {4000, 6400}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cs_pace_summary seen = window(100 * MS, rows[i].step_ms * MS, 100);
		struct cs_steps_graph launches = steps(0, rows[i].step_ms * MS);
		struct cs_governor governor = make(0.01);
		struct cs_governor_choice choice;

		/* From records. */
		cs_governor_learn(&governor, &seen, 1000 * S);
		cs_governor_choose(&governor, &choice);
		assert_int_equal(choice.window_ns, rows[i].window_ms * MS);
		/* From launches, as long as they are seen. */
		governor = make(0.01);
		governor.bound = 0.001;
		launches.traced_count = 0;
		cs_governor_measure(&governor, &launches, 1);
		cs_governor_choose(&governor, &choice);
		assert_int_equal(choice.window_ns, rows[i].window_ms * MS);
	}
}

/* A window of the governor's length in steps of step_ms, every step of so many kernels; the truth of what is
 * seen: two whole steps need a window of three. Returns the window's length. */
static uint64_t
play(struct cs_governor *governor, uint64_t step_ns, uint64_t kernels_per_step, uint64_t *now_ns)
{
	struct cs_governor_choice choice;
	struct cs_pace_summary seen;

	cs_governor_choose(governor, &choice);
	if (cs_governor_afford(governor, *now_ns, choice.window_ns)) {
		seen = window(choice.window_ns, choice.window_ns >= 3 * step_ns ? step_ns : 0,
			1 + kernels_per_step * choice.window_ns / step_ns);
		cs_governor_learn(governor, &seen, *now_ns + choice.window_ns);
	}
	*now_ns += choice.quick_ns ? choice.quick_ns : choice.period_ns;
	return choice.window_ns;
}

/* Nobody sees launches: the windows double until they hold two steps, and stay. */
static void
test_window_doubles(void **state)
{
	struct cs_governor governor = make(0.01);
	uint64_t now_ns = 1000 * S;

	(void)state;
	for (uint64_t expected_ns = 100 * MS; expected_ns <= 1600 * MS; expected_ns *= 2)
		assert_int_equal(play(&governor, 500 * MS, 1000, &now_ns), expected_ns);
	for (unsigned int i = 0; i < 40; i++)
		assert_int_equal(play(&governor, 500 * MS, 1000, &now_ns), 1600 * MS);
	/* The steps become short: one halving at a time. */
	for (unsigned int i = 0; i < CS_GOVERNOR_WINDOW_CALM; i++)
		assert_int_equal(play(&governor, 5 * MS, 10, &now_ns), 1600 * MS);
	assert_int_equal(play(&governor, 5 * MS, 10, &now_ns), 800 * MS);
	for (unsigned int i = 0; i < 100; i++)
		play(&governor, 5 * MS, 10, &now_ns);
	assert_int_equal(play(&governor, 5 * MS, 10, &now_ns), 100 * MS);
}

/* Work without any boundary: after the longest window the base again, and later another try. */
static void
test_no_boundaries(void **state)
{
	struct cs_governor governor = make(0.01);
	uint64_t now_ns = 1000 * S;
	unsigned int longest = 0, shortest = 0;

	(void)state;
	for (unsigned int i = 0; i < 2 * (7 + CS_GOVERNOR_VAIN); i++) {
		uint64_t length_ns = play(&governor, 1000 * S, 1000, &now_ns);

		longest += length_ns == 6400 * MS;
		shortest += length_ns == 100 * MS;
	}
	assert_int_equal(longest, 2);
	assert_true(shortest >= 2 * CS_GOVERNOR_VAIN);
}

/* Steps that are as long as the window: what runs when it begins was launched before and is not on record, so
 * its work begins late, in one window after the other. */
static void
test_stumps(void **state)
{
	struct cs_governor governor = make(0.01);
	struct cs_governor_choice choice;
	struct cs_pace_summary seen = window(100 * MS, 0, 50);

	(void)state;
	seen.active_ns = seen.busy_ns = 40 * MS;
	for (unsigned int i = 0; i < 2; i++) {
		cs_governor_choose(&governor, &choice);
		assert_int_equal(choice.window_ns, 100 * MS);
		cs_governor_learn(&governor, &seen, (1000 + 10 * i) * S);
	}
	cs_governor_choose(&governor, &choice);
	assert_int_equal(choice.window_ns, 200 * MS);
	/* One alone may have been idle. */
	seen.length_ns = 200 * MS;
	seen.active_ns = seen.busy_ns = 80 * MS;
	cs_governor_learn(&governor, &seen, 1020 * S);
	cs_governor_choose(&governor, &choice);
	assert_int_equal(choice.window_ns, 200 * MS);
}

/* An idle or hardly busy window teaches nothing. */
static void
test_idle_window(void **state)
{
	struct cs_governor governor = make(0.01);
	struct cs_pace_summary seen = {.length_ns = 100 * MS};
	struct cs_governor_choice choice;

	(void)state;
	cs_governor_learn(&governor, &seen, 1000 * S);
	seen = window(100 * MS, 0, 50);
	seen.busy_ns = 5 * MS;
	cs_governor_learn(&governor, &seen, 1010 * S);
	seen = window(100 * MS, 0, 50); /* work began at its end */
	seen.active_ns = seen.busy_ns = 30 * MS;
	cs_governor_learn(&governor, &seen, 1020 * S);
	cs_governor_choose(&governor, &choice);
	assert_int_equal(choice.window_ns, 100 * MS);
}

/* The window keeps a distance of eight times its length, whatever it costs. */
static void
test_sparse(void **state)
{
	struct cs_governor governor = make(1);
	uint64_t now_ns = 1000 * S;
	struct cs_governor_choice choice;

	(void)state;
	for (unsigned int i = 0; i < 20; i++)
		play(&governor, 2000 * MS, 10, &now_ns);
	cs_governor_choose(&governor, &choice);
	assert_int_equal(choice.window_ns, 6400 * MS);
	assert_int_equal(choice.period_ns, 80000 * MS);
}

/* -- quick start ----------------------------------------------------------------------------------------- */

static void
test_quick_start(void **state)
{
	struct cs_governor governor;
	struct cs_pace_summary busy = window(100 * MS, 5 * MS, 100), idle = {.length_ns = 100 * MS};
	struct cs_governor_choice choice;

	(void)state;
	cs_governor_init(&governor, 0.01, 10000 * MS, 100 * MS);
	/* As long as there is no work it waits for it. */
	for (unsigned int i = 0; i < 50; i++) {
		cs_governor_learn(&governor, &idle, (1000 + i) * S);
		cs_governor_choose(&governor, &choice);
		assert_int_equal(choice.quick_ns, 2500 * MS);
	}
	for (unsigned int i = 0; i < CS_GOVERNOR_QUICK; i++) {
		assert_int_equal(choice.quick_ns, 2500 * MS);
		cs_governor_learn(&governor, &busy, (2000 + i) * S);
		cs_governor_choose(&governor, &choice);
	}
	assert_int_equal(choice.quick_ns, 0);
	/* A window that waited for minutes: idle time is over. */
	busy.length_ns = 300 * S;
	cs_governor_learn(&governor, &busy, 3000 * S);
	cs_governor_choose(&governor, &choice);
	assert_int_equal(choice.quick_ns, 2500 * MS);
	/* Waiting costs nothing. */
	assert_true(cs_spending_total_ns(&governor.spending, 3000 * S) < 1 * MS);
}

/* -- the account ----------------------------------------------------------------------------------------- */

/*
 * Two hours of a server: its steps change their length and number of kernels, tracing costs each kernel up to
 * what is assumed at most, measured or not, at all budgets. No minute ever loses more than the budget, except
 * by the one window in which the work changed; and with the smallest budgets there is nothing at all rather
 * than too much.
 */
static void
test_no_minute_overdraws(void **state)
{
	static const double budgets[] = {0.0001, 0.001, 0.01, 0.05, 0.2};
	static const uint64_t steps_ms[] = {1, 5, 30, 500, 2000};
	static const uint64_t spacings_us[] = {3, 20, 400}; /* from kernel to kernel */
	enum { WINDOWS = 4096 };
	static uint64_t start_ns[WINDOWS], end_ns[WINDOWS], lost_ns[WINDOWS];

	(void)state;
	for (size_t which = 0; which < 5 * 5 * 3 * 2; which++) {
		double budget = budgets[which % 5];
		uint64_t step_ns = steps_ms[which / 5 % 5] * MS;
		uint64_t spacing_ns = spacings_us[which / 25 % 3] * CS_NS_PER_US;
		bool measured = which / 75;
		double truth = (double)CS_GOVERNOR_KERNEL_NS * 0.9 / (double)spacing_ns; /* perturbation */
		struct cs_governor governor;
		uint64_t now_ns = 1000 * S;
		size_t count = 0;

		cs_governor_init(&governor, budget, 10000 * MS, 100 * MS);
		while (now_ns < 8200 * S && count < WINDOWS) {
			struct cs_steps_graph launches =
				steps((uint64_t)((double)step_ns * (1 + truth)), step_ns);
			struct cs_governor_choice choice;
			struct cs_pace_summary seen;

			if (measured && now_ns > 1100 * S)
				cs_governor_measure(&governor, &launches, 1);
			cs_governor_choose(&governor, &choice);
			assert_true(choice.window_ns <= 6400 * MS);
			if (cs_governor_afford(&governor, now_ns, choice.window_ns)) {
				double slow = 1 + truth;
				uint64_t kernels =
					(uint64_t)((double)choice.window_ns / (double)spacing_ns / slow);

				seen = window(choice.window_ns, choice.window_ns >= 3 * step_ns ? step_ns : 0,
					kernels + 1);
				cs_governor_learn(&governor, &seen, now_ns + choice.window_ns);
				start_ns[count] = now_ns;
				end_ns[count] = now_ns + choice.window_ns;
				lost_ns[count++] = (uint64_t)(truth / slow * (double)choice.window_ns);
			}
			now_ns += choice.quick_ns ? choice.quick_ns : choice.period_ns;
		}
		for (size_t last = 0; last < count; last++) {
			uint64_t sum_ns = 0;

			for (size_t i = last + 1; i-- > 0 && end_ns[i] + 60 * S >= start_ns[last];)
				sum_ns += lost_ns[i];
			assert_true((double)sum_ns <= budget * 60e9);
		}
		/* It does look where the base window fits at all. */
		if (truth * 100 * MS < budget * 30e9)
			assert_true(count >= 10);
	}
}

/* The same window turns out to be as dear as can be: it is cut short before it overdraws the minute. */
static void
test_cut_short(void **state)
{
	struct cs_governor governor = make(0.01);
	struct cs_pace_summary light = window(100 * MS, 2000 * MS, 10);
	uint64_t active_ns = 0;

	(void)state;
	cs_governor_learn(&governor, &light, 1000 * S);
	assert_true(cs_governor_afford(&governor, 1010 * S, 6400 * MS));
	while (active_ns < 6400 * MS &&
		!cs_governor_overdraws(&governor, 1010 * S, active_ns, active_ns / 3000))
		active_ns += 100 * MS;
	assert_true(active_ns > 500 * MS && active_ns <= 1000 * MS);
}

struct rank {
	struct cs_governor governor;
	struct cs_governor_choice choice;
	uint64_t from_ns;
	unsigned int skipped;
};

static void
come_up(struct rank *rank, const struct cs_steps_graph *launches, uint64_t from_ns)
{
	*rank = (struct rank){.from_ns = from_ns};
	cs_governor_init(&rank->governor, 0.01, 10000 * MS, 400 * MS);
	cs_governor_measure(&rank->governor, launches, 1);
	cs_governor_choose(&rank->governor, &rank->choice);
}

/* Whether its grid has a window now that is paid for. */
static bool
look(struct rank *rank, uint64_t now_ns)
{
	uint64_t window_ns = rank->choice.window_ns;
	struct cs_pace_summary seen = window(window_ns, 100 * MS, 1000);

	if (now_ns < rank->from_ns ||
		now_ns % (rank->choice.quick_ns ? rank->choice.quick_ns : rank->choice.period_ns) != 0)
		return false;
	if (!cs_governor_afford(&rank->governor, now_ns, window_ns)) {
		rank->skipped++;
		return false;
	}
	cs_governor_learn(&rank->governor, &seen, now_ns + window_ns);
	cs_governor_choose(&rank->governor, &rank->choice);
	return true;
}

/*
 * Two ranks of a group, whose steps and costs are the same, and of which one came up later. What a minute can
 * pay for is no reason to take turns: once they have settled every window of the one is one of the other's,
 * whatever a window costs.
 */
static void
test_ranks_meet(void **state)
{
	const uint64_t begin_ns = 6400 * S, settled_ns = 9600 * S, end_ns = 12800 * S;

	(void)state;
	for (uint64_t percent = 2; percent <= 400; percent += 2) {
		struct cs_steps_graph launches = steps((100 + percent) * MS, 100 * MS);
		unsigned int together = 0;
		struct rank one, other;

		come_up(&one, &launches, begin_ns);
		come_up(&other, &launches, begin_ns + 40 * S);
		for (uint64_t now_ns = begin_ns; now_ns < end_ns; now_ns += 2500 * MS) {
			bool looks = look(&one, now_ns);

			if (look(&other, now_ns) != looks && now_ns >= settled_ns)
				fail_msg("apart at %llu s with a perturbation of %llu %%",
					(unsigned long long)(now_ns / S), (unsigned long long)percent);
			if (now_ns < settled_ns)
				one.skipped = other.skipped = 0;
			else
				together += looks;
		}
		assert_true(together >= 40);
		assert_int_equal(one.skipped + other.skipped, 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unmeasured),
		cmocka_unit_test(test_grows_when_dear),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_shrinks_slowly),
		cmocka_unit_test(test_too_few),
		cmocka_unit_test(test_worst_graph),
		cmocka_unit_test(test_measured_nothing),
		cmocka_unit_test(test_measured_much),
		cmocka_unit_test(test_never_measured),
		cmocka_unit_test(test_rebooked_from_nothing),
		cmocka_unit_test(test_window_covers_steps),
		cmocka_unit_test(test_window_doubles),
		cmocka_unit_test(test_no_boundaries),
		cmocka_unit_test(test_stumps),
		cmocka_unit_test(test_idle_window),
		cmocka_unit_test(test_sparse),
		cmocka_unit_test(test_quick_start),
		cmocka_unit_test(test_no_minute_overdraws),
		cmocka_unit_test(test_cut_short),
		cmocka_unit_test(test_ranks_meet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
