/* SPDX-License-Identifier: Apache-2.0 */
/* What GRAPH records, which tell of a graph at its capture, change: phases from the first launch on, and
 * hangs in a first launch. And what they must not change: anything, where they are late, wrong or missing. */
#include "scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TARGET    81U
#define TARGET_ID 22U
#define DRAFT_ID  21U
#define EXTEND_ID 23U
#define ROUNDS    6U
#define RANKS     4U
#define LATE_RANK 2U
#define HANGS_AT  57U
/* 4 and 1 tokens of 7168 elements of 2 bytes; the target is captured for up to 8 requests. */
#define VERIFY_BYTES (4U * 7168U * 2U)
#define DRAFT_BYTES  (7168U * 2U)
#define BATCHES      8U

struct labels {
	uint32_t verify[BATCHES], draft[BATCHES]; /* by batch - 1 */
};

static void
open_scene(struct scene *scene, struct labels *labels)
{
	scene_open(scene, 1, NULL);
	for (uint32_t i = 0; i < BATCHES; i++) {
		labels->verify[i] =
			scene_label(scene, 0, CS_OP_ALL_REDUCE, (uint64_t)VERIFY_BYTES * (i + 1), 1, 0);
		labels->draft[i] =
			scene_label(scene, 0, CS_OP_ALL_REDUCE, (uint64_t)DRAFT_BYTES * (i + 1), 1, 0);
	}
}

/* One graph of each kind per batch, ids 100 apart. */
static void
capture_all(struct scene *scene, const struct labels *labels, uint64_t at_ns)
{
	for (uint32_t i = 0; i < BATCHES; i++) {
		scene_captured(scene, 0, TARGET_ID + 100 * i, TARGET, labels->verify[i], 0, TARGET, at_ns);
		scene_captured(scene, 0, DRAFT_ID + 100 * i, 9, labels->draft[i], 0, 9, at_ns);
		scene_captured(scene, 0, EXTEND_ID + 100 * i, 3, labels->verify[i], 0, 3, at_ns);
	}
}

/* Steps of draft, verify, draft-extend for batches of one request. */
static uint64_t
play_rounds(struct scene *scene, const struct labels *labels, unsigned int rounds, uint64_t at_ns)
{
	for (unsigned int i = 0; i < rounds; i++) {
		at_ns = scene_graph(scene, 0, DRAFT_ID, labels->draft[0], 9, at_ns, 10 * US, 12 * US) +
			300 * US;
		at_ns = scene_graph(scene, 0, TARGET_ID, labels->verify[0], TARGET, at_ns, 30 * US, 15 * US) +
			300 * US;
		at_ns = scene_graph(scene, 0, EXTEND_ID, labels->verify[0], 3, at_ns, 10 * US, 15 * US) +
			300 * US;
	}
	return at_ns;
}

static void
expect_phase(const struct scene *scene, size_t at, enum cs_phase phase)
{
	assert_true(at < scene->step_count);
	assert_string_equal(cs_phase_name(scene->steps[at].phase), cs_phase_name(phase));
	assert_string_equal(cs_phase_rule_name(scene->steps[at].phase_rule),
		cs_phase_rule_name(phase ? CS_PHASE_RULE_SIGNATURE : CS_PHASE_RULE_NONE));
}

static void
expect_rounds(const struct scene *scene, size_t from)
{
	assert_int_equal(scene->step_count, 3 * ROUNDS);
	for (size_t i = from; i < scene->step_count; i += 3) {
		expect_phase(scene, i, CS_PHASE_DRAFT);
		expect_phase(scene, i + 1, CS_PHASE_VERIFY);
		expect_phase(scene, i + 2, CS_PHASE_DRAFT_EXTEND);
	}
}

static void
test_first_steps(void **state)
{
	struct scene scene;
	struct labels labels;

	(void)state;
	open_scene(&scene, &labels);
	capture_all(&scene, &labels, 0);
	play_rounds(&scene, &labels, ROUNDS, 1 * MS);
	scene_play(&scene);
	expect_rounds(&scene, 0);
	scene_close(&scene);
}

/* A message of the first pass says nothing by itself: a draft for eight requests is as large as a verify for
 * two. */
static void
test_first_step_is_a_large_draft(void **state)
{
	struct scene scene;
	struct labels labels;

	(void)state;
	open_scene(&scene, &labels);
	capture_all(&scene, &labels, 0);
	scene_graph(&scene, 0, DRAFT_ID + 700, labels.draft[BATCHES - 1], 9, 1 * MS, 10 * US, 12 * US);
	scene_graph(&scene, 0, EXTEND_ID, labels.verify[0], 3, 3 * MS, 10 * US, 15 * US);
	scene_play(&scene);
	assert_int_equal(scene.step_count, 2);
	expect_phase(&scene, 0, CS_PHASE_DRAFT);
	expect_phase(&scene, 1, CS_PHASE_DRAFT_EXTEND);
	scene_close(&scene);
}

/* Records that come in the middle, and then again: no step is worse for it than without any. */
static void
test_late(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns;

	(void)state;
	open_scene(&scene, &labels);
	at_ns = play_rounds(&scene, &labels, 2, 1 * MS);
	scene_play(&scene);
	capture_all(&scene, &labels, at_ns);
	at_ns = play_rounds(&scene, &labels, 2, at_ns + MS);
	scene_play(&scene);
	capture_all(&scene, &labels, at_ns);
	play_rounds(&scene, &labels, 2, at_ns + MS);
	scene_play(&scene);
	expect_rounds(&scene, 6);
	for (size_t i = 0; i < scene.step_count; i++)
		assert_true(scene.steps[i].complete);
	scene_close(&scene);
}

/* Of one kind of graph alone: what that cannot tell is unknown, as without any. */
static void
test_missing(void **state)
{
	(void)state;
	for (unsigned int which = 0; which < 3; which++) {
		struct scene scene;
		struct labels labels;

		open_scene(&scene, &labels);
		if (which == 0)
			scene_captured(&scene, 0, TARGET_ID, TARGET, labels.verify[0], 0, TARGET, 0);
		else if (which == 1)
			scene_captured(&scene, 0, DRAFT_ID, 9, labels.draft[0], 0, 9, 0);
		else
			scene_captured(&scene, 0, EXTEND_ID, 3, labels.verify[0], 0, 3, 0);
		play_rounds(&scene, &labels, ROUNDS, 1 * MS);
		scene_play(&scene);
		for (size_t i = 0; i < 6; i++)
			expect_phase(&scene, i, CS_PHASE_UNKNOWN);
		expect_rounds(&scene, 12);
		scene_close(&scene);
	}
}

/* Pieces of prefills beside whole graphs for decoding (vLLM): they are no drafts. */
static void
test_pieces_are_no_drafts(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns = 1 * MS;

	(void)state;
	open_scene(&scene, &labels);
	for (uint32_t i = 0; i < BATCHES; i++)
		scene_captured(&scene, 0, TARGET_ID + 100 * i, TARGET, labels.verify[i], 0, TARGET, 0);
	for (uint32_t i = 0; i < 41 * BATCHES; i++)
		scene_captured(&scene, 0, 10000 + i, 2, labels.verify[i % BATCHES], 0, 2, 0);
	for (unsigned int i = 0; i < 9; i++)
		at_ns = scene_graph(&scene, 0, TARGET_ID, labels.verify[0], TARGET, at_ns, 30 * US, 15 * US) +
			300 * US;
	scene_play(&scene);
	for (size_t i = 0; i < 7; i++)
		expect_phase(&scene, i, CS_PHASE_UNKNOWN);
	expect_phase(&scene, 8, CS_PHASE_DECODE);
	scene_close(&scene);
}

/* Drafts are captured and not used: after two targets in a row nobody says verify any more. */
static void
test_unused_drafts(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns = 1 * MS;

	(void)state;
	open_scene(&scene, &labels);
	capture_all(&scene, &labels, 0);
	for (unsigned int i = 0; i < 9; i++)
		at_ns = scene_graph(&scene, 0, TARGET_ID, labels.verify[0], TARGET, at_ns, 30 * US, 15 * US) +
			300 * US;
	scene_play(&scene);
	for (size_t i = 2; i < 7; i++)
		expect_phase(&scene, i, CS_PHASE_UNKNOWN);
	expect_phase(&scene, 8, CS_PHASE_DECODE);
	scene_close(&scene);
}

/* A graph whose launches have another number than was captured: what was said of it decides nothing. */
static void
test_contradicted(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns = 1 * MS;

	(void)state;
	open_scene(&scene, &labels);
	capture_all(&scene, &labels, 0);
	scene_window(&scene, 0, CS_DEPTH_DEEP, 0, 100 * MS);
	for (unsigned int i = 0; i < 3; i++)
		at_ns = scene_graph(&scene, 0, TARGET_ID, labels.verify[0], 40, at_ns, 30 * US, 15 * US) +
			300 * US;
	scene_play(&scene);
	assert_int_equal(scene.step_count, 3);
	expect_phase(&scene, 1, CS_PHASE_UNKNOWN);
	scene_close(&scene);
}

/* The first launch of a graph lies over the edge of its window: it is seen to lack collectives. */
static void
test_first_launch_is_cut(void **state)
{
	(void)state;
	for (unsigned int said = 0; said < 2; said++) {
		struct cs_analysis_counts counts;
		struct scene scene;
		struct labels labels;

		open_scene(&scene, &labels);
		if (said)
			scene_captured(&scene, 0, TARGET_ID, TARGET, labels.verify[0], 0, TARGET, 0);
		scene_window(&scene, 0, CS_DEPTH_DEEP, 1 * MS, 40 * MS);
		scene_graph(&scene, 0, TARGET_ID, labels.verify[0], 40, 3 * MS, 30 * US, 15 * US);
		scene_play(&scene);
		cs_analysis_read_counts(scene.analysis, &counts);
		assert_int_equal(counts.incomplete_steps, said);
		assert_int_equal(counts.steps, 1 - said);
		scene_close(&scene);
	}
}

/* -- stalls --------------------------------------------------------------------------------------------- */

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

struct group_labels {
	uint32_t reduce, gather;
};

static void
open_group(struct scene *scene, struct group_labels *labels)
{
	scene_open(scene, RANKS, NULL);
	for (unsigned int i = 0; i < RANKS; i++) {
		uint32_t communicator = scene_communicator(scene, i, 0xabc, (int32_t)i, RANKS);

		labels->reduce = scene_label(scene, i, CS_OP_ALL_REDUCE, VERIFY_BYTES, RANKS, communicator);
		labels->gather = scene_label(scene, i, CS_OP_ALL_GATHER, 4096, RANKS, communicator);
	}
}

static void
capture_target(struct scene *scene, const struct group_labels *labels, uint64_t at_ns)
{
	for (unsigned int i = 0; i < RANKS; i++) {
		scene_captured(scene, i, TARGET_ID, TARGET, labels->reduce, 0, TARGET - 1, at_ns);
		scene_captured(scene, i, TARGET_ID, TARGET, labels->gather, TARGET - 1, 1, at_ns);
	}
}

/* All stop at collective `at` of their first launch; all but one have done the compute before it. */
static uint64_t
hang(struct scene *scene, const struct group_labels *labels, uint32_t at, uint64_t at_ns)
{
	uint64_t end_ns = at_ns;

	for (unsigned int i = 0; i < RANKS; i++) {
		end_ns = scene_graph(scene, i, TARGET_ID, labels->reduce, at, at_ns, 60 * US, 40 * US);
		if (i != LATE_RANK)
			scene_put(scene, i,
				(struct cs_record){.type = CS_RECORD_BUSY,
					.flags = CS_RECORD_IN_GRAPH,
					.start_ns = end_ns,
					.end_ns = end_ns + 60 * US,
					.correlation_id = scene->ranks[i].correlation_id,
					.graph_id = TARGET_ID,
					.stream_id = 7});
	}
	return end_ns;
}

static void
test_hang_in_the_first_launch(void **state)
{
	static const uint32_t at[] = {HANGS_AT, TARGET - 1};

	(void)state;
	for (size_t k = 0; k < sizeof(at) / sizeof(at[0]); k++) {
		struct scene scene;
		struct seen seen;
		struct group_labels labels;
		uint64_t end_ns;

		open_group(&scene, &labels);
		capture_target(&scene, &labels, 0);
		end_ns = hang(&scene, &labels, at[k], 5 * MS);
		scene_advance(&scene, end_ns + 9000 * MS);
		assert_int_equal(list(&scene, end_ns + 9000 * MS, &seen), 0);
		scene_advance(&scene, end_ns + 10100 * MS);
		assert_int_equal(list(&scene, end_ns + 10100 * MS, &seen), RANKS);
		for (unsigned int i = 0; i < RANKS; i++) {
			assert_int_equal(seen.stalls[i].ordinal, at[k]);
			assert_int_equal(seen.stalls[i].last_ordinal, at[k] - 1);
			assert_int_equal(
				seen.stalls[i].label_id, at[k] == TARGET - 1 ? labels.gather : labels.reduce);
			assert_int_equal(seen.bytes[i], at[k] == TARGET - 1 ? 4096 : VERIFY_BYTES);
			/* Of a run only the first node was said. */
			assert_int_equal(seen.stalls[i].graph_node_id,
				at[k] == TARGET - 1 ? (uint64_t)TARGET_ID << 32 | TARGET : 0);
			assert_int_equal(seen.stalls[i].step, 1);
			assert_int_equal(seen.stalls[i].behind, i == LATE_RANK);
		}
		scene_close(&scene);
	}
}

/* Nothing but the capture says that there is more to come: no other rank, no work after the last collective.
 */
static void
test_hang_alone(void **state)
{
	(void)state;
	for (unsigned int said = 0; said < 2; said++) {
		struct scene scene;
		struct seen seen;
		struct labels labels;
		uint64_t end_ns;

		open_scene(&scene, &labels);
		if (said)
			scene_captured(&scene, 0, TARGET_ID, TARGET, labels.verify[0], 0, TARGET, 0);
		end_ns = scene_graph(
			&scene, 0, TARGET_ID, labels.verify[0], HANGS_AT, 5 * MS, 60 * US, 40 * US);
		scene_advance(&scene, end_ns + 10100 * MS);
		assert_int_equal(list(&scene, end_ns + 10100 * MS, &seen), said);
		assert_int_equal(seen.stalls[0].ordinal, said ? HANGS_AT : 0);
		scene_close(&scene);
	}
}

/* Not one collective has ever ended. */
static void
test_hang_before_the_very_first_collective(void **state)
{
	(void)state;
	for (unsigned int said = 0; said < 2; said++) {
		struct scene scene;
		struct seen seen;
		struct group_labels labels;

		open_group(&scene, &labels);
		if (said)
			capture_target(&scene, &labels, 0);
		for (unsigned int i = 0; i < RANKS; i++)
			scene_put(&scene, i,
				(struct cs_record){.type = CS_RECORD_BUSY,
					.flags = CS_RECORD_IN_GRAPH,
					.start_ns = 5 * MS,
					.end_ns = 5 * MS + 60 * US,
					.correlation_id = 9,
					.graph_id = TARGET_ID,
					.stream_id = 7});
		scene_advance(&scene, 15100 * MS);
		assert_int_equal(list(&scene, 15100 * MS, &seen), said ? RANKS : 0);
		for (unsigned int i = 0; i < seen.count; i++) {
			assert_int_equal(seen.stalls[i].ordinal, 0);
			assert_int_equal(seen.stalls[i].label_id, labels.reduce);
			assert_int_equal(seen.stalls[i].graph_node_id, (uint64_t)TARGET_ID << 32 | 1);
			assert_int_equal(seen.stalls[i].last_end_ns, 0);
		}
		scene_close(&scene);
	}
}

/* Capture and launch do not agree: a whole launch had fewer (a conditional part), then the server rests. */
static void
test_launches_go_before_captures(void **state)
{
	(void)state;
	for (unsigned int late = 0; late < 2; late++) {
		struct scene scene;
		struct seen seen;
		struct group_labels labels;
		uint64_t at_ns = 5 * MS;

		open_group(&scene, &labels);
		if (!late)
			capture_target(&scene, &labels, 0);
		for (unsigned int k = 0; k < 3; k++) {
			uint64_t end_ns = 0;

			for (unsigned int i = 0; i < RANKS; i++)
				end_ns = scene_graph(&scene, i, TARGET_ID, labels.reduce, HANGS_AT, at_ns,
					60 * US, 40 * US);
			at_ns = end_ns + MS;
		}
		scene_advance(&scene, at_ns + 3000 * MS);
		if (late)
			capture_target(&scene, &labels, at_ns + 3000 * MS);
		scene_advance(&scene, at_ns + 12000 * MS);
		assert_int_equal(list(&scene, at_ns + 12000 * MS, &seen), 0);
		scene_close(&scene);
	}
}

/* An order of nodes that is not that of the launch: the collective before does not agree, so nothing is
 * named. */
static void
test_other_order(void **state)
{
	struct scene scene;
	struct seen seen;
	struct group_labels labels;
	uint64_t end_ns;

	(void)state;
	open_group(&scene, &labels);
	for (unsigned int i = 0; i < RANKS; i++) {
		scene_captured(&scene, i, TARGET_ID, TARGET, labels.gather, 0, 60, 0);
		scene_captured(&scene, i, TARGET_ID, TARGET, labels.reduce, 60, TARGET - 60, 0);
	}
	end_ns = hang(&scene, &labels, HANGS_AT, 5 * MS);
	scene_advance(&scene, end_ns + 10100 * MS);
	assert_int_equal(list(&scene, end_ns + 10100 * MS, &seen), RANKS);
	assert_int_equal(seen.stalls[0].ordinal, HANGS_AT);
	assert_int_equal(seen.stalls[0].label_id, 0);
	scene_close(&scene);
}

/* What was said is withdrawn, or changed by an update. */
static void
test_withdrawn_and_changed(void **state)
{
	(void)state;
	for (unsigned int which = 0; which < 3; which++) {
		struct scene scene;
		struct seen seen;
		struct group_labels labels;
		uint64_t end_ns;

		open_group(&scene, &labels);
		capture_target(&scene, &labels, 0);
		for (unsigned int i = 0; i < RANKS; i++)
			scene_captured(&scene, i, TARGET_ID,
				which == 0   ? CS_GRAPH_UNKNOWN
				: which == 1 ? 0
					     : HANGS_AT,
				which == 2 ? labels.reduce : 0, 0, which == 2 ? HANGS_AT : 0, 1 * MS);
		end_ns = scene_graph(&scene, 0, TARGET_ID, labels.reduce, HANGS_AT, 5 * MS, 60 * US, 40 * US);
		for (unsigned int i = 1; i < RANKS; i++)
			scene_graph(&scene, i, TARGET_ID, labels.reduce, HANGS_AT, 5 * MS, 60 * US, 40 * US);
		scene_advance(&scene, end_ns + 10100 * MS);
		assert_int_equal(list(&scene, end_ns + 10100 * MS, &seen), 0);
		assert_int_equal(scene.step_count, RANKS);
		scene_close(&scene);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_steps),
		cmocka_unit_test(test_first_step_is_a_large_draft),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_pieces_are_no_drafts),
		cmocka_unit_test(test_unused_drafts),
		cmocka_unit_test(test_contradicted),
		cmocka_unit_test(test_first_launch_is_cut),
		cmocka_unit_test(test_hang_in_the_first_launch),
		cmocka_unit_test(test_hang_alone),
		cmocka_unit_test(test_hang_before_the_very_first_collective),
		cmocka_unit_test(test_launches_go_before_captures),
		cmocka_unit_test(test_other_order),
		cmocka_unit_test(test_withdrawn_and_changed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
