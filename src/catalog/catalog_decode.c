/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launch parameters -> label. Host-safe: no allocation, no system call. Reads only inside a parameter whose
 * size is known, or, before CUDA 12.4, where the row's name fixes the kernel's signature. Every doubt ends in
 * "unknown": a wrong size would be believed.
 */
#include "catalog_rule.h"

#include <errno.h>
#include <string.h>

/* No message of an inference engine is near this; a number above it is no size. */
#define BYTES_MAX (1ULL << 30)
/* Largest tensor-parallel or expert-parallel group that is believed. */
#define WORLD_MAX 4096U

static const struct {
	uint8_t bytes;
	bool is_signed;
} factor_types[CS_FACTOR_TYPE_COUNT] = {
	[CS_FACTOR_U8] = {1, false},
	[CS_FACTOR_I8] = {1, true},
	[CS_FACTOR_U16] = {2, false},
	[CS_FACTOR_I16] = {2, true},
	[CS_FACTOR_U32] = {4, false},
	[CS_FACTOR_I32] = {4, true},
	[CS_FACTOR_U64] = {8, false},
	[CS_FACTOR_I64] = {8, true},
};

struct decoder {
	const struct cs_catalog_match *match;
	const struct cs_launch *launch;
	int64_t world; /* 0 unknown */
};

/* Start of a parameter, or NULL when it cannot be read for `need` bytes. */
static const unsigned char *
parameter(const struct cs_launch *launch, unsigned int index, size_t need)
{
	if (launch->param_count > 0 && (index >= launch->param_count || launch->param_bytes[index] < need))
		return NULL;
	if (launch->kernel_params != NULL)
		return launch->kernel_params[index];
	if (launch->extra_buffer == NULL)
		return NULL;
	if (launch->param_count == 0) {
		/* without offsets only the first parameter's place is known */
		return index == 0 && need <= launch->extra_bytes ? launch->extra_buffer : NULL;
	}
	if (launch->param_offsets[index] > launch->extra_bytes ||
		need > launch->extra_bytes - launch->param_offsets[index])
		return NULL;
	return (const unsigned char *)launch->extra_buffer + launch->param_offsets[index];
}

/* Little-endian, as every machine with an NVIDIA driver is. Negative numbers are no sizes: false. */
static bool
read_parameter(const struct cs_factor *factor, const struct cs_launch *launch, uint64_t *value)
{
	size_t bytes = factor_types[factor->type].bytes;
	const unsigned char *start = parameter(launch, factor->parameter, factor->offset_bytes + bytes);

	*value = 0;
	if (start == NULL)
		return false;
	memcpy(value, start + factor->offset_bytes, bytes);
	return !factor_types[factor->type].is_signed || (*value >> (8 * bytes - 1)) == 0;
}

static bool
evaluate_factor(const struct cs_factor *factor, const struct decoder *decoder, uint64_t *value)
{
	const struct cs_catalog_match *match = decoder->match;

	switch (factor->kind) {
	case CS_FACTOR_CONSTANT:
		*value = factor->constant;
		return true;
	case CS_FACTOR_PARAMETER:
		return read_parameter(factor, decoder->launch, value);
	case CS_FACTOR_GRID:
		*value = decoder->launch->grid[factor->parameter];
		return true;
	case CS_FACTOR_ELEMENT:
		*value = match->element_bytes;
		return match->element_bytes > 0;
	case CS_FACTOR_WORLD:
		*value = (uint64_t)decoder->world;
		return decoder->world > 0;
	default:
		if ((match->arguments_known & (1U << factor->parameter)) == 0 ||
			match->arguments[factor->parameter] < 0)
			return false;
		*value = (uint64_t)match->arguments[factor->parameter];
		return true;
	}
}

static bool
evaluate(const struct cs_expression *expression, const struct decoder *decoder, uint64_t *sum)
{
	*sum = 0;
	for (unsigned int term = 0; term < expression->term_count; term++) {
		uint64_t product = 1;
		uint64_t value;

		for (unsigned int i = 0; i < expression->factor_count[term]; i++) {
			if (!evaluate_factor(&expression->factors[term][i], decoder, &value) ||
				__builtin_mul_overflow(product, value, &product))
				return false;
		}
		if (__builtin_add_overflow(*sum, product, sum))
			return false;
	}
	return true;
}

static bool
argument_matches(const struct cs_shape *shape, const struct cs_catalog_match *match)
{
	if ((match->arguments_known & (1U << shape->parameter)) == 0)
		return false;
	for (unsigned int i = 0; i < shape->size_count; i++) {
		if (match->arguments[shape->parameter] == shape->sizes[i])
			return true;
	}
	return false;
}

static bool
arguments_match(const struct cs_layout *layout, const struct cs_catalog_match *match)
{
	for (unsigned int i = 0; i < layout->shape_count; i++) {
		if (layout->shapes[i].is_argument && !argument_matches(&layout->shapes[i], match))
			return false;
	}
	return true;
}

/* A size that grows with the world is compared only when the name tells the world. */
static bool
shape_matches(
	const struct cs_shape *shape, const struct cs_launch *launch, const struct cs_catalog_match *match)
{
	uint32_t bytes;

	if (shape->is_argument)
		return argument_matches(shape, match);
	if (shape->parameter >= launch->param_count)
		return false;
	bytes = launch->param_bytes[shape->parameter];
	if (shape->at_least)
		return bytes >= shape->sizes[0];
	for (unsigned int i = 0; i < shape->size_count; i++) {
		uint32_t per_rank = shape->bytes_per_rank[i];

		if (per_rank > 0 && match->world == CS_RANK_UNKNOWN)
			continue;
		if (bytes == shape->sizes[i] + per_rank * (per_rank > 0 ? (uint32_t)match->world : 0))
			return true;
	}
	return false;
}

static bool
layout_matches(
	const struct cs_layout *layout, const struct cs_launch *launch, const struct cs_catalog_match *match)
{
	if (layout->parameter_count > 0 && layout->parameter_count != launch->param_count)
		return false;
	for (unsigned int i = 0; i < layout->shape_count; i++) {
		if (!shape_matches(&layout->shapes[i], launch, match))
			return false;
	}
	return true;
}

/* The layout to read by. 0; -ENODATA: it takes parameter sizes to tell, and the driver does not give them;
 * -EINVAL: the sizes are none that the row knows. */
static int
choose_layout(
	const struct cs_catalog_match *match, const struct cs_launch *launch, const struct cs_layout **layout)
{
	const struct cs_catalog_rule *rule = match->rule;

	*layout = rule->layouts;
	if (launch->param_count == 0)
		return rule->layout_count > 1 || rule->layouts->shape_required ||
				       !arguments_match(*layout, match)
			       ? -ENODATA
			       : 0;
	for (unsigned int i = 0; i < rule->layout_count; i++) {
		*layout = &rule->layouts[i];
		if (layout_matches(*layout, launch, match))
			return 0;
	}
	return -EINVAL;
}

static bool
relation_holds(const struct cs_check *check, const struct decoder *decoder)
{
	uint64_t left;
	uint64_t right;

	if (!evaluate_factor(&check->left, decoder, &left) ||
		!evaluate_factor(&check->right, decoder, &right))
		return false;
	switch (check->relation) {
	case CS_RELATION_EQUAL:
		return left == right;
	case CS_RELATION_AT_MOST:
		return left <= right;
	default:
		return right > 0 && left % right == 0;
	}
}

/* World first, since rank and size may lean on it. */
static int
decode_group(const struct cs_layout *layout, struct decoder *decoder, struct cs_label *label)
{
	const struct cs_catalog_match *match = decoder->match;
	uint64_t value;

	if (match->world != CS_RANK_UNKNOWN)
		decoder->world = match->world;
	if (layout->has_world) {
		if (!evaluate_factor(&layout->world, decoder, &value) || value == 0 || value > WORLD_MAX)
			return -EINVAL;
		if (decoder->world != 0 && (uint64_t)decoder->world != value)
			return -EINVAL;
		decoder->world = (int64_t)value;
	}
	if (layout->has_rank) {
		if (!evaluate_factor(&layout->rank, decoder, &value) ||
			value >= (decoder->world != 0 ? (uint64_t)decoder->world : WORLD_MAX))
			return -EINVAL;
		label->rank = (int32_t)value;
	}
	if (decoder->world != 0)
		label->world = (int32_t)decoder->world;
	return 0;
}

static int
decode_layout(const struct cs_layout *layout, struct decoder *decoder, struct cs_label *label)
{
	uint64_t bytes;
	uint64_t align;
	int rc = decode_group(layout, decoder, label);

	if (rc != 0)
		return rc;
	for (unsigned int i = 0; i < layout->check_count; i++) {
		if (!relation_holds(&layout->checks[i], decoder))
			return -EINVAL;
	}
	if (layout->size.term_count == 0)
		return -ENODATA;
	if (!evaluate(&layout->size, decoder, &bytes) || !evaluate_factor(&layout->align, decoder, &align))
		return -EINVAL;
	if (bytes == 0 || bytes > BYTES_MAX || align == 0 || bytes % align != 0)
		return -EINVAL;
	label->bytes = bytes;
	return 0;
}

/* What NCCL reduces is as long on every rank; what it gathers or scatters is measured as nccl-tests does, by
 * the whole, but the block has one rank's part and not the number of ranks. */
static int
decode_nccl(const struct decoder *decoder, struct cs_label *label)
{
	struct cs_nccl_works works;
	uint64_t bytes;
	int rc = cs_catalog_nccl_decode(decoder->launch, &works);

	if (works.mixed) {
		/* The name is that of one of several. */
		label->op = CS_OP_UNKNOWN;
		label->dtype = CS_DTYPE_UNKNOWN;
		label->algorithm = CS_ALGORITHM_UNKNOWN;
	}
	if (label->op != CS_OP_ALL_REDUCE && label->op != CS_OP_REDUCE && label->op != CS_OP_BROADCAST)
		return -ENODATA;
	if (rc != 0)
		return rc;
	if (decoder->match->element_bytes == 0 ||
		__builtin_mul_overflow(works.elements, (uint64_t)decoder->match->element_bytes, &bytes) ||
		bytes == 0 || bytes > BYTES_MAX)
		return -EINVAL;
	label->bytes = bytes;
	label->channels = (uint16_t)works.channels;
	label->works = (uint16_t)works.works;
	return 0;
}

static void
label_from_name(const struct cs_catalog_match *match, struct cs_label *label)
{
	label->op = match->op;
	label->impl = match->impl;
	label->dtype = match->dtype;
	label->reduction = match->reduction;
	label->algorithm = match->algorithm;
	label->protocol = match->protocol;
	label->source = CS_LABEL_SOURCE_KERNEL_NAME;
	label->flags = match->label_flags;
	label->rule_id = match->rule_id;
	label->rank = CS_RANK_UNKNOWN;
	label->world = match->world;
	label->channels = 0;
	label->works = 0;
	label->bytes = CS_BYTES_UNKNOWN;
	label->count = 0;
}

int
cs_catalog_decode(
	const struct cs_catalog_match *match, const struct cs_launch *launch, struct cs_label *label)
{
	struct decoder decoder = {.match = match, .launch = launch};
	const struct cs_layout *layout;
	int rc;

	label_from_name(match, label);
	if (match->rule == NULL || match->rule->layout_count == 0)
		return -ENODATA;
	if (match->rule->nccl_arguments) {
		rc = decode_nccl(&decoder, label);
	} else {
		rc = choose_layout(match, launch, &layout);
		if (rc == 0)
			rc = decode_layout(layout, &decoder, label);
	}
	if (rc == 0) {
		label->source = CS_LABEL_SOURCE_LAUNCH_PARAMETERS;
		if (match->element_bytes > 0 && label->bytes % match->element_bytes == 0)
			label->count = label->bytes / match->element_bytes;
	} else if (rc == -EINVAL) {
		/* one wrong value makes the others doubtful */
		label->rank = CS_RANK_UNKNOWN;
		label->world = match->world;
	}
	return rc;
}
