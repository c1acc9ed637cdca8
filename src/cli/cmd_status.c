/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

#include "clock.h"
#include "environment.h"
#include "log.h"
#include "output.h"
#include "status.h"
#include "units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	OPTION_DIRECTORY,
	OPTION_PID,
	OPTION_RUNNING,
	OPTION_JSON,
	OPTION_LONG,
	OPTION_COLLECTIVES,
	OPTION_COLOR,
	OPTION_STEPS,
	OPTION_SINCE
};

static const struct cs_cmd_option options[] = {
	{OPTION_COLLECTIVES, 'c', "collectives", NULL, NULL,
		"Also two tables of what the rings hold. Steps by phase: how many, how long, collectives in "
		"one, the time of one in collectives, and how much of that nothing hides. Collectives: which "
		"implementation ran which size, how often, how long, and its share of the traced GPU time."},
	{OPTION_SINCE, 's', "since", "DURATION", NULL,
		"Leave out of these tables, and of the phases that --long shows, what ended longer ago, e.g. "
		"30s, "
		"500ms, 2m. Default: all that the rings still hold, however old; the line below the tables "
		"says "
		"what time that covers."},
	{OPTION_LONG, 'l', "long", NULL, NULL,
		"Everything known of each process: GPUs and links, communicators, versions, settings, and "
		"what "
		"decided the phases of its steps."},
	{OPTION_JSON, 0, "json", NULL, NULL, "One JSON object instead; members are only ever added."},
	{OPTION_RUNNING, 'r', "running", NULL, NULL,
		"Leave out processes that have ended and whose records are still there."},
	CS_OPTION_PID_ENTRY(OPTION_PID, "Only this process; may be given several times."),
	{OPTION_STEPS, 0, "steps", "FILE", CS_COMPLETE_FILE,
		"Rules that name steps and phases (default: $COLLSCOPE_STEPS)."},
	{OPTION_COLOR, 0, "color", CS_COLOR_VALUES, CS_COLOR_VALUES,
		"When to colour (default: auto, which honours NO_COLOR)."},
	CS_OPTION_DIRECTORY_ENTRY(OPTION_DIRECTORY),
	{.name = NULL},
};

static const struct cs_cmd_example examples[] = {
	{"collscope status", "See where the profiler is on, and whether anything is lost"},
	{"collscope status --collectives", "See which all-reduce runs at which size, and what it costs"},
	{"collscope status --collectives --since 1m", "See the same of the last minute, as after a change"},
	{"collscope status --json | jq '.processes[] | select(.state == \"dormant\") | .reason'",
		"See why a process is not traced"},
	{.command = NULL},
};

static const struct cs_cmd_column columns[] = {
	{"STATE",
		"starting; learning: holds CUPTI's subscription while graphs are captured; tracing: a window "
		"is open, in full mode always; sampling: between two windows; tracing until: on request "
		"(collscope trace), time in UTC; waiting, ends: the same while nothing is traced yet, or "
		"(--budget) between its windows; idle: waits to be asked (mode demand); yielded: another "
		"profiler has CUPTI; paused: until collscope resume; dormant: off for good, the line below "
		"the table says why; exited; ended: without a word, killed."},
	{"DEPTH", "What is recorded at this moment. deep: every kernel; off: nothing, as between two windows "
		  "of "
		  "sample mode, most of the time."},
	{"RECORDS", "Written so far: collectives, busy stretches of the GPU, windows and marks."},
	{"LOST", "Records that are missing, by cause in the line below the table: 0 unless something was too "
		 "slow or too much. Kernels that a window's end cuts, about one a window, are not among them "
		 "(--long)."},
	{"LABELS", "Different collectives known: operation, implementation, size, type, communicator."},
	{"CPU", "Time of the profiler's thread and of its callbacks, since the start."},
	{"HOST MEM, GPU MEM", "What the profiler holds; on the GPU what CUPTI may take for it at most."},
	{"COUNT", "Of all collectives, over all ranks: an all-reduce of eight ranks is eight."},
	{"STEPS, COLLECTIVES", "Of whole steps alone, those that were traced from start to end, over all "
			       "ranks; COLLECTIVES in one of them, mean. Times COUNT they need not agree: it "
			       "has also what belongs to no whole step."},
	{"MEAN WAIT, BUS BW",
		"Of the collectives that every rank was seen of; the line below the table says how "
		"many those are."},
	{"GPU TIME", "Share of the traced time, not of all time."},
	{"IN COLLECTIVES", "Time of a step in collectives, mean over the steps of the phase."},
	{"EXPOSED", "The part of that while nothing else ran on the GPU, mean too: the price of "
		    "communication. EXPOSED %: its share of the time of the steps."},
	{.name = NULL},
};

static const struct cs_cmd_status statuses[] = {
	{"0", "At least one traced process is shown."},
	{"1", "There is none."},
	{"2", "Usage error, or a segment or directory that cannot be read."},
	{.status = NULL},
};

struct request {
	struct cs_target_query query;
	const char *steps_file;
	uint64_t since_ns; /* CLOCK_REALTIME; 0 all */
	uint64_t stall_ns; /* COLLSCOPE_STALL_S */
	enum cs_color color;
	bool json;
	bool details;
	bool collectives;
};

static void
complain(const char *sentence, void *context)
{
	(void)context;
	cs_log_warn("%s", sentence);
}

static uint64_t
read_stall_threshold_ns(void)
{
	static const char *const names[] = {"COLLSCOPE_STALL_S", NULL};
	static struct cs_settings settings; /* large */

	cs_settings_load_some(&settings, environ, names, complain, NULL);
	return settings.stall_s * CS_NS_PER_S;
}

static int
summarize(struct cs_targets *targets, const struct request *request, struct cs_summary *summary,
	struct cs_stalls *stalls)
{
	struct cs_analysis_sink sink = cs_summary_sink(summary);
	struct cs_feed *feed = NULL;
	int result = cs_feed_new(targets, request->steps_file, &sink, &feed);

	if (result)
		return result;
	cs_summary_attach(summary, feed);
	result = cs_feed_poll(feed, NULL);
	if (result == 0)
		result = cs_stalls_collect(stalls, feed, request->stall_ns);
	if (result == 0) {
		cs_feed_drain(feed);
		result = cs_summary_finish(summary);
	}
	cs_feed_destroy(feed);
	return result;
}

static int
print_summary(const struct cs_summary *summary, struct cs_page *page)
{
	char since[CS_UNITS_TEXT_BYTES];
	int result;

	fputc('\n', stdout);
	if (summary->count == 0) {
		if (summary->since_ns)
			cs_log_info("No collective in the rings since %s",
				cs_units_format_when(summary->since_ns, cs_clock_realtime_ns(), since));
		else
			cs_log_info("No collective in the rings yet");
		return 0;
	}
	result = cs_summary_print(summary, stdout, 0, page);
	if (result == 0)
		cs_summary_print_span(summary, stdout);
	return result;
}

static int
print_text(const struct request *request, const struct cs_targets *targets, const struct cs_summary *summary,
	const struct cs_stalls *stalls)
{
	struct cs_page page = {.width = cs_output_is_terminal() ? cs_output_columns() : 0};
	int result = request->details ? cs_status_print_long(targets, &summary->phase_rules, stdout)
				      : cs_status_print_table(targets, stdout, &page);

	if (result)
		return result;
	cs_stalls_print(stalls, stdout);
	if (request->collectives)
		result = print_summary(summary, &page);
	if (result)
		return result;
	cs_status_print_exporter(targets, stdout);
	cs_page_print_left_out(&page, "--json or `| cat`", stdout);
	return 0;
}

static int
show(const struct request *request)
{
	struct cs_summary summary;
	struct cs_stalls stalls = {0};
	struct cs_targets targets;
	bool analysed = request->collectives || request->details;
	int status = cs_targets_open(&targets, &request->query);
	int result = 0;

	cs_summary_init(&summary);
	summary.since_ns = request->since_ns;
	if (status == CS_EXIT_ERROR)
		goto out;
	if (targets.count &&
		(analysed || cs_stalls_suspected(&targets, cs_clock_realtime_ns(), request->stall_ns)))
		result = summarize(&targets, request, &summary, &stalls);
	if (result == 0 && request->json)
		result = cs_status_print_json(&targets, analysed ? &summary.phase_rules : NULL,
			request->collectives ? &summary : NULL, &stalls, stdout);
	else if (result == 0 && targets.count)
		result = print_text(request, &targets, &summary, &stalls);
	if (result == -ENOMEM)
		cs_log_error("Cannot show the status: %s", strerror(ENOMEM));
	if (result || targets.unreadable)
		status = CS_EXIT_ERROR;
out:
	cs_stalls_fini(&stalls);
	cs_summary_fini(&summary);
	cs_targets_close(&targets);
	return status;
}

static int
cmd_status(int argc, char **argv)
{
	struct request request = {
		.query = {.from_oldest = true, .ended = true}, .steps_file = getenv("COLLSCOPE_STEPS")};
	struct cs_cmd_parser parser;
	unsigned int choice = CS_COLOR_AUTO;
	int option;

	cs_cmd_parse(&parser, &cs_cmd_status_description, argc, argv);
	while ((option = cs_cmd_next(&parser)) != CS_PARSE_END) {
		int result = 0;

		switch (option) {
		case OPTION_DIRECTORY:
			request.query.directory = parser.value;
			break;
		case OPTION_PID:
			result = cs_target_query_add_pid(&request.query, &parser);
			break;
		case OPTION_RUNNING:
			request.query.ended = false;
			break;
		case OPTION_JSON:
			request.json = true;
			break;
		case OPTION_SINCE:
			result = cs_cmd_value_since(&parser, &request.since_ns);
			break;
		case OPTION_LONG:
			request.details = true;
			break;
		case OPTION_COLLECTIVES:
			request.collectives = true;
			break;
		case OPTION_STEPS:
			request.steps_file = parser.value;
			break;
		case OPTION_COLOR:
			result = cs_cmd_value_choice(&parser, CS_COLOR_VALUES, &choice);
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
	if (request.since_ns && !request.collectives && !request.details) {
		cs_cmd_usage_error(&parser, "--since goes with --collectives or --long");
		return parser.status;
	}
	cs_output_setup_color((enum cs_color)choice);
	request.stall_ns = read_stall_threshold_ns();
	return show(&request);
}

const struct cs_cmd cs_cmd_status_description = {
	.name = "status",
	.summary = "show the traced processes and what is traced",
	.synopsis = "[options]",
	.description = "Lists the processes that the profiler is loaded into: ranks and GPUs, mode, state "
		       "and why, tracing "
		       "depth, records and losses, labels learnt, and what the profiler itself costs them. "
		       "A rank that has stood still for 10 s (COLLSCOPE_STALL_S) is named with the "
		       "collective that it stands "
		       "at.",
	.options = options,
	.examples = examples,
	.columns = columns,
	.statuses = statuses,
	.run = cmd_status,
};
