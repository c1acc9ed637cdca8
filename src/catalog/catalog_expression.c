/* SPDX-License-Identifier: Apache-2.0 */
/* The values of layout, size, rank, world, check and align: what stands where in the launch parameters. */
#include "catalog_rule.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BYTES 64U
/* All parameters of a kernel together may have 32764 bytes (CUDA 12.1 and later). */
#define PARAMETER_BYTES_MAX 32764UL

static const char *const type_names[CS_FACTOR_TYPE_COUNT] = {
	[CS_FACTOR_U8] = "u8",
	[CS_FACTOR_I8] = "i8",
	[CS_FACTOR_U16] = "u16",
	[CS_FACTOR_I16] = "i16",
	[CS_FACTOR_U32] = "u32",
	[CS_FACTOR_I32] = "i32",
	[CS_FACTOR_U64] = "u64",
	[CS_FACTOR_I64] = "i64",
};

uint8_t
cs_catalog_argument(const struct cs_catalog_rule *rule, const char *name)
{
	for (unsigned int i = 0; i < rule->capture_count; i++) {
		if (rule->captures[i].kind == CS_CAPTURE_INTEGER && strcmp(rule->captures[i].name, name) == 0)
			return rule->captures[i].argument;
	}
	return CS_CATALOG_ARGUMENT_NONE;
}

/* An unsigned number below `limit` at *at, which moves behind it. */
static bool
read_number(const char **at, unsigned long limit, unsigned long *number)
{
	char *end;

	if (!isdigit((unsigned char)**at))
		return false;
	errno = 0;
	*number = strtoul(*at, &end, 10);
	if (errno != 0 || *number >= limit)
		return false;
	*at = end;
	return true;
}

/* "P5.i32", "P0@8.u32" */
static bool
read_parameter(const char *word, struct cs_factor *factor)
{
	unsigned long number;

	word++;
	factor->kind = CS_FACTOR_PARAMETER;
	if (!read_number(&word, 64, &number))
		return false;
	factor->parameter = (uint8_t)number;
	if (*word == '@') {
		word++;
		if (!read_number(&word, PARAMETER_BYTES_MAX, &number))
			return false;
		factor->offset_bytes = (uint16_t)number;
	}
	if (*word++ != '.')
		return false;
	for (unsigned int i = 0; i < CS_FACTOR_TYPE_COUNT; i++) {
		if (strcmp(word, type_names[i]) == 0) {
			factor->type = (uint8_t)i;
			return true;
		}
	}
	return false;
}

static int
read_grid(const char *word, struct cs_factor *factor)
{
	factor->kind = CS_FACTOR_GRID;
	factor->parameter = (uint8_t)(word[5] - 'x');
	return word[5] >= 'x' && word[5] <= 'z' && word[6] == '\0';
}

int
cs_catalog_read_factor(struct cs_catalog_reader *reader, const char *value, struct cs_factor *factor)
{
	unsigned long number;
	const char *end = value;

	*factor = (struct cs_factor){0};
	if (strcmp(value, "sizeof(T)") == 0) {
		factor->kind = CS_FACTOR_ELEMENT;
		return 0;
	}
	if (strcmp(value, "W") == 0) {
		factor->kind = CS_FACTOR_WORLD;
		return 0;
	}
	if (strncmp(value, "grid.", 5) == 0 && read_grid(value, factor))
		return 0;
	if (value[0] == 'P' && isdigit((unsigned char)value[1]) && read_parameter(value, factor))
		return 0;
	if (read_number(&end, 1UL << 32, &number) && *end == '\0' && number > 0) {
		factor->constant = number;
		return 0;
	}
	factor->kind = CS_FACTOR_ARGUMENT;
	factor->parameter = cs_catalog_argument(reader->rule, value);
	if (factor->parameter != CS_CATALOG_ARGUMENT_NONE)
		return 0;
	return cs_catalog_complain(reader, reader->line,
		"\"%s\" is no operand: want P5.i32, P0@8.u64, a number, sizeof(T), W, grid.x or a name from "
		"this row's template line, which must come first",
		value);
}

int
cs_catalog_read_size(struct cs_catalog_reader *reader, const char *value)
{
	struct cs_expression *size = &reader->layout->size;
	char word[WORD_BYTES];
	const char *at = value;
	int rc;

	size->term_count = 1;
	for (;;) {
		unsigned int term = size->term_count - 1U;

		if (!cs_catalog_next_word(&at, word, sizeof(word)))
			return cs_catalog_complain(reader, reader->line, "size: an operand is missing");
		if (size->factor_count[term] == CS_CATALOG_FACTORS_MAX)
			return cs_catalog_complain(reader, reader->line,
				"size: more than %u operands in a product", CS_CATALOG_FACTORS_MAX);
		rc = cs_catalog_read_factor(reader, word, &size->factors[term][size->factor_count[term]]);
		if (rc != 0)
			return rc;
		size->factor_count[term]++;
		if (!cs_catalog_next_word(&at, word, sizeof(word)))
			return 0;
		if (strcmp(word, "+") == 0) {
			if (size->term_count == CS_CATALOG_TERMS_MAX)
				return cs_catalog_complain(reader, reader->line,
					"size: more than %u products", CS_CATALOG_TERMS_MAX);
			size->term_count++;
		} else if (strcmp(word, "*") != 0) {
			return cs_catalog_complain(reader, reader->line,
				"size: \"%s\" between operands: want * or +, with spaces around", word);
		}
	}
}

/* "64", "48+8W", "4W": bytes, and so many more for each rank */
static bool
read_shape_size(const char **at, struct cs_shape *shape)
{
	unsigned int i = shape->size_count;
	unsigned long number;

	if (i == CS_CATALOG_SHAPE_SIZES || !read_number(at, PARAMETER_BYTES_MAX + 1, &number) || number == 0)
		return false;
	if (**at != 'W') {
		shape->sizes[i] = (uint16_t)number;
		number = 0;
		if (**at == '+') {
			++*at;
			if (!read_number(at, PARAMETER_BYTES_MAX + 1, &number) || number == 0 || **at != 'W')
				return false;
		}
	}
	shape->bytes_per_rank[i] = (uint16_t)number;
	if (number > 0)
		++*at;
	shape->size_count++;
	return true;
}

static int
read_shape_sizes(struct cs_catalog_reader *reader, const char *word, const char *at, struct cs_shape *shape)
{
	if (at[0] == '>' && at[1] == '=') {
		shape->at_least = true;
		at += 2;
	}
	for (;;) {
		if (!read_shape_size(&at, shape))
			break;
		if (*at == '\0')
			return 0;
		if (*at++ != ',' || shape->at_least)
			break;
	}
	return cs_catalog_complain(reader, reader->line,
		"layout: \"%s\": want P0:8, P0:64,128 (up to %u sizes in bytes), P0:48+8W, P0:>=80 or "
		"count:6",
		word, CS_CATALOG_SHAPE_SIZES);
}

/* "primitive:1,3": values of a template argument */
static int
read_argument_values(
	struct cs_catalog_reader *reader, const char *word, const char *colon, struct cs_shape *shape)
{
	char name[WORD_BYTES];
	const char *at = colon + 1;
	unsigned long number;

	memcpy(name, word, (size_t)(colon - word));
	name[colon - word] = '\0';
	shape->is_argument = true;
	shape->parameter = cs_catalog_argument(reader->rule, name);
	if (shape->parameter == CS_CATALOG_ARGUMENT_NONE)
		return cs_catalog_complain(reader, reader->line,
			"layout: \"%s\" is no name from this row's template line, which must come first",
			name);
	for (;;) {
		if (!read_number(&at, UINT16_MAX, &number) || shape->size_count == CS_CATALOG_SHAPE_SIZES)
			break;
		shape->sizes[shape->size_count++] = (uint16_t)number;
		if (*at == '\0')
			return 0;
		if (*at++ != ',')
			break;
	}
	return cs_catalog_complain(reader, reader->line,
		"layout: \"%s\": want %s:1 or %s:1,3 (up to %u values)", word, name, name,
		CS_CATALOG_SHAPE_SIZES);
}

/* "P1:64,128" or "primitive:1,3" */
static int
read_shape(struct cs_catalog_reader *reader, const char *word, struct cs_shape *shape)
{
	const char *at = word + 1;
	const char *colon = strchr(word, ':');
	unsigned long number;

	if (word[0] == 'P' && read_number(&at, 64, &number) && *at == ':') {
		shape->parameter = (uint8_t)number;
		return read_shape_sizes(reader, word, at + 1, shape);
	}
	if (colon == NULL || colon == word)
		return cs_catalog_complain(reader, reader->line,
			"layout: \"%s\": want P0:8, P0:64,128, P0:48+8W, P0:>=80, count:6, required or "
			"NAME:1,3 of a template argument",
			word);
	return read_argument_values(reader, word, colon, shape);
}

int
cs_catalog_read_shape(struct cs_catalog_reader *reader, const char *value)
{
	struct cs_layout *layout = reader->layout;
	char word[WORD_BYTES];
	unsigned long number;
	int rc = 0;

	while (rc == 0 && cs_catalog_next_word(&value, word, sizeof(word))) {
		const char *at = word;

		if (strcmp(word, "required") == 0) {
			layout->shape_required = true;
			continue;
		}
		if (strncmp(word, "count:", 6) == 0) {
			at += 6;
			if (!read_number(&at, 65, &number) || number == 0 || *at != '\0')
				return cs_catalog_complain(reader, reader->line,
					"layout: \"%s\": want a number from 1 to 64", word);
			layout->parameter_count = (uint8_t)number;
			continue;
		}
		if (layout->shape_count == CS_CATALOG_SHAPES_MAX)
			return cs_catalog_complain(reader, reader->line, "layout: more than %u parameters",
				CS_CATALOG_SHAPES_MAX);
		rc = read_shape(reader, word, &layout->shapes[layout->shape_count++]);
	}
	if (rc == 0 && *value != '\0')
		return cs_catalog_complain(reader, reader->line, "layout: a word is too long");
	return rc;
}

int
cs_catalog_read_check(struct cs_catalog_reader *reader, const char *value)
{
	struct cs_check *check = &reader->layout->checks[reader->layout->check_count];
	char left[WORD_BYTES];
	char relation[WORD_BYTES];
	char right[WORD_BYTES];
	char rest[WORD_BYTES];
	int rc;

	if (reader->layout->check_count == CS_CATALOG_CHECKS_MAX)
		return cs_catalog_complain(
			reader, reader->line, "check: more than %u in one layout", CS_CATALOG_CHECKS_MAX);
	if (!cs_catalog_next_word(&value, left, sizeof(left)) ||
		!cs_catalog_next_word(&value, relation, sizeof(relation)) ||
		!cs_catalog_next_word(&value, right, sizeof(right)) ||
		cs_catalog_next_word(&value, rest, sizeof(rest)))
		return cs_catalog_complain(
			reader, reader->line, "check: want OPERAND RELATION OPERAND, with spaces between");
	if (strcmp(relation, "==") == 0)
		check->relation = CS_RELATION_EQUAL;
	else if (strcmp(relation, "<=") == 0)
		check->relation = CS_RELATION_AT_MOST;
	else if (strcmp(relation, "multiple-of") == 0)
		check->relation = CS_RELATION_MULTIPLE;
	else
		return cs_catalog_complain(reader, reader->line,
			"check: \"%s\" is no relation: want ==, <= or multiple-of", relation);
	rc = cs_catalog_read_factor(reader, left, &check->left);
	if (rc == 0)
		rc = cs_catalog_read_factor(reader, right, &check->right);
	if (rc == 0)
		reader->layout->check_count++;
	return rc;
}
