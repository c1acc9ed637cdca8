/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demangled names, "void a::b<c, 2>(d*)", in the spellings of c++filt ("8u", "true") and cu++filt
 * ("(unsigned int)8", "(bool)1"), with or without return type and parameters; and plain C names.
 */
#include "collective.h"
#include "kernel_name_private.h"

#include <string.h>

static const char anonymous_spellings[][24] = {
	"(anonymous namespace)", "(anonymous)", "<unnamed>", "{anonymous}", "{anon}"};

/* Bytes of an anonymous namespace's spelling at `at`, 0 when there is none. */
static size_t
anonymous_length(const char *at, const char *end)
{
	for (size_t i = 0; i < sizeof(anonymous_spellings) / sizeof(anonymous_spellings[0]); i++) {
		size_t length = strlen(anonymous_spellings[i]);

		if ((size_t)(end - at) >= length && memcmp(at, anonymous_spellings[i], length) == 0)
			return length;
	}
	return 0;
}

static bool
is_identifier(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
	       c == '$' || c == '.';
}

/* Behind the bracket that closes the one at `at`; `end` when it is not closed. Inside round brackets the
 * angle brackets are operators. */
static const char *
skip_brackets(const char *at, const char *end)
{
	unsigned int angle = 0;
	unsigned int round = 0;

	for (; at < end; at++) {
		if (*at == '(' || *at == '{' || *at == '[')
			round++;
		else if ((*at == ')' || *at == '}' || *at == ']') && round > 0)
			round--;
		else if (*at == '<' && round == 0)
			angle++;
		else if (*at == '>' && round == 0 && angle > 0)
			angle--;
		if (angle == 0 && round == 0)
			return at + 1;
	}
	return end;
}

void
cs_kernel_name_scan_plain(const char *text, struct cs_kernel_name *name)
{
	const char *at = text;
	const char *end = name->end;

	while (at < end) {
		size_t anonymous = anonymous_length(at, end);
		const char *start = at;

		if (anonymous > 0) {
			cs_kernel_name_add_part(name, "(anonymous)", strlen("(anonymous)"));
			at += anonymous;
		} else if (is_identifier(*at)) {
			while (at < end && is_identifier(*at))
				at++;
			cs_kernel_name_add_part(name, start, (size_t)(at - start));
			name->arguments_text = NULL;
		} else if (*at == ':') {
			at++;
		} else if (*at == '<') {
			name->arguments_text = at;
			at = skip_brackets(at, end);
		} else if (*at == ' ' || *at == '*' || *at == '&') {
			/* what came before was the return type, unless nothing follows */
			while (at < end && (*at == ' ' || *at == '*' || *at == '&'))
				at++;
			if (at == end || *at == '[' || (*at == '(' && anonymous_length(at, end) == 0))
				return;
			name->part_count = 0;
			name->arguments_text = NULL;
		} else {
			return; /* the parameters, or nothing that belongs to a name */
		}
	}
}

static struct cs_name_part
trim(const char *text, const char *end)
{
	while (text < end && *text == ' ')
		text++;
	while (end > text && end[-1] == ' ')
		end--;
	return (struct cs_name_part){.text = text, .length = (size_t)(end - text)};
}

static bool
equals(struct cs_name_part part, const char *word)
{
	return strlen(word) == part.length && memcmp(part.text, word, part.length) == 0;
}

/* "8", "-1", "8u", "16ul", "true", "(bool)1" */
static bool
parse_integer(struct cs_name_part part, int64_t *value)
{
	const char *at = part.text;
	const char *end = part.text + part.length;
	bool negative = false;
	unsigned int digits = 0;

	if (equals(part, "true") || equals(part, "false")) {
		*value = part.length == 4;
		return true;
	}
	if (at < end && *at == '(')
		at = skip_brackets(at, end);
	if (at < end && *at == '-') {
		negative = true;
		at++;
	}
	*value = 0;
	for (; at < end && *at >= '0' && *at <= '9' && digits < 18; digits++)
		*value = *value * 10 + (*at++ - '0');
	while (at < end && strchr("uUlL", *at) != NULL)
		at++;
	if (negative)
		*value = -*value;
	return digits > 0 && at == end;
}

/* The type's own name: "c10::BFloat16" gives "BFloat16"; words of a builtin stay together. A qualifier, a
 * pointer or template arguments make it no element type. */
static uint8_t
parse_dtype(struct cs_name_part part)
{
	const char *start = part.text;
	const char *end = part.text + part.length;

	for (const char *at = start; at < end; at++) {
		if (*at == ':')
			start = at + 1;
		else if (!is_identifier(*at) && *at != ' ')
			return CS_DTYPE_UNKNOWN;
	}
	return cs_kernel_name_dtype(start, (size_t)(end - start));
}

/* `at`: the opening bracket. Returns behind the closing one, NULL when there is none. */
static const char *
parse_list(struct cs_kernel_name *name, const char *at, int parent)
{
	const char *end = name->end;
	const char *start = ++at;
	unsigned int ordinal = 0;

	for (;;) {
		struct cs_name_argument *argument;
		struct cs_name_part part;
		const char *nested = NULL;

		while (at < end && *at != ',' && *at != '>') {
			if (*at == '<' && nested == NULL)
				nested = at;
			if (*at == '<' || *at == '(' || *at == '{' || *at == '[')
				at = skip_brackets(at, end);
			else
				at++;
		}
		if (at >= end)
			return NULL;
		part = trim(start, at);
		argument = part.length > 0 ? cs_kernel_name_add_argument(name, parent, ordinal) : NULL;
		ordinal++;
		if (argument != NULL && parse_integer(part, &argument->value)) {
			argument->kind = CS_NAME_ARGUMENT_INTEGER;
		} else if (argument != NULL && strchr("*&", part.text[part.length - 1]) == NULL) {
			argument->kind = CS_NAME_ARGUMENT_TYPE;
			argument->dtype = parse_dtype(part);
		}
		/* "<unnamed>" is a namespace, not arguments */
		if (argument != NULL && parent == -1 && nested != NULL && anonymous_length(nested, end) == 0)
			(void)parse_list(name, nested, (int)(argument - name->arguments));
		if (*at == '>')
			return at + 1;
		start = ++at;
	}
}

void
cs_kernel_name_arguments_plain(struct cs_kernel_name *name)
{
	name->arguments_complete = parse_list(name, name->arguments_text, -1) != NULL;
}
