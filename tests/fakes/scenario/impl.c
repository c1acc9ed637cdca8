/* SPDX-License-Identifier: Apache-2.0 */
/* How each implementation looks: mangled kernel name, parameter sizes, where the message size stands. */
#include "scenario.h"

#include <string.h>

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
	/* NCCL's block by value: ncclDevKernelArgsStorage<4096>, ncclSymkDevWorkArgs4K. */
	{"nccl", "nccl", NULL, "4096:16", NULL, true, false, "AllReduce", "all_reduce", NULL},
	{"nccl_all_gather", "nccl", NULL, "4096:16", NULL, true, false, "AllGather", "all_gather", NULL},
	{"nccl_reduce_scatter", "nccl", NULL, "4096:16", NULL, true, false, "ReduceScatter", "reduce_scatter",
		NULL},
	{"nccl_broadcast", "nccl", NULL, "4096:16", NULL, true, false, "Broadcast", "broadcast", NULL},
	{"nccl_symmetric", "nccl_symmetric", NULL, "4096:16", NULL, true, true, "AllReduce", "all_reduce",
		NULL},
	{"vllm_custom", "vllm_custom",
		"_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li%dEEEvPNS_8RankDataENS_"
		"11RankSignalsEPNS_6SignalEPT_ii",
		"8 64:8 8 8 4 4", fill_cross_device_reduce, false, false, "AllReduce", "all_reduce",
		"one_shot"},
	/* As since 2026: the same name, room for sixteen peers. */
	{"vllm_custom_16", "vllm_custom",
		"_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li%dEEEvPNS_8RankDataENS_"
		"11RankSignalsEPNS_6SignalEPT_ii",
		"8 128:8 8 8 4 4", fill_cross_device_reduce, false, false, "AllReduce", "all_reduce",
		"one_shot"},
	{"vllm_custom_2stage", "vllm_custom",
		"_ZN4vllm26cross_device_reduce_2stageI13__nv_bfloat16Li%dEEEvPNS_8RankDataENS_"
		"11RankSignalsEPNS_6SignalEPT_ii",
		"8 64:8 8 8 4 4", fill_cross_device_reduce, false, false, "AllReduce", "all_reduce",
		"two_shot"},
	{"sglang_custom", "sglang_custom",
		"_ZN6sglang26cross_device_reduce_1stageI13__nv_bfloat16Li%dEEEvPNS_8RankDataENS_"
		"11RankSignalsEPNS_6SignalEPT_ii",
		"8 64:8 8 8 4 4", fill_cross_device_reduce, false, false, "AllReduce", "all_reduce",
		"one_shot"},
	{"flashinfer", "flashinfer",
		"_ZN10flashinfer23trtllm_allreduce_fusion39allreduce_fusion_kernel_oneshot_lamportILNS0_"
		"22AllReduceFusionPatternE1E13__nv_bfloat16Li%dELb1ELb0EEEvNS0_21AllReduceFusionParamsIT0_EE",
		"136:8", fill_fusion, false, false, "AllReduce", "all_reduce", "one_shot"},
	{"torch_symm_mem", "torch_symm_mem",
		"_ZN58_GLOBAL__N__c0ffee01_25_CUDASymmetricMemoryOps_cu_c0ffee0226one_shot_all_reduce_"
		"kernelIN3c108BFloat16E"
		"Li16ELi%dEEEvPPT_S4_S4_mmPPjmm",
		"8 8 8 8 8 8 8 8", fill_symm_mem, false, false, "AllReduce", "all_reduce", "one_shot"},
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

static const struct scenario_word dtypes[] = {
	{"bf16", "ncclBfloat16", 9, "bfloat16", 2, "bf16"},
	{"f16", "ncclFloat16", 6, "float16", 2, "f16"},
	{"f32", "ncclFloat32", 7, "float32", 4, "f32"},
	{"i32", "ncclInt32", 2, "int32", 4, "u32"},
	{"f8e4m3", "ncclFloat8e4m3", 10, "float8_e4m3", 1, "f8e4m3"},
	/* has no text in NCCL's events */
	{"u8", "Unknown", 1, "uint8", 1, "u8"},
};

static const struct scenario_word algorithms[] = {
	{"tree", "TREE", 0, "tree", 0, "TREE"},
	{"ring", "RING", 1, "ring", 0, "RING"},
	/* runs under the names of ring kernels */
	{"nvls", "NVLS", 4, "nvls", 0, "RING"},
};

static const struct scenario_word protocols[] = {
	{"ll", "LL", 0, "ll", 0, NULL},
	{"ll128", "LL128", 1, "ll128", 0, NULL},
	{"simple", "SIMPLE", 2, "simple", 0, NULL},
};

/* The label is the algorithm, `kernel` the protocol: both are what the variant's name says. */
static const struct scenario_word variants[] = {
	{"AGxLL_R", "AllReduce_AGxLL_R", 0, "one_shot", 0, "ll"},
	{"AGxLLMC_R", "AllReduce_AGxLLMC_R", 0, "one_shot", 0, "ll"},
	{"RSxLD_AGxST", "AllReduce_RSxLD_AGxST", 0, "two_shot", 0, "simple"},
	{"RSxLDMC_AGxSTMC", "AllReduce_RSxLDMC_AGxSTMC", 0, "multimem", 0, "simple"},
};

static const struct scenario_word *
find_word(const struct scenario_word *words, size_t count, const char *name)
{
	size_t i;

	for (i = 0; name && i < count; i++)
		if (strcmp(words[i].name, name) == 0)
			return &words[i];
	return NULL;
}
#define FIND(words, name) find_word(words, sizeof(words) / sizeof((words)[0]), name)

const struct scenario_word *
scenario_dtype_find(const char *name)
{
	return FIND(dtypes, name);
}

const struct scenario_word *
scenario_algorithm_find(const char *name)
{
	return FIND(algorithms, name);
}

const struct scenario_word *
scenario_protocol_find(const char *name)
{
	return FIND(protocols, name);
}

const struct scenario_word *
scenario_variant_find(const char *name)
{
	return FIND(variants, name);
}
