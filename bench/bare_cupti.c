/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What CUPTI costs, and what it does not bear, without us: an injection library that does the least.
 * docs/overhead.md compares collscope with it. BARE_CUPTI says what it does:
 *
 * - subscribe: holds a subscription and enables nothing: the floor of any tool that has one.
 *
 * - kernel: traces every kernel as well and throws the records away: an empty consumer.
 *
 * - kernel-starve: the same with 2 MiB of buffers, and NULL when they are all with CUPTI; says every second
 * on standard error how many it was asked for, refused, got back, and how many records were in them.
 *
 * - graph-trace-late: switches GRAPH_TRACE on after a second, when the program's graphs have been made.
 *
 * For benchmarks only: it allocates in callbacks and has none of the safety of the real library.
 */
#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES (512U * 1024U)

static CUptiResult (*flush_all)(uint32_t flag);
static CUptiResult (*enable)(CUpti_ActivityKind);

static void
nothing(void *context, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
	(void)context;
	(void)domain;
	(void)id;
	(void)data;
}

static void
buffer_requested(uint8_t **buffer, size_t *size, size_t *records)
{
	*buffer = aligned_alloc(8, BUFFER_BYTES);
	*size = BUFFER_BYTES;
	*records = 0;
}

#define STARVE_BUFFERS 4
static _Atomic int held;
static _Atomic unsigned long asked, refused, returned, records_seen;
static CUptiResult (*next_record)(uint8_t *, size_t, CUpti_Activity **);

static void
buffer_requested_or_not(uint8_t **buffer, size_t *size, size_t *records)
{
	asked++;
	*buffer = NULL;
	*size = 0;
	*records = 0;
	if (held < STARVE_BUFFERS) {
		held++;
		buffer_requested(buffer, size, records);
	} else {
		refused++;
	}
}

static void
buffer_counted(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	CUpti_Activity *record = NULL;

	(void)context;
	(void)stream;
	(void)size;
	while (next_record(buffer, valid, &record) == CUPTI_SUCCESS)
		records_seen++;
	returned++;
	held--;
	free(buffer);
}

static void
buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	(void)context;
	(void)stream;
	(void)size;
	(void)valid;
	free(buffer);
}

static void *
flush_forever(void *argument)
{
	(void)argument;
	for (;;) {
		usleep(100000);
		flush_all(0);
	}
	return NULL;
}

static void *
flush_and_say(void *argument)
{
	(void)argument;
	for (unsigned int turn = 1;; turn++) {
		usleep(100000);
		flush_all(0);
		if (turn % 10 == 0)
			fprintf(stderr, "asked %lu refused %lu returned %lu records %lu\n", asked, refused,
				returned, records_seen);
	}
	return NULL;
}

static void *
trace_graphs_late(void *argument)
{
	(void)argument;
	sleep(1);
	enable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
	return flush_forever(NULL);
}

__attribute__((visibility("default"))) int InitializeInjection(void);

int
InitializeInjection(void)
{
	const char *what = getenv("BARE_CUPTI");
	const char *path = getenv("BARE_CUPTI_PATH");
	void *library = dlopen(path ? path : "libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
	CUptiResult (*subscribe)(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *);
	CUptiResult (*register_callbacks)(
		CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc);
	CUpti_SubscriberHandle handle;
	pthread_t thread;

	if (!library || !what) {
		fprintf(stderr, "bare_cupti: %s\n", library ? "BARE_CUPTI is not set" : dlerror());
		return 1;
	}
	subscribe = (CUptiResult(*)(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *))dlsym(
		library, "cuptiSubscribe");
	register_callbacks = (CUptiResult(*)(CUpti_BuffersCallbackRequestFunc,
		CUpti_BuffersCallbackCompleteFunc))dlsym(library, "cuptiActivityRegisterCallbacks");
	enable = (CUptiResult(*)(CUpti_ActivityKind))dlsym(library, "cuptiActivityEnable");
	flush_all = (CUptiResult(*)(uint32_t))dlsym(library, "cuptiActivityFlushAll");
	if (subscribe(&handle, nothing, NULL) != CUPTI_SUCCESS)
		fprintf(stderr, "bare_cupti: cannot subscribe\n");
	if (strcmp(what, "kernel") == 0) {
		register_callbacks(buffer_requested, buffer_completed);
		enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
		enable(CUPTI_ACTIVITY_KIND_MEMCPY);
		enable(CUPTI_ACTIVITY_KIND_MEMSET);
		pthread_create(&thread, NULL, flush_forever, NULL);
	} else if (strcmp(what, "kernel-starve") == 0) {
		next_record = (CUptiResult(*)(uint8_t *, size_t, CUpti_Activity **))dlsym(
			library, "cuptiActivityGetNextRecord");
		register_callbacks(buffer_requested_or_not, buffer_counted);
		enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
		pthread_create(&thread, NULL, flush_and_say, NULL);
	} else if (strcmp(what, "graph-trace-late") == 0) {
		register_callbacks(buffer_requested, buffer_completed);
		pthread_create(&thread, NULL, trace_graphs_late, NULL);
	}
	return 1;
}
