/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const headings[] = {"NAME", ">COUNT", "LAST"};

/* left_out: headings, each with a space behind it. */
static void
assert_page(const struct cs_table *table, unsigned int width, const char *expected, const char *left_out)
{
	struct cs_page page = {.width = width};
	char names[128] = "";
	char *text = NULL;
	size_t length;
	FILE *stream = open_memstream(&text, &length);

	assert_non_null(stream);
	assert_int_equal(cs_table_print(table, stream, &page), 0);
	fclose(stream);
	assert_string_equal(text, expected);
	free(text);
	for (size_t i = 0; i < page.column_count; i++) {
		if (page.columns[i].shown)
			continue;
		strcat(names, page.columns[i].heading);
		strcat(names, " ");
	}
	assert_string_equal(names, left_out);
}

static void
assert_prints(const struct cs_table *table, unsigned int width, const char *expected)
{
	assert_page(table, width, expected, "");
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
columns_without_room_are_left_out_whole(void **state)
{
	static const char *const expendable[] = {"COUNT", "NONE", NULL};
	struct cs_table *table = cs_table_new(headings, 3);

	(void)state;
	cs_output_setup_color(CS_COLOR_NEVER);
	add_row(table, "name", 12345, "end");
	assert_page(table, 17, "NAME  COUNT  LAST\nname  12345  end\n", "");
	assert_page(table, 16, "NAME  COUNT\nname  12345\n", "LAST ");
	assert_page(table, 11, "NAME  COUNT\nname  12345\n", "LAST ");
	assert_page(table, 10, "NAME\nname\n", "COUNT LAST ");
	cs_table_set_expendable(table, expendable);
	assert_page(table, 16, "NAME  LAST\nname  end\n", "COUNT ");
	assert_page(table, 9, "NAME\nname\n", "COUNT LAST ");
	cs_table_destroy(table);
}

static void
the_end_of_a_line_shows_that_it_goes_on(void **state)
{
	struct cs_table *table = cs_table_new(headings, 3);

	(void)state;
	cs_output_setup_color(CS_COLOR_NEVER);
	add_row(table, "name", 12345, "server --with many words");
	assert_page(table, 29, "NAME  COUNT  LAST\nname  12345  server --with...\n", "");
	assert_page(table, 28, "NAME  COUNT\nname  12345\n", "LAST ");
	cs_table_destroy(table);
}

static void
what_is_left_out_is_named_once(void **state)
{
	struct cs_page page = {.width = 80};
	char *text = NULL;
	size_t length;
	FILE *stream = open_memstream(&text, &length);

	(void)state;
	cs_page_print_left_out(&page, "--json", stream);
	cs_page_note(&page, "one", "A B", false);
	cs_page_note(&page, "one", "C", false);
	cs_page_note(&page, "one", "A", true);
	cs_page_note(&page, "one", "D", false);
	cs_page_note(&page, "two", "A B", false);
	cs_page_note(&page, "two", "D", true);
	assert_false(cs_page_shows(&page, "C"));
	assert_true(cs_page_shows(&page, "A"));
	cs_page_print_left_out(&page, "--json", stream);
	fclose(stream);
	assert_string_equal(text, "Too narrow for A B, C, D (one): widen the terminal, or use --json\n");
	free(text);
}

static void
lines_are_cut_between_characters(void **state)
{
	struct cs_table *table = cs_table_new(headings, 3);

	(void)state;
	cs_output_setup_color(CS_COLOR_NEVER);
	add_row(table, "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 5, "x");
	assert_page(table, 4, "NAME\n\xc3\xa4...\n", "COUNT LAST ");
	assert_page(table, 2, "NA\n\xc3\xa4\xc3\xa4\n", "COUNT LAST ");
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
		cmocka_unit_test(columns_without_room_are_left_out_whole),
		cmocka_unit_test(the_end_of_a_line_shows_that_it_goes_on),
		cmocka_unit_test(what_is_left_out_is_named_once),
		cmocka_unit_test(lines_are_cut_between_characters),
		cmocka_unit_test(colour_does_not_change_widths),
		cmocka_unit_test(unfinished_rows_are_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
