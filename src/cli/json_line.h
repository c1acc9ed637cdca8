/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One JSON object per line, written straight to a stream: a dump of a full ring is a million members, so no
 * tree is built. Flat objects only. Strings must be UTF-8, as the dictionary gives them.
 *
 * Thread context: one thread per stream.
 */
#ifndef CS_JSON_LINE_H
#define CS_JSON_LINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct cs_json_line {
	FILE *stream;
	bool any; /* a member has been written */
};

/* Keys are static strings that need no escaping. */
void cs_json_line_begin(struct cs_json_line *line, FILE *stream);
void cs_json_line_text(struct cs_json_line *line, const char *key, const char *value); /* NULL: null */
void cs_json_line_unsigned(struct cs_json_line *line, const char *key, uint64_t value);
void cs_json_line_signed(struct cs_json_line *line, const char *key, int64_t value);
void cs_json_line_boolean(struct cs_json_line *line, const char *key, bool value);
void cs_json_line_null(struct cs_json_line *line, const char *key);
void cs_json_line_end(struct cs_json_line *line);

#endif
