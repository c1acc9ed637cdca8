/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread of ours inside the host: detached, all signals blocked (the host's handlers are for its own
 * threads), on a stack that CUPTI's work fits.
 */
#ifndef CS_THREAD_H
#define CS_THREAD_H

#include <signal.h>

/* CUPTI patches every loaded module when kernel records are switched on, on the calling thread's stack: 256
 * KiB overflowed on an H200 with CUPTI 13.0. Address space; what is touched stays far below. */
#define CS_THREAD_STACK_BYTES (2U * 1024U * 1024U)

/* Signals of this thread wait in between: a handler of the host's may fork, and would wait for a lock that
 * its own thread holds. Around each lock that fork takes, on application threads. Any thread. */
void cs_thread_hold_signals(sigset_t *before);
void cs_thread_release_signals(const sigset_t *before);

/* Any thread; the caller's signal mask is as before. run's result is ignored. 0 or -errno. */
int cs_thread_start(void *(*run)(void *), void *argument);

#endif
