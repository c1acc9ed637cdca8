/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stand-ins of the all-reduce kernels of serving stacks: our own code under the names and parameter lists that the
 * catalogue must recognise (docs/catalog.md), so that a GPU test needs no serving stack. What they compute is a real
 * all-reduce over peer memory: every rank sums the inputs of all ranks in rank order, so results are bit-equal from
 * run to run.
 *
 * A known delay can be set per process (cs_standin_spin_ns): the kernel waits that long before it signals its peers,
 * which makes a late rank, or a kernel of a known length.
 */
#ifndef CS_TESTS_GPU_STANDINS_CUH
#define CS_TESTS_GPU_STANDINS_CUH

#include <cuda_bf16.h>
#include <stdint.h>

#define CS_STANDIN_RANKS_MAX  8
#define CS_STANDIN_BLOCKS_MAX 36

/* Nanoseconds of spinning at the start of every all-reduce of this process; written by cudaMemcpyToSymbol. */
__device__ unsigned int cs_standin_spin_ns;

__device__ __forceinline__ uint64_t
cs_standin_clock_ns()
{
	uint64_t now;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	return now;
}

__device__ __forceinline__ void
cs_standin_spin()
{
	const uint64_t begin = cs_standin_clock_ns();
	const uint64_t length = cs_standin_spin_ns;
	while (length && cs_standin_clock_ns() - begin < length)
		;
}

namespace vllm
{
/* One flag per block and peer for each of the two barriers, and the own epoch per block. */
struct Signal {
	unsigned int epoch[CS_STANDIN_BLOCKS_MAX];
	unsigned int arrived[2][CS_STANDIN_BLOCKS_MAX][CS_STANDIN_RANKS_MAX];
};
struct __align__(16) RankData {
	const void *ptrs[CS_STANDIN_RANKS_MAX];
};
struct __align__(16) RankSignals {
	Signal *signals[CS_STANDIN_RANKS_MAX];
};

/* Release to every peer, acquire from every peer (system scope: peers may be other GPUs or processes). */
template <int ngpus>
__device__ __forceinline__ void
cs_barrier(const RankSignals &peers, Signal *self, int rank, int which, unsigned int epoch)
{
	__syncthreads();
	if (threadIdx.x < ngpus) {
		unsigned int *theirs = &peers.signals[threadIdx.x]->arrived[which][blockIdx.x][rank];
		const unsigned int *mine = &self->arrived[which][blockIdx.x][threadIdx.x];
		unsigned int seen;
		asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(theirs), "r"(epoch) : "memory");
		do {
			asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(mine) : "memory");
		} while ((int)(seen - epoch) < 0);
	}
	__syncthreads();
}

/* `size` counts 16-byte packs. */
template <typename T, int ngpus>
__global__ void __launch_bounds__(512, 1)
cross_device_reduce_1stage(RankData *data, RankSignals peers, Signal *self, T *result, int rank, int size)
{
	constexpr int per_pack = 16 / sizeof(T);
	union pack {
		uint4 bits;
		T item[per_pack];
	};
	const unsigned int epoch = self->epoch[blockIdx.x] + 1;

	cs_standin_spin();
	cs_barrier<ngpus>(peers, self, rank, 0, epoch);
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
		float sum[per_pack] = {};
		pack out;
		for (int peer = 0; peer < ngpus; peer++) {
			pack in;
			in.bits = reinterpret_cast<const uint4 *>(data->ptrs[peer])[i];
			for (int k = 0; k < per_pack; k++)
				sum[k] += float(in.item[k]);
		}
		for (int k = 0; k < per_pack; k++)
			out.item[k] = T(sum[k]);
		reinterpret_cast<uint4 *>(result)[i] = out.bits;
	}
	cs_barrier<ngpus>(peers, self, rank, 1, epoch);
	if (threadIdx.x == 0)
		self->epoch[blockIdx.x] = epoch;
}
} // namespace vllm

/* NCCL 2.22 and later: one by-value argument block of 4 KiB. Single-rank copy of the message, so that its length is the
 * kernel's own; the name and the parameter are what matter. */
template <size_t bytes> struct alignas(16) ncclDevKernelArgsStorage {
	union {
		struct {
			void *output;
			const void *input;
			uint64_t packs;
		} work;
		unsigned char storage[bytes];
	};
};

__global__ void
ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096> args)
{
	const uint4 *input = static_cast<const uint4 *>(args.work.input);
	uint4 *output = static_cast<uint4 *>(args.work.output);

	cs_standin_spin();
	for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < args.work.packs; i += gridDim.x * blockDim.x)
		output[i] = input[i];
}

#endif
