/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that writes a segment the way the injected library does, and says what it wrote.
 *
 *   cli_segment_writer DIR [name=value...]
 *
 * slots (of the ring), rank, world, launches, collectives (of one launch), age_ms (of the first record),
 * state, lost (pool_empty), dropped (cupti_dropped, 5 unless said), bad_timestamp, windows (deep ones):
 * numbers; so are mode, depth, asked_ms (until when a trace on request runs, from now), skipped (windows),
 * rests (of tracing), period_ms (of sample windows), others: 0 leaves out what is no launch. group: a number;
 * NCCL communicator that the process is a rank of. trace_max_s: what the writer says it allows; late: not
 * before it answers. subscribed: 0 or 1. reason: text. answer: errno for requests; -1 never answers. hold:
 * stay until stdin ends, answering requests and printing each
 * ("request COMMAND FROM UNTIL ARGUMENT"), and writing the launches once more for each "w" ("wrote BASE_NS");
 * otherwise the process ends at once, like one that was killed: the segment stays. Prints "ready PATH
 * BASE_NS" once everything is written.
 */
#include "segment/segment_writer.h"
#include "clock.h"
#include "collective.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The founding case: 42 KiB all-reduces of 200 us, 250 us apart. */
#define MESSAGE_BYTES 43008U
#define DURATION_NS   200000U
#define DISTANCE_NS   250000U
#define LAUNCH_GAP_NS 2000000U
#define KERNEL_NAME   "_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li2EEEv"

struct options {
	long slots, rank, world, launches, collectives, age_ms, state, lost, dropped, bad_timestamp, windows,
		mode, depth, asked_ms, skipped, rests, answer, hold, group, trace_max_s, late, subscribed,
		period_ms, others;
	const char *reason;
};

static int
parse(struct options *options, const char *word)
{
	const struct {
		const char *name;
		long *value;
	} numbers[] = {{"slots", &options->slots}, {"rank", &options->rank}, {"world", &options->world},
		{"launches", &options->launches}, {"collectives", &options->collectives},
		{"age_ms", &options->age_ms}, {"state", &options->state}, {"lost", &options->lost},
		{"dropped", &options->dropped}, {"bad_timestamp", &options->bad_timestamp},
		{"windows", &options->windows}, {"answer", &options->answer}, {"hold", &options->hold},
		{"group", &options->group}, {"trace_max_s", &options->trace_max_s},
		{"subscribed", &options->subscribed}, {"mode", &options->mode}, {"depth", &options->depth},
		{"asked_ms", &options->asked_ms}, {"skipped", &options->skipped}, {"rests", &options->rests},
		{"late", &options->late}, {"period_ms", &options->period_ms}, {"others", &options->others}};
	const char *equals = strchr(word, '=');

	if (!equals)
		return -EINVAL;
	if (strncmp(word, "reason=", 7) == 0) {
		options->reason = equals + 1;
		return 0;
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (strncmp(numbers[i].name, word, (size_t)(equals - word)) != 0 ||
			strlen(numbers[i].name) != (size_t)(equals - word))
			continue;
		*numbers[i].value = strtol(equals + 1, NULL, 10);
		return 0;
	}
	return -EINVAL;
}

static void
write_process(struct cs_segment_writer *writer, const struct options *options)
{
	struct cs_gpu gpu = {.nvml_index = 3 + (int)options->rank,
		.cuda_ordinal = 0,
		.pci_bus = 0x1a,
		.uuid = {0xde, 0xad, (uint8_t)options->rank},
		.name = "Test GPU",
		.memory_bytes = 1ULL << 36,
		.multiprocessors = 132,
		.compute_capability = 90};
	struct cs_status *status = cs_segment_writer_status(writer);

	gpu.link[7] = CS_LINK_NVLINK;
	gpu.link_nvlinks[7] = 18;
	cs_segment_writer_gpu(writer, &gpu);
	cs_segment_writer_rank(writer, (int32_t)options->rank, (int32_t)options->world);
	cs_segment_writer_text(writer, CS_TEXT_COMM, "server");
	cs_segment_writer_text(writer, CS_TEXT_COMMAND_LINE, "server \"quoted\" \\ \xc3\xa9");
	cs_segment_writer_text(writer, CS_TEXT_REASON, options->reason);
	cs_segment_writer_text(writer, CS_TEXT_NCCL, "2.28.9");
	cs_segment_writer_environment(writer, "NCCL_ALGO", "Ring");
	status->mode = (uint64_t)options->mode;
	status->request_until_ns =
		options->asked_ms ? cs_clock_realtime_ns() + (uint64_t)options->asked_ms * CS_NS_PER_MS : 0;
	status->period_ns = (uint64_t)options->period_ms * CS_NS_PER_MS;
	status->windows_skipped = (uint64_t)options->skipped;
	status->tracing_rests = (uint64_t)options->rests;
	status->subscribed = options->subscribed != 0;
	if (!options->late)
		status->trace_max_ns = (uint64_t)options->trace_max_s * CS_NS_PER_S;
	status->state = (uint64_t)options->state;
	status->depth = (uint64_t)options->depth;
	status->heartbeat_ns = cs_clock_realtime_ns();
	status->kernels_seen = 12345;
	status->graph_launches = (uint64_t)options->launches;
	status->lost[CS_LOSS_POOL_EMPTY] += (uint64_t)options->lost;
	status->lost[CS_LOSS_BAD_TIMESTAMP] += (uint64_t)options->bad_timestamp;
	status->windows[CS_DEPTH_DEEP] += (uint64_t)options->windows;
}

static uint32_t
custom_label(struct cs_segment_writer *writer, const struct options *options)
{
	struct cs_communicator communicator = {.hash = 0xfedcba9876543210ULL,
		.rank = (int32_t)options->rank,
		.world = (int32_t)options->world,
		.nodes = 1,
		.impl = CS_IMPL_VLLM_CUSTOM,
		.name = "tp"};
	struct cs_label label = {.op = CS_OP_ALL_REDUCE,
		.impl = CS_IMPL_VLLM_CUSTOM,
		.dtype = CS_DTYPE_BFLOAT16,
		.reduction = CS_REDUCTION_SUM,
		.algorithm = CS_ALGORITHM_ONE_SHOT,
		.source = CS_LABEL_SOURCE_LAUNCH_PARAMETERS,
		.name_id = cs_segment_writer_name(writer, KERNEL_NAME),
		.rank = (int32_t)options->rank,
		.world = (int32_t)options->world,
		.comm_id = cs_segment_writer_communicator(writer, &communicator),
		.bytes = MESSAGE_BYTES,
		.count = MESSAGE_BYTES / 2};

	return cs_segment_writer_label(writer, &label);
}

static void
write_group(struct cs_segment_writer *writer, const struct options *options)
{
	struct cs_communicator communicator = {.hash = 0x5ce0000000000000ULL + (uint64_t)options->group,
		.rank = (int32_t)options->rank,
		.world = (int32_t)options->world,
		.nodes = 1,
		.impl = CS_IMPL_NCCL};

	if (options->group)
		cs_segment_writer_communicator(writer, &communicator);
}

static uint32_t
nccl_label(struct cs_segment_writer *writer)
{
	struct cs_label label = {.op = CS_OP_ALL_GATHER,
		.impl = CS_IMPL_NCCL,
		.rank = CS_RANK_UNKNOWN,
		.world = CS_RANK_UNKNOWN,
		.bytes = CS_BYTES_UNKNOWN};

	return cs_segment_writer_label(writer, &label);
}

/* Graph launches of collectives, all of one label; returns when the last one ended. */
static uint64_t
write_launches(struct cs_segment_writer *writer, const struct options *options, uint64_t at_ns)
{
	uint32_t label = custom_label(writer, options);

	for (long launch = 0; launch < options->launches; launch++) {
		for (long i = 0; i < options->collectives; i++) {
			struct cs_record record = {.type = CS_RECORD_COLLECTIVE,
				.flags = CS_RECORD_IN_GRAPH,
				.ref = label,
				.start_ns = at_ns,
				.end_ns = at_ns + DURATION_NS + (uint64_t)i,
				.value = MESSAGE_BYTES,
				.graph_node_id = (uint64_t)(1000 + i),
				.correlation_id = (uint32_t)(500 + launch),
				.graph_id = 9,
				.stream_id = 7};

			cs_segment_writer_append(writer, &record);
			at_ns += DISTANCE_NS;
		}
		at_ns += LAUNCH_GAP_NS;
	}
	return at_ns;
}

/* One of everything else. */
static void
write_others(
	struct cs_segment_writer *writer, const struct options *options, uint64_t base_ns, uint64_t at_ns)
{
	const struct cs_record records[] = {
		{.type = CS_RECORD_MARK,
			.ref = cs_segment_writer_name(writer, "decode \"step\""),
			.start_ns = base_ns,
			.end_ns = at_ns,
			.value = 4242,
			.sequence = 1},
		{.type = CS_RECORD_HOST_LAUNCH,
			.start_ns = base_ns,
			.end_ns = base_ns + 9000,
			.value = 4242,
			.correlation_id = 500,
			.graph_id = 9},
		{.type = CS_RECORD_COLLECTIVE,
			.ref = nccl_label(writer),
			.start_ns = at_ns,
			.end_ns = at_ns + 7000,
			.value = CS_BYTES_UNKNOWN,
			.correlation_id = 900,
			.stream_id = 8},
		{.type = CS_RECORD_WINDOW,
			.flags = CS_DEPTH_DEEP,
			.ref = 1,
			.start_ns = base_ns - 1000,
			.end_ns = at_ns + 100000,
			.value = 3},
	};

	for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++)
		cs_segment_writer_append(writer, &records[i]);
	if (options->dropped)
		cs_segment_writer_lose_since(writer, CS_LOSS_CUPTI_DROPPED, (uint64_t)options->dropped,
			at_ns + 89000, at_ns + 90000);
}

static void
serve(struct cs_segment_writer *writer, const struct options *options)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	struct cs_segment_request request;

	for (;;) {
		char byte = 0;

		if (poll(&input, 1, 5) > 0 && read(STDIN_FILENO, &byte, 1) <= 0)
			return;
		if (byte == 'w') {
			uint64_t now_ns = cs_clock_realtime_ns();

			write_launches(writer, options, now_ns);
			printf("wrote %" PRIu64 "\n", now_ns);
			fflush(stdout);
		}
		if (options->answer < 0 || !cs_segment_writer_take_request(writer, &request))
			continue;
		printf("request %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", request.command,
			request.from_ns, request.until_ns, request.argument);
		fflush(stdout);
		cs_segment_writer_status(writer)->trace_max_ns = (uint64_t)options->trace_max_s * CS_NS_PER_S;
		cs_segment_writer_answer(
			writer, &request, request.command == CS_COMMAND_CANCEL ? 0 : (int)options->answer);
	}
}

int
main(int argc, char **argv)
{
	struct options options = {.slots = 4096,
		.world = 2,
		.launches = 3,
		.collectives = 10,
		.age_ms = 5000,
		.state = CS_STATE_TRACING,
		.mode = CS_MODE_FULL,
		.depth = CS_DEPTH_DEEP,
		.dropped = 5,
		.others = 1,
		.reason = ""};
	struct cs_segment_options segment = {.version = "0.0.1-test"};
	struct cs_segment_writer *writer = NULL;
	uint64_t base_ns, end_ns;
	int result;

	if (argc < 2)
		return 2;
	segment.directory = argv[1];
	for (int i = 2; i < argc; i++) {
		if (parse(&options, argv[i])) {
			fprintf(stderr, "cli_segment_writer: what is \"%s\"?\n", argv[i]);
			return 2;
		}
	}
	segment.ring_slots = (uint32_t)options.slots;
	result = cs_segment_writer_create(&segment, &writer);
	if (result) {
		fprintf(stderr, "cli_segment_writer: %s\n", strerror(-result));
		return 1;
	}
	base_ns = cs_clock_realtime_ns() - (uint64_t)options.age_ms * CS_NS_PER_MS;
	write_process(writer, &options);
	write_group(writer, &options);
	end_ns = write_launches(writer, &options, base_ns);
	if (options.others)
		write_others(writer, &options, base_ns, end_ns);
	printf("ready %s %" PRIu64 "\n", cs_segment_writer_path(writer), base_ns);
	fflush(stdout);
	if (options.hold)
		serve(writer, &options);
	cs_segment_writer_destroy(writer, false);
	return 0;
}
