/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small text file of the user's, whole, whatever its path leads to: a pipe, a device, a file of /proc that
 * tells no size, or one that never ends. Opening waits for nobody. Start-up only: allocates. errno is not
 * kept.
 */
#ifndef CS_TEXT_FILE_H
#define CS_TEXT_FILE_H

#include <stddef.h>

/* A thousand rows of the catalogue are 300 KiB; a file above this is some other file. */
#define CS_TEXT_FILE_BYTES_MAX (1U << 20)

/*
 * *text: the bytes and a zero after them, for the caller to free; NULL on failure. -EFBIG over
 * CS_TEXT_FILE_BYTES_MAX, -EINVAL when it is no regular file, -ENOMEM, else what opening or reading says.
 */
int cs_text_file_read(const char *path, char **text, size_t *length);

/* What the code means, for the user: "the file is larger than 1 MiB". */
const char *cs_text_file_error(int code);

#endif
