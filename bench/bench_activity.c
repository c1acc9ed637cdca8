/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our work per kernel record, from CUPTI's completed buffer to the ring: the walk, looking up what the kernel
 * is, joining ordinary kernels, writing. Buffers are laid out as CUPTI 13.0 does (216 bytes a record), 512
 * KiB each, with the kernels of a decode step: per layer two all-reduces and twelve others. For comparison:
 * the walk alone, which any consumer pays.
 */
#include "clock.h"
#include "records/activity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES (512U * 1024U)
#define RECORD_BYTES 216U
#define BUFFERS      16U
#define ROUNDS       40U

static const char *const names[] = {
	"_Z20cutlass_gemm_kernel_aPv",
	"_Z20splitk_reduce_kernelPv",
	"_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li8EEEvPNS_8RankDataENS_11RankSignalsEPNS_"
	"6SignalEPT_ii",
	"_Z15rms_norm_kernelPv",
	"_Z12rotary_kernelPv",
	"_Z16attention_kernelPv",
	"_Z11silu_kernelPv",
};

static CUptiResult
next(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record)
{
	uint8_t *at = *record ? (uint8_t *)*record + RECORD_BYTES : buffer;

	if (at + RECORD_BYTES > buffer + valid_bytes)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = (CUpti_Activity *)(void *)at;
	return CUPTI_SUCCESS;
}

static size_t
fill(uint8_t *buffer, uint64_t start_ns)
{
	size_t count = BUFFER_BYTES / RECORD_BYTES;

	memset(buffer, 0, BUFFER_BYTES);
	for (size_t i = 0; i < count; i++) {
		CUpti_ActivityKernel9 kernel = {
			.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
			.start = start_ns + i * 3000,
			.end = start_ns + i * 3000 + 2200,
			.deviceId = 0,
			.contextId = 1,
			.streamId = 13,
			.correlationId = (uint32_t)(i / 850 + 1),
			.name = names[i % (sizeof(names) / sizeof(names[0]))],
			.graphNodeId = 0x200000000 + i % 850 + 1,
			.graphId = 2,
		};

		memcpy(buffer + i * RECORD_BYTES, &kernel, sizeof(kernel));
	}
	return count * RECORD_BYTES;
}

static uint64_t
walk(uint8_t *buffer, size_t valid_bytes)
{
	CUpti_Activity *record = NULL;
	uint64_t sum = 0;

	while (next(buffer, valid_bytes, &record) == CUPTI_SUCCESS)
		sum += ((const CUpti_ActivityKernel9 *)(const void *)record)->end;
	return sum;
}

int
main(void)
{
	static const struct cs_cupti_api no_cupti;
	static struct cs_activity activity;
	char directory[] = "/dev/shm/collscope-bench-XXXXXX";
	struct cs_segment_options options = {.directory = directory, .version = "bench"};
	struct cs_gpu gpu = {.uuid = {1}};
	struct cs_segment_writer *writer;
	struct cs_catalog *catalog;
	char complaint[256];
	uint8_t *buffers = aligned_alloc(4096, (size_t)BUFFERS * BUFFER_BYTES);
	uint64_t now_ns = cs_clock_realtime_ns();
	uint64_t begin_ns, walk_ns = 0, parse_ns = 0, records = 0, sum = 0;
	size_t bytes = 0;

	if (!buffers || !mkdtemp(directory) || cs_segment_writer_create(&options, &writer) < 0 ||
		cs_catalog_load(NULL, &catalog, complaint, sizeof(complaint)) < 0 ||
		cs_labels_init(&no_cupti, writer, catalog) < 0) {
		fprintf(stderr, "bench_activity: cannot set up in %s\n", directory);
		return 1;
	}
	cs_activity_init(&activity, writer, cs_labels_resolve);
	cs_pace_begin(&activity.pace, 1); /* as in a window */
	cs_activity_set_gpu(&activity, 0, cs_segment_writer_gpu(writer, &gpu));
	for (unsigned int i = 0; i < BUFFERS; i++)
		bytes = fill(buffers + (size_t)i * BUFFER_BYTES, now_ns);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (unsigned int i = 0; i < BUFFERS; i++) {
			uint8_t *buffer = buffers + (size_t)i * BUFFER_BYTES;

			begin_ns = cs_clock_monotonic_ns();
			sum += walk(buffer, bytes);
			walk_ns += cs_clock_monotonic_ns() - begin_ns;
		}
		for (unsigned int i = 0; i < BUFFERS; i++) {
			begin_ns = cs_clock_monotonic_ns();
			cs_activity_parse(&activity, buffers + (size_t)i * BUFFER_BYTES, bytes, next, now_ns);
			parse_ns += cs_clock_monotonic_ns() - begin_ns;
			records += bytes / RECORD_BYTES;
		}
	}
	printf("{\"bench\": \"activity\", \"records\": %llu, \"ns_per_record\": %.1f, "
	       "\"walk_ns_per_record\": %.1f, "
	       "\"ring_records_per_kernel\": %.2f, \"bar_ns\": 100, \"checksum\": %llu}\n",
		(unsigned long long)records, (double)parse_ns / (double)records,
		(double)walk_ns / (double)records,
		(double)(cs_segment_writer_status(writer)->records[CS_RECORD_COLLECTIVE] +
			 cs_segment_writer_status(writer)->records[CS_RECORD_BUSY]) /
			(double)records,
		(unsigned long long)(sum & 0xffff));
	cs_segment_writer_destroy(writer, true);
	rmdir(directory);
	return 0;
}
