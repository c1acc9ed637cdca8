/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profiler plugin of every interface version behind ours, under every NCCL that is not older than it.
 * Descriptors are written and read by the offsets of NCCL's own headers, not with the structs under test.
 */
#include "announce.h"
#include "chained_plugin.h"
#include "collective.h"
#include "instance_double.h"
#include "nccl/chain.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

extern const struct cs_nccl_profiler_v1 ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3;
extern const struct cs_nccl_profiler_v4 ncclProfiler_v4;
extern const struct cs_nccl_profiler_v5 ncclProfiler_v5, ncclProfiler_v6, ncclProfiler_v7;

/* Of a Coll event; 0: this version has no such field. */
struct coll_places {
	size_t name, hash, sequence, func, send, receive, count, root, datatype, traffic, channels, warps,
		algorithm, protocol, parent_group;
};

static const struct coll_places coll_at[] = {
	{0},
	{24, 32, 40, 48, 56, 64, 72, 80, 84, 96, 104, 105, 106, 107, 0},
	{24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 105, 112, 120, 0},
	{24, 32, 40, 48, 56, 64, 72, 80, 88, 0, 96, 97, 104, 112, 0},
	{0, 0, 24, 32, 40, 48, 56, 64, 72, 0, 80, 81, 88, 96, 0},
	{0, 0, 24, 32, 40, 48, 56, 64, 72, 0, 80, 81, 88, 96, 104},
	{0, 0, 24, 32, 40, 48, 56, 64, 72, 0, 80, 81, 88, 96, 104},
	{0, 0, 24, 32, 40, 48, 56, 64, 72, 0, 80, 81, 88, 96, 104},
};

/* Of a P2p event. */
struct p2p_places {
	size_t name, hash, func, buffer, datatype, count, peer, channels, parent_group;
};

static const struct p2p_places p2p_at[] = {
	{0},
	{24, 32, 40, 48, 56, 64, 72, 0, 0},
	{24, 32, 40, 48, 56, 64, 72, 0, 0},
	{24, 32, 40, 48, 56, 64, 72, 0, 0},
	{0, 0, 24, 32, 40, 48, 56, 60, 0},
	{0, 0, 24, 32, 40, 48, 56, 60, 64},
	{0, 0, 24, 32, 40, 48, 56, 60, 64},
	{0, 0, 24, 32, 40, 48, 56, 60, 64},
};

/* The event types of each version. */
static const unsigned int all_events[] = {0, 0x3f, 0x3f, 0xff, 0xff, 0xfff, 0x7fff, 0xffff};

static int send_buffer, receive_buffer, net_data;
static struct chained_plugin *plugin;
static uint64_t late_key;

static void
on_amend(uint64_t key, const struct cs_label *facts, uint32_t sequence)
{
	(void)facts;
	(void)sequence;
	late_key = key;
}

static int
setup(void **state)
{
	(void)state;
	late_key = 0;
	cs_announce_register_amend(on_amend);
	return instance_double_open();
}

static int
teardown(void **state)
{
	(void)state;
	instance_double_close();
	return 0;
}

/* Puts the plugin that has just these versions ("5", "24") behind ours. */
static void
chain(const char *versions)
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

static void
chain_version(unsigned int version)
{
	char versions[2] = {(char)('0' + version), '\0'};

	chain(versions);
}

/* -- NCCL
 * ------------------------------------------------------------------------------------------------------- */

/* The functions behind init have one type. */
static const struct cs_nccl_profiler_v5 *
ours(unsigned int version)
{
	static const void *const tables[] = {NULL, &ncclProfiler_v1, &ncclProfiler_v2, &ncclProfiler_v3,
		&ncclProfiler_v4, &ncclProfiler_v5, &ncclProfiler_v6, &ncclProfiler_v7};

	return tables[version];
}

static void *
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

/* NCCL's own is on its stack, no longer than it has to be. */
struct descriptor {
	unsigned char bytes[136];
};

static void
put(struct descriptor *descriptor, size_t offset, const void *value, size_t bytes)
{
	if (offset != 0)
		memcpy(descriptor->bytes + offset, value, bytes);
}

#define PUT(descriptor, offset, type, value) put(descriptor, offset, &(type){value}, sizeof(type))

static struct descriptor
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

static void *
start(unsigned int version, void *context, struct descriptor descriptor)
{
	void *handle = NULL;

	assert_int_equal(ours(version)->start_event(context, &handle, &descriptor), 0);
	return handle;
}

static void
stop(unsigned int version, void *handle)
{
	if (handle != NULL)
		assert_int_equal(ours(version)->stop_event(handle), 0);
}

static struct descriptor
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

static struct descriptor
p2p_of(unsigned int version, void *parent, void *group)
{
	const struct p2p_places *at = &p2p_at[version];
	struct descriptor p2p = descriptor_of(version, 0x4, version < 5 ? group : parent);

	PUT(&p2p, at->name, const char *, "tp");
	PUT(&p2p, at->hash, uint64_t, 0xabcdef);
	PUT(&p2p, at->buffer, void *, &receive_buffer);
	PUT(&p2p, at->count, size_t, 77);
	PUT(&p2p, at->peer, int, 2);
	PUT(&p2p, at->channels, uint8_t, 4);
	PUT(&p2p, at->parent_group, void *, group);
	if (version == 1) {
		PUT(&p2p, at->func, uint8_t, 7);
		PUT(&p2p, at->datatype, uint8_t, 7);
	} else {
		PUT(&p2p, at->func, const char *, "Recv");
		PUT(&p2p, at->datatype, const char *, "ncclFloat32");
	}
	return p2p;
}

/* The caller's part of one ncclAllReduce from version 5 on, and the launch in its middle. */
static struct descriptor
coll_api_of(unsigned int version, void *group_api)
{
	struct descriptor api = descriptor_of(version, 0x200, group_api);

	PUT(&api, 24, const char *, "AllReduce");
	PUT(&api, 32, size_t, 21504);
	PUT(&api, 40, const char *, "ncclBfloat16");
	return api;
}

/* Bytes that were announced for the launch that comes now; 0 none. */
static uint64_t
announced_bytes(void)
{
	struct cs_label label = {.bytes = CS_BYTES_UNKNOWN};
	uint32_t sequence = 0;

	return cs_announce_take(&label, &sequence) ? label.bytes : 0;
}

/* One all-reduce as NCCL of this version makes it, on the calling thread. What of it reaches our labels is
 * the same with any plugin behind ours. */
static void
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

/* -- what reached the plugin
 * ------------------------------------------------------------------------------------------ */

static uint64_t
get_u64(const struct chained_record *entry, size_t offset)
{
	uint64_t value;

	memcpy(&value, entry->event + offset, sizeof(value));
	return value;
}

static const void *
get_pointer(const struct chained_record *entry, size_t offset)
{
	const void *value;

	memcpy(&value, entry->event + offset, sizeof(value));
	return value;
}

static int
get_int(const struct chained_record *entry, size_t offset)
{
	int value;

	memcpy(&value, entry->event + offset, sizeof(value));
	return value;
}

static uint64_t
type_of(const struct chained_record *entry)
{
	return entry->version < 5 ? entry->event[0] : get_u64(entry, 0);
}

static unsigned int
calls(enum chained_call call)
{
	unsigned int found = 0;

	for (unsigned int i = 0; i < plugin->count; i++)
		found += plugin->records[i].call == call;
	return found;
}

/* The only event of this type; NULL there was none. */
static const struct chained_record *
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

static const struct chained_record *
state_of(int state)
{
	for (unsigned int i = 0; i < plugin->count; i++)
		if (plugin->records[i].call == CHAINED_STATE && plugin->records[i].state == state)
			return &plugin->records[i];
	return NULL;
}

/* Each handle that it gave came back at one stop, and none that it did not give. */
static void
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

/* -- every pair of versions
 * ------------------------------------------------------------------------------------------- */

struct traffic {
	unsigned int version;
	void *context;
	void *handles[16]; /* by bit */
};

/* What only the other plugin asked for: proxy and kernel events, on a thread of NCCL's. */
static void *
proxy_thread(void *argument)
{
	static const unsigned int parents[] = {
		[3] = 1, [4] = 3, [5] = 5, [6] = 1, [7] = 4, [12] = 9, [15] = 6};
	struct traffic *traffic = argument;
	unsigned int version = traffic->version;
	const struct cs_nccl_profiler_v5 *nccl = ours(version);

	for (unsigned int bit = 3; bit < 16; bit++) {
		void *parent = parents[bit] == bit ? NULL : traffic->handles[parents[bit]];
		struct descriptor event = descriptor_of(version, 1U << bit, parent);

		if ((bit > 7 && bit != 12 && bit != 15) || (all_events[version] & 1U << bit) == 0)
			continue;
		if (bit == 3) {
			PUT(&event, 24, int, 4711);
			PUT(&event, 28, uint8_t, 6);
			PUT(&event, 44, int, 1);
		} else if (bit == 4) {
			PUT(&event, 24, int, 12);
		} else if (bit == 6) {
			PUT(&event, 24, uint8_t, 9);
			if (version >= 4)
				PUT(&event, 32, uint64_t, 123456789);
		} else if (bit == 7) {
			PUT(&event, 24, int64_t, 1 << 16);
			PUT(&event, 32, void *, &net_data);
		}
		traffic->handles[bit] = start(version, traffic->context, event);
		assert_non_null(traffic->handles[bit]);
	}
	/* Versions 1 to 3 have {size_t, int} and {int}, later ones 8 bytes. */
	nccl->record_event_state(
		traffic->handles[4], 9, version < 4 ? (uint64_t[2]){512, 3} : (uint64_t[1]){512});
	nccl->record_event_state(
		traffic->handles[5], 17, version < 4 ? (uint64_t[2]){11} : (uint64_t[1]){11});
	if (version >= 4)
		nccl->record_event_state(traffic->handles[6], 22, &(uint64_t){987654321});
	if (version >= 6)
		nccl->record_event_state(traffic->handles[12], 25, NULL);
	for (unsigned int bit = 16; bit-- > 3;)
		if (bit <= 7 || bit == 12 || bit == 15)
			stop(version, traffic->handles[bit]);
	return NULL;
}

static void
play(unsigned int version, void *context)
{
	struct traffic traffic = {.version = version, .context = context};
	pthread_t thread;
	void *launch = NULL;

	if (version >= 5) {
		traffic.handles[8] = start(version, context, descriptor_of(version, 0x100, NULL));
		ours(version)->record_event_state(traffic.handles[8], 23, NULL);
		traffic.handles[9] = start(version, context, coll_api_of(version, traffic.handles[8]));
		stop(version, traffic.handles[9]);
		launch = start(version, context, descriptor_of(version, 0x800, traffic.handles[8]));
		assert_int_equal(announced_bytes(), 43008);
	}
	cs_announce_bind(55);
	stop(version, launch);
	traffic.handles[0] = start(version, context, descriptor_of(version, 0x1, NULL));
	traffic.handles[1] =
		start(version, context, coll_of(version, traffic.handles[9], traffic.handles[0]));
	traffic.handles[2] = start(version, context, p2p_of(version, NULL, traffic.handles[0]));
	assert_int_equal(pthread_create(&thread, NULL, proxy_thread, &traffic), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	stop(version, traffic.handles[1]);
	stop(version, traffic.handles[2]);
	stop(version, traffic.handles[0]);
	stop(version, traffic.handles[8]);
	assert_int_equal(late_key, 55);
}

static void
check_coll(unsigned int nccl, unsigned int theirs)
{
	const struct coll_places *at = &coll_at[theirs];
	const struct chained_record *coll = event_of(0x2);
	const void *group = event_of(0x1)->handle;

	assert_ptr_equal(get_pointer(coll, 8), theirs < 5 ? group : event_of(0x200)->handle);
	if (at->parent_group != 0)
		assert_ptr_equal(get_pointer(coll, at->parent_group), group);
	if (at->name != 0) {
		assert_string_equal(get_pointer(coll, at->name), "tp");
		assert_int_equal(get_u64(coll, at->hash), nccl < 4 ? 0xabcdef : 0xfeed);
	}
	if (at->traffic != 0)
		assert_int_equal(get_u64(coll, at->traffic), nccl < 3 ? 99 : 0);
	assert_int_equal(get_u64(coll, at->sequence), 41);
	assert_ptr_equal(get_pointer(coll, at->send), &send_buffer);
	assert_ptr_equal(get_pointer(coll, at->receive), &receive_buffer);
	assert_int_equal(get_u64(coll, at->count), 21504);
	assert_int_equal(get_int(coll, at->root), 3);
	assert_int_equal(coll->event[at->channels], 16);
	assert_int_equal(coll->event[at->warps], 8);
	if (theirs == 1) {
		assert_int_equal(coll->event[at->func], 4);
		assert_int_equal(coll->event[at->datatype], 9);
		assert_int_equal(coll->event[at->algorithm], 1);
		assert_int_equal(coll->event[at->protocol], 0);
		return;
	}
	assert_string_equal(get_pointer(coll, at->func), "AllReduce");
	assert_string_equal(get_pointer(coll, at->datatype), "ncclBfloat16");
	assert_string_equal(get_pointer(coll, at->algorithm), "RING");
	assert_string_equal(get_pointer(coll, at->protocol), "LL");
}

static void
check_p2p(unsigned int nccl, unsigned int theirs)
{
	const struct p2p_places *at = &p2p_at[theirs];
	const struct chained_record *p2p = event_of(0x4);

	assert_ptr_equal(get_pointer(p2p, 8), theirs < 5 ? event_of(0x1)->handle : NULL);
	if (at->parent_group != 0)
		assert_ptr_equal(get_pointer(p2p, at->parent_group), event_of(0x1)->handle);
	if (at->name != 0)
		assert_int_equal(get_u64(p2p, at->hash), nccl < 4 ? 0xabcdef : 0xfeed);
	assert_ptr_equal(get_pointer(p2p, at->buffer), &receive_buffer);
	assert_int_equal(get_u64(p2p, at->count), 77);
	assert_int_equal(get_int(p2p, at->peer), 2);
	if (at->channels != 0)
		assert_int_equal(p2p->event[at->channels], nccl < 4 ? 0 : 4);
	if (theirs == 1) {
		assert_int_equal(p2p->event[at->func], 7);
		assert_int_equal(p2p->event[at->datatype], 7);
		return;
	}
	assert_string_equal(get_pointer(p2p, at->func), "Recv");
	assert_string_equal(get_pointer(p2p, at->datatype), "ncclFloat32");
}

static void
check_proxy(unsigned int nccl, unsigned int theirs)
{
	const struct chained_record *op = event_of(0x8), *step = event_of(0x10), *kernel = event_of(0x40);
	const struct chained_record *net = event_of(0x80);

	assert_ptr_equal(get_pointer(op, 8), event_of(0x2)->handle);
	assert_int_equal(get_int(op, 24), 4711);
	assert_int_equal(op->event[28], 6);
	assert_int_equal(get_int(op, 44), 1);
	assert_ptr_equal(get_pointer(step, 8), op->handle);
	assert_int_equal(get_int(step, 24), 12);
	if (theirs < 3)
		return;
	assert_ptr_equal(get_pointer(kernel, 8), event_of(0x2)->handle);
	assert_int_equal(kernel->event[24], 9);
	if (nccl >= 4 && theirs >= 4)
		assert_int_equal(get_u64(kernel, 32), 123456789);
	assert_ptr_equal(get_pointer(net, 8), step->handle);
	assert_int_equal(get_u64(net, 24), 1 << 16);
	assert_ptr_equal(get_pointer(net, 32), &net_data);
}

static void
check_state(int state, const void *handle, bool expected, uint64_t first)
{
	const struct chained_record *entry = state_of(state);
	uint64_t value;

	if (!expected) {
		assert_null(entry);
		return;
	}
	assert_non_null(entry);
	assert_ptr_equal(entry->handle, handle);
	memcpy(&value, entry->arguments, sizeof(value));
	assert_int_equal(value, first);
}

static void
check_pair(unsigned int nccl, unsigned int theirs)
{
	unsigned int seen = 0;

	for (unsigned int i = 0; i < plugin->count; i++) {
		const struct chained_record *entry = &plugin->records[i];

		assert_int_equal(entry->version, theirs);
		if (entry->call != CHAINED_START)
			continue;
		assert_ptr_equal(entry->context, plugin->records[0].context);
		assert_int_equal(get_int(entry, 16), 5);
		seen |= (unsigned int)type_of(entry);
	}
	/* P2pApi, CeSync and CeBatch were not played. */
	assert_int_equal(seen, all_events[theirs] & all_events[nccl] & ~0x6400U);
	check_coll(nccl, theirs);
	check_p2p(nccl, theirs);
	check_proxy(nccl, theirs);
	check_stops();
	/* From version 4 to an older one the sizes of a step were moved elsewhere: none. */
	check_state(9, event_of(0x10)->handle, true, nccl >= 4 && theirs < 4 ? 0 : 512);
	check_state(17, event_of(0x20)->handle, true, 11);
	check_state(22, theirs < 3 ? NULL : event_of(0x40)->handle, theirs >= 4, 987654321);
	check_state(23, theirs < 5 ? NULL : event_of(0x100)->handle, theirs >= 5, 0);
	check_state(25, theirs < 6 ? NULL : event_of(0x1000)->handle, theirs >= 6, 0);
	if (theirs >= 5) {
		assert_ptr_equal(get_pointer(event_of(0x200), 8), event_of(0x100)->handle);
		assert_string_equal(get_pointer(event_of(0x200), 24), "AllReduce");
	}
}

static void
every_plugin_hears_every_nccl(void **state)
{
	(void)state;
	for (unsigned int nccl = 1; nccl <= 7; nccl++)
		for (unsigned int theirs = 1; theirs <= nccl; theirs++) {
			const struct chained_record *init;
			int mask = 0;
			void *context;

			chain_version(theirs);
			context = nccl_init(nccl, 0xfeed, &mask);
			init = &plugin->records[0];
			assert_int_equal(calls(CHAINED_INIT), 1);
			/* What it asked for and its version has, and ours. */
			assert_int_equal(mask, (int)(all_events[theirs] | (nccl < 5 ? 0x3U : 0xf02U)));
			if (theirs >= 4) {
				assert_string_equal(init->name, "tp");
				assert_int_equal(init->hash, 0xfeed);
				assert_int_equal(init->ranks, 8);
				assert_int_equal(init->rank, 5);
				assert_int_equal(init->nodes, 1);
			}
			play(nccl, context);
			check_pair(nccl, theirs);
			assert_int_equal(ours(nccl)->finalize(context), 0);
			assert_int_equal(calls(CHAINED_FINALIZE), 1);
			assert_ptr_equal(plugin->records[plugin->count - 1].context, init->context);
		}
}

/* ncclProfilerEventState_t: 18 ProxyCtrlAppendEnd, 19 and 20 of version 4, 22 KernelChStop, 24
 * GroupEndApiStart, 30 CeBatchComplete. */
static void
states_that_a_version_lacks_are_kept_from_it(void **state)
{
	static const int states[] = {8, 18, 19, 20, 22, 23, 24, 25, 30, 31};
	static const int last[] = {0, 18, 18, 18, 22, 24, 30, 31};

	(void)state;
	for (unsigned int theirs = 1; theirs <= 7; theirs++) {
		int mask = 0;
		void *context, *coll;

		chain_version(theirs);
		context = nccl_init(7, 11, &mask);
		coll = start(7, context, coll_of(7, NULL, NULL));
		for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
			ours(7)->record_event_state(coll, states[i], &(uint64_t){7});
		stop(7, coll);
		for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
			assert_int_equal(state_of(states[i]) != NULL, states[i] <= last[theirs]);
		ours(7)->finalize(context);
	}
}

static void
words_that_version_1_lacks_become_what_nccl_makes_of_them(void **state)
{
	struct descriptor coll;
	int mask = 0;
	void *context;

	(void)state;
	chain_version(1);
	context = nccl_init(7, 1, &mask);
	coll = coll_of(7, NULL, NULL);
	PUT(&coll, 32, const char *, "AlltoAllv");
	PUT(&coll, 72, const char *, "Unknown");
	PUT(&coll, 88, const char *, "AGxLL_R");
	PUT(&coll, 96, const char *, "");
	stop(7, start(7, context, coll));
	assert_int_equal(event_of(0x2)->event[48], 6);
	assert_int_equal(event_of(0x2)->event[84], 8);
	assert_int_equal(event_of(0x2)->event[106], 6);
	assert_int_equal(event_of(0x2)->event[107], 2);
	ours(7)->finalize(context);
}

static void
the_newest_version_that_both_have_is_spoken(void **state)
{
	static const unsigned int expected[] = {0, 0, 2, 2, 4, 4, 4, 4};

	(void)state;
	chain("24");
	for (unsigned int nccl = 1; nccl <= 7; nccl++)
		assert_int_equal(cs_nccl_chain_version(nccl), expected[nccl]);
}

/* -- plugins that are not like others
 * -------------------------------------------------------------------------------- */

static void
a_plugin_that_is_too_new_is_refused_and_ours_works(void **state)
{
	char said[512] = {0};
	int fd, saved, mask = 0;
	char path[] = "/tmp/collscope-said-XXXXXX";
	void *context;

	(void)state;
	chain_version(7);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	saved = dup(STDERR_FILENO);
	dup2(fd, STDERR_FILENO);
	context = nccl_init(5, 2, &mask);
	ours(5)->finalize(nccl_init(5, 3, &mask));
	dup2(saved, STDERR_FILENO);
	assert_true(pread(fd, said, sizeof(said) - 1, 0) > 0);
	/* Once. */
	assert_ptr_equal(strstr(said, "only newer ones"), strrchr(said, '"') + 2);
	close(fd);
	close(saved);
	unlink(path);
	assert_int_equal(mask, 0xf02);
	all_reduce(5, context);
	ours(5)->finalize(context);
	assert_int_equal(plugin->count, 0);
}

static void
a_context_of_null_is_a_context(void **state)
{
	int mask = 0;
	void *context;

	(void)state;
	for (unsigned int nccl = 1; nccl <= 7; nccl++) {
		chain_version(nccl);
		plugin->null_context = true;
		context = nccl_init(nccl, 4, &mask);
		all_reduce(nccl, context);
		assert_int_equal(calls(CHAINED_START), nccl < 5 ? 2 : 6);
		assert_null(plugin->records[1].context);
		/* NCCL finalizes no context of NULL. */
		ours(nccl)->finalize(context);
		assert_int_equal(calls(CHAINED_FINALIZE), 0);
	}
}

static void
a_plugin_whose_init_fails_is_left_alone(void **state)
{
	int mask = 0;
	void *context;

	(void)state;
	for (unsigned int nccl = 1; nccl <= 7; nccl++) {
		chain_version(nccl);
		plugin->fail = true;
		context = nccl_init(nccl, 5, &mask);
		assert_int_equal(mask, nccl < 5 ? 0x3 : 0xf02);
		all_reduce(nccl, context);
		ours(nccl)->finalize(context);
		assert_int_equal(plugin->count, 1);
	}
}

/* Plugins that fill the mask at their first init alone rely on NCCL's one integer for all communicators. */
static void
two_communicators_share_a_mask_and_nothing_else(void **state)
{
	(void)state;
	for (unsigned int nccl = 1; nccl <= 7; nccl++) {
		int our_mask = nccl < 5 ? 0x3 : 0xf02;
		int mask = 0;
		void *one, *two;

		chain_version(nccl);
		plugin->mask_once = true;
		plugin->mask = 0x10;
		one = nccl_init(nccl, 6, &mask);
		assert_int_equal(mask, our_mask | 0x10);
		two = nccl_init(nccl, 7, &mask);
		assert_int_equal(mask, our_mask | 0x10);
		assert_ptr_not_equal(one, two);
		all_reduce(nccl, one);
		all_reduce(nccl, two);
		ours(nccl)->finalize(one);
		all_reduce(nccl, two);
		ours(nccl)->finalize(two);
		assert_int_equal(calls(CHAINED_INIT), 2);
		assert_int_equal(calls(CHAINED_FINALIZE), 2);
		for (unsigned int i = 0, starts = 0; i < plugin->count; i++) {
			unsigned int each = nccl < 5 ? 2 : 6;

			if (plugin->records[i].call != CHAINED_START)
				continue;
			assert_ptr_equal(
				plugin->records[i].context, plugin->records[starts++ < each ? 0 : 1].context);
		}
	}
}

/* As NCCL's example plugin does when it is told to start and stop. */
static void
a_mask_that_changes_later_reaches_nccl(void **state)
{
	int mask = 0;
	void *context;

	(void)state;
	for (unsigned int nccl = 1; nccl <= 7; nccl++) {
		int our_mask = nccl < 5 ? 0x3 : 0xf02;

		chain_version(nccl);
		plugin->mask = 0;
		context = nccl_init(nccl, 8, &mask);
		assert_int_equal(mask, our_mask);
		*plugin->mask_place = 0x18;
		all_reduce(nccl, context);
		assert_int_equal(mask, our_mask | 0x18);
		/* Somebody else's change of NCCL's mask (2.31's RAS) stays. */
		mask = 0x1ff;
		all_reduce(nccl, context);
		assert_int_equal(mask, 0x1ff);
		*plugin->mask_place = 0;
		all_reduce(nccl, context);
		assert_int_equal(mask, our_mask);
		ours(nccl)->finalize(context);
	}
}

static void
handles_may_be_anything(void **state)
{
	static const enum chained_handles kinds[] = {CHAINED_SAME, CHAINED_NUMBER, CHAINED_NULL};

	(void)state;
	for (unsigned int nccl = 1; nccl <= 7; nccl++)
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
			int mask = 0;
			void *context;

			chain_version(nccl);
			plugin->handles = kinds[i];
			context = nccl_init(nccl, 9, &mask);
			all_reduce(nccl, context);
			all_reduce(nccl, context);
			assert_int_equal(calls(CHAINED_START), nccl < 5 ? 4 : 12);
			assert_int_equal(
				calls(CHAINED_STOP), kinds[i] == CHAINED_NULL ? 0 : calls(CHAINED_START));
			for (unsigned int at = 0; at < plugin->count; at++)
				if (plugin->records[at].call == CHAINED_START) {
					const void *parent = get_pointer(&plugin->records[at], 8);

					assert_true(
						parent == NULL ||
						(kinds[i] == CHAINED_SAME && parent == (const void *)plugin));
				}
			ours(nccl)->finalize(context);
		}
}

struct started {
	unsigned int version, count;
	void *handles[100];
};

static void *
stop_all(void *argument)
{
	struct started *started = argument;

	for (unsigned int i = 0; i < started->count; i++)
		stop(started->version, started->handles[i]);
	return NULL;
}

/* KernelCh of a whole graph: started by one thread, stopped by another. */
static void
events_may_end_on_another_thread(void **state)
{
	(void)state;
	for (unsigned int nccl = 3; nccl <= 7; nccl++) {
		struct started started = {.version = nccl};
		int mask = 0;
		void *context;
		pthread_t thread;

		chain_version(nccl);
		context = nccl_init(nccl, 10, &mask);
		for (; started.count < 100; started.count++)
			started.handles[started.count] =
				start(nccl, context, descriptor_of(nccl, 0x40, NULL));
		assert_int_equal(pthread_create(&thread, NULL, stop_all, &started), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(calls(CHAINED_STOP), 100);
		all_reduce(nccl, context);
		check_stops();
		ours(nccl)->finalize(context);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_plugin_hears_every_nccl, setup, teardown),
		cmocka_unit_test_setup_teardown(
			states_that_a_version_lacks_are_kept_from_it, setup, teardown),
		cmocka_unit_test_setup_teardown(
			words_that_version_1_lacks_become_what_nccl_makes_of_them, setup, teardown),
		cmocka_unit_test(the_newest_version_that_both_have_is_spoken),
		cmocka_unit_test_setup_teardown(
			a_plugin_that_is_too_new_is_refused_and_ours_works, setup, teardown),
		cmocka_unit_test_setup_teardown(a_context_of_null_is_a_context, setup, teardown),
		cmocka_unit_test_setup_teardown(a_plugin_whose_init_fails_is_left_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(
			two_communicators_share_a_mask_and_nothing_else, setup, teardown),
		cmocka_unit_test_setup_teardown(a_mask_that_changes_later_reaches_nccl, setup, teardown),
		cmocka_unit_test_setup_teardown(handles_may_be_anything, setup, teardown),
		cmocka_unit_test_setup_teardown(events_may_end_on_another_thread, setup, teardown),
	};

	return cmocka_run_group_tests_name("nccl chain", tests, NULL, NULL);
}
