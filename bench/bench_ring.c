/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ring costs, as ratios of one run:
 *
 *   append    cs_segment_writer_append, against the least that could hand a record over: one atomic add and a
 *             64-byte store into a buffer of the same size
 *   read      cs_segment_reader_read of a full ring (validation and dictionary included), against memcpy of
 *             the same records out of the same kind of memory
 *
 * Every figure is the median of several rounds; the spread is printed with it. Usage: bench_ring [rounds]
 */
#include "clock.h"
#include "segment/segment_reader.h"
#include "segment/segment_writer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RING_SLOTS   CS_RING_SLOTS_DEFAULT
#define ROUNDS_MAX   101
#define READ_RECORDS 4096
#define THREADS      2

static struct cs_record
sample_record(uint32_t label)
{
	return (struct cs_record){
		.type = CS_RECORD_COLLECTIVE,
		.flags = CS_RECORD_IN_GRAPH,
		.ref = label,
		.start_ns = 1,
		.end_ns = 2,
		.value = 43008,
		.graph_node_id = 7,
	};
}

/* -- the yardstick --------------------------------------------------------------------------------------- */

struct slot {
	_Alignas(64) unsigned char bytes[64];
};

static struct {
	_Alignas(64) _Atomic uint64_t head;
	_Alignas(64) struct slot *slots;
} yardstick;

static __attribute__((noinline)) void
yardstick_append(const struct cs_record *record)
{
	uint64_t at = atomic_fetch_add_explicit(&yardstick.head, 1, memory_order_relaxed);
	struct slot *slot = &yardstick.slots[at & (RING_SLOTS - 1)];

	memcpy(slot->bytes, &at, sizeof(at));
	memcpy(slot->bytes + 8, record, sizeof(*record));
}

/* -- timing ---------------------------------------------------------------------------------------------- */

struct series {
	double value[ROUNDS_MAX];
	unsigned int count;
};

static int
compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double
median(struct series *series)
{
	qsort(series->value, series->count, sizeof(series->value[0]), compare);
	return series->value[series->count / 2];
}

static void
report(const char *what, struct series *series)
{
	double middle = median(series);

	printf("%-44s %8.2f ns/record  (%.2f to %.2f)\n", what, middle, series->value[0],
		series->value[series->count - 1]);
}

static void
note(struct series *series, uint64_t began_ns, uint64_t records)
{
	series->value[series->count++] = (double)(cs_clock_monotonic_ns() - began_ns) / (double)records;
}

/* -- several writers ------------------------------------------------------------------------------------- */

struct writer_thread {
	pthread_t thread;
	struct cs_segment_writer *writer;
	struct cs_record record;
	pthread_barrier_t *start;
	uint64_t began_ns, ended_ns;
};

/* Each thread notes its own times: whoever else waits at the barrier may wake up after all is done. */
static void *
append_many(void *context)
{
	struct writer_thread *self = context;

	pthread_barrier_wait(self->start);
	self->began_ns = cs_clock_monotonic_ns();
	for (uint32_t i = 0; i < RING_SLOTS; i++)
		cs_segment_writer_append(self->writer, &self->record);
	self->ended_ns = cs_clock_monotonic_ns();
	return NULL;
}

static void
append_together(struct cs_segment_writer *writer, const struct cs_record *record, struct series *series)
{
	struct writer_thread threads[THREADS];
	pthread_barrier_t start;
	uint64_t began_ns = UINT64_MAX;
	uint64_t ended_ns = 0;

	pthread_barrier_init(&start, NULL, THREADS);
	for (size_t i = 0; i < THREADS; i++) {
		threads[i] = (struct writer_thread){.writer = writer, .record = *record, .start = &start};
		if (pthread_create(&threads[i].thread, NULL, append_many, &threads[i]) != 0)
			abort();
	}
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(threads[i].thread, NULL);
		if (threads[i].began_ns < began_ns)
			began_ns = threads[i].began_ns;
		if (threads[i].ended_ns > ended_ns)
			ended_ns = threads[i].ended_ns;
	}
	series->value[series->count++] =
		(double)(ended_ns - began_ns) / (double)(RING_SLOTS * (uint64_t)THREADS);
	pthread_barrier_destroy(&start);
}

int
main(int argc, char **argv)
{
	static struct cs_record records[READ_RECORDS];
	static struct series base, append, together, copy, read;
	struct cs_segment_options options = {.ring_slots = RING_SLOTS, .version = CS_VERSION};
	char directory[] = "/dev/shm/collscope-bench-XXXXXX";
	unsigned int rounds = argc > 1 ? (unsigned int)atoi(argv[1]) : 31;
	struct cs_segment_writer *writer;
	struct cs_segment_reader *reader;
	struct cs_error error = {.text = ""};
	struct cs_gpu gpu = {.nvml_index = 0};
	struct cs_label label = {.op = 1, .bytes = 43008};
	struct cs_record record;
	uint64_t read_total = 0;

	if (rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "bench_ring: rounds must be 1 to %d.\n", ROUNDS_MAX);
		return 2;
	}
	options.directory = mkdtemp(directory);
	if (!options.directory || cs_segment_writer_create(&options, &writer) != 0) {
		fprintf(stderr, "bench_ring: Cannot create a segment in /dev/shm.\n");
		return 1;
	}
	cs_segment_writer_gpu(writer, &gpu);
	label.name_id = cs_segment_writer_name(writer, "kernel");
	record = sample_record(cs_segment_writer_label(writer, &label));
	if (cs_segment_reader_open(cs_segment_writer_path(writer), false, &reader, &error) != 0) {
		fprintf(stderr, "bench_ring: %s.\n", error.text);
		return 1;
	}
	yardstick.slots = mmap(NULL, RING_SLOTS * sizeof(struct slot), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (yardstick.slots == MAP_FAILED)
		return 1;

	for (unsigned int round = 0; round < rounds; round++) {
		size_t count;
		uint64_t began_ns = cs_clock_monotonic_ns();

		for (uint32_t i = 0; i < RING_SLOTS; i++)
			yardstick_append(&record);
		note(&base, began_ns, RING_SLOTS);

		began_ns = cs_clock_monotonic_ns();
		for (uint32_t i = 0; i < RING_SLOTS; i++)
			cs_segment_writer_append(writer, &record);
		note(&append, began_ns, RING_SLOTS);

		began_ns = cs_clock_monotonic_ns();
		for (uint32_t i = 0; i < RING_SLOTS; i += READ_RECORDS) {
			memcpy(records, &yardstick.slots[i], READ_RECORDS * sizeof(records[0]));
			__asm__ volatile("" : : "r"(records) : "memory");
		}
		note(&copy, began_ns, RING_SLOTS);

		began_ns = cs_clock_monotonic_ns();
		for (uint64_t before = read_total;;) {
			if (cs_segment_reader_read(reader, records, READ_RECORDS, &count) != 0)
				return 1;
			if (count == 0) {
				if (read_total - before != RING_SLOTS)
					fprintf(stderr, "bench_ring: Read %llu records of %u.\n",
						(unsigned long long)(read_total - before), RING_SLOTS);
				break;
			}
			read_total += count;
		}
		note(&read, began_ns, RING_SLOTS);

		append_together(writer, &record, &together);
		do {
			if (cs_segment_reader_read(reader, records, READ_RECORDS, &count) != 0)
				return 1;
		} while (count != 0);
	}

	report("atomic add + 64-byte store", &base);
	report("append, one thread", &append);
	report("append, two threads (wall time)", &together);
	report("memcpy of the records", &copy);
	report("read", &read);
	printf("append_to_store_ratio %.2f\n", median(&append) / median(&base));
	printf("read_to_memcpy_ratio %.2f\n", median(&read) / median(&copy));
	printf("read_records_per_second %.0f\n", 1e9 / median(&read));
	cs_segment_reader_close(reader);
	cs_segment_writer_destroy(writer, true);
	rmdir(directory);
	return 0;
}
