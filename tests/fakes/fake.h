/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fake driver (libcuda.so.1), the fake CUPTI (libcupti.so.12, .13) and the programs written for them
 * share: the objects behind CUDA's opaque handles, the hooks by which CUPTI watches the driver, and the extra
 * entry by which a program says when its work runs on the simulated GPU.
 *
 * The injector under test never sees this header: it finds CUDA's and CUPTI's own functions and nothing else.
 *
 * Time. A simulated GPU runs in real time: every operation has a span of CLOCK_REALTIME nanoseconds, known
 * when it is launched, and waiting for it sleeps until the span has ended. No thread and no spinning is
 * behind it. A span comes from the program (struct cs_fake_driver, plan) or, when it gives none, from the
 * function's default duration behind what is queued on the stream.
 */
#ifndef CS_FAKE_H
#define CS_FAKE_H

#include <cuda.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit status of a process that used CUDA or CUPTI in a way that hangs or corrupts on the real thing; the
 * sentence is on stderr. Chosen to be none of the shell's and none of the sanitizers'. */
#define CS_FAKE_MISUSE_EXIT 86

#define CS_FAKE_PARAMETERS_MAX 32
#define CS_FAKE_DEVICES_MAX    16
#define CS_FAKE_NEVER_NS       UINT64_MAX /* end of a span that never ends: a hung kernel */

struct cs_fake_span {
	uint64_t start_ns;
	uint64_t end_ns; /* CS_FAKE_NEVER_NS: hangs */
};

enum cs_fake_operation_type {
	CS_FAKE_KERNEL,
	CS_FAKE_COPY,
	CS_FAKE_SET,
	CS_FAKE_EMPTY, /* graph node without work: event record, event wait, host function, empty */
	CS_FAKE_CHILD, /* graph node that holds a graph */
};

struct cs_fake_module;

struct cs_fake_function {
	char *name;
	struct cs_fake_module *module;
	uint32_t parameter_count;
	uint32_t offsets[CS_FAKE_PARAMETERS_MAX]; /* bytes in the parameter buffer */
	uint32_t sizes[CS_FAKE_PARAMETERS_MAX];
	uint32_t parameter_bytes; /* whole buffer */
	uint64_t duration_ns;     /* when no span was planned */
	struct cs_fake_function *next;
	/* Its address is the CUkernel handle. The runtime launches by those, cast to CUfunction; on CUDA 13.0
	 * the cuFunc... queries refuse them, the cuKernel... ones refuse a CUfunction. */
	char kernel_handle;
};

struct cs_fake_context {
	uint32_t id; /* from 1, unique in the process */
	int device;  /* CUDA ordinal */
	unsigned int flags;
	CUresult failure; /* sticky error, CUDA_SUCCESS if none */
	uint64_t tail_ns; /* latest end over all streams, destroyed ones too */
	struct cs_fake_stream *legacy_stream;
	struct cs_fake_stream *thread_stream;
	struct cs_fake_context *next;
};

struct cs_fake_capture;

struct cs_fake_stream {
	uint32_t id; /* CUPTI's stream id: 7 for the legacy default stream */
	struct cs_fake_context *context;
	uint64_t tail_ns; /* when everything queued so far will have ended */
	struct cs_fake_capture *capture;
	uint32_t lane; /* while capturing: which of the capture's streams this is; 0 = the origin */
	uint32_t tail_count;
	struct cs_fake_node **tail_nodes; /* while capturing: what the next node depends on */
	struct cs_fake_stream *next;
};

/* Work of a launch, eager or a graph's node. */
struct cs_fake_work {
	enum cs_fake_operation_type type;
	struct cs_fake_function *function; /* KERNEL */
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared_bytes;
	/* KERNEL in a graph: one block of the node and its clones, pointers to the parameters first, then the
	 * buffer. NULL for an eager launch. */
	void **parameters;
	uint64_t bytes; /* COPY, SET */
	CUmemorytype source;
	CUmemorytype target;
	int source_device; /* COPY between devices: peer; else both the context's */
	int target_device;
};

struct cs_fake_graph;

struct cs_fake_node {
	struct cs_fake_graph *graph;
	uint32_t ordinal;  /* in its graph */
	uint64_t moved_id; /* CUPTI's id of a child graph's node that an instantiation took over; 0: as usual
			    */
	uint32_t lane;
	struct cs_fake_work work;
	struct cs_fake_graph *child;   /* CHILD */
	struct cs_fake_node *original; /* of a clone; followed only for nodes of executables */
	uint32_t dependency_count;
	struct cs_fake_node **dependencies;
	bool removed;
};

/* Also what an executable graph holds: a clone of its own. */
struct cs_fake_graph {
	uint32_t id; /* from 1, unique in the process */
	uint32_t node_count;
	uint32_t node_capacity;
	struct cs_fake_node **nodes; /* by ordinal */
	uint32_t lane_count;
	uint32_t references; /* executables made of it */
	struct cs_fake_context *context;
};

struct cs_fake_exec {
	struct cs_fake_graph *graph;  /* owned; graph->id is the executable's id */
	struct cs_fake_graph *source; /* what it was made of */
	struct cs_fake_context *context;
	/* Flat list of the timed nodes (kernels, copies, sets), child graphs opened, in node order. */
	uint32_t timed_count;
	struct cs_fake_node **timed;
	uint32_t *lane_streams; /* CUPTI stream ids of lanes 1, 2, ...: internal streams */
	uint32_t lane_count;
	uint64_t launches;
	bool graph_traced; /* CUPTI's: GRAPH_TRACE was on when it was instantiated */
};

/* One call of a driver function, between enter and exit. */
struct cs_fake_call {
	uint32_t cbid;      /* CUPTI_DRIVER_TRACE_CBID_* */
	const char *name;   /* static: "cuLaunchKernel" */
	const void *params; /* the function's struct of generated_cuda_meta.h */
	const char *symbol; /* kernel's name for launches, else NULL */
	struct cs_fake_context *context;
	uint32_t correlation_id;
	uint64_t correlation_data;
	uint64_t enter_ns;
	CUresult result; /* at exit */
	bool watched;    /* enter was shown to CUPTI */
};

/* Data of a resource event, whatever of it applies. */
struct cs_fake_event {
	struct cs_fake_context *context;
	struct cs_fake_stream *stream;
	struct cs_fake_graph *graph;
	struct cs_fake_graph *original_graph;
	struct cs_fake_node *node;
	struct cs_fake_node *original_node;
	struct cs_fake_node *dependency;
	struct cs_fake_exec *exec;
	struct cs_fake_module *module;
};

/* One operation that an API call has just put on the GPU. */
struct cs_fake_operation {
	const struct cs_fake_work *work;
	const struct cs_fake_node *node; /* of the executable graph; NULL outside graphs */
	uint32_t stream_id;
	struct cs_fake_span span; /* true time; records carry cs_fake_driver.gpu_time of it */
};

/* What CUPTI puts into the driver. All are called on the application thread, without any lock of the driver
 * held. */
struct cs_fake_tools {
	void (*enter)(struct cs_fake_call *call);
	void (*exit)(struct cs_fake_call *call);
	void (*resource)(uint32_t cbid, const struct cs_fake_event *event);
	void (*synchronized)(struct cs_fake_context *context, struct cs_fake_stream *stream);
	/* exec NULL: an eager operation. stream: the launch stream. */
	void (*queued)(const struct cs_fake_call *call, const struct cs_fake_exec *exec,
		const struct cs_fake_stream *stream, const struct cs_fake_operation *operations,
		size_t count);
	/* The state that cuptiFinalize leaves behind after tracing: true = this graph launch dies. */
	bool (*graph_launch_dies)(void);
	uint64_t (*device_bytes)(int device); /* CUPTI's own buffers in device memory */
	bool (*kernels_traced)(void);         /* CONCURRENT_KERNEL is on */
};

/* Which kind of CUPTI callback the calling thread is inside of. */
enum cs_fake_inside {
	CS_FAKE_INSIDE_NOTHING,
	CS_FAKE_INSIDE_API_CALLBACK,
	CS_FAKE_INSIDE_RESOURCE_CALLBACK,
	CS_FAKE_INSIDE_BUFFER_REQUEST,
	CS_FAKE_INSIDE_BUFFER_COMPLETE,
};

/* Where the driver stands in its life. */
enum cs_fake_state {
	CS_FAKE_STATE_LOADED,
	CS_FAKE_STATE_INITIALIZING, /* InitializeInjection runs */
	CS_FAKE_STATE_READY,
	CS_FAKE_STATE_FORKED, /* a child of a process that had initialised */
	CS_FAKE_STATE_GONE,   /* exit handlers ran */
};

/* The one extra entry of the fake libcuda.so.1, found with dlsym(CS_FAKE_DRIVER_SYMBOL). */
#define CS_FAKE_DRIVER_SYMBOL "cs_fake_driver"
struct cs_fake_driver {
	/* CUPTI's side. attach replaces the hooks; NULL takes them out. */
	void (*attach)(const struct cs_fake_tools *tools);
	enum cs_fake_state (*state)(void);
	enum cs_fake_inside *(*inside)(void); /* of the calling thread */
	uint32_t (*next_correlation_id)(void);
	struct cs_fake_stream *(*resolve_stream)(
		struct cs_fake_context *context, CUstream stream, bool per_thread);

	/*
	 * The program's side. Gives the spans of the next operation on the calling thread: one per timed node
	 * (kernel, copy, set) of the graph in node order, or one for an eager operation. Borrowed until that
	 * call returns. Absolute CLOCK_REALTIME; a launch that comes later than its first start is counted in
	 * late_launches.
	 */
	void (*plan)(const struct cs_fake_span *spans, size_t count);
	uint64_t (*late_launches)(void);
	bool (*kernels_traced)(void); /* CUPTI traces kernels now: launching them costs more */
	/* A GPU's clock as CUPTI reports it: true + offset + drift_ppb * (true - epoch_ns) / 1e9. Before the
	 * first launch. */
	void (*set_clock)(int device, int64_t offset_ns, int64_t drift_ppb, uint64_t epoch_ns);
	uint64_t (*gpu_time)(int device, uint64_t true_ns);
	/* GPU memory that this process has there: its own and CUPTI's. For the fake NVML. */
	uint64_t (*memory_bytes)(int device);

	/* Prints "fake: MISUSE: ..." on stderr and leaves with CS_FAKE_MISUSE_EXIT. */
	void (*misuse)(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
};

static inline CUgraphNodeType
cs_fake_node_type(const struct cs_fake_node *node)
{
	switch (node->work.type) {
	case CS_FAKE_KERNEL:
		return CU_GRAPH_NODE_TYPE_KERNEL;
	case CS_FAKE_COPY:
		return CU_GRAPH_NODE_TYPE_MEMCPY;
	case CS_FAKE_SET:
		return CU_GRAPH_NODE_TYPE_MEMSET;
	case CS_FAKE_CHILD:
		return CU_GRAPH_NODE_TYPE_GRAPH;
	default:
		return CU_GRAPH_NODE_TYPE_EMPTY;
	}
}

/* The clock of set_clock as a function, for those who compute the truth. */
static inline uint64_t
cs_fake_clock_apply(uint64_t true_ns, int64_t offset_ns, int64_t drift_ppb, uint64_t epoch_ns)
{
	int64_t since_ns = (int64_t)(true_ns - epoch_ns);
	/* Split, so that days of nanoseconds times the drift stay inside 64 bits. */
	int64_t seconds = since_ns / 1000000000;
	int64_t rest_ns = since_ns % 1000000000;

	return true_ns + (uint64_t)(offset_ns + seconds * drift_ppb + rest_ns * drift_ppb / 1000000000);
}

#endif
