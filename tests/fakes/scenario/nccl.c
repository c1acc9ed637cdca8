/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's calls: which events come in which order around the launches of a call or a group. nccl.h has the
 * table. */
#include "nccl.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static uint32_t release;
static uint32_t comm_count;
static struct nccl_comm comms[SCENARIO_COMMS_MAX];
/* NCCL 2.23 tells of no eager collective either while a captured graph is alive. */
static _Atomic bool graph_alive;

uint8_t
nccl_function(const struct scenario_impl *impl)
{
	static const char *const functions[NCCL_FUNCTIONS] = {
		"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"};
	uint8_t i = 0;

	while (strcmp(functions[i], impl->func) != 0)
		i++;
	return i;
}

uint64_t
nccl_part_bytes(const struct nccl_call *call)
{
	uint8_t function = nccl_function(call->op->impl);

	return function == 2 || function == 3 ? call->bytes / (uint64_t)call->comm->world : call->bytes;
}

const char *
scenario_nccl_plugin(void)
{
	static const char *const names[] = {"none", "v1", "v2", "v3", "v4", "v5", "v6", "v7"};

	return names[nccl_plugin_version()];
}

void
scenario_nccl_load(uint32_t nccl)
{
	release = nccl;
	fake_nccl_set_release((int)nccl);
}

void
scenario_nccl_open(const struct scenario *scenario, uint32_t rank)
{
	uint32_t i;

	nccl_nvtx_open(release);
	nccl_plugin_open(release);
	comm_count = scenario->comm_count;
	for (i = 0; i < comm_count; i++) {
		pthread_mutex_init(&comms[i].lock, NULL);
		comms[i].hash = scenario_comm_hash(scenario, i, rank);
		comms[i].rank = (int)scenario_comm_rank(&scenario->comms[i], rank);
		comms[i].world = (int)scenario->comms[i].size;
		nccl_plugin_comm(&comms[i]);
		nccl_nvtx_comm(&comms[i]);
	}
}

void
scenario_nccl_close(void)
{
	uint32_t i;

	for (i = 0; i < comm_count; i++) {
		nccl_plugin_comm_end(&comms[i]);
		pthread_mutex_destroy(&comms[i].lock);
	}
	nccl_plugin_close();
}

/* -- one group of calls -------------------------------------------------------------------------------- */

struct group {
	struct scenario_gpu *gpu;
	CUstream stream;
	bool captured;
	uint32_t call_count;
	struct nccl_call calls[SCENARIO_GROUP_MAX]; /* as they were made */
	void *coll_api[SCENARIO_GROUP_MAX];
	void *group_api;
};

/* Kernels on symmetric memory were launched beside all that brings events, up to 2.30. */
static bool
launch_is_told(const struct scenario_op *op)
{
	return !op->impl->symmetric || release >= 23100;
}

static bool
collective_is_told(const struct scenario_op *op, bool captured)
{
	unsigned int version = nccl_plugin_version();

	if (!launch_is_told(op))
		return false;
	if (version < 4)
		return !captured && !(release < 22400 && graph_alive);
	return true;
}

static void
add_call(struct group *group, uint32_t op, uint32_t place)
{
	const struct scenario_op *what = &group->gpu->scenario->ops[op];

	group->calls[place] = (struct nccl_call){
		&comms[what->comm], what, scenario_gpu_bytes(group->gpu, op), group->stream, group->captured};
	group->call_count++;
}

static void
collect_calls(struct group *group, const uint32_t *ops, uint32_t count)
{
	const struct scenario_op *kernel;
	uint32_t i, k;

	for (i = 0; i < count; i++) {
		kernel = &group->gpu->scenario->ops[ops[i]];
		for (k = 0; k < kernel->part_count; k++)
			add_call(group, kernel->parts[k], kernel->places[k]);
		if (!kernel->part_count)
			add_call(group, ops[i], 0);
	}
}

/* In the order of the communicators: two threads with the same ones do not wait for each other. */
static void
lock_comms(const struct group *group, bool lock)
{
	bool in_use[SCENARIO_COMMS_MAX] = {false};
	uint32_t i;

	for (i = 0; i < group->call_count; i++)
		in_use[group->calls[i].comm - comms] = true;
	for (i = 0; i < comm_count; i++) {
		if (in_use[i] && lock)
			pthread_mutex_lock(&comms[i].lock);
		else if (in_use[i])
			pthread_mutex_unlock(&comms[i].lock);
	}
}

static void
make_call(struct group *group, uint32_t place, int depth)
{
	const struct nccl_call *call = &group->calls[place];

	nccl_nvtx_push(call);
	if (place == 0) {
		group->group_api = nccl_plugin_group_api(call->comm, call->captured, depth);
		nccl_plugin_group_started(group->group_api);
	}
	group->coll_api[place] = nccl_plugin_coll_api(call, group->group_api);
	nccl_plugin_stop(group->coll_api[place]);
	/* An ungrouped call launches inside its own range. */
	if (depth > 1)
		nccl_nvtx_pop();
}

/* The collectives of a kernel, once it has been launched. Under capture the sequence number stands still. */
static void
tell_collectives(struct group *group, const struct nccl_call *calls, const uint32_t *places, uint32_t count)
{
	void *told[SCENARIO_GROUP_MAX];
	void *plan;
	uint32_t i;

	if (!collective_is_told(calls[0].op, group->captured))
		return;
	plan = nccl_plugin_group(&calls[0]);
	for (i = 0; i < count; i++) {
		told[i] = nccl_plugin_coll(&calls[i], group->coll_api[places[i]], plan, i == 0);
		calls[i].comm->sequence[nccl_function(calls[i].op->impl)] += !group->captured;
	}
	for (i = 0; i < count; i++)
		nccl_plugin_stop(told[i]);
	nccl_plugin_stop(plan);
}

static void
launch(struct group *group, uint32_t op, const struct cs_fake_span *span)
{
	const struct scenario_op *kernel = &group->gpu->scenario->ops[op];
	struct nccl_call calls[SCENARIO_GROUP_MAX];
	static const uint32_t first[1] = {0};
	const uint32_t *places = kernel->part_count ? kernel->places : first;
	uint32_t count = kernel->part_count ? kernel->part_count : 1;
	unsigned char block[NCCL_ARGS_BYTES] = {0};
	size_t block_bytes = sizeof(block) / 16;
	void *told = NULL;
	uint32_t i;

	for (i = 0; i < count; i++)
		calls[i] = group->calls[places[i]];
	/* What a symmetric kernel gets lies behind a device communicator and is not laid out here. */
	if (!kernel->impl->symmetric)
		block_bytes = nccl_args_fill(release, calls, count, block);
	if (launch_is_told(kernel))
		told = nccl_plugin_launch(&calls[0], group->group_api);
	scenario_gpu_launch_block(group->gpu, op, block, block_bytes, group->stream, span);
	nccl_plugin_stop(told);
	tell_collectives(group, calls, places, count);
}

void
scenario_nccl_call(struct scenario_gpu *gpu, const uint32_t *ops, uint32_t count, CUstream stream,
	bool captured, const struct cs_fake_span *spans)
{
	struct group group = {.gpu = gpu, .stream = stream, .captured = captured};
	bool grouped = gpu->scenario->ops[ops[0]].part_count > 0;
	uint32_t i;

	if (captured)
		graph_alive = true;
	collect_calls(&group, ops, count);
	lock_comms(&group, true);
	if (grouped) {
		nccl_nvtx_push_group(true);
		nccl_nvtx_pop();
	}
	for (i = 0; i < group.call_count; i++)
		make_call(&group, i, grouped ? 2 : 1);
	if (grouped)
		nccl_nvtx_push_group(false);
	nccl_plugin_group_ends(group.group_api);
	for (i = 0; i < count; i++)
		launch(&group, ops[i], spans ? &spans[i] : NULL);
	nccl_plugin_stop(group.group_api);
	nccl_nvtx_pop();
	lock_comms(&group, false);
}

size_t
scenario_nccl_block(const struct scenario_gpu *gpu, uint32_t op, unsigned char *block)
{
	const struct scenario_op *what = &gpu->scenario->ops[op];
	struct nccl_call call = {&comms[what->comm], what, scenario_gpu_bytes(gpu, op), NULL, true};

	return nccl_args_fill(release, &call, 1, block);
}
