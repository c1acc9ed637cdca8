/* SPDX-License-Identifier: Apache-2.0 */
#include "facts.h"

#include "collective.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

struct word {
	const char *text;
	uint8_t value;
};

static const struct word op_words[] = {
	{"AllReduce", CS_OP_ALL_REDUCE}, /* first: by far the most frequent */
	{"AllGather", CS_OP_ALL_GATHER},
	{"AllGatherV", CS_OP_ALL_GATHER},
	{"ReduceScatter", CS_OP_REDUCE_SCATTER},
	{"Broadcast", CS_OP_BROADCAST},
	{"Reduce", CS_OP_REDUCE},
	{"SendRecv", CS_OP_SEND_RECV},
	{"Send", CS_OP_SEND},
	{"Recv", CS_OP_RECV},
	{"AlltoAll", CS_OP_ALL_TO_ALL},
	{"Gather", CS_OP_GATHER},
	{"Scatter", CS_OP_SCATTER},
};

/* ncclUint8 has no text of its own: NCCL says "Unknown". */
static const struct word dtype_words[] = {
	{"ncclBfloat16", CS_DTYPE_BFLOAT16},
	{"ncclFloat16", CS_DTYPE_FLOAT16},
	{"ncclFloat32", CS_DTYPE_FLOAT32},
	{"ncclInt8", CS_DTYPE_INT8},
	{"ncclInt32", CS_DTYPE_INT32},
	{"ncclUint32", CS_DTYPE_UINT32},
	{"ncclInt64", CS_DTYPE_INT64},
	{"ncclUint64", CS_DTYPE_UINT64},
	{"ncclFloat64", CS_DTYPE_FLOAT64},
	{"ncclFloat8e4m3", CS_DTYPE_FLOAT8_E4M3},
	{"ncclFloat8e5m2", CS_DTYPE_FLOAT8_E5M2},
};

static const struct word algorithm_words[] = {
	{"RING", CS_ALGORITHM_RING},
	{"TREE", CS_ALGORITHM_TREE},
	{"NVLS", CS_ALGORITHM_NVLS},
	{"NVLS_TREE", CS_ALGORITHM_NVLS_TREE},
	{"COLLNET_DIRECT", CS_ALGORITHM_COLLNET_DIRECT},
	{"COLLNET_CHAIN", CS_ALGORITHM_COLLNET_CHAIN},
	{"PAT", CS_ALGORITHM_PAT},
};

static const struct word protocol_words[] = {
	{"LL", CS_PROTOCOL_LL},
	{"LL128", CS_PROTOCOL_LL128},
	{"SIMPLE", CS_PROTOCOL_SIMPLE},
};

static uint8_t
find_word(const struct word *words, size_t count, const char *text)
{
	if (text == NULL)
		return 0;
	/* Spelling has varied ("AlltoAll", "AllToAll"; "ncclBfloat16"): case does not count. */
	for (size_t i = 0; i < count; i++)
		if (strcasecmp(words[i].text, text) == 0)
			return words[i].value;
	return 0;
}

#define FIND(words, text)    find_word(words, sizeof(words) / sizeof(words[0]), text)
#define PICK(values, number) ((number) < sizeof(values) ? (values)[number] : (uint8_t)0)

uint8_t
cs_nccl_op(const char *func)
{
	return FIND(op_words, func);
}

uint8_t
cs_nccl_dtype(const char *datatype)
{
	return FIND(dtype_words, datatype);
}

uint8_t
cs_nccl_algorithm(const char *algorithm)
{
	return FIND(algorithm_words, algorithm);
}

uint8_t
cs_nccl_protocol(const char *protocol)
{
	return FIND(protocol_words, protocol);
}

uint8_t
cs_nccl_op_by_number(unsigned int func)
{
	static const uint8_t values[] = {CS_OP_BROADCAST, CS_OP_REDUCE, CS_OP_ALL_GATHER,
		CS_OP_REDUCE_SCATTER, CS_OP_ALL_REDUCE, CS_OP_SEND_RECV, CS_OP_SEND, CS_OP_RECV};

	return PICK(values, func);
}

uint8_t
cs_nccl_dtype_by_number(unsigned int datatype)
{
	static const uint8_t values[] = {CS_DTYPE_INT8, CS_DTYPE_UINT8, CS_DTYPE_INT32, CS_DTYPE_UINT32,
		CS_DTYPE_INT64, CS_DTYPE_UINT64, CS_DTYPE_FLOAT16, CS_DTYPE_FLOAT32, CS_DTYPE_FLOAT64,
		CS_DTYPE_BFLOAT16, CS_DTYPE_FLOAT8_E4M3, CS_DTYPE_FLOAT8_E5M2};

	return PICK(values, datatype);
}

uint8_t
cs_nccl_algorithm_by_number(unsigned int algorithm)
{
	static const uint8_t values[] = {CS_ALGORITHM_TREE, CS_ALGORITHM_RING, CS_ALGORITHM_COLLNET_DIRECT,
		CS_ALGORITHM_COLLNET_CHAIN, CS_ALGORITHM_NVLS, CS_ALGORITHM_NVLS_TREE, CS_ALGORITHM_PAT};

	return PICK(values, algorithm);
}

uint8_t
cs_nccl_protocol_by_number(unsigned int protocol)
{
	static const uint8_t values[] = {CS_PROTOCOL_LL, CS_PROTOCOL_LL128, CS_PROTOCOL_SIMPLE};

	return PICK(values, protocol);
}

uint8_t
cs_nccl_reduction_by_number(unsigned int op)
{
	static const uint8_t values[] = {
		CS_REDUCTION_SUM, CS_REDUCTION_PROD, CS_REDUCTION_MAX, CS_REDUCTION_MIN, CS_REDUCTION_AVG};

	return PICK(values, op);
}

static bool
counts_one_part(uint8_t op)
{
	return op == CS_OP_ALL_GATHER || op == CS_OP_REDUCE_SCATTER || op == CS_OP_ALL_TO_ALL ||
	       op == CS_OP_GATHER || op == CS_OP_SCATTER;
}

uint64_t
cs_nccl_message_bytes(uint8_t op, uint64_t part_bytes, int32_t world)
{
	uint64_t bytes;

	if (!counts_one_part(op))
		return part_bytes;
	if (world <= 0 || __builtin_mul_overflow(part_bytes, (uint64_t)world, &bytes))
		return CS_BYTES_UNKNOWN;
	return bytes;
}

void
cs_nccl_label_init(struct cs_label *label, struct cs_nccl_comm *comm, uint8_t op, uint8_t source)
{
	memset(label, 0, sizeof(*label));
	label->op = op;
	label->source = source;
	label->bytes = CS_BYTES_UNKNOWN;
	label->rank = comm != NULL ? comm->rank : CS_RANK_UNKNOWN;
	label->world = comm != NULL ? comm->world : CS_RANK_UNKNOWN;
	label->comm_id = comm != NULL ? cs_nccl_comm_id(comm) : 0;
}

void
cs_nccl_label_count(struct cs_label *label, uint8_t dtype, uint64_t count)
{
	uint64_t part_bytes;

	label->dtype = dtype;
	label->count = count;
	if (dtype == CS_DTYPE_UNKNOWN ||
		__builtin_mul_overflow(count, (uint64_t)cs_dtype_bytes(dtype), &part_bytes))
		return;
	label->bytes = cs_nccl_message_bytes(label->op, part_bytes, label->world);
}
