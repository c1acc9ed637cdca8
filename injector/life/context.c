/* SPDX-License-Identifier: Apache-2.0 */
#include "context.h"

#include "clock.h"
#include "cupti/subscription.h"
#include "labels/labels.h"
#include "log.h"
#include "records/delivery.h"
#include "release.h"
#include "segment/rundir.h"
#include "thread.h"
#include "worker/worker.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define PENDING_MAX        64U
#define RING_SLOTS_PER_MIB (1024U * 1024U / sizeof(struct cs_ring_slot))

/* Devices to be looked up: written once per place, by the thread that created the context. */
static struct {
	uint32_t device;
	uint32_t context_id;
	_Atomic bool ready;
} pending[PENDING_MAX];
static _Atomic uint32_t pending_count;
static _Atomic uint32_t created_count, destroyed_count;
static uint32_t pending_taken; /* the worker's */

static pthread_mutex_t life_lock = PTHREAD_MUTEX_INITIALIZER;
static bool alive;

static void
fill_status(const struct cs_instance *instance, struct cs_segment_writer *writer)
{
	struct cs_status *status = cs_segment_writer_status(writer);
	uint64_t now_ns = cs_clock_realtime_ns();

	atomic_store_explicit(&status->heartbeat_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&status->mode, (uint64_t)instance->settings.mode, memory_order_relaxed);
	atomic_store_explicit(&status->depth_since_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&status->trace_max_ns,
		instance->settings.trace_max_s ? instance->settings.trace_max_s * CS_NS_PER_S : UINT64_MAX,
		memory_order_relaxed);
	atomic_store_explicit(&status->subscribed, cs_subscription_held(), memory_order_relaxed);
	atomic_store_explicit(&status->state,
		(uint64_t)(cs_subscription_held() ? CS_STATE_LEARNING : CS_STATE_YIELDED),
		memory_order_relaxed);
}

/* Everything that a running instance has; the worker comes last, and only then does anybody see the writer.
 */
static int
create(struct cs_instance *instance)
{
	struct cs_segment_options options = {
		.directory = instance->directory,
		.ring_slots = instance->settings.ring_mib * (uint32_t)RING_SLOTS_PER_MIB,
		.version = CS_VERSION,
	};
	struct cs_segment_writer *writer;
	int result;

	result = cs_segment_writer_create(&options, &writer);
	if (result < 0) {
		cs_instance_go_dormant(
			"cannot create a segment in %s (%s); free space there or set COLLSCOPE_DIR",
			instance->directory, strerrordesc_np(-result));
		return result;
	}
	result = cs_labels_init(&instance->cupti, writer, instance->catalog);
	if (result < 0) {
		cs_segment_writer_destroy(writer, true);
		cs_instance_go_dormant("no memory for the label tables");
		return result;
	}
	if (cs_delivery_init(instance, writer) < 0)
		cs_log_warn("No memory for activity buffers, using small ones");
	fill_status(instance, writer);
	cs_instance_publish_writer(writer);
	result = cs_worker_start(instance, writer);
	if (result < 0)
		cs_instance_go_dormant("cannot start a thread (%s)", strerrordesc_np(-result));
	return result;
}

int
cs_context_bring_to_life(struct cs_instance *instance)
{
	sigset_t before;
	int result = 0;

	cs_thread_hold_signals(&before);
	pthread_mutex_lock(&life_lock);
	if (!alive && cs_instance_active()) {
		alive = true;
		result = create(instance);
		if (result < 0)
			cs_release_elsewhere(instance);
	}
	pthread_mutex_unlock(&life_lock);
	cs_thread_release_signals(&before);
	return result;
}

void
cs_context_hold_life(bool hold)
{
	if (hold)
		pthread_mutex_lock(&life_lock);
	else
		pthread_mutex_unlock(&life_lock);
}

static void
note_device(const struct cs_instance *instance, CUcontext context)
{
	uint32_t device = 0, context_id = 0, place;

	if (instance->cupti.get_device_id(context, &device) != CUPTI_SUCCESS)
		return;
	if (instance->cupti.get_context_id(context, &context_id) != CUPTI_SUCCESS)
		context_id = 0;
	place = atomic_fetch_add_explicit(&pending_count, 1, memory_order_relaxed);
	if (place >= PENDING_MAX)
		return; /* the worker looks up what it can by itself: contexts of devices that it knows */
	pending[place].device = device;
	pending[place].context_id = context_id;
	atomic_store_explicit(&pending[place].ready, true, memory_order_release);
}

void
cs_context_created(CUcontext context)
{
	struct cs_instance *instance = cs_instance_get();
	uint64_t none = 0;
	bool first =
		atomic_compare_exchange_strong(&instance->first_context_ns, &none, cs_clock_monotonic_ns());

	atomic_fetch_add_explicit(&created_count, 1, memory_order_relaxed);
	note_device(instance, context);
	if (!first)
		return;
	if (cs_context_bring_to_life(instance) == 0)
		cs_subscription_enable_labels();
}

void
cs_context_destroyed(void)
{
	atomic_fetch_add_explicit(&destroyed_count, 1, memory_order_relaxed);
}

uint32_t
cs_context_count(void)
{
	uint32_t destroyed = atomic_load_explicit(&destroyed_count, memory_order_relaxed);
	uint32_t created = atomic_load_explicit(&created_count, memory_order_relaxed);

	return created > destroyed ? created - destroyed : 0;
}

bool
cs_context_take_device(uint32_t *device, uint32_t *context_id)
{
	if (pending_taken >= PENDING_MAX ||
		!atomic_load_explicit(&pending[pending_taken].ready, memory_order_acquire))
		return false;
	*device = pending[pending_taken].device;
	*context_id = pending[pending_taken].context_id;
	pending_taken++;
	return true;
}
