/* SPDX-License-Identifier: Apache-2.0 */
/* Real processes: killed in the middle of appending, forked, executed anew. */
#include "segment_fixture.h"

#include <errno.h>
#include <pthread.h>
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

#define KILLED_WRITERS 3
#define RING_SLOTS     16384U

static int
create(const char *directory, struct cs_segment_writer **writer)
{
	struct cs_segment_options options = {
		.directory = directory, .ring_slots = RING_SLOTS, .version = "test"};

	return cs_segment_writer_create(&options, writer);
}

/* -- SIGKILL --------------------------------------------------------------------------------------------- */

struct endless {
	struct cs_segment_writer *writer;
	uint64_t id;
};

static void *
append_without_end(void *context)
{
	struct endless *endless = context;

	for (uint64_t i = 0;; i++) {
		struct cs_record record = fixture_record(endless->id << 40 | i);

		cs_segment_writer_append(endless->writer, &record);
	}
	return NULL;
}

static __attribute__((noreturn)) void
run_until_killed(const char *directory, int ready)
{
	static struct endless endless[KILLED_WRITERS];
	struct cs_segment_writer *writer;
	pthread_t thread;

	if (create(directory, &writer) != 0)
		_exit(1);
	for (uint64_t i = 0; i < KILLED_WRITERS; i++) {
		endless[i] = (struct endless){.writer = writer, .id = i};
		if (pthread_create(&thread, NULL, append_without_end, &endless[i]) != 0)
			_exit(1);
	}
	if (write(ready, "r", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

/* Everything that was published before the end is there, whole and in order; what is not there is said. */
static void
check_remains(const char *path)
{
	static struct cs_record records[RING_SLOTS];
	struct cs_segment_reader *reader = fixture_reader(path, true);
	uint64_t next[KILLED_WRITERS] = {0};
	struct cs_reader_losses losses;
	struct fixture_raw raw;
	const struct cs_ring_head *head;
	struct cs_status status;
	uint64_t published = 0;
	uint64_t got = 0;
	uint64_t oldest;
	size_t count;

	assert_int_equal(cs_segment_reader_writer_alive(reader), 0);
	do {
		assert_int_equal(cs_segment_reader_read(reader, records, RING_SLOTS, &count), 0);
		for (size_t i = 0; i < count; i++) {
			uint64_t id = records[i].start_ns >> 40;

			assert_true(fixture_intact(&records[i]));
			assert_true(id < KILLED_WRITERS && records[i].start_ns >= next[id]);
			next[id] = records[i].start_ns + 1;
		}
		got += count;
	} while (count != 0);
	/* What the file holds, counted without the reader. */
	fixture_map(path, &raw);
	head = fixture_section(&raw, CS_SECTION_RING);
	oldest = atomic_load(&head->head) > RING_SLOTS ? atomic_load(&head->head) - RING_SLOTS : 0;
	for (uint64_t number = oldest; number < atomic_load(&head->head); number++)
		published += atomic_load(&fixture_slot(&raw, number)->sequence) == number * 2 + 2;
	assert_int_equal(got, published);
	cs_segment_reader_losses(reader, &losses);
	assert_int_equal(losses.invalid, 0);
	assert_int_equal(cs_segment_reader_status(reader, &status), 0);
	/* Each thread leaves at most one record unfinished; drops of laps that are gone may explain some. */
	assert_true(got + losses.hole + losses.overrun <= atomic_load(&head->head) - oldest);
	assert_true(got > 0);
	fixture_unmap(&raw);
	cs_segment_reader_close(reader);
}

static void
wait_for_head(const char *path, uint64_t records)
{
	const struct cs_ring_head *head;
	struct fixture_raw raw;

	fixture_map(path, &raw);
	head = fixture_section(&raw, CS_SECTION_RING);
	while (atomic_load(&head->head) < records)
		usleep(50);
	fixture_unmap(&raw);
}

static void
test_killed(void **state)
{
	const struct fixture *fixture = *state;

	for (unsigned int round = 0; round < 20; round++) {
		char path[FIXTURE_PATH_BYTES];
		int ready[2];
		char byte;
		pid_t child;

		assert_int_equal(pipe(ready), 0);
		child = fork();
		if (child == 0)
			run_until_killed(fixture->directory, ready[1]);
		assert_int_equal(read(ready[0], &byte, 1), 1);
		fixture_only_path(fixture, path, sizeof(path));
		/* From the first records to several laps later. */
		wait_for_head(path, 10 + round * round * 500);
		assert_int_equal(kill(child, SIGKILL), 0);
		assert_int_equal(fixture_wait(child), -1);
		close(ready[0]);
		close(ready[1]);
		check_remains(path);
		unlink(path);
	}
}

/* -- fork ------------------------------------------------------------------------------------------------ */

/* What a child of the host does with the writer that it inherited: nothing that anybody could see. */
static int
use_abandoned(struct cs_segment_writer *writer)
{
	struct cs_record record = fixture_record(99);
	struct cs_label label = {.bytes = 1};
	struct cs_gpu gpu = {.nvml_index = 1};
	struct cs_communicator communicator = {.hash = 1};
	struct cs_status *status = cs_segment_writer_status(writer);
	struct cs_segment_request request;

	cs_segment_writer_abandon(writer);
	cs_segment_writer_append(writer, &record);
	cs_segment_writer_lose(writer, CS_LOSS_POOL_EMPTY, 1, 1);
	cs_segment_writer_text(writer, CS_TEXT_REASON, "child");
	cs_segment_writer_rank(writer, 1, 2);
	atomic_store(&status->heartbeat_ns, 77);
	if (cs_segment_writer_name(writer, "child") != 0 || cs_segment_writer_label(writer, &label) != 0 ||
		cs_segment_writer_communicator(writer, &communicator) != 0 ||
		cs_segment_writer_gpu(writer, &gpu) >= 0 ||
		cs_segment_writer_environment(writer, "A", "1") != 0 ||
		cs_segment_writer_borrow_label(writer, 1) || cs_segment_writer_take_request(writer, &request))
		return 1;
	return 0;
}

static void
test_fork(void **state)
{
	struct cs_segment_writer *writer = fixture_writer(*state, 1024);
	struct cs_segment_reader *reader = fixture_reader(cs_segment_writer_path(writer), true);
	struct cs_record record = fixture_record(1);
	int go[2], ready[2];
	size_t count;
	char byte;
	pid_t child;

	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		int result = use_abandoned(writer);

		if (write(ready[1], "r", 1) != 1 || read(go[0], &byte, 1) != 1)
			_exit(9);
		/* Of its parent's file: not the child's to remove. */
		cs_segment_writer_destroy(writer, true);
		_exit(result);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(cs_segment_reader_writer_alive(reader), 1);
	assert_int_equal(cs_segment_writer_append(writer, &record), 0);
	assert_int_equal(cs_segment_reader_read(reader, &record, 1, &count), 0);
	assert_int_equal(count, 1);
	assert_true(fixture_intact(&record) && record.start_ns == 1);
	assert_string_equal(cs_segment_reader_borrow_dictionary(reader)->process.reason, "");
	assert_int_equal(atomic_load(&cs_segment_writer_status(writer)->heartbeat_ns), 0);
	/* The child lives on, and is no sign of its parent's life. */
	cs_segment_writer_destroy(writer, false);
	assert_int_equal(cs_segment_reader_writer_alive(reader), 0);
	assert_int_equal(write(go[1], "g", 1), 1);
	assert_int_equal(fixture_wait(child), 0);
	assert_int_equal(access(cs_segment_reader_path(reader), F_OK), 0);
	cs_segment_reader_close(reader);
	for (size_t i = 0; i < 2; i++) {
		close(go[i]);
		close(ready[i]);
	}
}

/* A child made without the atfork handlers (a bare clone) keeps the lock; that is what abandon is for. */
static void
test_fork_without_abandon(void **state)
{
	struct cs_segment_writer *writer = fixture_writer(*state, 1024);
	struct cs_segment_reader *reader = fixture_reader(cs_segment_writer_path(writer), true);
	pid_t child = fork();

	if (child == 0)
		for (;;)
			pause();
	cs_segment_writer_destroy(writer, false);
	assert_int_equal(cs_segment_reader_writer_alive(reader), 1);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(fixture_wait(child), -1);
	assert_int_equal(cs_segment_reader_writer_alive(reader), 0);
	cs_segment_reader_close(reader);
}

/* -- exec ------------------------------------------------------------------------------------------------ */

/* The same process as another program: the old segment's lock is gone, the new one's name is the next tick.
 */
static int
executed(const char *directory, const char *old_path)
{
	struct cs_segment_reader *old;
	struct cs_segment_writer *writer;
	struct cs_error error;
	int result = 0;

	if (cs_segment_reader_open(old_path, true, &old, &error) != 0)
		return 2;
	if (cs_segment_reader_writer_alive(old) != 0)
		result = 3;
	if (create(directory, &writer) != 0)
		return 4;
	if (strcmp(cs_segment_writer_path(writer), old_path) == 0)
		result = 5;
	cs_segment_writer_destroy(writer, false);
	cs_segment_reader_close(old);
	return result;
}

static void
test_exec(void **state)
{
	const struct fixture *fixture = *state;
	pid_t child = fork();

	if (child == 0) {
		struct cs_segment_writer *writer;

		if (create(fixture->directory, &writer) != 0)
			_exit(1);
		execl("/proc/self/exe", "test_segment_process", "executed", fixture->directory,
			cs_segment_writer_path(writer), (char *)NULL);
		_exit(99);
	}
	assert_int_equal(fixture_wait(child), 0);
	assert_int_equal(fixture_files(fixture), 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(test_killed),
		TEST(test_fork),
		TEST(test_fork_without_abandon),
		TEST(test_exec),
	};

	if (argc == 4 && strcmp(argv[1], "executed") == 0)
		return executed(argv[2], argv[3]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
