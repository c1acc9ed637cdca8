/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a scenario: one statement a line, words separated by blanks, `#` begins a comment. */
#include "parse.h"

#include <stdlib.h>
#include <string.h>

bool
parse_fail(const struct parser *parser, const char *what, const char *detail)
{
	fprintf(stderr, "%s:%u: %s%s%s\n", parser->path, parser->line, what, detail ? ": " : "",
		detail ? detail : "");
	return false;
}

bool
parse_number(const struct parser *parser, const char *text, double low, double high, double *value)
{
	char *end;

	*value = strtod(text, &end);
	if (end == text || *end || !(*value >= low && *value <= high))
		return parse_fail(parser, "not a number in range", text);
	return true;
}

const char *
parse_option(const struct parser *parser, unsigned int from, const char *key)
{
	unsigned int i;

	for (i = from; i + 1 < parser->count; i += 2)
		if (strcmp(parser->words[i], key) == 0)
			return parser->words[i + 1];
	return NULL;
}

bool
parse_option_number(const struct parser *parser, unsigned int from, const char *key, double low, double high,
	double fallback, double *value)
{
	const char *text = parse_option(parser, from, key);

	*value = fallback;
	return !text || parse_number(parser, text, low, high, value);
}

bool
parse_check_options(const struct parser *parser, unsigned int from, const char *keys)
{
	unsigned int i;
	size_t length;
	const char *at;

	if ((parser->count - from) % 2)
		return parse_fail(parser, "a value is missing after", parser->words[parser->count - 1]);
	for (i = from; i < parser->count; i += 2) {
		length = strlen(parser->words[i]);
		for (at = keys; (at = strstr(at, parser->words[i])); at += length)
			if ((at == keys || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
				break;
		if (!at)
			return parse_fail(parser, "unknown word", parser->words[i]);
	}
	return true;
}

bool
parse_copy_name(const struct parser *parser, char *to, const char *from)
{
	if (strlen(from) >= SCENARIO_NAME_MAX)
		return parse_fail(parser, "name too long", from);
	memcpy(to, from, strlen(from) + 1);
	return true;
}

void *
parse_grow(void *array, uint32_t count, size_t size)
{
	/* In powers of two. */
	if (count & (count - 1) && count)
		return array;
	array = realloc(array, (count ? 2 * (size_t)count : 1) * size);
	if (!array)
		abort();
	return array;
}

/* rank N [late_us L] [late_growth_us L] [clock_us O] [drift_us_per_min D] [die_step S] [hang_step S] [hang_at
 * K] */
static bool
parse_rank(struct parser *parser)
{
	struct scenario_rank *rank;
	double index, late, growth, offset, drift, die, hang, at;

	if (parser->count < 2 || !parse_number(parser, parser->words[1], 0, SCENARIO_RANKS_MAX - 1, &index))
		return parse_fail(parser, "rank needs a number", NULL);
	if (!parse_check_options(parser, 2,
		    "late_us late_growth_us clock_us drift_us_per_min die_step hang_step hang_at") ||
		!parse_option_number(parser, 2, "late_us", 0, 1e6, 0, &late) ||
		!parse_option_number(parser, 2, "late_growth_us", -1e6, 1e6, 0, &growth) ||
		!parse_option_number(parser, 2, "clock_us", -1e6, 1e6, 0, &offset) ||
		!parse_option_number(parser, 2, "drift_us_per_min", -1e6, 1e6, 0, &drift) ||
		!parse_option_number(parser, 2, "die_step", 0, 1e15, -1, &die) ||
		!parse_option_number(parser, 2, "hang_step", 0, 1e15, -1, &hang) ||
		!parse_option_number(parser, 2, "hang_at", 0, 1e6, 0, &at))
		return false;
	rank = &parser->scenario->rank[(unsigned int)index];
	rank->late_ns = (uint64_t)(late * 1000);
	rank->late_growth_ns = (int64_t)(growth * 1000);
	rank->clock_offset_ns = (int64_t)(offset * 1000);
	/* us per minute: 1000 ns in 60 s is 1000/60 parts per billion. */
	rank->clock_drift_ppb = (int64_t)(drift * 1000 / 60);
	rank->die_step = die < 0 ? UINT64_MAX : (uint64_t)die;
	rank->hang_step = hang < 0 ? UINT64_MAX : (uint64_t)hang;
	rank->hang_collective = (uint32_t)at;
	return true;
}

uint32_t
scenario_parse_nccl(const char *text)
{
	unsigned int minor = 0, patch = 0;
	char more;

	if (sscanf(text, "2.%u.%u%c", &minor, &patch, &more) != 2 || minor < 23 || minor > 31 || patch > 99)
		return 0;
	return 20000 + minor * 100 + patch;
}

/* nccl 2.MINOR.PATCH */
static bool
parse_nccl(struct parser *parser)
{
	parser->scenario->nccl = scenario_parse_nccl(parser->words[1]);
	return parser->scenario->nccl ||
	       parse_fail(parser, "no release of NCCL from 2.23.0 to 2.31.99", parser->words[1]);
}

static bool
parse_setting(struct parser *parser)
{
	struct scenario *scenario = parser->scenario;
	const char *key = parser->words[0];
	double value;

	if (parser->count != 2)
		return parse_fail(parser, "unknown statement", key);
	if (strcmp(key, "scenario") == 0)
		return parse_copy_name(parser, scenario->name, parser->words[1]);
	if (strcmp(key, "nccl") == 0)
		return parse_nccl(parser);
	if (!parse_number(parser, parser->words[1], 0, 1e15, &value))
		return false;
	if (strcmp(key, "ranks") == 0 && value >= 1 && value <= SCENARIO_RANKS_MAX)
		scenario->ranks = (uint32_t)value;
	else if (strcmp(key, "group") == 0 && value >= 1 && value <= SCENARIO_RANKS_MAX)
		scenario->group = (uint32_t)value;
	else if (strcmp(key, "capture_threads") == 0 && value <= SCENARIO_THREADS_MAX)
		scenario->capture_threads = (uint32_t)value;
	else if (strcmp(key, "steps") == 0)
		scenario->steps = (uint64_t)value;
	else if (strcmp(key, "period_us") == 0 && value >= 1)
		scenario->period_ns = (uint64_t)(value * 1000);
	else if (strcmp(key, "trace_cost_ns") == 0)
		scenario->trace_cost_ns = (uint64_t)value;
	else if (strcmp(key, "pause_step") == 0)
		scenario->pause_step = (uint64_t)value;
	else if (strcmp(key, "pause_us") == 0)
		scenario->pause_ns = (uint64_t)(value * 1000);
	else if (strcmp(key, "pause_every_us") == 0)
		scenario->pause_every_ns = (uint64_t)(value * 1000);
	else if (strcmp(key, "pause_clock_us") == 0)
		scenario->pause_clock_ns = (uint64_t)(value * 1000);
	else if (strcmp(key, "seed") == 0)
		scenario->seed = (uint64_t)value;
	else
		return parse_fail(parser, "unknown setting, or value out of range", key);
	return true;
}

static bool
parse_statement(struct parser *parser)
{
	const char *word = parser->words[0];

	if (parser->sequence)
		return parse_in_sequence(parser);
	if (parser->in_step)
		return parse_in_step(parser);
	if (strcmp(word, "op") == 0)
		return parse_op(parser);
	if (strcmp(word, "comm") == 0)
		return parse_comm(parser);
	if (strcmp(word, "graph") == 0)
		return parse_sequence(parser, false);
	if (strcmp(word, "eager") == 0)
		return parse_sequence(parser, true);
	if (strcmp(word, "rank") == 0)
		return parse_rank(parser);
	if (strcmp(word, "step") == 0) {
		parser->in_step = true;
		return true;
	}
	return parse_setting(parser);
}

/* The ranks can be shared out into communicators of this kind. */
static bool
check_comm(const struct parser *parser, const struct scenario_comm *comm)
{
	return parser->scenario->ranks % (comm->size * comm->stride) == 0 ||
	       parse_fail(parser, "ranks is no multiple of group, or of a communicator's size and stride",
		       comm->name);
}

static bool
check_whole(struct parser *parser)
{
	struct scenario *scenario = parser->scenario;
	uint32_t i;

	if (parser->sequence || parser->in_step)
		return parse_fail(parser, "end is missing", NULL);
	if (!scenario->entry_count)
		return parse_fail(parser, "the scenario launches nothing: step ... end is missing", NULL);
	/* Ranks that lose time apart would no longer agree on when collectives end. */
	if (scenario->trace_cost_ns && scenario->ranks > 1)
		return parse_fail(parser, "trace_cost_ns is for a single rank", NULL);
	if (!scenario->group)
		scenario->group = scenario->ranks;
	scenario->comms[0].size = scenario->group;
	for (i = 0; i < scenario->comm_count; i++)
		if (!check_comm(parser, &scenario->comms[i]))
			return false;
	return true;
}

bool
scenario_parse(const char *path, struct scenario *scenario)
{
	struct parser parser = {.path = path, .scenario = scenario};
	FILE *file = fopen(path, "re");
	char line[1024];
	char *rest;
	char *word;
	bool good = true;
	unsigned int i;

	memset(scenario, 0, sizeof(*scenario));
	scenario->ranks = 1;
	scenario->steps = 100;
	scenario->period_ns = 10000000;
	scenario->nccl = 22809;
	scenario->comm_count = 1;
	scenario->comms[0].stride = 1;
	for (i = 0; i < SCENARIO_RANKS_MAX; i++) {
		scenario->rank[i].die_step = UINT64_MAX;
		scenario->rank[i].hang_step = UINT64_MAX;
	}
	if (!file) {
		perror(path);
		return false;
	}
	while (good && fgets(line, sizeof(line), file)) {
		parser.line++;
		parser.count = 0;
		line[strcspn(line, "#\n")] = '\0';
		for (word = strtok_r(line, " \t", &rest); word && parser.count < WORDS_MAX;
			word = strtok_r(NULL, " \t", &rest))
			parser.words[parser.count++] = word;
		if (parser.count)
			good = parse_statement(&parser);
	}
	fclose(file);
	good = good && check_whole(&parser);
	if (!good)
		scenario_free(scenario);
	return good;
}

void
scenario_free(struct scenario *scenario)
{
	uint32_t i;

	for (i = 0; i < scenario->sequence_count; i++)
		free(scenario->sequences[i].items);
	free(scenario->sequences);
	free(scenario->ops);
	free(scenario->entries);
	memset(scenario, 0, sizeof(*scenario));
}
