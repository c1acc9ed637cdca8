/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling: which windows of the plan the account pays for, and what each one taught the governor. */
#include "worker_private.h"

#include "clock.h"
#include "cupti/coexist.h"
#include "cupti/subscription.h"
#include "labels/labels.h"
#include "log.h"
#include "records/delivery.h"

#include <stdio.h>

/* When a window's records should be in. Delivery took 0.1 s on average and 1 s at worst in steady traffic. */
#define SETTLE_NS CS_NS_PER_S
/* A ratio in the segment: tenths of a thousandth, in 16 bits. */
#define RATIO_UNIT 10000.0

/* -- before a window ------------------------------------------------------------------------------------- */

static void
skip(struct cs_worker *w, const struct cs_schedule_plan *plan)
{
	w->skipping = true;
	w->skipped_ordinal = plan->ordinal;
	atomic_fetch_add_explicit(&w->status->windows_skipped, 1, memory_order_relaxed);
}

static bool
is_skipped(const struct cs_worker *w, const struct cs_schedule_plan *plan)
{
	return w->skipping && w->skipped_ordinal == plan->ordinal;
}

/* The start of a kernel of the open window (CLOCK_REALTIME) as CLOCK_MONOTONIC. The clock may have been set
 * since then; it did begin after the window did. */
static uint64_t
monotonic_of(const struct cs_worker *w, uint64_t start_ns)
{
	uint64_t ago_ns = w->now_ns > start_ns ? w->now_ns - start_ns : 0;
	uint64_t open_ns = w->monotonic_ns - w->sampling_begin_ns;

	return w->monotonic_ns - (ago_ns < open_ns ? ago_ns : open_ns);
}

/* Work went on for so long and made so many kernels that the window has cost too much already. */
static bool
costs_too_much(struct cs_worker *w)
{
	uint64_t kernels, first_ns, work_ns;

	cs_delivery_pace_look(&kernels, &first_ns);
	if (first_ns == 0)
		return false;
	/* Records do not come in order: a later one may show that it was earlier. */
	work_ns = monotonic_of(w, first_ns);
	if (w->work_ns == 0 || work_ns < w->work_ns)
		w->work_ns = work_ns;
	return cs_governor_overdraws(&w->governor, w->monotonic_ns, w->monotonic_ns - w->work_ns, kernels);
}

/* The plan has ended the window, but its work began late. */
static void
go_on(struct cs_worker *w, struct cs_schedule_plan *plan)
{
	uint64_t until_ns;

	if (w->prolonged_ns <= w->monotonic_ns || !w->sampling || w->windows.open.depth != CS_DEPTH_DEEP)
		return;
	until_ns = w->now_ns + (w->prolonged_ns - w->monotonic_ns);
	plan->depth = CS_DEPTH_DEEP;
	plan->ordinal = w->windows.open.ordinal;
	if (until_ns < plan->until_ns)
		plan->until_ns = until_ns;
}

void
cs_worker_plan_sampling(struct cs_worker *w, struct cs_schedule_plan *plan)
{
	bool open;

	if (w->schedule.mode != CS_MODE_SAMPLE || !plan->sampled)
		return;
	if (plan->depth != CS_DEPTH_DEEP)
		go_on(w, plan);
	if (plan->depth != CS_DEPTH_DEEP)
		return;
	/* Neither opens a window, so the last one has time until its records are in. */
	if (is_skipped(w, plan) || w->shedding_ns != 0) {
		plan->depth = CS_DEPTH_OFF;
		return;
	}
	open = w->windows.open.depth == CS_DEPTH_DEEP && w->windows.open.ordinal == plan->ordinal &&
	       !w->asked;
	if (!open)
		cs_worker_end_sampling(w); /* one that waited for work until now */
	if (w->unsettled) {
		/* Its lessons may move this one. */
		cs_worker_govern(w);
		cs_schedule_look(&w->schedule, w->now_ns, w->monotonic_ns, plan);
		if (!plan->sampled || plan->depth != CS_DEPTH_DEEP)
			return;
		if (is_skipped(w, plan)) {
			plan->depth = CS_DEPTH_OFF;
			return;
		}
	}
	w->skipping = false;
	if (!cs_subscription_held())
		cs_governor_lose_sight(&w->governor);
	if (open) {
		if (!costs_too_much(w))
			return;
		w->governor.skipped = true;
	} else if (cs_governor_afford(&w->governor, w->monotonic_ns, plan->until_ns - w->now_ns)) {
		return;
	}
	skip(w, plan);
	plan->depth = CS_DEPTH_OFF;
	if (w->lingering)
		cs_worker_begin_sampling(w); /* it goes on waiting */
}

/* -- during and after it --------------------------------------------------------------------------------- */

void
cs_worker_begin_sampling(struct cs_worker *w)
{
	if (w->schedule.mode == CS_MODE_FULL)
		return;
	if (w->unsettled)
		cs_worker_govern(w);
	cs_delivery_pace_begin(w->now_ns);
	w->work_ns = 0;
	w->clock_set = false;
	w->sampling_begin_ns = w->monotonic_ns;
	w->sampling = w->schedule.mode == CS_MODE_SAMPLE && !w->asked;
}

void
cs_worker_end_sampling(struct cs_worker *w)
{
	cs_delivery_pace_end(w->now_ns);
	if (!w->sampling)
		return;
	w->sampling = false;
	w->prolonged_ns = 0;
	w->unsettled = true;
	w->shed = false;
	w->waited = w->lingering;
	w->sampling_end_ns = w->monotonic_ns;
	w->settle_ns = w->monotonic_ns + SETTLE_NS;
}

/*
 * A window that saw nothing: the server was idle, or all that ran had been launched before, as the whole of a
 * long step. What comes then gets the window's length, or steps that are longer than it would never be seen.
 */
bool
cs_worker_prolong_sampling(struct cs_worker *w)
{
	uint64_t kernels, work_ns;

	if (!w->sampling)
		return false;
	cs_delivery_pace_look(&kernels, &work_ns);
	if (work_ns == 0)
		return false;
	cs_windows_work(&w->windows, work_ns, w->now_ns);
	w->work_ns = monotonic_of(w, work_ns);
	w->prolonged_ns = w->work_ns + w->schedule.window_ns;
	return true;
}

/* The plan does not open it again, else a window that does harm would be repeated at once. */
void
cs_worker_shed_sampling(struct cs_worker *w)
{
	if (!w->sampling)
		return;
	cs_worker_end_sampling(w);
	w->shed = true;
	w->skipping = true;
	w->skipped_ordinal = w->windows.open.ordinal;
}

static void
publish_ratios(struct cs_worker *w, const struct cs_steps_graph *graphs, size_t count)
{
	size_t place = 0;

	for (size_t i = 0; i < count && place < CS_STEP_RATIOS; i++) {
		const struct cs_steps_graph *graph = &graphs[i];
		uint64_t samples = graph->traced_count;
		double ratio;

		/* A graph whose records were not seen yet has no name that anybody knows. */
		if (!cs_governor_ratio(graph, &ratio) || (graph->graph_id == 0 && !graph->eager))
			continue;
		atomic_store_explicit(&w->status->step_ratios[place++],
			(uint64_t)graph->graph_id << 32 | samples << 16 |
				(uint64_t)(ratio * RATIO_UNIT + 0.5),
			memory_order_relaxed);
	}
	for (; place < CS_STEP_RATIOS; place++)
		atomic_store_explicit(&w->status->step_ratios[place], 0, memory_order_relaxed);
}

static void
measure(struct cs_worker *w)
{
	struct cs_steps_graph graphs[CS_STEPS_GRAPHS];
	size_t count;

	/* Afterwards nothing new comes, and what came is old. */
	if (!cs_subscription_held()) {
		cs_governor_lose_sight(&w->governor);
		return;
	}
	count = cs_subscription_steps(graphs);
	cs_governor_measure(&w->governor, graphs, count);
	publish_ratios(w, graphs, count);
	if (w->governor.perturbation >= 0)
		atomic_store_explicit(&w->status->step_ratio_ppm,
			(uint64_t)((1 + w->governor.perturbation) * 1e6 + 0.5), memory_order_relaxed);
}

static void
learn(struct cs_worker *w)
{
	static struct cs_pace pace; /* the worker's own */
	struct cs_pace_summary summary;

	cs_delivery_pace_take(&pace);
	for (uint32_t i = 0; i < pace.launch_count; i++)
		cs_subscription_name_graph(pace.launches[i].correlation_id, pace.launches[i].graph_id);
	cs_pace_sum_up(&pace, &summary);
	if (w->clock_set)
		summary = (struct cs_pace_summary){0};
	/* Work that nobody has seen yet is not idle time: only a window that waited has shown that. */
	if (w->clock_set || w->shed || (summary.kernels == 0 && w->monotonic_ns < w->settle_ns && !w->waited))
		cs_governor_learn_part(&w->governor, &summary, w->sampling_end_ns);
	else
		cs_governor_learn(&w->governor, &summary, w->sampling_end_ns);
}

static void
tell_choice(const struct cs_worker *w, const struct cs_governor_choice *choice)
{
	char perturbation[16] = "unknown";

	if (w->governor.perturbation >= 0)
		snprintf(perturbation, sizeof(perturbation), "%.3f", w->governor.perturbation);
	cs_log_info("Sampling changes period_ms=%llu window_ms=%llu perturbation=%s cost=%.4f",
		(unsigned long long)(choice->period_ns / CS_NS_PER_MS),
		(unsigned long long)(choice->window_ns / CS_NS_PER_MS), perturbation, choice->cost);
}

void
cs_worker_govern(struct cs_worker *w)
{
	struct cs_governor_choice choice;

	w->unsettled = false;
	learn(w);
	measure(w);
	cs_governor_choose(&w->governor, &choice);
	if (choice.period_ns != w->schedule.period_ns || choice.window_ns != w->schedule.window_ns)
		tell_choice(w, &choice);
	w->schedule.period_ns = choice.period_ns;
	w->schedule.window_ns = choice.window_ns;
	w->schedule.quick_ns = choice.quick_ns;
	atomic_store_explicit(&w->status->period_ns, choice.period_ns, memory_order_relaxed);
	atomic_store_explicit(&w->status->window_ns, choice.window_ns, memory_order_relaxed);
}

/* -- the subscription ------------------------------------------------------------------------------------ */

/*
 * Once it is given up no step is timed any more. So while launches go on and none of them is measured yet it
 * is kept, but not for long: torch.profiler sees no GPU as long as we hold it.
 */
bool
cs_worker_hold_for_measuring(const struct cs_worker *w)
{
	if (w->schedule.mode != CS_MODE_SAMPLE || w->schedule.paused || w->governor.perturbation >= 0)
		return false;
	return cs_coexist_should_hold(w->monotonic_ns, w->holding_ns, w->launched_ns);
}

void
cs_worker_note_launches(struct cs_worker *w)
{
	uint64_t launches = atomic_load_explicit(&w->status->graph_launches, memory_order_relaxed) +
			    cs_labels_eager_collectives();

	if (launches == w->launches)
		return;
	w->launches = launches;
	w->launched_ns = w->monotonic_ns;
}
