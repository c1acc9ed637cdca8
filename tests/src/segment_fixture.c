/* SPDX-License-Identifier: Apache-2.0 */
#include "segment_fixture.h"

#include "segment/rundir.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <dirent.h>

int
fixture_setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	const char *parent = getenv("TMPDIR");

	if (!fixture)
		return -1;
	snprintf(fixture->directory, sizeof(fixture->directory), "%s/collscope-test-XXXXXX",
		parent && parent[0] ? parent : "/tmp");
	if (!mkdtemp(fixture->directory)) {
		free(fixture);
		return -1;
	}
	*state = fixture;
	return 0;
}

static unsigned int
each_file(const struct fixture *fixture, bool unlink_files)
{
	DIR *directory = opendir(fixture->directory);
	const struct dirent *entry;
	unsigned int count = 0;

	if (!directory)
		return 0;
	while ((entry = readdir(directory))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		count++;
		if (unlink_files && unlinkat(dirfd(directory), entry->d_name, 0) != 0)
			unlinkat(dirfd(directory), entry->d_name, AT_REMOVEDIR);
	}
	closedir(directory);
	return count;
}

int
fixture_teardown(void **state)
{
	struct fixture *fixture = *state;

	each_file(fixture, true);
	rmdir(fixture->directory);
	free(fixture);
	return 0;
}

unsigned int
fixture_files(const struct fixture *fixture)
{
	return each_file(fixture, false);
}

struct cs_segment_writer *
fixture_writer(const struct fixture *fixture, uint32_t ring_slots)
{
	struct cs_segment_options options = {
		.directory = fixture->directory, .ring_slots = ring_slots, .version = "test 1"};
	struct cs_segment_writer *writer = NULL;

	assert_int_equal(cs_segment_writer_create(&options, &writer), 0);
	assert_non_null(writer);
	return writer;
}

struct cs_segment_reader *
fixture_reader(const char *path, bool from_oldest)
{
	struct cs_segment_reader *reader = NULL;
	struct cs_error error = {.text = ""};
	int result = cs_segment_reader_open(path, from_oldest, &reader, &error);

	if (result != 0)
		print_error("%s\n", error.text);
	assert_int_equal(result, 0);
	return reader;
}

static int
take_path(const char *path, const char *name, void *context)
{
	char *to = context;

	(void)name;
	if (to[0])
		return 1;
	snprintf(to, FIXTURE_PATH_BYTES, "%s", path);
	return 0;
}

void
fixture_only_path(const struct fixture *fixture, char *path, size_t path_bytes)
{
	assert_true(path_bytes >= FIXTURE_PATH_BYTES);
	path[0] = '\0';
	assert_int_equal(cs_rundir_each(fixture->directory, take_path, path), 0);
	assert_true(path[0] != '\0');
}

struct cs_record
fixture_record(uint64_t serial)
{
	return (struct cs_record){
		.type = CS_RECORD_MARK,
		.start_ns = serial,
		.end_ns = serial * 3 + 1,
		.value = serial ^ 0x5a5a5a5a5a5a5a5aULL,
		.graph_node_id = ~serial,
		.correlation_id = (uint32_t)serial,
		.graph_id = (uint32_t)(serial >> 32),
		.stream_id = (uint32_t)(serial * 2654435761U),
		.sequence = (uint32_t)~serial,
	};
}

bool
fixture_intact(const struct cs_record *record)
{
	struct cs_record expected = fixture_record(record->start_ns);

	return memcmp(&expected, record, sizeof(expected)) == 0;
}

void
fixture_map(const char *path, struct fixture_raw *raw)
{
	struct stat status;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *base;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &status), 0);
	raw->length_bytes = (size_t)status.st_size;
	base = mmap(NULL, raw->length_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(base != MAP_FAILED);
	close(fd);
	raw->base = base;
	raw->header = base;
}

void
fixture_unmap(struct fixture_raw *raw)
{
	munmap(raw->base, raw->length_bytes);
}

void *
fixture_section(const struct fixture_raw *raw, enum cs_section_type type)
{
	for (uint32_t i = 0; i < raw->header->section_count; i++)
		if (raw->header->sections[i].type == (uint32_t)type)
			return raw->base + raw->header->sections[i].offset_bytes;
	fail_msg("no section %d", (int)type);
	return NULL;
}

struct cs_ring_slot *
fixture_slot(const struct fixture_raw *raw, uint64_t number)
{
	struct cs_ring_head *head = fixture_section(raw, CS_SECTION_RING);
	struct cs_ring_slot *slots = (struct cs_ring_slot *)(void *)(head + 1);

	for (uint32_t i = 0; i < raw->header->section_count; i++)
		if (raw->header->sections[i].type == CS_SECTION_RING)
			return &slots[number % raw->header->sections[i].capacity];
	return NULL;
}

int
fixture_wait(int pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}
