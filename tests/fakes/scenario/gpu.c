/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA side of a rank: a server's calls, from cuInit over stream capture to graph replays. */
#include "scenario.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_BYTES (64U << 20)
#define GRID         8U
#define BLOCK        512U

/* One communicator: its calls come one after the other, whatever threads capture. */
static pthread_mutex_t nccl_lock = PTHREAD_MUTEX_INITIALIZER;

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

/* Mangled name of an op's kernel: the implementation's, with the size of the group in it, or its own. */
static void
kernel_name(const struct scenario_gpu *gpu, const struct scenario_op *op, char *name, size_t size)
{
	const char *number;

	if (op->type != SCENARIO_COLLECTIVE) {
		snprintf(name, size, "%s", op->kernel);
		return;
	}
	number = strstr(op->impl->format, "%d");
	if (number)
		snprintf(name, size, "%.*s%u%s", (int)(number - op->impl->format), op->impl->format,
			gpu->scenario->group, number + 2);
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

static uint64_t
bytes_of(const struct scenario_gpu *gpu, const struct scenario_op *op)
{
	return gpu->half ? op->bytes / 2 : op->bytes;
}

void
scenario_gpu_set_size(struct scenario_gpu *gpu, bool half)
{
	const struct scenario_op *what;
	uint32_t op;

	gpu->half = half;
	for (op = 0; op < gpu->scenario->op_count; op++) {
		what = &gpu->scenario->ops[op];
		if (what->impl)
			what->impl->fill(gpu->parameters[op], bytes_of(gpu, what),
				(int)(gpu->rank % gpu->scenario->group), (int)gpu->scenario->group);
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

/* NCCL and Triton launch by cuLaunchKernelEx, the runtime's <<<>>> by cuLaunchKernel. */
void
scenario_gpu_run(struct scenario_gpu *gpu, uint32_t op, CUstream stream, bool captured)
{
	const struct scenario_op *what = &gpu->scenario->ops[op];
	bool nccl = what->type == SCENARIO_COLLECTIVE && what->impl->nccl;
	CUlaunchConfig config = {.gridDimX = GRID,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = BLOCK,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = stream};

	if (what->type == SCENARIO_COPY) {
		copy(gpu, what, stream);
	} else if (nccl) {
		pthread_mutex_lock(&nccl_lock);
		scenario_nccl_before(what->impl, bytes_of(gpu, what), stream, captured);
		CHECK(cuLaunchKernelEx(&config, gpu->functions[op], gpu->parameters[op], NULL));
		scenario_nccl_after(what->impl, bytes_of(gpu, what), captured);
		pthread_mutex_unlock(&nccl_lock);
	} else {
		CHECK(cuLaunchKernel(
			gpu->functions[op], GRID, 1, 1, BLOCK, 1, 1, 0, stream, gpu->parameters[op], NULL));
	}
}

void
scenario_gpu_launch(struct scenario_gpu *gpu, const struct scenario_launch *launch)
{
	struct cs_fake_span *spans = allocate(launch->count, sizeof(*spans));
	uint32_t i;

	for (i = 0; i < launch->count; i++)
		spans[i] = launch->planned[i].span;
	if (gpu->execs[launch->sequence]) {
		gpu->driver->plan(spans, launch->count);
		CHECK(cuGraphLaunch(gpu->execs[launch->sequence], gpu->own.streams[0]));
	} else {
		for (i = 0; i < launch->count; i++) {
			gpu->driver->plan(&spans[i], 1);
			scenario_gpu_run(gpu, launch->planned[i].op,
				gpu->own.streams[launch->planned[i].beside], false);
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
	scenario_streams_close(&gpu->own);
	CHECK(cuModuleUnload(gpu->module));
	CHECK(cuDevicePrimaryCtxRelease((CUdevice)gpu->rank));
}
