/* SPDX-License-Identifier: Apache-2.0 */
#include "chain_world.h"

#include "collective.h"
#include "instance_double.h"
#include "labels/announce.h"
#include "nccl/chain.h"

#include <dlfcn.h>
#include <stdio.h>

extern const struct cs_nccl_profiler_v1 ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3;
extern const struct cs_nccl_profiler_v4 ncclProfiler_v4;
extern const struct cs_nccl_profiler_v5 ncclProfiler_v5, ncclProfiler_v6, ncclProfiler_v7;

const struct coll_places coll_at[] = {
	{0},
	{24, 32, 40, 48, 56, 64, 72, 80, 84, 96, 104, 105, 106, 107, 0},
	{24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 105, 112, 120, 0},
	{24, 32, 40, 48, 56, 64, 72, 80, 88, 0, 96, 97, 104, 112, 0},
	{0, 0, 24, 32, 40, 48, 56, 64, 72, 0, 80, 81, 88, 96, 0},
	{0, 0, 24, 32, 40, 48, 56, 64, 72, 0, 80, 81, 88, 96, 104},
	{0, 0, 24, 32, 40, 48, 56, 64, 72, 0, 80, 81, 88, 96, 104},
	{0, 0, 24, 32, 40, 48, 56, 64, 72, 0, 80, 81, 88, 96, 104},
};

const unsigned int all_events[] = {0, 0x3f, 0x3f, 0xff, 0xff, 0xfff, 0x7fff, 0xffff};

int send_buffer, receive_buffer;
struct chained_plugin *plugin;
uint64_t late_key;

static void
on_amend(uint64_t key, const struct cs_label *facts, uint32_t sequence)
{
	(void)facts;
	(void)sequence;
	late_key = key;
}

int
chain_setup(void **state)
{
	(void)state;
	late_key = 0;
	cs_announce_register_amend(on_amend);
	return instance_double_open();
}

int
chain_teardown(void **state)
{
	(void)state;
	instance_double_close();
	return 0;
}

void
chain_load(const char *versions)
{
	char path[4096];
	void *library;

	snprintf(path, sizeof(path), "%s/libchained_plugin_%s.so", CS_CHAINED_PLUGINS, versions);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(library);
	plugin = dlsym(library, "chained_plugin");
	assert_non_null(plugin);
	memset(plugin, 0, sizeof(*plugin));
	plugin->mask = 0xffff;
	assert_int_equal(cs_nccl_chain_load(path), 0);
}

void
chain_load_version(unsigned int version)
{
	char versions[2] = {(char)('0' + version), '\0'};

	chain_load(versions);
}
/* -- NCCL ---------------------------------------------------------------------------------------------- */

const struct cs_nccl_profiler_v5 *
ours(unsigned int version)
{
	static const void *const tables[] = {NULL, &ncclProfiler_v1, &ncclProfiler_v2, &ncclProfiler_v3,
		&ncclProfiler_v4, &ncclProfiler_v5, &ncclProfiler_v6, &ncclProfiler_v7};

	return tables[version];
}

void *
nccl_init(unsigned int version, uint64_t hash, int *mask)
{
	void *context = NULL;
	int result;

	if (version < 4)
		result = ((const struct cs_nccl_profiler_v1 *)(const void *)ours(version))
				 ->init(&context, mask);
	else if (version == 4)
		result = ncclProfiler_v4.init(&context, mask, "tp", hash, 1, 8, 5, NULL);
	else
		result = ours(version)->init(&context, hash, mask, "tp", 1, 8, 5, NULL);
	assert_int_equal(result, 0);
	assert_non_null(context);
	return context;
}

void
put(struct descriptor *descriptor, size_t offset, const void *value, size_t bytes)
{
	if (offset != 0)
		memcpy(descriptor->bytes + offset, value, bytes);
}

struct descriptor
descriptor_of(unsigned int version, unsigned int type, void *parent)
{
	struct descriptor descriptor = {0};

	if (version < 5)
		descriptor.bytes[0] = (unsigned char)type;
	else
		memcpy(descriptor.bytes, &(uint64_t){type}, sizeof(uint64_t));
	PUT(&descriptor, 8, void *, parent);
	PUT(&descriptor, 16, int, 5);
	return descriptor;
}

void *
start(unsigned int version, void *context, struct descriptor descriptor)
{
	void *handle = NULL;

	assert_int_equal(ours(version)->start_event(context, &handle, &descriptor), 0);
	return handle;
}

void
stop(unsigned int version, void *handle)
{
	if (handle != NULL)
		assert_int_equal(ours(version)->stop_event(handle), 0);
}

struct descriptor
coll_of(unsigned int version, void *parent, void *group)
{
	const struct coll_places *at = &coll_at[version];
	struct descriptor coll = descriptor_of(version, 0x2, version < 5 ? group : parent);

	PUT(&coll, at->name, const char *, "tp");
	PUT(&coll, at->hash, uint64_t, 0xabcdef);
	PUT(&coll, at->sequence, uint64_t, 41);
	PUT(&coll, at->send, const void *, &send_buffer);
	PUT(&coll, at->receive, void *, &receive_buffer);
	PUT(&coll, at->count, size_t, 21504);
	PUT(&coll, at->root, int, 3);
	PUT(&coll, at->traffic, size_t, 99);
	PUT(&coll, at->channels, uint8_t, 16);
	PUT(&coll, at->warps, uint8_t, 8);
	PUT(&coll, at->parent_group, void *, group);
	if (version == 1) {
		PUT(&coll, at->func, uint8_t, 4);
		PUT(&coll, at->datatype, uint8_t, 9);
		PUT(&coll, at->algorithm, uint8_t, 1);
		PUT(&coll, at->protocol, uint8_t, 0);
	} else {
		PUT(&coll, at->func, const char *, "AllReduce");
		PUT(&coll, at->datatype, const char *, "ncclBfloat16");
		PUT(&coll, at->algorithm, const char *, "RING");
		PUT(&coll, at->protocol, const char *, "LL");
	}
	return coll;
}

/* The caller's part of one ncclAllReduce from version 5 on, and the launch in its middle. */
struct descriptor
coll_api_of(unsigned int version, void *group_api)
{
	struct descriptor api = descriptor_of(version, 0x200, group_api);

	PUT(&api, 24, const char *, "AllReduce");
	PUT(&api, 32, size_t, 21504);
	PUT(&api, 40, const char *, "ncclBfloat16");
	return api;
}

uint64_t
announced_bytes(void)
{
	struct cs_label label = {.bytes = CS_BYTES_UNKNOWN};
	uint32_t sequence = 0;

	return cs_announce_take(&label, &sequence) ? label.bytes : 0;
}

void
all_reduce(unsigned int version, void *context)
{
	void *group_api = NULL, *api = NULL, *launch = NULL, *group, *coll;

	late_key = 0;
	if (version >= 5) {
		group_api = start(version, context, descriptor_of(version, 0x100, NULL));
		assert_non_null(group_api);
		ours(version)->record_event_state(group_api, 23, NULL);
		api = start(version, context, coll_api_of(version, group_api));
		stop(version, api);
		ours(version)->record_event_state(group_api, 24, NULL);
		launch = start(version, context, descriptor_of(version, 0x800, group_api));
		assert_int_equal(announced_bytes(), 43008);
	}
	cs_announce_bind(7000 + version);
	stop(version, launch);
	group = start(version, context, descriptor_of(version, 0x1, NULL));
	assert_non_null(group);
	coll = start(version, context, coll_of(version, api, group));
	stop(version, coll);
	stop(version, group);
	assert_int_equal(late_key, 7000 + version);
	if (version >= 5) {
		/* Announced and not launched: forgotten at the end of the outermost call, not sooner and not
		 * later. */
		stop(version, start(version, context, coll_api_of(version, group_api)));
		stop(version, group_api);
	}
	assert_int_equal(announced_bytes(), 0);
}
/* -- what reached the plugin --------------------------------------------------------------------------- */

uint64_t
get_u64(const struct chained_record *entry, size_t offset)
{
	uint64_t value;

	memcpy(&value, entry->event + offset, sizeof(value));
	return value;
}

const void *
get_pointer(const struct chained_record *entry, size_t offset)
{
	const void *value;

	memcpy(&value, entry->event + offset, sizeof(value));
	return value;
}

int
get_int(const struct chained_record *entry, size_t offset)
{
	int value;

	memcpy(&value, entry->event + offset, sizeof(value));
	return value;
}

uint64_t
type_of(const struct chained_record *entry)
{
	return entry->version < 5 ? entry->event[0] : get_u64(entry, 0);
}

unsigned int
calls(enum chained_call call)
{
	unsigned int found = 0;

	for (unsigned int i = 0; i < plugin->count; i++)
		found += plugin->records[i].call == call;
	return found;
}

const struct chained_record *
event_of(unsigned int type)
{
	const struct chained_record *found = NULL;

	for (unsigned int i = 0; i < plugin->count; i++) {
		if (plugin->records[i].call != CHAINED_START || type_of(&plugin->records[i]) != type)
			continue;
		assert_null(found);
		found = &plugin->records[i];
	}
	return found;
}

const struct chained_record *
state_of(int state)
{
	for (unsigned int i = 0; i < plugin->count; i++)
		if (plugin->records[i].call == CHAINED_STATE && plugin->records[i].state == state)
			return &plugin->records[i];
	return NULL;
}

void
check_stops(void)
{
	for (unsigned int i = 0; i < plugin->count; i++) {
		unsigned int stops = 0;

		if (plugin->records[i].call != CHAINED_START)
			continue;
		for (unsigned int j = i; j < plugin->count; j++)
			stops += plugin->records[j].call == CHAINED_STOP &&
				 plugin->records[j].handle == plugin->records[i].handle;
		assert_int_equal(stops, 1);
	}
	assert_int_equal(calls(CHAINED_STOP), calls(CHAINED_START));
}
