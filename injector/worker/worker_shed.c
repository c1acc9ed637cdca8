/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers run short: tracing rests. Or out: then it ends. */
#include "worker_private.h"

#include "clock.h"
#include "cupti/coexist.h"
#include "cupti/tracing.h"
#include "life/release.h"
#include "log.h"

#include <stdio.h>

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
 * never ends keeps its buffer, and there are many more. Fewer than are short by themselves. */
#define SHED_LONG_NS       (5 * CS_NS_PER_S)
#define SHED_HELD_LONG_MAX (CS_BUFFER_FRESH_SHORT - 1)

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
