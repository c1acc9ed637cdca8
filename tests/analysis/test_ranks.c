/* SPDX-License-Identifier: Apache-2.0 */
#include "scene.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define TARGET_ID   22U
#define TARGET      123U
#define TRANSFER_NS (38 * US)
#define COMPUTE_NS  (60 * US)

static uint64_t random_state = 4;

static int64_t
jitter(int64_t most)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (int64_t)((random_state >> 33) % (uint64_t)(2 * most + 1)) - most;
}

/*
 * A step of one group in true time: all ranks compute, each arrives `late_ns[rank]` after the first, and the
 * collective ends TRANSFER_NS after the last arrival, on each rank within end_jitter_ns.
 */
struct step_plan {
	unsigned int first_rank, ranks;
	uint32_t label, graph, collectives;
	uint64_t late_ns[SCENE_RANKS_MAX];
	int64_t end_jitter_ns;
};

static uint64_t
put_step(struct scene *scene, const struct step_plan *plan, uint64_t at_ns)
{
	uint64_t free_ns[SCENE_RANKS_MAX];
	uint64_t last_ns = at_ns;

	for (unsigned int i = 0; i < plan->ranks; i++) {
		free_ns[i] = at_ns;
		scene->ranks[plan->first_rank + i].correlation_id++;
	}
	for (uint32_t k = 0; k < plan->collectives; k++) {
		uint64_t done_ns;

		at_ns = last_ns;
		last_ns = 0;
		for (unsigned int i = 0; i < plan->ranks; i++) {
			uint64_t arrival_ns = free_ns[i] + COMPUTE_NS + plan->late_ns[i];

			last_ns = arrival_ns > last_ns ? arrival_ns : last_ns;
		}
		done_ns = last_ns + TRANSFER_NS;
		for (unsigned int i = 0; i < plan->ranks; i++) {
			unsigned int rank = plan->first_rank + i;
			struct cs_record record = {.type = CS_RECORD_COLLECTIVE,
				.flags = CS_RECORD_IN_GRAPH,
				.ref = plan->label,
				.start_ns = free_ns[i] + COMPUTE_NS + plan->late_ns[i],
				.value = 57344,
				.graph_id = plan->graph,
				.correlation_id = scene->ranks[rank].correlation_id,
				.stream_id = 7};

			record.end_ns =
				done_ns + (uint64_t)(plan->end_jitter_ns ? jitter(plan->end_jitter_ns) : 0);
			scene_put(scene, rank, record);
			free_ns[i] = record.end_ns;
		}
		last_ns = done_ns;
	}
	return last_ns;
}

static void
open_group(struct scene *scene, unsigned int ranks, struct step_plan *plan)
{
	scene_open(scene, ranks, NULL);
	for (unsigned int i = 0; i < ranks; i++) {
		uint32_t communicator = scene_communicator(scene, i, 0xabc, (int32_t)i, (int32_t)ranks);

		plan->label = scene_label(scene, i, CS_OP_ALL_REDUCE, 57344, (int32_t)ranks, communicator);
	}
	plan->ranks = ranks;
	plan->graph = TARGET_ID;
	plan->collectives = TARGET;
}

/* Eight ranks, one of them 80 us late: the others wait 80 us, the transfer is what it is, and the late one is
 * named. */
static void
test_late_rank(void **state)
{
	struct step_plan plan = {.late_ns = {[3] = 80 * US}};
	struct cs_analysis_counts counts;
	struct scene scene;
	uint64_t at_ns = 0;

	(void)state;
	open_group(&scene, 8, &plan);
	for (unsigned int i = 0; i < 5; i++)
		at_ns = put_step(&scene, &plan, at_ns) + MS;
	scene_play(&scene);
	assert_int_equal(scene.collective_count, 5 * 8 * TARGET);
	for (size_t i = 0; i < scene.collective_count; i++) {
		const struct cs_collective *item = &scene.collectives[i];
		bool late = item->source == scene.ranks[3].source;

		assert_int_equal(item->matched_ranks, 8);
		assert_int_equal(item->transfer_ns, TRANSFER_NS);
		assert_int_equal(item->wait_ns, late ? 0 : 80 * US);
		assert_int_equal(item->last_arrival, late);
	}
	cs_analysis_read_counts(scene.analysis, &counts);
	assert_int_equal(counts.matched_collectives, 5 * 8 * TARGET);
	assert_int_equal(counts.partial_collectives, 0);
	assert_int_equal(counts.unmatched_collectives, 0);
	scene_close(&scene);
}

static int
compare_numbers(const void *a, const void *b)
{
	int64_t left = *(const int64_t *)a;
	int64_t right = *(const int64_t *)b;

	return (left > right) - (left < right);
}

/* The share of errors within the bound, in percent. */
static unsigned int
share_within(const int64_t *errors, size_t count, int64_t bound)
{
	size_t within = 0;

	for (size_t i = 0; i < count; i++)
		within += errors[i] <= bound && errors[i] >= -bound;
	return (unsigned int)(within * 100 / count);
}

/* Clocks up to 50 us apart that drift up to 20 us a minute, ends that jitter by 1.5 us, three minutes of
 * windows: every offset is known within its stated uncertainty, and waits and transfers are right within
 * three of them. */
static void
test_drifting_clocks(void **state)
{
	struct step_plan plan = {.late_ns = {[5] = 80 * US}, .end_jitter_ns = 1500};
	struct cs_clock_estimate clock;
	struct scene scene;
	uint64_t at_ns = 0;
	int64_t *errors;
	size_t count = 0;

	(void)state;
	open_group(&scene, 8, &plan);
	for (unsigned int i = 1; i < 8; i++) {
		scene.ranks[i].clock_ns = (int64_t)(50 * US) - (int64_t)i * 14000;
		scene.ranks[i].drift = (i % 2 ? 20e-6 : -20e-6) / 60;
	}
	for (unsigned int window = 0; window < 18; window++) {
		at_ns = window * 10000 * MS;
		for (unsigned int i = 0; i < 8; i++)
			at_ns = put_step(&scene, &plan, at_ns) + MS;
	}
	scene_play_live(&scene, 500 * MS);
	assert_int_equal(scene.collective_count, 18 * 8 * 8 * TARGET);
	for (unsigned int i = 0; i < 8; i++) {
		int64_t truth_ns = scene.ranks[i].clock_ns + (int64_t)((double)at_ns * scene.ranks[i].drift);

		assert_int_equal(cs_analysis_read_clock(scene.analysis, scene.ranks[i].source, 0, &clock), 0);
		assert_int_equal(clock.reference, i == 0);
		assert_true(i == 0 || (clock.uncertainty_ns > 300 && clock.uncertainty_ns < 2000));
		/* The median of 128 is known better than one end. */
		assert_true(3 * llabs(clock.offset_ns - truth_ns) <= (int64_t)clock.uncertainty_ns);
	}
	errors = calloc(scene.collective_count, sizeof(*errors));
	assert_non_null(errors);
	for (size_t i = 0; i < scene.collective_count; i++) {
		const struct cs_collective *item = &scene.collectives[i];

		assert_int_equal(item->matched_ranks, 8);
		if (item->source != scene.ranks[5].source)
			errors[count++] = (int64_t)item->wait_ns - (int64_t)(80 * US);
		assert_true(item->last_arrival == (item->source == scene.ranks[5].source));
	}
	qsort(errors, count, sizeof(*errors), compare_numbers);
	assert_true(llabs(errors[count / 2]) <= (int64_t)clock.uncertainty_ns);
	assert_true(share_within(errors, count, 3 * (int64_t)clock.uncertainty_ns) >= 95);
	for (size_t i = 0; i < scene.collective_count; i++)
		errors[i] = (int64_t)scene.collectives[i].transfer_ns - (int64_t)TRANSFER_NS;
	qsort(errors, scene.collective_count, sizeof(*errors), compare_numbers);
	assert_true(llabs(errors[scene.collective_count / 2]) <= (int64_t)clock.uncertainty_ns);
	assert_true(share_within(errors, scene.collective_count, 3 * (int64_t)clock.uncertainty_ns) >= 95);
	free(errors);
	/* Without a look for a minute the clocks may have drifted apart by 20 us; after two nothing is said.
	 */
	scene_advance(&scene, at_ns + 60000 * MS);
	assert_int_equal(cs_analysis_read_clock(scene.analysis, scene.ranks[1].source, 0, &clock), 0);
	assert_true(clock.uncertainty_ns > 19 * US && clock.uncertainty_ns < 23 * US);
	scene_advance(&scene, at_ns + 121000 * MS);
	assert_int_equal(cs_analysis_read_clock(scene.analysis, scene.ranks[1].source, 0, &clock), -ENODATA);
	scene_close(&scene);
}

/* The others' offsets are against the first member's clock. It goes: the next one is the reference, and what
 * was not certain of its clock against the old one's is nobody's any more. */
static void
test_reference_leaves(void **state)
{
	struct step_plan plan = {.end_jitter_ns = 1500};
	struct cs_clock_estimate clock;
	struct scene scene;
	uint64_t at_ns = 0;

	(void)state;
	open_group(&scene, 3, &plan);
	for (unsigned int i = 0; i < 3; i++)
		at_ns = put_step(&scene, &plan, at_ns) + MS;
	scene_play(&scene);
	assert_int_equal(cs_analysis_read_clock(scene.analysis, scene.ranks[1].source, 0, &clock), 0);
	assert_true(clock.uncertainty_ns > 300);
	cs_analysis_remove_source(scene.analysis, scene.ranks[0].source);
	assert_int_equal(cs_analysis_read_clock(scene.analysis, scene.ranks[1].source, 0, &clock), 0);
	assert_true(clock.reference);
	assert_int_equal(clock.offset_ns, 0);
	assert_int_equal(clock.uncertainty_ns, 0);
	assert_int_equal(clock.samples, 0);
	assert_int_equal(cs_analysis_read_clock(scene.analysis, scene.ranks[2].source, 0, &clock), -ENODATA);
	cs_analysis_add_source(scene.analysis, &scene.ranks[0].dictionary, &scene.ranks[0].source);
	scene_close(&scene);
}

/* Two servers of four on one node, told apart by their communicators; one has a late rank, the other has not.
 */
static void
test_two_groups(void **state)
{
	struct step_plan plans[2] = {
		{.first_rank = 0, .ranks = 4, .late_ns = {[1] = 80 * US}}, {.first_rank = 4, .ranks = 4}};
	struct scene scene;

	(void)state;
	scene_open(&scene, 8, NULL);
	for (unsigned int i = 0; i < 8; i++) {
		/* A custom all-reduce without a communicator of its own: the process's communicator of that
		 * size says. */
		scene_communicator(&scene, i, i < 4 ? 0xa : 0xb, (int32_t)(i % 4), 4);
		plans[i / 4].label = scene_label(&scene, i, CS_OP_ALL_REDUCE, 57344, 4, 0);
	}
	for (unsigned int group = 0; group < 2; group++) {
		uint64_t at_ns = group * 7 * US;

		plans[group].graph = TARGET_ID;
		plans[group].collectives = TARGET;
		for (unsigned int i = 0; i < 3; i++)
			at_ns = put_step(&scene, &plans[group], at_ns) + MS;
	}
	scene_play(&scene);
	assert_int_equal(scene.collective_count, 3 * 8 * TARGET);
	for (size_t i = 0; i < scene.collective_count; i++) {
		const struct cs_collective *item = &scene.collectives[i];
		bool first = item->source < scene.ranks[4].source;

		assert_int_equal(item->matched_ranks, 4);
		assert_int_equal(item->transfer_ns, TRANSFER_NS);
		assert_int_equal(item->wait_ns, first && item->source != scene.ranks[1].source ? 80 * US : 0);
	}
	scene_close(&scene);
}

/* Two servers of two ranks without any communicator: each server's processes have a parent of their own. */
static void
test_two_families(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene, 4, NULL);
	for (unsigned int i = 0; i < 4; i++) {
		uint32_t label = scene_label(&scene, i, CS_OP_ALL_REDUCE, 57344, 2, 0);

		scene.ranks[i].dictionary.process.parent_pid = 1000 + i / 2;
		scene_graph(&scene, i, TARGET_ID, label, TARGET, i / 2 * 7 * US, COMPUTE_NS, TRANSFER_NS);
	}
	scene_play(&scene);
	for (size_t i = 0; i < scene.collective_count; i++) {
		assert_int_equal(scene.collectives[i].matched_ranks, 2);
		assert_int_equal(scene.collectives[i].transfer_ns, TRANSFER_NS);
	}
	scene_close(&scene);
}

/* Nothing tells the two servers apart: nothing is said of their waiting. */
static void
test_ambiguous(void **state)
{
	struct step_plan plan = {.ranks = 4};
	struct cs_analysis_counts counts;
	struct scene scene;

	(void)state;
	scene_open(&scene, 4, NULL);
	for (unsigned int i = 0; i < 4; i++)
		plan.label = scene_label(&scene, i, CS_OP_ALL_REDUCE, 57344, 2, 0);
	plan.graph = TARGET_ID;
	plan.collectives = TARGET;
	put_step(&scene, &plan, 0);
	scene_play(&scene);
	cs_analysis_read_counts(scene.analysis, &counts);
	assert_int_equal(counts.matched_collectives, 0);
	assert_int_equal(counts.unmatched_collectives, 4 * TARGET);
	for (size_t i = 0; i < scene.collective_count; i++) {
		assert_int_equal(scene.collectives[i].wait_ns, CS_NS_UNKNOWN);
		assert_int_equal(scene.collectives[i].matched_ranks, 0);
	}
	scene_close(&scene);
}

/* Tensor and expert parallel communicators in one step: each is matched with its own ranks. */
static void
test_two_communicators(void **state)
{
	struct scene scene;
	uint32_t tensor = 0, expert = 0;

	(void)state;
	scene_open(&scene, 4, NULL);
	for (unsigned int i = 0; i < 4; i++) {
		uint32_t pair = scene_communicator(&scene, i, 0x10 + i / 2, (int32_t)(i % 2), 2);
		uint32_t all = scene_communicator(&scene, i, 0x20, (int32_t)i, 4);

		tensor = scene_label(&scene, i, CS_OP_ALL_REDUCE, 57344, 2, pair);
		expert = scene_label(&scene, i, CS_OP_ALL_TO_ALL, 8192, 4, all);
		for (unsigned int k = 0; k < 10; k++) {
			uint64_t at_ns = k * 200 * US;

			/* In the pairs the odd rank is 5 us late, in the whole rank 3 is 20 us late. */
			scene_collective(&scene, i, tensor, 7, at_ns + (i % 2) * 5 * US, at_ns + 50 * US);
			scene_collective(&scene, i, expert, 7, at_ns + 100 * US + (i == 3 ? 20 * US : 0),
				at_ns + 150 * US);
		}
	}
	scene_play(&scene);
	assert_int_equal(scene.collective_count, 4 * 20);
	for (size_t i = 0; i < scene.collective_count; i++) {
		const struct cs_collective *item = &scene.collectives[i];
		uint32_t rank = item->source;

		if (item->label_id == tensor) {
			assert_int_equal(item->matched_ranks, 2);
			assert_int_equal(item->wait_ns, rank % 2 ? 0 : 5 * US);
			assert_int_equal(item->transfer_ns, 45 * US);
		} else {
			assert_int_equal(item->matched_ranks, 4);
			assert_int_equal(item->wait_ns, rank == 3 ? 0 : 20 * US);
			assert_int_equal(item->transfer_ns, 30 * US);
		}
	}
	scene_close(&scene);
}

/* A rank dies in the middle: the rest is matched without it and counted as partial; only one left: unmatched.
 */
static void
test_missing_ranks(void **state)
{
	struct step_plan plan = {.late_ns = {[2] = 30 * US}};
	struct cs_analysis_counts counts;
	struct scene scene;
	uint64_t at_ns;

	(void)state;
	open_group(&scene, 3, &plan);
	at_ns = put_step(&scene, &plan, 0) + MS;
	scene_play(&scene);
	cs_analysis_remove_source(scene.analysis, scene.ranks[2].source);
	plan.ranks = 2;
	at_ns = put_step(&scene, &plan, at_ns) + MS;
	scene_play(&scene);
	cs_analysis_remove_source(scene.analysis, scene.ranks[0].source);
	scene.rank_count = 2;
	plan.ranks = 1;
	plan.first_rank = 1;
	put_step(&scene, &plan, at_ns);
	scene.ranks[0].count = 0;
	scene_play(&scene);
	cs_analysis_read_counts(scene.analysis, &counts);
	assert_int_equal(counts.matched_collectives, 3 * TARGET);
	assert_int_equal(counts.partial_collectives, 2 * TARGET);
	assert_int_equal(counts.unmatched_collectives, TARGET);
	scene.rank_count = 3;
	scene_close(&scene);
}

/* A window that begins earlier on one rank: its extra step finds no partner, the others are matched in step.
 */
static void
test_partial_window(void **state)
{
	struct step_plan plan = {.late_ns = {[1] = 10 * US}};
	struct cs_analysis_counts counts;
	struct scene scene;
	uint64_t at_ns = 0;

	(void)state;
	open_group(&scene, 2, &plan);
	for (unsigned int i = 0; i < 4; i++) {
		at_ns = put_step(&scene, &plan, at_ns) + 100 * US;
		if (i == 0)
			scene.ranks[1].count = 0;
	}
	scene_play(&scene);
	cs_analysis_read_counts(scene.analysis, &counts);
	assert_int_equal(counts.matched_collectives, 2 * 3 * TARGET);
	assert_int_equal(counts.unmatched_collectives, TARGET);
	for (size_t i = 0; i < scene.collective_count; i++) {
		if (scene.collectives[i].matched_ranks)
			assert_int_equal(scene.collectives[i].transfer_ns, TRANSFER_NS);
	}
	scene_close(&scene);
}

/* A rank's process is gone, nobody has removed it, time goes on: the others are matched without it. */
static void
test_rank_stops(void **state)
{
	struct step_plan plan = {.late_ns = {[0] = 20 * US}};
	struct cs_analysis_counts counts;
	struct scene scene;
	uint64_t at_ns = 0;

	(void)state;
	open_group(&scene, 4, &plan);
	for (unsigned int i = 0; i < 60; i++) {
		plan.ranks = i < 20 ? 4 : 3;
		at_ns = put_step(&scene, &plan, at_ns) + MS;
	}
	scene_play_live(&scene, 100 * MS);
	cs_analysis_read_counts(scene.analysis, &counts);
	assert_int_equal(counts.matched_collectives, 20 * 4 * TARGET);
	assert_int_equal(counts.partial_collectives, 40 * 3 * TARGET);
	/* Without the fourth nobody can say who was waited for. */
	for (size_t i = 0; i < scene.collective_count; i++) {
		const struct cs_collective *item = &scene.collectives[i];

		if (item->matched_ranks == 4)
			assert_int_equal(item->wait_ns, item->source ? 20 * US : 0);
		else
			assert_int_equal(item->wait_ns, CS_NS_UNKNOWN);
		assert_int_equal(item->last_arrival, item->matched_ranks == 4 && item->source == 0);
	}
	scene_close(&scene);
}

/* A capture of two minutes: ranks side by side, nobody tells the time until the end. */
static void
test_capture(void **state)
{
	struct step_plan plan = {.late_ns = {[6] = 9 * US}};
	struct cs_analysis_counts counts;
	struct scene scene;

	(void)state;
	open_group(&scene, 8, &plan);
	plan.collectives = 40;
	for (uint64_t second = 0; second < 120; second++) {
		for (unsigned int i = 0; i < 10; i++)
			put_step(&scene, &plan, second * 1000 * MS + i * 90 * MS);
		for (unsigned int i = 0; i < 8; i++) {
			assert_int_equal(cs_analysis_ingest(scene.analysis, scene.ranks[i].source,
						 scene.ranks[i].records, scene.ranks[i].count),
				0);
			scene.ranks[i].count = 0;
		}
	}
	scene_play(&scene);
	cs_analysis_read_counts(scene.analysis, &counts);
	assert_int_equal(counts.matched_collectives, 120 * 10 * 40 * 8);
	assert_int_equal(counts.partial_collectives, 0);
	assert_int_equal(counts.late_records, 0);
	scene_close(&scene);
}

/* Two GPUs in one process: each is a rank, and the process's steps come in order of their start. */
static void
test_two_gpus_in_one_process(void **state)
{
	struct scene scene;
	uint32_t labels[2];
	uint64_t last_ns = 0;

	(void)state;
	scene_open(&scene, 1, NULL);
	scene.ranks[0].dictionary.gpu_count = 2;
	for (unsigned int gpu = 0; gpu < 2; gpu++)
		labels[gpu] = scene_label(&scene, 0, CS_OP_ALL_REDUCE, 4096, 2,
			scene_communicator(&scene, 0, 0xabc, (int32_t)gpu, 2));
	for (unsigned int step = 0; step < 50; step++) {
		for (unsigned int gpu = 0; gpu < 2; gpu++) {
			for (unsigned int k = 0; k < 10; k++)
				scene_put(&scene, 0,
					(struct cs_record){.type = CS_RECORD_COLLECTIVE,
						.flags = CS_RECORD_IN_GRAPH,
						.gpu = (uint8_t)gpu,
						.ref = labels[gpu],
						.start_ns = step * 5 * MS + k * 100 * US + gpu * 3 * US,
						.end_ns = step * 5 * MS + k * 100 * US + 40 * US,
						.value = 4096,
						.correlation_id = 100 + 2 * step + gpu,
						.graph_id = 5 + gpu,
						.stream_id = 7 + gpu});
		}
	}
	scene_play_live(&scene, 30 * MS);
	assert_int_equal(scene.step_count, 100);
	for (size_t i = 0; i < scene.step_count; i++) {
		assert_true(scene.steps[i].start_ns >= last_ns);
		assert_int_equal(scene.steps[i].step, i + 1);
		assert_int_equal(scene.steps[i].rank, scene.steps[i].gpu);
		last_ns = scene.steps[i].start_ns;
	}
	for (size_t i = 0; i < scene.collective_count; i++) {
		assert_int_equal(scene.collectives[i].matched_ranks, 2);
		assert_int_equal(scene.collectives[i].wait_ns, scene.collectives[i].gpu ? 0 : 3 * US);
	}
	scene_close(&scene);
}

/* 400 random groups: sizes, lengths of steps, who is late by how much, clocks. Every wait and every transfer
 * is exact, since the ends are. */
static void
test_random_groups(void **state)
{
	(void)state;
	for (unsigned int scenario = 0; scenario < 400; scenario++) {
		struct step_plan plan = {.ranks = 0};
		uint64_t late_ns[8][SCENE_RANKS_MAX], last_ns[8];
		struct scene scene;
		uint64_t at_ns = 0;

		open_group(&scene, 2 + (unsigned int)(jitter(3) + 3), &plan);
		for (unsigned int i = 0; i < plan.ranks; i++)
			scene.ranks[i].clock_ns = jitter(50 * US);
		plan.collectives = 12 + (uint32_t)(jitter(8) + 8);
		for (unsigned int step = 0; step < 8; step++) {
			last_ns[step] = 0;
			for (unsigned int i = 0; i < plan.ranks; i++) {
				late_ns[step][i] = plan.late_ns[i] =
					(uint64_t)(jitter(50 * US) + 50 * (int64_t)US);
				last_ns[step] =
					late_ns[step][i] > last_ns[step] ? late_ns[step][i] : last_ns[step];
			}
			at_ns = put_step(&scene, &plan, at_ns) + 400 * US;
		}
		scene_play(&scene);
		assert_int_equal(scene.collective_count, 8 * plan.ranks * plan.collectives);
		for (size_t i = 0; i < scene.collective_count; i++) {
			const struct cs_collective *item = &scene.collectives[i];

			assert_in_range(item->step, 1, 8);
			assert_int_equal(item->matched_ranks, plan.ranks);
			assert_int_equal(item->transfer_ns, TRANSFER_NS);
			assert_int_equal(item->wait_ns,
				last_ns[item->step - 1] - late_ns[item->step - 1][item->source]);
		}
		scene_close(&scene);
	}
}

/* The same collective twice 60 us apart on both ranks, one record lost on each: ends are near enough to be
 * taken for each other, but the communicator's own numbers say that they are not. */
static void
test_sequence_numbers(void **state)
{
	struct scene scene;

	(void)state;
	for (uint32_t numbers = 0; numbers < 2; numbers++) {
		scene_open(&scene, 2, NULL);
		for (unsigned int i = 0; i < 2; i++) {
			uint32_t communicator = scene_communicator(&scene, i, 0xabc, (int32_t)i, 2);
			struct cs_record record = {.type = CS_RECORD_COLLECTIVE,
				.ref = scene_label(&scene, i, CS_OP_ALL_REDUCE, 4096, 2, communicator),
				.start_ns = i * 60 * US,
				.end_ns = i * 60 * US + 20 * US,
				.correlation_id = 1,
				.sequence = numbers ? 900 + i : 0,
				.stream_id = 7};

			scene_put(&scene, i, record);
		}
		scene_play(&scene);
		assert_int_equal(scene.collectives[0].matched_ranks, numbers ? 0 : 2);
		scene_close(&scene);
	}
}

/* Two ranks of a group of four are on this node: they are put together, their clocks too, but the late one
 * may be elsewhere, so nobody is blamed. */
static void
test_other_nodes(void **state)
{
	struct step_plan plan = {
		.ranks = 2, .graph = TARGET_ID, .collectives = TARGET, .late_ns = {[1] = 30 * US}};
	struct cs_analysis_counts counts;
	struct cs_clock_estimate clock;
	struct scene scene;

	(void)state;
	scene_open(&scene, 2, NULL);
	for (unsigned int i = 0; i < 2; i++) {
		uint32_t communicator = scene_communicator(&scene, i, 0xabc, (int32_t)i, 4);

		plan.label = scene_label(&scene, i, CS_OP_ALL_REDUCE, 57344, 4, communicator);
	}
	scene.ranks[1].clock_ns = 20 * US;
	put_step(&scene, &plan, 0);
	scene_play(&scene);
	for (size_t i = 0; i < scene.collective_count; i++) {
		const struct cs_collective *item = &scene.collectives[i];

		assert_int_equal(item->matched_ranks, 2);
		assert_int_equal(item->wait_ns, CS_NS_UNKNOWN);
		assert_int_equal(item->transfer_ns, CS_NS_UNKNOWN);
		assert_false(item->last_arrival);
	}
	cs_analysis_read_counts(scene.analysis, &counts);
	assert_int_equal(counts.partial_collectives, 2 * TARGET);
	assert_int_equal(counts.matched_collectives, 0);
	assert_int_equal(cs_analysis_read_clock(scene.analysis, scene.ranks[1].source, 0, &clock), 0);
	assert_int_equal(clock.offset_ns, 20 * US);
	scene_close(&scene);
}

/* One eager stretch of five collectives 10 us apart; `alone` of them, from the first on, come 20 ms earlier
 * on one rank, whose stretches are then others. */
static void
put_stretches(struct scene *scene, const uint32_t *label, unsigned int split_rank, bool numbers)
{
	for (unsigned int i = 0; i < 2; i++) {
		for (uint32_t k = 0; k < 6; k++) {
			/* The first one ends for all at once, but one rank has been in it for long. */
			uint64_t end_ns = k == 0 ? 20 * US : 20 * MS + k * 40 * US;
			struct cs_record record = {.type = CS_RECORD_COLLECTIVE,
				.ref = label[i],
				.start_ns = end_ns - (i ? 20 : 14) * US,
				.end_ns = end_ns,
				.correlation_id = 1 + k,
				.sequence = numbers ? 7 + k : 0,
				.stream_id = 7};

			scene_put(scene, i, record);
			/* What another stream does keeps the stretch together on one rank alone. */
			for (uint64_t at_ns = 0; k == 0 && i != split_rank && at_ns < 20 * MS;
				at_ns += MS / 2)
				scene_busy(scene, i, CS_BUSY_COMPUTE, 0, 7, end_ns + at_ns,
					end_ns + at_ns + MS / 2);
		}
	}
}

/* Eager work is cut into steps by pauses, which ranks have in different places: its collectives are matched
 * one by one, by NCCL's number or, once the clocks are known, by their ends. */
static void
test_stretches_cut_differently(void **state)
{
	for (unsigned int split_rank = 0; split_rank < 2; split_rank++) {
		struct step_plan plan = {0};
		struct cs_analysis_counts counts;
		struct scene scene;
		uint32_t label[2];

		for (unsigned int numbers = 0; numbers < 2; numbers++) {
			open_group(&scene, 2, &plan);
			for (unsigned int i = 0; i < 2; i++)
				label[i] = plan.label;
			put_stretches(&scene, label, split_rank, numbers);
			scene_play(&scene);
			cs_analysis_read_counts(scene.analysis, &counts);
			assert_int_equal(scene.collective_count, 12);
			/* Without a number five alike in 160 us could be exchanged by clocks that are not
			 * known. */
			assert_int_equal(counts.matched_collectives, numbers ? 12 : 2);
			assert_int_equal(counts.unmatched_collectives, numbers ? 0 : 10);
			for (size_t i = 0; i < scene.collective_count; i++) {
				const struct cs_collective *item = &scene.collectives[i];

				if (!item->matched_ranks)
					continue;
				assert_int_equal(item->transfer_ns, 14 * US);
				assert_int_equal(item->wait_ns, item->source ? 6 * US : 0);
			}
			scene_close(&scene);
		}
	}
	(void)state;
}

/* A rank goes while the other one's stretch has come apart beside its own: nothing of either is left behind.
 */
static void
test_removed_while_dissolved(void **state)
{
	struct step_plan plan = {0};
	struct scene scene;
	uint32_t label[2];

	(void)state;
	open_group(&scene, 2, &plan);
	label[0] = label[1] = plan.label;
	put_stretches(&scene, label, 0, true);
	scene_advance(&scene, 20 * MS + 100 * US);
	cs_analysis_remove_source(scene.analysis, scene.ranks[0].source);
	scene.ranks[0].count = 0;
	scene_play(&scene);
	assert_true(scene.collective_count >= 6);
	scene_close(&scene);
}

/* A root's broadcast tells nothing of who was waited for. */
static void
test_broadcast(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene, 2, NULL);
	for (unsigned int i = 0; i < 2; i++) {
		uint32_t communicator = scene_communicator(&scene, i, 0xabc, (int32_t)i, 2);
		uint32_t label = scene_label(&scene, i, CS_OP_BROADCAST, 4096, 2, communicator);

		scene_collective(&scene, i, label, 7, 0, 20 * US + i * 10 * US);
	}
	scene_play(&scene);
	assert_int_equal(scene.collective_count, 2);
	assert_int_equal(scene.collectives[0].wait_ns, CS_NS_UNKNOWN);
	scene_close(&scene);
}

/* Passes of one collective in a row; even ones have rank 1 late, odd ones rank 0, so that a wrong partner
 * shows. */
static uint64_t
put_brief_steps(struct scene *scene, struct step_plan plan, uint64_t at_ns)
{
	plan.graph = TARGET_ID + 1;
	plan.collectives = 1;
	for (unsigned int i = 0; i < 20; i++) {
		plan.late_ns[0] = i % 2 ? 2 * US : 0;
		plan.late_ns[1] = i % 2 ? 0 : 2 * US;
		at_ns = put_step(scene, &plan, at_ns);
	}
	return at_ns;
}

/* Short passes 100 us apart, clocks 50 us apart: while the offset is not known the nearest may be the wrong
 * one, so nothing is said; after a long step it is known, and they are matched. */
static void
test_short_steps(void **state)
{
	struct step_plan plan = {.late_ns = {[1] = 2 * US}};
	struct scene scene;
	uint64_t at_ns;
	size_t matched = 0;

	(void)state;
	open_group(&scene, 2, &plan);
	scene.ranks[1].clock_ns = 51 * US;
	at_ns = put_brief_steps(&scene, plan, 0);
	at_ns = put_step(&scene, &plan, at_ns + 5 * MS) + 5 * MS;
	put_brief_steps(&scene, plan, at_ns);
	scene_play(&scene);
	for (size_t i = 0; i < scene.collective_count; i++) {
		const struct cs_collective *item = &scene.collectives[i];

		if (!item->matched_ranks)
			continue;
		matched++;
		assert_int_equal(item->transfer_ns, TRANSFER_NS);
		assert_int_equal(item->wait_ns, item->end_ns - item->start_ns - TRANSFER_NS);
		assert_int_equal(item->last_arrival, item->wait_ns == 0);
	}
	assert_true(matched >= 2 * (TARGET + 20));
	scene_close(&scene);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_rank),
		cmocka_unit_test(test_drifting_clocks),
		cmocka_unit_test(test_reference_leaves),
		cmocka_unit_test(test_two_groups),
		cmocka_unit_test(test_two_families),
		cmocka_unit_test(test_ambiguous),
		cmocka_unit_test(test_two_communicators),
		cmocka_unit_test(test_missing_ranks),
		cmocka_unit_test(test_partial_window),
		cmocka_unit_test(test_rank_stops),
		cmocka_unit_test(test_capture),
		cmocka_unit_test(test_two_gpus_in_one_process),
		cmocka_unit_test(test_random_groups),
		cmocka_unit_test(test_sequence_numbers),
		cmocka_unit_test(test_other_nodes),
		cmocka_unit_test(test_stretches_cut_differently),
		cmocka_unit_test(test_removed_while_dissolved),
		cmocka_unit_test(test_broadcast),
		cmocka_unit_test(test_short_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
