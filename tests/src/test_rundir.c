/* SPDX-License-Identifier: Apache-2.0 */
#include "segment/rundir.h"
#include "segment_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void
test_names(void **state)
{
	static const char *const bad[] = {"", "1", "1-", "-1.seg", "1-2", "1-2.sega", "1-2.se", "1-2.seg ",
		" 1-2.seg", "01-2.seg", "1-02.seg", "+1-2.seg", "1--2.seg", "0-2.seg", "2147483648-1.seg",
		"1-2-3.seg", "4294967297-1.seg", "1-18446744073709551616.seg", ".1-2.0.tmp", "1-2.seg.tmp",
		"exporter.lock", "1-x.seg", "x-1.seg", "1_2.seg", "1-2.SEG", "99999999999999999999999-1.seg"};
	uint32_t pid = 5;
	uint64_t ticks = 6;
	char name[64];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(cs_rundir_parse_name(bad[i], &pid, &ticks), -EINVAL);
	assert_int_equal(pid, 5);
	assert_int_equal(ticks, 6);
	assert_int_equal(cs_rundir_parse_name("4711-0.seg", &pid, &ticks), 0);
	assert_int_equal(pid, 4711);
	assert_int_equal(ticks, 0);
	assert_int_equal(cs_rundir_parse_name("2147483647-18446744073709551615.seg", &pid, &ticks), 0);
	assert_int_equal(pid, INT32_MAX);
	assert_true(ticks == UINT64_MAX);
	assert_int_equal(cs_rundir_format_name(pid, ticks, name, sizeof(name)), 0);
	assert_string_equal(name, "2147483647-18446744073709551615.seg");
	assert_int_equal(cs_rundir_format_name(pid, ticks, name, strlen(name)), -ENAMETOOLONG);
	assert_int_equal(cs_rundir_format_name(1, 2, name, 8), 0);
	assert_string_equal(name, "1-2.seg");
}

static void
test_temporary_names(void **state)
{
	static const char *const bad[] = {"", ".", ".tmp", "1-2.0.tmp", ".1-2.tmp", ".1-2.0.tm",
		".1-2.0.tmpx", ".1-2.-1.tmp", ".1-x.0.tmp", ".x-2.0.tmp", ".1-2.seg", ".1-2.0.seg",
		".2147483648-1.0.tmp", "..1-2.0.tmp"};
	char name[64];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(cs_rundir_is_temporary(bad[i]));
	assert_int_equal(cs_rundir_format_temporary(INT32_MAX, UINT64_MAX, UINT_MAX, name, sizeof(name)), 0);
	assert_string_equal(name, ".2147483647-18446744073709551615.4294967295.tmp");
	assert_true(cs_rundir_is_temporary(name));
	assert_true(cs_rundir_is_temporary(".1-0.0.tmp"));
	assert_int_equal(cs_rundir_format_temporary(1, 2, 3, name, 10), -ENAMETOOLONG);
}

static void
test_resolve(void **state)
{
	char path[PATH_MAX], expected[64];

	(void)state;
	errno = 4711;
	assert_int_equal(cs_rundir_resolve("/somewhere", path, sizeof(path)), 0);
	assert_string_equal(path, "/somewhere");
	assert_int_equal(cs_rundir_resolve("relative", path, sizeof(path)), -EINVAL);
	assert_int_equal(cs_rundir_resolve("/somewhere", path, 10), -ENAMETOOLONG);
	assert_int_equal(cs_rundir_resolve("/somewhere", path, 11), 0);
	/* One of two, by what this user may do in /run. Empty is as not set. */
	snprintf(expected, sizeof(expected), "/dev/shm/collscope-%u", (unsigned int)geteuid());
	for (int i = 0; i < 2; i++) {
		assert_int_equal(cs_rundir_resolve(i ? "" : NULL, path, sizeof(path)), 0);
		assert_true(strcmp(path, expected) == 0 || strcmp(path, "/run/collscope") == 0);
	}
	assert_int_equal(errno, 4711);
}

/* As somebody who may not write /run: the fallback, and the traps that may be laid there. Exit status of the
 * child. */
static int
prepare_as(uid_t nobody, const char *expected, const char *trap)
{
	char path[PATH_MAX];
	struct stat status;
	int result;

	umask(0);
	if (strcmp(trap, "theirs") == 0 && mkdir(expected, 0777) != 0)
		return 90;
	if (seteuid(nobody) != 0)
		return 91;
	if (strcmp(trap, "link") == 0 && symlink("/tmp", expected) != 0)
		return 92;
	if (strcmp(trap, "open") == 0 && mkdir(expected, 0777) != 0)
		return 93;
	if (strcmp(trap, "file") == 0 && close(open(expected, O_CREAT | O_WRONLY, 0600)) != 0)
		return 94;
	result = cs_rundir_prepare(NULL, path, sizeof(path));
	if (result != 0)
		return -result;
	if (strcmp(path, expected) != 0 || lstat(path, &status) != 0 || (status.st_mode & 07777) != 0700)
		return 95;
	/* Again: it is ours. */
	return -cs_rundir_prepare(NULL, path, sizeof(path));
}

static void
test_fallback(void **state)
{
	static const struct {
		const char *trap;
		int expected;
	} cases[] = {{"", 0}, {"theirs", EPERM}, {"link", ENOTDIR}, {"open", EPERM}, {"file", ENOTDIR}};

	/* Of this run alone. */
	uid_t nobody = 100000 + (uid_t)getpid();
	char expected[64];

	(void)state;
	snprintf(expected, sizeof(expected), "/dev/shm/collscope-%u", (unsigned int)nobody);
	if (geteuid() != 0 || access("/dev/shm", W_OK) != 0) {
		print_message("not root, or no /dev/shm: not tested\n");
		skip();
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pid_t child = fork();
		int got;

		if (child == 0)
			_exit(prepare_as(nobody, expected, cases[i].trap));
		got = fixture_wait(child);
		if (rmdir(expected) != 0)
			unlink(expected);
		if (got != cases[i].expected)
			fail_msg("trap '%s': %d, expected %d", cases[i].trap, got, cases[i].expected);
	}
}

static void
test_prepare(void **state)
{
	const struct fixture *fixture = *state;
	char path[PATH_MAX], wanted[FIXTURE_PATH_BYTES + 32];
	struct stat status;

	errno = 4711;
	snprintf(wanted, sizeof(wanted), "%s/new", fixture->directory);
	assert_int_equal(cs_rundir_prepare(wanted, path, sizeof(path)), 0);
	assert_string_equal(path, wanted);
	assert_int_equal(errno, 4711);
	assert_int_equal(stat(path, &status), 0);
	assert_true(S_ISDIR(status.st_mode));
	assert_int_equal(status.st_mode & 07777, 0700);
	assert_int_equal(cs_rundir_prepare(wanted, path, sizeof(path)), 0);
	snprintf(wanted, sizeof(wanted), "%s/none/new", fixture->directory);
	assert_int_equal(cs_rundir_prepare(wanted, path, sizeof(path)), -ENOENT);
	snprintf(wanted, sizeof(wanted), "%s/file", fixture->directory);
	close(open(wanted, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(cs_rundir_prepare(wanted, path, sizeof(path)), -ENOTDIR);
	assert_int_equal(cs_rundir_prepare("relative", path, sizeof(path)), -EINVAL);
}

struct visits {
	unsigned int count;
	unsigned int stop_at;
	bool seen[4];
};

static int
visit(const char *path, const char *name, void *context)
{
	struct visits *visits = context;
	const char *slash = strrchr(path, '/');

	assert_string_equal(slash + 1, name);
	assert_int_equal(access(path, F_OK), 0);
	visits->seen[name[0] - '0'] = true;
	visits->count++;
	return visits->count == visits->stop_at ? 42 : 0;
}

static void
test_each(void **state)
{
	static const char *const names[] = {
		"1-10.seg", "2-10.seg", "3-10.seg", "exporter.lock", ".1-10.0.tmp"};
	const struct fixture *fixture = *state;
	struct visits visits = {0};
	char path[FIXTURE_PATH_BYTES + 32];

	assert_int_equal(cs_rundir_each(fixture->directory, visit, &visits), 0);
	assert_int_equal(visits.count, 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", fixture->directory, names[i]);
		close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	}
	assert_int_equal(cs_rundir_each(fixture->directory, visit, &visits), 0);
	assert_int_equal(visits.count, 3);
	assert_true(visits.seen[1] && visits.seen[2] && visits.seen[3]);
	visits = (struct visits){.stop_at = 2};
	assert_int_equal(cs_rundir_each(fixture->directory, visit, &visits), 42);
	assert_int_equal(visits.count, 2);
	snprintf(path, sizeof(path), "%s/none", fixture->directory);
	assert_int_equal(cs_rundir_each(path, visit, &visits), -ENOENT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_temporary_names),
		cmocka_unit_test(test_resolve),
		cmocka_unit_test(test_fallback),
		TEST(test_prepare),
		TEST(test_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
