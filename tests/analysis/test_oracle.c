/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweep against a definition that needs no thought: look at each nanosecond and see what is open. 100,000
 * random scenarios (50 analyses of 2,000 each) with fixed seed: up to 14 records on four streams in 120 ns,
 * all classes, ties, empty records, records of one stream over each other, fed in random order.
 */
#include "scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BATCHES     50U
#define SCENARIOS   2000U
#define RECORDS_MAX 14U
#define SPAN_NS     120U
#define APART_NS    (10 * MS)

struct truth {
	uint64_t overlap_ns[CS_BUSY_CLASS_COUNT], copy_ns[CS_COPY_DIRECTION_COUNT];
	uint64_t exposed_ns, dependent_ns;
};

struct scenario {
	struct cs_record records[RECORDS_MAX];
	struct truth truths[RECORDS_MAX];
	size_t count;
	uint64_t union_ns, exposed_ns;
	bool has_collective;
};

static uint64_t random_state = 20251129;

static uint32_t
roll(uint32_t below)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(random_state >> 33) % below;
}

static const uint8_t copy_flags[CS_COPY_DIRECTION_COUNT] = {
	0, CS_RECORD_COPY_TO_HOST, CS_RECORD_COPY_FROM_HOST, CS_RECORD_COPY_PEER};

static struct cs_record
random_record(uint32_t label, uint64_t id)
{
	struct cs_record record = {.stream_id = 1 + roll(4), .graph_node_id = id};

	record.start_ns = roll(SPAN_NS);
	record.end_ns = record.start_ns + roll(roll(3) ? 20 : SPAN_NS);
	record.type = roll(2) ? CS_RECORD_COLLECTIVE : CS_RECORD_BUSY;
	if (record.type == CS_RECORD_COLLECTIVE) {
		record.ref = label;
	} else if (roll(2)) {
		record.klass = CS_BUSY_COPY;
		record.flags = copy_flags[roll(CS_COPY_DIRECTION_COUNT)];
	}
	return record;
}

static unsigned int
class_of(const struct cs_record *record)
{
	return record->type == CS_RECORD_COLLECTIVE ? CS_BUSY_COLLECTIVE : record->klass;
}

static unsigned int
direction_of(const struct cs_record *record)
{
	unsigned int direction = 0;

	while (copy_flags[direction] != record->flags)
		direction++;
	return direction;
}

static void
look(struct scenario *scenario, size_t self, uint64_t at_ns)
{
	const struct cs_record *own = &scenario->records[self];
	struct truth *truth = &scenario->truths[self];
	bool klass[CS_BUSY_CLASS_COUNT] = {false};
	bool direction[CS_COPY_DIRECTION_COUNT] = {false};
	bool predecessor = false;

	for (size_t i = 0; i < scenario->count; i++) {
		const struct cs_record *other = &scenario->records[i];

		if (other->start_ns > at_ns || other->end_ns <= at_ns)
			continue;
		if (other->stream_id == own->stream_id) {
			predecessor |= other->start_ns < own->start_ns;
			continue;
		}
		klass[class_of(other)] = true;
		if (class_of(other) == CS_BUSY_COPY)
			direction[direction_of(other)] = true;
	}
	for (unsigned int k = 0; k < CS_BUSY_CLASS_COUNT; k++)
		truth->overlap_ns[k] += klass[k];
	for (unsigned int d = 0; d < CS_COPY_DIRECTION_COUNT; d++)
		truth->copy_ns[d] += direction[d];
	truth->exposed_ns += !klass[0] && !klass[1] && !klass[2];
	truth->dependent_ns += predecessor;
}

static void
find_truth(struct scenario *scenario)
{
	for (uint64_t at_ns = 0; at_ns < 2 * SPAN_NS; at_ns++) {
		bool collective = false, other = false;

		for (size_t i = 0; i < scenario->count; i++) {
			const struct cs_record *record = &scenario->records[i];

			if (record->start_ns > at_ns || record->end_ns <= at_ns)
				continue;
			if (record->type != CS_RECORD_COLLECTIVE) {
				other = true;
				continue;
			}
			collective = true;
			look(scenario, i, at_ns);
		}
		scenario->union_ns += collective;
		scenario->exposed_ns += collective && !other;
	}
}

static void
make(struct scenario *scenario, uint32_t label, uint64_t first_id)
{
	memset(scenario, 0, sizeof(*scenario));
	scenario->count = 1 + roll(RECORDS_MAX);
	for (size_t i = 0; i < scenario->count; i++) {
		scenario->records[i] = random_record(label, first_id + i);
		scenario->has_collective |= scenario->records[i].type == CS_RECORD_COLLECTIVE;
	}
	find_truth(scenario);
}

static void
compare(const struct scenario *scenarios, const struct cs_collective *item)
{
	const struct truth *truth =
		&scenarios[item->graph_node_id / RECORDS_MAX].truths[item->graph_node_id % RECORDS_MAX];

	for (unsigned int k = 0; k < CS_BUSY_CLASS_COUNT; k++)
		assert_int_equal(item->overlap_ns[k], truth->overlap_ns[k]);
	for (unsigned int d = 0; d < CS_COPY_DIRECTION_COUNT; d++)
		assert_int_equal(item->copy_ns[d], truth->copy_ns[d]);
	assert_int_equal(item->exposed_ns, truth->exposed_ns);
	assert_int_equal(item->dependent_ns, truth->dependent_ns);
}

static void
play_batch(void)
{
	struct scenario *scenarios = calloc(SCENARIOS, sizeof(*scenarios));
	struct scene scene;
	size_t step = 0, collectives = 0;
	uint32_t label;

	assert_non_null(scenarios);
	scene_open(&scene, 1, NULL);
	label = scene_label(&scene, 0, CS_OP_ALL_REDUCE, 4096, 1, 0);
	for (size_t i = 0; i < SCENARIOS; i++) {
		make(&scenarios[i], label, i * RECORDS_MAX);
		for (size_t k = 0; k < scenarios[i].count; k++) {
			struct cs_record record = scenarios[i].records[k];

			record.start_ns += i * APART_NS;
			record.end_ns += i * APART_NS;
			scene_put(&scene, 0, record);
			collectives += record.type == CS_RECORD_COLLECTIVE;
		}
		if (i % 64 == 63)
			scene_advance(&scene, i * APART_NS);
	}
	scene_play(&scene);
	assert_int_equal(scene.collective_count, collectives);
	for (size_t i = 0; i < scene.collective_count; i++)
		compare(scenarios, &scene.collectives[i]);
	for (size_t i = 0; i < SCENARIOS; i++) {
		if (!scenarios[i].has_collective)
			continue;
		assert_true(step < scene.step_count);
		assert_int_equal((scene.steps[step].start_ns - SCENE_EPOCH_NS) / APART_NS, i);
		assert_int_equal(scene.steps[step].collective_ns, scenarios[i].union_ns);
		assert_int_equal(scene.steps[step].exposed_collective_ns, scenarios[i].exposed_ns);
		step++;
	}
	assert_int_equal(scene.step_count, step);
	scene_close(&scene);
	free(scenarios);
}

static void
test_against_brute_force(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < BATCHES; i++)
		play_batch();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_brute_force),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
