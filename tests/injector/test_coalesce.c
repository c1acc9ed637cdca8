/* SPDX-License-Identifier: Apache-2.0 */
#include "collective.h"
#include "records/coalesce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct cs_record emitted[4096];
static size_t emitted_count;

static void
keep(void *context, const struct cs_record *record)
{
	(void)context;
	assert_true(emitted_count < sizeof(emitted) / sizeof(emitted[0]));
	emitted[emitted_count++] = *record;
}

static struct cs_coalesce coalesce;

static int
setup(void **state)
{
	(void)state;
	emitted_count = 0;
	cs_coalesce_init(&coalesce, keep, NULL);
	return 0;
}

static void
kernel(uint32_t stream, uint32_t correlation, uint64_t start_ns, uint64_t end_ns)
{
	struct cs_record record = {
		.type = CS_RECORD_BUSY,
		.klass = CS_BUSY_COMPUTE,
		.flags = CS_RECORD_IN_GRAPH,
		.ref = 1,
		.stream_id = stream,
		.correlation_id = correlation,
		.start_ns = start_ns,
		.end_ns = end_ns,
		.value = end_ns - start_ns,
	};

	cs_coalesce_add(&coalesce, &record);
}

static void
copy(uint8_t direction, uint64_t start_ns, uint64_t end_ns, uint64_t bytes)
{
	struct cs_record record = {
		.type = CS_RECORD_BUSY,
		.klass = CS_BUSY_COPY,
		.flags = direction,
		.ref = 1,
		.stream_id = 1,
		.start_ns = start_ns,
		.end_ns = end_ns,
		.value = bytes,
	};

	cs_coalesce_add(&coalesce, &record);
}

static void
test_gap(void **state)
{
	(void)state;
	kernel(1, 9, 1000, 2000);
	kernel(1, 9, 2000 + CS_BUSY_GAP_NS, 5000);
	kernel(1, 9, 5000 + CS_BUSY_GAP_NS + 1, 9000);
	cs_coalesce_finish(&coalesce);
	assert_int_equal(emitted_count, 2);
	assert_int_equal(emitted[0].start_ns, 1000);
	assert_int_equal(emitted[0].end_ns, 5000);
	assert_int_equal(emitted[0].ref, 2);
	assert_int_equal(emitted[0].value, 1000 + (5000 - 2000 - CS_BUSY_GAP_NS));
	assert_int_equal(emitted[1].ref, 1);
}

static void
test_programmatic_launch(void **state)
{
	(void)state;
	kernel(1, 9, 1000, 2000);
	kernel(1, 9, 1500, 2500); /* began before its predecessor had ended */
	kernel(1, 9, 1600, 2400); /* lies within */
	cs_coalesce_finish(&coalesce);
	assert_int_equal(emitted_count, 1);
	assert_int_equal(emitted[0].value, 1500);
	assert_int_equal(emitted[0].end_ns, 2500);
	assert_int_equal(emitted[0].ref, 3);
}

static void
test_streams_and_launches_apart(void **state)
{
	(void)state;
	kernel(1, 9, 1000, 2000);
	kernel(2, 9, 1000, 2000);
	kernel(1, 9, 2100, 3000);
	kernel(2, 9, 2100, 3000);
	kernel(1, 10, 3100, 4000); /* next launch */
	cs_coalesce_finish(&coalesce);
	assert_int_equal(emitted_count, 3);
	cs_coalesce_finish(&coalesce);
	assert_int_equal(emitted_count, 3);
}

static void
test_break(void **state)
{
	(void)state;
	kernel(1, 9, 1000, 2000);
	kernel(2, 9, 1000, 2000);
	cs_coalesce_break(&coalesce, 0, 1);
	assert_int_equal(emitted_count, 1);
	assert_int_equal(emitted[0].stream_id, 1);
	kernel(1, 9, 2500, 3000);
	kernel(2, 9, 2500, 3000);
	cs_coalesce_finish(&coalesce);
	assert_int_equal(emitted_count, 3);
}

static void
test_copies(void **state)
{
	(void)state;
	copy(CS_RECORD_COPY_TO_HOST, 1000, 2000, 4096);
	copy(CS_RECORD_COPY_FROM_HOST, 1000, 2000, 100);
	copy(CS_RECORD_COPY_TO_HOST, 2100, 2200, 4096);
	cs_coalesce_finish(&coalesce);
	assert_int_equal(emitted_count, 2);
	assert_int_equal(emitted[0].value, 8192);
	assert_int_equal(emitted[0].ref, 2);
	assert_int_equal(emitted[1].value, 100);
}

/* Whatever the order and the number of streams, no busy time and no operation is lost or invented: per stream
 * the values add up to the sum of (disjoint) durations. */
static void
test_any_order_is_exact(void **state)
{
	enum { OPERATIONS = 1000, STREAMS = 50 };
	static struct {
		uint32_t stream;
		uint64_t start_ns;
	} operations[OPERATIONS];
	uint64_t value = 0, count = 0;

	(void)state;
	srand(7);
	for (uint32_t i = 0; i < OPERATIONS; i++) {
		operations[i].stream = i % STREAMS;
		operations[i].start_ns = 1000 + (i / STREAMS) * 1500;
	}
	for (uint32_t i = OPERATIONS - 1; i > 0; i--) {
		uint32_t j = (uint32_t)rand() % (i + 1);
		uint32_t stream = operations[i].stream;
		uint64_t start_ns = operations[i].start_ns;

		operations[i] = operations[j];
		operations[j].stream = stream;
		operations[j].start_ns = start_ns;
	}
	for (uint32_t i = 0; i < OPERATIONS; i++)
		kernel(operations[i].stream, 9, operations[i].start_ns, operations[i].start_ns + 700);
	cs_coalesce_finish(&coalesce);
	for (size_t i = 0; i < emitted_count; i++) {
		value += emitted[i].value;
		count += emitted[i].ref;
		assert_true(emitted[i].end_ns - emitted[i].start_ns >= emitted[i].value);
	}
	assert_int_equal(count, OPERATIONS);
	assert_int_equal(value, OPERATIONS * 700);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_gap, setup),
		cmocka_unit_test_setup(test_programmatic_launch, setup),
		cmocka_unit_test_setup(test_streams_and_launches_apart, setup),
		cmocka_unit_test_setup(test_break, setup),
		cmocka_unit_test_setup(test_copies, setup),
		cmocka_unit_test_setup(test_any_order_is_exact, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
