/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The activity API of the second kind (CUDA 13.3), by which several subscribers trace at once, each with
 * kinds and buffers of its own. By CUPTI's headers and documentation: nobody has measured it. Prototypes of
 * its header, which is newer than the one that this is compiled against.
 */
#include "cupti.h"

#if FAKE_HAS_SHARING
#define EXPORT __attribute__((visibility("default")))

EXPORT CUptiResult cuptiActivityEnable_v2(CUpti_SubscriberHandle, CUpti_ActivityKind, void *config);
EXPORT CUptiResult cuptiActivityDisable_v2(CUpti_SubscriberHandle, CUpti_ActivityKind, void *config);
EXPORT CUptiResult cuptiActivityEnableAndDump_v2(CUpti_SubscriberHandle, CUpti_ActivityKind, void *config);
EXPORT CUptiResult cuptiActivityRegisterCallbacks_v2(CUpti_SubscriberHandle,
	void (*requested)(uint8_t **buffer, size_t *size, size_t *records, void *info),
	void (*completed)(uint8_t *buffer, size_t size, size_t valid, void *info));
EXPORT CUptiResult cuptiActivitySetAttribute_v2(
	CUpti_SubscriberHandle, CUpti_ActivityAttribute, size_t *bytes, void *value);
EXPORT CUptiResult cuptiActivityGetNextRecord_v2(
	CUpti_SubscriberHandle, uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record);
EXPORT CUptiResult cuptiActivityGetNumDroppedRecords_v2(
	CUpti_SubscriberHandle, CUcontext context, uint32_t stream, size_t *count);

CUptiResult
cuptiActivityEnable_v2(CUpti_SubscriberHandle handle, CUpti_ActivityKind kind, void *config)
{
	unsigned int client = fake_client_of(handle);

	(void)config;
	FAKE_CUPTI_ENTER();
	return client == FAKE_CLIENTS ? CUPTI_ERROR_INVALID_PARAMETER : fake_client_enable(client, kind);
}

CUptiResult
cuptiActivityDisable_v2(CUpti_SubscriberHandle handle, CUpti_ActivityKind kind, void *config)
{
	unsigned int client = fake_client_of(handle);

	(void)config;
	FAKE_CUPTI_ENTER();
	return client == FAKE_CLIENTS ? CUPTI_ERROR_INVALID_PARAMETER : fake_client_disable(client, kind);
}

CUptiResult
cuptiActivityEnableAndDump_v2(CUpti_SubscriberHandle handle, CUpti_ActivityKind kind, void *config)
{
	unsigned int client = fake_client_of(handle);
	CUptiResult result;

	(void)config;
	FAKE_CUPTI_ENTER();
	if (client == FAKE_CLIENTS)
		return CUPTI_ERROR_INVALID_PARAMETER;
	result = fake_client_enable(client, kind);
	if (result == CUPTI_SUCCESS && kind == CUPTI_ACTIVITY_KIND_DEVICE)
		fake_buffers_dump_device(client);
	return result;
}

CUptiResult
cuptiActivityRegisterCallbacks_v2(CUpti_SubscriberHandle handle,
	void (*requested)(uint8_t **buffer, size_t *size, size_t *records, void *info),
	void (*completed)(uint8_t *buffer, size_t size, size_t valid, void *info))
{
	struct fake_buffer_functions functions = {.request_v2 = requested, .complete_v2 = completed};
	unsigned int client = fake_client_of(handle);

	FAKE_CUPTI_ENTER();
	return client == FAKE_CLIENTS ? CUPTI_ERROR_INVALID_PARAMETER
				      : fake_buffers_register(client, &functions);
}

/* Those that there are here belong to the process. */
CUptiResult
cuptiActivitySetAttribute_v2(
	CUpti_SubscriberHandle handle, CUpti_ActivityAttribute attribute, size_t *bytes, void *value)
{
	FAKE_CUPTI_ENTER();
	return fake_client_of(handle) == FAKE_CLIENTS ? CUPTI_ERROR_INVALID_PARAMETER
						      : fake_set_attribute(attribute, bytes, value);
}

CUptiResult
cuptiActivityGetNextRecord_v2(
	CUpti_SubscriberHandle handle, uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record)
{
	FAKE_CUPTI_ENTER();
	return fake_client_of(handle) == FAKE_CLIENTS ? CUPTI_ERROR_INVALID_PARAMETER
						      : fake_next_record(buffer, valid_bytes, record);
}

CUptiResult
cuptiActivityGetNumDroppedRecords_v2(
	CUpti_SubscriberHandle handle, CUcontext context, uint32_t stream, size_t *count)
{
	unsigned int client = fake_client_of(handle);

	(void)context;
	(void)stream;
	FAKE_CUPTI_ENTER();
	if (client == FAKE_CLIENTS || !count)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*count = fake_buffers_take_dropped(client);
	return CUPTI_SUCCESS;
}
#else
typedef int no_such_functions;
#endif
