/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which implementation really ran, per operation, size, type, phase, algorithm and protocol: counts, exact
 * quantiles, share of GPU time; and the steps around them. Feed it through cs_summary_sink(); for `collscope
 * status --collectives` and `collscope top`.
 *
 * Thread context: one thread per summary.
 */
#ifndef CS_SUMMARY_H
#define CS_SUMMARY_H

#include "feed.h"
#include "phase_rules.h"
#include "step_summary.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CS_SHARE_UNKNOWN (-1.0)

/* What time the summary is of, over all processes; CLOCK_REALTIME. */
struct cs_summary_span {
	uint64_t from_ns;   /* start of the oldest collective; 0: there is none */
	uint64_t to_ns;     /* end of the newest one, or of the last window */
	uint64_t traced_ns; /* of that: in which some process traced deeply, each moment once; 0 unknown */
};

/* What a process is to the summary: its windows, in part private to summary.c. */
struct cs_summary_coverage {
	const struct cs_target *target;
	uint32_t gpus;      /* bit per index: those with collectives */
	uint64_t oldest_ns; /* start of the oldest collective in the ring */
	uint64_t newest_ns;
	struct cs_record *windows;
	size_t window_count;
};

struct cs_summary_row {
	/* the key */
	uint8_t op, impl, dtype, phase, algorithm, protocol;
	uint64_t bytes; /* CS_BYTES_UNKNOWN */
	/* what was seen */
	uint64_t count;
	uint64_t sum_ns;  /* second kernels of a collective included; they are not counted */
	uint64_t wait_ns; /* sum over the matched ones */
	uint64_t matched;
	uint64_t transfer_ns,
		bus_bytes;       /* sums over the whole groups, once per collective (cs_op_bus_bytes) */
	uint64_t p50_ns, p99_ns; /* exact; valid after cs_summary_finish; 0 when count is 0 */
	double share;            /* of the traced GPU time, 0 to 1; CS_SHARE_UNKNOWN */
	/* private */
	uint64_t *durations_ns;
	size_t duration_capacity;
};

struct cs_summary {
	struct cs_summary_row **rows; /* after cs_summary_finish: by falling sum_ns */
	size_t count;
	uint64_t traced_ns; /* deep tracing that the rings still cover, summed over GPUs; 0 unknown */
	size_t gpu_count;
	uint64_t newest_ns; /* end of the newest collective; 0 none */
	struct cs_summary_span span;
	struct cs_step_summary steps;
	struct cs_phase_rules phase_rules;
	/* For summaries that are restarted: traced is what lies between the oldest and the newest collective
	 * taken, as windows are told of before their collectives. Set it after cs_summary_init. */
	bool live;
	uint64_t since_ns; /* leaves out what ended before, CLOCK_REALTIME; likewise set after cs_summary_init
			    */
	struct cs_summary_coverage *coverage; /* processes with records */
	size_t coverage_count;
	/* private */
	void *tree;
	const struct cs_feed *feed;
	int failure;
};

void cs_summary_init(struct cs_summary *summary);
void cs_summary_fini(struct cs_summary *summary);

/* A sink that adds to the summary. Call cs_summary_attach with the feed before the first record. */
struct cs_analysis_sink cs_summary_sink(struct cs_summary *summary);
void cs_summary_attach(struct cs_summary *summary, const struct cs_feed *feed);

/* Forgets all but the windows whose collectives may be still to come. */
void cs_summary_restart(struct cs_summary *summary);

/* Sorts, computes quantiles and shares. More may be taken, and the summary finished again. 0 or -ENOMEM (met
 * on the way). */
int cs_summary_finish(struct cs_summary *summary);

/* Deep tracing of one process, as far as its ring still has the records: closed windows, and the one that is
 * open now. live: as in struct cs_summary. */
uint64_t cs_summary_covered_ns(const struct cs_summary_coverage *coverage, bool live);
/* The span of all coverage. 0 or -ENOMEM. */
int cs_summary_find_span(const struct cs_summary *summary, struct cs_summary_span *span);

/* Neighbouring sizes at which an operation is run by the same implementation, or the same several. */
struct cs_summary_range {
	uint8_t op, dtype;
	uint32_t impls;                /* bit per enum cs_impl */
	uint64_t from_bytes, to_bytes; /* smallest and largest size seen */
	uint64_t count;
};

/*
 * The ranges of every (operation, type) that more than one implementation ran, by rising size: the
 * implementation switches between two neighbours. Sizes unknown are left out. *ranges is the caller's to
 * free. 0 or -ENOMEM.
 */
int cs_summary_switches(const struct cs_summary *summary, struct cs_summary_range **ranges, size_t *count);

/* Lines that stand under the table of collectives, at most. */
#define CS_SUMMARY_REMARKS 4U

/* For people: the steps, a blank line, the collectives, what their columns rest on. 0 or -ENOMEM. `limit`:
 * rows of collectives at most, 0 all. */
int cs_summary_print(const struct cs_summary *summary, FILE *stream, size_t limit, struct cs_page *page);
/* One line: what time that covers. */
void cs_summary_print_span(const struct cs_summary *summary, FILE *stream);

#endif
