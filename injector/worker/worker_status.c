/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker keeps true in the segment: devices, STATUS, the governor's choice, answers to requests. */
#include "worker_private.h"

#include "clock.h"
#include "cupti/subscription.h"
#include "labels/labels.h"
#include "life/context.h"
#include "life/identity.h"
#include "life/thread.h"
#include "log.h"

#include <errno.h>

static void
name_device(struct cs_worker *w, uint32_t device, uint32_t context_id)
{
	int gpu;

	if (cs_delivery_gpu(device) >= 0)
		return;
	gpu = cs_identity_register_gpu(w->instance, w->writer, device, context_id);
	if (gpu < 0)
		cs_log_debug("No identity for a GPU device=%u error=%d", device, -gpu);
	else
		cs_delivery_set_gpu(device, gpu);
}

void
cs_worker_name_devices(struct cs_worker *w)
{
	uint64_t wanted = cs_delivery_take_wanted();
	uint32_t device, context_id;

	while (cs_context_take_device(&device, &context_id)) {
		name_device(w, device, context_id);
		if (cs_delivery_gpu(device) >= 0)
			cs_labels_set_gpu(context_id, (uint8_t)cs_delivery_gpu(device));
	}
	for (; wanted != 0; wanted &= wanted - 1)
		name_device(w, (uint32_t)__builtin_ctzll(wanted), 0);
	cs_delivery_parse_parked();
}

static enum cs_state
state_of(const struct cs_worker *w)
{
	if (w->schedule.paused)
		return CS_STATE_PAUSED;
	if (w->yielded)
		return CS_STATE_YIELDED;
	if (w->windows.open.depth != CS_DEPTH_OFF || w->schedule.mode == CS_MODE_FULL)
		return CS_STATE_TRACING;
	if (cs_subscription_held())
		return CS_STATE_LEARNING;
	return w->schedule.mode == CS_MODE_DEMAND ? CS_STATE_IDLE : CS_STATE_TRACING;
}

static const char *
reason_of(const struct cs_worker *w)
{
	if (w->schedule.paused)
		return w->yielded ? "Paused on request; another tool has CUPTI" : "Paused on request";
	return w->reason[0] ? w->reason : w->stays;
}

static void
publish_request(struct cs_worker *w)
{
	atomic_store_explicit(&w->status->request_until_ns,
		w->schedule.asked ? w->schedule.asked_until_ns : 0, memory_order_relaxed);
}

static bool
is_subscribed(const struct cs_worker *w)
{
	return cs_subscription_held() || w->instance->cupti.shared;
}

void
cs_worker_update_status(struct cs_worker *w)
{
	struct cs_delivery_counts counts;

	cs_delivery_count(w->ignore_before, &counts);
	atomic_store_explicit(&w->status->heartbeat_ns, w->now_ns, memory_order_relaxed);
	atomic_store_explicit(&w->status->buffers_requested, counts.requested, memory_order_relaxed);
	atomic_store_explicit(&w->status->buffers_completed, counts.completed, memory_order_relaxed);
	atomic_store_explicit(&w->status->cpu_ns, cs_clock_ns(CLOCK_THREAD_CPUTIME_ID) + cs_delivery_cpu_ns(),
		memory_order_relaxed);
	atomic_store_explicit(&w->status->subscribed, is_subscribed(w), memory_order_relaxed);
	publish_request(w);
	cs_instance_set_state(state_of(w), reason_of(w));
}

void
cs_worker_update_memory(struct cs_worker *w)
{
	uint32_t contexts;
	uint64_t host_bytes = cs_segment_writer_mapped_bytes(w->writer) + cs_labels_mapped_bytes() +
			      cs_buffers_mapped_bytes(cs_delivery_buffers()) + CS_THREAD_STACK_BYTES;

	atomic_store_explicit(&w->status->host_memory_bytes, host_bytes, memory_order_relaxed);
	/* The cap, for each context; CUPTI does not tell how much of it is in use. When it is traced without
	 * a context that we saw come, there is one all the same. */
	contexts = cs_context_count();
	atomic_store_explicit(&w->status->device_memory_bytes,
		atomic_load(&w->instance->traced) ? w->instance->device_bytes * (contexts ? contexts : 1) : 0,
		memory_order_relaxed);
}

void
cs_worker_answer_requests(struct cs_worker *w)
{
	struct cs_segment_request request;
	int error = 0;

	if (!cs_segment_writer_take_request(w->writer, &request))
		return;
	w->schedule.perturbation =
		w->governor.perturbation > 0 ? cs_governor_expected(&w->governor) : CS_GOVERNOR_UNMEASURED;
	/* Another tool has CUPTI: there is nothing to promise. */
	if (request.command == CS_COMMAND_TRACE && w->yielded)
		error = EBUSY;
	else
		error = cs_schedule_request(&w->schedule, &request, w->now_ns, w->monotonic_ns);
	if (request.command == CS_COMMAND_PAUSE && error == 0) {
		cs_worker_pause(w);
		if (request.argument & CS_PAUSE_RELEASE)
			cs_worker_release_subscription(w);
		atomic_store_explicit(&w->status->subscribed, is_subscribed(w), memory_order_relaxed);
	}
	publish_request(w); /* before the answer: who reads that may read this */
	cs_segment_writer_answer(w->writer, &request, error);
}
