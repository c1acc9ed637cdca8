/* SPDX-License-Identifier: Apache-2.0 */
/* The page at "/": what is followed, and where the rest is. Thread context: any. */
#ifndef CS_EXPORTER_PAGE_H
#define CS_EXPORTER_PAGE_H

#include "buffer.h"
#include "ingest.h"

void cs_page_write(struct cs_buffer *buffer, struct cs_ingest *ingest, const char *telemetry_path);
/* Text with & < > " ' escaped. */
void cs_page_text(struct cs_buffer *buffer, const char *text);

#endif
