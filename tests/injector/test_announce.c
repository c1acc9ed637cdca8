/* SPDX-License-Identifier: Apache-2.0 */
/* What a launch takes of what NCCL announced: single calls, groups, two producers, late facts. */
#include "collective.h"
#include "labels/announce.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct cs_label amended[8];
static uint64_t amended_keys[8];
static unsigned int amended_count;

static void
on_amend(uint64_t key, const struct cs_label *facts, uint32_t sequence)
{
	(void)sequence;
	amended_keys[amended_count] = key;
	amended[amended_count++] = *facts;
}

static int
setup(void **state)
{
	(void)state;
	amended_count = 0;
	cs_announce_register_amend(on_amend);
	return 0;
}

static struct cs_label
unknown_label(void)
{
	return (struct cs_label){
		.rank = CS_RANK_UNKNOWN, .world = CS_RANK_UNKNOWN, .bytes = CS_BYTES_UNKNOWN};
}

static struct cs_label
from_plugin(uint8_t op, uint64_t bytes, uint32_t comm_id)
{
	struct cs_label label = unknown_label();

	label.op = op;
	label.impl = CS_IMPL_NCCL;
	label.dtype = CS_DTYPE_BFLOAT16;
	label.bytes = bytes;
	label.count = bytes / 2;
	label.comm_id = comm_id;
	label.rank = 3;
	label.world = 8;
	label.source = CS_LABEL_SOURCE_NCCL_PROFILER;
	return label;
}

static struct cs_label
from_nvtx(uint8_t op, uint64_t bytes)
{
	struct cs_label label = unknown_label();

	label.op = op;
	label.bytes = bytes;
	label.reduction = CS_REDUCTION_SUM;
	label.source = CS_LABEL_SOURCE_NVTX;
	return label;
}

static void
nothing_announced_leaves_the_label_alone(void **state)
{
	struct cs_label label = from_nvtx(CS_OP_BROADCAST, 17);
	struct cs_label before = label;
	uint32_t sequence = 5;

	(void)state;
	cs_announce_begin();
	assert_false(cs_announce_take(&label, &sequence));
	cs_announce_end();
	assert_memory_equal(&label, &before, sizeof(label));
	assert_int_equal(sequence, 5);
}

static void
both_producers_tell_of_one_collective(void **state)
{
	struct cs_label plugin = from_plugin(CS_OP_ALL_REDUCE, 43008, 1);
	struct cs_label nvtx = from_nvtx(CS_OP_ALL_REDUCE, 43008);
	struct cs_label label = unknown_label();
	uint32_t sequence = 0;

	(void)state;
	cs_announce_begin();
	cs_announce_collective(&nvtx, 0);
	cs_announce_begin();
	cs_announce_collective(&plugin, 0);
	cs_announce_launch(1);
	assert_true(cs_announce_take(&label, &sequence));
	cs_announce_bind(77);
	cs_announce_end();
	cs_announce_end();
	assert_int_equal(label.bytes, 43008);
	assert_int_equal(label.works, 1);
	assert_int_equal(label.source, CS_LABEL_SOURCE_NCCL_PROFILER);
	assert_int_equal(label.reduction, CS_REDUCTION_SUM);
	assert_int_equal(label.rank, 3);
	assert_int_equal(amended_count, 0);
}

static void
nvtx_gives_the_size_that_the_plugin_could_not(void **state)
{
	struct cs_label plugin = from_plugin(CS_OP_ALL_REDUCE, CS_BYTES_UNKNOWN, 1);
	struct cs_label nvtx = from_nvtx(CS_OP_ALL_REDUCE, 999);
	struct cs_label label = unknown_label();
	uint32_t sequence = 0;

	(void)state;
	cs_announce_begin();
	cs_announce_collective(&nvtx, 0);
	cs_announce_collective(&plugin, 0);
	assert_true(cs_announce_take(&label, &sequence));
	cs_announce_end();
	assert_int_equal(label.bytes, 999);
	assert_int_equal(label.source, CS_LABEL_SOURCE_NVTX);
	assert_int_equal(label.comm_id, 1);
}

static void
an_announcement_is_used_once_and_forgotten_at_the_end(void **state)
{
	struct cs_label plugin = from_plugin(CS_OP_ALL_REDUCE, 64, 1);
	struct cs_label label = unknown_label();
	uint32_t sequence = 0;

	(void)state;
	cs_announce_begin();
	cs_announce_collective(&plugin, 0);
	assert_true(cs_announce_take(&label, &sequence));
	assert_false(cs_announce_take(&label, &sequence));
	cs_announce_collective(&plugin, 0);
	cs_announce_end();
	assert_false(cs_announce_take(&label, &sequence));
}

static void
a_group_in_one_kernel_is_summed_at_its_end(void **state)
{
	struct cs_label one = from_plugin(CS_OP_ALL_REDUCE, 1000, 1);
	struct cs_label two = from_plugin(CS_OP_ALL_REDUCE, 24, 1);
	struct cs_label label = unknown_label();
	uint32_t sequence = 0;

	(void)state;
	cs_announce_begin();
	cs_announce_collective(&one, 0);
	cs_announce_collective(&two, 0);
	cs_announce_launch(1);
	assert_true(cs_announce_take(&label, &sequence));
	cs_announce_bind(9);
	/* Not known yet: a second kernel may take a part. */
	assert_int_equal(label.bytes, CS_BYTES_UNKNOWN);
	assert_int_equal(label.works, 2);
	cs_announce_end();
	assert_int_equal(amended_count, 1);
	assert_int_equal(amended_keys[0], 9);
	assert_true(cs_announce_complete(&label, &amended[0]));
	assert_int_equal(label.bytes, 1024);
	assert_int_equal(label.works, 2);
	assert_int_equal(label.count, 512);
}

static void
a_group_in_two_kernels_has_no_known_split(void **state)
{
	struct cs_label one = from_plugin(CS_OP_ALL_REDUCE, 1000, 1);
	struct cs_label first = unknown_label(), second = unknown_label();
	uint32_t sequence = 0;

	(void)state;
	cs_announce_begin();
	cs_announce_collective(&one, 0);
	cs_announce_collective(&one, 0);
	cs_announce_launch(1);
	assert_true(cs_announce_take(&first, &sequence));
	cs_announce_bind(1);
	cs_announce_launch(1);
	assert_true(cs_announce_take(&second, &sequence));
	cs_announce_bind(2);
	cs_announce_end();
	assert_int_equal(first.bytes, CS_BYTES_UNKNOWN);
	assert_int_equal(second.bytes, CS_BYTES_UNKNOWN);
	assert_int_equal(amended_count, 0);
}

static void
late_facts_tell_the_split(void **state)
{
	struct cs_label one = from_plugin(CS_OP_ALL_REDUCE, 1000, 1);
	struct cs_label two = from_plugin(CS_OP_ALL_GATHER, 500, 1);
	struct cs_label late = two;
	struct cs_label first = unknown_label(), second = unknown_label();
	uint32_t sequence = 0;

	(void)state;
	cs_announce_begin();
	cs_announce_collective(&one, 0);
	cs_announce_collective(&two, 0);
	cs_announce_launch(1);
	assert_true(cs_announce_take(&first, &sequence));
	assert_int_equal(first.op, CS_OP_UNKNOWN);
	cs_announce_bind(1);
	late.algorithm = CS_ALGORITHM_RING;
	cs_announce_late(&late, 4);
	cs_announce_late_end();
	cs_announce_launch(1);
	assert_true(cs_announce_take(&second, &sequence));
	cs_announce_bind(2);
	cs_announce_late(&one, 5);
	cs_announce_late_end();
	cs_announce_end();
	assert_int_equal(amended_count, 2);
	assert_int_equal(amended_keys[0], 1);
	cs_announce_complete(&first, &amended[0]);
	assert_int_equal(first.op, CS_OP_ALL_GATHER);
	assert_int_equal(first.bytes, 500);
	assert_int_equal(first.works, 1);
	assert_int_equal(first.algorithm, CS_ALGORITHM_RING);
	cs_announce_complete(&second, &amended[1]);
	assert_int_equal(second.bytes, 1000);
	assert_int_equal(second.op, CS_OP_ALL_REDUCE);
}

static void
communicators_of_one_group_are_kept_apart(void **state)
{
	struct cs_label one = from_plugin(CS_OP_ALL_REDUCE, 100, 1);
	struct cs_label two = from_plugin(CS_OP_ALL_REDUCE, 200, 2);
	struct cs_label first = unknown_label(), second = unknown_label();
	uint32_t sequence = 0;

	(void)state;
	cs_announce_begin();
	cs_announce_collective(&one, 0);
	cs_announce_collective(&two, 0);
	cs_announce_launch(2);
	assert_true(cs_announce_take(&second, &sequence));
	cs_announce_launch(1);
	assert_true(cs_announce_take(&first, &sequence));
	cs_announce_end();
	assert_int_equal(first.bytes, 100);
	assert_int_equal(second.bytes, 200);
	assert_int_equal(second.comm_id, 2);
}

static void
sends_and_receives_are_an_exchange_that_late_facts_do_not_cover(void **state)
{
	struct cs_label send = from_plugin(CS_OP_SEND, 10, 1);
	struct cs_label receive = from_plugin(CS_OP_RECV, 10, 1);
	struct cs_label reduce = from_plugin(CS_OP_ALL_REDUCE, 30, 1);
	struct cs_label label = unknown_label();
	uint32_t sequence = 0;

	(void)state;
	cs_announce_begin();
	cs_announce_collective(&send, 0);
	cs_announce_collective(&receive, 0);
	cs_announce_launch(1);
	assert_true(cs_announce_take(&label, &sequence));
	assert_int_equal(label.op, CS_OP_SEND_RECV);
	cs_announce_end();
	cs_announce_begin();
	cs_announce_collective(&send, 0);
	cs_announce_collective(&reduce, 0);
	cs_announce_launch(1);
	label = unknown_label();
	assert_true(cs_announce_take(&label, &sequence));
	cs_announce_bind(3);
	cs_announce_late(&reduce, 0);
	cs_announce_late_end();
	cs_announce_complete(&label, &amended[amended_count - 1]);
	assert_int_equal(label.bytes, CS_BYTES_UNKNOWN);
	cs_announce_end();
}

/* No launch event (NVTX, NCCL 2.27): nobody tells whose kernel it is, so no communicator's rank is its rank.
 */
static void
a_kernel_of_one_of_two_communicators_has_no_rank(void **state)
{
	struct cs_label one = from_plugin(CS_OP_ALL_REDUCE, 4096, 1);
	struct cs_label other = from_plugin(CS_OP_ALL_REDUCE, 8192, 2);
	struct cs_label facts = from_plugin(CS_OP_ALL_REDUCE, 8192, 2);
	struct cs_label label = unknown_label();
	uint32_t sequence = 0;

	(void)state;
	other.rank = 1;
	other.world = 2;
	facts.rank = 1;
	facts.world = 2;
	cs_announce_begin();
	cs_announce_collective(&one, 0);
	cs_announce_collective(&other, 0);
	assert_true(cs_announce_take(&label, &sequence));
	cs_announce_end();
	assert_int_equal(label.comm_id, 0);
	assert_int_equal(label.rank, CS_RANK_UNKNOWN);
	assert_int_equal(label.world, CS_RANK_UNKNOWN);
	/* Late facts tell. */
	assert_true(cs_announce_complete(&label, &facts));
	assert_int_equal(label.comm_id, 2);
	assert_int_equal(label.rank, 1);
	assert_int_equal(label.world, 2);
	assert_int_equal(label.bytes, 8192);
}

/* A kernel of a ring and a tree is named after one of them; copies come as bytes, but their calls had a type.
 */
static void
a_group_takes_what_its_calls_have_in_common(void **state)
{
	struct cs_label call = from_plugin(CS_OP_ALL_GATHER, 4096, 1);
	struct cs_label facts = from_plugin(CS_OP_ALL_GATHER, 8192, 1);
	struct cs_label label = unknown_label();
	uint32_t sequence = 0;

	(void)state;
	label.impl = CS_IMPL_NCCL;
	label.algorithm = CS_ALGORITHM_TREE;
	label.dtype = CS_DTYPE_FLOAT16;
	facts.dtype = CS_DTYPE_UNKNOWN;
	facts.works = 2;
	cs_announce_begin();
	cs_announce_collective(&call, 0);
	cs_announce_collective(&call, 0);
	assert_true(cs_announce_take(&label, &sequence));
	cs_announce_end();
	assert_int_equal(label.algorithm, CS_ALGORITHM_UNKNOWN);
	assert_int_equal(label.dtype, CS_DTYPE_BFLOAT16);
	assert_true(cs_announce_complete(&label, &facts));
	assert_int_equal(label.dtype, CS_DTYPE_BFLOAT16);
	assert_int_equal(label.bytes, 8192);
}

static void
a_symmetric_kernels_name_is_believed_for_a_group(void **state)
{
	struct cs_label call = from_nvtx(CS_OP_ALL_REDUCE, 4096);
	struct cs_label label = unknown_label();
	uint32_t sequence = 0;

	(void)state;
	label.impl = CS_IMPL_NCCL_SYMMETRIC;
	label.algorithm = CS_ALGORITHM_ONE_SHOT;
	label.dtype = CS_DTYPE_FLOAT16;
	cs_announce_begin();
	cs_announce_collective(&call, 0);
	cs_announce_collective(&call, 0);
	assert_true(cs_announce_take(&label, &sequence));
	cs_announce_end();
	assert_int_equal(label.algorithm, CS_ALGORITHM_ONE_SHOT);
	assert_int_equal(label.dtype, CS_DTYPE_FLOAT16);
}

static void
late_facts_without_a_launch_go_nowhere(void **state)
{
	struct cs_label one = from_plugin(CS_OP_ALL_REDUCE, 1000, 1);

	(void)state;
	cs_announce_late(&one, 1);
	cs_announce_late_end();
	assert_int_equal(amended_count, 0);
}

static void *
other_thread(void *argument)
{
	struct cs_label label = unknown_label();
	uint32_t sequence = 0;
	bool *taken = argument;

	cs_announce_begin();
	*taken = cs_announce_take(&label, &sequence);
	cs_announce_end();
	return NULL;
}

/* More threads, one after the other, than there are slots: the slots of those that ended are used again. */
static void
threads_do_not_see_each_other_and_slots_return(void **state)
{
	struct cs_label one = from_plugin(CS_OP_ALL_REDUCE, 1000, 1);
	struct cs_label label = unknown_label();
	uint32_t sequence = 0;

	(void)state;
	cs_announce_begin();
	cs_announce_collective(&one, 0);
	for (unsigned int i = 0; i < 400; i++) {
		bool taken = true;
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, other_thread, &taken), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_false(taken);
	}
	assert_true(cs_announce_take(&label, &sequence));
	assert_false(cs_announce_lost());
	cs_announce_end();
}

void *__real_cs_thread_slot_claim(void *slots, size_t slot_bytes, size_t count);
void *__wrap_cs_thread_slot_claim(void *slots, size_t slot_bytes, size_t count);
static _Atomic bool full;
static _Atomic unsigned int claims;

void *
__wrap_cs_thread_slot_claim(void *slots, size_t slot_bytes, size_t count)
{
	atomic_fetch_add(&claims, 1);
	return atomic_load(&full) ? NULL : __real_cs_thread_slot_claim(slots, slot_bytes, count);
}

static void *
announce_ten_times(void *argument)
{
	struct cs_label one = from_plugin(CS_OP_ALL_REDUCE, 1000, 1);
	struct cs_label label = unknown_label();
	bool *taken = argument;
	uint32_t sequence = 0;

	*taken = cs_announce_lost(); /* nothing was announced yet */
	for (unsigned int i = 0; i < 10; i++) {
		cs_announce_begin();
		cs_announce_collective(&one, 0);
		*taken |= !cs_announce_lost() || cs_announce_take(&label, &sequence);
		cs_announce_bind(5);
		cs_announce_launch(1);
		cs_announce_late(&one, 0);
		cs_announce_late_end();
		cs_announce_end();
	}
	return NULL;
}

/* Looking for a slot makes system calls, so it must not be done for every event. */
static void
a_thread_without_a_slot_looks_for_one_once(void **state)
{
	bool taken = false;
	pthread_t thread;

	(void)state;
	atomic_store(&full, true);
	atomic_store(&claims, 0);
	assert_int_equal(pthread_create(&thread, NULL, announce_ten_times, &taken), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	atomic_store(&full, false);
	assert_false(taken);
	assert_int_equal(atomic_load(&claims), 1);
}

/* The launch of a communicator that had no room in the group finds nothing; the next group begins anew. */
static void
more_communicators_in_a_group_than_are_followed(void **state)
{
	struct cs_label label = unknown_label();
	uint32_t sequence = 0;

	(void)state;
	cs_announce_begin();
	for (uint32_t comm = 1; comm <= 9; comm++) {
		struct cs_label one = from_plugin(CS_OP_ALL_REDUCE, 1000 * comm, comm);

		cs_announce_collective(&one, 0);
	}
	cs_announce_launch(9);
	assert_false(cs_announce_take(&label, &sequence));
	assert_true(cs_announce_lost());
	cs_announce_launch(8);
	assert_true(cs_announce_take(&label, &sequence));
	assert_int_equal(label.bytes, 8000);
	cs_announce_end();
	assert_false(cs_announce_lost());
}

static void
version_is_told_once(void **state)
{
	(void)state;
	assert_string_equal(cs_announce_nccl_version(), "");
	cs_announce_set_nccl_version(22809);
	cs_announce_set_nccl_version(21805);
	assert_string_equal(cs_announce_nccl_version(), "2.28.9");
	assert_int_equal(cs_announce_nccl_version_number(), 22809);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_announced_leaves_the_label_alone, setup),
		cmocka_unit_test_setup(both_producers_tell_of_one_collective, setup),
		cmocka_unit_test_setup(nvtx_gives_the_size_that_the_plugin_could_not, setup),
		cmocka_unit_test_setup(an_announcement_is_used_once_and_forgotten_at_the_end, setup),
		cmocka_unit_test_setup(a_group_in_one_kernel_is_summed_at_its_end, setup),
		cmocka_unit_test_setup(a_group_in_two_kernels_has_no_known_split, setup),
		cmocka_unit_test_setup(late_facts_tell_the_split, setup),
		cmocka_unit_test_setup(communicators_of_one_group_are_kept_apart, setup),
		cmocka_unit_test_setup(
			sends_and_receives_are_an_exchange_that_late_facts_do_not_cover, setup),
		cmocka_unit_test_setup(a_kernel_of_one_of_two_communicators_has_no_rank, setup),
		cmocka_unit_test_setup(a_group_takes_what_its_calls_have_in_common, setup),
		cmocka_unit_test_setup(a_symmetric_kernels_name_is_believed_for_a_group, setup),
		cmocka_unit_test_setup(late_facts_without_a_launch_go_nowhere, setup),
		cmocka_unit_test_setup(threads_do_not_see_each_other_and_slots_return, setup),
		cmocka_unit_test_setup(a_thread_without_a_slot_looks_for_one_once, setup),
		cmocka_unit_test_setup(more_communicators_in_a_group_than_are_followed, setup),
		cmocka_unit_test_setup(version_is_told_once, setup),
	};

	return cmocka_run_group_tests_name("announce", tests, NULL, NULL);
}
