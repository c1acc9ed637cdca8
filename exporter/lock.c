/* SPDX-License-Identifier: Apache-2.0 */
#include "lock.h"

#include "segment/exporter_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Another exporter unlinking the file between our open and our lock is rare; many times in a row does not
 * happen. */
#define ATTEMPTS_MAX 100

static int
lock_path(const char *directory, char path[PATH_MAX])
{
	int length = snprintf(path, PATH_MAX, "%s/" CS_EXPORTER_LOCK_NAME, directory);

	return length < 0 || length >= PATH_MAX ? -ENAMETOOLONG : 0;
}

/* Whether the path still names the file behind fd. */
static bool
still_there(const char *path, int fd)
{
	struct stat by_path, by_fd;

	return lstat(path, &by_path) == 0 && fstat(fd, &by_fd) == 0 && by_path.st_dev == by_fd.st_dev &&
	       by_path.st_ino == by_fd.st_ino;
}

/* "pid 1234, address 127.0.0.1:19400", as far as the holder has written it. */
static void
describe_holder(int fd, char *text, size_t text_bytes)
{
	char content[256];
	ssize_t length = pread(fd, content, sizeof(content) - 1, 0);
	size_t used = 0;

	text[0] = '\0';
	content[length > 0 ? length : 0] = '\0';
	for (char *line = strtok(content, "\n"); line && used < text_bytes; line = strtok(NULL, "\n"))
		used += (size_t)snprintf(text + used, text_bytes - used, "%s%s", used ? ", " : "", line);
}

int
cs_lock_take(const char *directory, struct cs_error *error)
{
	char path[PATH_MAX];
	int result = lock_path(directory, path);

	if (result < 0)
		return cs_error_set(error, result, "the run directory's name is too long: %s", directory);
	for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
		struct flock whole_file = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
		char holder[256];

		if (fd < 0) {
			result = -errno;
			return cs_error_set(error, result, "cannot open %s: %s", path, strerror(-result));
		}
		if (fcntl(fd, F_OFD_SETLK, &whole_file) == 0) {
			if (!still_there(path, fd)) {
				close(fd);
				continue;
			}
			/* What a killed holder wrote must not be read as ours: it may be another address. */
			if (ftruncate(fd, 0) == 0)
				return fd;
			result = -errno;
			close(fd);
			return cs_error_set(error, result, "cannot empty %s: %s", path, strerror(-result));
		}
		result = errno == EACCES || errno == EAGAIN ? -EWOULDBLOCK : -errno;
		describe_holder(fd, holder, sizeof(holder));
		close(fd);
		if (result == -EWOULDBLOCK)
			return cs_error_set(error, result, "another exporter serves %s%s%s%s", directory,
				*holder ? " (" : "", holder, *holder ? ")" : "");
		return cs_error_set(error, result, "cannot lock %s: %s", path, strerror(-result));
	}
	return cs_error_set(error, -EWOULDBLOCK, "other exporters keep coming and going in %s", directory);
}

int
cs_lock_describe(int fd, const char *address)
{
	char text[256];
	int length = snprintf(text, sizeof(text), "pid %ld\naddress %s\n", (long)getpid(), address);
	ssize_t written;

	if (length < 0 || (size_t)length >= sizeof(text))
		return -ENAMETOOLONG;
	if (ftruncate(fd, 0) < 0)
		return -errno;
	written = pwrite(fd, text, (size_t)length, 0);
	if (written < 0)
		return -errno;
	return written == length ? 0 : -ENOSPC;
}

void
cs_lock_release(const char *directory, int fd)
{
	char path[PATH_MAX];

	if (fd < 0)
		return;
	if (lock_path(directory, path) == 0 && still_there(path, fd))
		unlink(path);
	close(fd);
}
