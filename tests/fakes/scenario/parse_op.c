/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to run, and who runs it together: `op` and `comm`. */
#include "parse.h"

#include <string.h>

#define COMPUTE_DEFAULT "_Z12fake_computev"
#define COMMON_OPTIONS  "us jitter contended impl bytes kernel direction "

int
parse_find_op(const struct scenario *scenario, const char *name)
{
	uint32_t i;

	for (i = 0; i < scenario->op_count; i++)
		if (strcmp(scenario->ops[i].name, name) == 0)
			return (int)i;
	return -1;
}

uint32_t
parse_add_op(struct scenario *scenario, const struct scenario_op *op)
{
	scenario->ops = parse_grow(scenario->ops, scenario->op_count, sizeof(*scenario->ops));
	scenario->ops[scenario->op_count] = *op;
	return scenario->op_count++;
}

/* comm NAME size N [stride S] */
bool
parse_comm(struct parser *parser)
{
	struct scenario *scenario = parser->scenario;
	struct scenario_comm comm = {.size = 0};
	double size, stride;

	if (parser->count < 2)
		return parse_fail(parser, "comm needs a name", NULL);
	if (scenario->comm_count == SCENARIO_COMMS_MAX)
		return parse_fail(parser, "too many communicators", NULL);
	if (!parse_copy_name(parser, comm.name, parser->words[1]) ||
		!parse_check_options(parser, 2, "size stride") ||
		!parse_option_number(parser, 2, "size", 1, SCENARIO_RANKS_MAX, 0, &size) ||
		!parse_option_number(parser, 2, "stride", 1, SCENARIO_RANKS_MAX, 1, &stride))
		return false;
	comm.size = (uint32_t)size;
	comm.stride = (uint32_t)stride;
	if (!comm.size)
		return parse_fail(parser, "comm needs a size", NULL);
	scenario->comms[scenario->comm_count++] = comm;
	return true;
}

/* The words of NCCL's: which one is written after `key`. */
static bool
word(const struct parser *parser, const char *key, const char *fallback,
	const struct scenario_word *(*find)(const char *name), const struct scenario_word **found)
{
	const char *text = parse_option(parser, 3, key);

	*found = find(text ? text : fallback);
	return *found || parse_fail(parser, "no such word", text);
}

static bool
parse_collective(struct parser *parser, struct scenario_op *op)
{
	const struct scenario *scenario = parser->scenario;
	const char *text = parse_option(parser, 3, "impl");
	double profiled;

	op->type = SCENARIO_COLLECTIVE;
	op->impl = text ? scenario_impl_find(text) : NULL;
	if (!op->impl)
		return parse_fail(parser, "unknown implementation", text ? text : "(none)");
	if (!op->bytes || op->bytes % 16)
		return parse_fail(parser, "a collective needs bytes, a multiple of 16", NULL);
	if (!parse_check_options(parser, 3,
		    op->impl->symmetric ? COMMON_OPTIONS "comm dtype variant profile"
		    : op->impl->nccl    ? COMMON_OPTIONS "comm dtype algorithm protocol"
					: COMMON_OPTIONS "comm") ||
		!parse_option_number(parser, 3, "profile", 0, 1, 0, &profiled) ||
		!word(parser, "dtype", "bf16", scenario_dtype_find, &op->dtype) ||
		!word(parser, "algorithm", "ring", scenario_algorithm_find, &op->algorithm) ||
		!word(parser, "protocol", "ll", scenario_protocol_find, &op->protocol) ||
		!word(parser, "variant", "AGxLLMC_R", scenario_variant_find, &op->variant))
		return false;
	op->profiled = profiled > 0;
	text = parse_option(parser, 3, "comm");
	while (text && op->comm < scenario->comm_count && strcmp(scenario->comms[op->comm].name, text) != 0)
		op->comm++;
	return op->comm < scenario->comm_count || parse_fail(parser, "no such communicator", text);
}

static bool
parse_copy(struct parser *parser, struct scenario_op *op)
{
	const char *text = parse_option(parser, 3, "direction");

	op->type = SCENARIO_COPY;
	if (text && strcmp(text, "to_host") == 0)
		op->direction = SCENARIO_TO_HOST;
	else if (text && strcmp(text, "from_host") == 0)
		op->direction = SCENARIO_FROM_HOST;
	else if (text && strcmp(text, "peer") == 0)
		op->direction = SCENARIO_PEER;
	else
		return parse_fail(parser, "a copy needs direction to_host, from_host or peer", NULL);
	return parse_check_options(parser, 3, COMMON_OPTIONS);
}

/* op NAME compute|collective|copy [key value]... */
bool
parse_op(struct parser *parser)
{
	struct scenario *scenario = parser->scenario;
	struct scenario_op op = {.type = SCENARIO_COMPUTE};
	const char *text;
	double us, jitter, contended, bytes;

	if (parser->count < 3)
		return parse_fail(parser, "op needs a name and a type", NULL);
	if (parse_find_op(scenario, parser->words[1]) >= 0)
		return parse_fail(parser, "op is there already", parser->words[1]);
	if (!parse_copy_name(parser, op.name, parser->words[1]) ||
		!parse_option_number(parser, 3, "us", 0, 1e9, 5, &us) ||
		!parse_option_number(parser, 3, "jitter", 0, 1e9, 0, &jitter) ||
		!parse_option_number(parser, 3, "contended", 0, 1e9, us, &contended) ||
		!parse_option_number(parser, 3, "bytes", 0, 1e12, 0, &bytes))
		return false;
	op.base_ns = (uint64_t)(us * 1000);
	op.jitter_ns = (uint64_t)(jitter * 1000);
	op.contended_ns = (uint64_t)(contended * 1000);
	op.bytes = (uint64_t)bytes;
	text = parse_option(parser, 3, "kernel");
	snprintf(op.kernel, sizeof(op.kernel), "%s", text ? text : COMPUTE_DEFAULT);
	if (strcmp(parser->words[2], "collective") == 0) {
		if (!parse_collective(parser, &op))
			return false;
	} else if (strcmp(parser->words[2], "copy") == 0) {
		if (!parse_copy(parser, &op))
			return false;
	} else if (strcmp(parser->words[2], "compute") != 0) {
		return parse_fail(parser, "unknown type of op", parser->words[2]);
	} else if (!parse_check_options(parser, 3, COMMON_OPTIONS)) {
		return false;
	}
	parse_add_op(scenario, &op);
	return true;
}
