/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collscope-exporter: serves what collscope records in the processes of this machine. The main thread reads
 * segments ten times a second and looks after signals and the service manager; libmicrohttpd's threads
 * answer.
 *
 * Exit status: 0 after SIGTERM or SIGINT, when no longer needed (--collscope.auto), or when another exporter
 * serves the directory already (--collscope.auto); 1 when it could not start; 2 for a wrong command line.
 */
#include "clock.h"
#include "descriptors.h"
#include "environment.h"
#include "http.h"
#include "ingest.h"
#include "listen.h"
#include "lock.h"
#include "log.h"
#include "options.h"
#include "sd_notify.h"
#include "segment/exporter_lock.h"
#include "segment/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define TURN_PERIOD_MS   100
#define ADDRESS_RETRY_NS 1000000000ULL

enum exit_status { EXIT_FINE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct exporter {
	struct cs_options options;
	char directory[PATH_MAX];
	bool read_only; /* the run directory */
	bool has_log;   /* standard error is the log file there */
	int lock_fd;
	bool address_missing; /* in the lock file */
	uint64_t address_tried_ns;
	int signal_fd;
	struct cs_listener listeners[CS_LISTEN_MAX];
	size_t listener_count;
	struct cs_ingest *ingest;
	struct cs_http *http;
};

static bool
is_readable(const char *path)
{
	DIR *directory = opendir(path);

	if (directory)
		closedir(directory);
	return directory != NULL;
}

static int
open_directory(struct exporter *exporter, struct cs_error *error)
{
	const char *configured = *exporter->options.directory ? exporter->options.directory : NULL;
	int result = cs_rundir_prepare(configured, exporter->directory, sizeof(exporter->directory));
	struct cs_log_value said;

	if (result == -EINVAL || result == -ENAMETOOLONG)
		return cs_error_set(error, result,
			"the run directory must be an absolute path of fewer than %d bytes: \"%s\"", PATH_MAX,
			exporter->options.directory);
	/* As a sidecar with a read-only mount there is nothing to clean up and nobody to exclude. */
	if ((result == -EROFS || result == -EACCES) && is_readable(exporter->directory)) {
		exporter->read_only = true;
		cs_log_warn("The run directory cannot be written: dead segments stay path=%s",
			cs_log_value(&said, exporter->directory));
		return 0;
	}
	if (result < 0 || !is_readable(exporter->directory))
		return cs_error_set(error, result < 0 ? result : -errno,
			"cannot use the run directory %s: %s; give another with --collscope.dir, or run as "
			"the user who owns it",
			exporter->directory, strerror(result < 0 ? -result : errno));
	return 0;
}

static int
take_lock(struct exporter *exporter, struct cs_error *error)
{
	if (exporter->read_only)
		return 0;
	exporter->lock_fd = cs_lock_take(exporter->directory, error);
	return exporter->lock_fd < 0 ? exporter->lock_fd : 0;
}

/* A traced process starts us with nothing but /dev/null open. What we have to say (a port in use, above all)
 * goes beside the segments then, where people look. Only the holder of the lock writes there. */
static void
keep_log(struct exporter *exporter)
{
	char path[PATH_MAX + sizeof(CS_EXPORTER_LOG_NAME) + 1];
	struct stat target;
	int fd;

	if (!exporter->options.automatic || exporter->read_only || fstat(STDERR_FILENO, &target) < 0 ||
		!S_ISCHR(target.st_mode) || target.st_rdev != makedev(1, 3))
		return;
	snprintf(path, sizeof(path), "%s/" CS_EXPORTER_LOG_NAME, exporter->directory);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	exporter->has_log = dup2(fd, STDERR_FILENO) >= 0;
	close(fd);
}

/* An empty log is no use to anybody. */
static void
drop_log(const struct exporter *exporter)
{
	char path[PATH_MAX + sizeof(CS_EXPORTER_LOG_NAME) + 1];
	struct stat log;

	snprintf(path, sizeof(path), "%s/" CS_EXPORTER_LOG_NAME, exporter->directory);
	if (exporter->has_log && fstat(STDERR_FILENO, &log) == 0 && log.st_size == 0)
		unlink(path);
}

/* It serves all the same where that cannot be written: on a full file system, say. */
static void
say_address(struct exporter *exporter)
{
	struct cs_log_value said;
	int result = 0;

	if (exporter->listener_count && exporter->lock_fd >= 0)
		result = cs_lock_describe(exporter->lock_fd, exporter->listeners[0].address);
	if (result < 0 && !exporter->address_missing)
		cs_log_warn("The address cannot be written into exporter.lock, so collscope will not know "
			    "that this exporter serves until it can be error=%s",
			cs_log_value(&said, strerror(-result)));
	if (result == 0 && exporter->address_missing)
		cs_log_info("The address is in exporter.lock now");
	exporter->address_missing = result < 0;
	exporter->address_tried_ns = cs_clock_monotonic_ns();
}

/* There may be room by now. */
static void
say_missing_address(struct exporter *exporter, uint64_t now_ns)
{
	if (exporter->address_missing && now_ns - exporter->address_tried_ns >= ADDRESS_RETRY_NS)
		say_address(exporter);
}

static int
open_listeners(struct exporter *exporter, struct cs_error *error)
{
	const struct cs_options *options = &exporter->options;
	/* Who had it started by a traced process, or by collscope run, gave it no flags. */
	const char *option =
		options->automatic ? "COLLSCOPE_LISTEN or `collscope run --listen`" : "--web.listen-address";
	struct cs_log_value said;

	for (size_t i = 0; i < options->listen_count; i++) {
		int result = cs_listener_open(&exporter->listeners[i], options->listen[i], option, error);

		if (result < 0)
			return result;
		exporter->listener_count++;
		cs_log_info("Listening address=%s", cs_log_value(&said, exporter->listeners[i].address));
	}
	say_address(exporter);
	return 0;
}

static int
open_ingest(struct exporter *exporter, struct cs_error *error)
{
	const struct cs_options *options = &exporter->options;
	struct cs_ingest_options ingest_options = {
		.directory = exporter->directory,
		.steps = *options->steps ? options->steps : NULL,
		.stall_ns = options->stall_ns,
		.linger_ns = options->linger_ns,
		.retention_ns = options->retention_ns,
		.max_series = options->max_series,
		.read_only = exporter->read_only,
	};

	int result = cs_ingest_new(&ingest_options, &exporter->ingest, error);

	if (result < 0 && *options->steps)
		return cs_error_wrap(error, result, "%s %s",
			options->automatic ? "COLLSCOPE_STEPS" : "--collscope.steps", options->steps);
	return result;
}

static int
open_http(struct exporter *exporter, struct cs_error *error)
{
	struct cs_http_options http_options = {
		.telemetry_path = exporter->options.telemetry_path,
		.max_requests = exporter->options.max_requests,
		.exporter_metrics = exporter->options.exporter_metrics,
		.created = exporter->options.created,
	};

	return cs_http_start(&http_options, exporter->ingest, exporter->listeners, exporter->listener_count,
		&exporter->http, error);
}

/* Blocked in every thread, read from a descriptor by the main one. SIGPIPE: a client that goes away is an
 * error code, not a death. SIGHUP: there is nothing to read anew, and a terminal that closes is no reason to
 * stop serving a server. */
static int
open_signals(struct exporter *exporter, struct cs_error *error)
{
	sigset_t signals;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	/* A log that may not grow (ulimit -f, which a traced process hands on) is none either. */
	signal(SIGXFSZ, SIG_IGN);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	exporter->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (exporter->signal_fd < 0)
		return cs_error_set(error, -errno, "cannot watch for signals: %s", strerror(errno));
	return 0;
}

static int
start(struct exporter *exporter, struct cs_error *error)
{
	int result = open_signals(exporter, error);

	if (result == 0)
		result = open_directory(exporter, error);
	if (result == 0)
		result = take_lock(exporter, error);
	if (result == 0) {
		keep_log(exporter);
		result = open_ingest(exporter, error);
	}
	/* Last: who can connect is served. */
	if (result == 0)
		result = open_listeners(exporter, error);
	if (result < 0)
		return result;
	cs_ingest_turn(exporter->ingest);
	return open_http(exporter, error);
}

static void
stop(struct exporter *exporter)
{
	cs_http_stop(exporter->http);
	cs_ingest_destroy(exporter->ingest);
	for (size_t i = 0; i < exporter->listener_count; i++)
		cs_listener_close(&exporter->listeners[i]);
	drop_log(exporter);
	cs_lock_release(exporter->directory, exporter->lock_fd);
	if (exporter->signal_fd >= 0)
		close(exporter->signal_fd);
}

/* true: time to go. */
static bool
wait_for_signal(struct exporter *exporter)
{
	struct pollfd descriptor = {.fd = exporter->signal_fd, .events = POLLIN};
	struct signalfd_siginfo information;

	if (poll(&descriptor, 1, TURN_PERIOD_MS) <= 0)
		return false;
	if (read(exporter->signal_fd, &information, sizeof(information)) != (ssize_t)sizeof(information))
		return false;
	cs_log_info(
		"Stopping on a signal signal=%s", information.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
	return true;
}

/* Nobody needs it any more. The last look removes the segments of the last server, whose linger time has
 * ended with ours, unless it finds a new one. */
static bool
is_time_to_leave(struct exporter *exporter)
{
	const struct cs_options *options = &exporter->options;

	if (!options->automatic || cs_ingest_alone_ns(exporter->ingest) <= options->linger_ns)
		return false;
	cs_ingest_look(exporter->ingest);
	if (cs_ingest_alone_ns(exporter->ingest) <= options->linger_ns)
		return false;
	cs_log_info("Leaving: no traced process is left");
	return true;
}

static void
serve(struct exporter *exporter)
{
	uint64_t watchdog_ns = cs_sd_watchdog_ns();
	uint64_t notified_ns = cs_clock_monotonic_ns();

	cs_sd_notify("READY=1\nSTATUS=Serving");
	while (!wait_for_signal(exporter)) {
		uint64_t now_ns = cs_clock_monotonic_ns();

		cs_ingest_turn(exporter->ingest);
		say_missing_address(exporter, now_ns);
		if (watchdog_ns && now_ns - notified_ns >= watchdog_ns) {
			cs_sd_notify("WATCHDOG=1");
			notified_ns = now_ns;
		}
		if (is_time_to_leave(exporter))
			break;
	}
	cs_sd_notify("STOPPING=1");
}

/* What started us is somebody's server: neither its session nor its working directory is to be held. */
static void
detach(void)
{
	struct cs_log_value said;

	setsid();
	if (chdir("/") < 0)
		cs_log_debug(
			"Cannot change to the root directory error=%s", cs_log_value(&said, strerror(errno)));
}

/* What is set and no value of its variable, or means something to nobody. A traced process has said it by
 * itself. */
static void
say_wrong_variables(const struct cs_options *options)
{
	static struct cs_settings settings; /* large */

	if (!options->automatic)
		cs_settings_load_some(&settings, environ, options->variables, cs_log_warn_of, NULL);
}

/* What --help and --version print may not have arrived. */
static int
finish_output(void)
{
	if (fflush(stdout) == 0)
		return EXIT_FINE;
	fprintf(stderr, "collscope-exporter: cannot write to standard output: %s\n", strerror(errno));
	return EXIT_FAILED;
}

int
main(int argc, char **argv)
{
	struct exporter exporter = {.lock_fd = -1, .signal_fd = -1};
	enum cs_options_action action;
	struct cs_log_value said;
	struct cs_error error;
	int result;

	cs_descriptors_occupy();
	cs_error_clear(&error);
	if (cs_options_parse(&exporter.options, argc, argv, environ, &action, &error) < 0) {
		fprintf(stderr, "collscope-exporter: %s\n", error.text);
		return EXIT_USAGE;
	}
	if (action == CS_OPTIONS_HELP) {
		cs_options_print_help(stdout);
		return finish_output();
	}
	if (action == CS_OPTIONS_VERSION) {
		printf("collscope-exporter %s\n", CS_VERSION);
		return finish_output();
	}
	cs_log_setup("collscope-exporter", exporter.options.log_level, exporter.options.log_format);
	say_wrong_variables(&exporter.options);
	cs_ingest_tune_memory();
	if (exporter.options.automatic)
		detach();
	result = start(&exporter, &error);
	if (result == 0)
		serve(&exporter);
	else if (result != -EWOULDBLOCK || !exporter.options.automatic)
		cs_log_error("Cannot start error=%s", cs_log_value(&said, error.text));
	stop(&exporter);
	return result == 0 || (result == -EWOULDBLOCK && exporter.options.automatic) ? EXIT_FINE
										     : EXIT_FAILED;
}
