/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: answers, errors, and askers that die in the middle. Several at a time: test_segment_threads.c. */
#include "segment_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG_MS 60000

static int
ask(const char *path, enum cs_command command, uint64_t from_ns, unsigned int timeout_ms)
{
	struct cs_error error = {.text = ""};
	int result = cs_segment_request(path, command, from_ns, from_ns + 1, timeout_ms, &error);

	/* There is a sentence if and only if there is an error. */
	if ((result == 0) != (error.text[0] == '\0'))
		return -4711;
	return result;
}

/* A child that asks, while this process answers; the exit status is the positive error. */
static pid_t
ask_in_child(const char *path, enum cs_command command, uint64_t from_ns)
{
	pid_t child = fork();

	if (child == 0)
		_exit(-ask(path, command, from_ns, LONG_MS));
	return child;
}

static void
await(struct cs_segment_writer *writer, struct cs_segment_request *request)
{
	while (!cs_segment_writer_take_request(writer, request))
		usleep(200);
}

static void
test_answers(void **state)
{
	static const int errors[] = {0, EINVAL, EBUSY, 0};
	struct cs_segment_writer *writer = fixture_writer(*state, 1024);
	struct cs_segment_request request;

	assert_false(cs_segment_writer_take_request(writer, &request));
	for (uint64_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		pid_t child = ask_in_child(cs_segment_writer_path(writer), CS_COMMAND_PAUSE, i + 100);

		await(writer, &request);
		assert_int_equal(request.command, CS_COMMAND_PAUSE);
		assert_int_equal(request.from_ns, i + 100);
		assert_int_equal(request.until_ns, i + 101);
		cs_segment_writer_answer(writer, &request, errors[i]);
		assert_false(cs_segment_writer_take_request(writer, &request));
		assert_int_equal(fixture_wait(child), errors[i]);
	}
	cs_segment_writer_destroy(writer, true);
}

static void
test_no_answer(void **state)
{
	struct cs_segment_writer *writer = fixture_writer(*state, 1024);
	char path[FIXTURE_PATH_BYTES];
	struct cs_segment_request request;

	snprintf(path, sizeof(path), "%s", cs_segment_writer_path(writer));
	assert_int_equal(ask(path, CS_COMMAND_TRACE, 1, 5), -ETIMEDOUT);
	/* Its asker has given up; it is a request all the same, until another one takes its place. */
	assert_true(cs_segment_writer_take_request(writer, &request));
	assert_int_equal(request.from_ns, 1);
	assert_int_equal(ask(path, CS_COMMAND_RESUME, 2, 5), -ETIMEDOUT);
	/* The late answer to the first is none to the second. */
	cs_segment_writer_answer(writer, &request, 0);
	assert_true(cs_segment_writer_take_request(writer, &request));
	assert_int_equal(request.command, CS_COMMAND_RESUME);
	cs_segment_writer_destroy(writer, false);
	assert_int_equal(ask(path, CS_COMMAND_TRACE, 1, LONG_MS), -ENOTCONN);
	unlink(path);
	assert_int_equal(ask(path, CS_COMMAND_TRACE, 1, LONG_MS), -ENOENT);
}

/* The writer dies while somebody waits for its answer. */
static void
test_writer_dies(void **state)
{
	struct cs_segment_writer *writer = fixture_writer(*state, 1024);
	struct cs_segment_request request;
	/* The asker's copy of the writer is no sign of life: it is a fork child. */
	pid_t child = fork();

	if (child == 0) {
		char path[FIXTURE_PATH_BYTES];

		snprintf(path, sizeof(path), "%s", cs_segment_writer_path(writer));
		cs_segment_writer_abandon(writer);
		_exit(-ask(path, CS_COMMAND_TRACE, 1, LONG_MS));
	}
	await(writer, &request);
	cs_segment_writer_destroy(writer, false);
	assert_int_equal(fixture_wait(child), ENOTCONN);
}

/* An asker that died between the odd and the even number, at each point. */
static void
test_half_written(void **state)
{
	struct cs_segment_writer *writer = fixture_writer(*state, 1024);
	struct cs_control *control = cs_segment_writer_control(writer);
	struct cs_segment_request request;
	pid_t child;

	atomic_store(&control->request_sequence, 7);
	atomic_store(&control->command, CS_COMMAND_PAUSE);
	assert_false(cs_segment_writer_take_request(writer, &request));
	atomic_store(&control->from_ns, 4711);
	assert_false(cs_segment_writer_take_request(writer, &request));
	child = ask_in_child(cs_segment_writer_path(writer), CS_COMMAND_RESUME, 5);
	await(writer, &request);
	assert_int_equal(request.sequence, 8);
	assert_int_equal(request.command, CS_COMMAND_RESUME);
	assert_int_equal(request.from_ns, 5);
	cs_segment_writer_answer(writer, &request, 0);
	assert_int_equal(fixture_wait(child), 0);
	cs_segment_writer_destroy(writer, true);
}

/* Askers that are killed at any moment: whatever is taken is whole, and the next asker is served. */
static void
test_killed_askers(void **state)
{
	struct cs_segment_writer *writer = fixture_writer(*state, 1024);
	struct cs_segment_request request;

	for (unsigned int round = 0; round < 40; round++) {
		pid_t doomed = ask_in_child(cs_segment_writer_path(writer), CS_COMMAND_PAUSE, 1000 + round);
		pid_t child;

		usleep(round * 50);
		assert_int_equal(kill(doomed, SIGKILL), 0);
		assert_int_equal(fixture_wait(doomed), -1);
		child = ask_in_child(cs_segment_writer_path(writer), CS_COMMAND_TRACE, 5000 + round);
		do {
			await(writer, &request);
			assert_int_equal(request.until_ns, request.from_ns + 1);
			assert_int_equal(request.command,
				request.from_ns < 5000 ? CS_COMMAND_PAUSE : CS_COMMAND_TRACE);
			cs_segment_writer_answer(writer, &request, 0);
		} while (request.from_ns != 5000 + round);
		assert_int_equal(fixture_wait(child), 0);
	}
	cs_segment_writer_destroy(writer, true);
}

/* Somebody holds the lock of CONTROL and does nothing. */
static void
test_locked_out(void **state)
{
	struct cs_segment_writer *writer = fixture_writer(*state, 1024);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};
	int fd = open(cs_segment_writer_path(writer), O_RDWR | O_CLOEXEC);
	struct cs_segment_request request;

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
	assert_int_equal(ask(cs_segment_writer_path(writer), CS_COMMAND_TRACE, 1, 5), -ETIMEDOUT);
	assert_false(cs_segment_writer_take_request(writer, &request));
	close(fd);
	cs_segment_writer_destroy(writer, true);
}

/* A result that is no errno. */
static void
test_hostile_answer(void **state)
{
	struct cs_segment_writer *writer = fixture_writer(*state, 1024);
	struct cs_status *status = cs_segment_writer_status(writer);
	struct cs_segment_request request;
	pid_t child = ask_in_child(cs_segment_writer_path(writer), CS_COMMAND_TRACE, 1);

	await(writer, &request);
	atomic_store(&status->control_result, 1ULL << 40);
	atomic_store(&status->control_done, request.sequence);
	assert_int_equal(fixture_wait(child), EBADMSG);
	cs_segment_writer_destroy(writer, true);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_answers),
		TEST(test_no_answer),
		TEST(test_writer_dies),
		TEST(test_half_written),
		TEST(test_killed_askers),
		TEST(test_locked_out),
		TEST(test_hostile_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
