/* SPDX-License-Identifier: Apache-2.0 */
#include "thread.h"

#include <pthread.h>

void
cs_thread_hold_signals(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, before);
}

void
cs_thread_release_signals(const sigset_t *before)
{
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

int
cs_thread_start(void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	sigset_t before;
	pthread_t thread;
	int error;

	error = pthread_attr_init(&attributes);
	if (error != 0)
		return -error;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, CS_THREAD_STACK_BYTES);
	/* A thread begins with its creator's mask. */
	cs_thread_hold_signals(&before);
	error = pthread_create(&thread, &attributes, run, argument);
	cs_thread_release_signals(&before);
	pthread_attr_destroy(&attributes);
	return -error;
}
