/* SPDX-License-Identifier: Apache-2.0 */
#include "scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TARGET    122U
#define HANGS_AT  57U
#define RANKS     4U
#define LATE_RANK 2U

struct seen {
	struct cs_stall stalls[RANKS];
	uint64_t bytes[RANKS];
	size_t count;
};

static void
take_stall(void *context, const struct cs_stall *stall)
{
	struct seen *seen = context;

	assert_true(seen->count < RANKS);
	seen->bytes[seen->count] = stall->label->bytes;
	seen->stalls[seen->count++] = *stall;
}

static size_t
list(struct scene *scene, uint64_t now_ns, struct seen *seen)
{
	memset(seen, 0, sizeof(*seen));
	return cs_analysis_list_stalls(scene->analysis, SCENE_EPOCH_NS + now_ns, 0, take_stall, seen);
}

static uint32_t
open_scene(struct scene *scene)
{
	uint32_t label = 0;

	scene_open(scene, RANKS, NULL);
	for (unsigned int i = 0; i < RANKS; i++) {
		uint32_t communicator = scene_communicator(scene, i, 0xabc, (int32_t)i, RANKS);

		label = scene_label(scene, i, CS_OP_ALL_REDUCE, 114688, RANKS, communicator);
	}
	return label;
}

/* One rank does not come to collective 57 of the verify graph: its compute before it never ends. */
static uint64_t
hang(struct scene *scene, uint32_t label, uint64_t at_ns)
{
	uint64_t end_ns = at_ns;

	for (unsigned int i = 0; i < RANKS; i++) {
		end_ns = scene_graph(scene, i, 22, label, HANGS_AT, at_ns, 60 * US, 40 * US);
		if (i != LATE_RANK)
			scene_put(scene, i,
				(struct cs_record){.type = CS_RECORD_BUSY,
					.flags = CS_RECORD_IN_GRAPH,
					.start_ns = end_ns,
					.end_ns = end_ns + 60 * US,
					.correlation_id = scene->ranks[i].correlation_id,
					.graph_id = 22,
					.stream_id = 7});
	}
	return end_ns;
}

static void
test_hang_before_a_collective(void **state)
{
	struct scene scene;
	struct seen seen;
	uint32_t label = open_scene(&scene);
	uint64_t at_ns = 0;

	(void)state;
	for (unsigned int k = 0; k < 5; k++) {
		uint64_t end_ns = 0;

		for (unsigned int i = 0; i < RANKS; i++)
			end_ns = scene_graph(&scene, i, 22, label, TARGET, at_ns, 60 * US, 40 * US);
		at_ns = end_ns + MS;
	}
	at_ns = hang(&scene, label, at_ns);
	scene_advance(&scene, at_ns + 9000 * MS);
	assert_int_equal(list(&scene, at_ns + 9000 * MS, &seen), 0);
	scene_advance(&scene, at_ns + 10100 * MS);
	assert_int_equal(list(&scene, at_ns + 10100 * MS, &seen), RANKS);
	for (unsigned int i = 0; i < RANKS; i++) {
		assert_int_equal(seen.stalls[i].source, scene.ranks[i].source);
		assert_int_equal(seen.stalls[i].rank, i);
		assert_int_equal(seen.stalls[i].step, 7);
		assert_int_equal(seen.stalls[i].ordinal, HANGS_AT);
		assert_int_equal(seen.stalls[i].last_ordinal, HANGS_AT - 1);
		assert_int_equal(seen.stalls[i].last_end_ns, SCENE_EPOCH_NS + at_ns);
		assert_int_equal(seen.stalls[i].label_id, label);
		assert_int_equal(seen.bytes[i], 114688);
		assert_int_equal(seen.stalls[i].behind, i == LATE_RANK);
	}
	scene_close(&scene);
}

/* Work that was done, and then none: no alarm, whatever time passes. */
static void
test_idle(void **state)
{
	struct scene scene;
	struct seen seen;
	uint32_t label = open_scene(&scene);

	(void)state;
	for (unsigned int i = 0; i < RANKS; i++)
		scene_graph(&scene, i, 22, label, TARGET, 0, 60 * US, 40 * US);
	scene_advance(&scene, 100000 * MS);
	assert_int_equal(list(&scene, 100000 * MS, &seen), 0);
	scene_close(&scene);
}

/* Weights load: copies and kernels, no collective, then nothing. */
static void
test_loading(void **state)
{
	struct scene scene;
	struct seen seen;

	(void)state;
	open_scene(&scene);
	scene_busy(&scene, 0, CS_BUSY_COPY, CS_RECORD_COPY_FROM_HOST, 9, 0, 500 * MS);
	scene_advance(&scene, 60000 * MS);
	assert_int_equal(list(&scene, 60000 * MS, &seen), 0);
	scene_close(&scene);
}

/* A launch that the end of the window cut, on a server that then idles: nothing was seen to stop. */
static void
test_window_edge(void **state)
{
	struct scene scene;
	struct seen seen;
	uint32_t label = open_scene(&scene);
	uint64_t end_ns;

	(void)state;
	end_ns = scene_graph(&scene, 0, 22, label, TARGET, 0, 60 * US, 40 * US) + MS;
	end_ns = scene_graph(&scene, 0, 22, label, 30, end_ns, 60 * US, 40 * US);
	scene_window(&scene, 0, CS_DEPTH_DEEP, 0, end_ns + 30 * US);
	scene_window(&scene, 0, CS_DEPTH_DEEP, 20000 * MS, 20100 * MS);
	scene_advance(&scene, 30000 * MS);
	assert_int_equal(list(&scene, 30000 * MS, &seen), 0);
	scene_close(&scene);
}

/* Sample mode: it stopped inside a window; told once a later window has looked again. */
static void
test_sampled(void **state)
{
	struct scene scene;
	struct seen seen;
	uint32_t label = open_scene(&scene);
	uint64_t at_ns = 0;

	(void)state;
	for (unsigned int i = 0; i < RANKS; i++)
		at_ns = scene_graph(&scene, i, 22, label, TARGET, 0, 60 * US, 40 * US) + MS;
	at_ns = hang(&scene, label, at_ns);
	for (unsigned int i = 0; i < RANKS; i++)
		scene_window(&scene, i, CS_DEPTH_DEEP, 0, 100 * MS);
	scene_advance(&scene, 15000 * MS);
	assert_int_equal(list(&scene, 15000 * MS, &seen), 0);
	for (unsigned int i = 0; i < RANKS; i++)
		scene_window(&scene, i, CS_DEPTH_DEEP, 20000 * MS, 20100 * MS);
	scene_advance(&scene, 20200 * MS);
	assert_int_equal(list(&scene, 20200 * MS, &seen), RANKS);
	scene_close(&scene);
}

/* A launch call of which the GPU has begun nothing. */
static void
test_launch_never_begins(void **state)
{
	struct scene scene;
	struct seen seen;
	uint32_t label = open_scene(&scene);
	uint64_t at_ns = scene_graph(&scene, 0, 22, label, TARGET, MS, 60 * US, 40 * US);
	struct cs_record launch = {.type = CS_RECORD_HOST_LAUNCH, .graph_id = 22};

	(void)state;
	launch.correlation_id = scene.ranks[0].correlation_id;
	launch.end_ns = 10 * US;
	scene_put(&scene, 0, launch);
	launch.correlation_id++;
	launch.start_ns = at_ns + MS;
	launch.end_ns = at_ns + MS + 10 * US;
	scene_put(&scene, 0, launch);
	scene_advance(&scene, at_ns + 10500 * MS);
	assert_int_equal(list(&scene, at_ns + 10500 * MS, &seen), 1);
	assert_int_equal(seen.stalls[0].ordinal, 0);
	assert_int_equal(seen.stalls[0].label_id, label);
	assert_int_equal(seen.stalls[0].since_ns, SCENE_EPOCH_NS + at_ns + MS);
	scene_close(&scene);
}

/* All have done the compute before the first collective of a launch, and nothing ends after that. */
static void
test_hang_in_the_first_collective(void **state)
{
	struct scene scene;
	struct seen seen;
	uint32_t label = open_scene(&scene);
	uint64_t at_ns = 0;

	(void)state;
	for (unsigned int i = 0; i < RANKS; i++)
		at_ns = scene_graph(&scene, i, 22, label, TARGET, 0, 60 * US, 40 * US) + MS;
	for (unsigned int i = 0; i < RANKS; i++)
		scene_put(&scene, i,
			(struct cs_record){.type = CS_RECORD_BUSY,
				.klass = CS_BUSY_COMPUTE,
				.flags = CS_RECORD_IN_GRAPH,
				.start_ns = at_ns,
				.end_ns = at_ns + 60 * US,
				.correlation_id = 4000,
				.graph_id = 22,
				.stream_id = 7});
	scene_advance(&scene, 15000 * MS);
	assert_int_equal(list(&scene, 15000 * MS, &seen), RANKS);
	for (unsigned int i = 0; i < RANKS; i++) {
		assert_int_equal(seen.stalls[i].ordinal, 0);
		assert_int_equal(seen.stalls[i].correlation_id, 4000);
		assert_int_equal(seen.stalls[i].label_id, label);
		assert_int_equal(seen.stalls[i].since_ns, SCENE_EPOCH_NS + at_ns + 60 * US);
		assert_false(seen.stalls[i].behind);
	}
	scene_close(&scene);
}

/* Launch calls of which nothing need ever be seen: an empty graph; a collective whose record was lost. */
static void
test_launches_without_a_trace(void **state)
{
	struct scene scene;
	struct seen seen;
	uint32_t label = open_scene(&scene);
	uint64_t at_ns = scene_graph(&scene, 0, 22, label, TARGET, MS, 60 * US, 40 * US);
	struct cs_record launch = {.type = CS_RECORD_HOST_LAUNCH, .graph_id = 99, .correlation_id = 500};

	(void)state;
	launch.start_ns = launch.end_ns = at_ns + MS;
	scene_put(&scene, 0, launch);
	scene_advance(&scene, at_ns + 10500 * MS);
	assert_int_equal(list(&scene, at_ns + 10500 * MS, &seen), 0);
	launch.graph_id = 0;
	launch.ref = label;
	launch.correlation_id++;
	launch.start_ns = launch.end_ns = at_ns + 11000 * MS;
	scene_put(&scene, 0, launch);
	scene_put(&scene, 0,
		(struct cs_record){.type = CS_RECORD_LOSS,
			.ref = CS_LOSS_CUPTI_DROPPED,
			.start_ns = at_ns + 10900 * MS,
			.end_ns = at_ns + 11100 * MS,
			.value = 1});
	scene_advance(&scene, at_ns + 30000 * MS);
	assert_int_equal(list(&scene, at_ns + 30000 * MS, &seen), 0);
	scene_close(&scene);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hang_before_a_collective),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_loading),
		cmocka_unit_test(test_window_edge),
		cmocka_unit_test(test_sampled),
		cmocka_unit_test(test_launch_never_begins),
		cmocka_unit_test(test_hang_in_the_first_collective),
		cmocka_unit_test(test_launches_without_a_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
