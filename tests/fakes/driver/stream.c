/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events. A stream is the time at which everything queued on it will have ended. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* CUPTI's ids of streams that programs create; below are the default streams (7: legacy, 8: per thread). */
#define FIRST_STREAM_ID 13U

struct fake_event {
	struct cs_fake_context *context;
	bool recorded;
	uint64_t time_ns;
	/* Recorded on a capturing stream: joins the capture when waited for. */
	struct cs_fake_capture *capture;
	struct cs_fake_node **nodes;
	uint32_t node_count;
};

static uint32_t last_stream_id = FIRST_STREAM_ID - 1;
static struct cs_fake_stream *streams;

uint32_t
fake_stream_next_id(void)
{
	return ++last_stream_id;
}

struct cs_fake_stream *
fake_stream_new(struct cs_fake_context *context, uint32_t id)
{
	struct cs_fake_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->id = id;
	stream->context = context;
	stream->next = streams;
	streams = stream;
	return stream;
}

static bool
stream_known(const struct cs_fake_stream *stream)
{
	struct cs_fake_stream *each;

	for (each = streams; each; each = each->next)
		if (each == stream)
			return true;
	return false;
}

struct cs_fake_stream *
fake_stream_resolve(struct cs_fake_context *context, CUstream handle, bool per_thread)
{
	struct cs_fake_stream *stream = (struct cs_fake_stream *)handle;

	if (handle == CU_STREAM_PER_THREAD || (!handle && per_thread))
		return context ? context->thread_stream : NULL;
	if (handle == CU_STREAM_LEGACY || !handle)
		return context ? context->legacy_stream : NULL;
	return stream_known(stream) ? stream : NULL;
}

void
fake_stream_extend(struct cs_fake_stream *stream, uint64_t end_ns)
{
	if (end_ns > stream->tail_ns)
		stream->tail_ns = end_ns;
	if (end_ns > stream->context->tail_ns)
		stream->context->tail_ns = end_ns;
}

void
fake_stream_set_tails(struct cs_fake_stream *stream, struct cs_fake_node **nodes, uint32_t count)
{
	struct cs_fake_node **copy = NULL;

	if (count) {
		copy = malloc(count * sizeof(struct cs_fake_node *));
		if (!copy)
			abort();
		memcpy(copy, nodes, count * sizeof(struct cs_fake_node *));
	}
	free(stream->tail_nodes);
	stream->tail_nodes = copy;
	stream->tail_count = count;
}

void
fake_streams_leave(const struct cs_fake_capture *capture)
{
	struct cs_fake_stream *stream;

	for (stream = streams; stream; stream = stream->next) {
		if (stream->capture == capture) {
			stream->capture = NULL;
			stream->lane = 0;
			fake_stream_set_tails(stream, NULL, 0);
		}
	}
}

static CUresult
stream_create(struct cs_fake_call *call, CUstream *handle)
{
	struct cs_fake_stream *stream;

	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	if (!call->context)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&fake_lock);
	stream = fake_stream_new(call->context, fake_stream_next_id());
	pthread_mutex_unlock(&fake_lock);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*handle = (CUstream)stream;
	fake_tools()->resource(CUPTI_CBID_RESOURCE_STREAM_CREATED,
		&(struct cs_fake_event){.context = call->context, .stream = stream});
	return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult
cuStreamCreate(CUstream *stream, unsigned int flags)
{
	FAKE_FRAME(cuStreamCreate, 0, stream, flags);

	return fake_end(&call, stream_create(&call, stream));
}

FAKE_EXPORT CUresult
cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
	FAKE_FRAME(cuStreamCreateWithPriority, 0, stream, flags, priority);

	return fake_end(&call, stream_create(&call, stream));
}

FAKE_EXPORT CUresult
cuStreamDestroy_v2(CUstream handle)
{
	struct cs_fake_stream *stream = (struct cs_fake_stream *)handle;
	struct cs_fake_stream **link;
	bool known;
	FAKE_FRAME(cuStreamDestroy_v2, FAKE_CALL_FREE, handle);

	pthread_mutex_lock(&fake_lock);
	known = stream_known(stream) && stream->id >= FIRST_STREAM_ID;
	pthread_mutex_unlock(&fake_lock);
	if (!known)
		return fake_end(&call, CUDA_ERROR_INVALID_HANDLE);
	fake_tools()->resource(CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING,
		&(struct cs_fake_event){.context = stream->context, .stream = stream});
	pthread_mutex_lock(&fake_lock);
	for (link = &streams; *link; link = &(*link)->next) {
		if (*link == stream) {
			*link = stream->next;
			break;
		}
	}
	pthread_mutex_unlock(&fake_lock);
	free(stream->tail_nodes);
	free(stream);
	return fake_end(&call, CUDA_SUCCESS);
}

static CUresult
stream_synchronize(struct cs_fake_call *call, CUstream handle, bool per_thread)
{
	struct cs_fake_stream *stream;
	uint64_t tail_ns;

	pthread_mutex_lock(&fake_lock);
	stream = fake_stream_resolve(call->context, handle, per_thread);
	tail_ns = stream ? stream->tail_ns : 0;
	pthread_mutex_unlock(&fake_lock);
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->capture)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	fake_sleep_until(tail_ns);
	fake_tools()->synchronized(stream->context, stream);
	return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult
cuStreamSynchronize(CUstream stream)
{
	FAKE_FRAME(cuStreamSynchronize, FAKE_CALL_SYNC, stream);

	return fake_end(&call, stream_synchronize(&call, stream, false));
}

CUresult cuStreamSynchronize_ptsz(CUstream stream);
FAKE_EXPORT CUresult
cuStreamSynchronize_ptsz(CUstream stream)
{
	FAKE_FRAME(cuStreamSynchronize_ptsz, FAKE_CALL_SYNC, stream);

	return fake_end(&call, stream_synchronize(&call, stream, true));
}

FAKE_EXPORT CUresult
cuStreamQuery(CUstream handle)
{
	struct cs_fake_stream *stream;
	FAKE_FRAME(cuStreamQuery, FAKE_CALL_QUERY, handle);

	pthread_mutex_lock(&fake_lock);
	stream = fake_stream_resolve(call.context, handle, false);
	if (!stream)
		result = CUDA_ERROR_INVALID_HANDLE;
	else if (stream->tail_ns > fake_now_ns())
		result = CUDA_ERROR_NOT_READY;
	pthread_mutex_unlock(&fake_lock);
	return fake_end(&call, result);
}

FAKE_EXPORT CUresult
cuStreamGetCtx(CUstream handle, CUcontext *context)
{
	struct cs_fake_stream *stream;
	FAKE_FRAME(cuStreamGetCtx, FAKE_CALL_QUERY, handle, context);

	pthread_mutex_lock(&fake_lock);
	stream = fake_stream_resolve(call.context, handle, false);
	pthread_mutex_unlock(&fake_lock);
	if (!stream || !context)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	*context = (CUcontext)stream->context;
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuEventCreate(CUevent *handle, unsigned int flags)
{
	struct fake_event *event;
	FAKE_FRAME(cuEventCreate, 0, handle, flags);

	if (!handle)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	if (!call.context)
		return fake_end(&call, CUDA_ERROR_INVALID_CONTEXT);
	event = calloc(1, sizeof(*event));
	if (!event)
		return fake_end(&call, CUDA_ERROR_OUT_OF_MEMORY);
	event->context = call.context;
	*handle = (CUevent)event;
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuEventDestroy_v2(CUevent handle)
{
	struct fake_event *event = (struct fake_event *)handle;
	FAKE_FRAME(cuEventDestroy_v2, FAKE_CALL_FREE, handle);

	if (!event)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	free(event->nodes);
	free(event);
	return fake_end(&call, CUDA_SUCCESS);
}

/* Under capture an event keeps what it stands behind; no node is made of it. */
static CUresult
event_record_captured(struct fake_event *event, struct cs_fake_stream *stream)
{
	free(event->nodes);
	event->nodes = NULL;
	event->node_count = stream->tail_count;
	event->capture = stream->capture;
	if (!stream->tail_count)
		return CUDA_SUCCESS;
	event->nodes = malloc(stream->tail_count * sizeof(struct cs_fake_node *));
	if (!event->nodes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(event->nodes, stream->tail_nodes, stream->tail_count * sizeof(struct cs_fake_node *));
	return CUDA_SUCCESS;
}

static CUresult
event_record(struct cs_fake_call *call, CUevent handle, CUstream stream_handle, bool per_thread)
{
	struct fake_event *event = (struct fake_event *)handle;
	struct cs_fake_stream *stream;
	CUresult result = CUDA_SUCCESS;
	uint64_t now_ns = fake_now_ns();

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&fake_lock);
	stream = fake_stream_resolve(call->context, stream_handle, per_thread);
	if (!stream) {
		result = CUDA_ERROR_INVALID_HANDLE;
	} else if (stream->capture) {
		result = event_record_captured(event, stream);
	} else {
		event->capture = NULL;
		event->recorded = true;
		event->time_ns = stream->tail_ns > now_ns ? stream->tail_ns : now_ns;
	}
	pthread_mutex_unlock(&fake_lock);
	return result;
}

FAKE_EXPORT CUresult
cuEventRecord(CUevent event, CUstream stream)
{
	FAKE_FRAME(cuEventRecord, 0, event, stream);

	return fake_end(&call, event_record(&call, event, stream, false));
}

FAKE_EXPORT CUresult
cuEventSynchronize(CUevent handle)
{
	struct fake_event *event = (struct fake_event *)handle;
	FAKE_FRAME(cuEventSynchronize, FAKE_CALL_SYNC, handle);

	if (!event)
		return fake_end(&call, CUDA_ERROR_INVALID_HANDLE);
	if (event->recorded)
		fake_sleep_until(event->time_ns);
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuEventQuery(CUevent handle)
{
	struct fake_event *event = (struct fake_event *)handle;
	FAKE_FRAME(cuEventQuery, FAKE_CALL_QUERY, handle);

	if (!event)
		return fake_end(&call, CUDA_ERROR_INVALID_HANDLE);
	return fake_end(&call,
		event->recorded && event->time_ns > fake_now_ns() ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}

static CUresult
elapsed(CUevent begin_handle, CUevent end_handle, float *milliseconds)
{
	struct fake_event *begin = (struct fake_event *)begin_handle;
	struct fake_event *end = (struct fake_event *)end_handle;

	if (!begin || !end || !begin->recorded || !end->recorded || !milliseconds)
		return CUDA_ERROR_INVALID_HANDLE;
	if (begin->time_ns > fake_now_ns() || end->time_ns > fake_now_ns())
		return CUDA_ERROR_NOT_READY;
	*milliseconds = (float)((double)(int64_t)(end->time_ns - begin->time_ns) / 1e6);
	return CUDA_SUCCESS;
}

#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end);
FAKE_EXPORT CUresult
cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end)
{
	FAKE_FRAME(cuEventElapsedTime, FAKE_CALL_QUERY, milliseconds, begin, end);

	return fake_end(&call, elapsed(begin, end, milliseconds));
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent begin, CUevent end);
FAKE_EXPORT CUresult
cuEventElapsedTime_v2(float *milliseconds, CUevent begin, CUevent end)
{
	FAKE_FRAME(cuEventElapsedTime, FAKE_CALL_QUERY, milliseconds, begin, end);

	return fake_end(&call, elapsed(begin, end, milliseconds));
}

/* Waiting for an event of a capture takes the stream into that capture, or makes the two join. */
static CUresult
wait_captured(struct cs_fake_stream *stream, const struct fake_event *event)
{
	struct cs_fake_node **nodes;
	uint32_t total;

	if (stream->capture && stream->capture != event->capture)
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	if (!stream->capture) {
		stream->capture = event->capture;
		stream->lane = event->capture->lane_count++;
		stream->tail_count = 0;
	}
	total = stream->tail_count + event->node_count;
	nodes = malloc((total ? total : 1) * sizeof(struct cs_fake_node *));
	if (!nodes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (stream->tail_count)
		memcpy(nodes, stream->tail_nodes, stream->tail_count * sizeof(struct cs_fake_node *));
	if (event->node_count)
		memcpy(nodes + stream->tail_count, event->nodes,
			event->node_count * sizeof(struct cs_fake_node *));
	fake_stream_set_tails(stream, nodes, total);
	free(nodes);
	return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult
cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned int flags)
{
	struct fake_event *event = (struct fake_event *)event_handle;
	struct cs_fake_stream *stream;
	FAKE_FRAME(cuStreamWaitEvent, 0, handle, event_handle, flags);

	if (!event)
		return fake_end(&call, CUDA_ERROR_INVALID_HANDLE);
	pthread_mutex_lock(&fake_lock);
	stream = fake_stream_resolve(call.context, handle, false);
	if (!stream)
		result = CUDA_ERROR_INVALID_HANDLE;
	else if (event->capture)
		result = wait_captured(stream, event);
	else if (stream->capture)
		result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	else if (event->recorded)
		fake_stream_extend(stream, event->time_ns);
	pthread_mutex_unlock(&fake_lock);
	return fake_end(&call, result);
}
