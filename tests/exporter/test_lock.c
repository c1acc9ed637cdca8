/* SPDX-License-Identifier: Apache-2.0 */
/* One exporter per directory: taken, refused, let go, and taken again when the holder was killed. */
#include "lock.h"
#include "segment/exporter_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka.h needs those above first. */
#include <cmocka.h>

static char directory[64];

static int
make_directory(void **state)
{
	(void)state;
	strcpy(directory, "/tmp/collscope-lock-XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int
remove_directory(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/" CS_EXPORTER_LOCK_NAME, directory);
	unlink(path);
	return rmdir(directory);
}

static void
test_second_is_refused(void **state)
{
	struct cs_error error;
	char path[128];
	int first = cs_lock_take(directory, &error);
	int second;

	(void)state;
	assert_true(first >= 0);
	assert_int_equal(cs_lock_describe(first, "127.0.0.1:19400"), 0);
	/* An open-file-description lock excludes other openings of the same process too. */
	second = cs_lock_take(directory, &error);
	assert_int_equal(second, -EWOULDBLOCK);
	assert_non_null(strstr(error.text, "address 127.0.0.1:19400"));
	snprintf(path, sizeof(path), "pid %ld,", (long)getpid());
	assert_non_null(strstr(error.text, path));
	cs_lock_release(directory, first);
	snprintf(path, sizeof(path), "%s/" CS_EXPORTER_LOCK_NAME, directory);
	assert_int_equal(access(path, F_OK), -1);
	first = cs_lock_take(directory, &error);
	assert_true(first >= 0);
	cs_lock_release(directory, first);
}

static void
test_killed_holder(void **state)
{
	struct cs_exporter_serving serving;
	struct cs_error error;
	int ready[2];
	char byte;
	pid_t child;
	int fd;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		fd = cs_lock_take(directory, &error);
		cs_lock_describe(fd, "127.0.0.1:19400");
		if (write(ready[1], fd >= 0 ? "y" : "n", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(byte, 'y');
	assert_int_equal(cs_lock_take(directory, &error), -EWOULDBLOCK);
	assert_int_equal(cs_exporter_find_serving(directory, &serving), 0);
	assert_int_equal(serving.pid, child);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_int_equal(cs_exporter_find_serving(directory, &serving), -ENOENT);
	fd = cs_lock_take(directory, &error);
	assert_true(fd >= 0);
	/* What the dead one wrote is not to be taken for what its successor says. */
	assert_int_equal(cs_exporter_find_serving(directory, &serving), -EAGAIN);
	assert_int_equal(cs_lock_describe(fd, "127.0.0.1:19401"), 0);
	assert_int_equal(cs_exporter_find_serving(directory, &serving), 0);
	assert_string_equal(serving.address, "127.0.0.1:19401");
	cs_lock_release(directory, fd);
	close(ready[0]);
	close(ready[1]);
}

/* Four processes take and let go as fast as they can; whoever holds the lock is alone with a file that nobody
 * else may make. A lock on a file that was unlinked meanwhile would let two in. */
#define ROUNDS 2000
static int
compete(void)
{
	struct cs_error error;
	char path[128];

	snprintf(path, sizeof(path), "%s/inside", directory);
	for (int round = 0; round < ROUNDS; round++) {
		int fd = cs_lock_take(directory, &error);
		int inside;

		if (fd < 0)
			continue;
		inside = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
		if (inside < 0)
			return 1;
		close(inside);
		unlink(path);
		cs_lock_release(directory, fd);
	}
	return 0;
}

static void
test_never_two(void **state)
{
	pid_t children[4];

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		children[i] = fork();
		if (children[i] == 0)
			_exit(compete());
	}
	for (size_t i = 0; i < 4; i++) {
		int status;

		waitpid(children[i], &status, 0);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

static void
test_links_are_refused(void **state)
{
	struct cs_error error;
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/" CS_EXPORTER_LOCK_NAME, directory);
	assert_int_equal(symlink("/tmp/collscope-elsewhere", path), 0);
	assert_int_equal(cs_lock_take(directory, &error), -ELOOP);
	assert_int_equal(access("/tmp/collscope-elsewhere", F_OK), -1);
	unlink(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_second_is_refused, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(test_killed_holder, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(test_never_two, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(test_links_are_refused, make_directory, remove_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
