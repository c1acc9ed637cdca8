/* SPDX-License-Identifier: Apache-2.0 */
/* gzip for HTTP answers. Thread context: pure. */
#ifndef CS_EXPORTER_GZIP_H
#define CS_EXPORTER_GZIP_H

#include "buffer.h"

/* Appends the compressed `input` to `output`. 0 or -ENOMEM. */
int cs_gzip(const struct cs_buffer *input, struct cs_buffer *output);

#endif
