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
}

static void
slice(uint64_t now_ns, enum cs_depth depth, struct cs_schedule_plan *plan)
{
	uint64_t ordinal = now_ns / CS_SCHEDULE_SLICE_NS;

	plan->depth = depth;
	plan->ordinal = (uint32_t)ordinal;
	plan->until_ns = (ordinal + 1) * CS_SCHEDULE_SLICE_NS;
}

static void
sample(const struct cs_schedule *schedule, uint64_t now_ns, struct cs_schedule_plan *plan)
{
	uint64_t ordinal = now_ns / schedule->period_ns;
	uint64_t begin_ns = ordinal * schedule->period_ns;
	bool deep = now_ns - begin_ns < schedule->window_ns;

	if (schedule->window_ns >= schedule->period_ns) {
		slice(now_ns, CS_DEPTH_DEEP, plan);
		return;
	}
	plan->depth = deep ? CS_DEPTH_DEEP : CS_DEPTH_OFF;
	plan->ordinal = (uint32_t)ordinal;
	plan->until_ns = begin_ns + (deep ? schedule->window_ns : schedule->period_ns);
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
		slice(now_ns, CS_DEPTH_DEEP, plan);
		bound(plan, schedule->asked_until_ns, now_ns);
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

static int
ask(struct cs_schedule *schedule, const struct cs_segment_request *request, uint64_t now_ns,
	uint64_t monotonic_ns)
{
	uint64_t from_ns = request->from_ns > now_ns ? request->from_ns : now_ns;

	if (request->until_ns <= from_ns)
		return EINVAL;
	if (request->until_ns - from_ns > CS_REQUEST_LENGTH_MAX_NS ||
		from_ns - now_ns > CS_REQUEST_AHEAD_MAX_NS)
		return ERANGE;
	if (schedule->paused)
		return EBUSY;
	schedule->asked = true;
	schedule->asked_from_ns = from_ns;
	schedule->asked_until_ns = request->until_ns;
	schedule->asked_until_monotonic_ns = monotonic_ns + (request->until_ns - now_ns);
	return 0;
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
	default:
		return EOPNOTSUPP;
	}
}
