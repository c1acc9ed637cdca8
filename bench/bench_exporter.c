/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the exporter costs, with eight processes that write as eight ranks in full mode do: verify steps of
 * 122 all-reduces in a graph, a run of other kernels before each.
 *
 *   ingest    records per second of one thread, from the ring into the series (reading, analysis and
 * histograms), and against memcpy of as many records scrape    time to copy, write and compress the metrics
 * of the same eight processes with at least 400 histogram series memory    resident set of this process at
 * the end
 *
 * Every figure is the median of the rounds. Usage: bench_exporter [rounds]
 */
#include "clock.h"
#include "collective.h"
#include "exposition.h"
#include "gzip.h"
#include "ingest.h"
#include "segment/segment_writer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS             8
#define COLLECTIVES       122
#define STEPS_PER_ROUND   4 /* 100 ms */
#define SIZES             25 /* label sets of each rank: 8 x 25 histograms of durations, as many of waits, and others */
#define COLLECTIVE_NS     150000
#define GAP_NS            60000
#define ROUND_NS          (STEPS_PER_ROUND * (COLLECTIVES * (COLLECTIVE_NS + GAP_NS) + 700000ULL))
#define LIVE_ROUNDS       40
#define ROUNDS_MAX        200
#define RECORDS_PER_ROUND (STEPS_PER_ROUND * COLLECTIVES * 2)

struct rank {
	pid_t pid;
	int go, done; /* pipe ends of the parent */
};

/* -- a rank ---------------------------------------------------------------------------------------------- */

static void
write_step(struct cs_segment_writer *writer, uint32_t rank, const uint32_t *labels, uint64_t *now_ns,
	uint32_t number)
{
	for (uint32_t i = 0; i < COLLECTIVES; i++) {
		struct cs_record busy = {
			.type = CS_RECORD_BUSY,
			.flags = CS_RECORD_IN_GRAPH,
			.ref = 6,
			.start_ns = *now_ns,
			.end_ns = *now_ns + GAP_NS - 1000,
			.value = GAP_NS - 6000,
			.correlation_id = number,
			.graph_id = 7,
			.stream_id = 3,
		};
		/* The ranks arrive at different times and end together. */
		uint64_t end_ns = *now_ns + GAP_NS + COLLECTIVE_NS;
		uint32_t which = number % 4 ? 0 : i % SIZES;
		struct cs_record collective = {
			.type = CS_RECORD_COLLECTIVE,
			.flags = CS_RECORD_IN_GRAPH,
			.ref = labels[which],
			.start_ns = *now_ns + GAP_NS + (rank * 7919 + i * 104729 + number * 31) % 90000,
			.end_ns = end_ns,
			.value = UINT64_C(1024) * (which + 1),
			.graph_node_id = i + 1,
			.correlation_id = number,
			.graph_id = 7,
			.stream_id = 3,
		};

		cs_segment_writer_append(writer, &busy);
		cs_segment_writer_append(writer, &collective);
		*now_ns = end_ns;
	}
	*now_ns += 700000; /* the scheduler's turn */
}

static void
make_labels(struct cs_segment_writer *writer, int32_t rank, uint32_t *labels)
{
	/* Sizes share a bucket; operations and implementations tell the label sets apart. */
	static const uint8_t ops[] = {
		CS_OP_ALL_REDUCE, CS_OP_ALL_GATHER, CS_OP_REDUCE_SCATTER, CS_OP_BROADCAST, CS_OP_SEND_RECV};
	struct cs_communicator communicator = {
		.hash = 42, .rank = rank, .world = RANKS, .nodes = 1, .impl = CS_IMPL_NCCL};
	uint32_t comm_id = cs_segment_writer_communicator(writer, &communicator);

	for (uint32_t i = 0; i < SIZES; i++) {
		struct cs_label label = {
			.op = ops[i % 5],
			.impl = (uint8_t)(1 + i / 5),
			.source = CS_LABEL_SOURCE_NCCL_PROFILER,
			.rank = rank,
			.world = RANKS,
			.comm_id = comm_id,
			.bytes = UINT64_C(1024) * (i + 1),
		};

		labels[i] = cs_segment_writer_label(writer, &label);
	}
}

static void
run_rank(const char *directory, int32_t rank, uint64_t begin_ns, int go, int done)
{
	struct cs_segment_options options = {.directory = directory, .version = CS_VERSION};
	struct cs_gpu gpu = {.nvml_index = rank, .cuda_ordinal = rank, .uuid = {(uint8_t)(rank + 1)}};
	struct cs_segment_writer *writer;
	uint32_t labels[SIZES];
	uint32_t number = 0;
	uint64_t from_ns;

	if (cs_segment_writer_create(&options, &writer) < 0)
		_exit(1);
	cs_segment_writer_gpu(writer, &gpu);
	cs_segment_writer_rank(writer, rank, RANKS);
	make_labels(writer, rank, labels);
	while (read(go, &from_ns, sizeof(from_ns)) == (ssize_t)sizeof(from_ns)) {
		if (from_ns)
			begin_ns = from_ns;
		for (int step = 0; step < STEPS_PER_ROUND; step++)
			write_step(writer, (uint32_t)rank, labels, &begin_ns, ++number);
		if (write(done, "x", 1) != 1)
			break;
	}
	cs_segment_writer_destroy(writer, true);
	_exit(0);
}

static int
start_ranks(const char *directory, uint64_t begin_ns, struct rank *ranks)
{
	for (int32_t rank = 0; rank < RANKS; rank++) {
		int go[2], done[2];

		if (pipe(go) < 0 || pipe(done) < 0)
			return -errno;
		ranks[rank] = (struct rank){.pid = fork(), .go = go[1], .done = done[0]};
		if (ranks[rank].pid == 0) {
			for (int32_t other = 0; other <= rank; other++)
				close(ranks[other].go);
			run_rank(directory, rank, begin_ns, go[0], done[1]);
		}
		close(go[0]);
		close(done[1]);
		if (ranks[rank].pid < 0)
			return -errno;
	}
	return 0;
}

/* from_ns: record time at which the ranks go on; 0 where they are. */
static void
write_round(const struct rank *ranks, uint64_t from_ns)
{
	char byte;

	for (int rank = 0; rank < RANKS; rank++)
		if (write(ranks[rank].go, &from_ns, sizeof(from_ns)) != (ssize_t)sizeof(from_ns))
			exit(1);
	for (int rank = 0; rank < RANKS; rank++)
		if (read(ranks[rank].done, &byte, 1) != 1)
			exit(1);
}

/* -- measuring ------------------------------------------------------------------------------------------- */

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double
median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), compare);
	return values[count / 2];
}

/* Seconds that a memcpy of as many records takes, out of memory that was just written by others. */
static double
copy_seconds(void)
{
	static struct cs_record from[RANKS * RECORDS_PER_ROUND], to[CS_INGEST_BATCH];
	size_t count = sizeof(from) / sizeof(from[0]);
	uint64_t begin_ns;

	memset(from, 1, sizeof(from));
	begin_ns = cs_clock_monotonic_ns();
	for (size_t i = 0; i < count; i += CS_INGEST_BATCH) {
		size_t batch = count - i < CS_INGEST_BATCH ? count - i : CS_INGEST_BATCH;

		memcpy(to, from + i, batch * sizeof(to[0]));
		__asm__ volatile("" : : "r"(to) : "memory");
	}
	return (double)(cs_clock_monotonic_ns() - begin_ns) / 1e9;
}

static double
ingest_round(struct cs_ingest *ingest, size_t *records)
{
	uint64_t begin_ns = cs_clock_ns(CLOCK_THREAD_CPUTIME_ID);

	*records = cs_ingest_turn(ingest);
	return (double)(cs_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns) / 1e9;
}

struct scrape {
	double copy_s, write_s, gzip_s;
	size_t bytes, compressed_bytes, histograms;
};

static void
scrape_once(struct cs_ingest *ingest, enum cs_format format, struct scrape *scrape)
{
	struct cs_exposition_options options = {.format = format};
	struct cs_buffer text, compressed;
	struct cs_snapshot snapshot;
	uint64_t times_ns[4];

	cs_buffer_init(&text);
	cs_buffer_init(&compressed);
	times_ns[0] = cs_clock_monotonic_ns();
	cs_snapshot_init(&snapshot, format == CS_FORMAT_PROTOBUF);
	cs_ingest_collect(ingest, &snapshot);
	times_ns[1] = cs_clock_monotonic_ns();
	if (cs_snapshot_finish(&snapshot) < 0 || cs_exposition_write(&snapshot, &options, &text) < 0)
		exit(1);
	times_ns[2] = cs_clock_monotonic_ns();
	if (cs_gzip(&text, &compressed) < 0)
		exit(1);
	times_ns[3] = cs_clock_monotonic_ns();
	scrape->copy_s = (double)(times_ns[1] - times_ns[0]) / 1e9;
	scrape->write_s = (double)(times_ns[2] - times_ns[1]) / 1e9;
	scrape->gzip_s = (double)(times_ns[3] - times_ns[2]) / 1e9;
	scrape->bytes = text.length;
	scrape->compressed_bytes = compressed.length;
	scrape->histograms = 0;
	for (unsigned int id = 0; id < CS_FAMILY_COUNT; id++) {
		if (cs_family_borrow(id)->type == CS_TYPE_HISTOGRAM)
			scrape->histograms += snapshot.families[id].count;
	}
	cs_snapshot_fini(&snapshot);
	cs_buffer_fini(&text);
	cs_buffer_fini(&compressed);
}

static void
bench_scrape(struct cs_ingest *ingest, enum cs_format format, const char *name, int rounds)
{
	double copy[ROUNDS_MAX], write[ROUNDS_MAX], gzip[ROUNDS_MAX], all[ROUNDS_MAX];
	struct scrape scrape = {0};

	for (int i = 0; i < rounds; i++) {
		scrape_once(ingest, format, &scrape);
		copy[i] = scrape.copy_s * 1e3;
		write[i] = scrape.write_s * 1e3;
		gzip[i] = scrape.gzip_s * 1e3;
		all[i] = copy[i] + write[i] + gzip[i];
	}
	printf("scrape %-11s %zu histograms, %zu bytes (%zu compressed): copy %.2f ms + write %.2f ms + gzip "
	       "%.2f ms = %.2f ms\n",
		name, scrape.histograms, scrape.bytes, scrape.compressed_bytes, median(copy, rounds),
		median(write, rounds), median(gzip, rounds), median(all, rounds));
}

/* Resident memory in KiB, of which the rings' pages are part. */
static void
print_memory(void)
{
	char line[256];
	FILE *file = fopen("/proc/self/status", "r");

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "VmRSS", 5) == 0 || strncmp(line, "VmHWM", 5) == 0 ||
			strncmp(line, "Rss", 3) == 0)
			printf("memory %s", line);
	}
	if (file)
		fclose(file);
}

/* As it is in life: the records are of now, and wait for the analysis' horizon. */
static void
run_live(struct cs_ingest *ingest, const struct rank *ranks)
{
	for (int i = 0; i < LIVE_ROUNDS; i++) {
		uint64_t begin_ns = cs_clock_realtime_ns();
		uint64_t spent_ns;
		struct scrape scrape;

		write_round(ranks, begin_ns - ROUND_NS);
		cs_ingest_turn(ingest);
		if (i % 10 == 9)
			scrape_once(ingest, CS_FORMAT_TEXT, &scrape);
		spent_ns = cs_clock_realtime_ns() - begin_ns;
		if (spent_ns < ROUND_NS)
			usleep((useconds_t)((ROUND_NS - spent_ns) / 1000));
	}
}

int
main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 40;
	char directory[] = "/dev/shm/collscope-bench-XXXXXX";
	struct cs_ingest_options options = {.linger_ns = 1, .retention_ns = 1, .max_series = 100000};
	uint64_t begin_ns = cs_clock_realtime_ns() - 3600 * CS_NS_PER_S;
	struct cs_ingest *ingest;
	struct rank ranks[RANKS];
	struct cs_error error;
	double seconds[ROUNDS_MAX], ratio[ROUNDS_MAX];
	size_t records = 0;

	if (rounds < 1 || rounds > ROUNDS_MAX || !mkdtemp(directory))
		return 2;
	signal(SIGPIPE, SIG_IGN);
	cs_ingest_tune_memory();
	options.directory = directory;
	if (start_ranks(directory, begin_ns, ranks) < 0 || cs_ingest_new(&options, &ingest, &error) < 0)
		return 1;
	/* All ranks are there from the start; what the first rounds cost (dictionaries, series) is not
	 * measured. */
	for (int i = 0; i < 4; i++) {
		write_round(ranks, 0);
		cs_ingest_turn(ingest);
	}
	for (int i = 0; i < rounds; i++) {
		write_round(ranks, 0);
		seconds[i] = ingest_round(ingest, &records) / (double)records;
		ratio[i] = seconds[i] * RANKS * RECORDS_PER_ROUND / copy_seconds();
	}
	printf("ingest %zu records a round: %.2f million records/s of one core, %.1f ns each, %.1f times "
	       "memcpy\n",
		records, 1e-6 / median(seconds, rounds), median(seconds, rounds) * 1e9,
		median(ratio, rounds));
	bench_scrape(ingest, CS_FORMAT_TEXT, "text", rounds);
	bench_scrape(ingest, CS_FORMAT_OPENMETRICS, "openmetrics", rounds);
	bench_scrape(ingest, CS_FORMAT_PROTOBUF, "protobuf", rounds);
	run_live(ingest, ranks);
	print_memory();
	for (int rank = 0; rank < RANKS; rank++) {
		close(ranks[rank].go);
		waitpid(ranks[rank].pid, NULL, 0);
	}
	cs_ingest_destroy(ingest);
	rmdir(directory);
	return 0;
}
