/* SPDX-License-Identifier: Apache-2.0 */
/* The label side as a whole: its memory, and which callbacks it needs. */
#include "labels_private.h"

#include "announce.h"
#include "clock.h"

#include <errno.h>
#include <sys/mman.h>

static _Atomic(struct cs_labels *) the_labels;

struct callback {
	CUpti_CallbackDomain domain;
	CUpti_CallbackId cbid;
	uint32_t version; /* cuptiGetVersion from which on it is there */
	bool needed;      /* nothing works without it */
};

#define DRIVER(name, version, needed)                                                                        \
	{                                                                                                    \
		CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_##name, version, needed                  \
	}
#define RESOURCE(name, version, needed)                                                                      \
	{                                                                                                    \
		CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_##name, version, needed                        \
	}

static const struct callback callbacks[] = {
	RESOURCE(GRAPHNODE_CREATED, 0, true),
	RESOURCE(GRAPHNODE_CLONED, 0, true),
	RESOURCE(GRAPHNODE_DESTROY_STARTING, 0, true),
	RESOURCE(GRAPH_CREATED, 0, true),
	RESOURCE(GRAPHEXEC_CREATED, 0, true),
	RESOURCE(GRAPHEXEC_DESTROY_STARTING, 0, true),
	RESOURCE(MODULE_UNLOAD_STARTING, 0, true),
	RESOURCE(GRAPH_NODE_UPDATED, CS_VERSION_NODE_EVENTS, false),
	RESOURCE(GRAPH_NODE_SET_PARAMS, CS_VERSION_NODE_EVENTS, false),
	DRIVER(cuLaunchKernel, 0, true),
	DRIVER(cuLaunchKernel_ptsz, 0, true),
	DRIVER(cuLaunchKernelEx, 0, true),
	DRIVER(cuLaunchKernelEx_ptsz, 0, true),
	DRIVER(cuLaunchCooperativeKernel, 0, true),
	DRIVER(cuLaunchCooperativeKernel_ptsz, 0, true),
	DRIVER(cuGraphLaunch, 0, true),
	DRIVER(cuGraphLaunch_ptsz, 0, true),
	DRIVER(cuGraphInstantiate, 0, false),
	DRIVER(cuGraphInstantiate_v2, 0, false),
	DRIVER(cuGraphInstantiateWithFlags, 0, false),
	DRIVER(cuGraphInstantiateWithParams, 0, false),
	DRIVER(cuGraphInstantiateWithParams_ptsz, 0, false),
	DRIVER(cuGraphAddKernelNode, 0, false),
	DRIVER(cuGraphAddKernelNode_v2, 0, false),
	DRIVER(cuGraphAddNode, 0, false),
	DRIVER(cuGraphAddNode_v2, 0, false),
	DRIVER(cuGraphKernelNodeSetParams, 0, false),
	DRIVER(cuGraphKernelNodeSetParams_v2, 0, false),
	DRIVER(cuGraphNodeSetParams, 0, false),
	DRIVER(cuGraphExecKernelNodeSetParams, 0, false),
	DRIVER(cuGraphExecKernelNodeSetParams_v2, 0, false),
	DRIVER(cuGraphExecNodeSetParams, 0, false),
	DRIVER(cuGraphExecChildGraphNodeSetParams, 0, false),
	DRIVER(cuGraphExecUpdate, 0, false),
	DRIVER(cuGraphExecUpdate_v2, 0, false),
};
#define CALLBACK_COUNT (sizeof(callbacks) / sizeof(callbacks[0]))

struct cs_labels *
cs_labels_borrow(void)
{
	return atomic_load_explicit(&the_labels, memory_order_acquire);
}

int
cs_labels_init(
	const struct cs_cupti_api *cupti, struct cs_segment_writer *writer, const struct cs_catalog *catalog)
{
	struct cs_labels *labels;
	void *memory;
	int error;

	if (cs_labels_borrow())
		return 0;
	memory = mmap(NULL, sizeof(*labels), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	labels = memory;
	error = cs_ledger_create(CS_LEDGER_SLOTS, &labels->ledger);
	if (error) {
		munmap(memory, sizeof(*labels));
		return error;
	}
	labels->cupti = cupti;
	labels->writer = writer;
	labels->status = cs_segment_writer_status(writer);
	labels->catalog = catalog;
	labels->mapped_bytes = sizeof(*labels);
	cs_function_cache_init(&labels->functions, cupti, catalog, writer);
	cs_name_cache_init(&labels->names, catalog, writer);
	atomic_store_explicit(&the_labels, labels, memory_order_release);
	cs_announce_register_amend(cs_labels_amend);
	cs_announce_register_launches(cs_labels_told_begin, cs_labels_told_end);
	return 0;
}

uint64_t
cs_labels_mapped_bytes(void)
{
	const struct cs_labels *labels = cs_labels_borrow();

	return labels ? labels->mapped_bytes + cs_ledger_mapped_bytes(labels->ledger) : 0;
}

static int
set_callbacks(const struct cs_labels *labels, CUpti_SubscriberHandle subscriber, size_t count, bool enable,
	CUptiResult *failure)
{
	for (size_t i = 0; i < count; i++) {
		const struct callback *callback = &callbacks[i];
		CUptiResult result;

		if (labels->cupti->version < callback->version)
			continue;
		result = labels->cupti->enable_callback(
			enable ? 1 : 0, subscriber, callback->domain, callback->cbid);
		if (result != CUPTI_SUCCESS && callback->needed && enable) {
			*failure = result;
			set_callbacks(labels, subscriber, i, false, failure);
			*failure = result;
			return -EIO;
		}
	}
	return 0;
}

int
cs_labels_enable(CUpti_SubscriberHandle subscriber, bool enable, CUptiResult *failure)
{
	struct cs_labels *labels = cs_labels_borrow();
	CUptiResult ignored = CUPTI_SUCCESS;
	int error;

	if (!labels)
		return -EIO;
	atomic_fetch_add_explicit(&labels->epoch, 1, memory_order_relaxed);
	error = set_callbacks(labels, subscriber, CALLBACK_COUNT, enable, failure ? failure : &ignored);
	atomic_store_explicit(&labels->listening, enable && error == 0, memory_order_relaxed);
	return error;
}

void
cs_labels_stop_listening(void)
{
	struct cs_labels *labels = cs_labels_borrow();

	if (labels)
		atomic_store_explicit(&labels->listening, false, memory_order_relaxed);
}

void
cs_labels_set_gpu(uint32_t context_id, uint8_t gpu)
{
	struct cs_labels *labels = cs_labels_borrow();

	if (labels && context_id < 1U << 24)
		atomic_store_explicit(&labels->contexts[context_id % CS_LABELS_CONTEXTS],
			context_id << 8 | (gpu + 1U), memory_order_relaxed);
}

uint64_t
cs_labels_last_graph_ns(void)
{
	const struct cs_labels *labels = cs_labels_borrow();

	return labels ? atomic_load_explicit(&labels->last_graph_ns, memory_order_relaxed) : 0;
}

uint64_t
cs_labels_eager_collectives(void)
{
	const struct cs_labels *labels = cs_labels_borrow();

	return labels ? atomic_load_explicit(&labels->eager_collectives, memory_order_relaxed) : 0;
}

void
cs_labels_touch_graph(struct cs_labels *labels)
{
	/* The same clock, read to a few milliseconds for a fifth of the price. */
	atomic_store_explicit(
		&labels->last_graph_ns, cs_clock_ns(CLOCK_MONOTONIC_COARSE), memory_order_relaxed);
}

static uint64_t
age(uint64_t filed)
{
	if ((filed & (CS_FILED_CHANGED | CS_FILED_DOUBT)) == 0)
		return filed;
	return filed | (filed & CS_FILED_OLD ? CS_FILED_AGED : CS_FILED_OLD);
}

void
cs_labels_age_calls(void)
{
	struct cs_labels *labels = cs_labels_borrow();

	if (!labels)
		return;
	cs_ledger_rewrite(labels->ledger, age);
	cs_eager_age(&labels->eager, CS_FILED_OLD);
}

void
cs_labels_retire(struct cs_labels *labels, uint64_t id)
{
	uint64_t filed, oldest;
	uint32_t place;

	if (!cs_ledger_find(labels->ledger, id, &filed))
		return;
	if ((uint32_t)id < CS_NODE_CROWDED)
		atomic_fetch_sub_explicit(&labels->status->nodes_labelled, 1, memory_order_relaxed);
	place = atomic_fetch_add_explicit(&labels->retired_count, 1, memory_order_relaxed) % CS_RETIRED_NODES;
	oldest = atomic_exchange_explicit(&labels->retired[place], id, memory_order_relaxed);
	if (oldest != 0)
		cs_ledger_remove(labels->ledger, oldest);
}

void
cs_labels_file_node(struct cs_labels *labels, uint64_t node_id, uint64_t filed)
{
	int result;

	if (filed == 0) {
		if (cs_ledger_remove(labels->ledger, node_id))
			atomic_fetch_sub_explicit(&labels->status->nodes_labelled, 1, memory_order_relaxed);
		return;
	}
	result = cs_ledger_put(labels->ledger, node_id, filed);
	if (result == 1)
		atomic_fetch_add_explicit(&labels->status->nodes_labelled, 1, memory_order_relaxed);
	else if (result == -ENOSPC)
		atomic_fetch_add_explicit(&labels->ledger_full, 1, memory_order_relaxed);
}

void
cs_labels_change_node(struct cs_labels *labels, uint64_t node_id, uint64_t filed, uint32_t correlation_id)
{
	uint64_t before = 0;
	uint32_t since;

	if (!cs_ledger_find(labels->ledger, node_id, &before))
		before = 0;
	if (filed == 0) {
		if (before == 0 || (before & CS_FILED_EMPTY))
			return;
		filed = CS_FILED | CS_FILED_EMPTY;
	} else if ((before & CS_FILED_EMPTY) == 0 && ((before ^ filed) & CS_FILED_COPIED) == 0) {
		return; /* other addresses, the same label */
	}
	since = before & CS_FILED_CHANGED && (before & CS_FILED_AGED) == 0 ? cs_filed_call(before) : 0;
	cs_history_put(&labels->history, node_id, since, correlation_id, before);
	cs_labels_file_node(labels, node_id,
		(filed & ~CS_FILED_SEQUENCE) | CS_FILED_CHANGED | (uint64_t)correlation_id << 32);
	cs_execs_touch(&labels->execs, (uint32_t)(node_id >> 32));
}
