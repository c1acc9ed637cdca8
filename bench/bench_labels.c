/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the label side costs per call, beside a callback that does nothing (two indirect calls, as every
 * enabled callback id has them):
 *
 *   launch    enter and exit of a launch: of an ordinary kernel (one hash lookup), of a collective outside
 * graphs (parameters read, label found, filed, host launch recorded), of a collective being captured clone
 * CLONED of an ordinary and of a labelled node; CUPTI's own id queries are not in it resolve   a record:
 * ordinary kernel of 16 and of 2,000 names, collective of a step with 854 nodes, eager one; telling of graphs
 * at capture, in the worker
 *
 * Median of several rounds, least and most beside it. Usage: bench_labels [rounds]
 */
#include "clock.h"
#include "labels_private.h"
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS_MAX 101
#define CALLS      100000U
#define FUNCTIONS  2000U
#define STEP_NODES 854U
#define CONTEXT_ID 1
#define ALL_REDUCE                                                                                           \
	"_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li8EEEvPNS_8RankDataENS_11RankSignalsEPNS_"     \
	"6SignalEPT_ii"

static const size_t sizes[] = {8, 64, 8, 8, 4, 4};
static char names[FUNCTIONS][160];
static uint64_t node_ids[2 * STEP_NODES];

static CUptiResult
get_graph_node_id(CUgraphNode node, uint64_t *id)
{
	*id = *(const uint64_t *)(const void *)node;
	return CUPTI_SUCCESS;
}

static CUptiResult
get_graph_id(CUgraph graph, uint32_t *id)
{
	(void)graph;
	*id = 1;
	return CUPTI_SUCCESS;
}

static CUptiResult
enable_callback(uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
	CUpti_CallbackId cbid)
{
	(void)enable, (void)subscriber, (void)domain, (void)cbid;
	return CUPTI_SUCCESS;
}

static CUresult
get_parameter(CUfunction function, size_t index, size_t *offset, size_t *bytes)
{
	(void)function;
	if (index >= sizeof(sizes) / sizeof(sizes[0]))
		return CUDA_ERROR_INVALID_VALUE;
	*offset = 0;
	*bytes = sizes[index];
	return CUDA_SUCCESS;
}

static const struct cs_cupti_api cupti = {
	.version = 130001,
	.enable_callback = enable_callback,
	.get_graph_node_id = get_graph_node_id,
	.get_graph_id = get_graph_id,
	.function_get_parameter = get_parameter,
};

/* -- measuring ----------------------------------------------------------------------------------------- */

static int
compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static void
measure(const char *what, int rounds, void (*run)(void), double *reference)
{
	double ns[ROUNDS_MAX];

	run();
	for (int i = 0; i < rounds; i++) {
		uint64_t start = cs_clock_monotonic_ns();

		run();
		ns[i] = (double)(cs_clock_monotonic_ns() - start) / CALLS;
	}
	qsort(ns, (size_t)rounds, sizeof(ns[0]), compare);
	printf("%-44s %7.1f ns  [%.1f, %.1f]", what, ns[rounds / 2], ns[0], ns[rounds - 1]);
	if (*reference > 0)
		printf("  %5.1f x nothing", ns[rounds / 2] / *reference);
	else
		*reference = ns[rounds / 2];
	printf("\n");
}

/* -- launches ------------------------------------------------------------------------------------------ */

static void (*volatile on_driver_api)(CUpti_CallbackId cbid, const CUpti_CallbackData *data);
static CUpti_CallbackData data;
static CUresult result;
static cuLaunchKernel_params params;
static uint64_t pointers[16];
static int32_t rank = 3, packs = 2688;
static void *kernel_params[] = {&pointers, &pointers, &pointers, &pointers, &rank, &packs};
static uint32_t correlation;
static bool capturing;

static void
nothing(CUpti_CallbackId cbid, const CUpti_CallbackData *callback_data)
{
	(void)cbid;
	__asm__ volatile("" : : "r"(callback_data) : "memory");
}

static void
launch(const void *function, const char *name)
{
	params.f = (CUfunction)(uintptr_t)function;
	data.callbackSite = CUPTI_API_ENTER;
	data.symbolName = name;
	data.correlationId = ++correlation;
	on_driver_api(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &data);
	if (capturing) {
		CUpti_GraphData graph = {.node = (CUgraphNode)(void *)&node_ids[correlation % STEP_NODES]};
		CUpti_ResourceData resource = {.resourceDescriptor = &graph};

		cs_labels_on_resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, &resource);
	}
	data.callbackSite = CUPTI_API_EXIT;
	on_driver_api(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &data);
}

static void
launch_ordinary(void)
{
	for (uint32_t i = 0; i < CALLS; i++)
		launch(names[i % 16], names[i % 16]);
}

static void
launch_many(void)
{
	for (uint32_t i = 0; i < CALLS; i++)
		launch(names[i % FUNCTIONS], names[i % FUNCTIONS]);
}

static void
launch_all_reduce(void)
{
	for (uint32_t i = 0; i < CALLS; i++)
		launch(ALL_REDUCE, ALL_REDUCE);
}

static void
clone(const uint64_t *node, const uint64_t *original)
{
	CUpti_GraphData graph = {
		.node = (CUgraphNode)(uintptr_t)node, .originalNode = (CUgraphNode)(uintptr_t)original};
	CUpti_ResourceData resource = {.resourceDescriptor = &graph};

	cs_labels_on_resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, &resource);
}

static void
clone_ordinary(void)
{
	uint64_t unknown[STEP_NODES];

	for (uint32_t i = 0; i < STEP_NODES; i++)
		unknown[i] = 9ULL << 32 | i;
	for (uint32_t i = 0; i < CALLS; i++)
		clone(&node_ids[STEP_NODES + i % STEP_NODES], &unknown[i % STEP_NODES]);
}

static void
clone_labelled(void)
{
	for (uint32_t i = 0; i < CALLS; i++)
		clone(&node_ids[STEP_NODES + i % STEP_NODES], &node_ids[i % STEP_NODES]);
}

/* -- records ------------------------------------------------------------------------------------------- */

static void
resolve(const char *name, uint64_t node_id, uint32_t correlation_id, enum cs_catalog_kind expected)
{
	struct cs_kernel_key key = {.name = name, .graph_node_id = node_id, .correlation_id = correlation_id};
	struct cs_kernel_identity identity;

	cs_labels_resolve(&key, &identity);
	if (identity.kind != expected || (expected == CS_CATALOG_COLLECTIVE && identity.bytes != 43008)) {
		fprintf(stderr, "bench_labels: wrong identity of %s\n", name);
		exit(1);
	}
}

static void
resolve_ordinary(void)
{
	for (uint32_t i = 0; i < CALLS; i++)
		resolve(names[i % 16], 5ULL << 32 | i, i, CS_CATALOG_NONE);
}

static void
resolve_many(void)
{
	for (uint32_t i = 0; i < CALLS; i++)
		resolve(names[i % FUNCTIONS], 5ULL << 32 | i, i, CS_CATALOG_NONE);
}

static void
resolve_node(void)
{
	for (uint32_t i = 0; i < CALLS; i++)
		resolve(ALL_REDUCE, node_ids[i % STEP_NODES], i, CS_CATALOG_COLLECTIVE);
}

static void
resolve_eager(void)
{
	for (uint32_t i = 0; i < CALLS; i++)
		resolve(ALL_REDUCE, 0, correlation - i % 1000, CS_CATALOG_COLLECTIVE);
}

/* 70 executables of 122 collectives each, as a server captures for one model: what the worker does once for
 * them. */
static void
tell_graphs(int rounds)
{
	struct cs_labels *labels = cs_labels_borrow();
	double ms[ROUNDS_MAX];

	for (uint64_t i = 0; i < 70 * 122; i++)
		cs_labels_file_node(labels, (1000 + i / 122) << 32 | (i % 122 * 7 + 5), CS_FILED | 1);
	for (int round = 0; round < rounds; round++) {
		uint64_t start;

		for (uint32_t i = 0; i < 70; i++)
			cs_execs_note(&labels->execs, 1000 + i, CONTEXT_ID);
		start = cs_clock_monotonic_ns();
		cs_labels_tell_graphs(cs_clock_realtime_ns());
		ms[round] = (double)(cs_clock_monotonic_ns() - start) / CS_NS_PER_MS;
	}
	qsort(ms, (size_t)rounds, sizeof(ms[0]), compare);
	printf("%-44s %7.2f ms  [%.2f, %.2f]\n", "telling of 70 graphs, 122 collectives each", ms[rounds / 2],
		ms[0], ms[rounds - 1]);
}

static void
lookup_yardstick(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < CALLS; i++)
		sum += cs_pair_hash((uint64_t)(uintptr_t)names[i % 16]);
	__asm__ volatile("" : : "r"(sum));
}

int
main(int argc, char **argv)
{
	struct cs_segment_options options = {.version = "bench"};
	struct cs_segment_writer *writer = NULL;
	struct cs_catalog *catalog = NULL;
	char directory[] = "/dev/shm/cs-bench-XXXXXX";
	char complaint[256] = "";
	int rounds = argc > 1 ? atoi(argv[1]) : 21;
	double reference = 0, hash = 0;

	if (rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: bench_labels [rounds, 1 to %d]\n", ROUNDS_MAX);
		return 2;
	}
	if (!mkdtemp(directory))
		return 1;
	options.directory = directory;
	if (cs_segment_writer_create(&options, &writer) != 0 ||
		cs_catalog_load(NULL, &catalog, complaint, sizeof(complaint)) != 0 ||
		cs_labels_init(&cupti, writer, catalog) != 0) {
		fprintf(stderr, "bench_labels: no segment in %s, or no catalogue: %s\n", directory,
			complaint);
		return 1;
	}
	cs_labels_set_gpu(CONTEXT_ID, 0);
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		snprintf(names[i], sizeof(names[i]),
			"_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEELi%"
			"uEEEEEv",
			i);
	for (uint32_t i = 0; i < STEP_NODES; i++) {
		node_ids[i] = 1ULL << 32 | i;
		node_ids[STEP_NODES + i] = 2ULL << 32 | i;
	}
	params.kernelParams = kernel_params;
	params.gridDimX = 4;
	data.functionParams = &params;
	data.functionReturnValue = &result;
	data.contextUid = CONTEXT_ID;

	on_driver_api = nothing;
	measure("callback that does nothing", rounds, launch_ordinary, &reference);
	on_driver_api = cs_labels_on_driver_api;
	measure("launch, ordinary kernel, 16 kernels", rounds, launch_ordinary, &reference);
	measure("launch, ordinary kernel, 2,000 kernels", rounds, launch_many, &reference);
	measure("launch, collective, eager", rounds, launch_all_reduce, &reference);
	measure("resolve, collective, eager", rounds, resolve_eager, &reference);
	capturing = true;
	measure("launch, collective, captured", rounds, launch_all_reduce, &reference);
	measure("node cloned, ordinary", rounds, clone_ordinary, &reference);
	measure("node cloned, labelled", rounds, clone_labelled, &reference);
	measure("hash of an address (yardstick)", rounds, lookup_yardstick, &hash);
	measure("resolve, ordinary kernel, 16 names", rounds, resolve_ordinary, &reference);
	measure("resolve, ordinary kernel, 2,000 names", rounds, resolve_many, &reference);
	measure("resolve, collective, graph node", rounds, resolve_node, &reference);
	tell_graphs(rounds);
	printf("label tables: %.2f MiB\n", (double)cs_labels_mapped_bytes() / (1 << 20));
	cs_segment_writer_destroy(writer, true);
	cs_catalog_destroy(catalog);
	return rmdir(directory) == 0 ? 0 : 1;
}
