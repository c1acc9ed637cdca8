/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Activity buffers. Asked for on the application thread when a record needs room; handed back by the worker
 * when full and complete, or by cuptiActivityFlushAll when complete. Records lie here until then, so that any
 * byte of the client's buffer that is not zero before delivery was written by somebody who had no right to.
 */
#include "cupti.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORKER_PERIOD_MS 50U
#define SHUFFLE_REACH    32U /* how far a record may lie from its place in time */
#define BUFFER_BYTES_MIN 1024U

struct buffer {
	uint8_t *memory;
	size_t size;
	size_t used;         /* bytes that its records will take */
	size_t record_limit; /* the client's maxNumRecords; 0: no limit */
	long thread;         /* whose it is; 0: everybody's */
	bool full;
	uint64_t complete_ns; /* when the last of its records ends */
	size_t count;
	size_t capacity;
	struct fake_record *records;
	struct buffer *next;
};

static struct buffer *held; /* all that CUPTI has; newest first */
static _Atomic(CUpti_BuffersCallbackRequestFunc) request_function;
static _Atomic(CUpti_BuffersCallbackCompleteFunc) complete_function;
static _Atomic uint64_t dropped;
static _Atomic uint64_t record_counter;
static _Atomic uint32_t period_ms;
static pthread_mutex_t delivery_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t worker_once = PTHREAD_ONCE_INIT;

static void
buffer_free(struct buffer *buffer)
{
	free(buffer->records);
	free(buffer);
}

/* -- filling
 * -------------------------------------------------------------------------------------------------- */

static long
owner_of_buffers(void)
{
	return fake_per_thread_buffers() ? syscall(SYS_gettid) : 0;
}

static struct buffer *
find_open(long thread, size_t bytes)
{
	struct buffer *buffer;

	for (buffer = held; buffer; buffer = buffer->next) {
		if (buffer->thread != thread || buffer->full)
			continue;
		if (buffer->size - buffer->used >= bytes &&
			(!buffer->record_limit || buffer->count < buffer->record_limit))
			return buffer;
		buffer->full = true;
	}
	return NULL;
}

static bool
all_zero(const uint8_t *memory, size_t size)
{
	return size == 0 || (memory[0] == 0 && memcmp(memory, memory + 1, size - 1) == 0);
}

static void
check_answer(const uint8_t *memory, size_t size)
{
	const struct buffer *buffer;

	if ((uintptr_t)memory % 8)
		fake_cupti_misuse("bufferRequested answered a buffer that is not 8-byte aligned");
	if (size < BUFFER_BYTES_MIN)
		fake_cupti_misuse("bufferRequested answered a buffer of %zu bytes", size);
	pthread_mutex_lock(&fake_cupti_lock);
	for (buffer = held; buffer; buffer = buffer->next)
		if (memory < buffer->memory + buffer->size && buffer->memory < memory + size)
			fake_cupti_misuse("bufferRequested answered memory that CUPTI still holds");
	pthread_mutex_unlock(&fake_cupti_lock);
}

/* Asks the client, without the lock. NULL: no buffer, the records are lost. */
static struct buffer *
request(long thread)
{
	enum cs_fake_inside *inside = fake_driver()->inside();
	enum cs_fake_inside before = *inside;
	CUpti_BuffersCallbackRequestFunc function = request_function;
	struct buffer *buffer;
	uint8_t *memory = NULL;
	size_t size = 0, limit = 0;

	if (!function)
		return NULL;
	*inside = CS_FAKE_INSIDE_BUFFER_REQUEST;
	function(&memory, &size, &limit);
	*inside = before;
	if (!memory || !size) {
		if (!FAKE_HAS_NULL_ANSWER)
			fake_cupti_misuse("bufferRequested answered NULL: CUPTI before 12.9 crashes");
		return NULL;
	}
	check_answer(memory, size);
	if (fake_client_zeroes_buffers()) {
		if (!all_zero(memory, size))
			fake_cupti_misuse("ZEROED_OUT_ACTIVITY_BUFFER is set, and a buffer is not zero");
	} else {
		memset(memory, 0, size);
	}
	buffer = calloc(1, sizeof(*buffer));
	if (!buffer)
		abort();
	buffer->memory = memory;
	buffer->size = size;
	buffer->record_limit = limit;
	buffer->thread = thread;
	return buffer;
}

static void
buffer_add(struct buffer *buffer, const struct fake_record *record)
{
	if (buffer->count == buffer->capacity) {
		buffer->capacity = buffer->capacity ? buffer->capacity * 2 : 64;
		buffer->records = realloc(buffer->records, buffer->capacity * sizeof(*buffer->records));
		if (!buffer->records)
			abort();
	}
	buffer->records[buffer->count++] = *record;
	buffer->used += record->size;
	if (record->span.end_ns > buffer->complete_ns)
		buffer->complete_ns = record->span.end_ns;
}

/* CS_FAKE_CUPTI_DROP=N: every Nth record is lost, and said to be. */
static bool
drop(void)
{
	static _Atomic uint64_t every = UINT64_MAX;

	if (atomic_load_explicit(&every, memory_order_relaxed) == UINT64_MAX)
		atomic_store(&every, fake_number("CS_FAKE_CUPTI_DROP", 0));
	if (!atomic_load_explicit(&every, memory_order_relaxed))
		return false;
	if ((atomic_fetch_add(&record_counter, 1) + 1) % atomic_load(&every) != 0)
		return false;
	atomic_fetch_add(&dropped, 1);
	return true;
}

void
fake_buffers_append(const struct fake_record *records, size_t count)
{
	long thread = owner_of_buffers();
	struct buffer *buffer;
	struct buffer *fresh;
	size_t i;

	pthread_mutex_lock(&fake_cupti_lock);
	for (i = 0; i < count; i++) {
		if (drop())
			continue;
		buffer = find_open(thread, records[i].size);
		if (!buffer) {
			pthread_mutex_unlock(&fake_cupti_lock);
			fresh = request(thread);
			pthread_mutex_lock(&fake_cupti_lock);
			if (!fresh) {
				atomic_fetch_add(&dropped, 1);
				continue;
			}
			fresh->next = held;
			held = fresh;
			buffer = fresh;
		}
		buffer_add(buffer, &records[i]);
	}
	pthread_mutex_unlock(&fake_cupti_lock);
}

/* -- handing back
 * --------------------------------------------------------------------------------------------- */

enum which {
	FULL_AND_COMPLETE,
	COMPLETE,
	ALL,
};

/* Takes the buffers that may go out of the list. CS_FAKE_CUPTI_DELAY_MS: completion is seen that much later.
 */
static struct buffer *
take(enum which which)
{
	uint64_t now_ns = fake_cupti_now_ns() - fake_number("CS_FAKE_CUPTI_DELAY_MS", 0) * 1000000U;
	struct buffer *taken = NULL;
	struct buffer *buffer;
	struct buffer **link;

	pthread_mutex_lock(&fake_cupti_lock);
	for (link = &held; (buffer = *link);) {
		if (which == ALL || (buffer->complete_ns <= now_ns && buffer->count &&
					    (which == COMPLETE || buffer->full))) {
			*link = buffer->next;
			buffer->next = taken;
			taken = buffer;
		} else {
			link = &buffer->next;
		}
	}
	pthread_mutex_unlock(&fake_cupti_lock);
	return taken;
}

/* Records come out of CUPTI in no order. The same disorder every time, so that a failure repeats. */
static void
shuffle(struct fake_record *records, size_t count)
{
	uint64_t random = 0x9e3779b97f4a7c15U;
	struct fake_record swap;
	size_t i, with;

	for (i = 0; i + 1 < count; i++) {
		random = random * 6364136223846793005U + 1442695040888963407U;
		with = i + (random >> 33) % (count - i < SHUFFLE_REACH ? count - i : SHUFFLE_REACH);
		swap = records[i];
		records[i] = records[with];
		records[with] = swap;
	}
}

static void
deliver(struct buffer *buffer)
{
	enum cs_fake_inside *inside = fake_driver()->inside();
	enum cs_fake_inside before = *inside;
	CUpti_BuffersCallbackCompleteFunc function;
	uint64_t now_ns = fake_cupti_now_ns();
	size_t used = 0, i;

	if (!all_zero(buffer->memory, buffer->size))
		fake_cupti_misuse("the client wrote into an activity buffer that CUPTI held");
	shuffle(buffer->records, buffer->count);
	for (i = 0; i < buffer->count; i++) {
		fake_record_finish(&buffer->records[i], buffer->records[i].span.end_ns <= now_ns);
		memcpy(buffer->memory + used, &buffer->records[i].memory, buffer->records[i].size);
		used += buffer->records[i].size;
	}
	*inside = CS_FAKE_INSIDE_BUFFER_COMPLETE;
	function = complete_function;
	if (function)
		function(NULL, 0, buffer->memory, buffer->size, used);
	*inside = before;
	buffer_free(buffer);
}

static void
deliver_all(enum which which)
{
	struct buffer *buffer;
	struct buffer *next;

	pthread_mutex_lock(&delivery_lock);
	for (buffer = take(which); buffer; buffer = next) {
		next = buffer->next;
		deliver(buffer);
	}
	pthread_mutex_unlock(&delivery_lock);
}

static void *
work(void *argument)
{
	struct timespec pause;
	uint32_t milliseconds;

	(void)argument;
	for (;;) {
		milliseconds = atomic_load(&period_ms);
		if (!milliseconds)
			milliseconds = WORKER_PERIOD_MS;
		pause = (struct timespec){milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
		nanosleep(&pause, NULL);
		if (fake_driver()->state() == CS_FAKE_STATE_GONE)
			return NULL;
		deliver_all(FULL_AND_COMPLETE);
	}
}

static void
start_worker(void)
{
	pthread_t thread;
	sigset_t all;
	sigset_t before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&thread, NULL, work, NULL) == 0) {
		pthread_setname_np(thread, "cupti-worker");
		pthread_detach(thread);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void
fake_buffers_start_worker(void)
{
	pthread_once(&worker_once, start_worker);
}

/* After cuptiFinalize nobody gives the buffers back any more. */
void
fake_buffers_reset(void)
{
	struct buffer *buffer;
	struct buffer *next;

	pthread_mutex_lock(&fake_cupti_lock);
	buffer = held;
	held = NULL;
	request_function = NULL;
	complete_function = NULL;
	pthread_mutex_unlock(&fake_cupti_lock);
	for (; buffer; buffer = next) {
		next = buffer->next;
		buffer_free(buffer);
	}
}

/* -- entries
 * -------------------------------------------------------------------------------------------------- */

/* A second caller takes the place of the first, without a word to anybody; buffers asked of the first go back
 * to the second. */
CUptiResult
cuptiActivityRegisterCallbacks(
	CUpti_BuffersCallbackRequestFunc requested, CUpti_BuffersCallbackCompleteFunc completed)
{
	FAKE_CUPTI_ENTER();
	if (!requested || !completed)
		return CUPTI_ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&fake_cupti_lock);
	request_function = requested;
	complete_function = completed;
	pthread_mutex_unlock(&fake_cupti_lock);
	return fake_attach();
}

CUptiResult
cuptiActivityFlushAll(uint32_t flags)
{
	enum cs_fake_inside inside;

	FAKE_CUPTI_ENTER();
	inside = *fake_driver()->inside();
	if (inside != CS_FAKE_INSIDE_NOTHING && inside != CS_FAKE_INSIDE_API_CALLBACK)
		fake_cupti_misuse("cuptiActivityFlushAll called from a buffer or resource callback");
	if (fake_driver()->state() != CS_FAKE_STATE_READY)
		fake_cupti_misuse(
			"cuptiActivityFlushAll called before cuInit has returned: the real one deadlocks");
	if (!complete_function)
		return CUPTI_ERROR_INVALID_OPERATION;
	deliver_all(flags & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED ? ALL : COMPLETE);
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiActivityFlushPeriod(uint32_t milliseconds)
{
	FAKE_CUPTI_ENTER();
	atomic_store(&period_ms, milliseconds);
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *count)
{
	(void)context;
	(void)stream;
	FAKE_CUPTI_ENTER();
	if (!count)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*count = atomic_exchange(&dropped, 0);
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record)
{
	uint8_t *next;
	CUpti_Activity *found;

	FAKE_CUPTI_ENTER();
	if (!buffer || !record)
		return CUPTI_ERROR_INVALID_PARAMETER;
	next = *record ? (uint8_t *)*record + fake_record_size((*record)->kind) : buffer;
	if (next < buffer || next >= buffer + valid_bytes) {
		*record = NULL;
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	}
	found = (CUpti_Activity *)(void *)next;
	if (!fake_record_size(found->kind))
		return CUPTI_ERROR_INVALID_KIND;
	*record = found;
	return CUPTI_SUCCESS;
}
