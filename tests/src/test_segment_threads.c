/* SPDX-License-Identifier: Apache-2.0 */
/* Writers and readers at the same time, in threads of one process so that ThreadSanitizer sees both sides. */
#include "segment_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WRITERS      4
#define READ_RECORDS 512

struct worker {
	pthread_t thread;
	struct cs_segment_writer *writer;
	uint64_t id;
	uint64_t records; /* 0: until stopped */
	uint64_t appended, dropped;
};

static _Atomic bool stop;
static _Atomic unsigned int running;

static uint64_t
serial_of(uint64_t id, uint64_t number)
{
	return id << 40 | number;
}

static void *
append_records(void *context)
{
	struct worker *worker = context;

	for (uint64_t i = 0; worker->records ? i < worker->records : !atomic_load(&stop); i++) {
		struct cs_record record = fixture_record(serial_of(worker->id, i));

		if (cs_segment_writer_append(worker->writer, &record) == 0)
			worker->appended++;
		else
			worker->dropped++;
	}
	atomic_fetch_sub(&running, 1);
	return NULL;
}

static void
start_workers(struct worker *workers, struct cs_segment_writer *writer, uint64_t records)
{
	atomic_store(&stop, false);
	atomic_store(&running, WRITERS);
	for (uint64_t i = 0; i < WRITERS; i++) {
		workers[i] = (struct worker){.writer = writer, .id = i, .records = records};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, append_records, &workers[i]), 0);
	}
}

static void
join_workers(struct worker *workers, struct worker *sum)
{
	*sum = (struct worker){.records = 0};
	for (size_t i = 0; i < WRITERS; i++) {
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
		sum->appended += workers[i].appended;
		sum->dropped += workers[i].dropped;
	}
}

/* What a reader got so far, checked record by record: whole, and each writer's in its order. */
struct check {
	uint64_t total;
	uint64_t next[WRITERS]; /* least serial that may come */
	uint64_t skipped;
};

static void
check_records(struct check *check, const struct cs_record *records, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t id = records[i].start_ns >> 40;
		uint64_t number = records[i].start_ns & ((1ULL << 40) - 1);

		assert_true(fixture_intact(&records[i]));
		assert_true(id < WRITERS);
		assert_true(number >= check->next[id]);
		check->skipped += number - check->next[id];
		check->next[id] = number + 1;
	}
	check->total += count;
}

/* One read; how many records. */
static size_t
read_some(struct cs_segment_reader *reader, struct check *check)
{
	struct cs_record records[READ_RECORDS];
	size_t count;

	assert_int_equal(cs_segment_reader_read(reader, records, READ_RECORDS, &count), 0);
	check_records(check, records, count);
	return count;
}

/* Room for all: everything arrives, once, in order. */
static void
test_everything_arrives(void **state)
{
	enum { EACH = 30000 };
	struct cs_segment_writer *writer = fixture_writer(*state, 131072);
	struct cs_segment_reader *reader = fixture_reader(cs_segment_writer_path(writer), true);
	struct cs_reader_losses losses;
	struct worker workers[WRITERS], sum;
	struct check check = {0};

	start_workers(workers, writer, EACH);
	while (atomic_load(&running) != 0)
		read_some(reader, &check);
	join_workers(workers, &sum);
	while (read_some(reader, &check) != 0)
		;
	cs_segment_reader_losses(reader, &losses);
	/* A thread that is not scheduled for a second in the middle of an append is taken for dead. */
	assert_int_equal(check.total + losses.hole, WRITERS * EACH);
	assert_int_equal(check.skipped, losses.hole);
	assert_int_equal(losses.overrun, 0);
	assert_int_equal(losses.invalid, 0);
	assert_int_equal(sum.appended, WRITERS * EACH);
	cs_segment_reader_close(reader);
	cs_segment_writer_destroy(writer, true);
}

/* A ring that is overwritten all the time while it is read, by four writers that also overtake each other. */
static void
test_laps_while_reading(void **state)
{
	struct cs_segment_writer *writer = fixture_writer(*state, 1024);
	struct cs_segment_reader *reader = fixture_reader(cs_segment_writer_path(writer), true);
	struct cs_status *status = cs_segment_writer_status(writer);
	struct cs_reader_losses losses = {0};
	struct worker workers[WRITERS], sum;
	struct check check = {0};
	uint64_t gone;

	start_workers(workers, writer, 0);
	while (losses.overrun < 100000 || check.total < 100000) {
		read_some(reader, &check);
		cs_segment_reader_losses(reader, &losses);
	}
	atomic_store(&stop, true);
	join_workers(workers, &sum);
	assert_int_equal(atomic_load(&status->records[CS_RECORD_MARK]), sum.appended);
	assert_int_equal(atomic_load(&status->lost[CS_LOSS_RING_CONTENDED]), sum.dropped);
	/* Among the last records a drop is waited for as for a late thread, unless the writer is gone. */
	cs_segment_writer_destroy(writer, true);
	while (read_some(reader, &check) != 0)
		;
	cs_segment_reader_losses(reader, &losses);
	assert_int_equal(losses.invalid, 0);
	/* Each reserved number was read, or counted here, or is a drop that the writer counted. */
	gone = check.total + losses.overrun + losses.hole;
	assert_in_range(gone, sum.appended, sum.appended + sum.dropped);
	cs_segment_reader_close(reader);
}

/*
 * One writer, whose record number n has serial n, and a reader that takes one record at a time right where
 * the writer overwrites: what it gets must be the record of its position, not a later one in the same slot.
 */
static void
test_overtaken_reader(void **state)
{
	struct cs_segment_writer *writer = fixture_writer(*state, 1024);
	struct cs_segment_reader *reader = fixture_reader(cs_segment_writer_path(writer), true);
	struct worker worker = {.writer = writer};
	struct cs_reader_losses losses = {0};
	uint64_t total = 0;

	atomic_store(&stop, false);
	atomic_store(&running, 1);
	assert_int_equal(pthread_create(&worker.thread, NULL, append_records, &worker), 0);
	while (total < 100000 || losses.overrun < 100000) {
		struct cs_record record;
		size_t count;

		assert_int_equal(cs_segment_reader_read(reader, &record, 1, &count), 0);
		cs_segment_reader_losses(reader, &losses);
		if (count == 0)
			continue;
		assert_true(fixture_intact(&record));
		assert_int_equal(record.start_ns, total + losses.overrun + losses.hole);
		total++;
	}
	atomic_store(&stop, true);
	assert_int_equal(pthread_join(worker.thread, NULL), 0);
	assert_int_equal(worker.dropped, 0);
	cs_segment_reader_close(reader);
	cs_segment_writer_destroy(writer, true);
}

/* -- tables ---------------------------------------------------------------------------------------------- */

#define NAMES 500

struct interner {
	pthread_t thread;
	struct cs_segment_writer *writer;
	uint32_t names[NAMES], labels[NAMES], communicators[100];
};

static void *
intern(void *context)
{
	struct interner *interner = context;
	char text[64];

	for (uint32_t i = 0; i < NAMES; i++) {
		struct cs_label label = {.bytes = i + 1};
		struct cs_communicator communicator = {.hash = i + 1, .world = 1};
		struct cs_record record = {.type = CS_RECORD_HOST_LAUNCH};

		snprintf(text, sizeof(text), "void kernel_%u<int, float>()", i);
		/* A lock that is held too long gives 0: ask again. */
		while ((interner->names[i] = cs_segment_writer_name(interner->writer, text)) == 0)
			;
		label.name_id = interner->names[i];
		while ((interner->labels[i] = cs_segment_writer_label(interner->writer, &label)) == 0)
			;
		if (i < 100)
			while ((interner->communicators[i] = cs_segment_writer_communicator(
					interner->writer, &communicator)) == 0)
				;
		record.ref = interner->labels[i];
		cs_segment_writer_append(interner->writer, &record);
		cs_segment_writer_text(interner->writer, CS_TEXT_REASON, text);
	}
	atomic_fetch_sub(&running, 1);
	return NULL;
}

/* The digits of both places of a text agree when it is whole. */
static void
check_reason(const char *reason)
{
	char expected[64];
	unsigned int number;

	if (reason[0] == '\0')
		return;
	assert_int_equal(sscanf(reason, "void kernel_%u<int", &number), 1);
	snprintf(expected, sizeof(expected), "void kernel_%u<int, float>()", number);
	assert_string_equal(reason, expected);
}

static void
check_interned(const struct interner *interners, const struct cs_dictionary *dictionary)
{
	assert_int_equal(dictionary->name_count, NAMES + 1);
	assert_int_equal(dictionary->label_count, NAMES + 1);
	assert_int_equal(dictionary->communicator_count, 100);
	for (size_t i = 1; i < WRITERS; i++) {
		assert_memory_equal(interners[i].names, interners[0].names, sizeof(interners[0].names));
		assert_memory_equal(interners[i].labels, interners[0].labels, sizeof(interners[0].labels));
		assert_memory_equal(interners[i].communicators, interners[0].communicators,
			sizeof(interners[0].communicators));
	}
	for (uint32_t i = 0; i < NAMES; i++) {
		const struct cs_label *label = cs_dictionary_borrow_label(dictionary, interners[0].labels[i]);

		assert_int_equal(label->bytes, i + 1);
		assert_int_equal(label->name_id, interners[0].names[i]);
	}
}

static void
test_interning(void **state)
{
	struct cs_segment_writer *writer = fixture_writer(*state, 4096);
	struct cs_segment_reader *reader = fixture_reader(cs_segment_writer_path(writer), true);
	const struct cs_dictionary *dictionary = cs_segment_reader_borrow_dictionary(reader);
	static struct interner interners[WRITERS];
	struct cs_reader_losses losses;
	bool more = true;

	atomic_store(&running, WRITERS);
	for (size_t i = 0; i < WRITERS; i++) {
		interners[i].writer = writer;
		assert_int_equal(pthread_create(&interners[i].thread, NULL, intern, &interners[i]), 0);
	}
	while (more) {
		struct cs_record records[READ_RECORDS];
		size_t count;

		more = atomic_load(&running) != 0;
		assert_int_equal(cs_segment_reader_read(reader, records, READ_RECORDS, &count), 0);
		check_reason(dictionary->process.reason);
	}
	for (size_t i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_join(interners[i].thread, NULL), 0);
	assert_int_equal(cs_segment_reader_refresh(reader), 0);
	/* No record came before the label that it names. */
	cs_segment_reader_losses(reader, &losses);
	assert_int_equal(losses.invalid, 0);
	check_interned(interners, dictionary);
	cs_segment_reader_close(reader);
	cs_segment_writer_destroy(writer, true);
}

/* -- requests -------------------------------------------------------------------------------------------- */

#define ASKERS   3
#define REQUESTS 20

struct asker {
	pthread_t thread;
	const char *path;
	uint64_t id;
	unsigned int right;
};

/* The answer tells that the writer saw the fields of this very request. */
static int
expected_answer(uint64_t from_ns, uint64_t until_ns)
{
	return until_ns == from_ns * 7 ? (int)(from_ns % 100) : EPROTO;
}

static void *
ask(void *context)
{
	struct asker *asker = context;

	for (uint64_t i = 0; i < REQUESTS; i++) {
		uint64_t from_ns = asker->id * 1000 + i;
		struct cs_error error;

		if (cs_segment_request(asker->path, CS_COMMAND_TRACE, from_ns, from_ns * 7, 60000, &error) ==
			-expected_answer(from_ns, from_ns * 7))
			asker->right++;
	}
	atomic_fetch_sub(&running, 1);
	return NULL;
}

static void
test_requests(void **state)
{
	struct cs_segment_writer *writer = fixture_writer(*state, 1024);
	struct asker askers[ASKERS];
	unsigned int taken = 0;

	atomic_store(&running, ASKERS);
	for (uint64_t i = 0; i < ASKERS; i++) {
		askers[i] = (struct asker){.path = cs_segment_writer_path(writer), .id = i + 1};
		assert_int_equal(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
	}
	while (atomic_load(&running) != 0) {
		struct cs_segment_request request;

		if (!cs_segment_writer_take_request(writer, &request))
			continue;
		taken++;
		assert_int_equal(request.command, CS_COMMAND_TRACE);
		assert_int_equal(request.argument, 0);
		cs_segment_writer_answer(
			writer, &request, expected_answer(request.from_ns, request.until_ns));
	}
	for (size_t i = 0; i < ASKERS; i++) {
		assert_int_equal(pthread_join(askers[i].thread, NULL), 0);
		assert_int_equal(askers[i].right, REQUESTS);
	}
	assert_int_equal(taken, ASKERS * REQUESTS);
	cs_segment_writer_destroy(writer, true);
}

/* -- seqlocks -------------------------------------------------------------------------------------------- */

struct seqlock {
	pthread_t thread;
	struct cs_segment_writer *writer;
};

/* Two texts in turn, as long as the field. */
static void *
replace_text(void *context)
{
	struct seqlock *seqlock = context;
	char text[2][256];

	for (size_t i = 0; i < 2; i++) {
		memset(text[i], 'a' + (int)i, sizeof(text[i]) - 1);
		text[i][sizeof(text[i]) - 1] = '\0';
	}
	for (size_t i = 0; !atomic_load(&stop); i++)
		cs_segment_writer_text(seqlock->writer, CS_TEXT_REASON, text[i & 1]);
	return NULL;
}

static void
test_text_replaced_while_read(void **state)
{
	struct seqlock seqlock = {.writer = fixture_writer(*state, 1024)};
	struct cs_segment_reader *reader = fixture_reader(cs_segment_writer_path(seqlock.writer), true);
	const struct cs_dictionary *dictionary = cs_segment_reader_borrow_dictionary(reader);
	const char *reason = dictionary->process.reason;

	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&seqlock.thread, NULL, replace_text, &seqlock), 0);
	while (dictionary->changes < 1000) {
		assert_int_equal(cs_segment_reader_refresh(reader), 0);
		assert_int_equal(strspn(reason, reason[0] == 'a' ? "a" : "b"), reason[0] ? 255 : 0);
	}
	atomic_store(&stop, true);
	assert_int_equal(pthread_join(seqlock.thread, NULL), 0);
	cs_segment_reader_close(reader);
	cs_segment_writer_destroy(seqlock.writer, true);
}

/* Askers that give up at once, one after the other, faster than any that open the file. */
static void *
replace_request(void *context)
{
	struct seqlock *seqlock = context;
	struct cs_control *control = cs_segment_writer_control(seqlock->writer);

	for (uint64_t i = 1; !atomic_load(&stop); i++) {
		atomic_store(&control->request_sequence, 2 * i - 1);
		atomic_store(&control->command, i);
		atomic_store(&control->from_ns, i);
		atomic_store(&control->until_ns, i);
		atomic_store(&control->argument, i);
		atomic_store(&control->request_sequence, 2 * i);
	}
	return NULL;
}

static void
test_request_replaced_while_taken(void **state)
{
	struct seqlock seqlock = {.writer = fixture_writer(*state, 1024)};

	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&seqlock.thread, NULL, replace_request, &seqlock), 0);
	for (unsigned int taken = 0; taken < 1000;) {
		struct cs_segment_request request;

		if (!cs_segment_writer_take_request(seqlock.writer, &request))
			continue;
		taken++;
		assert_int_equal(request.sequence, 2 * request.command);
		assert_int_equal(request.from_ns, request.command);
		assert_int_equal(request.until_ns, request.command);
		assert_int_equal(request.argument, request.command);
	}
	atomic_store(&stop, true);
	assert_int_equal(pthread_join(seqlock.thread, NULL), 0);
	cs_segment_writer_destroy(seqlock.writer, true);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_everything_arrives),
		TEST(test_laps_while_reading),
		TEST(test_overtaken_reader),
		TEST(test_interning),
		TEST(test_requests),
		TEST(test_text_replaced_while_read),
		TEST(test_request_replaced_while_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
