/* SPDX-License-Identifier: Apache-2.0 */
/* What the objects of the driver are called in records, the clock, the version, and the texts of results. */
#include "cupti.h"

CUptiResult
cuptiGetVersion(uint32_t *version)
{
	FAKE_CUPTI_ENTER();
	if (!version)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*version = FAKE_CUPTI_VERSION;
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiGetTimestamp(uint64_t *timestamp)
{
	FAKE_CUPTI_ENTER();
	if (!timestamp)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*timestamp = fake_number("CS_FAKE_CUPTI_CLOCK_HIDDEN", 0) ? fake_cupti_now_ns() : fake_clock_now();
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiGetDeviceId(CUcontext context, uint32_t *device)
{
	FAKE_CUPTI_ENTER();
	if (!context || !device)
		return CUPTI_ERROR_INVALID_CONTEXT;
	*device = (uint32_t)((struct cs_fake_context *)context)->device;
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiGetContextId(CUcontext context, uint32_t *id)
{
	FAKE_CUPTI_ENTER();
	if (!context || !id)
		return CUPTI_ERROR_INVALID_CONTEXT;
	*id = ((struct cs_fake_context *)context)->id;
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread, uint32_t *id)
{
	struct cs_fake_stream *found;

	FAKE_CUPTI_ENTER();
	if (!context || !id)
		return CUPTI_ERROR_INVALID_CONTEXT;
	found = fake_driver()->resolve_stream((struct cs_fake_context *)context, stream, per_thread != 0);
	if (!found)
		return CUPTI_ERROR_INVALID_STREAM;
	*id = found->id;
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiGetGraphNodeId(CUgraphNode node, uint64_t *id)
{
	FAKE_CUPTI_ENTER();
	if (!node || !id)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*id = fake_node_id((const struct cs_fake_node *)node);
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiGetGraphId(CUgraph graph, uint32_t *id)
{
	FAKE_CUPTI_ENTER();
	if (!graph || !id)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*id = ((const struct cs_fake_graph *)graph)->id;
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiGetGraphExecId(CUgraphExec exec, uint32_t *id)
{
	FAKE_CUPTI_ENTER();
	if (!exec || !id)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*id = ((const struct cs_fake_exec *)exec)->graph->id;
	return CUPTI_SUCCESS;
}

static const char *
result_name(CUptiResult result)
{
	switch (result) {
	case CUPTI_SUCCESS:
		return "CUPTI_SUCCESS";
	case CUPTI_ERROR_INVALID_PARAMETER:
		return "CUPTI_ERROR_INVALID_PARAMETER";
	case CUPTI_ERROR_NOT_INITIALIZED:
		return "CUPTI_ERROR_NOT_INITIALIZED";
	case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
		return "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
	case CUPTI_ERROR_INVALID_OPERATION:
		return "CUPTI_ERROR_INVALID_OPERATION";
	case CUPTI_ERROR_INVALID_KIND:
		return "CUPTI_ERROR_INVALID_KIND";
	case CUPTI_ERROR_OUT_OF_MEMORY:
		return "CUPTI_ERROR_OUT_OF_MEMORY";
	case CUPTI_ERROR_MAX_LIMIT_REACHED:
		return "CUPTI_ERROR_MAX_LIMIT_REACHED";
	case CUPTI_ERROR_UNKNOWN:
		return "CUPTI_ERROR_UNKNOWN";
	default:
		return "CUPTI_ERROR_OTHER";
	}
}

CUptiResult
cuptiGetResultString(CUptiResult result, const char **text)
{
	FAKE_CUPTI_ENTER();
	if (!text)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*text = result_name(result);
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiGetErrorMessage(CUptiResult result, const char **text)
{
	return cuptiGetResultString(result, text);
}
