/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vLLM's all-reduce before RankSignals grew: the names that layouts.cu has too, with another layout. A
 * library of its own, because one binary can hold a name only once.
 */
#include "layouts.cuh"

KERNEL(VLLM_1STAGE_HALF_2, void *data, pointers<8> signals, void *self, void *result, int rank, int size)
KERNEL(VLLM_2STAGE_BF16_8, void *data, pointers<8> signals, void *self, void *result, int rank, int size)

extern "C" void
cs_layouts_before(std::vector<layout_launch> *launches)
{
	const pointers<8> signals = layout_poisoned<pointers<8>>();

	for (uint32_t packs : STEPS) {
		/* Sizes of their own, so that a mix-up of the two layouts shows. */
		const int size = int(packs) + 5;
		ADD(*launches, VLLM_1STAGE_HALF_2, "vllm_custom", size * 16, 1, POINTER, signals, POINTER,
			POINTER, 1, size);
		ADD(*launches, VLLM_2STAGE_BF16_8, "vllm_custom", size * 16, 6, POINTER, signals, POINTER,
			POINTER, 6, size);
	}
}

extern "C" unsigned long long
cs_layouts_before_ran()
{
	return layout_ran();
}
