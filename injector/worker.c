/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include "clock.h"
#include "coexist.h"
#include "context.h"
#include "delivery.h"
#include "exporter_spawn.h"
#include "governor.h"
#include "identity.h"
#include "labels.h"
#include "log.h"
#include "schedule.h"
#include "subscription.h"
#include "tracing.h"
#include "windows.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* After a window its last records are still on their way: so long we go on flushing, and wait with a verdict
 * on who owns CUPTI. Longer than the longest step. */
#define DRAIN_NS (3 * CS_NS_PER_S)
/* In tracing without end a verdict is due this often. */
#define JUDGE_NS (3 * CS_NS_PER_S)
/* Failures in a row before we give up: of kinds to switch on, and of records without a valid time. */
#define FAILURES_MAX    8U
#define BAD_RECORDS_MIN 1000U

struct worker {
	struct cs_instance *instance;
	struct cs_segment_writer *writer;
	struct cs_status *status;
	struct cs_schedule schedule;
	struct cs_governor governor;
	struct cs_windows windows;
	uint64_t now_ns, monotonic_ns; /* of this turn */

	uint64_t next_flush_ns, next_second_ns; /* monotonic */
	uint64_t drain_until_ns;                /* monotonic */

	/* The stretch of tracing that is to be judged; begun at the first window after a verdict. */
	bool judging;
	struct cs_delivery_counts judge_from;
	uint64_t judge_begin_ns, judge_until_ns; /* monotonic */
	uint64_t judge_launches, judge_cpu_ns;
	unsigned int silent;
	bool lingering; /* the window should be over, its kinds are still on */

	bool yielded;
	uint64_t step_back_until_ns; /* monotonic */
	uint64_t ignore_before_ns;   /* buffers older than this are with another tool */

	uint32_t governed_ordinal;
	uint64_t random;
	unsigned int failures;
	uint64_t watched_kernels, watched_bad;
	bool finalized;
	char reason[256];
};

static struct worker worker;

void
cs_worker_stand_aside(const char *other)
{
	worker.yielded = true;
	worker.step_back_until_ns = cs_clock_monotonic_ns() + CS_COEXIST_STEP_BACK_NS;
	snprintf(worker.reason, sizeof(worker.reason),
		"Another tool uses CUPTI%s%s; trying again every minute", other[0] ? ": " : "", other);
}

static uint64_t
process_cpu_ns(void)
{
	uint64_t all_ns = cs_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	uint64_t ours_ns = cs_clock_ns(CLOCK_THREAD_CPUTIME_ID);

	return all_ns > ours_ns ? all_ns - ours_ns : 0;
}

static uint64_t
launches_by_callback(const struct worker *w)
{
	return atomic_load_explicit(&w->status->graph_launches, memory_order_relaxed);
}

/* -- devices --------------------------------------------------------------------------------------------- */

static void
name_device(struct worker *w, uint32_t device, uint32_t context_id)
{
	int gpu;

	if (cs_delivery_gpu(device) >= 0)
		return;
	gpu = cs_identity_register_gpu(w->instance, w->writer, device, context_id);
	if (gpu < 0)
		cs_log_debug("No identity for a GPU device=%u error=%d", device, -gpu);
	else
		cs_delivery_set_gpu(device, gpu);
}

static void
name_devices(struct worker *w)
{
	uint64_t wanted = cs_delivery_take_wanted();
	uint32_t device, context_id;

	while (cs_context_take_device(&device, &context_id)) {
		name_device(w, device, context_id);
		if (cs_delivery_gpu(device) >= 0)
			cs_labels_set_gpu(context_id, (uint8_t)cs_delivery_gpu(device));
	}
	for (; wanted != 0; wanted &= wanted - 1)
		name_device(w, (uint32_t)__builtin_ctzll(wanted), 0);
}

/* -- windows --------------------------------------------------------------------------------------------- */

static void
begin_judging(struct worker *w)
{
	if (w->judging)
		return;
	w->judging = true;
	cs_delivery_count(w->ignore_before_ns, &w->judge_from);
	w->judge_begin_ns = w->monotonic_ns;
	w->judge_until_ns = w->monotonic_ns + JUDGE_NS;
	w->judge_launches = launches_by_callback(w);
	w->judge_cpu_ns = process_cpu_ns();
}

static bool
buffers_came(const struct worker *w, const struct cs_delivery_counts *counts)
{
	return counts->requested != w->judge_from.requested || counts->completed != w->judge_from.completed;
}

static void
give_up_when_failing(struct worker *w, CUptiResult failure)
{
	const char *text = NULL;

	if (++w->failures < FAILURES_MAX)
		return;
	if (w->instance->cupti.get_result_string(failure, &text) != CUPTI_SUCCESS || !text)
		text = "unknown error";
	cs_instance_go_dormant(
		"CUPTI does not trace here (%s); a debugger, MIG or a profiler may forbid it", text);
}

static void
set_depth(struct worker *w, enum cs_depth depth)
{
	CUptiResult failure;

	if (!cs_instance_enter_cupti())
		return;
	if (depth != CS_DEPTH_OFF && w->finalized) {
		/* CUPTI starts from nothing again; contexts exist, so the caps hold for what is allocated
		 * now. */
		cs_device_memory_cap(w->instance);
		w->finalized = false;
	}
	cs_delivery_note_edge(depth == CS_DEPTH_DEEP, cs_clock_realtime_ns());
	if (cs_tracing_switch(w->instance, depth, &failure) == 0)
		w->failures = 0;
	cs_instance_leave_cupti();
	if (failure != CUPTI_SUCCESS)
		give_up_when_failing(w, failure);
}

static void
flush(struct worker *w)
{
	if (!atomic_load(&w->instance->callbacks_registered) || !cs_instance_enter_cupti())
		return;
	w->instance->cupti.activity_flush_all(0);
	cs_instance_leave_cupti();
	atomic_fetch_add_explicit(&w->status->flushes, 1, memory_order_relaxed);
}

/*
 * Whether the deep kinds must stay on although their window is over: as long as no buffer came our way they
 * may be in use by another tool, and switching them off would blind it. When the server was merely idle, the
 * first buffer of the next traffic ends this within a turn. CUPTI asks for a buffer when it hands records
 * over, not when they arise, hence the flush.
 */
static bool
must_linger(struct worker *w)
{
	struct cs_delivery_counts counts;

	if (cs_tracing_depth() != CS_DEPTH_DEEP || !w->judging)
		return false;
	cs_delivery_count(w->ignore_before_ns, &counts);
	if (!buffers_came(w, &counts)) {
		flush(w);
		cs_delivery_count(w->ignore_before_ns, &counts);
	}
	return !buffers_came(w, &counts);
}

static void
turn_window(struct worker *w, const struct cs_schedule_plan *plan)
{
	enum cs_depth depth = plan->depth;

	w->lingering = depth != CS_DEPTH_DEEP && must_linger(w);
	if (w->lingering)
		return; /* the window goes on */
	if (depth != cs_tracing_depth())
		set_depth(w, depth);
	depth = cs_tracing_depth();
	if (depth != CS_DEPTH_OFF)
		begin_judging(w);
	/* After the switch: what lies between belongs to the old stretch. */
	w->now_ns = cs_clock_realtime_ns();
	cs_windows_turn(&w->windows, depth, plan->ordinal, w->now_ns);
	w->drain_until_ns = w->monotonic_ns + DRAIN_NS;
}

static void
settle(struct worker *w, bool foreign)
{
	struct cs_delivery_counts counts;

	cs_delivery_count(w->ignore_before_ns, &counts);
	cs_windows_settle(&w->windows, counts.launches, foreign);
}

/* After a flush that began after they were closed; and not before it is known whose they were. */
static void
settle_when_sure(struct worker *w)
{
	struct cs_delivery_counts counts;

	cs_delivery_count(w->ignore_before_ns, &counts);
	if (!w->judging || buffers_came(w, &counts))
		cs_windows_settle(&w->windows, counts.launches, false);
}

/* -- governor -------------------------------------------------------------------------------------------- */

static void
govern(struct worker *w)
{
	struct cs_steps_medians steps;
	struct cs_governor_choice choice;

	if (cs_subscription_steps(&steps))
		cs_governor_measure(&w->governor, &steps);
	cs_governor_choose(&w->governor, &choice);
	if (choice.period_ns != w->schedule.period_ns)
		cs_log_info("Sampling period changes period_ms=%llu perturbation=%.3f cost=%.4f",
			(unsigned long long)(choice.period_ns / CS_NS_PER_MS), w->governor.perturbation,
			choice.cost);
	w->schedule.period_ns = choice.period_ns;
	atomic_store_explicit(&w->status->period_ns, choice.period_ns, memory_order_relaxed);
}

/* -- who owns CUPTI -------------------------------------------------------------------------------------- */

static void
yield_to_other(struct worker *w)
{
	snprintf(w->reason, sizeof(w->reason),
		"Another tool (torch.profiler?) has taken over CUPTI's buffers; looking again in %u s",
		(unsigned int)(CS_COEXIST_STEP_BACK_NS / CS_NS_PER_S));
	cs_log_info("%s", w->reason);
	cs_windows_turn(&w->windows, CS_DEPTH_OFF, 0, w->now_ns);
	settle(w, true);
	cs_segment_writer_lose(w->writer, CS_LOSS_FOREIGN_OWNER, 1, w->now_ns);
	cs_tracing_forget();
	w->ignore_before_ns = w->now_ns;
	w->lingering = false;
	w->yielded = true;
	w->step_back_until_ns = w->monotonic_ns + CS_COEXIST_STEP_BACK_NS;
}

static void
judge(struct worker *w)
{
	struct cs_delivery_counts counts;
	struct cs_coexist_window window;

	if (!w->judging || w->yielded)
		return;
	cs_delivery_count(w->ignore_before_ns, &counts);
	if (!buffers_came(w, &counts) && w->monotonic_ns < w->judge_until_ns)
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
	switch (cs_coexist_judge(&window, &w->silent)) {
	case CS_COEXIST_FOREIGN:
		w->judging = false;
		yield_to_other(w);
		break;
	case CS_COEXIST_OURS:
		if (w->lingering) {
			w->lingering = false;
			set_depth(w, CS_DEPTH_OFF);
			w->now_ns = cs_clock_realtime_ns();
			cs_windows_turn(&w->windows, CS_DEPTH_OFF, w->windows.open.ordinal, w->now_ns);
			w->drain_until_ns = w->monotonic_ns + DRAIN_NS;
		}
		/* fall through */
	default:
		w->judging = false;
		if (w->windows.open.depth != CS_DEPTH_OFF || w->lingering)
			begin_judging(w);
		break;
	}
}

static bool
subscribe_again(struct worker *w)
{
	char other[128];
	CUptiResult failure;
	uint64_t none = 0;

	if (cs_subscription_begin(w->instance, &failure, other, sizeof(other)) < 0)
		return false;
	cs_subscription_enable_labels();
	/* Contexts that came before were not seen. */
	atomic_compare_exchange_strong(&w->instance->first_context_ns, &none, w->now_ns);
	return true;
}

static void
come_back(struct worker *w)
{
	bool back = true;

	if (w->monotonic_ns < w->step_back_until_ns || !cs_instance_enter_cupti())
		return;
	if (atomic_load(&w->instance->first_context_ns) == 0)
		back = subscribe_again(w);
	if (back && atomic_load(&w->instance->traced))
		back = cs_tracing_register(w->instance) == CUPTI_SUCCESS;
	cs_instance_leave_cupti();
	w->step_back_until_ns = w->monotonic_ns + CS_COEXIST_STEP_BACK_NS;
	if (!back)
		return;
	w->yielded = false;
	w->silent = 0;
	w->reason[0] = '\0';
}

/*
 * Labels are learnt: give torch.profiler its chance. In demand mode, where nothing has been traced yet, all
 * of CUPTI goes, and with it its cost per launch; that is safe only as long as no kernel was ever traced.
 */
static void
unsubscribe_when_quiet(struct worker *w)
{
	uint64_t first_ns = atomic_load(&w->instance->first_context_ns);

	if (!cs_subscription_held() || !cs_coexist_should_unsubscribe(w->schedule.mode, w->now_ns, first_ns,
					       cs_labels_last_graph_ns()))
		return;
	if (!cs_instance_enter_cupti())
		return;
	cs_subscription_end(w->instance);
	if (w->schedule.mode == CS_MODE_DEMAND && !atomic_load(&w->instance->traced)) {
		w->instance->cupti.finalize();
		atomic_store(&w->instance->callbacks_registered, false);
		w->finalized = true;
	}
	cs_instance_leave_cupti();
	cs_log_debug("Subscription given up");
}

/* -- delivery -------------------------------------------------------------------------------------------- */

static void
note_delivered(struct worker *w, uint64_t flush_began_ns)
{
	/* A record in a buffer was put there after the buffer was taken; its kernel may have ended some time
	 * before that, at most a flush period as far as seen. */
	uint64_t margin_ns = w->instance->settings.flush_ms * CS_NS_PER_MS;
	uint64_t until_ns = cs_buffers_oldest_ns(cs_delivery_buffers(), w->ignore_before_ns, flush_began_ns);

	until_ns = until_ns > margin_ns ? until_ns - margin_ns : 0;
	if (until_ns > atomic_load_explicit(&w->status->delivered_until_ns, memory_order_relaxed))
		atomic_store_explicit(&w->status->delivered_until_ns, until_ns, memory_order_release);
}

/*
 * A flush returns a buffer only when every record in it is complete, so it has to hit a moment when nothing
 * runs. Steps and flushes of commensurate periods would never meet such a moment, or always miss it: hence
 * the jitter. When a buffer has been held for long the moment is looked for more often.
 */
static uint64_t
flush_pause_ns(struct worker *w)
{
	uint64_t period_ns = w->instance->settings.flush_ms * CS_NS_PER_MS;
	uint64_t oldest_ns = cs_buffers_oldest_ns(cs_delivery_buffers(), w->ignore_before_ns, UINT64_MAX);

	w->random = w->random * 6364136223846793005ULL + 1442695040888963407ULL;
	if (oldest_ns != UINT64_MAX && w->now_ns > oldest_ns + 2 * period_ns)
		period_ns /= 4;
	return period_ns / 4 * 3 + (w->random >> 33) % (period_ns / 4 + 1);
}

static void
flush_when_due(struct worker *w)
{
	bool wanted = cs_tracing_depth() != CS_DEPTH_OFF || w->monotonic_ns < w->drain_until_ns;
	uint64_t began_ns = w->now_ns;

	if (w->yielded || w->monotonic_ns < w->next_flush_ns)
		return;
	w->next_flush_ns = w->monotonic_ns + flush_pause_ns(w);
	if (!wanted || !atomic_load(&w->instance->callbacks_registered)) {
		note_delivered(w, began_ns);
		settle_when_sure(w);
		return;
	}
	flush(w);
	note_delivered(w, began_ns);
	settle_when_sure(w);
}

/* -- housekeeping ---------------------------------------------------------------------------------------- */

static enum cs_state
state_of(const struct worker *w)
{
	if (w->yielded)
		return CS_STATE_YIELDED;
	if (w->schedule.paused)
		return CS_STATE_PAUSED;
	if (w->windows.open.depth != CS_DEPTH_OFF || w->schedule.mode == CS_MODE_FULL)
		return CS_STATE_TRACING;
	if (cs_subscription_held())
		return CS_STATE_LEARNING;
	return w->schedule.mode == CS_MODE_DEMAND ? CS_STATE_IDLE : CS_STATE_TRACING;
}

static void
update_status(struct worker *w)
{
	struct cs_delivery_counts counts;

	cs_delivery_count(w->ignore_before_ns, &counts);
	atomic_store_explicit(&w->status->heartbeat_ns, w->now_ns, memory_order_relaxed);
	atomic_store_explicit(&w->status->buffers_requested, counts.requested, memory_order_relaxed);
	atomic_store_explicit(&w->status->buffers_completed, counts.completed, memory_order_relaxed);
	atomic_store_explicit(&w->status->cpu_ns, cs_clock_ns(CLOCK_THREAD_CPUTIME_ID) + cs_delivery_cpu_ns(),
		memory_order_relaxed);
	cs_instance_set_state(state_of(w), w->schedule.paused ? "Paused on request" : w->reason);
}

/* When CUPTI's device buffers are no longer recycled all times become zero: there is nothing more to learn
 * here. */
static void
watch_timestamps(struct worker *w)
{
	struct cs_delivery_counts counts;
	uint64_t kernels, bad;

	cs_delivery_count(w->ignore_before_ns, &counts);
	kernels = counts.kernels - w->watched_kernels;
	bad = counts.bad - w->watched_bad;
	if (kernels < BAD_RECORDS_MIN)
		return;
	w->watched_kernels = counts.kernels;
	w->watched_bad = counts.bad;
	if (bad > kernels / 2) {
		set_depth(w, CS_DEPTH_OFF);
		cs_instance_go_dormant(
			"CUPTI's records have no valid times any more (%llu of %llu); restart the "
			"process to profile it, with a newer CUPTI if this comes again",
			(unsigned long long)bad, (unsigned long long)kernels);
	}
}

static void
update_memory(struct worker *w)
{
	uint64_t host_bytes = cs_segment_writer_mapped_bytes(w->writer) + cs_labels_mapped_bytes() +
			      cs_buffers_mapped_bytes(cs_delivery_buffers()) + CS_WORKER_STACK_BYTES;

	atomic_store_explicit(&w->status->host_memory_bytes, host_bytes, memory_order_relaxed);
	/* The cap; CUPTI does not tell how much of it is in use. */
	atomic_store_explicit(&w->status->device_memory_bytes,
		atomic_load(&w->instance->traced) ? w->instance->device_bytes : 0, memory_order_relaxed);
}

static void
answer_requests(struct worker *w)
{
	struct cs_segment_request request;

	if (!cs_segment_writer_take_request(w->writer, &request))
		return;
	cs_segment_writer_answer(
		w->writer, &request, cs_schedule_request(&w->schedule, &request, w->now_ns, w->monotonic_ns));
}

/* -- the loop -------------------------------------------------------------------------------------------- */

static void
follow_schedule(struct worker *w, struct cs_schedule_plan *plan)
{
	cs_schedule_look(&w->schedule, w->now_ns, w->monotonic_ns, plan);
	if (w->yielded) {
		come_back(w);
		return;
	}
	if (plan->depth != w->windows.open.depth ||
		(plan->depth != CS_DEPTH_OFF && plan->ordinal != w->windows.open.ordinal))
		if (!w->lingering || plan->depth == CS_DEPTH_DEEP)
			turn_window(w, plan);
	/* Once per period, when its windows and their records are in. */
	if (w->schedule.mode == CS_MODE_SAMPLE && plan->ordinal != w->governed_ordinal &&
		plan->depth != CS_DEPTH_DEEP && w->monotonic_ns >= w->drain_until_ns) {
		w->governed_ordinal = plan->ordinal;
		govern(w);
	}
}

static void
sleep_until_next(const struct worker *w, uint64_t look_ns)
{
	uint64_t now_ns = cs_clock_realtime_ns();
	uint64_t monotonic_ns = cs_clock_monotonic_ns();
	uint64_t sleep_ns = CS_WORKER_TURN_MS * CS_NS_PER_MS;

	if (look_ns > now_ns && look_ns - now_ns < sleep_ns)
		sleep_ns = look_ns - now_ns;
	else if (look_ns <= now_ns)
		sleep_ns = CS_NS_PER_MS / 10;
	if (cs_tracing_depth() != CS_DEPTH_OFF && w->next_flush_ns > monotonic_ns &&
		w->next_flush_ns - monotonic_ns < sleep_ns)
		sleep_ns = w->next_flush_ns - monotonic_ns;
	cs_instance_sleep(sleep_ns);
}

/* The process is about to exit: what is complete but not full would be lost with it. true: this was the last
 * turn. */
static bool
leave_when_asked(struct worker *w)
{
	if (atomic_load(&w->instance->leaving) != CS_LEAVING_ASKED)
		return false;
	w->next_flush_ns = 0;
	flush_when_due(w);
	if (!w->yielded) {
		cs_windows_turn(&w->windows, CS_DEPTH_OFF, 0, w->now_ns);
		settle_when_sure(w);
	}
	update_status(w);
	atomic_store(&w->instance->leaving, CS_LEAVING_DONE);
	return true;
}

/* false: the process is leaving. */
static bool
turn(struct worker *w)
{
	struct cs_schedule_plan plan;

	w->now_ns = cs_clock_realtime_ns();
	w->monotonic_ns = cs_clock_monotonic_ns();
	name_devices(w);
	answer_requests(w);
	follow_schedule(w, &plan);
	if (leave_when_asked(w))
		return false;
	flush_when_due(w);
	judge(w);
	if (w->monotonic_ns >= w->next_second_ns) {
		w->next_second_ns = w->monotonic_ns + CS_NS_PER_S;
		unsubscribe_when_quiet(w);
		watch_timestamps(w);
		update_memory(w);
	}
	update_status(w);
	sleep_until_next(w, plan.until_ns);
	return true;
}

static void *
run(void *argument)
{
	struct worker *w = argument;

	pthread_setname_np(pthread_self(), "collscope");
	cs_delivery_set_worker(pthread_self());
	cs_identity_fill_process(w->instance, w->writer);
	name_devices(w);
	cs_exporter_spawn(&w->instance->settings, w->instance->directory);
	while (cs_instance_active() && turn(w))
		;
	/* Nobody answers the exit handler any more. */
	atomic_store(&w->instance->leaving, CS_LEAVING_NO_WORKER);
	return NULL;
}

int
cs_worker_start(struct cs_instance *instance, struct cs_segment_writer *writer)
{
	uint64_t now_ns = cs_clock_realtime_ns();
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int error;

	atomic_store(&instance->leaving, CS_LEAVING_NOT);
	worker.instance = instance;
	worker.writer = writer;
	worker.status = cs_segment_writer_status(writer);
	cs_schedule_init(&worker.schedule, &instance->settings);
	cs_governor_init(&worker.governor, instance->settings.budget, worker.schedule.period_ns,
		worker.schedule.window_ns);
	cs_windows_init(&worker.windows, writer, now_ns);
	worker.windows.open.depth = cs_tracing_depth();
	if (instance->settings.mode == CS_MODE_SAMPLE)
		atomic_store(&worker.status->period_ns, worker.schedule.period_ns);
	atomic_store(&worker.status->window_ns, worker.schedule.window_ns);

	error = pthread_attr_init(&attributes);
	if (error != 0)
		return -error;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, CS_WORKER_STACK_BYTES);
	/* A thread begins with its creator's mask. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, &attributes, run, &worker);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return -error;
}
