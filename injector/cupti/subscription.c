/* SPDX-License-Identifier: Apache-2.0 */
#include "subscription.h"

#include "clock.h"
#include "labels/labels.h"
#include "life/context.h"
#include "log.h"
#include "tracing.h"

#include <errno.h>
#include <string.h>

static CUpti_SubscriberHandle handle;
static _Atomic bool held;
static bool was_shared; /* start-up and worker */
static struct cs_steps steps;

bool
cs_subscription_held(void)
{
	return atomic_load_explicit(&held, memory_order_acquire);
}

static void
on_resource(CUpti_CallbackId cbid, const CUpti_ResourceData *data)
{
	if (cbid == CUPTI_CBID_RESOURCE_CONTEXT_CREATED)
		cs_context_created(data->context);
	else if (cbid == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING)
		cs_context_destroyed();
	else if (cs_injector_borrow_writer())
		cs_labels_on_resource(cbid, data);
}

static void
note(uint64_t graph, uint32_t correlation_id)
{
	struct cs_steps_launch launch = {
		.graph = graph,
		.monotonic_ns = cs_clock_monotonic_ns(),
		.correlation_id = correlation_id,
		.switches = cs_tracing_switches(),
		.traced = cs_tracing_depth() == CS_DEPTH_DEEP,
	};

	cs_steps_note(&steps, &launch);
}

/* The label side has switched cuGraphLaunch on. */
static void
note_graph_launch(CUpti_CallbackId cbid, const CUpti_CallbackData *data)
{
	const cuGraphLaunch_params *launch = data->functionParams;

	if ((cbid != CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch &&
		    cbid != CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz) ||
		data->callbackSite != CUPTI_API_ENTER || !launch)
		return;
	/* Both variants have the same parameters. */
	note((uint64_t)(uintptr_t)launch->hGraph, data->correlationId);
}

/* The label side counts eager launches of collectives at their exit. */
static void
note_eager(const CUpti_CallbackData *data)
{
	static _Atomic uint64_t seen, last_ns;
	uint64_t count, now_ns, before_ns;

	if (data->callbackSite != CUPTI_API_EXIT)
		return;
	count = cs_labels_eager_collectives();
	if (count == atomic_load_explicit(&seen, memory_order_relaxed))
		return;
	atomic_store_explicit(&seen, count, memory_order_relaxed);
	now_ns = cs_clock_monotonic_ns();
	before_ns = atomic_exchange_explicit(&last_ns, now_ns, memory_order_relaxed);
	if (before_ns < now_ns && now_ns - before_ns >= CS_STEPS_EAGER_PAUSE_NS)
		note(CS_STEPS_EAGER, data->correlationId);
}

size_t
cs_subscription_steps(struct cs_steps_graph *graphs)
{
	return cs_steps_read(&steps, graphs);
}

void
cs_subscription_name_graph(uint32_t correlation_id, uint32_t graph_id)
{
	cs_steps_name(&steps, correlation_id, graph_id);
}

/* Application threads, inside their CUDA calls. */
static void CUPTIAPI
on_callback(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void *data)
{
	int saved_errno = errno;

	(void)user;
	if (cs_instance_active()) {
		if (domain == CUPTI_CB_DOMAIN_RESOURCE)
			on_resource(cbid, data);
		else if (domain == CUPTI_CB_DOMAIN_DRIVER_API && cs_injector_borrow_writer()) {
			note_graph_launch(cbid, data);
			cs_labels_on_driver_api(cbid, data);
			note_eager(data);
		}
	}
	errno = saved_errno;
}

/* Layout of CUpti_SubscriberParams, which headers before 13.0 lack, and those before 13.2 have without the
 * last eight bytes. */
struct subscriber_parameters {
	size_t struct_bytes;
	const char *name;
	char *other;
	size_t other_bytes;
	uint8_t allow_multiple;
	uint8_t padding[7];
};
#define BYTES_13_0 offsetof(struct subscriber_parameters, allow_multiple)

/*
 * cuptiSubscribe tells that it failed, cuptiSubscribe_v2 also who is in the way. We hold on with the first,
 * unless told otherwise: from 13.3 on a process may not mix the second with the activity functions of the
 * first kind, which torch.profiler uses too.
 */
static void
ask_who(const struct cs_cupti_api *cupti, char *other, size_t other_bytes)
{
	CUpti_SubscriberHandle probe = NULL;
	struct subscriber_parameters parameters = {
		.struct_bytes = BYTES_13_0,
		.name = "collscope",
		.other = other,
		.other_bytes = other_bytes,
	};

	if (cupti->subscribe_v2 &&
		cupti->subscribe_v2(&probe, on_callback, NULL, &parameters) == CUPTI_SUCCESS)
		cupti->unsubscribe(probe); /* it has just left; the next try will find the place free */
	other[other_bytes - 1] = '\0';
	/* Of a tool that subscribed without a name (Compute Sanitizer of CUDA 13.0 on an H200): it is not
	 * one. */
	if (strcmp(other, "<not provided>") == 0)
		other[0] = '\0';
}

/* Beside others that ask for the same; false: CUPTI does not have it here and now. */
static bool
subscribe_shared(struct cs_cupti_api *cupti)
{
	struct subscriber_parameters parameters = {
		.struct_bytes = sizeof(parameters),
		.name = "collscope",
		.allow_multiple = 1,
	};
	CUptiResult result = cupti->subscribe_v2(&handle, on_callback, NULL, &parameters);

	if (result != CUPTI_SUCCESS) {
		cs_log_info("CUPTI does not let itself be shared, going on as with older ones result=%d",
			(int)result);
		return false;
	}
	cupti->shared = handle;
	return true;
}

static CUptiResult
listen_to_contexts(const struct cs_cupti_api *cupti, bool on)
{
	return cupti->enable_callback(
		on, handle, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
}

int
cs_subscription_begin(struct cs_instance *instance, CUptiResult *failure, char *other, size_t other_bytes)
{
	struct cs_cupti_api *cupti = &instance->cupti;
	CUptiResult result = CUPTI_SUCCESS;

	other[0] = '\0';
	if (!instance->may_share || !subscribe_shared(cupti))
		result = cupti->subscribe(&handle, on_callback, NULL);
	*failure = result;
	if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
		ask_who(cupti, other, other_bytes);
		return -EBUSY;
	}
	if (result != CUPTI_SUCCESS)
		return -EIO;
	result = listen_to_contexts(cupti, true);
	*failure = result;
	if (result != CUPTI_SUCCESS) {
		cupti->unsubscribe(handle);
		cupti->shared = NULL;
		return -EIO;
	}
	was_shared = cupti->shared != NULL;
	atomic_store_explicit(&held, true, memory_order_release);
	return 0;
}

void
cs_subscription_end(struct cs_instance *instance)
{
	CUptiResult failure;

	if (!atomic_exchange(&held, false))
		return;
	if (instance->cupti.shared) {
		listen_to_contexts(&instance->cupti, false);
		cs_labels_enable(handle, false, &failure);
	} else {
		instance->cupti.unsubscribe(handle);
	}
	cs_labels_stop_listening();
}

void
cs_subscription_leave(struct cs_instance *instance)
{
	cs_subscription_end(instance);
	if (!instance->cupti.shared)
		return;
	instance->cupti.unsubscribe(handle);
	instance->cupti.shared = NULL;
	atomic_store(&instance->callbacks_registered, false);
}

void
cs_subscription_renew(struct cs_instance *instance)
{
	if (was_shared && !instance->cupti.shared)
		was_shared = subscribe_shared(&instance->cupti);
}

void
cs_subscription_enable_labels(void)
{
	CUptiResult failure = CUPTI_SUCCESS;

	if (!cs_subscription_held())
		return;
	if (cs_labels_enable(handle, true, &failure) < 0)
		cs_log_warn("CUPTI refuses launch callbacks, collectives will have no sizes cupti_result=%d",
			(int)failure);
}
