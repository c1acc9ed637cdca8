/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GRAPH records: what the ledger knows of executable graphs, told when they have been made or changed.
 * Nothing of it happens on an application thread but the note that there is something to tell (execs.h). One
 * walk over the ledger, a few milliseconds, serves some dozens of graphs.
 */
#include "labels_private.h"

struct told_graph {
	struct cs_exec *exec;
	uint64_t word;
	uint32_t graph_id;
	uint8_t gpu;
};

struct batch {
	uint32_t count;
	struct told_graph graphs[CS_TELL_GRAPHS];
	uint32_t ids[CS_TELL_GRAPHS]; /* of them, rising */
};

static bool
find_gpu(const struct cs_labels *labels, const struct cs_exec *exec, uint8_t *gpu)
{
	uint32_t context_id = atomic_load_explicit(&exec->context_id, memory_order_relaxed);
	uint32_t context = atomic_load_explicit(
		&labels->contexts[context_id % CS_LABELS_CONTEXTS], memory_order_relaxed);

	*gpu = (uint8_t)((context & 0xff) - 1);
	return context != 0 && context >> 8 == context_id;
}

/* By id, so that a graph is told of soon after it was made. true: there are more than there is room for, or
 * some whose GPU is not known yet. */
static bool
collect(struct cs_labels *labels, uint32_t room, struct batch *batch)
{
	bool more = false;

	batch->count = 0;
	for (uint32_t i = 0; i < CS_EXECS; i++) {
		struct told_graph graph = {.exec = &labels->execs.slots[i]};
		uint32_t at = batch->count;

		if (!cs_exec_is_due(graph.exec, &graph.word))
			continue;
		graph.graph_id = cs_exec_graph_id(graph.word);
		if (!find_gpu(labels, graph.exec, &graph.gpu)) {
			more = true;
			continue;
		}
		more |= at == room;
		if (at == room && batch->ids[--at] < graph.graph_id)
			continue;
		for (; at > 0 && batch->ids[at - 1] > graph.graph_id; at--) {
			batch->ids[at] = batch->ids[at - 1];
			batch->graphs[at] = batch->graphs[at - 1];
		}
		batch->ids[at] = graph.graph_id;
		batch->graphs[at] = graph;
		if (batch->count < room)
			batch->count++;
	}
	return more;
}

/* Shell sort: the C library's may allocate. */
static void
sort(struct cs_ledger_entry *entries, uint32_t count)
{
	static const uint32_t gaps[] = {8929, 3905, 2161, 929, 505, 209, 109, 41, 19, 5, 1};

	for (size_t g = 0; g < sizeof(gaps) / sizeof(gaps[0]); g++) {
		for (uint32_t i = gaps[g]; i < count; i++) {
			struct cs_ledger_entry moving = entries[i];
			uint32_t at = i;

			for (; at >= gaps[g] && entries[at - gaps[g]].id > moving.id; at -= gaps[g])
				entries[at] = entries[at - gaps[g]];
			entries[at] = moving;
		}
	}
}

static uint32_t
label_of(struct cs_labels *labels, uint64_t filed)
{
	struct cs_label_entry *entry = cs_label_table_entry(&labels->table, cs_filed_label(filed));

	if (!entry)
		return 0;
	return cs_label_entry_segment_id(
		entry, labels->writer, cs_function_cache_name_id(&labels->functions, entry->label.name_id));
}

static void
say_unknown(struct cs_labels *labels, const struct told_graph *graph, uint64_t now_ns)
{
	const struct cs_record record = {.type = CS_RECORD_GRAPH,
		.gpu = graph->gpu,
		.start_ns = now_ns,
		.end_ns = now_ns,
		.graph_id = graph->graph_id,
		.sequence = CS_GRAPH_UNKNOWN};

	if (graph->exec->said != graph->graph_id)
		return;
	cs_segment_writer_append(labels->writer, &record);
	graph->exec->said = 0;
}

/* What is filed under the nodes of the graph, in the order of their ids; which stand for all of them only if
 * nothing says that some are missing. */
static void
say(struct cs_labels *labels, const struct told_graph *graph, const struct cs_ledger_entry *entries,
	uint32_t count, uint64_t now_ns)
{
	struct cs_record runs[CS_GRAPH_RUNS_MAX] = {0};
	uint32_t run_count = 0, collectives = 0;
	uint32_t last_label = UINT32_MAX, last_number = UINT32_MAX;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t label;

		if ((uint32_t)entries[i].id >= CS_NODE_CROWDED) {
			say_unknown(labels, graph, now_ns);
			return;
		}
		if (entries[i].value & CS_FILED_EMPTY)
			continue;
		label = last_label;
		if (cs_filed_label(entries[i].value) != last_number)
			label = label_of(labels, entries[i].value);
		last_number = cs_filed_label(entries[i].value);
		if (label != last_label && run_count <= CS_GRAPH_RUNS_MAX && ++run_count <= CS_GRAPH_RUNS_MAX)
			runs[run_count - 1] = (struct cs_record){.type = CS_RECORD_GRAPH,
				.gpu = graph->gpu,
				.ref = label,
				.start_ns = now_ns,
				.end_ns = now_ns,
				.graph_id = graph->graph_id,
				.graph_node_id = entries[i].id,
				.correlation_id = collectives};
		if (run_count <= CS_GRAPH_RUNS_MAX)
			runs[run_count - 1].value++;
		last_label = label;
		collectives++;
	}
	if (collectives == 0) {
		say_unknown(labels, graph, now_ns);
		return;
	}
	for (uint32_t i = 0; i < run_count && i < CS_GRAPH_RUNS_MAX; i++) {
		runs[i].sequence = collectives;
		cs_segment_writer_append(labels->writer, &runs[i]);
	}
	graph->exec->said = graph->graph_id;
}

static void
say_all(struct cs_labels *labels, const struct batch *batch, uint32_t entry_count, uint64_t now_ns)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < batch->count; i++) {
		const struct told_graph *graph = &batch->graphs[i];
		uint32_t end = at;

		while (end < entry_count && (uint32_t)(labels->tell[end].id >> 32) == graph->graph_id)
			end++;
		say(labels, graph, &labels->tell[at], end - at, now_ns);
		at = end;
		atomic_store_explicit(&graph->exec->told, graph->word, memory_order_relaxed);
	}
}

bool
cs_labels_tell_graphs(uint64_t now_ns)
{
	struct cs_labels *labels = cs_labels_borrow();
	struct batch batch;
	uint32_t changes, found = 0;
	uint32_t room = CS_TELL_GRAPHS;
	bool more;

	if (!labels)
		return false;
	changes = atomic_load_explicit(&labels->execs.changes, memory_order_acquire);
	if (changes == labels->tell_changes && !labels->tell_more)
		return false;
	do {
		more = collect(labels, room, &batch);
		if (batch.count == 0)
			break;
		found = cs_ledger_collect(
			labels->ledger, batch.ids, batch.count, labels->tell, CS_TELL_NODES);
		room = batch.count / 2;
	} while (found > CS_TELL_NODES && room > 0);
	labels->tell_changes = changes;
	labels->tell_more = more;
	if (batch.count == 0)
		return more;
	/* A single one too large: that is told, as far as there is room, by nothing. */
	if (found > CS_TELL_NODES) {
		say_unknown(labels, &batch.graphs[0], now_ns);
		atomic_store_explicit(
			&batch.graphs[0].exec->told, batch.graphs[0].word, memory_order_relaxed);
		return more;
	}
	sort(labels->tell, found);
	say_all(labels, &batch, found, now_ns);
	return more;
}
