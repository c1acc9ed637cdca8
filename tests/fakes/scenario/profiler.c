/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profiler inside the program, as torch.profiler is: it takes over the process-wide buffer callbacks,
 * enables its kinds, and at its end flushes by force and disables them, whoever else wanted them. What comes
 * back in a buffer that it never gave away it leaves alone, as kineto does. With a clock of its own it
 * registers that at every start and leaves it there, as kineto does, too. One that shares CUPTI (13.3) has a
 * subscriber, buffers and kinds of its own, from its start to its stop.
 */
#include "scenario.h"

#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define BUFFER_BYTES (1U << 20)
#define BUFFERS_MAX  4096U
/* No run of a scenario lasts that long. */
#define RUN_NS 3600000000000U

struct sharing_parameters {
	size_t bytes;
	const char *name;
	char *other;
	size_t other_bytes;
	uint8_t allow_multiple;
	uint8_t padding[7];
};

static struct {
	__typeof__(&cuptiSubscribe) subscribe;
	__typeof__(&cuptiActivityRegisterCallbacks) register_callbacks;
	__typeof__(&cuptiActivityEnable) enable;
	__typeof__(&cuptiActivityDisable) disable;
	__typeof__(&cuptiActivityFlushAll) flush;
	__typeof__(&cuptiActivityGetNextRecord) next_record;
	__typeof__(&cuptiActivityRegisterTimestampCallback) register_clock;
	__typeof__(&cuptiUnsubscribe) unsubscribe;
	/* Of the second kind, by the header of CUDA 13.3. */
	CUptiResult (*subscribe_v2)(
		CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *, const struct sharing_parameters *);
	CUptiResult (*register_callbacks_v2)(CUpti_SubscriberHandle,
		void (*)(uint8_t **, size_t *, size_t *, void *),
		void (*)(uint8_t *, size_t, size_t, void *));
	CUptiResult (*enable_v2)(CUpti_SubscriberHandle, CUpti_ActivityKind, void *);
	CUptiResult (*next_record_v2)(CUpti_SubscriberHandle, uint8_t *, size_t, CUpti_Activity **);
} cupti;
static CUpti_SubscriberHandle shared; /* NULL: it does not share */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *given[BUFFERS_MAX];
static size_t given_count;
static uint64_t kernels;
static uint64_t strange_times;
static bool with_clock;

static const CUpti_ActivityKind kinds[] = {
	CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};

static void
find(void *library, const char *name, void *function)
{
	*(void **)function = dlsym(library, name);
	if (!*(void **)function) {
		fprintf(stderr, "scenario_rank: no %s\n", name);
		exit(1);
	}
}

static void
requested(uint8_t **buffer, size_t *size, size_t *records)
{
	uint8_t *memory = calloc(1, BUFFER_BYTES);

	if (!memory)
		abort();
	pthread_mutex_lock(&lock);
	if (given_count == BUFFERS_MAX)
		abort();
	given[given_count++] = memory;
	pthread_mutex_unlock(&lock);
	*buffer = memory;
	*size = BUFFER_BYTES;
	*records = 0;
}

/* Ticks since some time long past, as those of a processor. */
static uint64_t
ticks(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec + 10 * RUN_NS;
}

/* 0: none was taken, at the edge of a session. */
static bool
is_strange(uint64_t start)
{
	return with_clock && start != 0 && start + RUN_NS - ticks() > 2 * RUN_NS;
}

static bool
take_back(const uint8_t *buffer)
{
	bool own = false;
	size_t i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < given_count && !own; i++) {
		if (given[i] == buffer) {
			given[i] = given[--given_count];
			own = true;
		}
	}
	pthread_mutex_unlock(&lock);
	return own;
}

static CUptiResult
next_record(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
	return shared ? cupti.next_record_v2(shared, buffer, valid, record)
		      : cupti.next_record(buffer, valid, record);
}

static void
completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	CUpti_Activity *record = NULL;

	(void)context;
	(void)stream;
	(void)size;
	if (!take_back(buffer))
		return;
	while (next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
		if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
			continue;
		kernels++;
		strange_times += is_strange(((const CUpti_ActivityKernel9 *)(const void *)record)->start);
	}
	free(buffer);
}

static void
requested_v2(uint8_t **buffer, size_t *size, size_t *records, void *info)
{
	(void)info;
	requested(buffer, size, records);
}

static void
completed_v2(uint8_t *buffer, size_t size, size_t valid, void *info)
{
	(void)info;
	completed(NULL, 0, buffer, size, valid);
}

static void
listen(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void *data)
{
	(void)user;
	(void)domain;
	(void)cbid;
	(void)data;
}

void
scenario_profiler_open(void *library)
{
	find(library, "cuptiSubscribe", &cupti.subscribe);
	find(library, "cuptiActivityRegisterCallbacks", &cupti.register_callbacks);
	find(library, "cuptiActivityEnable", &cupti.enable);
	find(library, "cuptiActivityDisable", &cupti.disable);
	find(library, "cuptiActivityFlushAll", &cupti.flush);
	find(library, "cuptiActivityGetNextRecord", &cupti.next_record);
	find(library, "cuptiActivityRegisterTimestampCallback", &cupti.register_clock);
}

bool
scenario_profiler_subscribe(void)
{
	CUpti_SubscriberHandle subscriber;

	return cupti.subscribe(&subscriber, listen, NULL) == CUPTI_SUCCESS;
}

void
scenario_profiler_open_shared(void *library)
{
	find(library, "cuptiUnsubscribe", &cupti.unsubscribe);
	find(library, "cuptiSubscribe_v2", &cupti.subscribe_v2);
	find(library, "cuptiActivityRegisterCallbacks_v2", &cupti.register_callbacks_v2);
	find(library, "cuptiActivityEnable_v2", &cupti.enable_v2);
	find(library, "cuptiActivityGetNextRecord_v2", &cupti.next_record_v2);
}

static void
start_shared(void)
{
	const struct sharing_parameters parameters = {
		.bytes = sizeof(parameters), .name = "profiler", .allow_multiple = 1};
	size_t i;

	if (cupti.subscribe_v2(&shared, listen, NULL, &parameters) != CUPTI_SUCCESS) {
		fprintf(stderr, "scenario_rank: CUPTI is not shared\n");
		exit(1);
	}
	cupti.register_callbacks_v2(shared, requested_v2, completed_v2);
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		cupti.enable_v2(shared, kinds[i], NULL);
}

void
scenario_profiler_start(bool own_clock)
{
	size_t i;

	if (cupti.subscribe_v2) {
		start_shared();
		return;
	}
	with_clock = own_clock;
	if (own_clock)
		cupti.register_clock(ticks);
	cupti.register_callbacks(requested, completed);
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		cupti.enable(kinds[i]);
}

uint64_t
scenario_profiler_stop(uint64_t *times_of_others)
{
	size_t i;

	cupti.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	if (shared)
		cupti.unsubscribe(shared);
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && !shared; i++)
		cupti.disable(kinds[i]);
	shared = NULL;
	*times_of_others = strange_times;
	return kernels;
}
