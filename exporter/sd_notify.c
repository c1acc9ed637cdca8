/* SPDX-License-Identifier: Apache-2.0 */
#include "sd_notify.h"

#include "clock.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int
cs_sd_notify(const char *message)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = path ? strlen(path) : 0;
	ssize_t sent;
	int fd, result = 0;

	/* A path, or a name in the abstract name space, which is written with "@" for its leading NUL. */
	if (!length || (path[0] != '/' && path[0] != '@') || length >= sizeof(address.sun_path))
		return -ENOTCONN;
	memcpy(address.sun_path, path, length);
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	sent = sendto(fd, message, strlen(message), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&address,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
	if (sent < 0)
		result = -errno;
	close(fd);
	return result;
}

uint64_t
cs_sd_watchdog_ns(void)
{
	const char *interval = getenv("WATCHDOG_USEC");
	const char *pid = getenv("WATCHDOG_PID");

	if (!interval || (pid && strtol(pid, NULL, 10) != (long)getpid()))
		return 0;
	return strtoull(interval, NULL, 10) * CS_NS_PER_US / 2;
}
