/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of a scenario: a program that links libcuda alone and does with it what an inference server does.
 *
 *   scenario_rank --rank N [options] SCENARIO
 *     --steps N          instead of the scenario's
 *     --nccl RELEASE     instead of the scenario's
 *     --settle SECONDS   stays idle that long before it captures, as a server that loads its weights
 *     --truth FILE       writes the truth
 *     --events FILE      writes every collective, one JSON object a line
 *     --barrier          prints "ready" when the graphs are captured, and waits on standard input for the
 * nanosecond at which step 0 begins
 *     --linger SECONDS   stays idle that long after the last step
 *     --leave            exits without destroying graphs, streams and context, as servers do
 *     --load LIB         opens a library before cuInit, as torch has libcupti with it
 *     --subscribe        holds a CUPTI subscription (of --load) before cuInit: another tool in the process
 *     --profile FROM:TO  a profiler inside the program takes over CUPTI's buffers for these steps; may be
 * given several times
 *     --orders           does what comes on standard input (orders.h) between two steps, and ends with it
 *     --ticks            that profiler has a clock of its own
 *     --shares           that profiler shares CUPTI with others that do so
 *     --init-only        ends after cuInit: a process that never makes a context
 *     --fork             forks a child, which exits with 3, when the graphs are captured, and another at the
 * end
 *     further ones: host.h
 */
#include "host.h"
#include "orders.h"

#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How far the CPU runs ahead of the GPU. */
#define LEAD_NS 4000000U
/* Without a barrier: from the captured graphs to step 0. */
#define START_NS 50000000U

#define PROFILES_MAX 8U

static struct {
	uint32_t rank;
	uint64_t steps;
	uint32_t nccl;
	const char *truth;
	const char *events;
	bool barrier;
	bool orders;
	bool leave;
	bool subscribe;
	bool ticks;
	bool shares;
	bool init_only;
	bool fork;
	struct {
		uint64_t from, to;
	} profiles[PROFILES_MAX];
	unsigned int profile_count;
	const char *load;
	double settle_seconds;
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

_Noreturn static void
usage(void)
{
	fprintf(stderr,
		"usage: scenario_rank --rank N [options] SCENARIO; the options are in rank.c and host.h\n");
	exit(2);
}

static bool
parse_profile(const char *text)
{
	unsigned int i = options.profile_count++;

	return i < PROFILES_MAX &&
	       sscanf(text, "%" SCNu64 ":%" SCNu64, &options.profiles[i].from, &options.profiles[i].to) == 2;
}

static void
parse_options(int argc, char **argv)
{
	static const struct option longs[] = {
		{"rank", required_argument, NULL, 'r'},
		{"steps", required_argument, NULL, 's'},
		{"nccl", required_argument, NULL, 'n'},
		{"truth", required_argument, NULL, 't'},
		{"events", required_argument, NULL, 'e'},
		{"linger", required_argument, NULL, 'g'},
		{"settle", required_argument, NULL, 'o'},
		{"load", required_argument, NULL, 'd'},
		{"profile", required_argument, NULL, 'p'},
		{"barrier", no_argument, NULL, 'b'},
		{"orders", no_argument, NULL, 'O'},
		{"leave", no_argument, NULL, 'l'},
		{"subscribe", no_argument, NULL, 'u'},
		{"ticks", no_argument, NULL, 'k'},
		{"shares", no_argument, NULL, 'h'},
		{"init-only", no_argument, NULL, 'i'},
		{"fork", no_argument, NULL, 'f'},
		{NULL, 0, NULL, 0},
	};
	int option;

	if (!scenario_host_options(&argc, argv))
		usage();
	while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (option == 'r')
			options.rank = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 's')
			options.steps = strtoull(optarg, NULL, 10);
		else if (option == 'n' && scenario_parse_nccl(optarg))
			options.nccl = scenario_parse_nccl(optarg);
		else if (option == 't')
			options.truth = optarg;
		else if (option == 'e')
			options.events = optarg;
		else if (option == 'g')
			options.linger_seconds = strtod(optarg, NULL);
		else if (option == 'o')
			options.settle_seconds = strtod(optarg, NULL);
		else if (option == 'd')
			options.load = optarg;
		else if (option == 'b')
			options.barrier = true;
		else if (option == 'O')
			options.orders = true;
		else if (option == 'l')
			options.leave = true;
		else if (option == 'u')
			options.subscribe = true;
		else if (option == 'h')
			options.shares = true;
		else if (option == 'k')
			options.ticks = true;
		else if (option == 'i')
			options.init_only = true;
		else if (option == 'f')
			options.fork = true;
		else if (option != 'p' || !parse_profile(optarg))
			usage();
	}
	if (optind + 1 != argc ||
		((options.subscribe || options.profile_count != 0 || options.orders) && !options.load))
		usage();
	options.scenario = argv[optind];
}

/* A child as a server has them: it goes its way without exec and leaves through exit(). */
static void
fork_child(void)
{
	int status = 0;
	pid_t child;

	if (!options.fork)
		return;
	fflush(NULL);
	child = fork();
	if (child == 0) {
		if (cuInit(0) == CUDA_SUCCESS)
			_exit(99);
		exit(3);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		exit(1);
	printf("child ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void
stop_profiler(uint64_t steps)
{
	uint64_t kernels, others;

	kernels = scenario_profiler_stop(&others);
	printf("profiler: %" PRIu64 " kernels, %" PRIu64 " of another clock, %" PRIu64 " steps\n", kernels,
		others, steps);
}

static void
profile(uint64_t step)
{
	for (unsigned int i = 0; i < options.profile_count; i++) {
		if (step == options.profiles[i].from)
			scenario_profiler_start(options.ticks);
		if (step == options.profiles[i].to)
			stop_profiler(step - options.profiles[i].from);
	}
}

/* false: the last step has been played. */
static bool
follow_orders(uint64_t step)
{
	static uint64_t profiled_from;
	enum scenario_order order;

	while (options.orders && (order = scenario_orders_take()) != SCENARIO_ORDER_NONE) {
		if (order == SCENARIO_ORDER_END)
			return false;
		if (order == SCENARIO_ORDER_PROFILE) {
			profiled_from = step;
			scenario_profiler_start(options.ticks);
		} else if (order == SCENARIO_ORDER_STOP) {
			stop_profiler(step - profiled_from);
		}
		printf("at step %" PRIu64 "\n", step);
		fflush(stdout);
	}
	return true;
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

/* The rank of this one's group that hangs in this step; NULL: none does. */
static const struct scenario_rank *
who_hangs(const struct scenario *scenario, uint64_t step)
{
	uint32_t first = options.rank / scenario->group * scenario->group;
	uint32_t r;

	for (r = first; r < first + scenario->group; r++)
		if (step == scenario->rank[r].hang_step)
			return &scenario->rank[r];
	return NULL;
}

/* The one that hangs never ends what comes before the collective, the others never leave it. Nothing after it
 * begins. */
static void
hang(const struct scenario *scenario, struct scenario_launch *launch, const struct scenario_rank *who)
{
	bool own = who == &scenario->rank[options.rank];
	uint32_t i, at = 0, seen = 0;

	while (at < launch->count && (scenario->ops[launch->planned[at].op].type != SCENARIO_COLLECTIVE ||
					     seen++ != who->hang_collective))
		at++;
	if (own && at > 0)
		at--;
	for (i = at; i < launch->count; i++) {
		launch->planned[i].span.end_ns = CS_FAKE_NEVER_NS;
		if (i > at)
			launch->planned[i].span.start_ns = CS_FAKE_NEVER_NS;
	}
}

/* Nothing comes back from the GPU any more; after --linger somebody kills the server. */
_Noreturn static void
stay_hung(const struct scenario_truth *truth, uint64_t steps, FILE *out)
{
	if (out) {
		scenario_truth_write(truth, steps, 0, out);
		fflush(out);
	}
	sleep_until(now_ns() + (uint64_t)(options.linger_seconds * 1e9));
	raise(SIGKILL);
	abort();
}

/* What it costs the program that kernels are traced when this is launched. */
static uint64_t
trace_cost_ns(const struct scenario_gpu *gpu, const struct scenario_launch *launch)
{
	const struct scenario *scenario = gpu->scenario;
	uint64_t kernels = 0;
	uint32_t i;

	if (scenario->trace_cost_ns == 0 || !gpu->driver->kernels_traced())
		return 0;
	for (i = 0; i < launch->count; i++)
		kernels += scenario->ops[launch->planned[i].op].type != SCENARIO_COPY;
	return kernels * scenario->trace_cost_ns;
}

static uint64_t
play(struct scenario_gpu *gpu, struct scenario_truth *truth, FILE *events, FILE *out)
{
	const struct scenario *scenario = gpu->scenario;
	const struct scenario_rank *who = &scenario->rank[options.rank];
	const struct scenario_rank *hanging;
	struct scenario_plan plan;
	uint64_t epoch_ns = begin_ns();
	uint64_t step, lost_ns;
	uint32_t i;

	if (!scenario_plan_open(&plan, scenario, options.rank, epoch_ns))
		abort();
	scenario_gpu_set_clock(gpu, epoch_ns);
	scenario_truth_set_epoch(truth, epoch_ns);
	scenario_host_begin(gpu);
	for (step = 0; step < scenario->steps && follow_orders(step); step++) {
		scenario_plan_step(&plan);
		lost_ns = 0;
		profile(step);
		if (step == who->die_step)
			raise(SIGKILL);
		hanging = who_hangs(scenario, step);
		if (hanging)
			hang(scenario, &plan.launches[0], hanging);
		scenario_life_step(gpu, step);
		for (i = 0; i < scenario->launches; i++) {
			sleep_until(plan.launches[i].start_ns - LEAD_NS);
			lost_ns += trace_cost_ns(gpu, &plan.launches[i]);
			scenario_gpu_launch(gpu, &plan.launches[i]);
			if (hanging)
				stay_hung(truth, step, out);
			scenario_truth_add(truth, &plan.launches[i], step, events);
		}
		scenario_plan_delay(&plan, lost_ns);
		scenario_truth_lose(truth, lost_ns);
		scenario_host_step(gpu, step);
	}
	scenario_gpu_wait(gpu);
	scenario_plan_close(&plan);
	return step;
}

static void
load_library(void)
{
	void *library;

	if (!options.load)
		return;
	library = dlopen(options.load, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "scenario_rank: %s\n", dlerror());
		exit(2);
	}
	if (options.subscribe || options.profile_count != 0 || options.orders)
		scenario_profiler_open(library);
	if (options.shares)
		scenario_profiler_open_shared(library);
	if (options.subscribe && !scenario_profiler_subscribe())
		exit(1);
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
	load_library();
	if (options.init_only) {
		printf("cuInit: %d\n", (int)cuInit(0));
		return 0;
	}
	out = open_output(options.truth);
	events = open_output(options.events);
	truth = scenario_truth_new(&scenario, options.rank);
	if (options.nccl)
		scenario.nccl = options.nccl;
	scenario_nccl_load(scenario.nccl);
	scenario_gpu_open(&gpu, &scenario, options.rank);
	scenario_nccl_open(&scenario, options.rank);
	sleep_until(now_ns() + (uint64_t)(options.settle_seconds * 1e9));
	scenario_gpu_capture(&gpu);
	fork_child();
	steps = play(&gpu, truth, events, out);
	if (out) {
		scenario_truth_write(truth, steps, gpu.driver->late_launches(), out);
		fclose(out);
	}
	if (events)
		fclose(events);
	sleep_until(now_ns() + (uint64_t)(options.linger_seconds * 1e9));
	printf("rank %u: %" PRIu64 " steps\n", options.rank, steps);
	fork_child();
	scenario_host_end(&gpu, options.load);
	if (options.leave)
		return 0;
	scenario_nccl_close();
	scenario_gpu_close(&gpu);
	scenario_host_closed(options.rank);
	scenario_truth_free(truth);
	scenario_free(&scenario);
	return 0;
}
