/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs at start-up inside the host: no allocation, nothing that depends on the host's locale (strtod does),
 * nothing that reads the environment a second time.
 */
#include "environment.h"

#include "segment/rundir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define PREFIX         "COLLSCOPE_"
#define SENTENCE_BYTES 768
/* Longest word that cs_suggest looks at, and how far a typing mistake may be from a known word. */
#define WORD_BYTES  64
#define EDITS_MAX   3
#define SHOWN_BYTES 96 /* of a bad value in a complaint */

/* Where and how a value is stored; parallel to the public table. */
struct slot {
	size_t offset;
	size_t bytes;
	double low;
	double high;
	bool power_of_two;
};

#define CS_CHOICE(name, field, values, fallback, help) {name, CS_VARIABLE_CHOICE, values, fallback, help},
#define CS_RATIO(name, field, low, high, fallback, help)                                                     \
	{name, CS_VARIABLE_RATIO, #low " to " #high, fallback, help},
#define CS_INTEGER(name, field, low, high, note, power, fallback, help)                                      \
	{name, CS_VARIABLE_INTEGER, #low " to " #high note, fallback, help},
#define CS_BOOLEAN(name, field, fallback, help)      {name, CS_VARIABLE_BOOLEAN, "0|1", fallback, help},
#define CS_TEXT(name, field, values, fallback, help) {name, CS_VARIABLE_TEXT, values, fallback, help},
static const struct cs_variable variables[] = {
#include "environment_table.h"
};
#undef CS_CHOICE
#undef CS_RATIO
#undef CS_INTEGER
#undef CS_BOOLEAN
#undef CS_TEXT

#define PLACE(field)                                                    offsetof(struct cs_settings, field), sizeof(((struct cs_settings *)0)->field)
#define CS_CHOICE(name, field, values, fallback, help)                  {PLACE(field), 0, 0, false},
#define CS_RATIO(name, field, low, high, fallback, help)                {PLACE(field), low, high, false},
#define CS_INTEGER(name, field, low, high, note, power, fallback, help) {PLACE(field), low, high, power},
#define CS_BOOLEAN(name, field, fallback, help)                         {PLACE(field), 0, 1, false},
#define CS_TEXT(name, field, values, fallback, help)                    {PLACE(field), 0, 0, false},
static const struct slot slots[] = {
#include "environment_table.h"
};
#undef CS_CHOICE
#undef CS_RATIO
#undef CS_INTEGER
#undef CS_BOOLEAN
#undef CS_TEXT

_Static_assert(COUNT_OF(variables) == COUNT_OF(slots), "one table");
_Static_assert(sizeof(enum cs_mode) == sizeof(int), "choices are stored as int or bool");

const struct cs_variable *
cs_variables(size_t *count)
{
	*count = COUNT_OF(variables);
	return variables;
}

/* Digits with at most one point, nothing else: the same in every locale. */
static int
parse_number(const char *text, double *value)
{
	double number = 0;
	double unit = 1;
	bool point = false;
	bool digit = false;

	for (; *text != '\0'; text++) {
		if (*text == '.' && !point) {
			point = true;
			continue;
		}
		if (*text < '0' || *text > '9')
			return -EINVAL;
		digit = true;
		number = number * 10 + (*text - '0');
		if (point)
			unit *= 10;
		if (number > 1e15)
			return -ERANGE;
	}
	if (!digit)
		return -EINVAL;
	*value = number / unit;
	return 0;
}

/* Position of a word in "a|b|c", -EINVAL when it is not there. */
static int
parse_choice(const char *values, const char *text)
{
	size_t length = strlen(text);

	for (int position = 0;; position++) {
		size_t width = strcspn(values, "|");

		if (width == length && memcmp(values, text, width) == 0)
			return position;
		if (values[width] == '\0')
			return -EINVAL;
		values += width + 1;
	}
}

static int
parse_boolean(const char *text)
{
	static const char *const words[] = {"0", "1", "off", "on", "false", "true", "no", "yes"};

	for (size_t i = 0; i < COUNT_OF(words); i++) {
		if (strcmp(text, words[i]) == 0)
			return (int)(i & 1);
	}
	return -EINVAL;
}

static void
store_integer(struct cs_settings *settings, const struct slot *slot, uint32_t value)
{
	char *place = (char *)settings + slot->offset;

	if (slot->bytes == sizeof(bool)) {
		bool flag = value != 0;

		memcpy(place, &flag, sizeof(flag));
	} else {
		memcpy(place, &value, sizeof(value));
	}
}

static int
store(struct cs_settings *settings, size_t i, const char *text)
{
	const struct slot *slot = &slots[i];
	char *place = (char *)settings + slot->offset;
	double number;
	int result;

	switch (variables[i].type) {
	case CS_VARIABLE_CHOICE:
		result = parse_choice(variables[i].values, text);
		break;
	case CS_VARIABLE_BOOLEAN:
		result = parse_boolean(text);
		break;
	case CS_VARIABLE_RATIO:
		if (parse_number(text, &number) < 0 || number < slot->low || number > slot->high)
			return -EINVAL;
		memcpy(place, &number, sizeof(number));
		return 0;
	case CS_VARIABLE_INTEGER:
		if (strchr(text, '.') != NULL || parse_number(text, &number) < 0 || number < slot->low ||
			number > slot->high)
			return -EINVAL;
		result = (int)number;
		if (slot->power_of_two && (result & (result - 1)) != 0)
			return -EINVAL;
		break;
	case CS_VARIABLE_TEXT:
	default:
		if (strlen(text) >= slot->bytes)
			return -ENAMETOOLONG;
		memcpy(place, text, strlen(text) + 1);
		return 0;
	}
	if (result < 0)
		return result;
	store_integer(settings, slot, (uint32_t)result);
	return 0;
}

static bool
is_directory(size_t i)
{
	return slots[i].offset == offsetof(struct cs_settings, directory);
}

static void
complain_value(size_t i, const char *value, int error, void (*complain)(const char *, void *), void *context)
{
	char sentence[SENTENCE_BYTES];
	const char *cut = strlen(value) > SHOWN_BYTES ? "..." : "";

	if (complain == NULL)
		return;
	if (error == -ENAMETOOLONG)
		snprintf(sentence, sizeof(sentence), "%s is longer than %zu bytes; %s.", variables[i].name,
			slots[i].bytes - 1, is_directory(i) ? "nothing is recorded" : "it is ignored");
	else
		snprintf(sentence, sizeof(sentence),
			"%s is %.*s%s, which is not one of its values (%s); using %s.", variables[i].name,
			SHOWN_BYTES, value, cut, variables[i].values, variables[i].fallback);
	complain(sentence, context);
}

static void
complain_name(const char *name, void (*complain)(const char *, void *), void *context)
{
	const char *known[COUNT_OF(variables)];
	char sentence[SENTENCE_BYTES];
	const char *near;

	if (complain == NULL)
		return;
	for (size_t i = 0; i < COUNT_OF(variables); i++)
		known[i] = variables[i].name;
	near = cs_suggest(name, known, COUNT_OF(known));
	if (near != NULL)
		snprintf(sentence, sizeof(sentence), "There is no variable %.*s; did you mean %s?",
			SHOWN_BYTES, name, near);
	else
		snprintf(sentence, sizeof(sentence), "There is no variable %.*s; it is ignored.", SHOWN_BYTES,
			name);
	complain(sentence, context);
}

/* Its place in the table, and where the value begins; the count of the table for a name that is not there.
 * -1: no variable of ours. */
static int
find_variable(const char *entry, char name[WORD_BYTES], const char **value)
{
	const char *equals = strchr(entry, '=');
	size_t length;
	size_t i;

	if (equals == NULL || strncmp(entry, PREFIX, sizeof(PREFIX) - 1) != 0)
		return -1;
	length = (size_t)(equals - entry);
	if (length >= WORD_BYTES)
		length = WORD_BYTES - 1;
	memcpy(name, entry, length);
	name[length] = '\0';
	*value = equals + 1;
	for (i = 0; i < COUNT_OF(variables) && strcmp(variables[i].name, name) != 0; i++)
		;
	return (int)i;
}

static bool
is_among(const char *name, const char *const *names)
{
	for (; names != NULL && *names != NULL; names++) {
		if (strcmp(*names, name) == 0)
			return true;
	}
	return names == NULL;
}

unsigned int
cs_settings_load_some(struct cs_settings *settings, char *const *envp, const char *const *names,
	void (*complain)(const char *, void *), void *context)
{
	unsigned int complaints = 0;

	memset(settings, 0, sizeof(*settings));
	for (size_t i = 0; i < COUNT_OF(variables); i++)
		(void)store(settings, i, variables[i].fallback);
	for (; envp != NULL && *envp != NULL; envp++) {
		char name[WORD_BYTES];
		const char *value;
		int found = find_variable(*envp, name, &value);
		size_t i = (size_t)found;
		int error;

		if (found < 0)
			continue;
		if (i == COUNT_OF(variables)) {
			complain_name(name, complain, context);
			complaints++;
			continue;
		}
		/* Set but empty is unset, as everywhere in a shell. */
		if (*value == '\0')
			continue;
		error = store(settings, i, value);
		if (is_directory(i))
			settings->directory_too_long = error == -ENAMETOOLONG;
		if (error < 0 && is_among(name, names)) {
			complain_value(i, value, error, complain, context);
			complaints++;
		}
	}
	return complaints;
}

unsigned int
cs_settings_load(struct cs_settings *settings, char *const *envp, void (*complain)(const char *, void *),
	void *context)
{
	return cs_settings_load_some(settings, envp, NULL, complain, context);
}

int
cs_settings_prepare_directory(const struct cs_settings *settings, char *path, size_t path_bytes)
{
	if (settings->directory_too_long)
		return -ENAMETOOLONG;
	return cs_rundir_prepare(settings->directory, path, path_bytes);
}

static size_t
least(size_t a, size_t b, size_t c)
{
	size_t smallest = a < b ? a : b;

	return smallest < c ? smallest : c;
}

/* Levenshtein's distance with one row; words over WORD_BYTES are far from everything. */
static size_t
edit_distance(const char *a, const char *b)
{
	size_t row[WORD_BYTES + 1];
	size_t a_length = strlen(a);
	size_t b_length = strlen(b);

	if (a_length > WORD_BYTES || b_length > WORD_BYTES)
		return WORD_BYTES;
	for (size_t j = 0; j <= b_length; j++)
		row[j] = j;
	for (size_t i = 1; i <= a_length; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b_length; j++) {
			size_t above = row[j];

			row[j] = least(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[b_length];
}

const char *
cs_suggest(const char *word, const char *const *known, size_t known_count)
{
	const char *best = NULL;
	size_t best_distance = EDITS_MAX + 1;

	for (size_t i = 0; i < known_count; i++) {
		size_t distance = edit_distance(word, known[i]);

		/* A short word is within three edits of anything: at least half of it must be right. */
		if (distance < best_distance && 2 * distance <= strlen(known[i])) {
			best = known[i];
			best_distance = distance;
		}
	}
	return best;
}
