/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter_start.h"

#include "environment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* exporter/lock.h has the contract of the file. */
#define LOCK_FILE_NAME "exporter.lock"
#define LOG_FILE_NAME  "exporter.log"

bool
cs_exporter_is_running(const char *directory)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char path[CS_PATH_BYTES + sizeof(LOCK_FILE_NAME) + 1];
	bool held;
	int fd;

	snprintf(path, sizeof(path), "%s/" LOCK_FILE_NAME, directory);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return false;
	held = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
	close(fd);
	return held;
}

/* The holder writes its address into the file once it listens. */
static bool
is_serving(const char *directory)
{
	char path[CS_PATH_BYTES + sizeof(LOCK_FILE_NAME) + 1];
	struct stat info;

	snprintf(path, sizeof(path), "%s/" LOCK_FILE_NAME, directory);
	return cs_exporter_is_running(directory) && stat(path, &info) == 0 && info.st_size > 0;
}

bool
cs_exporter_wait(const char *directory)
{
	const struct timespec pause = {.tv_nsec = 10000000};

	for (unsigned int turn = 0; turn < 50; turn++) {
		if (is_serving(directory))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

static int
open_log(const char *directory)
{
	char path[CS_PATH_BYTES + sizeof(LOG_FILE_NAME) + 1];
	int fd;

	snprintf(path, sizeof(path), "%s/" LOG_FILE_NAME, directory);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	return fd < 0 ? open("/dev/null", O_WRONLY | O_CLOEXEC) : fd;
}

/* In the grandchild. Returns only when it failed. */
static void
become_exporter(const char *program, const char *directory, int report_fd)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int log_fd = open_log(directory);
	int error;

	if (null_fd < 0 || log_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
		dup2(null_fd, STDOUT_FILENO) < 0 || dup2(log_fd, STDERR_FILENO) < 0)
		goto failed;
	/* What the caller's shell left open (a lock, a pipe somebody reads to its end) is not to live on in a
	 * daemon. */
	if (close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC))
		goto failed;
	execl(program, program, "--collscope.auto", (char *)NULL);
failed:
	error = errno;
	if (write(report_fd, &error, sizeof(error)) != (ssize_t)sizeof(error))
		_exit(1);
}

/* The middle process leaves at once, so that nobody has to wait for the exporter. */
static void
detach(const char *program, const char *directory, int report_fd)
{
	pid_t pid;
	int error;

	setsid();
	pid = fork();
	if (pid < 0) {
		error = errno;
		if (write(report_fd, &error, sizeof(error)) != (ssize_t)sizeof(error))
			_exit(1);
	}
	if (pid == 0)
		become_exporter(program, directory, report_fd);
	_exit(0);
}

int
cs_exporter_start(const char *program, const char *directory)
{
	int report[2];
	int error = 0;
	ssize_t length;
	pid_t pid;

	if (pipe2(report, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid < 0) {
		error = errno;
		close(report[0]);
		close(report[1]);
		return -error;
	}
	if (pid == 0)
		detach(program, directory, report[1]);
	close(report[1]);
	/* The pipe closes without a word when exec has worked. */
	do
		length = read(report[0], &error, sizeof(error));
	while (length < 0 && errno == EINTR);
	close(report[0]);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return length == (ssize_t)sizeof(error) ? -error : 0;
}
