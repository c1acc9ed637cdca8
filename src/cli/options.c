/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

#include "clock.h"
#include "log.h"
#include "units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE_PREFIX "COLLSCOPE_"

static size_t
own_option_count(const struct cs_cmd *cmd)
{
	size_t count = 0;

	while (cmd->options[count].name)
		count++;
	return count;
}

/* COLLSCOPE_RING_MIB -> --ring-mib N, with the words and the sentence of the table. */
static void
view_variable(const struct cs_variable *variable, size_t index, struct cs_cmd_option_view *view)
{
	const char *name = variable->name;
	const char *argument = "TEXT";
	size_t i = 0;

	if (strncmp(name, VARIABLE_PREFIX, strlen(VARIABLE_PREFIX)) == 0)
		name += strlen(VARIABLE_PREFIX);
	for (; name[i] && i + 1 < sizeof(view->name); i++)
		view->name[i] = name[i] == '_' ? '-' : (char)tolower((unsigned char)name[i]);
	view->name[i] = 0;
	view->option =
		(struct cs_cmd_option){.id = CS_OPTION_ENVIRONMENT + (int)index, .help = variable->help};
	switch (variable->type) {
	case CS_VARIABLE_CHOICE:
	case CS_VARIABLE_BOOLEAN:
		argument = view->option.values = variable->values;
		break;
	case CS_VARIABLE_RATIO:
		argument = "SHARE";
		break;
	case CS_VARIABLE_INTEGER:
		argument = "N";
		break;
	case CS_VARIABLE_TEXT:
		if (strstr(variable->values, "path")) {
			bool directory = strcmp(variable->name, VARIABLE_PREFIX "DIR") == 0;

			argument = directory ? "DIR" : "FILE";
			view->option.values = directory ? CS_COMPLETE_DIRECTORY : CS_COMPLETE_FILE;
		} else if (strcmp(variable->values, "address:port") == 0) {
			argument = "ADDRESS:PORT";
		} else {
			argument = "PATTERNS";
		}
		break;
	}
	snprintf(view->argument, sizeof(view->argument), "%s", argument);
}

bool
cs_cmd_option_at(const struct cs_cmd *cmd, size_t index, struct cs_cmd_option_view *view)
{
	static const struct cs_cmd_option help = {
		CS_OPTION_HELP, 'h', "help", NULL, NULL, "Print this help and exit."};
	size_t own_count = own_option_count(cmd);
	size_t variable_count = 0;
	const struct cs_variable *variables = cs_variables(&variable_count);

	if (!cmd->environment_options)
		variable_count = 0;
	if (index < own_count) {
		view->option = cmd->options[index];
	} else if (index < own_count + variable_count) {
		view_variable(&variables[index - own_count], index - own_count, view);
		view->option.name = view->name;
		view->option.argument = view->argument;
	} else if (index == own_count + variable_count) {
		view->option = help;
	} else {
		return false;
	}
	return true;
}

void
cs_cmd_parse(struct cs_cmd_parser *parser, const struct cs_cmd *cmd, int argc, char **argv)
{
	*parser = (struct cs_cmd_parser){
		.cmd = cmd, .argc = argc, .argv = argv, .index = 1, .error_status = CS_EXIT_ERROR};
}

int
cs_cmd_usage_error(struct cs_cmd_parser *parser, const char *format, ...)
{
	char sentence[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	cs_log_error("%s%s See `collscope %s --help`.", sentence,
		sentence[0] && strchr("?.", sentence[strlen(sentence) - 1]) ? "" : ".", parser->cmd->name);
	parser->status = parser->error_status;
	return CS_PARSE_EXIT;
}

static int
unknown_option(struct cs_cmd_parser *parser, const char *name)
{
	static struct cs_cmd_option_view views[CS_OPTIONS_MAX];
	const char *known[CS_OPTIONS_MAX];
	const char *guess = NULL;
	size_t count = 0;

	while (count < CS_OPTIONS_MAX && cs_cmd_option_at(parser->cmd, count, &views[count])) {
		known[count] = views[count].option.name;
		count++;
	}
	if (name)
		guess = cs_suggest(name, known, count);
	if (guess)
		return cs_cmd_usage_error(
			parser, "Unknown option \"%s\": did you mean \"--%s\"?", parser->option, guess);
	return cs_cmd_usage_error(parser, "Unknown option \"%s\"", parser->option);
}

/* The option has been found; `attached`: its argument after "=" or in the cluster, NULL when there is none.
 */
static int
take_option(struct cs_cmd_parser *parser, const struct cs_cmd_option *option, const char *attached)
{
	if (option->id == CS_OPTION_HELP) {
		cs_help_print_command(parser->cmd);
		parser->status = CS_EXIT_OK;
		return CS_PARSE_EXIT;
	}
	parser->value = attached;
	if (!option->argument)
		return option->id;
	if (!parser->value) {
		if (parser->index >= parser->argc)
			return cs_cmd_usage_error(parser, "Option \"%s\" needs an argument: %s",
				parser->option, option->argument);
		parser->value = parser->argv[parser->index++];
	}
	return option->id;
}

static int
next_letter(struct cs_cmd_parser *parser)
{
	struct cs_cmd_option_view view;
	char letter = *parser->cluster++;

	snprintf(parser->option, sizeof(parser->option), "-%c", letter);
	if (!*parser->cluster)
		parser->cluster = NULL;
	for (size_t i = 0; cs_cmd_option_at(parser->cmd, i, &view); i++) {
		const char *attached = NULL;

		if (view.option.letter != letter)
			continue;
		if (view.option.argument) {
			attached = parser->cluster;
			parser->cluster = NULL;
		}
		return take_option(parser, &view.option, attached);
	}
	return unknown_option(parser, NULL);
}

static int
next_name(struct cs_cmd_parser *parser, const char *word)
{
	struct cs_cmd_option_view view;
	const char *equals = strchr(word, '=');
	size_t length = equals ? (size_t)(equals - word) : strlen(word);
	char name[sizeof(parser->option) - 2];

	snprintf(name, sizeof(name), "%.*s", (int)(length < sizeof(name) ? length : sizeof(name) - 1), word);
	snprintf(parser->option, sizeof(parser->option), "--%s", name);
	for (size_t i = 0; cs_cmd_option_at(parser->cmd, i, &view); i++) {
		if (strcmp(view.option.name, name) != 0 || length != strlen(name))
			continue;
		if (equals && !view.option.argument)
			return cs_cmd_usage_error(parser, "Option \"%s\" takes no argument", parser->option);
		return take_option(parser, &view.option, equals ? equals + 1 : NULL);
	}
	return unknown_option(parser, name);
}

int
cs_cmd_next(struct cs_cmd_parser *parser)
{
	char *word;

	if (parser->cluster)
		return next_letter(parser);
	if (parser->index >= parser->argc)
		return CS_PARSE_END;
	word = parser->argv[parser->index++];
	/* "-" alone is a file name by custom: standard input. */
	if (!parser->only_operands && word[0] == '-' && word[1]) {
		if (word[1] != '-') {
			parser->cluster = word + 1;
			return next_letter(parser);
		}
		if (word[2])
			return next_name(parser, word + 2);
		parser->only_operands = true;
		return cs_cmd_next(parser);
	}
	if (parser->cmd->stops_at_operand)
		parser->only_operands = true;
	parser->value = word;
	return CS_PARSE_OPERAND;
}

int
cs_cmd_value_integer(struct cs_cmd_parser *parser, uint64_t least, uint64_t most, uint64_t *value)
{
	char *end = NULL;

	errno = 0;
	*value = strtoull(parser->value, &end, 10);
	if (!isdigit((unsigned char)parser->value[0]) || *end || errno || *value < least || *value > most)
		return cs_cmd_usage_error(parser,
			"Value \"%s\" of %s is not a whole number from %" PRIu64 " to %" PRIu64,
			parser->value, parser->option, least, most);
	return 0;
}

int
cs_cmd_value_duration(struct cs_cmd_parser *parser, uint64_t *duration_ns)
{
	int result = cs_units_parse_duration(parser->value, duration_ns);

	if (result == -ERANGE)
		return cs_cmd_usage_error(
			parser, "Value \"%s\" of %s is over 366 days", parser->value, parser->option);
	if (result)
		return cs_cmd_usage_error(parser,
			"Value \"%s\" of %s is no duration such as 30s, 500ms or 2m", parser->value,
			parser->option);
	return 0;
}

int
cs_cmd_value_since(struct cs_cmd_parser *parser, uint64_t *since_ns)
{
	uint64_t now_ns = cs_clock_realtime_ns();
	uint64_t duration_ns;
	int result = cs_cmd_value_duration(parser, &duration_ns);

	if (result == 0)
		*since_ns = duration_ns < now_ns ? now_ns - duration_ns : 0;
	return result;
}

int
cs_cmd_value_share(struct cs_cmd_parser *parser, double *share)
{
	char *end = NULL;

	*share = strtod(parser->value, &end);
	if (strspn(parser->value, "0123456789.") != strlen(parser->value) || *end || !(*share >= 0.0001) ||
		*share > 1)
		return cs_cmd_usage_error(parser, "Value \"%s\" of %s is not a number from 0.0001 to 1",
			parser->value, parser->option);
	return 0;
}

int
cs_cmd_value_choice(struct cs_cmd_parser *parser, const char *values, unsigned int *index)
{
	size_t length = strlen(parser->value);

	*index = 0;
	for (const char *word = values;; word++, (*index)++) {
		size_t word_length = strcspn(word, "|");

		if (word_length == length && strncmp(word, parser->value, length) == 0)
			return 0;
		word += word_length;
		if (!*word)
			break;
	}
	return cs_cmd_usage_error(
		parser, "Value \"%s\" of %s is none of %s", parser->value, parser->option, values);
}

int
cs_cmd_unexpected_operand(struct cs_cmd_parser *parser)
{
	return cs_cmd_usage_error(parser, "Unexpected argument \"%s\"", parser->value);
}
