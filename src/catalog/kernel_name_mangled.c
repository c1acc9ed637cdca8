/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Itanium C++ ABI names, as far as a kernel's name and template arguments need them
 * (https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling). Substitutions (S0_) are counted, since an
 * element type that was named before is written as one: ...I6__halfS1_E is <__half, __half>.
 */
#include "collective.h"
#include "kernel_name_private.h"

#define SUBSTITUTIONS  64U
#define NOT_RECORDED   (-2)
#define VALUE_DIGITS   18U /* more than any size, rank or enumerator, less than INT64_MAX */
#define LENGTH_DIGITS  5U
#define SEQUENCE_CHARS 4U

struct reader {
	const char *at;
	const char *end;
	struct cs_kernel_name *name;
	uint8_t substitutions[SUBSTITUTIONS]; /* enum cs_dtype of each substitutable thing, in order */
	unsigned int substitution_count;
	unsigned int depth;
	int recording; /* parent of the arguments found next, or NOT_RECORDED */
	bool failed;   /* met something that is not read: stop here */
};

struct type_found {
	uint8_t dtype;
	bool plain; /* no pointer, reference or qualifier around it */
};

static struct type_found read_type(struct reader *reader);
static void read_arguments(struct reader *reader, int parent);

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static char
peek(const struct reader *reader)
{
	return reader->at < reader->end ? *reader->at : '\0';
}

static char
peek_second(const struct reader *reader)
{
	return reader->end - reader->at > 1 ? reader->at[1] : '\0';
}

static bool
take(struct reader *reader, char c)
{
	if (peek(reader) != c || reader->at >= reader->end)
		return false;
	reader->at++;
	return true;
}

static void
skip_any_of(struct reader *reader, const char *set)
{
	while (reader->at < reader->end) {
		const char *c = set;

		while (*c != '\0' && *c != *reader->at)
			c++;
		if (*c == '\0')
			return;
		reader->at++;
	}
}

static struct type_found
fail(struct reader *reader)
{
	reader->failed = true;
	return (struct type_found){0};
}

static void
remember(struct reader *reader, uint8_t dtype)
{
	if (reader->substitution_count < SUBSTITUTIONS)
		reader->substitutions[reader->substitution_count] = dtype;
	reader->substitution_count++;
}

/* <length><characters> */
static bool
read_source_name(struct reader *reader, struct cs_name_part *part)
{
	size_t length = 0;
	unsigned int digits = 0;

	while (is_digit(peek(reader)) && digits++ < LENGTH_DIGITS)
		length = length * 10 + (size_t)(*reader->at++ - '0');
	if (digits == 0 || length == 0 || length > (size_t)(reader->end - reader->at)) {
		reader->failed = true;
		return false;
	}
	part->text = reader->at;
	part->length = length;
	reader->at += length;
	return true;
}

/* B<source name>, any number */
static void
skip_abi_tags(struct reader *reader)
{
	struct cs_name_part tag;

	while (!reader->failed && take(reader, 'B'))
		(void)read_source_name(reader, &tag);
}

/* What follows S: _ is number 0, 0_ is 1, ... in base 36. */
static uint8_t
read_substitution(struct reader *reader)
{
	unsigned int number = 0;

	if (!take(reader, '_')) {
		for (unsigned int i = 0; i < SEQUENCE_CHARS && peek(reader) != '_'; i++) {
			char c = peek(reader);

			if (is_digit(c))
				number = number * 36 + (unsigned int)(c - '0');
			else if (c >= 'A' && c <= 'Z')
				number = number * 36 + (unsigned int)(c - 'A') + 10;
			else
				break;
			reader->at++;
		}
		number++;
		if (!take(reader, '_')) {
			reader->failed = true;
			return CS_DTYPE_UNKNOWN;
		}
	}
	if (number >= reader->substitution_count) {
		reader->failed = true;
		return CS_DTYPE_UNKNOWN;
	}
	return number < SUBSTITUTIONS ? reader->substitutions[number] : (uint8_t)CS_DTYPE_UNKNOWN;
}

static struct type_found
read_wrapped(struct reader *reader)
{
	(void)read_type(reader);
	remember(reader, CS_DTYPE_UNKNOWN);
	return (struct type_found){0};
}

/* Template arguments that follow a name which is itself substitutable already. */
static void
read_instance(struct reader *reader)
{
	read_arguments(reader, reader->recording);
	remember(reader, CS_DTYPE_UNKNOWN);
}

static struct type_found
read_nested(struct reader *reader)
{
	struct type_found found = {0};
	struct cs_name_part part;

	skip_any_of(reader, "rVKRO");
	while (!reader->failed && !take(reader, 'E')) {
		char c = peek(reader);

		if (c == 'S') {
			reader->at++;
			if (!take(reader, 't'))
				(void)read_substitution(reader);
			found.dtype = CS_DTYPE_UNKNOWN;
		} else if (c == 'I') {
			read_instance(reader);
			found.dtype = CS_DTYPE_UNKNOWN;
		} else if (is_digit(c) || c == 'L') {
			(void)take(reader, 'L');
			if (!read_source_name(reader, &part))
				break;
			skip_abi_tags(reader);
			found.dtype = cs_kernel_name_dtype(part.text, part.length);
			remember(reader, found.dtype);
		} else {
			return fail(reader);
		}
	}
	found.plain = true;
	return found;
}

static struct type_found
read_named(struct reader *reader)
{
	struct type_found found = {.plain = true};
	struct cs_name_part part;

	if (!read_source_name(reader, &part))
		return fail(reader);
	skip_abi_tags(reader);
	found.dtype = cs_kernel_name_dtype(part.text, part.length);
	remember(reader, found.dtype);
	if (peek(reader) == 'I') {
		read_instance(reader);
		found.dtype = CS_DTYPE_UNKNOWN;
	}
	return found;
}

static struct type_found
read_s_type(struct reader *reader)
{
	struct type_found found = {.plain = true};
	char c = peek(reader);

	if (c == 't') {
		reader->at++;
		return read_named(reader);
	}
	if (c >= 'a' && c <= 'z')
		reader->at++; /* Sa, Ss, ...: standard library, never an element type */
	else
		found.dtype = read_substitution(reader);
	if (peek(reader) == 'I') {
		read_instance(reader);
		found.dtype = CS_DTYPE_UNKNOWN;
	}
	return found;
}

static struct type_found
read_d_type(struct reader *reader)
{
	char c = peek(reader);

	reader->at++;
	switch (c) {
	case 'n':
	case 'a':
	case 'c':
	case 'i':
	case 's':
	case 'u':
		return (struct type_found){.plain = true};
	case 'p':
		return read_wrapped(reader);
	case 'F':
		if (!take(reader, '1') || !take(reader, '6'))
			return fail(reader);
		if (take(reader, '_'))
			return (struct type_found){.plain = true, .dtype = CS_DTYPE_FLOAT16};
		if (take(reader, 'b'))
			return (struct type_found){.plain = true, .dtype = CS_DTYPE_BFLOAT16};
		return fail(reader);
	default:
		return fail(reader);
	}
}

/* F<types>E, the opening letter already taken */
static struct type_found
read_function(struct reader *reader)
{
	(void)take(reader, 'Y');
	while (!reader->failed && !take(reader, 'E'))
		(void)read_type(reader);
	remember(reader, CS_DTYPE_UNKNOWN);
	return (struct type_found){0};
}

/* A<number>_<type>, the opening letter already taken */
static struct type_found
read_array(struct reader *reader)
{
	skip_any_of(reader, "0123456789");
	if (!take(reader, '_'))
		return fail(reader);
	return read_wrapped(reader);
}

/* T_, T0_, the opening letter already taken */
static struct type_found
read_parameter(struct reader *reader)
{
	skip_any_of(reader, "0123456789");
	if (!take(reader, '_'))
		return fail(reader);
	remember(reader, CS_DTYPE_UNKNOWN);
	if (peek(reader) == 'I')
		read_instance(reader);
	return (struct type_found){.plain = true};
}

static struct type_found
read_builtin(struct reader *reader, char c)
{
	struct type_found found = {.plain = true};
	struct cs_name_part part;

	switch (c) {
	case 'a':
		found.dtype = CS_DTYPE_INT8;
		break;
	case 'h':
		found.dtype = CS_DTYPE_UINT8;
		break;
	case 'i':
		found.dtype = CS_DTYPE_INT32;
		break;
	case 'j':
		found.dtype = CS_DTYPE_UINT32;
		break;
	case 'l':
	case 'x':
		found.dtype = CS_DTYPE_INT64;
		break;
	case 'm':
	case 'y':
		found.dtype = CS_DTYPE_UINT64;
		break;
	case 'f':
		found.dtype = CS_DTYPE_FLOAT32;
		break;
	case 'd':
		found.dtype = CS_DTYPE_FLOAT64;
		break;
	case 'v':
	case 'w':
	case 'b':
	case 'c':
	case 's':
	case 't':
	case 'n':
	case 'o':
	case 'e':
	case 'g':
	case 'z':
		break;
	case 'u': /* a vendor's builtin: u6__bf16 */
		if (!read_source_name(reader, &part))
			return fail(reader);
		if (part.length == 6 && __builtin_memcmp(part.text, "__bf16", 6) == 0)
			found.dtype = CS_DTYPE_BFLOAT16;
		remember(reader, found.dtype);
		break;
	default:
		return fail(reader);
	}
	return found;
}

static struct type_found
read_type_of(struct reader *reader, char c)
{
	if (is_digit(c))
		return read_named(reader);
	reader->at++;
	switch (c) {
	case 'N':
		return read_nested(reader);
	case 'S':
		return read_s_type(reader);
	case 'D':
		return read_d_type(reader);
	case 'T':
		return read_parameter(reader);
	case 'F':
		return read_function(reader);
	case 'A':
		return read_array(reader);
	case 'r':
	case 'V':
	case 'K':
		skip_any_of(reader, "rVK");
		return read_wrapped(reader);
	case 'P':
	case 'R':
	case 'O':
	case 'C':
	case 'G':
		return read_wrapped(reader);
	case 'M':
		(void)read_type(reader);
		return read_wrapped(reader);
	default:
		return read_builtin(reader, c);
	}
}

static struct type_found
read_type(struct reader *reader)
{
	struct type_found found;

	if (reader->failed || reader->at >= reader->end || reader->depth >= CS_KERNEL_NAME_DEPTH)
		return fail(reader);
	reader->depth++;
	found = read_type_of(reader, peek(reader));
	reader->depth--;
	return found;
}

/* <type><value>E, the L already taken */
static void
read_literal(struct reader *reader, struct cs_name_argument *argument)
{
	bool negative;
	int64_t value = 0;
	unsigned int digits = 0;

	if (peek(reader) == '_') { /* the name of a function or an object */
		reader->failed = true;
		return;
	}
	(void)read_type(reader);
	negative = take(reader, 'n');
	while (is_digit(peek(reader)) && digits < VALUE_DIGITS) {
		value = value * 10 + (*reader->at++ - '0');
		digits++;
	}
	if (digits > 0 && peek(reader) == 'E' && argument != NULL) {
		argument->kind = CS_NAME_ARGUMENT_INTEGER;
		argument->value = negative ? -value : value;
	}
	skip_any_of(reader, "0123456789abcdef_"); /* a floating-point value */
	if (!take(reader, 'E'))
		reader->failed = true;
}

static void
read_one_argument(struct reader *reader, struct cs_name_argument *argument)
{
	struct type_found found;

	if (take(reader, 'L')) {
		read_literal(reader, argument);
		return;
	}
	if (peek(reader) == 'J') { /* a pack: its members stand below it */
		read_arguments(reader, reader->recording);
		return;
	}
	found = read_type(reader);
	if (argument != NULL && found.plain && !reader->failed) {
		argument->kind = CS_NAME_ARGUMENT_TYPE;
		argument->dtype = found.dtype;
	}
}

/* I<arguments>E or J<arguments>E. Only two levels are kept: the kernel's own arguments and theirs. */
static void
read_arguments(struct reader *reader, int parent)
{
	int outer = reader->recording;
	unsigned int ordinal = 0;

	if (reader->depth >= CS_KERNEL_NAME_DEPTH) {
		reader->failed = true;
		return;
	}
	reader->depth++;
	reader->at++;
	while (!reader->failed && !take(reader, 'E')) {
		struct cs_name_argument *argument = NULL;

		if (parent != NOT_RECORDED)
			argument = cs_kernel_name_add_argument(reader->name, parent, ordinal);
		ordinal++;
		reader->recording = NOT_RECORDED;
		if (argument != NULL && parent == -1)
			reader->recording = (int)(argument - reader->name->arguments);
		read_one_argument(reader, argument);
	}
	reader->recording = outer;
	reader->depth--;
}

void
cs_kernel_name_arguments_mangled(struct cs_kernel_name *name)
{
	struct reader reader = {
		.at = name->arguments_text,
		.end = name->end,
		.name = name,
		.substitution_count = name->prefix_count,
		.recording = NOT_RECORDED,
	};

	read_arguments(&reader, -1);
	name->arguments_complete = !reader.failed;
}

static void
scan_nested(struct reader *reader)
{
	struct cs_name_part part;

	skip_any_of(reader, "rVKRO");
	if (peek(reader) == 'S' && peek_second(reader) == 't') {
		reader->at += 2;
		cs_kernel_name_add_part(reader->name, "std", 3);
	}
	while (peek(reader) != 'I' && peek(reader) != 'E') {
		(void)take(reader, 'L');
		if (!read_source_name(reader, &part))
			return;
		skip_abi_tags(reader);
		cs_kernel_name_add_part(reader->name, part.text, part.length);
		reader->name->prefix_count++;
	}
}

/* A name that breaks off inside a part is no name: a cut part could equal another kernel's. */
void
cs_kernel_name_scan_mangled(const char *text, struct cs_kernel_name *name)
{
	struct reader reader = {.at = text, .end = name->end, .name = name};
	struct cs_name_part part;

	(void)take(&reader, 'L'); /* internal linkage */
	if (take(&reader, 'N')) {
		scan_nested(&reader);
	} else {
		if (peek(&reader) == 'S' && peek_second(&reader) == 't') {
			reader.at += 2;
			cs_kernel_name_add_part(name, "std", 3);
		}
		if (read_source_name(&reader, &part)) {
			skip_abi_tags(&reader);
			cs_kernel_name_add_part(name, part.text, part.length);
			name->prefix_count = 1;
		}
	}
	if (reader.failed)
		name->part_count = 0;
	else if (peek(&reader) == 'I')
		name->arguments_text = reader.at;
}
