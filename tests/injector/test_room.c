/* SPDX-License-Identifier: Apache-2.0 */
#include "life/room.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define NONE UINT64_MAX

/* As /proc(5) has it: 1000 pages in all, 100 of data. */
static const char statm[] = "1000 800 300 200 0 100 0\n";

static void
test_of_numbers(void **state)
{
	const char *limit = "";

	(void)state;
	assert_int_equal(cs_room_left_of(statm, 4096, 5000 * 4096, NONE, &limit), 4000 * 4096);
	assert_non_null(strstr(limit, "ulimit -v"));
	assert_int_equal(cs_room_left_of(statm, 4096, 5000 * 4096, 200 * 4096, &limit), 100 * 4096);
	assert_non_null(strstr(limit, "ulimit -d"));
	/* Set below what was in use already. */
	assert_int_equal(cs_room_left_of(statm, 4096, 10 * 4096, NONE, &limit), 0);
	assert_true(cs_room_left_of(statm, 4096, NONE, NONE, &limit) == UINT64_MAX);
	assert_true(cs_room_left_of("what is this", 4096, 10 * 4096, 0, &limit) == UINT64_MAX);
}

static int
run_limited(int resource, uint64_t limit_bytes, bool (*check)(uint64_t left_bytes))
{
	struct rlimit limit = {limit_bytes, RLIM_INFINITY};
	const char *name = "";
	int status = 0;
	pid_t child = fork();

	if (child == 0)
		_exit(setrlimit((__rlimit_resource_t)resource, &limit) == 0 &&
					check(cs_room_left_bytes(&name))
				? 0
				: 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static bool
less_than_the_limit(uint64_t left_bytes)
{
	return left_bytes > 0 && left_bytes < (1ULL << 50);
}

static bool
no_limit(uint64_t left_bytes)
{
	return left_bytes == UINT64_MAX;
}

static void
test_of_this_process(void **state)
{
	(void)state;
	/* Above what a sanitizer reserves. */
	assert_int_equal(run_limited(RLIMIT_AS, 1ULL << 50, less_than_the_limit), 0);
	assert_int_equal(run_limited(RLIMIT_DATA, 1ULL << 50, less_than_the_limit), 0);
	assert_int_equal(run_limited(RLIMIT_CPU, 1000, no_limit), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_numbers),
		cmocka_unit_test(test_of_this_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
