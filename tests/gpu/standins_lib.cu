/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-ins as a shared library, for Python through ctypes: two local ranks, launched on streams of the caller's. */
#include "ranks.cuh"

static rank_state ranks[2];

extern "C" void
cs_standins_setup()
{
	rank_allocate(ranks[0], 0);
	rank_allocate(ranks[1], 1);
	connect_local(ranks, 2);
}

extern "C" void
cs_standins_spin_us(unsigned int spin_us)
{
	const unsigned int spin_ns = spin_us * 1000U;
	CHECK(cudaMemcpyToSymbol(cs_standin_spin_ns, &spin_ns, sizeof(spin_ns)));
}

/* One all-reduce of 43,008 bytes between the two ranks; the streams must differ. */
extern "C" void
cs_standins_all_reduce(cudaStream_t first, cudaStream_t second)
{
	launch_all_reduce(ranks[0], 0, 2, first);
	launch_all_reduce(ranks[1], 1, 2, second);
}

extern "C" void
cs_standins_nccl(cudaStream_t stream)
{
	launch_nccl(ranks[0], stream);
}

/* Holds the stream for this long: a rank that comes late by a known time. */
extern "C" void
cs_standins_hold(unsigned int hold_us, cudaStream_t stream)
{
	decode_spin<<<1, 1, 0, stream>>>(hold_us * 1000U);
	CHECK(cudaGetLastError());
}
