/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel launches, copies and memsets outside graphs, or into a capture. */
#include "driver.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Bandwidths for copies that nobody planned: PCIe 5 x16 and HBM, in bytes per microsecond. */
#define HOST_BYTES_PER_US   50000U
#define DEVICE_BYTES_PER_US 2000000U
#define COPY_BASE_NS        1500U

uint64_t
fake_work_duration_ns(const struct cs_fake_work *work)
{
	bool on_device = work->source == CU_MEMORYTYPE_DEVICE && work->target == CU_MEMORYTYPE_DEVICE;

	switch (work->type) {
	case CS_FAKE_KERNEL:
		return work->function->duration_ns;
	case CS_FAKE_COPY:
	case CS_FAKE_SET:
		return COPY_BASE_NS +
		       work->bytes * 1000U / (on_device ? DEVICE_BYTES_PER_US : HOST_BYTES_PER_US);
	default:
		return 0;
	}
}

/* The buffer of an `extra` launch with its size, or NULL. */
static const char *
extra_buffer(void *const *extra, size_t *bytes)
{
	const char *buffer = NULL;

	*bytes = 0;
	for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
		else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
			*bytes = *(const size_t *)extra[1];
	}
	return buffer;
}

/* A program may hand over less than the parameters' size, as NCCL does: the rest stays zero. */
static void
copy_from_buffer(void *to, const char *buffer, size_t bytes, uint32_t offset, uint32_t size)
{
	if (offset < bytes)
		memcpy(to, buffer + offset, bytes - offset < size ? bytes - offset : size);
}

/* Before the pointers of a block: how many nodes have it. A clone has that of its original, since nobody
 * writes into one: setting a node's parameters gives it a block of its own. */
struct shared {
	_Atomic uint32_t nodes;
	_Alignas(16) void *pointers[];
};

void **
fake_parameters_copy(const struct cs_fake_function *function, void *const *parameters, void *const *extra)
{
	size_t pointers_bytes = (function->parameter_count + 1) * sizeof(void *);
	size_t buffer_bytes;
	const char *buffer = extra_buffer(extra, &buffer_bytes);
	struct shared *shared;
	void **block;
	char *bytes;
	uint32_t i;

	pointers_bytes = (pointers_bytes + 15) / 16 * 16;
	shared = calloc(1, sizeof(*shared) + pointers_bytes + function->parameter_bytes);
	if (!shared)
		return NULL;
	atomic_init(&shared->nodes, 1);
	block = shared->pointers;
	bytes = (char *)block + pointers_bytes;
	for (i = 0; i < function->parameter_count; i++) {
		block[i] = bytes + function->offsets[i];
		if (buffer)
			copy_from_buffer(
				block[i], buffer, buffer_bytes, function->offsets[i], function->sizes[i]);
		else if (parameters)
			memcpy(block[i], parameters[i], function->sizes[i]);
	}
	return block;
}

static struct shared *
shared_of(void **parameters)
{
	return (struct shared *)((char *)parameters - offsetof(struct shared, pointers));
}

void **
fake_parameters_share(void **parameters)
{
	atomic_fetch_add(&shared_of(parameters)->nodes, 1);
	return parameters;
}

void
fake_parameters_free(void **parameters)
{
	if (parameters && atomic_fetch_sub(&shared_of(parameters)->nodes, 1) == 1)
		free(shared_of(parameters));
}

static CUresult
capture_operation(struct cs_fake_stream *stream, const struct cs_fake_work *work, void *const *parameters,
	void *const *extra, struct cs_fake_node **created)
{
	struct cs_fake_work own = *work;
	struct cs_fake_node *node;

	if (work->type == CS_FAKE_KERNEL) {
		own.parameters = fake_parameters_copy(work->function, parameters, extra);
		if (!own.parameters)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	node = fake_graph_add(stream->capture->graph, &own, stream->tail_nodes, stream->tail_count);
	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	node->lane = stream->lane;
	fake_stream_set_tails(stream, &node, 1);
	*created = node;
	return CUDA_SUCCESS;
}

static void
place_operation(struct cs_fake_stream *stream, struct cs_fake_operation *operation)
{
	const struct cs_fake_span *planned;
	uint64_t earliest_ns;

	if (fake_plan_take(&planned, 1)) {
		operation->span = *planned;
	} else {
		earliest_ns = fake_now_ns() + FAKE_LAUNCH_LATENCY_NS;
		if (stream->tail_ns >= earliest_ns)
			earliest_ns = stream->tail_ns + FAKE_KERNEL_GAP_NS;
		operation->span.start_ns = earliest_ns;
		operation->span.end_ns = earliest_ns + fake_work_duration_ns(operation->work);
	}
	fake_stream_extend(stream, operation->span.end_ns);
}

CUresult
fake_operation_queue(struct cs_fake_call *call, struct cs_fake_stream *stream,
	const struct cs_fake_work *work, void *const *parameters, void *const *extra)
{
	struct cs_fake_operation operation = {.work = work, .stream_id = stream->id};
	struct cs_fake_node *node = NULL;
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&fake_lock);
	if (stream->capture)
		result = capture_operation(stream, work, parameters, extra, &node);
	else
		place_operation(stream, &operation);
	pthread_mutex_unlock(&fake_lock);
	if (node)
		fake_graph_announce_node(node);
	else if (result == CUDA_SUCCESS)
		fake_tools()->queued(call, NULL, stream, &operation, 1);
	return result;
}

/* Grid and block in work, the kernel in function. The call is between begin and enter. */
static CUresult
launch_kernel(struct cs_fake_call *call, CUresult result, CUfunction function, struct cs_fake_work *work,
	CUstream stream_handle, bool per_thread, void **parameters, void **extra)
{
	struct cs_fake_stream *stream;
	size_t bytes;

	if (result != CUDA_SUCCESS)
		return fake_end(call, result);
	pthread_mutex_lock(&fake_lock);
	work->type = CS_FAKE_KERNEL;
	work->function = fake_launchable(function);
	stream = fake_stream_resolve(call->context, stream_handle, per_thread);
	pthread_mutex_unlock(&fake_lock);
	call->symbol = work->function ? work->function->name : NULL;
	fake_enter(call);
	if (!call->context)
		return fake_end(call, CUDA_ERROR_INVALID_CONTEXT);
	if (!work->function || !stream)
		return fake_end(call, CUDA_ERROR_INVALID_HANDLE);
	if (!work->grid[0] || !work->grid[1] || !work->grid[2] || !work->block[0] || !work->block[1] ||
		!work->block[2])
		return fake_end(call, CUDA_ERROR_INVALID_VALUE);
	if (work->function->parameter_count && !parameters && !extra_buffer(extra, &bytes))
		return fake_end(call, CUDA_ERROR_INVALID_VALUE);
	return fake_end(call, fake_operation_queue(call, stream, work, parameters, extra));
}

FAKE_EXPORT CUresult
cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
	unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
	CUstream stream, void **parameters, void **extra)
{
	struct cs_fake_call call;
	cuLaunchKernel_params params = {function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
		shared_bytes, stream, parameters, extra};
	struct cs_fake_work work = {.grid = {grid_x, grid_y, grid_z},
		.block = {block_x, block_y, block_z},
		.shared_bytes = shared_bytes};

	return launch_kernel(&call, FAKE_BEGIN(call, cuLaunchKernel, &params, 0), function, &work, stream,
		false, parameters, extra);
}

CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y,
	unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
	unsigned int shared_bytes, CUstream stream, void **parameters, void **extra);
FAKE_EXPORT CUresult
cuLaunchKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
	unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
	CUstream stream, void **parameters, void **extra)
{
	struct cs_fake_call call;
	cuLaunchKernel_ptsz_params params = {function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
		shared_bytes, stream, parameters, extra};
	struct cs_fake_work work = {.grid = {grid_x, grid_y, grid_z},
		.block = {block_x, block_y, block_z},
		.shared_bytes = shared_bytes};

	return launch_kernel(&call, FAKE_BEGIN(call, cuLaunchKernel_ptsz, &params, 0), function, &work,
		stream, true, parameters, extra);
}

FAKE_EXPORT CUresult
cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
	struct cs_fake_call call;
	cuLaunchKernelEx_params params = {config, function, parameters, extra};
	struct cs_fake_work work = {0};
	CUresult result = FAKE_BEGIN(call, cuLaunchKernelEx, &params, 0);

	if (config)
		work = (struct cs_fake_work){.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
			.block = {config->blockDimX, config->blockDimY, config->blockDimZ},
			.shared_bytes = config->sharedMemBytes};
	return launch_kernel(
		&call, result, function, &work, config ? config->hStream : NULL, false, parameters, extra);
}

CUresult cuLaunchKernelEx_ptsz(
	const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra);
FAKE_EXPORT CUresult
cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
	struct cs_fake_call call;
	cuLaunchKernelEx_ptsz_params params = {config, function, parameters, extra};
	struct cs_fake_work work = {0};
	CUresult result = FAKE_BEGIN(call, cuLaunchKernelEx_ptsz, &params, 0);

	if (config)
		work = (struct cs_fake_work){.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
			.block = {config->blockDimX, config->blockDimY, config->blockDimZ},
			.shared_bytes = config->sharedMemBytes};
	return launch_kernel(
		&call, result, function, &work, config ? config->hStream : NULL, true, parameters, extra);
}

FAKE_EXPORT CUresult
cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
	unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
	CUstream stream, void **parameters)
{
	struct cs_fake_call call;
	cuLaunchCooperativeKernel_params params = {function, grid_x, grid_y, grid_z, block_x, block_y,
		block_z, shared_bytes, stream, parameters};
	struct cs_fake_work work = {.grid = {grid_x, grid_y, grid_z},
		.block = {block_x, block_y, block_z},
		.shared_bytes = shared_bytes};

	return launch_kernel(&call, FAKE_BEGIN(call, cuLaunchCooperativeKernel, &params, 0), function, &work,
		stream, false, parameters, NULL);
}

static CUresult
queue_transfer(struct cs_fake_call *call, const struct cs_fake_work *work, CUstream handle, bool per_thread)
{
	struct cs_fake_stream *stream;

	if (!call->context)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&fake_lock);
	stream = fake_stream_resolve(call->context, handle, per_thread);
	pthread_mutex_unlock(&fake_lock);
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	return fake_operation_queue(call, stream, work, NULL, NULL);
}

static CUresult
queue_copy(struct cs_fake_call *call, CUmemorytype source, CUmemorytype target, size_t bytes, CUstream stream)
{
	int device = call->context ? call->context->device : 0;
	struct cs_fake_work work = {.type = CS_FAKE_COPY,
		.bytes = bytes,
		.source = source,
		.target = target,
		.source_device = device,
		.target_device = device};

	return queue_transfer(call, &work, stream, false);
}

FAKE_EXPORT CUresult
cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source, size_t bytes, CUstream stream)
{
	FAKE_FRAME(cuMemcpyHtoDAsync_v2, 0, target, source, bytes, stream);

	return fake_end(&call, queue_copy(&call, CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE, bytes, stream));
}

FAKE_EXPORT CUresult
cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t bytes, CUstream stream)
{
	FAKE_FRAME(cuMemcpyDtoHAsync_v2, 0, target, source, bytes, stream);

	return fake_end(&call, queue_copy(&call, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST, bytes, stream));
}

FAKE_EXPORT CUresult
cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream)
{
	FAKE_FRAME(cuMemcpyDtoDAsync_v2, 0, target, source, bytes, stream);

	return fake_end(&call, queue_copy(&call, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE, bytes, stream));
}

/* Unified addresses: device memory lies in memory.c's range. */
FAKE_EXPORT CUresult
cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream)
{
	FAKE_FRAME(cuMemcpyAsync, 0, target, source, bytes, stream);

	return fake_end(
		&call, queue_copy(&call, fake_memory_type(source), fake_memory_type(target), bytes, stream));
}

FAKE_EXPORT CUresult
cuMemcpyPeerAsync(CUdeviceptr target, CUcontext target_context, CUdeviceptr source, CUcontext source_context,
	size_t bytes, CUstream stream)
{
	struct cs_fake_work work = {.type = CS_FAKE_COPY,
		.bytes = bytes,
		.source = CU_MEMORYTYPE_DEVICE,
		.target = CU_MEMORYTYPE_DEVICE};
	FAKE_FRAME(cuMemcpyPeerAsync, 0, target, target_context, source, source_context, bytes, stream);

	if (!target_context || !source_context)
		return fake_end(&call, CUDA_ERROR_INVALID_CONTEXT);
	work.source_device = ((struct cs_fake_context *)source_context)->device;
	work.target_device = ((struct cs_fake_context *)target_context)->device;
	return fake_end(&call, queue_transfer(&call, &work, stream, false));
}

FAKE_EXPORT CUresult
cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t bytes, CUstream stream)
{
	struct cs_fake_work work = {.type = CS_FAKE_SET,
		.bytes = bytes,
		.source = CU_MEMORYTYPE_DEVICE,
		.target = CU_MEMORYTYPE_DEVICE};
	FAKE_FRAME(cuMemsetD8Async, 0, target, value, bytes, stream);

	return fake_end(&call, queue_transfer(&call, &work, stream, false));
}
