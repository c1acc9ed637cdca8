/* SPDX-License-Identifier: Apache-2.0 */
#include "host_work.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call) scenario_gpu_check((call), #call)

#define GENERATIONS 3U
#define RESET_STEPS 3U
/* The parameters of an NCCL kernel are on the caller's stack. */
#define NCCL_STACK_BYTES 16384U

/* The fake's GPUs; CS_FAKE_DEVICES may say less, then cuDevicePrimaryCtxRetain says so. */
#define DEVICES 8

/* cuda.h names only the newest. */
CUresult cuCtxCreate_v2(CUcontext *handle, unsigned int flags, CUdevice device);

/* A context with a module, a stream, and a graph in it. */
struct world {
	CUdevice device;
	bool primary;
	CUcontext context;
	CUstream stream;
	CUmodule module;
	CUfunction compute, reduce;
	CUgraph graph;
	CUgraphExec exec;
	uint64_t launches;
};

static struct world worlds[2 * SCENARIO_HOST_WORLDS];
static uint32_t world_count;

static const char image[] =
	"fake module\n"
	"kernel _Z10host_worldPf duration 20000\n"
	"kernel _ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li2EEEvPNS_8RankDataENS_"
	"11RankSignalsEPNS_6SignalEPT_ii duration 30000 params 8 64:8 8 8 4 4\n";
static const char reduce_name[] =
	"_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li2EEEvPNS_8RankDataENS_"
	"11RankSignalsEPNS_6SignalEPT_ii";

static void
launch_kernels(struct world *world)
{
	uint64_t words[8] = {0};
	int rank = 1, packs = 2688;
	void *parameters[] = {&words, &words, &words, &words, &rank, &packs};

	CHECK(cuLaunchKernel(world->compute, 4, 1, 1, 128, 1, 1, 0, world->stream, NULL, NULL));
	CHECK(cuLaunchKernel(world->reduce, 4, 1, 1, 128, 1, 1, 0, world->stream, parameters, NULL));
}

static void
world_open(struct world *world)
{
	if (world->primary) {
		CHECK(cuDevicePrimaryCtxRetain(&world->context, world->device));
		CHECK(cuCtxSetCurrent(world->context));
	} else {
		CHECK(cuCtxCreate_v2(&world->context, 0, world->device));
		CHECK(cuCtxPopCurrent(NULL));
		CHECK(cuCtxSetCurrent(world->context));
	}
	CHECK(cuStreamCreate(&world->stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuModuleLoadData(&world->module, image));
	CHECK(cuModuleGetFunction(&world->compute, world->module, "_Z10host_worldPf"));
	CHECK(cuModuleGetFunction(&world->reduce, world->module, reduce_name));
	CHECK(cuStreamBeginCapture(world->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	launch_kernels(world);
	CHECK(cuStreamEndCapture(world->stream, &world->graph));
	CHECK(cuGraphInstantiateWithFlags(&world->exec, world->graph, 0));
}

static void
world_step(struct world *world)
{
	CHECK(cuCtxSetCurrent(world->context));
	launch_kernels(world);
	CHECK(cuGraphLaunch(world->exec, world->stream));
	world->launches += 3;
}

/* Everything in the context goes with it. */
static void
world_reset(struct world *world)
{
	CHECK(cuCtxSetCurrent(NULL));
	CHECK(cuDevicePrimaryCtxReset(world->device));
	world_open(world);
}

static void
world_close(struct world *world)
{
	CHECK(cuCtxSetCurrent(world->context));
	CHECK(cuStreamSynchronize(world->stream));
	CHECK(cuGraphExecDestroy(world->exec));
	CHECK(cuGraphDestroy(world->graph));
	CHECK(cuModuleUnload(world->module));
	CHECK(cuStreamDestroy(world->stream));
	CHECK(cuCtxSetCurrent(NULL));
	if (world->primary)
		CHECK(cuDevicePrimaryCtxRelease(world->device));
	else
		CHECK(cuCtxDestroy(world->context));
}

/* -- threads --------------------------------------------------------------------------------------------- */

static struct {
	const struct scenario_host_work *work;
	struct scenario_gpu *gpu;
	pthread_t manager;
	CUstream streams[SCENARIO_HOST_THREADS];
	_Atomic uint64_t launches;
} crew;

/* Ends in the middle: what it launched is still running. */
static void *
launch_and_end(void *argument)
{
	const CUstream *stream = argument;
	uint32_t ops = crew.gpu->scenario->op_count;

	CHECK(cuCtxSetCurrent(crew.gpu->context));
	for (uint32_t i = 0; i < crew.work->launches; i++) {
		uint32_t op = i % ops;

		scenario_gpu_run(crew.gpu, &op, 1, *stream, false, NULL);
		atomic_fetch_add_explicit(&crew.launches, 1, memory_order_relaxed);
	}
	if ((stream - crew.streams) % 2)
		pthread_exit(NULL);
	return NULL;
}

static void
run_generation(const pthread_attr_t *attributes)
{
	pthread_t threads[SCENARIO_HOST_THREADS];

	for (uint32_t i = 0; i < crew.work->threads; i++)
		if (pthread_create(&threads[i], attributes, launch_and_end, &crew.streams[i]) != 0)
			abort();
	for (uint32_t i = 0; i < crew.work->threads; i++)
		pthread_join(threads[i], NULL);
}

static void *
manage(void *argument)
{
	pthread_attr_t attributes;

	(void)argument;
	pthread_attr_init(&attributes);
	if (crew.work->small_stack)
		pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN + NCCL_STACK_BYTES);
	for (uint32_t i = 0; i < GENERATIONS; i++)
		run_generation(&attributes);
	pthread_attr_destroy(&attributes);
	return NULL;
}

static void
start_crew(const struct scenario_host_work *work, struct scenario_gpu *gpu)
{
	crew.work = work;
	crew.gpu = gpu;
	for (uint32_t i = 0; i < work->threads; i++)
		CHECK(cuStreamCreate(&crew.streams[i], CU_STREAM_NON_BLOCKING));
	if (pthread_create(&crew.manager, NULL, manage, NULL) != 0)
		abort();
}

static void
end_crew(void)
{
	pthread_join(crew.manager, NULL);
	for (uint32_t i = 0; i < crew.work->threads; i++) {
		CHECK(cuStreamSynchronize(crew.streams[i]));
		CHECK(cuStreamDestroy(crew.streams[i]));
	}
	printf("threads: %llu launches\n", (unsigned long long)atomic_load(&crew.launches));
}

/* -- all of it ------------------------------------------------------------------------------------------- */

static void
add_world(CUdevice device, bool primary)
{
	struct world *world = &worlds[world_count++];

	world->device = device;
	world->primary = primary;
	world_open(world);
}

void
scenario_host_work_begin(const struct scenario_host_work *work, struct scenario_gpu *gpu)
{
	uint32_t gpus = work->reset && work->gpus == 0 ? 1 : work->gpus;

	for (uint32_t i = 0; i < work->contexts; i++)
		add_world((CUdevice)gpu->rank, false);
	for (uint32_t i = 0; i < gpus; i++)
		add_world((CUdevice)((gpu->rank + 1 + i) % DEVICES), true);
	CHECK(cuCtxSetCurrent(gpu->context));
	if (work->threads)
		start_crew(work, gpu);
}

void
scenario_host_work_step(const struct scenario_host_work *work, struct scenario_gpu *gpu, uint64_t step)
{
	CUdeviceptr kept;

	if (work->grow_kib)
		CHECK(cuMemAlloc(&kept, (size_t)work->grow_kib << 10));
	if (world_count == 0)
		return;
	for (uint32_t i = 0; i < world_count; i++)
		world_step(&worlds[i]);
	if (work->reset && step % RESET_STEPS == RESET_STEPS - 1)
		world_reset(&worlds[world_count - 1]);
	CHECK(cuCtxSetCurrent(gpu->context));
}

void
scenario_host_work_end(const struct scenario_host_work *work, struct scenario_gpu *gpu)
{
	if (work->threads)
		end_crew();
	for (uint32_t i = 0; i < world_count; i++) {
		world_close(&worlds[i]);
		printf("context %u on GPU %d: %llu launches\n", i, worlds[i].device,
			(unsigned long long)worlds[i].launches);
	}
	CHECK(cuCtxSetCurrent(gpu->context));
}

void
scenario_host_work_once(struct scenario_gpu *gpu)
{
	for (uint32_t op = 0; op < gpu->scenario->op_count; op++)
		scenario_gpu_run(gpu, &op, 1, gpu->own.streams[0], false, NULL);
}

void
scenario_host_work_again(int device)
{
	struct world world = {.device = device, .primary = true};

	world_open(&world);
	world_step(&world);
	world_close(&world);
	printf("context made again: %llu launches\n", (unsigned long long)world.launches);
}
