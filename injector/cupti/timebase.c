/* SPDX-License-Identifier: Apache-2.0 */
#include "timebase.h"

#include "clock.h"

/* CUPTI's threads and the application's. */
static uint64_t CUPTIAPI
realtime(void)
{
	return cs_clock_realtime_ns();
}

bool
cs_timebase_is_ours(const struct cs_cupti_api *cupti)
{
	uint64_t before_ns = cs_clock_realtime_ns();
	uint64_t theirs_ns = 0, after_ns;

	if (cupti->get_timestamp(&theirs_ns) != CUPTI_SUCCESS)
		return true;
	after_ns = cs_clock_realtime_ns();
	return theirs_ns + CS_TIMEBASE_TOLERANCE_NS >= before_ns &&
	       theirs_ns <= after_ns + CS_TIMEBASE_TOLERANCE_NS;
}

bool
cs_timebase_restore(const struct cs_cupti_api *cupti)
{
	return cupti->activity_register_timestamp_callback &&
	       cupti->activity_register_timestamp_callback(realtime) == CUPTI_SUCCESS &&
	       cs_timebase_is_ours(cupti);
}
