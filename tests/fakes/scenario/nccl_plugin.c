/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profiler plugin as NCCL drives it: looked for and called by the newest interface version that the
 * release knows, with that version's descriptors. Layouts are facts of NCCL's
 * src/include/plugin/profiler/profiler_v1.h ... v7.h. What a version does not have is filled with 0xee, so
 * that a plugin that reads it is found out.
 */
#include "nccl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_GROUP         (1 << 0)
#define EVENT_COLL          (1 << 1)
#define EVENT_GROUP_API     (1 << 8)
#define EVENT_COLL_API      (1 << 9)
#define EVENT_KERNEL_LAUNCH (1 << 11)
#define STATE_GROUP_START   23 /* GroupStartApiStop */
#define STATE_GROUP_END     24 /* GroupEndApiStart */
#define WARPS               16U
#define NOTHING             0xee

struct coll_v1 {
	const char *name;
	uint64_t comm_hash;
	uint64_t sequence;
	uint8_t func;
	const void *send;
	void *receive;
	size_t count;
	int root;
	uint8_t datatype;
	uint32_t op;
	size_t traffic_bytes;
	uint8_t channels_max;
	uint8_t warps;
	uint8_t algorithm;
	uint8_t protocol;
	int is_collnet;
	int is_nvls;
};

/* v3 is without traffic_bytes. */
struct coll_v2 {
	const char *name;
	uint64_t comm_hash;
	uint64_t sequence;
	const char *func;
	const void *send;
	void *receive;
	size_t count;
	int root;
	const char *datatype;
	size_t traffic_bytes;
	uint8_t channels_max;
	uint8_t warps;
	const char *algorithm;
	const char *protocol;
};

struct coll_v3 {
	const char *name;
	uint64_t comm_hash;
	uint64_t sequence;
	const char *func;
	const void *send;
	void *receive;
	size_t count;
	int root;
	const char *datatype;
	uint8_t channels_max;
	uint8_t warps;
	const char *algorithm;
	const char *protocol;
};

struct coll_v4 {
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
	void *parent_group;         /* from v5 on */
	const char *kernel_variant; /* from v7 on */
	bool symmetric;
	uint64_t user_tag;
};

struct descriptor_v1 { /* to v4 */
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct coll_v1 v1;
		struct coll_v2 v2;
		struct coll_v3 v3;
		struct coll_v4 v4;
		char room[160];
	} coll;
};

struct descriptor_v5 { /* to v7 */
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
			uint64_t user_tag; /* from v7 on */
		} coll_api;
		struct {
			void *stream;
		} kernel_launch;
		struct coll_v4 coll;
		char room[160];
	};
};

typedef void (*logger)(int level, unsigned long flags, const char *file, int line, const char *format, ...);

struct plugin {
	const char *name;
	/* In each version with arguments of its own. */
	union {
		int (*v1)(void **context, int *mask);
		int (*v4)(void **context, int *mask, const char *comm_name, uint64_t comm_hash, int nodes,
			int ranks, int rank, logger log);
		int (*v5)(void **context, uint64_t comm_id, int *mask, const char *comm_name, int nodes,
			int ranks, int rank, logger log);
	} init;
	int (*start)(void *context, void **handle, void *descriptor);
	int (*stop)(void *handle);
	int (*state)(void *handle, int state, void *arguments);
	int (*finalize)(void *context);
};

static const struct plugin *plugin;
static unsigned int version;
static int mask; /* one for the process: each init may set it anew */

static void
quiet_log(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
	(void)level;
	(void)flags;
	(void)file;
	(void)line;
	(void)format;
}

/* The newest interface of a release. */
static unsigned int
interface_of(uint32_t nccl)
{
	static const unsigned int versions[] = {1, 2, 2, 3, 4, 5, 6, 6, 7}; /* of 2.23 and on */

	return versions[nccl / 100 % 100 - 23];
}

void
nccl_plugin_open(uint32_t nccl)
{
	const char *path = getenv("NCCL_PROFILER_PLUGIN");
	void *library;
	char name[32];

	if (!path || strcmp(path, "none") == 0)
		return;
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	for (version = interface_of(nccl); library && !plugin && version > 0; version -= !plugin) {
		snprintf(name, sizeof(name), "ncclProfiler_v%u", version);
		plugin = dlsym(library, name);
	}
}

void
nccl_plugin_close(void)
{
	plugin = NULL;
}

unsigned int
nccl_plugin_version(void)
{
	return plugin ? version : 0;
}

void
nccl_plugin_comm(struct nccl_comm *comm)
{
	if (!plugin)
		return;
	if (version < 4)
		plugin->init.v1(&comm->context, &mask);
	else if (version == 4)
		plugin->init.v4(
			&comm->context, &mask, NULL, comm->hash, 1, comm->world, comm->rank, quiet_log);
	else
		plugin->init.v5(
			&comm->context, comm->hash, &mask, NULL, 1, comm->world, comm->rank, quiet_log);
}

void
nccl_plugin_comm_end(struct nccl_comm *comm)
{
	if (plugin)
		plugin->finalize(comm->context);
}

/* An event comes when it was asked for, and as the parent of one that was. */
static bool
wanted(int type)
{
	int asked = mask;

	if (!plugin || (version < 5 && type >= EVENT_GROUP_API))
		return false;
	if (asked & EVENT_COLL)
		asked |= EVENT_GROUP | EVENT_COLL_API;
	if (asked & (EVENT_COLL_API | EVENT_KERNEL_LAUNCH | EVENT_GROUP))
		asked |= EVENT_GROUP_API;
	return asked & type;
}

static void *
start(const struct nccl_comm *comm, int type, struct descriptor_v5 *descriptor, void *parent)
{
	void *handle = NULL;

	descriptor->type = (uint64_t)type;
	descriptor->parent = parent;
	descriptor->rank = comm->rank;
	plugin->start(comm->context, &handle, descriptor);
	return handle;
}

static void *
start_legacy(const struct nccl_comm *comm, int type, struct descriptor_v1 *descriptor, void *parent)
{
	void *handle = NULL;

	descriptor->type = (uint8_t)type;
	descriptor->parent = parent;
	descriptor->rank = comm->rank;
	plugin->start(comm->context, &handle, descriptor);
	return handle;
}

void *
nccl_plugin_group_api(const struct nccl_comm *comm, bool captured, int depth)
{
	struct descriptor_v5 descriptor;

	if (!wanted(EVENT_GROUP_API))
		return NULL;
	memset(&descriptor, NOTHING, sizeof(descriptor));
	descriptor.group_api.graph_captured = captured;
	descriptor.group_api.depth = depth;
	return start(comm, EVENT_GROUP_API, &descriptor, NULL);
}

void *
nccl_plugin_coll_api(const struct nccl_call *call, void *group_api)
{
	struct descriptor_v5 descriptor;

	if (!wanted(EVENT_COLL_API))
		return NULL;
	memset(&descriptor, NOTHING, sizeof(descriptor));
	descriptor.coll_api.func = call->op->impl->func;
	descriptor.coll_api.count = nccl_part_bytes(call) / call->op->dtype->bytes;
	descriptor.coll_api.datatype = call->op->dtype->text;
	descriptor.coll_api.root = 0;
	descriptor.coll_api.stream = call->stream;
	descriptor.coll_api.graph_captured = call->captured;
	if (version >= 7)
		descriptor.coll_api.user_tag = 0;
	return start(call->comm, EVENT_COLL_API, &descriptor, group_api);
}

void *
nccl_plugin_launch(const struct nccl_call *call, void *group_api)
{
	struct descriptor_v5 descriptor;

	if (!wanted(EVENT_KERNEL_LAUNCH))
		return NULL;
	memset(&descriptor, NOTHING, sizeof(descriptor));
	descriptor.kernel_launch.stream = call->stream;
	return start(call->comm, EVENT_KERNEL_LAUNCH, &descriptor, group_api);
}

/* Told of a plan, with nothing in it. */
void *
nccl_plugin_group(const struct nccl_call *call)
{
	struct descriptor_v1 legacy;
	struct descriptor_v5 descriptor;

	if (!wanted(EVENT_GROUP))
		return NULL;
	memset(&legacy, NOTHING, sizeof(legacy));
	memset(&descriptor, NOTHING, sizeof(descriptor));
	return version < 5 ? start_legacy(call->comm, EVENT_GROUP, &legacy, NULL)
			   : start(call->comm, EVENT_GROUP, &descriptor, NULL);
}

/* What is run: broadcast and all-gather have become copies of bytes by now. */
static size_t
run_count(const struct nccl_call *call, const struct scenario_word **dtype)
{
	static const struct scenario_word byte = {"i8", "ncclInt8", 0, "int8", 1, "u8"};
	uint8_t function = nccl_function(call->op->impl);

	*dtype = function == 0 || function == 2 ? &byte : call->op->dtype;
	return nccl_part_bytes(call) / (*dtype)->bytes;
}

static void
fill_v1(const struct nccl_call *call, struct coll_v1 *coll)
{
	const struct scenario_word *dtype;

	*coll = (struct coll_v1){.comm_hash = call->comm->hash,
		.sequence = call->comm->sequence[nccl_function(call->op->impl)],
		.func = nccl_function(call->op->impl),
		.count = run_count(call, &dtype),
		.datatype = dtype->number,
		.traffic_bytes = nccl_part_bytes(call),
		.channels_max = NCCL_CHANNELS,
		.warps = WARPS,
		.algorithm = call->op->algorithm->number,
		.protocol = call->op->protocol->number};
}

static void
fill_v2(const struct nccl_call *call, struct coll_v2 *coll)
{
	const struct scenario_word *dtype;

	*coll = (struct coll_v2){.comm_hash = call->comm->hash,
		.sequence = call->comm->sequence[nccl_function(call->op->impl)],
		.func = call->op->impl->func,
		.count = run_count(call, &dtype),
		.datatype = dtype->text,
		.traffic_bytes = nccl_part_bytes(call),
		.channels_max = NCCL_CHANNELS,
		.warps = WARPS,
		.algorithm = call->op->algorithm->text,
		.protocol = call->op->protocol->text};
}

static void
fill_v3(const struct nccl_call *call, struct coll_v3 *coll)
{
	const struct scenario_word *dtype;

	*coll = (struct coll_v3){.comm_hash = call->comm->hash,
		.sequence = call->comm->sequence[nccl_function(call->op->impl)],
		.func = call->op->impl->func,
		.count = run_count(call, &dtype),
		.datatype = dtype->text,
		.channels_max = NCCL_CHANNELS,
		.warps = WARPS,
		.algorithm = call->op->algorithm->text,
		.protocol = call->op->protocol->text};
}

static void
fill_v4(const struct nccl_call *call, struct coll_v4 *coll, void *group, bool head)
{
	const struct scenario_word *dtype;
	bool symmetric = call->op->impl->symmetric;

	coll->sequence = call->comm->sequence[nccl_function(call->op->impl)];
	coll->func = call->op->impl->func;
	coll->send = NULL;
	coll->receive = NULL;
	coll->count = run_count(call, &dtype);
	coll->root = 0;
	coll->datatype = dtype->text;
	/* The channels of a symmetric kernel are told with the first collective in it. */
	coll->channels = symmetric && !head ? 0 : NCCL_CHANNELS;
	coll->warps = WARPS;
	/* Its algorithm is its variant, and it has no protocol. */
	coll->algorithm = symmetric ? strchr(call->op->variant->text, '_') + 1 : call->op->algorithm->text;
	coll->protocol = symmetric ? "" : call->op->protocol->text;
	if (version >= 5)
		coll->parent_group = group;
	if (version >= 7) {
		coll->kernel_variant = symmetric ? call->op->variant->text : NULL;
		coll->symmetric = symmetric;
		coll->user_tag = 0;
	}
}

/* Before v5 a collective is told only inside a group that got a handle. */
void *
nccl_plugin_coll(const struct nccl_call *call, void *coll_api, void *group, bool head)
{
	struct descriptor_v1 legacy;
	struct descriptor_v5 descriptor;

	if (!wanted(EVENT_COLL) || (version < 5 && !group))
		return NULL;
	memset(&legacy, NOTHING, sizeof(legacy));
	memset(&descriptor, NOTHING, sizeof(descriptor));
	if (version == 1)
		fill_v1(call, &legacy.coll.v1);
	else if (version == 2)
		fill_v2(call, &legacy.coll.v2);
	else if (version == 3)
		fill_v3(call, &legacy.coll.v3);
	else if (version == 4)
		fill_v4(call, &legacy.coll.v4, NULL, head);
	else
		fill_v4(call, &descriptor.coll, group, head);
	return version < 5 ? start_legacy(call->comm, EVENT_COLL, &legacy, group)
			   : start(call->comm, EVENT_COLL, &descriptor, coll_api);
}

void
nccl_plugin_group_started(void *group_api)
{
	if (plugin && group_api)
		plugin->state(group_api, STATE_GROUP_START, NULL);
}

void
nccl_plugin_group_ends(void *group_api)
{
	if (plugin && group_api)
		plugin->state(group_api, STATE_GROUP_END, NULL);
}

void
nccl_plugin_stop(void *handle)
{
	if (plugin && handle)
		plugin->stop(handle);
}
