/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs and their nodes: building, asking, cloning, destroying. graph_exec.c runs them. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

static uint32_t last_graph_id;

struct cs_fake_graph *
fake_graph_new(struct cs_fake_context *context)
{
	struct cs_fake_graph *graph = calloc(1, sizeof(*graph));

	if (!graph)
		return NULL;
	graph->id = ++last_graph_id;
	graph->lane_count = 1;
	graph->context = context;
	return graph;
}

void
fake_graph_free(struct cs_fake_graph *graph)
{
	uint32_t i;

	if (!graph)
		return;
	for (i = 0; i < graph->node_count; i++) {
		fake_graph_free(graph->nodes[i]->child);
		fake_parameters_free(graph->nodes[i]->work.parameters);
		free(graph->nodes[i]->dependencies);
		free(graph->nodes[i]);
	}
	free(graph->nodes);
	free(graph);
}

struct cs_fake_node *
fake_graph_add(struct cs_fake_graph *graph, const struct cs_fake_work *work,
	struct cs_fake_node *const *dependencies, uint32_t dependency_count)
{
	struct cs_fake_node *node;
	struct cs_fake_node **nodes;
	uint32_t capacity;

	if (graph->node_count == graph->node_capacity) {
		capacity = graph->node_capacity ? graph->node_capacity * 2 : 64;
		nodes = realloc(graph->nodes, capacity * sizeof(struct cs_fake_node *));
		if (!nodes)
			goto fail;
		graph->nodes = nodes;
		graph->node_capacity = capacity;
	}
	node = calloc(1, sizeof(*node));
	if (!node)
		goto fail;
	if (dependency_count) {
		node->dependencies = malloc(dependency_count * sizeof(struct cs_fake_node *));
		if (!node->dependencies) {
			free(node);
			goto fail;
		}
		memcpy(node->dependencies, dependencies, dependency_count * sizeof(struct cs_fake_node *));
	}
	node->dependency_count = dependency_count;
	node->graph = graph;
	node->work = *work;
	node->ordinal = graph->node_count;
	graph->nodes[graph->node_count++] = node;
	return node;

fail:
	fake_parameters_free(work->parameters);
	return NULL;
}

void
fake_graph_announce_node(struct cs_fake_node *node)
{
	struct cs_fake_event event = {.context = node->graph->context, .graph = node->graph, .node = node};
	uint32_t i;

	fake_tools()->resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATE_STARTING, &event);
	fake_tools()->resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, &event);
	for (i = 0; i < node->dependency_count; i++) {
		event.dependency = node->dependencies[i];
		fake_tools()->resource(CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_CREATED, &event);
	}
}

/* A copy, node by node, with the events of it: every clone is announced as CREATED, then as CLONED. */
struct cs_fake_graph *
fake_graph_clone(struct cs_fake_graph *original)
{
	struct cs_fake_graph *graph;
	struct cs_fake_node *node;
	struct cs_fake_work work;
	uint32_t i, k;

	pthread_mutex_lock(&fake_lock);
	graph = fake_graph_new(original->context);
	pthread_mutex_unlock(&fake_lock);
	if (!graph)
		return NULL;
	graph->lane_count = original->lane_count;
	fake_tools()->resource(CUPTI_CBID_RESOURCE_GRAPH_CREATED,
		&(struct cs_fake_event){.context = graph->context, .graph = graph});
	for (i = 0; i < original->node_count; i++) {
		work = original->nodes[i]->work;
		if (work.type == CS_FAKE_KERNEL)
			work.parameters = fake_parameters_share(work.parameters);
		node = fake_graph_add(
			graph, &work, original->nodes[i]->dependencies, original->nodes[i]->dependency_count);
		if (!node)
			goto fail;
		node->lane = original->nodes[i]->lane;
		node->original = original->nodes[i];
		node->removed = original->nodes[i]->removed;
		for (k = 0; k < node->dependency_count; k++)
			node->dependencies[k] = graph->nodes[node->dependencies[k]->ordinal];
		fake_graph_announce_node(node);
		fake_tools()->resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED,
			&(struct cs_fake_event){.context = graph->context,
				.graph = graph,
				.original_graph = original,
				.node = node,
				.original_node = original->nodes[i]});
		if (original->nodes[i]->child) {
			node->child = fake_graph_clone(original->nodes[i]->child);
			if (!node->child)
				goto fail;
		}
	}
	fake_tools()->resource(CUPTI_CBID_RESOURCE_GRAPH_CLONED,
		&(struct cs_fake_event){
			.context = graph->context, .graph = graph, .original_graph = original});
	return graph;

fail:
	fake_graph_free(graph);
	return NULL;
}

static void
announce_end(struct cs_fake_graph *graph)
{
	struct cs_fake_event event = {.context = graph->context, .graph = graph};
	uint32_t i;

	for (i = 0; i < graph->node_count; i++) {
		event.node = graph->nodes[i];
		if (!event.node->removed)
			fake_tools()->resource(CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING, &event);
		if (event.node->child)
			announce_end(event.node->child);
	}
	event.node = NULL;
	fake_tools()->resource(CUPTI_CBID_RESOURCE_GRAPH_DESTROY_STARTING, &event);
}

void
fake_graph_end(struct cs_fake_graph *graph)
{
	announce_end(graph);
	fake_graph_release(graph);
}

struct cs_fake_graph *
fake_graph_hold(struct cs_fake_graph *graph)
{
	pthread_mutex_lock(&fake_lock);
	graph->references++;
	pthread_mutex_unlock(&fake_lock);
	return graph;
}

void
fake_graph_release(struct cs_fake_graph *graph)
{
	uint32_t left;

	if (!graph)
		return;
	pthread_mutex_lock(&fake_lock);
	left = graph->references--;
	pthread_mutex_unlock(&fake_lock);
	if (left == 0)
		fake_graph_free(graph);
}

FAKE_EXPORT CUresult
cuGraphCreate(CUgraph *handle, unsigned int flags)
{
	struct cs_fake_graph *graph;
	FAKE_FRAME(cuGraphCreate, 0, handle, flags);

	if (!handle)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	pthread_mutex_lock(&fake_lock);
	graph = fake_graph_new(call.context);
	pthread_mutex_unlock(&fake_lock);
	if (!graph)
		return fake_end(&call, CUDA_ERROR_OUT_OF_MEMORY);
	*handle = (CUgraph)graph;
	fake_tools()->resource(CUPTI_CBID_RESOURCE_GRAPH_CREATED,
		&(struct cs_fake_event){.context = call.context, .graph = graph});
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuGraphDestroy(CUgraph handle)
{
	FAKE_FRAME(cuGraphDestroy, FAKE_CALL_FREE, handle);

	if (!handle)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	fake_graph_end((struct cs_fake_graph *)handle);
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuGraphClone(CUgraph *handle, CUgraph original)
{
	struct cs_fake_graph *graph;
	FAKE_FRAME(cuGraphClone, 0, handle, original);

	if (!handle || !original)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	graph = fake_graph_clone((struct cs_fake_graph *)original);
	if (!graph)
		return fake_end(&call, CUDA_ERROR_OUT_OF_MEMORY);
	*handle = (CUgraph)graph;
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
	struct cs_fake_graph *graph = (struct cs_fake_graph *)handle;
	size_t i, found = 0;
	FAKE_FRAME(cuGraphGetNodes, FAKE_CALL_QUERY, handle, nodes, count);

	if (!graph || !count)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	for (i = 0; i < graph->node_count; i++) {
		if (graph->nodes[i]->removed)
			continue;
		if (nodes && found < *count)
			nodes[found] = (CUgraphNode)graph->nodes[i];
		found++;
	}
	if (!nodes || found < *count)
		*count = found;
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *type)
{
	struct cs_fake_node *node = (struct cs_fake_node *)handle;
	FAKE_FRAME(cuGraphNodeGetType, FAKE_CALL_QUERY, handle, type);

	if (!node || !type)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	*type = cs_fake_node_type(node);
	return fake_end(&call, CUDA_SUCCESS);
}

static CUresult
kernel_work(const CUDA_KERNEL_NODE_PARAMS *node_params, struct cs_fake_work *work)
{
	struct cs_fake_function *function;

	pthread_mutex_lock(&fake_lock);
	function = fake_launchable(node_params->func ? node_params->func : (CUfunction)node_params->kern);
	pthread_mutex_unlock(&fake_lock);
	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	*work = (struct cs_fake_work){.type = CS_FAKE_KERNEL,
		.function = function,
		.grid = {node_params->gridDimX, node_params->gridDimY, node_params->gridDimZ},
		.block = {node_params->blockDimX, node_params->blockDimY, node_params->blockDimZ},
		.shared_bytes = node_params->sharedMemBytes};
	work->parameters = fake_parameters_copy(function, node_params->kernelParams, node_params->extra);
	return work->parameters ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
fake_node_set_kernel(struct cs_fake_node *node, const CUDA_KERNEL_NODE_PARAMS *node_params)
{
	struct cs_fake_work work;
	CUresult result;

	if (node->work.type != CS_FAKE_KERNEL)
		return CUDA_ERROR_INVALID_VALUE;
	result = kernel_work(node_params, &work);
	if (result != CUDA_SUCCESS)
		return result;
	fake_parameters_free(node->work.parameters);
	node->work = work;
	return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult
cuGraphAddKernelNode_v2(CUgraphNode *handle, CUgraph graph_handle, const CUgraphNode *dependencies,
	size_t dependency_count, const CUDA_KERNEL_NODE_PARAMS *node_params)
{
	struct cs_fake_graph *graph = (struct cs_fake_graph *)graph_handle;
	struct cs_fake_node *node;
	struct cs_fake_work work;
	FAKE_FRAME(cuGraphAddKernelNode_v2, 0, handle, graph_handle, dependencies, dependency_count,
		node_params);

	if (!handle || !graph || !node_params)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	result = kernel_work(node_params, &work);
	if (result != CUDA_SUCCESS)
		return fake_end(&call, result);
	pthread_mutex_lock(&fake_lock);
	node = fake_graph_add(
		graph, &work, (struct cs_fake_node *const *)dependencies, (uint32_t)dependency_count);
	pthread_mutex_unlock(&fake_lock);
	if (!node)
		return fake_end(&call, CUDA_ERROR_OUT_OF_MEMORY);
	*handle = (CUgraphNode)node;
	fake_graph_announce_node(node);
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuGraphAddChildGraphNode(CUgraphNode *handle, CUgraph graph_handle, const CUgraphNode *dependencies,
	size_t dependency_count, CUgraph child)
{
	struct cs_fake_graph *graph = (struct cs_fake_graph *)graph_handle;
	struct cs_fake_work work = {.type = CS_FAKE_CHILD};
	struct cs_fake_node *node;
	FAKE_FRAME(cuGraphAddChildGraphNode, 0, handle, graph_handle, dependencies, dependency_count, child);

	if (!handle || !graph || !child)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	pthread_mutex_lock(&fake_lock);
	node = fake_graph_add(
		graph, &work, (struct cs_fake_node *const *)dependencies, (uint32_t)dependency_count);
	pthread_mutex_unlock(&fake_lock);
	if (!node)
		return fake_end(&call, CUDA_ERROR_OUT_OF_MEMORY);
	fake_graph_announce_node(node);
	node->child = fake_graph_clone((struct cs_fake_graph *)child);
	*handle = (CUgraphNode)node;
	return fake_end(&call, node->child ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

FAKE_EXPORT CUresult
cuGraphDestroyNode(CUgraphNode handle)
{
	struct cs_fake_node *node = (struct cs_fake_node *)handle;
	FAKE_FRAME(cuGraphDestroyNode, FAKE_CALL_FREE, handle);

	if (!node || node->removed)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	fake_tools()->resource(CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING,
		&(struct cs_fake_event){.context = call.context, .graph = node->graph, .node = node});
	node->removed = true;
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS *node_params)
{
	struct cs_fake_node *node = (struct cs_fake_node *)handle;
	FAKE_FRAME(cuGraphKernelNodeGetParams_v2, FAKE_CALL_QUERY, handle, node_params);

	if (!node || !node_params || node->work.type != CS_FAKE_KERNEL)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	*node_params = (CUDA_KERNEL_NODE_PARAMS){.func = (CUfunction)node->work.function,
		.gridDimX = node->work.grid[0],
		.gridDimY = node->work.grid[1],
		.gridDimZ = node->work.grid[2],
		.blockDimX = node->work.block[0],
		.blockDimY = node->work.block[1],
		.blockDimZ = node->work.block[2],
		.sharedMemBytes = node->work.shared_bytes,
		.kernelParams = node->work.parameters,
		.ctx = (CUcontext)node->graph->context};
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuGraphKernelNodeSetParams_v2(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS *node_params)
{
	FAKE_FRAME(cuGraphKernelNodeSetParams_v2, 0, handle, node_params);

	if (!handle || !node_params)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	return fake_end(&call, fake_node_set_kernel((struct cs_fake_node *)handle, node_params));
}
