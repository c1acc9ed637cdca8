/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver calls: launches, and the calls that make or change kernel nodes. At enter the kernel is classified
 * and its parameters are read (labels_read.c: they are valid only there); where the label goes is known at
 * exit.
 */
#include "labels_private.h"

#include "announce.h"
#include "clock.h"

/* Threads that launch work at the same time; a server has a few per GPU. */
#define CALL_SLOTS 256U

static struct cs_call calls[CALL_SLOTS];
static struct cs_call no_call; /* of the threads that found no slot; never used as a call */
static __thread struct cs_call *own_call __attribute__((tls_model("initial-exec")));

static __attribute__((noinline, cold)) struct cs_call *
claim_call(void)
{
	own_call = cs_thread_slot_claim(calls, sizeof(calls[0]), CALL_SLOTS);
	if (!own_call)
		own_call = &no_call;
	return own_call;
}

struct cs_call *
cs_call_borrow(void)
{
	struct cs_call *call = own_call ? own_call : claim_call();

	return call == &no_call ? NULL : call;
}

struct cs_call *
cs_call_current(const struct cs_labels *labels, enum cs_call_kind kind)
{
	struct cs_call *call = cs_call_borrow();

	if (!call || call->kind != kind ||
		call->epoch != atomic_load_explicit(&labels->epoch, memory_order_relaxed))
		return NULL;
	return call;
}

#define REQUEST(from, kernel, extra_words)                                                                   \
	((struct cs_kernel_request){(const void *)(kernel), (from)->kernelParams, (extra_words),             \
		{(from)->gridDimX, (from)->gridDimY, (from)->gridDimZ},                                      \
		{(from)->blockDimX, (from)->blockDimY, (from)->blockDimZ}})

/* -- enter --------------------------------------------------------------------------------------------- */

static void
begin(struct cs_labels *labels, struct cs_call *call, enum cs_call_kind kind, const CUpti_CallbackData *data)
{
	call->kind = (uint8_t)kind;
	call->collective = false;
	call->nccl = false;
	call->node_seen = false;
	call->labelled = false;
	call->epoch = atomic_load_explicit(&labels->epoch, memory_order_relaxed);
	call->correlation_id = data->correlationId;
	call->filed = 0;
	call->node_id = 0;
}

/* ordinary_matters: the call can take a label away. */
static void
begin_kernel(struct cs_labels *labels, struct cs_call *call, enum cs_call_kind kind,
	const CUpti_CallbackData *data, const struct cs_kernel_request *request, bool ordinary_matters)
{
	const struct cs_function *function = NULL;
	struct cs_function scratch;

	if (request->handle) {
		call->asking = true;
		function = cs_function_cache_get(
			&labels->functions, request->handle, data->symbolName, &scratch);
		call->asking = false;
	}
	if (!function && !ordinary_matters)
		return;
	begin(labels, call, kind, data);
	if (!function)
		return;
	call->collective = true;
	call->nccl = cs_function_is_nccl(function);
	call->name_id = function->name_id;
	call->filed = cs_labels_read(labels, function, request);
	call->start_ns = cs_clock_realtime_ns();
}

static struct cs_kernel_request
node_request(const CUgraphNodeParams *params)
{
	struct cs_kernel_request none = {0};

	if (!params || params->type != CU_GRAPH_NODE_TYPE_KERNEL)
		return none;
	return REQUEST(&params->kernel,
		params->kernel.func ? (const void *)params->kernel.func : (const void *)params->kernel.kern,
		params->kernel.extra);
}

static struct cs_kernel_request
node_request_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	struct cs_kernel_request none = {0};

	return params ? REQUEST(params, params->func, params->extra) : none;
}

static struct cs_kernel_request
node_request_v2(const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
	struct cs_kernel_request none = {0};

	if (!params)
		return none;
	return REQUEST(params, params->func ? (const void *)params->func : (const void *)params->kern,
		params->extra);
}

/* Calls on nodes; `params` is the call's parameter struct. false: none of them. */
static bool
enter_node_call(
	struct cs_labels *labels, struct cs_call *call, CUpti_CallbackId cbid, const CUpti_CallbackData *data)
{
	const void *params = data->functionParams;
	enum cs_call_kind kind = CS_CALL_ADD_NODE;
	struct cs_kernel_request request = {0};

	switch (cbid) {
	case CUPTI_DRIVER_TRACE_CBID_cuGraphAddKernelNode:
		request = node_request_v1(((const cuGraphAddKernelNode_params *)params)->nodeParams);
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuGraphAddKernelNode_v2:
		request = node_request_v2(((const cuGraphAddKernelNode_v2_params *)params)->nodeParams);
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuGraphAddNode:
		request = node_request(((const cuGraphAddNode_params *)params)->nodeParams);
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuGraphAddNode_v2:
		request = node_request(((const cuGraphAddNode_v2_params *)params)->nodeParams);
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuGraphKernelNodeSetParams:
		kind = CS_CALL_SET_NODE;
		request = node_request_v1(((const cuGraphKernelNodeSetParams_params *)params)->nodeParams);
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuGraphKernelNodeSetParams_v2:
		kind = CS_CALL_SET_NODE;
		request = node_request_v2(((const cuGraphKernelNodeSetParams_v2_params *)params)->nodeParams);
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuGraphNodeSetParams:
		kind = CS_CALL_SET_NODE;
		request = node_request(((const cuGraphNodeSetParams_params *)params)->nodeParams);
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams:
		kind = CS_CALL_SET_EXEC;
		request =
			node_request_v1(((const cuGraphExecKernelNodeSetParams_params *)params)->nodeParams);
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2:
		kind = CS_CALL_SET_EXEC;
		request = node_request_v2(
			((const cuGraphExecKernelNodeSetParams_v2_params *)params)->nodeParams);
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuGraphExecNodeSetParams:
		kind = CS_CALL_SET_EXEC;
		request = node_request(((const cuGraphExecNodeSetParams_params *)params)->nodeParams);
		break;
	default:
		return false;
	}
	if (request.handle)
		begin_kernel(labels, call, kind, data, &request, kind != CS_CALL_ADD_NODE);
	return true;
}

/* A child graph of an executable is replaced, by the call for nodes of any type. */
static bool
sets_child_graph(CUpti_CallbackId cbid, const void *params)
{
	const cuGraphExecNodeSetParams_params *set = params;

	return cbid == CUPTI_DRIVER_TRACE_CBID_cuGraphExecNodeSetParams && set->nodeParams &&
	       set->nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH;
}

static void
enter_other(
	struct cs_labels *labels, struct cs_call *call, CUpti_CallbackId cbid, const CUpti_CallbackData *data)
{
	switch (cbid) {
	case CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch:
	case CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz:
		begin(labels, call, CS_CALL_GRAPH_LAUNCH, data);
		call->start_ns = cs_clock_realtime_ns();
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate:
	case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate_v2:
	case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags:
	case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams:
	case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams_ptsz:
		/* What an instantiation that was not seen to its end left behind goes first. */
		call->root_graph = 0;
		cs_labels_finish_instantiate(labels, call);
		begin(labels, call, CS_CALL_INSTANTIATE, data);
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate:
	case CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate_v2:
	case CUPTI_DRIVER_TRACE_CBID_cuGraphExecChildGraphNodeSetParams:
		begin(labels, call, CS_CALL_UPDATE_EXEC, data);
		break;
	default:
		if (sets_child_graph(cbid, data->functionParams))
			begin(labels, call, CS_CALL_UPDATE_EXEC, data);
		else
			enter_node_call(labels, call, cbid, data);
		break;
	}
}

/* -- exit ---------------------------------------------------------------------------------------------- */

static void
append_host_launch(struct cs_labels *labels, const struct cs_call *call, const CUpti_CallbackData *data,
	uint32_t graph_id)
{
	struct cs_label_entry *entry = cs_label_table_entry(&labels->table, cs_filed_label(call->filed));
	uint32_t context = atomic_load_explicit(
		&labels->contexts[data->contextUid % CS_LABELS_CONTEXTS], memory_order_relaxed);
	struct cs_record record = {
		.type = CS_RECORD_HOST_LAUNCH,
		.start_ns = call->start_ns,
		.end_ns = cs_clock_realtime_ns(),
		.correlation_id = call->correlation_id,
		.graph_id = graph_id,
	};

	if (context == 0 || context >> 8 != data->contextUid)
		return;
	if (entry && call->name_id != 0)
		record.ref = cs_label_entry_segment_id(entry, labels->writer, call->name_id);
	record.gpu = (uint8_t)((context & 0xff) - 1);
	record.value = atomic_load_explicit(&call->slot.owner, memory_order_relaxed);
	if (record.end_ns < record.start_ns)
		record.end_ns = record.start_ns; /* the clock was set back in between */
	cs_segment_writer_append(labels->writer, &record);
}

static void
finish_launch(
	struct cs_labels *labels, const struct cs_call *call, const CUpti_CallbackData *data, bool succeeded)
{
	uint64_t key = 0;

	if (call->node_seen) {
		key = call->node_id;
	} else if (succeeded && call->kind == CS_CALL_LAUNCH) {
		key = CS_KEY_EAGER | call->correlation_id;
		cs_eager_put(&labels->eager, call->correlation_id, call->filed);
		atomic_fetch_add_explicit(&labels->eager_collectives, 1, memory_order_relaxed);
		append_host_launch(labels, call, data, 0);
	}
	if (call->nccl)
		cs_announce_bind(key);
}

static void
finish_graph_launch(struct cs_labels *labels, const struct cs_call *call, const CUpti_CallbackData *data)
{
	/* The _ptsz variant has the same layout. */
	const cuGraphLaunch_params *params = data->functionParams;
	uint32_t graph_id = 0;

	atomic_fetch_add_explicit(&labels->status->graph_launches, 1, memory_order_relaxed);
	if (labels->cupti->get_graph_exec_id)
		labels->cupti->get_graph_exec_id(params->hGraph, &graph_id);
	append_host_launch(labels, call, data, graph_id);
}

static void
finish_node_call(
	struct cs_labels *labels, CUpti_CallbackId cbid, const struct cs_call *call, const void *params)
{
	/* Structs of one call's versions begin alike. */
	switch (cbid) {
	case CUPTI_DRIVER_TRACE_CBID_cuGraphKernelNodeSetParams:
	case CUPTI_DRIVER_TRACE_CBID_cuGraphKernelNodeSetParams_v2:
		cs_labels_finish_set_node(
			labels, call, ((const cuGraphKernelNodeSetParams_v2_params *)params)->hNode);
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuGraphNodeSetParams:
		cs_labels_finish_set_node(labels, call, ((const cuGraphNodeSetParams_params *)params)->hNode);
		break;
	case CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams:
	case CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2: {
		const cuGraphExecKernelNodeSetParams_v2_params *set = params;

		cs_labels_finish_set_exec(labels, call, set->hGraphExec, set->hNode);
		break;
	}
	case CUPTI_DRIVER_TRACE_CBID_cuGraphExecNodeSetParams: {
		const cuGraphExecNodeSetParams_params *set = params;

		cs_labels_finish_set_exec(labels, call, set->hGraphExec, set->hNode);
		break;
	}
	default:
		break;
	}
}

static void
finish_update(struct cs_labels *labels, CUpti_CallbackId cbid, const struct cs_call *call, const void *params)
{
	/* The executable is the first parameter of all of them. */
	const cuGraphExecUpdate_v2_params *update = params;

	cs_labels_finish_update(labels, call, update->hGraphExec,
		cbid != CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate &&
			cbid != CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate_v2);
}

/* Where the handle of the executable is put is the first parameter of all calls that make one. */
static void
finish_exec(struct cs_labels *labels, const struct cs_call *call, const CUpti_CallbackData *data)
{
	const cuGraphInstantiateWithFlags_params *params = data->functionParams;

	if (params->phGraphExec)
		cs_labels_note_exec(labels, call, *params->phGraphExec, data->contextUid);
}

static void
leave(struct cs_labels *labels, struct cs_call *call, CUpti_CallbackId cbid, const CUpti_CallbackData *data)
{
	const CUresult *result = data->functionReturnValue;
	bool succeeded = !result || *result == CUDA_SUCCESS;
	struct cs_call done = {0};

	/* The owner by itself: other threads look at it when they claim a slot. */
	atomic_init(&done.slot.owner, atomic_load_explicit(&call->slot.owner, memory_order_relaxed));
	memcpy((char *)&done + sizeof(done.slot), (const char *)call + sizeof(call->slot),
		sizeof(done) - sizeof(done.slot));
	call->kind = CS_CALL_NONE;
	if (done.correlation_id != data->correlationId ||
		done.epoch != atomic_load_explicit(&labels->epoch, memory_order_relaxed))
		return;
	switch (done.kind) {
	case CS_CALL_LAUNCH:
	case CS_CALL_ADD_NODE:
		finish_launch(labels, &done, data, succeeded);
		break;
	case CS_CALL_SET_NODE:
	case CS_CALL_SET_EXEC:
		if (succeeded)
			finish_node_call(labels, cbid, &done, data->functionParams);
		break;
	case CS_CALL_UPDATE_EXEC:
		if (succeeded)
			finish_update(labels, cbid, &done, data->functionParams);
		break;
	case CS_CALL_INSTANTIATE:
		if (!succeeded)
			call->root_graph = 0;
		cs_labels_finish_instantiate(labels, call);
		if (succeeded)
			finish_exec(labels, &done, data);
		break;
	case CS_CALL_GRAPH_LAUNCH:
		if (succeeded)
			finish_graph_launch(labels, &done, data);
		break;
	default:
		break;
	}
}

/* -- dispatch ------------------------------------------------------------------------------------------ */

/* Launches of kernels: the handle alone first, which is all that an ordinary kernel costs. false: another
 * call. */
static bool
enter_launch(
	struct cs_labels *labels, struct cs_call *call, CUpti_CallbackId cbid, const CUpti_CallbackData *data)
{
	struct cs_kernel_request request;

	switch (cbid) {
	case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel:
	case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz: {
		const cuLaunchKernel_params *params = data->functionParams;

		if (cs_function_cache_ordinary(&labels->functions, params->f))
			return true;
		request = REQUEST(params, params->f, params->extra);
		break;
	}
	case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
	case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz: {
		const cuLaunchKernelEx_params *params = data->functionParams;

		if (cs_function_cache_ordinary(&labels->functions, params->f) || !params->config)
			return true;
		request = (struct cs_kernel_request){params->f, params->kernelParams, params->extra,
			{params->config->gridDimX, params->config->gridDimY, params->config->gridDimZ},
			{params->config->blockDimX, params->config->blockDimY, params->config->blockDimZ}};
		break;
	}
	case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel:
	case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz: {
		const cuLaunchCooperativeKernel_params *params = data->functionParams;

		if (cs_function_cache_ordinary(&labels->functions, params->f))
			return true;
		request = REQUEST(params, params->f, NULL);
		break;
	}
	default:
		return false;
	}
	begin_kernel(labels, call, CS_CALL_LAUNCH, data, &request, false);
	return true;
}

void
cs_labels_on_driver_api(CUpti_CallbackId cbid, const CUpti_CallbackData *data)
{
	struct cs_labels *labels = cs_labels_borrow();
	struct cs_call *call = labels ? cs_call_borrow() : NULL;

	if (!call || call->asking || !data->functionParams)
		return;
	if (data->callbackSite == CUPTI_API_EXIT) {
		if (call->kind != CS_CALL_NONE)
			leave(labels, call, cbid, data);
		return;
	}
	call->kind = CS_CALL_NONE;
	if (!enter_launch(labels, call, cbid, data))
		enter_other(labels, call, cbid, data);
}
