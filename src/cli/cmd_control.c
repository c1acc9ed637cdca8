/* SPDX-License-Identifier: Apache-2.0 */
/* trace, pause, resume: one request to each process, through its segment's control block. */
#include "cmd.h"

#include "asking.h"
#include "clock.h"
#include "log.h"
#include "refusals.h"
#include "status.h"
#include "targets.h"
#include "units.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

/* A profiler's thread looks at its control block several times a second; one that has not answered by then is
 * stopped, or its machine is drowning. */
#define ANSWER_TIMEOUT_MS 3000U
/* All processes shall start at one moment, so all have to have agreed before it. A process answers within a
 * tenth of a second, and each takes its time to be asked; when that was not enough for somebody, there is a
 * second try with the longer lead. */
#define TRACE_LEAD_NS      (400 * CS_NS_PER_MS)
#define TRACE_LEAD_LONG_NS (3000 * CS_NS_PER_MS)
#define TRACE_LEAD_EACH_NS (25 * CS_NS_PER_MS)
/* From the last answer that counts to the start: to take everything back before anybody begins. */
#define TRACE_MARGIN_NS (100 * CS_NS_PER_MS)
/* From an answer to the state that it leads to: a turn of the profiler's thread. */
#define STATE_LAG_NS (100 * CS_NS_PER_MS)

enum {
	OPTION_DIRECTORY,
	OPTION_PID,
	OPTION_ALL,
	OPTION_ONLY,
	OPTION_RELEASE,
	OPTION_SECONDS,
	OPTION_BUDGET,
	OPTION_REPLACE,
	OPTION_WAIT
};

#define SELECTION_OPTIONS                                                                                    \
	CS_OPTION_PID_ENTRY(OPTION_PID,                                                                      \
		"This process and the other ranks of its communicators; may be given several times."),       \
		{OPTION_ONLY, 'o', "only", NULL, NULL,                                                       \
			"Just the processes that --pid names, without the other ranks."},                    \
		{OPTION_ALL, 'a', "all", NULL, NULL,                                                         \
			"All traced processes. Needed when there are several and --pid names none."},        \
		CS_OPTION_DIRECTORY_ENTRY(OPTION_DIRECTORY)

static const struct cs_cmd_option trace_options[] = {
	{OPTION_SECONDS, 's', "seconds", "N", NULL,
		"How long to trace, from about half a second after now; also a duration such as 500ms or "
		"2m. COLLSCOPE_TRACE_MAX_S of the process is the most."},
	{OPTION_BUDGET, 'b', "budget", "X", NULL,
		"Share of step time that it may cost, 0.0001 to 1: windows that all processes open together, "
		"instead of tracing all the time."},
	{OPTION_REPLACE, 0, "replace", NULL, NULL,
		"End a trace that runs or waits to begin, and start this one in its place; without it the "
		"request is refused then."},
	{OPTION_WAIT, 'w', "wait", NULL, NULL,
		"Return when the time is over, not when it has been arranged."},
	SELECTION_OPTIONS,
	{.name = NULL},
};

static const struct cs_cmd_option pause_options[] = {
	{OPTION_RELEASE, 'r', "release", NULL, NULL,
		"Also give up CUPTI's subscription, as far as it is held: then torch.profiler can start now. "
		"Graphs captured later have no labels."},
	SELECTION_OPTIONS,
	{.name = NULL},
};

static const struct cs_cmd_option resume_options[] = {
	SELECTION_OPTIONS,
	{.name = NULL},
};

static const struct cs_cmd_example trace_examples[] = {
	{"collscope trace --seconds 5 --all --wait && collscope dump --since 6s > trace.jsonl",
		"Trace everything for five seconds, on all ranks at the same moment, and keep it"},
	{"collscope trace --seconds 2m --budget 0.02 --pid 4711",
		"Look closely at one server for two minutes, at a cost of two percent"},
	{.command = NULL},
};

static const struct cs_cmd_example pause_examples[] = {
	{"collscope pause --all --release",
		"No tracing until `collscope resume --all`, and CUPTI free for another profiler"},
	{.command = NULL},
};

static const struct cs_cmd_example resume_examples[] = {
	{"collscope resume --all", "Go on as before `collscope pause --all`"},
	{.command = NULL},
};

static const struct cs_cmd_status statuses[] = {
	{"0", "Every process asked has agreed."},
	{"1", "There is no such process."},
	{"2", "Usage error, or a process has refused, has not answered, or cannot be asked: then none is "
	      "traced, but pause and resume hold for the others. Also when one was left out, as it is "
	      "dormant or its segment cannot be read."},
	{.status = NULL},
};

struct request {
	struct cs_target_query query;
	enum cs_command command;
	uint64_t duration_ns; /* 0: not given */
	double budget;        /* 0: not given */
	bool all;
	bool only;
	bool wait;
	bool release;
	bool replace;
};

static const char *
reason_of(const struct cs_target *target)
{
	return target->dictionary->process.reason;
}

static void
say_failures(const struct request *request, const struct cs_asking *asking, uint64_t waited_ns)
{
	char option[32] = "--all";

	if (request->query.pid_count)
		snprintf(option, sizeof(option), "--pid %u%s", request->query.pids[0],
			request->only ? " --only" : "");
	cs_refusals_say(asking, option, waited_ns);
}

static void
sleep_until(uint64_t until_ns)
{
	struct timespec until = {
		.tv_sec = (time_t)(until_ns / CS_NS_PER_S), .tv_nsec = (long)(until_ns % CS_NS_PER_S)};

	while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

/* Whether it failed for want of time alone, so that a longer lead may help. */
static bool
only_late(const struct cs_asking *asking)
{
	for (size_t i = 0; i < asking->count; i++) {
		const struct cs_asked *asked = &asking->items[i];
		bool late = asked->refused ? asked->result == -ETIME : asked->result == -ETIMEDOUT;

		if (asked->result && !late)
			return false;
	}
	return true;
}

/* All agree on one moment, or nobody traces. */
static int
trace_together(const struct request *request, struct cs_asking *asking)
{
	static const uint64_t leads_ns[] = {TRACE_LEAD_NS, TRACE_LEAD_LONG_NS};
	struct cs_segment_question question = {.command = CS_COMMAND_TRACE,
		.argument =
			(uint64_t)llround(request->budget * 1e6) | (request->replace ? CS_TRACE_REPLACE : 0)};
	char text[CS_UNITS_TEXT_BYTES];
	uint64_t lead_ns = 0;

	for (size_t i = 0; i < sizeof(leads_ns) / sizeof(leads_ns[0]); i++) {
		uint64_t begin_ns = cs_clock_monotonic_ns();

		lead_ns = leads_ns[i] + asking->count * TRACE_LEAD_EACH_NS;
		question.from_ns = cs_clock_realtime_ns() + lead_ns;
		question.until_ns = question.from_ns + request->duration_ns;
		if (cs_asking_ask(asking, &question, begin_ns + lead_ns - TRACE_MARGIN_NS) == asking->count) {
			cs_log_info("Tracing %zu %s for %s", asking->count,
				asking->count == 1 ? "process" : "processes",
				cs_units_format_duration(request->duration_ns, text));
			if (request->wait)
				sleep_until(question.until_ns);
			return CS_EXIT_OK;
		}
		cs_asking_cancel(
			asking, &question, cs_clock_monotonic_ns() + ANSWER_TIMEOUT_MS * CS_NS_PER_MS);
		if (!only_late(asking))
			break;
	}
	say_failures(request, asking, lead_ns);
	if (asking->count > 1)
		cs_log_error("Nothing is traced: all %zu processes have to begin together", asking->count);
	return CS_EXIT_ERROR;
}

/* A pause alone does not let torch.profiler in while labels are learnt. */
static void
say_subscriptions(const struct cs_asking *asking)
{
	char who[64];
	size_t count = 0;
	uint32_t pid = 0;

	for (size_t i = 0; i < asking->count; i++) {
		struct cs_target *target = asking->items[i].target;

		if (asking->items[i].result != 0 || cs_target_refresh(target) != 0 ||
			!target->status.subscribed)
			continue;
		count++;
		pid = target->pid;
	}
	if (count == 0)
		return;
	if (count == 1)
		snprintf(who, sizeof(who), "Process %u still holds", pid);
	else
		snprintf(who, sizeof(who), "%zu processes still hold", count);
	cs_log_warn("%s CUPTI's subscription: torch.profiler up to torch 2.11 would see nothing of the GPU, "
		    "now and later (pause --release gives it up)",
		who);
}

/* Marks those that are. Returns how many. */
static size_t
mark_paused(struct cs_asking *asking)
{
	size_t count = 0;

	for (size_t i = 0; i < asking->count; i++) {
		struct cs_target *target = asking->items[i].target;

		asking->items[i].marked =
			cs_target_refresh(target) == 0 && target->status.state == CS_STATE_PAUSED;
		count += asking->items[i].marked;
	}
	return count;
}

/* Before they are asked. Who has agreed to a pause, or to go on, just now may show it a moment later: unless
 * as many are paused as are when all that is asked for is news to everybody, it is looked at again. */
static void
find_paused(struct cs_asking *asking, size_t expected)
{
	if (mark_paused(asking) == expected)
		return;
	sleep_until(cs_clock_realtime_ns() + STATE_LAG_NS);
	mark_paused(asking);
}

static size_t
count_marked(const struct cs_asking *asking)
{
	size_t count = 0;

	for (size_t i = 0; i < asking->count; i++)
		count += asking->items[i].result == 0 && asking->items[i].marked;
	return count;
}

static void
say_paused(const struct cs_asking *asking, size_t agreed, bool release)
{
	size_t before = count_marked(asking);
	const char *also = release ? "; CUPTI's subscription is given up as far as it was held" : "";

	if (before == 0)
		cs_log_info("Paused %zu %s", agreed, agreed == 1 ? "process" : "processes");
	else if (before < agreed)
		cs_log_info("Paused %zu of %zu processes: the others were paused already", agreed - before,
			agreed);
	else if (agreed == 1)
		cs_log_info("Nothing to pause: the process was paused already%s", also);
	else
		cs_log_info("Nothing to pause: all %zu processes were paused already%s", agreed, also);
}

static void
say_resumed(const struct cs_asking *asking, size_t agreed)
{
	size_t resumed = count_marked(asking);

	if (resumed == 0)
		cs_log_info("Nothing to resume: %s",
			agreed == 1 ? "the process was not paused" : "no process was paused");
	else if (resumed == agreed)
		cs_log_info("Resumed %zu %s", resumed, resumed == 1 ? "process" : "processes");
	else
		cs_log_info("Resumed %zu of %zu processes: the others were not paused", resumed, agreed);
}

/* Processes that are traced on request now, or will be; the latest end of that. */
static size_t
count_traced(const struct cs_asking *asking, uint64_t *until_ns)
{
	size_t count = 0;

	for (size_t i = 0; i < asking->count; i++) {
		struct cs_target *target = asking->items[i].target;
		uint64_t end_ns = cs_target_refresh(target) == 0 ? cs_status_request_until_ns(target) : 0;

		count += end_ns != 0;
		if (end_ns > *until_ns)
			*until_ns = end_ns;
	}
	return count;
}

static int
tell_all(const struct request *request, struct cs_asking *asking)
{
	struct cs_segment_question question = {
		.command = request->command, .argument = request->release ? CS_PAUSE_RELEASE : 0};
	uint64_t timeout_ns = ANSWER_TIMEOUT_MS * CS_NS_PER_MS;
	uint64_t traced_until_ns = 0;
	size_t traced = count_traced(asking, &traced_until_ns);
	size_t agreed;
	char when[CS_UNITS_MOMENT_BYTES];

	find_paused(asking, request->command == CS_COMMAND_RESUME ? asking->count : 0);
	agreed = cs_asking_ask(asking, &question, cs_clock_monotonic_ns() + timeout_ns);
	say_failures(request, asking, timeout_ns);
	if (agreed && request->command == CS_COMMAND_RESUME)
		say_resumed(asking, agreed);
	if (request->command == CS_COMMAND_PAUSE) {
		if (agreed)
			say_paused(asking, agreed, request->release);
		say_subscriptions(asking);
		if (agreed && traced)
			cs_log_warn("That ended the trace of %zu %s that was to go on until %s", traced,
				traced == 1 ? "process" : "processes",
				cs_units_format_moment(traced_until_ns, cs_clock_realtime_ns(), when));
	}
	return agreed == asking->count ? CS_EXIT_OK : CS_EXIT_ERROR;
}

static bool
is_dormant(const struct cs_target *target)
{
	return target->status.state == CS_STATE_DORMANT;
}

/* In the place of the first that has this reason. */
static void
say_dormant(const struct cs_targets *targets, size_t at)
{
	const struct cs_target *target = targets->items[at];
	const char *reason = reason_of(target)[0] ? reason_of(target) : "its profiler is off";
	size_t count = 0;

	for (size_t i = 0; i < targets->count; i++) {
		if (!is_dormant(targets->items[i]) ||
			strcmp(reason_of(targets->items[i]), reason_of(target)) != 0)
			continue;
		if (i < at)
			return;
		count++;
	}
	if (count == 1)
		cs_log_error("Process %u is dormant: %s", target->pid, reason);
	else
		cs_log_error("%zu processes are dormant: %s", count, reason);
}

/* Dormant processes answer nobody: they are named, with their reason, and left out. Returns how many. */
static size_t
leave_out_dormant(struct cs_targets *targets)
{
	size_t kept = 0;

	for (size_t i = 0; i < targets->count; i++) {
		if (is_dormant(targets->items[i]))
			say_dormant(targets, i);
	}
	for (size_t i = 0; i < targets->count; i++) {
		struct cs_target *target = targets->items[i];

		if (is_dormant(target))
			continue;
		targets->items[i] = targets->items[kept];
		targets->items[kept++] = target;
	}
	return targets->count - kept;
}

/* Where nobody could be asked: why is said. */
static void
say_nothing_traced(const struct request *request)
{
	if (request->command == CS_COMMAND_TRACE)
		cs_log_error("Nothing is traced");
}

static int
ask_all(const struct request *request, struct cs_targets *targets)
{
	struct cs_asking asking = {0};
	struct cs_targets able = *targets;
	size_t dormant = leave_out_dormant(&able);
	int status = CS_EXIT_ERROR;

	able.count -= dormant;
	if (able.count && cs_asking_open(&asking, &able) == 0)
		status = request->command == CS_COMMAND_TRACE ? trace_together(request, &asking)
							      : tell_all(request, &asking);
	cs_asking_close(&asking);
	if (able.count == 0)
		say_nothing_traced(request);
	return dormant || targets->unreadable ? CS_EXIT_ERROR : status;
}

static int
execute(const struct request *request)
{
	struct cs_targets targets;
	bool groups = request->query.pid_count && !request->only;
	int status = groups ? cs_targets_open_groups(&targets, &request->query)
			    : cs_targets_open(&targets, &request->query);

	if (status == CS_EXIT_ERROR)
		say_nothing_traced(request);
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
		case OPTION_BUDGET:
			result = cs_cmd_value_share(&parser, &request.budget);
			break;
		case OPTION_REPLACE:
			request.replace = true;
			break;
		case OPTION_WAIT:
			request.wait = true;
			break;
		case OPTION_RELEASE:
			request.release = true;
			break;
		case OPTION_ONLY:
			request.only = true;
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
	if (request.only && !request.query.pid_count) {
		cs_cmd_usage_error(&parser, "--only goes with --pid");
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
	.synopsis = "--seconds N [--pid PID [--only] | --all] [--budget X] [options]",
	.description =
		"Asks traced processes to record every kernel for a while, all of them from the same moment, "
		"whatever their mode; afterwards they go on as before. One that is dormant, or "
		"whose segment cannot be read, is left out, which is said. When one of the others cannot, "
		"none does: also when one is traced on request already (--replace). "
		"Tracing everything costs time (docs/overhead.md); --budget says how much it may be.",
	.options = trace_options,
	.examples = trace_examples,
	.statuses = statuses,
	.run = cmd_trace,
};

const struct cs_cmd cs_cmd_pause_description = {
	.name = "pause",
	.summary = "stop tracing until resume",
	.synopsis = "[--pid PID [--only] | --all] [--release] [options]",
	.description = "Asks traced processes to open no window until `collscope resume`. What they know of "
		       "captured graphs is kept. A trace on request that runs or waits is ended, which is "
		       "said.",
	.options = pause_options,
	.examples = pause_examples,
	.statuses = statuses,
	.run = cmd_pause,
};

const struct cs_cmd cs_cmd_resume_description = {
	.name = "resume",
	.summary = "go on after pause",
	.synopsis = "[--pid PID [--only] | --all] [options]",
	.description = "Asks paused processes to go on by their mode, and says how many were paused.",
	.options = resume_options,
	.examples = resume_examples,
	.statuses = statuses,
	.run = cmd_resume,
};
