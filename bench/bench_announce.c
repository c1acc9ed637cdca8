/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the NCCL profiler plugin adds to one ncclAllReduce: all events of the call in NCCL's order (GroupApi,
 * CollApi, KernelLaunch, Group, Coll) and the taking of what was announced. Printed against one
 * clock_gettime, which NCCL's own Inspector makes several of. With the path of a plugin: that one is behind
 * ours, and counts too.
 */
#include "clock.h"
#include "collective.h"
#include "injector.h"
#include "labels/announce.h"
#include "nccl/chain.h"
#include "nccl/profiler_abi.h"

#include <stdio.h>

#define CALLS 2000000

extern const struct cs_nccl_profiler_v5 ncclProfiler_v5;

static unsigned long amended;

struct cs_segment_writer *
cs_injector_borrow_writer(void)
{
	return NULL;
}

static void
on_amend(uint64_t key, const struct cs_label *facts, uint32_t sequence)
{
	(void)key;
	(void)facts;
	(void)sequence;
	amended++;
}

static void *
start(void *context, struct cs_nccl_event *event)
{
	void *handle = NULL;

	ncclProfiler_v5.start_event(context, &handle, event);
	return handle;
}

static void
one_call(void *context)
{
	struct cs_nccl_event group_api = {.type = CS_NCCL_EVENT_GROUP_API};
	struct cs_nccl_event api = {.type = CS_NCCL_EVENT_COLL_API,
		.u.coll_api = {.func = "AllReduce", .count = 21504, .datatype = "ncclBfloat16"}};
	struct cs_nccl_event launch = {.type = CS_NCCL_EVENT_KERNEL_LAUNCH};
	struct cs_nccl_event group = {.type = CS_NCCL_EVENT_GROUP};
	struct cs_nccl_event coll = {.type = CS_NCCL_EVENT_COLL,
		.u.coll = {.func = "AllReduce",
			.count = 21504,
			.datatype = "ncclBfloat16",
			.algorithm = "RING",
			.protocol = "LL"}};
	struct cs_label label = {.bytes = CS_BYTES_UNKNOWN};
	uint32_t sequence = 0;
	void *handles[5];

	handles[0] = start(context, &group_api);
	handles[1] = start(context, &api);
	ncclProfiler_v5.stop_event(handles[1]);
	handles[2] = start(context, &launch);
	cs_announce_take(&label, &sequence);
	cs_announce_bind(1);
	ncclProfiler_v5.stop_event(handles[2]);
	handles[3] = start(context, &group);
	handles[4] = start(context, &coll);
	ncclProfiler_v5.stop_event(handles[4]);
	ncclProfiler_v5.stop_event(handles[3]);
	ncclProfiler_v5.stop_event(handles[0]);
}

int
main(int argc, char **argv)
{
	void *context = NULL;
	uint64_t start_ns, call_ns, clock_ns, sum = 0;
	int mask = 0;

	if (argc > 1 && cs_nccl_chain_load(argv[1]) < 0)
		return 2;
	ncclProfiler_v5.init(&context, 1, &mask, NULL, 1, 8, 0, NULL);
	cs_announce_register_amend(on_amend);
	start_ns = cs_clock_monotonic_ns();
	for (int i = 0; i < CALLS; i++)
		one_call(context);
	call_ns = cs_clock_monotonic_ns() - start_ns;
	start_ns = cs_clock_monotonic_ns();
	for (int i = 0; i < CALLS; i++)
		sum += cs_clock_realtime_ns();
	clock_ns = cs_clock_monotonic_ns() - start_ns;
	printf("plugin, one all-reduce     %6.1f ns\n", (double)call_ns / CALLS);
	printf("one clock_gettime          %6.1f ns\n", (double)clock_ns / CALLS);
	printf("ratio                      %6.2f\n", (double)call_ns / (double)clock_ns);
	return amended == CALLS && sum != 0 ? 0 : 1;
}
