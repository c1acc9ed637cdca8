/* SPDX-License-Identifier: Apache-2.0 */
#include "json_line.h"

#include <inttypes.h>

void
cs_json_line_begin(struct cs_json_line *line, FILE *stream)
{
	line->stream = stream;
	line->any = false;
	fputc_unlocked('{', stream);
}

static void
put_key(struct cs_json_line *line, const char *key)
{
	fputs_unlocked(line->any ? ",\"" : "\"", line->stream);
	fputs_unlocked(key, line->stream);
	fputs_unlocked("\":", line->stream);
	line->any = true;
}

void
cs_json_line_text(struct cs_json_line *line, const char *key, const char *value)
{
	if (!value) {
		cs_json_line_null(line, key);
		return;
	}
	put_key(line, key);
	fputc_unlocked('"', line->stream);
	for (const unsigned char *p = (const unsigned char *)value; *p; p++) {
		if (*p == '"' || *p == '\\') {
			fputc_unlocked('\\', line->stream);
			fputc_unlocked(*p, line->stream);
		} else if (*p < 0x20 || *p == 0x7f) {
			fprintf(line->stream, "\\u%04x", *p);
		} else {
			fputc_unlocked(*p, line->stream);
		}
	}
	fputc_unlocked('"', line->stream);
}

void
cs_json_line_unsigned(struct cs_json_line *line, const char *key, uint64_t value)
{
	char digits[24];
	char *p = digits + sizeof(digits);

	/* By hand: printf is half of the time of a dump otherwise. */
	*--p = 0;
	do {
		*--p = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	put_key(line, key);
	fputs_unlocked(p, line->stream);
}

void
cs_json_line_signed(struct cs_json_line *line, const char *key, int64_t value)
{
	put_key(line, key);
	fprintf(line->stream, "%" PRId64, value);
}

void
cs_json_line_boolean(struct cs_json_line *line, const char *key, bool value)
{
	put_key(line, key);
	fputs_unlocked(value ? "true" : "false", line->stream);
}

void
cs_json_line_null(struct cs_json_line *line, const char *key)
{
	put_key(line, key);
	fputs_unlocked("null", line->stream);
}

void
cs_json_line_end(struct cs_json_line *line)
{
	fputs_unlocked("}\n", line->stream);
}
