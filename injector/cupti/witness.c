/* SPDX-License-Identifier: Apache-2.0 */
#include "witness.h"

#include "cupti_call.h"
#include "records/delivery.h"

/* The worker's alone after start-up. */
static bool in_place;

void
cs_witness_begin(struct cs_instance *instance)
{
	if (!instance->cupti.activity_enable_and_dump || instance->cupti.shared || !cs_instance_enter_cupti())
		return;
	in_place = cs_delivery_register(&instance->cupti) == CUPTI_SUCCESS;
	cs_instance_leave_cupti();
}

void
cs_witness_void(void)
{
	in_place = false;
}

bool
cs_witness_answers(struct cs_instance *instance)
{
	const struct cs_cupti_api *cupti = &instance->cupti;
	struct cs_delivery_counts before, after;
	bool dumped;

	if (!cupti->activity_enable_and_dump && !cupti->shared)
		return false;
	cs_delivery_count(0, &before);
	/* What is complete comes back, so that the record finds no room in a buffer that CUPTI has. */
	cupti->activity_flush_all(0);
	dumped = cs_cupti_enable_and_dump(cupti, CUPTI_ACTIVITY_KIND_DEVICE) == CUPTI_SUCCESS;
	cs_delivery_count(0, &after);
	if (dumped)
		cs_cupti_disable(cupti, CUPTI_ACTIVITY_KIND_DEVICE);
	cupti->activity_flush_all(0);
	return after.requested != before.requested || after.completed != before.completed;
}

bool
cs_witness_clears(struct cs_instance *instance)
{
	struct cs_delivery_counts before, after;

	/* Shared: another tool has buffers of its own, and took no place of ours. */
	if (!in_place || instance->cupti.shared || atomic_load(&instance->traced))
		return false;
	in_place = false;
	/* Records that wait ask for their buffer now. */
	instance->cupti.activity_flush_all(0);
	cs_delivery_count(0, &before);
	if (before.requested != 0 || !cs_witness_answers(instance))
		return false;
	cs_delivery_count(0, &after);
	/* Nobody took our place, and what was asked for has come back: CUPTI holds nothing of ours. */
	return after.held == 0 && after.kernels == 0;
}
