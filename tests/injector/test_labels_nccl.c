/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's kernels: what was announced before the launch, and the facts that come after it. */
#include "labels/announce.h"
#include "labels_world.h"

/* must come before cmocka.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct world_launch all_reduce = {.function = &world_nccl};

static struct cs_label
announced(uint64_t bytes)
{
	return (struct cs_label){.op = CS_OP_ALL_REDUCE,
		.dtype = CS_DTYPE_BFLOAT16,
		.source = CS_LABEL_SOURCE_NCCL_PROFILER,
		.rank = 3,
		.world = 8,
		.comm_id = 1,
		.bytes = bytes,
		.count = bytes == CS_BYTES_UNKNOWN ? 0 : bytes / 2};
}

static struct cs_label
label_of(struct cs_kernel_identity identity)
{
	const struct cs_label *label = cs_segment_writer_borrow_label(world_writer, identity.ref);

	assert_non_null(label);
	return *label;
}

static void
late(struct cs_label facts, uint32_t sequence)
{
	cs_announce_late(&facts, sequence);
	cs_announce_late_end();
}

static void
test_announced_size_and_sequence(void **state)
{
	struct cs_label label = announced(43008);
	struct cs_kernel_identity identity;
	uint32_t id;

	(void)state;
	cs_announce_begin();
	cs_announce_collective(&label, 17);
	cs_announce_launch(1);
	id = world_eager(&all_reduce);
	cs_announce_end();
	identity = world_resolve(WORLD_NCCL, 0, id);
	assert_int_equal(identity.bytes, 43008);
	assert_int_equal(identity.sequence, 17);
	assert_int_equal(label_of(identity).comm_id, 1);
	assert_int_equal(label_of(identity).rank, 3);
	assert_int_equal(label_of(identity).impl, CS_IMPL_NCCL);
	assert_int_equal(label_of(identity).source, CS_LABEL_SOURCE_NCCL_PROFILER);
	assert_int_equal(label_of(identity).name_id, cs_segment_writer_name(world_writer, WORLD_NCCL));
}

static void
test_an_ordinary_launch_takes_no_announcement(void **state)
{
	struct cs_label label = announced(43008);
	struct world_vllm arguments;
	struct world_launch other = {.function = &world_vllm, .kernel_params = arguments.params};
	uint32_t own, id;

	(void)state;
	world_vllm_fill(&arguments, 0, 64);
	cs_announce_begin();
	cs_announce_collective(&label, 18);
	own = world_eager(&other);
	id = world_eager(&all_reduce);
	cs_announce_end();
	assert_int_equal(world_resolve(WORLD_VLLM, 0, own).bytes, 1024);
	assert_int_equal(world_resolve(WORLD_NCCL, 0, id).bytes, 43008);
}

static void
test_not_announced_is_counted(void **state)
{
	uint64_t before =
		world_unlabelled(CS_UNLABELLED_NO_RULE) + world_unlabelled(CS_UNLABELLED_CHECK_FAILED);
	struct cs_kernel_identity identity = world_resolve(WORLD_NCCL, 0, world_eager(&all_reduce));

	(void)state;
	assert_int_equal(identity.kind, CS_CATALOG_COLLECTIVE);
	assert_int_equal(identity.bytes, CS_BYTES_UNKNOWN);
	assert_int_equal(label_of(identity).op, CS_OP_ALL_REDUCE);
	assert_int_equal(
		world_unlabelled(CS_UNLABELLED_NO_RULE) + world_unlabelled(CS_UNLABELLED_CHECK_FAILED),
		before + 1);
}

static void
test_an_announcement_without_room_is_counted(void **state)
{
	uint64_t before = world_unlabelled(CS_UNLABELLED_ANNOUNCE_FULL);
	uint32_t id;

	(void)state;
	cs_announce_begin();
	for (uint32_t comm = 1; comm <= 9; comm++) {
		struct cs_label label = announced(43008);

		label.comm_id = comm;
		cs_announce_collective(&label, 0);
	}
	cs_announce_launch(9);
	id = world_eager(&all_reduce);
	cs_announce_end();
	assert_int_equal(world_resolve(WORLD_NCCL, 0, id).bytes, CS_BYTES_UNKNOWN);
	assert_int_equal(world_unlabelled(CS_UNLABELLED_ANNOUNCE_FULL), before + 1);
	/* The next call has room. */
	cs_announce_begin();
	id = world_eager(&all_reduce);
	cs_announce_end();
	world_resolve(WORLD_NCCL, 0, id);
	assert_int_equal(world_unlabelled(CS_UNLABELLED_ANNOUNCE_FULL), before + 1);
}

/* A captured node has its facts before the graph is instantiated, and its clones with it. */
static void
test_late_facts_reach_the_node_and_its_clones(void **state)
{
	struct cs_label label = announced(CS_BYTES_UNKNOWN);
	struct cs_label facts = announced(86016);
	struct world_graph *graph = world_graph_create();
	struct cs_kernel_identity identity;
	struct world_graph *exec;
	struct world_node *node;
	uint64_t unlabelled;

	(void)state;
	facts.algorithm = CS_ALGORITHM_RING;
	facts.protocol = CS_PROTOCOL_LL;
	facts.channels = 4;
	cs_announce_begin();
	cs_announce_collective(&label, 0);
	cs_announce_launch(1);
	node = world_capture(graph, &all_reduce);
	assert_int_equal(world_resolve(WORLD_NCCL, node->id, 1).bytes, CS_BYTES_UNKNOWN);
	late(facts, 5);
	cs_announce_end();
	assert_int_equal(world_resolve(WORLD_NCCL, node->id, 1).bytes, 86016);
	assert_int_equal(world_resolve(WORLD_NCCL, node->id, 1).sequence, 0);
	exec = world_instantiate(graph);
	world_destroy_graph(graph);
	unlabelled = world_unlabelled(CS_UNLABELLED_NO_RULE) + world_unlabelled(CS_UNLABELLED_CHECK_FAILED);
	identity = world_resolve(WORLD_NCCL, exec->nodes[0]->id, 1);
	assert_int_equal(identity.bytes, 86016);
	assert_int_equal(label_of(identity).algorithm, CS_ALGORITHM_RING);
	assert_int_equal(label_of(identity).protocol, CS_PROTOCOL_LL);
	assert_int_equal(label_of(identity).channels, 4);
	/* A replay is not the capture's number. */
	assert_int_equal(identity.sequence, 0);
	assert_int_equal(
		world_unlabelled(CS_UNLABELLED_NO_RULE) + world_unlabelled(CS_UNLABELLED_CHECK_FAILED),
		unlabelled);
	world_destroy_exec(exec);
}

static void
test_late_facts_reach_an_eager_launch(void **state)
{
	struct cs_label label = announced(4096);
	struct cs_label facts = announced(CS_BYTES_UNKNOWN);
	struct cs_kernel_identity identity;
	uint32_t ids[2];

	(void)state;
	facts.algorithm = CS_ALGORITHM_TREE;
	for (uint32_t i = 0; i < 2; i++) {
		cs_announce_begin();
		cs_announce_collective(&label, 0);
		cs_announce_launch(1);
		ids[i] = world_eager(&all_reduce);
		if (i == 1)
			late(facts, 21);
		cs_announce_end();
	}
	identity = world_resolve(WORLD_NCCL, 0, ids[1]);
	assert_int_equal(identity.bytes, 4096);
	assert_int_equal(identity.sequence, 21);
	assert_int_equal(label_of(identity).algorithm, CS_ALGORITHM_TREE);
	/* the launch before it has the same label but not those facts */
	identity = world_resolve(WORLD_NCCL, 0, ids[0]);
	assert_int_equal(identity.sequence, 0);
	assert_int_not_equal(label_of(identity).algorithm, CS_ALGORITHM_TREE);
}

static void
test_facts_of_a_failed_launch_go_nowhere(void **state)
{
	struct world_launch failing = all_reduce;
	struct cs_label label = announced(4096);
	struct cs_label facts = announced(1 << 20);
	uint32_t before, failed;

	(void)state;
	failing.fails = true;
	cs_announce_begin();
	cs_announce_collective(&label, 30);
	before = world_eager(&all_reduce);
	cs_announce_collective(&label, 31);
	failed = world_eager(&failing);
	late(facts, 99);
	cs_announce_end();
	assert_int_equal(world_resolve(WORLD_NCCL, 0, failed).bytes, CS_BYTES_UNKNOWN);
	assert_int_equal(world_resolve(WORLD_NCCL, 0, before).bytes, 4096);
	assert_int_equal(world_resolve(WORLD_NCCL, 0, before).sequence, 30);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_announced_size_and_sequence),
		cmocka_unit_test(test_an_ordinary_launch_takes_no_announcement),
		cmocka_unit_test(test_not_announced_is_counted),
		cmocka_unit_test(test_an_announcement_without_room_is_counted),
		cmocka_unit_test(test_late_facts_reach_the_node_and_its_clones),
		cmocka_unit_test(test_late_facts_reach_an_eager_launch),
		cmocka_unit_test(test_facts_of_a_failed_launch_go_nowhere),
	};

	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
