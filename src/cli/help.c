/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

#include <stdio.h>
#include <string.h>

/* Help is as wide everywhere: it is compared byte by byte in tests and pasted into issues. */
#define WIDTH         80U
#define OPTION_INDENT 28U

/* `text` broken at blanks; the cursor is at `column`, further lines start at `indent`. Ends the line. */
static void
print_wrapped(FILE *stream, const char *text, unsigned int column, unsigned int indent)
{
	bool first = true;

	while (*text) {
		unsigned int length = (unsigned int)strcspn(text, " ");

		if (!first && column + 1 + length > WIDTH) {
			fprintf(stream, "\n%*s", (int)indent, "");
			column = indent;
			first = true;
		}
		fprintf(stream, "%s%.*s", first ? "" : " ", (int)length, text);
		column += length + !first;
		first = false;
		text += length;
		text += strspn(text, " ");
	}
	fputc('\n', stream);
}

/* "  term     text" with the text in a column of its own. */
static void
print_entry(FILE *stream, const char *term, unsigned int indent, const char *text)
{
	unsigned int length = (unsigned int)strlen(term);

	fprintf(stream, "  %s", term);
	if (2 + length + 2 > indent)
		fprintf(stream, "\n%*s", (int)indent, "");
	else
		fprintf(stream, "%*s", (int)(indent - 2 - length), "");
	print_wrapped(stream, text, indent, indent);
}

static void
print_option(FILE *stream, const struct cs_cmd_option *option)
{
	char term[160];
	char letter[8] = "    ";

	if (option->letter)
		snprintf(letter, sizeof(letter), "-%c, ", option->letter);
	snprintf(term, sizeof(term), "%s--%s%s%s", letter, option->name, option->argument ? " " : "",
		option->argument ? option->argument : "");
	print_entry(stream, term, OPTION_INDENT, option->help);
}

static void
print_commands(FILE *stream)
{
	for (size_t i = 0; cs_commands[i]; i++)
		print_entry(stream, cs_commands[i]->name, 14, cs_commands[i]->summary);
}

static void
print_examples(FILE *stream, const struct cs_cmd *cmd)
{
	for (const struct cs_cmd_example *example = cmd->examples; example->command; example++) {
		fprintf(stream, "  %s\n      ", example->command);
		print_wrapped(stream, example->what, 6, 6);
	}
}

static void
print_first_examples(FILE *stream)
{
	fputs("Examples:\n", stream);
	for (size_t i = 0; cs_commands[i]; i++) {
		const struct cs_cmd_example *example = cs_commands[i]->examples;

		/* The first command of each kind of work: run, look, save. */
		if (i < 3 && example->command) {
			fprintf(stream, "  %s\n      ", example->command);
			print_wrapped(stream, example->what, 6, 6);
		}
	}
}

void
cs_help_print_short(void)
{
	fputs("collscope: which collective ran, how long it took, and what the step waited for.\n\n", stderr);
	print_first_examples(stderr);
	fputs("\nCommands:\n", stderr);
	print_commands(stderr);
	fputs("\n`collscope help COMMAND` explains one of them.\n", stderr);
}

void
cs_help_print_overview(void)
{
	fputs("collscope: production profiler of collective communication for LLM servers\n\n"
	      "Usage: collscope COMMAND [options]\n\n",
		stdout);
	print_first_examples(stdout);
	fputs("\nCommands:\n", stdout);
	print_commands(stdout);
	fputs("\nOptions:\n", stdout);
	print_entry(stdout, "-h, --help", 14, "Print this help and exit.");
	print_entry(stdout, "    --version", 14, "Print the version and exit.");
	fputs("\nExit status:\n", stdout);
	print_entry(stdout, "0", 14, "All is well.");
	print_entry(stdout, "1", 14, "Nothing was found.");
	print_entry(stdout, "2", 14, "The command line or the data is wrong; stderr says what.");
	fputs("\n`collscope help COMMAND` explains a command; collscope(7) the environment variables.\n",
		stdout);
}

void
cs_help_print_command(const struct cs_cmd *cmd)
{
	struct cs_cmd_option_view view;
	bool settings = false;

	printf("collscope %s: ", cmd->name);
	print_wrapped(stdout, cmd->summary,
		(unsigned int)strlen("collscope : ") + (unsigned int)strlen(cmd->name), 0);
	printf("\nUsage: collscope %s%s%s\n\nExamples:\n", cmd->name, *cmd->synopsis ? " " : "",
		cmd->synopsis);
	print_examples(stdout, cmd);
	fputc('\n', stdout);
	print_wrapped(stdout, cmd->description, 0, 0);
	fputs("\nOptions:\n", stdout);
	for (size_t i = 0; cs_cmd_option_at(cmd, i, &view); i++) {
		if (view.option.id < CS_OPTION_ENVIRONMENT)
			print_option(stdout, &view.option);
		else
			settings = true;
	}
	if (settings)
		fputs("\nSettings of the profiler, also as environment variables (collscope(7)):\n", stdout);
	for (size_t i = 0; cs_cmd_option_at(cmd, i, &view); i++) {
		if (view.option.id >= CS_OPTION_ENVIRONMENT)
			print_option(stdout, &view.option);
	}
	if (cmd->columns)
		fputs("\nColumns:\n", stdout);
	for (const struct cs_cmd_column *column = cmd->columns; column && column->name; column++)
		print_entry(stdout, column->name, 18, column->meaning);
	fputs("\nExit status:\n", stdout);
	for (const struct cs_cmd_status *status = cmd->statuses; status->status; status++)
		print_entry(stdout, status->status, 10, status->meaning);
}
