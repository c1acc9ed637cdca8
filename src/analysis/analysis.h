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
#include "record.h"
#include "segment/dictionary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Delivery was measured at 92 to 110 ms on average and 1 s at worst in steady traffic (docs/overhead.md). */
#define CS_ANALYSIS_HORIZON_NS 2000000000ULL
#define CS_NS_UNKNOWN          UINT64_MAX
/* 28 MiB of waiting records: 2 s of eight ranks in sample mode, 0.4 s of eight ranks at the fullest traffic
 * measured (140,000 records/s each), where delivery takes 0.1 s. When more wait, the oldest leave early. */
#define CS_ANALYSIS_PENDING_RECORDS 524288U

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

/* Where a copy beside a collective went. */
enum cs_copy_direction {
	CS_COPY_LOCAL = 0, /* inside the GPU's memory, or not told */
	CS_COPY_TO_HOST = 1,
	CS_COPY_FROM_HOST = 2,
	CS_COPY_PEER = 3,
	CS_COPY_DIRECTION_COUNT
};
/* "local", "to_host", "from_host", "peer"; "unknown" outside the enum. Static string. */
const char *cs_copy_direction_name(unsigned int direction);

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
	/* Against the other ranks; CS_NS_UNKNOWN unless all of the group were seen. */
	uint64_t wait_ns, transfer_ns;
	bool last_arrival;
	uint32_t matched_ranks; /* how many ranks of the group were seen; 0 not matched */
	/* overlap_ns[CS_BUSY_COPY] by direction; may overlap each other. CS_NS_UNKNOWN as overlap_ns. */
	uint64_t copy_ns[CS_COPY_DIRECTION_COUNT];
};

struct cs_step {
	uint32_t source;
	uint32_t gpu;
	uint64_t step;      /* number in the source, from 1 */
	uint8_t phase;      /* enum cs_phase */
	uint8_t phase_rule; /* enum cs_phase_rule */
	/* More of it: the user's rule by its line in the file, the range or marker kernel by its name (an id
	 * of the dictionary). 0 where that is not what decided. */
	uint32_t phase_line, phase_name;
	uint8_t depth; /* enum cs_depth it was seen at: light steps have times only */
	uint64_t start_ns, end_ns;
	uint32_t graph_id, correlation_id; /* of its first launch; 0 eager */
	uint32_t launches;
	uint32_t collectives;
	uint64_t collective_ns;            /* union of collective time */
	uint64_t exposed_collective_ns;    /* union of time under collectives and under nothing else;
					      CS_NS_UNKNOWN */
	int32_t rank;                      /* CS_RANK_UNKNOWN */
	const struct cs_collective *items; /* `collectives` of them in start order (light: NULL) */
	uint64_t launch_end_ns; /* end of its last graph launch, 0 eager. To compare deep steps with light
				   ones: eager work that follows a graph is seen in deep windows only */
	bool part;              /* of a launch that was cut into several steps: no light step is like it */
	bool complete; /* false: a window's edge or lost records may have cut it; handed out only when
			  asked for (cs_analysis_options.incomplete_steps) */
};

/* Any callback may be NULL. */
struct cs_analysis_sink {
	void *context;
	void (*step)(void *context, const struct cs_step *step);
	/* Once per collective, after its step; also for those in no step. */
	void (*collective)(void *context, const struct cs_collective *collective);
	/* WINDOW, LOSS, MARK, HOST_LAUNCH, STILL, GRAPH records as they are, at once. */
	void (*other)(void *context, uint32_t source, const struct cs_record *record);
};

struct cs_analysis; /* opaque */

struct cs_analysis_options {
	uint64_t horizon_ns;    /* 0 = CS_ANALYSIS_HORIZON_NS */
	const char *steps_file; /* user rules; NULL or empty: none */
	size_t pending_records; /* most records that wait, all sources together; 0 =
				   CS_ANALYSIS_PENDING_RECORDS */
	/* Hand out steps that were not seen from start to end, too (complete is false). Without it they are
	 * only counted, and their collectives come with step 0. */
	bool incomplete_steps;
};

/* What the analysis did not use as it should; only grows. */
struct cs_analysis_counts {
	uint64_t records;             /* taken by cs_analysis_ingest */
	uint64_t late_records;        /* came after the horizon: their overlap with others is not known */
	uint64_t forced;              /* records let out before the horizon because too many waited */
	uint64_t dropped;             /* no memory, or contents that no writer writes */
	uint64_t steps;               /* complete ones */
	uint64_t incomplete_steps;    /* straddle the edge of a window or a loss: in no step statistics */
	uint64_t matched_collectives; /* wait and transfer are known */
	uint64_t
		partial_collectives; /* matched, but not all ranks of the group were seen: neither is known */
	uint64_t unmatched_collectives; /* have peers by their label, but none was found */
};

/* A GPU's clock against the clock of its group's first member, from the ends of their collectives. */
struct cs_clock_estimate {
	int64_t offset_ns;       /* this GPU's time minus the reference's */
	uint64_t uncertainty_ns; /* robust standard deviation of one end against the other: 1.4826 x median of
				    the absolute deviations; at least 1 */
	uint32_t samples;        /* that it rests on, at most a second older than the newest */
	bool reference;          /* it is the group's first member: offset 0 by definition */
};

/* 0; -ENOMEM; for a bad rule file -EINVAL with "FILE:LINE: reason" in complaint (may be NULL). */
int cs_analysis_new(const struct cs_analysis_options *options, const struct cs_analysis_sink *sink,
	struct cs_analysis **analysis, char *complaint, size_t complaint_bytes);
void cs_analysis_destroy(struct cs_analysis *analysis);

/* One source per process; *id is its number here, as in the results. `dictionary` is borrowed until
 * cs_analysis_remove_source and may grow between calls. */
int cs_analysis_add_source(
	struct cs_analysis *analysis, const struct cs_dictionary *dictionary, uint32_t *id);
/* Hands out everything pending of the source, then forgets it. Its peers' steps of the last horizon find no
 * partner there: a live reader waits a horizon after the process has ended, a reader of captures drains
 * first. */
void cs_analysis_remove_source(struct cs_analysis *analysis, uint32_t id);

/* Records of the source are missing between those that were ingested and those that are ingested next: what
 * ran there was not seen in full. They are not counted here. */
void cs_analysis_note_gap(struct cs_analysis *analysis, uint32_t id);

/* 0, or -ENOMEM (the records of this call may be partly taken; the rest is counted as lost). */
int cs_analysis_ingest(
	struct cs_analysis *analysis, uint32_t id, const struct cs_record *records, size_t count);
/* Record time has reached now_ns (CLOCK_REALTIME live; end of the capture otherwise): everything older than
 * the horizon is handed out.
 *
 * A time more than CS_ANALYSIS_STEP_BACK_NS behind the latest one says that the wall clock was set back:
 * everything pending is handed out, and all starts again from the new time. What was learnt of graphs stays,
 * clock offsets and windows do not; for a minute then, records far ahead of now_ns, which are from before,
 * are dropped. A smaller step back is ignored. So a reader that is behind with one of its sources must not
 * tell that as the time. */
#define CS_ANALYSIS_STEP_BACK_NS 10000000000ULL
void cs_analysis_advance(struct cs_analysis *analysis, uint64_t now_ns);
/*
 * The clock of a reader of live processes (CLOCK_REALTIME), which may have read of one of them less than of
 * another: what is a minute ahead of it is dropped, and counted so. Where it is not told, the time of
 * cs_analysis_advance stands for it. Told before the first records, it says also that those which are 5 s
 * ahead are from before the clock was set back. With each advance, before that.
 */
void cs_analysis_tell_clock(struct cs_analysis *analysis, uint64_t clock_ns);
/* Hands out everything. */
void cs_analysis_drain(struct cs_analysis *analysis);

void cs_analysis_read_counts(const struct cs_analysis *analysis, struct cs_analysis_counts *counts);
/* 0; -ENODATA when the GPU has not been matched with another yet. */
int cs_analysis_read_clock(
	const struct cs_analysis *analysis, uint32_t id, uint32_t gpu, struct cs_clock_estimate *estimate);
/* The process has ended: nothing more will be read of it than is read already. Peers that wait for it are
 * told (cs_stall.ended_rank). May be called again. */
void cs_analysis_end_source(struct cs_analysis *analysis, uint32_t id);

#define CS_STALL_NS 10000000000ULL

/* A rank with work under way of which nothing has ended for longer than a threshold. */
struct cs_stall {
	uint32_t source, gpu;
	int32_t rank;
	/* Since when, at the latest: its last record's end, the launch call, or, when it stopped while
	 * nothing was traced, the first look that found it so. */
	uint64_t since_ns;
	uint64_t work_end_ns; /* of the GPU's last work that was traced: the same as long as the stall is */
	/* What it waits for: the collective of that number in the launch, from 0. label_id 0: not known (the
	 * graph was not seen whole before, and not said at capture; the pending launch has no label; or it
	 * stopped between windows);
	 * label is then the all-unknown one. */
	uint32_t graph_id, correlation_id, ordinal, label_id;
	uint64_t graph_node_id; /* of that collective; 0 not known */
	const struct cs_label *label;
	/* The collective that it ended last, as far as was traced, and its position in its launch (outside
	 * graphs: in its stretch). last_end_ns 0: none yet. */
	uint32_t last_label_id, last_ordinal;
	uint64_t last_node_id; /* 0 outside graphs */
	const struct cs_label *last_label;
	uint64_t last_end_ns;
	/* The step that it stands in: the number that the step has, or would have if it were handed out. 0:
	 * it stopped between windows. */
	uint64_t step;
	bool behind; /* another rank of its group has got further: this one is waited for, the others wait */
	int32_t ended_rank; /* a rank of its group whose process has ended; CS_RANK_UNKNOWN: none */
};

/*
 * Calls `take` for each stalled GPU; returns how many. threshold_ns 0: CS_STALL_NS. A GPU is stalled when,
 * for that long, a graph launch has stopped in the middle or the work of a HOST_LAUNCH has not begun, tracing
 * was on when it stopped and has looked again since (an open window, or a later one that has ended); or when
 * STILL records say that it works and no kernel ends, wherever that began. A GPU that rests is not stalled:
 * that is an idle server. One that loads weights has no collective yet. Call after cs_analysis_advance.
 * Pointers are valid during `take`.
 */
size_t cs_analysis_list_stalls(struct cs_analysis *analysis, uint64_t now_ns, uint64_t threshold_ns,
	void (*take)(void *context, const struct cs_stall *stall), void *context);

#endif
