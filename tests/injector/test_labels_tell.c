/* SPDX-License-Identifier: Apache-2.0 */
/* GRAPH records: what is told of executables when they have been made and when they are changed. */
#include "labels_private.h"
#include "labels_world.h"
#include "segment/segment_reader.h"

/* must come before cmocka.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define NOW_NS     1700000000000000000ULL
#define MANY       300U
#define CONTEXT_ID 1U

static struct cs_segment_reader *reader;
static struct world_vllm arguments;
static const struct world_launch all_reduce = {.function = &world_vllm, .kernel_params = arguments.params};
static const struct world_launch ordinary = {.function = &world_ordinary, .kernel_params = arguments.params};

/* Everything that a test makes, for the end. */
static struct {
	struct world_graph *graph;
	bool exec;
} made[1024];
static size_t made_count;

static struct world_graph *
keep(struct world_graph *graph, bool exec)
{
	assert_true(made_count < sizeof(made) / sizeof(made[0]));
	made[made_count].graph = graph;
	made[made_count++].exec = exec;
	return graph;
}

static struct world_graph *
make(void)
{
	return keep(world_graph_create(), false);
}

static struct world_graph *
instantiate(struct world_graph *graph)
{
	return keep(world_instantiate(graph), true);
}

static int
setup(void **state)
{
	struct cs_gpu gpu = {0};

	if (world_setup(state))
		return -1;
	for (gpu.cuda_ordinal = 0; gpu.cuda_ordinal < 3; gpu.cuda_ordinal++)
		cs_segment_writer_gpu(world_writer, &gpu);
	return cs_segment_reader_open(cs_segment_writer_path(world_writer), false, &reader, NULL);
}

static int
teardown(void **state)
{
	while (made_count > 0) {
		if (made[--made_count].exec)
			world_destroy_exec(made[made_count].graph);
		else
			world_destroy_graph(made[made_count].graph);
	}
	cs_segment_reader_close(reader);
	return world_teardown(state);
}

static struct world_node *
capture(struct world_graph *graph, int32_t packs)
{
	world_vllm_fill(&arguments, 1, packs);
	return world_capture(graph, packs ? &all_reduce : &ordinary);
}

/* GRAPH records that were written since the last look; others are not looked at. */
static size_t
told(struct cs_record *records, size_t room)
{
	struct cs_record any[64];
	size_t count, kept = 0;

	do {
		assert_int_equal(cs_segment_reader_refresh(reader), 0);
		assert_true(cs_segment_reader_read(reader, any, 64, &count) >= 0);
		for (size_t i = 0; i < count; i++) {
			if (any[i].type != CS_RECORD_GRAPH)
				continue;
			assert_true(kept < room);
			records[kept++] = any[i];
		}
	} while (count > 0);
	return kept;
}

static size_t
tell(struct cs_record *records, size_t room)
{
	while (cs_labels_tell_graphs(NOW_NS))
		;
	return told(records, room);
}

static const struct cs_label *
label_of(const struct cs_record *record)
{
	return cs_dictionary_borrow_label(cs_segment_reader_borrow_dictionary(reader), record->ref);
}

static void
expect(const struct cs_record *record, const struct world_graph *exec, uint32_t collectives, uint32_t first,
	uint64_t count, uint64_t bytes)
{
	assert_int_equal(record->graph_id, exec->id);
	assert_int_equal(record->gpu, 2);
	assert_int_equal(record->start_ns, NOW_NS);
	assert_int_equal(record->end_ns, NOW_NS);
	assert_int_equal(record->sequence, collectives);
	assert_int_equal(record->correlation_id, first);
	assert_int_equal(record->value, count);
	assert_int_equal(label_of(record)->bytes, bytes);
}

static void
test_runs_of_a_graph(void **state)
{
	struct world_graph *graph = make();
	struct world_graph *execs[2], *plain = make();
	struct cs_record records[8];
	static const int32_t packs[] = {0, 64, 0, 64, 64, 128, 0};

	(void)state;
	for (size_t i = 0; i < sizeof(packs) / sizeof(packs[0]); i++)
		capture(graph, packs[i]);
	capture(plain, 0);
	/* A captured graph, and a clone of it, are no executables. */
	keep(world_clone(graph), false);
	assert_int_equal(tell(records, 8), 0);
	for (size_t i = 0; i < 2; i++)
		execs[i] = instantiate(graph);
	instantiate(plain);
	assert_int_equal(tell(records, 8), 4);
	for (size_t i = 0; i < 2; i++) {
		expect(&records[2 * i], execs[i], 4, 0, 3, 1024);
		assert_int_equal(records[2 * i].graph_node_id, execs[i]->nodes[1]->id);
		expect(&records[2 * i + 1], execs[i], 4, 3, 1, 2048);
		assert_int_equal(records[2 * i + 1].graph_node_id, execs[i]->nodes[5]->id);
		/* The label that records of its launches have. */
		assert_int_equal(records[2 * i].ref,
			world_resolve(WORLD_VLLM, execs[i]->nodes[1]->id, world_next_correlation()).ref);
	}
	/* Once. */
	assert_int_equal(tell(records, 8), 0);
}

static void
test_only_the_first_runs(void **state)
{
	struct world_graph *graph = make();
	struct world_graph *exec;
	struct cs_record records[8];

	(void)state;
	for (int32_t i = 0; i < 10; i++)
		capture(graph, i % 2 ? 64 : 128);
	exec = instantiate(graph);
	assert_int_equal(tell(records, 8), CS_GRAPH_RUNS_MAX);
	for (uint32_t i = 0; i < CS_GRAPH_RUNS_MAX; i++)
		expect(&records[i], exec, 10, i, 1, i % 2 ? 1024 : 2048);
}

static void
test_child_graphs(void **state)
{
	struct world_graph *graph = make();
	struct world_graph *child = make();
	struct world_graph *exec;
	struct cs_record records[4];

	(void)state;
	capture(child, 64);
	capture(child, 64);
	capture(graph, 64);
	world_add_child(graph, child);
	exec = instantiate(graph);
	assert_int_equal(tell(records, 4), 1);
	expect(&records[0], exec, 3, 0, 3, 1024);
}

static void
test_changes(void **state)
{
	struct world_graph *graph = make();
	struct world_node *nodes[3];
	struct world_graph *exec;
	struct cs_record records[4];

	(void)state;
	for (size_t i = 0; i < 3; i++)
		nodes[i] = capture(graph, 64);
	exec = instantiate(graph);
	assert_int_equal(tell(records, 4), 1);
	/* The same again: other addresses. */
	world_vllm_fill(&arguments, 1, 64);
	world_set_exec(exec, nodes[0], &all_reduce, true);
	assert_int_equal(tell(records, 4), 0);
	world_set_exec(exec, nodes[0], &ordinary, true);
	assert_int_equal(tell(records, 4), 1);
	expect(&records[0], exec, 2, 0, 2, 1024);
	world_vllm_fill(&arguments, 1, 128);
	world_set_exec(exec, nodes[1], &all_reduce, true);
	assert_int_equal(tell(records, 4), 2);
	expect(&records[0], exec, 2, 0, 1, 2048);
	expect(&records[1], exec, 2, 1, 1, 1024);
	/* None is left: what was told holds no more, and that is told once. */
	world_set_exec(exec, nodes[1], &ordinary, true);
	world_set_exec(exec, nodes[2], &ordinary, true);
	assert_int_equal(tell(records, 4), 1);
	assert_int_equal(records[0].sequence, CS_GRAPH_UNKNOWN);
	assert_int_equal(records[0].graph_id, exec->id);
	world_vllm_fill(&arguments, 1, 64);
	world_set_exec(exec, nodes[0], &all_reduce, true);
	assert_int_equal(tell(records, 4), 1);
	expect(&records[0], exec, 1, 0, 1, 1024);
}

/* Before CUDA 13.0 no event tells what an update changed. */
static void
test_doubt(void **state)
{
	struct world_graph *graph = make();
	struct world_graph *other = make();
	struct world_graph *exec;
	struct cs_record records[4];

	(void)state;
	world_cupti.version = 22;
	capture(graph, 64);
	capture(other, 0);
	exec = instantiate(graph);
	assert_int_equal(tell(records, 4), 1);
	world_update(exec, other, false);
	/* Before anything was told of it: there is nothing to take back. */
	world_update(instantiate(graph), other, false);
	world_cupti.version = 130001;
	assert_int_equal(tell(records, 4), 1);
	assert_int_equal(records[0].sequence, CS_GRAPH_UNKNOWN);
	assert_int_equal(records[0].graph_id, exec->id);
}

/* Before CUDA 12.3 an executable has no id. */
static void
test_no_ids(void **state)
{
	CUptiResult (*get)(CUgraphExec, uint32_t *) = world_cupti.get_graph_exec_id;
	struct world_graph *graph = make();
	struct cs_record records[4];

	(void)state;
	world_cupti.get_graph_exec_id = NULL;
	capture(graph, 64);
	instantiate(graph);
	world_cupti.get_graph_exec_id = get;
	assert_int_equal(tell(records, 4), 0);
}

/* More than one walk tells of, in the order in which they were made. */
static void
test_many(void **state)
{
	struct world_graph *graph = make();
	static struct world_graph *execs[MANY];
	static struct cs_record records[MANY];
	size_t count;

	(void)state;
	capture(graph, 64);
	for (size_t i = 0; i < MANY; i++)
		execs[i] = instantiate(graph);
	assert_true(cs_labels_tell_graphs(NOW_NS));
	count = told(records, MANY);
	assert_int_equal(count, CS_TELL_GRAPHS);
	for (size_t i = 0; i < count; i++)
		expect(&records[i], execs[i], 1, 0, 1, 1024);
	assert_true(cs_labels_tell_graphs(NOW_NS));
	assert_false(cs_labels_tell_graphs(NOW_NS));
	assert_int_equal(told(records, MANY), MANY - CS_TELL_GRAPHS);
	for (size_t i = 0; i < MANY - CS_TELL_GRAPHS; i++)
		expect(&records[i], execs[CS_TELL_GRAPHS + i], 1, 0, 1, 1024);
}

/* Fewer graphs are told of at once where they have more nodes than there is room for. */
static void
test_large(void **state)
{
	struct world_graph *graph = make();
	static struct cs_record records[64];
	uint32_t size = CS_TELL_NODES / 20;

	(void)state;
	for (uint32_t i = 0; i < size; i++)
		capture(graph, 64);
	for (size_t i = 0; i < 50; i++)
		instantiate(graph);
	assert_int_equal(tell(records, 64), 50);
	for (size_t i = 0; i < 50; i++) {
		assert_int_equal(records[i].sequence, size);
		assert_int_equal(records[i].value, size);
	}
}

/* -- the table ------------------------------------------------------------------------------------------- */

static size_t
count_due(struct cs_execs *execs, uint32_t last_id)
{
	size_t count = 0;
	uint64_t word;

	for (size_t i = 0; i < CS_EXECS; i++)
		count += cs_exec_is_due(&execs->slots[i], &word) && cs_exec_graph_id(word) <= last_id;
	return count;
}

static void
test_table(void **state)
{
	static struct cs_execs execs;
	uint64_t word;

	(void)state;
	cs_execs_touch(&execs, 7);
	assert_int_equal(count_due(&execs, UINT32_MAX), 0);
	for (uint32_t id = 1; id <= 2 * CS_EXECS; id++)
		cs_execs_note(&execs, id, CONTEXT_ID);
	/* Nothing that nobody has been told of is given up. */
	assert_true(count_due(&execs, CS_EXECS / 2) > CS_EXECS / 2 * 17 / 20);
	for (size_t i = 0; i < CS_EXECS; i++) {
		if (cs_exec_is_due(&execs.slots[i], &word))
			atomic_store(&execs.slots[i].told, word);
	}
	assert_int_equal(count_due(&execs, UINT32_MAX), 0);
	cs_execs_note(&execs, 3 * CS_EXECS, CONTEXT_ID);
	assert_int_equal(count_due(&execs, UINT32_MAX), 1);
	cs_execs_touch(&execs, 3 * CS_EXECS);
	assert_int_equal(count_due(&execs, UINT32_MAX), 1);
	for (uint32_t id = 4 * CS_EXECS; id < 5 * CS_EXECS; id++)
		cs_execs_note(&execs, id, CONTEXT_ID);
	assert_true(count_due(&execs, UINT32_MAX) > CS_EXECS * 3 / 4);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs_of_a_graph),
		cmocka_unit_test(test_only_the_first_runs),
		cmocka_unit_test(test_child_graphs),
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_doubt),
		cmocka_unit_test(test_no_ids),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
