/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported plugins, driven as NCCL drives them: descriptors are laid out by hand at the offsets that
 * NCCL's own headers have (profiler_v1.h to profiler_v7.h), not with the structs under test, and the order of
 * events is NCCL's.
 */
#include "collective.h"
#include "instance_double.h"
#include "labels/announce.h"
#include "nccl/profiler_abi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const struct cs_nccl_profiler_v1 ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3;
extern const struct cs_nccl_profiler_v4 ncclProfiler_v4;
extern const struct cs_nccl_profiler_v5 ncclProfiler_v5, ncclProfiler_v6, ncclProfiler_v7;

static struct cs_label late_facts;
static uint32_t late_sequence;
static uint64_t late_key;

static void
on_amend(uint64_t key, const struct cs_label *facts, uint32_t sequence)
{
	late_key = key;
	late_facts = *facts;
	late_sequence = sequence;
}

static int
setup(void **state)
{
	(void)state;
	late_key = 0;
	cs_announce_register_amend(on_amend);
	return instance_double_open();
}

static int
teardown(void **state)
{
	(void)state;
	instance_double_close();
	return 0;
}

static struct cs_label
unknown_label(void)
{
	return (struct cs_label){
		.rank = CS_RANK_UNKNOWN, .world = CS_RANK_UNKNOWN, .bytes = CS_BYTES_UNKNOWN};
}

/* A descriptor of 256 bytes, written by offset. */
union descriptor {
	unsigned char bytes[256];
	struct cs_nccl_event event;
	struct cs_nccl_event_legacy legacy;
};

static void
put(union descriptor *descriptor, size_t offset, const void *value, size_t bytes)
{
	memcpy(descriptor->bytes + offset, value, bytes);
}

static void
put_text(union descriptor *descriptor, size_t offset, const char *text)
{
	put(descriptor, offset, &text, sizeof(text));
}

static void
put_u64(union descriptor *descriptor, size_t offset, uint64_t value)
{
	put(descriptor, offset, &value, sizeof(value));
}

static void
put_u8(union descriptor *descriptor, size_t offset, uint8_t value)
{
	put(descriptor, offset, &value, sizeof(value));
}

/* v5 to v7: type u64 at 0; the union at 24. */
static union descriptor
modern(uint64_t type)
{
	union descriptor descriptor = {0};

	put_u64(&descriptor, 0, type);
	return descriptor;
}

static union descriptor
coll_api(const char *func, uint64_t count, const char *datatype)
{
	union descriptor descriptor = modern(0x200);

	put_text(&descriptor, 24, func);
	put_u64(&descriptor, 32, count);
	put_text(&descriptor, 40, datatype);
	return descriptor;
}

/* coll of v4 to v7: seq 24, func 32, count 56, datatype 72, nChannels 80, algo 88, proto 96. */
static void
fill_coll_v4(union descriptor *descriptor, const char *func, uint64_t count, const char *datatype)
{
	put_u64(descriptor, 24, 41);
	put_text(descriptor, 32, func);
	put_u64(descriptor, 56, count);
	put_text(descriptor, 72, datatype);
	put_u8(descriptor, 80, 16);
	put_text(descriptor, 88, "RING");
	put_text(descriptor, 96, "LL");
}

static void *
start(const struct cs_nccl_profiler_v5 *plugin, void *context, union descriptor descriptor)
{
	void *handle = NULL;

	assert_int_equal(plugin->start_event(context, &handle, &descriptor.event), 0);
	assert_non_null(handle);
	return handle;
}

/* One ungrouped call, as NCCL 2.28 to 2.31 makes it; the driver's launch callback is the take and bind in the
 * middle. */
static struct cs_label
call_modern(const struct cs_nccl_profiler_v5 *plugin, void *context, const char *func, uint64_t count,
	const char *datatype, uint64_t late_count, const char *late_datatype)
{
	struct cs_label label = unknown_label();
	union descriptor coll = modern(0x2);
	uint32_t sequence = 0;
	void *group_api, *api, *launch, *group, *handle;

	group_api = start(plugin, context, modern(0x100));
	plugin->record_event_state(group_api, 23, NULL);
	api = start(plugin, context, coll_api(func, count, datatype));
	plugin->stop_event(api);
	plugin->record_event_state(group_api, 24, NULL);
	launch = start(plugin, context, modern(0x800));
	assert_true(cs_announce_take(&label, &sequence));
	cs_announce_bind(1234);
	plugin->stop_event(launch);
	group = start(plugin, context, modern(0x1));
	fill_coll_v4(&coll, func, late_count, late_datatype);
	handle = start(plugin, context, coll);
	plugin->stop_event(handle);
	plugin->stop_event(group);
	plugin->stop_event(group_api);
	return label;
}

static void
modern_all_reduce(void **state)
{
	const struct cs_nccl_profiler_v5 *plugins[] = {&ncclProfiler_v5, &ncclProfiler_v6, &ncclProfiler_v7};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct cs_label label;
		void *context = NULL;
		int mask = 0;

		assert_int_equal(plugins[i]->init(&context, 0xfeedULL + i, &mask, "tp", 1, 8, 5, NULL), 0);
		/* API events and Coll; no KernelCh, no proxy, no network. */
		assert_int_equal(mask & 0x2, 0x2);
		assert_int_equal(mask & 0xb00, 0xb00);
		assert_int_equal(mask & 0xf8, 0);
		label = call_modern(
			plugins[i], context, "AllReduce", 21504, "ncclBfloat16", 21504, "ncclBfloat16");
		assert_int_equal(label.op, CS_OP_ALL_REDUCE);
		assert_int_equal(label.bytes, 43008);
		assert_int_equal(label.count, 21504);
		assert_int_equal(label.dtype, CS_DTYPE_BFLOAT16);
		assert_int_equal(label.rank, 5);
		assert_int_equal(label.world, 8);
		assert_int_not_equal(label.comm_id, 0);
		assert_int_equal(late_key, 1234);
		assert_int_equal(late_sequence, 41);
		assert_true(cs_announce_complete(&label, &late_facts));
		assert_int_equal(label.algorithm, CS_ALGORITHM_RING);
		assert_int_equal(label.protocol, CS_PROTOCOL_LL);
		assert_int_equal(label.channels, 16);
		assert_int_equal(label.bytes, 43008);
		plugins[i]->finalize(context);
	}
}

static void
all_gather_and_reduce_scatter_count_the_whole_message(void **state)
{
	struct cs_label label;
	void *context = NULL;
	int mask = 0;

	(void)state;
	ncclProfiler_v5.init(&context, 0xabc, &mask, NULL, 1, 4, 0, NULL);
	/* After the launch NCCL speaks of an all-gather in bytes. */
	label = call_modern(&ncclProfiler_v5, context, "AllGather", 1000, "ncclFloat16", 2000, "ncclInt8");
	assert_int_equal(label.bytes, 8000);
	cs_announce_complete(&label, &late_facts);
	assert_int_equal(label.bytes, 8000);
	assert_int_equal(label.dtype, CS_DTYPE_FLOAT16);
	assert_int_equal(label.count, 1000);
	label = call_modern(
		&ncclProfiler_v5, context, "ReduceScatter", 1000, "ncclFloat32", 1000, "ncclFloat32");
	assert_int_equal(label.bytes, 16000);
}

static void
an_all_to_all_is_announced_once(void **state)
{
	const struct cs_nccl_profiler_v5 *plugin = &ncclProfiler_v6;
	union descriptor p2p = coll_api("AlltoAll", 100, "ncclFloat32");
	struct cs_label label = unknown_label();
	uint32_t sequence = 0;
	void *context = NULL, *group_api;
	int mask = 0;

	(void)state;
	put_u64(&p2p, 0, 0x400);
	plugin->init(&context, 0xdef, &mask, NULL, 1, 4, 0, NULL);
	group_api = start(plugin, context, modern(0x100));
	for (int i = 0; i < 8; i++)
		plugin->stop_event(start(plugin, context, p2p));
	plugin->stop_event(start(plugin, context, modern(0x800)));
	assert_true(cs_announce_take(&label, &sequence));
	plugin->stop_event(group_api);
	assert_int_equal(label.op, CS_OP_ALL_TO_ALL);
	assert_int_equal(label.bytes, 1600);
	assert_int_equal(label.works, 1);
}

static void
an_unknown_type_gives_no_size(void **state)
{
	struct cs_label label;
	void *context = NULL;
	int mask = 0;

	(void)state;
	ncclProfiler_v5.init(&context, 0xabd, &mask, NULL, 1, 4, 0, NULL);
	label = call_modern(&ncclProfiler_v5, context, "AllReduce", 1000, "Unknown", 1000, "Unknown");
	assert_int_equal(label.bytes, CS_BYTES_UNKNOWN);
	assert_int_equal(label.op, CS_OP_ALL_REDUCE);
}

/* v1 to v4: the launch comes first, then Group and Coll. type is one byte; rank at 16. */
static void
legacy_launch(int (*start_event)(void *, void **, void *), int (*stop_event)(void *), void *context,
	union descriptor coll)
{
	union descriptor group = {0};
	void *group_handle = NULL, *coll_handle = NULL;

	cs_announce_bind(55);
	put_u8(&group, 0, 0x1);
	assert_int_equal(start_event(context, &group_handle, &group.legacy), 0);
	assert_non_null(group_handle);
	put_u8(&coll, 0, 0x2);
	assert_int_equal(start_event(context, &coll_handle, &coll.legacy), 0);
	stop_event(coll_handle);
	stop_event(group_handle);
}

static void
version_4(void **state)
{
	union descriptor coll = {0};
	void *context = NULL;
	int mask = 0;

	(void)state;
	ncclProfiler_v4.init(&context, &mask, "tp", 0x444, 1, 2, 1, NULL);
	assert_int_equal(mask, 0x3);
	fill_coll_v4(&coll, "AllReduce", 512, "ncclFloat32");
	/* The launch of this thread must have a state: the launch callback's take makes none, a begin does.
	 */
	legacy_launch(ncclProfiler_v4.start_event, ncclProfiler_v4.stop_event, context, coll);
	assert_int_equal(late_key, 55);
	assert_int_equal(late_facts.bytes, 2048);
	assert_int_equal(late_facts.rank, 1);
	assert_int_equal(late_facts.world, 2);
	assert_int_equal(late_facts.algorithm, CS_ALGORITHM_RING);
	assert_int_equal(late_facts.channels, 16);
}

/* v2: name 24, hash 32, seq 40, func 48, count 72, datatype 88, traffic 96, channels 104, algo 112, proto
 * 120; v3 has no traffic: channels 96, algo 104, proto 112. */
static void
versions_2_and_3(void **state)
{
	(void)state;
	for (int version = 2; version <= 3; version++) {
		const struct cs_nccl_profiler_v1 *plugin = version == 2 ? &ncclProfiler_v2 : &ncclProfiler_v3;
		size_t shift = version == 2 ? 8 : 0;
		union descriptor coll = {0};
		int rank = 6, mask = 0;
		void *context = NULL;

		plugin->init(&context, &mask);
		assert_int_equal(mask, 0x3);
		put(&coll, 16, &rank, sizeof(rank));
		put_text(&coll, 24, "world");
		put_u64(&coll, 32, 0x2200 + (uint64_t)version);
		put_u64(&coll, 40, 7);
		put_text(&coll, 48, "AllReduce");
		put_u64(&coll, 72, 100);
		put_text(&coll, 88, "ncclFloat64");
		put_u64(&coll, 96, 0xffffffffffffffffULL);
		put_text(&coll, 104 + shift, "TREE");
		put_text(&coll, 112 + shift, "LL128");
		legacy_launch(plugin->start_event, plugin->stop_event, context, coll);
		assert_int_equal(late_facts.bytes, 800);
		assert_int_equal(late_facts.rank, 6);
		assert_int_equal(late_facts.algorithm, CS_ALGORITHM_TREE);
		assert_int_equal(late_facts.protocol, CS_PROTOCOL_LL128);
		assert_int_equal(late_sequence, 7);
	}
}

/* v1: func u8 at 48, count 72, root 80, datatype u8 84, op u32 88, traffic 96, channels 104, warps 105, algo
 * 106, proto 107. */
static void
version_1(void **state)
{
	union descriptor coll = {0};
	void *context = NULL;
	int rank = 2, mask = 0;
	uint32_t op = 2;

	(void)state;
	ncclProfiler_v1.init(&context, &mask);
	put(&coll, 16, &rank, sizeof(rank));
	put_u64(&coll, 32, 0x1111);
	put_u8(&coll, 48, 4);
	put_u64(&coll, 72, 300);
	put_u8(&coll, 84, 6);
	put(&coll, 88, &op, sizeof(op));
	put_u8(&coll, 106, 1);
	put_u8(&coll, 107, 2);
	legacy_launch(ncclProfiler_v1.start_event, ncclProfiler_v1.stop_event, context, coll);
	assert_int_equal(late_facts.op, CS_OP_ALL_REDUCE);
	assert_int_equal(late_facts.dtype, CS_DTYPE_FLOAT16);
	assert_int_equal(late_facts.bytes, 600);
	assert_int_equal(late_facts.rank, 2);
	assert_int_equal(late_facts.reduction, CS_REDUCTION_MAX);
	assert_int_equal(late_facts.algorithm, CS_ALGORITHM_RING);
	assert_int_equal(late_facts.protocol, CS_PROTOCOL_SIMPLE);
	/* A reduction of the program's own, and one that NCCL may add, are not guessed. */
	op = 5;
	put(&coll, 88, &op, sizeof(op));
	legacy_launch(ncclProfiler_v1.start_event, ncclProfiler_v1.stop_event, context, coll);
	assert_int_equal(late_facts.reduction, CS_REDUCTION_UNKNOWN);
}

/* Programs that make communicators all the time keep ranks and worlds. */
static void
places_of_finished_communicators_are_used_again(void **state)
{
	struct cs_label label;

	(void)state;
	for (uint64_t hash = 1; hash <= 400; hash++) {
		void *context = NULL;
		int mask = 0;

		ncclProfiler_v5.init(&context, 0x5000 + hash, &mask, NULL, 1, 4, 3, NULL);
		assert_non_null(context);
		label = call_modern(
			&ncclProfiler_v5, context, "AllReduce", 8, "ncclFloat32", 8, "ncclFloat32");
		assert_int_equal(label.world, 4);
		assert_int_equal(ncclProfiler_v5.finalize(context), 0);
	}
}

/* Before version 4 the communicator is told by its events alone. */
static void
places_are_used_again_when_init_tells_nothing(void **state)
{
	(void)state;
	for (uint64_t hash = 1; hash <= 400; hash++) {
		union descriptor coll = {0};
		int rank = 3, mask = 0;
		void *context = NULL;

		ncclProfiler_v3.init(&context, &mask);
		assert_non_null(context);
		put(&coll, 16, &rank, sizeof(rank));
		put_u64(&coll, 32, 0x6000 + hash);
		put_text(&coll, 48, "AllReduce");
		put_u64(&coll, 72, 100);
		put_text(&coll, 88, "ncclFloat64");
		for (int call = 0; call < 2; call++) {
			late_facts = unknown_label();
			legacy_launch(ncclProfiler_v3.start_event, ncclProfiler_v3.stop_event, context, coll);
			assert_int_equal(late_facts.rank, 3);
		}
		assert_int_equal(ncclProfiler_v3.finalize(context), 0);
	}
}

static void
without_a_segment_events_still_succeed(void **state)
{
	struct cs_label label;
	void *context = NULL;
	int mask = 0;

	(void)state;
	instance_double_hide(true);
	assert_int_equal(ncclProfiler_v5.init(&context, 0x777, &mask, NULL, 1, 2, 0, NULL), 0);
	label = call_modern(&ncclProfiler_v5, context, "AllReduce", 8, "ncclFloat32", 8, "ncclFloat32");
	assert_int_equal(label.comm_id, 0);
	assert_int_equal(label.bytes, 32);
	assert_int_equal(ncclProfiler_v5.stop_event(NULL), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(modern_all_reduce, setup, teardown),
		cmocka_unit_test_setup_teardown(
			all_gather_and_reduce_scatter_count_the_whole_message, setup, teardown),
		cmocka_unit_test_setup_teardown(an_all_to_all_is_announced_once, setup, teardown),
		cmocka_unit_test_setup_teardown(an_unknown_type_gives_no_size, setup, teardown),
		cmocka_unit_test_setup_teardown(version_4, setup, teardown),
		cmocka_unit_test_setup_teardown(versions_2_and_3, setup, teardown),
		cmocka_unit_test_setup_teardown(version_1, setup, teardown),
		cmocka_unit_test_setup_teardown(
			places_of_finished_communicators_are_used_again, setup, teardown),
		cmocka_unit_test_setup_teardown(
			places_are_used_again_when_init_tells_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(without_a_segment_events_still_succeed, setup, teardown),
	};

	return cmocka_run_group_tests_name("nccl profiler", tests, NULL, NULL);
}
