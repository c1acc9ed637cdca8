/* SPDX-License-Identifier: Apache-2.0 */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void
cs_error_clear(struct cs_error *error)
{
	if (error)
		error->text[0] = '\0';
}

/* A cut may fall inside a UTF-8 character: drop the incomplete one. */
static void
trim_partial_character(char *text)
{
	size_t length = strlen(text);
	size_t start = length;
	size_t need;

	while (start > 0 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
		start--;
	if (start == 0)
		return;
	start--;
	if (((unsigned char)text[start] & 0xe0) == 0xc0)
		need = 2;
	else if (((unsigned char)text[start] & 0xf0) == 0xe0)
		need = 3;
	else if (((unsigned char)text[start] & 0xf8) == 0xf0)
		need = 4;
	else
		return;
	if (length - start < need)
		text[start] = '\0';
}

int
cs_error_set(struct cs_error *error, int code, const char *format, ...)
{
	char text[CS_ERROR_BYTES];
	va_list arguments;

	if (!error)
		return code;
	/* By way of a local buffer: an argument may point into *error. */
	va_start(arguments, format);
	if (vsnprintf(text, sizeof(text), format, arguments) >= (int)sizeof(text))
		trim_partial_character(text);
	va_end(arguments);
	memcpy(error->text, text, strlen(text) + 1);
	return code;
}

int
cs_error_wrap(struct cs_error *error, int code, const char *format, ...)
{
	char text[CS_ERROR_BYTES];
	va_list arguments;
	size_t used;
	int wanted;

	if (!error)
		return code;
	va_start(arguments, format);
	wanted = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (wanted < 0)
		return code;
	used = strlen(text);
	if (error->text[0]) {
		int tail = snprintf(text + used, sizeof(text) - used, ": %s", error->text);

		if (tail < 0)
			return code;
		wanted += tail;
	}
	if ((size_t)wanted >= sizeof(text))
		trim_partial_character(text);
	memcpy(error->text, text, strlen(text) + 1);
	return code;
}
