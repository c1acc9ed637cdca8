/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/reorder.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define HORIZON_NS 2000000000ULL
#define EPOCH_NS   1700000000000000000ULL
#define RECORDS    20000U

static uint64_t
next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 33;
}

static struct cs_record
record_at(uint64_t start_ns)
{
	return (struct cs_record){
		.type = CS_RECORD_BUSY, .start_ns = start_ns, .end_ns = start_ns + 10, .value = start_ns};
}

/* Whatever the order in, the order out is by start, and nothing is lost. */
static void
test_order(void **state)
{
	struct cs_reorder reorder;
	const struct cs_record *records;
	uint64_t random = 1, last_ns = 0, sum_in = 0, sum_out = 0;
	size_t count, out = 0;

	(void)state;
	assert_int_equal(cs_reorder_init(&reorder, HORIZON_NS), 0);
	for (unsigned int i = 0; i < RECORDS; i++) {
		struct cs_record record = record_at(EPOCH_NS + next_random(&random) % 900000000ULL);

		sum_in += record.start_ns;
		assert_int_equal(cs_reorder_add(&reorder, &record), 0);
	}
	assert_int_equal(reorder.pending, RECORDS);
	while (cs_reorder_release(&reorder, UINT64_MAX, &records, &count) == 0 && count > 0) {
		for (size_t i = 0; i < count; i++) {
			assert_true(records[i].start_ns >= last_ns);
			last_ns = records[i].start_ns;
			sum_out += records[i].start_ns;
		}
		out += count;
	}
	assert_int_equal(out, RECORDS);
	assert_int_equal(sum_in, sum_out);
	assert_int_equal(reorder.pending, 0);
	cs_reorder_fini(&reorder);
}

/* Records of one moment (worst case for the insertion sort) in falling order of end. */
static void
test_one_bucket(void **state)
{
	struct cs_reorder reorder;
	const struct cs_record *records;
	size_t count;

	(void)state;
	assert_int_equal(cs_reorder_init(&reorder, HORIZON_NS), 0);
	for (unsigned int i = 0; i < 3000; i++) {
		struct cs_record record = record_at(EPOCH_NS + 3000 - i);

		assert_int_equal(cs_reorder_add(&reorder, &record), 0);
	}
	for (uint64_t last_ns = 0;
		cs_reorder_release(&reorder, UINT64_MAX, &records, &count) == 0 && count > 0;) {
		for (size_t i = 0; i < count; i++) {
			assert_true(records[i].start_ns > last_ns);
			last_ns = records[i].start_ns;
		}
	}
	cs_reorder_fini(&reorder);
}

static void
test_late_and_early(void **state)
{
	struct cs_reorder reorder;
	const struct cs_record *records;
	struct cs_record record = record_at(EPOCH_NS);
	size_t count;

	(void)state;
	assert_int_equal(cs_reorder_init(&reorder, HORIZON_NS), 0);
	assert_int_equal(cs_reorder_add(&reorder, &record), 0);
	/* Older than the first one, but within the horizon: in time. */
	record = record_at(EPOCH_NS - HORIZON_NS / 2);
	assert_int_equal(cs_reorder_add(&reorder, &record), 0);
	record = record_at(EPOCH_NS + 3 * HORIZON_NS);
	assert_int_equal(cs_reorder_add(&reorder, &record), -EOVERFLOW);
	while (cs_reorder_release(&reorder, EPOCH_NS + 2 * HORIZON_NS, &records, &count) == 0 && count > 0)
		;
	assert_int_equal(reorder.pending, 0);
	assert_true(reorder.frontier_ns <= EPOCH_NS + 2 * HORIZON_NS);
	assert_true(reorder.frontier_ns > EPOCH_NS + 2 * HORIZON_NS - 2 * reorder.width_ns);
	assert_int_equal(cs_reorder_add(&reorder, &record), 0);
	record = record_at(EPOCH_NS + HORIZON_NS);
	assert_int_equal(cs_reorder_add(&reorder, &record), -ESTALE);
	cs_reorder_fini(&reorder);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_one_bucket),
		cmocka_unit_test(test_late_and_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
