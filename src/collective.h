/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a collective is: operation, implementation, element type, phase, and their names.
 *
 * The numeric values are part of the segment and capture formats: append only, never reorder.
 * The names are part of the metrics contract (docs/metrics.md): lower case, underscores.
 *
 * Thread context: all functions are pure, any thread, async-signal-safe.
 */
#ifndef CS_COLLECTIVE_H
#define CS_COLLECTIVE_H

#include <stdint.h>

/* Size of a message nobody could tell. A collective of zero bytes is something else (a barrier). */
#define CS_BYTES_UNKNOWN UINT64_MAX
/* Rank, world size, NVML index nobody could tell. */
#define CS_RANK_UNKNOWN (-1)

enum cs_op {
	CS_OP_UNKNOWN = 0,
	CS_OP_ALL_REDUCE = 1,
	CS_OP_ALL_GATHER = 2,
	CS_OP_REDUCE_SCATTER = 3,
	CS_OP_BROADCAST = 4,
	CS_OP_REDUCE = 5,
	CS_OP_ALL_TO_ALL = 6,
	CS_OP_SEND_RECV = 7,
	CS_OP_SEND = 8,
	CS_OP_RECV = 9,
	CS_OP_GATHER = 10,
	CS_OP_SCATTER = 11,
	CS_OP_BARRIER = 12,
	CS_OP_COUNT
};

enum cs_impl {
	CS_IMPL_UNKNOWN = 0,
	CS_IMPL_NCCL = 1,
	CS_IMPL_NCCL_SYMMETRIC = 2,
	CS_IMPL_VLLM_CUSTOM = 3,
	CS_IMPL_SGLANG_CUSTOM = 4,
	CS_IMPL_FLASHINFER = 5,
	CS_IMPL_TRTLLM = 6,
	CS_IMPL_TORCH_SYMM_MEM = 7,
	CS_IMPL_NVSHMEM = 8,
	CS_IMPL_MSCCLPP = 9,
	CS_IMPL_DEEP_EP = 10,
	CS_IMPL_COUNT
};

enum cs_dtype {
	CS_DTYPE_UNKNOWN = 0,
	CS_DTYPE_INT8 = 1,
	CS_DTYPE_UINT8 = 2,
	CS_DTYPE_INT32 = 3,
	CS_DTYPE_UINT32 = 4,
	CS_DTYPE_INT64 = 5,
	CS_DTYPE_UINT64 = 6,
	CS_DTYPE_FLOAT16 = 7,
	CS_DTYPE_FLOAT32 = 8,
	CS_DTYPE_FLOAT64 = 9,
	CS_DTYPE_BFLOAT16 = 10,
	CS_DTYPE_FLOAT8_E4M3 = 11,
	CS_DTYPE_FLOAT8_E5M2 = 12,
	CS_DTYPE_COUNT
};

enum cs_reduction {
	CS_REDUCTION_UNKNOWN = 0,
	CS_REDUCTION_SUM = 1,
	CS_REDUCTION_PROD = 2,
	CS_REDUCTION_MAX = 3,
	CS_REDUCTION_MIN = 4,
	CS_REDUCTION_AVG = 5,
	CS_REDUCTION_PREMUL_SUM = 6,
	CS_REDUCTION_COUNT
};

/* NCCL's names; other implementations use ONE_SHOT, TWO_SHOT, MULTIMEM. */
enum cs_algorithm {
	CS_ALGORITHM_UNKNOWN = 0,
	CS_ALGORITHM_TREE = 1,
	CS_ALGORITHM_RING = 2,
	CS_ALGORITHM_COLLNET_DIRECT = 3,
	CS_ALGORITHM_COLLNET_CHAIN = 4,
	CS_ALGORITHM_NVLS = 5,
	CS_ALGORITHM_NVLS_TREE = 6,
	CS_ALGORITHM_PAT = 7,
	CS_ALGORITHM_ONE_SHOT = 8,
	CS_ALGORITHM_TWO_SHOT = 9,
	CS_ALGORITHM_MULTIMEM = 10,
	CS_ALGORITHM_COUNT
};

enum cs_protocol {
	CS_PROTOCOL_UNKNOWN = 0,
	CS_PROTOCOL_LL = 1,
	CS_PROTOCOL_LL128 = 2,
	CS_PROTOCOL_SIMPLE = 3,
	CS_PROTOCOL_COUNT
};

/* Where the size and identity of a label come from, in falling order of trust (docs/architecture.md). */
enum cs_label_source {
	CS_LABEL_SOURCE_NONE = 0,
	CS_LABEL_SOURCE_NCCL_PROFILER = 1,
	CS_LABEL_SOURCE_NVTX = 2,
	CS_LABEL_SOURCE_LAUNCH_PARAMETERS = 3,
	CS_LABEL_SOURCE_KERNEL_NAME = 4,
	CS_LABEL_SOURCE_COUNT
};

enum cs_phase {
	CS_PHASE_UNKNOWN = 0,
	CS_PHASE_VERIFY = 1,
	CS_PHASE_DRAFT = 2,
	CS_PHASE_DRAFT_EXTEND = 3,
	CS_PHASE_DECODE = 4,
	CS_PHASE_PREFILL = 5,
	CS_PHASE_COUNT
};

/* What the other streams of a GPU may be busy with. */
enum cs_busy_class { CS_BUSY_COMPUTE = 0, CS_BUSY_COPY = 1, CS_BUSY_COLLECTIVE = 2, CS_BUSY_CLASS_COUNT };

/* Name of a value; "unknown" for 0 and for any value outside the enum. Static string, never NULL. */
const char *cs_op_name(unsigned int op);
const char *cs_impl_name(unsigned int impl);
const char *cs_dtype_name(unsigned int dtype);
const char *cs_reduction_name(unsigned int reduction);
const char *cs_algorithm_name(unsigned int algorithm);
const char *cs_protocol_name(unsigned int protocol);
const char *cs_label_source_name(unsigned int source);
const char *cs_phase_name(unsigned int phase);
const char *cs_busy_class_name(unsigned int busy_class);

/* Value of a name; -EINVAL when there is no such name ("unknown" gives 0). */
int cs_op_parse(const char *name);

/* What nccl-tests calls bus bandwidth, as bytes: those of the message times the operation's factor for so
 * many ranks, which makes the rate comparable with that of a link (all_reduce 2 (n - 1) / n; all_gather,
 * reduce_scatter, all_to_all, gather, scatter (n - 1) / n; the others 1). Source: nccl-tests,
 * doc/PERFORMANCE.md. 0 for a barrier, and where world is not known. */
uint64_t cs_op_bus_bytes(unsigned int op, int32_t world, uint64_t bytes);
int cs_impl_parse(const char *name);
int cs_dtype_parse(const char *name);
int cs_phase_parse(const char *name);

/* Bytes of one element; 0 for CS_DTYPE_UNKNOWN and values outside the enum. */
unsigned int cs_dtype_bytes(unsigned int dtype);

#endif
