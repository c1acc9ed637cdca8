/* SPDX-License-Identifier: Apache-2.0 */
/* The values of template, and of op and fused where a template argument decides. */
#include "catalog_rule.h"

#include <stdlib.h>
#include <string.h>

#define WORD_BYTES 256U

static int
add_capture(struct cs_catalog_reader *reader, const char *name, unsigned int outer, unsigned int inner)
{
	struct cs_catalog_rule *rule = reader->rule;
	struct cs_capture *capture = &rule->captures[rule->capture_count];
	unsigned int used = 0;

	if (strcmp(name, "_") == 0)
		return 0;
	if (rule->capture_count == CS_CATALOG_TEMPLATE_MAX)
		return cs_catalog_complain(reader, reader->line, "template: more than %u named arguments",
			CS_CATALOG_TEMPLATE_MAX);
	for (unsigned int i = 0; i < rule->capture_count; i++) {
		if (strcmp(rule->captures[i].name, name) == 0)
			return cs_catalog_complain(
				reader, reader->line, "template: \"%s\" is named twice", name);
		used += rule->captures[i].kind == CS_CAPTURE_INTEGER;
	}
	*capture = (struct cs_capture){.outer = (uint8_t)outer, .inner = (uint8_t)inner};
	capture->name = cs_catalog_keep(reader, name);
	if (strcmp(name, "T") == 0) {
		capture->kind = CS_CAPTURE_DTYPE;
	} else if (strcmp(name, "W") == 0) {
		capture->kind = CS_CAPTURE_WORLD;
	} else {
		if (used == CS_CATALOG_ARGUMENTS)
			return cs_catalog_complain(reader, reader->line,
				"template: more than %u named arguments besides T and W",
				CS_CATALOG_ARGUMENTS);
		capture->kind = CS_CAPTURE_INTEGER;
		capture->argument = (uint8_t)used;
	}
	rule->capture_count++;
	return 0;
}

/* "_<T, _>, W, P": one entry per template argument, one level of nesting. */
int
cs_catalog_read_template(struct cs_catalog_reader *reader, const char *value)
{
	unsigned int outer = 0;
	unsigned int inner = CS_CATALOG_ARGUMENT_NONE;
	char name[WORD_BYTES];
	int rc;

	for (;;) {
		size_t length =
			strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

		if (length == 0 || length >= sizeof(name) || outer >= CS_CATALOG_ARGUMENT_NONE)
			break;
		memcpy(name, value, length);
		name[length] = '\0';
		value += length;
		rc = add_capture(reader, name, outer, inner);
		if (rc != 0)
			return rc;
		if (*value == '<' && inner == CS_CATALOG_ARGUMENT_NONE) {
			inner = 0;
			value++;
			continue;
		}
		if (*value == '>' && inner != CS_CATALOG_ARGUMENT_NONE) {
			inner = CS_CATALOG_ARGUMENT_NONE;
			value++;
		}
		if (*value == '\0' && inner == CS_CATALOG_ARGUMENT_NONE)
			return 0;
		if (*value++ != ',')
			break;
		value += strspn(value, " \t");
		if (inner == CS_CATALOG_ARGUMENT_NONE)
			outer++;
		else
			inner++;
	}
	return cs_catalog_complain(reader, reader->line,
		"template: want names with \", \" between, T for the element type, W for the world size, _ "
		"for an argument that does not matter, _<T, W> for arguments of an argument");
}

/* "by NAME: 1 all_reduce, 2 all_gather" */
int
cs_catalog_read_op_choices(struct cs_catalog_reader *reader, const char *value)
{
	struct cs_catalog_rule *rule = reader->rule;
	char word[WORD_BYTES];
	char number[WORD_BYTES];
	int rc = 0;

	if (!cs_catalog_next_word(&value, word, sizeof(word)) || word[strlen(word) - 1] != ':')
		return cs_catalog_complain(
			reader, reader->line, "op: want \"by NAME: 1 all_reduce, 2 all_gather, ...\"");
	word[strlen(word) - 1] = '\0';
	rule->op_argument = cs_catalog_argument(rule, word);
	if (rule->op_argument == CS_CATALOG_ARGUMENT_NONE)
		return cs_catalog_complain(reader, reader->line,
			"op: \"%s\" is not named by this row's template line, which must come first", word);
	while (rc == 0 && cs_catalog_next_word(&value, number, sizeof(number))) {
		struct cs_choice *choice = &rule->op_choices[rule->op_choice_count];
		char *end;
		long key;
		size_t length;

		if (rule->op_choice_count == CS_CATALOG_CHOICES_MAX)
			return cs_catalog_complain(
				reader, reader->line, "op: more than %u choices", CS_CATALOG_CHOICES_MAX);
		key = strtol(number, &end, 10);
		if (*end != '\0' || key < INT32_MIN || key > INT32_MAX ||
			!cs_catalog_next_word(&value, word, sizeof(word)))
			return cs_catalog_complain(
				reader, reader->line, "op: want a number and an operation for each choice");
		length = strlen(word);
		if (word[length - 1] == ',')
			word[length - 1] = '\0';
		choice->value = (int32_t)key;
		rc = cs_catalog_read_named(reader, "op", word, CS_OP_COUNT, cs_op_name, &choice->result);
		rule->op_choice_count++;
	}
	return rc;
}

int
cs_catalog_read_fused(struct cs_catalog_reader *reader, const char *value)
{
	if (strcmp(value, "yes") == 0 || strcmp(value, "no") == 0) {
		reader->rule->fused = value[0] == 'y';
		return 0;
	}
	reader->rule->fused_argument = cs_catalog_argument(reader->rule, value);
	if (reader->rule->fused_argument == CS_CATALOG_ARGUMENT_NONE)
		return cs_catalog_complain(reader, reader->line,
			"fused: want yes, no or a name from this row's template line, which must come first");
	return 0;
}
