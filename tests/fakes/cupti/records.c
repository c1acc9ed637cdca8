/* SPDX-License-Identifier: Apache-2.0 */
/* Records of what was put on the GPU, in the layout of this CUPTI's version. */
#include "cupti.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What CUDA 12.6 writes: the same structs without the fields that came later. */
#define KERNEL9_BYTES 208U
#define MEMCPY5_BYTES 88U
/* What CUDA 13.3 writes has two fields more, which are left empty. */
#define KERNEL12_BYTES 232U

_Static_assert(sizeof(CUpti_ActivityKernel10) == 216, "layout");
_Static_assert(offsetof(CUpti_ActivityKernel10, isDeviceLaunched) == KERNEL9_BYTES, "Kernel9 is a prefix");
_Static_assert(offsetof(CUpti_ActivityKernel10, graphNodeId) == 144, "layout");
_Static_assert(offsetof(CUpti_ActivityMemcpy6, copyCount) == MEMCPY5_BYTES, "Memcpy5 is a prefix");
_Static_assert(sizeof(CUpti_ActivityMemcpyPtoP4) == 96, "layout");
_Static_assert(sizeof(CUpti_ActivityMemset4) == 88, "layout");
_Static_assert(sizeof(CUpti_ActivityGraphTrace2) == 56, "layout");
_Static_assert(sizeof(CUpti_ActivityAPI) == 40, "layout");

/* Records that go to the buffers at once: a launch of hundreds of nodes takes the lock once per batch. */
#define BATCH 64U

uint32_t
fake_record_size(CUpti_ActivityKind kind)
{
	switch (kind) {
	case CUPTI_ACTIVITY_KIND_KERNEL:
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		if (FAKE_HAS_SHARING)
			return KERNEL12_BYTES;
		return FAKE_HAS_13 ? sizeof(CUpti_ActivityKernel10) : KERNEL9_BYTES;
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		return FAKE_HAS_13 ? sizeof(CUpti_ActivityMemcpy6) : MEMCPY5_BYTES;
	case CUPTI_ACTIVITY_KIND_MEMCPY2:
		return sizeof(CUpti_ActivityMemcpyPtoP4);
	case CUPTI_ACTIVITY_KIND_MEMSET:
		return sizeof(CUpti_ActivityMemset4);
	case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
		return sizeof(CUpti_ActivityGraphTrace2);
	case CUPTI_ACTIVITY_KIND_DRIVER:
	case CUPTI_ACTIVITY_KIND_RUNTIME:
		return sizeof(CUpti_ActivityAPI);
	case CUPTI_ACTIVITY_KIND_DEVICE:
		return sizeof(CUpti_ActivityDevice5);
	default:
		return 0;
	}
}

/* One launch, as its records name it. */
struct launch {
	const struct cs_fake_call *call;
	const struct cs_fake_exec *exec;
	struct cs_fake_context *context;
	uint32_t graph_id;
};

static void
make_kernel(const struct launch *launch, const struct cs_fake_operation *operation,
	CUpti_ActivityKernel10 *kernel)
{
	const struct cs_fake_work *work = operation->work;

	kernel->kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
	kernel->registersPerThread = 32;
	kernel->deviceId = (uint32_t)launch->context->device;
	kernel->contextId = launch->context->id;
	kernel->streamId = operation->stream_id;
	kernel->gridX = (int32_t)work->grid[0];
	kernel->gridY = (int32_t)work->grid[1];
	kernel->gridZ = (int32_t)work->grid[2];
	kernel->blockX = (int32_t)work->block[0];
	kernel->blockY = (int32_t)work->block[1];
	kernel->blockZ = (int32_t)work->block[2];
	kernel->dynamicSharedMemory = (int32_t)work->shared_bytes;
	kernel->correlationId = launch->call->correlation_id;
	kernel->gridId = launch->call->correlation_id;
	kernel->name = work->function->name;
	kernel->graphNodeId = operation->node ? fake_node_id(operation->node) : 0;
	kernel->graphId = launch->graph_id;
}

static uint8_t
memory_kind(CUmemorytype type)
{
	return type == CU_MEMORYTYPE_DEVICE ? CUPTI_ACTIVITY_MEMORY_KIND_DEVICE
					    : CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
}

static uint8_t
copy_kind(const struct cs_fake_work *work)
{
	if (work->source == CU_MEMORYTYPE_DEVICE)
		return work->target == CU_MEMORYTYPE_DEVICE ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOD
							    : CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
	return work->target == CU_MEMORYTYPE_DEVICE ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOD
						    : CUPTI_ACTIVITY_MEMCPY_KIND_HTOH;
}

static void
make_copy(const struct launch *launch, const struct cs_fake_operation *operation, CUpti_ActivityMemcpy6 *copy)
{
	const struct cs_fake_work *work = operation->work;

	copy->kind = CUPTI_ACTIVITY_KIND_MEMCPY;
	copy->copyKind = copy_kind(work);
	copy->srcKind = memory_kind(work->source);
	copy->dstKind = memory_kind(work->target);
	copy->flags = CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;
	copy->bytes = work->bytes;
	copy->deviceId = (uint32_t)launch->context->device;
	copy->contextId = launch->context->id;
	copy->streamId = operation->stream_id;
	copy->correlationId = launch->call->correlation_id;
	copy->graphNodeId = operation->node ? fake_node_id(operation->node) : 0;
	copy->graphId = launch->graph_id;
}

static void
make_peer_copy(const struct launch *launch, const struct cs_fake_operation *operation,
	CUpti_ActivityMemcpyPtoP4 *copy)
{
	const struct cs_fake_work *work = operation->work;

	copy->kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
	copy->copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
	copy->srcKind = memory_kind(work->source);
	copy->dstKind = memory_kind(work->target);
	copy->flags = CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;
	copy->bytes = work->bytes;
	copy->deviceId = (uint32_t)launch->context->device;
	copy->contextId = launch->context->id;
	copy->streamId = operation->stream_id;
	copy->srcDeviceId = (uint32_t)work->source_device;
	copy->dstDeviceId = (uint32_t)work->target_device;
	copy->correlationId = launch->call->correlation_id;
	copy->graphNodeId = operation->node ? fake_node_id(operation->node) : 0;
	copy->graphId = launch->graph_id;
}

static void
make_set(const struct launch *launch, const struct cs_fake_operation *operation, CUpti_ActivityMemset4 *set)
{
	set->kind = CUPTI_ACTIVITY_KIND_MEMSET;
	set->bytes = operation->work->bytes;
	set->deviceId = (uint32_t)launch->context->device;
	set->contextId = launch->context->id;
	set->streamId = operation->stream_id;
	set->correlationId = launch->call->correlation_id;
	set->memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
	set->graphNodeId = operation->node ? fake_node_id(operation->node) : 0;
	set->graphId = launch->graph_id;
}

/* false: nobody asked for records of this operation. */
static bool
make_record(
	const struct launch *launch, const struct cs_fake_operation *operation, struct fake_record *record)
{
	const struct cs_fake_work *work = operation->work;

	memset(record, 0, sizeof(*record));
	record->device = launch->context->device;
	record->span = operation->span;
	switch (work->type) {
	case CS_FAKE_KERNEL:
		if (!fake_kind_enabled(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) &&
			!fake_kind_enabled(CUPTI_ACTIVITY_KIND_KERNEL))
			return false;
		make_kernel(launch, operation, &record->memory.kernel);
		/* KIND_KERNEL alone gives no times for kernels of a graph. */
		record->no_times =
			fake_take_bad_edge() ||
			(launch->exec && !fake_kind_enabled(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
		fake_set_traced();
		break;
	case CS_FAKE_COPY:
		/* The classic API turns peer copies on together with all others. */
		if (!fake_kind_enabled(CUPTI_ACTIVITY_KIND_MEMCPY))
			return false;
		if (work->source_device != work->target_device)
			make_peer_copy(launch, operation, &record->memory.peer_copy);
		else
			make_copy(launch, operation, &record->memory.copy);
		break;
	case CS_FAKE_SET:
		if (!fake_kind_enabled(CUPTI_ACTIVITY_KIND_MEMSET))
			return false;
		make_set(launch, operation, &record->memory.set);
		break;
	default:
		return false;
	}
	record->size = fake_record_size(record->memory.any.kind);
	return true;
}

static void
make_graph(const struct launch *launch, const struct cs_fake_stream *stream,
	const struct cs_fake_operation *operations, size_t count, struct fake_record *record)
{
	CUpti_ActivityGraphTrace2 *graph = &record->memory.graph;
	size_t i;

	memset(record, 0, sizeof(*record));
	record->device = launch->context->device;
	record->size = fake_record_size(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
	graph->kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
	graph->correlationId = launch->call->correlation_id;
	graph->deviceId = (uint32_t)launch->context->device;
	graph->graphId = launch->graph_id;
	graph->contextId = launch->context->id;
	graph->streamId = stream->id;
	graph->endDeviceId = graph->deviceId;
	graph->endContextId = graph->contextId;
	for (i = 0; i < count; i++) {
		if (i == 0 || operations[i].span.start_ns < record->span.start_ns)
			record->span.start_ns = operations[i].span.start_ns;
		if (operations[i].span.end_ns > record->span.end_ns)
			record->span.end_ns = operations[i].span.end_ns;
	}
}

void
fake_records_queued(const struct cs_fake_call *call, const struct cs_fake_exec *exec,
	const struct cs_fake_stream *stream, const struct cs_fake_operation *operations, size_t count)
{
	struct launch launch = {call, exec, stream->context, exec ? exec->graph->id : 0};
	struct fake_record *batch;
	size_t i, used = 0;

	for (i = 0; i < count; i++)
		fake_note_busy_until(operations[i].span.end_ns);
	batch = malloc(BATCH * sizeof(*batch));
	if (!batch)
		abort();
	if (exec && fake_kind_enabled(CUPTI_ACTIVITY_KIND_GRAPH_TRACE) && !exec->graph_traced)
		fake_cupti_misuse("a graph was launched that was instantiated before GRAPH_TRACE was "
				  "switched on: the real "
				  "CUPTI crashes");
	/* A traced graph gives one record and none of its nodes. */
	if (exec && count && fake_kind_enabled(CUPTI_ACTIVITY_KIND_GRAPH_TRACE)) {
		make_graph(&launch, stream, operations, count, batch);
		fake_buffers_append(batch, 1);
		count = 0;
	}
	for (i = 0; i < count; i++) {
		if (!make_record(&launch, &operations[i], &batch[used]))
			continue;
		if (++used == BATCH) {
			fake_buffers_append(batch, used);
			used = 0;
		}
	}
	if (used)
		fake_buffers_append(batch, used);
	free(batch);
}

void
fake_records_api(const struct cs_fake_call *call)
{
	struct fake_record record;
	CUpti_ActivityAPI *api = &record.memory.api;

	if (!fake_kind_enabled(CUPTI_ACTIVITY_KIND_DRIVER))
		return;
	memset(&record, 0, sizeof(record));
	record.device = -1;
	record.size = fake_record_size(CUPTI_ACTIVITY_KIND_DRIVER);
	record.span = (struct cs_fake_span){call->enter_ns, fake_cupti_now_ns()};
	api->kind = CUPTI_ACTIVITY_KIND_DRIVER;
	api->cbid = call->cbid;
	api->processId = (uint32_t)getpid();
	api->threadId = (uint32_t)(uintptr_t)pthread_self();
	api->correlationId = call->correlation_id;
	api->returnValue = (uint32_t)call->result;
	fake_buffers_append(&record, 1);
}

/* CS_FAKE_CUPTI_ZERO_FROM=N: from the Nth record on no times, as when CUPTI no longer recycles its device
 * buffers. */
static bool
has_lost_times(void)
{
	static _Atomic uint64_t finished;
	uint64_t from = fake_number("CS_FAKE_CUPTI_ZERO_FROM", 0);

	return from && atomic_fetch_add_explicit(&finished, 1, memory_order_relaxed) + 1 >= from;
}

void
fake_record_finish(struct fake_record *record, bool complete)
{
	union fake_record_memory *memory = &record->memory;
	uint64_t start_ns = record->span.start_ns;
	uint64_t end_ns = record->span.end_ns;

	if (has_lost_times() || !complete || record->no_times) {
		start_ns = 0;
		end_ns = 0;
	} else if (record->device >= 0) {
		start_ns = fake_driver()->gpu_time(record->device, start_ns);
		end_ns = fake_driver()->gpu_time(record->device, end_ns);
	}
	if (start_ns != 0 || end_ns != 0) {
		uint64_t offset = fake_clock_offset();

		start_ns += offset;
		end_ns += offset;
	}
	switch (memory->any.kind) {
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		memory->kernel.start = start_ns;
		memory->kernel.end = end_ns;
		memory->kernel.completed = end_ns;
		break;
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		memory->copy.start = start_ns;
		memory->copy.end = end_ns;
		break;
	case CUPTI_ACTIVITY_KIND_MEMCPY2:
		memory->peer_copy.start = start_ns;
		memory->peer_copy.end = end_ns;
		break;
	case CUPTI_ACTIVITY_KIND_MEMSET:
		memory->set.start = start_ns;
		memory->set.end = end_ns;
		break;
	case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
		memory->graph.start = start_ns;
		memory->graph.end = end_ns;
		break;
	default:
		memory->api.start = start_ns;
		memory->api.end = end_ns;
		break;
	}
}
