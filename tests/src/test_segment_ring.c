/* SPDX-License-Identifier: Apache-2.0 */
/* Records through the ring, in one thread: order, laps, drops, holes, and what a reader must not take for a
 * record. */
#include "collective.h"
#include "segment_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SLOTS 1024U

struct pair {
	struct cs_segment_writer *writer;
	struct cs_segment_reader *reader;
	struct fixture_raw raw;
	struct cs_record records[4 * SLOTS];
	size_t count;
	struct cs_reader_losses losses;
	uint64_t gap_before[8]; /* in the last take(): the records that come after gaps */
	size_t gaps;
};

static struct pair *
pair_open(const struct fixture *fixture)
{
	struct pair *pair = test_calloc(1, sizeof(*pair));

	pair->writer = fixture_writer(fixture, SLOTS);
	pair->reader = fixture_reader(cs_segment_writer_path(pair->writer), true);
	fixture_map(cs_segment_writer_path(pair->writer), &pair->raw);
	return pair;
}

static void
pair_close(struct pair *pair)
{
	fixture_unmap(&pair->raw);
	cs_segment_reader_close(pair->reader);
	cs_segment_writer_destroy(pair->writer, true);
	test_free(pair);
}

static void
append(struct pair *pair, uint64_t from, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		struct cs_record record = fixture_record(from + i);

		assert_int_equal(cs_segment_writer_append(pair->writer, &record), 0);
	}
}

/* All that is there, over gaps. */
static void
take(struct pair *pair)
{
	size_t count;

	pair->count = 0;
	pair->gaps = 0;
	do {
		assert_int_equal(cs_segment_reader_read(pair->reader, pair->records + pair->count,
					 4 * SLOTS - pair->count, &count),
			0);
		if (count > 0 && cs_segment_reader_gap(pair->reader))
			pair->gap_before[pair->gaps++] = pair->records[pair->count].start_ns;
		pair->count += count;
	} while (count > 0 && cs_segment_reader_gap_ahead(pair->reader));
	cs_segment_reader_losses(pair->reader, &pair->losses);
	for (size_t i = 0; i < pair->count; i++)
		assert_true(fixture_intact(&pair->records[i]));
}

static void
check_losses(const struct pair *pair, uint64_t overrun, uint64_t hole, uint64_t invalid)
{
	assert_int_equal(pair->losses.overrun, overrun);
	assert_int_equal(pair->losses.hole, hole);
	assert_int_equal(pair->losses.invalid, invalid);
}

static void
test_order(void **state)
{
	struct pair *pair = pair_open(*state);
	struct cs_segment_reader *late;
	struct cs_record few[3];
	size_t count;

	take(pair);
	assert_int_equal(pair->count, 0);
	append(pair, 100, 10);
	assert_int_equal(cs_segment_reader_read(pair->reader, few, 3, &count), 0);
	assert_int_equal(count, 3);
	assert_int_equal(few[2].start_ns, 102);
	assert_int_equal(cs_segment_reader_read(pair->reader, few, 0, &count), 0);
	assert_int_equal(count, 0);
	take(pair);
	assert_int_equal(pair->count, 7);
	for (uint64_t i = 0; i < 7; i++)
		assert_int_equal(pair->records[i].start_ns, 103 + i);
	check_losses(pair, 0, 0, 0);
	/* From the newest: what was there is not read. */
	late = fixture_reader(cs_segment_writer_path(pair->writer), false);
	append(pair, 200, 1);
	assert_int_equal(cs_segment_reader_read(late, few, 3, &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(few[0].start_ns, 200);
	cs_segment_reader_close(late);
	pair_close(pair);
}

/* Where records are missing is told, and only there. */
static void
test_gaps(void **state)
{
	struct pair *pair = pair_open(*state);
	struct cs_segment_reader *late;
	size_t count;

	take(pair);
	append(pair, 0, SLOTS);
	take(pair);
	assert_int_equal(pair->gaps, 0);
	/* Written over before it was read. */
	append(pair, SLOTS, 2 * SLOTS + 5);
	take(pair);
	assert_int_equal(pair->gaps, 1);
	assert_int_equal(pair->gap_before[0], 2 * SLOTS + 5);
	append(pair, 5000, 10);
	take(pair);
	assert_int_equal(pair->gaps, 0);
	/* In the middle: the read ends before it. */
	append(pair, 6000, 3);
	atomic_fetch_add(&((struct cs_ring_head *)fixture_section(&pair->raw, CS_SECTION_RING))->head, 1);
	append(pair, 7000, SLOTS / 4);
	assert_int_equal(cs_segment_reader_read(pair->reader, pair->records, SLOTS, &count), 0);
	assert_int_equal(count, 3);
	assert_false(cs_segment_reader_gap(pair->reader));
	assert_true(cs_segment_reader_gap_ahead(pair->reader));
	take(pair);
	assert_int_equal(pair->count, SLOTS / 4);
	assert_int_equal(pair->gaps, 1);
	assert_int_equal(pair->gap_before[0], 7000);
	/* Who opens late has missed what was there before, from the oldest or from the newest on. */
	for (unsigned int from_oldest = 0; from_oldest < 2; from_oldest++) {
		late = fixture_reader(cs_segment_writer_path(pair->writer), from_oldest);
		append(pair, 8000, 1);
		assert_int_equal(cs_segment_reader_read(late, pair->records, SLOTS, &count), 0);
		assert_true(count > 0);
		assert_true(cs_segment_reader_gap(late));
		cs_segment_reader_close(late);
	}
	pair_close(pair);
}

static void
test_bad_record(void **state)
{
	struct pair *pair = pair_open(*state);
	struct cs_record record = fixture_record(1);

	record.type = 0;
	assert_int_equal(cs_segment_writer_append(pair->writer, &record), -EINVAL);
	record.type = CS_RECORD_TYPE_COUNT;
	assert_int_equal(cs_segment_writer_append(pair->writer, &record), -EINVAL);
	take(pair);
	assert_int_equal(pair->count, 0);
	pair_close(pair);
}

static void
test_laps(void **state)
{
	struct pair *pair = pair_open(*state);
	struct cs_segment_reader *oldest;
	size_t count;

	append(pair, 0, SLOTS);
	take(pair);
	assert_int_equal(pair->count, SLOTS);
	append(pair, SLOTS, 2 * SLOTS + 5);
	take(pair);
	assert_int_equal(pair->count, SLOTS);
	assert_int_equal(pair->records[0].start_ns, 2 * SLOTS + 5);
	assert_int_equal(pair->records[SLOTS - 1].start_ns, 3 * SLOTS + 4);
	check_losses(pair, SLOTS + 5, 0, 0);
	/* Who opens late has missed what was there before, not lost it. */
	oldest = fixture_reader(cs_segment_writer_path(pair->writer), true);
	assert_int_equal(cs_segment_reader_read(oldest, pair->records, SLOTS, &count), 0);
	assert_int_equal(count, SLOTS);
	cs_segment_reader_losses(oldest, &pair->losses);
	check_losses(pair, 0, 0, 0);
	cs_segment_reader_close(oldest);
	pair_close(pair);
}

/* The slot's next writer has begun: the old record is gone, and the new one not there. */
static void
test_overwrite_in_flight(void **state)
{
	struct pair *pair = pair_open(*state);

	append(pair, 0, 10);
	atomic_store(&fixture_slot(&pair->raw, 3)->sequence, (SLOTS + 3) * 2ULL + 1);
	atomic_store(&fixture_slot(&pair->raw, 3)->words[1], 7);
	take(pair);
	assert_int_equal(pair->count, 9);
	assert_int_equal(pair->records[3].start_ns, 4);
	check_losses(pair, 1, 0, 0);
	pair_close(pair);
}

/* A writer that stopped inside an append holds its slot: the record of the next lap is dropped, and said to
 * be. */
static void
test_contended(void **state)
{
	struct pair *pair = pair_open(*state);
	struct cs_record record = fixture_record(SLOTS + 4);
	struct cs_status *status = cs_segment_writer_status(pair->writer);

	append(pair, 0, SLOTS);
	take(pair);
	atomic_store(&fixture_slot(&pair->raw, 4)->sequence, 4 * 2 + 1);
	append(pair, SLOTS, 4);
	assert_int_equal(cs_segment_writer_append(pair->writer, &record), -EBUSY);
	assert_int_equal(atomic_load(&status->lost[CS_LOSS_RING_CONTENDED]), 1);
	assert_int_equal(atomic_load(&status->records[CS_RECORD_MARK]), SLOTS + 4);
	append(pair, SLOTS + 5, SLOTS / 4);
	take(pair);
	assert_int_equal(pair->count, 4 + SLOTS / 4);
	assert_int_equal(pair->records[3].start_ns, SLOTS + 3);
	assert_int_equal(pair->records[4].start_ns, SLOTS + 5);
	/* Counted by the writer, so not once more by the reader. */
	check_losses(pair, 0, 0, 0);
	/* One drop explains one gap: the next is a hole. */
	atomic_fetch_add(&((struct cs_ring_head *)fixture_section(&pair->raw, CS_SECTION_RING))->head, 1);
	append(pair, SLOTS + 5 + SLOTS / 4 + 1, SLOTS / 4);
	take(pair);
	assert_int_equal(pair->count, SLOTS / 4);
	check_losses(pair, 0, 1, 0);
	pair_close(pair);
}

/* A writer that slept for a lap between its number and its slot finds a later record there, and leaves it. */
static void
test_overtaken_writer(void **state)
{
	struct pair *pair = pair_open(*state);
	struct cs_ring_slot *slot = fixture_slot(&pair->raw, 0);
	struct cs_record record = fixture_record(0);

	atomic_store(&slot->sequence, SLOTS * 2ULL + 2);
	atomic_store(&slot->words[1], 4711);
	assert_int_equal(cs_segment_writer_append(pair->writer, &record), -EBUSY);
	assert_int_equal(atomic_load(&slot->sequence), SLOTS * 2ULL + 2);
	assert_int_equal(atomic_load(&slot->words[1]), 4711);
	pair_close(pair);
}

/* A reserved record is waited for, until too much came after it. */
static void
test_hole(void **state)
{
	struct pair *pair = pair_open(*state);
	struct cs_ring_head *head = fixture_section(&pair->raw, CS_SECTION_RING);

	append(pair, 0, 5);
	atomic_fetch_add(&head->head, 1);
	take(pair);
	assert_int_equal(pair->count, 5);
	take(pair);
	assert_int_equal(pair->count, 0);
	check_losses(pair, 0, 0, 0);
	append(pair, 6, SLOTS / 4);
	take(pair);
	assert_int_equal(pair->count, SLOTS / 4);
	assert_int_equal(pair->records[0].start_ns, 6);
	check_losses(pair, 0, 1, 0);
	pair_close(pair);
}

/* The late writer comes after all: nothing is lost. */
static void
test_late_writer(void **state)
{
	struct pair *pair = pair_open(*state);
	struct cs_ring_head *head = fixture_section(&pair->raw, CS_SECTION_RING);
	struct cs_record record = fixture_record(5);
	struct cs_ring_slot *slot;

	append(pair, 0, 5);
	atomic_fetch_add(&head->head, 1);
	append(pair, 6, 5);
	take(pair);
	assert_int_equal(pair->count, 5);
	slot = fixture_slot(&pair->raw, 5);
	for (size_t i = 0; i < 7; i++) {
		uint64_t word;

		memcpy(&word, (const char *)&record + 8 * i, sizeof(word));
		atomic_store(&slot->words[i], word);
	}
	atomic_store(&slot->sequence, 5 * 2 + 2);
	take(pair);
	assert_int_equal(pair->count, 6);
	for (uint64_t i = 0; i < 6; i++)
		assert_int_equal(pair->records[i].start_ns, 5 + i);
	check_losses(pair, 0, 0, 0);
	pair_close(pair);
}

/* Dead is dead: no waiting. */
static void
test_hole_of_dead_writer(void **state)
{
	const struct fixture *fixture = *state;
	struct pair *pair = pair_open(fixture);
	struct cs_ring_head *head = fixture_section(&pair->raw, CS_SECTION_RING);

	append(pair, 0, 5);
	atomic_fetch_add(&head->head, 2);
	append(pair, 7, 2);
	cs_segment_writer_destroy(pair->writer, false);
	pair->writer = NULL;
	take(pair);
	assert_int_equal(pair->count, 7);
	assert_int_equal(pair->records[5].start_ns, 7);
	check_losses(pair, 0, 2, 0);
	pair_close(pair);
}

static void
test_loss_records(void **state)
{
	struct pair *pair = pair_open(*state);
	struct cs_status status;
	size_t count;

	cs_segment_writer_lose(pair->writer, CS_LOSS_POOL_EMPTY, 17, 1000);
	cs_segment_writer_lose(pair->writer, CS_LOSS_CAUSE_COUNT, 17, 1000);
	assert_int_equal(cs_segment_reader_read(pair->reader, pair->records, 10, &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(pair->records[0].type, CS_RECORD_LOSS);
	assert_int_equal(pair->records[0].ref, CS_LOSS_POOL_EMPTY);
	assert_int_equal(pair->records[0].value, 17);
	assert_int_equal(pair->records[0].start_ns, 1000);
	assert_int_equal(cs_segment_reader_status(pair->reader, &status), 0);
	assert_int_equal(atomic_load(&status.lost[CS_LOSS_POOL_EMPTY]), 17);
	assert_int_equal(atomic_load(&status.records[CS_RECORD_LOSS]), 1);
	pair_close(pair);
}

/* What a record says must be in the dictionary; each of these says one thing that is not. */
static void
test_invalid_records(void **state)
{
	static const struct cs_record bad[] = {
		{.type = CS_RECORD_COLLECTIVE, .gpu = 1},
		{.type = CS_RECORD_COLLECTIVE, .ref = 1},
		{.type = CS_RECORD_COLLECTIVE, .start_ns = 2, .end_ns = 1},
		{.type = CS_RECORD_BUSY, .gpu = 200},
		{.type = CS_RECORD_BUSY, .klass = 200},
		{.type = CS_RECORD_GRAPH_LAUNCH, .gpu = 1},
		{.type = CS_RECORD_WINDOW, .flags = CS_DEPTH_COUNT},
		{.type = CS_RECORD_WINDOW, .gpu = 1},
		{.type = CS_RECORD_MARK, .ref = 1},
		{.type = CS_RECORD_LOSS, .ref = CS_LOSS_CAUSE_COUNT},
		{.type = CS_RECORD_MARKER, .ref = 1},
		{.type = CS_RECORD_MARKER, .gpu = 1},
		{.type = CS_RECORD_HOST_LAUNCH, .ref = 1},
	};
	const size_t bad_count = sizeof(bad) / sizeof(bad[0]);
	static const struct cs_record good[] = {{.type = CS_RECORD_COLLECTIVE}, {.type = CS_RECORD_BUSY},
		{.type = CS_RECORD_GRAPH_LAUNCH}, {.type = CS_RECORD_WINDOW, .flags = CS_DEPTH_DEEP},
		{.type = CS_RECORD_MARK}, {.type = CS_RECORD_LOSS}, {.type = CS_RECORD_MARKER},
		{.type = CS_RECORD_HOST_LAUNCH}};
	const size_t good_count = sizeof(good) / sizeof(good[0]);
	struct pair *pair = pair_open(*state);
	struct cs_gpu gpu = {.nvml_index = 0};

	cs_segment_writer_gpu(pair->writer, &gpu);
	for (size_t i = 0; i < bad_count; i++)
		assert_int_equal(cs_segment_writer_append(pair->writer, &bad[i]), 0);
	for (size_t i = 0; i < good_count; i++)
		assert_int_equal(cs_segment_writer_append(pair->writer, &good[i]), 0);
	assert_int_equal(cs_segment_reader_read(pair->reader, pair->records, 64, &pair->count), 0);
	assert_int_equal(pair->count, good_count);
	assert_memory_equal(pair->records, good, sizeof(good));
	cs_segment_reader_losses(pair->reader, &pair->losses);
	check_losses(pair, 0, 0, bad_count);
	pair_close(pair);
}

/* A head that jumps or goes back is not followed into an endless loop. */
static void
test_hostile_head(void **state)
{
	static const uint64_t heads[] = {0, 1, 1ULL << 32, UINT64_MAX, UINT64_MAX - SLOTS, 1ULL << 63, 5};
	struct pair *pair = pair_open(*state);
	struct cs_ring_head *head = fixture_section(&pair->raw, CS_SECTION_RING);

	append(pair, 0, 10);
	take(pair);
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		struct cs_segment_reader *fresh;

		atomic_store(&head->head, heads[i]);
		take(pair);
		assert_true(pair->count <= SLOTS);
		fresh = fixture_reader(cs_segment_writer_path(pair->writer), true);
		assert_int_equal(cs_segment_reader_read(fresh, pair->records, SLOTS, &pair->count), 0);
		cs_segment_reader_close(fresh);
	}
	pair_close(pair);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_order),
		TEST(test_gaps),
		TEST(test_bad_record),
		TEST(test_laps),
		TEST(test_overwrite_in_flight),
		TEST(test_contended),
		TEST(test_overtaken_writer),
		TEST(test_hole),
		TEST(test_late_writer),
		TEST(test_hole_of_dead_writer),
		TEST(test_loss_records),
		TEST(test_invalid_records),
		TEST(test_hostile_head),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
