/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a scenario: one statement a line, words separated by blanks, `#` begins a comment. */
#include "scenario.h"

#include <stdlib.h>
#include <string.h>

#define WORDS_MAX       32
#define REPEAT_DEPTH    4
#define ITEMS_MAX       1000000U
#define COMPUTE_DEFAULT "_Z12fake_computev"

struct parser {
	const char *path;
	unsigned int line;
	struct scenario *scenario;
	struct scenario_sequence *sequence; /* being read: between `graph` or `eager` and its `end` */
	bool in_step;
	struct {
		uint32_t from;
		uint32_t times;
	} repeats[REPEAT_DEPTH];
	unsigned int depth;
	char *words[WORDS_MAX];
	unsigned int count;
};

static bool
fail(const struct parser *parser, const char *what, const char *detail)
{
	fprintf(stderr, "%s:%u: %s%s%s\n", parser->path, parser->line, what, detail ? ": " : "",
		detail ? detail : "");
	return false;
}

static bool
number(const struct parser *parser, const char *text, double low, double high, double *value)
{
	char *end;

	*value = strtod(text, &end);
	if (end == text || *end || !(*value >= low && *value <= high))
		return fail(parser, "not a number in range", text);
	return true;
}

/* The word after `key`; NULL when the statement has no such key. */
static const char *
option(const struct parser *parser, unsigned int from, const char *key)
{
	unsigned int i;

	for (i = from; i + 1 < parser->count; i += 2)
		if (strcmp(parser->words[i], key) == 0)
			return parser->words[i + 1];
	return NULL;
}

static bool
option_number(const struct parser *parser, unsigned int from, const char *key, double low, double high,
	double fallback, double *value)
{
	const char *text = option(parser, from, key);

	*value = fallback;
	return !text || number(parser, text, low, high, value);
}

/* Every key of the statement must be one of `keys` (separated by blanks), each with a value. */
static bool
check_options(const struct parser *parser, unsigned int from, const char *keys)
{
	unsigned int i;
	size_t length;
	const char *at;

	if ((parser->count - from) % 2)
		return fail(parser, "a value is missing after", parser->words[parser->count - 1]);
	for (i = from; i < parser->count; i += 2) {
		length = strlen(parser->words[i]);
		for (at = keys; (at = strstr(at, parser->words[i])); at += length)
			if ((at == keys || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
				break;
		if (!at)
			return fail(parser, "unknown word", parser->words[i]);
	}
	return true;
}

static bool
copy_name(const struct parser *parser, char *to, const char *from)
{
	if (strlen(from) >= SCENARIO_NAME_MAX)
		return fail(parser, "name too long", from);
	memcpy(to, from, strlen(from) + 1);
	return true;
}

static void *
grow(void *array, uint32_t count, size_t size)
{
	/* Powers of two; count is what the array holds now. */
	if (count & (count - 1) && count)
		return array;
	array = realloc(array, (count ? 2 * (size_t)count : 1) * size);
	if (!array)
		abort();
	return array;
}

static int
find_op(const struct scenario *scenario, const char *name)
{
	uint32_t i;

	for (i = 0; i < scenario->op_count; i++)
		if (strcmp(scenario->ops[i].name, name) == 0)
			return (int)i;
	return -1;
}

static int
find_sequence(const struct scenario *scenario, const char *name)
{
	uint32_t i;

	for (i = 0; i < scenario->sequence_count; i++)
		if (strcmp(scenario->sequences[i].name, name) == 0)
			return (int)i;
	return -1;
}

/* op NAME compute|collective|copy [key value]... */
static bool
parse_op(struct parser *parser)
{
	struct scenario *scenario = parser->scenario;
	struct scenario_op op = {.type = SCENARIO_COMPUTE};
	const char *text;
	double us, jitter, contended, bytes;

	if (parser->count < 3)
		return fail(parser, "op needs a name and a type", NULL);
	if (find_op(scenario, parser->words[1]) >= 0)
		return fail(parser, "op is there already", parser->words[1]);
	if (!copy_name(parser, op.name, parser->words[1]) ||
		!check_options(parser, 3, "us jitter contended impl bytes kernel direction") ||
		!option_number(parser, 3, "us", 0, 1e9, 5, &us) ||
		!option_number(parser, 3, "jitter", 0, 1e9, 0, &jitter) ||
		!option_number(parser, 3, "contended", 0, 1e9, us, &contended) ||
		!option_number(parser, 3, "bytes", 0, 1e12, 0, &bytes))
		return false;
	op.base_ns = (uint64_t)(us * 1000);
	op.jitter_ns = (uint64_t)(jitter * 1000);
	op.contended_ns = (uint64_t)(contended * 1000);
	op.bytes = (uint64_t)bytes;
	text = option(parser, 3, "kernel");
	snprintf(op.kernel, sizeof(op.kernel), "%s", text ? text : COMPUTE_DEFAULT);
	if (strcmp(parser->words[2], "collective") == 0) {
		op.type = SCENARIO_COLLECTIVE;
		text = option(parser, 3, "impl");
		op.impl = text ? scenario_impl_find(text) : NULL;
		if (!op.impl)
			return fail(parser, "unknown implementation", text ? text : "(none)");
		if (!op.bytes || op.bytes % 16)
			return fail(parser, "a collective needs bytes, a multiple of 16", NULL);
	} else if (strcmp(parser->words[2], "copy") == 0) {
		op.type = SCENARIO_COPY;
		text = option(parser, 3, "direction");
		if (text && strcmp(text, "to_host") == 0)
			op.direction = SCENARIO_TO_HOST;
		else if (text && strcmp(text, "from_host") == 0)
			op.direction = SCENARIO_FROM_HOST;
		else if (text && strcmp(text, "peer") == 0)
			op.direction = SCENARIO_PEER;
		else
			return fail(parser, "a copy needs direction to_host, from_host or peer", NULL);
	} else if (strcmp(parser->words[2], "compute") != 0) {
		return fail(parser, "unknown type of op", parser->words[2]);
	}
	scenario->ops = grow(scenario->ops, scenario->op_count, sizeof(*scenario->ops));
	scenario->ops[scenario->op_count++] = op;
	return true;
}

/* graph NAME [phase PHASE] ... end;  eager NAME [phase PHASE] ... end */
static bool
parse_sequence(struct parser *parser, bool eager)
{
	struct scenario *scenario = parser->scenario;
	struct scenario_sequence sequence = {.eager = eager};
	const char *phase;
	double updated;

	if (parser->count < 2)
		return fail(parser, "a sequence needs a name", NULL);
	if (find_sequence(scenario, parser->words[1]) >= 0)
		return fail(parser, "sequence is there already", parser->words[1]);
	if (!check_options(parser, 2, eager ? "phase" : "phase updated") ||
		!option_number(parser, 2, "updated", 0, 1, 0, &updated))
		return false;
	sequence.updated = updated > 0;
	phase = option(parser, 2, "phase");
	if (!copy_name(parser, sequence.name, parser->words[1]) ||
		!copy_name(parser, sequence.phase, phase ? phase : "unknown"))
		return false;
	scenario->sequences =
		grow(scenario->sequences, scenario->sequence_count, sizeof(*scenario->sequences));
	scenario->sequences[scenario->sequence_count] = sequence;
	parser->sequence = &scenario->sequences[scenario->sequence_count++];
	parser->depth = 0;
	return true;
}

static bool
add_item(struct parser *parser, struct scenario_item item)
{
	struct scenario_sequence *sequence = parser->sequence;

	if (sequence->count >= ITEMS_MAX)
		return fail(parser, "sequence too long", NULL);
	sequence->items = grow(sequence->items, sequence->count, sizeof(*sequence->items));
	sequence->items[sequence->count++] = item;
	return true;
}

/* run OP [times N] [beside OP] */
static bool
parse_run(struct parser *parser)
{
	struct scenario_item item = {.beside = -1};
	const char *text;
	double times;
	int op;

	if (parser->count < 2 || (op = find_op(parser->scenario, parser->words[1])) < 0)
		return fail(parser, "no such op", parser->count < 2 ? "(none)" : parser->words[1]);
	if (!check_options(parser, 2, "times beside") ||
		!option_number(parser, 2, "times", 1, 10000, 1, &times))
		return false;
	item.op = (uint32_t)op;
	text = option(parser, 2, "beside");
	if (text && (item.beside = find_op(parser->scenario, text)) < 0)
		return fail(parser, "no such op", text);
	for (; times >= 1; times -= 1)
		if (!add_item(parser, item))
			return false;
	return true;
}

/* Ends the innermost repeat, or the sequence. */
static bool
parse_sequence_end(struct parser *parser)
{
	struct scenario_sequence *sequence = parser->sequence;
	uint32_t from, length, times, i;

	if (parser->depth) {
		from = parser->repeats[--parser->depth].from;
		times = parser->repeats[parser->depth].times;
		length = sequence->count - from;
		for (; times > 1; times--)
			for (i = 0; i < length; i++)
				if (!add_item(parser, sequence->items[from + i]))
					return false;
		return true;
	}
	if (!sequence->count)
		return fail(parser, "sequence without operations", sequence->name);
	sequence->operations = sequence->count;
	for (i = 0; i < sequence->count; i++) {
		if (sequence->items[i].beside >= 0) {
			sequence->operations++;
			if (parser->scenario->ops[sequence->items[i].beside].type == SCENARIO_COLLECTIVE)
				sequence->collectives++;
		}
		if (parser->scenario->ops[sequence->items[i].op].type == SCENARIO_COLLECTIVE)
			sequence->collectives++;
	}
	parser->sequence = NULL;
	return true;
}

static bool
parse_in_sequence(struct parser *parser)
{
	double times;

	if (strcmp(parser->words[0], "run") == 0)
		return parse_run(parser);
	if (strcmp(parser->words[0], "end") == 0)
		return parse_sequence_end(parser);
	if (strcmp(parser->words[0], "repeat") != 0)
		return fail(parser, "unknown statement in a sequence", parser->words[0]);
	if (parser->count != 2 || !number(parser, parser->words[1], 1, 10000, &times))
		return fail(parser, "repeat needs a number", NULL);
	if (parser->depth == REPEAT_DEPTH)
		return fail(parser, "repeat nested too deep", NULL);
	parser->repeats[parser->depth].from = parser->sequence->count;
	parser->repeats[parser->depth++].times = (uint32_t)times;
	return true;
}

/* Inside `step`: launch SEQUENCE [times N] */
static bool
parse_in_step(struct parser *parser)
{
	struct scenario *scenario = parser->scenario;
	double times;
	int sequence;

	if (strcmp(parser->words[0], "end") == 0) {
		parser->in_step = false;
		return true;
	}
	if (strcmp(parser->words[0], "launch") != 0 || parser->count < 2)
		return fail(parser, "unknown statement in a step", parser->words[0]);
	sequence = find_sequence(scenario, parser->words[1]);
	if (sequence < 0)
		return fail(parser, "no such sequence", parser->words[1]);
	if (!check_options(parser, 2, "times") || !option_number(parser, 2, "times", 1, 10000, 1, &times))
		return false;
	scenario->entries = grow(scenario->entries, scenario->entry_count, sizeof(*scenario->entries));
	scenario->entries[scenario->entry_count++] =
		(struct scenario_entry){(uint32_t)sequence, (uint32_t)times};
	scenario->launches += (uint32_t)times;
	return true;
}

/* rank N [late_us L] [late_growth_us L] [clock_us O] [drift_us_per_min D] [die_step S] [hang_step S] [hang_at
 * K] */
static bool
parse_rank(struct parser *parser)
{
	struct scenario_rank *rank;
	double index, late, growth, offset, drift, die, hang, at;

	if (parser->count < 2 || !number(parser, parser->words[1], 0, SCENARIO_RANKS_MAX - 1, &index))
		return fail(parser, "rank needs a number", NULL);
	if (!check_options(parser, 2,
		    "late_us late_growth_us clock_us drift_us_per_min die_step hang_step hang_at") ||
		!option_number(parser, 2, "late_us", 0, 1e6, 0, &late) ||
		!option_number(parser, 2, "late_growth_us", -1e6, 1e6, 0, &growth) ||
		!option_number(parser, 2, "clock_us", -1e6, 1e6, 0, &offset) ||
		!option_number(parser, 2, "drift_us_per_min", -1e6, 1e6, 0, &drift) ||
		!option_number(parser, 2, "die_step", 0, 1e15, -1, &die) ||
		!option_number(parser, 2, "hang_step", 0, 1e15, -1, &hang) ||
		!option_number(parser, 2, "hang_at", 0, 1e6, 0, &at))
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

static bool
parse_setting(struct parser *parser)
{
	struct scenario *scenario = parser->scenario;
	const char *key = parser->words[0];
	double value;

	if (parser->count != 2)
		return fail(parser, "unknown statement", key);
	if (strcmp(key, "scenario") == 0)
		return copy_name(parser, scenario->name, parser->words[1]);
	if (!number(parser, parser->words[1], 0, 1e15, &value))
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
	else if (strcmp(key, "seed") == 0)
		scenario->seed = (uint64_t)value;
	else
		return fail(parser, "unknown setting, or value out of range", key);
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

static bool
check_whole(struct parser *parser)
{
	struct scenario *scenario = parser->scenario;

	if (parser->sequence || parser->in_step)
		return fail(parser, "end is missing", NULL);
	if (!scenario->entry_count)
		return fail(parser, "the scenario launches nothing: step ... end is missing", NULL);
	if (!scenario->group)
		scenario->group = scenario->ranks;
	if (scenario->ranks % scenario->group)
		return fail(parser, "ranks is no multiple of group", NULL);
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
