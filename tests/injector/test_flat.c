/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hundred million records through the library's own buffers, parser, label look-up and ring: what the
 * process has in memory afterwards is what it had after the first few. Launches, node ids, graphs and streams
 * go on changing, as they do in a server that lives for days. test_flat [MILLIONS]
 */
#include "clock.h"
#include "records/activity.h"
#include "records/buffers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RECORD_BYTES   216U
#define RECORDS        (CS_BUFFER_BYTES / RECORD_BYTES)
#define NODES          850U /* of a launch */
#define GRAPHS         200U /* that are launched in turn */
#define HELD           4U
#define GROWTH_KIB_MAX 128

static const char *const names[] = {
	"_Z20cutlass_gemm_kernel_aPv",
	"_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li8EEEvPNS_8RankDataENS_11RankSignalsEPNS_"
	"6SignalEPT_ii",
	"_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE",
	"_Z16attention_kernelPv",
	"_Z11silu_kernelPv",
};

/* Millions of records. */
#ifndef CS_TEST_MILLIONS
#define CS_TEST_MILLIONS 100
#endif
static uint64_t wanted = CS_TEST_MILLIONS;
static char directory[] = "/tmp/collscope-flat-XXXXXX";
static struct cs_segment_writer *writer;
static struct cs_catalog *catalog;
static struct cs_activity activity;
static struct cs_buffers buffers;

static CUptiResult
next(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record)
{
	uint8_t *at = *record ? (uint8_t *)*record + RECORD_BYTES : buffer;

	if (at + RECORD_BYTES > buffer + valid_bytes)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = (CUpti_Activity *)(void *)at;
	return CUPTI_SUCCESS;
}

static int
setup(void **state)
{
	static const struct cs_cupti_api no_cupti;
	struct cs_segment_options options = {.directory = directory, .version = "test"};
	struct cs_gpu gpu = {.uuid = {1}};
	char complaint[256];

	(void)state;
	if (!mkdtemp(directory) || cs_segment_writer_create(&options, &writer) < 0 ||
		cs_catalog_load(NULL, &catalog, complaint, sizeof(complaint)) < 0 ||
		cs_labels_init(&no_cupti, writer, catalog) < 0)
		return -1;
	cs_activity_init(&activity, writer, cs_labels_resolve);
	cs_activity_set_gpu(&activity, 0, cs_segment_writer_gpu(writer, &gpu));
	return cs_buffers_init(&buffers, 16);
}

static int
teardown(void **state)
{
	(void)state;
	cs_buffers_destroy(&buffers);
	cs_segment_writer_destroy(writer, true);
	return rmdir(directory);
}

static void
fill(uint8_t *buffer, uint64_t first, uint64_t now_ns)
{
	for (uint64_t i = first; i < first + RECORDS; i++) {
		uint64_t launch = i / NODES;
		uint64_t start_ns = now_ns - (first + RECORDS - i) * 3000;
		CUpti_ActivityKernel9 kernel = {
			.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
			.start = start_ns,
			.end = start_ns + 2200,
			.contextId = 1,
			.streamId = (uint32_t)(13 + launch % 7),
			.correlationId = (uint32_t)launch,
			.name = names[i % (sizeof(names) / sizeof(names[0]))],
			.graphNodeId = (launch % GRAPHS + 2) << 32 | i % NODES,
			.graphId = (uint32_t)(launch % GRAPHS + 2),
		};

		memset(buffer, 0, RECORD_BYTES);
		memcpy(buffer, &kernel, sizeof(kernel));
		buffer += RECORD_BYTES;
	}
}

/* As CUPTI does: some buffers are with it, one comes back at a time. */
static void
feed(uint64_t *fed, uint64_t until)
{
	uint8_t *held[HELD];
	uint64_t now_ns = cs_clock_realtime_ns();
	size_t bytes;

	while (*fed < until) {
		for (unsigned int i = 0; i < HELD; i++)
			cs_buffers_take(&buffers, now_ns, &held[i], &bytes);
		for (unsigned int i = 0; i < HELD; i++) {
			fill(held[i], *fed, now_ns);
			cs_activity_parse(&activity, held[i], RECORDS * RECORD_BYTES, next, now_ns);
			cs_buffers_give(&buffers, held[i]);
			*fed += RECORDS;
		}
	}
}

static long
resident_kib(void)
{
	char text[256] = "";
	long size = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (!file || !fgets(text, sizeof(text), file) || sscanf(text, "%ld %ld", &size, &resident) != 2)
		fail_msg("no /proc/self/statm");
	fclose(file);
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void
test_memory_is_flat(void **state)
{
	const struct cs_status *status = cs_segment_writer_status(writer);
	uint64_t fed = 0, all = wanted * 1000000;
	uint64_t mapped_bytes;
	long before_kib, after_kib;

	(void)state;
	feed(&fed, all / 20);
	before_kib = resident_kib();
	mapped_bytes = cs_buffers_mapped_bytes(&buffers) + cs_labels_mapped_bytes();
	feed(&fed, all);
	after_kib = resident_kib();
	print_message("%llu records, %ld KiB before, %ld KiB after\n", (unsigned long long)fed, before_kib,
		after_kib);
	assert_int_equal(status->kernels_seen, fed);
	assert_int_equal(cs_buffers_mapped_bytes(&buffers) + cs_labels_mapped_bytes(), mapped_bytes);
	/* A sanitizer's own memory grows. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_in_range(after_kib - before_kib + GROWTH_KIB_MAX, 0, 2 * GROWTH_KIB_MAX);
#endif
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_memory_is_flat, setup, teardown),
	};

	if (argc > 1)
		wanted = strtoull(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
