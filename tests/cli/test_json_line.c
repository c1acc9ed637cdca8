/* SPDX-License-Identifier: Apache-2.0 */
#include "json_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <cmocka.h>

struct output {
	char *text;
	size_t length;
	FILE *stream;
	struct cs_json_line line;
};

static void
begin(struct output *output)
{
	output->stream = open_memstream(&output->text, &output->length);
	assert_non_null(output->stream);
	cs_json_line_begin(&output->line, output->stream);
}

static void
end(struct output *output)
{
	cs_json_line_end(&output->line);
	fclose(output->stream);
}

static void
members_are_written(void **state)
{
	struct output output;

	(void)state;
	begin(&output);
	cs_json_line_text(&output.line, "t", "x");
	cs_json_line_text(&output.line, "n", NULL);
	cs_json_line_unsigned(&output.line, "z", 0);
	cs_json_line_unsigned(&output.line, "u", UINT64_MAX);
	cs_json_line_signed(&output.line, "s", INT64_MIN);
	cs_json_line_boolean(&output.line, "b", true);
	cs_json_line_boolean(&output.line, "c", false);
	cs_json_line_null(&output.line, "l");
	end(&output);
	assert_string_equal(output.text,
		"{\"t\":\"x\",\"n\":null,\"z\":0,\"u\":18446744073709551615,\"s\":-9223372036854775808,"
		"\"b\":true,\"c\":false,\"l\":null}\n");
	free(output.text);
}

static void
empty_object(void **state)
{
	struct output output;

	(void)state;
	begin(&output);
	end(&output);
	assert_string_equal(output.text, "{}\n");
	free(output.text);
}

/* Every byte that a string may hold comes back from an independent parser, and the line stays one line. */
static void
strings_are_escaped(void **state)
{
	char text[128 + 8] = "";
	struct output output;
	json_t *root;

	(void)state;
	for (int byte = 1; byte < 128; byte++)
		text[byte - 1] = (char)byte;
	strcat(text, "\xc3\xa9\xf0\x9f\x98\x80");
	begin(&output);
	cs_json_line_text(&output.line, "k", text);
	end(&output);
	assert_ptr_equal(strchr(output.text, '\n'), output.text + output.length - 1);
	root = json_loads(output.text, 0, NULL);
	assert_non_null(root);
	assert_string_equal(json_string_value(json_object_get(root, "k")), text);
	json_decref(root);
	free(output.text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_are_written),
		cmocka_unit_test(empty_object),
		cmocka_unit_test(strings_are_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
