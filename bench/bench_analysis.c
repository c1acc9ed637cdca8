/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records per second through the analysis on one core: 8 ranks, 61 layers, EAGLE-3 draft and verify, an
 * all-reduce after each attention and each MLP, compute before each of them, and a copy to the host per step
 * on a second stream. Fed as the exporter does: each rank in turn, 100 ms of records, then advance.
 *
 * bench_analysis [STEPS [contended]]: prints records/s, and the share of the steps that came out and were
 * matched. With "contended" a second stream's kernels run beside each all-reduce, so that every interval has
 * company.
 */
#include "analysis/analysis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RANKS      8U
#define VERIFY     123U
#define DRAFT      9U
#define COMPUTE_NS 60000U
#define REDUCE_NS  40000U
#define BATCH_NS   100000000ULL

struct stream {
	struct cs_record *records;
	size_t count, capacity, fed;
};

static uint64_t steps_out, collectives_out;
static bool contended;

static void
take_step(void *context, const struct cs_step *step)
{
	(void)context;
	(void)step;
	steps_out++;
}

static void
take_collective(void *context, const struct cs_collective *collective)
{
	(void)context;
	collectives_out += collective->matched_ranks == RANKS;
}

static void
put(struct stream *stream, const struct cs_record *record)
{
	if (stream->count == stream->capacity) {
		stream->capacity = stream->capacity ? 2 * stream->capacity : 4096;
		stream->records = reallocarray(stream->records, stream->capacity, sizeof(*record));
		if (!stream->records)
			abort();
	}
	stream->records[stream->count++] = *record;
}

static uint64_t
put_launch(struct stream *stream, uint64_t at_ns, uint32_t number, uint32_t graph, uint32_t collectives,
	uint32_t label)
{
	struct cs_record record = {
		.flags = CS_RECORD_IN_GRAPH, .correlation_id = number, .graph_id = graph, .stream_id = 7};

	for (uint32_t i = 0; i < collectives; i++) {
		record.graph_node_id = 1000ULL * graph + i;
		record.type = CS_RECORD_BUSY;
		record.ref = 12;
		record.start_ns = at_ns;
		record.end_ns = at_ns + COMPUTE_NS;
		record.value = COMPUTE_NS;
		put(stream, &record);
		record.type = CS_RECORD_COLLECTIVE;
		record.ref = label;
		record.start_ns = at_ns + COMPUTE_NS + 1000;
		record.end_ns = record.start_ns + REDUCE_NS;
		record.value = 114688;
		put(stream, &record);
		if (contended) {
			struct cs_record beside = {.type = CS_RECORD_BUSY, .ref = 3, .stream_id = 11};

			beside.start_ns = record.start_ns + 5000;
			beside.end_ns = record.end_ns + 20000;
			put(stream, &beside);
		}
		at_ns = record.end_ns + 1000;
	}
	return at_ns;
}

static void
make(struct stream *stream, unsigned int rank, unsigned int steps)
{
	uint64_t at_ns = 1700000000000000000ULL + 300 * rank;

	for (unsigned int i = 0; i < steps; i++) {
		struct cs_record copy = {.type = CS_RECORD_BUSY,
			.klass = CS_BUSY_COPY,
			.flags = CS_RECORD_COPY_TO_HOST,
			.ref = 1,
			.stream_id = 9};

		copy.start_ns = at_ns + 500000;
		copy.end_ns = at_ns + 700000;
		at_ns = put_launch(stream, at_ns, 3 * i + 1, 21, DRAFT, 2);
		put(stream, &copy);
		at_ns = put_launch(stream, at_ns + 50000, 3 * i + 2, 22, VERIFY, 1);
		at_ns = put_launch(stream, at_ns + 50000, 3 * i + 3, 23, 3, 1);
		at_ns += 300000;
	}
}

static void
fill(struct cs_dictionary *dictionary, int rank)
{
	struct cs_label label = {0};

	cs_dictionary_init(dictionary);
	dictionary->gpu_count = 1;
	dictionary->communicator_count = 1;
	dictionary->communicators[0] =
		(struct cs_communicator){.hash = 42, .rank = rank, .world = RANKS, .nodes = 1};
	for (unsigned int i = 0; i < 3; i++) {
		label = (struct cs_label){.op = CS_OP_ALL_REDUCE,
			.rank = rank,
			.world = RANKS,
			.comm_id = 1,
			.bytes = 114688 >> (i == 2)};
		if (i == 0)
			label = (struct cs_label){0};
		if (cs_dictionary_add_label(dictionary, &label) < 0)
			abort();
	}
}

static double
seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int
main(int argc, char **argv)
{
	static struct cs_dictionary dictionaries[RANKS];
	struct stream streams[RANKS] = {0};
	unsigned int steps = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 1000;
	struct cs_analysis_sink sink = {.step = take_step, .collective = take_collective};
	struct cs_analysis *analysis;
	uint32_t sources[RANKS];
	uint64_t now_ns;
	size_t records = 0, left = 1;
	double start;

	contended = argc > 2 && strcmp(argv[2], "contended") == 0;
	if (cs_analysis_new(NULL, &sink, &analysis, NULL, 0))
		return 1;
	for (unsigned int i = 0; i < RANKS; i++) {
		fill(&dictionaries[i], (int)i);
		make(&streams[i], i, steps);
		records += streams[i].count;
		if (cs_analysis_add_source(analysis, &dictionaries[i], &sources[i]))
			return 1;
	}
	now_ns = streams[0].records[0].start_ns;
	start = seconds();
	while (left) {
		now_ns += BATCH_NS;
		left = 0;
		for (unsigned int i = 0; i < RANKS; i++) {
			size_t first = streams[i].fed;

			while (streams[i].fed < streams[i].count &&
				streams[i].records[streams[i].fed].start_ns < now_ns)
				streams[i].fed++;
			cs_analysis_ingest(
				analysis, sources[i], streams[i].records + first, streams[i].fed - first);
			left += streams[i].count - streams[i].fed;
		}
		cs_analysis_advance(analysis, now_ns);
	}
	cs_analysis_drain(analysis);
	start = seconds() - start;
	printf("%zu records in %.3f s: %.2f million records/s\n", records, start,
		(double)records / start / 1e6);
	printf("steps %llu of %u, collectives matched %llu of %llu\n", (unsigned long long)steps_out,
		3 * RANKS * steps, (unsigned long long)collectives_out,
		(unsigned long long)RANKS * steps * (VERIFY + DRAFT + 3));
	cs_analysis_destroy(analysis);
	for (unsigned int i = 0; i < RANKS; i++) {
		cs_dictionary_fini(&dictionaries[i]);
		free(streams[i].records);
	}
	return 0;
}
