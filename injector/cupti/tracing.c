/* SPDX-License-Identifier: Apache-2.0 */
#include "tracing.h"

#include "cupti_call.h"
#include "records/delivery.h"
#include "subscription.h"
#include "witness.h"

#include <errno.h>

static const CUpti_ActivityKind deep_kinds[] = {
	CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};

#define DEEP_KINDS (sizeof(deep_kinds) / sizeof(deep_kinds[0]))

static _Atomic uint32_t now; /* enum cs_depth */
static _Atomic uint32_t switches;
static bool calls_wanted, calls_on; /* the worker's, as what follows */
static bool left_on;

enum cs_depth
cs_tracing_depth(void)
{
	return (enum cs_depth)atomic_load_explicit(&now, memory_order_relaxed);
}

uint32_t
cs_tracing_switches(void)
{
	return atomic_load_explicit(&switches, memory_order_relaxed);
}

static void
set_depth(enum cs_depth depth)
{
	atomic_store_explicit(&now, depth, memory_order_relaxed);
	atomic_fetch_add_explicit(&switches, 1, memory_order_relaxed);
}

static void
disable(const struct cs_cupti_api *cupti, size_t count)
{
	for (size_t i = 0; i < count; i++)
		cs_cupti_disable(cupti, deep_kinds[i]);
	if (calls_on)
		cs_cupti_disable(cupti, CUPTI_ACTIVITY_KIND_DRIVER);
	calls_on = false;
}

/* All or none. */
static CUptiResult
enable(const struct cs_cupti_api *cupti)
{
	bool calls_left_on = calls_on;

	/* Before the kernels, so that each of them has its call. Without it there is only less to know. */
	calls_on = calls_wanted && cs_cupti_enable(cupti, CUPTI_ACTIVITY_KIND_DRIVER) == CUPTI_SUCCESS;
	if (calls_left_on && !calls_on)
		cs_cupti_disable(cupti, CUPTI_ACTIVITY_KIND_DRIVER);
	for (size_t i = 0; i < DEEP_KINDS; i++) {
		CUptiResult result = cs_cupti_enable(cupti, deep_kinds[i]);

		if (result != CUPTI_SUCCESS) {
			disable(cupti, i);
			return result;
		}
	}
	return CUPTI_SUCCESS;
}

void
cs_tracing_want_calls(bool want)
{
	calls_wanted = want;
}

CUptiResult
cs_tracing_register(struct cs_instance *instance)
{
	CUptiResult result;

	cs_subscription_renew(instance);
	cs_witness_void();
	result = cs_delivery_register(&instance->cupti);
	atomic_store(&instance->callbacks_registered, result == CUPTI_SUCCESS);
	return result;
}

int
cs_tracing_switch(struct cs_instance *instance, enum cs_depth depth, CUptiResult *failure)
{
	*failure = CUPTI_SUCCESS;
	if (depth == cs_tracing_depth())
		return 0;
	if (depth == CS_DEPTH_OFF) {
		disable(&instance->cupti, DEEP_KINDS);
		set_depth(CS_DEPTH_OFF);
		return 0;
	}
	if (!atomic_load(&instance->callbacks_registered)) {
		*failure = cs_tracing_register(instance);
		if (*failure != CUPTI_SUCCESS)
			return -EIO;
	}
	atomic_store(&instance->traced, true);
	*failure = enable(&instance->cupti);
	if (*failure != CUPTI_SUCCESS)
		return -EIO;
	left_on = false;
	set_depth(CS_DEPTH_DEEP);
	return 0;
}

void
cs_tracing_insist(struct cs_instance *instance)
{
	if (cs_tracing_depth() != CS_DEPTH_DEEP)
		return;
	/* In the order of enable, which would switch off all of them if one failed. */
	if (calls_on)
		cs_cupti_enable(&instance->cupti, CUPTI_ACTIVITY_KIND_DRIVER);
	for (size_t i = 0; i < DEEP_KINDS; i++)
		cs_cupti_enable(&instance->cupti, deep_kinds[i]);
}

void
cs_tracing_begin_early(struct cs_instance *instance)
{
	CUptiResult failure;

	if (!cs_instance_enter_cupti())
		return;
	cs_tracing_switch(instance, CS_DEPTH_DEEP, &failure);
	cs_instance_leave_cupti();
}

void
cs_tracing_forget(void)
{
	left_on |= cs_tracing_depth() == CS_DEPTH_DEEP;
	set_depth(CS_DEPTH_OFF);
}

bool
cs_tracing_left_on(void)
{
	return left_on;
}

void
cs_tracing_sweep(struct cs_instance *instance)
{
	if (left_on)
		disable(&instance->cupti, DEEP_KINDS);
	left_on = false;
}
