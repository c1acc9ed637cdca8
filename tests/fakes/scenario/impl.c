/* SPDX-License-Identifier: Apache-2.0 */
/* How each implementation looks: mangled kernel name, parameter sizes, where the message size stands. */
#include "scenario.h"

#include <string.h>

static void
fill_nothing(void **parameters, uint64_t bytes, int rank, int world)
{
	(void)parameters;
	(void)bytes;
	(void)rank;
	(void)world;
}

/* cross_device_reduce(RankData *, RankSignals, Signal *, T *result, int rank, int size): size in packs of 16
 * bytes. */
static void
fill_cross_device_reduce(void **parameters, uint64_t bytes, int rank, int world)
{
	(void)world;
	*(int *)parameters[4] = rank;
	*(int *)parameters[5] = (int)(bytes / 16);
}

/* AllReduceFusionParams by value: int nranks, rank, size (elements), hidden_dim, ... */
static void
fill_fusion(void **parameters, uint64_t bytes, int rank, int world)
{
	int *head = parameters[0];

	head[0] = world;
	head[1] = rank;
	head[2] = (int)(bytes / 2);
	head[3] = (int)(bytes / 2);
}

/* one_shot_all_reduce_kernel(T **, T *, T *, size_t offset, size_t numel, uint32_t **, size_t rank, size_t
 * world) */
static void
fill_symm_mem(void **parameters, uint64_t bytes, int rank, int world)
{
	*(uint64_t *)parameters[4] = bytes / 2;
	*(uint64_t *)parameters[6] = (uint64_t)rank;
	*(uint64_t *)parameters[7] = (uint64_t)world;
}

static const struct scenario_impl impls[] = {
	{"nccl", "nccl", "_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE",
		"4096:16", fill_nothing, true, "AllReduce", "all_reduce"},
	{"nccl_all_gather", "nccl", "_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE",
		"4096:16", fill_nothing, true, "AllGather", "all_gather"},
	{"nccl_symmetric", "nccl_symmetric",
		"_Z46ncclSymkDevKernel_AllReduce_AGxLLMC_R_sum_bf1621ncclSymkDevWorkArgs4K", "4096:16",
		fill_nothing, true, "AllReduce", "all_reduce"},
	{"vllm_custom", "vllm_custom",
		"_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li%dEEEvPNS_8RankDataENS_"
		"11RankSignalsEPNS_6SignalEPT_ii",
		"8 64:8 8 8 4 4", fill_cross_device_reduce, false, "AllReduce", "all_reduce"},
	/* As since 2026: the same name, room for sixteen peers. */
	{"vllm_custom_16", "vllm_custom",
		"_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li%dEEEvPNS_8RankDataENS_"
		"11RankSignalsEPNS_6SignalEPT_ii",
		"8 128:8 8 8 4 4", fill_cross_device_reduce, false, "AllReduce", "all_reduce"},
	{"vllm_custom_2stage", "vllm_custom",
		"_ZN4vllm26cross_device_reduce_2stageI13__nv_bfloat16Li%dEEEvPNS_8RankDataENS_"
		"11RankSignalsEPNS_6SignalEPT_ii",
		"8 64:8 8 8 4 4", fill_cross_device_reduce, false, "AllReduce", "all_reduce"},
	{"sglang_custom", "sglang_custom",
		"_ZN6sglang26cross_device_reduce_1stageI13__nv_bfloat16Li%dEEEvPNS_8RankDataENS_"
		"11RankSignalsEPNS_6SignalEPT_ii",
		"8 64:8 8 8 4 4", fill_cross_device_reduce, false, "AllReduce", "all_reduce"},
	{"flashinfer", "flashinfer",
		"_ZN10flashinfer23trtllm_allreduce_fusion39allreduce_fusion_kernel_oneshot_lamportILNS0_"
		"22AllReduceFusionPatternE1E13__nv_bfloat16Li%dELb1ELb0EEEvNS0_21AllReduceFusionParamsIT0_EE",
		"136:8", fill_fusion, false, "AllReduce", "all_reduce"},
	{"torch_symm_mem", "torch_symm_mem",
		"_ZN58_GLOBAL__N__c0ffee01_25_CUDASymmetricMemoryOps_cu_c0ffee0226one_shot_all_reduce_"
		"kernelIN3c108BFloat16E"
		"Li16ELi%dEEEvPPT_S4_S4_mmPPjmm",
		"8 8 8 8 8 8 8 8", fill_symm_mem, false, "AllReduce", "all_reduce"},
};

const struct scenario_impl *
scenario_impl_find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(impls) / sizeof(impls[0]); i++)
		if (strcmp(impls[i].name, name) == 0)
			return &impls[i];
	return NULL;
}
