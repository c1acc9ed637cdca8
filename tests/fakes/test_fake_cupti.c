/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fakes do what the real driver and CUPTI were measured to do. Built three times, against the CUPTI of
 * CUDA 12, 13.0 and 13.3. Every test runs in a child of its own.
 */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "child.h"
#include "fake.h"

#include <cupti.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#define NODES        40
#define POOL         64
#define POOL_BYTES   8192
#define LOG_MAX      4096
#define RECORDS_MAX  8192
#define RECORD_BYTES (CS_TEST_CUPTI_VERSION < 130000 ? 208 : CS_TEST_CUPTI_VERSION < 130300 ? 216 : 232)

extern const struct cs_fake_driver cs_fake_driver;

/* -- a small CUDA program ------------------------------------------------------------------------------ */

static CUcontext context;
static CUstream stream;
static CUfunction function;
static CUgraph graph;
static CUgraphExec exec;

#define CUDA(call)  CHILD_CHECK((call) == CUDA_SUCCESS)
#define CUPTI(call) CHILD_CHECK((call) == CUPTI_SUCCESS)

static void
cuda_open(void)
{
	CUmodule module;

	CUDA(cuInit(0));
	CUDA(cuDevicePrimaryCtxRetain(&context, 0));
	CUDA(cuCtxSetCurrent(context));
	CUDA(cuStreamCreate(&stream, 0));
	CUDA(cuModuleLoadData(&module, "fake module\nkernel _Z4workPii duration 2000 params 8 4\n"));
	CUDA(cuModuleGetFunction(&function, module, "_Z4workPii"));
}

static void
launch(void)
{
	void *pointer = NULL;
	int number = 7;
	void *parameters[] = {&pointer, &number};

	CUDA(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
}

static void
capture(void)
{
	int i;

	CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	for (i = 0; i < NODES; i++)
		launch();
	CUDA(cuStreamEndCapture(stream, &graph));
	CUDA(cuGraphInstantiateWithFlags(&exec, graph, 0));
}

static uint64_t
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* -- a client of CUPTI --------------------------------------------------------------------------------- */

static _Alignas(8) uint8_t pool[POOL][POOL_BYTES];
static _Atomic unsigned int asked, returned;
static CUpti_ActivityKernel9 kernels[RECORDS_MAX];
static unsigned int kernel_count, copy_count, graph_count;
static unsigned int disorder;
static long asking_thread;

static void
requested(uint8_t **buffer, size_t *size, size_t *records)
{
	CHILD_CHECK(asked < POOL);
	asking_thread = syscall(SYS_gettid);
	*buffer = pool[asked++];
	*size = POOL_BYTES;
	*records = 0;
}

static void
completed(CUcontext of, uint32_t id, uint8_t *buffer, size_t size, size_t valid)
{
	CUpti_Activity *record = NULL;

	(void)of;
	(void)id;
	(void)size;
	returned++;
	while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
		if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
			memcpy(&kernels[kernel_count], record, sizeof(kernels[0]));
			if (kernel_count && kernels[kernel_count].start < kernels[kernel_count - 1].start)
				disorder++;
			kernel_count++;
		} else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
			copy_count++;
		} else if (record->kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE) {
			graph_count++;
		}
	}
}

struct entry {
	CUpti_CallbackDomain domain;
	uint32_t cbid;
	bool exit;
	uint32_t correlation_id;
	uint64_t node;
	uint64_t original;
	int number; /* second parameter of the kernel */
};
static struct entry events[LOG_MAX];
static unsigned int event_count;
static CUpti_SubscriberHandle subscriber;

static void
listen(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void *data)
{
	const CUpti_CallbackData *api = data;
	const CUpti_ResourceData *resource = data;
	const CUpti_GraphData *of_graph;
	struct entry entry = {.domain = domain, .cbid = cbid};

	(void)user;
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
		entry.exit = api->callbackSite == CUPTI_API_EXIT;
		entry.correlation_id = api->correlationId;
		if (cbid == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel) {
			CHILD_CHECK(strcmp(api->symbolName, "_Z4workPii") == 0);
			entry.number =
				*(int *)((const cuLaunchKernel_params *)api->functionParams)->kernelParams[1];
		}
	} else {
		of_graph = resource->resourceDescriptor;
		if (of_graph && of_graph->node)
			CUPTI(cuptiGetGraphNodeId(of_graph->node, &entry.node));
		if (of_graph && of_graph->originalNode)
			CUPTI(cuptiGetGraphNodeId(of_graph->originalNode, &entry.original));
	}
	CHILD_CHECK(event_count < LOG_MAX);
	events[event_count++] = entry;
}

static void
subscribe(void)
{
	CUPTI(cuptiSubscribe(&subscriber, listen, NULL));
	CUPTI(cuptiEnableCallback(
		1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel));
	CUPTI(cuptiEnableCallback(
		1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch));
	CUPTI(cuptiEnableCallback(
		1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED));
	CUPTI(cuptiEnableCallback(
		1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED));
}

static void
trace(CUpti_ActivityKind kind)
{
	CUPTI(cuptiActivityRegisterCallbacks(requested, completed));
	CUPTI(cuptiActivityEnable(kind));
}

/* -- tests --------------------------------------------------------------------------------------------- */

static void
capture_shows_nodes_inside_the_launch(void)
{
	unsigned int i;

	subscribe();
	cuda_open();
	capture();
	/* Each captured launch: enter, node created, exit. Then per clone: created, cloned. */
	CHILD_CHECK(event_count == NODES * 3 + NODES * 2);
	for (i = 0; i < NODES; i++) {
		CHILD_CHECK(events[i * 3].domain == CUPTI_CB_DOMAIN_DRIVER_API && !events[i * 3].exit);
		CHILD_CHECK(events[i * 3].number == 7);
		CHILD_CHECK(events[i * 3 + 1].cbid == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
		CHILD_CHECK(events[i * 3 + 2].exit);
	}
	for (i = 0; i < NODES; i++) {
		CHILD_CHECK(events[NODES * 3 + i * 2].cbid == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
		CHILD_CHECK(events[NODES * 3 + i * 2 + 1].cbid == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
		CHILD_CHECK(events[NODES * 3 + i * 2 + 1].node == events[NODES * 3 + i * 2].node);
		CHILD_CHECK(events[NODES * 3 + i * 2 + 1].original == events[i * 3 + 1].node);
	}
}

static void
replay_gives_the_clones_ids_and_one_correlation(void)
{
	unsigned int i, k, found = 0;
	uint32_t correlation;

	subscribe();
	cuda_open();
	trace(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	capture();
	CUDA(cuGraphLaunch(exec, stream));
	correlation = events[event_count - 1].correlation_id;
	CUDA(cuStreamSynchronize(stream));
	CUPTI(cuptiActivityFlushAll(0));
	CHILD_CHECK(kernel_count == NODES);
	for (i = 0; i < NODES; i++) {
		CHILD_CHECK(kernels[i].correlationId == correlation);
		CHILD_CHECK(kernels[i].end > kernels[i].start && kernels[i].start > 0);
		CHILD_CHECK(strcmp(kernels[i].name, "_Z4workPii") == 0);
		CHILD_CHECK(kernels[i].graphId == kernels[i].graphNodeId >> 32);
		for (k = 0; k < event_count; k++)
			found += events[k].cbid == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED &&
				 events[k].domain == CUPTI_CB_DOMAIN_RESOURCE &&
				 events[k].node == kernels[i].graphNodeId;
	}
	CHILD_CHECK(found == NODES);
	CHILD_CHECK(disorder > 0);
}

static void
eager_launch_carries_its_calls_correlation(void)
{
	subscribe();
	cuda_open();
	trace(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	launch();
	CUDA(cuStreamSynchronize(stream));
	CUPTI(cuptiActivityFlushAll(0));
	CHILD_CHECK(kernel_count == 1 && kernels[0].graphNodeId == 0 && kernels[0].graphId == 0);
	CHILD_CHECK(kernels[0].correlationId == events[event_count - 1].correlation_id);
}

static void
launch_for(uint64_t start_ns, uint64_t end_ns)
{
	struct cs_fake_span span = {start_ns, end_ns};

	cs_fake_driver.plan(&span, 1);
	launch();
}

/* The worker does not come. */
static void
trace_by_hand(CUpti_ActivityKind kind)
{
	CUPTI(cuptiActivityFlushPeriod(600000));
	trace(kind);
}

static void
buffers_are_asked_for_at_hand_over(void)
{
	cuda_open();
	trace_by_hand(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	launch();
	CUDA(cuStreamSynchronize(stream));
	CHILD_CHECK(asked == 0);
	CUPTI(cuptiActivityFlushAll(0));
	CHILD_CHECK(asked == 1 && returned == 1 && asking_thread == syscall(SYS_gettid));
	CUPTI(cuptiActivityFlushAll(0));
	CHILD_CHECK(asked == 1 && returned == 1);
}

/* A GPU that is never idle: each flush brings what has ended since. */
static void
busy_gpu_holds_nothing_back(void)
{
	uint64_t begin_ns = now_ns();
	unsigned int i;

	cuda_open();
	trace_by_hand(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	for (i = 0; i < 10; i++) {
		launch_for(begin_ns + i * 2000, begin_ns + i * 2000 + 1000);
		launch_for(begin_ns, CS_FAKE_NEVER_NS);
		while (now_ns() < begin_ns + i * 2000 + 1000)
			;
		CUPTI(cuptiActivityFlushAll(0));
		CHILD_CHECK(kernel_count == i + 1 && returned == i + 1);
		CHILD_CHECK(kernels[i].start == begin_ns + i * 2000 &&
			    kernels[i].end == begin_ns + i * 2000 + 1000);
	}
	CUPTI(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
	CHILD_CHECK(kernel_count == 20 && kernels[10].end == 0 && kernels[19].end == 0);
	CUPTI(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
	CHILD_CHECK(kernel_count == 20);
}

/* What runs when its kind is switched off ends with the next flush, says its record. */
static void
switching_off_spoils_the_end(void)
{
	uint64_t begin_ns, flushed_ns;

	cuda_open();
	trace_by_hand(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	begin_ns = now_ns();
	launch_for(begin_ns, begin_ns + 1);
	launch_for(begin_ns, begin_ns + 200000000);
	launch_for(begin_ns + 200001000, begin_ns + 200002000);
	CHILD_CHECK(now_ns() < begin_ns + 200000000);
	CUPTI(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	CUPTI(cuptiActivityFlushAll(0));
	CHILD_CHECK(kernel_count == 1 && kernels[0].end == begin_ns + 1);
	CUDA(cuStreamSynchronize(stream));
	while (now_ns() < begin_ns + 210000000)
		;
	flushed_ns = now_ns();
	CUPTI(cuptiActivityFlushAll(0));
	CHILD_CHECK(kernel_count == 3);
	if (kernels[1].start != begin_ns)
		kernels[1] = kernels[2];
	CHILD_CHECK(kernels[1].start == begin_ns && kernels[1].end >= flushed_ns);
}

static void
wait_until(const _Atomic unsigned int *what, unsigned int least)
{
	struct timespec pause = {0, 2000000};
	unsigned int i;

	for (i = 0; i < 5000 && *what < least; i++)
		nanosleep(&pause, NULL);
	CHILD_CHECK(*what >= least);
}

static void
worker_returns_full_buffers_by_itself(void)
{
	unsigned int launches = 10, records = POOL_BYTES / RECORD_BYTES, i;

	cuda_open();
	CUPTI(cuptiActivityFlushPeriod(20));
	trace(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	capture();
	for (i = 0; i < launches; i++)
		CUDA(cuGraphLaunch(exec, stream));
	CUDA(cuStreamSynchronize(stream));
	wait_until(&returned, launches * NODES / records);
	/* All but the one that is still being filled; asked for on the worker's thread. */
	CHILD_CHECK(asked == launches * NODES / records + 1 && returned == asked - 1);
	CHILD_CHECK(asking_thread != syscall(SYS_gettid));
	CUPTI(cuptiActivityFlushAll(0));
	CHILD_CHECK(returned == asked && kernel_count == launches * NODES);
}

#if CS_TEST_CUPTI_VERSION >= 130000
/* UPDATED names the source's node first; SET_PARAMS the node that the executable was first made from. */
static void
update_names_its_nodes(void)
{
	CUgraphExecUpdateResultInfo info;
	CUgraph first;
	uint64_t own, original, source;
	unsigned int before, i;

	subscribe();
	CUPTI(cuptiEnableCallback(
		1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPH_NODE_UPDATED));
	CUPTI(cuptiEnableCallback(
		1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPH_NODE_SET_PARAMS));
	cuda_open();
	capture();
	own = events[NODES * 3 + 1].node;
	original = events[NODES * 3 + 1].original;
	first = graph;
	CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	before = event_count;
	for (i = 0; i < NODES; i++)
		launch();
	source = events[before + 1].node;
	CUDA(cuStreamEndCapture(stream, &graph));
	CUDA(cuGraphDestroy(first));
	before = event_count;
	CUDA(cuGraphExecUpdate_v2(exec, graph, &info));
	CHILD_CHECK(event_count == before + 2 * NODES);
	for (i = 0; i < NODES; i++) {
		CHILD_CHECK(events[before + 2 * i].cbid == CUPTI_CBID_RESOURCE_GRAPH_NODE_UPDATED);
		CHILD_CHECK(events[before + 2 * i].node == source + i);
		CHILD_CHECK(events[before + 2 * i].original == own + i);
		CHILD_CHECK(events[before + 2 * i + 1].cbid == CUPTI_CBID_RESOURCE_GRAPH_NODE_SET_PARAMS);
		CHILD_CHECK(events[before + 2 * i + 1].node == own + i);
		CHILD_CHECK(events[before + 2 * i + 1].original == original + i);
	}
	CUDA(cuGraphExecDestroy(exec));
	CUDA(cuGraphDestroy(graph));
}
#endif

static void
graph_trace_stands_for_its_nodes(void)
{
	cuda_open();
	trace(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
	capture();
	CUPTI(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
	CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	CUDA(cuGraphLaunch(exec, stream));
	CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
	CUPTI(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	CUDA(cuGraphLaunch(exec, stream));
	CUDA(cuGraphLaunch(exec, stream));
	CUDA(cuStreamSynchronize(stream));
	CUPTI(cuptiActivityFlushAll(0));
	CHILD_CHECK(kernel_count == NODES && graph_count == 2);
}

static void
window_edge_damages_a_record(void)
{
	unsigned int i, bad = 0;
	struct cs_fake_span spans[NODES];

	cuda_open();
	trace(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
	capture();
	for (i = 0; i < NODES; i++)
		spans[i] = (struct cs_fake_span){now_ns() + i * 1000, now_ns() + 50000000};
	cs_fake_driver.plan(spans, NODES);
	CUDA(cuGraphLaunch(exec, stream));
	CUPTI(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
	CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	CUDA(cuGraphLaunch(exec, stream));
	CUDA(cuStreamSynchronize(stream));
	CUPTI(cuptiActivityFlushAll(0));
	for (i = 0; i < kernel_count; i++)
		bad += kernels[i].start == 0;
	CHILD_CHECK(kernel_count == NODES && bad == 1);
}

static void
second_subscriber_is_refused(void)
{
	CUpti_SubscriberHandle second;

	subscribe();
	CHILD_CHECK(cuptiSubscribe(&second, listen, NULL) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	CUPTI(cuptiUnsubscribe(subscriber));
	CUPTI(cuptiSubscribe(&second, listen, NULL));
}

#if CS_TEST_CUPTI_VERSION >= 130300
/* As the header of 13.3 has them; the one that this is compiled against is older. */
struct sharing_parameters {
	CUpti_SubscriberParams older;
	uint8_t allow_multiple;
	uint8_t padding[7];
};
CUptiResult cuptiActivityEnable_v2(CUpti_SubscriberHandle, CUpti_ActivityKind, void *);
CUptiResult cuptiActivityDisable_v2(CUpti_SubscriberHandle, CUpti_ActivityKind, void *);
CUptiResult cuptiActivityRegisterCallbacks_v2(CUpti_SubscriberHandle,
	void (*)(uint8_t **, size_t *, size_t *, void *), void (*)(uint8_t *, size_t, size_t, void *));
CUptiResult cuptiActivityGetNextRecord_v2(CUpti_SubscriberHandle, uint8_t *, size_t, CUpti_Activity **record);

static CUptiResult
share(CUpti_SubscriberHandle *handle)
{
	struct sharing_parameters parameters = {
		.older = {.structSize = sizeof(parameters), .subscriberName = "sharer"}, .allow_multiple = 1};

	return cuptiSubscribe_v2(handle, listen, NULL, &parameters.older);
}

static CUpti_SubscriberHandle sharers[2];
static _Alignas(8) uint8_t buffers[2][2 * POOL_BYTES];
static unsigned int kernels_of[2];

static void
request_0(uint8_t **buffer, size_t *size, size_t *records, void *info)
{
	(void)info;
	*buffer = buffers[0];
	*size = sizeof(buffers[0]);
	*records = 0;
}

static void
request_1(uint8_t **buffer, size_t *size, size_t *records, void *info)
{
	request_0(buffer, size, records, info);
	*buffer = buffers[1];
}

static void
complete_any(uint8_t *buffer, size_t size, size_t valid, void *info)
{
	unsigned int client = buffer == buffers[1];
	CUpti_Activity *record = NULL;

	(void)size;
	(void)info;
	CHILD_CHECK(cuptiActivityGetNextRecord(buffer, valid, &record) ==
		    CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	while (cuptiActivityGetNextRecord_v2(sharers[client], buffer, valid, &record) == CUPTI_SUCCESS)
		kernels_of[client]++;
	memset(buffer, 0, sizeof(buffers[0]));
}

static void
launch_and_flush(void)
{
	launch();
	CUDA(cuStreamSynchronize(stream));
	CUPTI(cuptiActivityFlushAll(0));
}

static void
subscribers_share(void)
{
	CUpti_SubscriberHandle alone;

	setenv("CS_FAKE_DRIVER_VERSION", "13030", 1);
	CUPTI(share(&sharers[0]));
	CUPTI(share(&sharers[1]));
	CHILD_CHECK(cuptiSubscribe(&alone, listen, NULL) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	CHILD_CHECK(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) ==
		    CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	CHILD_CHECK(cuptiActivityRegisterCallbacks(requested, completed) ==
		    CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	cuda_open();
	CUPTI(cuptiActivityRegisterCallbacks_v2(sharers[0], request_0, complete_any));
	CUPTI(cuptiActivityRegisterCallbacks_v2(sharers[1], request_1, complete_any));
	CUPTI(cuptiActivityEnable_v2(sharers[0], CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, NULL));
	launch_and_flush();
	CUPTI(cuptiActivityEnable_v2(sharers[1], CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, NULL));
	launch_and_flush();
	CUPTI(cuptiActivityDisable_v2(sharers[0], CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, NULL));
	launch_and_flush();
	CHILD_CHECK(kernels_of[0] == 2 && kernels_of[1] == 2);
	CUPTI(cuptiUnsubscribe(sharers[1]));
	launch_and_flush();
	CHILD_CHECK(kernels_of[1] == 2);
	CUPTI(cuptiUnsubscribe(sharers[0]));
	CUPTI(cuptiSubscribe(&alone, listen, NULL));
}

static void
sharing_is_refused(void)
{
	CUpti_SubscriberHandle handle;

	/* An older driver. */
	CHILD_CHECK(share(&handle) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	/* Somebody uses the functions of the first kind. */
	setenv("CS_FAKE_DRIVER_VERSION", "13030", 1);
	CUPTI(cuptiActivityRegisterCallbacks(requested, completed));
	CHILD_CHECK(share(&handle) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
}
#endif

static void
finalize_after_tracing_kills_the_next_replay(void)
{
	cuda_open();
	capture();
	trace(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	CUDA(cuGraphLaunch(exec, stream));
	CUDA(cuStreamSynchronize(stream));
	CUPTI(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	CUPTI(cuptiFinalize());
	CHILD_CHECK(cuGraphLaunch(exec, stream) == CUDA_ERROR_LAUNCH_FAILED);
	CHILD_CHECK(cuCtxSynchronize() == CUDA_ERROR_LAUNCH_FAILED);
}

static void
finalize_after_callbacks_is_harmless(void)
{
	unsigned int before;

	subscribe();
	cuda_open();
	capture();
	CUPTI(cuptiUnsubscribe(subscriber));
	CUPTI(cuptiFinalize());
	before = event_count;
	CUDA(cuGraphLaunch(exec, stream));
	CUDA(cuStreamSynchronize(stream));
	CHILD_CHECK(event_count == before);
	/* Windows can still be opened, and the ids that were learnt hold. */
	trace(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	CUDA(cuGraphLaunch(exec, stream));
	CUDA(cuStreamSynchronize(stream));
	CUPTI(cuptiActivityFlushAll(0));
	CHILD_CHECK(kernel_count == NODES && kernels[0].graphNodeId >> 32 == events[before - 1].node >> 32);
}

static unsigned int hijacked;

static void
hijack_completed(CUcontext of, uint32_t id, uint8_t *buffer, size_t size, size_t valid)
{
	(void)of;
	(void)id;
	(void)buffer;
	(void)size;
	(void)valid;
	hijacked++;
}

static uint64_t
early(void)
{
	return now_ns() / 2;
}

static void
trace_one_launch(void)
{
	CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	launch();
	CUDA(cuStreamSynchronize(stream));
	CUPTI(cuptiActivityFlushAll(0));
	CUPTI(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
}

static void
a_clock_stays_for_everybody(void)
{
	uint64_t time_ns, before_ns;

	cuda_open();
	CUPTI(cuptiActivityRegisterCallbacks(requested, completed));
	before_ns = now_ns();
	trace_one_launch();
	CHILD_CHECK(kernel_count == 1 && kernels[0].start >= before_ns && kernels[0].end <= now_ns());
	CUPTI(cuptiActivityRegisterTimestampCallback(early));
	CHILD_CHECK(cuptiActivityRegisterTimestampCallback(NULL) == CUPTI_ERROR_INVALID_PARAMETER);
	CUPTI(cuptiGetTimestamp(&time_ns));
	CHILD_CHECK(time_ns >= before_ns / 2 && time_ns <= early());
	before_ns = early() - 1000000000;
	trace_one_launch();
	CHILD_CHECK(kernel_count == 2 && kernels[1].start >= before_ns && kernels[1].end <= early());
	CHILD_CHECK(kernels[1].end - kernels[1].start == kernels[0].end - kernels[0].start);
	CUPTI(cuptiActivityRegisterTimestampCallback(now_ns));
	trace_one_launch();
	CHILD_CHECK(kernel_count == 3 && kernels[2].start > kernels[0].end && kernels[2].end <= now_ns());
}

static void
second_register_takes_the_buffers(void)
{
	cuda_open();
	trace(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	launch();
	CUPTI(cuptiActivityRegisterCallbacks(requested, hijack_completed));
	CUDA(cuStreamSynchronize(stream));
	CUPTI(cuptiActivityFlushAll(0));
	CHILD_CHECK(returned == 0 && hijacked == 1 && asked == 1);
}

static void
tracing_takes_device_memory(void)
{
	size_t before, after, total;

	cuda_open();
	CUDA(cuMemGetInfo(&before, &total));
	trace(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	CUDA(cuMemGetInfo(&after, &total));
	CHILD_CHECK(before - after == 3 * 3200000);
}

static void
nth_call_fails(void)
{
	uint32_t version;

	setenv("CS_FAKE_CUPTI_FAIL", "2", 1);
	CUPTI(cuptiGetVersion(&version));
	CHILD_CHECK(version == CS_TEST_CUPTI_VERSION);
	CHILD_CHECK(cuptiGetVersion(&version) == CUPTI_ERROR_UNKNOWN);
	CUPTI(cuptiGetVersion(&version));
}

static void
dropped_records_are_counted(void)
{
	size_t count = 0;

	setenv("CS_FAKE_CUPTI_DROP", "4", 1);
	cuda_open();
	capture();
	trace(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	CUDA(cuGraphLaunch(exec, stream));
	CUDA(cuStreamSynchronize(stream));
	CUPTI(cuptiActivityFlushAll(0));
	CUPTI(cuptiActivityGetNumDroppedRecords(NULL, 0, &count));
	CHILD_CHECK(kernel_count == NODES - NODES / 4 && count == NODES / 4);
	CUPTI(cuptiActivityGetNumDroppedRecords(NULL, 0, &count));
	CHILD_CHECK(count == 0);
}

static void
in_fork(void)
{
	uint32_t version;

	CHILD_CHECK(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED);
	(void)cuptiGetVersion(&version);
}

static void
forked_child_has_no_cuda(void)
{
	cuda_open();
	CHILD_CHECK(child_run(in_fork) == CS_FAKE_MISUSE_EXIT);
}

/* -- misuse -------------------------------------------------------------------------------------------- */

static void
call_cuda(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void *data)
{
	CUdeviceptr memory;

	(void)user;
	(void)domain;
	(void)cbid;
	(void)data;
	(void)cuMemAlloc(&memory, 64);
}

static void
misuse_cuda_call_in_callback(void)
{
	cuda_open();
	CUPTI(cuptiSubscribe(&subscriber, call_cuda, NULL));
	CUPTI(cuptiEnableCallback(
		1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel));
	launch();
}

static void
misuse_graph_trace_after_instantiation(void)
{
	cuda_open();
	capture();
	trace(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
	(void)cuGraphLaunch(exec, stream);
}

static void
misuse_flush_before_cuda(void)
{
	CUPTI(cuptiActivityRegisterCallbacks(requested, completed));
	(void)cuptiActivityFlushAll(0);
}

static void
flush_inside(CUcontext of, uint32_t id, uint8_t *buffer, size_t size, size_t valid)
{
	hijack_completed(of, id, buffer, size, valid);
	(void)cuptiActivityFlushAll(0);
}

static void
misuse_flush_in_buffer_callback(void)
{
	cuda_open();
	CUPTI(cuptiActivityRegisterCallbacks(requested, flush_inside));
	CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	launch();
	CUDA(cuStreamSynchronize(stream));
	(void)cuptiActivityFlushAll(0);
}

static void
misuse_held_buffer_written(void)
{
	cuda_open();
	CUPTI(cuptiActivityFlushPeriod(10));
	trace(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	launch();
	wait_until(&asked, 1);
	pool[0][100] = 1;
	(void)cuptiActivityFlushAll(0);
}

static void
answer_same(uint8_t **buffer, size_t *size, size_t *records)
{
	*buffer = pool[0];
	*size = POOL_BYTES;
	*records = 0;
}

static void
misuse_held_buffer_answered_again(void)
{
	unsigned int i;

	cuda_open();
	CUPTI(cuptiActivityRegisterCallbacks(answer_same, completed));
	CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	for (i = 0; i < POOL_BYTES / 100; i++)
		launch();
	CUDA(cuStreamSynchronize(stream));
	(void)cuptiActivityFlushAll(0);
}

static void
answer_null(uint8_t **buffer, size_t *size, size_t *records)
{
	*buffer = NULL;
	*size = 0;
	*records = 0;
}

static void
null_answer(void)
{
	size_t count = 0;

	cuda_open();
	CUPTI(cuptiActivityRegisterCallbacks(answer_null, completed));
	CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	launch();
	CUDA(cuStreamSynchronize(stream));
	CUPTI(cuptiActivityFlushAll(0));
	CUPTI(cuptiActivityGetNumDroppedRecords(NULL, 0, &count));
	CHILD_CHECK(count == 1);
}

#define GOOD(name)                                                                                           \
	static void test_##name(void **state)                                                                \
	{                                                                                                    \
		(void)state;                                                                                 \
		assert_int_equal(child_run(name), 0);                                                        \
	}
#define MISUSE(name)                                                                                         \
	static void test_##name(void **state)                                                                \
	{                                                                                                    \
		(void)state;                                                                                 \
		assert_int_equal(child_run(name), CS_FAKE_MISUSE_EXIT);                                      \
	}

GOOD(capture_shows_nodes_inside_the_launch)
GOOD(replay_gives_the_clones_ids_and_one_correlation)
GOOD(eager_launch_carries_its_calls_correlation)
GOOD(buffers_are_asked_for_at_hand_over)
GOOD(busy_gpu_holds_nothing_back)
GOOD(switching_off_spoils_the_end)
GOOD(worker_returns_full_buffers_by_itself)
#if CS_TEST_CUPTI_VERSION >= 130000
GOOD(update_names_its_nodes)
#endif
GOOD(graph_trace_stands_for_its_nodes)
GOOD(window_edge_damages_a_record)
GOOD(second_subscriber_is_refused)
#if CS_TEST_CUPTI_VERSION >= 130300
GOOD(subscribers_share)
GOOD(sharing_is_refused)
#endif
GOOD(finalize_after_tracing_kills_the_next_replay)
GOOD(finalize_after_callbacks_is_harmless)
GOOD(second_register_takes_the_buffers)
GOOD(a_clock_stays_for_everybody)
GOOD(tracing_takes_device_memory)
GOOD(nth_call_fails)
GOOD(dropped_records_are_counted)
GOOD(forked_child_has_no_cuda)
MISUSE(misuse_cuda_call_in_callback)
MISUSE(misuse_graph_trace_after_instantiation)
MISUSE(misuse_flush_before_cuda)
MISUSE(misuse_flush_in_buffer_callback)
MISUSE(misuse_held_buffer_written)
MISUSE(misuse_held_buffer_answered_again)

static void
test_null_answer(void **state)
{
	(void)state;
	assert_int_equal(child_run(null_answer), CS_TEST_CUPTI_VERSION < 27 ? CS_FAKE_MISUSE_EXIT : 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_capture_shows_nodes_inside_the_launch),
		cmocka_unit_test(test_replay_gives_the_clones_ids_and_one_correlation),
		cmocka_unit_test(test_eager_launch_carries_its_calls_correlation),
		cmocka_unit_test(test_buffers_are_asked_for_at_hand_over),
		cmocka_unit_test(test_busy_gpu_holds_nothing_back),
		cmocka_unit_test(test_switching_off_spoils_the_end),
		cmocka_unit_test(test_worker_returns_full_buffers_by_itself),
#if CS_TEST_CUPTI_VERSION >= 130000
		cmocka_unit_test(test_update_names_its_nodes),
#endif
		cmocka_unit_test(test_graph_trace_stands_for_its_nodes),
		cmocka_unit_test(test_window_edge_damages_a_record),
		cmocka_unit_test(test_second_subscriber_is_refused),
#if CS_TEST_CUPTI_VERSION >= 130300
		cmocka_unit_test(test_subscribers_share),
		cmocka_unit_test(test_sharing_is_refused),
#endif
		cmocka_unit_test(test_finalize_after_tracing_kills_the_next_replay),
		cmocka_unit_test(test_finalize_after_callbacks_is_harmless),
		cmocka_unit_test(test_second_register_takes_the_buffers),
		cmocka_unit_test(test_a_clock_stays_for_everybody),
		cmocka_unit_test(test_tracing_takes_device_memory),
		cmocka_unit_test(test_nth_call_fails),
		cmocka_unit_test(test_dropped_records_are_counted),
		cmocka_unit_test(test_forked_child_has_no_cuda),
		cmocka_unit_test(test_misuse_cuda_call_in_callback),
		cmocka_unit_test(test_misuse_graph_trace_after_instantiation),
		cmocka_unit_test(test_misuse_flush_before_cuda),
		cmocka_unit_test(test_misuse_flush_in_buffer_callback),
		cmocka_unit_test(test_misuse_held_buffer_written),
		cmocka_unit_test(test_misuse_held_buffer_answered_again),
		cmocka_unit_test(test_null_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
