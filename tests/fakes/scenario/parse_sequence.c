/* SPDX-License-Identifier: Apache-2.0 */
/* What runs in which order: `graph` and `eager` with what is in them, and `step`. */
#include "parse.h"

#include <string.h>

#define ITEMS_MAX 1000000U

static int
find_sequence(const struct scenario *scenario, const char *name)
{
	uint32_t i;

	for (i = 0; i < scenario->sequence_count; i++)
		if (strcmp(scenario->sequences[i].name, name) == 0)
			return (int)i;
	return -1;
}

static const struct {
	const char *name;
	enum scenario_life life;
} lives[] = {
	{"plain", SCENARIO_PLAIN},
	{"clone", SCENARIO_CLONE},
	{"child", SCENARIO_CHILD},
	{"nested", SCENARIO_NESTED},
	{"node_set", SCENARIO_NODE_SET},
	{"exec_set", SCENARIO_EXEC_SET},
	{"update", SCENARIO_UPDATE},
	{"recapture", SCENARIO_RECAPTURE},
};

/* [life LIFE [step S]] */
static bool
parse_life(struct parser *parser, struct scenario_sequence *sequence)
{
	const char *text = parse_option(parser, 2, "life");
	double step;
	size_t i = 0;

	if (!parse_option_number(parser, 2, "step", 1, 1e15, 0, &step))
		return false;
	while (text && strcmp(lives[i].name, text) != 0)
		if (++i == sizeof(lives) / sizeof(lives[0]))
			return parse_fail(parser, "no such life of a graph", text);
	sequence->life = lives[i].life;
	sequence->life_step = (uint64_t)step;
	if (step > 0 && sequence->life < SCENARIO_EXEC_SET)
		return parse_fail(parser, "a step only with exec_set, update and recapture", NULL);
	if (step < 1 && sequence->life == SCENARIO_RECAPTURE)
		return parse_fail(parser, "recapture needs a step", NULL);
	return true;
}

/* graph NAME [phase PHASE] [life LIFE [step S]] ... end;  eager NAME [phase PHASE] ... end */
bool
parse_sequence(struct parser *parser, bool eager)
{
	struct scenario *scenario = parser->scenario;
	struct scenario_sequence sequence = {.eager = eager};
	const char *phase;

	if (parser->count < 2)
		return parse_fail(parser, "a sequence needs a name", NULL);
	if (find_sequence(scenario, parser->words[1]) >= 0)
		return parse_fail(parser, "sequence is there already", parser->words[1]);
	if (!parse_check_options(parser, 2, eager ? "phase" : "phase life step") ||
		!parse_life(parser, &sequence))
		return false;
	phase = parse_option(parser, 2, "phase");
	if (!parse_copy_name(parser, sequence.name, parser->words[1]) ||
		!parse_copy_name(parser, sequence.phase, phase ? phase : "unknown"))
		return false;
	scenario->sequences =
		parse_grow(scenario->sequences, scenario->sequence_count, sizeof(*scenario->sequences));
	scenario->sequences[scenario->sequence_count] = sequence;
	parser->sequence = &scenario->sequences[scenario->sequence_count++];
	parser->depth = 0;
	return true;
}

bool
parse_add_item(struct parser *parser, struct scenario_item item)
{
	struct scenario_sequence *sequence = parser->sequence;

	if (sequence->count >= ITEMS_MAX)
		return parse_fail(parser, "sequence too long", NULL);
	sequence->items = parse_grow(sequence->items, sequence->count, sizeof(*sequence->items));
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

	if (parser->count < 2 || (op = parse_find_op(parser->scenario, parser->words[1])) < 0)
		return parse_fail(parser, "no such op", parser->count < 2 ? "(none)" : parser->words[1]);
	if (!parse_check_options(parser, 2, "times beside") ||
		!parse_option_number(parser, 2, "times", 1, 10000, 1, &times))
		return false;
	item.op = (uint32_t)op;
	text = parse_option(parser, 2, "beside");
	if (text && (item.beside = parse_find_op(parser->scenario, text)) < 0)
		return parse_fail(parser, "no such op", text);
	for (; times >= 1; times -= 1)
		if (!parse_add_item(parser, item))
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
				if (!parse_add_item(parser, sequence->items[from + i]))
					return false;
		return true;
	}
	if (!sequence->count)
		return parse_fail(parser, "sequence without operations", sequence->name);
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

bool
parse_in_sequence(struct parser *parser)
{
	double times;

	if (parser->in_group)
		return parse_in_group(parser);
	if (strcmp(parser->words[0], "run") == 0)
		return parse_run(parser);
	if (strcmp(parser->words[0], "group") == 0)
		return parse_group(parser);
	if (strcmp(parser->words[0], "end") == 0)
		return parse_sequence_end(parser);
	if (strcmp(parser->words[0], "repeat") != 0)
		return parse_fail(parser, "unknown statement in a sequence", parser->words[0]);
	if (parser->count != 2 || !parse_number(parser, parser->words[1], 1, 10000, &times))
		return parse_fail(parser, "repeat needs a number", NULL);
	if (parser->depth == REPEAT_DEPTH)
		return parse_fail(parser, "repeat nested too deep", NULL);
	parser->repeats[parser->depth].from = parser->sequence->count;
	parser->repeats[parser->depth++].times = (uint32_t)times;
	return true;
}

/* Inside `step`: launch SEQUENCE [times N] */
bool
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
		return parse_fail(parser, "unknown statement in a step", parser->words[0]);
	sequence = find_sequence(scenario, parser->words[1]);
	if (sequence < 0)
		return parse_fail(parser, "no such sequence", parser->words[1]);
	if (!parse_check_options(parser, 2, "times") ||
		!parse_option_number(parser, 2, "times", 1, 10000, 1, &times))
		return false;
	scenario->entries = parse_grow(scenario->entries, scenario->entry_count, sizeof(*scenario->entries));
	scenario->entries[scenario->entry_count++] =
		(struct scenario_entry){(uint32_t)sequence, (uint32_t)times};
	scenario->launches += (uint32_t)times;
	return true;
}
