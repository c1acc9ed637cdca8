/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

bool
cs_process_has_ended(pid_t pid)
{
	struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, pid, 0U), .events = POLLIN};
	bool result;

	if (ended.fd < 0)
		return errno == ESRCH || (kill(pid, 0) < 0 && errno == ESRCH);
	result = poll(&ended, 1, 0) > 0;
	close(ended.fd);
	return result;
}
