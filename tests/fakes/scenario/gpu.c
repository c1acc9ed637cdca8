/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA side of a rank: a server's calls, from cuInit over stream capture to graph replays. */
#include "scenario.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_BYTES (64U << 20)
#define GRID         8U
#define BLOCK        512U

void
scenario_gpu_check(CUresult result, const char *what)
{
	const char *text = NULL;

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorString(result, &text);
	fprintf(stderr, "scenario_rank: %s: %s\n", what, text ? text : "unknown error");
	exit(1);
}
#define CHECK(call) scenario_gpu_check((call), #call)

static void *
allocate(size_t count, size_t size)
{
	void *memory = calloc(count ? count : 1, size);

	if (!memory)
		abort();
	return memory;
}

/* Mangled name of an op's kernel: the implementation's, with the number of ranks in it, or its own. */
static void
kernel_name(const struct scenario_gpu *gpu, const struct scenario_op *op, char *name, size_t size)
{
	const char *number;

	if (op->type != SCENARIO_COLLECTIVE) {
		snprintf(name, size, "%s", op->kernel);
		return;
	}
	if (!op->impl->format) {
		scenario_nccl_kernel_name(gpu->scenario->nccl, op, name, size);
		return;
	}
	number = strstr(op->impl->format, "%d");
	if (number)
		snprintf(name, size, "%.*s%u%s", (int)(number - op->impl->format), op->impl->format,
			gpu->scenario->comms[op->comm].size, number + 2);
	else
		snprintf(name, size, "%s", op->impl->format);
}

static void
load_module(struct scenario_gpu *gpu)
{
	const struct scenario *scenario = gpu->scenario;
	char name[512];
	char *image;
	size_t size, used;
	uint32_t i;

	size = 64 + scenario->op_count * (size_t)640;
	image = allocate(1, size);
	used = (size_t)snprintf(image, size, "fake module\n");
	for (i = 0; i < scenario->op_count; i++) {
		if (scenario->ops[i].type == SCENARIO_COPY)
			continue;
		kernel_name(gpu, &scenario->ops[i], name, sizeof(name));
		used += (size_t)snprintf(image + used, size - used, "kernel %s duration %llu%s%s\n", name,
			(unsigned long long)scenario->ops[i].base_ns, scenario->ops[i].impl ? " params " : "",
			scenario->ops[i].impl ? scenario->ops[i].impl->parameters : "");
	}
	CHECK(cuModuleLoadData(&gpu->module, image));
	CHECK(cuLibraryLoadData(&gpu->library, image, NULL, NULL, 0, NULL, NULL, 0));
	free(image);
}

/* One block per op, with a place of 4 KiB for each of up to 16 parameters' bytes. */
static void
make_parameters(struct scenario_gpu *gpu, uint32_t op)
{
	void **parameters = allocate(16, sizeof(void *));
	uint32_t i;

	for (i = 0; i < 16; i++)
		parameters[i] = allocate(1, i == 0 ? 4096 : 256);
	gpu->parameters[op] = parameters;
}

uint64_t
scenario_gpu_bytes(const struct scenario_gpu *gpu, uint32_t op)
{
	uint64_t bytes = gpu->scenario->ops[op].bytes;

	return gpu->half ? bytes / 2 : bytes;
}

void
scenario_gpu_set_size(struct scenario_gpu *gpu, bool half)
{
	const struct scenario_comm *comm;
	const struct scenario_op *what;
	uint32_t op;

	gpu->half = half;
	for (op = 0; op < gpu->scenario->op_count; op++) {
		what = &gpu->scenario->ops[op];
		comm = &gpu->scenario->comms[what->comm];
		if (what->impl && what->impl->fill)
			what->impl->fill(gpu->parameters[op], scenario_gpu_bytes(gpu, op),
				(int)scenario_comm_rank(comm, gpu->rank), (int)comm->size);
	}
}

void
scenario_streams_open(struct scenario_streams *on)
{
	CHECK(cuStreamCreate(&on->streams[0], CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&on->streams[1], CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&on->fork, CU_EVENT_DISABLE_TIMING));
	CHECK(cuEventCreate(&on->join, CU_EVENT_DISABLE_TIMING));
}

void
scenario_streams_close(struct scenario_streams *on)
{
	CHECK(cuEventDestroy(on->fork));
	CHECK(cuEventDestroy(on->join));
	CHECK(cuStreamDestroy(on->streams[1]));
	CHECK(cuStreamDestroy(on->streams[0]));
}

void
scenario_gpu_open(struct scenario_gpu *gpu, const struct scenario *scenario, uint32_t rank)
{
	char name[512];
	CUdevice device;
	uint32_t i;

	memset(gpu, 0, sizeof(*gpu));
	gpu->scenario = scenario;
	gpu->rank = rank;
	gpu->driver = dlsym(RTLD_DEFAULT, CS_FAKE_DRIVER_SYMBOL);
	if (!gpu->driver) {
		fprintf(stderr, "scenario_rank: libcuda.so.1 is not the fake one\n");
		exit(1);
	}
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, (int)rank));
	CHECK(cuDevicePrimaryCtxRetain(&gpu->context, device));
	CHECK(cuCtxSetCurrent(gpu->context));
	scenario_streams_open(&gpu->own);
	scenario_streams_open(&gpu->captures);
	CHECK(cuMemAlloc(&gpu->memory, MEMORY_BYTES));
	CHECK(cuMemHostAlloc(&gpu->host_memory, 4096, 0));
	load_module(gpu);
	gpu->functions = allocate(scenario->op_count, sizeof(*gpu->functions));
	gpu->parameters = allocate(scenario->op_count, sizeof(*gpu->parameters));
	for (i = 0; i < scenario->op_count; i++) {
		if (scenario->ops[i].type == SCENARIO_COPY)
			continue;
		kernel_name(gpu, &scenario->ops[i], name, sizeof(name));
		/* Every other op as the runtime launches: by a CUkernel of a library, cast to CUfunction. */
		if (i % 2)
			CHECK(cuLibraryGetKernel((CUkernel *)&gpu->functions[i], gpu->library, name));
		else
			CHECK(cuModuleGetFunction(&gpu->functions[i], gpu->module, name));
		make_parameters(gpu, i);
	}
	scenario_gpu_set_size(gpu, false);
}

static void
copy(struct scenario_gpu *gpu, const struct scenario_op *op, CUstream stream)
{
	switch (op->direction) {
	case SCENARIO_TO_HOST:
		CHECK(cuMemcpyDtoHAsync(gpu->host_memory, gpu->memory, op->bytes, stream));
		break;
	case SCENARIO_FROM_HOST:
		CHECK(cuMemcpyHtoDAsync(gpu->memory, gpu->host_memory, op->bytes, stream));
		break;
	default:
		CHECK(cuMemcpyDtoDAsync(gpu->memory, gpu->memory + MEMORY_BYTES / 2, op->bytes, stream));
		break;
	}
}

static void
plan(struct scenario_gpu *gpu, const struct cs_fake_span *span)
{
	if (span)
		gpu->driver->plan(span, 1);
}

void
scenario_gpu_launch_block(struct scenario_gpu *gpu, uint32_t op, void *block, size_t bytes, CUstream stream,
	const struct cs_fake_span *span)
{
	CUlaunchConfig config = {.gridDimX = GRID,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = BLOCK,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = stream};
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
		CU_LAUNCH_PARAM_END};

	plan(gpu, span);
	CHECK(cuLaunchKernelEx(&config, gpu->functions[op], NULL, extra));
}

/* NCCL launches by cuLaunchKernelEx, the runtime's <<<>>> by cuLaunchKernel. */
void
scenario_gpu_run(struct scenario_gpu *gpu, const uint32_t *ops, uint32_t count, CUstream stream,
	bool captured, const struct cs_fake_span *spans)
{
	const struct scenario_op *what = &gpu->scenario->ops[ops[0]];

	if (what->type == SCENARIO_COLLECTIVE && what->impl->nccl) {
		scenario_nccl_call(gpu, ops, count, stream, captured, spans);
		return;
	}
	plan(gpu, spans);
	if (what->type == SCENARIO_COPY)
		copy(gpu, what, stream);
	else
		CHECK(cuLaunchKernel(gpu->functions[ops[0]], GRID, 1, 1, BLOCK, 1, 1, 0, stream,
			gpu->parameters[ops[0]], NULL));
}

CUDA_KERNEL_NODE_PARAMS
scenario_gpu_node_params(struct scenario_gpu *gpu, uint32_t op)
{
	static _Thread_local unsigned char block[4096];
	static _Thread_local size_t bytes;
	static _Thread_local void *extra[5];
	const struct scenario_op *what = &gpu->scenario->ops[op];
	CUDA_KERNEL_NODE_PARAMS params = {.gridDimX = GRID,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = BLOCK,
		.blockDimY = 1,
		.blockDimZ = 1};

	if (op % 2)
		params.kern = (CUkernel)gpu->functions[op];
	else
		params.func = gpu->functions[op];
	if (what->type == SCENARIO_COLLECTIVE && what->impl->nccl) {
		bytes = scenario_nccl_block(gpu, op, block);
		extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
		extra[1] = block;
		extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
		extra[3] = &bytes;
		extra[4] = CU_LAUNCH_PARAM_END;
		params.extra = extra;
	} else {
		params.kernelParams = gpu->parameters[op];
	}
	return params;
}

/* What one call launches: a group's kernels, else one operation. */
static void
launch_eager(struct scenario_gpu *gpu, const struct scenario_planned *planned,
	const struct cs_fake_span *spans, uint32_t count)
{
	uint32_t ops[SCENARIO_GROUP_MAX];
	uint32_t i;

	for (i = 0; i < count; i++)
		ops[i] = planned[i].op;
	scenario_gpu_run(gpu, ops, count, gpu->own.streams[planned[0].beside], false, spans);
}

void
scenario_gpu_launch(struct scenario_gpu *gpu, const struct scenario_launch *launch)
{
	struct cs_fake_span *spans = allocate(launch->count, sizeof(*spans));
	uint32_t i, count;

	for (i = 0; i < launch->count; i++)
		spans[i] = launch->planned[i].span;
	if (gpu->execs[launch->sequence]) {
		gpu->driver->plan(spans, launch->count);
		CHECK(cuGraphLaunch(gpu->execs[launch->sequence], gpu->own.streams[0]));
	} else {
		for (i = 0; i < launch->count; i += count) {
			count = launch->planned[i].group ? launch->planned[i].group : 1;
			launch_eager(gpu, &launch->planned[i], &spans[i], count);
		}
	}
	free(spans);
}

void
scenario_gpu_set_clock(struct scenario_gpu *gpu, uint64_t epoch_ns)
{
	const struct scenario_rank *who = &gpu->scenario->rank[gpu->rank];

	gpu->driver->set_clock((int)gpu->rank, who->clock_offset_ns, who->clock_drift_ppb, epoch_ns);
}

void
scenario_gpu_wait(struct scenario_gpu *gpu)
{
	CHECK(cuStreamSynchronize(gpu->own.streams[0]));
	CHECK(cuStreamSynchronize(gpu->own.streams[1]));
}

void
scenario_gpu_close(struct scenario_gpu *gpu)
{
	const struct scenario *scenario = gpu->scenario;
	uint32_t i, k;

	for (i = 0; i < scenario->sequence_count; i++) {
		if (!gpu->execs[i])
			continue;
		CHECK(cuGraphExecDestroy(gpu->execs[i]));
		if (gpu->graphs[i])
			CHECK(cuGraphDestroy(gpu->graphs[i]));
	}
	for (i = 0; i < scenario->op_count; i++) {
		for (k = 0; gpu->parameters[i] && k < 16; k++)
			free(gpu->parameters[i][k]);
		free(gpu->parameters[i]);
	}
	free(gpu->functions);
	free(gpu->parameters);
	free(gpu->graphs);
	free(gpu->execs);
	CHECK(cuMemFreeHost(gpu->host_memory));
	CHECK(cuMemFree(gpu->memory));
	scenario_streams_close(&gpu->captures);
	scenario_streams_close(&gpu->own);
	CHECK(cuModuleUnload(gpu->module));
	CHECK(cuDevicePrimaryCtxRelease((CUdevice)gpu->rank));
}
