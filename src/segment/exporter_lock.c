/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter_lock.h"

#include "environment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* exporter/lock.h has the contract of the file. */
/* Reading is enough to ask about a lock: it may be another user's. Opening a FIFO would wait for a writer. */
#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)

bool
cs_exporter_is_running(const char *directory)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char path[CS_PATH_BYTES + sizeof(CS_EXPORTER_LOCK_NAME) + 1];
	bool held;
	int fd;

	snprintf(path, sizeof(path), "%s/" CS_EXPORTER_LOCK_NAME, directory);
	fd = open(path, OPEN_FLAGS);
	if (fd < 0)
		return false;
	held = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
	close(fd);
	return held;
}

int
cs_exporter_find_serving(const char *directory, struct cs_exporter_serving *serving)
{
	char path[CS_PATH_BYTES + sizeof(CS_EXPORTER_LOCK_NAME) + 1], text[256];
	ssize_t length = -1;
	int fd;

	*serving = (struct cs_exporter_serving){0};
	if (!cs_exporter_is_running(directory))
		return -ENOENT;
	snprintf(path, sizeof(path), "%s/" CS_EXPORTER_LOCK_NAME, directory);
	fd = open(path, OPEN_FLAGS);
	if (fd >= 0) {
		length = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[length > 0 ? length : 0] = 0;
	/* The holder writes both once it listens. */
	return sscanf(text, "pid %ld\naddress %127[^\n]", &serving->pid, serving->address) == 2 ? 0 : -EAGAIN;
}
