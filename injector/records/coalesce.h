/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes BUSY records: runs of ordinary kernels, or of copies, of one stream become one record while the gap
 * between two of them is at most CS_BUSY_GAP_NS. Some 600 ordinary kernels of a decode step thus cost a few
 * records.
 *
 * The exact busy time (kernels) or bytes (copies) are kept in `value`. Exactness needs order: an operation
 * that starts before its predecessor in the stream (CUPTI hands records over in any order) closes the run and
 * begins another, so the records are more, never wrong. A run never crosses from one graph launch to another,
 * nor a collective.
 *
 * One thread at a time (the parser's lock).
 */
#ifndef CS_COALESCE_H
#define CS_COALESCE_H

#include "record.h"

#define CS_COALESCE_RUNS 32U

struct cs_coalesce_run {
	struct cs_record record; /* type 0: free */
	uint64_t last_start_ns;
};

struct cs_coalesce {
	void (*emit)(void *context, const struct cs_record *record);
	void *context;
	uint32_t last;   /* run that was hit last */
	uint32_t victim; /* run to close next when all are open */
	uint32_t open;   /* runs below this index may be open */
	struct cs_coalesce_run runs[CS_COALESCE_RUNS];
};

void cs_coalesce_init(struct cs_coalesce *coalesce,
	void (*emit)(void *context, const struct cs_record *record), void *context);

/* One operation as a BUSY record of its own: ref 1, value = its duration (compute) or bytes (copies). */
void cs_coalesce_add(struct cs_coalesce *coalesce, const struct cs_record *operation);

/* A collective (or marker) ran on this stream: what comes after it is another run. */
void cs_coalesce_break(struct cs_coalesce *coalesce, uint8_t gpu, uint32_t stream_id);

/* Emits every open run; at the end of each buffer, so that nothing is held back. */
void cs_coalesce_finish(struct cs_coalesce *coalesce);

#endif
