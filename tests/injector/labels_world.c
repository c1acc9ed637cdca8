/* SPDX-License-Identifier: Apache-2.0 */
#include "labels_world.h"

/* must come before cmocka.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONTEXT_ID 3

struct cs_segment_writer *world_writer;
_Atomic uint32_t world_gone_queries;
static struct cs_catalog *catalog;
static char directory[64];
static _Atomic uint32_t next_correlation = 100;
static _Atomic uint32_t next_graph = 1;

const struct world_function world_vllm = {WORLD_VLLM, 6, {8, 64, 8, 8, 4, 4}, false};
const struct world_function world_vllm_new = {WORLD_VLLM, 6, {8, 128, 8, 8, 4, 4}, false};
const struct world_function world_vllm_kernel = {WORLD_VLLM, 6, {8, 64, 8, 8, 4, 4}, true};
const struct world_function world_vllm_odd = {WORLD_VLLM, 6, {8, 96, 8, 8, 4, 4}, false};
const struct world_function world_ordinary = {WORLD_ORDINARY, 1, {4}, false};
const struct world_function world_nccl = {WORLD_NCCL, 1, {4096}, false};

/* -- CUPTI and driver ---------------------------------------------------------------------------------- */

static CUptiResult
get_graph_node_id(CUgraphNode handle, uint64_t *id)
{
	const struct world_node *node = (const struct world_node *)handle;

	if (!node)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (node->destroyed)
		atomic_fetch_add(&world_gone_queries, 1);
	*id = node->id;
	return CUPTI_SUCCESS;
}

static CUptiResult
get_graph_id(CUgraph handle, uint32_t *id)
{
	if (!handle)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*id = ((const struct world_graph *)handle)->id;
	return CUPTI_SUCCESS;
}

static CUptiResult
get_graph_exec_id(CUgraphExec handle, uint32_t *id)
{
	return get_graph_id((CUgraph)handle, id);
}

/* Driver calls that callbacks were asked for; the others are not shown. */
#define CBIDS_MAX 1024U
static _Atomic bool listened[CBIDS_MAX];

static CUptiResult
enable_callback(uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
	CUpti_CallbackId cbid)
{
	(void)subscriber;
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API && cbid < CBIDS_MAX)
		atomic_store(&listened[cbid], enable != 0);
	return CUPTI_SUCCESS;
}

static CUresult
parameter(const struct world_function *function, bool is_kernel, size_t index, size_t *offset, size_t *bytes)
{
	size_t at = 0;

	if (function->is_kernel != is_kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	if (index >= function->parameter_count)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i <= index; i++) {
		size_t align = function->sizes[i] >= 8 ? 8 : 4;

		at = (at + align - 1) / align * align;
		*offset = at;
		at += function->sizes[i];
	}
	*bytes = function->sizes[index];
	return CUDA_SUCCESS;
}

static CUresult
function_get_parameter(CUfunction function, size_t index, size_t *offset, size_t *bytes)
{
	return parameter((const struct world_function *)function, false, index, offset, bytes);
}

static CUresult
kernel_get_parameter(CUkernel kernel, size_t index, size_t *offset, size_t *bytes)
{
	return parameter((const struct world_function *)kernel, true, index, offset, bytes);
}

static CUresult
function_get_name(const char **name, CUfunction function)
{
	if (((const struct world_function *)function)->is_kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	*name = ((const struct world_function *)function)->name;
	return CUDA_SUCCESS;
}

struct cs_cupti_api world_cupti = {
	.version = 130001,
	.enable_callback = enable_callback,
	.get_graph_node_id = get_graph_node_id,
	.get_graph_id = get_graph_id,
	.get_graph_exec_id = get_graph_exec_id,
	.function_get_parameter = function_get_parameter,
	.kernel_get_parameter = kernel_get_parameter,
	.function_get_name = function_get_name,
};

int
world_setup(void **state)
{
	struct cs_segment_options options = {.ring_slots = 1024, .version = "test"};
	char complaint[256] = "";

	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/cs-labels-XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	options.directory = directory;
	if (cs_segment_writer_create(&options, &world_writer) != 0)
		return -1;
	if (cs_catalog_load(NULL, &catalog, complaint, sizeof(complaint)) != 0) {
		fprintf(stderr, "%s\n", complaint);
		return -1;
	}
	if (cs_labels_init(&world_cupti, world_writer, catalog) != 0)
		return -1;
	cs_labels_set_gpu(CONTEXT_ID, 2);
	return cs_labels_enable(NULL, true, NULL);
}

int
world_teardown(void **state)
{
	(void)state;
	cs_segment_writer_destroy(world_writer, true);
	cs_catalog_destroy(catalog);
	return rmdir(directory);
}

struct cs_status *
world_status(void)
{
	return cs_segment_writer_status(world_writer);
}

uint64_t
world_unlabelled(enum cs_unlabelled_reason reason)
{
	return atomic_load(&world_status()->unlabelled[reason]);
}

void
world_vllm_fill(struct world_vllm *arguments, int32_t rank, int32_t packs)
{
	memset(arguments, 0, sizeof(*arguments));
	arguments->rank = rank;
	arguments->packs = packs;
	arguments->params[0] = &arguments->pointers[0];
	arguments->params[1] = arguments->signals;
	arguments->params[2] = &arguments->pointers[1];
	arguments->params[3] = &arguments->pointers[2];
	arguments->params[4] = &arguments->rank;
	arguments->params[5] = &arguments->packs;
}

/* -- calls --------------------------------------------------------------------------------------------- */

struct call {
	CUpti_CallbackId cbid;
	CUpti_CallbackData data;
	CUresult result;
};

static void
enter(struct call *call, CUpti_CallbackId cbid, const void *params, const char *symbol)
{
	*call = (struct call){.cbid = cbid};
	call->data.callbackSite = CUPTI_API_ENTER;
	call->data.functionParams = params;
	call->data.symbolName = symbol;
	call->data.contextUid = CONTEXT_ID;
	call->data.correlationId = atomic_fetch_add(&next_correlation, 1);
	call->data.functionReturnValue = &call->result;
	if (atomic_load(&listened[cbid]))
		cs_labels_on_driver_api(cbid, &call->data);
}

static uint32_t
leave(struct call *call, bool failed)
{
	call->result = failed ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
	call->data.callbackSite = CUPTI_API_EXIT;
	if (atomic_load(&listened[call->cbid]))
		cs_labels_on_driver_api(call->cbid, &call->data);
	return call->data.correlationId;
}

static void
graph_event(CUpti_CallbackId cbid, CUpti_GraphData data)
{
	CUpti_ResourceData resource = {.resourceDescriptor = &data};

	cs_labels_on_resource(cbid, &resource);
}

static void
node_event(CUpti_CallbackId cbid, struct world_node *node, struct world_node *original)
{
	CUpti_GraphData data = {.node = (CUgraphNode)node, .originalNode = (CUgraphNode)original};

	graph_event(cbid, data);
}

static cuLaunchKernel_params
launch_params(const struct world_launch *launch)
{
	return (cuLaunchKernel_params){.f = (CUfunction)(uintptr_t)launch->function,
		.gridDimX = 4,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 512,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = launch->kernel_params,
		.extra = launch->extra};
}

uint32_t
world_eager(const struct world_launch *launch)
{
	cuLaunchKernel_params params = launch_params(launch);
	struct call call;

	enter(&call, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &params, launch->function->name);
	return leave(&call, launch->fails);
}

uint32_t
world_eager_ex(const struct world_launch *launch)
{
	CUlaunchConfig config = {.gridDimX = 4, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 512};
	cuLaunchKernelEx_params params = {.config = &config,
		.f = (CUfunction)(uintptr_t)launch->function,
		.kernelParams = launch->kernel_params,
		.extra = launch->extra};
	struct call call;

	enter(&call, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, &params, launch->function->name);
	return leave(&call, launch->fails);
}

static struct world_graph *
graph_new(struct world_graph *original)
{
	struct world_graph *graph = calloc(1, sizeof(*graph));

	graph->id = atomic_fetch_add(&next_graph, 1);
	graph->original = original;
	graph_event(CUPTI_CBID_RESOURCE_GRAPH_CREATED, (CUpti_GraphData){.graph = (CUgraph)graph});
	return graph;
}

struct world_graph *
world_graph_create(void)
{
	return graph_new(NULL);
}

static void
graph_put(struct world_graph *graph, struct world_node *node)
{
	if (graph->node_count == graph->node_capacity) {
		graph->node_capacity = graph->node_capacity ? 2 * graph->node_capacity : 16;
		graph->nodes = realloc(
			graph->nodes, graph->node_capacity * sizeof(struct world_node *)); /* NOLINT */
	}
	graph->nodes[graph->node_count++] = node;
	node->graph = graph;
	node->id = (uint64_t)graph->id << 32 | graph->next_ordinal++;
}

static struct world_node *
node_new(struct world_graph *graph)
{
	struct world_node *node = calloc(1, sizeof(*node));

	graph_put(graph, node);
	return node;
}

struct world_node *
world_capture(struct world_graph *graph, const struct world_launch *launch)
{
	cuLaunchKernel_params params = launch_params(launch);
	struct world_node *node = NULL;
	struct call call;

	enter(&call, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &params, launch->function->name);
	if (!launch->fails) {
		node = node_new(graph);
		node_event(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, node, NULL);
	}
	leave(&call, launch->fails);
	return node;
}

static CUDA_KERNEL_NODE_PARAMS
node_params(const struct world_launch *launch)
{
	CUDA_KERNEL_NODE_PARAMS params = {.gridDimX = 4,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 512,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = launch->kernel_params,
		.extra = launch->extra};

	if (launch->function->is_kernel)
		params.kern = (CUkernel)(uintptr_t)launch->function;
	else
		params.func = (CUfunction)(uintptr_t)launch->function;
	return params;
}

struct world_node *
world_add_node(struct world_graph *graph, const struct world_launch *launch)
{
	CUDA_KERNEL_NODE_PARAMS params = node_params(launch);
	cuGraphAddKernelNode_v2_params add = {.hGraph = (CUgraph)graph, .nodeParams = &params};
	struct world_node *node;
	struct call call;

	/* No symbol name in these calls. */
	enter(&call, CUPTI_DRIVER_TRACE_CBID_cuGraphAddKernelNode_v2, &add, NULL);
	node = node_new(graph);
	node_event(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, node, NULL);
	leave(&call, false);
	return node;
}

/* Nodes of `from` into `graph`; a child graph's before their own node is complete. */
static void
clone_nodes(struct world_graph *graph, struct world_graph *from)
{
	for (uint32_t i = 0; i < from->node_count; i++) {
		struct world_node *node;

		if (from->nodes[i]->destroyed)
			continue;
		node = node_new(graph);
		if (from->nodes[i]->child) {
			node->child = graph_new(from->nodes[i]->child);
			clone_nodes(node->child, from->nodes[i]->child);
		}
		node_event(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, node, NULL);
		node_event(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, node, from->nodes[i]);
	}
}

struct world_node *
world_add_child(struct world_graph *graph, struct world_graph *child)
{
	struct world_node *node = node_new(graph);

	node->child = graph_new(child);
	clone_nodes(node->child, child);
	node_event(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, node, NULL);
	return node;
}

struct world_graph *
world_clone(struct world_graph *graph)
{
	struct world_graph *clone = graph_new(graph);

	clone_nodes(clone, graph);
	return clone;
}

struct world_graph *
world_instantiate(struct world_graph *graph)
{
	CUgraphExec made = NULL;
	cuGraphInstantiateWithFlags_params params = {.hGraph = (CUgraph)graph, .phGraphExec = &made};
	struct world_graph *exec, *shadow;
	struct call call;

	enter(&call, CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags, &params, NULL);
	exec = graph_new(graph);
	clone_nodes(exec, graph);
	/* A second graph that nothing runs of. */
	shadow = graph_new(graph);
	free(shadow);
	/* What moves in may hold child graphs itself. */
	for (uint32_t i = 0; i < exec->node_count; i++) {
		struct world_node *node = exec->nodes[i];

		if (!node->child)
			continue;
		node_event(CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING, node, NULL);
		node->destroyed = true;
		for (uint32_t k = 0; k < node->child->node_count; k++)
			graph_put(exec, node->child->nodes[k]);
	}
	graph_event(CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED,
		(CUpti_GraphData){.graph = (CUgraph)graph, .graphExec = (CUgraphExec)exec});
	made = (CUgraphExec)exec;
	leave(&call, false);
	return exec;
}

uint32_t
world_graph_launch(struct world_graph *exec)
{
	cuGraphLaunch_params params = {.hGraph = (CUgraphExec)exec};
	struct call call;

	enter(&call, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, &params, NULL);
	return leave(&call, false);
}

void
world_set_node(struct world_node *node, const struct world_launch *launch)
{
	CUDA_KERNEL_NODE_PARAMS params = node_params(launch);
	cuGraphKernelNodeSetParams_v2_params set = {.hNode = (CUgraphNode)node, .nodeParams = &params};
	struct call call;

	enter(&call, CUPTI_DRIVER_TRACE_CBID_cuGraphKernelNodeSetParams_v2, &set, NULL);
	leave(&call, launch->fails);
}

static struct world_node *
node_of_exec(struct world_graph *exec, const struct world_node *original)
{
	for (uint32_t i = 0; i < original->graph->node_count; i++)
		if (original->graph->nodes[i] == original)
			return exec->nodes[i];
	return NULL;
}

void
world_set_exec(
	struct world_graph *exec, struct world_node *original, const struct world_launch *launch, bool events)
{
	CUDA_KERNEL_NODE_PARAMS params = node_params(launch);
	cuGraphExecKernelNodeSetParams_v2_params set = {
		.hGraphExec = (CUgraphExec)exec, .hNode = (CUgraphNode)original, .nodeParams = &params};
	struct call call;

	enter(&call, CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2, &set, NULL);
	if (events)
		graph_event(CUPTI_CBID_RESOURCE_GRAPH_NODE_SET_PARAMS,
			(CUpti_GraphData){.node = (CUgraphNode)node_of_exec(exec, original),
				.originalNode = (CUgraphNode)original,
				.graphExec = (CUgraphExec)exec});
	leave(&call, false);
}

/* More than any test's graph has. */
#define NODES_MAX 4096U

uint32_t
world_kernel_nodes(struct world_graph *graph, struct world_node **nodes, uint32_t room)
{
	struct world_node *all[NODES_MAX];
	uint32_t count = 0, kernels = 0;

	for (uint32_t i = 0; i < graph->node_count && count < NODES_MAX; i++)
		all[count++] = graph->nodes[i];
	for (uint32_t i = 0; i < count; i++) {
		if (!all[i]->child && kernels < room)
			nodes[kernels++] = all[i];
		/* An executable's child graphs have moved into its own list. */
		for (uint32_t k = 0; all[i]->child && !all[i]->destroyed && k < all[i]->child->node_count &&
				     count < NODES_MAX;
			k++)
			all[count++] = all[i]->child->nodes[k];
	}
	return kernels;
}

static void
update_events(struct world_graph *exec, struct world_node *target, struct world_node *source,
	struct world_node *original)
{
	graph_event(CUPTI_CBID_RESOURCE_GRAPH_NODE_UPDATED, (CUpti_GraphData){.node = (CUgraphNode)source,
								    .originalNode = (CUgraphNode)target,
								    .graphExec = (CUgraphExec)exec});
	/* originalNode is what the executable was made from, not what it is updated from. */
	graph_event(CUPTI_CBID_RESOURCE_GRAPH_NODE_SET_PARAMS, (CUpti_GraphData){.node = (CUgraphNode)target,
								       .originalNode = (CUgraphNode)original,
								       .graphExec = (CUgraphExec)exec});
}

void
world_set_child(struct world_graph *exec, struct world_node *original, struct world_graph *child, bool events,
	bool generic)
{
	CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {.graph = (CUgraph)child}};
	cuGraphExecNodeSetParams_params any = {
		.hGraphExec = (CUgraphExec)exec, .hNode = (CUgraphNode)original, .nodeParams = &node};
	cuGraphExecChildGraphNodeSetParams_params set = {.hGraphExec = (CUgraphExec)exec,
		.hNode = (CUgraphNode)original,
		.childGraph = (CUgraph)child};
	struct world_node *targets[NODES_MAX], *made_from[NODES_MAX], *replaced[NODES_MAX],
		*sources[NODES_MAX];
	uint32_t count = world_kernel_nodes(exec, targets, NODES_MAX);
	uint32_t replaced_count = world_kernel_nodes(original->child, replaced, NODES_MAX);
	struct call call;

	world_kernel_nodes(exec->original, made_from, NODES_MAX);
	world_kernel_nodes(child, sources, NODES_MAX);
	if (generic)
		enter(&call, CUPTI_DRIVER_TRACE_CBID_cuGraphExecNodeSetParams, &any, NULL);
	else
		enter(&call, CUPTI_DRIVER_TRACE_CBID_cuGraphExecChildGraphNodeSetParams, &set, NULL);
	for (uint32_t k = 0; events && k < replaced_count; k++)
		for (uint32_t i = 0; i < count; i++)
			if (made_from[i] == replaced[k])
				update_events(exec, targets[i], sources[k], made_from[i]);
	leave(&call, false);
}

void
world_update(struct world_graph *exec, struct world_graph *source, bool events)
{
	struct world_node *targets[NODES_MAX], *made_from[NODES_MAX], *sources[NODES_MAX];
	uint32_t count = world_kernel_nodes(source, sources, NODES_MAX);
	cuGraphExecUpdate_v2_params params = {.hGraphExec = (CUgraphExec)exec, .hGraph = (CUgraph)source};
	struct call call;

	enter(&call, CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate_v2, &params, NULL);
	world_kernel_nodes(exec, targets, NODES_MAX);
	world_kernel_nodes(exec->original, made_from, NODES_MAX);
	for (uint32_t i = count; events && i-- > 0;)
		update_events(exec, targets[i], sources[i], made_from[i]);
	leave(&call, false);
}

static void
destroy_nodes(struct world_graph *graph)
{
	for (uint32_t i = 0; i < graph->node_count; i++) {
		struct world_node *node = graph->nodes[i];

		if (!node->destroyed)
			node_event(CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING, node, NULL);
		if (node->child && !node->destroyed) {
			destroy_nodes(node->child);
			free(node->child);
		} else if (node->child) {
			free(node->child->nodes);
			free(node->child);
		}
		free(node);
	}
	free(graph->nodes);
}

void
world_destroy_exec(struct world_graph *exec)
{
	graph_event(CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING,
		(CUpti_GraphData){.graphExec = (CUgraphExec)exec});
	world_destroy_graph(exec);
}

void
world_destroy_graph(struct world_graph *graph)
{
	destroy_nodes(graph);
	free(graph);
}

void
world_unload_module(void)
{
	CUpti_ModuleResourceData module = {0};
	CUpti_ResourceData resource = {.resourceDescriptor = &module};

	cs_labels_on_resource(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, &resource);
}

uint32_t
world_next_correlation(void)
{
	return atomic_load(&next_correlation);
}

struct cs_kernel_identity
world_resolve(const char *name, uint64_t node_id, uint32_t correlation_id)
{
	struct cs_kernel_key key = {.name = name,
		.graph_node_id = node_id,
		.correlation_id = correlation_id,
		.context_id = CONTEXT_ID};
	struct cs_kernel_identity identity;

	cs_labels_resolve(&key, &identity);
	return identity;
}
