/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers that wait until the worker has named their device, and what is missing, with a CUPTI of the test's
 * own. */
#include "clock.h"
#include "life/instance.h"
#include "records/delivery.h"
#include "segment/segment_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/collscope-delivery-XXXXXX";
static struct cs_instance instance;
static CUpti_BuffersCallbackRequestFunc requested;
static CUpti_BuffersCallbackCompleteFunc completed;
static unsigned int nudges;

struct cs_instance *
cs_instance_get(void)
{
	return &instance;
}

struct cs_segment_writer *
cs_injector_borrow_writer(void)
{
	return atomic_load(&instance.writer);
}

void
cs_instance_nudge(void)
{
	nudges++;
}

static CUptiResult
register_callbacks(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete)
{
	requested = request;
	completed = complete;
	return CUPTI_SUCCESS;
}

static CUptiResult
next_record(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record)
{
	uint8_t *at = *record ? (uint8_t *)*record + sizeof(CUpti_ActivityMemcpy5) : buffer;

	if (at >= buffer + valid_bytes)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = (CUpti_Activity *)(void *)at;
	return CUPTI_SUCCESS;
}

static size_t dropped;

static CUptiResult
count_dropped(CUcontext context, uint32_t stream, size_t *count)
{
	(void)context, (void)stream;
	*count = dropped;
	return CUPTI_SUCCESS;
}

static int
setup(void **state)
{
	struct cs_segment_options options = {.directory = directory, .ring_slots = 1024, .version = "test"};
	struct cs_segment_writer *writer = NULL;

	(void)state;
	instance.settings.buffers = 4;
	instance.settings.flush_ms = 20;
	instance.cupti.activity_register_callbacks = register_callbacks;
	instance.cupti.activity_get_next_record = next_record;
	instance.cupti.activity_get_num_dropped_records = count_dropped;
	atomic_store(&instance.leaving, CS_LEAVING_NOT);
	if (!mkdtemp(directory) || cs_segment_writer_create(&options, &writer) < 0)
		return -1;
	atomic_store(&instance.writer, writer);
	if (cs_delivery_init(&instance, writer) < 0)
		return -1;
	return cs_delivery_register(&instance.cupti) == CUPTI_SUCCESS ? 0 : -1;
}

static int
teardown(void **state)
{
	(void)state;
	cs_segment_writer_destroy(atomic_load(&instance.writer), true);
	return rmdir(directory);
}

/* A buffer with one copy on this device comes back. */
static void
hand_over(uint32_t device)
{
	CUpti_ActivityMemcpy5 copy = {.kind = CUPTI_ACTIVITY_KIND_MEMCPY, .deviceId = device, .bytes = 1};
	uint8_t *buffer = NULL;
	size_t bytes, records;

	copy.start = cs_clock_realtime_ns();
	copy.end = copy.start + 1000;
	requested(&buffer, &bytes, &records);
	memcpy(buffer, &copy, sizeof(copy));
	completed(NULL, 0, buffer, bytes, sizeof(copy));
}

static uint64_t
busy(void)
{
	return atomic_load(&cs_segment_writer_status(cs_injector_borrow_writer())->records[CS_RECORD_BUSY]);
}

static uint64_t
lost(void)
{
	return atomic_load(
		&cs_segment_writer_status(cs_injector_borrow_writer())->lost[CS_LOSS_UNKNOWN_DEVICE]);
}

/* The worker names one device, which takes a moment; in that moment a buffer of another one comes. */
static void
test_another_device_meanwhile(void **state)
{
	(void)state;
	hand_over(1);
	assert_int_equal(nudges, 1);
	assert_int_equal(cs_delivery_take_wanted(), 1 << 1);
	hand_over(2);
	cs_delivery_set_gpu(1, 0);
	cs_delivery_parse_parked();
	assert_int_equal(busy(), 1);
	assert_int_equal(lost(), 0);
	assert_int_equal(cs_buffers_held(cs_delivery_buffers(), 0), 1);
	assert_int_equal(cs_delivery_take_wanted(), 1 << 2);
	cs_delivery_set_gpu(2, 1);
	cs_delivery_parse_parked();
	assert_int_equal(busy(), 2);
	assert_int_equal(lost(), 0);
	assert_int_equal(cs_buffers_held(cs_delivery_buffers(), 0), 0);
	cs_delivery_parse_parked();
	assert_int_equal(busy(), 2);
}

/* One that has no name is not waited for a second time. */
static void
test_a_device_without_a_name(void **state)
{
	(void)state;
	hand_over(3);
	hand_over(1);
	assert_int_equal(busy(), 3);
	assert_int_equal(cs_delivery_take_wanted(), 1 << 3);
	cs_delivery_parse_parked();
	assert_int_equal(lost(), 1);
	assert_int_equal(cs_buffers_held(cs_delivery_buffers(), 0), 0);
}

/* The last LOSS record. */
static void
read_loss(struct cs_record *loss)
{
	const char *path = cs_segment_writer_path(cs_injector_borrow_writer());
	struct cs_segment_reader *reader;
	struct cs_error error;
	struct cs_record records[64];
	size_t count = 0;

	assert_int_equal(cs_segment_reader_open(path, true, &reader, &error), 0);
	assert_int_equal(cs_segment_reader_read(reader, records, 64, &count), 0);
	assert_int_not_equal(count, 0);
	*loss = records[count - 1];
	assert_int_equal(loss->type, CS_RECORD_LOSS);
	cs_segment_reader_close(reader);
}

/* CUPTI had no room for some of what it handed over: nobody knows when they ran, but not before what had
 * ended by the flush before the last buffer. */
static void
test_dropped(void **state)
{
	uint64_t before_ns, after_ns;
	struct cs_record loss;

	(void)state;
	before_ns = cs_clock_realtime_ns();
	hand_over(1);
	after_ns = cs_clock_realtime_ns();
	dropped = 5;
	hand_over(1);
	read_loss(&loss);
	assert_int_equal(loss.ref, CS_LOSS_CUPTI_DROPPED);
	assert_int_equal(loss.value, 5);
	assert_in_range(loss.start_ns, before_ns - 20 * CS_NS_PER_MS, after_ns - 20 * CS_NS_PER_MS);
	assert_in_range(loss.end_ns, after_ns, cs_clock_realtime_ns());
	dropped = 0;
}

/* It was given no buffer that is read. */
static void
test_no_buffer(void **state)
{
	uint8_t *held[CS_BUFFERS_MAX + CS_BUFFER_RESERVE_MAX + CS_BUFFER_FRESH_MAX + 1];
	uint64_t before_ns, after_ns;
	size_t bytes, records, count = 0;
	struct cs_record loss;

	(void)state;
	before_ns = cs_clock_realtime_ns();
	hand_over(1);
	after_ns = cs_clock_realtime_ns();
	while (atomic_load(
		       &cs_segment_writer_status(cs_injector_borrow_writer())->lost[CS_LOSS_POOL_EMPTY]) == 0)
		requested(&held[count++], &bytes, &records);
	read_loss(&loss);
	assert_int_equal(loss.ref, CS_LOSS_POOL_EMPTY);
	assert_in_range(loss.start_ns, before_ns - 20 * CS_NS_PER_MS, after_ns - 20 * CS_NS_PER_MS);
	while (count-- > 0)
		completed(NULL, 0, held[count], bytes, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_another_device_meanwhile),
		cmocka_unit_test(test_a_device_without_a_name),
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_no_buffer),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
