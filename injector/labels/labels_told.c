/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eager launches of NCCL's kernels without a subscription (told.h): what the plugin says of them, the records
 * of their calls, and the kernels whose call's record has not come yet.
 */
#include "labels_private.h"

#include "announce.h"
#include "clock.h"
#include "collective.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

/* The thread's launch, 0 none. */
static __thread uint64_t own_launch __attribute__((tls_model("initial-exec")));

/* -- told ---------------------------------------------------------------------------------------------- */

/* What CUPTI calls a thread's id. */
static uint32_t
own_thread(void)
{
	return (uint32_t)(uintptr_t)pthread_self();
}

void
cs_labels_told_begin(void)
{
	struct cs_labels *labels = cs_labels_borrow();
	struct cs_label label = {
		.rank = CS_RANK_UNKNOWN, .world = CS_RANK_UNKNOWN, .bytes = CS_BYTES_UNKNOWN};
	uint32_t sequence = 0;
	uint64_t filed = 0;

	if (!labels)
		return;
	/* NCCL did not tell of the end. */
	if (own_launch != 0)
		cs_told_end(&labels->told, own_launch, cs_clock_realtime_ns());
	/* Where the launch callback comes, the announcement is for it. */
	if (!atomic_load_explicit(&labels->listening, memory_order_relaxed) &&
		cs_announce_take(&label, &sequence))
		filed = CS_FILED_TOLD | cs_labels_pack(cs_label_table_put(&labels->table, &label), &label,
						cs_announce_lost() ? -ENOBUFS : -ENODATA, sequence);
	own_launch = cs_told_begin(&labels->told, own_thread(), cs_clock_realtime_ns(), filed);
	if (filed != 0)
		cs_announce_bind(CS_KEY_TOLD | own_launch);
}

void
cs_labels_told_end(void)
{
	struct cs_labels *labels = cs_labels_borrow();

	if (!labels || own_launch == 0)
		return;
	cs_told_end(&labels->told, own_launch, cs_clock_realtime_ns());
	own_launch = 0;
}

/* -- calls --------------------------------------------------------------------------------------------- */

static bool
launches_a_kernel(uint32_t cbid)
{
	switch (cbid) {
	case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel:
	case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz:
	case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
	case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz:
	case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel:
	case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz:
		return true;
	default:
		return false;
	}
}

void
cs_labels_on_call(const struct cs_activity_call *call)
{
	struct cs_labels *labels = cs_labels_borrow();
	uint64_t number, filed, before;

	if (!labels || !launches_a_kernel(call->cbid) || call->correlation_id == 0)
		return;
	number = cs_told_take(
		&labels->told, call->thread_id, call->start_ns, call->end_ns, call->correlation_id, &filed);
	if (number == 0 || filed == 0)
		return;
	/* Late facts come while this is done, or after it: cs_labels_amend. */
	do {
		before = filed;
		cs_eager_put(&labels->eager, call->correlation_id, filed);
	} while (cs_told_find(&labels->told, number, &filed) && filed != before);
}

bool
cs_labels_wants_calls(uint64_t now_ns)
{
	struct cs_labels *labels = cs_labels_borrow();
	uint64_t last_ns;

	if (!labels || atomic_load_explicit(&labels->listening, memory_order_relaxed))
		return false;
	last_ns = cs_told_last_ns(&labels->told);
	return last_ns != 0 && (now_ns < last_ns || now_ns - last_ns < CS_LABELS_CALLS_NS);
}

void
cs_labels_expect_calls(bool expect)
{
	struct cs_labels *labels = cs_labels_borrow();

	if (labels)
		atomic_store_explicit(&labels->calls_expected, expect, memory_order_relaxed);
}

/* -- resolving ----------------------------------------------------------------------------------------- */

static bool
is_exchange(uint8_t op)
{
	return op == CS_OP_SEND || op == CS_OP_RECV || op == CS_OP_SEND_RECV || op == CS_OP_ALL_TO_ALL ||
	       op == CS_OP_GATHER || op == CS_OP_SCATTER;
}

/* Whether a kernel of this name can be the launch. A group is named after one of its collectives, and types
 * of one width share a kernel. */
static bool
fits(const struct cs_label *name, const struct cs_label *told)
{
	unsigned int name_bytes = cs_dtype_bytes(name->dtype);
	unsigned int told_bytes = cs_dtype_bytes(told->dtype);

	if (name->impl != CS_IMPL_NCCL && name->impl != CS_IMPL_NCCL_SYMMETRIC)
		return false;
	if (told->works > 1)
		return true;
	if (name->op != CS_OP_UNKNOWN && told->op != CS_OP_UNKNOWN && name->op != told->op &&
		!(is_exchange(name->op) && is_exchange(told->op)))
		return false;
	return name_bytes == 0 || told_bytes == 0 || name_bytes == told_bytes;
}

bool
cs_labels_resolve_told(struct cs_labels *labels, const struct cs_kernel_name *name, uint64_t filed,
	struct cs_kernel_identity *identity)
{
	const struct cs_label_entry *told = cs_label_table_entry(&labels->table, cs_filed_label(filed));
	const struct cs_label *by_name = cs_segment_writer_borrow_label(labels->writer, name->label_id);
	unsigned int reason = cs_filed_reason(filed);
	struct cs_label_entry *entry;
	struct cs_label label;

	if (!by_name || (told && !fits(by_name, &told->label)))
		return false;
	label = *by_name;
	if (told)
		cs_announce_merge(&label, &told->label);
	label.name_id = name->hash;
	entry = cs_label_table_entry(&labels->table, cs_label_table_put(&labels->table, &label));
	identity->kind = CS_CATALOG_COLLECTIVE;
	identity->record_flags = name->record_flags;
	identity->bytes = label.bytes;
	identity->ref = entry ? cs_label_entry_segment_id(entry, labels->writer, name->name_id) : 0;
	if (identity->ref == 0)
		identity->ref = name->label_id;
	identity->sequence = cs_filed_call(filed);
	if (reason != 0)
		cs_labels_count_unlabelled(labels, (enum cs_unlabelled_reason)(reason - 1));
	return true;
}

/* -- waiting ------------------------------------------------------------------------------------------- */

bool
cs_labels_hold(const struct cs_kernel_key *key, const struct cs_record *record)
{
	struct cs_labels *labels = cs_labels_borrow();
	struct cs_held *held;

	if (!labels)
		return false;
	if (labels->held_count == CS_HELD_MAX) {
		cs_labels_count_unlabelled(labels, CS_UNLABELLED_NO_LAUNCH);
		return false;
	}
	held = &labels->held[labels->held_count++];
	held->record = *record;
	held->since_ns = cs_clock_monotonic_ns();
	/* The name's text is gone with its buffer. */
	held->name = *cs_name_cache_get(&labels->names, key->name,
		atomic_load_explicit(&labels->functions.generation, memory_order_relaxed));
	held->name.address = NULL;
	return true;
}

/* true: it has left. */
static bool
settle(struct cs_labels *labels, const struct cs_held *held, bool late)
{
	struct cs_kernel_identity identity = {.bytes = CS_BYTES_UNKNOWN};
	struct cs_record record = held->record;
	uint64_t filed;

	if (cs_eager_find(&labels->eager, record.correlation_id, &filed) && (filed & CS_FILED_TOLD) &&
		cs_labels_resolve_told(labels, &held->name, filed, &identity)) {
		record.flags |= identity.record_flags;
		record.ref = identity.ref;
		record.value = identity.bytes;
		record.sequence = identity.sequence;
	} else if (late) {
		cs_labels_count_unlabelled(labels, CS_UNLABELLED_NO_LAUNCH);
	} else {
		return false;
	}
	cs_segment_writer_append(labels->writer, &record);
	return true;
}

uint64_t
cs_labels_settle(uint64_t now_ns)
{
	struct cs_labels *labels = cs_labels_borrow();
	uint64_t oldest_ns = UINT64_MAX;
	uint32_t kept = 0;

	if (!labels)
		return oldest_ns;
	for (uint32_t i = 0; i < labels->held_count; i++) {
		const struct cs_held *held = &labels->held[i];

		if (settle(labels, held, now_ns > held->since_ns && now_ns - held->since_ns >= CS_HELD_NS))
			continue;
		if (held->record.start_ns < oldest_ns)
			oldest_ns = held->record.start_ns;
		if (kept != i)
			labels->held[kept] = *held;
		kept++;
	}
	labels->held_count = kept;
	return oldest_ns;
}
