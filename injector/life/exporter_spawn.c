/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter_spawn.h"

#include "instance.h"
#include "log.h"
#include "process.h"
#include "segment/exporter_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXECUTABLE  "collscope-exporter"
#define STACK_BYTES (64U * 1024U)
#define NSIG_ALL    64

int
cs_exporter_find(const char *configured, const char *library_path, char *path, size_t path_bytes)
{
	/* Beside the library; PREFIX/lib, PREFIX/lib/TRIPLET; the build tree. */
	static const char *const places[] = {"", "../bin/", "../../bin/", "../exporter/"};
	const char *slash = strrchr(library_path, '/');
	int length;

	if (configured[0]) {
		length = snprintf(path, path_bytes, "%s", configured);
		return length > 0 && (size_t)length < path_bytes && access(path, X_OK) == 0 ? 0 : -ENOENT;
	}
	for (size_t i = 0; slash && i < sizeof(places) / sizeof(places[0]); i++) {
		length = snprintf(path, path_bytes, "%.*s%s%s", (int)(slash + 1 - library_path), library_path,
			places[i], EXECUTABLE);
		if (length > 0 && (size_t)length < path_bytes && access(path, X_OK) == 0)
			return 0;
	}
	return -ENOENT;
}

/* -- the new process ------------------------------------------------------------------------------------- */

struct launch {
	const char *path;
	char *const *arguments;
	char *const *environment;
	uint8_t *inner_stack_top;
	/* Shared memory: what execve said, and the new process. */
	int error;
	pid_t pid;
};

/*
 * Both functions run in processes that share the host's memory (as after vfork) while the thread that made
 * them waits: nothing but system calls, and nothing that takes a lock. Handlers are reset first, so none of
 * the host's can run here.
 */
static void
reset_signals(void)
{
	struct sigaction action = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int number = 1; number <= NSIG_ALL; number++)
		sigaction(number, &action, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void
replace_descriptors(void)
{
	struct rlimit limit = {.rlim_cur = 1024};
	int null = open("/dev/null", O_RDWR);

	if (null < 0)
		return;
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	if (syscall(SYS_close_range, 3U, ~0U, 0U) == 0)
		return;
	/* Linux before 5.9, or a seccomp filter. */
	getrlimit(RLIMIT_NOFILE, &limit);
	for (unsigned int fd = 3; fd < limit.rlim_cur && fd < 65536; fd++)
		close((int)fd);
}

static int
run_exporter(void *argument)
{
	struct launch *launch = argument;

	reset_signals();
	setsid();
	if (chdir("/") != 0)
		launch->error = errno;
	replace_descriptors();
	execve(launch->path, launch->arguments, launch->environment);
	launch->error = errno;
	_exit(127);
}

/* Ends as soon as the exporter runs its own program; the exporter then belongs to init. */
static int
run_intermediate(void *argument)
{
	struct launch *launch = argument;

	launch->pid = clone(run_exporter, launch->inner_stack_top, CLONE_VM | CLONE_VFORK | SIGCHLD, launch);
	if (launch->pid < 0)
		launch->error = errno;
	_exit(0);
}

static int
start_detached(struct launch *launch)
{
	uint8_t *stacks = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	int result = 0;
	pid_t pid;

	if (stacks == MAP_FAILED)
		return -ENOMEM;
	launch->inner_stack_top = stacks + STACK_BYTES;
	/* No termination signal: the host gets no SIGCHLD, and its wait(2) does not see this child. */
	pid = clone(run_intermediate, stacks + 2 * STACK_BYTES, CLONE_VM | CLONE_VFORK, launch);
	if (pid < 0)
		result = -errno;
	else
		while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
			;
	munmap(stacks, 2 * STACK_BYTES);
	return result < 0 ? result : -launch->error;
}

static int
start(const struct cs_settings *settings, const char *directory, const char *path, pid_t *pid)
{
	/* The worker's stack is small. */
	static char directory_option[CS_PATH_BYTES + 32], listen_option[192],
		steps_option[CS_PATH_BYTES + 32], stall_option[40];
	char *environment[] = {NULL};
	char *arguments[7];
	struct launch launch = {.path = path, .arguments = arguments, .environment = environment};
	size_t count = 0;
	int result;

	snprintf(directory_option, sizeof(directory_option), "--collscope.dir=%s", directory);
	snprintf(listen_option, sizeof(listen_option), "--web.listen-address=%s", settings->listen);
	snprintf(steps_option, sizeof(steps_option), "--collscope.steps=%s", settings->steps);
	snprintf(
		stall_option, sizeof(stall_option), "--collscope.stall=%us", (unsigned int)settings->stall_s);
	arguments[count++] = (char[]){EXECUTABLE};
	arguments[count++] = (char[]){"--collscope.auto"};
	arguments[count++] = directory_option;
	arguments[count++] = listen_option;
	if (settings->steps[0])
		arguments[count++] = steps_option;
	if (settings->stall_s)
		arguments[count++] = stall_option;
	arguments[count] = NULL;
	result = start_detached(&launch);
	*pid = result == 0 ? launch.pid : 0;
	return result;
}

static int told; /* the last failure; 0 none */

/* A failure that was told already is no news, however often it comes. */
static enum cs_log_level
level_of(int failure)
{
	enum cs_log_level level = failure == told ? CS_LOG_DEBUG : CS_LOG_WARN;

	told = failure;
	return level;
}

int
cs_exporter_spawn(const struct cs_settings *settings, const char *directory, pid_t *pid)
{
	char path[CS_PATH_BYTES * 2];
	struct cs_log_value said;
	int result;

	*pid = 0;
	if (!settings->exporter || cs_exporter_is_running(directory))
		return 1;
	result = cs_exporter_find(settings->exporter_path, cs_injector_library_path(), path, sizeof(path));
	if (result < 0) {
		cs_log(level_of(result),
			"No %s found beside the library, or in ../bin, ../../bin or ../exporter from there: "
			"records are kept, but nobody serves them; set COLLSCOPE_EXPORTER_PATH, or "
			"COLLSCOPE_EXPORTER=off to silence this.",
			EXECUTABLE);
		return result;
	}
	result = start(settings, directory, path, pid);
	if (result < 0)
		cs_log(level_of(result), "Cannot start %s (%s).", path, strerrordesc_np(-result));
	else
		cs_log_debug("Exporter executed pid=%d path=%s", (int)*pid, cs_log_value(&said, path));
	return result;
}

/* -- what became of it ----------------------------------------------------------------------------------- */

static void
tell_failure(const struct cs_settings *settings, const char *directory)
{
	char path[CS_PATH_BYTES * 2];
	enum cs_log_level level = level_of(-ECHILD);

	snprintf(path, sizeof(path), "%s/" CS_EXPORTER_LOG_NAME, directory);
	if (access(path, F_OK) == 0)
		cs_log(level,
			"The exporter that was started does not run, so nobody serves metrics: \"%s\" says "
			"why, and so does collscope status.",
			path);
	else if (cs_exporter_find(settings->exporter_path, cs_injector_library_path(), path, sizeof(path)) ==
		 0)
		cs_log(level,
			"The exporter that was started has ended without a word, so nobody serves metrics: "
			"run \"%s\" to see why.",
			path);
}

/* Whether it has come to something: it, or the one that was faster, serves; or neither does. */
static void
follow_started(struct cs_exporter_watch *watch, const struct cs_settings *settings, const char *directory)
{
	struct cs_exporter_serving serving;
	struct cs_log_value said;
	int result = cs_exporter_find_serving(directory, &serving);

	if (result == 0) {
		cs_log_info("Exporter started listen=%s", cs_log_value(&said, serving.address));
		told = 0;
	} else if (result == -EAGAIN) {
		return;
	} else if (cs_process_has_ended(watch->started)) {
		tell_failure(settings, directory);
	} else {
		return;
	}
	watch->started = 0;
}

/* Its time is over: what follow_started could not tell by then counts as failed. */
static int
start_again(struct cs_exporter_watch *watch, const struct cs_settings *settings, const char *directory)
{
	if (watch->started)
		tell_failure(settings, directory);
	return cs_exporter_spawn(settings, directory, &watch->started);
}

int
cs_exporter_watch(struct cs_exporter_watch *watch, const struct cs_settings *settings, const char *directory,
	uint64_t now_ns)
{
	if (!settings->exporter)
		return 1;
	if (watch->started)
		follow_started(watch, settings, directory);
	if (now_ns < watch->next_ns)
		return 1;
	if (watch->next_ns == 0) {
		watch->pause_ns = CS_EXPORTER_LOOK_NS;
		watch->next_ns = now_ns + watch->pause_ns;
		return 1;
	}
	if (cs_exporter_is_running(directory)) {
		/* It outlived a whole pause, or somebody else's did. */
		watch->next_ns = now_ns + CS_EXPORTER_LOOK_NS;
		watch->pause_ns = CS_EXPORTER_LOOK_NS;
		watch->gone = false;
		return 1;
	}
	if (!watch->gone) {
		watch->gone = true;
		watch->next_ns = now_ns + CS_EXPORTER_GRACE_NS;
		return 1;
	}
	watch->gone = false;
	watch->next_ns = now_ns + watch->pause_ns;
	if (watch->pause_ns < CS_EXPORTER_LOOK_MAX_NS)
		watch->pause_ns *= 2;
	return start_again(watch, settings, directory);
}
