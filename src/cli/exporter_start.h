/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting collscope-exporter for `collscope run`. It is detached (own session, no descriptors of ours,
 * standard error in exporter.log of the run directory) and leaves by itself when no traced process is left.
 *
 * Thread context: main thread, before exec.
 */
#ifndef CS_EXPORTER_START_H
#define CS_EXPORTER_START_H

#include <stdbool.h>

/* Does somebody hold exporter.lock in the run directory? Cannot tell counts as no: the exporter looks itself.
 */
bool cs_exporter_is_running(const char *directory);

/* 0 once the program has been executed; -errno when it could not be. The environment is handed on. */
int cs_exporter_start(const char *program, const char *directory);

/* Waits, half a second at most, until an exporter holds the lock and has said in it where it listens. */
bool cs_exporter_wait(const char *directory);

#endif
