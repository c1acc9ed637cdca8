/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of FlashInfer, TensorRT-LLM, PyTorch, NVSHMEM, MSCCL++ and DeepEP, as layouts_engines.cuh. */
#ifndef CS_TESTS_GPU_LAYOUTS_LIBRARIES_CUH
#define CS_TESTS_GPU_LAYOUTS_LIBRARIES_CUH

#include "layouts.cuh"

#include <array>

/* ---- FlashInfer's and TensorRT-LLM's fused all-reduce ---- */

/* FlashInfer: 0.2.8, 0.2.14 and 0.6.12 differ in what follows rms_eps */
template <unsigned int total> struct flashinfer_fusion {
	int nranks, rank, size, hidden_dim;
	void *pointers[9];
	float rms_eps;
	unsigned char rest[total - 92];
};
/* TensorRT-LLM: the type in front of the size */
template <unsigned int total> struct trtllm_fusion {
	int nranks, rank, dtype, size, hidden_dim;
	void *pointers[9];
	unsigned char rest[total - 96];
};
static_assert(sizeof(flashinfer_fusion<120>) == 120 && sizeof(flashinfer_fusion<136>) == 136 &&
		      sizeof(trtllm_fusion<144>) == 144,
	"as in FlashInfer 0.2.8 and 0.6.12");

#define FLASHINFER_ONE_SHOT                                                                                  \
	_ZN10flashinfer23trtllm_allreduce_fusion39allreduce_fusion_kernel_oneshot_lamportILNS0_22AllReduceFusionPatternE1E13__nv_bfloat16Li8ELb1ELb0EEEvNS0_21AllReduceFusionParamsIT0_EE
#define FLASHINFER_ONE_SHOT_0_2_8                                                                            \
	_ZN10flashinfer23trtllm_allreduce_fusion39allreduce_fusion_kernel_oneshot_lamportILNS0_22AllReduceFusionPatternE0E6__halfLi2ELb1ELb0EEEvNS0_21AllReduceFusionParamsIT0_EE
#define FLASHINFER_TWO_SHOT                                                                                  \
	_ZN10flashinfer23trtllm_allreduce_fusion36allreduce_fusion_kernel_twoshot_syncILNS0_22AllReduceFusionPatternE0E6__halfLi4ELb0EEEvNS0_21AllReduceFusionParamsIT0_EESt5arrayIiXT1_EES8_
#define FLASHINFER_MOE_REDUCE                                                                                \
	_ZN10flashinfer27trtllm_moe_allreduce_fusion49moereduce_allreduce_fusion_kernel_oneshot_lamportI13__nv_bfloat16Li8ELb0ELb1ELb1ELb0EEEvNS0_33MoeReductionAllReduceFusionParamsIT_EE
#define FLASHINFER_MOE_FINALIZE                                                                              \
	_ZN10flashinfer27trtllm_moe_allreduce_fusion51moefinalize_allreduce_fusion_kernel_oneshot_lamportI6__halfLi4ELb1ELb1ELb0ES2_EEvNS0_32MoeFinalizeAllReduceFusionParamsIT_EE
#define TRTLLM_ONE_SHOT                                                                                      \
	_ZN12tensorrt_llm3_v17kernels9ar_fusion39allreduce_fusion_kernel_oneshot_lamportILNS2_22AllReduceFusionPatternE1E13__nv_bfloat16Li8ELb1ELb1EEEvNS2_21AllReduceFusionParamsE
#define TRTLLM_TWO_SHOT                                                                                      \
	_ZN12tensorrt_llm3_v17kernels9ar_fusion36allreduce_fusion_kernel_twoshot_syncILNS2_22AllReduceFusionPatternE1E13__nv_bfloat16Li4ELb1EEEvNS2_21AllReduceFusionParamsESt5arrayIiXT1_EES4_
#define TRTLLM_MOE_REDUCE                                                                                    \
	_ZN12tensorrt_llm3_v17kernels9ar_fusion3moe49moereduce_allreduce_fusion_kernel_oneshot_lamportI13__nv_bfloat16Li8ELb1ELb1ELb0EEEvNS3_33MoeReductionAllReduceFusionParamsE

using ranks4 = std::array<int, 4>;

KERNEL(FLASHINFER_ONE_SHOT, flashinfer_fusion<136> params)
KERNEL(FLASHINFER_ONE_SHOT_0_2_8, flashinfer_fusion<120> params)
KERNEL(FLASHINFER_TWO_SHOT, flashinfer_fusion<136> params, ranks4 begin_tokens, ranks4 token_num)
KERNEL(FLASHINFER_MOE_REDUCE, flashinfer_fusion<152> params)
KERNEL(FLASHINFER_MOE_FINALIZE, flashinfer_fusion<160> params)
KERNEL(TRTLLM_ONE_SHOT, trtllm_fusion<144> params)
KERNEL(TRTLLM_TWO_SHOT, trtllm_fusion<144> params, ranks4 begin_tokens, ranks4 token_num)
KERNEL(TRTLLM_MOE_REDUCE, trtllm_fusion<200> params)

template <typename Struct>
static Struct
fusion(int ranks, int rank, int size, int hidden)
{
	Struct params = layout_poisoned<Struct>();

	params.nranks = ranks;
	params.rank = rank;
	params.size = size;
	params.hidden_dim = hidden;
	return params;
}

static void
add_fusion(std::vector<layout_launch> &all)
{
	const ranks4 tokens = layout_poisoned<ranks4>();

	for (uint32_t step : STEPS) {
		const int size = int(step) * 5120;
		const int64_t bytes = int64_t(size) * 2;
		ADD(all, FLASHINFER_ONE_SHOT, "flashinfer", bytes, 3,
			fusion<flashinfer_fusion<136>>(8, 3, size, 5120));
		ADD(all, FLASHINFER_ONE_SHOT_0_2_8, "flashinfer", bytes, 1,
			fusion<flashinfer_fusion<120>>(2, 1, size, 5120));
		ADD(all, FLASHINFER_TWO_SHOT, "flashinfer", bytes, 0,
			fusion<flashinfer_fusion<136>>(4, 0, size, 5120), tokens, tokens);
		ADD(all, FLASHINFER_MOE_REDUCE, "flashinfer", bytes, 7,
			fusion<flashinfer_fusion<152>>(8, 7, size, 5120));
		ADD(all, FLASHINFER_MOE_FINALIZE, "flashinfer", bytes, 2,
			fusion<flashinfer_fusion<160>>(4, 2, size, 5120));
		ADD(all, TRTLLM_ONE_SHOT, "trtllm", bytes, 3, fusion<trtllm_fusion<144>>(8, 3, size, 5120));
		ADD(all, TRTLLM_TWO_SHOT, "trtllm", bytes, 1, fusion<trtllm_fusion<144>>(4, 1, size, 5120),
			tokens, tokens);
		ADD(all, TRTLLM_MOE_REDUCE, "trtllm", bytes, 0, fusion<trtllm_fusion<200>>(8, 0, size, 5120));
	}
	/* no whole tokens; a world that is not the name's; rank 4 of 4; no ranks */
	ADD(all, FLASHINFER_ONE_SHOT, "flashinfer", UNKNOWN, UNKNOWN,
		fusion<flashinfer_fusion<136>>(8, 3, 5121, 5120));
	ADD(all, FLASHINFER_ONE_SHOT_0_2_8, "flashinfer", UNKNOWN, UNKNOWN,
		fusion<flashinfer_fusion<120>>(4, 1, 5120, 5120));
	ADD(all, TRTLLM_TWO_SHOT, "trtllm", UNKNOWN, UNKNOWN, fusion<trtllm_fusion<144>>(4, 4, 5120, 5120),
		tokens, tokens);
	ADD(all, TRTLLM_ONE_SHOT, "trtllm", UNKNOWN, UNKNOWN, fusion<trtllm_fusion<144>>(0, 0, 5120, 5120));
}

/* ---- MNNVL: parameters one by one, later one struct ---- */

struct mnnvl_params {
	void *pointers[8];
	int ranks, rank, tokens, token_dim;
	float epsilon, weight_bias;
	void *rest[5];
};
static_assert(sizeof(mnnvl_params) == 128, "as in FlashInfer 0.6.13 to 0.7.4");

#define MNNVL_ONE_SHOT                                                                                       \
	_ZN10flashinfer22trtllm_mnnvl_allreduce28oneshotAllreduceFusionKernelILh8E13__nv_bfloat16Lb1ELNS0_9QuantTypeE0E6float4EEvNS0_21AllReduceKernelParamsIT0_EE
#define MNNVL_ONE_SHOT_0_6_5                                                                                 \
	_ZN10flashinfer22trtllm_mnnvl_allreduce28oneshotAllreduceFusionKernelILh4E6__halfLb0E6float4EEvPT0_S5_PKS4_S7_S7_PS5_S5_iifiPj
#define MNNVL_ONE_SHOT_0_6_12                                                                                \
	_ZN10flashinfer22trtllm_mnnvl_allreduce28oneshotAllreduceFusionKernelILh4E6__halfLb0E6float4EEvPT0_S5_PKS4_S7_S7_PS5_S5_iiffiPj
#define MNNVL_TWO_SHOT                                                                                       \
	_ZN10flashinfer22trtllm_mnnvl_allreduce22twoshotAllreduceKernelILh8E13__nv_bfloat16Lb1E6float4EEvNS0_21AllReduceKernelParamsIT0_EE
#define MNNVL_TWO_SHOT_0_6_12                                                                                \
	_ZN10flashinfer22trtllm_mnnvl_allreduce22twoshotAllreduceKernelILh8E13__nv_bfloat166float4EEvPT0_PKS4_PS5_S5_jjjPjb
#define MNNVL_TWO_SHOT_0_5_3                                                                                 \
	_ZN10flashinfer22trtllm_mnnvl_allreduce24twoshot_allreduce_kernelILi4EfEEvPT0_S3_PS3_S3_iiiiPjb
#define TRTLLM_MNNVL_ONE_SHOT                                                                                \
	_ZN12tensorrt_llm3_v17kernels5mnnvl28oneshotAllreduceFusionKernelILh8E13__nv_bfloat16Lb1E6float4EEvPT0_S6_PKS5_S8_S8_PS6_S6_iifiPj
#define TRTLLM_MNNVL_TWO_SHOT                                                                                \
	_ZN12tensorrt_llm3_v17kernels5mnnvl22twoshotAllreduceKernelILh8E13__nv_bfloat166float4EEvPT0_PKS6_PS7_S7_jjjPjb
#define TRTLLM_MNNVL_ALL_GATHER                                                                              \
	_ZN12tensorrt_llm3_v17kernels5mnnvl44_GLOBAL__N__1eb0bbd1_6_trt_cu_1e376e65_2677025mnnvlAllGatherSplitKernelENS2_20AllGatherSplitParamsE
#define TRTLLM_LOW_LATENCY                                                                                   \
	_ZN12tensorrt_llm3_v17kernels24twoshot_allreduce_kernelILi8E13__nv_bfloat16EEvPT0_S4_PS4_S4_iiiiPjb

KERNEL(MNNVL_ONE_SHOT, mnnvl_params params)
KERNEL(MNNVL_ONE_SHOT_0_6_5, void *out, void *prenormed, void *shard, void *residual, void *gamma,
	void *inputs, void *mcast, int tokens, int dim, float eps, int rank, void *flags)
KERNEL(MNNVL_ONE_SHOT_0_6_12, void *out, void *prenormed, void *shard, void *residual, void *gamma,
	void *inputs, void *mcast, int tokens, int dim, float eps, float bias, int rank, void *flags)
KERNEL(MNNVL_TWO_SHOT, mnnvl_params params)
KERNEL(MNNVL_TWO_SHOT_0_6_12, void *out, void *shard, void *inputs, void *mcast, unsigned int tokens,
	unsigned int dim, unsigned int rank, void *flags, bool wait)
KERNEL(MNNVL_TWO_SHOT_0_5_3, void *out, void *shard, void *in, void *mcast, int tokens, int buffer_m, int dim,
	int rank, void *flags, bool wait)
KERNEL(TRTLLM_MNNVL_ONE_SHOT, void *out, void *prenormed, void *shard, void *residual, void *gamma,
	void *inputs, void *mcast, int tokens, int dim, float eps, int rank, void *flags)
struct mnnvl_all_gather {
	void *input, *bf16_output, *fp32_output;
	int tokens, bf16_columns, fp32_columns, ranks, rank;
	void *rest[4];
};
static_assert(sizeof(mnnvl_all_gather) == 80, "as in TensorRT-LLM of 2026");
KERNEL(TRTLLM_MNNVL_TWO_SHOT, void *out, void *shard, void *inputs, void *mcast, unsigned int tokens,
	unsigned int dim, unsigned int rank, void *flags, bool wait)
KERNEL(TRTLLM_MNNVL_ALL_GATHER, mnnvl_all_gather params)
KERNEL(TRTLLM_LOW_LATENCY, void *out, void *shard, void *in, void *mcast, int tokens, int buffer_m, int dim,
	int rank, void *flags, bool wait)

static mnnvl_params
mnnvl(int ranks, int rank, int tokens, int dim)
{
	mnnvl_params params = layout_poisoned<mnnvl_params>();

	params.ranks = ranks;
	params.rank = rank;
	params.tokens = tokens;
	params.token_dim = dim;
	return params;
}

static void
add_mnnvl(std::vector<layout_launch> &all)
{
	const char *impl = "flashinfer";
	void *const p = POINTER;
	mnnvl_all_gather gather = layout_poisoned<mnnvl_all_gather>();

	gather.bf16_columns = 128;
	gather.fp32_columns = 64;
	gather.ranks = 8;
	gather.rank = 5;
	for (uint32_t step : STEPS) {
		const int n = int(step);
		const int64_t bytes = int64_t(n) * 7168 * 2;
		gather.tokens = n;
		ADD(all, TRTLLM_MNNVL_TWO_SHOT, "trtllm", bytes, 6, p, p, p, p, step, 7168U, 6U, p, true);
		ADD(all, TRTLLM_MNNVL_ALL_GATHER, "trtllm", int64_t(n) * 8 * (128 * 2 + 64 * 4), 5, gather);
		ADD(all, MNNVL_ONE_SHOT, impl, bytes, 1, mnnvl(8, 1, n, 7168));
		ADD(all, MNNVL_ONE_SHOT_0_6_5, impl, bytes, 2, p, p, p, p, p, p, p, n, 7168, 1e-6F, 2, p);
		ADD(all, MNNVL_ONE_SHOT_0_6_12, impl, bytes, 3, p, p, p, p, p, p, p, n, 7168, 1e-6F, 1.0F, 3,
			p);
		ADD(all, MNNVL_TWO_SHOT, impl, bytes, 7, mnnvl(8, 7, n, 7168));
		ADD(all, MNNVL_TWO_SHOT_0_6_12, impl, bytes, 6, p, p, p, p, step, 7168U, 6U, p, true);
		ADD(all, MNNVL_TWO_SHOT_0_5_3, impl, bytes * 2, 1, p, p, p, p, n, 8192, 7168, 1, p, false);
		ADD(all, TRTLLM_MNNVL_ONE_SHOT, "trtllm", bytes, 5, p, p, p, p, p, p, p, n, 7168, 1e-6F, 5,
			p);
		ADD(all, TRTLLM_LOW_LATENCY, "trtllm", bytes, 0, p, p, p, p, n, 8192, 7168, 0, p, true);
	}
	/* no tokens; another world; a negative rank; rank 8 of 8 */
	ADD(all, MNNVL_ONE_SHOT, impl, UNKNOWN, UNKNOWN, mnnvl(8, 1, 0, 7168));
	ADD(all, MNNVL_TWO_SHOT, impl, UNKNOWN, UNKNOWN, mnnvl(4, 1, 1, 7168));
	ADD(all, MNNVL_ONE_SHOT_0_6_5, impl, UNKNOWN, UNKNOWN, p, p, p, p, p, p, p, 1, 7168, 1e-6F, -1, p);
	ADD(all, MNNVL_TWO_SHOT_0_6_12, impl, UNKNOWN, UNKNOWN, p, p, p, p, 1U, 7168U, 8U, p, true);
}

/* ---- AllReduceParams of FlashInfer and TensorRT-LLM ---- */

template <unsigned int total> struct all_reduce_params {
	size_t elts_total, elts_per_rank, elts_per_block, rank_offset, ranks_per_node, local_rank;
	unsigned char rest[total - 48];
};

#define FI_ONE_SHOT                                                                                          \
	_ZN10flashinfer16trtllm_allreduce22oneShotAllReduceKernelI6__halfLi8ELb1ELb0EEEvNS0_15AllReduceParamsIT_EE
#define FI_TWO_SHOT                                                                                          \
	_ZN10flashinfer16trtllm_allreduce22twoShotAllReduceKernelIfLi8ELb0ELb1ELb0ELb0EEEvNS0_15AllReduceParamsIT_EE
#define FI_NORM                                                                                              \
	_ZN10flashinfer16trtllm_allreduce13reduce_fusion31one_shot_all_reduce_norm_kernelI6__halfLi4ELb1ELb1ELb0EEEvNS0_15AllReduceParamsIT_EE
#define FI_NORM_CLUSTER                                                                                      \
	_ZN10flashinfer16trtllm_allreduce13reduce_fusion45lamport_style_one_shot_all_reduce_norm_kernelILi8E13__nv_bfloat16Li8ELb1ELb1ELb1EEEvNS0_15AllReduceParamsIT0_EE
#define TRT_ONE_SHOT                                                                                         \
	_ZN12tensorrt_llm3_v17kernels22oneShotAllReduceKernelI13__nv_bfloat16Li8ELb1ELb0EEEvNS1_15AllReduceParamsE
#define TRT_TWO_SHOT                                                                                         \
	_ZN12tensorrt_llm3_v17kernels22twoShotAllReduceKernelI6__halfLi4ELb0ELb1ELb0ELb0EEEvNS1_15AllReduceParamsE
#define TRT_NORM                                                                                             \
	_ZN12tensorrt_llm3_v17kernels13reduce_fusion31one_shot_all_reduce_norm_kernelI6__halfLi8ELb1ELb1EEEvNS1_15AllReduceParamsE
#define TRT_LOW_PRECISION                                                                                    \
	_ZN12tensorrt_llm3_v17kernels34lowPrecisionTwoShotAllReduceKernelI13__nv_bfloat1613__nv_fp8_e4m3Li4EEEvNS1_27LowPrecisionAllReduceParamsE
#define TRT_NORM_CLUSTER                                                                                     \
	_ZN12tensorrt_llm3_v17kernels13reduce_fusion45lamport_style_one_shot_all_reduce_norm_kernelILi8E6__halfLi4ELb1ELb1EEEvNS1_15AllReduceParamsE

struct low_precision_params {
	size_t elts_total, elts_per_rank, elts_per_block, rank_offset;
	int32_t ranks_per_node, rank, local_rank;
	void *rest[243];
};
static_assert(sizeof(low_precision_params) == 1992, "as in TensorRT-LLM of 2026");

KERNEL(TRT_LOW_PRECISION, low_precision_params params)
KERNEL(FI_ONE_SHOT, all_reduce_params<896> params)
KERNEL(FI_TWO_SHOT, all_reduce_params<896> params)
KERNEL(FI_NORM, all_reduce_params<896> params)
KERNEL(FI_NORM_CLUSTER, all_reduce_params<896> params)
KERNEL(TRT_ONE_SHOT, all_reduce_params<400> params)
KERNEL(TRT_TWO_SHOT, all_reduce_params<400> params)
KERNEL(TRT_NORM, all_reduce_params<400> params)
KERNEL(TRT_NORM_CLUSTER, all_reduce_params<400> params)

template <unsigned int total>
static all_reduce_params<total>
elements(size_t count, size_t ranks, size_t rank)
{
	all_reduce_params<total> params = layout_poisoned<all_reduce_params<total>>();

	params.elts_total = count;
	params.ranks_per_node = ranks;
	params.local_rank = rank;
	return params;
}

static void
add_all_reduce_params(std::vector<layout_launch> &all)
{
	low_precision_params low = layout_poisoned<low_precision_params>();

	low.ranks_per_node = 4;
	low.local_rank = 3;
	for (uint32_t step : STEPS) {
		const size_t n = size_t(step) * 8;
		const int64_t bytes = int64_t(n) * 2;
		low.elts_total = n;
		ADD(all, TRT_LOW_PRECISION, "trtllm", bytes, 3, low);
		ADD(all, FI_ONE_SHOT, "flashinfer", bytes, 7, elements<896>(n, 8, 7));
		ADD(all, FI_TWO_SHOT, "flashinfer", bytes * 2, 0, elements<896>(n, 8, 0));
		ADD(all, FI_NORM, "flashinfer", bytes, 1, elements<896>(n, 4, 1));
		ADD(all, FI_NORM_CLUSTER, "flashinfer", bytes, 3, elements<896>(n, 8, 3));
		ADD(all, TRT_ONE_SHOT, "trtllm", bytes, 4, elements<400>(n, 8, 4));
		ADD(all, TRT_TWO_SHOT, "trtllm", bytes, 3, elements<400>(n, 4, 3));
		ADD(all, TRT_NORM, "trtllm", bytes, 6, elements<400>(n, 8, 6));
		ADD(all, TRT_NORM_CLUSTER, "trtllm", bytes, 2, elements<400>(n, 4, 2));
	}
	ADD(all, FI_ONE_SHOT, "flashinfer", UNKNOWN, UNKNOWN, elements<896>(4096, 8, 8));
	ADD(all, TRT_TWO_SHOT, "trtllm", UNKNOWN, UNKNOWN, elements<400>(size_t(1) << 40, 4, 0));
}

/* ---- PyTorch symmetric memory: every parameter has 8 bytes ---- */

#define TORCH(rest)        _ZN64_GLOBAL__N__62167398_25_CUDASymmetricMemoryOps_cu_aa69e1bd_13535##rest
#define TORCH_MULTIMEM     TORCH(26multimem_all_reduce_kernelIfLi8EEEvPT_mPPjmm)
#define TORCH_REDUCE       TORCH(31multimem_one_shot_reduce_kernelIN3c108BFloat16ELi8EEEvPT_S4_mPPjmml)
#define TORCH_ALL_GATHER   TORCH(26multimem_all_gather_kernelILi16EEEvPcS1_mPPjmm)
#define TORCH_ONE_SHOT     TORCH(26one_shot_all_reduce_kernelIN3c108BFloat16ELi16ELi8EEEvPPT_S4_S4_mmPPjmm)
#define TORCH_ONE_SHOT_ANY TORCH(26one_shot_all_reduce_kernelIN3c108BFloat16ELi16ELin1EEEvPPT_S4_S4_mmPPjmm)
#define TORCH_TWO_SHOT     TORCH(26two_shot_all_reduce_kernelIfLi8ELi8ELb0ELb0EEEvPPT_S2_mmPPjmmm)
#define TORCH_SCATTER      TORCH(26two_shot_all_reduce_kernelIN3c108BFloat16ELi4ELi4ELb1ELb0EEEvPPT_S4_mmPPjmmm)
#define TORCH_IN_PLACE     TORCH(34two_shot_all_reduce_kernel_inplaceIN3c108BFloat16ELi4ELi4EEEvPPT_mmPPjmm)
#define TORCH_2_5_ONE_SHOT                                                                                   \
	_ZN64_GLOBAL__N__0de8ae4a_25_CUDASymmetricMemoryOps_cu_453799e8_2402535multimem_one_shot_all_reduce_kernelIN3c108BFloat16ELi16EEEvPT_S4_mPPjmm

KERNEL(TORCH_MULTIMEM, void *mc, size_t numel, void *pads, size_t rank, size_t world)
KERNEL(TORCH_2_5_ONE_SHOT, void *mc, void *out, size_t numel, void *pads, size_t rank, size_t world)
KERNEL(TORCH_REDUCE, void *mc, void *out, size_t numel, void *pads, size_t rank, size_t world, int64_t root)
KERNEL(TORCH_ALL_GATHER, void *in, void *mc, size_t bytes_per_rank, void *pads, size_t rank, size_t world)
KERNEL(TORCH_ONE_SHOT, void *inputs, void *out, void *in, size_t offset, size_t numel, void *pads,
	size_t rank, size_t world)
KERNEL(TORCH_ONE_SHOT_ANY, void *inputs, void *out, void *in, size_t offset, size_t numel, void *pads,
	size_t rank, size_t world)
KERNEL(TORCH_TWO_SHOT, void *inputs, void *out, size_t offset, size_t numel, void *pads, size_t rank,
	size_t world, size_t last_dim)
KERNEL(TORCH_SCATTER, void *inputs, void *out, size_t offset, size_t numel, void *pads, size_t rank,
	size_t world, size_t last_dim)
KERNEL(TORCH_IN_PLACE, void *inputs, size_t offset, size_t numel, void *pads, size_t rank, size_t world)

static void
add_torch(std::vector<layout_launch> &all)
{
	const char *impl = "torch_symm_mem";
	void *const p = POINTER;

	for (uint32_t step : STEPS) {
		const size_t n = size_t(step) * 8;
		const int64_t bytes = int64_t(n) * 2;
		ADD(all, TORCH_MULTIMEM, impl, bytes * 2, 2, p, n, p, 2, 8);
		ADD(all, TORCH_2_5_ONE_SHOT, impl, bytes, 0, p, p, n, p, 0, 2);
		ADD(all, TORCH_REDUCE, impl, bytes, 1, p, p, n, p, 1, 4, 0);
		ADD(all, TORCH_ALL_GATHER, impl, int64_t(n) * 4, 3, p, p, n, p, 3, 4);
		ADD(all, TORCH_ONE_SHOT, impl, bytes, 7, p, p, p, 0, n, p, 7, 8);
		ADD(all, TORCH_ONE_SHOT_ANY, impl, bytes, 5, p, p, p, 64, n, p, 5, 6);
		ADD(all, TORCH_TWO_SHOT, impl, bytes * 2, 2, p, p, 0, n, p, 2, 8, 0);
		ADD(all, TORCH_SCATTER, impl, bytes, 3, p, p, 0, n, p, 3, 4, 128);
		ADD(all, TORCH_IN_PLACE, impl, bytes, 1, p, 0, n, p, 1, 4);
	}
	/* another world than the name's; no ranks; more than 1 GiB */
	ADD(all, TORCH_ONE_SHOT, impl, UNKNOWN, UNKNOWN, p, p, p, 0, 4096, p, 0, 4);
	ADD(all, TORCH_MULTIMEM, impl, UNKNOWN, UNKNOWN, p, 4096, p, 0, 0);
	ADD(all, TORCH_IN_PLACE, impl, UNKNOWN, UNKNOWN, p, 0, size_t(1) << 40, p, 1, 4);
}

/* ---- NVSHMEM and MSCCL++ ---- */

#define NVSHMEM_REDUCE    _Z21rdxn_on_stream_kernelI13__nv_bfloat16L8rdxn_ops6EEviPT_PKS2_mi
#define NVSHMEM_BROADCAST _Z26broadcast_on_stream_kernelIfEviPT_PKS0_mii
#define MSCCLPP(rest)     _ZN7mscclpp10collective##rest
#define MSCCLPP_ALL_PAIRS                                                                                    \
	MSCCLPP(17allreduceAllPairsILNS_8ReduceOpE3E6__halfS3_EEvPT0_S5_S5_PNS_25MemoryChannelDeviceHandleEmmiiimjPvj)
#define MSCCLPP_PACKET                                                                                       \
	MSCCLPP(15allreducePacketILNS_8ReduceOpE3EffEEvPT0_S4_S4_PNS_25MemoryChannelDeviceHandleEmmiiimPvjj)
#define MSCCLPP_RS_AG                                                                                        \
	MSCCLPP(13allreduceRsAgILNS_8ReduceOpE3EffEEvPT0_S4_S4_PNS_29BaseMemoryChannelDeviceHandleEPNS_25SwitchChannelDeviceHandleEPviiim)
#define MSCCLPP_RS_AG_PIPELINE                                                                               \
	MSCCLPP(21allreduceRsAgPipelineILNS_8ReduceOpE3EfEEvPT0_S4_S4_PNS_29BaseMemoryChannelDeviceHandleEPNS_25SwitchChannelDeviceHandleEPviiimmjjj)
#define MSCCLPP_RS_AG_ZERO_COPY                                                                              \
	MSCCLPP(21allreduceRsAgZeroCopyILi8ELNS_8ReduceOpE3EffEEvPT1_S4_S4_PNS_29BaseMemoryChannelDeviceHandleEPNS_25SwitchChannelDeviceHandleEPviim)
#define MSCCLPP_NVLS_PACKET                                                                                  \
	MSCCLPP(19allreduceNvlsPacketILNS_8ReduceOpE3E6__halfS3_EEvPKT0_PS4_S7_PNS_25SwitchChannelDeviceHandleEmmiiPvj)
#define MSCCLPP_NVLS                                                                                         \
	MSCCLPP(13allreduceNvlsI13__nv_bfloat16fEEvPNS_29BaseMemoryChannelDeviceHandleEPNS_25SwitchChannelDeviceHandleES6_mmmii)
#define MSCCLPP_NVLS_PIPELINE                                                                                \
	MSCCLPP(26allreduceNvlsBlockPipelineI6__halfS2_EEvPKvPvS5_PNS_29BaseMemoryChannelDeviceHandleEPNS_25SwitchChannelDeviceHandleEmmii)
#define MSCCLPP_ALL_GATHER   MSCCLPP(17allgatherFullmeshILb1EEEvPvS2_S2_PNS_25MemoryChannelDeviceHandleEiiim)
#define MSCCLPP_ALL_GATHER_2 MSCCLPP(18allgatherFullmesh2ILb0EEEvPvPNS_25MemoryChannelDeviceHandleEmmmmm)

KERNEL(NVSHMEM_REDUCE, int team, void *destination, void *source, size_t count, int in_cta)
KERNEL(NVSHMEM_BROADCAST, int team, void *destination, void *source, size_t count, int root, int in_cta)
KERNEL(MSCCLPP_ALL_PAIRS, void *buffer, void *scratch, void *result, void *channels, size_t offset,
	size_t scratch_bytes, int rank, int ranks_per_node, int world, size_t elements, uint32_t buffers,
	void *flags, uint32_t flag_bytes)
KERNEL(MSCCLPP_PACKET, void *buffer, void *scratch, void *result, void *channels, size_t offset,
	size_t scratch_bytes, int rank, int ranks_per_node, int world, size_t elements, void *flags,
	uint32_t flag_bytes, uint32_t buffers)
KERNEL(MSCCLPP_RS_AG, void *buffer, void *scratch, void *result, void *channels, void *switches, void *remote,
	int rank, int ranks_per_node, int world, size_t elements)
KERNEL(MSCCLPP_RS_AG_PIPELINE, void *buffer, void *scratch, void *result, void *channels, void *switches,
	void *remote, int rank, int ranks_per_node, int world, size_t elements, size_t scratch_bytes,
	uint32_t put, uint32_t reduce, uint32_t receive)
KERNEL(MSCCLPP_RS_AG_ZERO_COPY, void *buffer, void *scratch, void *result, void *channels, void *switches,
	void *remote, int rank, int world, size_t elements)
KERNEL(MSCCLPP_NVLS_PACKET, void *input, void *scratch, void *output, void *channels, size_t elements,
	size_t scratch_bytes, int rank, int world, void *flags, uint32_t flag_bytes)
KERNEL(MSCCLPP_NVLS, void *channels, void *multicast, void *multicast_out, size_t in, size_t out,
	size_t bytes, int rank, int world)
KERNEL(MSCCLPP_NVLS_PIPELINE, void *source, void *scratch, void *destination, void *channels, void *switches,
	size_t bytes, size_t scratch_bytes, int rank, int world)
KERNEL(MSCCLPP_ALL_GATHER, void *buffer, void *scratch, void *result, void *channels, int rank,
	int ranks_per_node, int world, size_t words)
KERNEL(MSCCLPP_ALL_GATHER_2, void *buffer, void *channels, size_t offset, size_t rank, size_t world,
	size_t ranks_per_node, size_t words)

static void
add_mscclpp(std::vector<layout_launch> &all)
{
	const char *impl = "mscclpp";
	void *const p = POINTER;

	for (uint32_t step : STEPS) {
		const size_t n = size_t(step) * 8;
		const int64_t f32 = int64_t(n) * 4;
		ADD(all, MSCCLPP_ALL_PAIRS, impl, int64_t(n) * 2, 1, p, p, p, p, 0, 64, 1, 8, 8, n, 2U, p,
			9U);
		ADD(all, MSCCLPP_PACKET, impl, f32, 7, p, p, p, p, 0, 64, 7, 8, 8, n, p, 9U, 2U);
		ADD(all, MSCCLPP_RS_AG, impl, f32, 5, p, p, p, p, p, p, 5, 8, 8, n);
		ADD(all, MSCCLPP_RS_AG_PIPELINE, impl, f32, 0, p, p, p, p, p, p, 0, 8, 8, n, 1 << 20, 8U, 8U,
			8U);
		ADD(all, MSCCLPP_RS_AG_ZERO_COPY, impl, f32, 4, p, p, p, p, p, p, 4, 8, n);
		ADD(all, MSCCLPP_NVLS_PACKET, impl, int64_t(n) * 2, 3, p, p, p, p, n, 1 << 20, 3, 8, p, 9U);
		ADD(all, MSCCLPP_NVLS, impl, int64_t(n), 0, p, p, p, 0, 0, n, 0, 8);
		ADD(all, MSCCLPP_NVLS_PIPELINE, impl, int64_t(n), 6, p, p, p, p, p, n, 1 << 20, 6, 8);
		ADD(all, MSCCLPP_ALL_GATHER, impl, f32 * 8, 2, p, p, p, p, 2, 8, 8, n);
		ADD(all, MSCCLPP_ALL_GATHER_2, impl, f32 * 8, 1, p, p, 0, 1, 8, 8, n);
		ADD(all, NVSHMEM_REDUCE, "nvshmem", int64_t(n) * 2, UNKNOWN, 2, p, p, n, 1);
		ADD(all, NVSHMEM_BROADCAST, "nvshmem", f32, UNKNOWN, 2, p, p, n, 0, 1);
	}
	ADD(all, MSCCLPP_ALL_PAIRS, impl, UNKNOWN, UNKNOWN, p, p, p, p, 0, 64, 8, 8, 8, 4096, 2U, p, 9U);
	ADD(all, NVSHMEM_REDUCE, "nvshmem", UNKNOWN, UNKNOWN, 2, p, p, 0, 1);
}

#endif
