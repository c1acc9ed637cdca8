/* SPDX-License-Identifier: Apache-2.0 */
/* A test that needs a process of its own: the driver and CUPTI have one state per process. */
#ifndef CS_FAKE_CHILD_H
#define CS_FAKE_CHILD_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child: says what failed and ends it. */
#define CHILD_CHECK(condition)                                                                               \
	do {                                                                                                 \
		if (!(condition)) {                                                                          \
			dprintf(STDERR_FILENO, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);       \
			_exit(1);                                                                            \
		}                                                                                            \
	} while (0)

/* Exit status of a child that runs body() and then exits 0; 128 + signal when one ended it. */
static inline int
child_run(void (*body)(void))
{
	int status = 0;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		body();
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#endif
