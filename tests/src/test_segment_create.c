/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a segment file in one process, and what its creation does when something is in the way. */
#include "descriptors.h"
#include "segment/rundir.h"
#include "segment/segment_layout.h"
#include "segment_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static int
create_in(const char *directory, uint32_t ring_slots, struct cs_segment_writer **writer)
{
	struct cs_segment_options options = {
		.directory = directory, .ring_slots = ring_slots, .version = "v"};

	return cs_segment_writer_create(&options, writer);
}

static void
test_ring_limits(void **state)
{
	static const uint32_t bad[] = {1, 512, 1023, 1025, 3000, 1048577, 2097152, UINT32_MAX};
	const struct fixture *fixture = *state;
	struct cs_segment_writer *writer;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		writer = (void *)1;
		assert_int_equal(create_in(fixture->directory, bad[i], &writer), -EINVAL);
		assert_null(writer);
	}
	assert_int_equal(fixture_files(fixture), 0);
	writer = fixture_writer(fixture, CS_RING_SLOTS_MIN);
	cs_segment_writer_destroy(writer, true);
	writer = fixture_writer(fixture, 0);
	assert_true(cs_segment_writer_mapped_bytes(writer) > CS_RING_SLOTS_DEFAULT * 64ULL);
	cs_segment_writer_destroy(writer, true);
	assert_int_equal(fixture_files(fixture), 0);
}

/* Field 22 as ps(1)'s authors read it: by sscanf, on a name that has no spaces. */
static unsigned long long
start_ticks(void)
{
	unsigned long long ticks = 0;
	FILE *file = fopen("/proc/self/stat", "r");

	assert_non_null(file);
	assert_int_equal(
		fscanf(file,
			"%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
			"%*d %*d %llu",
			&ticks),
		1);
	fclose(file);
	return ticks;
}

static void
test_identity(void **state)
{
	const struct fixture *fixture = *state;
	mode_t mask = umask(0777);
	struct cs_segment_writer *writer = fixture_writer(fixture, 1024);
	const char *path = cs_segment_writer_path(writer);
	const struct cs_process_info *process;
	struct cs_segment_reader *reader;
	char expected[FIXTURE_PATH_BYTES + 64];
	struct stat status;

	umask(mask);
	snprintf(expected, sizeof(expected), "%s/%d-%llu.seg", fixture->directory, (int)getpid(),
		start_ticks());
	assert_string_equal(path, expected);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	assert_int_equal(fixture_files(fixture), 1);
	reader = fixture_reader(path, true);
	assert_string_equal(cs_segment_reader_path(reader), path);
	process = &cs_segment_reader_borrow_dictionary(reader)->process;
	assert_int_equal(process->pid, getpid());
	assert_int_equal(process->uid, geteuid());
	assert_int_equal(process->start_time_ticks, start_ticks());
	assert_int_equal(stat("/proc/self/ns/pid", &status), 0);
	assert_int_equal(process->pid_namespace_inode, status.st_ino);
	assert_int_equal(process->parent_pid, getppid());
	assert_string_equal(process->injector_version, "test 1");
	assert_int_equal(process->rank, -1);
	assert_int_equal(process->world, -1);
	cs_segment_reader_close(reader);
	cs_segment_writer_destroy(writer, false);
	assert_int_equal(fixture_files(fixture), 1);
}

static void
test_sign_of_life(void **state)
{
	const struct fixture *fixture = *state;
	unsigned int before = count_descriptors();
	struct cs_segment_writer *writer = fixture_writer(fixture, 1024);
	struct cs_segment_reader *reader;

	/* /tmp is no overlay here, or it is: then one descriptor has to stay. */
	assert_true(count_descriptors() <= before + 1);
	reader = fixture_reader(cs_segment_writer_path(writer), true);
	assert_int_equal(cs_segment_reader_writer_alive(reader), 1);
	cs_segment_writer_destroy(writer, false);
	assert_int_equal(cs_segment_reader_writer_alive(reader), 0);
	cs_segment_reader_close(reader);
	assert_int_equal(count_descriptors(), before);
}

static void
test_taken_name(void **state)
{
	const struct fixture *fixture = *state;
	struct cs_segment_writer *first = fixture_writer(fixture, 1024);
	struct cs_segment_writer *second = fixture_writer(fixture, 1024);
	struct cs_segment_reader *reader;

	assert_string_not_equal(cs_segment_writer_path(first), cs_segment_writer_path(second));
	reader = fixture_reader(cs_segment_writer_path(second), true);
	/* The name says another tick; the header has the true one. */
	assert_int_equal(
		cs_segment_reader_borrow_dictionary(reader)->process.start_time_ticks, start_ticks());
	cs_segment_writer_destroy(first, true);
	assert_int_equal(cs_segment_reader_writer_alive(reader), 1);
	cs_segment_reader_close(reader);
	cs_segment_writer_destroy(second, true);
	assert_int_equal(fixture_files(fixture), 0);
}

static void
test_bad_directories(void **state)
{
	const struct fixture *fixture = *state;
	struct cs_segment_writer *writer;
	char path[2048];
	size_t length;

	errno = 4711;
	snprintf(path, sizeof(path), "%s/none", fixture->directory);
	assert_int_equal(create_in(path, 1024, &writer), -ENOENT);
	assert_int_equal(errno, 4711);
	assert_int_equal(create_in("/proc/self/stat", 1024, &writer), -ENOTDIR);
	/* The same directory, by a name too long for a segment's path. */
	length = (size_t)snprintf(path, sizeof(path), "%s", fixture->directory);
	while (length < CS_SEGMENT_PATH_BYTES) {
		memcpy(path + length, "/.", 3);
		length += 2;
	}
	assert_int_equal(create_in(path, 1024, &writer), -ENAMETOOLONG);
	assert_int_equal(fixture_files(fixture), 0);
	assert_int_equal(errno, 4711);
	cs_segment_writer_destroy(NULL, true);
	cs_segment_writer_abandon(NULL);
}

/* The default end of SIGXFSZ would be the host's. */
static void
test_file_size_limit(void **state)
{
	const struct fixture *fixture = *state;
	pid_t child = fork();

	if (child == 0) {
		struct rlimit limit = {.rlim_cur = 65536, .rlim_max = RLIM_INFINITY};
		struct cs_segment_writer *writer;

		signal(SIGXFSZ, SIG_DFL);
		if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
			_exit(1);
		_exit(create_in(fixture->directory, 1024, &writer) == -EFBIG ? 0 : 2);
	}
	assert_int_equal(fixture_wait(child), 0);
	assert_int_equal(fixture_files(fixture), 0);
}

int __real_posix_fallocate(int fd, off_t offset, off_t bytes);
int __wrap_posix_fallocate(int fd, off_t offset, off_t bytes);
static unsigned int interruptions;

/* A tmpfs as it was: whoever can be interrupted is, a hundred times (then it lets go, or this would not end).
 */
int
__wrap_posix_fallocate(int fd, off_t offset, off_t bytes)
{
	sigset_t blocked;

	sigprocmask(SIG_SETMASK, NULL, &blocked);
	if (sigismember(&blocked, SIGPROF) || ++interruptions > 100)
		return __real_posix_fallocate(fd, offset, bytes);
	return EINTR;
}

static void
test_signals_do_not_hold_it_up(void **state)
{
	const struct fixture *fixture = *state;
	sigset_t before, after;

	interruptions = 0;
	sigprocmask(SIG_SETMASK, NULL, &before);
	cs_segment_writer_destroy(fixture_writer(fixture, 1024), true);
	sigprocmask(SIG_SETMASK, NULL, &after);
	assert_int_equal(interruptions, 0);
	for (int number = 1; number < NSIG; number++)
		assert_int_equal(sigismember(&after, number), sigismember(&before, number));
}

/* A tmpfs that this process alone sees, and that ends with it; skips the test when that is not allowed. */
static void
mount_private(const char *path, const char *options)
{
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
		mount("none", path, "tmpfs", 0, options) != 0) {
		print_message("mounting is not allowed: not tested\n");
		skip();
	}
}

/* 256 KiB is less than the smallest segment. */
static void
test_full_file_system(void **state)
{
	const struct fixture *fixture = *state;
	struct cs_segment_writer *writer;

	mount_private(fixture->directory, "size=256k");
	assert_int_equal(create_in(fixture->directory, 1024, &writer), -ENOSPC);
	assert_null(writer);
	assert_int_equal(fixture_files(fixture), 0);
	assert_int_equal(umount(fixture->directory), 0);
}

/* A container's root: a mapping there does not hold the lock of the file that was opened. */
static void
check_overlay(const char *merged)
{
	struct cs_segment_reader *reader;
	struct cs_segment_writer *writer;
	char path[FIXTURE_PATH_BYTES + 16];
	int other;

	assert_int_equal(create_in(merged, 1024, &writer), 0);
	reader = fixture_reader(cs_segment_writer_path(writer), true);
	assert_int_equal(cs_segment_reader_writer_alive(reader), 1);
	cs_segment_writer_abandon(writer);
	assert_int_equal(cs_segment_reader_writer_alive(reader), 0);
	cs_segment_writer_destroy(writer, false);
	cs_segment_reader_close(reader);

	/* The host closes all descriptors and opens files of its own: those must stay open. */
	assert_int_equal(create_in(merged, 1024, &writer), 0);
	for (int fd = 3; fd < 256; fd++)
		close(fd);
	/* Of the same file system, so that only the inode tells. */
	snprintf(path, sizeof(path), "%s/host", merged);
	other = -1;
	for (int fd = 3; fd < 64; fd++)
		other = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(other >= 0);
	cs_segment_writer_destroy(writer, false);
	for (int fd = 3; fd <= other; fd++)
		assert_int_equal(close(fd), 0);
}

static void
test_overlay(void **state)
{
	const struct fixture *fixture = *state;
	char merged[FIXTURE_PATH_BYTES + 8], options[4 * FIXTURE_PATH_BYTES];
	static const char *const names[] = {"low", "up", "work", "all"};

	mount_private(fixture->directory, "size=64m");
	for (size_t i = 0; i < 4; i++) {
		snprintf(merged, sizeof(merged), "%s/%s", fixture->directory, names[i]);
		assert_int_equal(mkdir(merged, 0700), 0);
	}
	snprintf(options, sizeof(options), "lowerdir=%s/low,upperdir=%s/up,workdir=%s/work",
		fixture->directory, fixture->directory, fixture->directory);
	if (mount("overlay", merged, "overlay", 0, options) == 0) {
		check_overlay(merged);
		assert_int_equal(umount(merged), 0);
		assert_int_equal(umount(fixture->directory), 0);
		return;
	}
	assert_int_equal(umount(fixture->directory), 0);
	print_message("no overlayfs: not tested\n");
	skip();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_ring_limits),
		TEST(test_identity),
		TEST(test_sign_of_life),
		TEST(test_taken_name),
		TEST(test_bad_directories),
		TEST(test_file_size_limit),
		TEST(test_signals_do_not_hold_it_up),
		TEST(test_full_file_system),
		TEST(test_overlay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
