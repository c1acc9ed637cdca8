/* SPDX-License-Identifier: Apache-2.0 */
/* Eager NCCL kernels without a subscription: the plugin's launches, the records of driver calls, and the
 * kernels'. */
#include "clock.h"
#include "labels/announce.h"
#include "labels_private.h"
#include "labels_world.h"
#include "segment/segment_reader.h"

/* must come before cmocka.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#define UNKNOWN    CS_BYTES_UNKNOWN
#define ALL_GATHER "_Z36ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE"
#define WIDE       "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"

/* A launch call as CUPTI's record of it tells. */
static uint32_t next_id = 1000;

static struct cs_label
all_reduce(uint64_t bytes)
{
	return (struct cs_label){.op = CS_OP_ALL_REDUCE,
		.impl = CS_IMPL_NCCL,
		.dtype = CS_DTYPE_BFLOAT16,
		.comm_id = 1,
		.rank = 2,
		.world = 8,
		.bytes = bytes,
		.count = bytes / 2,
		.source = CS_LABEL_SOURCE_NCCL_PROFILER};
}

static struct cs_activity_call
call_begin(void)
{
	return (struct cs_activity_call){.kind = CS_ACTIVITY_DRIVER,
		.cbid = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
		.start_ns = cs_clock_realtime_ns(),
		.thread_id = (uint32_t)(uintptr_t)pthread_self(),
		.correlation_id = next_id++};
}

/* One ncclAllReduce of this thread. */
static struct cs_activity_call
launch(const struct cs_label *label, uint32_t sequence)
{
	struct cs_activity_call call;

	cs_announce_begin();
	cs_announce_collective(label, 0);
	cs_announce_launch(label->comm_id);
	call = call_begin();
	call.end_ns = cs_clock_realtime_ns();
	cs_announce_launch_end();
	if (sequence != 0) {
		struct cs_label facts = *label;

		facts.algorithm = CS_ALGORITHM_RING;
		facts.protocol = CS_PROTOCOL_LL;
		cs_announce_late(&facts, sequence);
		cs_announce_late_end();
	}
	cs_announce_end();
	return call;
}

static struct cs_activity_call
launch_bytes(uint64_t bytes)
{
	struct cs_label label = all_reduce(bytes);

	return launch(&label, 0);
}

static uint64_t
bytes_of(uint32_t id)
{
	return world_resolve(WORLD_NCCL, 0, id).bytes;
}

static struct cs_label
label_of(struct cs_kernel_identity identity)
{
	const struct cs_label *label = cs_segment_writer_borrow_label(world_writer, identity.ref);

	assert_non_null(label);
	return *label;
}

static void
test_a_kernel_finds_its_launch_by_the_call(void **state)
{
	struct cs_label label = all_reduce(43008);
	struct cs_activity_call first = launch(&label, 17), second = launch_bytes(14336);
	struct cs_kernel_identity identity;

	(void)state;
	/* In any order. */
	cs_labels_on_call(&second);
	cs_labels_on_call(&first);
	identity = world_resolve(WORLD_NCCL, 0, first.correlation_id);
	assert_int_equal(identity.bytes, 43008);
	assert_int_equal(identity.sequence, 17);
	assert_int_equal(label_of(identity).bytes, 43008);
	assert_int_equal(label_of(identity).world, 8);
	assert_int_equal(label_of(identity).algorithm, CS_ALGORITHM_RING);
	assert_int_equal(label_of(identity).name_id, cs_segment_writer_name(world_writer, WORLD_NCCL));
	assert_int_equal(bytes_of(second.correlation_id), 14336);
}

static void
test_other_calls_are_nobodys(void **state)
{
	struct cs_activity_call before = call_begin(), query, told, second, after;
	struct cs_label label = all_reduce(43008);

	(void)state;
	before.end_ns = cs_clock_realtime_ns();
	cs_announce_begin();
	cs_announce_collective(&label, 0);
	cs_announce_launch(1);
	query = call_begin();
	query.cbid = CUPTI_DRIVER_TRACE_CBID_cuFuncSetAttribute;
	query.end_ns = cs_clock_realtime_ns();
	told = call_begin();
	told.end_ns = cs_clock_realtime_ns();
	second = call_begin();
	second.end_ns = cs_clock_realtime_ns();
	cs_announce_launch_end();
	cs_announce_end();
	after = call_begin();
	after.end_ns = cs_clock_realtime_ns();
	cs_labels_on_call(&before);
	cs_labels_on_call(&query);
	cs_labels_on_call(&told);
	cs_labels_on_call(&second);
	cs_labels_on_call(&after);
	assert_int_equal(bytes_of(before.correlation_id), UNKNOWN);
	assert_int_equal(bytes_of(query.correlation_id), UNKNOWN);
	assert_int_equal(bytes_of(told.correlation_id), 43008);
	/* One bracket, one call. */
	assert_int_equal(bytes_of(second.correlation_id), UNKNOWN);
	assert_int_equal(bytes_of(after.correlation_id), UNKNOWN);
}

/* The launch of a window's first kernels was before it: no record of the call; nor is there one where CUPTI
 * dropped it. Those that follow are not mistaken for it. */
static void
test_a_missing_call_shifts_nobody(void **state)
{
	struct cs_activity_call calls[6];

	(void)state;
	for (uint64_t i = 0; i < 6; i++)
		calls[i] = launch_bytes(4096 * (i + 1));
	for (size_t i = 1; i < 6; i++)
		if (i != 3)
			cs_labels_on_call(&calls[i]);
	for (uint64_t i = 0; i < 6; i++)
		assert_int_equal(
			bytes_of(calls[i].correlation_id), i == 0 || i == 3 ? UNKNOWN : 4096 * (i + 1));
}

static void
test_a_name_that_does_not_fit(void **state)
{
	struct cs_label exchange = all_reduce(8192), group = all_reduce(4096);
	struct cs_activity_call calls[4] = {launch_bytes(8192), launch_bytes(8192), launch_bytes(8192)};
	uint64_t no_launch;

	(void)state;
	exchange.op = CS_OP_ALL_TO_ALL;
	calls[3] = launch(&exchange, 0);
	for (size_t i = 0; i < 4; i++)
		cs_labels_on_call(&calls[i]);
	no_launch = world_unlabelled(CS_UNLABELLED_NO_LAUNCH);
	assert_int_equal(world_resolve(ALL_GATHER, 0, calls[0].correlation_id).bytes, UNKNOWN);
	assert_int_equal(world_resolve(WIDE, 0, calls[1].correlation_id).bytes, UNKNOWN);
	/* Not even NCCL's. */
	assert_int_equal(world_resolve(WORLD_VLLM, 0, calls[2].correlation_id).bytes, UNKNOWN);
	assert_int_equal(world_resolve(WORLD_ORDINARY, 0, calls[2].correlation_id).kind, CS_CATALOG_NONE);
	assert_int_equal(world_resolve(WORLD_NCCL, 0, calls[3].correlation_id).bytes, UNKNOWN);
	assert_int_equal(world_unlabelled(CS_UNLABELLED_NO_LAUNCH), no_launch + 4);
	/* A group is named after one of its collectives; its size comes late. */
	cs_announce_begin();
	cs_announce_collective(&group, 0);
	group.op = CS_OP_ALL_GATHER;
	cs_announce_collective(&group, 0);
	cs_announce_launch(1);
	calls[0] = call_begin();
	calls[0].end_ns = cs_clock_realtime_ns();
	cs_announce_launch_end();
	cs_announce_end();
	cs_labels_on_call(&calls[0]);
	assert_int_equal(world_resolve(ALL_GATHER, 0, calls[0].correlation_id).bytes, 8192);
	assert_int_equal(label_of(world_resolve(ALL_GATHER, 0, calls[0].correlation_id)).op, CS_OP_UNKNOWN);
}

/* A group of two all-reduces of this thread: sizes come when its kernel has been launched. */
static struct cs_activity_call
begin_group(uint64_t bytes)
{
	struct cs_label label = all_reduce(bytes);
	struct cs_activity_call call;

	cs_announce_begin();
	cs_announce_collective(&label, 0);
	cs_announce_collective(&label, 0);
	cs_announce_launch(label.comm_id);
	call = call_begin();
	call.end_ns = cs_clock_realtime_ns();
	cs_announce_launch_end();
	return call;
}

static void
end_group(uint64_t bytes)
{
	struct cs_label facts = all_reduce(bytes);

	facts.algorithm = CS_ALGORITHM_RING;
	cs_announce_late(&facts, 16);
	cs_announce_late(&facts, 17);
	cs_announce_late_end();
	cs_announce_end();
}

/* The record of the call is handed over before the late facts come: they reach the kernel all the same. */
static void
test_facts_later_than_the_call(void **state)
{
	struct cs_activity_call call = begin_group(4096);
	struct cs_kernel_identity identity;

	(void)state;
	cs_labels_on_call(&call);
	assert_int_equal(bytes_of(call.correlation_id), UNKNOWN);
	end_group(4096);
	identity = world_resolve(WORLD_NCCL, 0, call.correlation_id);
	assert_int_equal(identity.bytes, 8192);
	assert_int_equal(identity.sequence, 17);
	assert_int_equal(label_of(identity).algorithm, CS_ALGORITHM_RING);
}

static struct cs_activity_call posted_call;
static _Atomic uint32_t posted; /* groups that have been launched */

static void *
launch_groups(void *count)
{
	for (uint32_t i = 0; i < *(uint32_t *)count; i++) {
		posted_call = begin_group(4096);
		posted_call.thread_id = (uint32_t)(uintptr_t)pthread_self();
		atomic_store(&posted, 2 * i + 1);
		for (volatile uint32_t pause = i % 512; pause > 0; pause--)
			;
		end_group(4096);
		/* Until it has been looked at. */
		while (atomic_load(&posted) == 2 * i + 1)
			;
	}
	return NULL;
}

/* The same at the very moment. */
static void
test_facts_and_call_at_once(void **state)
{
	uint32_t count = 3000, ids[3000];
	pthread_t thread;

	(void)state;
	atomic_store(&posted, 0);
	assert_int_equal(pthread_create(&thread, NULL, launch_groups, &count), 0);
	for (uint32_t i = 0; i < count; i++) {
		while (atomic_load(&posted) != 2 * i + 1)
			;
		cs_labels_on_call(&posted_call);
		ids[i] = posted_call.correlation_id;
		atomic_store(&posted, 2 * i + 2);
	}
	pthread_join(thread, NULL);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(bytes_of(ids[i]), 8192);
}

static void
test_where_callbacks_come_they_have_the_announcement(void **state)
{
	static const struct world_launch eager = {.function = &world_nccl};
	struct cs_label label = all_reduce(43008);
	struct cs_activity_call call;
	uint32_t id;

	(void)state;
	atomic_store(&cs_labels_borrow()->listening, true);
	cs_announce_begin();
	cs_announce_collective(&label, 0);
	cs_announce_launch(1);
	call = call_begin();
	id = world_eager(&eager);
	call.correlation_id = id;
	call.end_ns = cs_clock_realtime_ns();
	cs_announce_launch_end();
	cs_announce_end();
	assert_int_equal(bytes_of(id), 43008);
	cs_labels_on_call(&call);
	assert_int_equal(bytes_of(id), 43008);
	assert_false(cs_labels_wants_calls(cs_clock_realtime_ns()));
	cs_labels_stop_listening();
	assert_true(cs_labels_wants_calls(cs_clock_realtime_ns()));
	assert_false(cs_labels_wants_calls(cs_clock_realtime_ns() + CS_LABELS_CALLS_NS));
}

/* -- waiting ------------------------------------------------------------------------------------------- */

static struct cs_segment_reader *reader;

/* Values of the COLLECTIVE records since the last look. */
static size_t
read_bytes(uint64_t *bytes, size_t room)
{
	struct cs_record records[64];
	size_t count = 0, found = 0;

	assert_int_equal(cs_segment_reader_refresh(reader), 0);
	assert_int_equal(cs_segment_reader_read(reader, records, 64, &count), 0);
	for (size_t i = 0; i < count; i++)
		if (records[i].type == CS_RECORD_COLLECTIVE && found < room)
			bytes[found++] = records[i].value;
	return found;
}

static bool
hold(uint32_t id)
{
	struct cs_kernel_key key = {.name = WORLD_NCCL, .correlation_id = id};
	struct cs_kernel_identity identity;
	struct cs_record record = {.type = CS_RECORD_COLLECTIVE,
		.start_ns = 5000 + id,
		.end_ns = 6000 + id,
		.correlation_id = id};

	cs_labels_resolve(&key, &identity);
	assert_true(identity.wait);
	record.ref = identity.ref;
	record.value = identity.bytes;
	return cs_labels_hold(&key, &record);
}

static void
test_a_kernel_that_comes_before_its_call_waits(void **state)
{
	struct cs_activity_call calls[3] = {launch_bytes(4096), launch_bytes(8192), launch_bytes(12288)};
	uint64_t before = world_unlabelled(CS_UNLABELLED_NO_LAUNCH), bytes[8];

	(void)state;
	read_bytes(bytes, 8);
	cs_labels_expect_calls(true);
	for (size_t i = 0; i < 3; i++)
		assert_true(hold(calls[i].correlation_id));
	assert_int_equal(cs_labels_settle(cs_clock_monotonic_ns()), 5000 + calls[0].correlation_id);
	assert_int_equal(read_bytes(bytes, 8), 0);
	cs_labels_on_call(&calls[0]);
	cs_labels_on_call(&calls[2]);
	assert_int_equal(cs_labels_settle(cs_clock_monotonic_ns()), 5000 + calls[1].correlation_id);
	assert_int_equal(read_bytes(bytes, 8), 2);
	assert_int_equal(bytes[0], 4096);
	assert_int_equal(bytes[1], 12288);
	assert_int_equal(world_unlabelled(CS_UNLABELLED_NO_LAUNCH), before);
	/* Its call does not come. */
	assert_int_equal(cs_labels_settle(cs_clock_monotonic_ns() + CS_HELD_NS), UINT64_MAX);
	assert_int_equal(read_bytes(bytes, 8), 1);
	assert_int_equal(bytes[0], UNKNOWN);
	assert_int_equal(world_unlabelled(CS_UNLABELLED_NO_LAUNCH), before + 1);
	/* As many as there is room for. */
	for (uint32_t i = 0; i < CS_HELD_MAX; i++)
		assert_true(hold(2000000 + i));
	assert_false(hold(3000000));
	assert_int_equal(world_unlabelled(CS_UNLABELLED_NO_LAUNCH), before + 2);
	cs_labels_settle(UINT64_MAX);
	assert_int_equal(world_unlabelled(CS_UNLABELLED_NO_LAUNCH), before + 2 + CS_HELD_MAX);
	cs_labels_expect_calls(false);
	assert_false(world_resolve(WORLD_NCCL, 0, 3000001).wait);
}

/* -- the ring ------------------------------------------------------------------------------------------ */

static struct cs_told told;

static void
test_the_oldest_is_forgotten(void **state)
{
	uint64_t filed = 0, first;

	(void)state;
	memset(&told, 0, sizeof(told));
	assert_int_equal(cs_told_last_ns(&told), 0);
	first = cs_told_begin(&told, 1, 1000, CS_FILED | 7);
	cs_told_end(&told, first, 1010);
	for (uint64_t i = 1; i < CS_TOLD_LAUNCHES; i++)
		cs_told_end(&told, cs_told_begin(&told, 1, 1000 + 20 * i, CS_FILED | 8), 1010 + 20 * i);
	assert_true(cs_told_find(&told, first, &filed));
	assert_int_equal(filed, CS_FILED | 7);
	cs_told_begin(&told, 1, 1000 + 20ULL * CS_TOLD_LAUNCHES, CS_FILED | 7);
	assert_false(cs_told_find(&told, first, &filed));
	assert_false(cs_told_take(&told, 1, 1001, 1009, 1, &filed));
	/* What was meant for the first does not reach its successor in the place, though both say the same.
	 */
	cs_told_replace(&told, first, CS_FILED | 7, CS_FILED | 9);
	assert_true(cs_told_find(&told, first + CS_TOLD_LAUNCHES, &filed));
	assert_int_equal(filed, CS_FILED | 7);
	/* The successor is under way. */
	assert_true(cs_told_take(&told, 1, 1001 + 20ULL * CS_TOLD_LAUNCHES, UINT64_MAX, 1, &filed));
	assert_true(cs_told_take(&told, 1, 1001 + 20 * 4000, 1009 + 20 * 4000, 1, &filed));
	assert_int_equal(filed, CS_FILED | 8);
	assert_false(cs_told_take(&told, 1, 1001 + 20 * 4000, 1009 + 20 * 4000, 1, &filed));
}

static void
test_brackets_of_threads_overlap(void **state)
{
	uint64_t filed = 0, numbers[3];

	(void)state;
	memset(&told, 0, sizeof(told));
	for (uint32_t thread = 0; thread < 3; thread++)
		numbers[thread] = cs_told_begin(&told, thread, 100 + thread, CS_FILED | thread);
	for (uint32_t thread = 0; thread < 3; thread++)
		cs_told_end(&told, numbers[thread], 200 + thread);
	for (uint32_t thread = 3; thread-- > 0;) {
		assert_false(cs_told_take(&told, thread, 99, 150, 1, &filed));
		assert_false(cs_told_take(&told, thread, 150, 203, 1, &filed));
		assert_false(cs_told_take(&told, 3, 150, 151, 1, &filed));
		assert_true(cs_told_take(&told, thread, 150, 151, 1, &filed));
		assert_int_equal(filed, CS_FILED | thread);
	}
}

/* Threads launch at once, each its own sizes; calls are taken meanwhile. */
enum { THREADS = 4, LAUNCHES = 3000 };

struct worker {
	pthread_t thread;
	uint32_t id;
	_Atomic uint32_t done;
	struct {
		uint64_t start_ns, end_ns, filed;
	} calls[LAUNCHES];
};
static struct worker workers[THREADS];

static void *
launch_many(void *argument)
{
	struct worker *worker = argument;

	for (uint32_t i = 0; i < LAUNCHES; i++) {
		uint64_t filed = CS_FILED | worker->id | (uint64_t)(i + 1) << 32;
		uint64_t number = cs_told_begin(&told, worker->id, cs_clock_realtime_ns(), filed);

		worker->calls[i].start_ns = cs_clock_realtime_ns();
		worker->calls[i].end_ns = cs_clock_realtime_ns();
		worker->calls[i].filed = filed;
		cs_told_end(&told, number, cs_clock_realtime_ns());
		atomic_store_explicit(&worker->done, i + 1, memory_order_release);
	}
	return NULL;
}

static void
test_threads_launch_at_once(void **state)
{
	uint32_t taken = 0;

	(void)state;
	memset(&told, 0, sizeof(told));
	for (uint32_t t = 0; t < THREADS; t++) {
		workers[t].id = t;
		assert_int_equal(pthread_create(&workers[t].thread, NULL, launch_many, &workers[t]), 0);
	}
	for (uint32_t i = 0; i < LAUNCHES; i++)
		for (uint32_t t = 0; t < THREADS; t++) {
			uint64_t filed = 0;

			while (atomic_load_explicit(&workers[t].done, memory_order_acquire) <= i)
				;
			if (!cs_told_take(&told, t, workers[t].calls[i].start_ns, workers[t].calls[i].end_ns,
				    1, &filed))
				continue;
			assert_int_equal(filed, workers[t].calls[i].filed);
			taken++;
		}
	for (uint32_t t = 0; t < THREADS; t++)
		pthread_join(workers[t].thread, NULL);
	/* Some may have been forgotten before their turn, and those of an interrupted thread not found. */
	assert_true(taken > 0);
}

static int
setup(void **state)
{
	if (world_setup(state) != 0)
		return -1;
	cs_labels_stop_listening();
	/* Records name it. */
	if (cs_segment_writer_gpu(world_writer, &(struct cs_gpu){.uuid = {1}}) != 0)
		return -1;
	return cs_segment_reader_open(cs_segment_writer_path(world_writer), false, &reader, NULL);
}

static int
teardown(void **state)
{
	cs_segment_reader_close(reader);
	return world_teardown(state);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_kernel_finds_its_launch_by_the_call),
		cmocka_unit_test(test_other_calls_are_nobodys),
		cmocka_unit_test(test_a_missing_call_shifts_nobody),
		cmocka_unit_test(test_a_name_that_does_not_fit),
		cmocka_unit_test(test_facts_later_than_the_call),
		cmocka_unit_test(test_facts_and_call_at_once),
		cmocka_unit_test(test_where_callbacks_come_they_have_the_announcement),
		cmocka_unit_test(test_a_kernel_that_comes_before_its_call_waits),
		cmocka_unit_test(test_the_oldest_is_forgotten),
		cmocka_unit_test(test_brackets_of_threads_overlap),
		cmocka_unit_test(test_threads_launch_at_once),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
