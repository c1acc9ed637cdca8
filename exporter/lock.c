/* SPDX-License-Identifier: Apache-2.0 */
#include "lock.h"

#include "segment/exporter_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
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

/* Somebody went between two looks: look again. (-EAGAIN is -EWOULDBLOCK.) */
#define LOOK_AGAIN (-ESTALE)

static int
refuse(const char *directory, int fd, struct cs_error *error)
{
	char holder[256];

	describe_holder(fd, holder, sizeof(holder));
	return cs_error_set(error, -EWOULDBLOCK, "another exporter serves %s%s%s%s", directory,
		*holder ? " (" : "", holder, *holder ? ")" : "");
}

/* The lock alone. 0, -EWOULDBLOCK, or another negative errno. */
static int
set_lock(int fd, short type)
{
	struct flock whole_file = {.l_type = type, .l_whence = SEEK_SET};

	if (fcntl(fd, F_OFD_SETLK, &whole_file) == 0)
		return 0;
	return errno == EACCES || errno == EAGAIN ? -EWOULDBLOCK : -errno;
}

static int
cannot_open(const char *path, int why, struct cs_error *error)
{
	struct stat file;

	if (lstat(path, &file) < 0)
		return cs_error_set(error, -why, "cannot open %s: %s", path, strerror(why));
	return cs_error_set(error, -why,
		"cannot open %s, which is uid %u's: %s; when no exporter of that user serves the directory, "
		"remove the file",
		path, (unsigned int)file.st_uid, strerror(why));
}

/*
 * The file is another user's: of one that serves, or left by one that was killed, and then it would be in the
 * way for ever. Reading is enough for a read lock, which keeps writers away from it; and for one of flock(),
 * which keeps those away who are about to do the same: a file is unlinked by nobody but the only holder of
 * its locks. Returns LOOK_AGAIN when it is gone.
 */
static int
remove_abandoned(const char *directory, const char *path, struct cs_error *error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	int result;

	/* Gone meanwhile; unless there was none, and we may not make one. */
	if (fd < 0 && errno == ENOENT && faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) == 0)
		return LOOK_AGAIN;
	if (fd < 0)
		return cannot_open(path, EACCES, error);
	result = set_lock(fd, F_RDLCK);
	if (result == -EWOULDBLOCK)
		refuse(directory, fd, error);
	else if (result < 0)
		cannot_open(path, -result, error);
	else if (flock(fd, LOCK_EX | LOCK_NB) == 0 && still_there(path, fd) && unlink(path) < 0)
		result = cannot_open(path, errno, error);
	close(fd);
	return result < 0 ? result : LOOK_AGAIN;
}

static int
try_to_take(const char *directory, const char *path, struct cs_error *error)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	int result;

	if (fd < 0) {
		result = -errno;
		return result == -EACCES
			       ? remove_abandoned(directory, path, error)
			       : cs_error_set(error, result, "cannot open %s: %s", path, strerror(-result));
	}
	result = set_lock(fd, F_WRLCK);
	if (result == -EWOULDBLOCK)
		refuse(directory, fd, error);
	else if (result < 0)
		cs_error_set(error, result, "cannot lock %s: %s", path, strerror(-result));
	else if (!still_there(path, fd))
		result = LOOK_AGAIN;
	/* What a killed holder wrote must not be read as ours: it may be another address. */
	else if (ftruncate(fd, 0) < 0)
		result = cs_error_set(error, -errno, "cannot empty %s: %s", path, strerror(errno));
	if (result == 0)
		return fd;
	close(fd);
	return result;
}

int
cs_lock_take(const char *directory, struct cs_error *error)
{
	char path[PATH_MAX];
	int result = lock_path(directory, path);

	if (result < 0)
		return cs_error_set(error, result, "the run directory's name is too long: %s", directory);
	for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
		result = try_to_take(directory, path, error);
		if (result != LOOK_AGAIN)
			return result;
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
