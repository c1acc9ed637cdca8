/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting collscope-exporter for `collscope run`, and what became of one. It is detached (own session, no
 * descriptors of ours, standard error in exporter.log of the run directory) and leaves by itself when no
 * traced process is left.
 *
 * Thread context: main thread, before exec.
 */
#ifndef CS_EXPORTER_START_H
#define CS_EXPORTER_START_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* 0 once the program has been executed, with its pid (no child of ours) in *pid; -errno when it could not be.
 * The environment is handed on. */
int cs_exporter_start(const char *program, const char *directory, pid_t *pid);

/* Waits, half a second at most, until an exporter holds the lock and has said in it where it listens: 0.
 * -ECHILD: process `pid` has ended, and nobody holds the lock. -ETIMEDOUT: neither yet. */
int cs_exporter_wait(const char *directory, pid_t pid);

/* Why an exporter has ended: the error of the last line of exporter.log, or that line as it is when it names
 * none. -ENOENT: there is no line. Longer ones are cut. *started (may be NULL): false when it says that the
 * exporter has never served. */
int cs_exporter_last_words(const char *directory, char *text, size_t text_bytes, bool *started);

#endif
