/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter_start.h"

#include "clock.h"
#include "environment.h"
#include "process.h"
#include "segment/exporter_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool
is_serving(const char *directory)
{
	struct cs_exporter_serving serving;

	return cs_exporter_find_serving(directory, &serving) == 0;
}

int
cs_exporter_wait(const char *directory, pid_t pid)
{
	const struct timespec pause = {.tv_nsec = 10 * CS_NS_PER_MS};

	for (unsigned int turn = 0; turn < 50; turn++) {
		if (is_serving(directory))
			return 0;
		if (pid > 0 && cs_process_has_ended(pid) && !cs_exporter_is_running(directory))
			return -ECHILD;
		nanosleep(&pause, NULL);
	}
	return -ETIMEDOUT;
}

/* \" and \\ of a quoted value. */
static void
unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (*text == '\\' && (text[1] == '"' || text[1] == '\\'))
			text++;
		*to++ = *text;
	}
	*to = 0;
}

int
cs_exporter_last_words(const char *directory, char *text, size_t text_bytes, bool *started)
{
	char path[CS_PATH_BYTES + sizeof(CS_EXPORTER_LOG_NAME) + 1], end[2048];
	char *line, *error;
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "%s/" CS_EXPORTER_LOG_NAME, directory);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -ENOENT;
	if (lseek(fd, -(off_t)(sizeof(end) - 1), SEEK_END) < 0)
		lseek(fd, 0, SEEK_SET);
	length = read(fd, end, sizeof(end) - 1);
	close(fd);
	while (length > 0 && end[length - 1] == '\n')
		length--;
	if (length <= 0)
		return -ENOENT;
	end[length] = 0;
	line = strrchr(end, '\n');
	line = line ? line + 1 : end;
	if (started)
		*started = !strstr(line, " msg=\"Cannot start\" ");
	/* The logfmt of log.h: the error is the last field, in quotes unless it is one word. */
	error = strstr(line, " error=\"");
	if (error && end[length - 1] == '"') {
		line = error + strlen(" error=\"");
		end[length - 1] = 0;
		unescape(line);
	} else if (end[length - 1] != '"') {
		error = strrchr(line, ' ');
		if (error && strncmp(error, " error=", strlen(" error=")) == 0)
			line = error + strlen(" error=");
	}
	snprintf(text, text_bytes, "%s", line);
	return 0;
}

static int
open_log(const char *directory)
{
	char path[CS_PATH_BYTES + sizeof(CS_EXPORTER_LOG_NAME) + 1];
	int fd;

	snprintf(path, sizeof(path), "%s/" CS_EXPORTER_LOG_NAME, directory);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	return fd < 0 ? open("/dev/null", O_WRONLY | O_CLOEXEC) : fd;
}

/* To the process that asked: a pid, or a negative errno. Small enough to be written whole or not at all. */
static void
report(int report_fd, int number)
{
	if (write(report_fd, &number, sizeof(number)) != (ssize_t)sizeof(number))
		_exit(1);
}

/* In the grandchild. Returns only when it failed. */
static void
become_exporter(const char *program, const char *directory, int report_fd)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int log_fd = open_log(directory);

	if (null_fd < 0 || log_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
		dup2(null_fd, STDOUT_FILENO) < 0 || dup2(log_fd, STDERR_FILENO) < 0)
		goto failed;
	/* What the caller's shell left open (a lock, a pipe somebody reads to its end) is not to live on in a
	 * daemon. */
	if (close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC))
		goto failed;
	execl(program, program, "--collscope.auto", (char *)NULL);
failed:
	report(report_fd, -errno);
}

/* The middle process leaves at once, so that nobody has to wait for the exporter. */
static void
detach(const char *program, const char *directory, int report_fd)
{
	pid_t pid;

	setsid();
	pid = fork();
	if (pid == 0)
		become_exporter(program, directory, report_fd);
	else
		report(report_fd, pid < 0 ? -errno : (int)pid);
	_exit(0);
}

int
cs_exporter_start(const char *program, const char *directory, pid_t *pid)
{
	int fds[2];
	int number, result = 0;
	ssize_t length;
	pid_t middle;

	*pid = 0;
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	middle = fork();
	if (middle < 0) {
		result = -errno;
		close(fds[0]);
		close(fds[1]);
		return result;
	}
	if (middle == 0)
		detach(program, directory, fds[1]);
	close(fds[1]);
	/* The pipe closes when exec has worked; the pid comes before or after what went wrong. */
	do {
		length = read(fds[0], &number, sizeof(number));
		if (length == (ssize_t)sizeof(number) && number > 0)
			*pid = number;
		else if (length == (ssize_t)sizeof(number))
			result = number;
	} while (length > 0 || (length < 0 && errno == EINTR));
	close(fds[0]);
	while (waitpid(middle, NULL, 0) < 0 && errno == EINTR)
		;
	return result;
}
