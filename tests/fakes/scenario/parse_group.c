/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `group [kernels N]` ... `end`: calls between ncclGroupStart and ncclGroupEnd. NCCL makes kernels of them,
 * each of one communicator alone, one kernel with several collectives as a rule. They become ops of their own
 * here, so that the plan and the truth know nothing of groups.
 */
#include "parse.h"

#include <string.h>

bool
parse_group(struct parser *parser)
{
	double kernels;

	if (!parse_check_options(parser, 1, "kernels") ||
		!parse_option_number(parser, 1, "kernels", 1, SCENARIO_GROUP_MAX, 1, &kernels))
		return false;
	parser->in_group = true;
	parser->group_kernels = (uint32_t)kernels;
	parser->group_count = 0;
	return true;
}

static void
add_part(struct scenario_op *kernel, const struct scenario_op *part, uint32_t op, uint32_t place)
{
	if (kernel->part_count == 0) {
		*kernel = *part;
	} else {
		kernel->bytes += part->bytes;
		kernel->base_ns += part->base_ns;
		kernel->jitter_ns += part->jitter_ns;
		kernel->contended_ns += part->contended_ns;
		kernel->mixed |= part->impl != kernel->impl;
		if (kernel->dtype != part->dtype)
			kernel->dtype = NULL;
		if (kernel->algorithm != part->algorithm)
			kernel->algorithm = NULL;
		if (kernel->protocol != part->protocol)
			kernel->protocol = NULL;
	}
	kernel->parts[kernel->part_count] = op;
	kernel->places[kernel->part_count++] = place;
}

/* The kernels of one communicator: its calls in their order, shared out evenly. Returns how many. */
static uint32_t
add_kernels(struct parser *parser, uint32_t comm)
{
	struct scenario *scenario = parser->scenario;
	uint32_t own = 0, per_kernel, i, kernels = 0;
	struct scenario_op kernel = {.part_count = 0};

	for (i = 0; i < parser->group_count; i++)
		own += scenario->ops[parser->group_ops[i]].comm == comm;
	per_kernel = (own + parser->group_kernels - 1) / parser->group_kernels;
	for (i = 0; i < parser->group_count; i++) {
		const struct scenario_op *part = &scenario->ops[parser->group_ops[i]];

		if (part->comm != comm)
			continue;
		add_part(&kernel, part, parser->group_ops[i], i);
		own--;
		if (kernel.part_count < per_kernel && own > 0)
			continue;
		snprintf(kernel.name, sizeof(kernel.name), "group.%u.%u", parser->line, scenario->op_count);
		if (!parse_add_item(parser, (struct scenario_item){parse_add_op(scenario, &kernel), -1, 0}))
			return 0;
		kernel = (struct scenario_op){.part_count = 0};
		kernels++;
	}
	return kernels;
}

/* In the order in which the communicators come first. */
static bool
end_group(struct parser *parser)
{
	struct scenario *scenario = parser->scenario;
	uint32_t first = parser->sequence->count;
	bool done[SCENARIO_COMMS_MAX] = {false};
	uint32_t i, comm, comms = 0, kernels = 0, made;
	bool mixed = false;

	if (!parser->group_count)
		return parse_fail(parser, "a group without calls", NULL);
	for (i = 0; i < parser->group_count; i++) {
		comm = scenario->ops[parser->group_ops[i]].comm;
		mixed |= scenario->ops[parser->group_ops[i]].impl != scenario->ops[parser->group_ops[0]].impl;
		if (done[comm])
			continue;
		done[comm] = true;
		made = add_kernels(parser, comm);
		if (!made)
			return false;
		kernels += made;
		comms++;
	}
	for (i = 0; i < kernels; i++) {
		struct scenario_op *kernel = &scenario->ops[parser->sequence->items[first + i].op];

		kernel->group_kernels = kernels;
		kernel->group_comms = comms;
		kernel->group_mixed = mixed;
	}
	parser->sequence->items[first].group = kernels;
	parser->in_group = false;
	return true;
}

/* Inside a group: run OP [times N], end */
bool
parse_in_group(struct parser *parser)
{
	const struct scenario *scenario = parser->scenario;
	double times;
	int op;

	if (strcmp(parser->words[0], "end") == 0)
		return end_group(parser);
	if (strcmp(parser->words[0], "run") != 0 || parser->count < 2)
		return parse_fail(parser, "unknown statement in a group", parser->words[0]);
	op = parse_find_op(scenario, parser->words[1]);
	if (op < 0 || scenario->ops[op].type != SCENARIO_COLLECTIVE || !scenario->ops[op].impl->nccl)
		return parse_fail(parser, "no collective of NCCL's", parser->words[1]);
	if (!parse_check_options(parser, 2, "times") ||
		!parse_option_number(parser, 2, "times", 1, SCENARIO_GROUP_MAX, 1, &times))
		return false;
	for (; times >= 1; times -= 1) {
		if (parser->group_count == SCENARIO_GROUP_MAX)
			return parse_fail(parser, "too many calls in a group", NULL);
		parser->group_ops[parser->group_count++] = (uint32_t)op;
	}
	return true;
}
