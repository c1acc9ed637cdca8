/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capturing the graphs of a scenario, on one thread or on several at once, and updating executables from a
 * second capture.
 */
#include "scenario.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define CHECK(call) scenario_gpu_check((call), #call)

struct crew {
	struct scenario_gpu *gpu;
	pthread_barrier_t begin; /* all capture at the same time */
	_Atomic uint32_t next;   /* sequence that nobody has taken yet */
};

static void
capture(struct scenario_gpu *gpu, const struct scenario_streams *on, const struct scenario_sequence *sequence,
	CUgraph *graph)
{
	const struct scenario_item *item;
	bool forked = false;
	uint32_t i;

	CHECK(cuStreamBeginCapture(on->streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (i = 0; i < sequence->count; i++) {
		item = &sequence->items[i];
		if (item->beside >= 0) {
			CHECK(cuEventRecord(on->fork, on->streams[0]));
			CHECK(cuStreamWaitEvent(on->streams[1], on->fork, 0));
			scenario_gpu_run(gpu, (uint32_t)item->beside, on->streams[1], true);
			forked = true;
		}
		scenario_gpu_run(gpu, item->op, on->streams[0], true);
	}
	if (forked) {
		CHECK(cuEventRecord(on->join, on->streams[1]));
		CHECK(cuStreamWaitEvent(on->streams[0], on->join, 0));
	}
	CHECK(cuStreamEndCapture(on->streams[0], graph));
}

static void
capture_and_instantiate(struct scenario_gpu *gpu, const struct scenario_streams *on, uint32_t sequence)
{
	capture(gpu, on, &gpu->scenario->sequences[sequence], &gpu->graphs[sequence]);
	CHECK(cuGraphInstantiateWithFlags(&gpu->execs[sequence], gpu->graphs[sequence], 0));
}

/* Those that are updated later: with messages of half the size, so that a label that stays behind shows. */
static void
capture_first_versions(struct scenario_gpu *gpu)
{
	const struct scenario *scenario = gpu->scenario;
	uint32_t i;

	scenario_gpu_set_size(gpu, true);
	for (i = 0; i < scenario->sequence_count; i++)
		if (scenario->sequences[i].updated)
			capture_and_instantiate(gpu, &gpu->own, i);
	scenario_gpu_set_size(gpu, false);
}

static void
update(struct scenario_gpu *gpu)
{
	const struct scenario *scenario = gpu->scenario;
	CUgraphExecUpdateResultInfo info;
	CUgraph first;
	uint32_t i;

	for (i = 0; i < scenario->sequence_count; i++) {
		if (!scenario->sequences[i].updated)
			continue;
		first = gpu->graphs[i];
		capture(gpu, &gpu->own, &scenario->sequences[i], &gpu->graphs[i]);
		CHECK(cuGraphExecUpdate_v2(gpu->execs[i], gpu->graphs[i], &info));
		CHECK(cuGraphDestroy(first));
	}
}

static void
capture_what_is_left(struct crew *crew, const struct scenario_streams *on)
{
	const struct scenario *scenario = crew->gpu->scenario;
	uint32_t i;

	while ((i = atomic_fetch_add(&crew->next, 1)) < scenario->sequence_count)
		if (!scenario->sequences[i].eager && !scenario->sequences[i].updated)
			capture_and_instantiate(crew->gpu, on, i);
}

static void *
work(void *argument)
{
	struct crew *crew = argument;
	struct scenario_streams on;

	CHECK(cuCtxSetCurrent(crew->gpu->context));
	scenario_streams_open(&on);
	pthread_barrier_wait(&crew->begin);
	capture_what_is_left(crew, &on);
	scenario_streams_close(&on);
	return NULL;
}

void
scenario_gpu_capture(struct scenario_gpu *gpu)
{
	const struct scenario *scenario = gpu->scenario;
	struct crew crew = {.gpu = gpu};
	pthread_t threads[SCENARIO_THREADS_MAX];
	uint32_t i;

	gpu->graphs = calloc(scenario->sequence_count, sizeof(CUgraph));
	gpu->execs = calloc(scenario->sequence_count, sizeof(CUgraphExec));
	if (!gpu->graphs || !gpu->execs)
		abort();
	capture_first_versions(gpu);
	if (scenario->capture_threads) {
		pthread_barrier_init(&crew.begin, NULL, scenario->capture_threads);
		for (i = 0; i < scenario->capture_threads; i++)
			if (pthread_create(&threads[i], NULL, work, &crew) != 0)
				abort();
		for (i = 0; i < scenario->capture_threads; i++)
			pthread_join(threads[i], NULL);
		pthread_barrier_destroy(&crew.begin);
	} else {
		capture_what_is_left(&crew, &gpu->own);
	}
	update(gpu);
}
