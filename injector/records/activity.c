/* SPDX-License-Identifier: Apache-2.0 */
#include "activity.h"

#include "activity_layout.h"
#include "clock.h"

#include <string.h>

#define LONGEST_NS (3600 * CS_NS_PER_S)
#define PAST_NS    (86400 * CS_NS_PER_S)
#define FUTURE_NS  (86400 * CS_NS_PER_S)
/* After tracing was switched off: what had been launched before has begun. */
#define BEGUN_NS (3 * CS_NS_PER_S)

static void
emit(void *context, const struct cs_record *record)
{
	const struct cs_activity *activity = context;

	cs_segment_writer_append(activity->writer, record);
}

void
cs_activity_init(struct cs_activity *activity, struct cs_segment_writer *writer,
	void (*resolve)(const struct cs_kernel_key *key, struct cs_kernel_identity *identity))
{
	memset(activity, 0, sizeof(*activity));
	activity->writer = writer;
	activity->resolve = resolve;
	activity->closed_ns = UINT64_MAX;
	activity->reopened_ns = UINT64_MAX;
	cs_coalesce_init(&activity->coalesce, emit, activity);
}

void
cs_activity_set_gpu(struct cs_activity *activity, uint32_t device, int gpu)
{
	if (device < CS_DEVICES_MAX && gpu >= 0 && gpu < (int)CS_GPUS_MAX)
		atomic_store_explicit(
			&activity->gpu_of_device[device], (int8_t)(gpu + 1), memory_order_release);
}

int
cs_activity_gpu(const struct cs_activity *activity, uint32_t device)
{
	if (device >= CS_DEVICES_MAX)
		return -1;
	return atomic_load_explicit(&activity->gpu_of_device[device], memory_order_acquire) - 1;
}

void
cs_activity_note_close(struct cs_activity *activity, uint64_t now_ns)
{
	activity->reopened_ns = UINT64_MAX;
	activity->closed_ns = now_ns;
}

void
cs_activity_note_open(struct cs_activity *activity, uint64_t now_ns)
{
	activity->reopened_ns = now_ns;
}

void
cs_activity_note_set(struct cs_activity *activity, bool back)
{
	activity->set_forward |= !back;
	if (!back || activity->reopened_ns == UINT64_MAX)
		return;
	activity->closed_ns = UINT64_MAX;
	activity->reopened_ns = UINT64_MAX;
}

static inline bool
outside_windows(const struct cs_activity *activity, uint64_t start_ns, uint64_t end_ns)
{
	return end_ns > activity->closed_ns && start_ns < activity->reopened_ns;
}

/* Neither launched before the one edge nor after the other: it is by another clock. */
static bool
between_windows(const struct cs_activity *activity, uint64_t start_ns, uint64_t end_ns)
{
	return start_ns > activity->closed_ns && start_ns - activity->closed_ns > BEGUN_NS &&
	       end_ns < activity->reopened_ns && activity->reopened_ns != UINT64_MAX;
}

static inline uint32_t
fold_stream(uint32_t context_id, uint32_t stream_id)
{
	return (context_id << 24) ^ stream_id;
}

static inline bool
times_sound(uint64_t start_ns, uint64_t end_ns)
{
	return start_ns != 0 && end_ns >= start_ns && end_ns - start_ns <= LONGEST_NS;
}

static inline bool
times_near(const struct cs_activity *activity, uint64_t end_ns)
{
	return end_ns + PAST_NS >= activity->now_ns && end_ns <= activity->now_ns + FUTURE_NS;
}

static void
note_unknown(struct cs_activity *activity, uint64_t start_ns, uint64_t end_ns)
{
	if (activity->unknown_device++ == 0) {
		activity->unknown_from_ns = start_ns;
		activity->unknown_until_ns = end_ns;
	}
	if (start_ns < activity->unknown_from_ns)
		activity->unknown_from_ns = start_ns;
	if (end_ns > activity->unknown_until_ns)
		activity->unknown_until_ns = end_ns;
}

/* What all kinds share. false: the record is left out, and counted where it is a loss. */
static inline bool
fill_common(struct cs_activity *activity, uint32_t device, uint32_t context, uint32_t stream,
	uint64_t start_ns, uint64_t end_ns, struct cs_record *record)
{
	int gpu;

	activity->timed++;
	if (__builtin_expect(!times_sound(start_ns, end_ns) || !times_near(activity, end_ns), 0)) {
		activity->bad++;
		activity->strange += times_sound(start_ns, end_ns);
		return false;
	}
	if (__builtin_expect(outside_windows(activity, start_ns, end_ns), 0)) {
		if (activity->set_forward && between_windows(activity, start_ns, end_ns)) {
			activity->bad++;
			activity->strange++;
		}
		return false;
	}
	gpu = cs_activity_gpu(activity, device);
	if (__builtin_expect(gpu < 0, 0)) {
		if (activity->waits) {
			activity->stopped = true;
			activity->timed--;
		} else {
			note_unknown(activity, start_ns, end_ns);
		}
		if (device < CS_DEVICES_MAX)
			atomic_fetch_or_explicit(
				&activity->wanted_devices, UINT64_C(1) << device, memory_order_relaxed);
		return false;
	}
	*record = (struct cs_record){
		.gpu = (uint8_t)gpu,
		.start_ns = start_ns,
		.end_ns = end_ns,
		.stream_id = fold_stream(context, stream),
	};
	return true;
}

static inline void
fill_graph(struct cs_record *record, uint32_t correlation_id, uint64_t graph_node_id, uint32_t graph_id)
{
	record->correlation_id = correlation_id;
	record->graph_node_id = graph_node_id;
	record->graph_id = graph_id;
	if (graph_node_id != 0)
		record->flags |= CS_RECORD_IN_GRAPH;
}

static void
on_kernel(struct cs_activity *activity, const struct cs_activity_kernel *kernel)
{
	struct cs_kernel_identity identity = {0};
	struct cs_kernel_key key = {
		.name = kernel->name,
		.graph_node_id = kernel->graph_node_id,
		.correlation_id = kernel->correlation_id,
		.context_id = kernel->context_id,
		.stream_id = kernel->stream_id,
	};
	struct cs_record record;

	activity->kernels++;
	if (!fill_common(activity, kernel->device_id, kernel->context_id, kernel->stream_id, kernel->start_ns,
		    kernel->end_ns, &record)) {
		activity->kernels -= activity->stopped;
		return;
	}
	fill_graph(&record, kernel->correlation_id, kernel->graph_node_id, kernel->graph_id);
	if (kernel->end_ns > activity->last_end_ns)
		activity->last_end_ns = kernel->end_ns;
	if (kernel->graph_node_id != 0)
		cs_launches_node(&activity->launches, kernel->correlation_id, kernel->graph_id);
	cs_pace_kernel(&activity->pace, kernel->correlation_id,
		kernel->graph_node_id != 0 ? kernel->graph_id : 0, kernel->start_ns, kernel->end_ns);
	activity->resolve(&key, &identity);
	if (identity.kind == CS_CATALOG_NONE) {
		record.type = CS_RECORD_BUSY;
		record.klass = CS_BUSY_COMPUTE;
		record.ref = 1;
		record.value = kernel->end_ns - kernel->start_ns;
		cs_coalesce_add(&activity->coalesce, &record);
		return;
	}
	record.flags |= identity.record_flags;
	record.ref = identity.ref;
	if (identity.kind == CS_CATALOG_COLLECTIVE) {
		record.type = CS_RECORD_COLLECTIVE;
		record.value = identity.bytes;
		record.sequence = identity.sequence;
	} else {
		record.type = CS_RECORD_MARKER;
	}
	cs_coalesce_break(&activity->coalesce, record.gpu, record.stream_id);
	if (identity.wait && activity->hold && activity->hold(&key, &record))
		return;
	cs_segment_writer_append(activity->writer, &record);
}

static uint8_t
copy_flags(uint8_t copy_kind)
{
	switch (copy_kind) {
	case CS_COPY_TO_DEVICE:
	case CS_COPY_HOST_TO_ARRAY:
		return CS_RECORD_COPY_FROM_HOST;
	case CS_COPY_TO_HOST:
	case CS_COPY_ARRAY_TO_HOST:
		return CS_RECORD_COPY_TO_HOST;
	case CS_COPY_PEER:
		return CS_RECORD_COPY_PEER;
	default:
		return 0;
	}
}

static void
add_copy(struct cs_activity *activity, struct cs_record *record, uint8_t flags, uint64_t bytes)
{
	record->type = CS_RECORD_BUSY;
	record->klass = CS_BUSY_COPY;
	record->flags |= flags;
	record->ref = 1;
	record->value = bytes;
	cs_coalesce_add(&activity->coalesce, record);
}

static void
on_copy(struct cs_activity *activity, const struct cs_activity_copy *copy)
{
	struct cs_record record;

	if (!fill_common(activity, copy->device_id, copy->context_id, copy->stream_id, copy->start_ns,
		    copy->end_ns, &record))
		return;
	fill_graph(&record, copy->correlation_id, copy->graph_node_id, copy->graph_id);
	add_copy(activity, &record, copy_flags(copy->copy_kind), copy->bytes);
}

static void
on_copy_peer(struct cs_activity *activity, const struct cs_activity_copy_peer *copy)
{
	struct cs_record record;

	if (!fill_common(activity, copy->device_id, copy->context_id, copy->stream_id, copy->start_ns,
		    copy->end_ns, &record))
		return;
	fill_graph(&record, copy->correlation_id, copy->graph_node_id, copy->graph_id);
	add_copy(activity, &record, CS_RECORD_COPY_PEER, copy->bytes);
}

static void
on_set(struct cs_activity *activity, const struct cs_activity_set *set)
{
	struct cs_record record;

	if (!fill_common(activity, set->device_id, set->context_id, set->stream_id, set->start_ns,
		    set->end_ns, &record))
		return;
	fill_graph(&record, set->correlation_id, set->graph_node_id, set->graph_id);
	add_copy(activity, &record, 0, set->bytes);
}

static inline void
on_record(struct cs_activity *activity, const void *record)
{
	uint32_t kind;

	memcpy(&kind, record, sizeof(kind));
	switch (kind) {
	case CS_ACTIVITY_CONCURRENT_KERNEL:
	case CS_ACTIVITY_KERNEL:
		on_kernel(activity, record);
		break;
	case CS_ACTIVITY_DRIVER:
		if (activity->call)
			activity->call(record);
		break;
	case CS_ACTIVITY_MEMCPY:
		on_copy(activity, record);
		break;
	case CS_ACTIVITY_MEMCPY_PEER:
		on_copy_peer(activity, record);
		break;
	case CS_ACTIVITY_MEMSET:
		on_set(activity, record);
		break;
	default: /* kinds that another tool has switched on */
		break;
	}
}

static void
publish_counts(struct cs_activity *activity)
{
	struct cs_status *status = cs_segment_writer_status(activity->writer);

	atomic_fetch_add_explicit(&status->kernels_seen, activity->kernels, memory_order_relaxed);
	if (activity->bad != 0)
		cs_segment_writer_lose(
			activity->writer, CS_LOSS_BAD_TIMESTAMP, activity->bad, activity->now_ns);
	if (activity->unknown_device != 0)
		cs_segment_writer_lose_since(activity->writer, CS_LOSS_UNKNOWN_DEVICE,
			activity->unknown_device, activity->unknown_from_ns, activity->unknown_until_ns);
	if (activity->last_end_ns > atomic_load_explicit(&status->last_record_end_ns, memory_order_relaxed))
		atomic_store_explicit(
			&status->last_record_end_ns, activity->last_end_ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&activity->kernels_total, activity->kernels, memory_order_relaxed);
	atomic_fetch_add_explicit(&activity->timed_total, activity->timed, memory_order_relaxed);
	atomic_fetch_add_explicit(&activity->bad_total, activity->bad, memory_order_relaxed);
	atomic_fetch_add_explicit(&activity->strange_total, activity->strange, memory_order_relaxed);
}

static CUptiResult
walk(struct cs_activity *activity, uint8_t *buffer, size_t valid_bytes, cs_activity_next next,
	CUpti_Activity **at)
{
	CUpti_Activity *record = *at;
	CUptiResult result = CUPTI_SUCCESS;

	if (!record)
		result = next(buffer, valid_bytes, &record);
	while (result == CUPTI_SUCCESS) {
		on_record(activity, record);
		if (__builtin_expect(activity->stopped, 0))
			break;
		result = next(buffer, valid_bytes, &record);
	}
	*at = activity->stopped ? record : NULL;
	return result;
}

bool
cs_activity_parse_from(struct cs_activity *activity, uint8_t *buffer, size_t valid_bytes,
	cs_activity_next next, uint64_t now_ns, bool wait, CUpti_Activity **at)
{
	CUptiResult result;

	activity->waits = wait;
	activity->stopped = false;
	activity->now_ns = now_ns;
	activity->kernels = 0;
	activity->timed = 0;
	activity->bad = 0;
	activity->strange = 0;
	activity->unknown_device = 0;
	activity->last_end_ns = 0;
	result = walk(activity, buffer, valid_bytes, next, at);
	cs_coalesce_finish(&activity->coalesce);
	publish_counts(activity);
	/* A record that is not complete is the end as well (cupti_activity.h). At any other nobody knows how
	 * many are left. */
	if (!activity->stopped && result != CUPTI_ERROR_MAX_LIMIT_REACHED &&
		result != CUPTI_ERROR_INVALID_KIND)
		cs_segment_writer_lose_since(
			activity->writer, CS_LOSS_CUPTI_DROPPED, 1, activity->since_ns, now_ns);
	return activity->stopped;
}

void
cs_activity_parse(struct cs_activity *activity, uint8_t *buffer, size_t valid_bytes, cs_activity_next next,
	uint64_t now_ns)
{
	CUpti_Activity *at = NULL;

	cs_activity_parse_from(activity, buffer, valid_bytes, next, now_ns, false, &at);
}
