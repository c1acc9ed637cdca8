/* SPDX-License-Identifier: Apache-2.0 */
#include "release.h"

#include "cupti/subscription.h"
#include "cupti/tracing.h"
#include "log.h"
#include "thread.h"

void
cs_release(struct cs_instance *instance)
{
	CUptiResult failure;

	/* As cs_instance_enter_cupti, but dormant or not. */
	atomic_fetch_add(&instance->cupti_calls, 1);
	if (!atomic_load(&instance->exiting) && !atomic_load(&instance->dead)) {
		cs_tracing_switch(instance, CS_DEPTH_OFF, &failure);
		cs_subscription_leave(instance);
	}
	atomic_fetch_sub(&instance->cupti_calls, 1);
}

static void *
run(void *argument)
{
	cs_release(argument);
	return NULL;
}

void
cs_release_elsewhere(struct cs_instance *instance)
{
	int error = cs_thread_start(run, instance);

	if (error != 0)
		cs_log_debug("CUPTI stays subscribed: no thread to give it back error=%d", -error);
}
