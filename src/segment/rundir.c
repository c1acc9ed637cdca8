/* SPDX-License-Identifier: Apache-2.0 */
#include "rundir.h"

#include "segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_PARENT    "/run"
#define SYSTEM_DIRECTORY SYSTEM_PARENT "/collscope"
#define TEMPORARY_SUFFIX ".tmp"

static int
copy_text(const char *text, char *path, size_t path_bytes)
{
	size_t length = strlen(text);

	if (length >= path_bytes)
		return -ENAMETOOLONG;
	memcpy(path, text, length + 1);
	return 0;
}

/* The system directory is there and we may write it, or it is missing and we may make it. */
static bool
system_directory_usable(void)
{
	struct stat status;

	if (lstat(SYSTEM_DIRECTORY, &status) == 0)
		return S_ISDIR(status.st_mode) &&
		       faccessat(AT_FDCWD, SYSTEM_DIRECTORY, W_OK | X_OK, AT_EACCESS) == 0;
	return errno == ENOENT && faccessat(AT_FDCWD, SYSTEM_PARENT, W_OK | X_OK, AT_EACCESS) == 0;
}

static int
format_fallback(char *path, size_t path_bytes)
{
	int length = snprintf(path, path_bytes, "/dev/shm/collscope-%u", (unsigned int)geteuid());

	return length < 0 || (size_t)length >= path_bytes ? -ENAMETOOLONG : 0;
}

/* What resolve and prepare share; *is_fallback tells whether /dev/shm was chosen. */
static int
resolve(const char *configured, char *path, size_t path_bytes, bool *is_fallback)
{
	*is_fallback = false;
	if (configured && configured[0]) {
		if (configured[0] != '/')
			return -EINVAL;
		return copy_text(configured, path, path_bytes);
	}
	if (system_directory_usable())
		return copy_text(SYSTEM_DIRECTORY, path, path_bytes);
	*is_fallback = true;
	return format_fallback(path, path_bytes);
}

int
cs_rundir_resolve(const char *configured, char *path, size_t path_bytes)
{
	int saved_errno = errno;
	bool is_fallback;
	int result = resolve(configured, path, path_bytes, &is_fallback);

	errno = saved_errno;
	return result;
}

/* /dev/shm is world-writable: whatever has our name there may be a trap laid by someone else. */
static int
check_fallback(const char *path)
{
	struct stat status;

	if (lstat(path, &status) != 0)
		return -errno;
	if (!S_ISDIR(status.st_mode))
		return -ENOTDIR;
	if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)))
		return -EPERM;
	return 0;
}

static int
check_directory(const char *path)
{
	struct stat status;

	if (stat(path, &status) != 0)
		return -errno;
	if (!S_ISDIR(status.st_mode))
		return -ENOTDIR;
	return faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) == 0 ? 0 : -errno;
}

static int
prepare_one(const char *path, bool is_fallback)
{
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return -errno;
	return is_fallback ? check_fallback(path) : check_directory(path);
}

int
cs_rundir_prepare(const char *configured, char *path, size_t path_bytes)
{
	int saved_errno = errno;
	bool is_fallback;
	int result = resolve(configured, path, path_bytes, &is_fallback);

	if (result == 0) {
		result = prepare_one(path, is_fallback);
		/* access(2) said yes and mkdir(2) no: a security module, or a read-only /run that root sees
		 * as writable. */
		if (result < 0 && !is_fallback && !(configured && configured[0])) {
			result = format_fallback(path, path_bytes);
			if (result == 0)
				result = prepare_one(path, true);
		}
	}
	errno = saved_errno;
	return result;
}

const char *
cs_rundir_error_text(int error)
{
	const char *text = error == -EINVAL ? "the path is not absolute" : strerrordesc_np(-error);

	return text ? text : "unknown error";
}

/* Decimal digits as printf writes them: no sign, no leading zero. Returns where they end, NULL if none. */
static const char *
parse_decimal(const char *text, uint64_t limit, uint64_t *value)
{
	uint64_t sum = 0;
	const char *end = text;

	for (; *end >= '0' && *end <= '9'; end++) {
		uint64_t digit = (uint64_t)(*end - '0');

		if (sum > (limit - digit) / 10)
			return NULL;
		sum = sum * 10 + digit;
	}
	if (end == text || (text[0] == '0' && end - text > 1))
		return NULL;
	*value = sum;
	return end;
}

int
cs_rundir_parse_name(const char *file_name, uint32_t *pid, uint64_t *start_time_ticks)
{
	uint64_t pid_value;
	uint64_t ticks;
	const char *next = parse_decimal(file_name, INT32_MAX, &pid_value);

	if (!next || pid_value == 0 || *next != '-')
		return -EINVAL;
	next = parse_decimal(next + 1, UINT64_MAX, &ticks);
	if (!next || strcmp(next, CS_SEGMENT_SUFFIX) != 0)
		return -EINVAL;
	*pid = (uint32_t)pid_value;
	*start_time_ticks = ticks;
	return 0;
}

int
cs_rundir_format_name(uint32_t pid, uint64_t start_time_ticks, char *name, size_t name_bytes)
{
	int length =
		snprintf(name, name_bytes, "%" PRIu32 "-%" PRIu64 CS_SEGMENT_SUFFIX, pid, start_time_ticks);

	return length < 0 || (size_t)length >= name_bytes ? -ENAMETOOLONG : 0;
}

int
cs_rundir_format_temporary(
	uint32_t pid, uint64_t start_time_ticks, unsigned int attempt, char *name, size_t name_bytes)
{
	int length = snprintf(name, name_bytes, ".%" PRIu32 "-%" PRIu64 ".%u" TEMPORARY_SUFFIX, pid,
		start_time_ticks, attempt);

	return length < 0 || (size_t)length >= name_bytes ? -ENAMETOOLONG : 0;
}

bool
cs_rundir_is_temporary(const char *file_name)
{
	uint64_t value;
	const char *next = file_name[0] == '.' ? parse_decimal(file_name + 1, INT32_MAX, &value) : NULL;

	next = next && *next == '-' ? parse_decimal(next + 1, UINT64_MAX, &value) : NULL;
	next = next && *next == '.' ? parse_decimal(next + 1, UINT32_MAX, &value) : NULL;
	return next && strcmp(next, TEMPORARY_SUFFIX) == 0;
}

int
cs_rundir_each(
	const char *path, int (*visit)(const char *path, const char *name, void *context), void *context)
{
	char file_path[PATH_MAX];
	const struct dirent *entry;
	int result = 0;
	DIR *directory = opendir(path);

	if (!directory)
		return -errno;
	for (;;) {
		uint64_t ticks;
		uint32_t pid;
		int length;

		errno = 0;
		entry = readdir(directory);
		if (!entry) {
			result = -errno;
			break;
		}
		if (cs_rundir_parse_name(entry->d_name, &pid, &ticks) != 0)
			continue;
		length = snprintf(file_path, sizeof(file_path), "%s/%s", path, entry->d_name);
		if (length < 0 || (size_t)length >= sizeof(file_path)) {
			result = -ENAMETOOLONG;
			break;
		}
		result = visit(file_path, entry->d_name, context);
		if (result != 0)
			break;
	}
	closedir(directory);
	return result;
}
