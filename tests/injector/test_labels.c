/* SPDX-License-Identifier: Apache-2.0 */
/* Launches outside graphs, functions and names: what is learnt at a launch and found for its record. */
#include "labels_world.h"
#include "segment/segment_writer_private.h"

#include "segment/segment_reader.h"

/* must come before cmocka.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PACKS 2688U /* 42 KiB */
#define BYTES (PACKS * 16U)

static struct cs_label
label_of(const struct cs_kernel_identity *identity)
{
	const struct cs_label *label = cs_segment_writer_borrow_label(world_writer, identity->ref);

	assert_non_null(label);
	return *label;
}

static void
test_eager_launch_has_its_size_and_rank(void **state)
{
	struct world_vllm arguments;
	struct world_launch launch = {.function = &world_vllm, .kernel_params = arguments.params};
	struct cs_kernel_identity identity;
	uint64_t before = cs_labels_eager_collectives();
	uint32_t id;

	(void)state;
	world_vllm_fill(&arguments, 5, PACKS);
	id = world_eager(&launch);
	identity = world_resolve(WORLD_VLLM, 0, id);
	assert_int_equal(identity.kind, CS_CATALOG_COLLECTIVE);
	assert_int_equal(identity.bytes, BYTES);
	assert_int_equal(label_of(&identity).op, CS_OP_ALL_REDUCE);
	assert_int_equal(label_of(&identity).impl, CS_IMPL_VLLM_CUSTOM);
	assert_int_equal(label_of(&identity).rank, 5);
	assert_int_equal(label_of(&identity).world, 8);
	assert_int_equal(label_of(&identity).dtype, CS_DTYPE_BFLOAT16);
	assert_int_equal(label_of(&identity).comm_id, 0);
	assert_int_equal(cs_labels_eager_collectives(), before + 1);
	id = world_eager_ex(&launch);
	assert_int_equal(world_resolve(WORLD_VLLM, 0, id).bytes, BYTES);
	/* Same label, one entry. */
	assert_int_equal(world_resolve(WORLD_VLLM, 0, id).ref, identity.ref);
}

/* Ids of calls come again: of a launch long ago nothing is believed. */
static void
test_eager_launches_are_forgotten(void **state)
{
	struct world_vllm arguments;
	struct world_launch launch = {.function = &world_vllm, .kernel_params = arguments.params};
	uint32_t id, newer;

	(void)state;
	world_vllm_fill(&arguments, 5, PACKS);
	id = world_eager(&launch);
	cs_labels_age_calls();
	newer = world_eager(&launch);
	/* Its record may still be under way. */
	assert_int_equal(world_resolve(WORLD_VLLM, 0, id).bytes, BYTES);
	cs_labels_age_calls();
	assert_int_equal(world_resolve(WORLD_VLLM, 0, id).bytes, CS_BYTES_UNKNOWN);
	assert_int_equal(world_resolve(WORLD_VLLM, 0, newer).bytes, BYTES);
	cs_labels_age_calls();
	assert_int_equal(world_resolve(WORLD_VLLM, 0, newer).bytes, CS_BYTES_UNKNOWN);
}

static void
test_launch_that_nobody_saw_has_its_name(void **state)
{
	struct cs_kernel_identity identity;
	uint64_t before = world_unlabelled(CS_UNLABELLED_NO_LAUNCH);

	(void)state;
	identity = world_resolve(WORLD_VLLM, 0, 4000000);
	assert_int_equal(identity.kind, CS_CATALOG_COLLECTIVE);
	assert_int_equal(identity.bytes, CS_BYTES_UNKNOWN);
	assert_int_equal(label_of(&identity).impl, CS_IMPL_VLLM_CUSTOM);
	assert_int_equal(label_of(&identity).bytes, CS_BYTES_UNKNOWN);
	assert_int_equal(label_of(&identity).rank, CS_RANK_UNKNOWN);
	assert_int_equal(world_unlabelled(CS_UNLABELLED_NO_LAUNCH), before + 1);
}

/* The segment's tables were busy when a kernel was seen for the first time: its names come with the next. */
static void
test_a_busy_segment_is_asked_again(void **state)
{
	static const char name[] =
		"_Z39ncclDevKernel_AllReduce_Sum_f64_TREE_LL24ncclDevKernelArgsStorage_busy";
	static const char vllm[] = "_ZN4vllm26cross_device_reduce_1stageI4busyLi8EEEvPNS_8RankDataENS_"
				   "11RankSignalsEPNS_6SignalEPT_ii";
	static struct world_function function;
	static struct world_vllm arguments;
	struct world_launch launch = {.function = &function, .kernel_params = arguments.params};
	struct cs_kernel_identity identity;
	uint32_t id;

	(void)state;
	function = world_vllm;
	function.name = vllm;
	world_vllm_fill(&arguments, 1, 64);
	atomic_store(&world_writer->lock, 1);
	identity = world_resolve(name, 0, 4000001);
	assert_int_equal(identity.kind, CS_CATALOG_COLLECTIVE);
	assert_int_equal(identity.ref, 0);
	id = world_eager(&launch);
	assert_int_equal(world_resolve(vllm, 0, id).bytes, 1024);
	assert_int_equal(world_resolve(vllm, 0, id).ref, 0);
	atomic_store(&world_writer->lock, 0);
	identity = world_resolve(name, 0, 4000001);
	assert_int_equal(label_of(&identity).impl, CS_IMPL_NCCL);
	assert_int_equal(label_of(&identity).name_id, cs_segment_writer_name(world_writer, name));
	identity = world_resolve(vllm, 0, id);
	assert_int_equal(label_of(&identity).name_id, cs_segment_writer_name(world_writer, vllm));
	id = world_eager(&launch);
	assert_int_equal(world_resolve(vllm, 0, id).ref, identity.ref);
	assert_true(atomic_load(&world_status()->lost[CS_LOSS_TABLE_BUSY]) > 0);
	assert_int_equal(atomic_load(&world_status()->lost[CS_LOSS_TABLE_FULL]), 0);
}

static void
test_failed_launch_is_forgotten(void **state)
{
	struct world_vllm arguments;
	struct world_launch launch = {
		.function = &world_vllm, .kernel_params = arguments.params, .fails = true};
	uint64_t before = cs_labels_eager_collectives();

	(void)state;
	world_vllm_fill(&arguments, 0, PACKS);
	assert_int_equal(world_resolve(WORLD_VLLM, 0, world_eager(&launch)).bytes, CS_BYTES_UNKNOWN);
	assert_int_equal(cs_labels_eager_collectives(), before);
}

static void
test_ordinary_kernels_and_markers(void **state)
{
	struct cs_kernel_identity identity;
	int32_t n = 1;
	void *params[] = {&n};
	struct world_launch launch = {.function = &world_ordinary, .kernel_params = params};

	(void)state;
	identity = world_resolve(WORLD_ORDINARY, 0, world_eager(&launch));
	assert_int_equal(identity.kind, CS_CATALOG_NONE);
	assert_int_equal(identity.ref, 0);
	identity = world_resolve(WORLD_MARKER, 0x1234500000001, 1);
	assert_int_equal(identity.kind, CS_CATALOG_MARKER);
	assert_int_equal(identity.ref, cs_segment_writer_name(world_writer, WORLD_MARKER));
	assert_int_equal(world_resolve(NULL, 0, 4000001).kind, CS_CATALOG_NONE);
}

static void
test_a_record_without_name_is_known_by_its_launch(void **state)
{
	struct world_vllm arguments;
	struct world_launch launch = {.function = &world_vllm, .kernel_params = arguments.params};
	struct cs_kernel_identity identity;

	(void)state;
	world_vllm_fill(&arguments, 1, 64);
	identity = world_resolve(NULL, 0, world_eager(&launch));
	assert_int_equal(identity.kind, CS_CATALOG_COLLECTIVE);
	assert_int_equal(identity.bytes, 1024);
}

static void
test_both_layouts_and_handles_of_the_runtime(void **state)
{
	static const struct world_function *const known[] = {
		&world_vllm, &world_vllm_new, &world_vllm_kernel};
	struct world_vllm arguments;
	uint64_t before = world_unlabelled(CS_UNLABELLED_CHECK_FAILED);

	(void)state;
	world_vllm_fill(&arguments, 7, PACKS);
	for (size_t i = 0; i < 3; i++) {
		struct world_launch launch = {.function = known[i], .kernel_params = arguments.params};

		assert_int_equal(world_resolve(WORLD_VLLM, 0, world_eager(&launch)).bytes, BYTES);
	}
	assert_int_equal(world_unlabelled(CS_UNLABELLED_CHECK_FAILED), before);
	/* A layout that no release has: no size, whatever the words in it look like. */
	{
		struct world_launch launch = {.function = &world_vllm_odd, .kernel_params = arguments.params};

		assert_int_equal(world_resolve(WORLD_VLLM, 0, world_eager(&launch)).bytes, CS_BYTES_UNKNOWN);
	}
	assert_int_equal(world_unlabelled(CS_UNLABELLED_CHECK_FAILED), before + 1);
}

static void
test_failed_checks_give_no_size(void **state)
{
	static const struct {
		int32_t rank, packs;
	} bad[] = {{8, PACKS}, {-1, PACKS}, {0, 0}, {0, -3}, {0, 1 << 30}};
	struct world_vllm arguments;
	struct world_launch launch = {.function = &world_vllm, .kernel_params = arguments.params};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint64_t before = world_unlabelled(CS_UNLABELLED_CHECK_FAILED);

		world_vllm_fill(&arguments, bad[i].rank, bad[i].packs);
		assert_int_equal(world_resolve(WORLD_VLLM, 0, world_eager(&launch)).bytes, CS_BYTES_UNKNOWN);
		assert_int_equal(world_unlabelled(CS_UNLABELLED_CHECK_FAILED), before + 1);
	}
}

static void
test_hostile_parameters(void **state)
{
	struct world_vllm arguments;
	struct world_launch launch = {.function = &world_vllm};
	void *none[6] = {NULL};
	void *unknown_word[] = {(void *)77, (void *)88, CU_LAUNCH_PARAM_END};
	void *no_size[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, arguments.signals, CU_LAUNCH_PARAM_END};
	size_t short_bytes = 40;
	void *too_short[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, arguments.signals, CU_LAUNCH_PARAM_BUFFER_SIZE,
		&short_bytes, CU_LAUNCH_PARAM_END};
	void *no_end[8] = {CU_LAUNCH_PARAM_BUFFER_POINTER, NULL, CU_LAUNCH_PARAM_BUFFER_POINTER, NULL,
		CU_LAUNCH_PARAM_BUFFER_POINTER, NULL, CU_LAUNCH_PARAM_BUFFER_POINTER, NULL};
	void **extras[] = {NULL, unknown_word, no_size, too_short, no_end};

	(void)state;
	world_vllm_fill(&arguments, 0, PACKS);
	for (size_t i = 0; i < sizeof(extras) / sizeof(extras[0]); i++) {
		launch.extra = extras[i];
		assert_int_equal(world_resolve(WORLD_VLLM, 0, world_eager(&launch)).bytes, CS_BYTES_UNKNOWN);
	}
	launch.extra = NULL;
	launch.kernel_params = none;
	assert_int_equal(world_resolve(WORLD_VLLM, 0, world_eager(&launch)).bytes, CS_BYTES_UNKNOWN);
}

/* The whole parameter buffer in one piece. */
static void
test_extra_buffer(void **state)
{
	struct {
		uint64_t data;
		uint64_t signals[8];
		uint64_t self, result;
		int32_t rank, packs;
	} buffer = {.rank = 3, .packs = (int32_t)PACKS};
	size_t bytes = sizeof(buffer);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer,
		CU_LAUNCH_PARAM_END};
	struct world_launch launch = {.function = &world_vllm, .extra = extra};

	(void)state;
	assert_int_equal(world_resolve(WORLD_VLLM, 0, world_eager(&launch)).bytes, BYTES);
}

/* An address means another kernel after its module went away; it means the same one if only others did. */
static void
test_handles_are_reused_after_an_unload(void **state)
{
	struct world_function slot = world_vllm;
	struct world_vllm arguments;
	struct world_launch launch = {.function = &slot, .kernel_params = arguments.params};
	uint64_t eager = cs_labels_eager_collectives();

	(void)state;
	world_vllm_fill(&arguments, 2, PACKS);
	assert_int_equal(world_resolve(WORLD_VLLM, 0, world_eager(&launch)).bytes, BYTES);
	world_unload_module();
	assert_int_equal(world_resolve(WORLD_VLLM, 0, world_eager(&launch)).bytes, BYTES);
	world_unload_module();
	slot = world_ordinary;
	world_eager(&launch);
	assert_int_equal(cs_labels_eager_collectives(), eager + 2);
	world_unload_module();
	slot = world_vllm_odd; /* the same name, another layout */
	assert_int_equal(world_resolve(WORLD_VLLM, 0, world_eager(&launch)).bytes, CS_BYTES_UNKNOWN);
	world_unload_module();
	slot = world_vllm_new;
	assert_int_equal(world_resolve(WORLD_VLLM, 0, world_eager(&launch)).bytes, BYTES);
}

/* Record names: the same address with other text. */
static void
test_name_addresses_are_reused(void **state)
{
	char name[512];

	(void)state;
	snprintf(name, sizeof(name), "%s", WORLD_ORDINARY);
	assert_int_equal(world_resolve(name, 0, 4000002).kind, CS_CATALOG_NONE);
	/* Other first bytes: seen at once. */
	snprintf(name, sizeof(name), "%s", WORLD_VLLM);
	assert_int_equal(world_resolve(name, 0, 4000002).kind, CS_CATALOG_COLLECTIVE);
	/* The same first bytes: seen once CUPTI said that a module went. */
	snprintf(name, sizeof(name), "a_kernel_whose_name_is_longer_than_what_is_compared%s", "_1");
	assert_int_equal(world_resolve(name, 0, 4000002).kind, CS_CATALOG_NONE);
	snprintf(name, sizeof(name), "a_kernel_whose_name_is_longer_than_what_is_compared%s", "_all_reduce");
	world_unload_module();
	assert_int_equal(world_resolve(name, 0, 4000002).kind, CS_CATALOG_COLLECTIVE);
}

static void
test_many_functions_stay_right(void **state)
{
	enum { COUNT = 40000 };
	struct world_function *functions = calloc(COUNT, sizeof(*functions));
	struct world_vllm arguments;
	uint32_t last[2];

	(void)state;
	assert_non_null(functions);
	world_vllm_fill(&arguments, 4, PACKS);
	/* More than the cache holds, twice, every hundredth a collective. */
	for (size_t round = 0; round < 2; round++) {
		uint64_t eager = cs_labels_eager_collectives();

		for (size_t i = 0; i < COUNT; i++) {
			struct world_launch launch = {
				.function = &functions[i], .kernel_params = arguments.params};

			functions[i] = i % 100 == 0 ? world_vllm : world_ordinary;
			last[i % 100 != 0] = world_eager(&launch);
		}
		assert_int_equal(cs_labels_eager_collectives() - eager, COUNT / 100);
		assert_int_equal(world_resolve(WORLD_VLLM, 0, last[0]).bytes, BYTES);
	}
	free(functions);
}

static void
test_host_launches_are_recorded(void **state)
{
	struct cs_segment_reader *reader;
	struct world_vllm arguments;
	struct world_launch launch = {.function = &world_vllm, .kernel_params = arguments.params};
	struct cs_record records[2];
	struct cs_gpu gpu = {.cuda_ordinal = 0};
	struct world_graph *graph;
	uint64_t graphs = atomic_load(&world_status()->graph_launches);
	uint32_t ids[2];
	size_t count = 0;

	(void)state;
	for (int32_t i = 0; i < 3; i++) {
		gpu.cuda_ordinal = i;
		assert_int_equal(cs_segment_writer_gpu(world_writer, &gpu), i);
	}
	world_vllm_fill(&arguments, 0, PACKS);
	assert_int_equal(
		cs_segment_reader_open(cs_segment_writer_path(world_writer), false, &reader, NULL), 0);
	ids[0] = world_eager(&launch);
	graph = world_graph_create();
	ids[1] = world_graph_launch(graph);
	world_destroy_graph(graph);
	assert_int_equal(cs_segment_reader_read(reader, records, 2, &count), 0);
	assert_int_equal(count, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(records[i].type, CS_RECORD_HOST_LAUNCH);
		assert_int_equal(records[i].gpu, 2);
		assert_int_equal(records[i].correlation_id, ids[i]);
		assert_true(records[i].start_ns > 0 && records[i].end_ns >= records[i].start_ns);
		assert_true(records[i].value > 0);
	}
	assert_int_equal(records[0].ref, world_resolve(WORLD_VLLM, 0, ids[0]).ref);
	assert_int_equal(records[0].graph_id, 0);
	assert_int_equal(records[1].ref, 0);
	assert_int_not_equal(records[1].graph_id, 0);
	assert_int_equal(atomic_load(&world_status()->graph_launches), graphs + 1);
	cs_segment_reader_close(reader);
}

static void
test_memory_stays_below_its_bar(void **state)
{
	(void)state;
	assert_true(cs_labels_mapped_bytes() > 0);
	assert_true(cs_labels_mapped_bytes() <= 11U << 20);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_eager_launch_has_its_size_and_rank),
		cmocka_unit_test(test_eager_launches_are_forgotten),
		cmocka_unit_test(test_launch_that_nobody_saw_has_its_name),
		cmocka_unit_test(test_a_busy_segment_is_asked_again),
		cmocka_unit_test(test_failed_launch_is_forgotten),
		cmocka_unit_test(test_ordinary_kernels_and_markers),
		cmocka_unit_test(test_a_record_without_name_is_known_by_its_launch),
		cmocka_unit_test(test_both_layouts_and_handles_of_the_runtime),
		cmocka_unit_test(test_failed_checks_give_no_size),
		cmocka_unit_test(test_hostile_parameters),
		cmocka_unit_test(test_extra_buffer),
		cmocka_unit_test(test_handles_are_reused_after_an_unload),
		cmocka_unit_test(test_name_addresses_are_reused),
		cmocka_unit_test(test_many_functions_stay_right),
		cmocka_unit_test(test_host_launches_are_recorded),
		cmocka_unit_test(test_memory_stays_below_its_bar),
	};

	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
