/* SPDX-License-Identifier: Apache-2.0 */
/* How CUPTI finds the driver, and how it is told to fail. */
#include "cupti.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

pthread_mutex_t fake_cupti_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct cs_fake_driver *driver;
static _Atomic uint64_t calls;
static struct {
	uint64_t nth;     /* CS_FAKE_CUPTI_FAIL: this call fails, from 1; 0: none */
	uint64_t from;    /* CS_FAKE_CUPTI_FAIL_FROM: this call and all after it */
	const char *name; /* CS_FAKE_CUPTI_FAIL_NAME: every call of this function */
	CUptiResult result;
} fault;

void
fake_cupti_misuse(const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	dprintf(STDERR_FILENO, "fake: MISUSE: %s\n", text);
	_exit(CS_FAKE_MISUSE_EXIT);
}

uint64_t
fake_number(const char *name, uint64_t fallback)
{
	const char *text = getenv(name);
	char *end;
	unsigned long long number;

	if (!text || !*text)
		return fallback;
	number = strtoull(text, &end, 10);
	if (*end)
		fake_cupti_misuse("%s=%s is not a number", name, text);
	return number;
}

uint64_t
fake_cupti_now_ns(void)
{
	struct timespec now = {0};

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static void
prepare(void)
{
	void *library;

	driver = dlsym(RTLD_DEFAULT, CS_FAKE_DRIVER_SYMBOL);
	if (!driver) {
		library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
		driver = library ? dlsym(library, CS_FAKE_DRIVER_SYMBOL) : NULL;
	}
	fault.nth = fake_number("CS_FAKE_CUPTI_FAIL", 0);
	fault.from = fake_number("CS_FAKE_CUPTI_FAIL_FROM", 0);
	fault.name = getenv("CS_FAKE_CUPTI_FAIL_NAME");
	fault.result = (CUptiResult)fake_number("CS_FAKE_CUPTI_FAIL_RESULT", CUPTI_ERROR_UNKNOWN);
}

const struct cs_fake_driver *
fake_driver(void)
{
	pthread_once(&once, prepare);
	return driver;
}

/* CS_FAKE_CUPTI_FAIL_NAME may be a list. */
static bool
is_named(const char *name)
{
	size_t length = strlen(name);
	const char *at = fault.name;

	while ((at = strstr(at, name))) {
		if ((at == fault.name || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
			return true;
		at += length;
	}
	return false;
}

CUptiResult
fake_cupti_enter(const char *name)
{
	uint64_t number;
	const struct cs_fake_driver *at = fake_driver();

	number = atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) + 1;
	if (number == fault.nth || (fault.from && number >= fault.from) || (fault.name && is_named(name)))
		return fault.result;
	if (!at)
		return CUPTI_ERROR_NOT_INITIALIZED;
	switch (at->state()) {
	case CS_FAKE_STATE_GONE:
		return CUPTI_ERROR_NOT_INITIALIZED;
	case CS_FAKE_STATE_FORKED:
		fake_cupti_misuse("%s called in a forked child: the real one hangs", name);
	default:
		return CUPTI_SUCCESS;
	}
}

static bool
kernels_traced(void)
{
	return fake_kind_enabled(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
}

static const struct cs_fake_tools tools = {
	.enter = fake_callbacks_enter,
	.exit = fake_callbacks_exit,
	.resource = fake_callbacks_resource,
	.synchronized = fake_callbacks_synchronized,
	.queued = fake_records_queued,
	.graph_launch_dies = fake_graph_launch_dies,
	.device_bytes = fake_device_bytes,
	.kernels_traced = kernels_traced,
};

CUptiResult
fake_attach(void)
{
	if (!fake_driver())
		return CUPTI_ERROR_NOT_INITIALIZED;
	driver->attach(&tools);
	return CUPTI_SUCCESS;
}

/* After cuptiFinalize. A process that has traced keeps one hook: the one by which its next graph launch dies.
 */
void
fake_detach(void)
{
	if (fake_driver() && !fake_graph_launch_dies())
		driver->attach(NULL);
}

/* CS_FAKE_CUPTI_CALLS=FILE: how many calls were made, so that a test can fail each of them in turn. */
__attribute__((destructor)) static void
tell_calls(void)
{
	const char *path = getenv("CS_FAKE_CUPTI_CALLS");
	int fd;

	if (!path || !driver || driver->state() == CS_FAKE_STATE_FORKED)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	dprintf(fd, "%llu\n", (unsigned long long)atomic_load(&calls));
	close(fd);
}
