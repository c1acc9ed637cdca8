/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include "sampling/spending.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define S CS_NS_PER_S

static const struct cs_spending_work none;

static void
test_reserve_and_settle(void **state)
{
	struct cs_spending spending = {0};

	(void)state;
	assert_true(cs_spending_reserve(&spending, 100 * S, 400, 600));
	assert_int_equal(cs_spending_total_ns(&spending, 100 * S), 400);
	cs_spending_settle(&spending, 101 * S, 100, &none);
	assert_int_equal(cs_spending_total_ns(&spending, 101 * S), 100);
	assert_true(cs_spending_reserve(&spending, 102 * S, 500, 600));
	cs_spending_settle(&spending, 103 * S, 500, &none);
	assert_false(cs_spending_reserve(&spending, 104 * S, 1, 600));
	assert_int_equal(cs_spending_total_ns(&spending, 104 * S), 600);
}

/* What was spent within the last 60 s is remembered to the last nanosecond, and forgotten a second later. */
static void
test_a_minute(void **state)
{
	struct cs_spending spending = {0};

	(void)state;
	cs_spending_settle(&spending, 100 * S + S - 1, 600, &none);
	assert_false(cs_spending_reserve(&spending, 160 * S + S - 1, 1, 600));
	assert_true(cs_spending_reserve(&spending, 161 * S, 600, 600));
}

/* What it was booked at, or more: a share of its time with work, a part of its kernels' bound. */
static void
test_rebook(void **state)
{
	struct cs_spending spending = {0};
	struct cs_spending_work work = {.active_ns = 1000, .bound_ns = 300};

	(void)state;
	cs_spending_settle(&spending, 100 * S, 0, &work);
	cs_spending_settle(&spending, 110 * S, 70, &work);
	cs_spending_rebook(&spending, 0, 0);
	assert_int_equal(cs_spending_total_ns(&spending, 120 * S), 70);
	cs_spending_rebook(&spending, 0.05, 0);
	assert_int_equal(cs_spending_total_ns(&spending, 120 * S), 120);
	cs_spending_rebook(&spending, 0.05, 0.5);
	assert_int_equal(cs_spending_total_ns(&spending, 120 * S), 300);
	cs_spending_rebook(&spending, 0, 0.1);
	assert_int_equal(cs_spending_total_ns(&spending, 120 * S), 300);
	/* In the same second, and in its place a minute later. */
	cs_spending_settle(&spending, 110 * S + 1, 0, &work);
	cs_spending_rebook(&spending, 0, 0.5);
	assert_int_equal(cs_spending_total_ns(&spending, 165 * S), 300);
	cs_spending_settle(&spending, 174 * S, 1, &none);
	cs_spending_rebook(&spending, 1, 1);
	assert_int_equal(cs_spending_total_ns(&spending, 174 * S), 1);
}

/* Windows of any length at any distance, at costs that are known: no 60 s hold more than the allowance. */
static void
test_no_minute_overdraws(void **state)
{
	enum { WINDOWS = 4000 };
	static uint64_t start_ns[WINDOWS], end_ns[WINDOWS], cost_ns[WINDOWS];
	const uint64_t allowance_ns = 600 * CS_NS_PER_MS;

	(void)state;
	srand(7);
	for (unsigned int run = 0; run < 8; run++) {
		struct cs_spending spending = {0};
		uint64_t now_ns = 1000 * S;
		size_t count = 0;
		unsigned int skipped = 0;

		while (count < WINDOWS / 4 && now_ns < 5000 * S) {
			uint64_t length_ns = (1 + (uint64_t)rand() % 6400) * CS_NS_PER_MS >> (run % 4);
			uint64_t cost = length_ns / 1000 * ((uint64_t)rand() % 450);

			if (cs_spending_reserve(&spending, now_ns, cost, allowance_ns)) {
				start_ns[count] = now_ns;
				end_ns[count] = now_ns + length_ns;
				cost_ns[count++] = cost;
				cs_spending_settle(&spending, now_ns + length_ns, cost, &none);
			} else {
				skipped++;
			}
			now_ns += length_ns + (uint64_t)rand() % (3 * S);
		}
		assert_true(skipped > 0 && count > 0);
		for (size_t first = 0; first < count; first++) {
			uint64_t sum_ns = 0;

			/* All that has any part in the minute that ends with the start of `last`. */
			for (size_t i = first + 1; i-- > 0;)
				if (end_ns[i] + 60 * S >= start_ns[first])
					sum_ns += cost_ns[i];
			assert_true(sum_ns <= allowance_ns);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reserve_and_settle),
		cmocka_unit_test(test_a_minute),
		cmocka_unit_test(test_rebook),
		cmocka_unit_test(test_no_minute_overdraws),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
