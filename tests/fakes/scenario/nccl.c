/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL does around the launch of a collective, as far as a tool can see it: the profiler plugin's events
 * in NCCL 2.28's order (interface v5), and the extended NVTX payload in the domain "NCCL". Layouts are facts
 * of NCCL 2.28's profiler_v5.h and of its NVTX schemas.
 */
#include "scenario.h"

#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_GROUP         (1 << 0)
#define EVENT_COLL          (1 << 1)
#define EVENT_GROUP_API     (1 << 8)
#define EVENT_COLL_API      (1 << 9)
#define EVENT_KERNEL_LAUNCH (1 << 11)
#define STATE_GROUP_START   23 /* GroupStartApiStop */
#define STATE_GROUP_END     24 /* GroupEndApiStart */
#define SCHEMA_ALL_GATHER   ((1U << 24) + 4)
#define SCHEMA_ALL_REDUCE   ((1U << 24) + 5)

struct descriptor {
	uint64_t type;
	void *parent;
	int rank;
	union {
		struct {
			bool graph_captured;
			int depth;
		} group_api;
		struct {
			const char *func;
			size_t count;
			const char *datatype;
			int root;
			void *stream;
			bool graph_captured;
		} coll_api;
		struct {
			void *stream;
		} kernel_launch;
		struct {
			uint64_t sequence;
			const char *func;
			const void *send;
			void *receive;
			size_t count;
			int root;
			const char *datatype;
			uint8_t channels;
			uint8_t warps;
			const char *algorithm;
			const char *protocol;
			void *parent_group;
		} coll;
		char room[128];
	};
};

struct plugin {
	const char *name;
	int (*init)(void **context, uint64_t comm_id, int *mask, const char *comm_name, int nodes, int ranks,
		int rank, void (*log)(int, unsigned long, const char *, int, const char *, ...));
	int (*start)(void *context, void **handle, struct descriptor *descriptor);
	int (*stop)(void *handle);
	int (*state)(void *handle, int state, void *arguments);
	int (*finalize)(void *context);
};

struct payload_reduce {
	uint64_t comm_hash;
	size_t bytes;
	int op;
};

static const struct plugin *plugin;
static void *context;
static int mask;
static int own_rank;
static uint64_t own_world = 1;
static uint64_t own_hash;
static uint64_t sequence;
static void *group_handle; /* GroupApi */
static void *coll_handle;  /* CollApi */
static void *launch_handle;
static nvtxDomainHandle_t domain;
static nvtxStringHandle_t name_all_reduce;
static nvtxStringHandle_t name_all_gather;

static void
quiet_log(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
	(void)level;
	(void)flags;
	(void)file;
	(void)line;
	(void)format;
}

const char *
scenario_nccl_plugin(void)
{
	return plugin ? "v5" : "none";
}

void
scenario_nccl_open(int rank, int world, uint64_t comm_hash)
{
	const char *path = getenv("NCCL_PROFILER_PLUGIN");
	void *library;

	own_rank = rank;
	own_world = (uint64_t)world;
	own_hash = comm_hash;
	domain = nvtxDomainCreateA("NCCL");
	name_all_reduce = nvtxDomainRegisterStringA(domain, "ncclAllReduce");
	name_all_gather = nvtxDomainRegisterStringA(domain, "ncclAllGather");
	if (!path || strcmp(path, "none") == 0)
		return;
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	plugin = library ? dlsym(library, "ncclProfiler_v5") : NULL;
	if (plugin && plugin->init(&context, comm_hash, &mask, NULL, 1, world, rank, quiet_log) != 0)
		plugin = NULL;
}

/* What the caller of the collective passes: an all-gather's message is what all ranks get, each sends its
 * part. */
static uint64_t
own_part(const struct scenario_impl *impl, uint64_t bytes)
{
	return strcmp(impl->op, "all_gather") == 0 ? bytes / own_world : bytes;
}

/* Starts an event when the plugin asked for its kind. */
static void
start(int type, struct descriptor *descriptor, void **handle)
{
	*handle = NULL;
	if (!plugin || !(mask & type))
		return;
	descriptor->type = (uint64_t)type;
	descriptor->rank = own_rank;
	plugin->start(context, handle, descriptor);
}

static void
stop(void **handle)
{
	if (plugin && *handle)
		plugin->stop(*handle);
	*handle = NULL;
}

static void
push_range(const struct scenario_impl *impl, uint64_t bytes)
{
	struct payload_reduce reduce = {own_hash, bytes, 0};
	bool gather = strcmp(impl->op, "all_gather") == 0;
	nvtxPayloadData_t payload = {gather ? SCHEMA_ALL_GATHER : SCHEMA_ALL_REDUCE,
		gather ? offsetof(struct payload_reduce, op) : sizeof(reduce), &reduce};
	nvtxEventAttributes_t attributes = {.version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.messageType = NVTX_MESSAGE_TYPE_REGISTERED,
		.message.registered = gather ? name_all_gather : name_all_reduce,
		.payloadType = NVTX_PAYLOAD_TYPE_EXT,
		.reserved0 = 1,
		.payload.ullValue = (uint64_t)(uintptr_t)&payload};

	nvtxDomainRangePushEx(domain, &attributes);
}

/* From ncclAllReduce's entry to just before its cuLaunchKernelEx. */
void
scenario_nccl_before(const struct scenario_impl *impl, uint64_t bytes, void *stream, bool captured)
{
	struct descriptor group = {.group_api = {captured, 1}};
	struct descriptor api = {
		.coll_api = {impl->func, own_part(impl, bytes) / 2, "ncclBfloat16", 0, stream, captured}};
	struct descriptor launch = {.kernel_launch = {stream}};

	push_range(impl, own_part(impl, bytes));
	start(EVENT_GROUP_API, &group, &group_handle);
	if (plugin && group_handle)
		plugin->state(group_handle, STATE_GROUP_START, NULL);
	api.parent = group_handle;
	start(EVENT_COLL_API, &api, &coll_handle);
	if (plugin && coll_handle)
		plugin->stop(coll_handle);
	if (plugin && group_handle)
		plugin->state(group_handle, STATE_GROUP_END, NULL);
	launch.parent = group_handle;
	start(EVENT_KERNEL_LAUNCH, &launch, &launch_handle);
}

/* From the launch to ncclAllReduce's return. Coll comes only now, and for symmetric kernels not at all. Under
 * capture the sequence number stands still. */
void
scenario_nccl_after(const struct scenario_impl *impl, uint64_t bytes, bool captured)
{
	struct descriptor group = {.parent = NULL};
	struct descriptor coll = {.coll = {sequence, impl->func, NULL, NULL, bytes / 2, 0, "ncclBfloat16", 4,
					  16, "RING", "LL", NULL}};
	void *handle;
	void *coll_event;

	sequence += !captured;
	stop(&launch_handle);
	if (strcmp(impl->label, "nccl_symmetric") != 0) {
		start(EVENT_GROUP, &group, &handle);
		coll.coll.parent_group = handle;
		coll.parent = coll_handle;
		if (strcmp(impl->op, "all_gather") == 0) {
			coll.coll.count = own_part(impl, bytes);
			coll.coll.datatype = "ncclInt8";
		}
		start(EVENT_COLL, &coll, &coll_event);
		stop(&coll_event);
		stop(&handle);
	}
	coll_handle = NULL;
	stop(&group_handle);
	nvtxDomainRangePop(domain);
}

void
scenario_nccl_close(void)
{
	if (plugin)
		plugin->finalize(context);
	plugin = NULL;
}
