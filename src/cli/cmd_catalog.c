/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

#include "catalog/catalog.h"
#include "cmd_catalog_near.h"
#include "json_line.h"
#include "log.h"
#include "output.h"
#include "table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHY_BYTES       1024U
#define COMPLAINT_BYTES 512U

enum { OPTION_CATALOG, OPTION_JSON };

static const struct cs_cmd_option options[] = {
	{OPTION_CATALOG, 0, "catalog", "FILE", CS_COMPLETE_FILE,
		"Rows that come before the built-in ones (default: $COLLSCOPE_CATALOG)."},
	{OPTION_JSON, 0, "json", NULL, NULL,
		"One JSON object per row or name and line instead; members are only ever added."},
	{.name = NULL},
};

static const struct cs_cmd_example examples[] = {
	{"collscope catalog", "Which kernels are known, and whose size is read"},
	{"collscope catalog match ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
		"What a kernel is taken for, and why"},
	{"cuobjdump -symbols libfoo.so | awk '{print $NF}' | collscope catalog match",
		"The same for every kernel of a library"},
	{"collscope catalog --catalog my.tbl match --json < names",
		"A file of one's own, tried before it is used"},
	{.command = NULL},
};

static const struct cs_cmd_status statuses[] = {
	{"0", "The rows were listed; with match: a row matches at least one name."},
	{"1", "With match: no row matches any name."},
	{"2", "Usage error, or the catalogue file is wrong: said with its line."},
	{.status = NULL},
};

struct request {
	const char *file;
	char **names; /* operands behind "match" */
	size_t name_count;
	bool match;
	bool json;
};

/* -- listing ------------------------------------------------------------------------------------------- */

static const char *
kind_name(enum cs_catalog_kind kind)
{
	switch (kind) {
	case CS_CATALOG_COLLECTIVE:
		return "collective";
	case CS_CATALOG_MARKER:
		return "marker";
	default:
		return "ignore";
	}
}

/* NULL for what has no operation or implementation: markers and ignored names. */
static const char *
op_text(const struct cs_catalog_match *match)
{
	return match->kind == CS_CATALOG_COLLECTIVE ? cs_op_name(match->op) : NULL;
}

static const char *
impl_text(const struct cs_catalog_match *match)
{
	return match->kind == CS_CATALOG_COLLECTIVE ? cs_impl_name(match->impl) : NULL;
}

static const char *
or_dash(const char *text)
{
	return text == NULL || *text == '\0' ? "-" : text;
}

static void
list_json(const struct cs_catalog_rule_text *row)
{
	struct cs_json_line line;

	cs_json_line_begin(&line, stdout);
	cs_json_line_text(&line, "rule", row->id);
	cs_json_line_text(&line, "kind", kind_name(row->match.kind));
	cs_json_line_text(&line, "op", op_text(&row->match));
	cs_json_line_text(&line, "impl", impl_text(&row->match));
	cs_json_line_text(&line, "pattern", row->pattern);
	cs_json_line_text(&line, "size", *row->size ? row->size : NULL);
	cs_json_line_boolean(&line, "fused", (row->match.label_flags & CS_LABEL_FUSED) != 0);
	cs_json_line_boolean(&line, "part", (row->match.label_flags & CS_LABEL_PART) != 0);
	cs_json_line_boolean(&line, "bound", (row->match.label_flags & CS_LABEL_BOUND) != 0);
	cs_json_line_text(&line, "origin", row->origin);
	cs_json_line_unsigned(&line, "line", row->line);
	cs_json_line_end(&line);
}

/* On a terminal the last part of a long pattern, which tells most; the columns behind it are wanted too. */
#define KERNEL_WIDTH 46U

static void
add_kernel(struct cs_table *table, const char *pattern, size_t length, bool shorten)
{
	while (length > 0 && pattern[length - 1] == ' ')
		length--;
	if (shorten && length > KERNEL_WIDTH)
		cs_table_add(table, CS_STYLE_BOLD, "...%.*s", (int)(KERNEL_WIDTH - 3),
			pattern + length - (KERNEL_WIDTH - 3));
	else
		cs_table_add(table, CS_STYLE_BOLD, "%.*s", (int)length, pattern);
}

/* A row of the catalogue: one line for each of its patterns, complete, so that grep finds all of it. */
static void
add_rule(struct cs_table *table, const struct cs_catalog_rule_text *row, bool shorten)
{
	const char *pattern = row->pattern;
	const char *op = op_text(&row->match);

	do {
		size_t length = strcspn(pattern, "|");

		add_kernel(table, pattern, length, shorten);
		cs_table_add(table, CS_STYLE_PLAIN, "%s", op ? op : kind_name(row->match.kind));
		cs_table_add(table, CS_STYLE_PLAIN, "%s", or_dash(impl_text(&row->match)));
		cs_table_add(table, CS_STYLE_PLAIN, "%s", row->id);
		cs_table_add(table, CS_STYLE_PLAIN, "%s", or_dash(row->size));
		pattern += length;
		pattern += strspn(pattern, "| ");
	} while (*pattern);
}

static int
list(const struct cs_catalog *catalog, bool json)
{
	static const char *const headings[] = {"KERNEL", "OP", "IMPL", "ROW", "SIZE"};
	struct cs_table *table = json ? NULL : cs_table_new(headings, sizeof(headings) / sizeof(headings[0]));
	bool terminal = cs_output_is_terminal();
	struct cs_page page = {.width = terminal ? cs_output_columns() : 0};
	struct cs_catalog_rule_text row;
	int result = 0;

	if (!json && !table)
		return -ENOMEM;
	for (size_t i = 0; cs_catalog_rule_describe(catalog, i, &row) == 0; i++) {
		if (json)
			list_json(&row);
		else
			add_rule(table, &row, terminal);
	}
	if (!json)
		result = cs_table_print(table, stdout, &page);
	cs_page_print_left_out(&page, "--json or `| cat`", stdout);
	cs_table_destroy(table);
	return result;
}

/* -- matching ------------------------------------------------------------------------------------------ */

static void
match_json(const struct cs_catalog *catalog, const char *name, const struct cs_catalog_match *match,
	const char *why)
{
	struct cs_catalog_rule_text row = {.size = ""};
	struct cs_json_line line;
	bool known = match->kind != CS_CATALOG_NONE;

	if (known)
		(void)cs_catalog_rule_describe(catalog, match->rule_id - 1, &row);
	cs_json_line_begin(&line, stdout);
	cs_json_line_text(&line, "name", name);
	cs_json_line_text(&line, "op", op_text(match));
	cs_json_line_text(&line, "impl", impl_text(match));
	cs_json_line_text(&line, "rule", known ? row.id : NULL);
	cs_json_line_text(&line, "kind", known ? kind_name(match->kind) : NULL);
	cs_json_line_text(
		&line, "dtype", match->dtype != CS_DTYPE_UNKNOWN ? cs_dtype_name(match->dtype) : NULL);
	if (match->world != CS_RANK_UNKNOWN)
		cs_json_line_signed(&line, "world", match->world);
	else
		cs_json_line_null(&line, "world");
	cs_json_line_boolean(&line, "fused", (match->label_flags & CS_LABEL_FUSED) != 0);
	cs_json_line_boolean(&line, "part", (match->label_flags & CS_LABEL_PART) != 0);
	cs_json_line_text(&line, "size", *row.size ? row.size : NULL);
	cs_json_line_text(&line, "why", why);
	cs_json_line_end(&line);
}

static void
match_text(const char *name, const struct cs_catalog_match *match, const char *why)
{
	switch (match->kind) {
	case CS_CATALOG_COLLECTIVE:
		printf("%s\n    %s%s%s, %s: %s\n", name, cs_op_name(match->op),
			(match->label_flags & CS_LABEL_FUSED) != 0 ? ", fused" : "",
			(match->label_flags & CS_LABEL_PART) != 0 ? ", part of it" : "",
			cs_impl_name(match->impl), why);
		break;
	case CS_CATALOG_MARKER:
		printf("%s\n    marker, ends %s, begins %s: %s\n", name, cs_phase_name(match->phase),
			cs_phase_name(match->phase_next), why);
		break;
	default:
		printf("%s\n    not a collective: %s\n", name, why);
		break;
	}
}

/* JSON is UTF-8, kernel names are ASCII, and what stands on the input may be anything. */
static void
replace_other_bytes(char *name)
{
	for (; *name; name++) {
		if ((unsigned char)*name >= 0x80)
			*name = '?';
	}
}

/* Whether a row matches. */
static bool
match_name(const struct cs_catalog *catalog, char *name, bool json)
{
	struct cs_catalog_match match;
	char why[WHY_BYTES];

	cs_catalog_classify(catalog, name, &match);
	(void)cs_catalog_explain(catalog, name, why, sizeof(why));
	if (json) {
		replace_other_bytes(name);
		replace_other_bytes(why);
		match_json(catalog, name, &match, why);
	} else {
		match_text(name, &match, why);
	}
	return match.kind != CS_CATALOG_NONE;
}

/* For names that somebody typed; a library's thousands would be near to something by chance. */
static void
say_near(const struct cs_catalog *catalog, const char *name)
{
	size_t rows[CS_CATALOG_NEAR_MAX];
	size_t count = cs_catalog_near(catalog, name, rows);
	struct cs_catalog_rule_text row;

	for (size_t i = 0; i < count; i++) {
		if (cs_catalog_rule_describe(catalog, rows[i], &row) == 0)
			printf("    near: row %s (%s)\n", row.id, row.pattern);
	}
}

/* Names one a line; blanks and quotes around them do not count, so that a column of a CSV file will do. */
static int
match_input(const struct cs_catalog *catalog, bool json, bool *any)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t length;
	size_t names = 0;

	while ((length = getline(&line, &size, stdin)) >= 0) {
		char *name = line + strspn(line, " \t\"");

		while (length > 0 && strchr(" \t\r\n\"", line[length - 1]))
			line[--length] = '\0';
		if (name >= line + length)
			continue;
		names++;
		if (match_name(catalog, name, json))
			*any = true;
	}
	free(line);
	if (names == 0 && !ferror(stdin))
		cs_log_warn("No kernel name on standard input: give names as arguments, or one a line");
	if (!ferror(stdin))
		return CS_EXIT_OK;
	cs_log_error("Cannot read names from standard input: %s", strerror(errno));
	return CS_EXIT_ERROR;
}

static int
match(const struct cs_catalog *catalog, const struct request *request)
{
	bool any = false;

	if (request->name_count == 0 && match_input(catalog, request->json, &any) != CS_EXIT_OK)
		return CS_EXIT_ERROR;
	for (size_t i = 0; i < request->name_count; i++) {
		if (match_name(catalog, request->names[i], request->json))
			any = true;
		else if (!request->json)
			say_near(catalog, request->names[i]);
	}
	return any ? CS_EXIT_OK : CS_EXIT_NOTHING;
}

static int
answer(const struct request *request)
{
	char complaint[COMPLAINT_BYTES];
	struct cs_catalog *catalog;
	int status = CS_EXIT_OK;
	int result = cs_catalog_load(request->file, &catalog, complaint, sizeof(complaint));

	if (result) {
		cs_log_error("%s", *complaint ? complaint : strerror(-result));
		status = CS_EXIT_ERROR;
	} else if (request->match) {
		status = match(catalog, request);
	} else {
		result = list(catalog, request->json);
		if (result) {
			cs_log_error("Cannot list the catalogue: %s", strerror(-result));
			status = CS_EXIT_ERROR;
		}
	}
	cs_catalog_destroy(catalog);
	return status;
}

/* The first operand is the verb, the others are names. */
static int
take_operand(struct request *request, struct cs_cmd_parser *parser)
{
	if (request->match) {
		request->names[request->name_count++] = strdup(parser->value);
		if (request->names[request->name_count - 1])
			return 0;
		return cs_cmd_usage_error(parser, "Too many names for the memory there is");
	}
	if (strcmp(parser->value, "match") != 0)
		return cs_cmd_usage_error(parser,
			"Unexpected argument \"%s\": want \"match\" and then kernel names", parser->value);
	request->match = true;
	return 0;
}

static int
parse(struct request *request, struct cs_cmd_parser *parser)
{
	int option;

	while ((option = cs_cmd_next(parser)) != CS_PARSE_END) {
		int result = 0;

		switch (option) {
		case OPTION_CATALOG:
			request->file = parser->value;
			break;
		case OPTION_JSON:
			request->json = true;
			break;
		case CS_PARSE_OPERAND:
			result = take_operand(request, parser);
			break;
		default:
			return CS_PARSE_EXIT;
		}
		if (result)
			return result;
	}
	return 0;
}

int
cs_cmd_catalog(int argc, char **argv)
{
	struct request request = {.file = getenv("COLLSCOPE_CATALOG")};
	struct cs_cmd_parser parser;
	int status;

	request.names = calloc((size_t)argc + 1, sizeof(*request.names));
	if (!request.names) {
		cs_log_error("Cannot keep the names: %s", strerror(ENOMEM));
		return CS_EXIT_ERROR;
	}
	cs_cmd_parse(&parser, &cs_cmd_catalog_description, argc, argv);
	status = parse(&request, &parser) ? parser.status : answer(&request);
	for (size_t i = 0; i < request.name_count; i++)
		free(request.names[i]);
	free(request.names);
	return status;
}

const struct cs_cmd cs_cmd_catalog_description = {
	.name = "catalog",
	.summary = "list the known collective kernels, or say what a kernel name is",
	.synopsis = "[options] [match [NAME...]]",
	.description =
		"Lists the rows by which kernels are recognised, in the order in which they are tried. "
		"With match: for each kernel name, mangled or demangled, from the arguments or one a "
		"line from standard input, which row matches and by what; of a name among the arguments that "
		"none matches, the rows that are near to it.",
	.options = options,
	.examples = examples,
	.statuses = statuses,
	.words = "match",
	.run = cs_cmd_catalog,
};
