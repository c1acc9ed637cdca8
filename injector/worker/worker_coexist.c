/* SPDX-License-Identifier: Apache-2.0 */
/* Who owns CUPTI: the worker's verdicts (coexist.h says by what rule), stepping back and coming back. */
#include "worker_private.h"

#include "clock.h"
#include "cupti/coexist.h"
#include "cupti/subscription.h"
#include "cupti/suspects.h"
#include "cupti/timebase.h"
#include "cupti/tracing.h"
#include "cupti/witness.h"
#include "labels/labels.h"
#include "log.h"

#include <stdio.h>
#include <string.h>

/* Newer records than that tell whose the buffers are now: some flushes' time. */
#define RECENT_NS (500 * CS_NS_PER_MS)

static uint64_t
process_cpu_ns(void)
{
	uint64_t all_ns = cs_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	uint64_t ours_ns = cs_clock_ns(CLOCK_THREAD_CPUTIME_ID);

	return all_ns > ours_ns ? all_ns - ours_ns : 0;
}

static uint64_t
launches_by_callback(const struct cs_worker *w)
{
	return atomic_load_explicit(&w->status->graph_launches, memory_order_relaxed);
}

void
cs_worker_begin_judging(struct cs_worker *w)
{
	if (w->judging)
		return;
	w->judging = true;
	cs_delivery_count(w->ignore_before, &w->judge_from);
	w->judge_begin_ns = w->monotonic_ns;
	w->judge_until_ns = w->monotonic_ns + cs_coexist_judge_ns();
	w->judge_launches = launches_by_callback(w);
	w->judge_cpu_ns = process_cpu_ns();
}

bool
cs_worker_buffers_came(const struct cs_worker *w, const struct cs_delivery_counts *counts)
{
	return counts->requested != w->judge_from.requested || counts->completed != w->judge_from.completed;
}

static void
settle(struct cs_worker *w, bool foreign)
{
	struct cs_delivery_counts counts;

	cs_delivery_count(w->ignore_before, &counts);
	cs_windows_settle(&w->windows, counts.launches, foreign);
}

/* Leaves CUPTI alone for a while; `what` has happened, and another tool has to do with it. */
static void
step_back(struct cs_worker *w, const char *what)
{
	char suspect[128];
	uint64_t step_back_ns;

	if (w->yields != 0 && cs_coexist_forgives(w->monotonic_ns - w->last_yield_ns))
		w->yields = 0;
	step_back_ns = cs_coexist_step_back_ns(w->instance->settings.step_back_s, w->yields++);
	w->last_yield_ns = w->monotonic_ns;
	cs_suspects_name(suspect, sizeof(suspect));
	snprintf(w->reason, sizeof(w->reason),
		"Another tool, perhaps %s, %s; looking again in %llu s, unless paused (docs/coexistence.md)",
		suspect[0] ? suspect : "torch.profiler", what,
		(unsigned long long)((step_back_ns + CS_NS_PER_S - 1) / CS_NS_PER_S));
	cs_log_info("%s", w->reason);
	w->lingering = false;
	w->probing = false;
	w->yielded = true;
	w->step_back_until_ns = w->monotonic_ns + step_back_ns;
}

void
cs_worker_yield_to_other(struct cs_worker *w)
{
	struct cs_delivery_counts counts;

	w->judging = false;
	w->awaiting = false;
	memset(&w->idle, 0, sizeof(w->idle));
	cs_worker_end_sampling(w);
	/* Should the kinds that stay on bring us records all the same, they are of no window. */
	if (cs_tracing_depth() == CS_DEPTH_DEEP)
		cs_delivery_note_edge(false, cs_clock_realtime_ns());
	cs_windows_turn(&w->windows, CS_DEPTH_OFF, 0, w->now_ns);
	settle(w, true);
	cs_segment_writer_lose(w->writer, CS_LOSS_FOREIGN_OWNER, 1, w->now_ns);
	cs_tracing_forget();
	w->ignore_before = cs_buffers_disown(cs_delivery_buffers());
	cs_delivery_count(w->ignore_before, &counts);
	w->yield_requested = counts.requested;
	step_back(w, "has taken over CUPTI's buffers");
}

/* -- whose clock is it ----------------------------------------------------------------------------------- */

/* As long as the buffers are another tool's, so is the clock. true: it is CLOCK_REALTIME now. */
static bool
take_clock(struct cs_worker *w, bool *ours)
{
	*ours = atomic_load(&w->instance->callbacks_registered)
			? cs_witness_answers(w->instance)
			: cs_tracing_register(w->instance) == CUPTI_SUCCESS;
	if (!*ours)
		return false;
	w->restore_clock = false;
	w->clock_replaced = true;
	cs_log_info("CUPTI's times are of another tool's clock, going back to CLOCK_REALTIME");
	/* If its kinds are still on, records of that clock have come since the buffers are ours again. */
	cs_worker_begin_timestamps(w);
	return cs_timebase_restore(&w->instance->cupti);
}

bool
cs_worker_may_trace(struct cs_worker *w)
{
	bool good, ours = true;

	if (!cs_instance_enter_cupti())
		return true; /* nor will it */
	if (w->finalized) {
		/* CUPTI starts from nothing again; contexts exist, so the caps hold for what is allocated
		 * now. */
		cs_device_memory_cap(w->instance);
		w->finalized = false;
	}
	/* Shared, CUPTI lets nobody set a clock. */
	good = w->instance->cupti.shared || (!w->restore_clock && cs_timebase_is_ours(&w->instance->cupti));
	if (!good)
		good = take_clock(w, &ours);
	cs_instance_leave_cupti();
	if (!ours) {
		/* It came within the last window, perhaps, at whose end we switched off what it wants. */
		if (w->awaiting)
			cs_worker_set_depth(w, CS_DEPTH_DEEP);
		cs_worker_yield_to_other(w);
	} else if (!good) {
		cs_worker_yield_clock(w, "has set CUPTI's clock, which cannot be set back");
	}
	return good;
}

void
cs_worker_yield_clock(struct cs_worker *w, const char *what)
{
	/* The records come to us, so the kinds are ours, too. */
	if (cs_tracing_depth() != CS_DEPTH_OFF)
		cs_worker_close_window(w, w->windows.open.ordinal);
	w->awaiting = false;
	w->judging = false;
	w->restore_clock = true;
	step_back(w, what);
}

/* A server that spins while it waits looks busy, and launches may leave nothing to hand over yet. */
bool
cs_worker_ask_witness(struct cs_worker *w)
{
	bool ours;

	if (!cs_instance_enter_cupti())
		return true; /* it is over anyway */
	ours = cs_witness_answers(w->instance);
	cs_instance_leave_cupti();
	return ours;
}

/* Not long ago; their buffers we may have taken. Else a server that is idle is not asked every few seconds.
 */
static bool
others_were_here(const struct cs_worker *w)
{
	if (w->schedule.mode == CS_MODE_DEMAND)
		return true;
	return w->last_yield_ns != 0 && !cs_coexist_forgives(w->monotonic_ns - w->last_yield_ns);
}

/* Nothing came though the buffers are ours: perhaps a tool whose buffers we had taken has ended its session,
 * and switched off the kinds under us. */
static void
insist(struct cs_worker *w)
{
	if (!cs_instance_enter_cupti())
		return;
	cs_tracing_insist(w->instance);
	cs_instance_leave_cupti();
}

/* Of a server that seems idle, later and later: it may be one that hardly uses the CPU, and another tool has
 * what it does on the GPU. */
static bool
is_due_to_ask(const struct cs_worker *w, enum cs_coexist_verdict verdict)
{
	if (verdict == CS_COEXIST_FOREIGN)
		return true;
	return verdict == CS_COEXIST_IDLE &&
	       (others_were_here(w) || w->probing || w->monotonic_ns >= w->idle.ask_ns);
}

static void
ask_later(struct cs_worker *w)
{
	w->idle.silent = 0;
	w->idle.pause_ns = 2 * w->idle.pause_ns + cs_coexist_judge_ns();
	if (w->idle.pause_ns > CS_COEXIST_IDLE_JUDGED * cs_coexist_judge_ns())
		w->idle.pause_ns = CS_COEXIST_IDLE_JUDGED * cs_coexist_judge_ns();
	w->idle.ask_ns = w->monotonic_ns + w->idle.pause_ns;
}

/* Nothing came, but it would have: the window may go on waiting for it, unless there is no more to wait for
 * than that answer. */
static enum cs_coexist_verdict
ask_before(struct cs_worker *w, enum cs_coexist_verdict verdict)
{
	if (verdict == CS_COEXIST_OURS)
		memset(&w->idle, 0, sizeof(w->idle));
	if (!is_due_to_ask(w, verdict))
		return verdict;
	if (!cs_worker_ask_witness(w)) {
		if (verdict == CS_COEXIST_IDLE && ++w->idle.silent >= CS_COEXIST_SILENT_MAX)
			verdict = CS_COEXIST_FOREIGN;
		return verdict;
	}
	ask_later(w);
	if (w->probing || (w->lingering && w->asked))
		return CS_COEXIST_OURS;
	if (others_were_here(w))
		insist(w);
	return CS_COEXIST_IDLE;
}

void
cs_worker_judge(struct cs_worker *w)
{
	struct cs_delivery_counts counts;
	struct cs_coexist_window window;
	bool probe = w->probing;

	if (!w->judging || w->yielded)
		return;
	cs_delivery_count(w->ignore_before, &counts);
	if (!cs_worker_buffers_came(w, &counts) && w->monotonic_ns < w->judge_until_ns)
		return;
	window = (struct cs_coexist_window){
		.requested = counts.requested - w->judge_from.requested,
		.completed = counts.completed - w->judge_from.completed,
		.held = w->judge_from.held,
		.subscribed = cs_subscription_held(),
		.launches = launches_by_callback(w) - w->judge_launches,
		.cpu_ns = process_cpu_ns() - w->judge_cpu_ns,
		.length_ns = w->monotonic_ns - w->judge_begin_ns,
	};
	switch (ask_before(w, cs_coexist_judge(&window, &w->silent))) {
	case CS_COEXIST_FOREIGN:
		cs_worker_yield_to_other(w);
		break;
	case CS_COEXIST_OURS:
		if (w->probing) {
			w->probes_in_vain++;
			w->last_probe_ns = w->monotonic_ns;
		}
		w->probing = false;
		if (w->lingering) {
			w->lingering = false;
			if (probe || !cs_worker_prolong_sampling(w))
				cs_worker_close_window(w, w->windows.open.ordinal);
		}
		/* fall through */
	default:
		w->judging = false;
		if (w->windows.open.depth != CS_DEPTH_OFF || w->lingering)
			cs_worker_begin_judging(w);
		break;
	}
}

/*
 * A tool that took over within a window went unnoticed, and we have switched off its kinds. What then shows
 * it are the buffers of the window: nothing is under way in them any more, so the next flushes bring them
 * back, to us or to the other tool.
 */
void
cs_worker_expect_buffers(struct cs_worker *w)
{
	struct cs_delivery_counts counts;

	if (w->probes_in_vain != 0 && cs_coexist_forgives(w->monotonic_ns - w->last_probe_ns))
		w->probes_in_vain = 0;
	cs_delivery_count(w->ignore_before, &counts);
	w->awaiting = counts.held != 0 && w->probes_in_vain < CS_COEXIST_PROBES_IN_VAIN;
	w->silent_paused = 0;
	w->awaited_completed = counts.completed;
	w->await_until_ns = w->monotonic_ns + CS_COEXIST_RETURN_NS;
}

/* Not with the kinds, as long as there is no sign that somebody wants them; and a single answer is none, as
 * is_foreign says. */
static void
look_while_paused(struct cs_worker *w)
{
	if (cs_worker_ask_witness(w))
		return;
	if (++w->silent_paused < CS_COEXIST_SILENT_MAX) {
		w->awaiting = true;
		w->await_until_ns = w->monotonic_ns + CS_COEXIST_RETURN_NS;
		return;
	}
	cs_worker_set_depth(w, CS_DEPTH_DEEP);
	cs_worker_yield_to_other(w);
}

/* They do not come back: the kinds go on again, which is what the other tool wants and what a verdict needs.
 */
void
cs_worker_watch_return(struct cs_worker *w)
{
	struct cs_delivery_counts counts;

	if (!w->awaiting)
		return;
	cs_delivery_count(w->ignore_before, &counts);
	if (counts.completed != w->awaited_completed || w->yielded || cs_tracing_depth() != CS_DEPTH_OFF) {
		w->awaiting = false;
		return;
	}
	if (w->monotonic_ns < w->await_until_ns)
		return;
	w->awaiting = false;
	if (w->schedule.paused) {
		look_while_paused(w);
		return;
	}
	w->probing = true;
	w->asked = false;
	w->judging = false;
	cs_worker_open_window(w, w->windows.open.ordinal);
	w->lingering = true;
	cs_log_debug("Buffers of the last window stay away, looking who has them");
}

/*
 * No kind of ours stays on, and none goes on to look who has the buffers: a tool that took over within the
 * window that ends here, or has just ended, is given way to when that is certain. The witness's answer is, as
 * whoever comes after it switches on kinds of its own. Its silence beside records that came just now is not:
 * beside work without a pause its record may lie in a buffer that does not come back yet.
 */
void
cs_worker_pause(struct cs_worker *w)
{
	bool ours;

	w->lingering = false;
	w->probing = false;
	w->judging = false;
	if (w->yielded || cs_tracing_depth() == CS_DEPTH_OFF)
		return;
	ours = cs_worker_ask_witness(w);
	if (!ours && w->now_ns - w->evidence_ns >= RECENT_NS) {
		cs_worker_yield_to_other(w);
		return;
	}
	cs_worker_close_window(w, w->windows.open.ordinal);
	/* Even if CUPTI has no buffer of ours: a flush may have brought the last one just before it came. */
	w->awaiting = !ours;
}

static bool
subscribe_again(struct cs_worker *w)
{
	char other[128];
	CUptiResult failure;
	uint64_t none = 0;

	if (cs_subscription_begin(w->instance, &failure, other, sizeof(other)) < 0)
		return false;
	if (w->instance->may_share)
		cs_device_memory_cap(w->instance);
	cs_subscription_enable_labels();
	/* Contexts that came before were not seen. */
	atomic_compare_exchange_strong(&w->instance->first_context_ns, &none, w->monotonic_ns);
	return true;
}

/* The kinds that were left on for another tool. */
static void
sweep(struct cs_worker *w, const char *why)
{
	if (!cs_tracing_left_on() || !cs_instance_enter_cupti())
		return;
	cs_tracing_sweep(w->instance);
	cs_instance_leave_cupti();
	cs_log_debug("Kinds that were left on for another tool are off: %s", why);
}

/* CUPTI asks us for a buffer: nobody else is there to want them. */
void
cs_worker_watch_left_on(struct cs_worker *w)
{
	struct cs_delivery_counts counts;

	cs_delivery_count(w->ignore_before, &counts);
	if (counts.requested != w->yield_requested)
		sweep(w, "they bring records here");
}

/*
 * The buffers of whoever has them are taken. In demand mode there is no need for that before the next trace
 * unless kinds were left on, which would cost the server its time until then.
 */
static bool
take_buffers(struct cs_worker *w)
{
	if (!atomic_load(&w->instance->traced) && !atomic_load(&w->instance->callbacks_registered))
		return true;
	if (w->schedule.mode == CS_MODE_DEMAND && !w->schedule.asked && !cs_tracing_left_on()) {
		atomic_store(&w->instance->callbacks_registered, false);
		return true;
	}
	if (cs_tracing_register(w->instance) != CUPTI_SUCCESS)
		return false;
	/* Also if a window is due: it begins with a turn of its own. */
	cs_tracing_sweep(w->instance);
	return true;
}

void
cs_worker_come_back(struct cs_worker *w)
{
	bool back = true;

	if (w->monotonic_ns < w->step_back_until_ns)
		return;
	/* Somebody may have asked for that in order to use the other tool for longer. But should it be gone,
	 * the host has all its work traced, into callbacks that may keep every buffer (torch.profiler's do).
	 */
	if (w->schedule.paused) {
		sweep(w, "the time to step back is over");
		return;
	}
	if (!cs_instance_enter_cupti())
		return;
	if (atomic_load(&w->instance->first_context_ns) == 0)
		back = subscribe_again(w);
	if (back)
		back = take_buffers(w);
	cs_instance_leave_cupti();
	w->step_back_until_ns =
		w->monotonic_ns + cs_coexist_step_back_ns(w->instance->settings.step_back_s, 0);
	if (!back)
		return;
	w->yielded = false;
	w->silent = 0;
	w->reason[0] = '\0';
}

static void
say_why_it_stays(struct cs_worker *w)
{
	char who[160] = "collscope has";
	char suspect[128] = "";

	if (w->instance->cupti.shared) {
		snprintf(who, sizeof(who), "it is shared, and others may have");
	} else if (!atomic_load(&w->instance->traced)) {
		cs_suspects_name(suspect, sizeof(suspect));
		snprintf(who, sizeof(who), "%s%s may have", suspect[0] ? "perhaps " : "somebody", suspect);
	}
	snprintf(w->stays, sizeof(w->stays),
		"CUPTI stays in the process, as %s traced with it: a graph launch costs some CPU time more "
		"than without (docs/coexistence.md)",
		who);
	cs_log_info("%s", w->stays);
}

/* All of CUPTI goes, and with it its cost per launch. Fatal to the host if anybody ever traced a kernel, us
 * or another tool: only with proof (witness.h), and then at once. */
static void
leave_cupti_if_safe(struct cs_worker *w)
{
	if (!cs_witness_clears(w->instance)) {
		say_why_it_stays(w);
		return;
	}
	w->instance->cupti.finalize();
	/* It may number calls from the beginning again, and nothing of the old ones is under way. */
	cs_labels_age_calls();
	cs_labels_age_calls();
	atomic_store(&w->instance->callbacks_registered, false);
	w->finalized = true;
	cs_log_info("CUPTI has left the process until a trace is asked for");
}

void
cs_worker_give_up_subscription(struct cs_worker *w)
{
	if (!cs_subscription_held() || !cs_instance_enter_cupti())
		return;
	cs_subscription_end(w->instance);
	if (w->schedule.mode == CS_MODE_DEMAND)
		leave_cupti_if_safe(w);
	cs_instance_leave_cupti();
	if (w->instance->cupti.shared)
		cs_log_info("CUPTI's callbacks are off; the subscription, which is shared, stays");
	else
		cs_log_info("CUPTI's subscription is given up: torch.profiler sees the GPU from now on");
}

void
cs_worker_release_subscription(struct cs_worker *w)
{
	cs_worker_give_up_subscription(w);
	if (!w->instance->cupti.shared || !cs_instance_enter_cupti())
		return;
	w->awaiting = false; /* CUPTI is not to be used, so it cannot be asked either */
	w->instance->cupti.activity_flush_all(0);
	cs_subscription_leave(w->instance);
	cs_instance_leave_cupti();
}

/* Labels are learnt: give torch.profiler its chance. In demand mode nothing of CUPTI is needed any more. */
void
cs_worker_unsubscribe_when_quiet(struct cs_worker *w)
{
	uint64_t first_ns = atomic_load(&w->instance->first_context_ns);

	cs_worker_note_launches(w);
	if (!cs_subscription_held() || !cs_coexist_should_unsubscribe(w->schedule.mode, w->monotonic_ns,
					       first_ns, cs_labels_last_graph_ns())) {
		w->holding_ns = 0;
		return;
	}
	if (w->holding_ns == 0)
		w->holding_ns = w->monotonic_ns;
	if (!cs_worker_hold_for_measuring(w))
		cs_worker_give_up_subscription(w);
}
