/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

#include "log.h"

#include <ctype.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { OPTION_FLAG, OPTION_OTHER, OPTION_FILE, OPTION_COUNT };

static const struct cs_cmd_option options[] = {
	{OPTION_FLAG, 'a', "flag", NULL, NULL, "A."},
	{OPTION_OTHER, 'b', "other", NULL, NULL, "B."},
	{OPTION_FILE, 'f', "file", "FILE", CS_COMPLETE_FILE, "F."},
	{OPTION_COUNT, 0, "count", "N", NULL, "N."},
	{.name = NULL},
};

static const struct cs_cmd cmd = {.name = "test", .options = options};
static const struct cs_cmd stopping = {.name = "test", .options = options, .stops_at_operand = true};
static const struct cs_cmd variables = {.name = "test", .options = options, .environment_options = true};

static struct cs_cmd_parser parser;

static void
parse(const struct cs_cmd *of, char *line)
{
	static char *argv[32];
	int argc = 0;

	argv[argc++] = (char[]){"test"};
	for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	argv[argc] = NULL;
	cs_cmd_parse(&parser, of, argc, argv);
}

#define PARSE(of, text)                                                                                      \
	char line[] = text;                                                                                  \
	parse(of, line)

static void
assert_next(int id, const char *value)
{
	assert_int_equal(cs_cmd_next(&parser), id);
	if (value)
		assert_string_equal(parser.value, value);
}

static void
every_form(void **state)
{
	(void)state;
	PARSE(&cmd, "--flag -f x -fy --file z --file=w --file= operand -ab -abfq - -a -- -b --flag");
	assert_next(OPTION_FLAG, NULL);
	assert_next(OPTION_FILE, "x");
	assert_next(OPTION_FILE, "y");
	assert_next(OPTION_FILE, "z");
	assert_next(OPTION_FILE, "w");
	assert_next(OPTION_FILE, "");
	assert_next(CS_PARSE_OPERAND, "operand");
	assert_next(OPTION_FLAG, NULL);
	assert_next(OPTION_OTHER, NULL);
	assert_next(OPTION_FLAG, NULL);
	assert_next(OPTION_OTHER, NULL);
	assert_next(OPTION_FILE, "q");
	assert_next(CS_PARSE_OPERAND, "-");
	assert_next(OPTION_FLAG, NULL);
	assert_next(CS_PARSE_OPERAND, "-b");
	assert_next(CS_PARSE_OPERAND, "--flag");
	assert_next(CS_PARSE_END, NULL);
	assert_next(CS_PARSE_END, NULL);
}

static void
first_operand_ends_options(void **state)
{
	(void)state;
	PARSE(&stopping, "-a command -a --flag");
	assert_next(OPTION_FLAG, NULL);
	assert_next(CS_PARSE_OPERAND, "command");
	assert_int_equal(parser.index, 3);
	assert_next(CS_PARSE_OPERAND, "-a");
}

static void
assert_fails(char *line)
{
	parse(&cmd, line);
	parser.error_status = 99;
	assert_int_equal(cs_cmd_next(&parser), CS_PARSE_EXIT);
	assert_int_equal(parser.status, 99);
}

static void
errors(void **state)
{
	(void)state;
	assert_fails((char[]){"--flog"});
	assert_fails((char[]){"--fla"}); /* no abbreviations */
	assert_fails((char[]){"--flagg"});
	assert_fails((char[]){"--flag=x"});
	assert_fails((char[]){"--file"});
	assert_fails((char[]){"-f"});
	assert_fails((char[]){"-x"});
	assert_fails((char[]){"---"});
	assert_fails((char[]){
		"--flag-with-a-name-far-longer-than-any-option-that-there-could-ever-be-in-a-table"});
}

static int
integer(const char *text, uint64_t *value)
{
	parser.value = text;
	return cs_cmd_value_integer(&parser, 2, 10, value);
}

static void
values(void **state)
{
	uint64_t value = 0;
	unsigned int index;

	(void)state;
	cs_cmd_parse(&parser, &cmd, 0, NULL);
	assert_int_equal(integer("2", &value), 0);
	assert_int_equal(value, 2);
	assert_int_equal(integer("10", &value), 0);
	assert_int_equal(integer("1", &value), CS_PARSE_EXIT);
	assert_int_equal(integer("11", &value), CS_PARSE_EXIT);
	assert_int_equal(integer("", &value), CS_PARSE_EXIT);
	assert_int_equal(integer("-5", &value), CS_PARSE_EXIT);
	assert_int_equal(integer(" 5", &value), CS_PARSE_EXIT);
	assert_int_equal(integer("5x", &value), CS_PARSE_EXIT);
	assert_int_equal(integer("99999999999999999999999", &value), CS_PARSE_EXIT);
	parser.value = "light";
	assert_int_equal(cs_cmd_value_choice(&parser, "off|light|deep", &index), 0);
	assert_int_equal(index, 1);
	parser.value = "lig";
	assert_int_equal(cs_cmd_value_choice(&parser, "off|light|deep", &index), CS_PARSE_EXIT);
	parser.value = "";
	assert_int_equal(cs_cmd_value_choice(&parser, "off|light|deep", &index), CS_PARSE_EXIT);
}

static void
variables_are_options(void **state)
{
	size_t count;
	const struct cs_variable *table = cs_variables(&count);
	struct cs_cmd_option_view view;
	size_t total = 0;

	(void)state;
	while (cs_cmd_option_at(&variables, total, &view))
		total++;
	assert_int_equal(total, 4 + count + 1);
	assert_true(total < CS_OPTIONS_MAX);
	for (size_t i = 0; i < count; i++) {
		char name[64] = "COLLSCOPE_";

		assert_true(cs_cmd_option_at(&variables, 4 + i, &view));
		assert_int_equal(view.option.id, CS_OPTION_ENVIRONMENT + (int)i);
		for (size_t j = 0; view.option.name[j]; j++) {
			char c = view.option.name[j];

			name[10 + j] = c == '-' ? '_' : (char)toupper((unsigned char)c);
		}
		assert_string_equal(name, table[i].name);
		assert_non_null(view.option.argument);
	}
}

/* Ids, letters and names of one command are different from each other; every command explains itself. */
static void
tables_are_sound(void **state)
{
	struct cs_cmd_option_view one, other;

	(void)state;
	for (size_t c = 0; cs_commands[c]; c++) {
		const struct cs_cmd *command = cs_commands[c];

		assert_ptr_equal(cs_cmd_find(command->name), command);
		assert_non_null(command->examples[0].command);
		assert_non_null(command->statuses[0].status);
		for (size_t i = 0; cs_cmd_option_at(command, i, &one); i++) {
			for (size_t j = 0; j < i && cs_cmd_option_at(command, j, &other); j++) {
				assert_int_not_equal(one.option.id, other.option.id);
				assert_string_not_equal(one.option.name, other.option.name);
				if (one.option.letter)
					assert_int_not_equal(one.option.letter, other.option.letter);
			}
		}
	}
	assert_null(cs_cmd_find("nothing"));
	assert_string_equal(cs_cmd_suggest("stauts"), "status");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_form),
		cmocka_unit_test(first_operand_ends_options),
		cmocka_unit_test(errors),
		cmocka_unit_test(values),
		cmocka_unit_test(variables_are_options),
		cmocka_unit_test(tables_are_sound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
