/* SPDX-License-Identifier: Apache-2.0 */
/* The wall clock is set back under a live reader. */
#include "scene.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define RANKS       2U
#define STEPS       40U
#define COLLECTIVES 20U
#define STEP_NS     (10 * MS)
#define S           (1000 * MS)

static uint32_t
open_scene(struct scene *scene)
{
	uint32_t label = 0;

	scene_open(scene, RANKS, NULL);
	for (unsigned int i = 0; i < RANKS; i++)
		label = scene_label(scene, i, CS_OP_ALL_REDUCE, 114688, RANKS,
			scene_communicator(scene, i, 0xabc, (int32_t)i, RANKS));
	return label;
}

/* The same steps on both ranks, from at_ns on. Returns when the last one ends. */
static uint64_t
put_steps(struct scene *scene, uint32_t label, uint64_t at_ns)
{
	uint64_t end_ns = at_ns;

	for (unsigned int k = 0; k < STEPS; k++) {
		for (unsigned int i = 0; i < RANKS; i++)
			end_ns = scene_graph(
				scene, i, 22, label, COLLECTIVES, at_ns + k * STEP_NS, 60 * US, 38 * US);
	}
	return end_ns;
}

static struct cs_analysis_counts
counts_of(const struct scene *scene)
{
	struct cs_analysis_counts counts;

	cs_analysis_read_counts(scene->analysis, &counts);
	return counts;
}

static void
check_offset(const struct scene *scene, int64_t offset_ns)
{
	struct cs_clock_estimate estimate;

	assert_int_equal(cs_analysis_read_clock(scene->analysis, scene->ranks[1].source, 0, &estimate), 0);
	assert_int_equal(estimate.offset_ns, offset_ns);
}

/* What waits is handed out at once; what comes then is neither late nor measured with the old offset. */
static void
test_set_back(void **state)
{
	static const uint64_t steps_back_ns[] = {11 * S, 80 * S, 3600 * S};

	(void)state;
	for (size_t i = 0; i < sizeof(steps_back_ns) / sizeof(steps_back_ns[0]); i++) {
		uint64_t at_ns = 4000 * S;
		struct cs_clock_estimate estimate;
		struct scene scene;
		uint32_t label = open_scene(&scene);

		scene.ranks[1].clock_ns = 50 * (int64_t)US;
		scene_advance(&scene, put_steps(&scene, label, at_ns));
		assert_true(scene.step_count < 2 * STEPS);

		at_ns -= steps_back_ns[i];
		scene_advance(&scene, at_ns);
		assert_int_equal(scene.step_count, 2 * STEPS);
		assert_int_equal(cs_analysis_read_clock(scene.analysis, scene.ranks[1].source, 0, &estimate),
			-ENODATA);

		scene.ranks[1].clock_ns = -90 * (int64_t)US;
		scene_advance(&scene, put_steps(&scene, label, at_ns));
		scene_advance(&scene, at_ns + 5 * S);
		assert_int_equal(scene.step_count, 4 * STEPS);
		assert_int_equal(counts_of(&scene).late_records, 0);
		assert_int_equal(counts_of(&scene).dropped, 0);
		assert_int_equal(counts_of(&scene).incomplete_steps, 0);
		assert_int_equal(counts_of(&scene).matched_collectives, 4 * STEPS * COLLECTIVES);
		check_offset(&scene, -90 * (int64_t)US);
		scene_close(&scene);
	}
}

/* Records from before that were still on their way do not take the new time's place. */
static void
test_stragglers(void **state)
{
	uint64_t at_ns = 4000 * S;
	struct scene scene;
	uint32_t label = open_scene(&scene);
	uint64_t end_ns = put_steps(&scene, label, at_ns);

	(void)state;
	scene_advance(&scene, end_ns);
	at_ns -= 20 * S;
	scene_advance(&scene, at_ns);
	put_steps(&scene, label, at_ns + S);
	scene_collective(&scene, 0, label, 7, end_ns, end_ns + 40 * US);
	scene_advance(&scene, at_ns + S);
	put_steps(&scene, label, at_ns + 2 * S);
	scene_advance(&scene, at_ns + 10 * S);
	assert_int_equal(scene.step_count, 6 * STEPS);
	assert_int_equal(counts_of(&scene).dropped, 1);
	assert_int_equal(counts_of(&scene).late_records, 0);
	scene_close(&scene);
}

/* Less is no reason to begin again: it passes by itself. */
static void
test_set_back_a_little(void **state)
{
	uint64_t at_ns = 4000 * S;
	struct scene scene;
	uint32_t label = open_scene(&scene);

	(void)state;
	scene.ranks[1].clock_ns = 50 * (int64_t)US;
	put_steps(&scene, label, at_ns);
	scene_advance(&scene, at_ns + 10 * S);
	scene_advance(&scene, at_ns);
	check_offset(&scene, 50 * (int64_t)US);
	put_steps(&scene, label, at_ns + 9 * S);
	scene_advance(&scene, at_ns + 15 * S);
	assert_int_equal(scene.step_count, 4 * STEPS);
	assert_int_equal(counts_of(&scene).late_records, 0);
	scene_close(&scene);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set_back),
		cmocka_unit_test(test_stragglers),
		cmocka_unit_test(test_set_back_a_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
