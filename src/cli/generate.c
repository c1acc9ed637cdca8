/* SPDX-License-Identifier: Apache-2.0 */
/* What completion and man pages say of commands and variables, from the same tables as the parser and --help.
 */
#include "cmd.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* scdoc's markup characters, quoted. */
static void
put_scd(const char *text)
{
	for (; *text; text++) {
		if (strchr("_*\\[]|<>~#", *text))
			putchar('\\');
		putchar(*text);
	}
}

static void
put_upper(const char *text)
{
	for (; *text; text++)
		putchar(toupper((unsigned char)*text));
}

static void
put_option_scd(const struct cs_cmd_option *option)
{
	if (option->letter)
		printf("*-%c*, ", option->letter);
	printf("*--%s*", option->name);
	if (option->argument) {
		fputs(" _", stdout);
		put_scd(option->argument);
		putchar('_');
	}
	fputs("\n\t", stdout);
	put_scd(option->help);
	fputs("\n\n", stdout);
}

static void
put_command_scd(const struct cs_cmd *cmd)
{
	struct cs_cmd_option_view view;

	fputs("## ", stdout);
	put_upper(cmd->name);
	printf("\n\n*collscope %s* ", cmd->name);
	put_scd(cmd->synopsis);
	fputs("\n\n", stdout);
	put_scd(cmd->description);
	fputs("\n\n", stdout);
	for (size_t i = 0; cs_cmd_option_at(cmd, i, &view); i++) {
		if (view.option.id < CS_OPTION_HELP)
			put_option_scd(&view.option);
	}
	if (cmd->environment_options)
		fputs("Every variable of *collscope*(7) is an option too: *--ring-mib* _N_ sets "
		      "_COLLSCOPE\\_RING\\_MIB_.\n\n",
			stdout);
	if (cmd->columns)
		fputs("Columns:\n\n", stdout);
	for (const struct cs_cmd_column *column = cmd->columns; column && column->name; column++) {
		fputs("*", stdout);
		put_scd(column->name);
		fputs("*\n\t", stdout);
		put_scd(column->meaning);
		fputs("\n\n", stdout);
	}
	fputs("Exit status:\n\n", stdout);
	for (const struct cs_cmd_status *status = cmd->statuses; status->status; status++) {
		printf("*%s*\n\t", status->status);
		put_scd(status->meaning);
		fputs("\n\n", stdout);
	}
	if (cmd->examples->command)
		fputs("Examples:\n\n", stdout);
	for (const struct cs_cmd_example *example = cmd->examples; example->command; example++) {
		put_scd(example->what);
		printf("\n\n```\n%s\n```\n\n", example->command);
	}
}

static void
print_environment(void)
{
	size_t count;
	const struct cs_variable *variables = cs_variables(&count);

	for (size_t i = 0; i < count; i++) {
		fputs("*", stdout);
		put_scd(variables[i].name);
		fputs("* = ", stdout);
		put_scd(variables[i].values);
		fputs("\n\t", stdout);
		put_scd(variables[i].help);
		if (variables[i].fallback[0]) {
			fputs(" Default: ", stdout);
			put_scd(variables[i].fallback);
			putchar('.');
		}
		fputs("\n\n", stdout);
	}
}

static void
put_words(const char *values)
{
	for (; *values; values++)
		putchar(*values == '|' ? ' ' : *values);
}

/* What can follow an option of the command that takes an argument. */
static void
put_argument_bash(const struct cs_cmd_option *option)
{
	if (!option->argument)
		return;
	printf("\t\t--%s", option->name);
	if (option->letter)
		printf(" | -%c", option->letter);
	fputs(") ", stdout);
	if (!option->values) {
		fputs("return", stdout);
	} else if (strcmp(option->values, CS_COMPLETE_FILE) == 0) {
		fputs("compopt -o default; return", stdout);
	} else if (strcmp(option->values, CS_COMPLETE_DIRECTORY) == 0) {
		fputs("mapfile -t COMPREPLY < <(compgen -d -- \"$word\"); return", stdout);
	} else if (strcmp(option->values, CS_COMPLETE_PID) == 0) {
		/* Rows of the table, without the remarks below it. */
		fputs("words=$(\"${COMP_WORDS[0]}\" status --running 2>/dev/null | "
		      "awk '$1 ~ /^[0-9]+$/ && $2 !~ /^process/ { print $1 }')",
			stdout);
	} else {
		fputs("words='", stdout);
		put_words(option->values);
		fputs("'", stdout);
	}
	fputs(" ;;\n", stdout);
}

static void
put_command_bash(const struct cs_cmd *cmd)
{
	struct cs_cmd_option_view view;

	printf("\t%s)\n\t\twords='", cmd->name);
	for (size_t i = 0; cs_cmd_option_at(cmd, i, &view); i++)
		printf("%s--%s", i ? " " : "", view.option.name);
	fputs("'\n", stdout);
	if (cmd->words) {
		fputs("\t\t[[ $word == -* ]] || words='", stdout);
		put_words(cmd->words);
		fputs("'\n", stdout);
	}
	fputs("\t\tcase $previous in\n", stdout);
	for (size_t i = 0; cs_cmd_option_at(cmd, i, &view); i++)
		put_argument_bash(&view.option);
	fputs("\t\t*) ;;\n\t\tesac\n\t\t;;\n", stdout);
}

static void
print_bash(void)
{
	fputs("# SPDX-License-Identifier: Apache-2.0\n"
	      "# bash completion for collscope; made from the command's own tables.\n"
	      "_collscope() {\n"
	      "\tlocal word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words='' i "
	      "first\n"
	      "\tCOMPREPLY=()\n"
	      "\tif ((COMP_CWORD == 1)); then\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -W '",
		stdout);
	for (size_t i = 0; cs_commands[i]; i++)
		printf("%s ", cs_commands[i]->name);
	fputs("--help --version' -- \"$word\")\n"
	      "\t\treturn\n"
	      "\tfi\n"
	      "\t# After \"run ... --\" it is somebody else's command line.\n"
	      "\tif [[ ${COMP_WORDS[1]} == run ]]; then\n"
	      "\t\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
	      "\t\t\tif [[ ${COMP_WORDS[i]} == -- ]]; then\n"
	      "\t\t\t\tfirst=$((i + 1))\n"
	      "\t\t\t\tif declare -F _command_offset >/dev/null; then _command_offset \"$first\"; "
	      "else compopt -o default; fi\n"
	      "\t\t\t\treturn\n"
	      "\t\t\tfi\n"
	      "\t\tdone\n"
	      "\tfi\n"
	      "\tcase ${COMP_WORDS[1]} in\n",
		stdout);
	for (size_t i = 0; cs_commands[i]; i++)
		put_command_bash(cs_commands[i]);
	fputs("\t*) return ;;\n"
	      "\tesac\n"
	      "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
	      "}\n"
	      "complete -F _collscope collscope\n",
		stdout);
}

int
cs_generate_print(const char *what)
{
	if (strcmp(what, "bash") == 0) {
		print_bash();
	} else if (strcmp(what, "environment.scd") == 0) {
		print_environment();
	} else if (strcmp(what, "commands.scd") == 0) {
		for (size_t i = 0; cs_commands[i]; i++)
			put_command_scd(cs_commands[i]);
	} else {
		return -EINVAL;
	}
	return 0;
}
