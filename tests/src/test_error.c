/* SPDX-License-Identifier: Apache-2.0 */
#include "error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void
test_chain(void **state)
{
	struct cs_error error;

	(void)state;
	assert_int_equal(cs_error_set(&error, -5, "version %d is newer than this build (%d)", 3, 2), -5);
	assert_string_equal(error.text, "version 3 is newer than this build (2)");
	assert_int_equal(cs_error_wrap(&error, -7, "cannot read %s", "x.seg"), -7);
	assert_string_equal(error.text, "cannot read x.seg: version 3 is newer than this build (2)");
	/* A new chain forgets the old one. */
	cs_error_set(&error, -1, "other");
	assert_string_equal(error.text, "other");
	cs_error_clear(&error);
	assert_string_equal(error.text, "");
	cs_error_wrap(&error, -1, "alone");
	assert_string_equal(error.text, "alone");
}

static void
test_no_error(void **state)
{
	(void)state;
	cs_error_clear(NULL);
	assert_int_equal(cs_error_set(NULL, -5, "%d", 1), -5);
	assert_int_equal(cs_error_wrap(NULL, -6, "%d", 1), -6);
}

/* Arguments may be the text itself. */
static void
test_own_text(void **state)
{
	struct cs_error error = {.text = "inner"};

	(void)state;
	cs_error_set(&error, -1, "[%s]", error.text);
	assert_string_equal(error.text, "[inner]");
	cs_error_wrap(&error, -1, "<%s>", error.text);
	assert_string_equal(error.text, "<[inner]>: [inner]");
}

/* Cut at the end, never inside a character, for each place of the cut in a character of 2, 3, 4 bytes. */
static void
test_cut(void **state)
{
	static const char *const characters[] = {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};

	(void)state;
	for (size_t i = 0; i < 3; i++)
		for (size_t before = 0; before < 6; before++) {
			char filler[CS_ERROR_BYTES];
			struct cs_error error;
			size_t length = strlen(characters[i]);
			size_t expected = CS_ERROR_BYTES - 7 + before;

			memset(filler, 'x', sizeof(filler));
			filler[expected] = '\0';
			cs_error_set(&error, -1, "%s%s!!!!!!!!", filler, characters[i]);
			if (expected + length <= CS_ERROR_BYTES - 1) {
				assert_memory_equal(error.text + expected, characters[i], length);
				assert_int_equal(strlen(error.text), CS_ERROR_BYTES - 1);
			} else {
				assert_int_equal(strlen(error.text), expected);
			}
			cs_error_set(&error, -1, "%s!!!!!!!!", characters[i]);
			filler[expected - 2] = '\0';
			cs_error_wrap(&error, -1, "%s", filler);
			if (expected + length <= CS_ERROR_BYTES - 1)
				assert_int_equal(strlen(error.text), CS_ERROR_BYTES - 1);
			else
				assert_int_equal(strlen(error.text), expected);
		}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chain),
		cmocka_unit_test(test_no_error),
		cmocka_unit_test(test_own_text),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
