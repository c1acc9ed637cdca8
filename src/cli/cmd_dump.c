/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

#include "clock.h"
#include "dump.h"
#include "feed.h"
#include "log.h"
#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OPTION_DIRECTORY, OPTION_PID, OPTION_FORMAT, OPTION_SINCE, OPTION_FOLLOW, OPTION_KIND, OPTION_STEPS };

#define FORMATS "jsonl|text"
#define KINDS   "process|step|collective|window|window_open|mark|host_launch|still|graph|loss"
enum {
	KIND_PROCESS,
	KIND_STEP,
	KIND_COLLECTIVE,
	KIND_WINDOW,
	KIND_WINDOW_OPEN,
	KIND_MARK,
	KIND_HOST_LAUNCH,
	KIND_STILL,
	KIND_GRAPH,
	KIND_LOSS,
	KIND_COUNT,
	KIND_NONE = KIND_COUNT
};

static const struct cs_cmd_option options[] = {
	{OPTION_FORMAT, 'f', "format", FORMATS, FORMATS,
		"jsonl: one JSON object per line, stable (default). text: for reading."},
	{OPTION_SINCE, 's', "since", "DURATION", NULL,
		"Leave out what ended longer ago, e.g. 30s, 500ms, 2m. Default: all that the rings still "
		"hold."},
	{OPTION_KIND, 'k', "kind", "KIND", KINDS,
		"Only these lines; may be given several times: process, step, collective, window, "
		"window_open, mark, host_launch, still, graph, loss."},
	CS_OPTION_PID_ENTRY(OPTION_PID, "Only this process; may be given several times."),
	{OPTION_FOLLOW, 'F', "follow", NULL, NULL,
		"Go on with new records and new processes until interrupted, or until every process named "
		"with --pid "
		"has ended."},
	{OPTION_STEPS, 0, "steps", "FILE", CS_COMPLETE_FILE,
		"Rules that name steps and phases (default: $COLLSCOPE_STEPS)."},
	CS_OPTION_DIRECTORY_ENTRY(OPTION_DIRECTORY),
	{.name = NULL},
};

static const struct cs_cmd_example examples[] = {
	{"collscope dump --since 30s > last.jsonl", "Keep what the last half minute looked like"},
	{"collscope dump --kind collective | jq -r 'select(.wait_ns > 100000) | [.rank, .op, .wait_ns] | "
	 "@tsv'",
		"List collectives in which a rank waited over 100 us for the others"},
	{"collscope dump --format text --follow --pid 4711", "Watch one process"},
	{.command = NULL},
};

static const struct cs_cmd_status statuses[] = {
	{"0", "Records were written to standard output, or there were none yet."},
	{"1", "There is no traced process, running or ended."},
	{"2", "Usage error, a segment that cannot be read, or output that could not be written."},
	{.status = NULL},
};

struct request {
	struct cs_target_query query;
	const struct cs_dump_format *format;
	const char *steps_file;
	uint64_t since_ns; /* CLOCK_REALTIME; 0 all */
	bool kinds[KIND_COUNT];
	bool follow;
};

struct dump {
	const struct request *request;
	struct cs_targets targets;
	struct cs_feed *feed;
	size_t introduced; /* targets whose process line is out; grows with a rescan, which sorts: hence the
			      list */
	const struct cs_target **introduced_targets;
	struct cs_reader_losses *told; /* reader losses already said, by position in introduced_targets */
};

static void
take_step(void *context, const struct cs_step *step)
{
	const struct dump *dump = context;
	const struct request *request = dump->request;

	if (cs_output_check() && request->kinds[KIND_STEP] && step->end_ns >= request->since_ns)
		request->format->step(stdout, cs_feed_borrow_target(dump->feed, step->source), step);
}

static void
take_collective(void *context, const struct cs_collective *collective)
{
	const struct dump *dump = context;
	const struct request *request = dump->request;

	if (cs_output_check() && request->kinds[KIND_COLLECTIVE] && collective->end_ns >= request->since_ns)
		request->format->collective(
			stdout, cs_feed_borrow_target(dump->feed, collective->source), collective);
}

static unsigned int
kind_of(const struct cs_record *record)
{
	switch (record->type) {
	case CS_RECORD_WINDOW:
		return KIND_WINDOW;
	case CS_RECORD_WINDOW_OPEN:
		return KIND_WINDOW_OPEN;
	case CS_RECORD_MARK:
		return KIND_MARK;
	case CS_RECORD_HOST_LAUNCH:
		return KIND_HOST_LAUNCH;
	case CS_RECORD_STILL:
		return KIND_STILL;
	case CS_RECORD_GRAPH:
		return KIND_GRAPH;
	case CS_RECORD_LOSS:
		return KIND_LOSS;
	default:
		return KIND_NONE;
	}
}

static void
take_other(void *context, uint32_t source, const struct cs_record *record)
{
	const struct dump *dump = context;
	const struct request *request = dump->request;
	const struct cs_target *target = cs_feed_borrow_target(dump->feed, source);
	unsigned int kind = kind_of(record);

	if (kind == KIND_NONE || !request->kinds[kind] || record->end_ns < request->since_ns)
		return;
	if (kind == KIND_LOSS)
		request->format->loss(stdout, target, record->ref, record->value, record);
	else
		request->format->other(stdout, target, record);
}

static int
introduce(struct dump *dump)
{
	for (size_t i = 0; i < dump->targets.count; i++) {
		const struct cs_target *target = dump->targets.items[i];
		bool known = false;
		void *grown;

		for (size_t j = 0; j < dump->introduced && !known; j++)
			known = dump->introduced_targets[j] == target;
		if (known)
			continue;
		grown = reallocarray(dump->introduced_targets, dump->introduced + 1, sizeof(target));
		if (!grown)
			return -ENOMEM;
		dump->introduced_targets = grown;
		grown = reallocarray(dump->told, dump->introduced + 1, sizeof(*dump->told));
		if (!grown)
			return -ENOMEM;
		dump->told = grown;
		dump->told[dump->introduced] = (struct cs_reader_losses){0};
		dump->introduced_targets[dump->introduced++] = target;
		if (dump->request->kinds[KIND_PROCESS])
			dump->request->format->process(stdout, target);
	}
	return 0;
}

static void
tell_loss(const struct dump *dump, const struct cs_target *target, unsigned int cause, uint64_t now,
	uint64_t *told)
{
	if (now > *told && dump->request->kinds[KIND_LOSS])
		dump->request->format->loss(stdout, target, cause, now - *told, NULL);
	*told = now;
}

/* What this reader missed. Opening at the oldest record misses nothing: only an overwrite while reading does.
 */
static void
tell_reader_losses(struct dump *dump)
{
	for (size_t i = 0; i < dump->introduced; i++) {
		const struct cs_target *target = dump->introduced_targets[i];
		struct cs_reader_losses now;

		cs_segment_reader_losses(target->reader, &now);
		tell_loss(dump, target, CS_LOSS_RING_OVERRUN, now.overrun, &dump->told[i].overrun);
		tell_loss(dump, target, CS_LOSS_RING_HOLE, now.hole, &dump->told[i].hole);
		tell_loss(dump, target, CS_LOSS_INVALID_RECORD, now.invalid, &dump->told[i].invalid);
	}
}

/* As it is before the poll that follows. */
static bool
any_alive(struct dump *dump)
{
	bool any = false;

	for (size_t i = 0; i < dump->targets.count; i++) {
		if (cs_target_refresh(dump->targets.items[i]) == 0 && dump->targets.items[i]->alive)
			any = true;
	}
	return any;
}

/* Results come when they can change no more, about two seconds after the fact. */
static int
follow(struct dump *dump)
{
	static const struct timespec pause = {.tv_nsec = 100 * (long)CS_NS_PER_MS};
	unsigned int turn = 0;
	int result = 0;

	while (result == 0) {
		bool last = !any_alive(dump) && dump->request->query.pid_count;

		/* New processes once a second. A directory that has gone is like an empty one: it may come
		 * back. */
		if (turn++ % 10 == 0)
			(void)cs_targets_rescan(&dump->targets, NULL);
		result = introduce(dump);
		if (result == 0)
			result = cs_feed_update(dump->feed);
		if (result == 0)
			result = cs_feed_poll(dump->feed, NULL);
		if (result || last)
			break;
		cs_feed_advance(dump->feed);
		tell_reader_losses(dump);
		cs_feed_let_go(dump->feed);
		result = cs_output_flush();
		nanosleep(&pause, NULL);
	}
	return result;
}

static int
run_dump(const struct request *request)
{
	static char buffer[1 << 18]; /* lives as long as stdout */
	struct dump dump = {.request = request};
	struct cs_analysis_sink sink = {
		.context = &dump, .step = take_step, .collective = take_collective, .other = take_other};
	int status = cs_targets_open(&dump.targets, &request->query);
	int result;

	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	if (status != CS_EXIT_OK &&
		!(status == CS_EXIT_NOTHING && request->follow && !request->query.pid_count))
		goto out;
	result = cs_feed_new(&dump.targets, request->steps_file, &sink, &dump.feed);
	if (result == 0)
		result = introduce(&dump);
	if (result == 0)
		result = request->follow ? follow(&dump) : cs_feed_poll(dump.feed, NULL);
	if (result == 0) {
		cs_feed_drain(dump.feed);
		tell_reader_losses(&dump);
	}
	if (result == -ENOMEM)
		cs_log_error("Cannot dump: %s", strerror(ENOMEM));
	status = result || dump.targets.unreadable || cs_targets_count_broken(&dump.targets) ? CS_EXIT_ERROR
											     : CS_EXIT_OK;
out:
	cs_feed_destroy(dump.feed);
	cs_targets_close(&dump.targets);
	free(dump.introduced_targets);
	free(dump.told);
	return status;
}

static int
choose_kind(struct request *request, struct cs_cmd_parser *parser, bool *first)
{
	unsigned int kind;
	int result = cs_cmd_value_choice(parser, KINDS, &kind);

	if (result)
		return result;
	if (*first)
		memset(request->kinds, 0, sizeof(request->kinds));
	*first = false;
	request->kinds[kind] = true;
	return 0;
}

static int
cmd_dump(int argc, char **argv)
{
	static const struct cs_dump_format *const formats[] = {&cs_dump_jsonl, &cs_dump_text};
	struct request request = {.query = {.from_oldest = true, .ended = true},
		.format = &cs_dump_jsonl,
		.steps_file = getenv("COLLSCOPE_STEPS")};
	struct cs_cmd_parser parser;
	unsigned int choice = 0;
	bool first_kind = true;
	int option;

	memset(request.kinds, true, sizeof(request.kinds));
	cs_cmd_parse(&parser, &cs_cmd_dump_description, argc, argv);
	while ((option = cs_cmd_next(&parser)) != CS_PARSE_END) {
		int result = 0;

		switch (option) {
		case OPTION_FORMAT:
			result = cs_cmd_value_choice(&parser, FORMATS, &choice);
			request.format = formats[result ? 0 : choice];
			break;
		case OPTION_SINCE:
			result = cs_cmd_value_since(&parser, &request.since_ns);
			break;
		case OPTION_KIND:
			result = choose_kind(&request, &parser, &first_kind);
			break;
		case OPTION_PID:
			result = cs_target_query_add_pid(&request.query, &parser);
			break;
		case OPTION_FOLLOW:
			request.follow = true;
			break;
		case OPTION_STEPS:
			request.steps_file = parser.value;
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
	return run_dump(&request);
}

const struct cs_cmd cs_cmd_dump_description = {
	.name = "dump",
	.summary = "write records as JSON lines or text",
	.synopsis = "[options]",
	.description = "Writes what the rings of the traced processes hold: a line for each process, step, "
		       "collective, "
		       "window, mark and loss. The member `kind` tells them apart; docs/dump.md describes "
		       "every member.",
	.options = options,
	.examples = examples,
	.statuses = statuses,
	.run = cmd_dump,
};
