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
	struct cs_analysis_counts counts;
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
		assert_int_equal(seen.stalls[i].step, 6);
		assert_int_equal(seen.stalls[i].ordinal, HANGS_AT);
		assert_int_equal(seen.stalls[i].last_ordinal, HANGS_AT - 1);
		assert_int_equal(seen.stalls[i].last_end_ns, SCENE_EPOCH_NS + at_ns);
		assert_int_equal(seen.stalls[i].label_id, label);
		assert_int_equal(seen.bytes[i], 114688);
		assert_int_equal(seen.stalls[i].behind, i == LATE_RANK);
	}
	/* Steps 1 to 5 of each rank; what was cut is none. */
	assert_int_equal(scene.step_count, 5 * RANKS);
	cs_analysis_read_counts(scene.analysis, &counts);
	assert_int_equal(counts.steps, 5 * RANKS);
	assert_int_equal(counts.incomplete_steps, RANKS);
	scene_close(&scene);
}

/* The reader that wants cut steps too gets them with the number that the stall names. */
static void
test_number_of_a_cut_step(void **state)
{
	const struct cs_analysis_options options = {.incomplete_steps = true};
	struct scene scene;
	struct seen seen;
	uint64_t at_ns = 0;
	uint32_t label;

	(void)state;
	scene_open(&scene, 1, &options);
	label = scene_label(&scene, 0, CS_OP_ALL_REDUCE, 114688, 1, 0);
	for (unsigned int k = 0; k < 3; k++)
		at_ns = scene_graph(
				&scene, 0, 22, label, k == 2 ? HANGS_AT : TARGET, at_ns, 60 * US, 40 * US) +
			MS;
	scene_advance(&scene, at_ns + 12000 * MS);
	assert_int_equal(list(&scene, at_ns + 12000 * MS, &seen), 1);
	assert_int_equal(seen.stalls[0].step, 3);
	assert_int_equal(scene.step_count, 3);
	assert_int_equal(scene.steps[2].step, 3);
	assert_int_equal(scene.steps[2].collectives, HANGS_AT);
	assert_false(scene.steps[2].complete);
	assert_true(scene.steps[1].complete);
	scene_close(&scene);
}

/* The graph has fewer collectives from some launch on (its executable was updated, or a conditional node
 * skips some), then the server idles. */
static void
test_fewer_collectives_and_idle(void **state)
{
	(void)state;
	for (unsigned int variant = 0; variant < 2; variant++) {
		struct cs_analysis_counts counts;
		struct scene scene;
		struct seen seen;
		uint32_t label = open_scene(&scene);
		uint64_t at_ns = 0;

		for (unsigned int k = 0; k < 8; k++) {
			uint64_t end_ns = 0;
			/* The second graph has had two numbers already when it comes to rest after one launch
			 * of the lesser. */
			bool fewer = variant ? k % 2 == 1 : k >= 4;

			for (unsigned int i = 0; i < RANKS; i++)
				end_ns = scene_graph(
					&scene, i, 22, label, fewer ? 100 : TARGET, at_ns, 60 * US, 40 * US);
			at_ns = end_ns + MS;
		}
		scene_advance(&scene, at_ns + 60000 * MS);
		assert_int_equal(list(&scene, at_ns + 60000 * MS, &seen), 0);
		/* Launches after which the stream went on are whole, however many collectives they have. */
		cs_analysis_read_counts(scene.analysis, &counts);
		assert_int_equal(counts.incomplete_steps, variant ? RANKS : 0);
		scene_close(&scene);
	}
}

/* One rank of the same varying graph begins something after its last collective: that is under way. */
static void
test_varying_graph_hangs(void **state)
{
	struct scene scene;
	struct seen seen;
	uint32_t label = open_scene(&scene);
	uint64_t at_ns = 0;

	(void)state;
	for (unsigned int k = 0; k < 8; k++) {
		uint64_t end_ns = 0;

		for (unsigned int i = 0; i < RANKS; i++)
			end_ns = scene_graph(
				&scene, i, 22, label, k % 2 ? 100 : TARGET, at_ns, 60 * US, 40 * US);
		at_ns = end_ns + MS;
	}
	for (unsigned int i = 0; i < RANKS; i++)
		scene_graph(&scene, i, 22, label, TARGET, at_ns, 60 * US, 40 * US);
	at_ns = hang(&scene, label, at_ns + 20 * MS);
	scene_advance(&scene, at_ns + 12000 * MS);
	assert_int_equal(list(&scene, at_ns + 12000 * MS, &seen), RANKS);
	for (unsigned int i = 0; i < RANKS; i++) {
		assert_int_equal(seen.stalls[i].ordinal, HANGS_AT);
		assert_int_equal(seen.stalls[i].step, 10);
		assert_int_equal(seen.stalls[i].behind, i == LATE_RANK);
	}
	scene_close(&scene);
}

/* Both ranks of a pair; the label of an all-reduce and that of a gather. */
struct pair {
	uint32_t reduce, gather;
};

static void
open_pair(struct scene *scene, struct pair *pair)
{
	scene_open(scene, 2, NULL);
	for (unsigned int i = 0; i < 2; i++) {
		uint32_t communicator = scene_communicator(scene, i, 0xabc, (int32_t)i, 2);

		pair->reduce = scene_label(scene, i, CS_OP_ALL_REDUCE, 114688, 2, communicator);
		pair->gather = scene_label(scene, i, CS_OP_ALL_GATHER, 8192, 2, communicator);
	}
}

static void
put_item(struct scene *scene, unsigned int rank, uint32_t label, uint32_t graph, uint32_t ordinal,
	uint64_t at_ns)
{
	scene_put(scene, rank,
		(struct cs_record){.type = CS_RECORD_COLLECTIVE,
			.flags = CS_RECORD_IN_GRAPH,
			.ref = label,
			.start_ns = at_ns + 20 * US,
			.end_ns = at_ns + 35 * US,
			.correlation_id = scene->ranks[rank].correlation_id,
			.graph_id = graph,
			.graph_node_id = 1000 * graph + ordinal,
			.stream_id = 7});
}

/* TensorRT-LLM: a target of 81 and three drafts of 3 in one graph, each with a gather at its end. */
static uint64_t
put_trtllm(struct scene *scene, const struct pair *pair, unsigned int count, uint64_t at_ns)
{
	for (unsigned int i = 0; i < 2; i++) {
		scene->ranks[i].correlation_id++;
		for (unsigned int k = 0; k < count; k++) {
			bool gather = k == 81 || (k > 81 && (k - 81) % 4 == 0);

			put_item(scene, i, gather ? pair->gather : pair->reduce, 22, k, at_ns + k * 35 * US);
		}
	}
	return at_ns + count * 35 * US;
}

static void
expect_stalls(struct scene *scene, uint64_t now_ns, uint64_t step, uint32_t ordinal, uint32_t label)
{
	struct seen seen;

	assert_int_equal(list(scene, now_ns, &seen), 2);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(seen.stalls[i].step, step);
		assert_int_equal(seen.stalls[i].ordinal, ordinal);
		assert_int_equal(seen.stalls[i].label_id, label);
	}
}

/* It hangs in the target, at the target's gather, in a draft. */
static void
test_hang_in_one_graph_of_target_and_drafts(void **state)
{
	static const struct {
		unsigned int count;
		uint64_t step;
		bool gather;
	} hangs[] = {{57, 19, false}, {81, 19, true}, {87, 20, false}};

	(void)state;
	for (size_t h = 0; h < sizeof(hangs) / sizeof(hangs[0]); h++) {
		struct scene scene;
		struct pair pair;
		struct seen seen;
		uint64_t at_ns = 0;

		open_pair(&scene, &pair);
		for (unsigned int k = 0; k < 9; k++)
			at_ns = put_trtllm(&scene, &pair, 94, at_ns) + 300 * US;
		put_trtllm(&scene, &pair, hangs[h].count, at_ns);
		scene_advance(&scene, at_ns + 12000 * MS);
		expect_stalls(&scene, at_ns + 12000 * MS, hangs[h].step, hangs[h].count,
			hangs[h].gather ? pair.gather : pair.reduce);
		list(&scene, at_ns + 12000 * MS, &seen);
		assert_int_equal(seen.stalls[0].graph_node_id, 22000 + hangs[h].count);
		assert_int_equal(seen.stalls[0].last_node_id, 22000 + hangs[h].count - 1);
		assert_int_equal(seen.stalls[0].last_ordinal, hangs[h].count - 1);
		/* The target's step of the cut launch is whole when a draft hangs. */
		assert_int_equal(scene.step_count, 2 * (hangs[h].step - 1));
		scene_close(&scene);
	}
}

/* vLLM piecewise: 41 graphs a pass, attention between them; it hangs in the second collective of piece 20. */
static void
test_hang_in_a_piece(void **state)
{
	struct scene scene;
	struct pair pair;
	struct seen seen;
	uint64_t at_ns = 0;

	(void)state;
	open_pair(&scene, &pair);
	for (unsigned int k = 0; k < 10; k++) {
		uint64_t end_ns = 0;

		for (unsigned int i = 0; i < 2; i++) {
			end_ns = at_ns;
			for (unsigned int piece = 0; piece < (k == 9 ? 21U : 41U); piece++) {
				end_ns = scene_graph(&scene, i, 100 + piece, pair.reduce,
					k == 9 && piece == 20 ? 1 : 2, end_ns, 30 * US, 15 * US);
				scene_busy(
					&scene, i, CS_BUSY_COMPUTE, 0, 7, end_ns + 5 * US, end_ns + 25 * US);
				end_ns += 30 * US;
			}
		}
		at_ns = end_ns + 300 * US;
	}
	/* The attention after piece 20 was put above, too: it never ran. */
	for (unsigned int i = 0; i < 2; i++)
		scene.ranks[i].count--;
	scene_advance(&scene, at_ns + 12000 * MS);
	expect_stalls(&scene, at_ns + 12000 * MS, 10, 1, pair.reduce);
	list(&scene, at_ns + 12000 * MS, &seen);
	assert_int_equal(seen.stalls[0].graph_id, 120);
	assert_int_equal(scene.step_count, 18);
	scene_close(&scene);
}

/* vLLM V2's drafts, or any graph that a marker kernel cuts inside: collective 40 is the 30th behind the
 * marker. */
static void
test_hang_behind_an_inner_marker(void **state)
{
	struct scene scene;
	struct pair pair;
	uint64_t at_ns = 0;

	(void)state;
	open_pair(&scene, &pair);
	for (unsigned int k = 0; k < 6; k++) {
		for (unsigned int i = 0; i < 2; i++) {
			scene_graph(&scene, i, 22, pair.reduce, k == 5 ? 40 : 90, at_ns, 60 * US, 40 * US);
			scene_put(&scene, i,
				(struct cs_record){.type = CS_RECORD_MARKER,
					.flags = CS_RECORD_IN_GRAPH,
					.stream_id = 7,
					.graph_id = 22,
					.ref = scene_name(&scene, i, "build_tree_efficient"),
					.start_ns = at_ns + 1010 * US,
					.end_ns = at_ns + 1012 * US,
					.correlation_id = scene.ranks[i].correlation_id});
		}
		at_ns += 90 * 100 * US + MS;
	}
	scene_advance(&scene, at_ns + 12000 * MS);
	expect_stalls(&scene, at_ns + 12000 * MS, 12, 40, pair.reduce);
	assert_int_equal(scene.step_count, 2 * 11);
	scene_close(&scene);
}

/* SGLang: draft, verify and draft-extend graphs with marker kernels between; it hangs in the draft, which has
 * fewer collectives than the verify. */
static void
test_hang_in_a_draft(void **state)
{
	struct scene scene;
	struct pair pair;
	uint64_t at_ns = 0;

	(void)state;
	open_pair(&scene, &pair);
	for (unsigned int k = 0; k < 5; k++) {
		uint64_t end_ns = 0;

		for (unsigned int i = 0; i < 2; i++) {
			end_ns = scene_graph(
				&scene, i, 21, pair.reduce, k == 4 ? 7 : 9, at_ns, 10 * US, 12 * US);
			if (k == 4)
				continue;
			scene_marker(&scene, i, "build_tree_efficient", end_ns + 5 * US);
			end_ns = scene_graph(
				&scene, i, 22, pair.reduce, 81, end_ns + 20 * US, 30 * US, 15 * US);
			scene_marker(&scene, i, "verify_tree_greedy_kernel_triton", end_ns + 5 * US);
			end_ns = scene_graph(
				&scene, i, 23, pair.reduce, 3, end_ns + 20 * US, 10 * US, 15 * US);
		}
		at_ns = end_ns + 30 * US;
	}
	scene_advance(&scene, at_ns + 12000 * MS);
	expect_stalls(&scene, at_ns + 12000 * MS, 13, 7, pair.reduce);
	assert_int_equal(scene.step_count, 2 * 12);
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

/* Weights load: an all-reduce warms the communicator up, then copies for a minute, and a wait for the disk
 * that is longer than the threshold. */
static void
test_loading(void **state)
{
	struct scene scene;
	struct seen seen;
	uint32_t label = open_scene(&scene);

	(void)state;
	for (unsigned int i = 0; i < RANKS; i++)
		scene_eager(&scene, i, label, 1, 0, 20 * US, 300 * US);
	for (unsigned int second = 0; second < 60; second++) {
		for (unsigned int i = 0; i < RANKS; i++)
			scene_busy(&scene, i, CS_BUSY_COPY, CS_RECORD_COPY_FROM_HOST, 9,
				second * 1000 * MS + 10 * MS, second * 1000 * MS + 800 * MS);
		scene_advance(&scene, second * 1000 * MS + 900 * MS);
		assert_int_equal(list(&scene, second * 1000 * MS + 900 * MS, &seen), 0);
	}
	for (unsigned int second = 60; second < 90; second++) {
		scene_advance(&scene, second * 1000 * MS);
		assert_int_equal(list(&scene, second * 1000 * MS, &seen), 0);
	}
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

/* Sample mode: it stopped inside a window that went on for longer than what is under way at its end could be
 * late; told once a later window has looked again. Soon before the end of a window nothing is sure. */
static void
sample(uint64_t window_ns, size_t stalls)
{
	struct scene scene;
	struct seen seen;
	uint32_t label = open_scene(&scene);
	uint64_t at_ns = 0;

	for (unsigned int i = 0; i < RANKS; i++)
		at_ns = scene_graph(&scene, i, 22, label, TARGET, 0, 60 * US, 40 * US) + MS;
	hang(&scene, label, at_ns);
	for (unsigned int i = 0; i < RANKS; i++)
		scene_window(&scene, i, CS_DEPTH_DEEP, 0, window_ns);
	scene_advance(&scene, 15000 * MS);
	assert_int_equal(list(&scene, 15000 * MS, &seen), 0);
	for (unsigned int i = 0; i < RANKS; i++)
		scene_window(&scene, i, CS_DEPTH_DEEP, 20000 * MS, 20100 * MS);
	scene_advance(&scene, 20200 * MS);
	assert_int_equal(list(&scene, 20200 * MS, &seen), stalls);
	scene_close(&scene);
}

static void
test_sampled(void **state)
{
	(void)state;
	sample(400 * MS, RANKS);
	sample(100 * MS, 0);
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

static void
put_still(struct scene *scene, unsigned int rank, uint64_t at_ns, uint64_t percent)
{
	scene_put(scene, rank,
		(struct cs_record){.type = CS_RECORD_STILL,
			.start_ns = at_ns - 1000 * MS,
			.end_ns = at_ns,
			.value = percent});
}

/* Sample mode: it stopped while nothing was traced. Windows with nothing in them, and the GPU works in all of
 * them; where it stopped is not known. */
static void
test_stopped_between_windows(void **state)
{
	struct scene scene;
	struct seen seen;
	uint32_t label = open_scene(&scene);
	uint64_t at_ns = 0;

	(void)state;
	for (unsigned int k = 0; k < 5; k++) {
		for (unsigned int i = 0; i < RANKS; i++)
			at_ns = scene_graph(&scene, i, 22, label, TARGET, k * 15 * MS, 60 * US, 40 * US);
	}
	for (unsigned int window = 0; window < 4; window++) {
		for (unsigned int i = 0; i < RANKS; i++) {
			scene_window(&scene, i, CS_DEPTH_DEEP, window * 10000 * MS,
				window * 10000 * MS + 100 * MS);
			/* One GPU rests: its rank waits for something that no GPU does. */
			if (window)
				put_still(&scene, i, window * 10000 * MS + 1500 * MS, i == 3 ? 0 : 100);
		}
	}
	scene_advance(&scene, 12000 * MS);
	scene_advance(&scene, 40000 * MS);
	assert_int_equal(list(&scene, 40000 * MS, &seen), RANKS - 1);
	for (unsigned int i = 0; i < RANKS - 1; i++) {
		assert_int_equal(seen.stalls[i].rank, i);
		assert_int_equal(seen.stalls[i].label_id, 0);
		assert_int_equal(seen.stalls[i].step, 0);
		assert_int_equal(seen.stalls[i].since_ns, SCENE_EPOCH_NS + 11500 * MS);
		assert_int_equal(seen.stalls[i].last_end_ns, SCENE_EPOCH_NS + at_ns);
		assert_false(seen.stalls[i].behind);
	}
	/* It goes on. */
	for (unsigned int i = 0; i < RANKS; i++)
		scene_graph(&scene, i, 22, label, TARGET, 40010 * MS, 60 * US, 40 * US);
	for (unsigned int i = 0; i < RANKS; i++)
		put_still(&scene, i, 51000 * MS, 100);
	scene_advance(&scene, 55000 * MS);
	assert_int_equal(list(&scene, 55000 * MS, &seen), 0);
	scene_close(&scene);
}

static void
put_launch(struct scene *scene, unsigned int rank, uint32_t correlation_id, uint64_t at_ns)
{
	scene_put(scene, rank,
		(struct cs_record){.type = CS_RECORD_HOST_LAUNCH,
			.graph_id = 22,
			.correlation_id = correlation_id,
			.start_ns = at_ns,
			.end_ns = at_ns + 10 * US});
}

/* Sample mode: the launch that hangs was made between two windows, or in the one that is open. Of the first
 * nothing was seen wherever it stands. */
static void
test_launch_before_the_window(void **state)
{
	(void)state;
	for (unsigned int inside = 0; inside < 2; inside++) {
		uint64_t opened_ns = 5000 * MS, launched_ns = inside ? opened_ns + MS : opened_ns - 5 * MS;
		struct scene scene;
		struct seen seen;
		uint32_t label = open_scene(&scene);

		for (unsigned int i = 0; i < RANKS; i++) {
			scene_window_open(&scene, i, 0);
			scene_graph(&scene, i, 22, label, TARGET, 10 * MS, 60 * US, 40 * US);
			put_launch(&scene, i, scene.ranks[i].correlation_id, 9 * MS);
			scene_window(&scene, i, CS_DEPTH_DEEP, 0, 100 * MS);
			put_launch(&scene, i, 9000, launched_ns);
			scene_window_open(&scene, i, opened_ns);
		}
		scene_advance(&scene, 7000 * MS);
		for (unsigned int i = 0; i < RANKS; i++) {
			put_still(&scene, i, 7000 * MS, 100);
			put_still(&scene, i, 18000 * MS, 100);
		}
		scene_advance(&scene, 18500 * MS);
		assert_int_equal(list(&scene, 18500 * MS, &seen), RANKS);
		for (unsigned int i = 0; i < RANKS; i++) {
			assert_int_equal(seen.stalls[i].correlation_id, inside ? 9000 : 0);
			assert_int_equal(seen.stalls[i].step, inside ? 2 : 0);
			assert_int_equal(seen.stalls[i].label_id, inside ? label : 0);
		}
		scene_close(&scene);
	}
}

/* Windows with nothing in them on an idle server; and one whose GPU rests in one of three looks. */
static void
test_idle_between_windows(void **state)
{
	static const uint64_t percents[][3] = {{0, 0, 0}, {100, 0, 100}, {100, 60, 100},
		{CS_STILL_UNKNOWN, CS_STILL_UNKNOWN, CS_STILL_UNKNOWN}};

	(void)state;
	for (size_t variant = 0; variant < sizeof(percents) / sizeof(percents[0]); variant++) {
		struct scene scene;
		struct seen seen;
		uint32_t label = open_scene(&scene);

		for (unsigned int i = 0; i < RANKS; i++)
			scene_graph(&scene, i, 22, label, TARGET, 0, 60 * US, 40 * US);
		scene_advance(&scene, 5000 * MS);
		for (unsigned int window = 0; window < 3; window++) {
			for (unsigned int i = 0; i < RANKS; i++) {
				scene_window(&scene, i, CS_DEPTH_DEEP, window * 10000 * MS,
					window * 10000 * MS + 100 * MS);
				put_still(&scene, i, (window + 1) * 10000 * MS, percents[variant][window]);
			}
		}
		scene_advance(&scene, 35000 * MS);
		assert_int_equal(list(&scene, 35000 * MS, &seen), 0);
		scene_close(&scene);
	}
}

/* A launch with fewer collectives than ever before, and then the GPU rests: that was all of it. Where it
 * works, it is not. */
static void
test_rest_tells_the_end(void **state)
{
	(void)state;
	for (unsigned int works = 0; works < 2; works++) {
		struct scene scene;
		struct seen seen;
		uint32_t label = open_scene(&scene);
		uint64_t at_ns = 0;

		for (unsigned int k = 0; k < 6; k++) {
			uint64_t end_ns = 0;

			for (unsigned int i = 0; i < RANKS; i++)
				end_ns = scene_graph(
					&scene, i, 22, label, k == 5 ? 100 : TARGET, at_ns, 60 * US, 40 * US);
			at_ns = end_ns + MS;
		}
		scene_advance(&scene, at_ns + 3000 * MS);
		for (unsigned int i = 0; i < RANKS; i++)
			put_still(&scene, i, at_ns + 4000 * MS, works ? 100 : 0);
		scene_advance(&scene, at_ns + 12000 * MS);
		assert_int_equal(list(&scene, at_ns + 12000 * MS, &seen), works ? RANKS : 0);
		assert_true(!works || seen.stalls[0].ordinal == 100);
		scene_close(&scene);
	}
}

/* One process ends, and the others wait for it: as long as it is remembered and afterwards. */
static void
test_ended_rank(void **state)
{
	struct scene scene;
	struct seen seen;
	uint32_t label = open_scene(&scene);
	uint64_t at_ns = 0;

	(void)state;
	for (unsigned int k = 0; k < 2; k++) {
		for (unsigned int i = 0; i < RANKS; i++)
			at_ns = scene_graph(&scene, i, 22, label, TARGET, k * 15 * MS, 60 * US, 40 * US);
	}
	for (unsigned int i = 0; i < RANKS; i++) {
		if (i != LATE_RANK)
			scene_graph(&scene, i, 22, label, HANGS_AT, at_ns + MS, 60 * US, 40 * US);
	}
	scene_advance(&scene, 12000 * MS);
	assert_int_equal(list(&scene, 12000 * MS, &seen), RANKS - 1);
	assert_int_equal(seen.stalls[0].ended_rank, CS_RANK_UNKNOWN);
	cs_analysis_end_source(scene.analysis, scene.ranks[LATE_RANK].source);
	assert_int_equal(list(&scene, 12000 * MS, &seen), RANKS - 1);
	assert_int_equal(seen.stalls[0].ended_rank, LATE_RANK);
	cs_analysis_remove_source(scene.analysis, scene.ranks[LATE_RANK].source);
	assert_int_equal(list(&scene, 12000 * MS, &seen), RANKS - 1);
	for (unsigned int i = 0; i < RANKS - 1; i++)
		assert_int_equal(seen.stalls[i].ended_rank, LATE_RANK);
	scene_close(&scene);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hang_before_a_collective),
		cmocka_unit_test(test_number_of_a_cut_step),
		cmocka_unit_test(test_fewer_collectives_and_idle),
		cmocka_unit_test(test_varying_graph_hangs),
		cmocka_unit_test(test_hang_in_one_graph_of_target_and_drafts),
		cmocka_unit_test(test_hang_in_a_piece),
		cmocka_unit_test(test_hang_behind_an_inner_marker),
		cmocka_unit_test(test_hang_in_a_draft),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_loading),
		cmocka_unit_test(test_window_edge),
		cmocka_unit_test(test_sampled),
		cmocka_unit_test(test_launch_never_begins),
		cmocka_unit_test(test_hang_in_the_first_collective),
		cmocka_unit_test(test_launches_without_a_trace),
		cmocka_unit_test(test_stopped_between_windows),
		cmocka_unit_test(test_launch_before_the_window),
		cmocka_unit_test(test_idle_between_windows),
		cmocka_unit_test(test_rest_tells_the_end),
		cmocka_unit_test(test_ended_rank),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
