/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of metric families: name, type, unit, labels, help. It is the contract of docs/metrics.md;
 * tests/exporter compares the two through what a running exporter serves.
 *
 * Thread context: constant data.
 */
#ifndef CS_EXPORTER_FAMILIES_H
#define CS_EXPORTER_FAMILIES_H

#include <stddef.h>

enum cs_family_id {
	/* Fed by the analysis; live in the series table. */
	CS_FAMILY_COLLECTIVE_DURATION,
	CS_FAMILY_COLLECTIVE_BYTES,
	CS_FAMILY_COLLECTIVE_OVERLAP,
	CS_FAMILY_COLLECTIVE_COPY_OVERLAP,
	CS_FAMILY_COLLECTIVE_CONTENDED,
	CS_FAMILY_COLLECTIVE_WAIT,
	CS_FAMILY_COLLECTIVE_TRANSFER,
	CS_FAMILY_COLLECTIVE_TRANSFER_BYTES,
	CS_FAMILY_COLLECTIVE_TRANSFER_BUS_BYTES,
	CS_FAMILY_COLLECTIVE_LAST_ARRIVALS,
	CS_FAMILY_COLLECTIVES_UNLABELLED,
	CS_FAMILY_COLLECTIVES_MATCHED,
	CS_FAMILY_COLLECTIVES_PARTIAL,
	CS_FAMILY_COLLECTIVES_UNMATCHED,
	CS_FAMILY_COMMUNICATOR_SECONDS,
	CS_FAMILY_COMMUNICATOR_COLLECTIVES,
	CS_FAMILY_STEP_DURATION,
	CS_FAMILY_STEP_COLLECTIVE,
	CS_FAMILY_STEP_EXPOSED,
	CS_FAMILY_STEP_COLLECTIVES,
	/* Fed by the status words of segments; live in the series table. */
	CS_FAMILY_TRACE_SECONDS,
	CS_FAMILY_RECORDS,
	CS_FAMILY_RECORDS_LOST,
	CS_FAMILY_LABEL_FAILURES,
	CS_FAMILY_WINDOWS_SKIPPED,
	CS_FAMILY_TRACING_RESTS,
	CS_FAMILY_INJECTOR_CPU,
	CS_FAMILY_SERIES_COUNT, /* families above are in the series table */

	/* Read from the processes at each scrape. */
	CS_FAMILY_STEP_PERTURBATION = CS_FAMILY_SERIES_COUNT,
	CS_FAMILY_STALLED,
	CS_FAMILY_CLOCK_UNCERTAINTY,
	CS_FAMILY_INJECTOR_MEMORY,
	CS_FAMILY_INJECTOR_DEVICE_MEMORY,
	CS_FAMILY_INJECTOR_HEARTBEAT,
	CS_FAMILY_INJECTOR_STATE,
	CS_FAMILY_INJECTOR_SUBSCRIBED,
	CS_FAMILY_BUILD_INFO,
	CS_FAMILY_PROCESS_INFO,
	CS_FAMILY_GPU_INFO,
	CS_FAMILY_GPU_LINK_INFO,
	CS_FAMILY_COMMUNICATOR_INFO,
	CS_FAMILY_CONFIG_INFO,
	/* The exporter's own. */
	CS_FAMILY_EXPORTER_PROCESSES,
	CS_FAMILY_EXPORTER_REJECTED,
	CS_FAMILY_EXPORTER_RECORDS,
	CS_FAMILY_EXPORTER_LATE,
	CS_FAMILY_EXPORTER_INCOMPLETE,
	CS_FAMILY_EXPORTER_BUSY,
	CS_FAMILY_EXPORTER_COLLECTION,
	CS_FAMILY_EXPORTER_EXPOSITION,
	CS_FAMILY_EXPORTER_SERIES,
	CS_FAMILY_EXPORTER_FOLDED,
	CS_FAMILY_EXPORTER_DROPPED,
	CS_FAMILY_PROCESS_CPU,
	CS_FAMILY_PROCESS_RESIDENT,
	CS_FAMILY_PROCESS_VIRTUAL,
	CS_FAMILY_PROCESS_OPEN_FDS,
	CS_FAMILY_PROCESS_MAX_FDS,
	CS_FAMILY_PROCESS_START,
	CS_FAMILY_COUNT
};

enum cs_family_type { CS_TYPE_COUNTER, CS_TYPE_GAUGE, CS_TYPE_HISTOGRAM, CS_TYPE_INFO, CS_TYPE_STATESET };

/* What two samples with the same labels become (two processes on one GPU whose ranks are unknown). */
enum cs_combine { CS_COMBINE_SUM, CS_COMBINE_MAX };

#define CS_FAMILY_LABELS_MAX 16U

struct cs_family {
	const char *name; /* without the suffixes _total and _info */
	enum cs_family_type type;
	enum cs_combine combine;
	const char *unit; /* "seconds", "bytes" or ""; the name ends with it */
	const char *help;
	const char *labels[CS_FAMILY_LABELS_MAX + 1]; /* in the order they are written; NULL ends */
	unsigned int label_count;
};

/* Never NULL; id < CS_FAMILY_COUNT. */
const struct cs_family *cs_family_borrow(enum cs_family_id id);
/* "_total", "_info" or "": what sample names and the text format's metadata have behind the name. */
const char *cs_family_suffix(const struct cs_family *family);

#endif
