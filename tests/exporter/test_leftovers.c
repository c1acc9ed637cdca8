/* SPDX-License-Identifier: Apache-2.0 */
/* What a process leaves that was killed while it made its segment. */
#include "leftovers.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/collscope-leftovers-XXXXXX";

static int
setup(void **state)
{
	(void)state;
	memcpy(directory + sizeof(directory) - 7, "XXXXXX", 6);
	return mkdtemp(directory) ? 0 : -1;
}

static int
teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command);
}

/* A descriptor of the new file, as old as that. */
static int
make(const char *name, time_t age_s)
{
	struct timespec times[2] = {{.tv_sec = time(NULL) - age_s}, {.tv_sec = time(NULL) - age_s}};
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(futimens(fd, times), 0);
	return fd;
}

static int
is_there(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return access(path, F_OK) == 0;
}

static void
test_what_goes_and_what_stays(void **state)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
	char missing[256];
	int held;

	(void)state;
	close(make(".10-20.0.tmp", 1000));
	close(make(".11-20.0.tmp", 200));
	close(make(".12-20.0.tmp", 0));
	close(make("10-20.seg", 1000));
	close(make(".other.tmp", 1000));
	held = make(".13-20.0.tmp", 1000);
	assert_int_equal(fcntl(held, F_OFD_SETLK, &lock), 0);

	assert_int_equal(cs_leftovers_remove(directory, 300000000000), 1);
	assert_false(is_there(".10-20.0.tmp"));
	assert_true(is_there(".11-20.0.tmp"));
	/* Whatever is asked for: the youngest may be at its beginning. */
	assert_int_equal(cs_leftovers_remove(directory, 0), 1);
	assert_false(is_there(".11-20.0.tmp"));
	assert_true(is_there(".12-20.0.tmp"));
	assert_true(is_there("10-20.seg"));
	assert_true(is_there(".other.tmp"));
	assert_true(is_there(".13-20.0.tmp"));
	close(held);
	assert_int_equal(cs_leftovers_remove(directory, 0), 1);
	assert_false(is_there(".13-20.0.tmp"));
	snprintf(missing, sizeof(missing), "%s/missing", directory);
	assert_int_equal(cs_leftovers_remove(missing, 0), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_goes_and_what_stays, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
