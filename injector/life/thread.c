/* SPDX-License-Identifier: Apache-2.0 */
#include "thread.h"

#include <pthread.h>
#include <signal.h>

int
cs_thread_start(void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int error;

	error = pthread_attr_init(&attributes);
	if (error != 0)
		return -error;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, CS_THREAD_STACK_BYTES);
	/* A thread begins with its creator's mask. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, &attributes, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return -error;
}
