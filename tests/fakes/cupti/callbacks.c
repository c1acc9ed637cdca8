/* SPDX-License-Identifier: Apache-2.0 */
/* The callback API: one subscriber, or several that share, what they asked for, and the calls to it on the
 * application's own threads.
 */
#include "cupti.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOMAIN_COUNT 7
#define CBID_COUNT   1024

/* Number 0 is alone, the others share. */
struct CUpti_Subscriber_st {
	CUpti_CallbackFunc callback;
	void *user_data;
	unsigned int client;
	char name[64];
	struct CUpti_Subscriber_st *next; /* of those that have gone */
};

static struct CUpti_Subscriber_st *_Atomic subscribers[FAKE_CLIENTS];
static struct CUpti_Subscriber_st *gone; /* fake_cupti_lock */
static _Atomic unsigned char enabled[FAKE_CLIENTS][DOMAIN_COUNT][CBID_COUNT];

static struct CUpti_Subscriber_st *
first_subscriber(void)
{
	struct CUpti_Subscriber_st *found = NULL;
	unsigned int client;

	for (client = 0; client < FAKE_CLIENTS && !found; client++)
		found = atomic_load(&subscribers[client]);
	return found;
}

bool
fake_is_shared(void)
{
	struct CUpti_Subscriber_st *first = first_subscriber();

	return first && first->client != 0;
}

static unsigned int
number_of(CUpti_SubscriberHandle handle)
{
	unsigned int client = 0;

	while (client < FAKE_CLIENTS && (!handle || atomic_load(&subscribers[client]) != handle))
		client++;
	return client;
}

unsigned int
fake_client_of(CUpti_SubscriberHandle handle)
{
	unsigned int client = number_of(handle);

	return client == 0 ? FAKE_CLIENTS : client;
}

/* Takes a place. false: there is none. */
static bool
settle(struct CUpti_Subscriber_st *own, bool shares)
{
	struct CUpti_Subscriber_st *none = NULL;
	unsigned int kind;

	if (!shares)
		return !first_subscriber() && atomic_compare_exchange_strong(&subscribers[0], &none, own);
	if (atomic_load(&subscribers[0]) || fake_buffers_registered(0))
		return false;
	for (kind = 0; kind < CUPTI_ACTIVITY_KIND_COUNT; kind++)
		if (fake_client_wants(0, (CUpti_ActivityKind)kind))
			return false;
	for (own->client = 1; own->client < FAKE_CLIENTS; own->client++) {
		none = NULL;
		if (atomic_compare_exchange_strong(&subscribers[own->client], &none, own))
			return true;
	}
	return false;
}

/* CS_FAKE_CUPTI_BUSY=NAME: a tool outside (nsys, a debugger) holds CUPTI already. */
static CUptiResult
subscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback, void *user_data, const char *name,
	char *blocker, size_t blocker_bytes, bool shares)
{
	const char *outside = getenv("CS_FAKE_CUPTI_BUSY");
	struct CUpti_Subscriber_st *own;
	struct CUpti_Subscriber_st *other;

	if (!handle)
		return CUPTI_ERROR_INVALID_PARAMETER;
	own = calloc(1, sizeof(*own));
	if (!own)
		return CUPTI_ERROR_OUT_OF_MEMORY;
	own->callback = callback;
	own->user_data = user_data;
	snprintf(own->name, sizeof(own->name), "CUPTI for %.53s", name ? name : "unnamed");
	if (outside || !settle(own, shares)) {
		other = first_subscriber();
		if (blocker && blocker_bytes)
			snprintf(blocker, blocker_bytes, "%s", outside ? outside : other ? other->name : "");
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
	return subscribe(handle, callback, user_data, NULL, NULL, 0, false);
}

#if FAKE_HAS_13
/* Headers before 13.2 lack the member: it is the byte behind theirs. */
static bool
wants_to_share(const CUpti_SubscriberParams *parameters)
{
	return parameters->structSize > sizeof(*parameters) &&
	       *((const uint8_t *)parameters + sizeof(*parameters)) == 1;
}

CUptiResult
cuptiSubscribe_v2(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback, void *user_data,
	CUpti_SubscriberParams *parameters)
{
	bool shares;

	FAKE_CUPTI_ENTER();
	if (!parameters || parameters->structSize < CUpti_SubscriberParams_STRUCT_SIZE)
		return CUPTI_ERROR_INVALID_PARAMETER;
	shares = wants_to_share(parameters);
	/* It takes driver r610, that of CUDA 13.3. */
	if (shares && (!FAKE_HAS_SHARING || fake_number("CS_FAKE_DRIVER_VERSION", 0) < 13030))
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	return subscribe(handle, callback, user_data, parameters->subscriberName,
		parameters->oldSubscriberName, parameters->oldSubscriberSize, shares);
}
#endif

static void
disable_all(unsigned int client)
{
	unsigned int domain, cbid;

	for (domain = 0; domain < DOMAIN_COUNT; domain++)
		for (cbid = 0; cbid < CBID_COUNT; cbid++)
			atomic_store_explicit(&enabled[client][domain][cbid], 0, memory_order_relaxed);
}

/* The handle stays allocated: a callback on another thread may still be reading it. */
CUptiResult
cuptiUnsubscribe(CUpti_SubscriberHandle handle)
{
	struct CUpti_Subscriber_st *expected = handle;
	unsigned int client = number_of(handle), kind;

	FAKE_CUPTI_ENTER();
	if (client == FAKE_CLIENTS || !atomic_compare_exchange_strong(&subscribers[client], &expected, NULL))
		return CUPTI_ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&fake_cupti_lock);
	handle->next = gone;
	gone = handle;
	pthread_mutex_unlock(&fake_cupti_lock);
	disable_all(client);
	if (client == 0)
		return CUPTI_SUCCESS;
	for (kind = 1; kind < CUPTI_ACTIVITY_KIND_COUNT; kind++)
		fake_client_disable(client, (CUpti_ActivityKind)kind);
	fake_buffers_forget(client);
	return CUPTI_SUCCESS;
}

void
fake_callbacks_reset(void)
{
	unsigned int client;

	for (client = 0; client < FAKE_CLIENTS; client++) {
		atomic_store(&subscribers[client], NULL);
		disable_all(client);
	}
}

CUptiResult
cuptiEnableCallback(
	uint32_t enable, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
	unsigned int client = number_of(handle);

	FAKE_CUPTI_ENTER();
	if (client == FAKE_CLIENTS || domain <= CUPTI_CB_DOMAIN_INVALID ||
		(unsigned int)domain >= DOMAIN_COUNT || cbid >= CBID_COUNT)
		return CUPTI_ERROR_INVALID_PARAMETER;
	atomic_store(&enabled[client][domain][cbid], enable != 0);
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain)
{
	unsigned int client = number_of(handle), cbid;

	FAKE_CUPTI_ENTER();
	if (client == FAKE_CLIENTS || domain <= CUPTI_CB_DOMAIN_INVALID ||
		(unsigned int)domain >= DOMAIN_COUNT)
		return CUPTI_ERROR_INVALID_PARAMETER;
	for (cbid = 0; cbid < CBID_COUNT; cbid++)
		atomic_store(&enabled[client][domain][cbid], enable != 0);
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiGetCallbackState(
	uint32_t *enable, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
	unsigned int client = number_of(handle);

	FAKE_CUPTI_ENTER();
	if (!enable || client == FAKE_CLIENTS || (unsigned int)domain >= DOMAIN_COUNT || cbid >= CBID_COUNT)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*enable = atomic_load(&enabled[client][domain][cbid]);
	return CUPTI_SUCCESS;
}

/* The subscriber's function, when it asked for this. */
static struct CUpti_Subscriber_st *
listener(unsigned int client, CUpti_CallbackDomain domain, uint32_t cbid)
{
	if (cbid >= CBID_COUNT || !atomic_load_explicit(&enabled[client][domain][cbid], memory_order_relaxed))
		return NULL;
	return atomic_load(&subscribers[client]);
}

static bool
has_listener(CUpti_CallbackDomain domain, uint32_t cbid)
{
	unsigned int client = 0;

	while (client < FAKE_CLIENTS && !listener(client, domain, cbid))
		client++;
	return client < FAKE_CLIENTS;
}

static void
call_out(CUpti_CallbackDomain domain, uint32_t cbid, const void *data)
{
	enum cs_fake_inside *inside = fake_driver()->inside();
	enum cs_fake_inside before = *inside;
	const struct CUpti_Subscriber_st *to;
	unsigned int client;

	*inside = domain == CUPTI_CB_DOMAIN_DRIVER_API ? CS_FAKE_INSIDE_API_CALLBACK
						       : CS_FAKE_INSIDE_RESOURCE_CALLBACK;
	for (client = 0; client < FAKE_CLIENTS; client++) {
		to = listener(client, domain, cbid);
		if (to && to->callback)
			to->callback(to->user_data, domain, cbid, data);
	}
	*inside = before;
}

static void
api_callback(struct cs_fake_call *call, CUpti_ApiCallbackSite site)
{
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

	if (!has_listener(CUPTI_CB_DOMAIN_DRIVER_API, call->cbid))
		return;
	if (site == CUPTI_API_EXIT)
		data.functionReturnValue = &call->result;
	call_out(CUPTI_CB_DOMAIN_DRIVER_API, call->cbid, &data);
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
	if (!has_listener(CUPTI_CB_DOMAIN_RESOURCE, cbid) ||
		(!FAKE_HAS_13 && cbid >= CUPTI_CBID_RESOURCE_GRAPH_NODE_UPDATED))
		return;
	if (event->stream)
		data.resourceHandle.stream = (CUstream)event->stream;
	if (event->module)
		data.resourceDescriptor = &module;
	else if (event->graph || event->exec)
		data.resourceDescriptor = &graph;
	call_out(CUPTI_CB_DOMAIN_RESOURCE, cbid, &data);
}

void
fake_callbacks_synchronized(struct cs_fake_context *context, struct cs_fake_stream *stream)
{
	uint32_t cbid = stream ? CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED
			       : CUPTI_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED;
	CUpti_SynchronizeData data = {.context = (CUcontext)context, .stream = (CUstream)stream};

	if (has_listener(CUPTI_CB_DOMAIN_SYNCHRONIZE, cbid))
		call_out(CUPTI_CB_DOMAIN_SYNCHRONIZE, cbid, &data);
}
