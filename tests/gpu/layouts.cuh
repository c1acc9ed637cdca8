/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that do nothing, under the names and with the parameters of real ones: what a launch of them must
 * be recorded as is known beforehand. A kernel is declared by KERNEL() with the name that its library's
 * binary has, spelled as the driver gives it (hence extern "C"), and with parameters of the same sizes in the
 * same order.
 *
 * Included once in each binary (the program, and the library of the second layout), since a kernel can be
 * launched only by the CUDA runtime that it is registered with.
 */
#ifndef CS_TESTS_GPU_LAYOUTS_CUH
#define CS_TESTS_GPU_LAYOUTS_CUH

#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdint.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#define CHECK(call)                                                                                          \
	do {                                                                                                 \
		cudaError_t check_status = (call);                                                           \
		if (check_status != cudaSuccess) {                                                           \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                        \
				cudaGetErrorString(check_status));                                           \
			exit(3);                                                                             \
		}                                                                                            \
	} while (0)

/* What the GPU itself says: how many of this binary's kernels ran. */
__device__ unsigned long long cs_layouts_ran;

#define KERNEL(name, ...)                                                                                    \
	extern "C" __global__ void name(__VA_ARGS__)                                                         \
	{                                                                                                    \
		if (threadIdx.x == 0 && blockIdx.x == 0)                                                     \
			atomicAdd(&cs_layouts_ran, 1ULL);                                                    \
	}

#define NAME_TEXT(name)  NAME_TEXT_(name)
#define NAME_TEXT_(name) #name

enum layout_way { WAY_RUNTIME, WAY_RUNTIME_EX, WAY_DRIVER_EXTRA, WAY_COUNT };

static const int64_t UNKNOWN = -1;

struct layout_param {
	std::vector<unsigned char> bytes;
	size_t align;
};

/* One launch, and what is true of it. `bytes` and `rank`: UNKNOWN where a check of the catalogue must fail.
 */
struct layout_launch {
	const char *kernel;
	const char *impl;
	int64_t bytes;
	int64_t rank;
	unsigned int grid;
	const void *stub;
	std::vector<layout_param> params;
	void (*run)(const layout_launch &launch, layout_way way, cudaStream_t stream);
};

/* The parameters as CU_LAUNCH_PARAM_BUFFER_POINTER wants them: each at its own alignment. */
static std::vector<unsigned char>
layout_buffer(const layout_launch &launch)
{
	std::vector<unsigned char> buffer;

	for (const layout_param &param : launch.params) {
		buffer.resize((buffer.size() + param.align - 1) / param.align * param.align, 0xab);
		buffer.insert(buffer.end(), param.bytes.begin(), param.bytes.end());
	}
	return buffer;
}

static void
layout_run_driver(const layout_launch &launch, cudaStream_t stream)
{
	static const auto cu_launch_kernel = reinterpret_cast<decltype(&cuLaunchKernel)>(
		dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), "cuLaunchKernel"));
	std::vector<unsigned char> buffer = layout_buffer(launch);
	size_t bytes = buffer.size();
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
		CU_LAUNCH_PARAM_END};
	cudaFunction_t function;

	CHECK(cudaGetFuncBySymbol(&function, launch.stub));
	const CUresult status =
		cu_launch_kernel(function, launch.grid, 1, 1, 32, 1, 1, 0, stream, nullptr, extra);
	if (status != CUDA_SUCCESS) {
		fprintf(stderr, "layouts: cuLaunchKernel of %s: error %d\n", launch.kernel, int(status));
		exit(3);
	}
}

static void
layout_run(const layout_launch &launch, layout_way way, cudaStream_t stream)
{
	layout_launch copy = launch;
	std::vector<void *> params;
	cudaLaunchConfig_t config = {};

	for (layout_param &param : copy.params)
		params.push_back(param.bytes.data());
	config.gridDim = dim3(launch.grid);
	config.blockDim = dim3(32);
	config.stream = stream;
	switch (way) {
	case WAY_RUNTIME:
		CHECK(cudaLaunchKernel(
			launch.stub, config.gridDim, config.blockDim, params.data(), 0, stream));
		break;
	case WAY_RUNTIME_EX:
		CHECK(cudaLaunchKernelExC(&config, launch.stub, params.data()));
		break;
	default:
		layout_run_driver(launch, stream);
		break;
	}
}

template <typename Value> struct layout_same {
	using type = Value;
};

template <typename... Parameters>
static void
layout_add(std::vector<layout_launch> &launches, const char *kernel, void (*stub)(Parameters...),
	const char *impl, int64_t bytes, int64_t rank, unsigned int grid,
	typename layout_same<Parameters>::type... values)
{
	layout_launch launch = {
		kernel, impl, bytes, rank, grid, reinterpret_cast<const void *>(stub), {}, layout_run};

	(
		[&](const auto &value) {
			const unsigned char *begin = reinterpret_cast<const unsigned char *>(&value);
			launch.params.push_back({{begin, begin + sizeof(value)}, alignof(decltype(value))});
		}(values),
		...);
	launches.push_back(launch);
}

/* ADD(launches, kernel's name, implementation, bytes, rank, parameters...) */
#define ADD(launches, name, impl, bytes, rank, ...)                                                          \
	layout_add(launches, NAME_TEXT(name), name, impl, bytes, rank, 8, __VA_ARGS__)

static unsigned long long
layout_ran()
{
	unsigned long long count = 0;

	CHECK(cudaMemcpyFromSymbol(&count, cs_layouts_ran, sizeof(count)));
	return count;
}

/* Everything that a rule must not read is filled with this. */
template <typename Struct>
static Struct
layout_poisoned()
{
	static_assert(std::is_trivially_copyable<Struct>::value, "a kernel's parameter");
	Struct value;

	memset(&value, 0xab, sizeof(value));
	return value;
}

static void *const POINTER = reinterpret_cast<void *>(0xababababab00ULL);

template <unsigned int count> struct alignas(16) pointers {
	void *at[count];
};

/* Messages of so many elements, vectors or tokens. */
static const uint32_t STEPS[] = {1, 3, 448, 4096};

#define VLLM_1STAGE_HALF_2                                                                                   \
	_ZN4vllm26cross_device_reduce_1stageI6__halfLi2EEEvPNS_8RankDataENS_11RankSignalsEPNS_6SignalEPT_ii
#define VLLM_2STAGE_BF16_8                                                                                   \
	_ZN4vllm26cross_device_reduce_2stageI13__nv_bfloat16Li8EEEvPNS_8RankDataENS_11RankSignalsEPNS_6SignalEPT_ii

#endif
