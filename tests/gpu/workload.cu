/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decode-like loop on one GPU: a CUDA graph of `--layers` x 2 x (2 split-K products = 4 kernels, all-reduce, elementwise),
 * replayed `--steps` times. It prints one JSON object of truth: what was launched, step times, a checksum of the output, and
 * all-reduce times by CUDA events.
 *
 *   --kind ar      two ranks in this process, on two streams (854 nodes with 61 layers)
 *   --kind nccl    the NCCL stand-in instead, one rank (732 nodes)
 *   --kind gemm    no all-reduce (610 nodes)
 *   --kind tiny    per layer two NCCL stand-ins and 16 kernels of a few instructions (2,196 nodes with 122 layers): as many
 *                  records a second as a GPU can make; the output is compared with what it must be ("output_right")
 *   --ipc N --rank R --exchange DIR   N processes on this GPU share their buffers through CUDA IPC; one rank each
 *   --device N     GPU (default 0); with --ipc on several GPUs each process names its own
 *   --sync         the CPU waits for every step; else it runs ahead
 *   --warm-seconds N  replay for so long before the loop that is timed
 *   --copies        a copy and a set of 43,008 bytes in every layer of the graph, which change nothing
 *   --late-us N    this process comes that late to every all-reduce
 *   --events N     eager all-reduces of --spin-us each, timed by CUDA events, before the loop
 */
#include "ranks.cuh"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <getopt.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

struct options {
	std::string kind = "ar";
	int layers = 61;
	long steps = 200;
	double seconds = 0; /* > 0: instead of steps */
	double warm_seconds = 0;
	bool sync = false;
	int events = 0;
	int spin_us = 0;
	int ipc = 0;
	int rank = 0;
	int device = 0;
	std::string exchange;
	int pause_ms = 0; /* after the loop, before exit */
	bool copies = false;
	int late_us = 0;  /* hold the stream this long before every all-reduce */
	bool abandon = false; /* exit without destroying anything */
};

static double
now_s()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

template <typename Value>
static void
write_whole(const std::string &path, const Value &value)
{
	const std::string temporary = path + ".tmp";
	FILE *file = fopen(temporary.c_str(), "wb");

	if (!file || fwrite(&value, sizeof(value), 1, file) != 1 || fclose(file) || rename(temporary.c_str(), path.c_str())) {
		fprintf(stderr, "workload: cannot write %s: %s\n", path.c_str(), strerror(errno));
		exit(3);
	}
}

template <typename Value>
static void
read_whole(const std::string &path, Value &value)
{
	for (int turn = 0; turn < 3000; turn++) {
		FILE *file = fopen(path.c_str(), "rb");
		if (file) {
			const size_t got = fread(&value, sizeof(value), 1, file);
			fclose(file);
			if (got == 1)
				return;
		}
		usleep(10000);
	}
	fprintf(stderr, "workload: no %s after 30 s\n", path.c_str());
	exit(3);
}

struct handles {
	cudaIpcMemHandle_t input, self;
};

/* Waits until every process has written `what`: a barrier through the exchange folder. */
static void
meet(const options &o, const char *what)
{
	char token = 1;
	write_whole(o.exchange + "/" + what + "." + std::to_string(o.rank), token);
	for (int peer = 0; peer < o.ipc; peer++)
		read_whole(o.exchange + "/" + what + "." + std::to_string(peer), token);
}

static void
connect_ipc(const options &o, rank_state &r)
{
	handles mine;
	vllm::RankData pointers = {};

	CHECK(cudaIpcGetMemHandle(&mine.input, r.input));
	CHECK(cudaIpcGetMemHandle(&mine.self, r.self));
	write_whole(o.exchange + "/handles." + std::to_string(o.rank), mine);
	for (int peer = 0; peer < o.ipc; peer++) {
		handles theirs;
		void *input = r.input, *self = r.self;
		if (peer != o.rank) {
			read_whole(o.exchange + "/handles." + std::to_string(peer), theirs);
			CHECK(cudaIpcOpenMemHandle(&input, theirs.input, cudaIpcMemLazyEnablePeerAccess));
			CHECK(cudaIpcOpenMemHandle(&self, theirs.self, cudaIpcMemLazyEnablePeerAccess));
		}
		pointers.ptrs[peer] = input;
		r.peers.signals[peer] = static_cast<vllm::Signal *>(self);
	}
	CHECK(cudaMemcpy(r.data, &pointers, sizeof(pointers), cudaMemcpyHostToDevice));
	meet(o, "connected");
}

static void
launch_product(rank_state &r, const __nv_bfloat16 *weight, cudaStream_t stream)
{
	decode_gemm_split_k<<<dim3(CS_DECODE_HIDDEN / 8, CS_DECODE_SPLIT_K), 256, 0, stream>>>(r.x, weight, r.partial);
	decode_gemm_sum_slices<<<(message_elements + 255) / 256, 256, 0, stream>>>(r.partial, r.input);
}

struct counts {
	long all_reduce = 0, kernels = 0;
};

static const int ticks_per_half_layer = 8;
static const int tick_threads = 32;

static counts
launch_tiny_half_layer(const options &o, rank_state &r, cudaStream_t stream)
{
	counts n;

	launch_nccl(r, stream);
	n.all_reduce++, n.kernels++;
	for (int i = 0; i < ticks_per_half_layer; i++) {
		decode_tick<<<1, tick_threads, 0, stream>>>(reinterpret_cast<unsigned int *>(r.scratch));
		n.kernels++;
	}
	if (o.copies) {
		CHECK(cudaMemcpyAsync(r.x, r.input, message_bytes, cudaMemcpyDeviceToDevice, stream));
		CHECK(cudaMemsetAsync(r.output, 0, message_bytes, stream));
	}
	return n;
}

/* Have all ticks happened, and nothing else? */
static bool
ticks_are_right(const rank_state &r, unsigned long ticks)
{
	std::vector<unsigned int> state((size_t)tick_threads);

	CHECK(cudaMemcpy(state.data(), r.scratch, state.size() * sizeof(state[0]), cudaMemcpyDeviceToHost));
	const unsigned int expected = decode_tick_expected(0, ticks);
	return std::all_of(state.begin(), state.end(), [&](unsigned int each) { return each == expected; });
}

/* One step into `stream` (captured or eager); side: stream of the second rank when both live here. */
static counts
launch_step(const options &o, std::vector<rank_state> &ranks, const __nv_bfloat16 *weight, cudaStream_t stream,
	cudaStream_t side, cudaEvent_t fork, cudaEvent_t join)
{
	counts n;

	for (int i = 0; i < o.layers * 2; i++) {
		if (o.kind == "tiny") {
			const counts half = launch_tiny_half_layer(o, ranks[0], stream);
			n.all_reduce += half.all_reduce, n.kernels += half.kernels;
			continue;
		}
		launch_product(ranks[0], weight, stream);
		launch_product(ranks[0], weight, stream);
		n.kernels += 4;
		if (o.copies) {
			CHECK(cudaMemcpyAsync(ranks[0].scratch, ranks[0].input, message_bytes, cudaMemcpyDeviceToDevice, stream));
			CHECK(cudaMemsetAsync(ranks[0].scratch, 0, message_bytes, stream));
		}
		if (o.late_us) {
			decode_spin<<<1, 1, 0, stream>>>((unsigned)o.late_us * 1000U);
			n.kernels++;
		}
		if (o.kind == "ar" && o.ipc) {
			launch_all_reduce(ranks[0], o.rank, o.ipc, stream);
			n.all_reduce++, n.kernels++;
		} else if (o.kind == "ar") {
			CHECK(cudaEventRecord(fork, stream));
			CHECK(cudaStreamWaitEvent(side, fork, 0));
			launch_all_reduce(ranks[0], 0, 2, stream);
			launch_all_reduce(ranks[1], 1, 2, side);
			CHECK(cudaEventRecord(join, side));
			CHECK(cudaStreamWaitEvent(stream, join, 0));
			n.all_reduce += 2, n.kernels += 2;
		} else if (o.kind == "nccl") {
			launch_nccl(ranks[0], stream);
			n.all_reduce++, n.kernels++;
		}
		decode_normalise<<<(message_elements + 255) / 256, 256, 0, stream>>>(
			o.kind == "gemm" ? ranks[0].input : ranks[0].output, ranks[0].x);
		n.kernels++;
	}
	CHECK(cudaGetLastError());
	return n;
}

static double
quantile(std::vector<double> values, double q)
{
	if (values.empty())
		return 0;
	std::sort(values.begin(), values.end());
	return values[std::min(values.size() - 1, size_t(q * double(values.size())))];
}

/* Eager all-reduces of a known length, each between two events, and all together between two more. */
static counts
time_by_events(const options &o, std::vector<rank_state> &ranks, cudaStream_t stream, cudaStream_t side)
{
	const unsigned int spin_ns = (unsigned)o.spin_us * 1000U;
	const unsigned int none = 0;
	std::vector<cudaEvent_t> begin((size_t)o.events), end((size_t)o.events);
	std::vector<double> each;
	cudaEvent_t all_begin, all_end;
	float all_ms;
	counts n;

	CHECK(cudaMemcpyToSymbol(cs_standin_spin_ns, &spin_ns, sizeof(spin_ns)));
	CHECK(cudaEventCreate(&all_begin));
	CHECK(cudaEventCreate(&all_end));
	for (int i = 0; i < o.events; i++) {
		CHECK(cudaEventCreate(&begin[(size_t)i]));
		CHECK(cudaEventCreate(&end[(size_t)i]));
	}
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < o.events; i++) {
		CHECK(cudaEventRecord(begin[(size_t)i], stream));
		if (o.kind == "nccl") {
			launch_nccl(ranks[0], stream);
		} else {
			launch_all_reduce(ranks[0], o.ipc ? o.rank : 0, o.ipc ? o.ipc : 2, stream);
			if (!o.ipc)
				launch_all_reduce(ranks[1], 1, 2, side), n.all_reduce++, n.kernels++;
		}
		n.all_reduce++, n.kernels++;
		CHECK(cudaEventRecord(end[(size_t)i], stream));
	}
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < o.events; i++) {
		float ms;
		CHECK(cudaEventElapsedTime(&ms, begin[(size_t)i], end[(size_t)i]));
		each.push_back(double(ms) * 1e3);
	}
	CHECK(cudaEventRecord(all_begin, stream));
	for (int i = 0; i < o.events; i++) {
		if (o.kind == "nccl") {
			launch_nccl(ranks[0], stream);
		} else {
			launch_all_reduce(ranks[0], o.ipc ? o.rank : 0, o.ipc ? o.ipc : 2, stream);
			if (!o.ipc)
				launch_all_reduce(ranks[1], 1, 2, side), n.all_reduce++, n.kernels++;
		}
		n.all_reduce++, n.kernels++;
	}
	CHECK(cudaEventRecord(all_end, stream));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaEventElapsedTime(&all_ms, all_begin, all_end));
	CHECK(cudaMemcpyToSymbol(cs_standin_spin_ns, &none, sizeof(none)));
	printf("\"event_us_p50\": %.3f, \"event_us_back_to_back\": %.3f, \"event_count\": %d, ", quantile(each, 0.5),
		double(all_ms) * 1e3 / o.events, o.events);
	return n;
}

static options
parse(int argc, char **argv)
{
	static const option longs[] = {{"kind", 1, nullptr, 'k'}, {"layers", 1, nullptr, 'l'},
		{"steps", 1, nullptr, 'n'}, {"seconds", 1, nullptr, 't'}, {"sync", 0, nullptr, 's'},
		{"events", 1, nullptr, 'e'}, {"spin-us", 1, nullptr, 'u'}, {"ipc", 1, nullptr, 'i'},
		{"rank", 1, nullptr, 'r'}, {"device", 1, nullptr, 'd'}, {"exchange", 1, nullptr, 'x'}, {"pause-ms", 1, nullptr, 'p'},
		{"abandon", 0, nullptr, 'a'}, {"late-us", 1, nullptr, 'L'}, {"copies", 0, nullptr, 'C'},
		{"warm-seconds", 1, nullptr, 'W'}, {nullptr, 0, nullptr, 0}};
	options o;
	int c;

	while ((c = getopt_long(argc, argv, "", longs, nullptr)) != -1) {
		switch (c) {
		case 'k': o.kind = optarg; break;
		case 'l': o.layers = atoi(optarg); break;
		case 'n': o.steps = atol(optarg); break;
		case 't': o.seconds = atof(optarg); break;
		case 's': o.sync = true; break;
		case 'e': o.events = atoi(optarg); break;
		case 'u': o.spin_us = atoi(optarg); break;
		case 'i': o.ipc = atoi(optarg); break;
		case 'r': o.rank = atoi(optarg); break;
		case 'd': o.device = atoi(optarg); break;
		case 'x': o.exchange = optarg; break;
		case 'p': o.pause_ms = atoi(optarg); break;
		case 'a': o.abandon = true; break;
		case 'C': o.copies = true; break;
		case 'W': o.warm_seconds = atof(optarg); break;
		case 'L': o.late_us = atoi(optarg); break;
		default: exit(2);
		}
	}
	if ((o.kind != "ar" && o.kind != "nccl" && o.kind != "gemm" && o.kind != "tiny") || (o.ipc && o.exchange.empty())) {
		fprintf(stderr, "workload: --kind is ar, nccl, gemm or tiny; --ipc needs --exchange\n");
		exit(2);
	}
	if (o.ipc && (o.seconds > 0 || o.warm_seconds > 0)) {
		/* By its own clock each rank makes as many steps as it likes; the one that makes one more waits in it for ever. */
		fprintf(stderr, "workload: ranks of --ipc need the same --steps, not --seconds or --warm-seconds\n");
		exit(2);
	}
	return o;
}

int
main(int argc, char **argv)
{
	const options o = parse(argc, argv);
	std::vector<rank_state> ranks(o.kind == "ar" && !o.ipc ? 2 : 1);
	std::vector<double> step_ms, launch_ms;
	cudaStream_t stream, side;
	cudaEvent_t fork, join;
	__nv_bfloat16 *weight;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	counts eager, per_step;
	long steps = 0;

	CHECK(cudaSetDevice(o.device));
	printf("{");
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
	CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
	{
		std::vector<__nv_bfloat16> host((size_t)CS_DECODE_HIDDEN * CS_DECODE_HIDDEN);
		for (size_t i = 0; i < host.size(); i++)
			host[i] = __float2bfloat16(float((i * 40503U) % 997U) / 9970.0F - 0.05F);
		CHECK(cudaMalloc(&weight, host.size() * sizeof(host[0])));
		CHECK(cudaMemcpy(weight, host.data(), host.size() * sizeof(host[0]), cudaMemcpyHostToDevice));
	}
	for (size_t i = 0; i < ranks.size(); i++)
		rank_allocate(ranks[i], o.ipc ? o.rank : int(i));
	if (o.ipc)
		connect_ipc(o, ranks[0]);
	else
		connect_local(ranks.data(), int(ranks.size()));

	if (o.events)
		eager = time_by_events(o, ranks, stream, side);

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	per_step = launch_step(o, ranks, weight, stream, side, fork, join);
	CHECK(cudaStreamEndCapture(stream, &graph));
	size_t nodes = 0;
	CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	if (o.ipc)
		meet(o, "captured");
	CHECK(cudaMemset(ranks[0].scratch, 0, message_bytes));

	long warm_steps = 0;
	for (const double until = now_s() + o.warm_seconds; o.warm_seconds > 0 && now_s() < until; warm_steps++) {
		CHECK(cudaGraphLaunch(exec, stream));
		CHECK(cudaStreamSynchronize(stream));
	}
	const double begin = now_s();
	double last = begin;
	while (o.seconds > 0 ? now_s() - begin < o.seconds : steps < o.steps) {
		const double before = now_s();
		CHECK(cudaGraphLaunch(exec, stream));
		launch_ms.push_back((now_s() - before) * 1e3);
		steps++;
		/* Pipelined: the CPU runs at most 32 steps ahead, as an engine that overlaps scheduling would. */
		if (o.sync || steps % 32 == 0) {
			CHECK(cudaStreamSynchronize(stream));
			const double now = now_s();
			step_ms.push_back((now - last) * 1e3 / (o.sync ? 1 : 32));
			last = now;
		}
	}
	CHECK(cudaStreamSynchronize(stream));
	const double wall = now_s() - begin;

	const bool right =
		o.kind != "tiny" ||
		ticks_are_right(ranks[0], (unsigned long)(steps + warm_steps) * (unsigned long)(o.layers * 2 * ticks_per_half_layer));
	std::vector<unsigned short> out(message_elements);
	uint64_t checksum = 1469598103934665603ULL;
	CHECK(cudaMemcpy(out.data(), ranks[0].x, message_bytes, cudaMemcpyDeviceToHost));
	for (unsigned short v : out)
		checksum = (checksum ^ v) * 1099511628211ULL;

	printf("\"kind\": \"%s\", \"pid\": %d, \"rank\": %d, \"world\": %d, \"sync\": %s, \"nodes\": %zu, \"steps\": %ld, "
	       "\"all_reduce_per_step\": %ld, \"kernels_per_step\": %ld, \"all_reduce_eager\": %ld, \"kernels_eager\": %ld, "
	       "\"all_reduce_total\": %ld, \"kernels_total\": %ld, \"message_bytes\": %zu, \"step_ms_p50\": %.4f, "
	       "\"step_ms_p99\": %.4f, \"step_ms_mean\": %.4f, \"launch_ms_p50\": %.4f, \"wall_s\": %.3f, "
	       "\"output_right\": %s, \"checksum\": \"%016llx\"}\n",
		o.kind.c_str(), int(getpid()), o.rank, o.ipc ? o.ipc : int(ranks.size()), o.sync ? "true" : "false", nodes,
		steps, per_step.all_reduce, per_step.kernels, eager.all_reduce, eager.kernels,
		eager.all_reduce + per_step.all_reduce * (steps + warm_steps),
		eager.kernels + per_step.kernels * (steps + warm_steps), message_bytes,
		quantile(step_ms, 0.5), quantile(step_ms, 0.99), wall * 1e3 / double(steps), quantile(launch_ms, 0.5), wall,
		right ? "true" : "false", (unsigned long long)checksum);
	fflush(stdout);
	if (o.pause_ms)
		usleep((useconds_t)o.pause_ms * 1000U);
	if (o.abandon)
		return 0;
	if (o.ipc)
		meet(o, "done");
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaStreamDestroy(side));
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaDeviceReset());
	return 0;
}
