/* SPDX-License-Identifier: Apache-2.0 */
#include "witness.h"

#include "delivery.h"

/* The worker's alone after start-up. */
static bool in_place;

void
cs_witness_begin(struct cs_instance *instance)
{
	if (!instance->cupti.activity_enable_and_dump || !cs_instance_enter_cupti())
		return;
	in_place = cs_delivery_register(&instance->cupti) == CUPTI_SUCCESS;
	cs_instance_leave_cupti();
}

bool
cs_witness_clears(struct cs_instance *instance)
{
	const struct cs_cupti_api *cupti = &instance->cupti;
	struct cs_delivery_counts before, asked, after;

	if (!in_place || atomic_load(&instance->traced))
		return false;
	in_place = false;
	/* Records that wait ask for their buffer now. */
	cupti->activity_flush_all(0);
	cs_delivery_count(0, &before);
	if (before.requested != 0)
		return false;
	if (cupti->activity_enable_and_dump(CUPTI_ACTIVITY_KIND_DEVICE) != CUPTI_SUCCESS)
		return false;
	cs_delivery_count(0, &asked);
	cupti->activity_disable(CUPTI_ACTIVITY_KIND_DEVICE);
	cupti->activity_flush_all(0);
	cs_delivery_count(0, &after);
	/* Nobody took our place, and what was asked for has come back: CUPTI holds nothing of ours. */
	return asked.requested != 0 && after.held == 0 && after.kernels == 0;
}
