/* SPDX-License-Identifier: Apache-2.0 */
/* Executable graphs: instantiate, launch, update, destroy. An executable holds a clone of its graph. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

static bool
node_timed(const struct cs_fake_node *node)
{
	return !node->removed && (node->work.type == CS_FAKE_KERNEL || node->work.type == CS_FAKE_COPY ||
					 node->work.type == CS_FAKE_SET);
}

/* Lists the timed nodes in node order, child graphs opened; counts only when list is NULL. */
static uint32_t
list_timed(const struct cs_fake_graph *graph, struct cs_fake_node **list)
{
	uint32_t count = 0;
	uint32_t i;

	for (i = 0; i < graph->node_count; i++) {
		if (graph->nodes[i]->child && !graph->nodes[i]->removed) {
			count += list_timed(graph->nodes[i]->child, list ? list + count : NULL);
		} else if (node_timed(graph->nodes[i])) {
			if (list)
				list[count] = graph->nodes[i];
			count++;
		}
	}
	return count;
}

/* The nodes of child graphs move into the executable's graph, behind its own, without an event. Their handles
 * stay. */
static void
move_children(struct cs_fake_graph *graph, uint32_t root, uint32_t *ordinal)
{
	uint32_t i, k;

	for (i = 0; i < graph->node_count; i++) {
		struct cs_fake_graph *child = graph->nodes[i]->child;

		for (k = 0; child && k < child->node_count; k++)
			child->nodes[k]->moved_id = (uint64_t)root << 32 | (*ordinal)++;
		if (child)
			move_children(child, root, ordinal);
	}
}

static void
exec_free(struct cs_fake_exec *exec)
{
	if (!exec)
		return;
	fake_graph_free(exec->graph);
	fake_graph_release(exec->source);
	free(exec->timed);
	free(exec->lane_streams);
	free(exec);
}

static CUresult
instantiate(struct cs_fake_call *call, CUgraphExec *handle, CUgraph graph_handle)
{
	struct cs_fake_graph *graph = (struct cs_fake_graph *)graph_handle;
	struct cs_fake_event event = {.context = call->context, .graph = graph};
	struct cs_fake_exec *exec;
	uint32_t i, ordinal;

	if (!handle || !graph)
		return CUDA_ERROR_INVALID_VALUE;
	if (!call->context)
		return CUDA_ERROR_INVALID_CONTEXT;
	exec = calloc(1, sizeof(*exec));
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	exec->context = call->context;
	exec->source = fake_graph_hold(graph);
	fake_tools()->resource(CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING, &event);
	exec->graph = fake_graph_clone(graph);
	if (!exec->graph)
		goto fail;
	ordinal = exec->graph->node_count;
	move_children(exec->graph, exec->graph->id, &ordinal);
	exec->timed_count = list_timed(exec->graph, NULL);
	exec->lane_count = exec->graph->lane_count;
	exec->timed = malloc((exec->timed_count + 1) * sizeof(struct cs_fake_node *));
	exec->lane_streams = malloc((exec->lane_count + 1) * sizeof(uint32_t));
	if (!exec->timed || !exec->lane_streams)
		goto fail;
	list_timed(exec->graph, exec->timed);
	pthread_mutex_lock(&fake_lock);
	for (i = 0; i < exec->lane_count; i++)
		exec->lane_streams[i] = fake_stream_next_id();
	pthread_mutex_unlock(&fake_lock);
	event.exec = exec;
	fake_tools()->resource(CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED, &event);
	*handle = (CUgraphExec)exec;
	return CUDA_SUCCESS;

fail:
	exec_free(exec);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

FAKE_EXPORT CUresult
cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	FAKE_FRAME(cuGraphInstantiateWithFlags, 0, exec, graph, flags);

	return fake_end(&call, instantiate(&call, exec, graph));
}

FAKE_EXPORT CUresult
cuGraphInstantiateWithParams(
	CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiate_params)
{
	FAKE_FRAME(cuGraphInstantiateWithParams, 0, exec, graph, instantiate_params);

	result = instantiate(&call, exec, graph);
	if (instantiate_params)
		instantiate_params->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
									: CUDA_GRAPH_INSTANTIATE_ERROR;
	return fake_end(&call, result);
}

CUresult cuGraphInstantiate_v2(
	CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t log_bytes);
FAKE_EXPORT CUresult
cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t log_bytes)
{
	FAKE_FRAME(cuGraphInstantiate_v2, 0, exec, graph, error_node, log, log_bytes);

	return fake_end(&call, instantiate(&call, exec, graph));
}

/* Spans that nobody planned: a node starts when those before it on its lane and those that it depends on have
 * ended. */
static void
place_default(const struct cs_fake_exec *exec, uint64_t start_ns, struct cs_fake_operation *operations)
{
	uint64_t *ends = calloc(exec->graph->node_count + 1, sizeof(*ends));
	uint64_t *lanes = calloc(exec->lane_count + 1, sizeof(*lanes));
	const struct cs_fake_node *node;
	uint64_t at_ns;
	uint32_t i, k, used = 0, in_child;

	if (!ends || !lanes)
		abort();
	for (i = 0; i < exec->graph->node_count; i++) {
		node = exec->graph->nodes[i];
		at_ns = lanes[node->lane] > start_ns ? lanes[node->lane] + FAKE_KERNEL_GAP_NS : start_ns;
		for (k = 0; k < node->dependency_count; k++)
			if (ends[node->dependencies[k]->ordinal] >= at_ns)
				at_ns = ends[node->dependencies[k]->ordinal] + FAKE_KERNEL_GAP_NS;
		in_child = node->child && !node->removed ? list_timed(node->child, NULL) : node_timed(node);
		for (k = 0; k < in_child; k++, used++) {
			operations[used].span.start_ns = at_ns;
			operations[used].span.end_ns = at_ns + fake_work_duration_ns(operations[used].work);
			at_ns = operations[used].span.end_ns + (k + 1 < in_child ? FAKE_KERNEL_GAP_NS : 0);
		}
		ends[i] = at_ns;
		lanes[node->lane] = at_ns;
	}
	free(ends);
	free(lanes);
}

static void
place_graph(struct cs_fake_exec *exec, struct cs_fake_stream *stream, struct cs_fake_operation *operations)
{
	const struct cs_fake_span *planned = NULL;
	uint64_t start_ns = fake_now_ns() + FAKE_LAUNCH_LATENCY_NS;
	uint64_t end_ns = start_ns;
	bool is_planned = fake_plan_take(&planned, exec->timed_count);
	uint32_t i;

	for (i = 0; i < exec->timed_count; i++) {
		operations[i].work = &exec->timed[i]->work;
		operations[i].node = exec->timed[i];
		operations[i].stream_id =
			exec->timed[i]->lane ? exec->lane_streams[exec->timed[i]->lane] : stream->id;
		if (is_planned)
			operations[i].span = planned[i];
	}
	if (!is_planned) {
		if (stream->tail_ns >= start_ns)
			start_ns = stream->tail_ns + FAKE_KERNEL_GAP_NS;
		place_default(exec, start_ns, operations);
	}
	for (i = 0; i < exec->timed_count; i++)
		if (operations[i].span.end_ns > end_ns)
			end_ns = operations[i].span.end_ns;
	fake_stream_extend(stream, end_ns);
	exec->launches++;
}

static CUresult
launch(struct cs_fake_call *call, CUgraphExec handle, CUstream stream_handle, bool per_thread)
{
	struct cs_fake_exec *exec = (struct cs_fake_exec *)handle;
	struct cs_fake_operation *operations;
	struct cs_fake_stream *stream;

	if (!exec)
		return CUDA_ERROR_INVALID_VALUE;
	if (fake_tools()->graph_launch_dies()) {
		exec->context->failure = CUDA_ERROR_LAUNCH_FAILED;
		return CUDA_ERROR_LAUNCH_FAILED;
	}
	operations = calloc(exec->timed_count + 1, sizeof(*operations));
	if (!operations)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&fake_lock);
	stream = fake_stream_resolve(call->context, stream_handle, per_thread);
	if (stream && !stream->capture)
		place_graph(exec, stream, operations);
	pthread_mutex_unlock(&fake_lock);
	if (stream && !stream->capture)
		fake_tools()->queued(call, exec, stream, operations, exec->timed_count);
	free(operations);
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	return stream->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

FAKE_EXPORT CUresult
cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	FAKE_FRAME(cuGraphLaunch, 0, exec, stream);

	return fake_end(&call, launch(&call, exec, stream, false));
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream);
FAKE_EXPORT CUresult
cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
	FAKE_FRAME(cuGraphLaunch_ptsz, 0, exec, stream);

	return fake_end(&call, launch(&call, exec, stream, true));
}

static bool
same_topology(const struct cs_fake_graph *left, const struct cs_fake_graph *right)
{
	uint32_t i, k;

	if (left->node_count != right->node_count)
		return false;
	for (i = 0; i < left->node_count; i++) {
		if (left->nodes[i]->work.type != right->nodes[i]->work.type ||
			left->nodes[i]->dependency_count != right->nodes[i]->dependency_count)
			return false;
		for (k = 0; k < left->nodes[i]->dependency_count; k++)
			if (left->nodes[i]->dependencies[k]->ordinal !=
				right->nodes[i]->dependencies[k]->ordinal)
				return false;
		if (left->nodes[i]->child && !same_topology(left->nodes[i]->child, right->nodes[i]->child))
			return false;
	}
	return true;
}

/* SET_PARAMS names the node that the executable was first made from, also when it is updated from another. */
static void
tell_params(struct cs_fake_exec *exec, struct cs_fake_node *node)
{
	fake_tools()->resource(
		CUPTI_CBID_RESOURCE_GRAPH_NODE_SET_PARAMS, &(struct cs_fake_event){.context = exec->context,
								   .graph = node->graph,
								   .original_graph = node->original->graph,
								   .node = node,
								   .original_node = node->original,
								   .exec = exec});
}

/* UPDATED has them the other way round: `node` is the source graph's, the original the executable's. */
static void
tell_update(struct cs_fake_exec *exec, struct cs_fake_node *node, struct cs_fake_node *source)
{
	fake_tools()->resource(
		CUPTI_CBID_RESOURCE_GRAPH_NODE_UPDATED, &(struct cs_fake_event){.context = exec->context,
								.graph = source->graph,
								.original_graph = node->graph,
								.node = source,
								.original_node = node,
								.exec = exec});
	tell_params(exec, node);
}

static CUresult
take_over(struct cs_fake_exec *exec, struct cs_fake_graph *target, struct cs_fake_graph *source)
{
	struct cs_fake_work work;
	uint32_t i;
	CUresult result;

	for (i = 0; i < target->node_count; i++) {
		if (target->nodes[i]->child) {
			result = take_over(exec, target->nodes[i]->child, source->nodes[i]->child);
			if (result != CUDA_SUCCESS)
				return result;
			continue;
		}
		work = source->nodes[i]->work;
		if (work.type == CS_FAKE_KERNEL)
			work.parameters = fake_parameters_share(work.parameters);
		fake_parameters_free(target->nodes[i]->work.parameters);
		target->nodes[i]->work = work;
		tell_update(exec, target->nodes[i], source->nodes[i]);
	}
	return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult
cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph_handle, CUgraphExecUpdateResultInfo *info)
{
	struct cs_fake_exec *exec = (struct cs_fake_exec *)handle;
	struct cs_fake_graph *graph = (struct cs_fake_graph *)graph_handle;
	FAKE_FRAME(cuGraphExecUpdate_v2, 0, handle, graph_handle, info);

	if (!exec || !graph || !info)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	memset(info, 0, sizeof(*info));
	if (!same_topology(exec->graph, graph)) {
		info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		return fake_end(&call, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	}
	info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
	return fake_end(&call, take_over(exec, exec->graph, graph));
}

/* node is one of the graph that the executable was made from. */
FAKE_EXPORT CUresult
cuGraphExecKernelNodeSetParams_v2(
	CUgraphExec handle, CUgraphNode node_handle, const CUDA_KERNEL_NODE_PARAMS *node_params)
{
	struct cs_fake_exec *exec = (struct cs_fake_exec *)handle;
	struct cs_fake_node *node = (struct cs_fake_node *)node_handle;
	struct cs_fake_node *own;
	FAKE_FRAME(cuGraphExecKernelNodeSetParams_v2, 0, handle, node_handle, node_params);

	if (!exec || !node || !node_params || node->ordinal >= exec->graph->node_count)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	own = exec->graph->nodes[node->ordinal];
	if (own->original != node)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	result = fake_node_set_kernel(own, node_params);
	if (result == CUDA_SUCCESS)
		tell_params(exec, own);
	return fake_end(&call, result);
}

FAKE_EXPORT CUresult
cuGraphExecDestroy(CUgraphExec handle)
{
	struct cs_fake_exec *exec = (struct cs_fake_exec *)handle;
	FAKE_FRAME(cuGraphExecDestroy, FAKE_CALL_FREE, handle);

	if (!exec)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	fake_tools()->resource(CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING,
		&(struct cs_fake_event){.context = exec->context, .graph = exec->graph, .exec = exec});
	fake_graph_end(exec->graph);
	exec->graph = NULL;
	exec_free(exec);
	return fake_end(&call, CUDA_SUCCESS);
}
