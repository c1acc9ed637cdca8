/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a host program may do besides playing its scenario, and what no profiler may get in the way of. The
 * options stand anywhere on scenario_rank's command line:
 *
 *   --threads=N       N threads launch on streams of their own while the steps are played, and end without
 *                     waiting for what they launched; three generations of them
 *   --launches=K      launches of each of those threads; default 40
 *   --small-stack     their stacks are as small as the system allows, but for NCCL's parameters
 *   --contexts=N      N more contexts on the same GPU, each with a graph and eager launches in every step
 *   --gpus=N          the same on N more GPUs, in their primary contexts
 *   --reset           cuDevicePrimaryCtxReset of another GPU after every third step, and a context of the own
 *                     GPU made again after the last
 *   --grow=KIB         takes so much GPU memory in every step, and keeps it
 *   --storm           SIGALRM and SIGPROF from interval timers of 1 ms from the first launch to the last
 *   --dlclose         closes libcupti and libcuda as often as it has opened them, between steps
 *   --fork-exec       at the end a child executes this program again, without this option
 *   --exit=HOW        leaves with launches under way: exit, _exit, quick_exit, thread (exit from another
 *                     thread), pthread_exit (of main, exit from another thread): status 5; abort, term,
 *                     segv: by that signal
 *
 * What is printed is the same in every run.
 */
#ifndef CS_FAKE_SCENARIO_HOST_H
#define CS_FAKE_SCENARIO_HOST_H

#include "scenario.h"

/* Takes the options above out of argv. false: one of them makes no sense. */
bool scenario_host_options(int *argc, char **argv);
/* Before the first step, after each, after the last (may not return), and when the context is gone. */
void scenario_host_begin(struct scenario_gpu *gpu);
void scenario_host_step(struct scenario_gpu *gpu, uint64_t step);
void scenario_host_end(struct scenario_gpu *gpu, const char *library);
void scenario_host_closed(uint32_t rank);

#endif
