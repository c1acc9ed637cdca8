/* SPDX-License-Identifier: Apache-2.0 */
/* A profiler plugin of every interface version behind ours, under every NCCL that is not older than it. */
#include "chain_world.h"

#include "labels/announce.h"
#include "nccl/chain.h"

#include <pthread.h>

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

static int net_data;

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

			chain_load_version(theirs);
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

		chain_load_version(theirs);
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
	chain_load_version(1);
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
	chain_load("24");
	for (unsigned int nccl = 1; nccl <= 7; nccl++)
		assert_int_equal(cs_nccl_chain_version(nccl), expected[nccl]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_plugin_hears_every_nccl, chain_setup, chain_teardown),
		cmocka_unit_test_setup_teardown(
			states_that_a_version_lacks_are_kept_from_it, chain_setup, chain_teardown),
		cmocka_unit_test_setup_teardown(words_that_version_1_lacks_become_what_nccl_makes_of_them,
			chain_setup, chain_teardown),
		cmocka_unit_test_setup_teardown(
			the_newest_version_that_both_have_is_spoken, chain_setup, chain_teardown),
	};

	return cmocka_run_group_tests_name("nccl translate", tests, NULL, NULL);
}
