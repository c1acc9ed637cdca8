/* SPDX-License-Identifier: Apache-2.0 */
/* Signs that going on would do harm, or no good any more: then we give CUPTI back and say why. */
#include "worker_private.h"

#include "clock.h"
#include "cupti/coexist.h"
#include "cupti/tracing.h"
#include "life/release.h"
#include "log.h"

#include <stdio.h>

/* So many records are looked at together; when most of them have no valid time we give up. */
#define BAD_RECORDS_MIN 1000U

void
cs_worker_begin_timestamps(struct cs_worker *w)
{
	cs_delivery_count(w->ignore_before, &w->watched);
	w->looked = w->watched;
}

/*
 * Most records have no good times. If they are whole but of another clock, some tool has set its own and
 * left it there (or somebody CLOCK_REALTIME, by more than a day); CUPTI did not say so, or the window would
 * not have begun (timebase.h). Once that was found in this process, zeros may come from it, too, in CUPTI
 * before 13.1. All of that may end: try again. Else CUPTI's device buffers are no longer recycled, which it
 * does not get over.
 */
static void
give_up_times(struct cs_worker *w, uint64_t timed, uint64_t bad, uint64_t strange)
{
	if (strange > bad / 2) {
		cs_worker_yield_clock(
			w, "has set CUPTI's clock, so that the times of its records mean nothing");
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

void
cs_worker_watch_timestamps(struct cs_worker *w)
{
	struct cs_delivery_counts counts, before, last = w->looked;

	cs_delivery_count(w->ignore_before, &counts);
	w->looked = counts;
	/* What comes while nothing is traced is what another tool wanted: the next window looks whose the
	 * clock is before it begins. */
	if (cs_tracing_depth() == CS_DEPTH_OFF && w->monotonic_ns >= w->drain_until_ns) {
		w->watched.timed += counts.timed - last.timed;
		w->watched.bad += counts.bad - last.bad;
		w->watched.strange += counts.strange - last.strange;
	}
	before = w->watched;
	if (w->yielded || counts.timed - before.timed < BAD_RECORDS_MIN)
		return;
	w->watched = counts;
	if (counts.bad - before.bad > (counts.timed - before.timed) / 2)
		give_up_times(w, counts.timed - before.timed, counts.bad - before.bad,
			counts.strange - before.strange);
}

/* There are buffers of which no account is kept (buffers.h), and soon one that is everybody's: nobody has
 * seen what CUPTI does when two of its own users write into it. */
void
cs_worker_watch_buffers(struct cs_worker *w)
{
	if (!cs_buffers_run_out(cs_delivery_buffers()))
		return;
	cs_release(w->instance);
	cs_instance_go_dormant("CUPTI wanted more buffers at once than there may be; restart the process to "
			       "profile it, with more COLLSCOPE_BUFFERS if this comes again");
}

/* Tracing rests at least so long after buffers have run short, and until CUPTI has only so many: what a
 * window of ordinary traffic leaves with it. */
#define SHED_NS       (200 * CS_NS_PER_MS)
#define SHED_HELD_MAX 2U
/* Resting longer than that is worth a word in the segment. And so many may stay away by then: a kernel that
 * never ends keeps its buffer, and there are many more. */
#define SHED_LONG_NS       (5 * CS_NS_PER_S)
#define SHED_HELD_LONG_MAX 8U

static void
begin_shedding(struct cs_worker *w)
{
	w->shedding_ns = w->monotonic_ns;
	w->shed_watch.heard_ns = w->monotonic_ns;
	w->shed_watch.silent = 0;
	w->lingering = false;
	w->probing = false;
	cs_worker_shed_sampling(w);
	cs_worker_close_window(w, w->windows.open.ordinal);
	/* They do come back, only later. */
	w->awaiting = false;
	atomic_fetch_add_explicit(&w->status->tracing_rests, 1, memory_order_relaxed);
	cs_log_debug("Buffers run short, tracing rests until CUPTI has handed them over");
}

/*
 * A tool that takes over meanwhile gets what CUPTI had not handed over by then, and we would wait for it for
 * ever. A single answer that the buffers are not ours is not enough: its record may lie in one that CUPTI
 * cannot hand over yet. Paused, nobody asks: CUPTI is to be left alone then.
 */
static bool
went_to_other(struct cs_worker *w, const struct cs_delivery_counts *counts)
{
	if (counts->completed != w->shed_watch.completed || w->schedule.paused) {
		w->shed_watch.completed = counts->completed;
		w->shed_watch.heard_ns = w->monotonic_ns;
		w->shed_watch.silent = 0;
		return false;
	}
	if (w->monotonic_ns - w->shed_watch.heard_ns < cs_coexist_judge_ns())
		return false;
	w->shed_watch.heard_ns = w->monotonic_ns;
	if (cs_worker_ask_witness(w))
		w->shed_watch.silent = 0;
	else
		w->shed_watch.silent++;
	return w->shed_watch.silent >= CS_COEXIST_SILENT_MAX;
}

static bool
is_over(const struct cs_worker *w, const struct cs_delivery_counts *counts)
{
	uint64_t rested_ns = w->monotonic_ns - w->shedding_ns;

	return rested_ns >= SHED_NS &&
	       counts->held <= (rested_ns < SHED_LONG_NS ? SHED_HELD_MAX : SHED_HELD_LONG_MAX);
}

/*
 * Records arise at launch and are handed over when the kernel has ended, so a program that launches far ahead
 * of the GPU fills one buffer after the other. Refusing them is the last thing to do: on an H200 (CUPTI 13.0)
 * a loop 32 launches of 2,440 nodes ahead had 33,000 requests refused, and no buffer came back ever after.
 */
bool
cs_worker_sheds(struct cs_worker *w)
{
	struct cs_delivery_counts counts;

	if (w->shedding_ns == 0) {
		if (!cs_delivery_is_short())
			return false;
		if (cs_tracing_depth() == CS_DEPTH_OFF) {
			cs_delivery_end_shortage();
			return false;
		}
		begin_shedding(w);
	}
	if (!w->schedule.paused)
		w->drain_until_ns = w->monotonic_ns + CS_WORKER_DRAIN_NS;
	cs_delivery_count(w->ignore_before, &counts);
	if (is_over(w, &counts)) {
		w->shedding_ns = 0;
		cs_delivery_end_shortage();
		w->reason[0] = '\0';
		return false;
	}
	if (went_to_other(w, &counts)) {
		/* The rest ends when we are back: those buffers do not count any more. */
		cs_worker_yield_to_other(w);
		return true;
	}
	if (w->monotonic_ns - w->shedding_ns >= SHED_LONG_NS)
		snprintf(w->reason, sizeof(w->reason),
			"Tracing rests: CUPTI has not handed over %u buffers yet (more COLLSCOPE_BUFFERS may "
			"help)",
			counts.held);
	return true;
}
