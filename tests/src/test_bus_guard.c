/* SPDX-License-Identifier: Apache-2.0 */
/* Files that shrink under their readers, and SIGBUS that is somebody else's. */
#include "segment/bus_guard.h"
#include "segment_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PAGES 4

/* A mapping of PAGES pages of which the file has none. */
static char *
map_nothing(size_t *length)
{
	char name[] = "/tmp/collscope-test-XXXXXX";
	int fd = mkstemp(name);
	void *base;

	*length = (size_t)sysconf(_SC_PAGESIZE) * PAGES;
	assert_true(fd >= 0);
	unlink(name);
	base = mmap(NULL, *length, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(base != MAP_FAILED);
	close(fd);
	return base;
}

struct touch {
	char *at;
	unsigned int steps;
};

static int
touch(void *context)
{
	struct touch *touch = context;

	touch->steps++;
	(void)*(volatile char *)touch->at;
	touch->steps++;
	return 17;
}

static void
test_guard(void **state)
{
	size_t length;
	char *base = map_nothing(&length);
	char here = 'x';
	struct touch missing = {.at = base + length - 1};
	struct touch present = {.at = &here};

	(void)state;
	for (unsigned int i = 1; i <= 3; i++) {
		assert_int_equal(cs_bus_guard_call(base, length, touch, &missing), -EIO);
		assert_int_equal(missing.steps, i);
	}
	assert_int_equal(cs_bus_guard_call(base, length, touch, &present), 17);
	assert_int_equal(present.steps, 2);
	munmap(base, length);
}

struct nested {
	char *inner, *outer;
	size_t length;
	int inner_result;
};

static int
nest(void *context)
{
	struct nested *nested = context;
	struct touch of_inner = {.at = nested->inner};
	struct touch of_outer = {.at = nested->outer};

	nested->inner_result = cs_bus_guard_call(nested->inner, nested->length, touch, &of_inner);
	/* A fault of the outer mapping, inside the inner call. */
	return cs_bus_guard_call(nested->inner, nested->length, touch, &of_outer);
}

static void
test_nested(void **state)
{
	struct nested nested = {.inner_result = 0};

	(void)state;
	nested.inner = map_nothing(&nested.length);
	nested.outer = map_nothing(&nested.length);
	assert_int_equal(cs_bus_guard_call(nested.outer, nested.length, nest, &nested), -EIO);
	assert_int_equal(nested.inner_result, -EIO);
	munmap(nested.inner, nested.length);
	munmap(nested.outer, nested.length);
}

static void
exit_with_42(int signal_number)
{
	(void)signal_number;
	_exit(42);
}

/* In a child, as what is there before the first guarded call counts. */
static int
fault_elsewhere(void (*before)(int), bool by_kill)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		size_t length;
		char *ours = map_nothing(&length);
		char *other = map_nothing(&length);
		struct touch missing = {.at = ours};

		signal(SIGBUS, before);
		if (cs_bus_guard_call(ours, length, touch, &missing) != -EIO)
			_exit(1);
		if (by_kill)
			raise(SIGBUS);
		else
			(void)*(volatile char *)other;
		/* Still alive: the guard must be too. */
		_exit(cs_bus_guard_call(ours, length, touch, &missing) == -EIO ? 2 : 3);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void
test_others(void **state)
{
	(void)state;
	assert_int_equal(fault_elsewhere(exit_with_42, false), 42);
	assert_int_equal(fault_elsewhere(exit_with_42, true), 42);
	assert_int_equal(fault_elsewhere(SIG_DFL, false), -SIGBUS);
	assert_int_equal(fault_elsewhere(SIG_DFL, true), -SIGBUS);
	assert_int_equal(fault_elsewhere(SIG_IGN, false), -SIGBUS);
	assert_int_equal(fault_elsewhere(SIG_IGN, true), 2);
}

/* Each page of the file as the new end: every call gives -EIO or what it should, and closing is clean. */
static void
test_truncated_segment(void **state)
{
	for (off_t pages = 0; pages < 64; pages++) {
		struct cs_segment_writer *writer = fixture_writer(*state, 1024);
		const char *path = cs_segment_writer_path(writer);
		struct cs_segment_reader *reader = fixture_reader(path, true);
		struct cs_record record = fixture_record(1);
		struct cs_status status;
		size_t count = 99;
		int result;

		cs_segment_writer_name(writer, "a");
		cs_segment_writer_append(writer, &record);
		assert_int_equal(truncate(path, pages * CS_SEGMENT_PAGE_BYTES), 0);
		result = cs_segment_reader_read(reader, &record, 1, &count);
		/* The ring is the last section: without it there is nothing to read. */
		assert_int_equal(result, -EIO);
		assert_int_equal(count, 0);
		result = cs_segment_reader_status(reader, &status);
		assert_int_equal(result, pages < 3 ? -EIO : 0);
		result = cs_segment_reader_refresh(reader);
		assert_true(result == 0 || result == -EIO);
		assert_int_equal(cs_segment_reader_writer_alive(reader), 1);
		cs_segment_reader_close(reader);
		/* The writer's own pages beyond the end are gone too: nothing but unmapping. */
		cs_segment_writer_destroy(writer, true);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

/* In a process of its own: the guard installs its handler once, and cmocka puts its own back around every
 * test. */
static bool
run_alone(const struct CMUnitTest *test)
{
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		const struct CMUnitTest tests[] = {*test};

		exit(cmocka_run_group_tests(tests, NULL, NULL));
	}
	return fixture_wait(child) == 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_guard),
		cmocka_unit_test(test_nested),
		cmocka_unit_test(test_others),
		TEST(test_truncated_segment),
	};
	int failed = 0;

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		failed += !run_alone(&tests[i]);
	return failed;
}
