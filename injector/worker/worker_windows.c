/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of the worker: opening and closing them, and failures to do so. */
#include "worker_private.h"

#include "clock.h"
#include "cupti/tracing.h"
#include "labels/labels.h"
#include "life/release.h"
#include "records/delivery.h"

/* Failures in a row before we give up. */
#define FAILURES_MAX 8U

static void
give_up_when_failing(struct cs_worker *w, CUptiResult failure)
{
	const char *text = NULL;

	if (++w->failures < FAILURES_MAX)
		return;
	if (w->instance->cupti.get_result_string(failure, &text) != CUPTI_SUCCESS || !text)
		text = "unknown error";
	cs_release(w->instance);
	cs_instance_go_dormant("CUPTI does not trace here (%s); a debugger, MIG or a profiler may forbid it "
			       "(docs/coexistence.md)",
		text);
}

void
cs_worker_set_depth(struct cs_worker *w, enum cs_depth depth)
{
	CUptiResult failure;

	if (!cs_instance_enter_cupti())
		return;
	if (depth == CS_DEPTH_DEEP) {
		bool calls = cs_labels_wants_calls(cs_clock_realtime_ns());

		cs_tracing_want_calls(calls);
		cs_labels_expect_calls(calls);
	}
	cs_delivery_note_edge(depth == CS_DEPTH_DEEP, cs_clock_realtime_ns());
	if (cs_tracing_switch(w->instance, depth, &failure) == 0)
		w->failures = 0;
	cs_instance_leave_cupti();
	if (failure != CUPTI_SUCCESS)
		give_up_when_failing(w, failure);
}

static bool
differ(const struct cs_delivery_counts *now, const struct cs_delivery_counts *then)
{
	return now->requested != then->requested || now->completed != then->completed;
}

/* Some buffer came our way in this window, and either one did after the last flush or one is to come back. */
static bool
is_ours(struct cs_worker *w)
{
	struct cs_delivery_counts counts;

	cs_delivery_count(w->ignore_before, &counts);
	return differ(&counts, &w->opened) && (counts.held != 0 || differ(&counts, &w->flushed));
}

/*
 * Whether the deep kinds must stay on although their window is over: as long as no buffer came our way they
 * may be in use by another tool, and switching them off would blind it. When the server was merely idle, the
 * first buffer of the next traffic ends this within a turn. CUPTI asks for a buffer when it hands records
 * over, not when they arise, hence the flush.
 */
static bool
must_linger(struct cs_worker *w)
{
	struct cs_delivery_counts counts;

	if (cs_tracing_depth() != CS_DEPTH_DEEP || !w->judging)
		return false;
	if (is_ours(w))
		return false;
	cs_worker_flush(w);
	if (is_ours(w))
		return false;
	/* What came earlier in the window does not tell whose they are now. */
	cs_delivery_count(w->ignore_before, &counts);
	if (cs_worker_buffers_came(w, &counts)) {
		w->judging = false;
		cs_worker_begin_judging(w);
	}
	return true;
}

/* After the switch: what lies between belongs to the old stretch. */
static void
note_turn(struct cs_worker *w, uint32_t ordinal)
{
	uint64_t kernels, work_ns;

	/* By the clock that the turn began with; should it be set in between, the next turn takes notice. */
	w->now_ns = cs_clock_monotonic_ns() + w->ahead_ns;
	cs_worker_end_sampling(w);
	cs_delivery_pace_look(&kernels, &work_ns);
	cs_windows_turn_idle(&w->windows, cs_tracing_depth(), ordinal, w->now_ns, work_ns);
	if (cs_tracing_depth() == CS_DEPTH_DEEP)
		cs_worker_begin_sampling(w);
	w->drain_until_ns = w->monotonic_ns + CS_WORKER_DRAIN_NS;
}

void
cs_worker_open_window(struct cs_worker *w, uint32_t ordinal)
{
	if (cs_tracing_depth() != CS_DEPTH_DEEP) {
		/* Before the switch: a buffer may be asked for at once. */
		cs_delivery_count(w->ignore_before, &w->opened);
		w->flushed = w->opened;
		cs_worker_set_depth(w, CS_DEPTH_DEEP);
	}
	if (cs_tracing_depth() == CS_DEPTH_DEEP)
		cs_worker_begin_judging(w);
	note_turn(w, ordinal);
}

void
cs_worker_close_window(struct cs_worker *w, uint32_t ordinal)
{
	if (cs_tracing_depth() == CS_DEPTH_DEEP) {
		cs_worker_set_depth(w, CS_DEPTH_OFF);
		cs_worker_expect_buffers(w);
	}
	note_turn(w, ordinal);
}

void
cs_worker_turn_window(struct cs_worker *w, const struct cs_schedule_plan *plan)
{
	w->lingering = plan->depth != CS_DEPTH_DEEP && must_linger(w);
	if (w->lingering) {
		cs_windows_wait(&w->windows, w->now_ns);
		cs_delivery_pace_wait(w->now_ns);
		return; /* the window goes on */
	}
	if (plan->depth == CS_DEPTH_DEEP && cs_tracing_depth() != CS_DEPTH_DEEP && !cs_worker_may_trace(w))
		return;
	w->asked = !plan->sampled;
	if (plan->depth == CS_DEPTH_DEEP)
		cs_worker_open_window(w, plan->ordinal);
	else
		cs_worker_close_window(w, plan->ordinal);
}
