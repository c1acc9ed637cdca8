/* SPDX-License-Identifier: Apache-2.0 */
/* All-to-alls of experts (DeepEP, TensorRT-LLM's), FlashInfer's kernels for boxes without NVLink, and NCCL's
 * work by value: declarations by their sources, as layouts_engines.cuh. */
#ifndef CS_TESTS_GPU_LAYOUTS_EXPERTS_CUH
#define CS_TESTS_GPU_LAYOUTS_EXPERTS_CUH

#include "layouts.cuh"

/* ---- FlashInfer's PCIe and Ulysses kernels (0.7.4) ---- */

struct pcie_all_gather {
	uint64_t signals[8], staging0[8], staging1[8];
	void *input, *output;
	int64_t shard_packs, pack_stride;
	int max_blocks, world_size;
	size_t rest[3];
};
struct pcie_reduce_scatter {
	uint64_t signals[8], staging0[8], staging1[8];
	void *input, *output;
	int64_t output_packs, pack_stride;
	int max_blocks, world_size, rank;
	size_t rest[3];
};
struct pcie_push {
	uint64_t tmp[8], signals[8];
	void *input, *output, *epoch_slots, *scratch_state;
	int num_packs, rank_stride, epoch_stride, rank, max_blocks;
};
struct pcie_push_2 {
	uint64_t tmp[2];
	void *input, *output, *epoch_slots, *scratch_state;
	int num_packs, rank_stride, rank;
};
static_assert(sizeof(pcie_all_gather) == 256 && sizeof(pcie_reduce_scatter) == 264 &&
		      sizeof(pcie_push) == 184 && sizeof(pcie_push_2) == 64,
	"as in FlashInfer 0.7.4");

#define PCIE(rest)      _ZN10flashinfer4comm8pcie_ipc##rest
#define PCIE_ALL_GATHER PCIE(10all_gather6detail16flat_push_kernelILi8ELi3EEEvNS3_12KernelParamsE)
#define PCIE_REDUCE_SCATTER                                                                                  \
	PCIE(14reduce_scatter6detail20flat_one_pack_kernelI6__halfLi4ELi0EEEvNS2_12KernelParamsE)
#define PCIE_TWO_SHOT PCIE(26ipc_rsag_push_param_kernelI6__halfLi4ELb1EEEvNS1_20PushOneshotParamDataIT_EE)
#define PCIE_TWO_SHOT_8                                                                                      \
	PCIE(37ipc_topo_rsag8_ring_push_param_kernelI13__nv_bfloat16Lb1EEEvNS1_20PushOneshotParamDataIT_EE)
#define PCIE_ONE_SHOT                                                                                        \
	PCIE(25push_oneshot_param_kernelI13__nv_bfloat16Li8ELb1ELb1EEEvNS1_20PushOneshotParamDataIT_EE)
#define PCIE_ONE_SHOT_2                                                                                      \
	PCIE(26ipc_tp2_remote_push_kernelI13__nv_bfloat16Lb1ELb1EEEvNS1_20IpcTp2RemotePushDataIT_EE)
#define ULYSSES                                                                                              \
	_ZN10flashinfer4comm7ulysses18ulysses_a2a_kernelI13__nv_bfloat16Li8ELi0EEEvPKT_N4vllm8RankDataENS7_11RankSignalsEPNS7_6SignalEiiiiib

KERNEL(PCIE_ALL_GATHER, pcie_all_gather params)
KERNEL(PCIE_REDUCE_SCATTER, pcie_reduce_scatter params)
KERNEL(PCIE_TWO_SHOT, const __grid_constant__ pcie_push params)
KERNEL(PCIE_TWO_SHOT_8, const __grid_constant__ pcie_push params)
KERNEL(PCIE_ONE_SHOT, const __grid_constant__ pcie_push params)
KERNEL(PCIE_ONE_SHOT_2, const __grid_constant__ pcie_push_2 params)
KERNEL(ULYSSES, void *in, pointers<8> out, pointers<8> signals, void *self, int rank, int batch, int sequence,
	int heads, int dim, bool aligned)

template <typename Struct>
static Struct
packs(int count, int rank)
{
	Struct params = layout_poisoned<Struct>();

	params.num_packs = count;
	params.rank = rank;
	return params;
}

static void
add_pcie(std::vector<layout_launch> &all)
{
	const char *impl = "flashinfer";
	void *const p = POINTER;
	pcie_all_gather gather = layout_poisoned<pcie_all_gather>();
	pcie_reduce_scatter scatter = layout_poisoned<pcie_reduce_scatter>();
	const pointers<8> eight = layout_poisoned<pointers<8>>();

	gather.world_size = 8;
	scatter.world_size = 4;
	scatter.rank = 2;
	for (uint32_t step : STEPS) {
		const int n = int(step);
		gather.shard_packs = scatter.output_packs = n;
		ADD(all, PCIE_ALL_GATHER, impl, n * 16 * 8, UNKNOWN, gather);
		ADD(all, PCIE_REDUCE_SCATTER, impl, n * 16 * 4, 2, scatter);
		ADD(all, PCIE_TWO_SHOT, impl, n * 16, 3, packs<pcie_push>(n, 3));
		ADD(all, PCIE_TWO_SHOT_8, impl, n * 16, 5, packs<pcie_push>(n, 5));
		ADD(all, PCIE_ONE_SHOT, impl, n * 16, 7, packs<pcie_push>(n, 7));
		ADD(all, PCIE_ONE_SHOT_2, impl, n * 16, 1, packs<pcie_push_2>(n, 1));
		/* one batch of n tokens of each rank, 4 heads of 128 for each rank */
		ADD(all, ULYSSES, impl, int64_t(n) * 4 * 8 * 128 * 2, 6, p, eight, eight, p, 6, 1, n, 4, 128,
			true);
	}
	gather.world_size = 4;
	ADD(all, PCIE_ALL_GATHER, impl, UNKNOWN, UNKNOWN, gather);
	ADD(all, PCIE_ONE_SHOT_2, impl, UNKNOWN, UNKNOWN, packs<pcie_push_2>(64, 2));
}

/* ---- TensorRT-LLM's all-to-all in FlashInfer 0.7.4 ---- */

struct a2a_dispatch {
	void *sources[4], *receive[256][4];
	int payload_bytes[4];
	unsigned char rest[17608 - 8240];
};
struct a2a_combine {
	unsigned char bytes[4192];
};
static_assert(sizeof(a2a_dispatch) == 17608 && sizeof(a2a_combine) == 4192, "as in FlashInfer 0.7.4");

#define A2A_DISPATCH                                                                                         \
	_ZN12tensorrt_llm3_v17kernels8moe_comm20moeA2ADispatchKernelILi6ELb0ELb0ELb1EEEvPKiNS2_22DispatchKernelPointersEiiiiiii
#define A2A_COMBINE                                                                                          \
	_ZN12tensorrt_llm3_v17kernels8moe_comm19moeA2ACombineKernelI13__nv_bfloat16Li6ELb0ELb0EEEvNS2_21CombineKernelPointersEiiiiii

KERNEL(A2A_DISPATCH, void *experts, a2a_dispatch pointers, int payloads, int max_tokens, int tokens, int rank,
	int ranks, int num_experts, int statistics)
KERNEL(A2A_COMBINE, a2a_combine pointers, int max_tokens, int elements, int tokens, int rank, int ranks,
	int stride)

/* Upper bounds: every token to each of its 6 experts. */
static void
add_trtllm_experts(std::vector<layout_launch> &all)
{
	void *const p = POINTER;
	a2a_dispatch dispatch = layout_poisoned<a2a_dispatch>();
	const a2a_combine combine = layout_poisoned<a2a_combine>();

	dispatch.payload_bytes[0] = 7168;
	dispatch.payload_bytes[1] = 56;
	dispatch.payload_bytes[2] = 24;
	dispatch.payload_bytes[3] = 0;
	for (int tokens : {1, 16, 1024}) {
		ADD(all, A2A_DISPATCH, "trtllm", int64_t(tokens) * 6 * 7248, 9, p, dispatch, 3, 1024, tokens,
			9, 16, 256, 0);
		ADD(all, A2A_COMBINE, "trtllm", int64_t(tokens) * 6 * 7168 * 2, 3, combine, 1024, 7168,
			tokens, 3, 16, 7168);
	}
	ADD(all, A2A_COMBINE, "trtllm", UNKNOWN, UNKNOWN, combine, 64, 7168, 128, 3, 16, 7168);
}

/* ---- DeepEP 1.2.1, and its successor under `legacy` ---- */

#define DEEP_EP_LL_DISPATCH                                                                                  \
	_ZN7deep_ep12internode_ll8dispatchILb1ELb0ELi7168EEEvPvS2_PiPlS3_S3_S4_S2_S3_S2_PKvPKlS3_S3_S3_iiiiiiiiibi
#define DEEP_EP_LL_DISPATCH_MASK                                                                             \
	_ZN7deep_ep6legacy12internode_ll8dispatchILb1ELb0ELi7168EEEvPvS3_PiPlS4_S4_S4_S5_S3_S4_S3_PKvPKlS4_S4_S4_iiiiiiiiibi
#define DEEP_EP_LL_COMBINE                                                                                   \
	_ZN7deep_ep12internode_ll7combineILb0ELi7168ELi9ELi4EEEvPvS2_PiS2_PKvPKlPKfPKiS7_PlS3_iS3_iiiiiiiiiib
#define DEEP_EP_DISPATCH                                                                                     \
	_ZN7deep_ep9intranode8dispatchILi8ELi768ELi8192EEEvP4int4PfPiPlS4_S5_S5_PKS2_PKfPKlSA_PKbPKiiiiiiiiiPPviii
#define DEEP_EP_COMBINE                                                                                      \
	_ZN7deep_ep6legacy9intranode7combineI13__nv_bfloat16Li8ELi768ELi4096EEEvPT_PfPKS4_PKfS8_S8_PKiSC_SC_PiiiiiPPviii
#define DEEP_EP_INTERNODE                                                                                    \
	_ZN7deep_ep9internode8dispatchILb0ELi4ELb0ELi16384ELi7ELi4EEEvP4int4PfPlS4_PNS0_10SourceMetaEPKS2_PKfPKlSB_PiSE_SE_SE_PKiSG_SG_SG_PKbiiiiiiiPviiPSJ_iiii
#define DEEP_EP_INTERNODE_COMBINE                                                                            \
	_ZN7deep_ep9internode7combineILb0ELi4E13__nv_bfloat16Li24ELi16384ELi9248ELi4ELi6ELi24ELi16EEEvP4int4PfPKbPKS3_PKfS9_S9_PKiSD_PKNS0_10SourceMetaESD_SD_SD_iiiiPviiPSH_iiii

#define TEN_POINTERS                                                                                         \
	void *p0, void *p1, void *p2, void *p3, void *p4, void *p5, void *p6, void *p7, void *p8, void *p9
#define P10 p, p, p, p, p, p, p, p, p, p

KERNEL(DEEP_EP_LL_DISPATCH, TEN_POINTERS, void *p10, void *p11, void *p12, void *p13, void *p14,
	int next_clean, int tokens, int max_tokens, int topk, int experts, int rank, int ranks, int groups,
	int warps, bool round_scale, int phases)
KERNEL(DEEP_EP_LL_DISPATCH_MASK, TEN_POINTERS, void *p10, void *p11, void *p12, void *p13, void *p14,
	void *p15, int next_clean, int tokens, int max_tokens, int topk, int experts, int rank, int ranks,
	int groups, int warps, bool round_scale, int phases)
KERNEL(DEEP_EP_LL_COMBINE, TEN_POINTERS, void *p10, int next_clean, void *p12, int tokens, int hidden,
	int topk, int max_tokens, int experts, int rank, int ranks, int groups, int warps, int phases,
	bool zero_copy)
KERNEL(DEEP_EP_DISPATCH, TEN_POINTERS, void *p10, void *p11, void *p12, int tokens, int worst,
	int hidden_int4, int topk, int experts, int scales, int stride_token, int stride_hidden,
	void *buffers, int rank, int send, int receive)
KERNEL(DEEP_EP_COMBINE, TEN_POINTERS, int tokens, int receive_tokens, int hidden, int topk, void *buffers,
	int rank, int send, int receive)
KERNEL(DEEP_EP_INTERNODE, TEN_POINTERS, void *p10, void *p11, void *p12, void *p13, void *p14, void *p15,
	void *p16, void *p17, int tokens, int hidden_int4, int scales, int topk, int experts,
	int stride_token, int stride_hidden, void *rdma, int rdma_send, int rdma_receive, void *buffers,
	int send, int receive, int rank, int ranks)
KERNEL(DEEP_EP_INTERNODE_COMBINE, TEN_POINTERS, void *p10, void *p11, void *p12, int tokens, int combined,
	int hidden, int topk, void *rdma, int rdma_send, int rdma_receive, void *buffers, int send,
	int receive, int rank, int ranks)

static void
add_deep_ep(std::vector<layout_launch> &all)
{
	const char *impl = "deep_ep";
	void *const p = POINTER;

	for (int tokens : {1, 128, 1024}) {
		const int64_t low_latency = int64_t(tokens) * 8 * 7168 * 2;
		ADD(all, DEEP_EP_LL_DISPATCH, impl, low_latency, 9, P10, p, p, p, p, p, 77, tokens, 1024, 8,
			256, 9, 16, 4, 8, false, 3);
		ADD(all, DEEP_EP_LL_DISPATCH_MASK, impl, low_latency, 15, P10, p, p, p, p, p, p, 77, tokens,
			1024, 8, 256, 15, 16, 4, 8, false, 3);
		ADD(all, DEEP_EP_LL_COMBINE, impl, low_latency, 1, P10, p, 77, p, tokens, 7168, 8, 1024, 256,
			1, 16, 4, 8, 3, false);
		/* 7168 in 8 bits and a scale for each 128 of them, to each of 8 ranks */
		ADD(all, DEEP_EP_DISPATCH, impl, int64_t(tokens) * 8 * (448 * 16 + 56 * 4), 5, P10, p, p, p,
			tokens, 0, 448, 8, 256, 56, 1, 1, p, 5, 6, 256);
		ADD(all, DEEP_EP_COMBINE, impl, int64_t(tokens) * 7168 * 2, 2, P10, tokens, 99, 7168, 8, p, 2,
			6, 256);
		ADD(all, DEEP_EP_INTERNODE, impl, int64_t(tokens) * 32 * 896 * 16, 17, P10, p, p, p, p, p, p,
			p, p, tokens, 896, 0, 8, 256, 0, 0, p, 6, 128, p, 6, 256, 17, 32);
		ADD(all, DEEP_EP_INTERNODE_COMBINE, impl, int64_t(tokens) * 7168 * 2, 31, P10, p, p, p,
			tokens, 99, 7168, 8, p, 6, 128, p, 6, 256, 31, 32);
	}
	/* 250 experts are no multiple of 16 ranks; more tokens than there may be; another hidden size */
	ADD(all, DEEP_EP_LL_DISPATCH, impl, UNKNOWN, UNKNOWN, P10, p, p, p, p, p, 77, 128, 1024, 8, 250, 9,
		16, 4, 8, false, 3);
	ADD(all, DEEP_EP_LL_DISPATCH_MASK, impl, UNKNOWN, UNKNOWN, P10, p, p, p, p, p, p, 77, 128, 64, 8, 256,
		9, 16, 4, 8, false, 3);
	ADD(all, DEEP_EP_LL_COMBINE, impl, UNKNOWN, UNKNOWN, P10, p, 77, p, 128, 4096, 8, 1024, 256, 1, 16, 4,
		8, 3, false);
}

/* ---- NCCL's work by value: ncclWorkElem of 2.9 to 2.11, and of 2.12 ---- */

struct nccl_work_2_11 {
	void *comm;
	uint16_t threads, function;
	uint8_t registered, direct, active, pointer;
	void *send, *receive;
	size_t count, last_chunk;
	uint32_t root;
	uint8_t bid, channels;
	uint64_t argument;
};
struct nccl_work_2_12 {
	uint16_t function;
	uint8_t type, warps_and_last;
	uint8_t registered, direct, pointer;
	void *send, *receive;
	size_t count, last_chunk;
	uint32_t root;
	uint8_t bid, channels;
	uint64_t argument, pad;
};
static_assert(sizeof(nccl_work_2_11) == 64 && sizeof(nccl_work_2_12) == 64, "as in NCCL 2.11.4 and 2.12.12");

#define NCCL_2_11 _Z37ncclKernel_AllReduce_RING_LL_Sum_half12ncclWorkElem
#define NCCL_2_12 _Z38ncclKernel_AllReduce_TREE_LL_Sum_floatP11ncclDevComm12ncclWorkElem

KERNEL(NCCL_2_11, nccl_work_2_11 first)
KERNEL(NCCL_2_12, void *comm, nccl_work_2_12 first)

static void
add_nccl_by_value(std::vector<layout_launch> &all)
{
	nccl_work_2_11 before = layout_poisoned<nccl_work_2_11>();
	nccl_work_2_12 after = layout_poisoned<nccl_work_2_12>();

	before.active = 2;
	after.type = 1;
	after.warps_and_last = 16 | 1 << 5;
	for (uint32_t step : STEPS) {
		before.count = after.count = step;
		ADD(all, NCCL_2_11, "nccl", int64_t(step) * 2, UNKNOWN, before);
		ADD(all, NCCL_2_12, "nccl", int64_t(step) * 4, UNKNOWN, POINTER, after);
	}
	/* more works follow */
	before.active = 1;
	after.warps_and_last = 16;
	ADD(all, NCCL_2_11, "nccl", UNKNOWN, UNKNOWN, before);
	ADD(all, NCCL_2_12, "nccl", UNKNOWN, UNKNOWN, POINTER, after);
}

#endif
