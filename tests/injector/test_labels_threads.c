/* SPDX-License-Identifier: Apache-2.0 */
/* Several threads capture, instantiate and destroy at once while records are resolved: 200,000 labelled
 * nodes. */
#include "labels_world.h"

/* must come before cmocka.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>

#define THREADS     4
#define GRAPHS      50
#define GRAPH_NODES 1000 /* half of them collectives; twice, with the executable's */
#define EAGER_EVERY 10

struct worker {
	int32_t number;
	struct world_graph *execs[GRAPHS];
	uint32_t eager[GRAPHS];
};

/* Thread, graph and node tell the size. */
static int32_t
packs_of(int32_t thread, int32_t graph, int32_t node)
{
	return 1 + thread + THREADS * (graph + GRAPHS * (node % 16));
}

static void *
capture_all(void *argument)
{
	struct worker *worker = argument;
	struct world_vllm arguments;
	struct world_launch launches[2] = {{.function = &world_ordinary, .kernel_params = arguments.params},
		{.function = &world_vllm, .kernel_params = arguments.params}};

	for (int32_t g = 0; g < GRAPHS; g++) {
		struct world_graph *graph = world_graph_create();
		struct world_graph *scrap;

		for (int32_t i = 0; i < GRAPH_NODES; i++) {
			world_vllm_fill(&arguments, worker->number, packs_of(worker->number, g, i));
			world_capture(graph, &launches[i % 2]);
			if (i % EAGER_EVERY == 1)
				worker->eager[g] = world_eager(&launches[1]);
		}
		worker->execs[g] = world_instantiate(graph);
		if (g % 8 == 0) {
			scrap = world_instantiate(graph);
			world_destroy_exec(scrap);
			world_unload_module();
		}
		if (g % 2)
			world_destroy_graph(graph);
	}
	return NULL;
}

static void
test_capture_on_several_threads(void **state)
{
	static struct worker workers[THREADS];
	pthread_t threads[THREADS];
	uint64_t wrong = 0;

	(void)state;
	for (int32_t i = 0; i < THREADS; i++) {
		workers[i].number = i;
		assert_int_equal(pthread_create(&threads[i], NULL, capture_all, &workers[i]), 0);
	}
	/* The parser does not wait for them. */
	for (uint64_t i = 0; i < 20000; i++)
		world_resolve(WORLD_VLLM, (i % 300 + 1) << 32 | (i % GRAPH_NODES), (uint32_t)i);
	for (int32_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	/* Executables: 100,000. Graphs that are still there: 50,000. */
	assert_int_equal(
		atomic_load(&world_status()->nodes_labelled), THREADS * GRAPHS * GRAPH_NODES * 3 / 4);
	for (int32_t t = 0; t < THREADS; t++) {
		for (int32_t g = 0; g < GRAPHS; g++) {
			for (int32_t i = 0; i < GRAPH_NODES; i++) {
				struct cs_kernel_identity identity =
					world_resolve(i % 2 ? WORLD_VLLM : WORLD_ORDINARY,
						workers[t].execs[g]->nodes[i]->id, 1);
				uint64_t bytes = (uint64_t)packs_of(t, g, i) * 16;

				wrong += i % 2 ? identity.bytes != bytes : identity.kind != CS_CATALOG_NONE;
			}
			/* Older ones may have been forgotten. */
			if (g >= GRAPHS - 5)
				wrong += world_resolve(WORLD_VLLM, 0, workers[t].eager[g]).bytes ==
					 CS_BYTES_UNKNOWN;
		}
	}
	assert_int_equal(wrong, 0);
	assert_int_equal(atomic_load(&world_gone_queries), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_capture_on_several_threads),
	};

	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
