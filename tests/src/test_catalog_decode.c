/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launch parameters -> size, rank, world, for every layout of the built-in rows: launches are laid out here
 * by the declarations of the named sources, every parameter in an allocation of exactly its size and with
 * poison in all bytes that a rule has no business with.
 */
#include "catalog/catalog.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PARAMETERS_MAX  40U
#define FIELDS_MAX      9U
#define POISON          0xabU
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define GLOBAL "_ZN32_GLOBAL__N__78c55bc2_6_sgp_cu_a4"

/* What a value is to the rule: 's' makes the size, 'r' the rank, 'w' the world, 'c' is only checked, 'x'
 * makes a part of the size that may be missing. */
struct field {
	char role;
	uint8_t parameter;
	uint16_t offset;
	uint8_t width;
	uint64_t value;
};

struct layout_case {
	const char *name;
	const char *sizes; /* bytes of each parameter */
	struct field fields[FIELDS_MAX];
	uint64_t bytes;
	int32_t rank;
	int32_t world;
	int without; /* what decode returns when the driver does not give the sizes of parameters */
};

#define VLLM_TAIL "EEvPNS_8RankDataENS_11RankSignalsEPNS_6SignalEPT_ii"
#define FUSION    "_ZN10flashinfer23trtllm_allreduce_fusion"
#define MNNVL     "_ZN10flashinfer22trtllm_mnnvl_allreduce"
#define TRTLLM    "_ZN12tensorrt_llm3_v17kernels"
#define TORCH     "_ZN64_GLOBAL__N__62167398_25_CUDASymmetricMemoryOps_cu_aa69e1bd_13535"

static const struct layout_case cases[] = {
	/* vLLM, before and after RankSignals grew */
	{"_ZN4vllm26cross_device_reduce_1stageI6__halfLi2E" VLLM_TAIL, "8 64 8 8 4 4",
		{{'r', 4, 0, 4, 1}, {'s', 5, 0, 4, 512}}, 8192, 1, 2, 0},
	{"_ZN4vllm26cross_device_reduce_2stageI13__nv_bfloat16Li8E" VLLM_TAIL, "8 128 8 8 4 4",
		{{'r', 4, 0, 4, 7}, {'s', 5, 0, 4, 65536}}, 1048576, 7, 8, 0},
	{"_ZN4vllm34cross_device_reduce_half_butterflyI6__halfLi4EEEvPNS_8RankDataENS_11RankSignalsEPVNS_"
	 "8MetadataEPT_ii",
		"8 64 8 8 4 4", {{'r', 4, 0, 4, 3}, {'s', 5, 0, 4, 16}}, 256, 3, 4, 0},
	{"_ZN4vllm23cross_device_all_gatherILi8EEEvPNS_8RankDataENS_11RankSignalsEPNS_6SignalEPNS_7array_"
	 "tImLi2EEEii",
		"8 128 8 8 4 4", {{'r', 4, 0, 4, 0}, {'s', 5, 0, 4, 10}}, 1280, 0, 8, 0},
	{"_ZN4vllm27cross_device_reduce_scatterI6__halfLi4E" VLLM_TAIL, "8 128 8 8 4 4",
		{{'r', 4, 0, 4, 2}, {'s', 5, 0, 4, 100}}, 6400, 2, 4, 0},
	{"_ZN4vllm24mnnvl_lamport_all_gatherI6__halfLi8EEEvPNS_8RankDataEPKT_PS4_S7_Pjiii", "8 8 8 8 8 4 4 4",
		{{'r', 5, 0, 4, 5}, {'s', 6, 0, 4, 3}}, 384, 5, 8, 0},
	{"_ZN4vllm35mnnvl_lamport_reduce_scatter_kernelIfLi16EEEvPNS_8RankDataEPKT_PS3_Pjiii",
		"8 8 8 8 4 4 4", {{'r', 4, 0, 4, 15}, {'s', 5, 0, 4, 2}}, 512, 15, 16, 0},
	/* SGLang, oldest first */
	{"_ZN7trt_llm22oneShotAllReduceKernelI6__halfLi8ELb1EEEvNS_15AllReduceParamsE", "280",
		{{'c', 0, 0, 8, 2}, {'s', 0, 8, 8, 4096}, {'w', 0, 40, 8, 8}, {'r', 0, 56, 8, 6}}, 8192, 6, 8,
		0},
	{"_ZN7trt_llm22twoShotAllReduceKernelIfLi4ELb1EEEvNS_15AllReduceParamsE", "280",
		{{'c', 0, 0, 8, 4}, {'s', 0, 8, 8, 4096}, {'w', 0, 40, 8, 4}, {'r', 0, 56, 8, 0}}, 16384, 0,
		4, 0},
	{"_ZN6sglang26cross_device_reduce_1stageIfLi6E" VLLM_TAIL, "8 64 8 8 4 4",
		{{'r', 4, 0, 4, 5}, {'s', 5, 0, 4, 2}}, 32, 5, 6, 0},
	{"_ZN6sglang26cross_device_reduce_2stageI6__halfLi4E" VLLM_TAIL, "8 64 8 8 4 4",
		{{'r', 4, 0, 4, 0}, {'s', 5, 0, 4, 4096}}, 65536, 0, 4, 0},
	{GLOBAL "26all_reduce_one_shot_kernelI13__nv_"
		"bfloat16Lj8ELb1EEEvPKN4host11distributed13AllReduceDataENS_"
		"15AllReduceParamsEN6device11distributed14PullControllerE",
		"8 16 64", {{'r', 1, 8, 4, 6}, {'s', 1, 12, 4, 5120}}, 10240, 6, 8, 0},
	{GLOBAL "26all_reduce_two_shot_kernelIfLj8ELb0EEEvPKN4host11distributed13AllReduceDataENS_"
		"15AllReduceParamsEN6device11distributed14PullControllerE",
		"8 16 64", {{'r', 1, 8, 4, 1}, {'s', 1, 12, 4, 1000}}, 4000, 1, 8, 0},
	{GLOBAL "31all_reduce_one_shot_push_kernelI6__halfLj4ELb0EEEvNS_"
		"17AllReducePushDataEN6device11distributed"
		"14PushControllerE",
		"96 8", {{'r', 0, 80, 4, 3}, {'s', 0, 84, 4, 7168}}, 14336, 3, 4, 0},
	{"_ZN6sglang17all_reduce_kernelINS_17AllReducePushImplI13__nv_bfloat16Lj8ELb1EEELj8ELi1EEEvNS_"
	 "15AllReduceParamsIXT0_EEE",
		"248", {{'s', 0, 16, 4, 57344}, {'r', 0, 20, 4, 4}}, 114688, 4, 8, 0},
	{"_ZN6sglang28all_reduce_1shot_push_kernelINS_13LoadStoreImplILi16ELj8ELb1EEE13__nv_"
	 "bfloat16Lj8ELb1EEEvNS_"
	 "19AllReducePushParamsIXT1_EEE",
		"112", {{'s', 0, 16, 4, 448}, {'r', 0, 20, 4, 2}}, 7168, 2, 8, 0},
	{"_ZN6sglang28all_reduce_1shot_pull_kernelINS_13LoadStoreImplILi16ELj4ELb1EEE6__halfLj4ELb1EEEvNS_"
	 "19AllReducePullParamsIXT1_EEE",
		"104", {{'s', 0, 8, 4, 3}, {'r', 0, 12, 4, 1}}, 48, 1, 4, 0},
	{"_ZN6sglang28all_reduce_2shot_pull_kernelINS_13MultiCastImplILi16ELj8EEE13__nv_"
	 "bfloat16Lj8ELb1EEEvNS_"
	 "19AllReducePullParamsIXT1_EEE",
		"168", {{'s', 0, 8, 4, 65536}, {'r', 0, 12, 4, 7}}, 1048576, 7, 8, 0},
	{"_ZN6sglang28all_reduce_2shot_push_kernelI13__nv_bfloat16Lj4ELb1ELb0EEEvNS_"
	 "24AllReduce2ShotPushParamsIXT0_EEE",
		"144", {{'s', 0, 16, 4, 1024}, {'r', 0, 20, 4, 3}}, 16384, 3, 4, 0},
	{"_ZN6sglang28all_reduce_1shot_push_kernelI6__halfLj4ELb0EEEvNS_19AllReducePushParamsIXT0_EEE", "80",
		{{'s', 0, 16, 4, 448}, {'r', 0, 20, 4, 2}}, 7168, 2, 4, 0},
	{"_ZN6sglang28all_reduce_2shot_push_kernelI13__nv_bfloat16Lj8ELb1EEEvNS_19AllReducePushParamsIXT0_"
	 "EEE",
		"112", {{'s', 0, 16, 4, 1024}, {'r', 0, 20, 4, 3}}, 16384, 3, 8, 0},
	{GLOBAL "17all_reduce_kernelINS_17AllReducePullImplI6__halfLj4ELNS_8PullModeE0ELb1EEELj4ELi2EEEvNS_"
		"15AllReduceParamsIXT0_EEE",
		"152", {{'s', 0, 16, 4, 5120}, {'r', 0, 20, 4, 3}}, 10240, 3, 4, 0},
	/* what an all-reduce or reduce-scatter pushes, what an all-gather waits for */
	{"_ZN6sglang18nvlink_push_kernelI13__nv_bfloat16Lb0ELNS_9PrimitiveE3ELj8ELb1EEEvNS_"
	 "20NVLinkCommPushParamsIXT2_EEE",
		"152", {{'r', 0, 28, 4, 5}, {'s', 0, 32, 4, 64}}, 1024, 5, 8, -ENODATA},
	{"_ZN6sglang18nvlink_push_kernelI13__nv_bfloat16Lb1ELNS_9PrimitiveE1ELj4ELb1EEEvNS_"
	 "20NVLinkCommPushParamsIXT2_EEE",
		"120", {{'r', 0, 28, 4, 3}, {'s', 0, 32, 4, 640}}, 10240, 3, 4, -ENODATA},
	{"_ZN6sglang18nvlink_push_kernelI6__halfLb0ELNS_9PrimitiveE2ELj8ELb1EEEvNS_"
	 "20NVLinkCommPushParamsIXT2_EEE",
		"152", {{'r', 0, 28, 4, 7}, {'s', 0, 36, 4, 512}}, 8192, 7, 8, -ENODATA},
	{"_ZN6sglang26all_reduce_push_res_kernelILj8ELb1ELb1EEEvNS_12FusionParamsE", "104",
		{{'r', 0, 48, 4, 0}, {'s', 0, 52, 4, 896}}, 14336, 0, 8, 0},
	/* 0.5.21, 0.5.22, 0.5.23 */
	{"_ZN6sglang30moe_finalize_all_reduce_kernelILj8ELj7168ELj8ELj4ELb1ELb1ELb1E13__nv_"
	 "bfloat16Lb0ELb0ELb0EEEvNS_"
	 "26MoeFinalizeAllReduceParamsIXT_ET6_EE",
		"224", {{'r', 0, 56, 4, 7}, {'s', 0, 60, 4, 6}}, 86016, 7, 8, -ENODATA},
	{"_ZN6sglang30moe_finalize_all_reduce_kernelILj4ELj4096ELj8ELj2ELb1ELb1ELb0EfLb0ELb0ELb0ELb0EEEvNS_"
	 "26MoeFinalizeAllReduceParamsIXT_ET6_EE",
		"200", {{'r', 0, 64, 4, 3}, {'s', 0, 68, 4, 3}}, 24576, 3, 4, -ENODATA},
	{"_ZN6sglang30moe_finalize_all_reduce_kernelILj8ELj7168ELj8ELj4ELb1ELb1ELb1E13__nv_"
	 "bfloat16Lb0ELb0ELb0ELb0ELj1ELb0EEEvNS_26MoeFinalizeAllReduceParamsIXT_ET6_EE",
		"256", {{'r', 0, 64, 4, 0}, {'s', 0, 68, 4, 1}}, 14336, 0, 8, -ENODATA},
	/* FlashInfer */
	{FUSION "39allreduce_fusion_kernel_oneshot_lamportILNS0_22AllReduceFusionPatternE1E13__nv_"
		"bfloat16Li8ELb1EL"
		"b0EEEvNS0_21AllReduceFusionParamsIT0_EE",
		"136", {{'w', 0, 0, 4, 8}, {'r', 0, 4, 4, 3}, {'s', 0, 8, 4, 28672}, {'c', 0, 12, 4, 7168}},
		57344, 3, 8, 0},
	{FUSION "36allreduce_fusion_kernel_twoshot_syncILNS0_22AllReduceFusionPatternE0E6__"
		"halfLi4ELb0EEEvNS0_"
		"21AllReduceFusionParamsIT0_EESt5arrayIiXT1_EES8_",
		"128 16 16",
		{{'w', 0, 0, 4, 4}, {'r', 0, 4, 4, 0}, {'s', 0, 8, 4, 8192}, {'c', 0, 12, 4, 4096}}, 16384, 0,
		4, 0},
	{"_ZN10flashinfer27trtllm_moe_allreduce_fusion51moefinalize_allreduce_fusion_kernel_oneshot_"
	 "lamportI6__"
	 "halfLi4ELb1ELb1ELb0ES2_EEvNS0_32MoeFinalizeAllReduceFusionParamsIT_EE",
		"160", {{'w', 0, 0, 4, 4}, {'r', 0, 4, 4, 2}, {'s', 0, 8, 4, 4096}, {'c', 0, 12, 4, 4096}},
		8192, 2, 4, 0},
	{MNNVL "28oneshotAllreduceFusionKernelILh8E13__nv_bfloat16Lb1ELNS0_9QuantTypeE0E6float4EEvNS0_"
	       "21AllReduceKernelParamsIT0_EE",
		"128", {{'w', 0, 64, 4, 8}, {'r', 0, 68, 4, 1}, {'s', 0, 72, 4, 4}, {'s', 0, 76, 4, 7168}},
		57344, 1, 8, -ENODATA},
	{MNNVL "28oneshotAllreduceFusionKernelILh4E6__halfLb0E6float4EEvPT0_S5_PKS4_S7_S7_PS5_S5_iifiPj",
		"8 8 8 8 8 8 8 4 4 4 4 8", {{'s', 7, 0, 4, 3}, {'s', 8, 0, 4, 512}, {'r', 10, 0, 4, 2}}, 3072,
		2, 4, -ENODATA},
	{MNNVL "28oneshotAllreduceFusionKernelILh4E6__halfLb0E6float4EEvPT0_S5_PKS4_S7_S7_PS5_S5_iiffiPj",
		"8 8 8 8 8 8 8 4 4 4 4 4 8", {{'s', 7, 0, 4, 3}, {'s', 8, 0, 4, 512}, {'r', 11, 0, 4, 3}},
		3072, 3, 4, -ENODATA},
	{MNNVL "22twoshotAllreduceKernelILh8E13__nv_bfloat166float4EEvPT0_PKS4_PS5_S5_jjjPjb",
		"8 8 8 8 4 4 4 8 1", {{'s', 4, 0, 4, 128}, {'s', 5, 0, 4, 7168}, {'r', 6, 0, 4, 6}}, 1835008,
		6, 8, -ENODATA},
	{MNNVL "22twoshotAllreduceKernelILh4E6__halfLb1E6float4EEvNS0_21AllReduceKernelParamsIT0_EE", "128",
		{{'w', 0, 64, 4, 4}, {'r', 0, 68, 4, 3}, {'s', 0, 72, 4, 128}, {'s', 0, 76, 4, 4096}},
		1048576, 3, 4, -ENODATA},
	{MNNVL "24twoshot_allreduce_kernelILi4EfEEvPT0_S3_PS3_S3_iiiiPjb", "8 8 8 8 4 4 4 4 8 1",
		{{'s', 4, 0, 4, 9}, {'s', 6, 0, 4, 4096}, {'r', 7, 0, 4, 1}}, 147456, 1, 4, 0},
	{"_ZN10flashinfer16trtllm_allreduce22oneShotAllReduceKernelI6__halfLi8ELb1ELb0EEEvNS0_"
	 "15AllReduceParamsIT_EE",
		"896", {{'s', 0, 0, 8, 4096}, {'w', 0, 32, 8, 8}, {'r', 0, 40, 8, 7}}, 8192, 7, 8, 0},
	{"_ZN10flashinfer16trtllm_allreduce22twoShotAllReduceKernelIfLi8ELb0ELb1ELb0ELb0EEEvNS0_"
	 "15AllReduceParamsIT_EE",
		"896", {{'s', 0, 0, 8, 100}, {'w', 0, 32, 8, 8}, {'r', 0, 40, 8, 0}}, 400, 0, 8, 0},
	{"_ZN10flashinfer16trtllm_allreduce13reduce_fusion31one_shot_all_reduce_norm_kernelI6__"
	 "halfLi4ELb1ELb1EEEv"
	 "NS0_15AllReduceParamsIT_EE",
		"896", {{'s', 0, 0, 8, 5120}, {'w', 0, 32, 8, 4}, {'r', 0, 40, 8, 1}}, 10240, 1, 4, 0},
#define PCIE "_ZN10flashinfer4comm8pcie_ipc"
	{PCIE "10all_gather6detail16flat_push_kernelILi8ELi3EEEvNS3_12KernelParamsE", "256",
		{{'s', 0, 208, 8, 448}, {'w', 0, 228, 4, 8}}, 57344, CS_RANK_UNKNOWN, 8, 0},
	{PCIE "14reduce_scatter6detail20flat_one_pack_kernelI6__halfLi4ELi0EEEvNS2_12KernelParamsE", "264",
		{{'s', 0, 208, 8, 448}, {'w', 0, 228, 4, 4}, {'r', 0, 232, 4, 2}}, 28672, 2, 4, 0},
	{PCIE "26ipc_rsag_push_param_kernelI6__halfLi4ELb1EEEvNS1_20PushOneshotParamDataIT_EE", "184",
		{{'s', 0, 160, 4, 2688}, {'r', 0, 172, 4, 3}}, 43008, 3, 4, 0},
	{PCIE "37ipc_topo_rsag8_ring_push_param_kernelI13__nv_bfloat16Lb1EEEvNS1_20PushOneshotParamDataIT_EE",
		"184", {{'s', 0, 160, 4, 2688}, {'r', 0, 172, 4, 5}}, 43008, 5, 8, 0},
	{PCIE "25push_oneshot_param_kernelI13__nv_bfloat16Li8ELb1ELb1EEEvNS1_20PushOneshotParamDataIT_EE",
		"184", {{'s', 0, 160, 4, 64}, {'r', 0, 172, 4, 7}}, 1024, 7, 8, 0},
	{PCIE "26ipc_tp2_remote_push_kernelI13__nv_bfloat16Lb1ELb1EEEvNS1_20IpcTp2RemotePushDataIT_EE", "64",
		{{'s', 0, 48, 4, 64}, {'r', 0, 56, 4, 1}}, 1024, 1, 2, 0},
	{"_ZN10flashinfer4comm7ulysses18ulysses_a2a_kernelI13__nv_bfloat16Li8ELi0EEEvPKT_N4vllm8RankDataENS7_"
	 "11RankSignalsEPNS7_6SignalEiiiiib",
		"8 64 64 8 4 4 4 4 4 1",
		{{'r', 4, 0, 4, 6}, {'s', 5, 0, 4, 2}, {'s', 6, 0, 4, 128}, {'s', 7, 0, 4, 4},
			{'s', 8, 0, 4, 128}},
		2097152, 6, 8, 0},
	/* TensorRT-LLM: four bytes further */
	{TRTLLM "9ar_fusion39allreduce_fusion_kernel_oneshot_lamportILNS2_22AllReduceFusionPatternE1E13__nv_"
		"bfloat16Li8E"
		"Lb1ELb1EEEvNS2_21AllReduceFusionParamsE",
		"144", {{'w', 0, 0, 4, 8}, {'r', 0, 4, 4, 3}, {'s', 0, 12, 4, 28672}, {'c', 0, 16, 4, 7168}},
		57344, 3, 8, 0},
	{TRTLLM "9ar_fusion36allreduce_fusion_kernel_twoshot_syncILNS2_22AllReduceFusionPatternE1E13__nv_"
		"bfloat16Li4ELb1"
		"EEEvNS2_21AllReduceFusionParamsESt5arrayIiXT1_EES4_",
		"144 16 16",
		{{'w', 0, 0, 4, 4}, {'r', 0, 4, 4, 1}, {'s', 0, 12, 4, 8192}, {'c', 0, 16, 4, 4096}}, 16384,
		1, 4, 0},
	{TRTLLM "9ar_fusion3moe49moereduce_allreduce_fusion_kernel_oneshot_lamportI13__nv_"
		"bfloat16Li8ELb1ELb1ELb0EEEvNS3_"
		"33MoeReductionAllReduceFusionParamsE",
		"200", {{'w', 0, 0, 4, 8}, {'r', 0, 4, 4, 0}, {'s', 0, 12, 4, 7168}, {'c', 0, 16, 4, 7168}},
		14336, 0, 8, 0},
	{TRTLLM "5mnnvl28oneshotAllreduceFusionKernelILh8E13__nv_bfloat16Lb1E6float4EEvPT0_S6_PKS5_S8_S8_PS6_"
		"S6_iifiPj",
		"8 8 8 8 8 8 8 4 4 4 4 8", {{'s', 7, 0, 4, 2}, {'s', 8, 0, 4, 7168}, {'r', 10, 0, 4, 5}},
		28672, 5, 8, 0},
	{TRTLLM "5mnnvl22twoshotAllreduceKernelILh8E13__nv_bfloat166float4EEvPT0_PKS6_PS7_S7_jjjPjb",
		"8 8 8 8 4 4 4 8 1", {{'s', 4, 0, 4, 128}, {'s', 5, 0, 4, 7168}, {'r', 6, 0, 4, 6}}, 1835008,
		6, 8, 0},
	/* 128 columns in 16 bits and 64 in 32, from each of 8 ranks */
	{TRTLLM "5mnnvl44_GLOBAL__N__1eb0bbd1_6_trt_cu_1e376e65_2677025mnnvlAllGatherSplitKernelENS2_"
		"20AllGatherSplitParamsE",
		"80",
		{{'s', 0, 24, 4, 3}, {'x', 0, 28, 4, 128}, {'x', 0, 32, 4, 64}, {'w', 0, 36, 4, 8},
			{'r', 0, 40, 4, 5}},
		12288, 5, 8, 0},
	{TRTLLM "34lowPrecisionTwoShotAllReduceKernelI13__nv_bfloat1613__nv_fp8_e4m3Li4EEEvNS1_"
		"27LowPrecisionAllReduceParamsE",
		"1992", {{'s', 0, 0, 8, 4194304}, {'w', 0, 32, 4, 4}, {'r', 0, 40, 4, 3}}, 8388608, 3, 4, 0},
	/* tokens x topk x (7168 + 56 + 24 + 0) bytes */
	{TRTLLM "8moe_comm20moeA2ADispatchKernelILi6ELb0ELb0ELb1EEEvPKiNS2_22DispatchKernelPointersEiiiiiii",
		"8 17608 4 4 4 4 4 4 4",
		{{'c', 2, 0, 4, 3}, {'c', 3, 0, 4, 64}, {'s', 4, 0, 4, 16}, {'r', 5, 0, 4, 9},
			{'w', 6, 0, 4, 16}, {'x', 1, 8224, 4, 7168}, {'x', 1, 8228, 4, 56},
			{'x', 1, 8232, 4, 24}, {'x', 1, 8236, 4, 0}},
		695808, 9, 16, 0},
	{TRTLLM "8moe_comm19moeA2ACombineKernelI13__nv_bfloat16Li6ELb0ELb0EEEvNS2_"
		"21CombineKernelPointersEiiiiii",
		"4192 4 4 4 4 4 4",
		{{'c', 1, 0, 4, 64}, {'s', 2, 0, 4, 7168}, {'s', 3, 0, 4, 16}, {'r', 4, 0, 4, 9},
			{'w', 5, 0, 4, 16}},
		1376256, 9, 16, 0},
	{TRTLLM "24twoshot_allreduce_kernelILi8E13__nv_bfloat16EEvPT0_S4_PS4_S4_iiiiPjb",
		"8 8 8 8 4 4 4 4 8 1", {{'s', 4, 0, 4, 2}, {'s', 6, 0, 4, 7168}, {'r', 7, 0, 4, 5}}, 28672, 5,
		8, 0},
	{TRTLLM "22oneShotAllReduceKernelI13__nv_bfloat16Li8ELb1ELb0EEEvNS1_15AllReduceParamsE", "400",
		{{'s', 0, 0, 8, 4096}, {'w', 0, 32, 8, 8}, {'r', 0, 40, 8, 4}}, 8192, 4, 8, 0},
	{TRTLLM "22twoShotAllReduceKernelI6__halfLi4ELb0ELb1ELb0ELb0EEEvNS1_15AllReduceParamsE", "400",
		{{'s', 0, 0, 8, 4096}, {'w', 0, 32, 8, 4}, {'r', 0, 40, 8, 3}}, 8192, 3, 4, 0},
	{TRTLLM "13reduce_fusion45lamport_style_one_shot_all_reduce_norm_kernelILi8E6__"
		"halfLi4ELb1ELb1EEEvNS1_15AllReduceParamsE",
		"400", {{'s', 0, 0, 8, 4096}, {'w', 0, 32, 8, 4}, {'r', 0, 40, 8, 3}}, 8192, 3, 4, 0},
	{TRTLLM "13reduce_fusion31one_shot_all_reduce_norm_kernelI6__halfLi8ELb1ELb1EEEvNS1_"
		"15AllReduceParamsE",
		"400", {{'s', 0, 0, 8, 8192}, {'w', 0, 32, 8, 8}, {'r', 0, 40, 8, 7}}, 16384, 7, 8, 0},
	{"_ZN10flashinfer16trtllm_allreduce13reduce_fusion45lamport_style_one_shot_all_reduce_norm_"
	 "kernelILi8E13__nv_bfloat16Li8ELb1ELb1ELb0EEEvNS0_15AllReduceParamsIT0_EE",
		"896", {{'s', 0, 0, 8, 7168}, {'w', 0, 32, 8, 8}, {'r', 0, 40, 8, 0}}, 14336, 0, 8, 0},
	/* PyTorch */
	{TORCH "26multimem_all_reduce_kernelIN3c108BFloat16ELi16EEEvPT_mPPjmm", "8 8 8 8 8",
		{{'s', 1, 0, 8, 524288}, {'r', 3, 0, 8, 2}, {'w', 4, 0, 8, 8}}, 1048576, 2, 8, 0},
	{TORCH "35multimem_one_shot_all_reduce_kernelIN3c108BFloat16ELi4EEEvPT_S4_mPPjmm", "8 8 8 8 8 8",
		{{'s', 2, 0, 8, 5}, {'r', 4, 0, 8, 0}, {'w', 5, 0, 8, 2}}, 10, 0, 2, 0},
	{TORCH "31multimem_one_shot_reduce_kernelIfLi16EEEvPT_S2_mPPjmml", "8 8 8 8 8 8 8",
		{{'s', 2, 0, 8, 100}, {'r', 4, 0, 8, 1}, {'w', 5, 0, 8, 4}}, 400, 1, 4, 0},
	{TORCH "26multimem_all_gather_kernelILi16EEEvPcS1_mPPjmm", "8 8 8 8 8 8",
		{{'s', 2, 0, 8, 4096}, {'r', 4, 0, 8, 3}, {'w', 5, 0, 8, 4}}, 16384, 3, 4, 0},
	{TORCH "26one_shot_all_reduce_kernelIN3c108BFloat16ELi16ELi8EEEvPPT_S4_S4_mmPPjmm", "8 8 8 8 8 8 8 8",
		{{'s', 4, 0, 8, 4096}, {'r', 6, 0, 8, 7}, {'w', 7, 0, 8, 8}}, 8192, 7, 8, 0},
	{TORCH "26two_shot_all_reduce_kernelIfLi8ELi4ELb1ELb0EEEvPPT_S2_mmPPjmmm", "8 8 8 8 8 8 8 8",
		{{'s', 3, 0, 8, 4096}, {'r', 5, 0, 8, 2}, {'w', 6, 0, 8, 4}}, 16384, 2, 4, 0},
	{TORCH "34two_shot_all_reduce_kernel_inplaceIN3c108BFloat16ELi16ELin1EEEvPPT_mmPPjmm", "8 8 8 8 8 8",
		{{'s', 2, 0, 8, 8192}, {'r', 4, 0, 8, 5}, {'w', 5, 0, 8, 6}}, 16384, 5, 6, 0},
	/* NVSHMEM: the team knows rank and world */
	{"_Z21rdxn_on_stream_kernelI13__nv_bfloat16L8rdxn_ops0EEviPT_PKS1_mi", "4 8 8 8 4",
		{{'s', 3, 0, 8, 4096}}, 8192, CS_RANK_UNKNOWN, CS_RANK_UNKNOWN, 0},
	{"_Z26broadcast_on_stream_kernelIxEviPT_PKS0_mii", "4 8 8 8 4 4", {{'s', 3, 0, 8, 10}}, 80,
		CS_RANK_UNKNOWN, CS_RANK_UNKNOWN, 0},
/* MSCCL++ */
#define COLL    "_ZN7mscclpp10collective"
#define HANDLES "EvPT0_S4_S4_PNS_29BaseMemoryChannelDeviceHandleEPNS_25SwitchChannelDeviceHandleEPviii"
	{COLL "17allreduceAllPairsILNS_8ReduceOpE3E6__halfS3_EEvPT0_S4_S4_PNS_"
	      "25MemoryChannelDeviceHandleEmmiiimjPvj",
		"8 8 8 8 8 8 4 4 4 8 4 8 4", {{'r', 6, 0, 4, 1}, {'w', 8, 0, 4, 8}, {'s', 9, 0, 8, 4096}},
		8192, 1, 8, -ENODATA},
	{COLL "15allreducePacketILNS_8ReduceOpE3EffEEvPT0_S4_S4_PNS_25MemoryChannelDeviceHandleEmmiiimPvjj",
		"8 8 8 8 8 8 4 4 4 8 8 4 4", {{'r', 6, 0, 4, 1}, {'w', 8, 0, 4, 8}, {'s', 9, 0, 8, 4096}},
		16384, 1, 8, -ENODATA},
	{COLL "13allreduceRsAgILNS_8ReduceOpE3EffE" HANDLES "m", "8 8 8 8 8 8 4 4 4 8",
		{{'r', 6, 0, 4, 1}, {'w', 8, 0, 4, 8}, {'s', 9, 0, 8, 4096}}, 16384, 1, 8, -ENODATA},
	{COLL "21allreduceRsAgPipelineILNS_8ReduceOpE3EfE" HANDLES "mmjjj", "8 8 8 8 8 8 4 4 4 8 8 4 4 4",
		{{'r', 6, 0, 4, 1}, {'w', 8, 0, 4, 8}, {'s', 9, 0, 8, 4096}}, 16384, 1, 8, -ENODATA},
	{COLL "21allreduceRsAgZeroCopyILi8ELNS_8ReduceOpE3EffEEvPT1_S4_S4_PNS_29BaseMemoryChannelDeviceHandle"
	      "EPNS_25SwitchChannelDeviceHandleEPviim",
		"8 8 8 8 8 8 4 4 8", {{'r', 6, 0, 4, 1}, {'w', 7, 0, 4, 8}, {'s', 8, 0, 8, 4096}}, 16384, 1,
		8, -ENODATA},
	{COLL "19allreduceNvlsPacketILNS_8ReduceOpE3E6__halfS3_EEvPKT0_PS3_S6_PNS_"
	      "25SwitchChannelDeviceHandleEmmiiPvj",
		"8 8 8 8 8 8 4 4 8 4", {{'s', 4, 0, 8, 4096}, {'r', 6, 0, 4, 1}, {'w', 7, 0, 4, 8}}, 8192, 1,
		8, -ENODATA},
	{COLL "13allreduceNvlsI13__nv_bfloat16fEEvPNS_29BaseMemoryChannelDeviceHandleEPNS_"
	      "25SwitchChannelDeviceHandleES6_mmmii",
		"8 8 8 8 8 8 4 4", {{'s', 5, 0, 8, 65536}, {'r', 6, 0, 4, 1}, {'w', 7, 0, 4, 8}}, 65536, 1, 8,
		-ENODATA},
	{COLL "26allreduceNvlsBlockPipelineI6__halfS2_EEvPKvPvS5_PNS_29BaseMemoryChannelDeviceHandleEPNS_"
	      "25SwitchChannelDeviceHandleEmmii",
		"8 8 8 8 8 8 8 4 4", {{'s', 5, 0, 8, 65536}, {'r', 7, 0, 4, 1}, {'w', 8, 0, 4, 8}}, 65536, 1,
		8, -ENODATA},
	{COLL "17allgatherFullmeshILb1EEEvPvS2_S2_PNS_25MemoryChannelDeviceHandleEiiim", "8 8 8 8 4 4 4 8",
		{{'r', 4, 0, 4, 1}, {'w', 6, 0, 4, 8}, {'s', 7, 0, 8, 1024}}, 32768, 1, 8, -ENODATA},
	{COLL "18allgatherFullmesh2ILb0EEEvPvPNS_25MemoryChannelDeviceHandleEmmmmm", "8 8 8 8 8 8 8",
		{{'r', 3, 0, 8, 1}, {'w', 4, 0, 8, 8}, {'s', 6, 0, 8, 1024}}, 32768, 1, 8, -ENODATA},
	/* DeepEP 1.2.1 and after: tokens, topk, experts, rank, ranks; hidden is a template argument; an upper
	 * bound */
	{"_ZN7deep_ep12internode_ll8dispatchILb1ELb0ELi7168EEEvPvS2_PiPlS3_S3_S4_S2_S3_S2_PKvPKlS3_S3_S3_"
	 "iiiiiiiiibi",
		"8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 4 4 4 4 4 4 4 4 4 1 4",
		{{'s', 16, 0, 4, 96}, {'c', 17, 0, 4, 128}, {'s', 18, 0, 4, 8}, {'c', 19, 0, 4, 256},
			{'r', 20, 0, 4, 9}, {'w', 21, 0, 4, 16}},
		11010048, 9, 16, -ENODATA},
	{"_ZN7deep_ep6legacy12internode_ll8dispatchILb1ELb0ELi7168EEEvPvS3_PiPlS4_S4_S4_S5_S3_S4_S3_PKvPKlS4_"
	 "S4_S4_iiiiiiiiibi",
		"8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 4 4 4 4 4 4 4 4 4 1 4",
		{{'s', 17, 0, 4, 128}, {'c', 18, 0, 4, 128}, {'s', 19, 0, 4, 8}, {'c', 20, 0, 4, 256},
			{'r', 21, 0, 4, 9}, {'w', 22, 0, 4, 16}},
		14680064, 9, 16, -ENODATA},
	{"_ZN7deep_ep12internode_ll7combineILb0ELi7168ELi9ELi4EEEvPvS2_PiS2_PKvPKlPKfPKiS7_PlS3_iS3_"
	 "iiiiiiiiiib",
		"8 8 8 8 8 8 8 8 8 8 8 4 8 4 4 4 4 4 4 4 4 4 4 1",
		{{'s', 13, 0, 4, 128}, {'c', 14, 0, 4, 7168}, {'s', 15, 0, 4, 8}, {'c', 17, 0, 4, 256},
			{'r', 18, 0, 4, 9}, {'w', 19, 0, 4, 16}},
		14680064, 9, 16, -ENODATA},
	{"_ZN7deep_ep6legacy12internode_ll7combineILb0ELi7168ELi9ELi4EEEvPvS3_PiS3_PKvPKlPKfPKiS8_S4_PlS4_"
	 "iS4_"
	 "iiiiiiiiiib",
		"8 8 8 8 8 8 8 8 8 8 8 8 4 8 4 4 4 4 4 4 4 4 4 4 1",
		{{'s', 14, 0, 4, 128}, {'c', 15, 0, 4, 7168}, {'s', 16, 0, 4, 8}, {'c', 18, 0, 4, 256},
			{'r', 19, 0, 4, 9}, {'w', 20, 0, 4, 16}},
		14680064, 9, 16, -ENODATA},
	/* (448 x 16 + 56 x 4) bytes to each of 8 ranks */
	{"_ZN7deep_ep9intranode8dispatchILi8ELi768ELi8192EEEvP4int4PfPiPlS4_S5_S5_PKS2_PKfPKlSA_"
	 "PKbPKiiiiiiiiiPPviii",
		"8 8 8 8 8 8 8 8 8 8 8 8 8 4 4 4 4 4 4 4 4 8 4 4 4",
		{{'s', 13, 0, 4, 64}, {'x', 15, 0, 4, 448}, {'x', 18, 0, 4, 56}, {'r', 22, 0, 4, 5}}, 3784704,
		5, 8, 0},
	{"_ZN7deep_ep6legacy9intranode7combineI13__nv_bfloat16Li8ELi768ELi4096EEEvPT_PfPKS4_PKfS8_S8_PKiSC_"
	 "SC_PiiiiiPPviii",
		"8 8 8 8 8 8 8 8 8 8 4 4 4 4 8 4 4 4",
		{{'s', 10, 0, 4, 64}, {'s', 12, 0, 4, 7168}, {'r', 15, 0, 4, 5}}, 917504, 5, 8, 0},
	{"_ZN7deep_ep9internode8dispatchILb0ELi4ELb0ELi16384ELi7ELi4EEEvP4int4PfPlS4_PNS0_10SourceMetaEPKS2_"
	 "PKfPKlSB_PiSE_SE_SE_PKiSG_SG_SG_PKbiiiiiiiPviiPSJ_iiii",
		"8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 4 4 4 4 4 4 4 8 4 4 8 4 4 4 4",
		{{'s', 18, 0, 4, 64}, {'s', 19, 0, 4, 896}, {'x', 20, 0, 4, 0}, {'r', 31, 0, 4, 17},
			{'w', 32, 0, 4, 32}},
		29360128, 17, 32, -ENODATA},
	{"_ZN7deep_ep6legacy9internode8dispatchILb0ELi2ELb1ELi16384ELi7ELi2EEEvP4int4PfPlS5_PNS1_"
	 "10SourceMetaEPKS3_PKfPKlSC_PiSF_SF_SF_PKiSH_SH_SH_PKbiiiiiiiiPviiPSK_iiii",
		"8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 4 4 4 4 4 4 4 4 8 4 4 8 4 4 4 4",
		{{'s', 18, 0, 4, 64}, {'x', 20, 0, 4, 448}, {'x', 21, 0, 4, 56}, {'r', 32, 0, 4, 9},
			{'w', 33, 0, 4, 16}},
		7569408, 9, 16, -ENODATA},
	{"_ZN7deep_ep9internode7combineILb0ELi4E13__nv_"
	 "bfloat16Li24ELi16384ELi9248ELi4ELi6ELi24ELi16EEEvP4int4"
	 "PfPKbPKS3_PKfS9_S9_PKiSD_PKNS0_10SourceMetaESD_SD_SD_iiiiPviiPSH_iiii",
		"8 8 8 8 8 8 8 8 8 8 8 8 8 4 4 4 4 8 4 4 8 4 4 4 4",
		{{'s', 13, 0, 4, 64}, {'s', 15, 0, 4, 7168}, {'r', 23, 0, 4, 17}, {'w', 24, 0, 4, 32}},
		917504, 17, 32, 0},
	/* NCCL's work by value: 2.9 to 2.11, 2.12 */
	{"_Z40ncclKernel_AllReduce_RING_LL_Sum_uint8_t12ncclWorkElem", "64",
		{{'c', 0, 14, 1, 2}, {'s', 0, 32, 8, 43008}}, 43008, CS_RANK_UNKNOWN, CS_RANK_UNKNOWN,
		-ENODATA},
	{"_Z37ncclKernel_AllReduce_RING_LL_Sum_halfP11ncclDevComm12ncclWorkElem", "8 64",
		{{'c', 1, 2, 1, 1}, {'c', 1, 3, 1, 48}, {'s', 1, 24, 8, 21504}}, 43008, CS_RANK_UNKNOWN,
		CS_RANK_UNKNOWN, -ENODATA},
};

/* -- building a launch --------------------------------------------------------------------------------- */

struct built {
	struct cs_launch launch;
	void *params[PARAMETERS_MAX];
	uint32_t sizes[PARAMETERS_MAX];
	uint32_t offsets[PARAMETERS_MAX];
	uint32_t count;
	uint32_t buffer_bytes;
	unsigned char *buffer;
};

static struct cs_catalog *catalog;

static void *
poisoned(size_t bytes)
{
	void *memory = malloc(bytes);

	assert_non_null(memory);
	memset(memory, POISON, bytes);
	return memory;
}

static void
build(struct built *built, const char *sizes)
{
	const char *at = sizes;

	memset(built, 0, sizeof(*built));
	while (*at != '\0') {
		char *end;
		uint32_t size = (uint32_t)strtoul(at, &end, 10);
		uint32_t align = size >= 8 ? 8 : size;

		built->sizes[built->count] = size;
		built->buffer_bytes = (built->buffer_bytes + align - 1) / align * align;
		built->offsets[built->count] = built->buffer_bytes;
		built->buffer_bytes += size;
		built->params[built->count++] = poisoned(size);
		at = end + (*end == ' ');
	}
	built->launch = (struct cs_launch){
		.kernel_params = built->params,
		.param_count = built->count,
		.param_offsets = built->offsets,
		.param_bytes = built->sizes,
		.grid = {8, 1, 1},
		.block = {512, 1, 1},
	};
}

static void
put(struct built *built, const struct field *field, uint64_t value)
{
	assert_true(field->offset + field->width <= built->sizes[field->parameter]);
	memcpy((unsigned char *)built->params[field->parameter] + field->offset, &value, field->width);
}

/* The same as `extra` passes it: one buffer, no array. */
static void
use_extra(struct built *built)
{
	built->buffer = poisoned(built->buffer_bytes);
	for (uint32_t i = 0; i < built->count; i++)
		memcpy(built->buffer + built->offsets[i], built->params[i], built->sizes[i]);
	built->launch.kernel_params = NULL;
	built->launch.extra_buffer = built->buffer;
	built->launch.extra_bytes = built->buffer_bytes;
}

static void
release(struct built *built)
{
	for (uint32_t i = 0; i < built->count; i++)
		free(built->params[i]);
	free(built->buffer);
}

static void
build_case(struct built *built, const struct layout_case *layout)
{
	build(built, layout->sizes);
	for (unsigned int i = 0; i < FIELDS_MAX && layout->fields[i].role != '\0'; i++)
		put(built, &layout->fields[i], layout->fields[i].value);
}

static int
decode(const struct layout_case *layout, const struct built *built, struct cs_label *label)
{
	struct cs_catalog_match match;

	cs_catalog_classify(catalog, layout->name, &match);
	if (match.kind != CS_CATALOG_COLLECTIVE || !match.has_size_rule)
		fail_msg("no row with a size for %s", layout->name);
	memset(label, 0x5a, sizeof(*label));
	return cs_catalog_decode(&match, &built->launch, label);
}

static void
assert_decoded(const struct layout_case *layout, const struct built *built)
{
	struct cs_label label;
	int rc = decode(layout, built, &label);

	if (rc != 0 || label.bytes != layout->bytes || label.rank != layout->rank ||
		label.world != layout->world)
		fail_msg("%s: rc %d bytes %llu rank %d world %d", layout->name, rc,
			(unsigned long long)label.bytes, label.rank, label.world);
	assert_int_equal(label.source, CS_LABEL_SOURCE_LAUNCH_PARAMETERS);
	assert_true(label.rule_id > 0);
	if (cs_dtype_bytes(label.dtype) > 0)
		assert_int_equal(label.count * cs_dtype_bytes(label.dtype), layout->bytes);
}

static void
assert_unknown(const struct layout_case *layout, const struct built *built, int want)
{
	struct cs_label label;
	int rc = decode(layout, built, &label);

	if (rc != want || label.bytes != CS_BYTES_UNKNOWN || label.count != 0)
		fail_msg("%s: rc %d, want %d, bytes %llu", layout->name, rc, want,
			(unsigned long long)label.bytes);
	assert_int_equal(label.source, CS_LABEL_SOURCE_KERNEL_NAME);
	assert_int_not_equal(label.op, CS_OP_COUNT);
	if (want == -EINVAL)
		assert_int_equal(label.rank, CS_RANK_UNKNOWN);
}

/* -- tests --------------------------------------------------------------------------------------------- */

static void
test_every_layout(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct built built;

		build_case(&built, &cases[i]);
		assert_decoded(&cases[i], &built);
		use_extra(&built);
		assert_decoded(&cases[i], &built);
		release(&built);
	}
}

/* CUDA before 12.4 */
static void
test_without_parameter_sizes(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct built built;

		build_case(&built, &cases[i]);
		built.launch.param_count = 0;
		built.launch.param_bytes = NULL;
		built.launch.param_offsets = NULL;
		if (cases[i].without == 0)
			assert_decoded(&cases[i], &built);
		else
			assert_unknown(&cases[i], &built, cases[i].without);
		release(&built);
	}
}

/* A parameter that is longer, shorter, or one too many: some other layout, so nothing is read from it. */
static void
test_fingerprint_mismatch(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct built built;

		build_case(&built, &cases[i]);
		for (uint32_t j = 0; j < built.count; j++) {
			uint32_t size = built.sizes[j];
			struct cs_label label;

			built.sizes[j] = 1; /* as if the structure had been shortened to nothing */
			if (size > 1 && decode(&cases[i], &built, &label) == 0)
				assert_int_equal(
					label.bytes, cases[i].bytes); /* a parameter no rule looks at */
			built.sizes[j] = size;
		}
		built.launch.param_count = 1;
		built.sizes[0] = 3;
		assert_unknown(&cases[i], &built, -EINVAL);
		release(&built);
	}
}

/* Rows of kernels whose later parameters have changed, or are not known, do not count them. */
static bool
row_counts_parameters(const char *name)
{
	static const char *const others[] = {"on_stream", "ar_fusion3moe"};

	for (size_t i = 0; i < COUNT_OF(others); i++) {
		if (strstr(name, others[i]) != NULL)
			return false;
	}
	return true;
}

static void
test_number_of_parameters(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct built built;

		if (!row_counts_parameters(cases[i].name))
			continue;
		build_case(&built, &cases[i]);
		built.sizes[built.count] = 4;
		built.offsets[built.count] = built.buffer_bytes;
		built.params[built.count++] = poisoned(4);
		built.launch.param_count = built.count;
		assert_unknown(&cases[i], &built, -EINVAL);
		release(&built);
	}
}

static void
assert_bad_value(const struct layout_case *layout, unsigned int field, uint64_t value)
{
	struct built built;

	build_case(&built, layout);
	put(&built, &layout->fields[field], value);
	assert_unknown(layout, &built, -EINVAL);
	use_extra(&built);
	assert_unknown(layout, &built, -EINVAL);
	release(&built);
}

/* Size 0, negative, above 1 GiB; a rank at the world's size; another world than the name's. */
static void
test_sanity_checks(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		for (unsigned int j = 0; j < FIELDS_MAX && cases[i].fields[j].role != '\0'; j++) {
			const struct field *field = &cases[i].fields[j];

			if (field->role == 's') {
				assert_bad_value(&cases[i], j, 0);
				assert_bad_value(&cases[i], j, UINT64_MAX);
				assert_bad_value(&cases[i], j, field->width == 8 ? 1ULL << 40 : 0x7fffffffU);
			}
			if (field->role == 'r') {
				assert_bad_value(&cases[i], j, (uint64_t)cases[i].world);
				assert_bad_value(&cases[i], j, UINT64_MAX);
			}
			if (field->role == 'w') {
				assert_bad_value(&cases[i], j, 0);
				assert_bad_value(&cases[i], j, UINT64_MAX);
			}
			if (field->role == 'w' && strstr(cases[i].name, "Li8E") != NULL)
				assert_bad_value(&cases[i], j, 16);
		}
	}
}

/* tokens x hidden that is no multiple of hidden */
static void
test_size_must_be_whole_tokens(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		for (unsigned int j = 0; j < FIELDS_MAX && cases[i].fields[j].role != '\0'; j++) {
			if (cases[i].fields[j].role == 'c')
				assert_bad_value(&cases[i], j, 5);
		}
	}
}

/* A buffer that ends before the parameter, as a wrong BUFFER_SIZE would have it. */
static void
test_short_extra_buffer(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct built built;
		struct cs_label label;

		build_case(&built, &cases[i]);
		use_extra(&built);
		for (uint32_t length = 0; length < built.buffer_bytes; length++) {
			unsigned char *exact = length > 0 ? malloc(length) : NULL;

			if (length > 0) {
				assert_non_null(exact);
				memcpy(exact, built.buffer, length);
			}
			built.launch.extra_buffer = exact;
			built.launch.extra_bytes = length;
			if (decode(&cases[i], &built, &label) == 0)
				assert_int_equal(label.bytes, cases[i].bytes);
			free(exact);
		}
		built.launch.extra_buffer = NULL;
		assert_true(decode(&cases[i], &built, &label) != 0);
		release(&built);
	}
}

/* What falls to this rank of an all-reduce says nothing exact of the whole: rank and world alone. */
static void
test_a_share_is_no_size(void **state)
{
	static const struct {
		const char *name;
		const char *sizes;
		struct field rank, world;
	} shares[] = {
		{"_ZN6sglang18nvlink_pull_kernelI13__nv_bfloat16Lb1ELNS_9PrimitiveE3ELb1ELi4EEEvNS_"
		 "20NVLinkCommPullParamsE",
			"72", {'r', 0, 64, 4, 5}, {'w', 0, 68, 4, 8}},
		{"_ZN6sglang26all_reduce_pull_res_kernelILj4ELb1ELb1EEEvNS_10PullParamsE", "64",
			{'r', 0, 32, 4, 3}, {'w', 0, 36, 4, 8}},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(shares); i++) {
		struct cs_catalog_match match;
		struct cs_label label;
		struct built built;

		build(&built, shares[i].sizes);
		put(&built, &shares[i].rank, shares[i].rank.value);
		put(&built, &shares[i].world, shares[i].world.value);
		cs_catalog_classify(catalog, shares[i].name, &match);
		assert_false(match.has_size_rule);
		assert_int_equal(cs_catalog_decode(&match, &built.launch, &label), -ENODATA);
		assert_int_equal(label.bytes, CS_BYTES_UNKNOWN);
		assert_int_equal(label.op, CS_OP_ALL_REDUCE);
		assert_int_equal(label.rank, shares[i].rank.value);
		assert_int_equal(label.world, shares[i].world.value);
		release(&built);
	}
}

static void
test_names_without_size_rule(void **state)
{
	static const char *const names[] = {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
		"ncclSymkDevKernel_AllReduce_AGxLL_R_sum_bf16", "made_up_allreduce_kernel",
		"flashinfer::trtllm_mnnvl_allreduce::rmsNormLamport<__nv_bfloat16>"};
	struct cs_launch launch = {.grid = {1, 1, 1}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(names); i++) {
		struct cs_catalog_match match;
		struct cs_label label;

		cs_catalog_classify(catalog, names[i], &match);
		assert_int_equal(match.kind, CS_CATALOG_COLLECTIVE);
		assert_false(match.has_size_rule);
		assert_int_equal(cs_catalog_decode(&match, &launch, &label), -ENODATA);
		assert_int_equal(label.bytes, CS_BYTES_UNKNOWN);
		assert_int_equal(label.source, CS_LABEL_SOURCE_KERNEL_NAME);
		assert_int_equal(!!(label.flags & CS_LABEL_PART), strstr(names[i], "rmsNorm") != NULL);
	}
}

/* Any bytes in parameters of the right sizes: an answer that passes the checks or none. */
static void
test_random_parameters(void **state)
{
	uint32_t seed = 2463534242U;

	(void)state;
	for (unsigned int round = 0; round < 200; round++) {
		for (size_t i = 0; i < COUNT_OF(cases); i++) {
			struct built built;
			struct cs_label label;
			int rc;

			build(&built, cases[i].sizes);
			for (uint32_t j = 0; j < built.count; j++) {
				for (uint32_t k = 0; k < built.sizes[j]; k++) {
					seed ^= seed << 13;
					seed ^= seed >> 17;
					seed ^= seed << 5;
					((unsigned char *)built.params[j])[k] =
						(unsigned char)(seed % 3 == 0 ? seed >> 8 : 0);
				}
			}
			rc = decode(&cases[i], &built, &label);
			assert_true(rc == 0 || rc == -EINVAL || rc == -ENODATA);
			if (rc == 0) {
				assert_true(label.bytes > 0 && label.bytes <= 1ULL << 30);
				assert_true(label.world == CS_RANK_UNKNOWN || label.rank < label.world);
			} else {
				assert_int_equal(label.bytes, CS_BYTES_UNKNOWN);
			}
			release(&built);
		}
	}
}

/* Whatever the rows with a size are, this file has a launch for each of them. */
static void
test_every_row_with_a_size_is_covered(void **state)
{
	(void)state;
	for (size_t i = 0; i < cs_catalog_rule_count(catalog); i++) {
		struct cs_catalog_rule_text text;
		bool covered = false;

		assert_int_equal(cs_catalog_rule_describe(catalog, i, &text), 0);
		if (!text.match.has_size_rule || strcmp(text.id, "nccl") == 0)
			continue; /* test_catalog_nccl.c */
		for (size_t j = 0; j < COUNT_OF(cases); j++) {
			struct cs_catalog_match match;

			cs_catalog_classify(catalog, cases[j].name, &match);
			covered = covered || match.rule_id == text.match.rule_id;
		}
		if (!covered)
			fail_msg("no launch for row %s", text.id);
	}
}

static int
load(void **state)
{
	char complaint[512];

	(void)state;
	return cs_catalog_load("", &catalog, complaint, sizeof(complaint));
}

static int
unload(void **state)
{
	(void)state;
	cs_catalog_destroy(catalog);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_layout),
		cmocka_unit_test(test_without_parameter_sizes),
		cmocka_unit_test(test_fingerprint_mismatch),
		cmocka_unit_test(test_number_of_parameters),
		cmocka_unit_test(test_sanity_checks),
		cmocka_unit_test(test_size_must_be_whole_tokens),
		cmocka_unit_test(test_short_extra_buffer),
		cmocka_unit_test(test_a_share_is_no_size),
		cmocka_unit_test(test_names_without_size_rule),
		cmocka_unit_test(test_random_parameters),
		cmocka_unit_test(test_every_row_with_a_size_is_covered),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
