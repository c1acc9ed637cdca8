/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

#include "log.h"

static const struct cs_cmd_option options[] = {
	{.name = NULL},
};

static const struct cs_cmd_example examples[] = {
	{"collscope help run", "All about one command"},
	{.command = NULL},
};

static const struct cs_cmd_status statuses[] = {
	{"0", "The help was printed."},
	{"2", "There is no such command."},
	{.status = NULL},
};

static int
print_help_of(const char *name)
{
	const struct cs_cmd *cmd = cs_cmd_find(name);
	const char *guess;

	if (cmd) {
		cs_help_print_command(cmd);
		return CS_EXIT_OK;
	}
	guess = cs_cmd_suggest(name);
	if (guess)
		cs_log_error("No command \"%s\": did you mean \"%s\"?", name, guess);
	else
		cs_log_error("No command \"%s\". See `collscope help`.", name);
	return CS_EXIT_ERROR;
}

static int
cmd_help(int argc, char **argv)
{
	struct cs_cmd_parser parser;
	const char *name = NULL;
	int option;

	cs_cmd_parse(&parser, &cs_cmd_help_description, argc, argv);
	while ((option = cs_cmd_next(&parser)) != CS_PARSE_END) {
		if (option != CS_PARSE_OPERAND)
			return parser.status;
		if (name) {
			cs_cmd_unexpected_operand(&parser);
			return parser.status;
		}
		name = parser.value;
	}
	if (name)
		return print_help_of(name);
	cs_help_print_overview();
	return CS_EXIT_OK;
}

const struct cs_cmd cs_cmd_help_description = {
	.name = "help",
	.summary = "explain a command",
	.synopsis = "[COMMAND]",
	.description = "Prints what a command does, its options, examples and exit status; without COMMAND, "
		       "the list "
		       "of commands.",
	.options = options,
	.examples = examples,
	.statuses = statuses,
	.words = "run|status|dump|top|trace|pause|resume|catalog|help",
	.run = cmd_help,
};
