/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, the current one of each thread, and memory as plain bookkeeping: no byte of it exists. */
#include "driver.h"

#include <stdlib.h>

#define STACK_DEPTH 16U

static struct cs_fake_context *contexts;
static struct cs_fake_context *retired;
static struct cs_fake_context *primaries[CS_FAKE_DEVICES_MAX];
static unsigned int primary_uses[CS_FAKE_DEVICES_MAX];
static uint32_t last_id;
static _Thread_local struct cs_fake_context *stack[STACK_DEPTH];
static _Thread_local unsigned int depth;

struct cs_fake_context *
fake_context_current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

static bool
context_known(const struct cs_fake_context *context)
{
	struct cs_fake_context *each;
	bool known = false;

	pthread_mutex_lock(&fake_lock);
	for (each = contexts; each && !known; each = each->next)
		known = each == context;
	pthread_mutex_unlock(&fake_lock);
	return known;
}

/* For the fake NVML: whether anything is under way on this process's GPUs. */
FAKE_EXPORT int cs_fake_works(void);
FAKE_EXPORT int
cs_fake_works(void)
{
	uint64_t now_ns = fake_now_ns();
	struct cs_fake_context *each;
	int works = 0;

	pthread_mutex_lock(&fake_lock);
	for (each = contexts; each; each = each->next)
		works |= each->tail_ns > now_ns;
	pthread_mutex_unlock(&fake_lock);
	return works;
}

static CUresult
context_new(int device, unsigned int flags, struct cs_fake_context **created)
{
	struct cs_fake_context *context = calloc(1, sizeof(*context));

	if (!context)
		return CUDA_ERROR_OUT_OF_MEMORY;
	context->device = device;
	context->flags = flags;
	pthread_mutex_lock(&fake_lock);
	context->id = ++last_id;
	context->legacy_stream = fake_stream_new(context, 7);
	context->thread_stream = fake_stream_new(context, 8);
	context->next = contexts;
	contexts = context;
	pthread_mutex_unlock(&fake_lock);
	if (!context->legacy_stream || !context->thread_stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fake_tools()->resource(
		CUPTI_CBID_RESOURCE_CONTEXT_CREATED, &(struct cs_fake_event){.context = context});
	*created = context;
	return CUDA_SUCCESS;
}

/* Contexts stay allocated when destroyed: a handle that somebody kept must not come back as a new context. */
static CUresult
context_end(struct cs_fake_context *context)
{
	struct cs_fake_context **link;
	unsigned int i;

	fake_sleep_until(context->tail_ns == CS_FAKE_NEVER_NS ? fake_now_ns() : context->tail_ns);
	fake_tools()->resource(
		CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, &(struct cs_fake_event){.context = context});
	pthread_mutex_lock(&fake_lock);
	for (link = &contexts; *link; link = &(*link)->next) {
		if (*link == context) {
			*link = context->next;
			context->next = retired;
			retired = context;
			break;
		}
	}
	pthread_mutex_unlock(&fake_lock);
	for (i = depth; i > 0; i--)
		if (stack[i - 1] == context && i == depth)
			depth--;
	return CUDA_SUCCESS;
}

static CUresult
push(struct cs_fake_context *context)
{
	if (depth == STACK_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack[depth++] = context;
	return CUDA_SUCCESS;
}

static CUresult
create(struct cs_fake_call *call, CUresult result, CUcontext *handle, unsigned int flags, CUdevice device)
{
	struct cs_fake_context *context = NULL;

	if (result != CUDA_SUCCESS)
		return fake_end(call, result);
	fake_enter(call);
	if (!handle)
		return fake_end(call, CUDA_ERROR_INVALID_VALUE);
	if (fake_device_physical(device) < 0)
		return fake_end(call, CUDA_ERROR_INVALID_DEVICE);
	result = context_new(device, flags, &context);
	if (result == CUDA_SUCCESS)
		result = push(context);
	if (result == CUDA_SUCCESS)
		*handle = (CUcontext)context;
	call->context = context;
	return fake_end(call, result);
}

/* cuda.h names only the newest: a program built with older headers calls _v2 or _v3. */
CUresult cuCtxCreate_v2(CUcontext *handle, unsigned int flags, CUdevice device);
FAKE_EXPORT CUresult
cuCtxCreate_v2(CUcontext *handle, unsigned int flags, CUdevice device)
{
	struct cs_fake_call call;
	cuCtxCreate_v2_params params = {handle, flags, device};

	return create(&call, FAKE_BEGIN(call, cuCtxCreate_v2, &params, 0), handle, flags, device);
}

CUresult cuCtxCreate_v3(
	CUcontext *handle, CUexecAffinityParam *affinity, int count, unsigned int flags, CUdevice device);
FAKE_EXPORT CUresult
cuCtxCreate_v3(
	CUcontext *handle, CUexecAffinityParam *affinity, int count, unsigned int flags, CUdevice device)
{
	struct cs_fake_call call;
	cuCtxCreate_v3_params params = {handle, affinity, count, flags, device};

	return create(&call, FAKE_BEGIN(call, cuCtxCreate_v3, &params, 0), handle, flags, device);
}

CUresult cuCtxCreate_v4(
	CUcontext *handle, CUctxCreateParams *create_params, unsigned int flags, CUdevice device);
FAKE_EXPORT CUresult
cuCtxCreate_v4(CUcontext *handle, CUctxCreateParams *create_params, unsigned int flags, CUdevice device)
{
	struct cs_fake_call call;
	cuCtxCreate_v4_params params = {handle, create_params, flags, device};

	return create(&call, FAKE_BEGIN(call, cuCtxCreate_v4, &params, 0), handle, flags, device);
}

FAKE_EXPORT CUresult
cuCtxDestroy_v2(CUcontext handle)
{
	struct cs_fake_context *context = (struct cs_fake_context *)handle;
	FAKE_FRAME(cuCtxDestroy_v2, FAKE_CALL_FREE, handle);

	return fake_end(&call, context_known(context) ? context_end(context) : CUDA_ERROR_INVALID_CONTEXT);
}

FAKE_EXPORT CUresult
cuDevicePrimaryCtxRetain(CUcontext *handle, CUdevice device)
{
	FAKE_FRAME(cuDevicePrimaryCtxRetain, 0, handle, device);

	if (!handle)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	if (fake_device_physical(device) < 0)
		return fake_end(&call, CUDA_ERROR_INVALID_DEVICE);
	if (!primaries[device])
		result = context_new(device, 0, &primaries[device]);
	if (result == CUDA_SUCCESS) {
		primary_uses[device]++;
		*handle = (CUcontext)primaries[device];
	}
	return fake_end(&call, result);
}

static CUresult
release_primary(CUdevice device, bool all)
{
	struct cs_fake_context *context;

	if (fake_device_physical(device) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!primaries[device])
		return all ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
	if (!all && --primary_uses[device] > 0)
		return CUDA_SUCCESS;
	context = primaries[device];
	primaries[device] = NULL;
	primary_uses[device] = 0;
	return context_end(context);
}

FAKE_EXPORT CUresult
cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	FAKE_FRAME(cuDevicePrimaryCtxRelease_v2, FAKE_CALL_FREE, device);

	return fake_end(&call, release_primary(device, false));
}

FAKE_EXPORT CUresult
cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	FAKE_FRAME(cuDevicePrimaryCtxReset_v2, FAKE_CALL_FREE, device);

	return fake_end(&call, release_primary(device, true));
}

FAKE_EXPORT CUresult
cuCtxPushCurrent_v2(CUcontext handle)
{
	FAKE_FRAME(cuCtxPushCurrent_v2, FAKE_CALL_FREE, handle);

	if (!context_known((struct cs_fake_context *)handle))
		return fake_end(&call, CUDA_ERROR_INVALID_CONTEXT);
	return fake_end(&call, push((struct cs_fake_context *)handle));
}

FAKE_EXPORT CUresult
cuCtxPopCurrent_v2(CUcontext *handle)
{
	FAKE_FRAME(cuCtxPopCurrent_v2, FAKE_CALL_FREE, handle);

	if (!depth)
		return fake_end(&call, CUDA_ERROR_INVALID_CONTEXT);
	depth--;
	if (handle)
		*handle = (CUcontext)stack[depth];
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuCtxSetCurrent(CUcontext handle)
{
	FAKE_FRAME(cuCtxSetCurrent, FAKE_CALL_FREE, handle);

	if (handle && !context_known((struct cs_fake_context *)handle))
		return fake_end(&call, CUDA_ERROR_INVALID_CONTEXT);
	if (depth)
		depth--;
	return fake_end(&call, handle ? push((struct cs_fake_context *)handle) : CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuCtxGetCurrent(CUcontext *handle)
{
	FAKE_FRAME(cuCtxGetCurrent, FAKE_CALL_QUERY, handle);

	if (!handle)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	*handle = (CUcontext)fake_context_current();
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuCtxGetDevice(CUdevice *device)
{
	FAKE_FRAME(cuCtxGetDevice, FAKE_CALL_QUERY, device);

	if (!device)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	if (!call.context)
		return fake_end(&call, CUDA_ERROR_INVALID_CONTEXT);
	*device = call.context->device;
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuCtxSynchronize(void)
{
	struct cs_fake_call call;
	CUresult result = FAKE_BEGIN(call, cuCtxSynchronize, NULL, FAKE_CALL_SYNC);

	if (result != CUDA_SUCCESS)
		return fake_end(&call, result);
	fake_enter(&call);
	if (!call.context)
		return fake_end(&call, CUDA_ERROR_INVALID_CONTEXT);
	fake_sleep_until(call.context->tail_ns);
	fake_tools()->synchronized(call.context, NULL);
	return fake_end(&call, CUDA_SUCCESS);
}
