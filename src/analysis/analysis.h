/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From records to collectives and steps. The one analysis: exporter, CLI and tests feed it the same records,
 * live or from a capture, and it cannot tell which.
 *
 * Streaming: bounded memory, records may come late and out of order for up to CS_ANALYSIS_HORIZON_NS of
 * record time (or until cs_analysis_advance says that time has passed); results are handed out once, in order
 * of step start per process, when they can change no more.
 *
 * Thread context: one thread at a time per analysis. No global state. Pointers in results are valid during
 * the call only.
 */
#ifndef CS_ANALYSIS_H
#define CS_ANALYSIS_H

#include "collective.h"
#include "dictionary.h"
#include "record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Delivery was measured at 92 to 110 ms on average and 1 s at worst in steady traffic (docs/overhead.md). */
#define CS_ANALYSIS_HORIZON_NS 2000000000ULL
#define CS_NS_UNKNOWN          UINT64_MAX

/* How a phase was decided; shown in dumps. */
enum cs_phase_rule {
	CS_PHASE_RULE_NONE = 0,
	CS_PHASE_RULE_USER = 1,      /* COLLSCOPE_STEPS file */
	CS_PHASE_RULE_NVTX = 2,      /* range name */
	CS_PHASE_RULE_MARKER = 3,    /* marker kernel */
	CS_PHASE_RULE_SIGNATURE = 4, /* collectives per graph */
	CS_PHASE_RULE_COUNT
};
const char *cs_phase_rule_name(unsigned int rule);

struct cs_collective {
	uint32_t source;              /* as given to cs_analysis_add_source */
	uint32_t gpu;                 /* index in the source's dictionary */
	const struct cs_label *label; /* never NULL */
	uint32_t label_id;
	uint64_t step;    /* number of its step in the source, from 1; 0: in none */
	uint32_t ordinal; /* position in the step, from 0 */
	uint8_t phase;
	uint8_t record_flags; /* CS_RECORD_* */
	uint64_t start_ns, end_ns;
	uint64_t bytes;
	uint64_t graph_node_id;
	uint32_t graph_id, correlation_id, stream_id;
	/* Overlap with other streams of the same GPU; CS_NS_UNKNOWN where the window did not see everything.
	 */
	uint64_t overlap_ns[CS_BUSY_CLASS_COUNT]; /* by enum cs_busy_class; may overlap each other */
	uint64_t exposed_ns;                      /* under none of them */
	uint64_t dependent_ns; /* programmatic dependent launch: under the same stream's predecessor */
	/* Against the other ranks; CS_NS_UNKNOWN when not matched. */
	uint64_t wait_ns, transfer_ns;
	bool last_arrival;
	uint32_t matched_ranks; /* how many ranks of the group were seen; 0 not matched */
};

struct cs_step {
	uint32_t source;
	uint32_t gpu;
	uint64_t step;      /* number in the source, from 1 */
	uint8_t phase;      /* enum cs_phase */
	uint8_t phase_rule; /* enum cs_phase_rule */
	uint8_t depth;      /* enum cs_depth it was seen at: light steps have times only */
	uint64_t start_ns, end_ns;
	uint32_t graph_id, correlation_id; /* of its first launch; 0 eager */
	uint32_t launches;
	uint32_t collectives;
	uint64_t collective_ns;            /* union of collective time */
	uint64_t exposed_collective_ns;    /* union of time under collectives and under nothing else;
					      CS_NS_UNKNOWN */
	int32_t rank;                      /* CS_RANK_UNKNOWN */
	const struct cs_collective *items; /* `collectives` of them in start order (light: NULL) */
};

/* Any callback may be NULL. */
struct cs_analysis_sink {
	void *context;
	void (*step)(void *context, const struct cs_step *step);
	/* Once per collective, after its step; also for those in no step. */
	void (*collective)(void *context, const struct cs_collective *collective);
	/* WINDOW, LOSS, MARK, HOST_LAUNCH records as they are, at once. */
	void (*other)(void *context, uint32_t source, const struct cs_record *record);
};

struct cs_analysis; /* opaque */

struct cs_analysis_options {
	uint64_t horizon_ns;    /* 0 = CS_ANALYSIS_HORIZON_NS */
	const char *steps_file; /* user rules; NULL none */
};

/* 0; -ENOMEM; for a bad rule file -EINVAL with "FILE:LINE: reason" in complaint (may be NULL). */
int cs_analysis_new(const struct cs_analysis_options *options, const struct cs_analysis_sink *sink,
	struct cs_analysis **analysis, char *complaint, size_t complaint_bytes);
void cs_analysis_destroy(struct cs_analysis *analysis);

/* One source per process. `dictionary` is borrowed until cs_analysis_remove_source and may grow between
 * calls. */
int cs_analysis_add_source(
	struct cs_analysis *analysis, const struct cs_dictionary *dictionary, uint32_t *source);
/* Hands out everything pending of the source, then forgets it. */
void cs_analysis_remove_source(struct cs_analysis *analysis, uint32_t source);

/* 0, or -ENOMEM (the records of this call may be partly taken; the rest is counted as lost). */
int cs_analysis_ingest(
	struct cs_analysis *analysis, uint32_t source, const struct cs_record *records, size_t count);
/* Record time has reached now_ns (CLOCK_REALTIME live; end of the capture otherwise): everything older than
 * the horizon is handed out. */
void cs_analysis_advance(struct cs_analysis *analysis, uint64_t now_ns);
/* Hands out everything. */
void cs_analysis_drain(struct cs_analysis *analysis);

#endif
