/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small file of /proc into a buffer of the caller's. Allocates nothing and waits for nobody. Any thread
 * that may make system calls. errno is not kept.
 */
#ifndef CS_PROC_FILE_H
#define CS_PROC_FILE_H

#include <stddef.h>

/* How many bytes there are in `text`, as many as it has room for; a zero follows them, also on failure (there
 * may be others among them: cmdline). -errno: it cannot be opened (no /proc here, above all) or read. */
int cs_proc_file_read(const char *path, char *text, size_t text_bytes);

#endif
