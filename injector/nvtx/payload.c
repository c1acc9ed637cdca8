/* SPDX-License-Identifier: Apache-2.0 */
#include "payload.h"

#include "collective.h"
#include "nccl/comm.h"
#include "nccl/facts.h"

#include <stdatomic.h>
#include <string.h>

/* NCCL numbers its schemas from NVTX's first static id (src/include/nvtx.h); the numbers have not changed
 * since 2.16. */
#define CS_NCCL_SCHEMAS 32U
#define CS_OFFSET_NONE  UINT8_MAX

enum field { FIELD_COMMUNICATOR, FIELD_BYTES, FIELD_REDUCTION, FIELD_RANKS, FIELD_RANK, FIELD_COUNT };

/* Offsets of 4- or 8-byte fields, one byte each, so that a layout is one atomic word: bits 0-7 field 0 and so
 * on, bit 63 = known. */
#define CS_LAYOUT_KNOWN (1ULL << 63)
static _Atomic uint64_t layouts[CS_NCCL_SCHEMAS];

static const uint8_t schema_ops[CS_NCCL_SCHEMAS] = {
	[4] = CS_OP_ALL_GATHER,
	[5] = CS_OP_ALL_REDUCE,
	[6] = CS_OP_BROADCAST,
	[7] = CS_OP_REDUCE_SCATTER,
	[8] = CS_OP_REDUCE,
	[9] = CS_OP_SEND,
	[10] = CS_OP_RECV,
	[16] = CS_OP_ALL_TO_ALL,
	[17] = CS_OP_GATHER,
	[18] = CS_OP_SCATTER,
};

static bool
schema_makes_communicator(uint64_t number)
{
	/* CommInitRank, its Config and Scalable forms, CommSplit, CommShrink, CommGrow. */
	return number == 0 || number == 11 || number == 12 || number == 13 || number == 15 || number == 20;
}

static uint64_t
layout_set(uint64_t layout, enum field field, uint64_t offset)
{
	unsigned int shift = 8U * (unsigned int)field;

	return (layout & ~(0xffULL << shift)) | (offset << shift);
}

static uint64_t
layout_empty(void)
{
	uint64_t layout = CS_LAYOUT_KNOWN;

	for (unsigned int field = 0; field < FIELD_COUNT; field++)
		layout = layout_set(layout, (enum field)field, CS_OFFSET_NONE);
	return layout;
}

static enum field
field_of_name(const char *name)
{
	static const char *const names[FIELD_COUNT] = {
		[FIELD_COMMUNICATOR] = "NCCL communicator ID",
		[FIELD_BYTES] = "Message size [bytes]",
		[FIELD_REDUCTION] = "Reduction operation",
		[FIELD_RANKS] = "No. of ranks",
		[FIELD_RANK] = "Rank",
	};

	for (unsigned int field = 0; name != NULL && field < FIELD_COUNT; field++)
		if (strcmp(names[field], name) == 0)
			return (enum field)field;
	return FIELD_COUNT;
}

void
cs_nvtx_schema_register(const nvtxPayloadSchemaAttr_t *schema)
{
	const uint64_t needed = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
				NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
				NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID;
	uint64_t layout = layout_empty();
	uint64_t number;

	if (schema == NULL || (schema->fieldMask & needed) != needed || schema->entries == NULL ||
		schema->schemaId < NVTX_PAYLOAD_SCHEMA_ID_STATIC_START)
		return;
	number = schema->schemaId - NVTX_PAYLOAD_SCHEMA_ID_STATIC_START;
	if (number >= CS_NCCL_SCHEMAS)
		return;
	for (size_t i = 0; i < schema->numEntries; i++) {
		const nvtxPayloadSchemaEntry_t *entry = &schema->entries[i];
		enum field field = field_of_name(entry->name);

		/* Offset 0 behind the first entry means "by alignment rules": NCCL always tells, others are
		 * not decoded. */
		if (field == FIELD_COUNT || entry->offset >= CS_OFFSET_NONE || (i > 0 && entry->offset == 0))
			continue;
		layout = layout_set(layout, field, entry->offset);
	}
	atomic_store_explicit(&layouts[number], layout, memory_order_relaxed);
}

/* Without a registration: {hash, bytes, word} is 24 bytes, {bytes, word} 16; all-gather has no third field.
 */
static uint64_t
layout_by_size(uint8_t op, uint64_t size)
{
	bool has_word = op != CS_OP_ALL_GATHER && op != CS_OP_ALL_TO_ALL;
	uint64_t old_size = has_word ? 16 : 8;
	uint64_t layout = layout_empty();
	uint64_t start;

	if (size == old_size)
		start = 0;
	else if (size == old_size + 8)
		start = 8;
	else
		return 0;
	if (start == 8)
		layout = layout_set(layout, FIELD_COMMUNICATOR, 0);
	layout = layout_set(layout, FIELD_BYTES, start);
	if (op == CS_OP_ALL_REDUCE || op == CS_OP_REDUCE_SCATTER)
		layout = layout_set(layout, FIELD_REDUCTION, start + 8);
	return layout;
}

static bool
read_field(const nvtxPayloadData_t *payload, uint64_t layout, enum field field, void *value, size_t bytes)
{
	uint64_t offset = layout >> (8U * (unsigned int)field) & 0xff;

	if (offset == CS_OFFSET_NONE || offset + bytes > payload->size)
		return false;
	memcpy(value, (const char *)payload->payload + offset, bytes);
	return true;
}

static enum cs_nvtx_payload_kind
decode_collective(const nvtxPayloadData_t *payload, uint64_t layout, uint8_t op, struct cs_label *label)
{
	struct cs_nccl_comm *comm = NULL;
	uint64_t hash, bytes;
	int32_t reduction;

	if (read_field(payload, layout, FIELD_COMMUNICATOR, &hash, sizeof(hash)))
		comm = cs_nccl_comm_find(hash);
	cs_nccl_label_init(label, comm, op, CS_LABEL_SOURCE_NVTX);
	if (read_field(payload, layout, FIELD_BYTES, &bytes, sizeof(bytes)))
		label->bytes = cs_nccl_message_bytes(op, bytes, label->world);
	if (read_field(payload, layout, FIELD_REDUCTION, &reduction, sizeof(reduction)))
		label->reduction = cs_nccl_reduction_by_number((unsigned int)reduction);
	return CS_NVTX_PAYLOAD_COLLECTIVE;
}

static enum cs_nvtx_payload_kind
decode_communicator(const nvtxPayloadData_t *payload, uint64_t layout)
{
	uint64_t hash;
	int32_t rank, ranks;

	if (!read_field(payload, layout, FIELD_COMMUNICATOR, &hash, sizeof(hash)) || hash == 0 ||
		!read_field(payload, layout, FIELD_RANKS, &ranks, sizeof(ranks)) ||
		!read_field(payload, layout, FIELD_RANK, &rank, sizeof(rank)))
		return CS_NVTX_PAYLOAD_OTHER;
	if (ranks <= 0 || rank < 0 || rank >= ranks)
		return CS_NVTX_PAYLOAD_OTHER;
	cs_nccl_comm_open(hash, rank, ranks, CS_RANK_UNKNOWN, NULL);
	return CS_NVTX_PAYLOAD_COMMUNICATOR;
}

enum cs_nvtx_payload_kind
cs_nvtx_payload_decode(const nvtxPayloadData_t *payload, struct cs_label *label)
{
	uint64_t number = payload->schemaId - NVTX_PAYLOAD_SCHEMA_ID_STATIC_START;
	uint64_t layout;

	/* SIZE_MAX: "the tool should find out", which NCCL never says. */
	if (payload->payload == NULL || payload->schemaId < NVTX_PAYLOAD_SCHEMA_ID_STATIC_START ||
		number >= CS_NCCL_SCHEMAS || payload->size == SIZE_MAX)
		return CS_NVTX_PAYLOAD_OTHER;
	layout = atomic_load_explicit(&layouts[number], memory_order_relaxed);
	if (schema_ops[number] != CS_OP_UNKNOWN) {
		if (layout == 0)
			layout = layout_by_size(schema_ops[number], payload->size);
		if (layout == 0)
			return CS_NVTX_PAYLOAD_OTHER;
		return decode_collective(payload, layout, schema_ops[number], label);
	}
	if (layout != 0 && schema_makes_communicator(number))
		return decode_communicator(payload, layout);
	return CS_NVTX_PAYLOAD_OTHER;
}
