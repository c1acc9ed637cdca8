/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to trace, and how deeply: a function of the clock, the mode and what was asked. It keeps no state but
 * requests, so a clock that is set, or a process that was stopped for an hour, needs no care: the next look
 * gives what is due now.
 *
 * Sample mode. Periods begin at multiples of their length of CLOCK_REALTIME, so every process of every node
 * traces the same moments. A period of base length times 2^n begins together with one of the base length, so
 * processes that look at different rates, or for longer, still meet. For a quick start windows come on the
 * finer grid `quick_ns`, into which periods fall too. Length, period and grid are the governor's, and change
 * between windows only. Within a period:
 *
 *   | deep (window_ns) | off ... |
 *
 * Depth light is never planned: steps.h says why CUPTI's instrument for it cannot be used.
 *
 * A request to trace with a limit X on its share of step time is deep for X / perturbation of the time, in
 * periods that begin with the request: a second, or as many times twice that as it takes to make a window as
 * long as the sampling ones, and at most the request. All processes that were asked begin their windows
 * together; where tracing costs more they are shorter, or every second one is missing.
 *
 * Full mode, and a request without limit: deep, in slices of CS_SCHEDULE_SLICE_NS so that coverage is
 * reported as it happens. Pure; one thread.
 */
#ifndef CS_SCHEDULE_H
#define CS_SCHEDULE_H

#include "environment.h"
#include "segment/segment_writer.h"

#include <stdbool.h>

#define CS_SCHEDULE_SLICE_NS 1000000000ULL
/* Finer than any grid: the least period is 100 ms, and the governor's grids are twice a window of at least
 * 1 ms. */
#define CS_SCHEDULE_ORDINAL_NS 1000000ULL
/* What may be asked for begins at most so far ahead; how long it may be is COLLSCOPE_TRACE_MAX_S. */
#define CS_REQUEST_AHEAD_MAX_NS 3600000000000ULL

struct cs_schedule {
	enum cs_mode mode;
	uint64_t period_ns;
	uint64_t window_ns;
	uint64_t quick_ns; /* 0: none */
	bool paused;
	bool asked;
	uint64_t asked_from_ns, asked_until_ns; /* CLOCK_REALTIME */
	uint64_t asked_until_monotonic_ns;      /* the same end, for when the clock is set back meanwhile */
	/* With a limit on the cost: deep for the first asked_window_ns of every asked_period_ns from
	 * asked_from_ns on. Without: 0. */
	uint64_t asked_window_ns, asked_period_ns;
	uint64_t trace_max_ns; /* longest request; 0: none is allowed */
	double perturbation;   /* the caller's: cost of deep tracing as a share of step time; > 0 */
};

struct cs_schedule_plan {
	enum cs_depth depth;
	bool sampled; /* by the sampling plan, whose windows the budget pays; not asked for */
	/* When the window or slice was due to begin: units of CS_SCHEDULE_ORDINAL_NS since 1970, cut to 32
	 * bits. So the windows that several processes open at one moment have one ordinal, whatever their
	 * grids. A window of the plan and a slice of a request may share it. */
	uint32_t ordinal;
	uint64_t until_ns; /* CLOCK_REALTIME: when to look again; > now */
};

void cs_schedule_init(struct cs_schedule *schedule, const struct cs_settings *settings);

/* What is due now. Forgets a request that has run out. */
void cs_schedule_look(
	struct cs_schedule *schedule, uint64_t now_ns, uint64_t monotonic_ns, struct cs_schedule_plan *plan);

/*
 * Takes a request from a reader. 0 or a positive errno for cs_segment_writer_answer: EINVAL (ends before it
 * begins, share above one), ETIME (should have begun already: others have, and this one would not be with
 * them), EPERM (traces are not allowed), ERANGE (longer than allowed, or begins too far ahead), EBUSY (TRACE
 * while paused), EALREADY (another TRACE runs or waits, and this one does not say that it replaces it),
 * EOPNOTSUPP (unknown command).
 */
int cs_schedule_request(struct cs_schedule *schedule, const struct cs_segment_request *request,
	uint64_t now_ns, uint64_t monotonic_ns);

#endif
