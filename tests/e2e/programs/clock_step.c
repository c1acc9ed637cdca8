/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An LD_PRELOAD library under which the wall clock is set, by CS_TEST_CLOCK_STEP_S seconds once the process
 * is CS_TEST_CLOCK_AFTER_MS old, as libcollscope.so sees it; everybody else's clock goes on. So it is in a
 * real process too: CUPTI's times are those of the GPU's clock, whose distance from the wall clock CUPTI has
 * taken before, and sleeps of the program until a moment of the wall clock would last as long as the step.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static time_t step_s;
static int64_t begun_ns, after_ns;

static int64_t
monotonic_ns(void)
{
	struct timespec now = {0};

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void
prepare(void)
{
	const char *step = getenv("CS_TEST_CLOCK_STEP_S");
	const char *after = getenv("CS_TEST_CLOCK_AFTER_MS");

	step_s = step ? (time_t)strtoll(step, NULL, 10) : 0;
	after_ns = (after ? strtoll(after, NULL, 10) : 0) * 1000000;
	begun_ns = monotonic_ns();
}

static int
is_library(const void *address)
{
	Dl_info info;

	return dladdr(address, &info) != 0 && info.dli_fname && strstr(info.dli_fname, "libcollscope.so");
}

__attribute__((visibility("default"))) int
clock_gettime(clockid_t clock, struct timespec *now)
{
	long result = syscall(SYS_clock_gettime, clock, now);

	pthread_once(&once, prepare);
	if (result == 0 && clock == CLOCK_REALTIME && step_s != 0 && monotonic_ns() - begun_ns >= after_ns &&
		is_library(__builtin_return_address(0)))
		now->tv_sec += step_s;
	return (int)result;
}
