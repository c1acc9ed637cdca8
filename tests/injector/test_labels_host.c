/* SPDX-License-Identifier: Apache-2.0 */
/* What the host must not feel of the callbacks: no allocation, errno as it was. */
#include "announce.h"
#include "labels_world.h"

/* must come before cmocka.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void __wrap_free(void *memory);

static uint64_t allocations;

void *
__wrap_malloc(size_t bytes)
{
	allocations++;
	return __real_malloc(bytes);
}

void *
__wrap_calloc(size_t count, size_t bytes)
{
	allocations++;
	return __real_calloc(count, bytes);
}

void *
__wrap_realloc(void *memory, size_t bytes)
{
	allocations++;
	return __real_realloc(memory, bytes);
}

void
__wrap_free(void *memory)
{
	allocations++;
	__real_free(memory);
}

static void
test_callbacks_allocate_nothing_and_keep_errno(void **state)
{
	struct world_vllm arguments;
	const struct world_launch launches[] = {{.function = &world_vllm, .kernel_params = arguments.params},
		{.function = &world_ordinary, .kernel_params = arguments.params}, {.function = &world_nccl}};
	struct world_graph *graph = world_graph_create();
	struct world_graph *source = world_graph_create();
	struct world_graph *exec;
	struct cs_label label = {.op = CS_OP_ALL_REDUCE,
		.source = CS_LABEL_SOURCE_NVTX,
		.rank = CS_RANK_UNKNOWN,
		.world = CS_RANK_UNKNOWN,
		.bytes = 512};

	(void)state;
	world_vllm_fill(&arguments, 0, 64);
	for (size_t i = 0; i < 3; i++) {
		world_capture(graph, &launches[i]);
		world_capture(source, &launches[2 - i]);
	}
	exec = world_instantiate(graph);
	/* From here on the world itself allocates nothing either. */
	errno = ENOTTY;
	allocations = 0;
	for (int32_t round = 0; round < 100; round++) {
		world_unload_module(); /* everything is worked out again */
		for (size_t i = 0; i < 3; i++) {
			/* new sizes, so new labels */
			world_vllm_fill(&arguments, 0, 1000 + round);
			cs_announce_begin();
			cs_announce_collective(&label, 0);
			world_resolve(launches[i].function->name, 0, world_eager(&launches[i]));
			cs_announce_late(&label, 3);
			cs_announce_late_end();
			cs_announce_end();
			world_set_node(graph->nodes[i], &launches[2 - i]);
			world_set_exec(exec, graph->nodes[i], &launches[2 - i], true);
			world_resolve(launches[i].function->name, exec->nodes[i]->id, 1);
			world_resolve(launches[i].function->name, 12345, 1);
		}
		world_update(exec, source, true);
		world_graph_launch(exec);
	}
	assert_int_equal(allocations, 0);
	assert_int_equal(errno, ENOTTY);
	world_destroy_exec(exec);
	world_destroy_graph(graph);
	world_destroy_graph(source);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_callbacks_allocate_nothing_and_keep_errno),
	};

	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
