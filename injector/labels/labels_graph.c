/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: what happens to a label when its node is captured, copied, changed and destroyed. The order of
 * events is as measured with CUPTI 13.0 (docs/labels.md has the table):
 *
 * - A captured launch: CREATED between the launch call's enter and exit, on the same thread.
 * - Instantiate and clone: per node CREATED, then CLONED. CREATED comes outside of any launch and is not
 * ours.
 * - Instantiate with child graphs: their nodes are cloned into graphs of their own first and then move into
 * the executable's graph, where they get other ids, without an event; the node's handle stays the same.
 * - Update of an executable, or of a child graph in it: UPDATED with both nodes, the source graph's and the
 * executable's, for the nodes of child graphs too, then SET_PARAMS. Parameters set on an executable's node:
 * SET_PARAMS inside the call.
 * - Destroy: DESTROY for every node, also those of executables. Ids are not used again.
 */
#include "labels_private.h"

static uint64_t
node_id(const struct cs_labels *labels, CUgraphNode node)
{
	uint64_t id = 0;

	if (!node || labels->cupti->get_graph_node_id(node, &id) != CUPTI_SUCCESS)
		return 0;
	return id;
}

static uint32_t
exec_id(const struct cs_labels *labels, CUgraphExec exec)
{
	uint32_t id = 0;

	if (!exec || !labels->cupti->get_graph_exec_id ||
		labels->cupti->get_graph_exec_id(exec, &id) != CUPTI_SUCCESS)
		return 0;
	return id;
}

static inline uint32_t
graph_of(uint64_t id)
{
	return (uint32_t)(id >> 32);
}

/* -- child graphs -------------------------------------------------------------------------------------- */

static void
remember_moving(struct cs_labels *labels, struct cs_call *call, CUgraphNode node, uint64_t id)
{
	uint64_t owner = (uint64_t)(uintptr_t)call;
	uint32_t start = (uint32_t)cs_pair_hash(owner);

	for (uint32_t i = 0; i < CS_MOVED_NODES_MAX; i++) {
		struct cs_moved_node *slot =
			&labels->moved[(start + call->moved_count + i) % CS_MOVED_NODES_MAX];
		uint64_t expected = CS_PAIR_FREE;

		if (!atomic_compare_exchange_strong_explicit(
			    &slot->owner, &expected, owner, memory_order_acquire, memory_order_relaxed))
			continue;
		slot->node = node;
		slot->id = id;
		slot->epoch = call->epoch;
		call->moved_count++;
		return;
	}
	/* No room: this node's replays have no label, which is counted then. */
	cs_ledger_put(labels->ledger, (uint64_t)call->root_graph << 32 | CS_NODE_CROWDED, CS_FILED);
	atomic_fetch_add_explicit(&labels->crowded, 1, memory_order_relaxed);
}

void
cs_labels_finish_instantiate(struct cs_labels *labels, struct cs_call *call)
{
	uint64_t owner = (uint64_t)(uintptr_t)call;

	for (uint32_t i = 0; i < CS_MOVED_NODES_MAX && call->moved_count > 0; i++) {
		struct cs_moved_node *slot = &labels->moved[i];
		uint64_t filed, id;

		if (atomic_load_explicit(&slot->owner, memory_order_relaxed) != owner)
			continue;
		id = call->root_graph != 0 && slot->epoch == call->epoch ? node_id(labels, slot->node) : 0;
		if (id != 0 && graph_of(id) == call->root_graph &&
			cs_ledger_find(labels->ledger, slot->id, &filed)) {
			cs_labels_file_node(labels, id, filed & CS_FILED_COPIED);
			cs_labels_file_node(labels, slot->id, 0);
		}
		call->moved_count--;
		atomic_store_explicit(&slot->owner, CS_PAIR_FREE, memory_order_release);
	}
	call->moved_count = 0;
	call->root_graph = 0;
}

void
cs_labels_note_exec(
	struct cs_labels *labels, const struct cs_call *call, CUgraphExec exec, uint32_t context_id)
{
	uint32_t id = call->labelled ? exec_id(labels, exec) : 0;

	if (id != 0)
		cs_execs_note(&labels->execs, id, context_id);
}

/* -- events -------------------------------------------------------------------------------------------- */

static void
node_created(struct cs_labels *labels, const CUpti_GraphData *data)
{
	struct cs_call *call = cs_call_current(labels, CS_CALL_LAUNCH);
	uint64_t id;

	if (!call)
		call = cs_call_current(labels, CS_CALL_ADD_NODE);
	if (!call || !call->collective)
		return;
	id = node_id(labels, data->node);
	if (id == 0)
		return;
	cs_labels_file_node(labels, id, call->filed);
	call->node_seen = true;
	call->node_id = id;
}

static void
node_cloned(struct cs_labels *labels, const CUpti_GraphData *data)
{
	struct cs_call *call;
	uint64_t original, id, filed;

	if (cs_ledger_count(labels->ledger) == 0)
		return;
	original = node_id(labels, data->originalNode);
	if (!cs_ledger_find(labels->ledger, original, &filed))
		return;
	id = node_id(labels, data->node);
	if (id == 0)
		return;
	filed &= CS_FILED_COPIED;
	if ((uint32_t)id == (uint32_t)original)
		filed |= CS_FILED_ORDINAL;
	cs_labels_file_node(labels, id, filed);
	call = cs_call_current(labels, CS_CALL_INSTANTIATE);
	if (call)
		call->labelled = true;
	if (call && call->root_graph != 0 && graph_of(id) != call->root_graph)
		remember_moving(labels, call, data->node, id);
}

/* Which of the two nodes is the executable's is told by its graph's id, not by the field it comes in. */
static uint64_t
choose_exec_node(uint32_t exec, uint64_t likely, uint64_t *other)
{
	uint64_t chosen = likely;

	if (exec != 0 && graph_of(likely) != exec && graph_of(*other) == exec) {
		chosen = *other;
		*other = likely;
	}
	return chosen;
}

static void
node_updated(struct cs_labels *labels, const CUpti_GraphData *data)
{
	struct cs_call *call = cs_call_current(labels, CS_CALL_UPDATE_EXEC);
	uint64_t source = node_id(labels, data->node);
	uint64_t target = choose_exec_node(
		exec_id(labels, data->graphExec), node_id(labels, data->originalNode), &source);
	uint64_t filed = 0;

	if (!call || target == 0 || source == 0)
		return;
	call->node_seen = true;
	if (!cs_ledger_find(labels->ledger, source, &filed))
		filed = 0;
	cs_labels_change_node(labels, target, filed & CS_FILED_COPIED, call->correlation_id);
}

static void
node_set_params(struct cs_labels *labels, const CUpti_GraphData *data)
{
	/* Inside an update it repeats what UPDATED has said. */
	struct cs_call *call = cs_call_current(labels, CS_CALL_SET_EXEC);
	uint64_t other, target;

	if (!call)
		return;
	other = node_id(labels, data->originalNode);
	target = choose_exec_node(exec_id(labels, data->graphExec), node_id(labels, data->node), &other);
	if (target == 0)
		return;
	call->node_seen = true;
	cs_labels_change_node(labels, target, call->filed & CS_FILED_COPIED, call->correlation_id);
}

static void
exec_destroyed(struct cs_labels *labels, const CUpti_GraphData *data)
{
	uint32_t exec;

	if (atomic_load_explicit(&labels->doubts, memory_order_relaxed) == 0 &&
		atomic_load_explicit(&labels->crowded, memory_order_relaxed) == 0)
		return;
	exec = exec_id(labels, data->graphExec);
	if (exec == 0)
		return;
	cs_labels_retire(labels, (uint64_t)exec << 32 | CS_NODE_DOUBT);
	cs_labels_retire(labels, (uint64_t)exec << 32 | CS_NODE_CROWDED);
}

void
cs_labels_on_resource(CUpti_CallbackId cbid, const CUpti_ResourceData *data)
{
	struct cs_labels *labels = cs_labels_borrow();
	const CUpti_GraphData *graph;
	struct cs_call *call;

	if (!labels)
		return;
	if (cbid == CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING) {
		cs_function_cache_flush(&labels->functions);
		return;
	}
	graph = data->resourceDescriptor;
	if (!graph)
		return;
	switch (cbid) {
	case CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED:
		cs_labels_touch_graph(labels);
		node_created(labels, graph);
		break;
	case CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED:
		cs_labels_touch_graph(labels);
		node_cloned(labels, graph);
		break;
	case CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING:
		if (cs_ledger_count(labels->ledger) > 0)
			cs_labels_retire(labels, node_id(labels, graph->node));
		break;
	case CUPTI_CBID_RESOURCE_GRAPH_CREATED:
		call = cs_call_current(labels, CS_CALL_INSTANTIATE);
		if (call && call->root_graph == 0)
			labels->cupti->get_graph_id(graph->graph, &call->root_graph);
		break;
	case CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED:
		cs_labels_touch_graph(labels);
		break;
	case CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING:
		exec_destroyed(labels, graph);
		break;
	case CUPTI_CBID_RESOURCE_GRAPH_NODE_UPDATED:
		node_updated(labels, graph);
		break;
	case CUPTI_CBID_RESOURCE_GRAPH_NODE_SET_PARAMS:
		node_set_params(labels, graph);
		break;
	default:
		break;
	}
}

/* -- after calls that change nodes --------------------------------------------------------------------- */

/* From now on nobody believes the labels of this executable: before CUDA 13.0 CUPTI does not say which of its
 * nodes was changed. */
static void
doubt_exec(struct cs_labels *labels, const struct cs_call *call, CUgraphExec exec)
{
	uint32_t id = exec_id(labels, exec);
	uint64_t key = (uint64_t)id << 32 | CS_NODE_DOUBT;
	uint64_t filed;

	if (id == 0 || cs_ledger_find(labels->ledger, key, &filed))
		return;
	cs_ledger_put(labels->ledger, key, CS_FILED | CS_FILED_DOUBT | (uint64_t)call->correlation_id << 32);
	cs_execs_touch(&labels->execs, id);
	atomic_fetch_add_explicit(&labels->doubts, 1, memory_order_relaxed);
}

void
cs_labels_finish_set_node(struct cs_labels *labels, const struct cs_call *call, CUgraphNode node)
{
	uint64_t id = node_id(labels, node);

	if (id != 0)
		cs_labels_file_node(labels, id, call->filed);
}

void
cs_labels_finish_set_exec(
	struct cs_labels *labels, const struct cs_call *call, CUgraphExec exec, CUgraphNode node)
{
	uint32_t exec_graph;
	uint64_t id, target, filed;

	if (call->node_seen)
		return;
	/* No event. The executable's node is known only if it was seen being cloned with its original's
	 * ordinal. */
	id = node_id(labels, node);
	exec_graph = exec_id(labels, exec);
	target = (uint64_t)exec_graph << 32 | (uint32_t)id;
	if (exec_graph != 0 && cs_ledger_find(labels->ledger, target, &filed) && (filed & CS_FILED_ORDINAL))
		cs_labels_change_node(labels, target,
			call->filed ? (call->filed & CS_FILED_COPIED) | CS_FILED_ORDINAL : 0,
			call->correlation_id);
	else if (call->collective || cs_ledger_find(labels->ledger, id, &filed))
		doubt_exec(labels, call, exec);
}

void
cs_labels_finish_update(struct cs_labels *labels, const struct cs_call *call, CUgraphExec exec, bool child)
{
	if (!call->node_seen && cs_ledger_count(labels->ledger) > 0 &&
		(child || labels->cupti->version < CS_VERSION_NODE_EVENTS))
		doubt_exec(labels, call, exec);
}
