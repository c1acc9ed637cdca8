/* SPDX-License-Identifier: Apache-2.0 */
#include "sampling/windows.h"
#include "segment/segment_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/collscope-windows-XXXXXX";
static struct cs_segment_writer *writer;
static struct cs_segment_reader *reader;
static struct cs_windows windows;

static int
setup(void **state)
{
	struct cs_segment_options options = {.directory = directory, .ring_slots = 1024, .version = "test"};
	struct cs_error error;

	(void)state;
	memcpy(directory + sizeof(directory) - 7, "XXXXXX", 6);
	if (!mkdtemp(directory) || cs_segment_writer_create(&options, &writer) < 0)
		return -1;
	cs_windows_init(&windows, writer, 1000);
	return cs_segment_reader_open(cs_segment_writer_path(writer), true, &reader, &error);
}

static int
teardown(void **state)
{
	(void)state;
	cs_segment_reader_close(reader);
	cs_segment_writer_destroy(writer, true);
	rmdir(directory);
	return 0;
}

static size_t
read_all(struct cs_record *records)
{
	size_t count = 0;

	assert_int_equal(cs_segment_reader_read(reader, records, 64, &count), 0);
	return count;
}

/* Without the openings, which test_openings looks at. */
static size_t
read_records(struct cs_record *records)
{
	size_t count = read_all(records), kept = 0;

	for (size_t i = 0; i < count; i++)
		if (records[i].type != CS_RECORD_WINDOW_OPEN)
			records[kept++] = records[i];
	return kept;
}

/* Said at once, not when the window is settled; that nothing is traced any more is no opening. */
static void
test_openings(void **state)
{
	struct cs_record records[64];

	(void)state;
	cs_windows_turn(&windows, CS_DEPTH_DEEP, 7, 2000);
	cs_windows_turn(&windows, CS_DEPTH_OFF, 0, 3000);
	cs_windows_turn(&windows, CS_DEPTH_DEEP, 8, 4000);
	assert_int_equal(read_all(records), 2);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(records[i].type, CS_RECORD_WINDOW_OPEN);
		assert_int_equal(records[i].flags, CS_DEPTH_DEEP);
		assert_int_equal(records[i].ref, 7 + i);
		assert_int_equal(records[i].start_ns, 2000 + 2000 * i);
		assert_int_equal(records[i].end_ns, records[i].start_ns);
	}
}

static void
test_one_period(void **state)
{
	struct cs_record records[64];
	const struct cs_status *status = cs_segment_writer_status(writer);

	(void)state;
	cs_windows_turn(&windows, CS_DEPTH_LIGHT, 7, 2000);
	cs_windows_turn(&windows, CS_DEPTH_DEEP, 7, 2100);
	cs_windows_turn(&windows, CS_DEPTH_LIGHT, 7, 2250);
	cs_windows_turn(&windows, CS_DEPTH_OFF, 7, 2300);
	assert_int_equal(read_records(records), 0); /* nothing before it is settled */
	cs_windows_settle(&windows, 16, false);
	assert_int_equal(read_records(records), 3);
	assert_int_equal(records[0].flags, CS_DEPTH_LIGHT);
	assert_int_equal(records[0].ref, 7);
	assert_int_equal(records[0].start_ns, 2000);
	assert_int_equal(records[0].end_ns, 2100);
	assert_int_equal(records[1].flags, CS_DEPTH_DEEP);
	assert_int_equal(records[0].value + records[1].value + records[2].value, 16);
	assert_int_equal(status->trace_ns[CS_DEPTH_OFF], 1000);
	assert_int_equal(status->trace_ns[CS_DEPTH_LIGHT], 150);
	assert_int_equal(status->trace_ns[CS_DEPTH_DEEP], 150);
	assert_int_equal(status->windows[CS_DEPTH_LIGHT], 2);
	assert_int_equal(status->depth, CS_DEPTH_OFF);
	assert_int_equal(status->depth_since_ns, 2300);
}

static void
test_foreign(void **state)
{
	struct cs_record records[64];
	const struct cs_status *status = cs_segment_writer_status(writer);

	(void)state;
	cs_windows_turn(&windows, CS_DEPTH_DEEP, 1, 1000);
	cs_windows_turn(&windows, CS_DEPTH_OFF, 1, 1500);
	cs_windows_settle(&windows, 0, true);
	assert_int_equal(read_records(records), 1);
	assert_int_equal(records[0].flags, CS_DEPTH_DEEP | CS_RECORD_WINDOW_FOREIGN);
	assert_int_equal(status->foreign_windows, 1);
	assert_int_equal(status->trace_ns[CS_DEPTH_DEEP], 0);
	assert_int_equal(status->trace_ns[CS_DEPTH_OFF], 500);
}

static void
test_clock_set_back(void **state)
{
	struct cs_record records[64];

	(void)state;
	cs_windows_turn(&windows, CS_DEPTH_DEEP, 1, 5000);
	cs_windows_turn(&windows, CS_DEPTH_OFF, 1, 3000);
	cs_windows_settle(&windows, 0, false);
	assert_int_equal(read_records(records), 1);
	assert_int_equal(records[0].end_ns, 5000);
}

/* Set by an hour, forward and back, while a window is open and while it waits: every stretch is as long as it
 * was. */
static void
test_clock_set(void **state)
{
	const struct cs_status *status = cs_segment_writer_status(writer);
	struct cs_record records[64];

	(void)state;
	cs_windows_turn(&windows, CS_DEPTH_DEEP, 1, 2000);
	cs_windows_set_clock(&windows, 2100, 3602100);
	assert_int_equal(status->depth_since_ns, 3602100);
	cs_windows_wait(&windows, 3602150);
	cs_windows_set_clock(&windows, 3602200, 1200);
	assert_int_equal(status->depth, CS_DEPTH_OFF);
	cs_windows_turn_idle(&windows, CS_DEPTH_OFF, 1, 1300, 1240);
	cs_windows_set_clock(&windows, 1400, 9000);
	cs_windows_turn(&windows, CS_DEPTH_DEEP, 2, 9100);
	cs_windows_settle(&windows, 0, false);
	assert_int_equal(status->trace_ns[CS_DEPTH_DEEP], 100 + 50 + 60);
	assert_int_equal(status->trace_ns[CS_DEPTH_OFF], 1000 + 50 + 40 + 100 + 100);
	assert_int_equal(read_records(records), 3);
	assert_int_equal(records[0].end_ns, 2100);
	assert_int_equal(records[1].start_ns, 3602100);
	assert_int_equal(records[1].end_ns, 3602200);
	assert_int_equal(records[2].start_ns, 1200);
	assert_int_equal(records[2].end_ns, 1300);
}

/* Back by little, into a window that has waited: its idle time is not more than all of it. */
static void
test_clock_set_back_after_waiting(void **state)
{
	const struct cs_status *status = cs_segment_writer_status(writer);

	(void)state;
	cs_windows_turn(&windows, CS_DEPTH_DEEP, 1, 2000);
	cs_windows_wait(&windows, 2100);
	cs_windows_work(&windows, 2400, 2400);
	cs_windows_turn(&windows, CS_DEPTH_OFF, 1, 2200);
	cs_windows_settle(&windows, 0, false);
	assert_int_equal(status->trace_ns[CS_DEPTH_DEEP], 0);
	assert_int_equal(status->trace_ns[CS_DEPTH_OFF], 1000 + 200);
}

/* More than fit wait unsettled: none is lost. */
static void
test_many_pending(void **state)
{
	struct cs_record records[64];

	(void)state;
	for (uint64_t i = 0; i < 20; i++)
		cs_windows_turn(&windows, CS_DEPTH_DEEP, (uint32_t)i, 2000 + i * 10);
	cs_windows_settle(&windows, 20, false);
	assert_int_equal(read_records(records), 19);
	for (uint32_t i = 0; i < 19; i++)
		assert_int_equal(records[i].ref, i);
}

/* What had not begun when records came last waits for a verdict. */
static void
test_only_begun_ones_are_ours(void **state)
{
	struct cs_record records[64];

	(void)state;
	cs_windows_turn(&windows, CS_DEPTH_DEEP, 1, 2000);
	cs_windows_turn(&windows, CS_DEPTH_DEEP, 2, 3000);
	cs_windows_turn(&windows, CS_DEPTH_DEEP, 3, 4000);
	cs_windows_turn(&windows, CS_DEPTH_OFF, 3, 5000);
	cs_windows_settle_begun(&windows, 7, 3500);
	assert_int_equal(read_records(records), 2);
	assert_int_equal(records[1].end_ns, 4000);
	cs_windows_settle_begun(&windows, 7, 3999);
	assert_int_equal(windows.pending_count, 1);
	cs_windows_settle_begun(&windows, 9, 4000);
	assert_int_equal(windows.pending_count, 0);
	assert_int_equal(read_records(records), 1);
	assert_int_equal(records[0].ref, 3);
	assert_int_equal(records[0].value, 2);
}

/* A window of 100 whose end finds no work: until work comes at 5,000 nothing was traced that there was. */
static void
test_waiting(void **state)
{
	struct cs_record records[64];
	const struct cs_status *status = cs_segment_writer_status(writer);

	(void)state;
	cs_windows_turn(&windows, CS_DEPTH_DEEP, 1, 2000);
	cs_windows_wait(&windows, 2100);
	assert_int_equal(status->depth, CS_DEPTH_OFF);
	assert_int_equal(status->depth_since_ns, 2100);
	cs_windows_wait(&windows, 2200);
	cs_windows_turn_idle(&windows, CS_DEPTH_OFF, 1, 5300, 5000);
	cs_windows_settle(&windows, 0, false);
	assert_int_equal(read_records(records), 1);
	assert_int_equal(records[0].start_ns, 2000);
	assert_int_equal(records[0].end_ns, 5300);
	assert_int_equal(status->trace_ns[CS_DEPTH_DEEP], 100 + 300);
	assert_int_equal(status->trace_ns[CS_DEPTH_OFF], 1000 + 2900);
	/* Work was there before: none of the time was idle. No work ever: all of it. */
	cs_windows_turn(&windows, CS_DEPTH_DEEP, 2, 6000);
	cs_windows_wait(&windows, 6100);
	cs_windows_turn_idle(&windows, CS_DEPTH_DEEP, 3, 6200, 6050);
	cs_windows_wait(&windows, 6300);
	cs_windows_turn_idle(&windows, CS_DEPTH_DEEP, 4, 6400, 0);
	cs_windows_wait(&windows, 6420);
	cs_windows_work(&windows, 6430, 6440); /* it goes on with work: 10 idle */
	assert_int_equal(status->depth, CS_DEPTH_DEEP);
	assert_int_equal(status->depth_since_ns, 6430);
	/* It does not wait any more. */
	cs_windows_turn_idle(&windows, CS_DEPTH_OFF, 4, 6500, 6450);
	cs_windows_settle(&windows, 0, false);
	assert_int_equal(status->trace_ns[CS_DEPTH_DEEP], 400 + 200 + 100 + 90);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_period, setup, teardown),
		cmocka_unit_test_setup_teardown(test_openings, setup, teardown),
		cmocka_unit_test_setup_teardown(test_foreign, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clock_set_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clock_set, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clock_set_back_after_waiting, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_pending, setup, teardown),
		cmocka_unit_test_setup_teardown(test_only_begun_ones_are_ours, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waiting, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
