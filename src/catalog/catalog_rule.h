/* SPDX-License-Identifier: Apache-2.0 */
/* The parsed form of a catalogue row: between catalog_parse.c, catalog_match.c and catalog_decode.c. */
#ifndef CS_CATALOG_RULE_H
#define CS_CATALOG_RULE_H

#include "catalog.h"

#define CS_CATALOG_NAMES_MAX     16U
#define CS_CATALOG_SCOPES_MAX    4U
#define CS_CATALOG_TEMPLATE_MAX  12U
#define CS_CATALOG_TERMS_MAX     4U
#define CS_CATALOG_FACTORS_MAX   6U
#define CS_CATALOG_CHECKS_MAX    3U
#define CS_CATALOG_SHAPES_MAX    16U
#define CS_CATALOG_SHAPE_SIZES   4U
#define CS_CATALOG_CHOICES_MAX   6U
#define CS_CATALOG_LAYOUTS_MAX   4U
#define CS_CATALOG_ARGUMENT_NONE 0xffU

/* One operand of a size rule. */
enum cs_factor_kind {
	CS_FACTOR_CONSTANT = 0,
	CS_FACTOR_PARAMETER = 1, /* an integer in a kernel parameter */
	CS_FACTOR_GRID = 2,      /* a grid dimension */
	CS_FACTOR_ELEMENT = 3,   /* sizeof(T) */
	CS_FACTOR_WORLD = 4,     /* W: the world size, from the template or by the world rule */
	CS_FACTOR_ARGUMENT = 5   /* a named template argument */
};

enum cs_factor_type {
	CS_FACTOR_U8 = 0,
	CS_FACTOR_I8 = 1,
	CS_FACTOR_U16 = 2,
	CS_FACTOR_I16 = 3,
	CS_FACTOR_U32 = 4,
	CS_FACTOR_I32 = 5,
	CS_FACTOR_U64 = 6,
	CS_FACTOR_I64 = 7,
	CS_FACTOR_TYPE_COUNT
};

struct cs_factor {
	uint8_t kind;      /* enum cs_factor_kind */
	uint8_t type;      /* PARAMETER: enum cs_factor_type */
	uint8_t parameter; /* PARAMETER: its number; GRID: 0 x, 1 y, 2 z; ARGUMENT: index in match->arguments
			    */
	uint16_t offset_bytes; /* PARAMETER: inside the parameter */
	uint64_t constant;
};

/* A sum of products; term_count 0: none. */
struct cs_expression {
	uint8_t term_count;
	uint8_t factor_count[CS_CATALOG_TERMS_MAX];
	struct cs_factor factors[CS_CATALOG_TERMS_MAX][CS_CATALOG_FACTORS_MAX];
};

enum cs_relation { CS_RELATION_EQUAL = 0, CS_RELATION_AT_MOST = 1, CS_RELATION_MULTIPLE = 2 };

struct cs_check {
	struct cs_factor left;
	struct cs_factor right;
	uint8_t relation; /* enum cs_relation */
};

/* What must be so for a layout to be read: what cuFuncGetParamInfo says of one parameter, or the value of a
 * template argument. */
struct cs_shape {
	bool is_argument;  /* of match->arguments[parameter], with the values in sizes */
	uint8_t parameter; /* its number; of an argument: index in match->arguments */
	uint8_t size_count;
	bool at_least; /* sizes[0] is a lower bound */
	uint16_t sizes[CS_CATALOG_SHAPE_SIZES];
	uint16_t bytes_per_rank[CS_CATALOG_SHAPE_SIZES]; /* and so many more for each rank of the world */
};

/* One way in which the parameters of a row's kernels may be laid out. */
struct cs_layout {
	unsigned int line;
	bool shape_required;     /* no size without cuFuncGetParamInfo */
	uint8_t parameter_count; /* 0: any */
	uint8_t shape_count;
	uint8_t check_count;
	bool has_rank;
	bool has_world;
	struct cs_shape shapes[CS_CATALOG_SHAPES_MAX];
	struct cs_expression size; /* bytes */
	struct cs_factor rank;
	struct cs_factor world;
	struct cs_check checks[CS_CATALOG_CHECKS_MAX];
	struct cs_factor align; /* constant 1 when not given */
};

/* Which template argument a letter of `template = ...` names. */
enum cs_capture_kind { CS_CAPTURE_DTYPE = 0, CS_CAPTURE_WORLD = 1, CS_CAPTURE_INTEGER = 2 };

struct cs_capture {
	uint8_t kind;
	uint8_t outer;    /* ordinal of the kernel's own argument */
	uint8_t inner;    /* ordinal inside it, or CS_CATALOG_ARGUMENT_NONE */
	uint8_t argument; /* INTEGER: index in match->arguments */
	const char *name;
};

/* `key = by X: 1 value, 2 value` */
struct cs_choice {
	int32_t value;
	uint8_t result;
};

/* What the words between the underscores of a name may tell. */
#define CS_WORD_OP        (1U << 0)
#define CS_WORD_DTYPE     (1U << 1)
#define CS_WORD_WIDTH     (1U << 2) /* floating-point type, or of an integer the width only */
#define CS_WORD_REDUCTION (1U << 3)
#define CS_WORD_ALGORITHM (1U << 4)
#define CS_WORD_TREE      (1U << 5) /* the algorithm, but only TREE is believed */
#define CS_WORD_PROTOCOL  (1U << 6)
#define CS_WORD_VARIANT   (1U << 7) /* NCCL's symmetric kernels: AGxLL_R, RSxLDMC_AGxSTMC, ... */

struct cs_catalog_rule {
	const char *id;
	const char *pattern; /* as written, for people */
	const char *size;
	const char *origin;
	unsigned int line;
	uint32_t rule_id;

	bool ignore;         /* the row says that the name is no collective */
	bool nccl_arguments; /* `size = nccl` */
	bool fused;
	uint8_t fused_argument; /* FUSED when this template argument is not 0; or ARGUMENT_NONE */
	uint8_t op_argument;
	uint8_t op_choice_count;
	uint8_t words; /* CS_WORD_* */
	uint8_t name_count;
	uint8_t scope_count;
	uint8_t word_count; /* `word = ...`: loose words instead of names */
	uint8_t capture_count;
	uint8_t layout_count;
	uint8_t template_arguments; /* how many the name must have; 0: any number */
	const char *names[CS_CATALOG_NAMES_MAX];
	const char *scopes[CS_CATALOG_SCOPES_MAX];
	const char *loose[CS_CATALOG_NAMES_MAX];
	struct cs_capture captures[CS_CATALOG_TEMPLATE_MAX];
	struct cs_choice op_choices[CS_CATALOG_CHOICES_MAX];
	const struct cs_layout *layouts; /* in the catalogue's array */
	size_t first_layout;
	struct cs_catalog_match base; /* what the row says before a name fills in the rest */
};

struct cs_catalog {
	struct cs_catalog_rule *rules;
	size_t rule_count;
	size_t rule_capacity;
	struct cs_layout *layouts;
	size_t layout_count;
	size_t layout_capacity;
	struct cs_text_block *texts; /* every string of the rows */
};

/* -- reading (catalog_parse.c, catalog_text.c, catalog_template.c, catalog_expression.c) --------------- */

struct cs_text_block {
	struct cs_text_block *next;
	size_t used;
	size_t size;
	char bytes[];
};

struct cs_catalog_reader {
	struct cs_catalog *catalog;
	struct cs_text_block *texts;
	const char *origin;
	unsigned int line;
	struct cs_catalog_rule *rule; /* being filled; NULL before the first row */
	struct cs_layout *layout;     /* being filled; NULL before the row's first parameter key */
	uint32_t keys_seen;           /* of the row, one bit per key */
	uint32_t layout_keys_seen;    /* of the layout */
	size_t first_rule;            /* of this text */
	char *complaint;
	size_t complaint_bytes;
};

/* Writes "origin:LINE: reason" and returns -EINVAL. */
int cs_catalog_complain(struct cs_catalog_reader *reader, unsigned int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* A copy of `text` that lives as long as the catalogue. */
const char *cs_catalog_keep(struct cs_catalog_reader *reader, const char *text);
/* `text`, `joint` and `more` as one string; in place when `text` was kept last. */
const char *cs_catalog_keep_longer(
	struct cs_catalog_reader *reader, const char *text, const char *joint, const char *more);
/* The number of the value that is called `value`. 0 or -EINVAL (complained). */
int cs_catalog_read_named(struct cs_catalog_reader *reader, const char *key, const char *value,
	unsigned int count, const char *(*name_of)(unsigned int), uint8_t *result);

/* catalog_template.c: each reads one value into reader->rule. 0 or -EINVAL (complained). */
int cs_catalog_read_template(struct cs_catalog_reader *reader, const char *value);
int cs_catalog_read_op_choices(struct cs_catalog_reader *reader, const char *value);
int cs_catalog_read_fused(struct cs_catalog_reader *reader, const char *value);

/* Each reads one value of a layout's key into reader->layout. 0 or -EINVAL (complained). */
int cs_catalog_read_shape(struct cs_catalog_reader *reader, const char *value);
int cs_catalog_read_size(struct cs_catalog_reader *reader, const char *value);
int cs_catalog_read_factor(struct cs_catalog_reader *reader, const char *value, struct cs_factor *factor);
int cs_catalog_read_check(struct cs_catalog_reader *reader, const char *value);

/* Next word of a list, cut out of *list into `word`; false at the end or when it is longer than `bytes`. */
bool cs_catalog_next_word(const char **list, char *word, size_t bytes);
/* Index in match->arguments of a template argument by its name, or ARGUMENT_NONE. */
uint8_t cs_catalog_argument(const struct cs_catalog_rule *rule, const char *name);

/* Reads rows of `text` (any length, not NUL-terminated) and appends them. On an error: -EINVAL with
 * "origin:LINE: reason" in complaint; -ENOMEM. The rows of this text are then taken back. */
int cs_catalog_parse(struct cs_catalog *catalog, const char *text, size_t length, const char *origin,
	char *complaint, size_t complaint_bytes);

/* catalog_nccl.c: what the words of an NCCL kernel name say. */
void cs_catalog_nccl_words(
	unsigned int words, const char *text, size_t length, struct cs_catalog_match *match);

/* catalog_nccl.c: elements of all works in NCCL's argument block. 0; -ENODATA: no layout is known for this
 * version, the works are not in the block, or they are of several functions (`mixed`: then the kernel's name
 * is that of one of them); -EINVAL: a check failed. */
struct cs_nccl_works {
	uint64_t elements;
	unsigned int works;
	unsigned int channels;
	bool mixed;
};
int cs_catalog_nccl_decode(const struct cs_launch *launch, struct cs_nccl_works *works);

#endif
