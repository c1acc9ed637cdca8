/* SPDX-License-Identifier: Apache-2.0 */
#include "delivery.h"

#include "clock.h"
#include "cupti/cupti_call.h"
#include "life/instance.h"

#include <errno.h>
#include <string.h>

static struct cs_buffers buffers;
static struct cs_activity activity;
static pthread_mutex_t parse_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t parse_cpu_ns;
static _Atomic bool worker_known;
static _Atomic bool shortage;
static pthread_t worker_thread;
static uint64_t flush_period_ns;        /* set before the first buffer */
static _Atomic uint64_t sound_until_ns; /* when CUPTI was asked last whether it had dropped records */

/* Completed buffers that begin, from `at` on, with a record of a device that the worker has yet to name: of a
 * context that came up just now. Under the parser's lock. */
#define PARKED_MAX 8U
struct parked {
	uint8_t *buffer;
	size_t valid_bytes;
	CUpti_Activity *at;
};
static struct parked parked[PARKED_MAX];
static uint32_t parked_count;
static uint32_t asked_count; /* the first so many lay there when the worker took the wanted devices last */

int
cs_delivery_init(struct cs_instance *instance, struct cs_segment_writer *writer)
{
	flush_period_ns = instance->settings.flush_ms * CS_NS_PER_MS;
	atomic_store(&sound_until_ns, cs_clock_realtime_ns());
	cs_activity_init(&activity, writer, cs_labels_resolve);
	activity.call = cs_labels_on_call;
	activity.hold = cs_labels_hold;
	return cs_buffers_init(&buffers, instance->settings.buffers);
}

/*
 * CUPTI hands over what has ended since the flush before, and what it had no room for then shows when the
 * next buffer comes, or is asked for. So a record that is missed now is of work that ended at most a flush
 * period before the last buffer that came and missed none.
 */
static uint64_t
missing_since_ns(void)
{
	uint64_t sound_ns = atomic_load_explicit(&sound_until_ns, memory_order_relaxed);

	return sound_ns > flush_period_ns ? sound_ns - flush_period_ns : 0;
}

/* An application thread, inside its CUDA call. */
static void CUPTIAPI
buffer_requested(uint8_t **buffer, size_t *bytes, size_t *max_records)
{
	int saved_errno = errno;
	uint64_t now_ns = cs_clock_realtime_ns();
	struct cs_segment_writer *writer = cs_injector_borrow_writer();

	*max_records = 0; /* as many as fit */
	if (!cs_buffers_take(&buffers, now_ns, buffer, bytes) && writer)
		cs_segment_writer_lose_since(writer, CS_LOSS_POOL_EMPTY, 1, missing_since_ns(), now_ns);
	/* Once per shortage: the worker looks at once, not at its next turn. */
	if (cs_buffers_run_short(&buffers) && !atomic_load_explicit(&shortage, memory_order_relaxed) &&
		!atomic_exchange(&shortage, true))
		cs_instance_nudge();
	errno = saved_errno;
}

bool
cs_delivery_is_short(void)
{
	return atomic_load_explicit(&shortage, memory_order_relaxed);
}

void
cs_delivery_end_shortage(void)
{
	atomic_store(&shortage, false);
}

static bool
worker_lives(void)
{
	const struct cs_instance *instance = cs_instance_get();
	int leaving = atomic_load(&instance->leaving);

	return leaving == CS_LEAVING_NOT || leaving == CS_LEAVING_ASKED;
}

static CUptiResult
next_record(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record)
{
	return cs_cupti_next_record(&cs_instance_get()->cupti, buffer, valid_bytes, record);
}

/* false: it is parked, in its middle. Not when nobody comes to name the device any more, or for every buffer
 * that there is: then what is in it is lost, and counted. */
static bool
parse(uint8_t *buffer, size_t valid_bytes)
{
	struct parked one = {.buffer = buffer, .valid_bytes = valid_bytes};
	bool stopped;

	pthread_mutex_lock(&parse_lock);
	activity.since_ns = missing_since_ns();
	stopped = cs_activity_parse_from(&activity, buffer, valid_bytes, next_record, cs_clock_realtime_ns(),
		parked_count < PARKED_MAX && worker_lives(), &one.at);
	if (stopped)
		parked[parked_count++] = one;
	pthread_mutex_unlock(&parse_lock);
	if (stopped)
		cs_instance_nudge();
	return !stopped;
}

void
cs_delivery_parse_parked(void)
{
	pthread_mutex_lock(&parse_lock);
	for (uint32_t i = 0; i < asked_count; i++) {
		cs_activity_parse_from(&activity, parked[i].buffer, parked[i].valid_bytes, next_record,
			cs_clock_realtime_ns(), false, &parked[i].at);
		cs_buffers_give(&buffers, parked[i].buffer);
	}
	parked_count -= asked_count;
	memmove(&parked[0], &parked[asked_count], parked_count * sizeof(parked[0]));
	asked_count = 0;
	pthread_mutex_unlock(&parse_lock);
}

static void
count_dropped(struct cs_segment_writer *writer)
{
	uint64_t now_ns = cs_clock_realtime_ns();
	size_t dropped = 0;

	if (cs_cupti_count_dropped(&cs_instance_get()->cupti, &dropped) != CUPTI_SUCCESS)
		return;
	if (dropped != 0)
		cs_segment_writer_lose_since(
			writer, CS_LOSS_CUPTI_DROPPED, dropped, missing_since_ns(), now_ns);
	atomic_store_explicit(&sound_until_ns, now_ns, memory_order_relaxed);
}

static bool
on_worker(void)
{
	return atomic_load_explicit(&worker_known, memory_order_acquire) &&
	       pthread_equal(pthread_self(), worker_thread);
}

/* CUPTI's thread, or our worker inside FlushAll. */
static void CUPTIAPI
buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid_bytes)
{
	int saved_errno = errno;
	struct cs_segment_writer *writer = cs_injector_borrow_writer();
	bool foreign_thread = !on_worker(), done = true;
	uint64_t before_ns = foreign_thread ? cs_clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;

	(void)context;
	(void)stream;
	if (writer && cs_buffers_is_held(&buffers, buffer) && valid_bytes <= bytes) {
		done = valid_bytes == 0 || parse(buffer, valid_bytes);
		count_dropped(writer);
	}
	if (done)
		cs_buffers_give(&buffers, buffer);
	if (foreign_thread)
		atomic_fetch_add_explicit(&parse_cpu_ns, cs_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns,
			memory_order_relaxed);
	errno = saved_errno;
}

static void CUPTIAPI
buffer_requested_v2(uint8_t **buffer, size_t *bytes, size_t *max_records, void *info)
{
	(void)info;
	buffer_requested(buffer, bytes, max_records);
}

static void CUPTIAPI
buffer_completed_v2(uint8_t *buffer, size_t bytes, size_t valid_bytes, void *info)
{
	(void)info;
	buffer_completed(NULL, 0, buffer, bytes, valid_bytes);
}

CUptiResult
cs_delivery_register(const struct cs_cupti_api *cupti)
{
	if (cupti->shared)
		return cupti->activity_register_callbacks_v2(
			cupti->shared, buffer_requested_v2, buffer_completed_v2);
	return cupti->activity_register_callbacks(buffer_requested, buffer_completed);
}

struct cs_buffers *
cs_delivery_buffers(void)
{
	return &buffers;
}

void
cs_delivery_note_edge(bool open, uint64_t now_ns)
{
	pthread_mutex_lock(&parse_lock);
	if (open)
		cs_activity_note_open(&activity, now_ns);
	else
		cs_activity_note_close(&activity, now_ns);
	pthread_mutex_unlock(&parse_lock);
}

void
cs_delivery_note_set(bool back)
{
	pthread_mutex_lock(&parse_lock);
	cs_activity_note_set(&activity, back);
	pthread_mutex_unlock(&parse_lock);
}

uint64_t
cs_delivery_settle(uint64_t now_ns)
{
	uint64_t oldest_ns;

	pthread_mutex_lock(&parse_lock);
	oldest_ns = cs_labels_settle(now_ns);
	pthread_mutex_unlock(&parse_lock);
	return oldest_ns;
}

void
cs_delivery_set_gpu(uint32_t device, int gpu)
{
	cs_activity_set_gpu(&activity, device, gpu);
}

int
cs_delivery_gpu(uint32_t device)
{
	return cs_activity_gpu(&activity, device);
}

uint64_t
cs_delivery_cpu_ns(void)
{
	return atomic_load_explicit(&parse_cpu_ns, memory_order_relaxed);
}

uint64_t
cs_delivery_take_wanted(void)
{
	uint64_t wanted;

	pthread_mutex_lock(&parse_lock);
	wanted = atomic_exchange_explicit(&activity.wanted_devices, 0, memory_order_relaxed);
	asked_count = parked_count;
	pthread_mutex_unlock(&parse_lock);
	return wanted;
}

void
cs_delivery_set_worker(pthread_t worker)
{
	worker_thread = worker;
	atomic_store_explicit(&worker_known, true, memory_order_release);
}

void
cs_delivery_count(uint64_t ignore_before, struct cs_delivery_counts *counts)
{
	counts->requested = atomic_load_explicit(&buffers.requested, memory_order_relaxed);
	counts->completed = atomic_load_explicit(&buffers.completed, memory_order_relaxed);
	counts->held = cs_buffers_held(&buffers, ignore_before);
	counts->kernels = atomic_load_explicit(&activity.kernels_total, memory_order_relaxed);
	counts->timed = atomic_load_explicit(&activity.timed_total, memory_order_relaxed);
	counts->bad = atomic_load_explicit(&activity.bad_total, memory_order_relaxed);
	counts->strange = atomic_load_explicit(&activity.strange_total, memory_order_relaxed);
	pthread_mutex_lock(&parse_lock);
	counts->launches = activity.launches.count;
	pthread_mutex_unlock(&parse_lock);
}

/* -- pace: under the parser's lock, which is short ------------------------------------------------------- */

void
cs_delivery_pace_begin(uint64_t now_ns)
{
	pthread_mutex_lock(&parse_lock);
	cs_pace_begin(&activity.pace, now_ns);
	pthread_mutex_unlock(&parse_lock);
}

void
cs_delivery_pace_end(uint64_t now_ns)
{
	pthread_mutex_lock(&parse_lock);
	cs_pace_end(&activity.pace, now_ns);
	pthread_mutex_unlock(&parse_lock);
}

void
cs_delivery_pace_wait(uint64_t now_ns)
{
	pthread_mutex_lock(&parse_lock);
	cs_pace_wait(&activity.pace, now_ns);
	pthread_mutex_unlock(&parse_lock);
}

void
cs_delivery_pace_look(uint64_t *kernels, uint64_t *first_ns)
{
	pthread_mutex_lock(&parse_lock);
	*kernels = activity.pace.kernels;
	*first_ns = activity.pace.waiting_ns != 0 ? activity.pace.after_ns : activity.pace.first_ns;
	pthread_mutex_unlock(&parse_lock);
}

void
cs_delivery_pace_take(struct cs_pace *pace)
{
	pthread_mutex_lock(&parse_lock);
	*pace = activity.pace;
	pthread_mutex_unlock(&parse_lock);
}
