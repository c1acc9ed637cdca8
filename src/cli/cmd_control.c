/* SPDX-License-Identifier: Apache-2.0 */
/* trace, pause, resume: one request to each process, through its segment's control block. */
#include "cmd.h"

#include "clock.h"
#include "log.h"
#include "targets.h"
#include "units.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* A profiler's thread looks at its control block several times a second; one that has not answered by then is
 * stopped, or its machine is drowning. */
#define ANSWER_TIMEOUT_MS 3000U
/* All processes shall start at one moment, and the last of them is asked some milliseconds after the first.
 */
#define TRACE_LEAD_NS (500 * CS_NS_PER_MS)

enum { OPTION_DIRECTORY, OPTION_PID, OPTION_ALL, OPTION_SECONDS, OPTION_WAIT };

#define SELECTION_OPTIONS                                                                                    \
	CS_OPTION_PID_ENTRY(OPTION_PID, "Only this process; may be given several times."),                   \
		{OPTION_ALL, 'a', "all", NULL, NULL,                                                         \
			"All traced processes. Needed when there are several and --pid names none."},        \
		CS_OPTION_DIRECTORY_ENTRY(OPTION_DIRECTORY)

static const struct cs_cmd_option trace_options[] = {
	{OPTION_SECONDS, 's', "seconds", "N", NULL,
		"How long to trace, from half a second after now; also a duration such as 500ms or 2m."},
	{OPTION_WAIT, 'w', "wait", NULL, NULL,
		"Return when the time is over, not when it has been arranged."},
	SELECTION_OPTIONS,
	{.name = NULL},
};

static const struct cs_cmd_option control_options[] = {
	SELECTION_OPTIONS,
	{.name = NULL},
};

static const struct cs_cmd_example trace_examples[] = {
	{"collscope trace --seconds 5 --all --wait && collscope dump --since 6s > trace.jsonl",
		"Trace everything for five seconds, on all ranks at the same moment, and keep it"},
	{.command = NULL},
};

static const struct cs_cmd_example pause_examples[] = {
	{"collscope pause --all",
		"No tracing until `collscope resume --all`, e.g. while another profiler works"},
	{.command = NULL},
};

static const struct cs_cmd_example resume_examples[] = {
	{"collscope resume --all", "Go on as before `collscope pause --all`"},
	{.command = NULL},
};

static const struct cs_cmd_status statuses[] = {
	{"0", "Every process asked has agreed."},
	{"1", "There is no such process."},
	{"2", "Usage error, or a process has refused, has not answered, or cannot be asked."},
	{.status = NULL},
};

struct request {
	struct cs_target_query query;
	enum cs_command command;
	uint64_t duration_ns; /* 0: not given */
	bool all;
	bool wait;
};

static void
say_refusal(const struct cs_target *target, int result, const struct cs_error *error)
{
	switch (-result) {
	case ETIMEDOUT:
		cs_log_error("Process %u has not answered within %u s: is it stopped?", target->pid,
			ANSWER_TIMEOUT_MS / 1000);
		break;
	case ENOTCONN:
		cs_log_error("Process %u has ended", target->pid);
		break;
	case EACCES:
	case EPERM:
	case EROFS:
		cs_log_error(
			"May not write to the segment of process %u: run this as the user of that process",
			target->pid);
		break;
	default:
		cs_log_error("Process %u refuses: %s", target->pid,
			error->text[0] ? error->text : strerror(-result));
		break;
	}
}

static int
ask(const struct request *request, const struct cs_target *target, uint64_t from_ns, uint64_t until_ns)
{
	struct cs_error error;
	int result;

	cs_error_clear(&error);
	result = cs_segment_request(
		target->path, request->command, from_ns, until_ns, ANSWER_TIMEOUT_MS, &error);
	if (result)
		say_refusal(target, result, &error);
	return result;
}

static void
sleep_until(uint64_t until_ns)
{
	struct timespec until = {
		.tv_sec = (time_t)(until_ns / CS_NS_PER_S), .tv_nsec = (long)(until_ns % CS_NS_PER_S)};

	while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static void
say_agreed(const struct request *request, size_t count)
{
	char text[CS_UNITS_TEXT_BYTES];
	const char *noun = count == 1 ? "process" : "processes";

	if (request->command == CS_COMMAND_TRACE)
		cs_log_info("Tracing %zu %s for %s", count, noun,
			cs_units_format_duration(request->duration_ns, text));
	else
		cs_log_info("%s %zu %s", request->command == CS_COMMAND_PAUSE ? "Paused" : "Resumed", count,
			noun);
}

static int
ask_all(const struct request *request, const struct cs_targets *targets)
{
	uint64_t from_ns = 0, until_ns = 0;
	size_t agreed = 0;

	if (request->command == CS_COMMAND_TRACE) {
		from_ns = cs_clock_realtime_ns() + TRACE_LEAD_NS;
		until_ns = from_ns + request->duration_ns;
	}
	for (size_t i = 0; i < targets->count; i++) {
		if (ask(request, targets->items[i], from_ns, until_ns) == 0)
			agreed++;
	}
	if (agreed) {
		say_agreed(request, agreed);
		if (request->wait)
			sleep_until(until_ns);
	}
	return agreed == targets->count && targets->unreadable == 0 ? CS_EXIT_OK : CS_EXIT_ERROR;
}

static int
execute(const struct request *request)
{
	struct cs_targets targets;
	int status = cs_targets_open(&targets, &request->query);

	if (status != CS_EXIT_OK)
		goto out;
	/* Pausing a neighbour's server by forgetting an option is not worth the saved word. */
	if (targets.count > 1 && !request->all && request->query.pid_count == 0) {
		cs_log_error("There are %zu traced processes: name some with --pid, or all with --all",
			targets.count);
		status = CS_EXIT_ERROR;
		goto out;
	}
	status = ask_all(request, &targets);
out:
	cs_targets_close(&targets);
	return status;
}

static int
run_control(const struct cs_cmd *cmd, enum cs_command command, int argc, char **argv)
{
	struct request request = {.command = command};
	struct cs_cmd_parser parser;
	int option;

	cs_cmd_parse(&parser, cmd, argc, argv);
	while ((option = cs_cmd_next(&parser)) != CS_PARSE_END) {
		int result = 0;

		switch (option) {
		case OPTION_SECONDS:
			result = cs_cmd_value_duration(&parser, &request.duration_ns);
			break;
		case OPTION_WAIT:
			request.wait = true;
			break;
		case OPTION_PID:
			result = cs_target_query_add_pid(&request.query, &parser);
			break;
		case OPTION_ALL:
			request.all = true;
			break;
		case OPTION_DIRECTORY:
			request.query.directory = parser.value;
			break;
		case CS_PARSE_OPERAND:
			result = cs_cmd_unexpected_operand(&parser);
			break;
		default:
			return parser.status;
		}
		if (result)
			return parser.status;
	}
	if (command == CS_COMMAND_TRACE && request.duration_ns == 0) {
		cs_cmd_usage_error(&parser, "How long? Give --seconds N");
		return parser.status;
	}
	if (request.all && request.query.pid_count) {
		cs_cmd_usage_error(&parser, "Either --all or --pid");
		return parser.status;
	}
	return execute(&request);
}

static int
cmd_trace(int argc, char **argv)
{
	return run_control(&cs_cmd_trace_description, CS_COMMAND_TRACE, argc, argv);
}

static int
cmd_pause(int argc, char **argv)
{
	return run_control(&cs_cmd_pause_description, CS_COMMAND_PAUSE, argc, argv);
}

static int
cmd_resume(int argc, char **argv)
{
	return run_control(&cs_cmd_resume_description, CS_COMMAND_RESUME, argc, argv);
}

const struct cs_cmd cs_cmd_trace_description = {
	.name = "trace",
	.summary = "trace everything for a while",
	.synopsis = "--seconds N [--pid PID | --all] [options]",
	.description =
		"Asks traced processes to record every kernel for a while, all of them from the same moment, "
		"whatever their mode; afterwards they go on as before. Tracing everything costs time: see "
		"docs/overhead.md.",
	.options = trace_options,
	.examples = trace_examples,
	.statuses = statuses,
	.run = cmd_trace,
};

const struct cs_cmd cs_cmd_pause_description = {
	.name = "pause",
	.summary = "stop tracing until resume",
	.synopsis = "[--pid PID | --all] [options]",
	.description = "Asks traced processes to open no window until `collscope resume`. What they know of "
		       "captured "
		       "graphs is kept.",
	.options = control_options,
	.examples = pause_examples,
	.statuses = statuses,
	.run = cmd_pause,
};

const struct cs_cmd cs_cmd_resume_description = {
	.name = "resume",
	.summary = "go on after pause",
	.synopsis = "[--pid PID | --all] [options]",
	.description = "Asks paused processes to go on by their mode.",
	.options = control_options,
	.examples = resume_examples,
	.statuses = statuses,
	.run = cmd_resume,
};
