/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

#include "clock.h"
#include "feed.h"
#include "log.h"
#include "output.h"
#include "status.h"
#include "summary.h"
#include "units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INTERVAL_DEFAULT_NS CS_NS_PER_S
#define INTERVAL_MIN_NS     (100 * CS_NS_PER_MS)
/* Collectives shown when the output is no terminal. */
#define ROWS_DEFAULT 20U
/* Between two windows whose period is not known. */
#define GAP_DEFAULT_NS CS_NS_PER_S

enum { OPTION_DIRECTORY, OPTION_PID, OPTION_INTERVAL, OPTION_COUNT, OPTION_COLOR };

static const struct cs_cmd_option options[] = {
	{OPTION_INTERVAL, 'i', "interval", "DURATION", NULL,
		"Time between two pictures (default: 1s, least 100ms)."},
	{OPTION_COUNT, 'n', "count", "N", NULL, "End after so many pictures (default: never)."},
	CS_OPTION_PID_ENTRY(OPTION_PID, "Only this process; may be given several times."),
	{OPTION_COLOR, 0, "color", CS_COLOR_VALUES, CS_COLOR_VALUES,
		"When to colour (default: auto, which honours NO_COLOR)."},
	CS_OPTION_DIRECTORY_ENTRY(OPTION_DIRECTORY),
	{.name = NULL},
};

static const struct cs_cmd_example examples[] = {
	{"collscope top", "Watch what runs now"},
	{"collscope top --interval 10s --count 6 > minute.txt", "Write a minute down, ten seconds a picture"},
	{.command = NULL},
};

static const struct cs_cmd_status statuses[] = {
	{"0", "As many pictures as asked for were shown."},
	{"1", "There is no traced process."},
	{"2", "Usage error, a segment that cannot be read, or output that could not be written."},
	{.status = NULL},
};

struct request {
	struct cs_target_query query;
	uint64_t interval_ns;
	uint64_t count; /* 0: no end */
};

/* Windows of sample mode come every ten seconds, pictures every second. */
static void
print_age(const struct cs_summary *summary)
{
	uint64_t now_ns = cs_clock_realtime_ns();
	char text[CS_UNITS_TEXT_BYTES];

	printf("Last window %s ago\n",
		cs_units_format_duration(
			now_ns > summary->newest_ns ? now_ns - summary->newest_ns : 0, text));
}

/* The longest of those that sample: 0 when none does, or none says. */
static uint64_t
sampling_period_ns(const struct cs_targets *targets)
{
	uint64_t period_ns = 0;

	for (size_t i = 0; i < targets->count; i++) {
		const struct cs_status *status = &targets->items[i]->status;

		if (status->mode == CS_MODE_SAMPLE && status->period_ns > period_ns)
			period_ns = status->period_ns;
	}
	return period_ns;
}

static void
print_nothing(const struct cs_targets *targets)
{
	uint64_t period_ns = sampling_period_ns(targets);
	char text[CS_UNITS_TEXT_BYTES];

	if (period_ns)
		printf("No collectives yet: waiting for the next window, one every %s\n",
			cs_units_format_duration(period_ns, text));
	else
		puts("No collectives yet");
}

/* Collectives for which the terminal has room. */
static size_t
room_for_rows(const struct cs_targets *targets, const struct cs_summary *summary)
{
	unsigned int rows = cs_output_rows();
	/* Headings, blank lines, the age, what was left out (two lines) and the cursor's own line; the table
	 * of steps. */
	size_t used = targets->count + 9 + CS_SUMMARY_REMARKS + summary->steps.count + 2;

	return rows > used ? rows - used : 1;
}

/* The summary is of the collectives that the analysis let go in the latest turn that let some go: in that
 * turn they had ended about two seconds before. */
static int
draw(const struct cs_targets *targets, const struct cs_summary *summary, bool fresh)
{
	bool terminal = cs_output_is_terminal();
	struct cs_page page = {.width = terminal ? cs_output_columns() : 0};
	int result = 0;

	if (terminal)
		fputs("\033[H\033[2J", stdout);
	if (targets->count)
		result = cs_status_print_table(targets, stdout, &page);
	else
		puts("No traced process any more");
	fputc('\n', stdout);
	if (result == 0 && summary->count) {
		if (!fresh)
			print_age(summary);
		result = cs_summary_print(
			summary, stdout, terminal ? room_for_rows(targets, summary) : ROWS_DEFAULT, &page);
	} else if (targets->count) {
		print_nothing(targets);
	}
	cs_page_print_left_out(&page, "`| cat`", stdout);
	if (!terminal)
		fputc('\n', stdout);
	return result ? result : cs_output_flush();
}

static void
sleep_for(uint64_t duration_ns)
{
	struct timespec rest = {
		.tv_sec = (time_t)(duration_ns / CS_NS_PER_S), .tv_nsec = (long)(duration_ns % CS_NS_PER_S)};

	while (nanosleep(&rest, &rest) && errno == EINTR)
		;
}

static int
turn(struct cs_targets *targets, struct cs_feed *feed)
{
	int result;

	/* A directory that has gone is like an empty one: it may come back. */
	(void)cs_targets_rescan(targets, NULL);
	for (size_t i = 0; i < targets->count; i++)
		(void)cs_target_refresh(targets->items[i]);
	result = cs_feed_update(feed);
	if (result == 0)
		result = cs_feed_poll(feed, NULL);
	if (result)
		return result;
	cs_feed_advance(feed);
	cs_feed_let_go(feed);
	return 0;
}

static bool
samples(const struct cs_targets *targets)
{
	for (size_t i = 0; i < targets->count; i++) {
		if (targets->items[i]->status.mode == CS_MODE_SAMPLE)
			return true;
	}
	return false;
}

/* What is shown, until something newer comes. */
struct picture {
	struct cs_summary summary;
	struct cs_analysis_sink sink; /* of the summary */
	bool restart;                 /* what comes next begins a new one */
	bool fresh;                   /* something has come in this turn */
	uint64_t gap_ns;              /* so does what comes that long after all before; 0: no matter */
	uint64_t newest_ns;
};

/* at_ns: start of what comes. */
static void
begin_again(struct picture *picture, uint64_t at_ns)
{
	bool later = picture->gap_ns && at_ns > picture->newest_ns + picture->gap_ns;

	if (picture->restart || later)
		cs_summary_restart(&picture->summary);
	picture->restart = false;
	picture->fresh = true;
	if (at_ns > picture->newest_ns)
		picture->newest_ns = at_ns;
}

static void
take_step(void *context, const struct cs_step *step)
{
	struct picture *picture = context;

	begin_again(picture, step->start_ns);
	picture->sink.step(&picture->summary, step);
}

static void
take_collective(void *context, const struct cs_collective *collective)
{
	struct picture *picture = context;

	begin_again(picture, collective->start_ns);
	picture->sink.collective(&picture->summary, collective);
}

static void
take_other(void *context, uint32_t source, const struct cs_record *record)
{
	struct picture *picture = context;

	picture->sink.other(&picture->summary, source, record);
}

/* Between two windows that all open together nothing is traced for longer than this, and within one hardly.
 */
static uint64_t
gap_of(const struct cs_targets *targets)
{
	uint64_t period_ns = sampling_period_ns(targets);

	if (!samples(targets))
		return 0;
	return period_ns ? period_ns / 4 : GAP_DEFAULT_NS;
}

/* What the rings hold already, as `collscope status` reads it: how steps are told apart is known from the
 * first picture on, and where windows are sampled it shows the last one. */
static int
look_back(struct picture *picture, struct cs_targets *targets, struct cs_feed *feed)
{
	int result;

	picture->gap_ns = gap_of(targets);
	result = turn(targets, feed);
	if (!samples(targets))
		cs_summary_restart(&picture->summary);
	return result;
}

static int
show(struct picture *picture, const struct request *request, struct cs_targets *targets, struct cs_feed *feed)
{
	int result = look_back(picture, targets, feed);
	/* Turns in a row that brought something: the rest of the last window may be still to come. */
	unsigned int turns = samples(targets) && picture->fresh ? 1 : 0;

	for (uint64_t shown = 0; result == 0 && (request->count == 0 || shown < request->count); shown++) {
		sleep_for(request->interval_ns);
		/* A window that goes on in a second turn is one picture all the same: without that the rest
		 * of it, some collectives, would stand there until the next window. */
		picture->restart = turns != 1 || !samples(targets);
		picture->gap_ns = gap_of(targets);
		picture->fresh = false;
		result = turn(targets, feed);
		turns = picture->fresh ? turns + 1 : 0;
		if (result == 0)
			result = cs_summary_finish(&picture->summary);
		if (result == 0)
			result = draw(targets, &picture->summary, picture->fresh);
	}
	return result;
}

static int
watch(const struct request *request, struct cs_targets *targets)
{
	struct picture picture = {.fresh = false};
	struct cs_analysis_sink sink = {
		.context = &picture, .step = take_step, .collective = take_collective, .other = take_other};
	struct cs_feed *feed = NULL;
	int result = cs_feed_new(targets, getenv("COLLSCOPE_STEPS"), &sink, &feed);

	cs_summary_init(&picture.summary);
	picture.sink = cs_summary_sink(&picture.summary);
	picture.summary.live = true;
	cs_summary_attach(&picture.summary, feed);
	if (result == 0)
		result = show(&picture, request, targets, feed);
	cs_feed_destroy(feed); /* hands out what is pending, to nobody's eyes */
	cs_summary_fini(&picture.summary);
	if (result == -ENOMEM)
		cs_log_error("Cannot go on: %s", strerror(ENOMEM));
	return result ? CS_EXIT_ERROR : CS_EXIT_OK;
}

static int
choose_interval(struct request *request, struct cs_cmd_parser *parser)
{
	int result = cs_cmd_value_duration(parser, &request->interval_ns);

	if (result == 0 && request->interval_ns < INTERVAL_MIN_NS)
		return cs_cmd_usage_error(
			parser, "Value \"%s\" of %s is below 100ms", parser->value, parser->option);
	return result;
}

static int
cmd_top(int argc, char **argv)
{
	struct request request = {.query = {.from_oldest = true}, .interval_ns = INTERVAL_DEFAULT_NS};
	struct cs_cmd_parser parser;
	struct cs_targets targets;
	unsigned int choice = CS_COLOR_AUTO;
	int option, status;

	cs_cmd_parse(&parser, &cs_cmd_top_description, argc, argv);
	while ((option = cs_cmd_next(&parser)) != CS_PARSE_END) {
		int result = 0;

		switch (option) {
		case OPTION_INTERVAL:
			result = choose_interval(&request, &parser);
			break;
		case OPTION_COUNT:
			result = cs_cmd_value_integer(&parser, 1, UINT32_MAX, &request.count);
			break;
		case OPTION_PID:
			result = cs_target_query_add_pid(&request.query, &parser);
			break;
		case OPTION_COLOR:
			result = cs_cmd_value_choice(&parser, CS_COLOR_VALUES, &choice);
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
	cs_output_setup_color((enum cs_color)choice);
	status = cs_targets_open(&targets, &request.query);
	if (status == CS_EXIT_OK)
		status = watch(&request, &targets);
	cs_targets_close(&targets);
	return status;
}

const struct cs_cmd cs_cmd_top_description = {
	.name = "top",
	.summary = "watch processes and collectives live",
	.synopsis = "[options]",
	.description = "Shows again and again the table of `collscope status`, and the steps and collectives "
		       "of the last "
		       "interval or, in sample mode, of the last window, also one from before the start: as "
		       "`collscope status --collectives` "
		       "has them. "
		       "They are about two seconds old, because ranks are matched first; what is older says "
		       "its age. A process that ends says so for some seconds, then its row goes. "
		       "Ctrl-C ends it.",
	.options = options,
	.examples = examples,
	.statuses = statuses,
	.run = cmd_top,
};
