/* SPDX-License-Identifier: Apache-2.0 */
/* Launches beside the scenario's own: from threads, in further contexts, on further GPUs (host.h). */
#ifndef CS_FAKE_SCENARIO_HOST_WORK_H
#define CS_FAKE_SCENARIO_HOST_WORK_H

#include "scenario.h"

#define SCENARIO_HOST_WORLDS  8U
#define SCENARIO_HOST_THREADS 256U

struct scenario_host_work {
	uint32_t threads, launches, contexts, gpus, grow_kib;
	bool small_stack, reset;
};

void scenario_host_work_begin(const struct scenario_host_work *work, struct scenario_gpu *gpu);
void scenario_host_work_step(const struct scenario_host_work *work, struct scenario_gpu *gpu, uint64_t step);
/* Waits for all that was launched, and prints how much that was. */
void scenario_host_work_end(const struct scenario_host_work *work, struct scenario_gpu *gpu);
/* Launches every op once, and does not wait. */
void scenario_host_work_once(struct scenario_gpu *gpu);
/* A context of this GPU from nothing, and its end. */
void scenario_host_work_again(int device);

#endif
