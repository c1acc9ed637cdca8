/* SPDX-License-Identifier: Apache-2.0 */
#include "glob.h"

#include <stddef.h>
#include <string.h>

/* One pattern is [begin, end). */
struct pattern {
	const char *begin;
	const char *end;
};

/* A set at *cursor ("[...]"); moves behind it. Returns whether c is in it; an unclosed set is an ordinary
 * '['. */
static bool
set_matches(const char **cursor, const char *end, char c)
{
	const char *p = *cursor + 1;
	bool negated = p < end && (*p == '!' || *p == '^');
	bool found = false;
	const char *first;

	p += negated;
	first = p;
	while (p < end && (*p != ']' || p == first)) {
		if (p + 2 < end && p[1] == '-' && p[2] != ']') {
			found |= p[0] <= c && c <= p[2];
			p += 3;
		} else {
			found |= *p == c;
			p++;
		}
	}
	if (p >= end) {
		(*cursor)++;
		return c == '[';
	}
	*cursor = p + 1;
	return found != negated;
}

/* Whether one text byte matches at *cursor, which moves behind what matched it. */
static bool
one_matches(const char **cursor, const char *end, char c)
{
	if (*cursor >= end)
		return false;
	if (**cursor == '[')
		return set_matches(cursor, end, c);
	if (**cursor == '?') {
		(*cursor)++;
		return true;
	}
	return *(*cursor)++ == c;
}

/* Iterative, with one point of return: the last star. */
static bool
pattern_matches(struct pattern pattern, const char *text)
{
	const char *star = NULL;
	const char *star_text = NULL;
	const char *cursor = pattern.begin;

	while (*text != '\0') {
		const char *next = cursor;

		if (cursor < pattern.end && *cursor == '*') {
			star = ++cursor;
			star_text = text;
		} else if (one_matches(&next, pattern.end, *text)) {
			cursor = next;
			text++;
		} else if (star != NULL) {
			cursor = star;
			text = ++star_text;
		} else {
			return false;
		}
	}
	while (cursor < pattern.end && *cursor == '*')
		cursor++;
	return cursor == pattern.end;
}

bool
cs_glob_any(const char *patterns, const char *text)
{
	while (*patterns != '\0') {
		const char *end = strchrnul(patterns, ',');

		if (end > patterns && pattern_matches((struct pattern){.begin = patterns, .end = end}, text))
			return true;
		patterns = *end == ',' ? end + 1 : end;
	}
	return false;
}
