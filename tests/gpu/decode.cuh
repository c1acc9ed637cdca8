/* SPDX-License-Identifier: Apache-2.0 */
/* The rest of a decode step: split-K matrix products of a few tokens against a square weight, and an elementwise kernel. */
#ifndef CS_TESTS_GPU_DECODE_CUH
#define CS_TESTS_GPU_DECODE_CUH

#include <cuda_bf16.h>

#define CS_DECODE_TOKENS  6
#define CS_DECODE_HIDDEN  3584 /* 6 x 3584 bf16 = 43,008 bytes: the message of the founding case */
#define CS_DECODE_SPLIT_K 4

/* partial[k][token][column] = x[token][slice k] . w[column][slice k]; one warp per column. */
__global__ void
decode_gemm_split_k(const __nv_bfloat16 *x, const __nv_bfloat16 *w, float *partial)
{
	const int column = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
	const int lane = threadIdx.x % 32;
	const int slice = CS_DECODE_HIDDEN / CS_DECODE_SPLIT_K;
	const int first = blockIdx.y * slice;
	float sum[CS_DECODE_TOKENS] = {};

	for (int k = first + lane * 2; k < first + slice; k += 64) {
		const float2 weight = __bfloat1622float2(
			*reinterpret_cast<const __nv_bfloat162 *>(w + (size_t)column * CS_DECODE_HIDDEN + k));
		for (int t = 0; t < CS_DECODE_TOKENS; t++) {
			const float2 value = __bfloat1622float2(
				*reinterpret_cast<const __nv_bfloat162 *>(x + (size_t)t * CS_DECODE_HIDDEN + k));
			sum[t] += value.x * weight.x + value.y * weight.y;
		}
	}
	for (int t = 0; t < CS_DECODE_TOKENS; t++) {
		for (int step = 16; step; step /= 2)
			sum[t] += __shfl_down_sync(0xffffffffU, sum[t], step);
		if (lane == 0)
			partial[((size_t)blockIdx.y * CS_DECODE_TOKENS + t) * CS_DECODE_HIDDEN + column] = sum[t];
	}
}

__global__ void
decode_gemm_sum_slices(const float *partial, __nv_bfloat16 *y)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;
	float sum = 0;

	if (i >= CS_DECODE_TOKENS * CS_DECODE_HIDDEN)
		return;
	for (int k = 0; k < CS_DECODE_SPLIT_K; k++)
		sum += partial[(size_t)k * CS_DECODE_TOKENS * CS_DECODE_HIDDEN + i];
	y[i] = __float2bfloat16(sum);
}

/* Keeps values bounded, so that thousands of steps stay finite. */
__global__ void
decode_normalise(const __nv_bfloat16 *y, __nv_bfloat16 *x)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < CS_DECODE_TOKENS * CS_DECODE_HIDDEN)
		x[i] = __float2bfloat16(tanhf(__bfloat162float(y[i])));
}

/* One step of a linear congruential generator in every thread: so small that launching it is what it costs, and what
 * must come out of any number of them is known (decode_tick_expected). */
__global__ void
decode_tick(unsigned int *state)
{
	state[threadIdx.x] = state[threadIdx.x] * 1664525U + 1013904223U;
}

static inline unsigned int
decode_tick_expected(unsigned int state, unsigned long ticks)
{
	for (unsigned long i = 0; i < ticks; i++)
		state = state * 1664525U + 1013904223U;
	return state;
}

/* Holds the stream for a known time: what makes a rank late. */
__global__ void
decode_spin(unsigned int length_ns)
{
	unsigned long long begin, now;

	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
	do
		asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
	while (now - begin < length_ns);
}

#endif
