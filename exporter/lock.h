/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One exporter per run directory: the file exporter.lock there, held with an open-file-description write lock
 * over the whole file for as long as the exporter serves. Its content tells people and the collscope command
 * who holds it, two lines:
 *
 *   pid 1234
 *   address 127.0.0.1:19400
 *
 * The file is unlinked before the lock is let go, so a holder checks after locking that the path still names
 * its file. One that a killed exporter left is taken over; where it is another user's, and may be read, it is
 * unlinked first.
 *
 * Thread context: one thread.
 */
#ifndef CS_LOCK_H
#define CS_LOCK_H

#include "error.h"

/* A descriptor >= 0 that holds the lock, of an empty file. -EWOULDBLOCK: another process has it (its pid and
 * address, if they can be read, are in the error's text). Other negative errno: the file cannot be made or
 * opened; the text names the owner of one that may not be opened. */
int cs_lock_take(const char *directory, struct cs_error *error);
/* Writes pid and address into the file. 0 or a negative errno: the lock holds all the same. */
int cs_lock_describe(int fd, const char *address);
/* Unlinks the file and lets go. */
void cs_lock_release(const char *directory, int fd);

#endif
