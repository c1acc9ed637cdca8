/* SPDX-License-Identifier: Apache-2.0 */
/* What was not seen is not told: edges of windows, losses, late records, too many records. */
#include "analysis/window.h"
#include "scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define TARGET_ID 22U

static uint32_t
open_scene(struct scene *scene, const struct cs_analysis_options *options)
{
	scene_open(scene, 1, options);
	return scene_label(scene, 0, CS_OP_ALL_REDUCE, 57344, 1, 0);
}

/* A launch that outlasts the window is in no step statistics; its collectives inside are told in full. */
static void
test_launch_over_the_edge(void **state)
{
	struct cs_analysis_counts counts;
	struct scene scene;
	uint32_t label;
	uint64_t end_ns;

	(void)state;
	label = open_scene(&scene, NULL);
	end_ns = scene_graph(&scene, 0, TARGET_ID, label, 20, 10 * MS, 30 * US, 20 * US) + MS;
	scene_graph(&scene, 0, TARGET_ID, label, 20, end_ns, 30 * US, 20 * US);
	scene_window(&scene, 0, CS_DEPTH_DEEP, 9 * MS, end_ns + 500 * US);
	scene_play(&scene);
	cs_analysis_read_counts(scene.analysis, &counts);
	assert_int_equal(counts.steps, 1);
	assert_int_equal(counts.incomplete_steps, 1);
	assert_int_equal(scene.step_count, 1);
	assert_int_equal(scene.collective_count, 40);
	assert_int_equal(scene.collectives[19].step, 1);
	assert_int_equal(scene.collectives[20].step, 0);
	assert_int_equal(scene.collectives[29].exposed_ns, 20 * US);
	assert_int_equal(scene.collectives[30].exposed_ns, CS_NS_UNKNOWN);
	assert_int_equal(scene.collectives[30].overlap_ns[CS_BUSY_COPY], CS_NS_UNKNOWN);
	scene_close(&scene);
}

/* An eager step at the beginning of a window may have begun before it; one with a pause before it has not. */
static void
test_eager_at_the_edge(void **state)
{
	const struct cs_analysis_options options = {.incomplete_steps = true};
	struct scene scene;
	uint32_t label;

	(void)state;
	label = open_scene(&scene, &options);
	scene_eager(&scene, 0, label, 20, 10 * MS + 10 * US, 30 * US, 20 * US);
	scene_eager(&scene, 0, label, 20, 20 * MS, 30 * US, 20 * US);
	scene_eager(&scene, 0, label, 20, 30 * MS - 1050 * US, 30 * US, 20 * US);
	scene_window(&scene, 0, CS_DEPTH_DEEP, 10 * MS, 30 * MS);
	scene_play(&scene);
	assert_int_equal(scene.step_count, 3);
	assert_false(scene.steps[0].complete);
	assert_true(scene.steps[1].complete);
	assert_false(scene.steps[2].complete);
	assert_int_equal(scene.steps[0].step, 1);
	scene_close(&scene);
}

/* The first launch in a window with fewer collectives than the graph is known to have was cut. */
static void
test_cut_launch(void **state)
{
	struct scene scene;
	uint32_t label;

	(void)state;
	label = open_scene(&scene, NULL);
	scene_graph(&scene, 0, TARGET_ID, label, 20, 11 * MS, 30 * US, 20 * US);
	scene_window(&scene, 0, CS_DEPTH_DEEP, 10 * MS, 20 * MS);
	scene_graph(&scene, 0, TARGET_ID, label, 15, 30 * MS + 100 * US, 30 * US, 20 * US);
	scene_graph(&scene, 0, TARGET_ID, label, 20, 32 * MS, 30 * US, 20 * US);
	scene_window(&scene, 0, CS_DEPTH_DEEP, 30 * MS, 40 * MS);
	scene_play(&scene);
	assert_int_equal(scene.step_count, 2);
	assert_int_equal(scene.steps[0].start_ns, SCENE_EPOCH_NS + 11 * MS);
	assert_int_equal(scene.steps[1].start_ns, SCENE_EPOCH_NS + 32 * MS);
	scene_close(&scene);
}

static void
test_loss(void **state)
{
	struct scene scene;
	uint32_t label;

	(void)state;
	label = open_scene(&scene, NULL);
	scene_graph(&scene, 0, TARGET_ID, label, 20, 10 * MS, 30 * US, 20 * US);
	scene_graph(&scene, 0, TARGET_ID, label, 20, 15 * MS, 30 * US, 20 * US);
	scene_put(&scene, 0,
		(struct cs_record){.type = CS_RECORD_LOSS,
			.ref = CS_LOSS_RING_OVERRUN,
			.start_ns = 15 * MS + 500 * US,
			.end_ns = 15 * MS + 535 * US,
			.value = 3});
	/* Names that found no room take no kernel away. */
	scene_put(&scene, 0,
		(struct cs_record){
			.type = CS_RECORD_LOSS, .ref = CS_LOSS_TABLE_FULL, .end_ns = 20 * MS, .value = 3});
	scene_play(&scene);
	assert_int_equal(scene.step_count, 1);
	assert_int_equal(scene.collective_count, 40);
	assert_int_equal(scene.collectives[20].exposed_ns, 20 * US);
	assert_int_equal(scene.collectives[30].exposed_ns, CS_NS_UNKNOWN);
	scene_close(&scene);
}

static void
note(struct cs_windows *windows, uint8_t type, enum cs_depth depth, uint64_t start_ns, uint64_t end_ns)
{
	const struct cs_record record = {
		.type = type, .flags = (uint8_t)depth, .start_ns = start_ns, .end_ns = end_ns};

	cs_windows_note(windows, &record);
}

/* A source that says when windows open: between two of them nothing is seen, also while the end of the first
 * is still to be told. */
static void
test_told_when_they_open(void **state)
{
	struct cs_windows windows = {0};
	struct cs_span span;

	(void)state;
	assert_true(cs_windows_saw(&windows, 5, 6));
	note(&windows, CS_RECORD_WINDOW_OPEN, CS_DEPTH_DEEP, 10, 10);
	assert_false(cs_windows_saw(&windows, 5, 15));
	assert_true(cs_windows_saw(&windows, 10, 15));
	/* The next one opens before the records of this are there. */
	note(&windows, CS_RECORD_WINDOW_OPEN, CS_DEPTH_DEEP, 30, 30);
	assert_true(cs_windows_saw(&windows, 12, 15));
	note(&windows, CS_RECORD_WINDOW, CS_DEPTH_DEEP, 10, 20);
	assert_true(cs_windows_saw(&windows, 12, 15));
	assert_false(cs_windows_saw(&windows, 22, 25));
	assert_false(cs_windows_find(&windows, 22, &span));
	assert_true(cs_windows_saw(&windows, 30, 35));
	assert_true(cs_windows_find(&windows, 31, &span));
	assert_int_equal(span.start_ns, 30);
	assert_true(span.end_ns == UINT64_MAX);
	note(&windows, CS_RECORD_WINDOW, CS_DEPTH_DEEP, 30, 40);
	assert_false(cs_windows_saw(&windows, 41, 42));
	assert_true(cs_windows_saw(&windows, 30, 40));
	/* Slices follow each other without a gap; what opened before an end was told is over. */
	note(&windows, CS_RECORD_WINDOW_OPEN, CS_DEPTH_DEEP, 35, 35);
	assert_false(cs_windows_saw(&windows, 41, 42));
	note(&windows, CS_RECORD_WINDOW_OPEN, CS_DEPTH_DEEP, 50, 50);
	note(&windows, CS_RECORD_WINDOW_OPEN, CS_DEPTH_DEEP, 60, 60);
	note(&windows, CS_RECORD_WINDOW, CS_DEPTH_DEEP, 50, 60);
	assert_true(cs_windows_saw(&windows, 58, 61));
	/* What it does not do: trace launches only. */
	note(&windows, CS_RECORD_WINDOW, CS_DEPTH_DEEP, 60, 70);
	note(&windows, CS_RECORD_WINDOW_OPEN, CS_DEPTH_LIGHT, 80, 80);
	assert_false(cs_windows_saw(&windows, 81, 82));
}

/* One after the other without a gap is one; with a gap it is two. */
static void
test_slices(void **state)
{
	struct cs_windows windows = {0};
	struct cs_span span;

	(void)state;
	note(&windows, CS_RECORD_WINDOW, CS_DEPTH_DEEP, 10, 20);
	note(&windows, CS_RECORD_WINDOW, CS_DEPTH_DEEP, 20, 30);
	note(&windows, CS_RECORD_WINDOW, CS_DEPTH_DEEP, 31, 40);
	assert_true(cs_windows_saw(&windows, 15, 25));
	assert_true(cs_windows_find(&windows, 25, &span));
	assert_int_equal(span.start_ns, 10);
	assert_int_equal(span.end_ns, 30);
	assert_false(cs_windows_saw(&windows, 25, 35));
	assert_int_equal(windows.deep_count, 2);
}

/* Ends that never come, and openings in any order. */
static void
test_more_openings_than_room(void **state)
{
	struct cs_windows windows = {0};

	(void)state;
	for (uint64_t i = 1; i <= 2 * CS_WINDOWS_OPEN_MAX; i++)
		note(&windows, CS_RECORD_WINDOW_OPEN, CS_DEPTH_DEEP, i * 10, i * 10);
	note(&windows, CS_RECORD_WINDOW_OPEN, CS_DEPTH_DEEP, 5, 5);
	assert_int_equal(windows.opened_count, CS_WINDOWS_OPEN_MAX);
	assert_false(cs_windows_saw(&windows, 7, 8));
	assert_true(cs_windows_saw(&windows, 20 * CS_WINDOWS_OPEN_MAX, 20 * CS_WINDOWS_OPEN_MAX + 5));
	note(&windows, CS_RECORD_WINDOW, CS_DEPTH_DEEP, 10 * CS_WINDOWS_OPEN_MAX, 10000);
	assert_int_equal(windows.opened_count, 0);
	note(&windows, CS_RECORD_WINDOW_OPEN, CS_DEPTH_DEEP, 10020, 10020);
	note(&windows, CS_RECORD_WINDOW_OPEN, CS_DEPTH_DEEP, 10010, 10010);
	assert_true(cs_windows_saw(&windows, 10010, 10011));
}

/* A reader comes when the ring has been written over: the launch whose first records are gone looks like a
 * whole one of a smaller graph. */
static void
test_gap(void **state)
{
	struct scene scene;
	uint32_t label;
	uint64_t end_ns;

	(void)state;
	label = open_scene(&scene, NULL);
	cs_analysis_note_gap(scene.analysis, scene.ranks[0].source);
	end_ns = scene_graph(&scene, 0, TARGET_ID, label, 7, 10 * MS, 30 * US, 20 * US) + 30 * MS;
	end_ns = scene_graph(&scene, 0, TARGET_ID, label, 20, end_ns, 30 * US, 20 * US) + MS;
	scene_play(&scene);
	assert_int_equal(scene.step_count, 1);
	assert_int_equal(scene.steps[0].collectives, 20);
	assert_int_equal(scene.collective_count, 27);
	assert_int_equal(scene.collectives[3].exposed_ns, CS_NS_UNKNOWN);
	assert_int_equal(scene.collectives[26].exposed_ns, 20 * US);
	scene_close(&scene);
}

/* A light launch on another stream hides what it runs. */
static void
test_beside_a_light_launch(void **state)
{
	struct scene scene;
	uint32_t label;

	(void)state;
	label = open_scene(&scene, NULL);
	scene_put(&scene, 0,
		(struct cs_record){.type = CS_RECORD_GRAPH_LAUNCH,
			.end_ns = 100 * US,
			.correlation_id = 900,
			.graph_id = 5,
			.stream_id = 8});
	scene_collective(&scene, 0, label, 7, 90 * US, 110 * US);
	scene_collective(&scene, 0, label, 7, 120 * US, 140 * US);
	scene_play(&scene);
	assert_int_equal(scene.collectives[0].exposed_ns, CS_NS_UNKNOWN);
	assert_int_equal(scene.collectives[1].exposed_ns, 20 * US);
	assert_int_equal(scene.steps[1].exposed_collective_ns, CS_NS_UNKNOWN);
	scene_close(&scene);
}

/* Any order within the horizon gives the same as the right order. */
static void
test_unordered(void **state)
{
	struct scene scene[2];
	uint64_t random = 7;

	(void)state;
	for (unsigned int variant = 0; variant < 2; variant++) {
		uint32_t label = open_scene(&scene[variant], NULL);
		struct scene_rank *rank = &scene[variant].ranks[0];
		uint64_t at_ns = 0;

		for (unsigned int i = 0; i < 50; i++) {
			scene_busy(&scene[variant], 0, CS_BUSY_COPY, CS_RECORD_COPY_TO_HOST, 9,
				at_ns + 100 * US, at_ns + 300 * US);
			at_ns = scene_graph(
					&scene[variant], 0, TARGET_ID, label, 20, at_ns, 30 * US, 20 * US) +
				300 * US;
		}
		for (size_t i = rank->count; variant && i > 1; i--) {
			struct cs_record swap = rank->records[i - 1];
			size_t other;

			random = random * 6364136223846793005ULL + 1442695040888963407ULL;
			other = (random >> 33) % i;
			rank->records[i - 1] = rank->records[other];
			rank->records[other] = swap;
		}
		scene_play(&scene[variant]);
	}
	assert_int_equal(scene[0].step_count, 50);
	assert_int_equal(scene[1].step_count, 50);
	for (size_t i = 0; i < 50; i++)
		assert_memory_equal(&scene[0].steps[i], &scene[1].steps[i], sizeof(scene[0].steps[i]));
	assert_int_equal(scene[0].collective_count, scene[1].collective_count);
	for (size_t i = 0; i < scene[0].collective_count; i++)
		assert_memory_equal(
			&scene[0].collectives[i], &scene[1].collectives[i], sizeof(scene[0].collectives[i]));
	scene_close(&scene[0]);
	scene_close(&scene[1]);
}

/* After the horizon: the collective is told, in no step, its overlap unknown; counted. */
static void
test_late(void **state)
{
	struct cs_analysis_counts counts;
	struct scene scene;
	uint32_t label;

	(void)state;
	label = open_scene(&scene, NULL);
	scene_graph(&scene, 0, TARGET_ID, label, 20, 10 * MS, 30 * US, 20 * US);
	scene_advance(&scene, 5000 * MS);
	assert_int_equal(scene.step_count, 1);
	scene_collective(&scene, 0, label, 7, 20 * MS, 21 * MS);
	scene_advance(&scene, 5100 * MS);
	assert_int_equal(scene.step_count, 1);
	assert_int_equal(scene.collective_count, 21);
	assert_int_equal(scene.collectives[20].step, 0);
	assert_int_equal(scene.collectives[20].end_ns - scene.collectives[20].start_ns, MS);
	assert_int_equal(scene.collectives[20].exposed_ns, CS_NS_UNKNOWN);
	cs_analysis_read_counts(scene.analysis, &counts);
	assert_int_equal(counts.late_records, 1);
	scene_close(&scene);
}

/* Nothing is handed out before the horizon has passed, all of it after. */
static void
test_horizon(void **state)
{
	struct scene scene;
	uint32_t label;

	(void)state;
	label = open_scene(&scene, NULL);
	scene_graph(&scene, 0, TARGET_ID, label, 20, 10 * MS, 30 * US, 20 * US);
	scene_advance(&scene, 2000 * MS);
	assert_int_equal(scene.step_count, 0);
	scene_advance(&scene, 2100 * MS);
	assert_int_equal(scene.step_count, 1);
	scene_close(&scene);
}

/* A reader that never advances does not make it grow: the oldest leave early and are counted. */
static void
test_bounded(void **state)
{
	const struct cs_analysis_options options = {.pending_records = 1000};
	struct cs_analysis_counts counts;
	struct scene scene;
	uint32_t label;
	uint64_t at_ns = 0;

	(void)state;
	label = open_scene(&scene, &options);
	for (unsigned int i = 0; i < 200; i++) {
		at_ns = scene_graph(&scene, 0, TARGET_ID, label, 20, at_ns, 30 * US, 20 * US) + 300 * US;
		assert_int_equal(cs_analysis_ingest(scene.analysis, scene.ranks[0].source,
					 scene.ranks[0].records, scene.ranks[0].count),
			0);
		scene.ranks[0].count = 0;
	}
	cs_analysis_read_counts(scene.analysis, &counts);
	assert_true(counts.forced >= 200 * 40 - 1000 - 100);
	assert_int_equal(counts.records, 200 * 40);
	assert_int_equal(counts.dropped, 0);
	scene_play(&scene);
	assert_int_equal(scene.step_count, 200);
	assert_int_equal(scene.collective_count, 4000);
	scene_close(&scene);
}

/* A collective that claims to run for an hour holds everything behind it back, until too much waits. */
static void
test_endless(void **state)
{
	struct cs_analysis_counts counts;
	struct scene scene;
	uint32_t label;
	uint64_t at_ns = MS;

	(void)state;
	label = open_scene(&scene, NULL);
	scene_collective(&scene, 0, label, 9, 0, 3600000 * MS);
	for (unsigned int i = 0; i < 100; i++) {
		for (unsigned int k = 0; k < 100; k++)
			at_ns = scene_graph(&scene, 0, TARGET_ID, label, 20, at_ns, 30 * US, 20 * US) +
				300 * US;
		scene_advance(&scene, at_ns + 2000 * MS);
	}
	assert_true(scene.collective_count >= 200000 - 65536 - 2000);
	assert_int_equal(scene.collectives[0].exposed_ns, CS_NS_UNKNOWN);
	scene_play(&scene);
	assert_int_equal(scene.collective_count, 200001);
	cs_analysis_read_counts(scene.analysis, &counts);
	assert_int_equal(counts.late_records, 0);
	assert_int_equal(counts.dropped, 0);
	scene_close(&scene);
}

/* More intervals open at once than any GPU has: the rest is told without overlap and counted. */
static void
test_too_many_open(void **state)
{
	struct cs_analysis_counts counts;
	struct scene scene;
	uint32_t label;

	(void)state;
	label = open_scene(&scene, NULL);
	for (unsigned int i = 0; i < 3000; i++)
		scene_busy(&scene, 0, CS_BUSY_COMPUTE, 0, 1000 + i, i, 10 * MS);
	scene_collective(&scene, 0, label, 7, MS, 2 * MS);
	scene_play(&scene);
	cs_analysis_read_counts(scene.analysis, &counts);
	assert_true(counts.dropped > 1900 && counts.dropped < 2100);
	assert_int_equal(scene.collective_count, 1);
	assert_int_equal(scene.collectives[0].exposed_ns, CS_NS_UNKNOWN);
	scene_close(&scene);
}

/* Contents that no writer writes are counted and change nothing. */
static void
test_nonsense(void **state)
{
	struct cs_analysis_counts counts;
	struct scene scene;
	uint32_t label;

	(void)state;
	label = open_scene(&scene, NULL);
	scene_put(&scene, 0, (struct cs_record){.type = 0, .start_ns = 1, .end_ns = 2});
	scene_put(&scene, 0, (struct cs_record){.type = 200, .start_ns = 1, .end_ns = 2});
	scene_put(&scene, 0, (struct cs_record){.type = CS_RECORD_COLLECTIVE, .start_ns = 9, .end_ns = 2});
	scene_put(&scene, 0,
		(struct cs_record){.type = CS_RECORD_COLLECTIVE, .gpu = 99, .start_ns = 1, .end_ns = 2});
	/* A label and a name that no table has: known to be unknown. */
	scene_put(&scene, 0,
		(struct cs_record){
			.type = CS_RECORD_COLLECTIVE, .ref = 4000000000U, .start_ns = 1, .end_ns = 2});
	scene_put(&scene, 0,
		(struct cs_record){.type = CS_RECORD_MARKER, .ref = 4000000000U, .start_ns = 3, .end_ns = 4});
	scene_collective(&scene, 0, label, 7, 10, 20);
	scene_play(&scene);
	cs_analysis_read_counts(scene.analysis, &counts);
	assert_int_equal(counts.dropped, 4);
	assert_int_equal(scene.collective_count, 2);
	scene_close(&scene);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_launch_over_the_edge),
		cmocka_unit_test(test_eager_at_the_edge),
		cmocka_unit_test(test_cut_launch),
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_told_when_they_open),
		cmocka_unit_test(test_slices),
		cmocka_unit_test(test_more_openings_than_room),
		cmocka_unit_test(test_beside_a_light_launch),
		cmocka_unit_test(test_unordered),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_horizon),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_endless),
		cmocka_unit_test(test_too_many_open),
		cmocka_unit_test(test_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
