/* SPDX-License-Identifier: Apache-2.0 */
#include "tracing.h"

#include "delivery.h"

#include <errno.h>

static const CUpti_ActivityKind light_kinds[] = {CUPTI_ACTIVITY_KIND_GRAPH_TRACE};
static const CUpti_ActivityKind deep_kinds[] = {
	CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};

static enum cs_depth now; /* start-up, then the worker */

enum cs_depth
cs_tracing_depth(void)
{
	return now;
}

static const CUpti_ActivityKind *
kinds_of(enum cs_depth depth, size_t *count)
{
	switch (depth) {
	case CS_DEPTH_LIGHT:
		*count = sizeof(light_kinds) / sizeof(light_kinds[0]);
		return light_kinds;
	case CS_DEPTH_DEEP:
		*count = sizeof(deep_kinds) / sizeof(deep_kinds[0]);
		return deep_kinds;
	default:
		*count = 0;
		return NULL;
	}
}

static void
disable(const struct cs_cupti_api *cupti, enum cs_depth depth)
{
	size_t count;
	const CUpti_ActivityKind *kinds = kinds_of(depth, &count);

	for (size_t i = 0; i < count; i++)
		cupti->activity_disable(kinds[i]);
}

static CUptiResult
enable(const struct cs_cupti_api *cupti, enum cs_depth depth)
{
	size_t count;
	const CUpti_ActivityKind *kinds = kinds_of(depth, &count);

	for (size_t i = 0; i < count; i++) {
		CUptiResult result = cupti->activity_enable(kinds[i]);

		if (result != CUPTI_SUCCESS) {
			for (size_t j = 0; j < i; j++)
				cupti->activity_disable(kinds[j]);
			return result;
		}
	}
	return CUPTI_SUCCESS;
}

CUptiResult
cs_tracing_register(struct cs_instance *instance)
{
	CUptiResult result = cs_delivery_register(&instance->cupti);

	atomic_store(&instance->callbacks_registered, result == CUPTI_SUCCESS);
	return result;
}

int
cs_tracing_switch(struct cs_instance *instance, enum cs_depth depth, CUptiResult *failure)
{
	*failure = CUPTI_SUCCESS;
	if (depth == now)
		return 0;
	disable(&instance->cupti, now);
	now = CS_DEPTH_OFF;
	if (depth == CS_DEPTH_OFF)
		return 0;
	if (!atomic_load(&instance->callbacks_registered)) {
		*failure = cs_tracing_register(instance);
		if (*failure != CUPTI_SUCCESS)
			return -EIO;
	}
	atomic_store(&instance->traced, true);
	*failure = enable(&instance->cupti, depth);
	if (*failure != CUPTI_SUCCESS)
		return -EIO;
	now = depth;
	return 0;
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
	now = CS_DEPTH_OFF;
}
