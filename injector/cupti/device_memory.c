/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUPTI's buffers in device memory. Servers size their KV cache by what is free at start, so CUPTI's share is
 * capped before the first context: by default it is 250 buffers of 3.2 MB per context.
 *
 * A buffer of 1 MiB holds some 32,000 operations (32 bytes each, by CUPTI's documentation): 38 launches of an
 * 850-node graph. The pool refills as buffers are emptied.
 *
 * Buffers per thread (the default from 13.0 on) are switched off: with them every thread that ever launched
 * something keeps a host buffer of its own, so 16 threads would empty the pool of 16. Servers launch from one
 * thread per process, so there is nothing to contend for.
 *
 * ZEROED_OUT_ACTIVITY_BUFFER stays as it is: it is global, and would make CUPTI trust the buffers of another
 * tool that replaces our callbacks to be clear.
 */
#include "life/instance.h"

#include "cupti_call.h"
#include "log.h"

#define MIB ((size_t)1 << 20)
/* CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER; headers before 12.3 lack it. */
#define ATTRIBUTE_PER_THREAD 9
#define VERSION_13_0         130000U

static void
set(const struct cs_cupti_api *cupti, CUpti_ActivityAttribute attribute, void *value, size_t bytes,
	const char *name)
{
	CUptiResult result = cs_cupti_set_attribute(cupti, attribute, &bytes, value);

	if (result != CUPTI_SUCCESS)
		cs_log_debug("CUPTI refuses an attribute attribute=%s result=%d", name, (int)result);
}

void
cs_device_memory_cap(struct cs_instance *instance)
{
	const struct cs_cupti_api *cupti = &instance->cupti;
	size_t total_bytes = (size_t)instance->settings.device_mib * MIB;
	size_t buffer_bytes = instance->settings.device_mib >= 4 ? MIB : MIB / 2;
	size_t limit = total_bytes / buffer_bytes;
	size_t allocate_first = limit < 3 ? limit : 3;
	uint8_t per_thread = 0;

	instance->device_bytes = total_bytes;
	set(cupti, CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &buffer_bytes, sizeof(buffer_bytes),
		"DEVICE_BUFFER_SIZE");
	set(cupti, CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT, &limit, sizeof(limit),
		"DEVICE_BUFFER_POOL_LIMIT");
	set(cupti, CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE, &allocate_first,
		sizeof(allocate_first), "DEVICE_BUFFER_PRE_ALLOCATE_VALUE");
	if (cupti->version >= VERSION_13_0)
		set(cupti, (CUpti_ActivityAttribute)ATTRIBUTE_PER_THREAD, &per_thread, sizeof(per_thread),
			"PER_THREAD_ACTIVITY_BUFFER");
}
