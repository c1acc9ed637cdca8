/* SPDX-License-Identifier: Apache-2.0 */
/* Our prefixes against every record struct that the CUPTI header at hand has. Nothing here makes code. */
#include "activity_layout.h"

#include <cupti.h>
#include <stddef.h>

#define SAME(ours, field, theirs, their_field)                                                               \
	_Static_assert(offsetof(ours, field) == offsetof(theirs, their_field), #theirs "." #their_field);    \
	_Static_assert(                                                                                      \
		sizeof(((ours *)0)->field) == sizeof(((theirs *)0)->their_field), #theirs "." #their_field)

#define SAME_KERNEL(theirs)                                                                                  \
	SAME(struct cs_activity_kernel, start_ns, theirs, start);                                            \
	SAME(struct cs_activity_kernel, end_ns, theirs, end);                                                \
	SAME(struct cs_activity_kernel, device_id, theirs, deviceId);                                        \
	SAME(struct cs_activity_kernel, context_id, theirs, contextId);                                      \
	SAME(struct cs_activity_kernel, stream_id, theirs, streamId);                                        \
	SAME(struct cs_activity_kernel, correlation_id, theirs, correlationId);                              \
	SAME(struct cs_activity_kernel, name, theirs, name);                                                 \
	SAME(struct cs_activity_kernel, graph_node_id, theirs, graphNodeId);                                 \
	SAME(struct cs_activity_kernel, graph_id, theirs, graphId)

#define SAME_COPY(ours, theirs)                                                                              \
	SAME(ours, bytes, theirs, bytes);                                                                    \
	SAME(ours, start_ns, theirs, start);                                                                 \
	SAME(ours, end_ns, theirs, end);                                                                     \
	SAME(ours, device_id, theirs, deviceId);                                                             \
	SAME(ours, context_id, theirs, contextId);                                                           \
	SAME(ours, stream_id, theirs, streamId);                                                             \
	SAME(ours, correlation_id, theirs, correlationId);                                                   \
	SAME(ours, graph_node_id, theirs, graphNodeId);                                                      \
	SAME(ours, graph_id, theirs, graphId)

SAME_KERNEL(CUpti_ActivityKernel9);
#if CUPTI_API_VERSION >= 130000
SAME_KERNEL(CUpti_ActivityKernel8);
SAME_KERNEL(CUpti_ActivityKernel10);
SAME_COPY(struct cs_activity_copy, CUpti_ActivityMemcpy6);
SAME(struct cs_activity_copy, copy_kind, CUpti_ActivityMemcpy6, copyKind);
#endif
#if CUPTI_API_VERSION >= 130100
SAME_KERNEL(CUpti_ActivityKernel11);
#endif
#if CUPTI_API_VERSION >= 130300
SAME_KERNEL(CUpti_ActivityKernel12);
#endif
#if CUPTI_API_VERSION >= 130400
SAME_KERNEL(CUpti_ActivityKernel13);
#endif
SAME_COPY(struct cs_activity_copy, CUpti_ActivityMemcpy5);
SAME(struct cs_activity_copy, copy_kind, CUpti_ActivityMemcpy5, copyKind);
SAME_COPY(struct cs_activity_copy_peer, CUpti_ActivityMemcpyPtoP4);
SAME_COPY(struct cs_activity_set, CUpti_ActivityMemset4);

SAME(struct cs_activity_call, cbid, CUpti_ActivityAPI, cbid);
SAME(struct cs_activity_call, start_ns, CUpti_ActivityAPI, start);
SAME(struct cs_activity_call, end_ns, CUpti_ActivityAPI, end);
SAME(struct cs_activity_call, thread_id, CUpti_ActivityAPI, threadId);
SAME(struct cs_activity_call, correlation_id, CUpti_ActivityAPI, correlationId);

_Static_assert(CS_ACTIVITY_DRIVER == CUPTI_ACTIVITY_KIND_DRIVER, "kind");
_Static_assert(CS_ACTIVITY_MEMCPY == CUPTI_ACTIVITY_KIND_MEMCPY, "kind");
_Static_assert(CS_ACTIVITY_MEMSET == CUPTI_ACTIVITY_KIND_MEMSET, "kind");
_Static_assert(CS_ACTIVITY_KERNEL == CUPTI_ACTIVITY_KIND_KERNEL, "kind");
_Static_assert(CS_ACTIVITY_CONCURRENT_KERNEL == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kind");
_Static_assert(CS_ACTIVITY_MEMCPY_PEER == CUPTI_ACTIVITY_KIND_MEMCPY2, "kind");
_Static_assert(CS_COPY_TO_DEVICE == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, "copy kind");
_Static_assert(CS_COPY_TO_HOST == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, "copy kind");
_Static_assert(CS_COPY_HOST_TO_ARRAY == CUPTI_ACTIVITY_MEMCPY_KIND_HTOA, "copy kind");
_Static_assert(CS_COPY_ARRAY_TO_HOST == CUPTI_ACTIVITY_MEMCPY_KIND_ATOH, "copy kind");
_Static_assert(CS_COPY_DEVICE_TO_DEVICE == CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, "copy kind");
_Static_assert(CS_COPY_PEER == CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, "copy kind");
