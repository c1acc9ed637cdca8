/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes that the servers' steps have on a GPU, each with exact truth. Model: 40 layers, 81 all-reduces a
 * pass. */
#include "scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TARGET    81U
#define TARGET_ID 22U
#define DRAFT_ID  21U
#define EXTEND_ID 23U
/* Tokens x hidden x 2 bytes: 4 and 1 tokens of 7168. */
#define VERIFY_BYTES (4U * 7168U * 2U)
#define DRAFT_BYTES  (7168U * 2U)
#define ROUNDS       10U

struct labels {
	uint32_t verify, draft, gather, prefill;
};

static void
open_scene(struct scene *scene, struct labels *labels)
{
	scene_open(scene, 1, NULL);
	labels->verify = scene_label(scene, 0, CS_OP_ALL_REDUCE, VERIFY_BYTES, 1, 0);
	labels->draft = scene_label(scene, 0, CS_OP_ALL_REDUCE, DRAFT_BYTES, 1, 0);
	labels->gather = scene_label(scene, 0, CS_OP_ALL_GATHER, 151936 * 2 * 4, 1, 0);
	labels->prefill = scene_label(scene, 0, CS_OP_ALL_REDUCE, 2048U * 7168U * 2U, 1, 0);
}

static void
expect_step(const struct scene *scene, size_t at, enum cs_phase phase, enum cs_phase_rule rule,
	uint32_t collectives)
{
	assert_true(at < scene->step_count);
	assert_string_equal(cs_phase_name(scene->steps[at].phase), cs_phase_name(phase));
	assert_string_equal(cs_phase_rule_name(scene->steps[at].phase_rule), cs_phase_rule_name(rule));
	assert_int_equal(scene->steps[at].collectives, collectives);
	assert_true(scene->steps[at].complete);
}

/* SGLang: draft graph -> build_tree -> verify graph (logits inside) -> verify kernel -> draft-extend graph.
 */
static void
test_sglang(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns = 0;

	(void)state;
	open_scene(&scene, &labels);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		at_ns = scene_graph(&scene, 0, DRAFT_ID, labels.draft, 9, at_ns, 10 * US, 12 * US);
		scene_marker(&scene, 0, "build_tree_efficient", at_ns + 5 * US);
		at_ns = scene_graph(
			&scene, 0, TARGET_ID, labels.verify, TARGET, at_ns + 20 * US, 30 * US, 15 * US);
		scene_marker(&scene, 0, "verify_tree_greedy_kernel_triton", at_ns + 5 * US);
		at_ns = scene_graph(
				&scene, 0, EXTEND_ID, labels.verify, 3, at_ns + 20 * US, 10 * US, 15 * US) +
			30 * US;
	}
	scene_play(&scene);
	assert_int_equal(scene.step_count, 3 * ROUNDS);
	for (size_t i = 0; i < scene.step_count; i += 3) {
		expect_step(&scene, i, CS_PHASE_DRAFT, CS_PHASE_RULE_MARKER, 9);
		expect_step(&scene, i + 1, CS_PHASE_VERIFY, CS_PHASE_RULE_MARKER, TARGET);
		expect_step(&scene, i + 2, CS_PHASE_DRAFT_EXTEND, CS_PHASE_RULE_MARKER, 3);
		assert_int_equal(scene.steps[i + 1].end_ns - scene.steps[i + 1].start_ns, TARGET * 45 * US);
		/* The marker behind a step knows it better than the one before. */
		assert_int_equal(scene.steps[i].phase_name, scene_name(&scene, 0, "build_tree_efficient"));
		assert_int_equal(scene.steps[i + 1].phase_name,
			scene_name(&scene, 0, "verify_tree_greedy_kernel_triton"));
		assert_int_equal(scene.steps[i + 2].phase_name, scene.steps[i + 1].phase_name);
	}
	scene_close(&scene);
}

/* The same without a marker that anybody knows: the graphs' own signature, once it was seen a few times. */
static void
test_signature(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns = 0;

	(void)state;
	open_scene(&scene, &labels);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		at_ns = scene_graph(&scene, 0, DRAFT_ID, labels.draft, 9, at_ns, 10 * US, 12 * US) + 300 * US;
		at_ns = scene_graph(&scene, 0, TARGET_ID, labels.verify, TARGET, at_ns, 30 * US, 15 * US) +
			300 * US;
		at_ns = scene_graph(&scene, 0, EXTEND_ID, labels.verify, 3, at_ns, 10 * US, 15 * US) +
			300 * US;
	}
	scene_play(&scene);
	assert_int_equal(scene.step_count, 3 * ROUNDS);
	expect_step(&scene, 0, CS_PHASE_UNKNOWN, CS_PHASE_RULE_NONE, 9);
	for (size_t i = 12; i < scene.step_count; i += 3) {
		expect_step(&scene, i, CS_PHASE_DRAFT, CS_PHASE_RULE_SIGNATURE, 9);
		expect_step(&scene, i + 1, CS_PHASE_VERIFY, CS_PHASE_RULE_SIGNATURE, TARGET);
		expect_step(&scene, i + 2, CS_PHASE_DRAFT_EXTEND, CS_PHASE_RULE_SIGNATURE, 3);
	}
	scene_close(&scene);
}

/* Draft passes with markers around them, then a window that begins with one of them. */
static void
play_edge(struct scene *scene, unsigned int rounds, bool ambiguous)
{
	struct labels labels;
	uint64_t at_ns = 1 * MS;
	uint64_t gap_ns = 300 * US;

	open_scene(scene, &labels);
	for (unsigned int i = 0; i < rounds; i++) {
		at_ns = scene_graph(scene, 0, TARGET_ID, labels.verify, TARGET, at_ns, 30 * US, 15 * US);
		scene_marker(scene, 0, "verify_tree_greedy_kernel_triton", at_ns + 5 * US);
		at_ns = scene_graph(scene, 0, EXTEND_ID, labels.draft, 3, at_ns + 20 * US, 10 * US, 15 * US);
		if (ambiguous) {
			at_ns = scene_graph(
				scene, 0, EXTEND_ID, labels.draft, 3, at_ns + gap_ns, 10 * US, 15 * US);
			scene_marker(scene, 0, "build_tree_efficient", at_ns + 5 * US);
		}
		at_ns += gap_ns;
	}
	scene_window(scene, 0, CS_DEPTH_DEEP, 0, at_ns);
	at_ns += 50 * MS;
	scene_window(scene, 0, CS_DEPTH_DEEP, at_ns, at_ns + 20 * MS);
	at_ns = scene_graph(scene, 0, EXTEND_ID, labels.draft, 3, at_ns + MS, 10 * US, 15 * US);
	at_ns = scene_graph(scene, 0, TARGET_ID, labels.verify, TARGET, at_ns + gap_ns, 30 * US, 15 * US);
	scene_marker(scene, 0, "verify_tree_greedy_kernel_triton", at_ns + 5 * US);
	scene_play(scene);
}

/* An extend over the accepted tokens alone: fewer than the target verified, more than a draft takes. Nothing
 * tells which it is. */
static void
test_between_draft_and_extend(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns = 0;
	uint32_t accepted;

	(void)state;
	open_scene(&scene, &labels);
	accepted = scene_label(&scene, 0, CS_OP_ALL_REDUCE,
		scene.ranks[0].dictionary.labels[labels.verify].bytes / 3 * 2, 1, 0);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		at_ns = scene_graph(&scene, 0, TARGET_ID, labels.verify, TARGET, at_ns, 30 * US, 15 * US) +
			300 * US;
		at_ns = scene_graph(&scene, 0, EXTEND_ID, accepted, 3, at_ns, 10 * US, 15 * US) + 300 * US;
	}
	scene_play(&scene);
	for (size_t i = 12; i < scene.step_count; i += 2) {
		expect_step(&scene, i, CS_PHASE_VERIFY, CS_PHASE_RULE_SIGNATURE, TARGET);
		expect_step(&scene, i + 1, CS_PHASE_UNKNOWN, CS_PHASE_RULE_NONE, 3);
	}
	scene_close(&scene);
}

/* By its signature the first step of the second window would be a draft: its messages are small. */
static void
test_window_begins_after_the_marker(void **state)
{
	struct scene scene;

	(void)state;
	play_edge(&scene, ROUNDS, false);
	assert_int_equal(scene.step_count, 2 * ROUNDS + 2);
	expect_step(&scene, 2 * ROUNDS - 1, CS_PHASE_DRAFT_EXTEND, CS_PHASE_RULE_MARKER, 3);
	expect_step(&scene, 2 * ROUNDS, CS_PHASE_DRAFT_EXTEND, CS_PHASE_RULE_MARKER, 3);
	scene_close(&scene);
}

/* A graph that serves two phases says nothing by itself. */
static void
test_graph_of_two_phases(void **state)
{
	struct scene scene;

	(void)state;
	play_edge(&scene, ROUNDS, true);
	assert_int_equal(scene.step_count, 3 * ROUNDS + 2);
	expect_step(&scene, 1, CS_PHASE_DRAFT_EXTEND, CS_PHASE_RULE_MARKER, 3);
	expect_step(&scene, 2, CS_PHASE_DRAFT, CS_PHASE_RULE_MARKER, 3);
	expect_step(&scene, 3 * ROUNDS, CS_PHASE_DRAFT, CS_PHASE_RULE_SIGNATURE, 3);
	scene_close(&scene);
}

/* A warm-up that runs many passes in one graph is not the measure for ever. */
static void
test_odd_warm_up(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns = 0;

	(void)state;
	open_scene(&scene, &labels);
	at_ns = scene_graph(&scene, 0, 99, labels.verify, 10 * TARGET, at_ns, 30 * US, 15 * US) + MS;
	for (unsigned int i = 0; i < 60; i++) {
		at_ns = scene_graph(&scene, 0, DRAFT_ID, labels.draft, 9, at_ns, 10 * US, 12 * US) + 300 * US;
		at_ns = scene_graph(&scene, 0, TARGET_ID, labels.verify, TARGET, at_ns, 30 * US, 15 * US) +
			300 * US;
	}
	scene_play(&scene);
	expect_step(&scene, 119, CS_PHASE_DRAFT, CS_PHASE_RULE_SIGNATURE, 9);
	expect_step(&scene, 120, CS_PHASE_VERIFY, CS_PHASE_RULE_SIGNATURE, TARGET);
	scene_close(&scene);
}

/* Drafts are turned off: verify becomes decode, after a while. */
static void
test_drafts_end(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns = 0;

	(void)state;
	open_scene(&scene, &labels);
	for (unsigned int i = 0; i < 12000; i++) {
		if (i < 1000)
			at_ns = scene_graph(&scene, 0, DRAFT_ID, labels.draft, 3, at_ns, 0, 12 * US) +
				300 * US;
		at_ns = scene_graph(&scene, 0, TARGET_ID, labels.verify, 12, at_ns, 0, 15 * US) + 300 * US;
	}
	scene_play(&scene);
	assert_int_equal(scene.steps[1999].phase, CS_PHASE_VERIFY);
	expect_step(&scene, 12999, CS_PHASE_DECODE, CS_PHASE_RULE_SIGNATURE, 12);
	scene_close(&scene);
}

/* No drafts: decode. And an eager pass with much larger messages: prefill. */
static void
test_decode_and_prefill(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns = 0;

	(void)state;
	open_scene(&scene, &labels);
	for (unsigned int i = 0; i < ROUNDS; i++)
		at_ns = scene_graph(&scene, 0, TARGET_ID, labels.draft, TARGET, at_ns, 30 * US, 15 * US) +
			300 * US;
	at_ns = scene_eager(&scene, 0, labels.prefill, TARGET, at_ns + MS, 300 * US, 100 * US);
	scene_play(&scene);
	assert_int_equal(scene.step_count, ROUNDS + 1);
	expect_step(&scene, ROUNDS - 1, CS_PHASE_DECODE, CS_PHASE_RULE_SIGNATURE, TARGET);
	expect_step(&scene, ROUNDS, CS_PHASE_PREFILL, CS_PHASE_RULE_SIGNATURE, TARGET);
	assert_int_equal(scene.steps[ROUNDS].graph_id, 0);
	assert_int_equal(scene.steps[ROUNDS].launches, 0);
	scene_close(&scene);
}

/* vLLM V1's drafter: passes of two pieces each with eager attention between, the first one over the target's
 * tokens, marker kernels before each and none after the last. */
static uint64_t
put_v1_drafter(struct scene *scene, const struct labels *labels, unsigned int passes, uint64_t at_ns)
{
	for (unsigned int pass = 0; pass < passes; pass++) {
		uint32_t graph = pass ? 33 : 31;
		uint32_t label = pass ? labels->draft : labels->verify;

		if (pass)
			scene_marker(scene, 0, "eagle_step_slot_mapping_metadata_kernel", at_ns - 10 * US);
		at_ns = scene_graph(scene, 0, graph, label, 1, at_ns, 10 * US, 12 * US);
		scene_busy(scene, 0, CS_BUSY_COMPUTE, 0, 7, at_ns + 5 * US, at_ns + 25 * US);
		at_ns = scene_graph(scene, 0, graph + 1, label, 2, at_ns + 30 * US, 10 * US, 12 * US) +
			20 * US;
	}
	return at_ns;
}

/* vLLM V1: the target in one graph, its logits' gather eager behind it, rejection, then the drafter. The next
 * target follows at once (asynchronous scheduling) or after a pause. */
static void
test_vllm_v1(void **state)
{
	(void)state;
	for (unsigned int variant = 0; variant < 6; variant++) {
		unsigned int passes = variant / 2 + 1;
		struct scene scene;
		struct labels labels;
		uint64_t at_ns = 0;

		open_scene(&scene, &labels);
		for (unsigned int i = 0; i < ROUNDS; i++) {
			at_ns = scene_graph(
				&scene, 0, TARGET_ID, labels.verify, TARGET, at_ns, 30 * US, 15 * US);
			at_ns = scene_eager(&scene, 0, labels.gather, 1, at_ns + 5 * US, 8 * US, 20 * US);
			scene_marker(&scene, 0, "rejection_greedy_sample_kernel", at_ns + 2 * US);
			scene_marker(&scene, 0, "eagle_prepare_inputs_padded_kernel", at_ns + 8 * US);
			at_ns = put_v1_drafter(&scene, &labels, passes, at_ns + 20 * US);
			at_ns += variant % 2 ? 300 * US : 0;
		}
		scene_play(&scene);
		assert_int_equal(scene.step_count, (passes + 1) * ROUNDS);
		for (size_t i = 0; i < scene.step_count; i += passes + 1) {
			expect_step(&scene, i, CS_PHASE_VERIFY, CS_PHASE_RULE_MARKER, TARGET + 1);
			assert_int_equal(
				scene.steps[i].launch_end_ns - scene.steps[i].start_ns, TARGET * 45 * US);
			assert_int_equal(scene.steps[i].end_ns - scene.steps[i].launch_end_ns, 33 * US);
			for (size_t k = 1; k <= passes; k++) {
				expect_step(&scene, i + k, k == 1 ? CS_PHASE_DRAFT_EXTEND : CS_PHASE_DRAFT,
					CS_PHASE_RULE_MARKER, 3);
				assert_int_equal(scene.steps[i + k].launches, 2);
			}
		}
		scene_close(&scene);
	}
}

/* Two small graphs behind one marker that are two passes: SGLang's draft-extend and a draft of a single pass,
 * with nothing between them but the marker that ends the draft. */
static void
test_two_small_passes(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns = 0;

	(void)state;
	open_scene(&scene, &labels);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		at_ns = scene_graph(&scene, 0, DRAFT_ID, labels.draft, 3, at_ns, 10 * US, 12 * US);
		scene_marker(&scene, 0, "build_tree_efficient", at_ns + 5 * US);
		at_ns = scene_graph(
			&scene, 0, TARGET_ID, labels.verify, TARGET, at_ns + 20 * US, 30 * US, 15 * US);
		scene_marker(&scene, 0, "verify_tree_greedy_kernel_triton", at_ns + 5 * US);
		at_ns = scene_graph(
				&scene, 0, EXTEND_ID, labels.verify, 3, at_ns + 20 * US, 10 * US, 15 * US) +
			30 * US;
	}
	/* The marker behind the last draft is missing: two passes all the same. */
	scene_graph(&scene, 0, DRAFT_ID, labels.draft, 3, at_ns, 10 * US, 12 * US);
	scene_play(&scene);
	assert_int_equal(scene.step_count, 3 * ROUNDS + 1);
	for (size_t i = 0; i + 1 < scene.step_count; i += 3) {
		expect_step(&scene, i, CS_PHASE_DRAFT, CS_PHASE_RULE_MARKER, 3);
		expect_step(&scene, i + 1, CS_PHASE_VERIFY, CS_PHASE_RULE_MARKER, TARGET);
		expect_step(&scene, i + 2, CS_PHASE_DRAFT_EXTEND, CS_PHASE_RULE_MARKER, 3);
	}
	scene_close(&scene);
}

/* vLLM V2: target graph, rejection, draft prefill graph, then one fused graph of the other passes with
 * markers inside. */
static void
test_vllm_v2(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns = 0;

	(void)state;
	open_scene(&scene, &labels);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct cs_record inner = {
			.type = CS_RECORD_MARKER, .flags = CS_RECORD_IN_GRAPH, .stream_id = 7};

		at_ns = scene_graph(&scene, 0, TARGET_ID, labels.verify, TARGET, at_ns, 30 * US, 15 * US);
		scene_marker(&scene, 0, "_gumbel_sample_kernel", at_ns + 1 * US);
		scene_marker(&scene, 0, "_rejection_kernel", at_ns + 5 * US);
		scene_marker(&scene, 0, "_prepare_prefill_inputs_kernel", at_ns + 9 * US);
		at_ns = scene_graph(
			&scene, 0, EXTEND_ID, labels.verify, 3, at_ns + 15 * US, 10 * US, 15 * US);
		scene_marker(&scene, 0, "_prepare_decode_inputs_kernel", at_ns + 2 * US);
		at_ns += 10 * US;
		inner.ref = scene_name(&scene, 0, "_update_draft_inputs_kernel");
		inner.start_ns = at_ns + 66 * US;
		inner.end_ns = at_ns + 67 * US;
		inner.graph_id = DRAFT_ID;
		at_ns = scene_graph(&scene, 0, DRAFT_ID, labels.draft, 6, at_ns, 10 * US, 12 * US);
		inner.correlation_id = scene.ranks[0].correlation_id;
		scene_put(&scene, 0, inner);
		scene_marker(&scene, 0, "_prepare_pos_seq_lens_kernel", at_ns + 5 * US);
		at_ns += 30 * US;
	}
	scene_play(&scene);
	assert_int_equal(scene.step_count, 3 * ROUNDS);
	for (size_t i = 0; i < scene.step_count; i += 3) {
		expect_step(&scene, i, CS_PHASE_VERIFY, CS_PHASE_RULE_MARKER, TARGET);
		if (i >= 12)
			expect_step(&scene, i + 1, CS_PHASE_DRAFT_EXTEND, CS_PHASE_RULE_SIGNATURE, 3);
		expect_step(&scene, i + 2, CS_PHASE_DRAFT, CS_PHASE_RULE_MARKER, 6);
	}
	scene_close(&scene);
}

/* vLLM V2 without the fused graph: each draft pass is a launch of the same graph, with a marker after each.
 */
static void
test_vllm_v2_graph_per_pass(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns = 0;

	(void)state;
	open_scene(&scene, &labels);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		scene_marker(&scene, 0, "_prepare_pos_seq_lens_kernel", at_ns);
		at_ns = scene_graph(
			&scene, 0, TARGET_ID, labels.verify, TARGET, at_ns + 10 * US, 30 * US, 15 * US);
		scene_marker(&scene, 0, "_rejection_kernel", at_ns + 5 * US);
		scene_marker(&scene, 0, "_prepare_prefill_inputs_kernel", at_ns + 9 * US);
		at_ns = scene_graph(
			&scene, 0, EXTEND_ID, labels.verify, 3, at_ns + 15 * US, 10 * US, 15 * US);
		scene_marker(&scene, 0, "_prepare_decode_inputs_kernel", at_ns + 2 * US);
		for (unsigned int pass = 0; pass < 3; pass++) {
			at_ns = scene_graph(
				&scene, 0, DRAFT_ID, labels.draft, 3, at_ns + 10 * US, 10 * US, 12 * US);
			scene_marker(&scene, 0, "_update_draft_inputs_kernel", at_ns + 2 * US);
		}
		at_ns += 50 * US;
	}
	scene_play(&scene);
	assert_int_equal(scene.step_count, 5 * ROUNDS);
	for (size_t i = 0; i < scene.step_count; i += 5) {
		expect_step(&scene, i, CS_PHASE_VERIFY, CS_PHASE_RULE_MARKER, TARGET);
		if (i >= 10)
			expect_step(&scene, i + 1, CS_PHASE_DRAFT_EXTEND, CS_PHASE_RULE_SIGNATURE, 3);
		for (size_t k = 2; k < 5; k++) {
			expect_step(&scene, i + k, CS_PHASE_DRAFT, CS_PHASE_RULE_MARKER, 3);
			assert_int_equal(scene.steps[i + k].launches, 1);
		}
	}
	scene_close(&scene);
}

/* One collective of a graph. */
static uint64_t
put_item(struct scene *scene, uint32_t graph, uint32_t label, uint64_t at_ns)
{
	scene_put(scene, 0,
		(struct cs_record){.type = CS_RECORD_COLLECTIVE,
			.flags = CS_RECORD_IN_GRAPH,
			.ref = label,
			.start_ns = at_ns + 30 * US,
			.end_ns = at_ns + 45 * US,
			.correlation_id = scene->ranks[0].correlation_id,
			.graph_id = graph,
			.stream_id = 7});
	return at_ns + 45 * US;
}

/* SGLang gathers the logits inside the verify graph, and inside each pass of the draft graph: a gather does
 * not cut a graph of one pass in two, nor one whose passes are alike. */
static void
test_sglang_gathers(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns = 0;

	(void)state;
	open_scene(&scene, &labels);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		scene.ranks[0].correlation_id++;
		for (unsigned int k = 0; k < 12; k++)
			at_ns = put_item(&scene, DRAFT_ID, k % 4 == 3 ? labels.gather : labels.draft, at_ns);
		scene_marker(&scene, 0, "build_tree_efficient", at_ns + 5 * US);
		at_ns += 20 * US;
		scene.ranks[0].correlation_id++;
		for (unsigned int k = 0; k <= TARGET; k++)
			at_ns = put_item(
				&scene, TARGET_ID, k == TARGET ? labels.gather : labels.verify, at_ns);
		scene_marker(&scene, 0, "verify_tree_greedy_kernel_triton", at_ns + 5 * US);
		at_ns += 20 * US;
		scene.ranks[0].correlation_id++;
		for (unsigned int k = 0; k < 4; k++)
			at_ns = put_item(&scene, EXTEND_ID, k == 3 ? labels.gather : labels.verify, at_ns);
		at_ns += 30 * US;
	}
	scene_play(&scene);
	assert_int_equal(scene.step_count, 3 * ROUNDS);
	for (size_t i = 0; i < scene.step_count; i += 3) {
		expect_step(&scene, i, CS_PHASE_DRAFT, CS_PHASE_RULE_MARKER, 12);
		expect_step(&scene, i + 1, CS_PHASE_VERIFY, CS_PHASE_RULE_MARKER, TARGET + 1);
		expect_step(&scene, i + 2, CS_PHASE_DRAFT_EXTEND, CS_PHASE_RULE_MARKER, 4);
	}
	scene_close(&scene);
}

/* SGLang's prefill: the target's pass and the drafter's, both eager, the scheduler's turn between them. Among
 * decodes, which taught what a target is. */
static void
test_sglang_prefill(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns = 0;

	(void)state;
	open_scene(&scene, &labels);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		at_ns = scene_graph(&scene, 0, DRAFT_ID, labels.draft, 9, at_ns, 10 * US, 12 * US);
		scene_marker(&scene, 0, "build_tree_efficient", at_ns + 5 * US);
		at_ns = scene_graph(
			&scene, 0, TARGET_ID, labels.verify, TARGET, at_ns + 20 * US, 30 * US, 15 * US);
		scene_marker(&scene, 0, "verify_tree_greedy_kernel_triton", at_ns + 5 * US);
		at_ns = scene_graph(
				&scene, 0, EXTEND_ID, labels.verify, 3, at_ns + 20 * US, 10 * US, 15 * US) +
			30 * US;
	}
	/* Far enough from the draft-extend that no marker before it speaks of it. */
	at_ns = scene_eager(&scene, 0, labels.prefill, TARGET, at_ns + 30 * MS, 300 * US, 100 * US);
	at_ns = scene_eager(&scene, 0, labels.prefill, 3, at_ns + 800 * US, 300 * US, 100 * US);
	scene_play(&scene);
	assert_int_equal(scene.step_count, 3 * ROUNDS + 2);
	expect_step(&scene, 3 * ROUNDS, CS_PHASE_PREFILL, CS_PHASE_RULE_SIGNATURE, TARGET);
	/* A few eager collectives with large messages: nothing tells the drafter's prefill from others. */
	expect_step(&scene, 3 * ROUNDS + 1, CS_PHASE_UNKNOWN, CS_PHASE_RULE_NONE, 3);
	scene_close(&scene);
}

/* A prefill that runs in pieces, beside decodes in one graph: known by its larger messages. */
static void
test_prefill_in_pieces(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns = 0;

	(void)state;
	open_scene(&scene, &labels);
	for (unsigned int i = 0; i < ROUNDS; i++)
		at_ns = scene_graph(&scene, 0, TARGET_ID, labels.draft, TARGET, at_ns, 30 * US, 15 * US) +
			300 * US;
	for (unsigned int i = 0; i < 3; i++) {
		for (unsigned int piece = 0; piece < 41; piece++) {
			at_ns = scene_graph(&scene, 0, 100 + piece, labels.prefill, piece ? 2 : 1, at_ns,
				300 * US, 100 * US);
			scene_busy(&scene, 0, CS_BUSY_COMPUTE, 0, 7, at_ns + 5 * US, at_ns + 25 * US);
			at_ns += 30 * US;
		}
		at_ns += 300 * US;
	}
	scene_play(&scene);
	assert_int_equal(scene.step_count, ROUNDS + 3);
	for (size_t i = 0; i < 3; i++) {
		expect_step(&scene, ROUNDS + i, CS_PHASE_PREFILL, CS_PHASE_RULE_SIGNATURE, TARGET);
		assert_int_equal(scene.steps[ROUNDS + i].launches, 41);
	}
	scene_close(&scene);
}

/* TensorRT-LLM: target and drafts in one graph, each pass ends with its gather of logits. Split by position.
 */
static void
test_trtllm(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns = 0;

	(void)state;
	open_scene(&scene, &labels);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		for (unsigned int k = 0; k < TARGET + 1 + 3 * 4; k++) {
			bool gather = k == TARGET || (k > TARGET && (k - TARGET) % 4 == 0);
			struct cs_record record = {.type = CS_RECORD_COLLECTIVE,
				.flags = CS_RECORD_IN_GRAPH,
				.ref = gather ? labels.gather : labels.verify,
				.start_ns = at_ns + 20 * US,
				.end_ns = at_ns + 35 * US,
				.correlation_id = 100 + i,
				.graph_id = TARGET_ID,
				.stream_id = 7};

			scene_put(&scene, 0, record);
			at_ns += 35 * US;
		}
		at_ns += 300 * US;
	}
	scene_play(&scene);
	assert_int_equal(scene.step_count, 2 * ROUNDS);
	for (size_t i = 0; i < scene.step_count; i += 2) {
		expect_step(&scene, i, CS_PHASE_VERIFY, CS_PHASE_RULE_SIGNATURE, TARGET + 1);
		expect_step(&scene, i + 1, CS_PHASE_DRAFT, CS_PHASE_RULE_SIGNATURE, 12);
	}
	scene_close(&scene);
}

/* vLLM PIECEWISE: one graph per piece (layers + 1), attention eager between; the pass is one step, in deep
 * windows and, once known, in light ones. */
static void
test_piecewise(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns = 0;

	(void)state;
	open_scene(&scene, &labels);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		bool light = i >= ROUNDS / 2;

		for (unsigned int piece = 0; piece < 41; piece++) {
			uint64_t start_ns = at_ns;
			uint32_t count = piece == 0 ? 1 : 2;

			if (light)
				at_ns += count * 45 * US;
			else
				at_ns = scene_graph(&scene, 0, 100 + piece, labels.verify, count, start_ns,
					30 * US, 15 * US);
			if (light)
				scene_put(&scene, 0,
					(struct cs_record){.type = CS_RECORD_GRAPH_LAUNCH,
						.start_ns = start_ns,
						.end_ns = at_ns,
						.correlation_id = 5000 + 100 * i + piece,
						.graph_id = 100 + piece,
						.stream_id = 7});
			else
				scene_busy(&scene, 0, CS_BUSY_COMPUTE, 0, 7, at_ns + 5 * US, at_ns + 25 * US);
			at_ns += 30 * US;
		}
	}
	scene_play(&scene);
	assert_int_equal(scene.step_count, ROUNDS);
	for (size_t i = 0; i < ROUNDS; i++) {
		bool light = i >= ROUNDS / 2;

		assert_int_equal(scene.steps[i].launches, 41);
		assert_int_equal(scene.steps[i].depth, light ? CS_DEPTH_LIGHT : CS_DEPTH_DEEP);
		assert_int_equal(scene.steps[i].collectives, light ? 0 : TARGET);
		assert_int_equal(scene.steps[i].launch_end_ns - scene.steps[i].start_ns,
			TARGET * 45 * US + 40 * 30 * US);
	}
	scene_close(&scene);
}

/* Light windows: times of launches whose phase a deep window has taught. */
static void
test_light(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t at_ns = 0;

	(void)state;
	open_scene(&scene, &labels);
	for (unsigned int i = 0; i < ROUNDS; i++)
		at_ns = scene_graph(&scene, 0, TARGET_ID, labels.verify, TARGET, at_ns, 30 * US, 15 * US) +
			300 * US;
	for (uint32_t graph = TARGET_ID; graph < TARGET_ID + 2; graph++) {
		scene_put(&scene, 0,
			(struct cs_record){.type = CS_RECORD_GRAPH_LAUNCH,
				.start_ns = at_ns,
				.end_ns = at_ns + 3 * MS,
				.correlation_id = 900 + graph,
				.graph_id = graph,
				.stream_id = 7});
		at_ns += 4 * MS;
	}
	scene_play(&scene);
	assert_int_equal(scene.step_count, ROUNDS + 2);
	assert_int_equal(scene.steps[ROUNDS].depth, CS_DEPTH_LIGHT);
	expect_step(&scene, ROUNDS, CS_PHASE_DECODE, CS_PHASE_RULE_SIGNATURE, 0);
	assert_int_equal(scene.steps[ROUNDS].end_ns - scene.steps[ROUNDS].start_ns, 3 * MS);
	/* Nobody has seen the inside of that graph. */
	expect_step(&scene, ROUNDS + 1, CS_PHASE_UNKNOWN, CS_PHASE_RULE_NONE, 0);
	scene_close(&scene);
}

/* A range that says it in so many words, found through the launch call's thread and time, wins over markers.
 */
static void
test_nvtx(void **state)
{
	struct scene scene;
	struct labels labels;
	uint64_t end_ns;

	(void)state;
	open_scene(&scene, &labels);
	end_ns = scene_graph(&scene, 0, TARGET_ID, labels.verify, TARGET, 5 * MS, 30 * US, 15 * US);
	scene_marker(&scene, 0, "build_tree_efficient", end_ns + 5 * US);
	scene_put(&scene, 0,
		(struct cs_record){.type = CS_RECORD_HOST_LAUNCH,
			.start_ns = 1 * MS,
			.end_ns = 1 * MS + 10 * US,
			.value = 77,
			.correlation_id = scene.ranks[0].correlation_id});
	/* Around the launch call on another thread; around the GPU's work on the right one; around the call:
	 * only that. */
	scene_put(&scene, 0,
		(struct cs_record){.type = CS_RECORD_MARK,
			.ref = scene_name(&scene, 0, "prefill"),
			.end_ns = 2 * MS,
			.value = 78});
	scene_put(&scene, 0,
		(struct cs_record){.type = CS_RECORD_MARK,
			.ref = scene_name(&scene, 0, "draft"),
			.start_ns = 4 * MS,
			.end_ns = 20 * MS,
			.value = 77});
	scene_put(&scene, 0,
		(struct cs_record){.type = CS_RECORD_MARK,
			.ref = scene_name(&scene, 0, "verify"),
			.end_ns = 2 * MS,
			.value = 77});
	scene_play(&scene);
	assert_int_equal(scene.other_count, 4);
	expect_step(&scene, 0, CS_PHASE_VERIFY, CS_PHASE_RULE_NVTX, TARGET);
	assert_int_equal(scene.steps[0].phase_name, scene_name(&scene, 0, "verify"));
	scene_close(&scene);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sglang),
		cmocka_unit_test(test_signature),
		cmocka_unit_test(test_between_draft_and_extend),
		cmocka_unit_test(test_window_begins_after_the_marker),
		cmocka_unit_test(test_graph_of_two_phases),
		cmocka_unit_test(test_odd_warm_up),
		cmocka_unit_test(test_drafts_end),
		cmocka_unit_test(test_decode_and_prefill),
		cmocka_unit_test(test_vllm_v1),
		cmocka_unit_test(test_two_small_passes),
		cmocka_unit_test(test_vllm_v2),
		cmocka_unit_test(test_vllm_v2_graph_per_pass),
		cmocka_unit_test(test_sglang_gathers),
		cmocka_unit_test(test_sglang_prefill),
		cmocka_unit_test(test_prefill_in_pieces),
		cmocka_unit_test(test_trtllm),
		cmocka_unit_test(test_piecewise),
		cmocka_unit_test(test_light),
		cmocka_unit_test(test_nvtx),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
