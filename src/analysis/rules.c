/* SPDX-License-Identifier: Apache-2.0 */
#include "rules.h"

#include "collective.h"
#include "text_file.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RULES_MAX 256U

enum verb { VERB_PHASE, VERB_SPLIT, VERB_MERGE };

struct bounds {
	bool given;
	uint64_t least, most;
};

struct rule {
	enum verb verb;
	uint8_t phase, rest;
	char *range, *after, *before; /* globs, NULL not asked for */
	struct bounds collectives, launches, bytes, tokens;
	int graph; /* -1 not asked for */
	uint32_t at;
	uint32_t line;
};

struct cs_rules {
	struct rule rules[RULES_MAX];
	size_t count;
	uint64_t hidden;
	bool merge;
};

struct parser {
	const char *path;
	unsigned int line;
	char *complaint;
	size_t complaint_bytes;
	struct cs_rules *rules;
};

static int complain(const struct parser *parser, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int
complain(const struct parser *parser, const char *format, ...)
{
	va_list arguments;
	int length;

	if (!parser->complaint || parser->complaint_bytes == 0)
		return -EINVAL;
	length = snprintf(parser->complaint, parser->complaint_bytes, "%s:%u: ", parser->path, parser->line);
	if (length < 0 || (size_t)length >= parser->complaint_bytes)
		return -EINVAL;
	va_start(arguments, format);
	vsnprintf(parser->complaint + length, parser->complaint_bytes - (size_t)length, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

/* Digits, then K, M or G (powers of 1024) or nothing. NULL: not a number. */
static const char *
parse_number(const char *text, uint64_t *value)
{
	unsigned int shift;
	char *end;

	if (*text < '0' || *text > '9')
		return NULL;
	errno = 0;
	*value = strtoull(text, &end, 10);
	if (errno)
		return NULL;
	shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
	if (shift && *value > UINT64_MAX >> shift)
		return NULL;
	*value <<= shift;
	return shift ? end + 1 : end;
}

/* N, N..M, N.. or ..M */
static int
parse_bounds(const struct parser *parser, const char *key, const char *text, struct bounds *bounds)
{
	const char *at = text;

	*bounds = (struct bounds){true, 0, UINT64_MAX};
	if (*at != '.') {
		at = parse_number(at, &bounds->least);
		if (at && *at == '\0') {
			bounds->most = bounds->least;
			return 0;
		}
	}
	if (at && at[0] == '.' && at[1] == '.') {
		at += 2;
		if (*at)
			at = parse_number(at, &bounds->most);
		if (at && *at == '\0' && bounds->least <= bounds->most)
			return 0;
	}
	return complain(
		parser, "%s: want a number or a range such as 3..9, 3.. or ..9, not \"%s\"", key, text);
}

static int
parse_glob(const struct parser *parser, const char *key, const char *text, char **glob)
{
	if (*text == '\0')
		return complain(parser, "%s: the pattern is empty", key);
	free(*glob);
	*glob = strdup(text);
	return *glob ? 0 : -ENOMEM;
}

static int
parse_condition(struct parser *parser, struct rule *rule, char *text)
{
	char *value = strchr(text, '=');
	uint64_t number;

	if (!value)
		return complain(parser, "want key=value, not \"%s\"", text);
	*value++ = '\0';
	if (strcmp(text, "range") == 0)
		return parse_glob(parser, text, value, &rule->range);
	if (rule->verb == VERB_MERGE)
		return complain(parser, "merge takes range= only, not \"%s\"", text);
	if (strcmp(text, "after") == 0)
		return parse_glob(parser, text, value, &rule->after);
	if (strcmp(text, "before") == 0)
		return parse_glob(parser, text, value, &rule->before);
	if (strcmp(text, "collectives") == 0)
		return parse_bounds(parser, text, value, &rule->collectives);
	if (strcmp(text, "launches") == 0)
		return parse_bounds(parser, text, value, &rule->launches);
	if (strcmp(text, "bytes") == 0)
		return parse_bounds(parser, text, value, &rule->bytes);
	if (strcmp(text, "tokens") == 0)
		return parser->rules->hidden
			       ? parse_bounds(parser, text, value, &rule->tokens)
			       : complain(parser, "tokens: needs a line \"hidden N\" before it");
	if (strcmp(text, "graph") == 0) {
		if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
			return complain(parser, "graph: want yes or no, not \"%s\"", value);
		rule->graph = strcmp(value, "yes") == 0;
		return 0;
	}
	if (rule->verb == VERB_SPLIT && strcmp(text, "at") == 0) {
		const char *end = parse_number(value, &number);

		if (!end || *end || number == 0 || number > UINT32_MAX)
			return complain(parser, "at: want a number from 1, not \"%s\"", value);
		rule->at = (uint32_t)number;
		return 0;
	}
	return complain(parser, "\"%s\" is no condition", text);
}

static int
parse_phase(const struct parser *parser, const char *word, uint8_t *phase)
{
	int value = word ? cs_phase_parse(word) : -EINVAL;

	if (value < 0)
		return complain(parser,
			"\"%s\" is no phase: want verify, draft, draft_extend, decode, prefill or unknown",
			word ? word : "");
	*phase = (uint8_t)value;
	return 0;
}

static int
parse_hidden(struct parser *parser, char **save)
{
	const char *word = strtok_r(NULL, " \t", save);
	const char *end = word ? parse_number(word, &parser->rules->hidden) : NULL;

	if (!end || *end || parser->rules->hidden == 0 || strtok_r(NULL, " \t", save))
		return complain(parser, "hidden: want one number, the model's hidden size in elements");
	return 0;
}

static int
parse_verb(struct parser *parser, struct rule *rule, const char *word, char **save)
{
	int result;

	if (strcmp(word, "merge") == 0) {
		rule->verb = VERB_MERGE;
		return 0;
	}
	if (strcmp(word, "split") == 0) {
		rule->verb = VERB_SPLIT;
		result = parse_phase(parser, strtok_r(NULL, " \t", save), &rule->phase);
		return result ? result : parse_phase(parser, strtok_r(NULL, " \t", save), &rule->rest);
	}
	return parse_phase(parser, word, &rule->phase);
}

static int
parse_line(struct parser *parser, char *line)
{
	struct cs_rules *rules = parser->rules;
	struct rule *rule = &rules->rules[rules->count];
	unsigned int conditions = 0;
	char *save = NULL;
	char *word = strtok_r(line, " \t", &save);
	int result;

	if (!word)
		return 0;
	if (strcmp(word, "hidden") == 0)
		return parse_hidden(parser, &save);
	if (rules->count == RULES_MAX)
		return complain(parser, "more than %u rules", RULES_MAX);
	*rule = (struct rule){.graph = -1, .line = parser->line};
	rules->count++; /* so that its texts are freed */
	result = parse_verb(parser, rule, word, &save);
	while (result == 0 && (word = strtok_r(NULL, " \t", &save))) {
		result = parse_condition(parser, rule, word);
		conditions++;
	}
	if (result)
		return result;
	if (conditions == 0)
		return complain(parser, "a rule needs a condition");
	if (rule->verb == VERB_SPLIT && rule->at == 0)
		return complain(parser, "split needs at=N, how many collectives the first pass has");
	if (rule->verb == VERB_MERGE)
		rules->merge = true;
	return 0;
}

/* Line by line; takes the text apart. */
static int
parse_text(struct parser *parser, char *text, size_t length)
{
	int result = 0;

	if (strlen(text) != length) {
		for (const char *at = text; (at = strchr(at, '\n')); at++)
			parser->line++;
		parser->line++;
		return complain(parser, "a zero byte: this is no text file");
	}
	while (result == 0 && *text) {
		char *next = text + strcspn(text, "\n");

		next += *next != '\0';
		parser->line++;
		text[strcspn(text, "#\r\n")] = '\0';
		result = parse_line(parser, text);
		text = next;
	}
	return result;
}

int
cs_rules_load(const char *path, struct cs_rules **rules, char *complaint, size_t complaint_bytes)
{
	struct parser parser = {.path = path, .complaint = complaint, .complaint_bytes = complaint_bytes};
	char *text;
	size_t length;
	int result = cs_text_file_read(path, &text, &length);

	*rules = NULL;
	if (result) {
		if (complaint && complaint_bytes)
			snprintf(complaint, complaint_bytes, "%s: %s", path, cs_text_file_error(result));
		return result;
	}
	parser.rules = calloc(1, sizeof(*parser.rules));
	result = parser.rules ? parse_text(&parser, text, length) : -ENOMEM;
	free(text);
	if (result) {
		cs_rules_destroy(parser.rules);
		return result;
	}
	*rules = parser.rules;
	return 0;
}

void
cs_rules_destroy(struct cs_rules *rules)
{
	if (!rules)
		return;
	for (size_t i = 0; i < rules->count; i++) {
		free(rules->rules[i].range);
		free(rules->rules[i].after);
		free(rules->rules[i].before);
	}
	free(rules);
}

static bool
is_within(const struct bounds *bounds, uint64_t value)
{
	return !bounds->given || (value >= bounds->least && value <= bounds->most);
}

static bool
matches_range(const char *glob, const struct cs_step_facts *facts)
{
	if (!glob)
		return true;
	for (size_t i = 0; i < facts->range_count; i++) {
		if (fnmatch(glob, facts->ranges[i], 0) == 0)
			return true;
	}
	return false;
}

static bool
matches_marker(const char *glob, const char *name)
{
	return !glob || (*name && fnmatch(glob, name, 0) == 0);
}

/* A condition on something that is not known does not hold. */
static bool
matches(const struct cs_rules *rules, const struct rule *rule, const struct cs_step_facts *facts)
{
	if (rule->graph >= 0 && (rule->graph != 0) != facts->graph)
		return false;
	if (rule->bytes.given && (facts->bytes == CS_BYTES_UNKNOWN || !is_within(&rule->bytes, facts->bytes)))
		return false;
	if (rule->tokens.given &&
		(facts->count == 0 || !is_within(&rule->tokens, facts->count / rules->hidden)))
		return false;
	return is_within(&rule->collectives, facts->collectives) &&
	       is_within(&rule->launches, facts->launches) && matches_range(rule->range, facts) &&
	       matches_marker(rule->after, facts->after) && matches_marker(rule->before, facts->before);
}

int
cs_rules_phase(const struct cs_rules *rules, const struct cs_step_facts *facts, uint32_t *line)
{
	for (size_t i = 0; i < rules->count; i++) {
		if (rules->rules[i].verb != VERB_PHASE || !matches(rules, &rules->rules[i], facts))
			continue;
		*line = rules->rules[i].line;
		return rules->rules[i].phase;
	}
	return -ENODATA;
}

uint32_t
cs_rules_split(const struct cs_rules *rules, const struct cs_step_facts *facts, uint8_t *first, uint8_t *rest,
	uint32_t *line)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct rule *rule = &rules->rules[i];

		if (rule->verb != VERB_SPLIT || !matches(rules, rule, facts))
			continue;
		*first = rule->phase;
		*rest = rule->rest;
		*line = rule->line;
		return rule->at < facts->collectives ? rule->at : 0;
	}
	return 0;
}

bool
cs_rules_merge(const struct cs_rules *rules)
{
	return rules->merge;
}

bool
cs_rules_merges(const struct cs_rules *rules, const char *range)
{
	for (size_t i = 0; i < rules->count; i++) {
		if (rules->rules[i].verb == VERB_MERGE && fnmatch(rules->rules[i].range, range, 0) == 0)
			return true;
	}
	return false;
}
