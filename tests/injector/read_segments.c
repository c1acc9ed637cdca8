/* SPDX-License-Identifier: Apache-2.0 */
/* Prints every segment of a run directory as one JSON object per line, for test_host.py. */
#include "clock.h"
#include "segment/rundir.h"
#include "segment/segment_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
print_segment(const char *path, const char *name, void *context)
{
	static struct cs_record records[4096];
	struct cs_segment_reader *reader;
	struct cs_status status;
	struct cs_error error;
	const struct cs_dictionary *dictionary;
	uint64_t markers = 0, collective_ns = 0, collective_bytes = 0, compute_count = 0, compute_ns = 0,
		 copy_count = 0, launches = 0;
	size_t count;

	(void)context;
	(void)name;
	if (cs_segment_reader_open(path, true, &reader, &error) < 0)
		return 0;
	do {
		if (cs_segment_reader_read(reader, records, 4096, &count) < 0)
			break;
		for (size_t i = 0; i < count; i++) {
			const struct cs_record *record = &records[i];

			if (record->type == CS_RECORD_COLLECTIVE) {
				collective_ns += record->end_ns - record->start_ns;
				collective_bytes += record->value;
			} else if (record->type == CS_RECORD_BUSY && record->klass == 0) {
				compute_count += record->ref;
				compute_ns += record->value;
			} else if (record->type == CS_RECORD_BUSY) {
				copy_count += record->ref;
			} else if (record->type == CS_RECORD_MARKER) {
				markers++;
			} else if (record->type == CS_RECORD_GRAPH_LAUNCH) {
				launches++;
			}
		}
	} while (count > 0);
	cs_segment_reader_status(reader, &status);
	dictionary = cs_segment_reader_borrow_dictionary(reader);
	printf("{\"path\": \"%s\", \"alive\": %d, \"state\": \"%s\", \"reason\": \"%s\"", path,
		cs_segment_reader_writer_alive(reader), cs_state_name((unsigned int)status.state),
		dictionary->process.reason);
	printf(", \"collectives\": %" PRIu64 ", \"collective_ns\": %" PRIu64
	       ", \"collective_bytes\": %" PRIu64,
		(uint64_t)status.records[CS_RECORD_COLLECTIVE], collective_ns, collective_bytes);
	printf(", \"compute\": %" PRIu64 ", \"compute_ns\": %" PRIu64 ", \"copies\": %" PRIu64
	       ", \"launches\": %" PRIu64,
		compute_count, compute_ns, copy_count, launches);
	printf(", \"record_age_ns\": %" PRId64 ", \"delivered_age_ns\": %" PRId64 ", \"flushes\": %" PRIu64
	       ", \"requested\": %" PRIu64 ", \"kernels\": %" PRIu64,
		(int64_t)(cs_clock_realtime_ns() - status.last_record_end_ns),
		(int64_t)(cs_clock_realtime_ns() - status.delivered_until_ns), (uint64_t)status.flushes,
		(uint64_t)status.buffers_requested, (uint64_t)status.kernels_seen);
	printf(", \"markers\": %" PRIu64, markers);
	printf(", \"step_ratio_ppm\": %" PRIu64 ", \"skipped\": %" PRIu64 ", \"period_ns\": %" PRIu64
	       ", \"window_ns\": %" PRIu64,
		(uint64_t)status.step_ratio_ppm, (uint64_t)status.windows_skipped, (uint64_t)status.period_ns,
		(uint64_t)status.window_ns);
	printf(", \"ratios\": %" PRIu64, (uint64_t)status.step_ratios[0]);
	printf(", \"trace_ns\": [%" PRIu64 ", %" PRIu64 "]", (uint64_t)status.trace_ns[0],
		(uint64_t)status.trace_ns[2]);
	printf(", \"windows\": [%" PRIu64 ", %" PRIu64 ", %" PRIu64 "], \"foreign\": %" PRIu64,
		(uint64_t)status.windows[0], (uint64_t)status.windows[1], (uint64_t)status.windows[2],
		(uint64_t)status.foreign_windows);
	printf(", \"host_memory\": %" PRIu64 ", \"cpu_ns\": %" PRIu64 ", \"lost\": {",
		(uint64_t)status.host_memory_bytes, (uint64_t)status.cpu_ns);
	for (unsigned int i = 0; i < CS_LOSS_CAUSE_COUNT; i++)
		printf("%s\"%s\": %" PRIu64, i ? ", " : "", cs_loss_cause_name(i), (uint64_t)status.lost[i]);
	printf("}}\n");
	cs_segment_reader_close(reader);
	return 0;
}

int
main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	return cs_rundir_each(argv[1], print_segment, NULL) < 0 ? 1 : 0;
}
