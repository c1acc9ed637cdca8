/* SPDX-License-Identifier: Apache-2.0 */
#include "segment_check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const section_names[CS_SECTION_TYPE_COUNT] = {
	[CS_SECTION_NONE] = "NONE",
	[CS_SECTION_CONTROL] = "CONTROL",
	[CS_SECTION_STATUS] = "STATUS",
	[CS_SECTION_PROCESS] = "PROCESS",
	[CS_SECTION_GPU] = "GPU",
	[CS_SECTION_COMMUNICATOR] = "COMMUNICATOR",
	[CS_SECTION_NAME] = "NAME",
	[CS_SECTION_TEXT] = "TEXT",
	[CS_SECTION_LABEL] = "LABEL",
	[CS_SECTION_ENVIRONMENT] = "ENVIRONMENT",
	[CS_SECTION_RING] = "RING",
};

/* Sections of any type, known or not: whole pages of the file behind the header. */
static int
check_place(const struct cs_section *section, uint32_t index, uint64_t file_bytes, struct cs_error *error)
{
	if (section->offset_bytes % CS_SEGMENT_PAGE_BYTES != 0 ||
		section->offset_bytes < CS_SEGMENT_PAGE_BYTES || section->offset_bytes > file_bytes ||
		section->length_bytes == 0 || section->length_bytes > file_bytes - section->offset_bytes)
		return cs_error_set(error, -EBADMSG,
			"section %" PRIu32 " does not lie within the file's %" PRIu64 " bytes", index,
			file_bytes);
	return 0;
}

static int
check_shape(const struct cs_section *section, const struct cs_section_rule *rule, struct cs_error *error)
{
	const char *name = section_names[section->type];

	if (section->stride_bytes != rule->stride_bytes)
		return cs_error_set(error, -EBADMSG,
			"entries of section %s have %" PRIu32 " bytes, not %" PRIu32, name,
			section->stride_bytes, rule->stride_bytes);
	if (section->capacity < rule->capacity_min || section->capacity > rule->capacity_max)
		return cs_error_set(error, -EBADMSG,
			"section %s holds %" PRIu64 " entries, outside %" PRIu64 " to %" PRIu64, name,
			section->capacity, rule->capacity_min, rule->capacity_max);
	if (section->type == CS_SECTION_RING && (section->capacity & (section->capacity - 1)) != 0)
		return cs_error_set(error, -EBADMSG, "the ring's %" PRIu64 " slots are no power of two",
			section->capacity);
	if (section->length_bytes < cs_section_length_bytes(rule, section->capacity))
		return cs_error_set(error, -EBADMSG,
			"section %s has %" PRIu64 " bytes, too few for %" PRIu64 " entries", name,
			section->length_bytes, section->capacity);
	return 0;
}

static int
check_overlap(const struct cs_section *sections, uint32_t count, struct cs_error *error)
{
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t j = i + 1; j < count; j++) {
			const struct cs_section *a = &sections[i], *b = &sections[j];

			if (a->offset_bytes < b->offset_bytes + b->length_bytes &&
				b->offset_bytes < a->offset_bytes + a->length_bytes)
				return cs_error_set(error, -EBADMSG,
					"sections %" PRIu32 " and %" PRIu32 " overlap", i, j);
		}
	return 0;
}

static int
check_sections(const struct cs_segment_header *header, struct cs_segment_map *map, struct cs_error *error)
{
	int result;

	for (uint32_t i = 0; i < header->section_count; i++) {
		const struct cs_section *section = &header->sections[i];
		const struct cs_section_rule *rule = cs_section_rule(section->type);

		result = check_place(section, i, header->file_bytes, error);
		if (result < 0)
			return result;
		if (!rule)
			continue; /* of a newer minor */
		if (map->offset_bytes[section->type] != 0)
			return cs_error_set(
				error, -EBADMSG, "section %s is there twice", section_names[section->type]);
		result = check_shape(section, rule, error);
		if (result < 0)
			return result;
		map->offset_bytes[section->type] = section->offset_bytes;
		map->capacity[section->type] = section->capacity;
	}
	for (uint32_t type = CS_SECTION_NONE + 1; type < CS_SECTION_TYPE_COUNT; type++)
		if (map->offset_bytes[type] == 0)
			return cs_error_set(error, -EBADMSG, "section %s is missing", section_names[type]);
	return check_overlap(header->sections, header->section_count, error);
}

int
cs_segment_check(const struct cs_segment_header *header, uint64_t file_bytes, struct cs_segment_map *map,
	struct cs_error *error)
{
	static const char magic[16] = CS_SEGMENT_MAGIC;
	uint64_t begin = atomic_load_explicit(&header->generation_begin, memory_order_relaxed);
	uint64_t end = atomic_load_explicit(&header->generation_end, memory_order_relaxed);

	memset(map, 0, sizeof(*map));
	if (memcmp(header->magic, magic, sizeof(magic)) != 0)
		return cs_error_set(error, -EBADMSG, "not a segment (other magic number)");
	if (header->endian != CS_SEGMENT_ENDIAN)
		return cs_error_set(error, -EBADMSG, "written on a machine of the other byte order");
	if (header->major != CS_SEGMENT_MAJOR)
		return cs_error_set(error, -EPROTO,
			"version %u is not the one that this build reads (%u); use the same version of "
			"collscope "
			"for server and reader",
			header->major, CS_SEGMENT_MAJOR);
	if (begin != end || begin == 0)
		return cs_error_set(error, -EAGAIN, "not complete yet");
	if (header->header_bytes != CS_SEGMENT_PAGE_BYTES)
		return cs_error_set(
			error, -EBADMSG, "its header claims %" PRIu32 " bytes", header->header_bytes);
	if (header->file_bytes != file_bytes)
		return cs_error_set(error, -EBADMSG,
			"the file has %" PRIu64 " bytes, its header says %" PRIu64, file_bytes,
			header->file_bytes);
	if (file_bytes > CS_SEGMENT_FILE_BYTES_MAX)
		return cs_error_set(
			error, -EBADMSG, "%" PRIu64 " bytes are too many for a segment", file_bytes);
	if (header->section_count > CS_SEGMENT_SECTIONS_MAX)
		return cs_error_set(
			error, -EBADMSG, "its header claims %" PRIu32 " sections", header->section_count);
	map->file_bytes = file_bytes;
	return check_sections(header, map, error);
}

static int
read_header(int fd, struct cs_segment_header *header)
{
	size_t used = 0;

	while (used < sizeof(*header)) {
		ssize_t got = pread(fd, (char *)header + used, sizeof(*header) - used, (off_t)used);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return -EBADMSG;
		used += (size_t)got;
	}
	return 0;
}

int
cs_segment_open_checked(const char *path, int open_flags, struct cs_segment_header *header,
	struct cs_segment_map *map, struct cs_error *error)
{
	struct stat status;
	int result;
	/* O_NONBLOCK: a FIFO of that name must not hold us up. */
	int fd = open(path, open_flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0) {
		result = -errno;
		return cs_error_set(error, result, "%s", strerror(-result));
	}
	if (fstat(fd, &status) != 0) {
		result = -errno;
		cs_error_set(error, result, "%s", strerror(-result));
	} else if (!S_ISREG(status.st_mode)) {
		result = cs_error_set(error, -EBADMSG, "not a regular file");
	} else {
		result = read_header(fd, header);
		if (result == -EBADMSG)
			cs_error_set(error, result, "not a segment (%lld bytes)", (long long)status.st_size);
		else if (result < 0)
			cs_error_set(error, result, "%s", strerror(-result));
		else
			result = cs_segment_check(header, (uint64_t)status.st_size, map, error);
	}
	if (result < 0) {
		close(fd);
		return result;
	}
	return fd;
}

int
cs_segment_lock_held(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

	if (fcntl(fd, F_OFD_GETLK, &lock) != 0)
		return -errno;
	return lock.l_type == F_UNLCK ? 0 : 1;
}
