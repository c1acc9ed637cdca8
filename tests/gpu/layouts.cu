/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches kernels of every layout that the catalogue has a size for, in one process on one GPU without
 * peers, and prints as JSON what must have been recorded: how often each (kernel, implementation, bytes,
 * rank) was launched and how often replayed.
 *
 *   layouts LIBRARY      LIBRARY: layouts_before.cu's
 *   layouts LIBRARY --list
 *       without a GPU: every launch as a line, tabs between: kernel, implementation, bytes, rank ("-"
 * unknown), grid, and in hexadecimal the buffer that `extra` passes and each parameter
 *
 * Each launch is made in three ways (cudaLaunchKernel, cudaLaunchKernelExC, cuLaunchKernel with `extra`),
 * once as it is and once captured into a graph, which is replayed three times.
 */
#include "layouts_engines.cuh"
#include "layouts_experts.cuh"
#include "layouts_libraries.cuh"

#include <map>
#include <tuple>

static const int REPLAYS = 3;

static void (*before)(std::vector<layout_launch> *launches);
static unsigned long long (*before_ran)();

static void
open_before(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		fprintf(stderr, "layouts: %s\n", dlerror());
		exit(2);
	}
	before = reinterpret_cast<decltype(before)>(dlsym(library, "cs_layouts_before"));
	before_ran = reinterpret_cast<decltype(before_ran)>(dlsym(library, "cs_layouts_before_ran"));
	if (!before || !before_ran) {
		fprintf(stderr, "layouts: %s is not the library of layouts_before.cu\n", path);
		exit(2);
	}
}

static std::string
number(int64_t value, const char *unknown)
{
	return value == UNKNOWN ? unknown : std::to_string(value);
}

static void
print_bytes(const std::vector<unsigned char> &bytes)
{
	putchar('\t');
	for (unsigned char byte : bytes)
		printf("%02x", byte);
}

static void
list(const std::vector<layout_launch> &launches)
{
	for (const layout_launch &launch : launches) {
		printf("%s\t%s\t%s\t%s\t%u", launch.kernel, launch.impl, number(launch.bytes, "-").c_str(),
			number(launch.rank, "-").c_str(), launch.grid);
		print_bytes(layout_buffer(launch));
		for (const layout_param &param : launch.params)
			print_bytes(param.bytes);
		putchar('\n');
	}
}

static void
launch_all(const std::vector<layout_launch> &launches, cudaStream_t stream)
{
	for (const layout_launch &launch : launches)
		for (int way = 0; way < WAY_COUNT; way++)
			launch.run(launch, layout_way(way), stream);
}

static void
replay_all(const std::vector<layout_launch> &launches, cudaStream_t stream)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
	launch_all(launches, stream);
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < REPLAYS; i++)
		CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
}

static void
print_truth(const std::vector<layout_launch> &launches)
{
	std::map<std::tuple<std::string, std::string, int64_t, int64_t>, int> counts;
	const char *comma = "";

	for (const layout_launch &launch : launches)
		counts[{launch.kernel, launch.impl, launch.bytes, launch.rank}] += WAY_COUNT;
	printf("{\"launches\": %zu, \"kernels_total\": %zu, \"kernels_ran\": %llu, \"sizes\": [",
		launches.size(), launches.size() * WAY_COUNT * (1 + REPLAYS), layout_ran() + before_ran());
	for (const auto &entry : counts) {
		const auto &[kernel, impl, bytes, rank] = entry.first;
		printf("%s\n{\"kernel\": \"%s\", \"impl\": \"%s\", \"bytes\": %s, \"rank\": %s, \"eager\": "
		       "%d, \"replayed\": %d}",
			comma, kernel.c_str(), impl.c_str(), number(bytes, "null").c_str(),
			number(rank, "null").c_str(), entry.second, entry.second * REPLAYS);
		comma = ",";
	}
	printf("]}\n");
}

int
main(int argc, char **argv)
{
	std::vector<layout_launch> launches;
	cudaStream_t stream;

	if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[2], "--list") != 0)) {
		fprintf(stderr, "usage: layouts LIBRARY [--list]\n");
		return 2;
	}
	open_before(argv[1]);
	add_vllm(launches);
	before(&launches);
	add_sglang_g0_to_g2(launches);
	add_sglang_g3_to_g4(launches);
	add_sglang_fused(launches);
	add_fusion(launches);
	add_mnnvl(launches);
	add_all_reduce_params(launches);
	add_torch(launches);
	add_mscclpp(launches);
	add_pcie(launches);
	add_trtllm_experts(launches);
	add_deep_ep(launches);
	add_nccl_by_value(launches);
	if (argc == 3) {
		list(launches);
		return 0;
	}
	CHECK(cudaSetDevice(0));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	launch_all(launches, stream);
	CHECK(cudaStreamSynchronize(stream));
	replay_all(launches, stream);
	print_truth(launches);
	fflush(stdout);
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaDeviceReset());
	return 0;
}
