/* SPDX-License-Identifier: Apache-2.0 */
/* Interning, texts and environment: equal input equal id, full tables, cut texts, and what a reader sees of
 * them. */
#include "collective.h"
#include "segment/segment_writer_private.h"
#include "segment_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct tables {
	struct cs_segment_writer *writer;
	struct cs_segment_reader *reader;
	const struct cs_dictionary *dictionary;
};

static struct tables
tables_open(void **state)
{
	struct tables tables;

	tables.writer = fixture_writer(*state, 1024);
	tables.reader = fixture_reader(cs_segment_writer_path(tables.writer), true);
	tables.dictionary = cs_segment_reader_borrow_dictionary(tables.reader);
	return tables;
}

static void
tables_close(struct tables *tables)
{
	cs_segment_reader_close(tables->reader);
	cs_segment_writer_destroy(tables->writer, true);
}

static uint64_t
table_full(const struct tables *tables)
{
	return atomic_load(&cs_segment_writer_status(tables->writer)->lost[CS_LOSS_TABLE_FULL]);
}

static void
test_names(void **state)
{
	struct tables tables = tables_open(state);
	char text[CS_NAME_BYTES_MAX + 10];
	uint32_t id;

	assert_int_equal(cs_segment_writer_name(tables.writer, NULL), 0);
	assert_int_equal(cs_segment_writer_name(tables.writer, ""), 0);
	for (unsigned int i = 1; i < CS_NAMES_MAX; i++) {
		snprintf(text, sizeof(text), "kernel_%u", i);
		assert_int_equal(cs_segment_writer_name(tables.writer, text), i);
	}
	assert_int_equal(table_full(&tables), 0);
	assert_int_equal(cs_segment_writer_name(tables.writer, "one_more"), 0);
	assert_int_equal(table_full(&tables), 1);
	assert_int_equal(cs_segment_writer_name(tables.writer, "kernel_77"), 77);
	assert_int_equal(cs_segment_reader_refresh(tables.reader), 0);
	assert_int_equal(tables.dictionary->name_count, CS_NAMES_MAX);
	for (unsigned int i = 1; i < CS_NAMES_MAX; i++) {
		snprintf(text, sizeof(text), "kernel_%u", i);
		assert_string_equal(cs_dictionary_borrow_name(tables.dictionary, i), text);
	}
	tables_close(&tables);

	tables = tables_open(state);
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	/* A two-byte character across the limit goes whole. */
	text[CS_NAME_BYTES_MAX - 1] = (char)0xc3;
	text[CS_NAME_BYTES_MAX] = (char)0xa4;
	id = cs_segment_writer_name(tables.writer, text);
	assert_int_equal(id, 1);
	text[CS_NAME_BYTES_MAX + 3] = 'y';
	assert_int_equal(cs_segment_writer_name(tables.writer, text), id);
	assert_int_equal(cs_segment_reader_refresh(tables.reader), 0);
	assert_int_equal(strlen(cs_dictionary_borrow_name(tables.dictionary, id)), CS_NAME_BYTES_MAX - 1);
	tables_close(&tables);
}

/* TEXT can be full before NAME is. */
static void
test_text_bytes(void **state)
{
	struct tables tables = tables_open(state);
	char text[CS_NAME_BYTES_MAX + 1];
	unsigned int fit = (CS_TEXT_BYTES - 1) / (CS_NAME_BYTES_MAX + 1);

	memset(text, 'x', sizeof(text));
	text[CS_NAME_BYTES_MAX] = '\0';
	for (unsigned int i = 0; i < fit; i++) {
		snprintf(text, 9, "%08u", i);
		text[8] = 'x';
		assert_int_equal(cs_segment_writer_name(tables.writer, text), i + 1);
	}
	snprintf(text, 9, "%08u", fit);
	text[8] = 'x';
	assert_int_equal(cs_segment_writer_name(tables.writer, text), 0);
	assert_int_equal(table_full(&tables), 1);
	assert_int_equal(cs_segment_writer_name(tables.writer, "short"), fit + 1);
	assert_int_equal(cs_segment_reader_refresh(tables.reader), 0);
	assert_string_equal(cs_dictionary_borrow_name(tables.dictionary, fit + 1), "short");
	tables_close(&tables);
}

static void
test_labels(void **state)
{
	struct tables tables = tables_open(state);
	struct cs_label label = {.op = CS_OP_ALL_REDUCE, .rank = 1, .world = 8};
	const struct cs_label *seen;

	label.name_id = cs_segment_writer_name(tables.writer, "kernel");
	for (uint32_t i = 1; i < CS_LABELS_MAX; i++) {
		label.bytes = i;
		assert_int_equal(cs_segment_writer_label(tables.writer, &label), i);
	}
	label.bytes = 5;
	assert_int_equal(cs_segment_writer_label(tables.writer, &label), 5);
	label.bytes = CS_LABELS_MAX;
	assert_int_equal(cs_segment_writer_label(tables.writer, &label), 0);
	assert_int_equal(table_full(&tables), 1);
	assert_null(cs_segment_writer_borrow_label(tables.writer, 0));
	assert_null(cs_segment_writer_borrow_label(tables.writer, CS_LABELS_MAX));
	assert_int_equal(cs_segment_writer_borrow_label(tables.writer, 9)->bytes, 9);
	assert_int_equal(cs_segment_reader_refresh(tables.reader), 0);
	assert_int_equal(tables.dictionary->label_count, CS_LABELS_MAX);
	seen = cs_dictionary_borrow_label(tables.dictionary, 4711);
	assert_int_equal(seen->bytes, 4711);
	assert_int_equal(seen->world, 8);
	assert_string_equal(cs_dictionary_borrow_name(tables.dictionary, seen->name_id), "kernel");
	tables_close(&tables);
}

static void
test_communicators(void **state)
{
	struct tables tables = tables_open(state);
	struct cs_communicator communicator = {.world = 4, .name = "tp\n"};

	for (uint32_t i = 0; i < CS_COMMUNICATORS_MAX; i++) {
		communicator.hash = 1000 + i / 4;
		communicator.rank = (int32_t)(i % 4);
		assert_int_equal(cs_segment_writer_communicator(tables.writer, &communicator), i + 1);
	}
	/* Identity is hash and rank; the rest of a later call is not looked at. */
	communicator.hash = 1000;
	communicator.rank = 2;
	communicator.world = 99;
	assert_int_equal(cs_segment_writer_communicator(tables.writer, &communicator), 3);
	communicator.hash = 1;
	assert_int_equal(cs_segment_writer_communicator(tables.writer, &communicator), 0);
	assert_int_equal(table_full(&tables), 1);
	assert_int_equal(cs_segment_reader_refresh(tables.reader), 0);
	assert_int_equal(tables.dictionary->communicator_count, CS_COMMUNICATORS_MAX);
	assert_int_equal(cs_dictionary_borrow_communicator(tables.dictionary, 3)->world, 4);
	assert_string_equal(cs_dictionary_borrow_communicator(tables.dictionary, 3)->name, "tp?");
	tables_close(&tables);
}

static void
test_gpus(void **state)
{
	struct tables tables = tables_open(state);
	struct cs_gpu gpu = {.nvml_index = 3, .name = "NVIDIA H200"};

	/* No UUID: told apart by ordinal. */
	gpu.cuda_ordinal = 1;
	assert_int_equal(cs_segment_writer_gpu(tables.writer, &gpu), 0);
	assert_int_equal(cs_segment_writer_gpu(tables.writer, &gpu), 0);
	for (int i = 1; i < (int)CS_GPUS_MAX; i++) {
		gpu.uuid[15] = (uint8_t)i;
		assert_int_equal(cs_segment_writer_gpu(tables.writer, &gpu), i);
	}
	gpu.cuda_ordinal = 2;
	assert_int_equal(cs_segment_writer_gpu(tables.writer, &gpu), CS_GPUS_MAX - 1);
	gpu.uuid[15] = 200;
	assert_int_equal(cs_segment_writer_gpu(tables.writer, &gpu), -ENOSPC);
	assert_int_equal(cs_segment_reader_refresh(tables.reader), 0);
	assert_int_equal(tables.dictionary->gpu_count, CS_GPUS_MAX);
	assert_string_equal(cs_dictionary_borrow_gpu(tables.dictionary, 0)->name, "NVIDIA H200");
	assert_int_equal(cs_dictionary_borrow_gpu(tables.dictionary, 7)->uuid[15], 7);
	tables_close(&tables);
}

static void
test_environment(void **state)
{
	struct tables tables = tables_open(state);
	char name[32];
	char value[300];

	memset(value, 'v', sizeof(value));
	value[sizeof(value) - 1] = '\0';
	assert_int_equal(cs_segment_writer_environment(tables.writer, "LONG", value), 0);
	assert_int_equal(cs_segment_writer_environment(tables.writer, "EMPTY", NULL), 0);
	for (unsigned int i = 2; i < CS_ENVIRONMENT_MAX; i++) {
		snprintf(name, sizeof(name), "NCCL_%u", i);
		assert_int_equal(cs_segment_writer_environment(tables.writer, name, name), 0);
	}
	assert_int_equal(cs_segment_writer_environment(tables.writer, "MORE", "1"), -ENOSPC);
	assert_int_equal(cs_segment_reader_refresh(tables.reader), 0);
	assert_int_equal(tables.dictionary->environment_count, CS_ENVIRONMENT_MAX);
	assert_int_equal(strlen(tables.dictionary->environment[0].value), 127);
	assert_string_equal(tables.dictionary->environment[1].value, "");
	assert_string_equal(tables.dictionary->environment[63].name, "NCCL_63");
	tables_close(&tables);
}

static void
test_texts(void **state)
{
	struct tables tables = tables_open(state);
	const struct cs_process_info *process = &tables.dictionary->process;
	uint64_t changes;

	cs_segment_writer_text(
		tables.writer, CS_TEXT_COMM, "a_name_that_is_longer_than_the_field_has_room_for");
	cs_segment_writer_text(tables.writer, CS_TEXT_COMMAND_LINE, "python3 serve.py");
	cs_segment_writer_text(tables.writer, CS_TEXT_REASON, "because\tit is \033[31mso");
	cs_segment_writer_text(tables.writer, CS_TEXT_CUDA_DRIVER, "13.0");
	cs_segment_writer_text(tables.writer, CS_TEXT_CUPTI, "130001");
	cs_segment_writer_text(tables.writer, CS_TEXT_CUPTI_PATH, "/usr/lib/libcupti.so");
	cs_segment_writer_text(tables.writer, CS_TEXT_NCCL, "2.28.9");
	cs_segment_writer_text(tables.writer, CS_TEXT_DRIVER, "580.1");
	cs_segment_writer_text(tables.writer, CS_TEXT_POD, "ns/pod");
	cs_segment_writer_text(tables.writer, CS_TEXT_COUNT, "nowhere");
	cs_segment_writer_rank(tables.writer, 3, 8);
	assert_int_equal(cs_segment_reader_refresh(tables.reader), 0);
	assert_string_equal(process->comm, "a_name_that_is_longer_than_the_");
	assert_string_equal(process->command_line, "python3 serve.py");
	assert_string_equal(process->reason, "because?it is ?[31mso");
	assert_string_equal(process->cuda_driver, "13.0");
	assert_string_equal(process->cupti, "130001");
	assert_string_equal(process->cupti_path, "/usr/lib/libcupti.so");
	assert_string_equal(process->nccl, "2.28.9");
	assert_string_equal(process->driver, "580.1");
	assert_string_equal(process->pod, "ns/pod");
	assert_int_equal(process->rank, 3);
	assert_int_equal(process->world, 8);
	changes = tables.dictionary->changes;
	assert_int_equal(cs_segment_reader_refresh(tables.reader), 0);
	assert_int_equal(tables.dictionary->changes, changes);
	cs_segment_writer_text(tables.writer, CS_TEXT_REASON, NULL);
	cs_segment_writer_rank(tables.writer, 8, 8);
	assert_int_equal(cs_segment_reader_refresh(tables.reader), 0);
	assert_string_equal(process->reason, "");
	assert_int_equal(process->rank, CS_RANK_UNKNOWN);
	assert_true(tables.dictionary->changes > changes);
	tables_close(&tables);
}

static void
test_names_of_values(void **state)
{
	(void)state;
	assert_string_equal(cs_mode_name(CS_MODE_SAMPLE), "sample");
	assert_string_equal(cs_mode_name(CS_MODE_COUNT), "unknown");
	assert_string_equal(cs_state_name(CS_STATE_DORMANT), "dormant");
	assert_string_equal(cs_state_name(CS_STATE_COUNT), "unknown");
	assert_string_equal(cs_unlabelled_reason_name(CS_UNLABELLED_NO_LAUNCH), "no_launch");
	assert_string_equal(cs_unlabelled_reason_name(CS_UNLABELLED_REASON_COUNT), "unknown");
	assert_string_equal(cs_link_name(CS_LINK_NVLINK), "nvlink");
	assert_string_equal(cs_link_name(CS_LINK_COUNT), "unknown");
}

/* A lock that is held for long, several times: each time it is the holder that is late, not dead. */
static void
test_lock_that_was_held_is_waited_for_again(void **state)
{
	struct tables tables = tables_open(state);
	struct cs_segment_writer *writer = tables.writer;

	for (unsigned int i = 0; i < 20; i++) {
		bool again = false;

		atomic_store(&writer->lock, 1);
		assert_int_equal(cs_segment_writer_name_or_again(writer, "busy", &again), 0);
		assert_true(again);
		atomic_store(&writer->lock, 0);
	}
	/* No table was full. */
	assert_int_equal(atomic_load(&cs_segment_writer_status(writer)->lost[CS_LOSS_TABLE_BUSY]), 20);
	assert_int_equal(table_full(&tables), 0);
	assert_int_equal(atomic_load(&writer->name_head->refused), 0);
	assert_true(atomic_load(&writer->lock_failures) >= 20);
	assert_int_not_equal(cs_segment_writer_name(writer, "free"), 0);
	assert_int_equal(atomic_load(&writer->lock_failures), 0);
	tables_close(&tables);
}

/* Whoever sleeps for the lock gives its holder time to run: it lets go in the sleep number sleeps_until_free.
 */
static struct cs_segment_writer *held_writer;
static unsigned int sleeps, sleeps_until_free;

int __wrap_nanosleep(const struct timespec *pause, struct timespec *left);

int
__wrap_nanosleep(const struct timespec *pause, struct timespec *left)
{
	(void)pause, (void)left;
	if (++sleeps == sleeps_until_free)
		atomic_store(&held_writer->lock, 0);
	return 0;
}

static void
hold_lock(struct cs_segment_writer *writer, unsigned int until)
{
	held_writer = writer;
	sleeps = 0;
	sleeps_until_free = until;
	atomic_store(&writer->lock, 1);
}

/* What nobody would say again is not put off because another thread that holds the lock does not run just
 * now. */
static void
test_lock_is_slept_for(void **state)
{
	struct tables tables = tables_open(state);
	struct cs_segment_writer *writer = tables.writer;
	struct cs_gpu gpu = {.cuda_ordinal = 3};

	hold_lock(writer, 4);
	assert_int_equal(cs_segment_writer_gpu(writer, &gpu), 0);
	hold_lock(writer, 4);
	assert_int_equal(cs_segment_writer_environment(writer, "NAME", "value"), 0);
	hold_lock(writer, 4);
	cs_segment_writer_text(writer, CS_TEXT_REASON, "because");
	assert_int_equal(cs_segment_reader_refresh(tables.reader), 0);
	assert_string_equal(tables.dictionary->process.reason, "because");
	tables_close(&tables);
}

/* Its holder is dead: there is an end to that, and nobody sleeps again. Host's threads never do. */
static void
test_lock_of_the_dead_is_given_up(void **state)
{
	struct tables tables = tables_open(state);
	struct cs_segment_writer *writer = tables.writer;
	struct cs_gpu gpu = {.cuda_ordinal = 3};

	hold_lock(writer, 0);
	assert_int_equal(cs_segment_writer_name(writer, "host's"), 0);
	assert_int_equal(sleeps, 0);
	assert_int_equal(cs_segment_writer_gpu(writer, &gpu), -EBUSY);
	assert_true(sleeps > 0 && sleeps < 8);
	sleeps = 0;
	assert_int_equal(cs_segment_writer_environment(writer, "NAME", "value"), -EBUSY);
	cs_segment_writer_text(writer, CS_TEXT_REASON, "because");
	assert_int_equal(sleeps, 0);
	atomic_store(&writer->lock, 0);
	assert_int_equal(cs_segment_writer_gpu(writer, &gpu), 0);
	tables_close(&tables);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_names),
		TEST(test_text_bytes),
		TEST(test_labels),
		TEST(test_communicators),
		TEST(test_gpus),
		TEST(test_environment),
		TEST(test_texts),
		TEST(test_lock_that_was_held_is_waited_for_again),
		TEST(test_lock_is_slept_for),
		TEST(test_lock_of_the_dead_is_given_up),
		cmocka_unit_test(test_names_of_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
