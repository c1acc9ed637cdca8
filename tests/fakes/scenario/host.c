/* SPDX-License-Identifier: Apache-2.0 */
/* Options, signals, forks and exits of a host program; host_work.c launches. */
#include "host.h"

#include "host_work.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXIT_STATUS 5
#define STORM_US    1000

static struct {
	struct scenario_host_work work;
	bool storm;
	bool close;
	bool fork_exec;
	const char *how;
	char **again; /* the command line without --fork-exec */
} options = {.work = {.launches = 40}};

static _Atomic uint64_t alarms;

static const char *
value_of(const char *argument, const char *name)
{
	size_t length = strlen(name);

	return strncmp(argument, name, length) == 0 ? argument + length : NULL;
}

static bool
take_number(const char *argument, const char *name, uint32_t *number)
{
	const char *value = value_of(argument, name);

	if (value)
		*number = (uint32_t)strtoul(value, NULL, 10);
	return value != NULL;
}

static bool
take_flag(const char *argument, const char *name, bool *flag)
{
	if (strcmp(argument, name) != 0)
		return false;
	*flag = true;
	return true;
}

static bool
take(const char *argument)
{
	if (value_of(argument, "--exit="))
		options.how = value_of(argument, "--exit=");
	else
		return take_number(argument, "--threads=", &options.work.threads) ||
		       take_number(argument, "--launches=", &options.work.launches) ||
		       take_number(argument, "--contexts=", &options.work.contexts) ||
		       take_number(argument, "--grow=", &options.work.grow_kib) ||
		       take_number(argument, "--gpus=", &options.work.gpus) ||
		       take_flag(argument, "--small-stack", &options.work.small_stack) ||
		       take_flag(argument, "--reset", &options.work.reset) ||
		       take_flag(argument, "--storm", &options.storm) ||
		       take_flag(argument, "--dlclose", &options.close) ||
		       take_flag(argument, "--fork-exec", &options.fork_exec);
	return true;
}

static bool
how_is_known(const char *how)
{
	static const char *const known[] = {
		"exit", "_exit", "quick_exit", "thread", "pthread_exit", "abort", "term", "segv"};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(known[i], how) == 0)
			return true;
	return false;
}

bool
scenario_host_options(int *argc, char **argv)
{
	int left = 0;
	int again = 0;

	options.again = calloc((size_t)*argc + 1, sizeof(char *));
	if (!options.again)
		abort();
	for (int i = 0; i < *argc; i++) {
		if (strcmp(argv[i], "--fork-exec") != 0)
			options.again[again++] = argv[i];
		if (!take(argv[i]))
			argv[left++] = argv[i];
	}
	argv[left] = NULL;
	*argc = left;
	return (!options.how || how_is_known(options.how)) && options.work.contexts <= SCENARIO_HOST_WORLDS &&
	       options.work.gpus <= SCENARIO_HOST_WORLDS && options.work.threads <= SCENARIO_HOST_THREADS;
}

/* -- signals --------------------------------------------------------------------------------------------- */

static void
on_alarm(int number)
{
	(void)number;
	atomic_fetch_add_explicit(&alarms, 1, memory_order_relaxed);
}

static void
set_timers(suseconds_t period_us)
{
	struct itimerval timer = {{0, period_us}, {0, period_us}};

	setitimer(ITIMER_REAL, &timer, NULL);
	setitimer(ITIMER_PROF, &timer, NULL);
}

static void
start_storm(void)
{
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};

	sigaction(SIGALRM, &action, NULL);
	sigaction(SIGPROF, &action, NULL);
	set_timers(STORM_US);
}

static void
end_storm(void)
{
	set_timers(0);
	printf("signals came: %s\n", atomic_load(&alarms) ? "yes" : "no");
}

/* -- libraries ------------------------------------------------------------------------------------------- */

/* Every reference that this program took. */
static void
close_library(const char *name, unsigned int opened)
{
	void *library = name ? dlopen(name, RTLD_NOW | RTLD_NOLOAD) : NULL;

	if (!library)
		return;
	for (unsigned int i = 0; i < 1 + opened; i++)
		dlclose(library);
}

static void
close_libraries(const char *cupti)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW);

	if (cuda)
		dlclose(cuda);
	close_library(cupti, 1); /* --load's */
}

/* -- the end --------------------------------------------------------------------------------------------- */

static void
execute_again(void)
{
	int status = 0;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		execv("/proc/self/exe", options.again);
		_exit(99);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		exit(1);
	printf("program ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void *
exit_soon(void *argument)
{
	struct timespec moment = {.tv_nsec = 20000000};

	(void)argument;
	nanosleep(&moment, NULL);
	exit(EXIT_STATUS);
}

_Noreturn static void
leave_by_thread(bool end_main)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, exit_soon, NULL) != 0)
		abort();
	if (end_main)
		pthread_exit(NULL);
	for (;;)
		pause();
}

_Noreturn static void
leave(const char *how)
{
	fflush(NULL);
	if (strcmp(how, "exit") == 0)
		exit(EXIT_STATUS);
	if (strcmp(how, "quick_exit") == 0)
		quick_exit(EXIT_STATUS);
	if (strcmp(how, "thread") == 0 || strcmp(how, "pthread_exit") == 0)
		leave_by_thread(how[0] == 'p');
	if (strcmp(how, "abort") == 0)
		abort();
	if (strcmp(how, "term") == 0)
		raise(SIGTERM);
	if (strcmp(how, "segv") == 0) {
		signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler is no part of the program */
		raise(SIGSEGV);
	}
	_exit(EXIT_STATUS);
}

/* -- hooks ----------------------------------------------------------------------------------------------- */

void
scenario_host_begin(struct scenario_gpu *gpu)
{
	if (options.storm)
		start_storm();
	scenario_host_work_begin(&options.work, gpu);
}

void
scenario_host_step(struct scenario_gpu *gpu, uint64_t step)
{
	scenario_host_work_step(&options.work, gpu, step);
}

void
scenario_host_end(struct scenario_gpu *gpu, const char *library)
{
	scenario_host_work_end(&options.work, gpu);
	if (options.storm)
		end_storm();
	if (options.close) {
		close_libraries(library);
		scenario_host_work_once(gpu);
	}
	if (options.fork_exec)
		execute_again();
	if (options.how) {
		scenario_host_work_once(gpu);
		leave(options.how);
	}
}

void
scenario_host_closed(uint32_t rank)
{
	if (options.work.reset)
		scenario_host_work_again((int)rank);
	free(options.again);
	options.again = NULL;
}
