/* SPDX-License-Identifier: Apache-2.0 */
/* The callback API: one subscriber, what it asked for, and the calls to it on the application's own threads.
 */
#include "cupti.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOMAIN_COUNT 7
#define CBID_COUNT   1024

struct CUpti_Subscriber_st {
	CUpti_CallbackFunc callback;
	void *user_data;
	char name[64];
};

static struct CUpti_Subscriber_st *_Atomic subscriber;
static _Atomic unsigned char enabled[DOMAIN_COUNT][CBID_COUNT];

/* CS_FAKE_CUPTI_BUSY=NAME: a tool outside (nsys, a debugger) holds CUPTI already. */
static CUptiResult
subscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback, void *user_data, const char *name,
	char *blocker, size_t blocker_bytes)
{
	const char *outside = getenv("CS_FAKE_CUPTI_BUSY");
	struct CUpti_Subscriber_st *own;
	struct CUpti_Subscriber_st *other = NULL;

	if (!handle)
		return CUPTI_ERROR_INVALID_PARAMETER;
	own = calloc(1, sizeof(*own));
	if (!own)
		return CUPTI_ERROR_OUT_OF_MEMORY;
	own->callback = callback;
	own->user_data = user_data;
	snprintf(own->name, sizeof(own->name), "CUPTI for %.53s", name ? name : "unnamed");
	if (outside || !atomic_compare_exchange_strong(&subscriber, &other, own)) {
		if (blocker && blocker_bytes)
			snprintf(blocker, blocker_bytes, "%s", outside ? outside : other->name);
		free(own);
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	}
	*handle = own;
	return fake_attach();
}

CUptiResult
cuptiSubscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback, void *user_data)
{
	FAKE_CUPTI_ENTER();
	return subscribe(handle, callback, user_data, NULL, NULL, 0);
}

#if FAKE_HAS_13
CUptiResult
cuptiSubscribe_v2(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback, void *user_data,
	CUpti_SubscriberParams *parameters)
{
	FAKE_CUPTI_ENTER();
	if (!parameters || parameters->structSize < CUpti_SubscriberParams_STRUCT_SIZE)
		return CUPTI_ERROR_INVALID_PARAMETER;
	return subscribe(handle, callback, user_data, parameters->subscriberName,
		parameters->oldSubscriberName, parameters->oldSubscriberSize);
}
#endif

static void
disable_all(void)
{
	unsigned int domain, cbid;

	for (domain = 0; domain < DOMAIN_COUNT; domain++)
		for (cbid = 0; cbid < CBID_COUNT; cbid++)
			atomic_store_explicit(&enabled[domain][cbid], 0, memory_order_relaxed);
}

/* The handle stays allocated: a callback on another thread may still be reading it. */
CUptiResult
cuptiUnsubscribe(CUpti_SubscriberHandle handle)
{
	struct CUpti_Subscriber_st *expected = handle;

	FAKE_CUPTI_ENTER();
	if (!handle || !atomic_compare_exchange_strong(&subscriber, &expected, NULL))
		return CUPTI_ERROR_INVALID_PARAMETER;
	disable_all();
	return CUPTI_SUCCESS;
}

void
fake_callbacks_reset(void)
{
	atomic_store(&subscriber, NULL);
	disable_all();
}

CUptiResult
cuptiEnableCallback(
	uint32_t enable, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
	FAKE_CUPTI_ENTER();
	if (!handle || handle != atomic_load(&subscriber) || domain <= CUPTI_CB_DOMAIN_INVALID ||
		(unsigned int)domain >= DOMAIN_COUNT || cbid >= CBID_COUNT)
		return CUPTI_ERROR_INVALID_PARAMETER;
	atomic_store(&enabled[domain][cbid], enable != 0);
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain)
{
	unsigned int cbid;

	FAKE_CUPTI_ENTER();
	if (!handle || handle != atomic_load(&subscriber) || domain <= CUPTI_CB_DOMAIN_INVALID ||
		(unsigned int)domain >= DOMAIN_COUNT)
		return CUPTI_ERROR_INVALID_PARAMETER;
	for (cbid = 0; cbid < CBID_COUNT; cbid++)
		atomic_store(&enabled[domain][cbid], enable != 0);
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiGetCallbackState(
	uint32_t *enable, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
	FAKE_CUPTI_ENTER();
	if (!enable || !handle || handle != atomic_load(&subscriber) ||
		(unsigned int)domain >= DOMAIN_COUNT || cbid >= CBID_COUNT)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*enable = atomic_load(&enabled[domain][cbid]);
	return CUPTI_SUCCESS;
}

/* The subscriber's function, when it asked for this. */
static struct CUpti_Subscriber_st *
listener(CUpti_CallbackDomain domain, uint32_t cbid)
{
	if (cbid >= CBID_COUNT || !atomic_load_explicit(&enabled[domain][cbid], memory_order_relaxed))
		return NULL;
	return atomic_load(&subscriber);
}

static void
call_out(const struct CUpti_Subscriber_st *to, CUpti_CallbackDomain domain, uint32_t cbid, const void *data)
{
	enum cs_fake_inside *inside = fake_driver()->inside();
	enum cs_fake_inside before = *inside;

	*inside = domain == CUPTI_CB_DOMAIN_DRIVER_API ? CS_FAKE_INSIDE_API_CALLBACK
						       : CS_FAKE_INSIDE_RESOURCE_CALLBACK;
	to->callback(to->user_data, domain, cbid, data);
	*inside = before;
}

static void
api_callback(struct cs_fake_call *call, CUpti_ApiCallbackSite site)
{
	const struct CUpti_Subscriber_st *to = listener(CUPTI_CB_DOMAIN_DRIVER_API, call->cbid);
	CUpti_CallbackData data = {
		.callbackSite = site,
		.functionName = call->name,
		.functionParams = call->params,
		.symbolName = call->symbol,
		.context = (CUcontext)call->context,
		.contextUid = call->context ? call->context->id : 0,
		.correlationData = &call->correlation_data,
		.correlationId = call->correlation_id,
	};

	if (!to)
		return;
	if (site == CUPTI_API_EXIT)
		data.functionReturnValue = &call->result;
	call_out(to, CUPTI_CB_DOMAIN_DRIVER_API, call->cbid, &data);
}

void
fake_callbacks_enter(struct cs_fake_call *call)
{
	api_callback(call, CUPTI_API_ENTER);
}

void
fake_callbacks_exit(struct cs_fake_call *call)
{
	api_callback(call, CUPTI_API_EXIT);
	fake_records_api(call);
}

/* Graph events carry graph data, module events module data, the rest nothing. */
void
fake_callbacks_resource(uint32_t cbid, const struct cs_fake_event *event)
{
	const struct CUpti_Subscriber_st *to = listener(CUPTI_CB_DOMAIN_RESOURCE, cbid);
	CUpti_GraphData graph = {
		.graph = (CUgraph)event->graph,
		.originalGraph = (CUgraph)event->original_graph,
		.node = (CUgraphNode)event->node,
		.originalNode = (CUgraphNode)event->original_node,
		.nodeType = event->node ? cs_fake_node_type(event->node) : CU_GRAPH_NODE_TYPE_EMPTY,
		.dependency = (CUgraphNode)event->dependency,
		.graphExec = (CUgraphExec)event->exec,
	};
	CUpti_ModuleResourceData module = {.moduleId = 1};
	CUpti_ResourceData data = {.context = (CUcontext)event->context};

	if (cbid == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING)
		fake_buffers_context_ends();
	if (cbid == CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED)
		event->exec->graph_traced = fake_kind_enabled(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
	/* 22 and 23 came with CUDA 13.0. */
	if (!to || (!FAKE_HAS_13 && cbid >= CUPTI_CBID_RESOURCE_GRAPH_NODE_UPDATED))
		return;
	if (event->stream)
		data.resourceHandle.stream = (CUstream)event->stream;
	if (event->module)
		data.resourceDescriptor = &module;
	else if (event->graph || event->exec)
		data.resourceDescriptor = &graph;
	call_out(to, CUPTI_CB_DOMAIN_RESOURCE, cbid, &data);
}

void
fake_callbacks_synchronized(struct cs_fake_context *context, struct cs_fake_stream *stream)
{
	uint32_t cbid = stream ? CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED
			       : CUPTI_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED;
	const struct CUpti_Subscriber_st *to = listener(CUPTI_CB_DOMAIN_SYNCHRONIZE, cbid);
	CUpti_SynchronizeData data = {.context = (CUcontext)context, .stream = (CUstream)stream};

	if (to)
		call_out(to, CUPTI_CB_DOMAIN_SYNCHRONIZE, cbid, &data);
}
