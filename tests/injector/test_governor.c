/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include "governor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MS CS_NS_PER_MS

static struct cs_governor
make(double budget)
{
	struct cs_governor governor;

	cs_governor_init(&governor, budget, 10000 * MS, 100 * MS);
	return governor;
}

static struct cs_steps_medians
steps(uint64_t traced_ns, uint64_t untraced_ns)
{
	return (struct cs_steps_medians){
		.traced_count = 40, .untraced_count = 80, .traced_ns = traced_ns, .untraced_ns = untraced_ns};
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
	assert_true(choice.cost > 0.00449 && choice.cost < 0.00451);
}

static void
test_grows_when_dear(void **state)
{
	struct cs_governor governor = make(0.001);
	struct cs_governor_choice choice;
	unsigned int rounds = 0;

	(void)state;
	do {
		cs_governor_choose(&governor, &choice);
	} while (choice.cost > 0.001 && ++rounds < 10);
	/* 0.45 % has to be halved three times; two at once. */
	assert_int_equal(choice.period_ns, 80000 * MS);
	assert_int_equal(rounds, 1);
}

static void
test_bounded(void **state)
{
	struct cs_governor governor = make(0.0001);
	struct cs_steps_medians dear = steps(50 * MS, 10 * MS);
	struct cs_governor_choice choice;

	(void)state;
	cs_governor_measure(&governor, &dear);
	for (unsigned int i = 0; i < 20; i++)
		cs_governor_choose(&governor, &choice);
	assert_int_equal(choice.period_ns, (10000 * MS) << CS_GOVERNOR_EXPONENT_MAX);
}

static void
test_shrinks_slowly(void **state)
{
	struct cs_governor governor = make(0.003);
	struct cs_steps_medians dear = steps(20 * MS, 10 * MS), cheap = steps(101 * MS, 100 * MS);
	struct cs_governor_choice choice;

	(void)state;
	cs_governor_measure(&governor, &dear);
	cs_governor_choose(&governor, &choice);
	assert_int_equal(choice.period_ns, 40000 * MS);
	for (unsigned int i = 0; i < 16; i++)
		cs_governor_measure(&governor, &cheap);
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

/* The chosen cost is at most the budget, whatever was measured, unless the longest period is reached. */
static void
test_within_budget(void **state)
{
	static const double budgets[] = {0.0005, 0.001, 0.01, 0.05, 0.2, 1};

	(void)state;
	for (size_t b = 0; b < sizeof(budgets) / sizeof(budgets[0]); b++) {
		for (uint64_t deep = 90; deep < 600; deep += 30) {
			struct cs_governor governor = make(budgets[b]);
			struct cs_steps_medians measured = steps(deep * MS, 100 * MS);
			struct cs_governor_choice choice;

			cs_governor_measure(&governor, &measured);
			for (unsigned int i = 0; i < 8; i++)
				cs_governor_choose(&governor, &choice);
			assert_true(
				choice.cost <= budgets[b] || governor.exponent == CS_GOVERNOR_EXPONENT_MAX);
		}
	}
}

static void
test_too_few(void **state)
{
	struct cs_governor governor = make(0.01);
	struct cs_steps_medians few = steps(50 * MS, 10 * MS);

	(void)state;
	few.traced_count = CS_GOVERNOR_SAMPLES_MIN - 1;
	cs_governor_measure(&governor, &few);
	assert_true(governor.perturbation < 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unmeasured),
		cmocka_unit_test(test_grows_when_dear),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_shrinks_slowly),
		cmocka_unit_test(test_within_budget),
		cmocka_unit_test(test_too_few),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
