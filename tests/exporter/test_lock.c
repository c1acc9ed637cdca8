/* SPDX-License-Identifier: Apache-2.0 */
/* One exporter per directory: taken, refused, let go, and taken again when the holder was killed, also when
 * it was another user's. */
#include "lock.h"
#include "segment/exporter_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka.h needs those above first. */
#include <cmocka.h>

#define SOME_UID 65534

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

static void
path_of_lock(char path[128])
{
	snprintf(path, 128, "%s/" CS_EXPORTER_LOCK_NAME, directory);
}

/* As another user's file is to who is not root. */
static void
make_unwritable(void)
{
	char path[128];

	path_of_lock(path);
	chmod(path, 0444);
}

static int
become_somebody(void)
{
	return geteuid() == 0 ? setuid(SOME_UID) : 0;
}

/* Four processes take and let go as fast as they can; whoever holds the lock is alone with a file that nobody
 * else may make. A lock on a file that was unlinked meanwhile would let two in. */
#define ROUNDS 2000
static int
compete(bool abandon)
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
		if (abandon) {
			make_unwritable();
			close(fd);
		} else {
			cs_lock_release(directory, fd);
		}
	}
	return 0;
}

static void
let_compete(bool abandon)
{
	pid_t children[4];

	for (size_t i = 0; i < 4; i++) {
		children[i] = fork();
		if (children[i] == 0)
			_exit(become_somebody() < 0 ? 2 : compete(abandon));
	}
	for (size_t i = 0; i < 4; i++) {
		int status;

		waitpid(children[i], &status, 0);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

static void
test_never_two(void **state)
{
	(void)state;
	assert_int_equal(chmod(directory, 0777), 0);
	let_compete(false);
}

/* Each leaves a file that the next one has to remove. */
static void
test_never_two_with_abandoned_files(void **state)
{
	(void)state;
	assert_int_equal(chmod(directory, 0777), 0);
	let_compete(true);
}

/* What a process that may not write the file gets: 0 or the error, whose text is to hold `says`. */
static int
take_as_somebody(const char *says)
{
	struct cs_exporter_serving serving;
	struct cs_error error;
	pid_t child = fork();
	int status;

	cs_error_clear(&error);
	if (child == 0) {
		int fd = become_somebody() < 0 ? -ENOSYS : cs_lock_take(directory, &error);

		if (fd < 0 && !strstr(error.text, says))
			_exit(200);
		if (fd >= 0 && (cs_lock_describe(fd, "127.0.0.1:19401") < 0 ||
				       cs_exporter_find_serving(directory, &serving) < 0 ||
				       strcmp(serving.address, "127.0.0.1:19401") != 0))
			_exit(201);
		_exit(fd < 0 ? -fd : 0);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -202;
}

/* An exporter of another user, who may write everywhere, in a directory that is ours. */
static void
test_file_of_another_user(void **state)
{
	struct cs_error error;
	char path[128], whose[64];
	int fd = cs_lock_take(directory, &error);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(chmod(directory, 0777), 0);
	assert_int_equal(cs_lock_describe(fd, "127.0.0.1:19400"), 0);
	make_unwritable();
	assert_int_equal(take_as_somebody("address 127.0.0.1:19400"), -EWOULDBLOCK);
	path_of_lock(path);
	/* It is killed. One that may not be read may be held, one in a directory that is not ours stays. */
	close(fd);
	assert_int_equal(chmod(path, 0), 0);
	snprintf(whose, sizeof(whose), "which is uid %u's", (unsigned int)geteuid());
	assert_int_equal(take_as_somebody(whose), -EACCES);
	assert_int_equal(chmod(path, 0444), 0);
	assert_int_equal(chmod(directory, 0555), 0);
	assert_int_equal(take_as_somebody(whose), -EACCES);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(chmod(directory, 0777), 0);
	/* Another one is about to remove it: two could each remove what the other has made since. */
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(take_as_somebody("coming and going"), -EWOULDBLOCK);
	close(fd);
	assert_int_equal(take_as_somebody(""), 0);
}

static void
test_directory_that_may_not_be_written(void **state)
{
	(void)state;
	assert_int_equal(chmod(directory, 0555), 0);
	assert_int_equal(take_as_somebody("Permission denied"), -EACCES);
	assert_int_equal(chmod(directory, 0777), 0);
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
		cmocka_unit_test_setup_teardown(
			test_never_two_with_abandoned_files, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(test_file_of_another_user, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(
			test_directory_that_may_not_be_written, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(test_links_are_refused, make_directory, remove_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
