/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of a scenario: what its files share. Every function that can fail has said so when it returns
 * false. */
#ifndef CS_SCENARIO_PARSE_H
#define CS_SCENARIO_PARSE_H

#include "scenario.h"

#define WORDS_MAX    32
#define REPEAT_DEPTH 4

struct parser {
	const char *path;
	unsigned int line;
	struct scenario *scenario;
	struct scenario_sequence *sequence; /* being read: between `graph` or `eager` and its `end` */
	bool in_step;
	struct {
		uint32_t from;
		uint32_t times;
	} repeats[REPEAT_DEPTH];
	unsigned int depth;
	bool in_group;
	uint32_t group_kernels; /* of each communicator */
	uint32_t group_count;
	uint32_t group_ops[SCENARIO_GROUP_MAX];
	char *words[WORDS_MAX];
	unsigned int count;
};

/* Prints one line that names file and line; returns false. */
bool parse_fail(const struct parser *parser, const char *what, const char *detail);
bool parse_number(const struct parser *parser, const char *text, double low, double high, double *value);
/* The word after `key`; NULL when the statement has no such key. Keys and values begin at word `from`. */
const char *parse_option(const struct parser *parser, unsigned int from, const char *key);
bool parse_option_number(const struct parser *parser, unsigned int from, const char *key, double low,
	double high, double fallback, double *value);
/* Every key of the statement must be one of `keys` (separated by blanks), each with a value. */
bool parse_check_options(const struct parser *parser, unsigned int from, const char *keys);
bool parse_copy_name(const struct parser *parser, char *to, const char *from);
/* Makes room for one more; count is what the array holds now. */
void *parse_grow(void *array, uint32_t count, size_t size);

/* parse_op.c */
bool parse_comm(struct parser *parser);
bool parse_op(struct parser *parser);
int parse_find_op(const struct scenario *scenario, const char *name); /* negative: none */
uint32_t parse_add_op(struct scenario *scenario, const struct scenario_op *op);

/* parse_sequence.c */
bool parse_sequence(struct parser *parser, bool eager);
bool parse_in_sequence(struct parser *parser);
bool parse_in_step(struct parser *parser);

/* parse_group.c: the kernels of a group become items of the sequence. */
bool parse_group(struct parser *parser);
bool parse_in_group(struct parser *parser);
bool parse_add_item(struct parser *parser, struct scenario_item item);

#endif
