/* SPDX-License-Identifier: Apache-2.0 */
/* Life of the fake driver: cuInit with its injection, forks, the end of the process, and the frame of every
 * call. */
#include "driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int state = CS_FAKE_STATE_LOADED;
static pthread_t init_thread;
static _Atomic uint32_t correlation_counter;
static _Thread_local enum cs_fake_inside inside;
static bool strict;

static void
idle_call(struct cs_fake_call *call)
{
	(void)call;
}

static void
idle_resource(uint32_t cbid, const struct cs_fake_event *event)
{
	(void)cbid;
	(void)event;
}

static void
idle_synchronized(struct cs_fake_context *context, struct cs_fake_stream *stream)
{
	(void)context;
	(void)stream;
}

static void
idle_queued(const struct cs_fake_call *call, const struct cs_fake_exec *exec,
	const struct cs_fake_stream *stream, const struct cs_fake_operation *operations, size_t count)
{
	(void)call;
	(void)exec;
	(void)stream;
	(void)operations;
	(void)count;
}

static bool
idle_dies(void)
{
	return false;
}

static uint64_t
idle_bytes(int device)
{
	(void)device;
	return 0;
}

static bool
idle_traced(void)
{
	return false;
}

static const struct cs_fake_tools idle_tools = {
	.enter = idle_call,
	.exit = idle_call,
	.resource = idle_resource,
	.synchronized = idle_synchronized,
	.queued = idle_queued,
	.graph_launch_dies = idle_dies,
	.device_bytes = idle_bytes,
	.kernels_traced = idle_traced,
};
static const struct cs_fake_tools *_Atomic tools = &idle_tools;

const struct cs_fake_tools *
fake_tools(void)
{
	return atomic_load_explicit(&tools, memory_order_acquire);
}

static void
attach(const struct cs_fake_tools *new_tools)
{
	atomic_store_explicit(&tools, new_tools ? new_tools : &idle_tools, memory_order_release);
}

static enum cs_fake_inside *
inside_of_thread(void)
{
	return &inside;
}

static uint32_t
next_correlation_id(void)
{
	return atomic_fetch_add_explicit(&correlation_counter, 1, memory_order_relaxed) + 1;
}

void
fake_misuse(const char *format, ...)
{
	char text[512];
	size_t used;
	va_list arguments;

	used = (size_t)snprintf(text, sizeof(text), "fake: MISUSE: ");
	va_start(arguments, format);
	vsnprintf(text + used, sizeof(text) - used - 1, format, arguments);
	va_end(arguments);
	used = strlen(text);
	text[used] = '\n';
	if (write(STDERR_FILENO, text, used + 1) < 0)
		_exit(CS_FAKE_MISUSE_EXIT);
	_exit(CS_FAKE_MISUSE_EXIT);
}

uint64_t
fake_now_ns(void)
{
	struct timespec now = {0};

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

void
fake_sleep_until(uint64_t time_ns)
{
	struct timespec until = {
		.tv_sec = (time_t)(time_ns / 1000000000U), .tv_nsec = (long)(time_ns % 1000000000U)};

	if (time_ns == CS_FAKE_NEVER_NS) {
		for (;;)
			pause();
	}
	while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

unsigned int
fake_environment_number(const char *name, unsigned int fallback)
{
	const char *text = getenv(name);
	char *end;
	unsigned long number;

	if (!text || !*text)
		return fallback;
	number = strtoul(text, &end, 10);
	if (*end || number > 1000000000UL)
		fake_misuse("%s=%s is not a number", name, text);
	return (unsigned int)number;
}

enum cs_fake_state
fake_state(void)
{
	return (enum cs_fake_state)atomic_load_explicit(&state, memory_order_acquire);
}

static void
after_fork_in_child(void)
{
	if (fake_state() != CS_FAKE_STATE_LOADED)
		atomic_store(&state, CS_FAKE_STATE_FORKED);
}

/* Loads the library that CUDA_INJECTION64_PATH names, as the driver does inside cuInit. A library that cannot
 * be loaded, or has no entry, is none: the program goes on without it. What the entry returns changes
 * nothing. */
static void
run_injection(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *library;
	int (*entry)(void);

	if (!path || !*path || strcmp(path, "none") == 0)
		return;
	library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!library) {
		if (fake_environment_number("CS_FAKE_DRIVER_VERBOSE", 0))
			fprintf(stderr, "fake: cannot load CUDA_INJECTION64_PATH: %s\n", dlerror());
		return;
	}
	*(void **)&entry = dlsym(library, "InitializeInjection");
	if (entry)
		(void)entry();
}

FAKE_EXPORT CUresult
cuInit(unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;
	bool first = false;

	if (inside != CS_FAKE_INSIDE_NOTHING)
		fake_misuse("cuInit called from inside a CUPTI callback");
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (fake_state() == CS_FAKE_STATE_INITIALIZING && pthread_equal(init_thread, pthread_self()))
		fake_misuse("cuInit called from InitializeInjection: the driver waits for itself");
	pthread_mutex_lock(&init_lock);
	switch (fake_state()) {
	case CS_FAKE_STATE_LOADED:
		first = true;
		strict = fake_environment_number("CS_FAKE_DRIVER_STRICT", 0) != 0;
		init_thread = pthread_self();
		atomic_store(&state, CS_FAKE_STATE_INITIALIZING);
		pthread_atfork(NULL, NULL, after_fork_in_child);
		run_injection();
		if (fake_device_count() == 0)
			result = CUDA_ERROR_NO_DEVICE;
		atomic_store(&state, result == CUDA_SUCCESS ? CS_FAKE_STATE_READY : CS_FAKE_STATE_LOADED);
		break;
	case CS_FAKE_STATE_FORKED:
		result = CUDA_ERROR_NOT_INITIALIZED;
		break;
	case CS_FAKE_STATE_GONE:
		result = CUDA_ERROR_DEINITIALIZED;
		break;
	default:
		break;
	}
	pthread_mutex_unlock(&init_lock);
	if (first && result == CUDA_SUCCESS)
		fake_tools()->resource(CUPTI_CBID_RESOURCE_CU_INIT_FINISHED, &(struct cs_fake_event){0});
	return result;
}

__attribute__((destructor)) static void
driver_gone(void)
{
	/* A child of fork that leaves through exit() runs this too: it stays FORKED. */
	if (fake_state() == CS_FAKE_STATE_READY)
		atomic_store(&state, CS_FAKE_STATE_GONE);
}

/* In a callback of CUPTI the driver may only be asked things; from the API callbacks it may also be waited
 * for. */
static void
check_inside(const char *name, unsigned int flags)
{
	if (inside == CS_FAKE_INSIDE_NOTHING)
		return;
	if ((flags & FAKE_CALL_QUERY) && !strict)
		return;
	if ((flags & FAKE_CALL_SYNC) && inside == CS_FAKE_INSIDE_API_CALLBACK)
		return;
	if (flags & FAKE_CALL_EARLY)
		return;
	fake_misuse("%s called from inside a CUPTI callback", name);
}

static CUresult
check_state(const char *name, unsigned int flags)
{
	if (flags & FAKE_CALL_EARLY)
		return CUDA_SUCCESS;
	switch (fake_state()) {
	case CS_FAKE_STATE_READY:
		return CUDA_SUCCESS;
	case CS_FAKE_STATE_INITIALIZING:
		if (pthread_equal(init_thread, pthread_self()))
			fake_misuse("%s called from InitializeInjection: the driver is not up yet", name);
		return CUDA_ERROR_NOT_INITIALIZED;
	case CS_FAKE_STATE_GONE:
		return CUDA_ERROR_DEINITIALIZED;
	default:
		return CUDA_ERROR_NOT_INITIALIZED;
	}
}

CUresult
fake_begin(struct cs_fake_call *call, uint32_t cbid, const char *name, const void *params, unsigned int flags)
{
	CUresult result;

	memset(call, 0, sizeof(*call));
	call->cbid = cbid;
	call->name = name;
	call->params = params;
	check_inside(name, flags);
	result = check_state(name, flags);
	if (result != CUDA_SUCCESS)
		return result;
	call->context = fake_context_current();
	if (call->context && call->context->failure != CUDA_SUCCESS &&
		!(flags & (FAKE_CALL_FREE | FAKE_CALL_QUERY)))
		return call->context->failure;
	return CUDA_SUCCESS;
}

/* Shows the call to CUPTI. Apart from begin, so that launches can name their kernel first. */
void
fake_enter(struct cs_fake_call *call)
{
	call->correlation_id = next_correlation_id();
	call->enter_ns = fake_now_ns();
	call->watched = inside == CS_FAKE_INSIDE_NOTHING;
	if (call->watched)
		fake_tools()->enter(call);
}

CUresult
fake_end(struct cs_fake_call *call, CUresult result)
{
	call->result = result;
	if (call->watched)
		fake_tools()->exit(call);
	return result;
}

/* CUPTI comes without the lock. */
static struct cs_fake_stream *
resolve_stream(struct cs_fake_context *context, CUstream handle, bool per_thread)
{
	struct cs_fake_stream *stream;

	pthread_mutex_lock(&fake_lock);
	stream = fake_stream_resolve(context, handle, per_thread);
	pthread_mutex_unlock(&fake_lock);
	return stream;
}

static bool
kernels_traced(void)
{
	return fake_tools()->kernels_traced();
}

FAKE_EXPORT const struct cs_fake_driver cs_fake_driver = {
	.attach = attach,
	.state = fake_state,
	.inside = inside_of_thread,
	.next_correlation_id = next_correlation_id,
	.resolve_stream = resolve_stream,
	.plan = fake_plan_set,
	.late_launches = fake_plan_late_launches,
	.kernels_traced = kernels_traced,
	.set_clock = fake_set_clock,
	.gpu_time = fake_gpu_time,
	.memory_bytes = fake_memory_bytes,
	.misuse = fake_misuse,
};
