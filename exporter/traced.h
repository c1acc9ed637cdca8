/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One traced process as the exporter holds it: its segment, the series that it feeds, what it said last.
 *
 *   LIVE      the writer holds its lock
 *   DEAD      it does not; the segment is still read and there for the command line
 *   RETIRED   the segment is closed; series and information are served until the retention time is over
 *   FORGOTTEN nothing is served; about to go (processes.h keeps the name of a file that could not be removed)
 *
 * Thread context: one thread at a time, under the lock of the node (ingest.h).
 */
#ifndef CS_EXPORTER_TRACED_H
#define CS_EXPORTER_TRACED_H

#include "analysis/analysis.h"
#include "feed.h"
#include "graph_phases.h"
#include "segment/segment_reader.h"
#include "series.h"
#include "snapshot.h"

#include <stdbool.h>
#include <sys/types.h>

enum cs_traced_stage { CS_TRACED_LIVE, CS_TRACED_DEAD, CS_TRACED_RETIRED, CS_TRACED_FORGOTTEN };

#define CS_TRACED_NAME_BYTES 64U

/* What one status counter has brought into its series so far. */
struct cs_traced_counter {
	struct cs_series *series;
	uint64_t seen;
};

enum {
	CS_TRACED_DEPTHS = CS_DEPTH_COUNT,
	CS_TRACED_KINDS = CS_RECORD_TYPE_COUNT - 1, /* type 0 is never written */
	CS_TRACED_CAUSES = CS_LOSS_CAUSE_COUNT,
	CS_TRACED_REASONS = CS_UNLABELLED_REASON_COUNT,
	CS_TRACED_COUNTERS = CS_TRACED_DEPTHS + CS_TRACED_KINDS + CS_TRACED_CAUSES + CS_TRACED_REASONS + 3
};

struct cs_traced {
	char name[CS_TRACED_NAME_BYTES]; /* of the file in the run directory */
	dev_t device;
	ino_t inode;
	enum cs_traced_stage stage;
	uint64_t died_ns;  /* CLOCK_MONOTONIC; 0 while LIVE */
	bool in_directory; /* seen in the present look at the run directory */

	struct cs_segment_reader *reader;       /* NULL when RETIRED */
	const struct cs_dictionary *dictionary; /* the reader's, or `kept` */
	struct cs_dictionary *kept;             /* RETIRED: without names and labels */
	struct cs_analysis *analysis;           /* borrowed */
	uint32_t source;                        /* in the analysis; not when RETIRED */
	uint64_t read_since_trim;               /* records */

	struct cs_series_table *table;
	struct cs_feed feed;
	struct cs_graph_phases phases;
	struct cs_status status; /* last copy */
	/* By GPU, the last stall that was said: its work_end_ns, 0 none; and whether where it stands was
	 * known. */
	struct {
		uint64_t work_end_ns;
		bool placed;
	} stalls_said[CS_GPUS_MAX];
	int16_t gpu; /* labels of the counters below */
	int32_t rank;
	struct cs_traced_counter counters[CS_TRACED_COUNTERS];
};

/* Opens the segment, from its oldest record, and makes it a source of the analysis. The errors are those of
 * cs_segment_reader_open. */
int cs_traced_open(struct cs_traced **traced, const char *path, const char *name,
	struct cs_analysis *analysis, struct cs_series_table *table, struct cs_error *error);
void cs_traced_destroy(struct cs_traced *traced);

/* Reads at most `capacity` records into `records` (the caller's) and analyses them. *count gets how many. 0,
 * or the negative errno of the reader: then retire it. */
int cs_traced_read(struct cs_traced *traced, struct cs_record *records, size_t capacity, size_t *count);
/* Whether the last read, which brought records, ended before its capacity although there may be more: at a
 * gap. After one that brought none it says nothing: there were none up to the ring's head. */
bool cs_traced_has_more(const struct cs_traced *traced);
/* Copies the status words and brings the counters forward. Errors as above. now_realtime_ns bounds what the
 * words may say of the time that goes on. */
int cs_traced_refresh(struct cs_traced *traced, uint64_t now_realtime_ns);
/* Hands out what the analysis still holds and closes the segment. */
void cs_traced_retire(struct cs_traced *traced);
/* Retires and drops the references to series. */
void cs_traced_forget(struct cs_traced *traced);

/* State for people and metrics: a dead writer cannot say that it has exited. */
enum cs_state cs_traced_state(const struct cs_traced *traced);
/* Gauges and information about the process. */
void cs_traced_collect(const struct cs_traced *traced, struct cs_snapshot *snapshot);

#endif
