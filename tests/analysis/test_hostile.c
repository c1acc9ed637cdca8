/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records from a segment that somebody else may write: any field may have any value, sources come and go,
 * time jumps. Under the sanitizers nothing may go wrong, every collective comes out at most once, and what
 * comes out is consistent.
 */
#include "scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ROUNDS  60U
#define RECORDS 1500U
#define RANKS   4U

static uint64_t random_state = 99;

static uint32_t
roll(uint32_t below)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(random_state >> 33) % below;
}

static uint64_t
random_time(uint64_t around_ns)
{
	switch (roll(40)) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return UINT64_MAX - roll(1000000);
	case 3:
		return around_ns + 61000000000ULL + (uint64_t)roll(UINT32_MAX) * 1000;
	default:
		return around_ns + roll(30000000);
	}
}

static struct cs_record
random_record(uint64_t around_ns)
{
	struct cs_record record = {
		.type = (uint8_t)(roll(20) ? 1 + roll(CS_RECORD_TYPE_COUNT - 1) : roll(256)),
		.flags = (uint8_t)(roll(4) ? roll(2) : roll(256)),
		.gpu = (uint8_t)(roll(20) ? roll(2) : roll(256)),
		.klass = (uint8_t)(roll(20) ? roll(2) : roll(256)),
		.ref = roll(10) ? roll(4) : roll(UINT32_MAX),
		.start_ns = random_time(around_ns),
		.value = roll(5),
		.correlation_id = roll(50),
		.graph_id = roll(6),
		.stream_id = roll(5),
		.sequence = roll(3),
	};

	record.end_ns = roll(30) ? record.start_ns + roll(100000) : random_time(around_ns);
	return record;
}

static void
fill_tables(struct scene *scene)
{
	for (unsigned int i = 0; i < RANKS; i++) {
		uint32_t communicator = scene_communicator(scene, i, 0xabc, (int32_t)(i % 3), 4);

		scene_label(scene, i, CS_OP_ALL_REDUCE, 4096, 4, communicator);
		scene_label(scene, i, CS_OP_ALL_GATHER, 4096, 4, 77);
		scene_label(scene, i, CS_OP_ALL_TO_ALL, CS_BYTES_UNKNOWN, 2, 0);
		scene_name(scene, i, "build_tree_efficient");
		scene_name(scene, i, "_rejection_kernel");
	}
}

static void
ignore_stall(void *context, const struct cs_stall *stall)
{
	(void)context;
	assert_non_null(stall->label);
	assert_non_null(stall->last_label);
}

static void
check(const struct scene *scene)
{
	for (size_t i = 0; i < scene->step_count; i++) {
		const struct cs_step *step = &scene->steps[i];

		assert_true(step->end_ns >= step->start_ns);
		assert_true(step->phase < CS_PHASE_COUNT);
		assert_true(step->phase_rule < CS_PHASE_RULE_COUNT);
		assert_true(step->exposed_collective_ns == CS_NS_UNKNOWN ||
			    step->exposed_collective_ns <= step->collective_ns);
	}
	for (size_t i = 0; i < scene->collective_count; i++) {
		const struct cs_collective *item = &scene->collectives[i];
		uint64_t duration_ns = item->end_ns - item->start_ns;

		assert_true(item->end_ns >= item->start_ns);
		assert_true(item->exposed_ns == CS_NS_UNKNOWN || item->exposed_ns <= duration_ns);
		assert_true(item->matched_ranks == 0 || item->wait_ns + item->transfer_ns == duration_ns);
	}
}

static void
play(const struct cs_analysis_options *options)
{
	struct cs_analysis_counts counts;
	struct scene scene;
	uint64_t now_ns = SCENE_EPOCH_NS;
	uint64_t collectives = 0;

	scene_open(&scene, RANKS, options);
	fill_tables(&scene);
	cs_analysis_advance(scene.analysis, now_ns);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		struct scene_rank *rank = &scene.ranks[roll(RANKS)];

		for (unsigned int i = 0; i < RECORDS; i++) {
			struct cs_record record = random_record(now_ns);

			collectives += record.type == CS_RECORD_COLLECTIVE;
			cs_analysis_ingest(scene.analysis, rank->source, &record, 1);
		}
		now_ns += roll(40000000);
		if (options->incomplete_steps && roll(4) == 0)
			cs_analysis_tell_clock(scene.analysis, now_ns + (roll(10) ? 0 : 1000 * MS));
		if (roll(3))
			cs_analysis_advance(scene.analysis, now_ns + (roll(10) ? 0 : 1000 * MS));
		cs_analysis_list_stalls(scene.analysis, now_ns, roll(2) ? 0 : 1000, ignore_stall, NULL);
		if (roll(10) == 0) {
			cs_analysis_remove_source(scene.analysis, rank->source);
			assert_int_equal(
				cs_analysis_add_source(scene.analysis, &rank->dictionary, &rank->source), 0);
		}
		if (roll(40) == 0)
			cs_analysis_drain(scene.analysis);
	}
	cs_analysis_drain(scene.analysis);
	cs_analysis_read_counts(scene.analysis, &counts);
	assert_int_equal(counts.records, (uint64_t)ROUNDS * RECORDS);
	assert_true(scene.collective_count <= collectives);
	assert_true(
		options->pending_records || options->horizon_ns || counts.late_records < counts.records / 4);
	check(&scene);
	scene_close(&scene);
}

static void
test_anything(void **state)
{
	const struct cs_analysis_options options[] = {
		{0}, {.pending_records = 500}, {.horizon_ns = 1000}, {.incomplete_steps = true}};

	(void)state;
	for (unsigned int i = 0; i < 12; i++)
		play(&options[i % 4]);
}

/* One collective that ends an hour later, and launches without any on another stream: what waits behind it is
 * bounded. */
static void
test_endless_collective(void **state)
{
	struct cs_analysis_counts counts;
	struct scene scene;
	uint32_t label;

	(void)state;
	scene_open(&scene, 1, NULL);
	label = scene_label(&scene, 0, CS_OP_ALL_REDUCE, 4096, 1, 0);
	scene_put(&scene, 0,
		(struct cs_record){.type = CS_RECORD_COLLECTIVE,
			.flags = CS_RECORD_IN_GRAPH,
			.ref = label,
			.end_ns = 3600000 * MS,
			.correlation_id = 1,
			.graph_id = 9,
			.stream_id = 3});
	for (uint32_t i = 0; i < 100000; i++) {
		scene_put(&scene, 0,
			(struct cs_record){.type = CS_RECORD_BUSY,
				.flags = CS_RECORD_IN_GRAPH,
				.start_ns = i * MS,
				.end_ns = i * MS + 100 * US,
				.correlation_id = 10 + i,
				.graph_id = 10,
				.stream_id = 7});
		if (i % 100)
			continue;
		scene_advance(&scene, i * MS + MS);
		cs_analysis_read_counts(scene.analysis, &counts);
		/* 2 s of them are within the horizon. */
		assert_true(counts.steps + counts.incomplete_steps + 16384 + 2100 >= i);
	}
	assert_int_equal(counts.dropped, 0);
	scene_close(&scene);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_anything),
		cmocka_unit_test(test_endless_collective),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
