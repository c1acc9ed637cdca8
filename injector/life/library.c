/* SPDX-License-Identifier: Apache-2.0 */
#include "library.h"

#include "thread.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* A look takes milliseconds at most, unless its thread does not get to run. */
#define FORK_PATIENCE_S 1

static pthread_mutex_t visit_lock = PTHREAD_MUTEX_INITIALIZER;
static bool fork_holds; /* forks take turns */

void *
cs_library_open(const char *name, int flags, const char **why)
{
	struct stat status;
	void *library;

	/* A name without a slash is looked for in the loader's folders. */
	if (strchr(name, '/') && stat(name, &status) == 0 && !S_ISREG(status.st_mode)) {
		*why = "it is not a regular file";
		return NULL;
	}
	library = dlopen(name, flags);
	if (!library) {
		*why = dlerror();
		if (!*why)
			*why = "it cannot be loaded";
	}
	return library;
}

void
cs_library_visit(int (*visit)(struct dl_phdr_info *info, size_t bytes, void *context), void *context)
{
	sigset_t before;

	cs_thread_hold_signals(&before);
	pthread_mutex_lock(&visit_lock);
	dl_iterate_phdr(visit, context);
	pthread_mutex_unlock(&visit_lock);
	cs_thread_release_signals(&before);
}

void
cs_library_hold(bool hold)
{
	struct timespec until;

	if (hold) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += FORK_PATIENCE_S;
		fork_holds = pthread_mutex_clocklock(&visit_lock, CLOCK_MONOTONIC, &until) == 0;
	} else if (fork_holds) {
		fork_holds = false;
		pthread_mutex_unlock(&visit_lock);
	}
}

void
cs_library_forget(void)
{
	pthread_mutex_init(&visit_lock, NULL);
	fork_holds = false;
}
