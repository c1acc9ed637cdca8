/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who serves a run directory, by the lock file that the exporter holds there (exporter/lock.h). Opens, asks,
 * closes; allocates nothing. Any thread that may make system calls: the worker, the command.
 */
#ifndef CS_EXPORTER_LOCK_H
#define CS_EXPORTER_LOCK_H

#include <stdbool.h>

/* In the run directory: the lock, with pid and address of its holder, and what an exporter says that was
 * started where nobody would see it. */
#define CS_EXPORTER_LOCK_NAME "exporter.lock"
#define CS_EXPORTER_LOG_NAME  "exporter.log"

/* Does somebody hold exporter.lock in the run directory? Cannot tell counts as no: the exporter looks itself.
 */
bool cs_exporter_is_running(const char *directory);

struct cs_exporter_serving {
	long pid;
	char address[128];
};

/* Who serves the run directory, and where. -ENOENT: nobody holds the lock; -EAGAIN: its holder does not
 * listen yet. */
int cs_exporter_find_serving(const char *directory, struct cs_exporter_serving *serving);

#endif
