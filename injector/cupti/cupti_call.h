/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of CUPTI's activity API, in one of its two kinds. Those of the first know the process alone: whoever
 * comes last has the buffers. Those of the second (_v2, CUPTI 13.3) take a subscriber, so that several tools
 * trace side by side, each with buffers and kinds of its own. A process uses the one or the other: CUPTI
 * answers CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED to a mixture, so nothing else in the library may
 * call these functions. subscription.h decides which.
 *
 * Threads: those of CUPTI's own functions. The worker takes `shared` away (cs_subscription_leave) while
 * CUPTI's thread may read records: each call looks at it once.
 */
#ifndef CS_CUPTI_CALL_H
#define CS_CUPTI_CALL_H

#include "cupti_api.h"

static inline CUptiResult
cs_cupti_enable(const struct cs_cupti_api *cupti, CUpti_ActivityKind kind)
{
	CUpti_SubscriberHandle shared = cupti->shared;

	return shared ? cupti->activity_enable_v2(shared, kind, NULL) : cupti->activity_enable(kind);
}

static inline CUptiResult
cs_cupti_disable(const struct cs_cupti_api *cupti, CUpti_ActivityKind kind)
{
	CUpti_SubscriberHandle shared = cupti->shared;

	return shared ? cupti->activity_disable_v2(shared, kind, NULL) : cupti->activity_disable(kind);
}

/* CUPTI_ERROR_NOT_SUPPORTED: this CUPTI has no such function. */
static inline CUptiResult
cs_cupti_enable_and_dump(const struct cs_cupti_api *cupti, CUpti_ActivityKind kind)
{
	CUpti_SubscriberHandle shared = cupti->shared;

	if (shared)
		return cupti->activity_enable_and_dump_v2(shared, kind, NULL);
	return cupti->activity_enable_and_dump ? cupti->activity_enable_and_dump(kind)
					       : CUPTI_ERROR_NOT_SUPPORTED;
}

static inline CUptiResult
cs_cupti_set_attribute(
	const struct cs_cupti_api *cupti, CUpti_ActivityAttribute attribute, size_t *bytes, void *value)
{
	CUpti_SubscriberHandle shared = cupti->shared;

	return shared ? cupti->activity_set_attribute_v2(shared, attribute, bytes, value)
		      : cupti->activity_set_attribute(attribute, bytes, value);
}

static inline CUptiResult
cs_cupti_next_record(
	const struct cs_cupti_api *cupti, uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record)
{
	CUpti_SubscriberHandle shared = cupti->shared;

	return shared ? cupti->activity_get_next_record_v2(shared, buffer, valid_bytes, record)
		      : cupti->activity_get_next_record(buffer, valid_bytes, record);
}

static inline CUptiResult
cs_cupti_count_dropped(const struct cs_cupti_api *cupti, size_t *dropped)
{
	CUpti_SubscriberHandle shared = cupti->shared;

	return shared ? cupti->activity_get_num_dropped_records_v2(shared, NULL, 0, dropped)
		      : cupti->activity_get_num_dropped_records(NULL, 0, dropped);
}

#endif
