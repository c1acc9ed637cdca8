/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hand-made buffers with the record sizes of each CUPTI version. The layouts are written down here from
 * NVIDIA documents as byte offsets, apart from the struct under test.
 */
#include "clock.h"
#include "records/activity.h"
#include "records/activity_layout.h"
#include "segment/segment_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NOW    1800000000000000000ULL
#define START  (NOW - 1000000)
#define DEVICE 3

struct version {
	uint32_t cupti;
	size_t kernel_bytes, copy_bytes, graph_bytes;
};

static const struct version versions[] = {
	{18, 200, 88, 48},     /* Kernel8 */
	{19, 208, 88, 48},     /* Kernel9, Memcpy5, GraphTrace */
	{26, 208, 96, 56},     /* Memcpy6, GraphTrace2 */
	{130001, 216, 96, 56}, /* Kernel10 */
	{130400, 240, 96, 56}, /* Kernel13 */
};

static const struct version *version;
static char directory[] = "/tmp/collscope-activity-XXXXXX";
static struct cs_segment_writer *writer;
static struct cs_segment_reader *reader;
static struct cs_activity activity;

static _Alignas(8) uint8_t buffer[512 * 1024];
static size_t used;

static CUptiResult
next(uint8_t *bytes, size_t valid_bytes, CUpti_Activity **record)
{
	uint8_t *at = (uint8_t *)*record;
	uint32_t kind;
	size_t length = 0;

	if (at) {
		memcpy(&kind, at, sizeof(kind));
		switch (kind) {
		case 3:
		case 10:
			length = version->kernel_bytes;
			break;
		case 1:
			length = version->copy_bytes;
			break;
		case 22:
			length = 96;
			break;
		case 2:
			length = 88;
			break;
		case 51:
			length = version->graph_bytes;
			break;
		default:
			length = 40;
			break;
		}
	}
	at = at ? at + length : bytes;
	if ((size_t)(at - bytes) >= valid_bytes)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = (CUpti_Activity *)(void *)at;
	return CUPTI_SUCCESS;
}

/* "ar*" is a collective of 43,008 bytes, "marker*" a marker, all else ordinary. */
static void
resolve(const struct cs_kernel_key *key, struct cs_kernel_identity *identity)
{
	memset(identity, 0, sizeof(*identity));
	if (key->name && strncmp(key->name, "ar", 2) == 0) {
		identity->kind = CS_CATALOG_COLLECTIVE;
		identity->bytes = 43008;
		identity->sequence = 17;
		identity->record_flags = CS_RECORD_FUSED;
	} else if (key->name && strncmp(key->name, "marker", 6) == 0) {
		identity->kind = CS_CATALOG_MARKER;
	}
}

static uint8_t *
add(uint32_t kind, size_t bytes)
{
	uint8_t *record = buffer + used;

	/* What a newer version appends is not zero. */
	memset(record, 0xa5, bytes);
	memcpy(record, &kind, sizeof(kind));
	used += bytes;
	return record;
}

static void
put64(uint8_t *record, size_t offset, uint64_t value)
{
	memcpy(record + offset, &value, sizeof(value));
}

static void
put32(uint8_t *record, size_t offset, uint32_t value)
{
	memcpy(record + offset, &value, sizeof(value));
}

static void
add_kernel(const char *name, uint64_t start_ns, uint64_t end_ns, uint64_t node)
{
	uint8_t *record = add(10, version->kernel_bytes);

	put64(record, 16, start_ns);
	put64(record, 24, end_ns);
	put32(record, 40, DEVICE);
	put32(record, 44, 2);
	put32(record, 48, 13);
	put32(record, 92, 777);
	put64(record, 104, (uint64_t)(uintptr_t)name);
	put64(record, 144, node);
	put32(record, 156, node ? 4 : 0);
}

static void
add_copy(uint32_t kind, uint8_t copy_kind, uint64_t start_ns, uint64_t end_ns, uint64_t bytes)
{
	uint8_t *record = add(kind, kind == 2 ? 88 : kind == 22 ? 96 : version->copy_bytes);

	if (kind != 2)
		record[4] = copy_kind;
	put64(record, 8, bytes);
	put64(record, 16, start_ns);
	put64(record, 24, end_ns);
	put32(record, 32, DEVICE);
	put32(record, 36, 2);
	put32(record, 40, 14);
	put32(record, kind == 22 ? 60 : 44, 778);
	put64(record, kind == 22 ? 72 : 64, 0);
	put32(record, kind == 22 ? 80 : 72, 0);
}

static void
add_graph(uint64_t start_ns, uint64_t end_ns)
{
	uint8_t *record = add(51, version->graph_bytes);

	put32(record, 4, 779);
	put64(record, 8, start_ns);
	put64(record, 16, end_ns);
	put32(record, 24, DEVICE);
	put32(record, 28, 4);
	put32(record, 32, 2);
	put32(record, 36, 13);
}

static size_t
parse(struct cs_record *records, size_t capacity)
{
	size_t count = 0;

	cs_activity_parse(&activity, buffer, used, next, NOW);
	assert_int_equal(cs_segment_reader_read(reader, records, capacity, &count), 0);
	return count;
}

static int
setup(void **state)
{
	struct cs_segment_options options = {.directory = directory, .ring_slots = 1024, .version = "test"};
	struct cs_gpu gpu = {.cuda_ordinal = DEVICE, .uuid = {1}};
	struct cs_error error;

	(void)state;
	memcpy(directory + sizeof(directory) - 7, "XXXXXX", 6);
	if (!mkdtemp(directory) || cs_segment_writer_create(&options, &writer) < 0)
		return -1;
	used = 0;
	version = &versions[3];
	cs_activity_init(&activity, writer, resolve);
	cs_activity_set_gpu(&activity, DEVICE, cs_segment_writer_gpu(writer, &gpu));
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

static uint64_t
lost(enum cs_loss_cause cause)
{
	return cs_segment_writer_status(writer)->lost[cause];
}

static void
test_every_version(void **state)
{
	struct cs_record records[64];

	(void)state;
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		version = &versions[i];
		used = 0;
		add_kernel("gemm", START, START + 1000, 0x200000001);
		add_kernel("ar", START + 1500, START + 9000, 0x200000002);
		add_kernel("marker", START + 9500, START + 9600, 0);
		add_copy(1, CS_COPY_TO_HOST, START, START + 500, 4096);
		add_copy(22, CS_COPY_PEER, START + 600, START + 700, 512);
		add_copy(2, 0, START + 800, START + 900, 64);
		/* What another tool has switched on: an API record, a graph launch as a whole. */
		add(4, 40);
		add_graph(START, START + 20000);
		assert_int_equal(parse(records, 64), 6);

		assert_int_equal(records[0].type, CS_RECORD_BUSY); /* closed by the collective */
		assert_int_equal(records[0].value, 1000);
		assert_int_equal(records[0].graph_node_id, 0x200000001);
		assert_int_equal(records[1].type, CS_RECORD_COLLECTIVE);
		assert_int_equal(records[1].start_ns, START + 1500);
		assert_int_equal(records[1].end_ns, START + 9000);
		assert_int_equal(records[1].value, 43008);
		assert_int_equal(records[1].sequence, 17);
		assert_int_equal(records[1].flags, CS_RECORD_IN_GRAPH | CS_RECORD_FUSED);
		assert_int_equal(records[1].graph_id, 4);
		assert_int_equal(records[1].correlation_id, 777);
		assert_int_equal(records[1].stream_id, (2U << 24) ^ 13);
		assert_int_equal(records[2].type, CS_RECORD_MARKER);
		assert_int_equal(records[3].klass, CS_BUSY_COPY);
		assert_int_equal(records[3].flags, CS_RECORD_COPY_TO_HOST);
		assert_int_equal(records[3].value, 4096);
		assert_int_equal(records[4].flags, CS_RECORD_COPY_PEER);
		assert_int_equal(records[4].correlation_id, 778);
		assert_int_equal(records[5].flags, 0);
		assert_int_equal(records[5].value, 64);
	}
	assert_int_equal(cs_segment_writer_status(writer)->kernels_seen, 3 * 5);
	assert_int_equal(cs_segment_writer_status(writer)->last_record_end_ns, START + 9600);
}

static void
test_bad_times(void **state)
{
	struct cs_record records[64];

	(void)state;
	add_kernel("ar", 0, START, 1);
	add_kernel("ar", START, 0, 1);
	add_kernel("ar", START, START - 1, 1);
	add_kernel("ar", START, START + 3601 * CS_NS_PER_S, 1);
	add_kernel("ar", 0x8000000000000000, 0x8000000000000000 + 5, 1);
	add_kernel("ar", 123456789012345, 123456789012999, 1); /* raw TSC */
	add_kernel("ar", START, START, 1);                     /* empty is fine */
	add_copy(1, CS_COPY_TO_HOST, 0, 0, 64);
	assert_int_equal(parse(records, 64), 2);
	assert_int_equal(records[0].type, CS_RECORD_COLLECTIVE);
	assert_int_equal(records[1].type, CS_RECORD_LOSS);
	assert_int_equal(records[1].ref, CS_LOSS_BAD_TIMESTAMP);
	assert_int_equal(records[1].value, 7);
	assert_int_equal(lost(CS_LOSS_BAD_TIMESTAMP), 7);
	assert_int_equal(activity.bad_total, 7);
	assert_int_equal(activity.strange_total, 2);
	assert_int_equal(activity.kernels_total, 7);
	assert_int_equal(activity.timed_total, 8);
}

/* A window is closed while kernels are on their way; later another is opened. */
static void
test_window_edge(void **state)
{
	const uint64_t closed_ns = START + 500;
	struct cs_record records[64];

	(void)state;
	cs_activity_note_close(&activity, closed_ns);
	add_kernel("ar", START, START + 101000000, 1);      /* its end is late by the time until the flush */
	add_kernel("ar", START + 600, START + 60000000, 1); /* launched before, ran after */
	add_kernel("ar", START, START + 500, 1);            /* ended in time */
	assert_int_equal(parse(records, 64), 1);
	assert_int_equal(records[0].end_ns, START + 500);
	cs_activity_note_open(&activity, START + 800000);
	used = 0;
	add_kernel("ar", START, START + 101000000, 1); /* handed over late */
	add_kernel("ar", START + 800000, START + 900000, 1);
	assert_int_equal(parse(records, 64), 1);
	assert_int_equal(records[0].start_ns, START + 800000);
	assert_int_equal(lost(CS_LOSS_BAD_TIMESTAMP), 0);
}

/* A window is open again after a long time, and the clock is set back: it is no gap that it goes through. */
static void
test_clock_set_back(void **state)
{
	struct cs_record records[64];

	(void)state;
	cs_activity_note_close(&activity, START - 900000);
	cs_activity_note_set(&activity, true); /* what had been launched before is outside as ever */
	add_kernel("ar", START - 950000, START, 1);
	assert_int_equal(parse(records, 64), 0);
	cs_activity_note_open(&activity, START);
	cs_activity_note_set(&activity, true);
	used = 0;
	add_kernel("ar", START - 600000, START - 590000, 1);
	assert_int_equal(parse(records, 64), 1);
	/* The next edges hold. */
	cs_activity_note_close(&activity, START - 500000);
	used = 0;
	add_kernel("ar", START - 501000, START - 100000, 1);
	assert_int_equal(parse(records, 64), 0);
}

/* The clock is set forward by 0.5 s, and CUPTI goes on by the old one: nothing seems to lie in a window. */
static void
test_clock_set_forward(void **state)
{
	const uint64_t opened_ns = START - 100000000, closed_ns = opened_ns - 10 * CS_NS_PER_S;
	struct cs_record records[64];

	(void)state;
	cs_activity_note_close(&activity, closed_ns);
	cs_activity_note_open(&activity, opened_ns);
	add_kernel("ar", opened_ns - 500000000, opened_ns - 499000000, 1);
	assert_int_equal(parse(records, 64), 0);
	assert_int_equal(activity.strange_total, 0);
	cs_activity_note_set(&activity, false);
	assert_int_equal(parse(records, 64), 1);
	assert_int_equal(records[0].type, CS_RECORD_LOSS);
	assert_int_equal(activity.strange_total, 1);
	assert_int_equal(lost(CS_LOSS_BAD_TIMESTAMP), 1);
	/* Those are stragglers as ever. */
	used = 0;
	add_kernel("ar", closed_ns + 1000, closed_ns + 2 * CS_NS_PER_S, 1);
	add_kernel("ar", closed_ns - 1000, closed_ns + 5 * CS_NS_PER_S, 1);
	assert_int_equal(parse(records, 64), 0);
	assert_int_equal(activity.strange_total, 1);
}

static void
test_unknown_device(void **state)
{
	struct cs_record records[64];

	(void)state;
	add_kernel("ar", START, START + 1, 1);
	put32(buffer, 40, 5);
	add_kernel("ar", START - 4, START - 3, 1);
	put32(buffer + version->kernel_bytes, 40, 4000000000U);
	assert_int_equal(parse(records, 64), 1);
	assert_int_equal(records[0].start_ns, START - 4); /* when they ran, not when they were missed */
	assert_int_equal(records[0].end_ns, START + 1);
	assert_int_equal(lost(CS_LOSS_UNKNOWN_DEVICE), 2);
	assert_int_equal(activity.wanted_devices, 1 << 5);
	cs_activity_set_gpu(&activity, 5, 0);
	assert_int_equal(parse(records, 64), 2);
	assert_int_equal(records[0].type, CS_RECORD_COLLECTIVE);
}

/* A record of a device that nobody has named yet ends the walk; it goes on there, and nothing is counted
 * twice. */
static void
test_waits_for_a_device(void **state)
{
	struct cs_record records[64];
	CUpti_Activity *at = NULL;
	size_t count = 0;

	(void)state;
	add_kernel("ar", START, START + 1, 1);
	add_kernel("ar", START + 2, START + 3, 1);
	put32(buffer + version->kernel_bytes, 40, 5);
	add_kernel("ar", START + 4, START + 5, 1);
	assert_true(cs_activity_parse_from(&activity, buffer, used, next, NOW, true, &at));
	assert_ptr_equal(at, buffer + version->kernel_bytes);
	assert_int_equal(activity.wanted_devices, 1 << 5);
	assert_int_equal(activity.kernels_total, 1);
	assert_int_equal(activity.timed_total, 1);
	assert_int_equal(cs_segment_reader_read(reader, records, 64, &count), 0);
	assert_int_equal(count, 1);
	cs_activity_set_gpu(&activity, 5, 0);
	assert_false(cs_activity_parse_from(&activity, buffer, used, next, NOW, true, &at));
	assert_null(at);
	assert_int_equal(activity.kernels_total, 3);
	assert_int_equal(activity.timed_total, 3);
	assert_int_equal(cs_segment_reader_read(reader, records, 64, &count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(records[0].start_ns, START + 2);
	/* Nobody could name it: it is lost, and what follows is not. */
	put32(buffer, 40, 6);
	at = NULL;
	assert_true(cs_activity_parse_from(&activity, buffer, used, next, NOW, true, &at));
	assert_false(cs_activity_parse_from(&activity, buffer, used, next, NOW, false, &at));
	assert_int_equal(lost(CS_LOSS_UNKNOWN_DEVICE), 1);
	assert_int_equal(activity.kernels_total, 6);
	assert_int_equal(lost(CS_LOSS_CUPTI_DROPPED), 0);
}

/* 400 kernels, every second one a collective: nothing lost, nothing held back. */
static void
test_full_buffer(void **state)
{
	static struct cs_record records[4096];
	size_t busy = 0, collectives = 0, count;

	(void)state;
	for (uint64_t i = 0; i < 400; i++)
		add_kernel(i % 2 ? "ar" : "gemm", START + i * 100, START + i * 100 + 90, i + 1);
	count = parse(records, 4096);
	for (size_t i = 0; i < count; i++) {
		busy += records[i].type == CS_RECORD_BUSY;
		collectives += records[i].type == CS_RECORD_COLLECTIVE;
	}
	assert_int_equal(busy, 200);
	assert_int_equal(collectives, 200);
	used = 0;
	add_kernel("gemm", START, START + 10, 1);
	assert_int_equal(parse(records, 4096), 1);
}

static unsigned int good; /* records until CUPTI gives up */
static CUptiResult ending;

static CUptiResult
next_until(uint8_t *bytes, size_t valid_bytes, CUpti_Activity **record)
{
	return good-- > 0 ? next(bytes, valid_bytes, record) : ending;
}

/* CUPTI stops in the middle of a buffer: what it gave is there, and that there was more is said. Not where it
 * found the end. */
static void
test_cut_off(void **state)
{
	static const struct {
		CUptiResult result;
		uint64_t lost;
	} rows[] = {{CUPTI_ERROR_INVALID_PARAMETER, 1}, {CUPTI_ERROR_UNKNOWN, 1},
		{CUPTI_ERROR_INVALID_KIND, 0}, {CUPTI_ERROR_MAX_LIMIT_REACHED, 0}};
	struct cs_record records[64];
	size_t count = 0;
	uint64_t expected = 0;

	(void)state;
	for (unsigned int i = 0; i < 4; i++)
		add_kernel("ar", START + i * 100, START + i * 100 + 90, i + 1);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		good = 2;
		ending = rows[i].result;
		expected += rows[i].lost;
		cs_activity_parse(&activity, buffer, used, next_until, NOW);
		assert_int_equal(cs_segment_reader_read(reader, records, 64, &count), 0);
		assert_int_equal(count, 2 + rows[i].lost);
		assert_int_equal(lost(CS_LOSS_CUPTI_DROPPED), expected);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_every_version, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_times, setup, teardown),
		cmocka_unit_test_setup_teardown(test_window_edge, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clock_set_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clock_set_forward, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unknown_device, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waits_for_a_device, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_buffer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cut_off, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
