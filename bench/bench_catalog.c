/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of recognising a kernel (once per function) and of reading a launch (once per captured or eager launch
 * of a collective). Prints one line of name=value data; run it on an idle core.
 */
#include "catalog/catalog.h"
#include "clock.h"

#include <math.h>
#include <stdio.h>

#define REPEATS 5U

struct subject {
	const char *what;
	const char *name;
};

static const struct subject subjects[] = {
	{"nccl", "_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE"},
	{"vllm", "_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li8EEEvPNS_8RankDataENS_"
		 "11RankSignalsEPNS_"
		 "6SignalEPT_ii"},
	{"flashinfer",
		"_ZN10flashinfer23trtllm_allreduce_fusion39allreduce_fusion_kernel_oneshot_lamportILNS0_"
		"22AllReduceFusionPatternE1E13__nv_bfloat16Li8ELb1ELb0EEEvNS0_21AllReduceFusionParamsIT0_EE"},
	{"ordinary", "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_"
		     "addIfEESt5arrayIPcLm3EEEEviT0_"
		     "T1_"},
	{"gemm", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_"
		 "segment_k_off_"
		 "kernel__5x_cublas"},
};

static double
classify_ns(const struct cs_catalog *catalog, const char *name)
{
	const unsigned int rounds = 20000;
	struct cs_catalog_match match;
	double best = INFINITY;

	for (unsigned int repeat = 0; repeat < REPEATS; repeat++) {
		uint64_t start = cs_clock_monotonic_ns();

		for (unsigned int i = 0; i < rounds; i++) {
			cs_catalog_classify(catalog, name, &match);
			__asm__ volatile("" : : "r"(&match) : "memory");
		}
		best = fmin(best, (double)(cs_clock_monotonic_ns() - start) / rounds);
	}
	return best;
}

static double
decode_ns(const struct cs_catalog_match *match, const struct cs_launch *launch)
{
	const unsigned int rounds = 1000000;
	struct cs_label label;
	double best = INFINITY;

	for (unsigned int repeat = 0; repeat < REPEATS; repeat++) {
		uint64_t start = cs_clock_monotonic_ns();

		for (unsigned int i = 0; i < rounds; i++) {
			if (cs_catalog_decode(match, launch, &label) != 0)
				return NAN;
			__asm__ volatile("" : : "r"(&label) : "memory");
		}
		best = fmin(best, (double)(cs_clock_monotonic_ns() - start) / rounds);
	}
	return best;
}

static double
decode_vllm_ns(const struct cs_catalog *catalog)
{
	static const uint32_t sizes[] = {8, 128, 8, 8, 4, 4};
	static const uint32_t offsets[] = {0, 16, 144, 152, 160, 164};
	unsigned char signals[128] = {0};
	void *pointer = NULL;
	int32_t rank = 3;
	int32_t size = 4096;
	void *params[] = {&pointer, signals, &pointer, &pointer, &rank, &size};
	struct cs_launch launch = {.kernel_params = params,
		.param_count = 6,
		.param_offsets = offsets,
		.param_bytes = sizes,
		.grid = {36, 1, 1}};
	struct cs_catalog_match match;

	cs_catalog_classify(catalog, subjects[1].name, &match);
	return decode_ns(&match, &launch);
}

static double
decode_flashinfer_ns(const struct cs_catalog *catalog)
{
	static const uint32_t size = 136;
	static const uint32_t offset;
	int32_t params[34] = {8, 3, 28672, 7168};
	void *pointers[] = {params};
	struct cs_launch launch = {.kernel_params = pointers,
		.param_count = 1,
		.param_offsets = &offset,
		.param_bytes = &size,
		.grid = {32, 1, 1}};
	struct cs_catalog_match match;

	cs_catalog_classify(catalog, subjects[2].name, &match);
	return decode_ns(&match, &launch);
}

int
main(void)
{
	struct cs_catalog *catalog;
	char complaint[512];
	uint64_t start = cs_clock_monotonic_ns();

	if (cs_catalog_load("", &catalog, complaint, sizeof(complaint)) != 0) {
		(void)fprintf(stderr, "%s\n", complaint);
		return 1;
	}
	printf("load_us=%.0f rows=%zu", (double)(cs_clock_monotonic_ns() - start) / 1000,
		cs_catalog_rule_count(catalog));
	for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++)
		printf(" classify_%s_ns=%.0f", subjects[i].what, classify_ns(catalog, subjects[i].name));
	printf(" decode_vllm_ns=%.1f decode_flashinfer_ns=%.1f\n", decode_vllm_ns(catalog),
		decode_flashinfer_ns(catalog));
	cs_catalog_destroy(catalog);
	return 0;
}
