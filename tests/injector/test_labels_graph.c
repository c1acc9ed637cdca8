/* SPDX-License-Identifier: Apache-2.0 */
/* Labels of graph nodes through capture, clones, child graphs, updates and destruction. */
#include "clock.h"
#include "labels_private.h"
#include "labels_world.h"

/* must come before cmocka.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define UNKNOWN CS_BYTES_UNKNOWN

static struct world_vllm arguments;
static const struct world_launch all_reduce = {.function = &world_vllm, .kernel_params = arguments.params};
static const struct world_launch ordinary = {.function = &world_ordinary, .kernel_params = arguments.params};

static struct world_node *
capture(struct world_graph *graph, int32_t packs)
{
	world_vllm_fill(&arguments, 1, packs);
	return world_capture(graph, packs ? &all_reduce : &ordinary);
}

/* What a record of this node with the all-reduce's name gets, launched by this call. */
static uint64_t
bytes_at(uint64_t node_id, uint32_t correlation_id)
{
	struct cs_kernel_identity identity = world_resolve(WORLD_VLLM, node_id, correlation_id);

	assert_int_equal(identity.kind, CS_CATALOG_COLLECTIVE);
	return identity.bytes;
}

/* Launched now. */
static uint64_t
bytes_of(uint64_t node_id)
{
	return bytes_at(node_id, world_next_correlation());
}

static uint64_t
live(void)
{
	return atomic_load(&world_status()->nodes_labelled);
}

static void
test_replays_of_every_executable_are_labelled(void **state)
{
	struct world_graph *graph = world_graph_create();
	struct world_graph *execs[2];
	uint64_t before = live(), begin_ns = cs_clock_monotonic_ns();

	(void)state;
	capture(graph, 0);
	capture(graph, 64);
	capture(graph, 0);
	capture(graph, 128);
	for (size_t i = 0; i < 2; i++)
		execs[i] = world_instantiate(graph);
	assert_int_equal(live() - before, 6);
	for (size_t i = 0; i < 2; i++) {
		world_graph_launch(execs[i]);
		assert_int_equal(bytes_of(execs[i]->nodes[1]->id), 1024);
		assert_int_equal(bytes_of(execs[i]->nodes[3]->id), 2048);
	}
	/* CLOCK_MONOTONIC, which counts from boot, not from 1970; the coarse one, some milliseconds behind.
	 */
	assert_in_range(cs_labels_last_graph_ns(), begin_ns - CS_NS_PER_S, cs_clock_monotonic_ns());
	/* The graph may go before its executables. */
	world_destroy_graph(graph);
	assert_int_equal(bytes_of(execs[0]->nodes[3]->id), 2048);
	world_destroy_exec(execs[0]);
	assert_int_equal(bytes_of(execs[1]->nodes[1]->id), 1024);
	world_destroy_exec(execs[1]);
	assert_int_equal(live(), before);
}

/* Records of a graph's last launches come after the graph was destroyed. */
static void
test_labels_outlive_their_graph_for_a_while(void **state)
{
	struct world_graph *graph = world_graph_create();
	struct world_graph *exec, *many;
	uint64_t before = live(), id;

	(void)state;
	capture(graph, 64);
	exec = world_instantiate(graph);
	id = exec->nodes[0]->id;
	world_destroy_exec(exec);
	world_destroy_graph(graph);
	assert_int_equal(live(), before);
	assert_int_equal(bytes_of(id), 1024);
	many = world_graph_create();
	for (uint32_t i = 0; i < CS_RETIRED_NODES; i++)
		capture(many, 64);
	assert_int_equal(bytes_of(id), 1024);
	world_destroy_graph(many);
	assert_int_equal(bytes_of(id), UNKNOWN);
}

static void
test_nobody_gets_another_nodes_label(void **state)
{
	struct world_graph *graph = world_graph_create();
	struct world_graph *exec;
	uint64_t reason = world_unlabelled(CS_UNLABELLED_NO_LEDGER);

	(void)state;
	/* The last call before the instantiation is a launch with a label: CREATED of the clones is not
	 * inside it. */
	capture(graph, 0);
	capture(graph, 64);
	exec = world_instantiate(graph);
	assert_int_equal(bytes_of(exec->nodes[0]->id), UNKNOWN);
	assert_int_equal(world_unlabelled(CS_UNLABELLED_NO_LEDGER), reason + 1);
	assert_int_equal(world_resolve(WORLD_ORDINARY, exec->nodes[1]->id, 1).kind, CS_CATALOG_NONE);
	/* A label of another kernel than the record's is not believed. */
	assert_int_equal(world_resolve(WORLD_NCCL, exec->nodes[1]->id, 1).bytes, UNKNOWN);
	world_destroy_graph(graph);
	world_destroy_exec(exec);
}

static void
test_clones_of_clones(void **state)
{
	struct world_graph *graphs[4];
	struct world_graph *exec;
	uint64_t before = live();

	(void)state;
	graphs[0] = world_graph_create();
	capture(graphs[0], 96);
	for (size_t i = 1; i < 4; i++) {
		graphs[i] = world_clone(graphs[i - 1]);
		world_destroy_graph(graphs[i - 1]);
	}
	exec = world_instantiate(graphs[3]);
	assert_int_equal(bytes_of(exec->nodes[0]->id), 1536);
	world_destroy_graph(graphs[3]);
	world_destroy_exec(exec);
	assert_int_equal(live(), before);
}

/* Nodes of a child graph run under ids that no event has named. */
static void
test_child_graphs_move_into_the_executable(void **state)
{
	struct world_graph *inner = world_graph_create();
	struct world_graph *parent = world_graph_create();
	struct world_graph *exec;
	uint64_t before = live();

	(void)state;
	capture(inner, 64);
	capture(inner, 0);
	capture(inner, 128);
	world_add_child(parent, inner);
	capture(parent, 256);
	world_add_child(parent, inner);
	exec = world_instantiate(parent);
	assert_int_equal(exec->node_count, 9);
	assert_int_equal(bytes_of(exec->nodes[1]->id), 4096);
	assert_int_equal(bytes_of(exec->nodes[3]->id), 1024);
	assert_int_equal(bytes_of(exec->nodes[4]->id), UNKNOWN);
	assert_int_equal(bytes_of(exec->nodes[5]->id), 2048);
	assert_int_equal(bytes_of(exec->nodes[6]->id), 1024);
	assert_int_equal(bytes_of(exec->nodes[8]->id), 2048);
	world_destroy_exec(exec);
	world_destroy_graph(parent);
	world_destroy_graph(inner);
	assert_int_equal(live(), before);
	assert_int_equal(atomic_load(&world_gone_queries), 0);
}

/* A graph of one kernel and a child graph of two, which holds a child graph of one. */
static struct world_graph *
family(int32_t packs)
{
	struct world_graph *innermost = world_graph_create();
	struct world_graph *inner = world_graph_create();
	struct world_graph *parent = world_graph_create();

	capture(innermost, packs + 3);
	capture(inner, packs + 1);
	world_add_child(inner, innermost);
	capture(inner, packs + 2);
	capture(parent, packs);
	world_add_child(parent, inner);
	world_destroy_graph(innermost);
	world_destroy_graph(inner);
	return parent;
}

/* The kernels of an executable (or graph) made by family(), in the order of their sizes. */
static void
expect_family(struct world_graph *graph, uint32_t launch, const int32_t packs[4])
{
	struct world_node *nodes[4];

	assert_int_equal(world_kernel_nodes(graph, nodes, 4), 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(
			bytes_at(nodes[i]->id, launch), packs[i] ? (uint64_t)packs[i] * 16 : UNKNOWN);
}

static void
test_child_graphs_in_child_graphs(void **state)
{
	struct world_graph *parent = family(64);
	struct world_graph *exec = world_instantiate(parent);
	struct world_graph *source = family(128);
	uint64_t before = live();
	uint32_t launch;

	(void)state;
	expect_family(exec, world_graph_launch(exec), (int32_t[]){64, 65, 66, 67});
	launch = world_graph_launch(exec);
	world_update(exec, source, true);
	expect_family(exec, world_graph_launch(exec), (int32_t[]){128, 129, 130, 131});
	expect_family(exec, launch, (int32_t[]){64, 65, 66, 67});
	assert_int_equal(live(), before);
	world_destroy_graph(source);
	world_destroy_graph(parent);
	expect_family(exec, world_graph_launch(exec), (int32_t[]){128, 129, 130, 131});
	world_destroy_exec(exec);
	assert_int_equal(live(), before - 12);
	assert_int_equal(atomic_load(&world_gone_queries), 0);
}

static void
test_a_child_graph_is_replaced(void **state)
{
	struct world_graph *parent = family(64);
	struct world_graph *execs[2] = {world_instantiate(parent), world_instantiate(parent)};
	struct world_graph *sources[2] = {family(128), family(192)};
	uint32_t first = world_graph_launch(execs[0]), second;

	(void)state;
	world_set_child(execs[0], parent->nodes[1], sources[0]->nodes[1]->child, true, false);
	second = world_graph_launch(execs[0]);
	world_set_child(execs[0], parent->nodes[1], sources[1]->nodes[1]->child, true, true);
	expect_family(execs[0], world_graph_launch(execs[0]), (int32_t[]){64, 193, 194, 195});
	expect_family(execs[0], second, (int32_t[]){64, 129, 130, 131});
	expect_family(execs[0], first, (int32_t[]){64, 65, 66, 67});
	expect_family(execs[1], world_graph_launch(execs[1]), (int32_t[]){64, 65, 66, 67});
	for (size_t i = 0; i < 2; i++) {
		world_destroy_exec(execs[i]);
		world_destroy_graph(sources[i]);
	}
	world_destroy_graph(parent);
}

/* CUPTI before 13.0 says nothing, whichever call it is; launches made before are as they were. */
static void
test_a_child_graph_is_replaced_in_silence(void **state)
{
	struct world_graph *parent = family(64);
	struct world_graph *source = family(128);

	(void)state;
	for (unsigned int which = 0; which < 4; which++) {
		struct world_graph *exec = world_instantiate(parent);
		uint32_t before = world_graph_launch(exec);

		/* Nor is it believed when a version that speaks says nothing. */
		world_cupti.version = which < 2 ? 24 : 130001;
		world_set_child(exec, parent->nodes[1], source->nodes[1]->child, false, which & 1);
		world_cupti.version = 130001;
		expect_family(exec, world_graph_launch(exec), (int32_t[]){0, 0, 0, 0});
		expect_family(exec, before, (int32_t[]){64, 65, 66, 67});
		world_destroy_exec(exec);
	}
	world_destroy_graph(source);
	world_destroy_graph(parent);
}

static void
test_more_nodes_of_child_graphs_than_can_move(void **state)
{
	struct world_graph *inner = world_graph_create();
	struct world_graph *parent = world_graph_create();
	struct world_graph *crowded, *exec;
	struct world_node *nodes[CS_MOVED_NODES_MAX + 8];
	uint64_t child_full = world_unlabelled(CS_UNLABELLED_CHILD_FULL);
	uint64_t no_ledger = world_unlabelled(CS_UNLABELLED_NO_LEDGER);
	uint32_t known = 0;

	(void)state;
	for (uint32_t i = 0; i < CS_MOVED_NODES_MAX + 8; i++)
		capture(inner, 64);
	world_add_child(parent, inner);
	crowded = world_instantiate(parent);
	assert_int_equal(world_kernel_nodes(crowded, nodes, CS_MOVED_NODES_MAX + 8), CS_MOVED_NODES_MAX + 8);
	for (uint32_t i = 0; i < CS_MOVED_NODES_MAX + 8; i++)
		known += bytes_of(nodes[i]->id) == 1024;
	assert_int_equal(known, CS_MOVED_NODES_MAX);
	assert_int_equal(world_unlabelled(CS_UNLABELLED_CHILD_FULL), child_full + 8);
	assert_int_equal(world_unlabelled(CS_UNLABELLED_NO_LEDGER), no_ledger);
	/* Others are not said to be crowded. */
	world_destroy_graph(parent);
	parent = world_graph_create();
	capture(parent, 0);
	exec = world_instantiate(parent);
	assert_int_equal(bytes_of(exec->nodes[0]->id), UNKNOWN);
	assert_int_equal(world_unlabelled(CS_UNLABELLED_NO_LEDGER), no_ledger + 1);
	world_destroy_exec(exec);
	world_destroy_exec(crowded);
	world_destroy_graph(parent);
	world_destroy_graph(inner);
}

static void
test_recapture(void **state)
{
	uint64_t before = live();

	(void)state;
	for (int32_t round = 1; round <= 50; round++) {
		struct world_graph *graph = world_graph_create();
		struct world_graph *exec;

		for (int32_t i = 0; i < 20; i++)
			capture(graph, i % 2 ? round : 0);
		exec = world_instantiate(graph);
		world_destroy_graph(graph);
		for (uint32_t i = 1; i < 20; i += 2)
			assert_int_equal(bytes_of(exec->nodes[i]->id), (uint64_t)round * 16);
		assert_int_equal(live(), before + 10);
		world_destroy_exec(exec);
	}
	assert_int_equal(live(), before);
}

static void
test_failed_capture_leaves_nothing(void **state)
{
	struct world_launch failing = all_reduce;
	struct world_graph *graph = world_graph_create();
	uint64_t before = live();
	uint64_t eager = cs_labels_eager_collectives();

	(void)state;
	failing.fails = true;
	world_vllm_fill(&arguments, 1, 64);
	world_capture(graph, &failing);
	assert_int_equal(live(), before);
	assert_int_equal(cs_labels_eager_collectives(), eager);
	/* and a captured one is no eager one */
	capture(graph, 64);
	assert_int_equal(cs_labels_eager_collectives(), eager);
	world_destroy_graph(graph);
}

static void
test_nodes_made_by_hand(void **state)
{
	struct world_launch by_kernel = {.function = &world_vllm_kernel, .kernel_params = arguments.params};
	struct world_graph *graph = world_graph_create();
	struct world_graph *exec;

	(void)state;
	world_vllm_fill(&arguments, 1, 64);
	world_add_node(graph, &all_reduce);
	world_vllm_fill(&arguments, 1, 80);
	/* Its name is known from a launch; the call itself tells none, and the driver not for this handle. */
	world_eager(&by_kernel);
	world_add_node(graph, &by_kernel);
	exec = world_instantiate(graph);
	assert_int_equal(bytes_of(exec->nodes[0]->id), 1024);
	assert_int_equal(bytes_of(exec->nodes[1]->id), 1280);
	world_destroy_graph(graph);
	world_destroy_exec(exec);
}

static void
test_parameters_set_on_a_graphs_node(void **state)
{
	struct world_graph *graph = world_graph_create();
	struct world_graph *old, *new;
	struct world_launch failing = all_reduce;

	(void)state;
	capture(graph, 64);
	capture(graph, 64);
	old = world_instantiate(graph);
	world_vllm_fill(&arguments, 1, 128);
	world_set_node(graph->nodes[0], &all_reduce);
	world_set_node(graph->nodes[1], &ordinary);
	failing.fails = true;
	world_vllm_fill(&arguments, 1, 512);
	world_set_node(graph->nodes[0], &failing);
	new = world_instantiate(graph);
	assert_int_equal(bytes_of(old->nodes[0]->id), 1024);
	assert_int_equal(bytes_of(old->nodes[1]->id), 1024);
	assert_int_equal(bytes_of(new->nodes[0]->id), 2048);
	assert_int_equal(bytes_of(new->nodes[1]->id), UNKNOWN);
	world_destroy_graph(graph);
	world_destroy_exec(old);
	world_destroy_exec(new);
}

static void
test_parameters_set_on_an_executables_node(void **state)
{
	struct world_graph *graph = world_graph_create();
	struct world_graph *execs[2];

	(void)state;
	capture(graph, 0);
	capture(graph, 64);
	capture(graph, 64);
	for (size_t i = 0; i < 2; i++)
		execs[i] = world_instantiate(graph);
	world_vllm_fill(&arguments, 1, 128);
	world_set_exec(execs[0], graph->nodes[1], &all_reduce, true);
	world_set_exec(execs[0], graph->nodes[2], &ordinary, true);
	world_set_exec(execs[0], graph->nodes[0], &all_reduce, true);
	assert_int_equal(bytes_of(execs[0]->nodes[0]->id), 2048);
	assert_int_equal(bytes_of(execs[0]->nodes[1]->id), 2048);
	assert_int_equal(bytes_of(execs[0]->nodes[2]->id), UNKNOWN);
	/* neither the graph nor the other executable */
	assert_int_equal(bytes_of(graph->nodes[1]->id), 1024);
	assert_int_equal(bytes_of(execs[1]->nodes[1]->id), 1024);
	assert_int_equal(bytes_of(execs[1]->nodes[2]->id), 1024);
	world_destroy_graph(graph);
	for (size_t i = 0; i < 2; i++)
		world_destroy_exec(execs[i]);
}

static void
test_an_executable_takes_over_another_graph(void **state)
{
	struct world_graph *graph = world_graph_create();
	struct world_graph *source = world_graph_create();
	struct world_graph *exec;
	uint64_t before = live();

	(void)state;
	capture(graph, 64);
	capture(graph, 0);
	capture(graph, 128);
	exec = world_instantiate(graph);
	capture(source, 192);
	capture(source, 256);
	capture(source, 0);
	world_update(exec, source, true);
	world_destroy_graph(source);
	assert_int_equal(bytes_of(exec->nodes[0]->id), 3072);
	assert_int_equal(bytes_of(exec->nodes[1]->id), 4096);
	assert_int_equal(bytes_of(exec->nodes[2]->id), UNKNOWN);
	assert_int_equal(bytes_of(graph->nodes[0]->id), 1024);
	world_destroy_graph(graph);
	world_destroy_exec(exec);
	assert_int_equal(live(), before);
}

/* Records come later than the calls that change or end what they are of. */
static void
test_late_records_keep_what_they_were_launched_with(void **state)
{
	enum { CHANGES = 6 };
	struct world_graph *graph = world_graph_create();
	struct world_graph *exec;
	uint32_t launched[CHANGES + 1];
	uint64_t ids[2];
	uint64_t before = live();

	(void)state;
	capture(graph, 64);
	capture(graph, 0);
	exec = world_instantiate(graph);
	ids[0] = exec->nodes[0]->id;
	ids[1] = exec->nodes[1]->id;
	launched[0] = world_graph_launch(exec);
	for (int32_t i = 1; i <= CHANGES; i++) {
		struct world_graph *source = world_graph_create();

		capture(source, i % 3 == 0 ? 0 : 64 + 16 * i);
		capture(source, 32 * i);
		world_update(exec, source, true);
		world_destroy_graph(source);
		launched[i] = world_graph_launch(exec);
		/* The same again changes nothing. */
		world_update(exec, exec, true);
	}
	world_destroy_exec(exec);
	world_destroy_graph(graph);
	assert_int_equal(bytes_at(ids[0], launched[0]), 1024);
	assert_int_equal(bytes_at(ids[1], launched[0]), UNKNOWN);
	for (int32_t i = 1; i <= CHANGES; i++) {
		assert_int_equal(
			bytes_at(ids[0], launched[i]), i % 3 == 0 ? UNKNOWN : (64 + 16 * (uint64_t)i) * 16);
		assert_int_equal(bytes_at(ids[1], launched[i]), 512 * (uint64_t)i);
	}
	assert_int_equal(live(), before);
}

/* What was forgotten is unknown, never the label before or after. */
static void
test_forgotten_changes_are_unknown(void **state)
{
	enum { CHANGES = 40 };
	struct world_graph *graph = world_graph_create();
	struct world_graph *exec;
	uint32_t launched[CHANGES + 1];
	uint32_t known = 0;

	(void)state;
	capture(graph, 1);
	exec = world_instantiate(graph);
	launched[0] = world_graph_launch(exec);
	for (int32_t i = 1; i <= CHANGES; i++) {
		world_vllm_fill(&arguments, 1, i + 1);
		world_set_exec(exec, graph->nodes[0], &all_reduce, true);
		launched[i] = world_graph_launch(exec);
	}
	for (uint32_t i = 0; i <= CHANGES; i++) {
		uint64_t bytes = bytes_at(exec->nodes[0]->id, launched[i]);

		assert_true(bytes == UNKNOWN || bytes == (i + 1) * 16ULL);
		known += bytes != UNKNOWN;
	}
	assert_int_equal(known, 1 + CS_HISTORY_WAYS);
	world_destroy_graph(graph);
	world_destroy_exec(exec);
}

/* Before CUDA 13.0 nothing tells which of the executable's nodes changed. */
static void
test_silent_updates_put_the_labels_in_doubt(void **state)
{
	struct world_graph *graph = world_graph_create();
	struct world_graph *source = world_graph_create();
	struct world_graph *exec, *other;
	uint64_t reason = world_unlabelled(CS_UNLABELLED_NO_LEDGER);

	(void)state;
	world_cupti.version = 26;
	capture(graph, 64);
	exec = world_instantiate(graph);
	other = world_instantiate(graph);
	capture(source, 128);
	world_update(exec, source, false);
	assert_int_equal(bytes_of(exec->nodes[0]->id), UNKNOWN);
	assert_int_equal(world_unlabelled(CS_UNLABELLED_NO_LEDGER), reason + 1);
	assert_int_equal(bytes_of(other->nodes[0]->id), 1024);
	world_destroy_exec(exec);
	/* A single node whose clone was seen with the same ordinal is still known. */
	world_vllm_fill(&arguments, 1, 256);
	world_set_exec(other, graph->nodes[0], &all_reduce, false);
	assert_int_equal(bytes_of(other->nodes[0]->id), 4096);
	world_set_exec(other, graph->nodes[0], &ordinary, false);
	assert_int_equal(bytes_of(other->nodes[0]->id), UNKNOWN);
	world_cupti.version = 130001;
	world_destroy_exec(other);
	world_destroy_graph(graph);
	world_destroy_graph(source);
}

/* A changed node (packs 0: to an ordinary kernel), and a graph in doubt, half of all ids later: by their
 * numbers these launches would come before the change. */
static void
test_changes_outlive_the_ids_of_calls(void **state)
{
	const uint32_t half = 1U << 31;
	struct world_graph *graph = world_graph_create();
	struct world_graph *source = world_graph_create();
	struct world_graph *exec, *doubted;
	uint64_t ids[2];
	uint32_t launched, later;

	(void)state;
	capture(graph, 64);
	capture(graph, 64);
	exec = world_instantiate(graph);
	doubted = world_instantiate(graph);
	ids[0] = exec->nodes[0]->id;
	ids[1] = exec->nodes[1]->id;
	launched = world_graph_launch(exec);
	capture(source, 128);
	capture(source, 0);
	world_update(exec, source, true);
	world_cupti.version = 26;
	world_update(doubted, source, false);
	world_cupti.version = 130001;
	/* Once: records of launches before the change may be under way. */
	cs_labels_age_calls();
	assert_int_equal(bytes_at(ids[0], launched), 1024);
	assert_int_equal(bytes_at(ids[1], launched), 1024);
	assert_int_equal(bytes_of(ids[0]), 2048);
	cs_labels_age_calls();
	later = world_next_correlation() + half;
	assert_int_equal(bytes_at(ids[0], later), 2048);
	assert_int_equal(bytes_at(ids[1], later), UNKNOWN);
	assert_int_equal(bytes_at(doubted->nodes[0]->id, later), UNKNOWN);
	/* It can be changed again, and launches before that keep what they had. */
	launched = world_graph_launch(exec);
	world_vllm_fill(&arguments, 1, 256);
	world_set_exec(exec, graph->nodes[0], &all_reduce, true);
	assert_int_equal(bytes_of(ids[0]), 4096);
	assert_int_equal(bytes_at(ids[0], launched), 2048);
	world_destroy_exec(exec);
	world_destroy_exec(doubted);
	world_destroy_graph(graph);
	world_destroy_graph(source);
}

/* Callbacks go off in the middle of a call and come back: what was begun is void. */
static void
test_a_call_cut_in_half(void **state)
{
	cuLaunchKernel_params params = {
		.f = (CUfunction)(uintptr_t)&world_vllm, .kernelParams = arguments.params};
	CUpti_CallbackData data = {.callbackSite = CUPTI_API_ENTER,
		.functionParams = &params,
		.symbolName = WORLD_VLLM,
		.correlationId = 77};
	struct world_node node = {.id = 0x7000000000000001};
	CUpti_GraphData graph = {.node = (CUgraphNode)&node};
	CUpti_ResourceData resource = {.resourceDescriptor = &graph};
	uint64_t before = live();

	(void)state;
	world_vllm_fill(&arguments, 1, 64);
	cs_labels_on_driver_api(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &data);
	assert_int_equal(cs_labels_enable(NULL, false, NULL), 0);
	assert_int_equal(cs_labels_enable(NULL, true, NULL), 0);
	cs_labels_on_resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, &resource);
	assert_int_equal(live(), before);
	data.callbackSite = CUPTI_API_EXIT;
	cs_labels_on_driver_api(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &data);
	assert_int_equal(world_resolve(WORLD_VLLM, 0, 77).bytes, UNKNOWN);
}

/* A call whose exit was not shown ends where the thread's next one begins. */
static void
test_a_call_without_an_end(void **state)
{
	cuLaunchKernel_params params = {
		.f = (CUfunction)(uintptr_t)&world_vllm, .kernelParams = arguments.params};
	CUpti_CallbackData data = {.callbackSite = CUPTI_API_ENTER,
		.functionParams = &params,
		.symbolName = WORLD_VLLM,
		.correlationId = 78};
	struct world_graph *graph = world_graph_create();
	uint64_t before = live();

	(void)state;
	world_vllm_fill(&arguments, 1, 64);
	cs_labels_on_driver_api(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &data);
	capture(graph, 0);
	assert_int_equal(live(), before);
	assert_int_equal(world_resolve(WORLD_VLLM, 0, 78).bytes, UNKNOWN);
	world_destroy_graph(graph);
}

static void
test_full_ledger_is_said(void **state)
{
	struct cs_ledger *ledger = cs_labels_borrow()->ledger;
	struct world_graph *graph = world_graph_create();
	uint64_t reason = world_unlabelled(CS_UNLABELLED_LEDGER_FULL);
	uint32_t missing = 0;

	(void)state;
	for (uint64_t i = 0; i < 2ULL * CS_LEDGER_SLOTS; i++)
		cs_ledger_put(ledger, 0x7fffffffULL << 32 | i, CS_FILED);
	for (uint32_t i = 0; i < 64; i++)
		capture(graph, 64);
	for (uint32_t i = 0; i < 64; i++)
		missing += bytes_of(graph->nodes[i]->id) == UNKNOWN;
	assert_true(missing > 0);
	assert_int_equal(world_unlabelled(CS_UNLABELLED_LEDGER_FULL) - reason, missing);
	for (uint64_t i = 0; i < 2ULL * CS_LEDGER_SLOTS; i++)
		cs_ledger_remove(ledger, 0x7fffffffULL << 32 | i);
	capture(graph, 64);
	assert_int_equal(bytes_of(graph->nodes[64]->id), 1024);
	world_destroy_graph(graph);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replays_of_every_executable_are_labelled),
		cmocka_unit_test(test_labels_outlive_their_graph_for_a_while),
		cmocka_unit_test(test_nobody_gets_another_nodes_label),
		cmocka_unit_test(test_clones_of_clones),
		cmocka_unit_test(test_child_graphs_move_into_the_executable),
		cmocka_unit_test(test_child_graphs_in_child_graphs),
		cmocka_unit_test(test_a_child_graph_is_replaced),
		cmocka_unit_test(test_a_child_graph_is_replaced_in_silence),
		cmocka_unit_test(test_more_nodes_of_child_graphs_than_can_move),
		cmocka_unit_test(test_recapture),
		cmocka_unit_test(test_failed_capture_leaves_nothing),
		cmocka_unit_test(test_nodes_made_by_hand),
		cmocka_unit_test(test_parameters_set_on_a_graphs_node),
		cmocka_unit_test(test_parameters_set_on_an_executables_node),
		cmocka_unit_test(test_an_executable_takes_over_another_graph),
		cmocka_unit_test(test_late_records_keep_what_they_were_launched_with),
		cmocka_unit_test(test_forgotten_changes_are_unknown),
		cmocka_unit_test(test_silent_updates_put_the_labels_in_doubt),
		cmocka_unit_test(test_changes_outlive_the_ids_of_calls),
		cmocka_unit_test(test_a_call_cut_in_half),
		cmocka_unit_test(test_a_call_without_an_end),
		cmocka_unit_test(test_full_ledger_is_said),
	};

	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
