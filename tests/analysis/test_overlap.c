/* SPDX-License-Identifier: Apache-2.0 */
#include "scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ONE_MB 1048576U

static void
open_with_label(struct scene *scene, uint32_t *label)
{
	scene_open(scene, 1, NULL);
	*label = scene_label(scene, 0, CS_OP_ALL_REDUCE, ONE_MB, 1, 0);
}

static void
test_alone(void **state)
{
	struct scene scene;
	uint32_t label;

	(void)state;
	open_with_label(&scene, &label);
	scene_collective(&scene, 0, label, 7, 100 * US, 140 * US);
	scene_play(&scene);
	assert_int_equal(scene.collective_count, 1);
	assert_int_equal(scene.collectives[0].exposed_ns, 40 * US);
	for (unsigned int k = 0; k < CS_BUSY_CLASS_COUNT; k++)
		assert_int_equal(scene.collectives[0].overlap_ns[k], 0);
	assert_int_equal(scene.steps[0].collective_ns, 40 * US);
	assert_int_equal(scene.steps[0].exposed_collective_ns, 40 * US);
	scene_close(&scene);
}

/* 100 us of all-reduce; compute beside the first 30, a copy to the host beside 20 ... 60, a peer copy beside
 * 90 ... 120. */
static void
test_compute_and_copies(void **state)
{
	struct scene scene;
	const struct cs_collective *item;
	uint32_t label;

	(void)state;
	open_with_label(&scene, &label);
	scene_busy(&scene, 0, CS_BUSY_COMPUTE, 0, 8, 900 * US, 1030 * US);
	scene_busy(&scene, 0, CS_BUSY_COPY, CS_RECORD_COPY_TO_HOST, 9, 1020 * US, 1060 * US);
	scene_busy(&scene, 0, CS_BUSY_COPY, CS_RECORD_COPY_PEER, 10, 1090 * US, 1120 * US);
	scene_collective(&scene, 0, label, 7, 1000 * US, 1100 * US);
	scene_play(&scene);
	item = &scene.collectives[0];
	assert_int_equal(item->overlap_ns[CS_BUSY_COMPUTE], 30 * US);
	assert_int_equal(item->overlap_ns[CS_BUSY_COPY], 50 * US);
	assert_int_equal(item->copy_ns[CS_COPY_TO_HOST], 40 * US);
	assert_int_equal(item->copy_ns[CS_COPY_PEER], 10 * US);
	assert_int_equal(item->copy_ns[CS_COPY_FROM_HOST], 0);
	assert_int_equal(item->copy_ns[CS_COPY_LOCAL], 0);
	assert_int_equal(item->overlap_ns[CS_BUSY_COLLECTIVE], 0);
	assert_int_equal(item->exposed_ns, 30 * US);
	assert_int_equal(item->dependent_ns, 0);
	scene_close(&scene);
}

/* Two streams' collectives: each sees the other; the step's union counts the common time once. */
static void
test_contention(void **state)
{
	struct scene scene;
	uint32_t label;

	(void)state;
	open_with_label(&scene, &label);
	scene_collective(&scene, 0, label, 7, 0, 200 * US);
	scene_collective(&scene, 0, label, 8, 50 * US, 250 * US);
	scene_play(&scene);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(scene.collectives[i].overlap_ns[CS_BUSY_COLLECTIVE], 150 * US);
		assert_int_equal(scene.collectives[i].exposed_ns, 50 * US);
	}
	assert_int_equal(scene.step_count, 1);
	assert_int_equal(scene.steps[0].collective_ns, 250 * US);
	assert_int_equal(scene.steps[0].exposed_collective_ns, 250 * US);
	scene_close(&scene);
}

/* Programmatic dependent launch: the collective starts 10 us before its predecessor on the same stream ends.
 */
static void
test_dependent_launch(void **state)
{
	struct scene scene;
	uint32_t label;

	(void)state;
	open_with_label(&scene, &label);
	scene_busy(&scene, 0, CS_BUSY_COMPUTE, 0, 7, 0, 110 * US);
	scene_collective(&scene, 0, label, 7, 100 * US, 150 * US);
	scene_busy(&scene, 0, CS_BUSY_COMPUTE, 0, 7, 145 * US, 200 * US);
	scene_play(&scene);
	assert_int_equal(scene.collectives[0].dependent_ns, 10 * US);
	assert_int_equal(scene.collectives[0].overlap_ns[CS_BUSY_COMPUTE], 0);
	assert_int_equal(scene.collectives[0].exposed_ns, 50 * US);
	/* The GPU did compute for 15 of the 50 us. */
	assert_int_equal(scene.steps[0].exposed_collective_ns, 35 * US);
	scene_close(&scene);
}

/* The founding case: 122 all-reduces per verify step at 225 us while another stream's transfers use the bus,
 * against 40 us alone. About 30 ms of collective time per step; the contention is its own number. */
static void
test_founding_pair(void **state)
{
	const uint64_t reduce_ns[2] = {225 * US, 40 * US};

	(void)state;
	for (unsigned int variant = 0; variant < 2; variant++) {
		struct scene scene;
		uint64_t start_ns = 0, contended_ns = 0;
		uint32_t label;

		open_with_label(&scene, &label);
		for (unsigned int step = 0; step < 12; step++) {
			uint64_t end_ns =
				scene_graph(&scene, 0, 21, label, 3, start_ns, 20 * US, reduce_ns[variant]);

			start_ns = scene_graph(
				&scene, 0, 22, label, 122, end_ns + 300 * US, 60 * US, reduce_ns[variant]);
			if (variant == 0)
				scene_busy(&scene, 0, CS_BUSY_COPY, CS_RECORD_COPY_TO_HOST, 9,
					end_ns + 300 * US, start_ns);
			start_ns += 800 * US;
		}
		scene_play(&scene);
		assert_int_equal(scene.step_count, 24);
		for (size_t i = 17; i < 24; i += 2) {
			assert_int_equal(scene.steps[i].phase, CS_PHASE_VERIFY);
			assert_int_equal(scene.steps[i].collective_ns, 122 * reduce_ns[variant]);
		}
		for (size_t i = 0; i < scene.collective_count; i++)
			contended_ns += scene.collectives[i].copy_ns[CS_COPY_TO_HOST];
		assert_int_equal(contended_ns, variant == 0 ? 12 * 122 * 225 * US : 0);
		scene_close(&scene);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_compute_and_copies),
		cmocka_unit_test(test_contention),
		cmocka_unit_test(test_dependent_launch),
		cmocka_unit_test(test_founding_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
