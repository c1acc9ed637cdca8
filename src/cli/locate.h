/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the other parts of the product are, seen from the running command: installed (bin/, lib/collscope/),
 * unpacked into one folder, or in a build tree. Thread context: main thread; no state.
 */
#ifndef CS_LOCATE_H
#define CS_LOCATE_H

#include <stddef.h>

/* libcollscope.so: 0 with an absolute path; -ENOENT when it is nowhere; -ENAMETOOLONG; -errno of
 * /proc/self/exe. */
int cs_locate_library(char *path, size_t path_bytes);
/* collscope-exporter, beside `library` (its own folder) or beside this command. Errors as above. */
int cs_locate_exporter(const char *library, char *path, size_t path_bytes);

/* What execvp would do with `command`: 0; -ENOENT not found; -EACCES and others: found, and cannot be
 * executed. */
int cs_locate_command(const char *command);

#endif
