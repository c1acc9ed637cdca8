/* SPDX-License-Identifier: Apache-2.0 */
/* Capturing the graphs of a scenario, on one thread or on several at once. */
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

/* Items that one call launches: a group's kernels, else one. */
static uint32_t
run_item(struct scenario_gpu *gpu, const struct scenario_item *item, CUstream stream)
{
	uint32_t ops[SCENARIO_GROUP_MAX];
	uint32_t count = item->group ? item->group : 1;
	uint32_t i;

	for (i = 0; i < count; i++)
		ops[i] = item[i].op;
	scenario_gpu_run(gpu, ops, count, stream, true, NULL);
	return count;
}

void
scenario_capture(struct scenario_gpu *gpu, const struct scenario_streams *on, uint32_t number, CUgraph *graph)
{
	const struct scenario_sequence *sequence = &gpu->scenario->sequences[number];
	const struct scenario_item *item;
	bool forked = false;
	uint32_t i, beside;

	CHECK(cuStreamBeginCapture(on->streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (i = 0; i < sequence->count;) {
		item = &sequence->items[i];
		if (item->beside >= 0) {
			beside = (uint32_t)item->beside;
			CHECK(cuEventRecord(on->fork, on->streams[0]));
			CHECK(cuStreamWaitEvent(on->streams[1], on->fork, 0));
			scenario_gpu_run(gpu, &beside, 1, on->streams[1], true, NULL);
			forked = true;
		}
		i += run_item(gpu, item, on->streams[0]);
	}
	if (forked) {
		CHECK(cuEventRecord(on->join, on->streams[1]));
		CHECK(cuStreamWaitEvent(on->streams[0], on->join, 0));
	}
	CHECK(cuStreamEndCapture(on->streams[0], graph));
}

/* With messages of half the size at first, so that a label that stays behind shows. On one thread: the size
 * is one for all. */
static bool
begins_with_half(const struct scenario_sequence *sequence)
{
	return sequence->life == SCENARIO_NODE_SET || sequence->life == SCENARIO_EXEC_SET ||
	       sequence->life == SCENARIO_UPDATE;
}

static void
capture_first_versions(struct scenario_gpu *gpu)
{
	const struct scenario *scenario = gpu->scenario;
	uint32_t i;

	for (i = 0; i < scenario->sequence_count; i++) {
		if (!begins_with_half(&scenario->sequences[i]))
			continue;
		scenario_gpu_set_size(gpu, true);
		scenario_life_begin(gpu, &gpu->own, i);
	}
	scenario_gpu_set_size(gpu, false);
}

static void
capture_what_is_left(struct crew *crew, const struct scenario_streams *on)
{
	const struct scenario *scenario = crew->gpu->scenario;
	uint32_t i;

	while ((i = atomic_fetch_add(&crew->next, 1)) < scenario->sequence_count)
		if (!scenario->sequences[i].eager && !begins_with_half(&scenario->sequences[i]))
			scenario_life_begin(crew->gpu, on, i);
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
}
