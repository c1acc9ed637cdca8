/* SPDX-License-Identifier: Apache-2.0 */
/* What all readers of a catalogue's text share: complaints, strings that last, words, names of values. */
#include "catalog_rule.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int
cs_catalog_complain(struct cs_catalog_reader *reader, unsigned int line, const char *format, ...)
{
	va_list arguments;
	int length;

	length = snprintf(reader->complaint, reader->complaint_bytes, "%s:%u: ", reader->origin, line);
	if (length < 0 || (size_t)length >= reader->complaint_bytes)
		return -EINVAL;
	va_start(arguments, format);
	(void)vsnprintf(
		reader->complaint + length, reader->complaint_bytes - (size_t)length, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

/* A copy that lives as long as the catalogue. The block is sized for all rows of its text up front, so that
 * strings never move. */
const char *
cs_catalog_keep(struct cs_catalog_reader *reader, const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *copy = reader->texts->bytes + reader->texts->used;

	if (bytes > reader->texts->size - reader->texts->used)
		return "";
	memcpy(copy, text, bytes);
	reader->texts->used += bytes;
	return copy;
}

/* `text`, `joint` and `more` as one string; in place when `text` was kept last. */
const char *
cs_catalog_keep_longer(
	struct cs_catalog_reader *reader, const char *text, const char *joint, const char *more)
{
	struct cs_text_block *texts = reader->texts;
	size_t length = strlen(text);
	char *start = texts->bytes + texts->used;

	if (length == 0)
		return cs_catalog_keep(reader, more);
	if (length + strlen(joint) + strlen(more) + 1 > texts->size - texts->used)
		return text;
	if (text + length + 1 == start)
		start -= length + 1;
	else
		memcpy(start, text, length);
	memcpy(start + length, joint, strlen(joint));
	memcpy(start + length + strlen(joint), more, strlen(more) + 1);
	texts->used = (size_t)(start - texts->bytes) + length + strlen(joint) + strlen(more) + 1;
	return start;
}

int
cs_catalog_read_named(struct cs_catalog_reader *reader, const char *key, const char *value,
	unsigned int count, const char *(*name_of)(unsigned int), uint8_t *result)
{
	for (unsigned int i = 0; i < count; i++) {
		if (strcmp(name_of(i), value) == 0) {
			*result = (uint8_t)i;
			return 0;
		}
	}
	return cs_catalog_complain(reader, reader->line, "%s: there is no \"%s\"", key, value);
}

bool
cs_catalog_next_word(const char **list, char *word, size_t bytes)
{
	size_t length = 0;

	while (**list == ' ' || **list == '\t')
		(*list)++;
	while ((*list)[length] != '\0' && (*list)[length] != ' ' && (*list)[length] != '\t')
		length++;
	if (length == 0 || length >= bytes)
		return false;
	memcpy(word, *list, length);
	word[length] = '\0';
	*list += length;
	return true;
}
