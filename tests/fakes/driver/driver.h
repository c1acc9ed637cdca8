/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the fake libcuda.so.1. One mutex guards all objects; CUPTI's hooks are called without it.
 *
 * Every exported function is begin, enter, work, end:
 *   begin  checks that the call is allowed here
 *   enter  numbers it and shows it to CUPTI
 *   end    shows the result to CUPTI (exit) and hands it through
 */
#ifndef CS_FAKE_DRIVER_DRIVER_H
#define CS_FAKE_DRIVER_DRIVER_H

/* Declares every version of every function, without the macros that hide all but the newest. */
#define __CUDA_API_VERSION_INTERNAL

#include "../fake.h"

#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <generated_cuda_meta.h>

#include <pthread.h>

#define FAKE_EXPORT __attribute__((visibility("default")))

/* What a fresh launch costs before the GPU starts it, and the gap between kernels of one stream: of the size
 * that was seen on an H200 with graphs, only for spans that nobody planned. */
#define FAKE_LAUNCH_LATENCY_NS 2000U
#define FAKE_KERNEL_GAP_NS     1000U
#define FAKE_KERNEL_NS         5000U

/* Flags of begin. */
#define FAKE_CALL_EARLY (1U << 0) /* allowed before cuInit and from InitializeInjection */
#define FAKE_CALL_QUERY                                                                                      \
	(1U << 1) /* reads state only: allowed in CUPTI's callbacks unless CS_FAKE_DRIVER_STRICT=1 */
#define FAKE_CALL_SYNC (1U << 2) /* allowed in CUPTI's API callbacks */
#define FAKE_CALL_FREE (1U << 3) /* allowed although the context has failed */

extern pthread_mutex_t fake_lock;

/*
 * begin: the result is CUDA_SUCCESS, or what the function returns at once. Between begin and enter a launch
 * names its kernel (call->symbol). end is called in any case and returns its second argument.
 */
CUresult fake_begin(
	struct cs_fake_call *call, uint32_t cbid, const char *name, const void *params, unsigned int flags);
void fake_enter(struct cs_fake_call *call);
CUresult fake_end(struct cs_fake_call *call, CUresult result);

#define FAKE_BEGIN(call, function, params, flags)                                                            \
	fake_begin(&(call), CUPTI_DRIVER_TRACE_CBID_##function, #function, (params), (flags))

/* The usual frame: what a function with the struct FUNCTION_params (its arguments follow) starts with. Leaves
 * `call` and `result` (CUDA_SUCCESS) behind. */
#define FAKE_FRAME(function, flags, ...)                                                                     \
	struct cs_fake_call call;                                                                            \
	function##_params params = {__VA_ARGS__};                                                            \
	CUresult result = FAKE_BEGIN(call, function, &params, (flags));                                      \
	if (result != CUDA_SUCCESS)                                                                          \
		return fake_end(&call, result);                                                              \
	fake_enter(&call)

const struct cs_fake_tools *fake_tools(void); /* never NULL: hooks that do nothing when CUPTI is not there */
void fake_misuse(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
enum cs_fake_state fake_state(void);
uint64_t fake_now_ns(void);
void fake_sleep_until(uint64_t time_ns);
/* Setting of the fake from the environment, read once. */
unsigned int fake_environment_number(const char *name, unsigned int fallback);

/* device.c */
int fake_device_count(void);
int fake_device_physical(
	int ordinal); /* index on the machine, after CUDA_VISIBLE_DEVICES; negative: no such one */
uint64_t fake_device_memory_bytes(void);
uint64_t fake_memory_bytes(int device);

/* memory.c: device or host, by address. */
CUmemorytype fake_memory_type(CUdeviceptr address);

/* context.c */
struct cs_fake_context *fake_context_current(void);

/* stream.c. Callers hold the lock. NULL handles are the default streams. */
struct cs_fake_stream *fake_stream_resolve(struct cs_fake_context *context, CUstream stream, bool per_thread);
struct cs_fake_stream *fake_stream_new(struct cs_fake_context *context, uint32_t id);
uint32_t fake_stream_next_id(void);
void fake_stream_extend(struct cs_fake_stream *stream, uint64_t end_ns);
void fake_stream_set_tails(struct cs_fake_stream *stream, struct cs_fake_node **nodes, uint32_t count);
/* All streams of the capture end capturing. */
void fake_streams_leave(const struct cs_fake_capture *capture);

/* plan.c */
void fake_plan_set(const struct cs_fake_span *spans, size_t count);
uint64_t fake_plan_late_launches(void);
void fake_set_clock(int device, int64_t offset_ns, int64_t drift_ppb, uint64_t epoch_ns);
/* Takes the calling thread's plan; false when there is none. A plan of another length is a misuse of the
 * fake. */
bool fake_plan_take(const struct cs_fake_span **spans, size_t expected);
void fake_plan_late(void);
uint64_t fake_gpu_time(int device, uint64_t true_ns);

/* module.c */
/* Behind a CUfunction, or what may be launched: a CUfunction or a CUkernel. NULL when the handle is none. */
struct cs_fake_function *fake_function(CUfunction function);
struct cs_fake_function *fake_launchable(CUfunction function);

/* launch.c: queues one operation on a stream or adds it to the stream's capture. */
CUresult fake_operation_queue(struct cs_fake_call *call, struct cs_fake_stream *stream,
	const struct cs_fake_work *work, void *const *parameters, void *const *extra);
uint64_t fake_work_duration_ns(const struct cs_fake_work *work);
/* The node's block of cs_fake_work.parameters; NULL when there is no memory. */
void **fake_parameters_copy(
	const struct cs_fake_function *function, void *const *parameters, void *const *extra);
void **fake_parameters_share(void **parameters); /* the same block for one more node */
void fake_parameters_free(void **parameters);

/* graph.c */
struct cs_fake_graph *fake_graph_new(struct cs_fake_context *context);
void fake_graph_free(struct cs_fake_graph *graph);
/* Takes over work->parameters. NULL when there is no memory. */
struct cs_fake_node *fake_graph_add(struct cs_fake_graph *graph, const struct cs_fake_work *work,
	struct cs_fake_node *const *dependencies, uint32_t dependency_count);
/* Tells CUPTI of a new node: CREATE_STARTING, CREATED, one DEPENDENCY_CREATED per dependency. */
void fake_graph_announce_node(struct cs_fake_node *node);
struct cs_fake_graph *fake_graph_clone(struct cs_fake_graph *original);
/* An executable's nodes point to those that they were made from: they stay when their graph is destroyed. */
struct cs_fake_graph *fake_graph_hold(struct cs_fake_graph *graph);
void fake_graph_release(struct cs_fake_graph *graph);
/* Destroys with events. */
void fake_graph_end(struct cs_fake_graph *graph);
CUresult fake_node_set_kernel(struct cs_fake_node *node, const CUDA_KERNEL_NODE_PARAMS *node_params);

/* capture.c */
struct cs_fake_capture {
	struct cs_fake_graph *graph;
	struct cs_fake_stream *origin;
	CUstreamCaptureMode mode;
	pthread_t thread;
	uint64_t id;
	uint32_t lane_count;
};

#endif
