/* SPDX-License-Identifier: Apache-2.0 */
/* vLLM's and SGLang's own kernels: declarations by their sources, and launches of a few sizes each. */
#ifndef CS_TESTS_GPU_LAYOUTS_ENGINES_CUH
#define CS_TESTS_GPU_LAYOUTS_ENGINES_CUH

#include "layouts.cuh"

/* ---- vLLM: RankSignals of 16 pointers; layouts_before.cu has those of 8 ---- */

#define VLLM_BUTTERFLY                                                                                       \
	_ZN4vllm34cross_device_reduce_half_butterflyI6__halfLi4EEEvPNS_8RankDataENS_11RankSignalsEPVNS_8MetadataEPT_ii
#define VLLM_ALL_GATHER                                                                                      \
	_ZN4vllm23cross_device_all_gatherILi8EEEvPNS_8RankDataENS_11RankSignalsEPNS_6SignalEPNS_7array_tImLi2EEEii
#define VLLM_REDUCE_SCATTER                                                                                  \
	_ZN4vllm27cross_device_reduce_scatterI6__halfLi4EEEvPNS_8RankDataENS_11RankSignalsEPNS_6SignalEPT_ii
#define VLLM_MNNVL_ALL_GATHER _ZN4vllm24mnnvl_lamport_all_gatherI6__halfLi8EEEvPNS_8RankDataEPKT_PS4_S7_Pjiii
#define VLLM_MNNVL_REDUCE_SCATTER                                                                            \
	_ZN4vllm35mnnvl_lamport_reduce_scatter_kernelI13__nv_bfloat16Li4EEEvPNS_8RankDataEPKT_PS4_Pjiii
/* A RankSignals of 12 pointers has not been seen: the size must stay unknown. */
#define VLLM_NEXT                                                                                            \
	_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li4EEEvPNS_8RankDataENS_11RankSignalsEPNS_6SignalEPT_ii

KERNEL(VLLM_1STAGE_HALF_2, void *data, pointers<16> signals, void *self, void *result, int rank, int size)
KERNEL(VLLM_2STAGE_BF16_8, void *data, pointers<16> signals, void *self, void *result, int rank, int size)
KERNEL(VLLM_BUTTERFLY, void *data, pointers<8> signals, void *self, void *result, int rank, int size)
KERNEL(VLLM_ALL_GATHER, void *data, pointers<16> signals, void *self, void *result, int rank,
	int size_per_rank)
KERNEL(VLLM_REDUCE_SCATTER, void *data, pointers<16> signals, void *self, void *result, int rank,
	int size_per_rank)
KERNEL(VLLM_MNNVL_ALL_GATHER, void *data, void *in, void *out, void *multicast, void *epochs, int rank,
	int size_per_rank, int stage)
KERNEL(VLLM_MNNVL_REDUCE_SCATTER, void *data, void *in, void *out, void *epochs, int rank, int size_per_rank,
	int stage)
KERNEL(VLLM_NEXT, void *data, pointers<12> signals, void *self, void *result, int rank, int size)

static void
add_vllm(std::vector<layout_launch> &all)
{
	const char *impl = "vllm_custom";
	void *const p = POINTER;
	const pointers<8> s8 = layout_poisoned<pointers<8>>();
	const pointers<12> s12 = layout_poisoned<pointers<12>>();
	const pointers<16> s16 = layout_poisoned<pointers<16>>();

	for (uint32_t step : STEPS) {
		const int packs = int(step);
		ADD(all, VLLM_1STAGE_HALF_2, impl, packs * 16, 0, p, s16, p, p, 0, packs);
		ADD(all, VLLM_2STAGE_BF16_8, impl, packs * 16, 7, p, s16, p, p, 7, packs);
		ADD(all, VLLM_BUTTERFLY, impl, packs * 16, 3, p, s8, p, p, 3, packs);
		ADD(all, VLLM_ALL_GATHER, impl, packs * 16 * 8, 5, p, s16, p, p, 5, packs);
		ADD(all, VLLM_REDUCE_SCATTER, impl, packs * 16 * 4, 2, p, s16, p, p, 2, packs);
		ADD(all, VLLM_MNNVL_ALL_GATHER, impl, packs * 16 * 8, 1, p, p, p, p, p, 1, packs, 77);
		ADD(all, VLLM_MNNVL_REDUCE_SCATTER, impl, packs * 16 * 4, 3, p, p, p, p, 3, packs, 77);
	}
	ADD(all, VLLM_NEXT, impl, UNKNOWN, UNKNOWN, p, s12, p, p, 0, 448);
	/* rank 2 of 2; a negative size; none */
	ADD(all, VLLM_1STAGE_HALF_2, impl, UNKNOWN, UNKNOWN, p, s16, p, p, 2, 448);
	ADD(all, VLLM_2STAGE_BF16_8, impl, UNKNOWN, UNKNOWN, p, s16, p, p, 0, -448);
	ADD(all, VLLM_REDUCE_SCATTER, impl, UNKNOWN, UNKNOWN, p, s16, p, p, 0, 0);
}

/* ---- SGLang, oldest first ---- */

/* sgl-kernel to April 2025, after TensorRT-LLM's */
struct sglang_trt_params {
	size_t elts_size, elts_total, elts_per_rank, elts_per_block, rank_offset, ranks_per_node, rank,
		local_rank;
	uint32_t barrier_flag;
	void *pointers[26];
};
static_assert(sizeof(sglang_trt_params) == 280, "as in sgl-kernel 0.0.5");

struct sglang_g2_params {
	void *output;
	uint32_t rank, num_items;
};
struct sglang_g2_pull {
	void *pointers[8];
};
struct sglang_g2_push_data {
	void *buffer[8];
	void *input, *output;
	uint32_t rank, num_items, buffer_bytes, epoch_bytes;
};
static_assert(
	sizeof(sglang_g2_params) == 16 && sizeof(sglang_g2_pull) == 64 && sizeof(sglang_g2_push_data) == 96,
	"as in SGLang 0.5.11");

template <unsigned int world> struct sglang_g3_params {
	void *input, *output;
	uint32_t num_elements, rank;
	void *graph_params;
	void *pull_workspaces[world], *push_workspaces[world], *pull_semaphores[world];
	void *push_counter, *pull_mc_workspace;
	int64_t push_buffer_stride;
};

/* 0.5.19 and later: workspaces of a push, and of a pull */
template <unsigned int world> struct sglang_push_workspace {
	void *workspaces[world], *counter, *mc_workspace;
	uint32_t slot_bytes;
};
template <unsigned int world> struct sglang_pull_workspace {
	void *semaphores[world], *workspaces[world], *mc_semaphore, *mc_workspace;
};
template <unsigned int world> struct sglang_g4_push {
	void *input, *output;
	uint32_t num_vecs, rank;
	sglang_push_workspace<world> workspace;
};
template <unsigned int world> struct sglang_g4_pull {
	void *output;
	uint32_t num_vecs, rank;
	void *graph_params;
	sglang_pull_workspace<world> workspace;
};
template <unsigned int world> struct sglang_g4_two_shot_push {
	void *input, *output;
	uint32_t num_vecs, rank;
	uint64_t slot_vecs;
	sglang_push_workspace<world> scatter, gather;
};
static_assert(sizeof(sglang_g4_push<8>) == 112 && sizeof(sglang_g4_pull<8>) == 168 &&
		      sizeof(sglang_g4_two_shot_push<4>) == 144,
	"as in SGLang of August 2026");

/* 0.5.21 to 0.5.23 */
template <unsigned int world> struct sglang_nvlink_push {
	void *input, *residual, *output;
	uint32_t dst_offset, rank, num_push_vecs, num_poll_vecs, num_vecs_per_token, tokens_avg, tokens_rem;
	uint32_t divisor[3];
	sglang_push_workspace<world> workspace;
};
struct sglang_fusion {
	void *input, *residual, *push_ws_mc, *push_ws_local, *push_counter;
	int64_t stride;
	uint32_t rank, num_vecs;
	void *norm_weight;
	float norm_eps;
	uint32_t num_norm_rows, num_push_counters;
	void *finalize[3];
};
/* with or without a gate before the norm's weight, and with or without a residual at the end */
template <unsigned int world, unsigned int inputs, unsigned int outputs> struct sglang_finalize {
	void *before[inputs];
	float norm_eps;
	bool prefetch_metadata;
	uint32_t rank, num_tokens, num_push_counters;
	sglang_push_workspace<world> workspace;
	void *after[outputs];
};
static_assert(sizeof(sglang_nvlink_push<8>) == 152 && sizeof(sglang_nvlink_push<4>) == 120 &&
		      sizeof(sglang_fusion) == 104 && sizeof(sglang_finalize<8, 6, 8>) == 224 &&
		      sizeof(sglang_finalize<4, 7, 8>) == 200 && sizeof(sglang_finalize<8, 7, 11>) == 256,
	"as in SGLang 0.5.21, 0.5.22 and 0.5.23");

#define G0_ONE_SHOT _ZN7trt_llm22oneShotAllReduceKernelI6__halfLi8ELb1EEEvNS_15AllReduceParamsE
#define G0_TWO_SHOT _ZN7trt_llm22twoShotAllReduceKernelIfLi4ELb1EEEvNS_15AllReduceParamsE
#define G1_1STAGE                                                                                            \
	_ZN6sglang26cross_device_reduce_1stageIfLi2EEEvPNS_8RankDataENS_11RankSignalsEPNS_6SignalEPT_ii
#define G1_2STAGE                                                                                            \
	_ZN6sglang26cross_device_reduce_2stageI13__nv_bfloat16Li4EEEvPNS_8RankDataENS_11RankSignalsEPNS_6SignalEPT_ii
#define G2_ONE_SHOT                                                                                          \
	_ZN31_GLOBAL__N__1ad997b8_5_sg_cu_a326all_reduce_one_shot_kernelI13__nv_bfloat16Lj8ELb1EEEvPKN4host11distributed13AllReduceDataENS_15AllReduceParamsEN6device11distributed14PullControllerE
#define G2_TWO_SHOT                                                                                          \
	_ZN31_GLOBAL__N__1ad997b8_5_sg_cu_a326all_reduce_two_shot_kernelIfLj8ELb0EEEvPKN4host11distributed13AllReduceDataENS_15AllReduceParamsEN6device11distributed14PullControllerE
#define G2_PUSH                                                                                              \
	_ZN32_GLOBAL__N__78c55bc2_6_sgp_cu_a431all_reduce_one_shot_push_kernelI6__halfLj4ELb0EEEvNS_17AllReducePushDataEN6device11distributed14PushControllerE
#define G3_PUSH                                                                                              \
	_ZN6sglang17all_reduce_kernelINS_17AllReducePushImplI13__nv_bfloat16Lj8ELb1EEELj8ELi1EEEvNS_15AllReduceParamsIXT0_EEE
#define G3_PULL                                                                                              \
	_ZN6sglang17all_reduce_kernelINS_17AllReducePullImplIfLj2ELNS_8PullModeE2ELb0EEELj2ELi2EEEvNS_15AllReduceParamsIXT0_EEE
#define G4_1SHOT_PUSH                                                                                        \
	_ZN6sglang28all_reduce_1shot_push_kernelINS_13LoadStoreImplILi16ELj8ELb1EEE13__nv_bfloat16Lj8ELb1EEEvNS_19AllReducePushParamsIXT1_EEE
#define G4_1SHOT_PUSH_0_5_23                                                                                 \
	_ZN6sglang28all_reduce_1shot_push_kernelI6__halfLj4ELb0EEEvNS_19AllReducePushParamsIXT0_EEE
#define G4_1SHOT_PULL                                                                                        \
	_ZN6sglang28all_reduce_1shot_pull_kernelINS_13LoadStoreImplILi16ELj8ELb1EEE6__halfLj8ELb1EEEvNS_19AllReducePullParamsIXT1_EEE
#define G4_2SHOT_PULL                                                                                        \
	_ZN6sglang28all_reduce_2shot_pull_kernelINS_13MultiCastImplILi16ELj8EEE13__nv_bfloat16Lj8ELb1EEEvNS_19AllReducePullParamsIXT1_EEE
#define G4_2SHOT_PUSH                                                                                        \
	_ZN6sglang28all_reduce_2shot_push_kernelI13__nv_bfloat16Lj4ELb1ELb0EEEvNS_24AllReduce2ShotPushParamsIXT0_EEE
#define G4_2SHOT_PUSH_0_5_23                                                                                 \
	_ZN6sglang28all_reduce_2shot_push_kernelI13__nv_bfloat16Lj8ELb1EEEvNS_19AllReducePushParamsIXT0_EEE
#define NVLINK_ALL_REDUCE                                                                                    \
	_ZN6sglang18nvlink_push_kernelI13__nv_bfloat16Lb0ELNS_9PrimitiveE3ELj8ELb1EEEvNS_20NVLinkCommPushParamsIXT2_EEE
#define NVLINK_REDUCE_SCATTER                                                                                \
	_ZN6sglang18nvlink_push_kernelI13__nv_bfloat16Lb1ELNS_9PrimitiveE1ELj4ELb1EEEvNS_20NVLinkCommPushParamsIXT2_EEE
#define NVLINK_ALL_GATHER                                                                                    \
	_ZN6sglang18nvlink_push_kernelI6__halfLb0ELNS_9PrimitiveE2ELj8ELb1EEEvNS_20NVLinkCommPushParamsIXT2_EEE
#define SGLANG_PUSH_RESIDUAL _ZN6sglang26all_reduce_push_res_kernelILj8ELb1ELb1EEEvNS_12FusionParamsE
#define SGLANG_PUSH_NORM     _ZN6sglang35all_reduce_push_norm_cluster_kernelILj8ELj4ELb1EvEEvNS_12FusionParamsE
#define SGLANG_FINALIZE_0_5_21                                                                               \
	_ZN6sglang30moe_finalize_all_reduce_kernelILj8ELj7168ELj8ELj4ELb1ELb1ELb1E13__nv_bfloat16Lb0ELb0ELb0EEEvNS_26MoeFinalizeAllReduceParamsIXT_ET6_EE
#define SGLANG_FINALIZE_0_5_22                                                                               \
	_ZN6sglang30moe_finalize_all_reduce_kernelILj4ELj4096ELj8ELj2ELb1ELb1ELb0EfLb0ELb0ELb0ELb0EEEvNS_26MoeFinalizeAllReduceParamsIXT_ET6_EE
#define SGLANG_FINALIZE_0_5_23                                                                               \
	_ZN6sglang30moe_finalize_all_reduce_kernelILj8ELj7168ELj8ELj4ELb1ELb1ELb1E13__nv_bfloat16Lb0ELb0ELb0ELb0ELj1ELb0EEEvNS_26MoeFinalizeAllReduceParamsIXT_ET6_EE

KERNEL(G0_ONE_SHOT, sglang_trt_params params)
KERNEL(G0_TWO_SHOT, sglang_trt_params params)
KERNEL(G1_1STAGE, void *data, pointers<8> signals, void *self, void *result, int rank, int size)
KERNEL(G1_2STAGE, void *data, pointers<8> signals, void *self, void *result, int rank, int size)
KERNEL(G2_ONE_SHOT, void *data, sglang_g2_params params, sglang_g2_pull pull)
KERNEL(G2_TWO_SHOT, void *data, sglang_g2_params params, sglang_g2_pull pull)
KERNEL(G2_PUSH, sglang_g2_push_data data, void *push)
KERNEL(G3_PUSH, const __grid_constant__ sglang_g3_params<8> params)
KERNEL(G3_PULL, const __grid_constant__ sglang_g3_params<2> params)
KERNEL(G4_1SHOT_PUSH, const __grid_constant__ sglang_g4_push<8> params)
KERNEL(G4_1SHOT_PUSH_0_5_23, const __grid_constant__ sglang_g4_push<4> params)
KERNEL(G4_1SHOT_PULL, const __grid_constant__ sglang_g4_pull<8> params)
KERNEL(G4_2SHOT_PULL, const __grid_constant__ sglang_g4_pull<8> params)
KERNEL(G4_2SHOT_PUSH, const __grid_constant__ sglang_g4_two_shot_push<4> params)
KERNEL(G4_2SHOT_PUSH_0_5_23, const __grid_constant__ sglang_g4_push<8> params)
KERNEL(NVLINK_ALL_REDUCE, const __grid_constant__ sglang_nvlink_push<8> params)
KERNEL(NVLINK_REDUCE_SCATTER, const __grid_constant__ sglang_nvlink_push<4> params)
KERNEL(NVLINK_ALL_GATHER, const __grid_constant__ sglang_nvlink_push<8> params)
KERNEL(SGLANG_PUSH_RESIDUAL, const __grid_constant__ sglang_fusion params)
KERNEL(SGLANG_PUSH_NORM, const __grid_constant__ sglang_fusion params)
using sglang_finalize_0_5_21 = sglang_finalize<8, 6, 8>;
using sglang_finalize_0_5_22 = sglang_finalize<4, 7, 8>;
using sglang_finalize_0_5_23 = sglang_finalize<8, 7, 11>;
KERNEL(SGLANG_FINALIZE_0_5_21, const __grid_constant__ sglang_finalize_0_5_21 params)
KERNEL(SGLANG_FINALIZE_0_5_22, const __grid_constant__ sglang_finalize_0_5_22 params)
KERNEL(SGLANG_FINALIZE_0_5_23, const __grid_constant__ sglang_finalize_0_5_23 params)

/* num_vecs (or num_elements) and rank in a struct that has both. */
template <typename Struct>
static Struct
sglang_vecs(uint32_t num_vecs, uint32_t rank)
{
	Struct params = layout_poisoned<Struct>();

	params.num_vecs = num_vecs;
	params.rank = rank;
	return params;
}

static sglang_trt_params
sglang_trt(size_t elts_size, size_t elements, size_t ranks, size_t rank)
{
	sglang_trt_params params = layout_poisoned<sglang_trt_params>();

	params.elts_size = elts_size;
	params.elts_total = elements;
	params.ranks_per_node = ranks;
	params.local_rank = rank;
	return params;
}

static void
add_sglang_g0_to_g2(std::vector<layout_launch> &all)
{
	const char *impl = "sglang_custom";
	void *const p = POINTER;
	const pointers<8> signals = layout_poisoned<pointers<8>>();
	const sglang_g2_pull pull = layout_poisoned<sglang_g2_pull>();
	sglang_g2_params g2 = {p, 0, 0};
	sglang_g2_push_data push = layout_poisoned<sglang_g2_push_data>();

	for (uint32_t step : STEPS) {
		const int packs = int(step);
		const uint32_t items = step * 8;
		ADD(all, G0_ONE_SHOT, impl, items * 2, 6, sglang_trt(2, items, 8, 6));
		ADD(all, G0_TWO_SHOT, impl, items * 4, 0, sglang_trt(4, items, 4, 0));
		ADD(all, G1_1STAGE, impl, packs * 16, 1, p, signals, p, p, 1, packs);
		ADD(all, G1_2STAGE, impl, packs * 16, 2, p, signals, p, p, 2, packs);
		g2.num_items = items;
		g2.rank = 5;
		ADD(all, G2_ONE_SHOT, impl, items * 2, 5, p, g2, pull);
		g2.rank = 0;
		ADD(all, G2_TWO_SHOT, impl, items * 4, 0, p, g2, pull);
		push.num_items = items;
		push.rank = 3;
		ADD(all, G2_PUSH, impl, items * 2, 3, push, p);
	}
	/* elements of another size than the name's; another world; rank 4 of 4 */
	ADD(all, G0_ONE_SHOT, impl, UNKNOWN, UNKNOWN, sglang_trt(4, 4096, 8, 0));
	ADD(all, G0_TWO_SHOT, impl, UNKNOWN, UNKNOWN, sglang_trt(4, 4096, 8, 0));
	push.rank = 4;
	ADD(all, G2_PUSH, impl, UNKNOWN, UNKNOWN, push, p);
}

static void
add_sglang_g3_to_g4(std::vector<layout_launch> &all)
{
	const char *impl = "sglang_custom";
	sglang_g3_params<8> push = layout_poisoned<sglang_g3_params<8>>();
	sglang_g3_params<2> pull = layout_poisoned<sglang_g3_params<2>>();

	for (uint32_t step : STEPS) {
		push.num_elements = pull.num_elements = step * 8;
		push.rank = 4;
		pull.rank = 1;
		ADD(all, G3_PUSH, impl, step * 8 * 2, 4, push);
		ADD(all, G3_PULL, impl, step * 8 * 4, 1, pull);
		ADD(all, G4_1SHOT_PUSH, impl, step * 16, 2, sglang_vecs<sglang_g4_push<8>>(step, 2));
		ADD(all, G4_1SHOT_PUSH_0_5_23, impl, step * 16, 3, sglang_vecs<sglang_g4_push<4>>(step, 3));
		ADD(all, G4_2SHOT_PUSH_0_5_23, impl, step * 16, 5, sglang_vecs<sglang_g4_push<8>>(step, 5));
		ADD(all, G4_1SHOT_PULL, impl, step * 16, 1, sglang_vecs<sglang_g4_pull<8>>(step, 1));
		ADD(all, G4_2SHOT_PULL, impl, step * 16, 7, sglang_vecs<sglang_g4_pull<8>>(step, 7));
		ADD(all, G4_2SHOT_PUSH, impl, step * 16, 3, sglang_vecs<sglang_g4_two_shot_push<4>>(step, 3));
	}
	push.rank = 8;
	ADD(all, G3_PUSH, impl, UNKNOWN, UNKNOWN, push);
	/* 1 GiB and 16 bytes */
	ADD(all, G4_2SHOT_PULL, impl, UNKNOWN, UNKNOWN, sglang_vecs<sglang_g4_pull<8>>((1U << 26) + 1, 0));
	ADD(all, G4_2SHOT_PUSH, impl, UNKNOWN, UNKNOWN, sglang_vecs<sglang_g4_two_shot_push<4>>(0, 0));
}

template <typename Struct>
static Struct
sglang_tokens(uint32_t num_tokens, uint32_t rank)
{
	Struct params = layout_poisoned<Struct>();

	params.num_tokens = num_tokens;
	params.rank = rank;
	return params;
}

/* A tensor of num_push_vecs goes out, one of num_poll_vecs comes in. */
template <unsigned int world>
static sglang_nvlink_push<world>
sglang_nvlink(uint32_t num_push_vecs, uint32_t num_poll_vecs, uint32_t rank)
{
	sglang_nvlink_push<world> params = layout_poisoned<sglang_nvlink_push<world>>();

	params.num_push_vecs = num_push_vecs;
	params.num_poll_vecs = num_poll_vecs;
	params.rank = rank;
	return params;
}

static void
add_sglang_fused(std::vector<layout_launch> &all)
{
	const char *impl = "sglang_custom";

	for (uint32_t step : STEPS) {
		const int64_t row = int64_t(step) * 7168 * 2;
		ADD(all, NVLINK_ALL_REDUCE, impl, step * 16, 1, sglang_nvlink<8>(step, step, 1));
		ADD(all, NVLINK_REDUCE_SCATTER, impl, step * 64, 1, sglang_nvlink<4>(step * 4, step, 1));
		ADD(all, NVLINK_ALL_GATHER, impl, step * 128, 7, sglang_nvlink<8>(step, step * 8, 7));
		ADD(all, SGLANG_PUSH_RESIDUAL, impl, step * 16, 0, sglang_vecs<sglang_fusion>(step, 0));
		ADD(all, SGLANG_PUSH_NORM, impl, step * 16, 7, sglang_vecs<sglang_fusion>(step, 7));
		ADD(all, SGLANG_FINALIZE_0_5_21, impl, row, 7,
			sglang_tokens<sglang_finalize_0_5_21>(step, 7));
		ADD(all, SGLANG_FINALIZE_0_5_22, impl, int64_t(step) * 4096 * 2, 3,
			sglang_tokens<sglang_finalize_0_5_22>(step, 3));
		ADD(all, SGLANG_FINALIZE_0_5_23, impl, row, 0,
			sglang_tokens<sglang_finalize_0_5_23>(step, 0));
	}
	/* rank 8 of 8 */
	ADD(all, NVLINK_ALL_GATHER, impl, UNKNOWN, UNKNOWN, sglang_nvlink<8>(448, 3584, 8));
}

#endif
