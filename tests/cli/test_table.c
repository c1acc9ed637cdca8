/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *const headings[] = {"NAME", ">COUNT", "LAST"};

static void
assert_prints(const struct cs_table *table, unsigned int width, const char *expected)
{
	char *text = NULL;
	size_t length;
	FILE *stream = open_memstream(&text, &length);

	assert_non_null(stream);
	assert_int_equal(cs_table_print(table, stream, width), 0);
	fclose(stream);
	assert_string_equal(text, expected);
	free(text);
}

static void
add_row(struct cs_table *table, const char *name, int count, const char *last)
{
	cs_table_add(table, CS_STYLE_PLAIN, "%s", name);
	cs_table_add(table, CS_STYLE_RED, "%d", count);
	cs_table_add(table, CS_STYLE_PLAIN, "%s", last);
}

static void
columns_are_aligned(void **state)
{
	struct cs_table *table = cs_table_new(headings, 3);

	(void)state;
	cs_output_setup_color(CS_COLOR_NEVER);
	add_row(table, "short", 1, "a");
	/* 8 characters in 9 bytes */
	add_row(table, "l\xc3\xa4ngerer", 1234567, "bc");
	assert_int_equal(cs_table_rows(table), 2);
	assert_prints(table, 0,
		"NAME        COUNT  LAST\n"
		"short           1  a\n"
		"l\xc3\xa4ngerer  1234567  bc\n");
	cs_table_destroy(table);
}

static void
lines_are_cut_between_characters(void **state)
{
	struct cs_table *table = cs_table_new(headings, 3);

	(void)state;
	cs_output_setup_color(CS_COLOR_NEVER);
	add_row(table, "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 5, "x");
	assert_prints(table, 4, "NAME\n\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\n");
	cs_table_destroy(table);
}

static void
colour_does_not_change_widths(void **state)
{
	struct cs_table *table = cs_table_new(headings, 3);

	(void)state;
	add_row(table, "n", 5, "x");
	cs_output_setup_color(CS_COLOR_ALWAYS);
	assert_prints(table, 0,
		"\033[1mNAME\033[0m  \033[1mCOUNT\033[0m  \033[1mLAST\033[0m\n"
		"n         \033[31m5\033[0m  x\n");
	cs_output_setup_color(CS_COLOR_NEVER);
	cs_table_destroy(table);
}

static void
unfinished_rows_are_left_out(void **state)
{
	struct cs_table *table = cs_table_new(headings, 3);

	(void)state;
	cs_output_setup_color(CS_COLOR_NEVER);
	cs_table_add(table, CS_STYLE_PLAIN, "alone");
	assert_prints(table, 0, "NAME  COUNT  LAST\n");
	cs_table_destroy(table);
	assert_null(cs_table_new(headings, 0));
	assert_null(cs_table_new(headings, CS_TABLE_COLUMNS_MAX + 1));
	cs_table_destroy(NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_are_aligned),
		cmocka_unit_test(lines_are_cut_between_characters),
		cmocka_unit_test(colour_does_not_change_widths),
		cmocka_unit_test(unfinished_rows_are_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
