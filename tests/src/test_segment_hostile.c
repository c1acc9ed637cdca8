/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that no writer of ours wrote: every header field at extremes, flipped bits, random bytes. A reader
 * returns an error or clean data; sanitizers tell the rest. Seeds are fixed.
 */
#include "collective.h"
#include "segment/segment_check.h"
#include "segment/segment_layout.h"
#include "segment_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SLOTS 1024U

/* xorshift64*, so that every machine tries the same. */
static uint64_t
next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dULL;
}

/* -- what a user may rely on ----------------------------------------------------------------------------- */

static void
check_text(const char *text, size_t room)
{
	size_t length = strnlen(text, room);

	assert_true(length < room);
	for (size_t i = 0; i < length; i++)
		assert_true((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
}

static void
check_rank(int32_t rank, int32_t world)
{
	assert_true(rank >= -1 && world >= -1 && world != 0);
	assert_true(world == -1 || rank < world);
}

static void
check_dictionary(const struct cs_dictionary *dictionary)
{
	assert_true(dictionary->gpu_count <= CS_GPUS_MAX);
	assert_true(dictionary->communicator_count <= CS_COMMUNICATORS_MAX);
	assert_true(dictionary->name_count <= CS_NAMES_MAX);
	assert_true(dictionary->label_count <= CS_LABELS_MAX);
	assert_true(dictionary->environment_count <= CS_ENVIRONMENT_MAX);
	check_text(dictionary->process.comm, sizeof(dictionary->process.comm));
	check_text(dictionary->process.command_line, sizeof(dictionary->process.command_line));
	check_text(dictionary->process.reason, sizeof(dictionary->process.reason));
	check_text(dictionary->process.pod, sizeof(dictionary->process.pod));
	check_text(dictionary->process.injector_version, sizeof(dictionary->process.injector_version));
	check_rank(dictionary->process.rank, dictionary->process.world);
	for (uint32_t i = 0; i < dictionary->gpu_count; i++) {
		check_text(dictionary->gpus[i].name, sizeof(dictionary->gpus[i].name));
		assert_true(dictionary->gpus[i].nvml_index >= -1);
		for (size_t j = 0; j < 32; j++)
			assert_true(dictionary->gpus[i].link[j] < CS_LINK_COUNT);
	}
	for (uint32_t i = 0; i < dictionary->communicator_count; i++) {
		check_text(dictionary->communicators[i].name, sizeof(dictionary->communicators[i].name));
		check_rank(dictionary->communicators[i].rank, dictionary->communicators[i].world);
		assert_true(dictionary->communicators[i].impl < CS_IMPL_COUNT);
	}
	for (uint32_t i = 0; i < dictionary->environment_count; i++) {
		check_text(dictionary->environment[i].name, sizeof(dictionary->environment[i].name));
		check_text(dictionary->environment[i].value, sizeof(dictionary->environment[i].value));
	}
	for (uint32_t i = 0; i < dictionary->name_count; i++)
		check_text(dictionary->names[i], CS_NAME_BYTES_MAX + 1);
	for (uint32_t i = 0; i < dictionary->label_count; i++) {
		const struct cs_label *label = &dictionary->labels[i];

		assert_true(label->op < CS_OP_COUNT && label->impl < CS_IMPL_COUNT);
		assert_true(label->dtype < CS_DTYPE_COUNT && label->source < CS_LABEL_SOURCE_COUNT);
		assert_true(label->name_id < dictionary->name_count);
		assert_true(label->comm_id <= dictionary->communicator_count);
		if (i != 0)
			check_rank(label->rank, label->world);
	}
}

static void
check_record(const struct cs_dictionary *dictionary, const struct cs_record *record)
{
	assert_true(record->type > 0 && record->type < CS_RECORD_TYPE_COUNT);
	assert_true(record->end_ns >= record->start_ns);
	assert_true(record->gpu == 0 || record->gpu < dictionary->gpu_count);
	if (record->type == CS_RECORD_COLLECTIVE || record->type == CS_RECORD_HOST_LAUNCH)
		assert_true(record->ref < dictionary->label_count);
	if (record->type == CS_RECORD_MARK || record->type == CS_RECORD_MARKER)
		assert_true(record->ref < dictionary->name_count);
}

static const int open_errors[] = {-EBADMSG, -EPROTO, -EAGAIN};

static bool
expected_error(int result)
{
	for (size_t i = 0; i < sizeof(open_errors) / sizeof(open_errors[0]); i++)
		if (result == open_errors[i])
			return true;
	return false;
}

/* Everything that a user of the reader calls. Whether it could be opened. */
static bool
try_file(const char *path)
{
	struct cs_record records[256];
	struct cs_segment_reader *reader;
	struct cs_error error = {.text = ""};
	struct cs_status status;
	size_t count;
	uint64_t total = 0;
	int result = cs_segment_reader_open(path, true, &reader, &error);

	if (result != 0) {
		assert_true(expected_error(result));
		assert_null(reader);
		assert_true(error.text[0] != '\0');
		return false;
	}
	do {
		result = cs_segment_reader_read(reader, records, 256, &count);
		assert_true(result == 0 || result == -EBADMSG);
		for (size_t i = 0; i < count; i++)
			check_record(cs_segment_reader_borrow_dictionary(reader), &records[i]);
		total += count;
		assert_true(total <= CS_RING_SLOTS_MAX);
	} while (result == 0 && count != 0);
	check_dictionary(cs_segment_reader_borrow_dictionary(reader));
	assert_int_equal(cs_segment_reader_status(reader, &status), 0);
	cs_segment_reader_close(reader);
	return true;
}

/* -- a good file, in memory ------------------------------------------------------------------------------ */

struct image {
	uint8_t *bytes;
	size_t length;
	char path[FIXTURE_PATH_BYTES + 16];
};

/* A little of everything. */
static void
image_make(const struct fixture *fixture, struct image *image)
{
	struct cs_segment_writer *writer = fixture_writer(fixture, SLOTS);
	struct cs_gpu gpu = {.nvml_index = 0, .name = "H200"};
	struct cs_communicator communicator = {.hash = 1, .rank = 0, .world = 8, .name = "tp"};
	struct cs_label label = {.op = 1, .impl = 1, .rank = 0, .world = 8, .bytes = 43008};
	struct fixture_raw raw;
	char text[32];

	cs_segment_writer_gpu(writer, &gpu);
	label.comm_id = cs_segment_writer_communicator(writer, &communicator);
	for (unsigned int i = 0; i < 40; i++) {
		snprintf(text, sizeof(text), "kernel_%u", i);
		label.name_id = cs_segment_writer_name(writer, text);
		cs_segment_writer_label(writer, &label);
	}
	cs_segment_writer_environment(writer, "NCCL_ALGO", "Ring");
	cs_segment_writer_text(writer, CS_TEXT_REASON, "because");
	cs_segment_writer_rank(writer, 0, 8);
	for (uint64_t i = 0; i < SLOTS + 100; i++) {
		struct cs_record record = {.type = (uint8_t)(1 + i % 8),
			.ref = (uint32_t)(i % 3),
			.start_ns = i,
			.end_ns = i + 1};

		cs_segment_writer_append(writer, &record);
	}
	fixture_map(cs_segment_writer_path(writer), &raw);
	image->length = raw.length_bytes;
	image->bytes = test_malloc(image->length);
	memcpy(image->bytes, raw.base, image->length);
	fixture_unmap(&raw);
	cs_segment_writer_destroy(writer, true);
	snprintf(image->path, sizeof(image->path), "%s/1-1.seg", fixture->directory);
}

static void
write_file(const char *path, const uint8_t *bytes, size_t length)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, length), length);
	close(fd);
}

/* Of a file that is there: only these bytes. */
static void
patch_file(const char *path, size_t offset, const void *bytes, size_t length)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, length, (off_t)offset), length);
	close(fd);
}

static void
image_free(struct image *image)
{
	test_free(image->bytes);
}

/* -- tests ----------------------------------------------------------------------------------------------- */

static void
test_good_file(void **state)
{
	struct image image;

	image_make(*state, &image);
	write_file(image.path, image.bytes, image.length);
	assert_true(try_file(image.path));
	image_free(&image);
}

static const uint64_t extremes[] = {0, 1, 2, 3, 63, 64, 4095, 4096, 4097, 8192, 65536, INT32_MAX, 1ULL << 31,
	UINT32_MAX, 1ULL << 32, (1ULL << 32) + 1, 1ULL << 62, INT64_MAX, 1ULL << 63, UINT64_MAX - 4095,
	UINT64_MAX - 63, UINT64_MAX};
#define EXTREMES (sizeof(extremes) / sizeof(extremes[0]))

/* Each word of the header (and so each field of the directory), 4 and 8 bytes wide, at each extreme. */
static void
test_header_extremes(void **state)
{
	struct image image;
	unsigned int refused = 0;

	image_make(*state, &image);
	write_file(image.path, image.bytes, image.length);
	for (size_t offset = 0; offset < 240 + 11 * sizeof(struct cs_section); offset += 4)
		for (size_t i = 0; i < EXTREMES; i++)
			for (size_t width = 4; width <= 8 && offset % width == 0; width += 4) {
				patch_file(image.path, offset, &extremes[i], width);
				refused += !try_file(image.path);
				patch_file(image.path, offset, image.bytes + offset, width);
			}
	assert_true(refused > 1000);
	assert_true(try_file(image.path));
	image_free(&image);
}

/* Every bit of what a reader must look at. */
static void
test_header_bits(void **state)
{
	/* Not looked at: identity, version text, reserved. */
	static const size_t free_from = 56, free_to = 240;
	struct image image;

	image_make(*state, &image);
	write_file(image.path, image.bytes, image.length);
	for (size_t bit = 0; bit < 8 * (240 + 10 * sizeof(struct cs_section)); bit++) {
		uint8_t flipped = image.bytes[bit / 8] ^ (uint8_t)(1U << bit % 8);
		bool is_minor = bit / 8 == 22 || bit / 8 == 23;
		bool opened;

		patch_file(image.path, bit / 8, &flipped, 1);
		opened = try_file(image.path);
		patch_file(image.path, bit / 8, &image.bytes[bit / 8], 1);
		if (bit / 8 < 56 && !is_minor && opened)
			fail_msg("bit %zu of the header was not looked at", bit);
		if ((is_minor || (bit / 8 >= free_from && bit / 8 < free_to)) && !opened)
			fail_msg("bit %zu of the header should not matter", bit);
	}
	image_free(&image);
}

/* The counts, heads and sequence words of all sections. */
static void
test_section_extremes(void **state)
{
	struct image image;
	const struct cs_segment_header *header;

	image_make(*state, &image);
	header = (const struct cs_segment_header *)(const void *)image.bytes;
	write_file(image.path, image.bytes, image.length);
	for (uint32_t section = 0; section < header->section_count; section++)
		for (size_t word = 0; word < 40; word++)
			for (size_t i = 0; i < EXTREMES; i++) {
				size_t offset = header->sections[section].offset_bytes + word * 8;

				patch_file(image.path, offset, &extremes[i], 8);
				try_file(image.path);
				patch_file(image.path, offset, image.bytes + offset, 8);
			}
	assert_true(try_file(image.path));
	image_free(&image);
}

/* One to 64 random bytes, half of them where there is something to break. */
static void
test_random_flips(void **state)
{
	struct image image;
	const struct cs_segment_header *header;

	image_make(*state, &image);
	header = (const struct cs_segment_header *)(const void *)image.bytes;
	write_file(image.path, image.bytes, image.length);
	for (uint64_t seed = 1; seed <= 3000; seed++) {
		uint64_t random = seed * 0x9e3779b97f4a7c15ULL;
		size_t flips = 1 + next_random(&random) % 64;
		size_t offsets[64];

		for (size_t i = 0; i < flips; i++) {
			const struct cs_section *section =
				&header->sections[next_random(&random) % header->section_count];
			uint8_t byte = (uint8_t)next_random(&random);

			offsets[i] = next_random(&random) & 1
					     ? next_random(&random) % image.length
					     : section->offset_bytes + next_random(&random) % 4096;
			patch_file(image.path, offsets[i], &byte, 1);
		}
		try_file(image.path);
		for (size_t i = 0; i < flips; i++)
			patch_file(image.path, offsets[i], image.bytes + offsets[i], 1);
	}
	assert_true(try_file(image.path));
	image_free(&image);
}

/* A right header before noise, and noise alone. */
static void
test_random_files(void **state)
{
	struct image image;
	uint8_t *noise;

	image_make(*state, &image);
	noise = test_malloc(image.length);
	for (uint64_t seed = 1; seed <= 40; seed++) {
		uint64_t random = seed * 0x9e3779b97f4a7c15ULL;
		size_t keep = seed & 1 ? 4096 : 0;

		for (size_t i = 0; i + 8 <= image.length; i += 8) {
			uint64_t word = next_random(&random);

			memcpy(noise + i, &word, 8);
		}
		memcpy(noise, image.bytes, keep);
		write_file(image.path, noise, image.length);
		assert_true(keep != 0 || !try_file(image.path));
		try_file(image.path);
	}
	test_free(noise);
	image_free(&image);
}

static void
test_lengths(void **state)
{
	static const size_t lengths[] = {0, 1, 15, 16, 56, 239, 240, 4095, 4096, 4097, 8192, 100000};
	struct image image;

	image_make(*state, &image);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		write_file(image.path, image.bytes, lengths[i]);
		assert_false(try_file(image.path));
	}
	write_file(image.path, image.bytes, image.length - 1);
	assert_false(try_file(image.path));
	image_free(&image);
}

/* The last section a page too far, or a page too long: it overlaps nothing, and there is nothing. */
static void
test_beyond_the_end(void **state)
{
	static const size_t fields[] = {
		offsetof(struct cs_section, offset_bytes), offsetof(struct cs_section, length_bytes)};
	const struct cs_segment_header *header;
	struct image image;

	image_make(*state, &image);
	header = (const struct cs_segment_header *)(const void *)image.bytes;
	write_file(image.path, image.bytes, image.length);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		size_t at = offsetof(struct cs_segment_header, sections[0]) +
			    (header->section_count - 1) * sizeof(struct cs_section) + fields[i];
		uint64_t more;

		memcpy(&more, image.bytes + at, sizeof(more));
		more += CS_SEGMENT_PAGE_BYTES;
		patch_file(image.path, at, &more, sizeof(more));
		assert_false(try_file(image.path));
		patch_file(image.path, at, image.bytes + at, sizeof(more));
	}
	assert_true(try_file(image.path));
	image_free(&image);
}

/* Two sections in one place: each alone is as it should be. */
static void
test_overlaps(void **state)
{
	struct image image;
	const struct cs_segment_header *header;

	image_make(*state, &image);
	header = (const struct cs_segment_header *)(const void *)image.bytes;
	write_file(image.path, image.bytes, image.length);
	for (uint32_t i = 0; i + 1 < header->section_count; i++) {
		size_t at = offsetof(struct cs_segment_header, sections[0]) + i * sizeof(struct cs_section) +
			    offsetof(struct cs_section, offset_bytes);

		/* It must fit there. */
		if (header->sections[i].length_bytes >
			header->sections[header->section_count - 1].length_bytes)
			continue;
		patch_file(image.path, at, &header->sections[header->section_count - 1].offset_bytes, 8);
		assert_false(try_file(image.path));
		patch_file(image.path, at, image.bytes + at, 8);
	}
	assert_true(try_file(image.path));
	image_free(&image);
}

static void
test_other_files(void **state)
{
	const struct fixture *fixture = *state;
	struct cs_segment_reader *reader;
	struct cs_error error;
	struct image image;
	char path[FIXTURE_PATH_BYTES + 16];

	image_make(fixture, &image);
	assert_int_equal(cs_segment_reader_open(image.path, true, &reader, &error), -ENOENT);
	write_file(image.path, image.bytes, image.length);
	snprintf(path, sizeof(path), "%s/link", fixture->directory);
	assert_int_equal(symlink(image.path, path), 0);
	assert_int_equal(cs_segment_reader_open(path, true, &reader, &error), -ELOOP);
	snprintf(path, sizeof(path), "%s/fifo", fixture->directory);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(cs_segment_reader_open(path, true, &reader, &error), -EBADMSG);
	assert_int_equal(cs_segment_request(path, CS_COMMAND_TRACE, 0, 0, 0, &error), -EBADMSG);
	assert_int_equal(cs_segment_reader_open(fixture->directory, true, &reader, &error), -EBADMSG);
	assert_int_equal(cs_segment_reader_open("/dev/zero", true, &reader, &error), -EBADMSG);
	image_free(&image);
}

/* Of a later minor: longer sections and types that this build does not know. */
static void
test_newer_minor(void **state)
{
	struct image image;
	struct cs_segment_header *header;
	uint8_t *longer;

	image_make(*state, &image);
	longer = test_calloc(1, image.length + 4096);
	memcpy(longer, image.bytes, image.length);
	header = (struct cs_segment_header *)(void *)longer;
	header->minor = 9;
	header->sections[header->section_count] = (struct cs_section){.type = 4711,
		.stride_bytes = 3,
		.offset_bytes = image.length,
		.length_bytes = 4096,
		.capacity = UINT64_MAX};
	header->section_count++;
	header->file_bytes = image.length + 4096;
	write_file(image.path, longer, image.length + 4096);
	assert_true(try_file(image.path));
	test_free(longer);
	image_free(&image);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_good_file),
		TEST(test_header_extremes),
		TEST(test_header_bits),
		TEST(test_section_extremes),
		TEST(test_random_flips),
		TEST(test_random_files),
		TEST(test_lengths),
		TEST(test_beyond_the_end),
		TEST(test_overlaps),
		TEST(test_other_files),
		TEST(test_newer_minor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
