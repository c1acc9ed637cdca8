/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is filed of a collective kernel: its label, from the launch's parameters and what NCCL announced,
 * packed into a word; and facts that come after that.
 */
#include "labels_private.h"

#include "announce.h"

#include <errno.h>

/* Words of a launch's `extra` array that are looked at: two pairs and the end. */
#define EXTRA_WORDS_MAX 8U

static unsigned int
unknown_size(int decoded)
{
	if (decoded == -ENOBUFS)
		return CS_UNLABELLED_ANNOUNCE_FULL;
	return decoded == -EINVAL ? CS_UNLABELLED_CHECK_FAILED : CS_UNLABELLED_NO_RULE;
}

/* The same, from a reason. */
static int
decoded_before(uint64_t filed)
{
	switch (cs_filed_reason(filed)) {
	case 1 + CS_UNLABELLED_CHECK_FAILED:
		return -EINVAL;
	case 1 + CS_UNLABELLED_ANNOUNCE_FULL:
		return -ENOBUFS;
	default:
		return -ENODATA;
	}
}

uint64_t
cs_labels_pack(uint32_t number, const struct cs_label *label, int decoded, uint32_t sequence)
{
	uint64_t filed = CS_FILED | number | (uint64_t)sequence << 32;
	unsigned int reason = 0;

	if (label->flags & CS_LABEL_FUSED)
		filed |= CS_FILED_FUSED;
	if (label->flags & CS_LABEL_PART)
		filed |= CS_FILED_PART;
	else if (number == 0)
		reason = 1 + CS_UNLABELLED_LEDGER_FULL;
	else if (label->bytes == CS_BYTES_UNKNOWN)
		reason = 1 + unknown_size(decoded);
	return filed | (uint64_t)reason << 19;
}

static void
read_extra(void **extra, struct cs_launch *launch)
{
	const void *buffer = NULL;
	const size_t *bytes = NULL;

	for (unsigned int i = 0; i + 1 < EXTRA_WORDS_MAX && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
		if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[i + 1];
		else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			bytes = extra[i + 1];
		else
			return;
	}
	if (buffer && bytes) {
		launch->extra_buffer = buffer;
		launch->extra_bytes = *bytes;
	}
}

uint64_t
cs_labels_read(
	struct cs_labels *labels, const struct cs_function *function, const struct cs_kernel_request *request)
{
	struct cs_label label = {
		.rank = CS_RANK_UNKNOWN, .world = CS_RANK_UNKNOWN, .bytes = CS_BYTES_UNKNOWN};
	struct cs_launch launch = {
		.kernel_params = request->kernel_params,
		.param_count = function->param_count,
		.param_offsets = function->param_offsets,
		.param_bytes = function->param_bytes,
		.grid = {request->grid[0], request->grid[1], request->grid[2]},
		.block = {request->block[0], request->block[1], request->block[2]},
	};
	uint32_t sequence = 0;
	int decoded;

	if (!request->kernel_params && request->extra)
		read_extra(request->extra, &launch);
	if (cs_function_is_nccl(function))
		launch.nccl_version = cs_announce_nccl_version_number();
	decoded = cs_catalog_decode(&function->match, &launch, &label);
	label.name_id = function->name_hash;
	if (cs_function_is_nccl(function)) {
		cs_announce_take(&label, &sequence);
		if (cs_announce_lost())
			decoded = -ENOBUFS;
	}
	return cs_labels_pack(cs_label_table_put(&labels->table, &label), &label, decoded, sequence);
}

static bool
find_by_key(struct cs_labels *labels, uint64_t key, uint64_t *filed)
{
	if (key & CS_KEY_TOLD)
		return cs_told_find(&labels->told, key & ~CS_KEY_TOLD, filed);
	if (key & CS_KEY_EAGER)
		return cs_eager_find(&labels->eager, (uint32_t)key, filed);
	return cs_ledger_find(labels->ledger, key, filed);
}

/* The record of its call may have been handed over before the facts came. */
static void
amend_told(struct cs_labels *labels, uint64_t number, uint64_t before, uint64_t filed)
{
	uint32_t call;

	cs_told_replace(&labels->told, number, before, filed);
	call = cs_told_call(&labels->told, number);
	if (call != 0)
		cs_eager_replace(&labels->eager, call, filed);
}

void
cs_labels_amend(uint64_t key, const struct cs_label *facts, uint32_t sequence)
{
	struct cs_labels *labels = cs_labels_borrow();
	const struct cs_label_entry *known;
	struct cs_label label;
	uint64_t filed = 0, better;
	bool found;

	if (!labels || key == 0)
		return;
	found = find_by_key(labels, key, &filed);
	known = found ? cs_label_table_entry(&labels->table, cs_filed_label(filed)) : NULL;
	if (!known)
		return;
	label = known->label;
	better = filed;
	if (cs_announce_complete(&label, facts)) {
		uint32_t number = cs_label_table_put(&labels->table, &label);

		if (number == 0)
			return;
		better = cs_labels_pack(number, &label, decoded_before(filed), 0) |
			 (filed & (CS_FILED_ORDINAL | CS_FILED_TOLD | CS_FILED_SEQUENCE));
	}
	if (sequence != 0 && (filed & CS_FILED_SEQUENCE) == 0)
		better |= (uint64_t)sequence << 32;
	if (better == filed)
		return;
	if (key & CS_KEY_TOLD)
		amend_told(labels, key & ~CS_KEY_TOLD, filed, better);
	else if (key & CS_KEY_EAGER)
		cs_eager_replace(&labels->eager, (uint32_t)key, better);
	else
		cs_ledger_replace(labels->ledger, key, better);
}
