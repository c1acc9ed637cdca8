/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the environment and becomes the command (exec): same pid, so signals, exit status, job control and
 * service managers need nothing from us. */
#include "cmd.h"

#include "address.h"
#include "directory.h"
#include "exporter_start.h"
#include "library_check.h"
#include "locate.h"
#include "log.h"
#include "segment/exporter_lock.h"
#include "segment/rundir.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INJECTION_VARIABLE "CUDA_INJECTION64_PATH"
#define LISTEN_VARIABLE    "COLLSCOPE_LISTEN"

enum { OPTION_LIBRARY, OPTION_NO_EXPORTER };

static const struct cs_cmd_option options[] = {
	{OPTION_NO_EXPORTER, 0, "no-exporter", NULL, NULL,
		"Start no exporter, neither now nor by the first traced process (as --exporter off)."},
	{OPTION_LIBRARY, 0, "library", "FILE", CS_COMPLETE_FILE,
		"The libcollscope.so to load (default: the one installed with this command)."},
	{.name = NULL},
};

static const struct cs_cmd_example examples[] = {
	{"collscope run -- vllm serve MODEL --tensor-parallel-size 8",
		"Start a server with the profiler, its metrics on http://127.0.0.1:19400/metrics"},
	{"collscope run --mode full --no-exporter -- torchrun --nproc-per-node 2 train.py",
		"Trace every kernel, for `collscope dump` and `collscope status`"},
	{.command = NULL},
};

static const struct cs_cmd_status statuses[] = {
	{"125", "collscope itself failed: usage error, or libcollscope.so was not found or is something "
		"else."},
	{"126", "COMMAND was found and could not be executed."},
	{"127", "COMMAND was not found."},
	{"else", "That of COMMAND, which takes the place of this process."},
	{.status = NULL},
};

struct request {
	char library[CS_PATH_BYTES];
	const char *command; /* NULL: none given */
	bool listen;         /* --listen was given */
};

/* COMMAND may change its working directory before anybody reads the setting. 0, -ENAMETOOLONG, -errno of
 * getcwd. */
static int
make_absolute(const char *path, char *absolute, size_t absolute_bytes)
{
	char here[PATH_MAX];
	int length;

	if (path[0] == '/' || path[0] == 0)
		length = snprintf(absolute, absolute_bytes, "%s", path);
	else if (!getcwd(here, sizeof(here)))
		return -errno;
	else
		length = snprintf(absolute, absolute_bytes, "%s/%s", here, path);
	return length < 0 || (size_t)length >= absolute_bytes ? -ENAMETOOLONG : 0;
}

static void
keep_complaint(const char *sentence, void *context)
{
	snprintf(context, 512, "%s", sentence);
}

/* One --<variable> VALUE: checked by the same table as the library's, then put into the environment. */
static int
set_variable(struct cs_cmd_parser *parser, const struct cs_variable *variable)
{
	static struct cs_settings settings;
	char value[PATH_MAX], assignment[PATH_MAX + 64];
	char *envp[] = {assignment, NULL};
	char complaint[512] = "";
	bool is_path = variable->type == CS_VARIABLE_TEXT && strstr(variable->values, "path");
	int result = 0;

	/* The library's table takes any text, as it is the exporter's to read. */
	if (strcmp(variable->name, LISTEN_VARIABLE) == 0 && parser->value[0] &&
		!cs_address_is_valid(parser->value))
		return cs_cmd_usage_error(parser,
			"Value \"%s\" of %s is no address to listen on: use " CS_ADDRESS_FORMS
			", with a port from 0 to 65535",
			parser->value, parser->option);
	if (is_path)
		result = make_absolute(parser->value, value, sizeof(value));
	else
		snprintf(value, sizeof(value), "%s", parser->value);
	if (result)
		return cs_cmd_usage_error(
			parser, "Cannot use the value of %s: %s", parser->option, strerror(-result));
	snprintf(assignment, sizeof(assignment), "%s=%s", variable->name, value);
	if (cs_settings_load(&settings, envp, keep_complaint, complaint)) {
		/* "...; using sample." is what the library does; a command line that is wrong runs nothing.
		 */
		char *consequence = strrchr(complaint, ';');

		if (consequence)
			*consequence = 0;
		return cs_cmd_usage_error(parser, "%s: %s", parser->option, complaint);
	}
	if (setenv(variable->name, value, 1))
		return cs_cmd_usage_error(parser, "Cannot set %s: %s", variable->name, strerror(errno));
	return 0;
}

static int
take_library(struct request *request, struct cs_cmd_parser *parser)
{
	int result = make_absolute(parser->value, request->library, sizeof(request->library));
	const char *complaint = NULL;

	if (result == 0)
		result = cs_library_check(request->library, &complaint);
	if (complaint)
		return cs_cmd_usage_error(parser, "Cannot load \"%s\": %s", parser->value, complaint);
	if (result)
		return cs_cmd_usage_error(parser, "Cannot read \"%s\": %s", parser->value, strerror(-result));
	return 0;
}

/* 0 or CS_PARSE_EXIT. Leaves parser->index at the word after COMMAND. */
static int
parse(struct request *request, struct cs_cmd_parser *parser)
{
	size_t variable_count;
	const struct cs_variable *variables = cs_variables(&variable_count);
	int option;

	while ((option = cs_cmd_next(parser)) != CS_PARSE_END) {
		int result = 0;

		if (option == CS_PARSE_OPERAND) {
			request->command = parser->value;
			return 0;
		}
		if (option == CS_PARSE_EXIT)
			return option;
		if (option >= CS_OPTION_ENVIRONMENT) {
			const struct cs_variable *variable = &variables[option - CS_OPTION_ENVIRONMENT];

			result = set_variable(parser, variable);
			request->listen = request->listen || strcmp(variable->name, LISTEN_VARIABLE) == 0;
		} else if (option == OPTION_LIBRARY)
			result = take_library(request, parser);
		else
			setenv("COLLSCOPE_EXPORTER", "off", 1);
		if (result)
			return result;
	}
	return cs_cmd_usage_error(parser, "Which COMMAND shall run?");
}

static int
choose_library(struct request *request)
{
	int result;

	if (request->library[0])
		return 0;
	result = cs_locate_library(request->library, sizeof(request->library));
	if (result)
		cs_log_error("Cannot find libcollscope.so beside this command (%s): name it with --library",
			strerror(-result));
	return result;
}

static int
set_injection(const char *library)
{
	const char *other = getenv(INJECTION_VARIABLE);

	if (other && *other && strcmp(other, library) != 0)
		cs_log_warn(
			INJECTION_VARIABLE " named another tool, \"%s\", which will not be loaded", other);
	if (setenv(INJECTION_VARIABLE, library, 1)) {
		cs_log_error("Cannot set " INJECTION_VARIABLE ": %s", strerror(errno));
		return -ENOMEM;
	}
	return 0;
}

/* Port 0: it is known once the exporter has one. */
static bool
takes_free_port(const struct cs_settings *settings)
{
	char host[sizeof(settings->listen)], port[CS_PORT_BYTES];

	return cs_address_split(settings->listen, host, sizeof(host), port) == 0 &&
	       strspn(port, "0") == strlen(port);
}

/* Once, to who looks: a person, or who asked for it, or for a port that nothing else tells. A log that nobody
 * asked to be filled stays as it is. */
static void
tell_metrics(const struct cs_settings *settings, const char *address)
{
	bool asked = isatty(STDERR_FILENO) == 1 || takes_free_port(settings);
	int wanted = asked ? CS_LOG_WARN : CS_LOG_INFO;

	if (settings->log_level >= wanted)
		cs_log_info("Metrics: http://%s/metrics", address);
}

/* Whether the address that was asked for is the one that is told, which has numbers and no empty host. */
static bool
is_same_address(const char *wanted, const char *told)
{
	static const char *const names[][2] = {
		{"", "[::]"}, {"", "0.0.0.0"}, {"localhost", "127.0.0.1"}, {"localhost", "[::1]"}};
	const char *wanted_port = strrchr(wanted, ':');
	const char *told_port = strrchr(told, ':');

	if (strcmp(wanted, told) == 0)
		return true;
	if (!wanted_port || !told_port || strcmp(wanted_port, told_port) != 0)
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strlen(names[i][0]) == (size_t)(wanted_port - wanted) &&
			strncmp(wanted, names[i][0], strlen(names[i][0])) == 0 &&
			strlen(names[i][1]) == (size_t)(told_port - told) &&
			strncmp(told, names[i][1], strlen(names[i][1])) == 0)
			return true;
	}
	return false;
}

/* One for the directory: the address that it was started with stays. */
static void
tell_serving(const struct request *request, const struct cs_settings *settings, const char *directory)
{
	const char *wanted = getenv(LISTEN_VARIABLE);
	struct cs_exporter_serving serving;
	int result = cs_exporter_find_serving(directory, &serving);

	/* It has begun just now, and says soon where it is. */
	if (result == -EAGAIN && cs_exporter_wait(directory, 0) == 0)
		result = cs_exporter_find_serving(directory, &serving);
	if (result)
		return;
	if (wanted && *wanted && !is_same_address(wanted, serving.address))
		cs_log_warn("An exporter already serves \"%s\" on %s; %s has no effect", directory,
			serving.address, request->listen ? "--listen" : LISTEN_VARIABLE);
	else
		tell_metrics(settings, serving.address);
}

static void
await_exporter(const struct cs_settings *settings, const char *directory, pid_t exporter)
{
	struct cs_exporter_serving serving;
	char cause[512];
	int result = cs_exporter_wait(directory, exporter);

	if (result == 0 && cs_exporter_find_serving(directory, &serving) == 0)
		tell_metrics(settings, serving.address);
	else if (result == -ETIMEDOUT)
		cs_log_warn("The exporter is not up yet; if there are no metrics, \"%s/" CS_EXPORTER_LOG_NAME
			    "\" says why",
			directory);
	else if (result && cs_exporter_last_words(directory, cause, sizeof(cause), NULL))
		cs_log_warn("The exporter did not start, and did not say why, so there will be no metrics");
	else if (result)
		cs_log_warn("The exporter did not start, so there will be no metrics: %s", cause);
}

/* 0, or a negative errno that has been said. Only who starts an exporter needs it to be there already. */
static int
find_directory(const struct cs_settings *settings, char *directory, size_t directory_bytes)
{
	int result = -ENAMETOOLONG;

	if (settings->directory_too_long)
		return result; /* said as of any variable */
	if (settings->exporter)
		result = cs_settings_prepare_directory(settings, directory, directory_bytes);
	else
		result = cs_rundir_resolve(settings->directory, directory, directory_bytes);
	if (result)
		cs_directory_say_unusable(CS_LOG_WARN,
			settings->directory[0] ? settings->directory : directory,
			", so nothing will be recorded", result);
	return result;
}

/* What is wrong in the environment, here once, and not only by each rank into its own log. Nothing here stops
 * COMMAND: it runs without metrics rather than not at all. */
static void
start_exporter(const struct request *request)
{
	static struct cs_settings settings;
	char directory[CS_PATH_BYTES];
	pid_t exporter;
	int result;

	cs_settings_load(&settings, environ, cs_log_warn_of, NULL);
	if (settings.mode == CS_MODE_OFF || find_directory(&settings, directory, sizeof(directory)) ||
		!settings.exporter)
		return;
	if (cs_exporter_is_running(directory)) {
		tell_serving(request, &settings, directory);
		return;
	}
	if (!settings.exporter_path[0]) {
		result = cs_locate_exporter(
			request->library, settings.exporter_path, sizeof(settings.exporter_path));
		if (result) {
			cs_log_warn(
				"Cannot find collscope-exporter, so there will be no metrics: name it with "
				"--exporter-path, or say --no-exporter");
			return;
		}
		setenv("COLLSCOPE_EXPORTER_PATH", settings.exporter_path, 1);
	}
	result = cs_exporter_start(settings.exporter_path, directory, &exporter);
	if (result)
		cs_log_warn("Cannot start the exporter \"%s\", so there will be no metrics: %s",
			settings.exporter_path, strerror(-result));
	else
		await_exporter(&settings, directory, exporter);
}

static int
say_cannot_run(const char *command, int result)
{
	cs_log_error("Cannot run \"%s\": %s", command, strerror(-result));
	return result == -ENOENT ? CS_EXIT_RUN_NOT_FOUND : CS_EXIT_RUN_NOT_EXECUTABLE;
}

static int
cmd_run(int argc, char **argv)
{
	struct request request = {.command = NULL};
	struct cs_cmd_parser parser;
	int result;

	cs_cmd_parse(&parser, &cs_cmd_run_description, argc, argv);
	parser.error_status = CS_EXIT_RUN_FAILED;
	if (parse(&request, &parser))
		return parser.status;
	result = cs_locate_command(request.command);
	if (result)
		return say_cannot_run(request.command, result);
	if (choose_library(&request) || set_injection(request.library))
		return CS_EXIT_RUN_FAILED;
	start_exporter(&request);
	execvp(request.command, &argv[parser.index - 1]);
	return say_cannot_run(request.command, -errno);
}

const struct cs_cmd cs_cmd_run_description = {
	.name = "run",
	.summary = "run a command with the profiler loaded",
	.synopsis = "[options] -- COMMAND [ARGUMENT...]",
	.description =
		"Sets CUDA_INJECTION64_PATH and the settings given, starts collscope-exporter unless one "
		"serves the run directory already (at its address, whatever --listen says), and becomes "
		"COMMAND. Processes that COMMAND starts are traced too; "
		"those that never use a GPU cost nothing.",
	.options = options,
	.examples = examples,
	.statuses = statuses,
	.environment_options = true,
	.stops_at_operand = true,
	.run = cmd_run,
};
