/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include "clock.h"
#include "cupti/coexist.h"
#include "cupti/tracing.h"
#include "labels/labels.h"
#include "life/identity.h"
#include "life/thread.h"
#include "nccl/version.h"
#include "worker_private.h"

#include <stdio.h>

static struct cs_worker worker;

void
cs_worker_stand_aside(const char *other)
{
	worker.yielded = true;
	worker.step_back_until_ns =
		cs_clock_monotonic_ns() + cs_coexist_step_back_ns(cs_instance_get()->settings.step_back_s, 0);
	snprintf(worker.reason, sizeof(worker.reason),
		"Another tool uses CUPTI%s%s; trying again every minute (docs/coexistence.md)",
		other[0] ? ": " : "", other);
}

static void
follow_schedule(struct cs_worker *w, struct cs_schedule_plan *plan)
{
	cs_schedule_look(&w->schedule, w->now_ns, w->monotonic_ns, plan);
	if (w->yielded) {
		cs_worker_watch_left_on(w);
		cs_worker_come_back(w);
		return;
	}
	cs_worker_plan_sampling(w, plan);
	if (cs_worker_sheds(w))
		plan->depth = CS_DEPTH_OFF;
	if (plan->depth != w->windows.open.depth ||
		(plan->depth != CS_DEPTH_OFF &&
			(plan->ordinal != w->windows.open.ordinal || plan->sampled == w->asked)))
		if (!w->lingering || plan->depth == CS_DEPTH_DEEP)
			cs_worker_turn_window(w, plan);
	if (w->unsettled && w->monotonic_ns >= w->settle_ns)
		cs_worker_govern(w);
}

static void
sleep_until_next(const struct cs_worker *w, uint64_t look_ns, uint32_t wakes)
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
	cs_instance_sleep(sleep_ns, wakes);
}

/* The process is about to exit: what is complete but not full would be lost with it. true: this was the last
 * turn. */
static bool
leave_when_asked(struct cs_worker *w)
{
	if (atomic_load(&w->instance->leaving) != CS_LEAVING_ASKED)
		return false;
	cs_labels_tell_graphs(w->now_ns);
	w->next_flush_ns = 0;
	cs_worker_flush_when_due(w);
	cs_worker_name_devices(w); /* what the flush brought of a device that came up last */
	cs_delivery_settle(UINT64_MAX);
	if (!w->yielded) {
		cs_windows_turn_idle(&w->windows, CS_DEPTH_OFF, 0, w->now_ns, 0);
		cs_worker_settle_when_sure(w);
	}
	cs_worker_update_status(w);
	atomic_store(&w->instance->leaving, CS_LEAVING_DONE);
	return true;
}

/* Before a flush: what is told of a graph stands before the records of its launches, as a rule. */
static void
tell_graphs(struct cs_worker *w)
{
	if (w->monotonic_ns < w->next_tell_ns)
		return;
	w->next_tell_ns = w->monotonic_ns;
	if (!cs_labels_tell_graphs(w->now_ns))
		w->next_tell_ns += CS_NS_PER_S;
}

static void
age_calls(struct cs_worker *w)
{
	if (w->monotonic_ns < w->next_age_ns)
		return;
	w->next_age_ns = w->monotonic_ns + CS_LABELS_AGE_NS;
	cs_labels_age_calls();
}

/* false: the process is leaving. */
static bool
turn(struct cs_worker *w)
{
	struct cs_schedule_plan plan;
	uint32_t wakes = cs_instance_wakes();

	cs_worker_read_clocks(w);
	cs_worker_name_devices(w);
	cs_nccl_version_watch();
	cs_worker_answer_requests(w);
	follow_schedule(w, &plan);
	cs_worker_watch_buffers(w);
	cs_worker_watch_growth(w, &plan);
	if (leave_when_asked(w))
		return false;
	tell_graphs(w);
	cs_worker_flush_when_due(w);
	cs_worker_judge(w);
	cs_worker_watch_return(w);
	if (w->monotonic_ns >= w->next_second_ns) {
		w->next_second_ns = w->monotonic_ns + cs_coexist_look_ns();
		cs_exporter_watch(
			&w->exporter_watch, &w->instance->settings, w->instance->directory, w->monotonic_ns);
		cs_worker_unsubscribe_when_quiet(w);
		cs_worker_watch_timestamps(w);
		cs_worker_watch_still(w);
		cs_worker_update_memory(w);
		age_calls(w);
	}
	cs_worker_update_status(w);
	sleep_until_next(w, plan.until_ns, wakes);
	return true;
}

/*
 * In sample mode at once, not at the first window: a tool that comes in between then takes the buffers from
 * us, which we notice, and not we from it. In demand mode witness.h has done so.
 */
static void
register_early(struct cs_worker *w)
{
	if (w->schedule.mode != CS_MODE_SAMPLE || w->yielded || !cs_instance_enter_cupti())
		return;
	cs_tracing_register(w->instance); /* a failure is met again at the first window */
	cs_instance_leave_cupti();
}

static void *
run(void *argument)
{
	struct cs_worker *w = argument;

	pthread_setname_np(pthread_self(), "collscope");
	cs_delivery_set_worker(pthread_self());
	cs_identity_fill_process(w->instance, w->writer);
	cs_worker_name_devices(w);
	register_early(w);
	cs_exporter_spawn(&w->instance->settings, w->instance->directory, &w->exporter_watch.started);
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
	struct cs_governor_choice choice;

	atomic_store(&instance->leaving, CS_LEAVING_NOT);
	worker.instance = instance;
	worker.writer = writer;
	worker.status = cs_segment_writer_status(writer);
	cs_schedule_init(&worker.schedule, &instance->settings);
	cs_governor_init(&worker.governor, instance->settings.budget, worker.schedule.period_ns,
		worker.schedule.window_ns);
	cs_governor_choose(&worker.governor, &choice);
	worker.schedule.period_ns = choice.period_ns;
	worker.schedule.quick_ns = choice.quick_ns;
	cs_windows_init(&worker.windows, writer, now_ns);
	worker.windows.open.depth = cs_tracing_depth();
	if (instance->settings.mode == CS_MODE_SAMPLE)
		atomic_store(&worker.status->period_ns, worker.schedule.period_ns);
	atomic_store(&worker.status->window_ns, worker.schedule.window_ns);

	return cs_thread_start(run, &worker);
}
