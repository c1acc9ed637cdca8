/* SPDX-License-Identifier: Apache-2.0 */
#include "release.h"

#include "log.h"
#include "subscription.h"
#include "tracing.h"
#include "worker.h"

#include <signal.h>

void
cs_release(struct cs_instance *instance)
{
	CUptiResult failure;

	/* As cs_instance_enter_cupti, but dormant or not. */
	atomic_fetch_add(&instance->cupti_calls, 1);
	if (!atomic_load(&instance->exiting) && !atomic_load(&instance->dead)) {
		cs_tracing_switch(instance, CS_DEPTH_OFF, &failure);
		cs_subscription_end(instance);
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
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int error;

	if (pthread_attr_init(&attributes) != 0)
		return;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, CS_WORKER_STACK_BYTES);
	/* A thread begins with its creator's mask. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, &attributes, run, instance);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (error != 0)
		cs_log_debug("CUPTI stays subscribed: no thread to give it back error=%d", error);
}
