/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of a scenario: a program that links libcuda alone and does with it what an inference server does.
 *
 *   scenario_rank --rank N [--steps N] [--truth FILE] [--events FILE] [--barrier] [--leave] [--load LIB]
 *                 [--linger SECONDS] SCENARIO
 *
 * --barrier: prints "ready" when its graphs are captured and waits on standard input for the nanosecond at
 * which step 0 begins. --leave: exits without destroying graphs, streams and context, as servers do.
 */
#include "scenario.h"

#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How far the CPU runs ahead of the GPU. */
#define LEAD_NS 4000000U
/* Without a barrier: from the captured graphs to step 0. */
#define START_NS 50000000U

static struct {
	uint32_t rank;
	uint64_t steps;
	const char *truth;
	const char *events;
	bool barrier;
	bool leave;
	const char *load;
	double linger_seconds;
	const char *scenario;
} options = {.steps = UINT64_MAX};

static uint64_t
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static void
sleep_until(uint64_t time_ns)
{
	struct timespec until = {(time_t)(time_ns / 1000000000U), (long)(time_ns % 1000000000U)};

	while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static void
usage(void)
{
	fprintf(stderr, "usage: scenario_rank --rank N [--steps N] [--truth FILE] [--events FILE] "
			"[--barrier] [--leave] "
			"[--load LIB] [--linger SECONDS] SCENARIO\n");
	exit(2);
}

static void
parse_options(int argc, char **argv)
{
	static const struct option longs[] = {{"rank", required_argument, NULL, 'r'},
		{"steps", required_argument, NULL, 's'}, {"truth", required_argument, NULL, 't'},
		{"events", required_argument, NULL, 'e'}, {"barrier", no_argument, NULL, 'b'},
		{"leave", no_argument, NULL, 'l'}, {"load", required_argument, NULL, 'd'},
		{"linger", required_argument, NULL, 'g'}, {NULL, 0, NULL, 0}};
	int option;

	while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (option == 'r')
			options.rank = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 's')
			options.steps = strtoull(optarg, NULL, 10);
		else if (option == 't')
			options.truth = optarg;
		else if (option == 'e')
			options.events = optarg;
		else if (option == 'b')
			options.barrier = true;
		else if (option == 'l')
			options.leave = true;
		else if (option == 'd')
			options.load = optarg;
		else if (option == 'g')
			options.linger_seconds = strtod(optarg, NULL);
		else
			usage();
	}
	if (optind + 1 != argc)
		usage();
	options.scenario = argv[optind];
}

static uint64_t
begin_ns(void)
{
	uint64_t epoch_ns = 0;

	if (!options.barrier)
		return now_ns() + START_NS;
	printf("ready\n");
	fflush(stdout);
	if (scanf("%" SCNu64, &epoch_ns) != 1) {
		fprintf(stderr, "scenario_rank: nobody said when to begin\n");
		exit(1);
	}
	return epoch_ns;
}

static FILE *
open_output(const char *path)
{
	FILE *file;

	if (!path)
		return NULL;
	file = fopen(path, "we");
	if (!file) {
		perror(path);
		exit(1);
	}
	return file;
}

/* From this operation of the launch on, nothing ever ends. */
static void
hang(const struct scenario *scenario, struct scenario_launch *launch, uint32_t collective)
{
	uint32_t i, seen = 0;
	bool hung = false;

	for (i = 0; i < launch->count; i++) {
		if (scenario->ops[launch->planned[i].op].type == SCENARIO_COLLECTIVE && seen++ == collective)
			hung = true;
		if (hung)
			launch->planned[i].span.end_ns = CS_FAKE_NEVER_NS;
	}
}

static uint64_t
play(struct scenario_gpu *gpu, struct scenario_truth *truth, FILE *events)
{
	const struct scenario *scenario = gpu->scenario;
	const struct scenario_rank *who = &scenario->rank[options.rank];
	struct scenario_plan plan;
	uint64_t epoch_ns = begin_ns();
	uint64_t step;
	uint32_t i;

	if (!scenario_plan_open(&plan, scenario, options.rank, epoch_ns))
		abort();
	scenario_gpu_set_clock(gpu, epoch_ns);
	scenario_truth_set_epoch(truth, epoch_ns);
	for (step = 0; step < scenario->steps; step++) {
		scenario_plan_step(&plan);
		if (step == who->die_step)
			raise(SIGKILL);
		if (step == who->hang_step)
			hang(scenario, &plan.launches[0], who->hang_collective);
		for (i = 0; i < scenario->launches; i++) {
			sleep_until(plan.launches[i].start_ns - LEAD_NS);
			scenario_gpu_launch(gpu, &plan.launches[i]);
			if (step != who->hang_step)
				scenario_truth_add(truth, &plan.launches[i], step, events);
			else
				scenario_gpu_wait(gpu);
		}
	}
	scenario_gpu_wait(gpu);
	scenario_plan_close(&plan);
	return step;
}

int
main(int argc, char **argv)
{
	struct scenario scenario;
	struct scenario_gpu gpu;
	struct scenario_truth *truth;
	FILE *out;
	FILE *events;
	uint64_t steps;

	parse_options(argc, argv);
	if (!scenario_parse(options.scenario, &scenario))
		return 2;
	if (options.rank >= scenario.ranks) {
		fprintf(stderr, "scenario_rank: the scenario has %u ranks, there is no rank %u\n",
			scenario.ranks, options.rank);
		return 2;
	}
	if (options.steps != UINT64_MAX)
		scenario.steps = options.steps;
	if (options.load && !dlopen(options.load, RTLD_NOW | RTLD_LOCAL)) {
		fprintf(stderr, "scenario_rank: %s\n", dlerror());
		return 2;
	}
	out = open_output(options.truth);
	events = open_output(options.events);
	truth = scenario_truth_new(&scenario, options.rank);
	scenario_gpu_open(&gpu, &scenario, options.rank);
	scenario_nccl_open((int)(options.rank % scenario.group), (int)scenario.group,
		0x5ce0a71000000000U + options.rank / scenario.group);
	scenario_gpu_capture(&gpu);
	steps = play(&gpu, truth, events);
	if (out) {
		scenario_truth_write(truth, steps, gpu.driver->late_launches(), out);
		fclose(out);
	}
	if (events)
		fclose(events);
	sleep_until(now_ns() + (uint64_t)(options.linger_seconds * 1e9));
	printf("rank %u: %" PRIu64 " steps\n", options.rank, steps);
	if (options.leave)
		return 0;
	scenario_nccl_close();
	scenario_gpu_close(&gpu);
	scenario_truth_free(truth);
	scenario_free(&scenario);
	return 0;
}
