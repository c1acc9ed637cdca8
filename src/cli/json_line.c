/* SPDX-License-Identifier: Apache-2.0 */
#include "json_line.h"

#include <stddef.h>

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

static bool
is_plain(unsigned char byte)
{
	return byte >= 0x20 && byte != 0x7f && byte != '"' && byte != '\\';
}

static void
put_escaped(FILE *stream, const char *text)
{
	while (*text) {
		size_t length = 0;

		while (is_plain((unsigned char)text[length]))
			length++;
		fwrite_unlocked(text, 1, length, stream);
		text += length;
		if (!*text)
			break;
		if (*text == '"' || *text == '\\')
			fprintf(stream, "\\%c", *text);
		else
			fprintf(stream, "\\u%04x", (unsigned char)*text);
		text++;
	}
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
	put_escaped(line->stream, value);
	fputc_unlocked('"', line->stream);
}

/* By hand: printf is half of the time of a dump otherwise. */
static void
put_number(FILE *stream, uint64_t value)
{
	char digits[24];
	char *p = digits + sizeof(digits);

	do {
		*--p = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	fwrite_unlocked(p, 1, (size_t)(digits + sizeof(digits) - p), stream);
}

void
cs_json_line_unsigned(struct cs_json_line *line, const char *key, uint64_t value)
{
	put_key(line, key);
	put_number(line->stream, value);
}

void
cs_json_line_signed(struct cs_json_line *line, const char *key, int64_t value)
{
	put_key(line, key);
	if (value < 0)
		fputc_unlocked('-', line->stream);
	put_number(line->stream, value < 0 ? -(uint64_t)value : (uint64_t)value);
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
