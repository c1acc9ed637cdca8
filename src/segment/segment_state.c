/* SPDX-License-Identifier: Apache-2.0 */
#include "segment_state.h"

#include "clock.h"

/* About one a window is normal. */
#define EDGE_LOSSES_PER_WINDOW 2U
#define HEARTBEAT_LATE_NS      (5 * CS_NS_PER_S)

uint64_t
cs_segment_lost(const struct cs_status *status)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < CS_LOSS_CAUSE_COUNT; i++)
		sum += status->lost[i];
	return sum - cs_segment_cut(status);
}

uint64_t
cs_segment_cut(const struct cs_status *status)
{
	uint64_t cut = status->lost[CS_LOSS_BAD_TIMESTAMP];
	uint64_t deep = status->windows[CS_DEPTH_DEEP];
	uint64_t light = status->windows[CS_DEPTH_LIGHT];
	uint64_t windows = deep > light ? deep : light;

	/* One that is open is not counted yet. */
	if (status->depth != CS_DEPTH_OFF)
		windows++;
	return cut <= EDGE_LOSSES_PER_WINDOW * windows ? cut : 0;
}

uint64_t
cs_segment_request_until_ns(const struct cs_status *status, bool alive, uint64_t now_ns)
{
	bool able = status->state == CS_STATE_LEARNING || status->state == CS_STATE_TRACING ||
		    status->state == CS_STATE_IDLE;

	return alive && able && status->request_until_ns > now_ns ? status->request_until_ns : 0;
}

uint64_t
cs_segment_silent_ns(const struct cs_status *status, bool alive, uint64_t now_ns)
{
	/* A word may change between two looks, so each is looked at once. */
	uint64_t beat_ns = status->heartbeat_ns;
	uint64_t state = status->state;

	if (!alive || beat_ns == 0 || state == CS_STATE_DORMANT || state == CS_STATE_EXITED)
		return 0;
	return now_ns > beat_ns && now_ns - beat_ns > HEARTBEAT_LATE_NS ? now_ns - beat_ns : 0;
}

const char *
cs_segment_state_word(const struct cs_status *status, bool alive, uint64_t now_ns)
{
	if (!alive && status->state != CS_STATE_EXITED)
		return CS_SEGMENT_STATE_ENDED;
	if (cs_segment_request_until_ns(status, alive, now_ns))
		return cs_state_name(CS_STATE_TRACING);
	if (status->state == CS_STATE_TRACING && status->mode == CS_MODE_SAMPLE &&
		status->depth == CS_DEPTH_OFF)
		return "sampling";
	return cs_state_name((unsigned int)status->state);
}
