/* SPDX-License-Identifier: Apache-2.0 */
#include "bus_guard.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>

struct guard {
	sigjmp_buf jump;
	uintptr_t begin;
	uintptr_t end;
	struct guard *outer;
};

static _Thread_local struct guard *volatile innermost;
static struct sigaction previous;
static pthread_once_t installed = PTHREAD_ONCE_INIT;

/* Someone else's SIGBUS: their handler's, or the end that the process would have had without us. */
static void
pass_on(int signal_number, siginfo_t *info, void *machine_context)
{
	if ((previous.sa_flags & SA_SIGINFO) && previous.sa_sigaction) {
		previous.sa_sigaction(signal_number, info, machine_context);
	} else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
		previous.sa_handler(signal_number);
	} else if (previous.sa_handler == SIG_DFL || info->si_code > 0) {
		/* A fault comes again as soon as we return; what kill(2) sent does not. */
		sigaction(SIGBUS, &previous, NULL);
		if (info->si_code <= 0)
			raise(SIGBUS);
	}
}

static void
on_sigbus(int signal_number, siginfo_t *info, void *machine_context)
{
	uintptr_t address = (uintptr_t)info->si_addr;

	/* si_code > 0: the kernel's, for a fault of this very thread. */
	if (info->si_code > 0)
		for (struct guard *guard = innermost; guard; guard = guard->outer)
			if (address >= guard->begin && address < guard->end)
				siglongjmp(guard->jump, 1);
	pass_on(signal_number, info, machine_context);
}

static void
install(void)
{
	struct sigaction action = {.sa_sigaction = on_sigbus};

	/* SA_NODEFER: SIGBUS is not blocked in the handler, so leaving it by siglongjmp needs no signal mask
	 * to be restored, and sigsetjmp none to be saved (a system call). */
	action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
	sigemptyset(&action.sa_mask);
	/* First: a handler that runs at once, on another thread, finds `previous` filled. */
	sigaction(SIGBUS, NULL, &previous);
	sigaction(SIGBUS, &action, NULL);
}

int
cs_bus_guard_call(const void *base, size_t length_bytes, int (*body)(void *context), void *context)
{
	struct guard guard;
	volatile int result;

	pthread_once(&installed, install);
	guard.begin = (uintptr_t)base;
	guard.end = (uintptr_t)base + length_bytes;
	guard.outer = innermost;
	if (sigsetjmp(guard.jump, 0) == 0) {
		innermost = &guard;
		result = body(context);
	} else {
		result = -EIO;
	}
	innermost = guard.outer;
	return result;
}
