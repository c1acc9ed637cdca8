/* SPDX-License-Identifier: Apache-2.0 */
/* Stream capture: what is launched on the origin stream, and on streams that wait for its events, becomes a
 * graph. */
#include "driver.h"

#include <stdlib.h>

static uint64_t last_capture_id;

static CUresult
begin_capture(struct cs_fake_call *call, CUstream handle, bool per_thread, CUstreamCaptureMode mode)
{
	struct cs_fake_capture *capture;
	struct cs_fake_stream *stream;
	struct cs_fake_graph *graph = NULL;
	CUresult result = CUDA_ERROR_INVALID_HANDLE;

	capture = calloc(1, sizeof(*capture));
	if (!capture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&fake_lock);
	stream = fake_stream_resolve(call->context, handle, per_thread);
	/* The legacy default stream cannot be captured. */
	if (stream && stream == stream->context->legacy_stream) {
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	} else if (stream && stream->capture) {
		result = CUDA_ERROR_ILLEGAL_STATE;
	} else if (stream) {
		graph = fake_graph_new(stream->context);
		result = graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (result == CUDA_SUCCESS) {
		*capture =
			(struct cs_fake_capture){graph, stream, mode, pthread_self(), ++last_capture_id, 1};
		stream->capture = capture;
		stream->lane = 0;
		fake_stream_set_tails(stream, NULL, 0);
	}
	pthread_mutex_unlock(&fake_lock);
	if (result == CUDA_SUCCESS)
		fake_tools()->resource(CUPTI_CBID_RESOURCE_GRAPH_CREATED,
			&(struct cs_fake_event){.context = call->context, .graph = graph});
	else
		free(capture);
	return result;
}

FAKE_EXPORT CUresult
cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	FAKE_FRAME(cuStreamBeginCapture_v2, 0, stream, mode);

	return fake_end(&call, begin_capture(&call, stream, false, mode));
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode);
FAKE_EXPORT CUresult
cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
	FAKE_FRAME(cuStreamBeginCapture_v2_ptsz, 0, stream, mode);

	return fake_end(&call, begin_capture(&call, stream, true, mode));
}

static CUresult
end_capture(struct cs_fake_call *call, CUstream handle, bool per_thread, CUgraph *graph)
{
	struct cs_fake_capture *capture;
	struct cs_fake_stream *stream;

	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	stream = fake_stream_resolve(call->context, handle, per_thread);
	capture = stream ? stream->capture : NULL;
	if (!capture || capture->origin != stream ||
		(capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
			!pthread_equal(capture->thread, pthread_self()))) {
		pthread_mutex_unlock(&fake_lock);
		return stream && capture ? CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD : CUDA_ERROR_ILLEGAL_STATE;
	}
	fake_streams_leave(capture);
	capture->graph->lane_count = capture->lane_count;
	*graph = (CUgraph)capture->graph;
	pthread_mutex_unlock(&fake_lock);
	free(capture);
	return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult
cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	FAKE_FRAME(cuStreamEndCapture, 0, stream, graph);

	return fake_end(&call, end_capture(&call, stream, false, graph));
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph);
FAKE_EXPORT CUresult
cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
	FAKE_FRAME(cuStreamEndCapture_ptsz, 0, stream, graph);

	return fake_end(&call, end_capture(&call, stream, true, graph));
}

FAKE_EXPORT CUresult
cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
	struct cs_fake_stream *stream;
	FAKE_FRAME(cuStreamIsCapturing, FAKE_CALL_QUERY, handle, status);

	if (!status)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	pthread_mutex_lock(&fake_lock);
	stream = fake_stream_resolve(call.context, handle, false);
	*status = stream && stream->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
	pthread_mutex_unlock(&fake_lock);
	return fake_end(&call, stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
	CUgraph *graph, const CUgraphNode **dependencies, size_t *dependency_count);
FAKE_EXPORT CUresult
cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
	const CUgraphNode **dependencies, size_t *dependency_count)
{
	struct cs_fake_stream *stream;
	FAKE_FRAME(cuStreamGetCaptureInfo_v2, FAKE_CALL_QUERY, handle, status, id, graph, dependencies,
		dependency_count);

	if (!status)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	pthread_mutex_lock(&fake_lock);
	stream = fake_stream_resolve(call.context, handle, false);
	*status = stream && stream->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
	if (stream && stream->capture) {
		if (id)
			*id = stream->capture->id;
		if (graph)
			*graph = (CUgraph)stream->capture->graph;
		if (dependencies)
			*dependencies = (const CUgraphNode *)stream->tail_nodes;
		if (dependency_count)
			*dependency_count = stream->tail_count;
	}
	pthread_mutex_unlock(&fake_lock);
	return fake_end(&call, stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}
