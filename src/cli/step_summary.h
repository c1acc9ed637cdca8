/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps by phase, all ranks together: how many, how long, and what communication was of that. For
 * `collscope status --collectives` and `collscope top`.
 *
 * All columns rest on the same steps: those that were seen from start to end (cs_step.complete) and kernel by
 * kernel (depth deep). Thread context: one thread per summary.
 */
#ifndef CS_STEP_SUMMARY_H
#define CS_STEP_SUMMARY_H

#include "analysis/analysis.h"
#include "page.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct cs_step_row {
	uint8_t phase;
	uint64_t count;
	uint64_t sum_ns;
	uint64_t collectives;    /* sum */
	uint64_t collective_ns;  /* sum of time under collectives */
	uint64_t exposed_count;  /* steps whose exposed time is known */
	uint64_t exposed_ns;     /* sum over those */
	uint64_t exposed_sum_ns; /* how long those took */
	uint64_t p50_ns, p99_ns; /* exact (nearest rank); valid after cs_step_summary_finish */
	/* private */
	uint64_t *durations_ns;
	size_t duration_capacity;
};

struct cs_step_summary {
	struct cs_step_row rows[CS_PHASE_COUNT]; /* after cs_step_summary_finish: by falling sum_ns */
	size_t count;                            /* rows with steps; after cs_step_summary_finish */
};

/* All zero. */
void cs_step_summary_init(struct cs_step_summary *summary);
void cs_step_summary_fini(struct cs_step_summary *summary);
/* 0 or -ENOMEM. Steps that are incomplete or not deep are left out. */
int cs_step_summary_add(struct cs_step_summary *summary, const struct cs_step *step);
/* Sorts and computes quantiles. More may be added, and the summary finished again. */
void cs_step_summary_finish(struct cs_step_summary *summary);
/* For people; nothing when there is no step. 0 or -ENOMEM. */
int cs_step_summary_print(const struct cs_step_summary *summary, FILE *stream, struct cs_page *page);

#endif
