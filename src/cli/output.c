/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include "cmd.h"
#include "log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool colored;
static int failure; /* errno of the first failed write that was noticed */

void
cs_output_setup_color(enum cs_color color)
{
	const char *no_color = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	if (color == CS_COLOR_AUTO)
		colored = cs_output_is_terminal() && !(no_color && *no_color) && term && *term &&
			  strcmp(term, "dumb") != 0;
	else
		colored = color == CS_COLOR_ALWAYS;
}

const char *
cs_output_style(enum cs_style style)
{
	static const char *const sequences[] = {
		"\033[0m", "\033[1m", "\033[2m", "\033[31m", "\033[33m", "\033[32m"};

	return colored ? sequences[style] : "";
}

bool
cs_output_is_terminal(void)
{
	return isatty(STDOUT_FILENO) == 1;
}

unsigned int
cs_output_columns(void)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col == 0)
		return 80;
	return size.ws_col;
}

unsigned int
cs_output_rows(void)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_row == 0)
		return 24;
	return size.ws_row;
}

static void
die_of_pipe(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(SIGPIPE);
}

static void
note_failure(int error)
{
	if (!failure)
		failure = error ? error : EIO;
	if (failure == EPIPE)
		die_of_pipe();
}

bool
cs_output_check(void)
{
	if (!ferror_unlocked(stdout))
		return true;
	note_failure(errno);
	return false;
}

int
cs_output_flush(void)
{
	errno = 0;
	if (fflush(stdout) || ferror(stdout))
		note_failure(errno);
	return -failure;
}

int
cs_output_finish(int status)
{
	int error = cs_output_flush();

	/* NFS and quotas report at close. EBADF: started without a stdout (>&-), and nothing was printed. */
	if (fclose(stdout) && errno != EBADF && !error)
		error = -errno;
	if (!error)
		return status;
	cs_log_error("Cannot write to standard output: %s", strerror(-error));
	return CS_EXIT_ERROR;
}
