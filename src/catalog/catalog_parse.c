/* SPDX-License-Identifier: Apache-2.0 */
/* Text of a catalogue -> rows. docs/catalog.md has the grammar. Start-up only: allocates. */
#include "catalog_rule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES             1024U
#define WORD_BYTES             256U
#define TEMPLATE_ARGUMENTS_MAX 16U

enum key {
	KEY_KIND,
	KEY_NAME,
	KEY_SCOPE,
	KEY_WORD,
	KEY_TEMPLATE,
	KEY_ARGUMENTS,
	KEY_OP,
	KEY_IMPL,
	KEY_DTYPE,
	KEY_REDUCTION,
	KEY_ALGORITHM,
	KEY_PROTOCOL,
	KEY_WORDS,
	KEY_FUSED,
	KEY_PART,
	KEY_BOUND,
	KEY_ENDS,
	KEY_BEGINS,
	KEY_LAYOUT,
	KEY_SIZE,
	KEY_RANK,
	KEY_WORLD,
	KEY_CHECK,
	KEY_ALIGN,
	KEY_COUNT
};

static const char *const key_names[KEY_COUNT] = {
	[KEY_KIND] = "kind",
	[KEY_NAME] = "name",
	[KEY_SCOPE] = "scope",
	[KEY_WORD] = "word",
	[KEY_TEMPLATE] = "template",
	[KEY_ARGUMENTS] = "arguments",
	[KEY_OP] = "op",
	[KEY_IMPL] = "impl",
	[KEY_DTYPE] = "dtype",
	[KEY_REDUCTION] = "reduction",
	[KEY_ALGORITHM] = "algorithm",
	[KEY_PROTOCOL] = "protocol",
	[KEY_WORDS] = "words",
	[KEY_FUSED] = "fused",
	[KEY_PART] = "part",
	[KEY_BOUND] = "bound",
	[KEY_ENDS] = "ends",
	[KEY_BEGINS] = "begins",
	[KEY_LAYOUT] = "layout",
	[KEY_SIZE] = "size",
	[KEY_RANK] = "rank",
	[KEY_WORLD] = "world",
	[KEY_CHECK] = "check",
	[KEY_ALIGN] = "align",
};

static const struct {
	const char *name;
	uint8_t flag;
} word_names[] = {
	{"op", CS_WORD_OP},
	{"dtype", CS_WORD_DTYPE},
	{"width", CS_WORD_WIDTH},
	{"reduction", CS_WORD_REDUCTION},
	{"algorithm", CS_WORD_ALGORITHM},
	{"tree", CS_WORD_TREE},
	{"protocol", CS_WORD_PROTOCOL},
	{"variant", CS_WORD_VARIANT},
};

static int
read_list(struct cs_catalog_reader *reader, const char *value, const char **list, uint8_t *count,
	unsigned int limit, const char *key)
{
	char word[WORD_BYTES];

	while (cs_catalog_next_word(&value, word, sizeof(word))) {
		if (*count == limit)
			return cs_catalog_complain(
				reader, reader->line, "%s: more than %u in one row", key, limit);
		list[(*count)++] = cs_catalog_keep(reader, word);
	}
	if (*value != '\0')
		return cs_catalog_complain(reader, reader->line, "%s: a word is too long", key);
	return 0;
}

static int
read_yes(struct cs_catalog_reader *reader, const char *key, const char *value, uint8_t flag)
{
	if (strcmp(value, "yes") == 0)
		reader->rule->base.label_flags |= flag;
	else if (strcmp(value, "no") != 0)
		return cs_catalog_complain(
			reader, reader->line, "%s: want yes or no, not \"%s\"", key, value);
	return 0;
}

static int
read_kind(struct cs_catalog_reader *reader, const char *value)
{
	struct cs_catalog_rule *rule = reader->rule;

	rule->base.kind = CS_CATALOG_COLLECTIVE;
	if (strcmp(value, "marker") == 0)
		rule->base.kind = CS_CATALOG_MARKER;
	else if (strcmp(value, "ignore") == 0)
		rule->ignore = true;
	else if (strcmp(value, "collective") != 0)
		return cs_catalog_complain(
			reader, reader->line, "kind: want collective, marker or ignore, not \"%s\"", value);
	return 0;
}

static int
read_argument_count(struct cs_catalog_reader *reader, const char *value)
{
	char *end;
	unsigned long count = strtoul(value, &end, 10);

	if (*value < '1' || *value > '9' || *end != '\0' || count > TEMPLATE_ARGUMENTS_MAX)
		return cs_catalog_complain(reader, reader->line,
			"arguments: want a number from 1 to %u, not \"%s\"", TEMPLATE_ARGUMENTS_MAX, value);
	reader->rule->template_arguments = (uint8_t)count;
	return 0;
}

static int
read_words(struct cs_catalog_reader *reader, const char *value)
{
	char word[WORD_BYTES];

	while (cs_catalog_next_word(&value, word, sizeof(word))) {
		size_t i = 0;

		while (i < sizeof(word_names) / sizeof(word_names[0]) &&
			strcmp(word_names[i].name, word) != 0)
			i++;
		if (i == sizeof(word_names) / sizeof(word_names[0]))
			return cs_catalog_complain(reader, reader->line,
				"words: \"%s\": want op, dtype or width, reduction, algorithm or tree, "
				"protocol, variant",
				word);
		reader->rule->words |= word_names[i].flag;
	}
	return 0;
}

/* Layouts follow each other in one array; a row has a run of them. */
static int
start_layout(struct cs_catalog_reader *reader)
{
	struct cs_catalog *catalog = reader->catalog;
	struct cs_layout *layouts;

	if (reader->rule->layout_count == CS_CATALOG_LAYOUTS_MAX)
		return cs_catalog_complain(
			reader, reader->line, "layout: more than %u in one row", CS_CATALOG_LAYOUTS_MAX);
	if (catalog->layout_count == catalog->layout_capacity) {
		size_t capacity = catalog->layout_capacity == 0 ? 64 : 2 * catalog->layout_capacity;

		layouts = reallocarray(catalog->layouts, capacity, sizeof(*layouts));
		if (layouts == NULL)
			return -ENOMEM;
		catalog->layouts = layouts;
		catalog->layout_capacity = capacity;
	}
	if (reader->rule->layout_count == 0)
		reader->rule->first_layout = catalog->layout_count;
	reader->rule->layout_count++;
	reader->layout = &catalog->layouts[catalog->layout_count++];
	*reader->layout = (struct cs_layout){.line = reader->line, .align = {.constant = 1}};
	reader->layout_keys_seen = 0;
	return 0;
}

static int
read_layout_value(struct cs_catalog_reader *reader, enum key key, const char *value)
{
	struct cs_layout *layout = reader->layout;

	switch (key) {
	case KEY_LAYOUT:
		return cs_catalog_read_shape(reader, value);
	case KEY_SIZE:
		reader->rule->base.has_size_rule = true;
		if (strcmp(value, "nccl") == 0) {
			reader->rule->nccl_arguments = true;
			return 0;
		}
		return cs_catalog_read_size(reader, value);
	case KEY_RANK:
		layout->has_rank = true;
		return cs_catalog_read_factor(reader, value, &layout->rank);
	case KEY_WORLD:
		layout->has_world = true;
		return cs_catalog_read_factor(reader, value, &layout->world);
	case KEY_CHECK:
		return cs_catalog_read_check(reader, value);
	default:
		return cs_catalog_read_factor(reader, value, &layout->align);
	}
}

static int
read_layout_key(struct cs_catalog_reader *reader, enum key key, const char *value)
{
	uint32_t bit = 1U << key;
	int rc = 0;

	if (reader->layout == NULL || key == KEY_LAYOUT)
		rc = start_layout(reader);
	if (rc != 0)
		return rc;
	if (key != KEY_CHECK && (reader->layout_keys_seen & bit) != 0)
		return cs_catalog_complain(
			reader, reader->line, "key \"%s\" is given twice for one layout", key_names[key]);
	reader->layout_keys_seen |= bit;
	if (key == KEY_SIZE)
		reader->rule->size = cs_catalog_keep_longer(reader, reader->rule->size, " or ", value);
	return read_layout_value(reader, key, value);
}

static int
read_row_value(struct cs_catalog_reader *reader, enum key key, const char *value)
{
	struct cs_catalog_rule *rule = reader->rule;
	struct cs_catalog_match *base = &rule->base;
	const char *name = key_names[key];

	switch (key) {
	case KEY_KIND:
		return read_kind(reader, value);
	case KEY_NAME:
		return read_list(reader, value, rule->names, &rule->name_count, CS_CATALOG_NAMES_MAX, name);
	case KEY_SCOPE:
		return read_list(
			reader, value, rule->scopes, &rule->scope_count, CS_CATALOG_SCOPES_MAX, name);
	case KEY_WORD:
		return read_list(reader, value, rule->loose, &rule->word_count, CS_CATALOG_NAMES_MAX, name);
	case KEY_TEMPLATE:
		return cs_catalog_read_template(reader, value);
	case KEY_ARGUMENTS:
		return read_argument_count(reader, value);
	case KEY_OP:
		if (strncmp(value, "by ", 3) == 0)
			return cs_catalog_read_op_choices(reader, value + 3);
		return cs_catalog_read_named(reader, name, value, CS_OP_COUNT, cs_op_name, &base->op);
	case KEY_IMPL:
		return cs_catalog_read_named(reader, name, value, CS_IMPL_COUNT, cs_impl_name, &base->impl);
	case KEY_DTYPE:
		return cs_catalog_read_named(
			reader, name, value, CS_DTYPE_COUNT, cs_dtype_name, &base->dtype);
	case KEY_REDUCTION:
		return cs_catalog_read_named(
			reader, name, value, CS_REDUCTION_COUNT, cs_reduction_name, &base->reduction);
	case KEY_ALGORITHM:
		return cs_catalog_read_named(
			reader, name, value, CS_ALGORITHM_COUNT, cs_algorithm_name, &base->algorithm);
	case KEY_PROTOCOL:
		return cs_catalog_read_named(
			reader, name, value, CS_PROTOCOL_COUNT, cs_protocol_name, &base->protocol);
	case KEY_WORDS:
		return read_words(reader, value);
	case KEY_FUSED:
		return cs_catalog_read_fused(reader, value);
	case KEY_PART:
		return read_yes(reader, name, value, CS_LABEL_PART);
	case KEY_BOUND:
		return read_yes(reader, name, value, CS_LABEL_BOUND);
	case KEY_ENDS:
		return cs_catalog_read_named(
			reader, name, value, CS_PHASE_COUNT, cs_phase_name, &base->phase);
	case KEY_BEGINS:
		return cs_catalog_read_named(
			reader, name, value, CS_PHASE_COUNT, cs_phase_name, &base->phase_next);
	default:
		return -EINVAL;
	}
}

static int
read_key(struct cs_catalog_reader *reader, const char *key, const char *value)
{
	unsigned int i = 0;

	while (i < KEY_COUNT && strcmp(key_names[i], key) != 0)
		i++;
	if (i == KEY_COUNT)
		return cs_catalog_complain(reader, reader->line, "unknown key \"%s\"", key);
	if (reader->rule == NULL)
		return cs_catalog_complain(
			reader, reader->line, "key \"%s\" before the first row: want [row-name]", key);
	if (*value == '\0')
		return cs_catalog_complain(reader, reader->line, "key \"%s\" has no value", key);
	if (i >= KEY_LAYOUT)
		return read_layout_key(reader, (enum key)i, value);
	if ((reader->keys_seen & (1U << i)) != 0 && i != KEY_NAME && i != KEY_WORD)
		return cs_catalog_complain(reader, reader->line, "key \"%s\" is given twice in one row", key);
	reader->keys_seen |= 1U << i;
	return read_row_value(reader, (enum key)i, value);
}

/* "scope::name<template>", several names with | between; "*word*" for loose words. */
static const char *
compose_pattern(struct cs_catalog_reader *reader)
{
	const struct cs_catalog_rule *rule = reader->rule;
	const char *pattern = "";
	const char *joint = "";

	for (unsigned int i = 0; i < rule->scope_count; i++)
		pattern = cs_catalog_keep_longer(reader, pattern, "::", rule->scopes[i]);
	joint = rule->scope_count > 0 ? "::" : "";
	for (unsigned int i = 0; i < rule->name_count; i++) {
		pattern = cs_catalog_keep_longer(reader, pattern, joint, rule->names[i]);
		joint = " | ";
	}
	for (unsigned int i = 0; i < rule->word_count; i++) {
		pattern = cs_catalog_keep_longer(reader, pattern, joint, "word ");
		pattern = cs_catalog_keep_longer(reader, pattern, "", rule->loose[i]);
		joint = " | ";
	}
	return pattern;
}

/* Checks that need the whole row. */
static int
finish_row(struct cs_catalog_reader *reader)
{
	struct cs_catalog_rule *rule = reader->rule;
	bool collective;

	if (rule == NULL)
		return 0;
	collective = rule->base.kind == CS_CATALOG_COLLECTIVE && !rule->ignore;
	if (rule->name_count == 0 && rule->word_count == 0)
		return cs_catalog_complain(
			reader, rule->line, "row \"%s\" has neither name nor word", rule->id);
	if (!collective && rule->layout_count > 0)
		return cs_catalog_complain(reader, rule->line,
			"row \"%s\" is no collective but has a size, rank or layout", rule->id);
	if (collective && (rule->base.phase != 0 || rule->base.phase_next != 0))
		return cs_catalog_complain(reader, rule->line,
			"row \"%s\" has ends or begins but is not of kind marker", rule->id);
	for (size_t i = 0; i < rule->layout_count && rule->layout_count > 1; i++) {
		const struct cs_layout *layout = &reader->catalog->layouts[rule->first_layout + i];

		if (layout->shape_count == 0 && layout->parameter_count == 0)
			return cs_catalog_complain(reader, layout->line,
				"row \"%s\" has several layouts: each must say by which sizes it is told",
				rule->id);
	}
	rule->pattern = compose_pattern(reader);
	return 0;
}

static int
start_row(struct cs_catalog_reader *reader, char *id)
{
	struct cs_catalog *catalog = reader->catalog;
	struct cs_catalog_rule *rule;
	size_t length = strlen(id);
	int rc = finish_row(reader);

	if (rc != 0)
		return rc;
	if (length < 2 || id[length - 1] != ']')
		return cs_catalog_complain(reader, reader->line, "want [row-name]");
	id[--length] = '\0';
	if (length == 0 || strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != length)
		return cs_catalog_complain(
			reader, reader->line, "a row's name has only lower-case letters, digits and \"-\"");
	for (size_t i = reader->first_rule; i < catalog->rule_count; i++) {
		if (strcmp(catalog->rules[i].id, id) == 0)
			return cs_catalog_complain(reader, reader->line,
				"row \"%s\" is already there, in line %u", id, catalog->rules[i].line);
	}
	if (catalog->rule_count == catalog->rule_capacity) {
		size_t capacity = catalog->rule_capacity == 0 ? 64 : 2 * catalog->rule_capacity;

		rule = reallocarray(catalog->rules, capacity, sizeof(*rule));
		if (rule == NULL)
			return -ENOMEM;
		catalog->rules = rule;
		catalog->rule_capacity = capacity;
	}
	rule = &catalog->rules[catalog->rule_count++];
	*rule = (struct cs_catalog_rule){
		.line = reader->line,
		.size = "",
		.fused_argument = CS_CATALOG_ARGUMENT_NONE,
		.op_argument = CS_CATALOG_ARGUMENT_NONE,
		.base = {.kind = CS_CATALOG_COLLECTIVE, .world = CS_RANK_UNKNOWN},
	};
	rule->origin = reader->texts->bytes;
	rule->id = cs_catalog_keep(reader, id);
	reader->rule = rule;
	reader->layout = NULL;
	reader->keys_seen = 0;
	return 0;
}

static int
read_line(struct cs_catalog_reader *reader, char *line)
{
	char *end = strchr(line, '#');
	char *equals;
	char *value;

	if (end == NULL)
		end = line + strlen(line);
	while (*line == ' ' || *line == '\t')
		line++;
	while (end > line && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
		end--;
	if (end <= line)
		return 0;
	*end = '\0';
	if (*line == '[')
		return start_row(reader, line + 1);
	equals = strchr(line, '=');
	if (equals == NULL)
		return cs_catalog_complain(reader, reader->line, "want [row-name] or key = value");
	value = equals + 1;
	while (equals > line && (equals[-1] == ' ' || equals[-1] == '\t'))
		equals--;
	*equals = '\0';
	while (*value == ' ' || *value == '\t')
		value++;
	return read_key(reader, line, value);
}

static int
read_text(struct cs_catalog_reader *reader, const char *text, size_t length)
{
	char line[LINE_BYTES];
	int rc;

	while (length > 0) {
		const char *newline = memchr(text, '\n', length);
		size_t line_length = newline == NULL ? length : (size_t)(newline - text);

		reader->line++;
		if (line_length >= sizeof(line))
			return cs_catalog_complain(
				reader, reader->line, "the line is longer than %zu bytes", sizeof(line) - 1);
		if (memchr(text, '\0', line_length) != NULL)
			return cs_catalog_complain(reader, reader->line, "the line has a NUL byte");
		memcpy(line, text, line_length);
		line[line_length] = '\0';
		rc = read_line(reader, line);
		if (rc != 0)
			return rc;
		if (newline == NULL)
			break;
		text += line_length + 1;
		length -= line_length + 1;
	}
	return finish_row(reader);
}

int
cs_catalog_parse(struct cs_catalog *catalog, const char *text, size_t length, const char *origin,
	/* Written through the reader. NOLINTNEXTLINE(readability-non-const-parameter) */
	char *complaint, size_t complaint_bytes)
{
	/* Each word of the text is kept once and once more in the pattern or size text, with at most seven
	 * bytes between; a size text can be moved once for each layout. */
	size_t bytes = (8 + CS_CATALOG_LAYOUTS_MAX) * length + strlen(origin) + 64;
	struct cs_catalog_reader reader = {
		.catalog = catalog,
		.origin = origin,
		.first_rule = catalog->rule_count,
		.complaint = complaint,
		.complaint_bytes = complaint_bytes,
	};
	size_t first_layout = catalog->layout_count;
	int rc;

	reader.texts = malloc(sizeof(*reader.texts) + bytes);
	if (reader.texts == NULL)
		return -ENOMEM;
	*reader.texts = (struct cs_text_block){.size = bytes};
	(void)cs_catalog_keep(&reader, origin);
	rc = read_text(&reader, text, length);
	if (rc != 0) {
		catalog->rule_count = reader.first_rule;
		catalog->layout_count = first_layout;
		free(reader.texts);
		return rc;
	}
	reader.texts->next = catalog->texts;
	catalog->texts = reader.texts;
	return 0;
}
