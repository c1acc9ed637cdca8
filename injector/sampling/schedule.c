/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule.h"

#include "clock.h"

#include <errno.h>
#include <string.h>

void
cs_schedule_init(struct cs_schedule *schedule, const struct cs_settings *settings)
{
	memset(schedule, 0, sizeof(*schedule));
	schedule->mode = settings->mode;
	schedule->period_ns = settings->period_ms * CS_NS_PER_MS;
	schedule->window_ns = settings->window_ms * CS_NS_PER_MS;
	schedule->trace_max_ns = settings->trace_max_s * CS_NS_PER_S;
	schedule->perturbation = 1;
}

static uint32_t
ordinal_of(uint64_t begin_ns)
{
	return (uint32_t)(begin_ns / CS_SCHEDULE_ORDINAL_NS);
}

static void
slice(uint64_t now_ns, enum cs_depth depth, struct cs_schedule_plan *plan)
{
	uint64_t begin_ns = now_ns - now_ns % CS_SCHEDULE_SLICE_NS;

	plan->depth = depth;
	plan->sampled = false;
	plan->ordinal = ordinal_of(begin_ns);
	plan->until_ns = begin_ns + CS_SCHEDULE_SLICE_NS;
}

static void
sample(const struct cs_schedule *schedule, uint64_t now_ns, struct cs_schedule_plan *plan)
{
	uint64_t grid_ns = schedule->quick_ns != 0 ? schedule->quick_ns : schedule->period_ns;
	uint64_t begin_ns = now_ns - now_ns % grid_ns;
	bool deep = now_ns - begin_ns < schedule->window_ns;

	if (schedule->window_ns >= grid_ns) {
		slice(now_ns, CS_DEPTH_DEEP, plan);
		plan->sampled = true;
		return;
	}
	plan->depth = deep ? CS_DEPTH_DEEP : CS_DEPTH_OFF;
	plan->sampled = true;
	plan->ordinal = ordinal_of(begin_ns);
	plan->until_ns = begin_ns + (deep ? schedule->window_ns : grid_ns);
}

/* Whether a request is under way; what begins later bounds the plan. */
static bool
asked_now(struct cs_schedule *schedule, uint64_t now_ns, uint64_t monotonic_ns)
{
	if (!schedule->asked)
		return false;
	if (now_ns >= schedule->asked_until_ns || monotonic_ns >= schedule->asked_until_monotonic_ns) {
		schedule->asked = false;
		return false;
	}
	return now_ns >= schedule->asked_from_ns;
}

static void
bound(struct cs_schedule_plan *plan, uint64_t edge_ns, uint64_t now_ns)
{
	if (edge_ns > now_ns && edge_ns < plan->until_ns)
		plan->until_ns = edge_ns;
}

static void
follow_request(const struct cs_schedule *schedule, uint64_t now_ns, struct cs_schedule_plan *plan)
{
	uint64_t begin_ns = schedule->asked_from_ns;

	slice(now_ns, CS_DEPTH_DEEP, plan);
	bound(plan, schedule->asked_until_ns, now_ns);
	if (schedule->asked_period_ns == 0)
		return;
	begin_ns += (now_ns - begin_ns) / schedule->asked_period_ns * schedule->asked_period_ns;
	if (now_ns - begin_ns >= schedule->asked_window_ns)
		plan->depth = CS_DEPTH_OFF;
	bound(plan, begin_ns + schedule->asked_window_ns, now_ns);
	bound(plan, begin_ns + schedule->asked_period_ns, now_ns);
}

void
cs_schedule_look(
	struct cs_schedule *schedule, uint64_t now_ns, uint64_t monotonic_ns, struct cs_schedule_plan *plan)
{
	bool asked = asked_now(schedule, now_ns, monotonic_ns);

	if (schedule->paused) {
		slice(now_ns, CS_DEPTH_OFF, plan);
		return;
	}
	if (asked) {
		follow_request(schedule, now_ns, plan);
		return;
	}
	if (schedule->mode == CS_MODE_FULL)
		slice(now_ns, CS_DEPTH_DEEP, plan);
	else if (schedule->mode == CS_MODE_SAMPLE)
		sample(schedule, now_ns, plan);
	else
		slice(now_ns, CS_DEPTH_OFF, plan);
	if (schedule->asked)
		bound(plan, schedule->asked_from_ns, now_ns);
}

#define PPM 1000000U

static void
limit(struct cs_schedule *schedule, uint64_t share_ppm)
{
	uint64_t length_ns = schedule->asked_until_ns - schedule->asked_from_ns;
	uint64_t period_ns = CS_SCHEDULE_SLICE_NS;
	double duty = (double)share_ppm / PPM / schedule->perturbation;

	schedule->asked_window_ns = schedule->asked_period_ns = 0;
	if (share_ppm == 0 || duty >= 1 || schedule->mode == CS_MODE_FULL)
		return;
	while (period_ns < length_ns && duty * (double)period_ns < (double)schedule->window_ns)
		period_ns *= 2;
	if (period_ns > length_ns)
		period_ns = length_ns;
	schedule->asked_period_ns = period_ns;
	schedule->asked_window_ns = (uint64_t)(duty * (double)period_ns);
	if (schedule->asked_window_ns == 0)
		schedule->asked_window_ns = 1;
}

static int
ask(struct cs_schedule *schedule, const struct cs_segment_request *request, uint64_t now_ns,
	uint64_t monotonic_ns)
{
	uint64_t share_ppm = request->argument & ~CS_TRACE_REPLACE;

	if (request->until_ns <= request->from_ns || share_ppm > PPM)
		return EINVAL;
	if (schedule->trace_max_ns == 0)
		return EPERM;
	if (request->from_ns < now_ns)
		return ETIME;
	if (request->until_ns - request->from_ns > schedule->trace_max_ns ||
		request->from_ns - now_ns > CS_REQUEST_AHEAD_MAX_NS)
		return ERANGE;
	if (schedule->paused)
		return EBUSY;
	(void)asked_now(schedule, now_ns, monotonic_ns); /* forgets one that has run out */
	if (schedule->asked && !(request->argument & CS_TRACE_REPLACE))
		return EALREADY;
	schedule->asked = true;
	schedule->asked_from_ns = request->from_ns;
	schedule->asked_until_ns = request->until_ns;
	schedule->asked_until_monotonic_ns = monotonic_ns + (request->until_ns - now_ns);
	limit(schedule, share_ppm);
	return 0;
}

static void
cancel(struct cs_schedule *schedule, const struct cs_segment_request *request)
{
	if (schedule->asked_from_ns == request->from_ns && schedule->asked_until_ns == request->until_ns)
		schedule->asked = false;
}

int
cs_schedule_request(struct cs_schedule *schedule, const struct cs_segment_request *request, uint64_t now_ns,
	uint64_t monotonic_ns)
{
	switch (request->command) {
	case CS_COMMAND_NONE:
		return 0;
	case CS_COMMAND_TRACE:
		return ask(schedule, request, now_ns, monotonic_ns);
	case CS_COMMAND_PAUSE:
		schedule->paused = true;
		schedule->asked = false;
		return 0;
	case CS_COMMAND_RESUME:
		schedule->paused = false;
		return 0;
	case CS_COMMAND_CANCEL:
		cancel(schedule, request);
		return 0;
	default:
		return EOPNOTSUPP;
	}
}
