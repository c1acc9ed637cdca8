/* SPDX-License-Identifier: Apache-2.0 */
#include "proc_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int
cs_proc_file_read(const char *path, char *text, size_t text_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	int error = 0;

	text[0] = '\0';
	if (fd < 0)
		return -errno;
	while (used < text_bytes - 1) {
		ssize_t got = read(fd, text + used, text_bytes - 1 - used);

		if (got == 0)
			break;
		if (got > 0)
			used += (size_t)got;
		else if (errno != EINTR) {
			error = errno;
			break;
		}
	}
	text[used] = '\0';
	close(fd);
	return used > 0 ? (int)used : -error;
}
