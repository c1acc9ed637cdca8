/* SPDX-License-Identifier: Apache-2.0 */
/* What is there, as far as there is room; and text that ends where nothing could be read. */
#include "proc_file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
/* cmocka.h needs those above first. */
#include <cmocka.h>

static void
test_whole_and_cut(void **state)
{
	char text[64], small[4];

	(void)state;
	assert_int_equal(prctl(PR_SET_NAME, "a name"), 0);
	memset(text, 'x', sizeof(text));
	assert_int_equal(cs_proc_file_read("/proc/self/comm", text, sizeof(text)), 7);
	assert_string_equal(text, "a name\n");
	memset(small, 'x', sizeof(small));
	assert_int_equal(cs_proc_file_read("/proc/self/comm", small, sizeof(small)), 3);
	assert_string_equal(small, "a n");
}

/* A pipe gives what is in it, write by write (O_DIRECT). */
static void
test_pieces(void **state)
{
	char path[32], text[64];
	int pieces[2];

	(void)state;
	assert_int_equal(pipe2(pieces, O_DIRECT), 0);
	assert_int_equal(write(pieces[1], "one ", 4), 4);
	assert_int_equal(write(pieces[1], "two", 3), 3);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", pieces[0]);
	close(pieces[1]);
	assert_int_equal(cs_proc_file_read(path, text, sizeof(text)), 7);
	assert_string_equal(text, "one two");
	close(pieces[0]);
}

static void
test_nothing(void **state)
{
	static const struct {
		const char *path;
		int result;
	} files[] = {{"/proc/self/no-such-file", -ENOENT}, {"/proc/self", -EISDIR}, {"/dev/null", 0}};
	char text[8];

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		memset(text, 'x', sizeof(text));
		assert_int_equal(cs_proc_file_read(files[i].path, text, sizeof(text)), files[i].result);
		assert_string_equal(text, "");
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_and_cut),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
