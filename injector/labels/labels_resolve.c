/* SPDX-License-Identifier: Apache-2.0 */
/* Activity records: name, node and correlation id -> what the kernel is. */
#include "labels_private.h"

void
cs_labels_count_unlabelled(struct cs_labels *labels, enum cs_unlabelled_reason reason)
{
	atomic_fetch_add_explicit(&labels->status->unlabelled[reason], 1, memory_order_relaxed);
}

static bool
graph_in_doubt(const struct cs_labels *labels, const struct cs_kernel_key *key)
{
	uint64_t graph = key->graph_node_id & ~(uint64_t)UINT32_MAX;
	uint64_t filed;

	return atomic_load_explicit(&labels->doubts, memory_order_relaxed) != 0 &&
	       cs_ledger_find(labels->ledger, graph | CS_NODE_DOUBT, &filed) &&
	       !cs_filed_after(filed, key->correlation_id);
}

static bool
find_filed(const struct cs_labels *labels, const struct cs_kernel_key *key, uint64_t *filed)
{
	if (key->graph_node_id == 0)
		return cs_eager_find(&labels->eager, key->correlation_id, filed);
	if (!cs_ledger_find(labels->ledger, key->graph_node_id, filed) || graph_in_doubt(labels, key))
		return false;
	/* Launched before the node was changed. */
	if ((*filed & CS_FILED_CHANGED) && cs_filed_after(*filed, key->correlation_id) &&
		!cs_history_find(&labels->history, key->graph_node_id, key->correlation_id, filed))
		return false;
	return *filed != 0 && (*filed & CS_FILED_EMPTY) == 0;
}

static bool
graph_was_crowded(const struct cs_labels *labels, const struct cs_kernel_key *key)
{
	uint64_t graph = key->graph_node_id & ~(uint64_t)UINT32_MAX;
	uint64_t filed;

	return atomic_load_explicit(&labels->crowded, memory_order_relaxed) != 0 &&
	       cs_ledger_find(labels->ledger, graph | CS_NODE_CROWDED, &filed);
}

static enum cs_unlabelled_reason
missing_reason(const struct cs_labels *labels, const struct cs_kernel_key *key)
{
	if (key->graph_node_id == 0)
		return CS_UNLABELLED_NO_LAUNCH;
	if (graph_was_crowded(labels, key))
		return CS_UNLABELLED_CHILD_FULL;
	/* Which nodes found no room is not kept; once some did not, that is the likeliest of the two causes.
	 */
	if (atomic_load_explicit(&labels->ledger_full, memory_order_relaxed) != 0)
		return CS_UNLABELLED_LEDGER_FULL;
	return CS_UNLABELLED_NO_LEDGER;
}

/* name NULL: the record has none, and only a filed label tells that it is a collective. false: not filed. */
static bool
resolve_filed(struct cs_labels *labels, const struct cs_kernel_key *key, const struct cs_kernel_name *name,
	struct cs_kernel_identity *identity)
{
	struct cs_label_entry *entry;
	uint64_t filed;

	if (!find_filed(labels, key, &filed))
		return false;
	if (filed & CS_FILED_TOLD)
		return name && cs_labels_resolve_told(labels, name, filed, identity);
	entry = cs_label_table_entry(&labels->table, cs_filed_label(filed));
	/* The node was learnt with another kernel: changed since, in a way that nobody told us of. */
	if (name && entry && entry->label.name_id != name->hash)
		return false;
	identity->kind = CS_CATALOG_COLLECTIVE;
	if (filed & CS_FILED_FUSED)
		identity->record_flags |= CS_RECORD_FUSED;
	if (filed & CS_FILED_PART)
		identity->record_flags |= CS_RECORD_PART;
	if (entry) {
		identity->bytes = entry->label.bytes;
		identity->ref = cs_label_entry_segment_id(entry, labels->writer, name ? name->name_id : 0);
	}
	/* Without its own label, what the name tells. */
	if (identity->ref == 0 && name)
		identity->ref = name->label_id;
	/* A replay does not advance the number that its capture had. */
	if (key->graph_node_id == 0)
		identity->sequence = (uint32_t)(filed >> 32);
	if (cs_filed_reason(filed) != 0)
		cs_labels_count_unlabelled(labels, (enum cs_unlabelled_reason)(cs_filed_reason(filed) - 1));
	return true;
}

void
cs_labels_resolve(const struct cs_kernel_key *key, struct cs_kernel_identity *identity)
{
	struct cs_labels *labels = cs_labels_borrow();
	const struct cs_kernel_name *name = NULL;

	*identity = (struct cs_kernel_identity){.kind = CS_CATALOG_NONE, .bytes = CS_BYTES_UNKNOWN};
	if (!labels)
		return;
	if (key->name) {
		name = cs_name_cache_get(&labels->names, key->name,
			atomic_load_explicit(&labels->functions.generation, memory_order_relaxed));
		if (name->kind == CS_CATALOG_NONE)
			return;
		if (name->kind == CS_CATALOG_MARKER) {
			identity->kind = CS_CATALOG_MARKER;
			identity->ref = name->name_id;
			return;
		}
	}
	if (resolve_filed(labels, key, name, identity) || !name)
		return;
	identity->kind = CS_CATALOG_COLLECTIVE;
	identity->ref = name->label_id;
	identity->record_flags = name->record_flags;
	if (name->nccl && key->graph_node_id == 0 &&
		atomic_load_explicit(&labels->calls_expected, memory_order_relaxed))
		identity->wait = true;
	else if (!(name->record_flags & CS_RECORD_PART))
		cs_labels_count_unlabelled(
			labels, name->has_size_rule ? missing_reason(labels, key) : CS_UNLABELLED_NO_RULE);
}
