/* SPDX-License-Identifier: Apache-2.0 */
#include "text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_BYTES 16384U

/* A regular file of which no size is known to be too much; else a negative errno. */
static int
open_file(const char *path)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int result = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) != 0)
		result = -errno;
	else if (!S_ISREG(status.st_mode))
		result = -EINVAL;
	else if (status.st_size > (off_t)CS_TEXT_FILE_BYTES_MAX)
		result = -EFBIG;
	if (result == 0)
		return fd;
	(void)close(fd);
	return result;
}

/* To its end, not to its size: /proc gives 0 for all of its files, and a file can grow while it is read. Read
 * in whole pages, as some of those ask for. */
static int
read_to_end(int fd, char **text, size_t *length)
{
	size_t capacity = 0;
	ssize_t part;

	do {
		if (*length == capacity) {
			char *grown;

			capacity = capacity ? capacity * 2 : FIRST_BYTES;
			grown = realloc(*text, capacity + 1);
			if (!grown)
				return -ENOMEM;
			*text = grown;
		}
		part = read(fd, *text + *length, capacity - *length);
		/* -EINVAL is kept for what is no regular file. */
		if (part < 0 && errno != EINTR)
			return errno == EINVAL ? -EIO : -errno;
		if (part > 0)
			*length += (size_t)part;
		if (*length > CS_TEXT_FILE_BYTES_MAX)
			return -EFBIG;
	} while (part != 0);
	(*text)[*length] = '\0';
	return 0;
}

int
cs_text_file_read(const char *path, char **text, size_t *length)
{
	int fd = open_file(path);
	int result;

	*text = NULL;
	*length = 0;
	if (fd < 0)
		return fd;
	result = read_to_end(fd, text, length);
	(void)close(fd);
	if (result < 0) {
		free(*text);
		*text = NULL;
	}
	return result;
}

const char *
cs_text_file_error(int code)
{
	switch (code) {
	case -EFBIG:
		return "the file is larger than 1 MiB";
	case -EINVAL:
		return "this is no regular file";
	default:
		return strerrordesc_np(-code);
	}
}
