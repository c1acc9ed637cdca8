/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel name -> row. Bounded, no allocation: runs once per kernel function on an application thread. */
#include "catalog_rule.h"
#include "kernel_name.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WORLD_MAX 4096

/* '*' stands for any run of characters. */
static bool
glob_matches(const char *glob, const char *text, size_t length)
{
	const char *end = text + length;
	const char *star = NULL;
	const char *star_text = NULL;

	while (text < end) {
		if (*glob == '*') {
			star = ++glob;
			star_text = text;
		} else if (*glob == *text) {
			glob++;
			text++;
		} else if (star != NULL) {
			glob = star;
			text = ++star_text;
		} else {
			return false;
		}
	}
	while (*glob == '*')
		glob++;
	return *glob == '\0';
}

/*
 * `word` (lower case, no underscores) as a word of its own in an identifier, however it is spelled there:
 * all_reduce, allreduce, AllReduce. "smallreduce" and "allreduced" do not have it.
 */
static bool
word_at(const char *word, const char *text, const char *end)
{
	const char *start = text;
	bool last_lower = false;

	for (; *word != '\0'; word++) {
		while (text > start && text < end && *text == '_')
			text++;
		if (text == end || tolower((unsigned char)*text) != *word)
			return false;
		last_lower = islower((unsigned char)*text);
		text++;
	}
	return text == end || !islower((unsigned char)*text) || !last_lower;
}

static bool
word_matches(const char *word, const char *text, size_t length)
{
	const char *end = text + length;

	for (const char *at = text; at < end; at++) {
		bool starts = at == text || !isalpha((unsigned char)at[-1]) ||
			      (isupper((unsigned char)*at) && islower((unsigned char)at[-1]));

		if (starts && isalpha((unsigned char)*at) && word_at(word, at, end))
			return true;
	}
	return false;
}

/* The row's scopes must be found in this order, with others between if need be. */
static bool
scopes_match(const struct cs_catalog_rule *rule, const struct cs_kernel_name *name)
{
	size_t part = 0;

	for (unsigned int i = 0; i < rule->scope_count; i++) {
		for (;; part++) {
			if (part + 1 >= name->part_count)
				return false;
			if (glob_matches(rule->scopes[i], name->parts[part].text, name->parts[part].length))
				break;
		}
		part++;
	}
	return true;
}

/* Releases that gave a kernel more or fewer template arguments have a row each. */
static bool
arguments_match(const struct cs_catalog_rule *rule, struct cs_kernel_name *name)
{
	unsigned int count = rule->template_arguments;

	if (count == 0)
		return true;
	cs_kernel_name_parse_arguments(name);
	return cs_kernel_name_argument(name, -1, count - 1) != NULL &&
	       cs_kernel_name_argument(name, -1, count) == NULL;
}

static bool
surroundings_match(const struct cs_catalog_rule *rule, struct cs_kernel_name *name)
{
	return scopes_match(rule, name) && arguments_match(rule, name);
}

/* The name or word of the row that the function's own name has, or NULL. */
static const char *
matching_name(const struct cs_catalog_rule *rule, struct cs_kernel_name *name)
{
	const struct cs_name_part *own = &name->parts[name->part_count - 1];

	for (unsigned int i = 0; i < rule->name_count; i++) {
		if (glob_matches(rule->names[i], own->text, own->length))
			return surroundings_match(rule, name) ? rule->names[i] : NULL;
	}
	for (unsigned int i = 0; i < rule->word_count; i++) {
		if (word_matches(rule->loose[i], own->text, own->length))
			return surroundings_match(rule, name) ? rule->loose[i] : NULL;
	}
	return NULL;
}

static void
take_capture(const struct cs_capture *capture, const struct cs_name_argument *argument,
	struct cs_catalog_match *match)
{
	switch (capture->kind) {
	case CS_CAPTURE_DTYPE:
		if (argument->kind == CS_NAME_ARGUMENT_TYPE && argument->dtype != CS_DTYPE_UNKNOWN)
			match->dtype = argument->dtype;
		break;
	case CS_CAPTURE_WORLD:
		/* torch writes -1 for a world size that it passes as a parameter */
		if (argument->kind == CS_NAME_ARGUMENT_INTEGER && argument->value > 0 &&
			argument->value <= WORLD_MAX)
			match->world = (int32_t)argument->value;
		break;
	default:
		if (argument->kind != CS_NAME_ARGUMENT_INTEGER || argument->value < INT32_MIN ||
			argument->value > INT32_MAX)
			break;
		match->arguments[capture->argument] = (int32_t)argument->value;
		match->arguments_known |= (uint8_t)(1U << capture->argument);
		break;
	}
}

static void
take_arguments(
	const struct cs_catalog_rule *rule, struct cs_kernel_name *name, struct cs_catalog_match *match)
{
	if (rule->capture_count == 0)
		return;
	cs_kernel_name_parse_arguments(name);
	for (unsigned int i = 0; i < rule->capture_count; i++) {
		const struct cs_capture *capture = &rule->captures[i];
		const struct cs_name_argument *argument = cs_kernel_name_argument(name, -1, capture->outer);

		if (argument != NULL && capture->inner != CS_CATALOG_ARGUMENT_NONE)
			argument = cs_kernel_name_argument(
				name, (int)(argument - name->arguments), capture->inner);
		if (argument != NULL)
			take_capture(capture, argument, match);
	}
}

static bool
argument_value(const struct cs_catalog_match *match, uint8_t index, int32_t *value)
{
	if (index == CS_CATALOG_ARGUMENT_NONE || (match->arguments_known & (1U << index)) == 0)
		return false;
	*value = match->arguments[index];
	return true;
}

static void
take_choices(const struct cs_catalog_rule *rule, struct cs_catalog_match *match)
{
	int32_t value;

	if (rule->fused || (argument_value(match, rule->fused_argument, &value) && value != 0))
		match->label_flags |= CS_LABEL_FUSED;
	if (!argument_value(match, rule->op_argument, &value))
		return;
	for (unsigned int i = 0; i < rule->op_choice_count; i++) {
		if (rule->op_choices[i].value == value)
			match->op = rule->op_choices[i].result;
	}
}

/* The first row that the name matches; kind ignore included. */
static const struct cs_catalog_rule *
find_rule(const struct cs_catalog *catalog, struct cs_kernel_name *name, const char **by)
{
	if (name->part_count == 0)
		return NULL;
	for (size_t i = 0; i < catalog->rule_count; i++) {
		*by = matching_name(&catalog->rules[i], name);
		if (*by != NULL)
			return &catalog->rules[i];
	}
	return NULL;
}

static void
fill_match(const struct cs_catalog_rule *rule, struct cs_kernel_name *name, struct cs_catalog_match *match)
{
	const struct cs_name_part *own = &name->parts[name->part_count - 1];

	*match = rule->base;
	match->rule = rule;
	match->rule_id = rule->rule_id;
	take_arguments(rule, name, match);
	take_choices(rule, match);
	match->element_bytes = (uint8_t)cs_dtype_bytes(match->dtype);
	if (rule->words != 0)
		cs_catalog_nccl_words(rule->words, own->text, own->length, match);
}

void
cs_catalog_classify(const struct cs_catalog *catalog, const char *kernel_name, struct cs_catalog_match *match)
{
	struct cs_kernel_name name;
	const struct cs_catalog_rule *rule;
	const char *by;

	*match = (struct cs_catalog_match){.world = CS_RANK_UNKNOWN};
	cs_kernel_name_scan(kernel_name, &name);
	rule = find_rule(catalog, &name, &by);
	if (rule != NULL && !rule->ignore)
		fill_match(rule, &name, match);
}

struct text_out {
	char *text;
	size_t bytes;
	size_t length;
};

static void __attribute__((format(printf, 2, 3))) put(struct text_out *out, const char *format, ...)
{
	size_t used = out->length < out->bytes ? out->length : out->bytes;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(out->text + used, out->bytes - used, format, arguments);
	va_end(arguments);
	if (length > 0)
		out->length += (size_t)length;
}

static void
explain_arguments(const struct cs_catalog_rule *rule, const struct cs_kernel_name *name,
	const struct cs_catalog_match *match, struct text_out *out)
{
	int32_t value;

	for (unsigned int i = 0; i < rule->capture_count; i++) {
		const struct cs_capture *capture = &rule->captures[i];

		if (capture->kind == CS_CAPTURE_DTYPE)
			put(out, ", T = %s", cs_dtype_name(match->dtype));
		else if (capture->kind == CS_CAPTURE_WORLD && match->world != CS_RANK_UNKNOWN)
			put(out, ", W = %d", match->world);
		else if (capture->kind == CS_CAPTURE_INTEGER &&
			 argument_value(match, capture->argument, &value))
			put(out, ", %s = %d", capture->name, value);
		else
			put(out, ", %s unknown", capture->name);
	}
	if (rule->capture_count > 0 && !name->arguments_complete)
		put(out, " (the template arguments could not be read to their end)");
}

int
cs_catalog_explain(const struct cs_catalog *catalog, const char *kernel_name, char *text, size_t text_bytes)
{
	struct text_out out = {.text = text, .bytes = text_bytes};
	struct cs_kernel_name name;
	struct cs_catalog_match match;
	const struct cs_catalog_rule *rule;
	const char *by = NULL;

	if (text_bytes > 0)
		text[0] = '\0';
	cs_kernel_name_scan(kernel_name, &name);
	rule = find_rule(catalog, &name, &by);
	if (rule == NULL) {
		put(&out, name.part_count == 0 ? "not a function's name" : "no row matches");
		return (int)out.length;
	}
	put(&out, "row %s (%s:%u): ", rule->id, rule->origin, rule->line);
	for (unsigned int i = 0; i < rule->scope_count; i++)
		put(&out, "%s%s", i == 0 ? "scope " : "::", rule->scopes[i]);
	if (rule->scope_count > 0)
		put(&out, ", ");
	put(&out, "%s %s", rule->name_count > 0 ? "name" : "word", by);
	if (rule->ignore) {
		put(&out, "; the row says that it is no collective");
		return (int)out.length;
	}
	fill_match(rule, &name, &match);
	explain_arguments(rule, &name, &match, &out);
	return (int)out.length;
}
