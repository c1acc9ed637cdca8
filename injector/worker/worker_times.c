/* SPDX-License-Identifier: Apache-2.0 */
/* Whether records of windows have good times. When most have none, going on would do no good. */
#include "worker_private.h"

#include "cupti/tracing.h"
#include "life/release.h"
#include "log.h"

/* So many records are looked at together. */
#define RECORDS_MIN 1000U

void
cs_worker_begin_timestamps(struct cs_worker *w)
{
	cs_delivery_count(w->ignore_before, &w->times.looked);
	w->times.timed = w->times.bad = w->times.strange = 0;
}

void
cs_worker_note_clock_set(struct cs_worker *w, bool forward)
{
	w->times.set_forward |= forward;
	w->times.may_follow |= forward;
}

/*
 * Most records have no good times. If they are whole but of another clock, some tool has set its own and
 * left it there (or somebody CLOCK_REALTIME, and CUPTI goes on by the old one); CUPTI did not say so, or the
 * window would not have begun (timebase.h). Once that was found in this process, zeros may come from it, too,
 * in CUPTI before 13.1. All of that may end: try again. Else CUPTI's device buffers are no longer recycled,
 * which it does not get over.
 */
static void
give_up_times(struct cs_worker *w)
{
	uint64_t timed = w->times.timed, bad = w->times.bad;

	if (w->times.strange > bad / 2) {
		cs_worker_yield_clock(
			w, w->times.set_forward
				   ? "has set CUPTI's clock, or CUPTI has not followed the computer's, which "
				     "was set: "
				     "the times of its records mean nothing"
				   : "has set CUPTI's clock, so that the times of its records mean nothing");
		return;
	}
	if (w->clock_replaced) {
		cs_worker_yield_clock(
			w, "has set CUPTI's clock, and records have no times (CUPTI 13.1 mends that)");
		return;
	}
	cs_release(w->instance);
	cs_instance_go_dormant("CUPTI's records have no valid times any more (%llu of %llu); restart the "
			       "process to profile it, with a newer CUPTI if this comes again",
		(unsigned long long)bad, (unsigned long long)timed);
}

/* CUPTI may follow the computer's clock from the next window on. */
static bool
may_follow(struct cs_worker *w)
{
	bool may = w->times.may_follow && w->times.strange > w->times.bad / 2;

	w->times.may_follow = false;
	if (may)
		cs_log_debug(
			"The times of CUPTI's records have not followed the computer's clock, looking at "
			"the next ones");
	return may;
}

void
cs_worker_watch_timestamps(struct cs_worker *w)
{
	struct cs_delivery_counts counts, last = w->times.looked;

	cs_delivery_count(w->ignore_before, &counts);
	w->times.looked = counts;
	/* What comes while nothing is traced is what another tool wanted: the next window looks whose the
	 * clock is before it begins. */
	if (cs_tracing_depth() == CS_DEPTH_OFF && w->monotonic_ns >= w->drain_until_ns)
		return;
	w->times.timed += counts.timed - last.timed;
	w->times.bad += counts.bad - last.bad;
	w->times.strange += counts.strange - last.strange;
	if (w->yielded || w->times.timed < RECORDS_MIN)
		return;
	if (w->times.bad > w->times.timed / 2 && !may_follow(w))
		give_up_times(w);
	w->times.timed = w->times.bad = w->times.strange = 0;
}
