/* SPDX-License-Identifier: Apache-2.0 */
#include "collective.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char unknown[] = "unknown";

static const char *const op_names[] = {
	[CS_OP_UNKNOWN] = unknown,
	[CS_OP_ALL_REDUCE] = "all_reduce",
	[CS_OP_ALL_GATHER] = "all_gather",
	[CS_OP_REDUCE_SCATTER] = "reduce_scatter",
	[CS_OP_BROADCAST] = "broadcast",
	[CS_OP_REDUCE] = "reduce",
	[CS_OP_ALL_TO_ALL] = "all_to_all",
	[CS_OP_SEND_RECV] = "send_recv",
	[CS_OP_SEND] = "send",
	[CS_OP_RECV] = "recv",
	[CS_OP_GATHER] = "gather",
	[CS_OP_SCATTER] = "scatter",
	[CS_OP_BARRIER] = "barrier",
};
_Static_assert(COUNT_OF(op_names) == CS_OP_COUNT, "every operation has a name");

static const char *const impl_names[] = {
	[CS_IMPL_UNKNOWN] = unknown,
	[CS_IMPL_NCCL] = "nccl",
	[CS_IMPL_NCCL_SYMMETRIC] = "nccl_symmetric",
	[CS_IMPL_VLLM_CUSTOM] = "vllm_custom",
	[CS_IMPL_SGLANG_CUSTOM] = "sglang_custom",
	[CS_IMPL_FLASHINFER] = "flashinfer",
	[CS_IMPL_TRTLLM] = "trtllm",
	[CS_IMPL_TORCH_SYMM_MEM] = "torch_symm_mem",
	[CS_IMPL_NVSHMEM] = "nvshmem",
	[CS_IMPL_MSCCLPP] = "mscclpp",
	[CS_IMPL_DEEP_EP] = "deep_ep",
};
_Static_assert(COUNT_OF(impl_names) == CS_IMPL_COUNT, "every implementation has a name");

static const struct {
	const char *name;
	unsigned int bytes;
} dtypes[] = {
	[CS_DTYPE_UNKNOWN] = {unknown, 0},
	[CS_DTYPE_INT8] = {"int8", 1},
	[CS_DTYPE_UINT8] = {"uint8", 1},
	[CS_DTYPE_INT32] = {"int32", 4},
	[CS_DTYPE_UINT32] = {"uint32", 4},
	[CS_DTYPE_INT64] = {"int64", 8},
	[CS_DTYPE_UINT64] = {"uint64", 8},
	[CS_DTYPE_FLOAT16] = {"float16", 2},
	[CS_DTYPE_FLOAT32] = {"float32", 4},
	[CS_DTYPE_FLOAT64] = {"float64", 8},
	[CS_DTYPE_BFLOAT16] = {"bfloat16", 2},
	[CS_DTYPE_FLOAT8_E4M3] = {"float8_e4m3", 1},
	[CS_DTYPE_FLOAT8_E5M2] = {"float8_e5m2", 1},
};
_Static_assert(COUNT_OF(dtypes) == CS_DTYPE_COUNT, "every element type has a name and a size");

static const char *const reduction_names[] = {
	[CS_REDUCTION_UNKNOWN] = unknown,
	[CS_REDUCTION_SUM] = "sum",
	[CS_REDUCTION_PROD] = "prod",
	[CS_REDUCTION_MAX] = "max",
	[CS_REDUCTION_MIN] = "min",
	[CS_REDUCTION_AVG] = "avg",
	[CS_REDUCTION_PREMUL_SUM] = "premul_sum",
};
_Static_assert(COUNT_OF(reduction_names) == CS_REDUCTION_COUNT, "every reduction has a name");

static const char *const algorithm_names[] = {
	[CS_ALGORITHM_UNKNOWN] = unknown,
	[CS_ALGORITHM_TREE] = "tree",
	[CS_ALGORITHM_RING] = "ring",
	[CS_ALGORITHM_COLLNET_DIRECT] = "collnet_direct",
	[CS_ALGORITHM_COLLNET_CHAIN] = "collnet_chain",
	[CS_ALGORITHM_NVLS] = "nvls",
	[CS_ALGORITHM_NVLS_TREE] = "nvls_tree",
	[CS_ALGORITHM_PAT] = "pat",
	[CS_ALGORITHM_ONE_SHOT] = "one_shot",
	[CS_ALGORITHM_TWO_SHOT] = "two_shot",
	[CS_ALGORITHM_MULTIMEM] = "multimem",
};
_Static_assert(COUNT_OF(algorithm_names) == CS_ALGORITHM_COUNT, "every algorithm has a name");

static const char *const protocol_names[] = {
	[CS_PROTOCOL_UNKNOWN] = unknown,
	[CS_PROTOCOL_LL] = "ll",
	[CS_PROTOCOL_LL128] = "ll128",
	[CS_PROTOCOL_SIMPLE] = "simple",
};
_Static_assert(COUNT_OF(protocol_names) == CS_PROTOCOL_COUNT, "every protocol has a name");

static const char *const label_source_names[] = {
	[CS_LABEL_SOURCE_NONE] = unknown,
	[CS_LABEL_SOURCE_NCCL_PROFILER] = "nccl_profiler",
	[CS_LABEL_SOURCE_NVTX] = "nvtx",
	[CS_LABEL_SOURCE_LAUNCH_PARAMETERS] = "launch_parameters",
	[CS_LABEL_SOURCE_KERNEL_NAME] = "kernel_name",
};
_Static_assert(COUNT_OF(label_source_names) == CS_LABEL_SOURCE_COUNT, "every label source has a name");

static const char *const phase_names[] = {
	[CS_PHASE_UNKNOWN] = unknown,
	[CS_PHASE_VERIFY] = "verify",
	[CS_PHASE_DRAFT] = "draft",
	[CS_PHASE_DRAFT_EXTEND] = "draft_extend",
	[CS_PHASE_DECODE] = "decode",
	[CS_PHASE_PREFILL] = "prefill",
};
_Static_assert(COUNT_OF(phase_names) == CS_PHASE_COUNT, "every phase has a name");

static const char *const busy_class_names[] = {
	[CS_BUSY_COMPUTE] = "compute",
	[CS_BUSY_COPY] = "copy",
	[CS_BUSY_COLLECTIVE] = "collective",
};
_Static_assert(COUNT_OF(busy_class_names) == CS_BUSY_CLASS_COUNT, "every class has a name");

static const char *
pick(const char *const *names, size_t count, unsigned int value)
{
	return value < count ? names[value] : unknown;
}

static int
find(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; name != NULL && i < count; i++) {
		if (strcmp(names[i], name) == 0)
			return (int)i;
	}
	return -EINVAL;
}

const char *
cs_op_name(unsigned int op)
{
	return pick(op_names, COUNT_OF(op_names), op);
}

uint64_t
cs_op_bus_bytes(unsigned int op, int32_t world, uint64_t bytes)
{
	uint64_t ranks = world > 1 ? (uint64_t)world : 0;

	if (ranks == 0)
		return 0;
	switch (op) {
	case CS_OP_ALL_REDUCE:
		return 2 * bytes / ranks * (ranks - 1) + 2 * bytes % ranks * (ranks - 1) / ranks;
	case CS_OP_ALL_GATHER:
	case CS_OP_REDUCE_SCATTER:
	case CS_OP_ALL_TO_ALL:
	case CS_OP_GATHER:
	case CS_OP_SCATTER:
		return bytes / ranks * (ranks - 1) + bytes % ranks * (ranks - 1) / ranks;
	case CS_OP_BROADCAST:
	case CS_OP_REDUCE:
	case CS_OP_SEND_RECV:
	case CS_OP_SEND:
	case CS_OP_RECV:
		return bytes;
	default:
		return 0;
	}
}

const char *
cs_impl_name(unsigned int impl)
{
	return pick(impl_names, COUNT_OF(impl_names), impl);
}

const char *
cs_dtype_name(unsigned int dtype)
{
	return dtype < COUNT_OF(dtypes) ? dtypes[dtype].name : unknown;
}

const char *
cs_reduction_name(unsigned int reduction)
{
	return pick(reduction_names, COUNT_OF(reduction_names), reduction);
}

const char *
cs_algorithm_name(unsigned int algorithm)
{
	return pick(algorithm_names, COUNT_OF(algorithm_names), algorithm);
}

const char *
cs_protocol_name(unsigned int protocol)
{
	return pick(protocol_names, COUNT_OF(protocol_names), protocol);
}

const char *
cs_label_source_name(unsigned int source)
{
	return pick(label_source_names, COUNT_OF(label_source_names), source);
}

const char *
cs_phase_name(unsigned int phase)
{
	return pick(phase_names, COUNT_OF(phase_names), phase);
}

const char *
cs_busy_class_name(unsigned int busy_class)
{
	return pick(busy_class_names, COUNT_OF(busy_class_names), busy_class);
}

int
cs_op_parse(const char *name)
{
	return find(op_names, COUNT_OF(op_names), name);
}

int
cs_impl_parse(const char *name)
{
	return find(impl_names, COUNT_OF(impl_names), name);
}

int
cs_dtype_parse(const char *name)
{
	for (size_t i = 0; name != NULL && i < COUNT_OF(dtypes); i++) {
		if (strcmp(dtypes[i].name, name) == 0)
			return (int)i;
	}
	return -EINVAL;
}

int
cs_phase_parse(const char *name)
{
	return find(phase_names, COUNT_OF(phase_names), name);
}

unsigned int
cs_dtype_bytes(unsigned int dtype)
{
	return dtype < COUNT_OF(dtypes) ? dtypes[dtype].bytes : 0;
}
