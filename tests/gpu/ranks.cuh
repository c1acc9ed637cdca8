/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a tensor-parallel group: its buffers, and how ranks of one process reach each other. */
#ifndef CS_TESTS_GPU_RANKS_CUH
#define CS_TESTS_GPU_RANKS_CUH

#include "decode.cuh"
#include "standins.cuh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                                          \
	do {                                                                                                 \
		cudaError_t check_status = (call);                                                           \
		if (check_status != cudaSuccess) {                                                           \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,               \
				cudaGetErrorString(check_status));                                           \
			exit(3);                                                                             \
		}                                                                                            \
	} while (0)

static const size_t message_elements = CS_DECODE_TOKENS * CS_DECODE_HIDDEN;
static const size_t message_bytes = message_elements * sizeof(__nv_bfloat16);

/* One rank's buffers. */
struct rank_state {
	__nv_bfloat16 *input, *output, *x, *scratch;
	float *partial;
	vllm::Signal *self;
	vllm::RankData *data; /* device */
	vllm::RankSignals peers;
};

static void
rank_allocate(rank_state &r, int seed)
{
	std::vector<__nv_bfloat16> host(message_elements);

	CHECK(cudaMalloc(&r.input, message_bytes));
	CHECK(cudaMalloc(&r.output, message_bytes));
	CHECK(cudaMalloc(&r.x, message_bytes));
	CHECK(cudaMalloc(&r.scratch, message_bytes));
	CHECK(cudaMalloc(&r.partial, message_elements * CS_DECODE_SPLIT_K * sizeof(float)));
	CHECK(cudaMalloc(&r.self, sizeof(vllm::Signal)));
	CHECK(cudaMalloc(&r.data, sizeof(vllm::RankData)));
	CHECK(cudaMemset(r.self, 0, sizeof(vllm::Signal)));
	CHECK(cudaMemset(r.output, 0, message_bytes));
	for (size_t i = 0; i < message_elements; i++)
		host[i] = __float2bfloat16(float((i * 2654435761U + (unsigned)seed * 97U) % 1000U) / 500.0F - 1.0F);
	CHECK(cudaMemcpy(r.x, host.data(), message_bytes, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(r.input, host.data(), message_bytes, cudaMemcpyHostToDevice));
}

static void
connect_local(rank_state *ranks, int count)
{
	vllm::RankData pointers = {};

	for (int i = 0; i < count; i++)
		pointers.ptrs[i] = ranks[i].input;
	for (int i = 0; i < count; i++) {
		for (int k = 0; k < count; k++)
			ranks[i].peers.signals[k] = ranks[k].self;
		CHECK(cudaMemcpy(ranks[i].data, &pointers, sizeof(pointers), cudaMemcpyHostToDevice));
	}
}

static void
launch_all_reduce(rank_state &r, int rank, int world, cudaStream_t stream)
{
	const int packs = int(message_bytes / 16);
	const int blocks = std::min(CS_STANDIN_BLOCKS_MAX, (packs + 511) / 512);

	if (world == 2)
		vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>
			<<<blocks, 512, 0, stream>>>(r.data, r.peers, r.self, r.output, rank, packs);
	else if (world == 4)
		vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>
			<<<blocks, 512, 0, stream>>>(r.data, r.peers, r.self, r.output, rank, packs);
	else
		vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>
			<<<blocks, 512, 0, stream>>>(r.data, r.peers, r.self, r.output, rank, packs);
	CHECK(cudaGetLastError());
}

static void
launch_nccl(rank_state &r, cudaStream_t stream)
{
	ncclDevKernelArgsStorage<4096> args = {};

	args.work.output = r.output;
	args.work.input = r.input;
	args.work.packs = message_bytes / 16;
	ncclDevKernel_AllReduce_Sum_bf16_RING_LL<<<4, 512, 0, stream>>>(args);
	CHECK(cudaGetLastError());
}

#endif
