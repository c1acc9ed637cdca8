/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Activity buffers. Records wait inside CUPTI until their work has ended. A hand-over, by
 * cuptiActivityFlushAll or by the worker, asks the client for buffers on its own thread and puts into them
 * what is complete; a flush gives back all of them, the worker those that are full. Records lie here until
 * their buffer goes back, so that any byte of the client's buffer that is not zero before that was written by
 * somebody who had no right to.
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

/* Records, oldest first. */
struct list {
	struct fake_record *items;
	size_t count;
	size_t capacity;
};

struct buffer {
	uint8_t *memory;
	size_t size;
	size_t used;         /* bytes that its records will take */
	size_t record_limit; /* the client's maxNumRecords; 0: no limit */
	long thread;         /* whose records it takes; 0: everybody's */
	uint64_t full_ns;    /* hoarded since then; 0: it takes records */
	struct list records;
	struct buffer *next;
};

static struct client {
	struct list waiting;                    /* not handed over yet; fake_cupti_lock */
	struct buffer *held;                    /* all that CUPTI has; delivery_lock */
	struct fake_buffer_functions functions; /* fake_cupti_lock */
	_Atomic uint64_t dropped;
} clients[FAKE_CLIENTS];
static _Atomic uint64_t record_counter;
static _Atomic uint32_t period_ms;
/* One hand-over at a time. Held while the client's buffer callbacks run; taken before fake_cupti_lock. */
static pthread_mutex_t delivery_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t worker_once = PTHREAD_ONCE_INIT;

static void
list_add(struct list *list, const struct fake_record *record)
{
	if (list->count == list->capacity) {
		list->capacity = list->capacity ? list->capacity * 2 : 64;
		list->items = realloc(list->items, list->capacity * sizeof(*list->items));
		if (!list->items)
			abort();
	}
	list->items[list->count++] = *record;
}

static void
list_free(struct list *list)
{
	free(list->items);
	*list = (struct list){0};
}

/* -- on the application's threads ------------------------------------------------------------------------ */

static long
owner_of_records(void)
{
	return fake_per_thread_buffers() ? syscall(SYS_gettid) : 0;
}

/* CS_FAKE_CUPTI_DROP=N: every Nth record is lost, and said to be. */
static bool
drop(struct client *client)
{
	static _Atomic uint64_t every = UINT64_MAX;

	if (atomic_load_explicit(&every, memory_order_relaxed) == UINT64_MAX)
		atomic_store(&every, fake_number("CS_FAKE_CUPTI_DROP", 0));
	if (!atomic_load_explicit(&every, memory_order_relaxed))
		return false;
	if ((atomic_fetch_add(&record_counter, 1) + 1) % atomic_load(&every) != 0)
		return false;
	atomic_fetch_add(&client->dropped, 1);
	return true;
}

static void
append(unsigned int number, const struct fake_record *record, long thread, uint64_t now_ns)
{
	struct client *client = &clients[number];
	struct fake_record *own;

	if (!fake_client_wants(number, record->memory.any.kind) || drop(client))
		return;
	list_add(&client->waiting, record);
	own = &client->waiting.items[client->waiting.count - 1];
	own->thread = thread;
	own->queued_ns = now_ns;
}

void
fake_buffers_append(const struct fake_record *records, size_t count)
{
	long thread = owner_of_records();
	uint64_t now_ns = fake_cupti_now_ns();
	unsigned int client;
	size_t i;

	pthread_mutex_lock(&fake_cupti_lock);
	for (client = 0; client < FAKE_CLIENTS; client++)
		for (i = 0; i < count; i++)
			append(client, &records[i], thread, now_ns);
	pthread_mutex_unlock(&fake_cupti_lock);
}

static void
spoil(struct list *waiting, CUpti_ActivityKind kind, uint64_t now_ns)
{
	struct fake_record *record;
	size_t i;

	for (i = 0; i < waiting->count; i++) {
		record = &waiting->items[i];
		if (record->memory.any.kind == kind && record->span.start_ns <= now_ns &&
			record->span.end_ns > now_ns)
			record->late_end = true;
	}
}

void
fake_buffers_spoil_running(CUpti_ActivityKind kind)
{
	uint64_t now_ns = fake_cupti_now_ns();
	unsigned int client;

	pthread_mutex_lock(&fake_cupti_lock);
	for (client = 0; client < FAKE_CLIENTS; client++)
		spoil(&clients[client].waiting, kind, now_ns);
	pthread_mutex_unlock(&fake_cupti_lock);
}

/* -- buffers; under the delivery lock -------------------------------------------------------------------- */

static bool
all_zero(const uint8_t *memory, size_t size)
{
	return size == 0 || (memory[0] == 0 && memcmp(memory, memory + 1, size - 1) == 0);
}

static void
check_answer(const uint8_t *memory, size_t size)
{
	const struct buffer *buffer;
	unsigned int client;

	if ((uintptr_t)memory % 8)
		fake_cupti_misuse("bufferRequested answered a buffer that is not 8-byte aligned");
	if (size < BUFFER_BYTES_MIN)
		fake_cupti_misuse("bufferRequested answered a buffer of %zu bytes", size);
	for (client = 0; client < FAKE_CLIENTS; client++)
		for (buffer = clients[client].held; buffer; buffer = buffer->next)
			if (memory < buffer->memory + buffer->size && buffer->memory < memory + size)
				fake_cupti_misuse("bufferRequested answered memory that CUPTI still holds");
}

static struct fake_buffer_functions
functions_of(const struct client *client)
{
	struct fake_buffer_functions functions;

	pthread_mutex_lock(&fake_cupti_lock);
	functions = client->functions;
	pthread_mutex_unlock(&fake_cupti_lock);
	return functions;
}

/* Asks the client. NULL: no buffer, the record is lost. */
static struct buffer *
request(struct client *client, long thread)
{
	enum cs_fake_inside *inside = fake_driver()->inside();
	enum cs_fake_inside before = *inside;
	struct fake_buffer_functions functions = functions_of(client);
	struct buffer *buffer;
	uint8_t *memory = NULL;
	size_t size = 0, limit = 0;

	if (!functions.request && !functions.request_v2)
		return NULL;
	*inside = CS_FAKE_INSIDE_BUFFER_REQUEST;
	if (functions.request_v2)
		functions.request_v2(&memory, &size, &limit, NULL);
	else
		functions.request(&memory, &size, &limit);
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
	buffer->next = client->held;
	client->held = buffer;
	return buffer;
}

static void
buffer_add(struct buffer *buffer, const struct fake_record *record)
{
	list_add(&buffer->records, record);
	buffer->used += record->size;
}

static bool
has_room(const struct buffer *buffer, size_t bytes)
{
	return buffer->size - buffer->used >= bytes &&
	       (!buffer->record_limit || buffer->records.count < buffer->record_limit);
}

/* Records come out of CUPTI in no order. The same disorder every time, so that a failure repeats. */
static void
shuffle(struct list *list)
{
	uint64_t random = 0x9e3779b97f4a7c15U;
	struct fake_record swap;
	size_t i, with;

	for (i = 0; i + 1 < list->count; i++) {
		random = random * 6364136223846793005U + 1442695040888963407U;
		with = i +
		       (random >> 33) % (list->count - i < SHUFFLE_REACH ? list->count - i : SHUFFLE_REACH);
		swap = list->items[i];
		list->items[i] = list->items[with];
		list->items[with] = swap;
	}
}

/* Takes it out of the held ones, writes its records and gives it back to the client. */
static void
deliver(struct client *client, struct buffer *buffer)
{
	enum cs_fake_inside *inside = fake_driver()->inside();
	enum cs_fake_inside before = *inside;
	struct fake_buffer_functions functions = functions_of(client);
	struct fake_record *record;
	struct buffer **link = &client->held;
	size_t used = 0, i;

	while (*link != buffer)
		link = &(*link)->next;
	*link = buffer->next;
	if (!all_zero(buffer->memory, buffer->size))
		fake_cupti_misuse("the client wrote into an activity buffer that CUPTI held");
	shuffle(&buffer->records);
	for (i = 0; i < buffer->records.count; i++) {
		record = &buffer->records.items[i];
		memcpy(buffer->memory + used, &record->memory, record->size);
		used += record->size;
	}
	*inside = CS_FAKE_INSIDE_BUFFER_COMPLETE;
	if (functions.complete_v2)
		functions.complete_v2(buffer->memory, buffer->size, used, NULL);
	else if (functions.complete)
		functions.complete(NULL, 0, buffer->memory, buffer->size, used);
	*inside = before;
	list_free(&buffer->records);
	free(buffer);
}

/* CS_FAKE_CUPTI_HOARD_MS=N: full buffers go back that much later, also when flushed. */
static uint64_t
hoard_ns(void)
{
	return fake_number("CS_FAKE_CUPTI_HOARD_MS", 0) * 1000000U;
}

/* A buffer with room for a record of that thread; a full one goes back after the next has been asked for.
 * NULL: the client gave none. */
static struct buffer *
find_room(struct client *client, const struct fake_record *record)
{
	struct buffer *buffer = client->held;
	struct buffer *fresh;

	while (buffer && (buffer->thread != record->thread || buffer->full_ns))
		buffer = buffer->next;
	if (buffer && has_room(buffer, record->size))
		return buffer;
	fresh = request(client, record->thread);
	if (buffer && hoard_ns())
		buffer->full_ns = fake_cupti_now_ns();
	else if (buffer)
		deliver(client, buffer);
	return fresh;
}

/* -- handing over ---------------------------------------------------------------------------------------- */

/* Takes what may go out of the waiting ones and writes its times. CS_FAKE_CUPTI_DELAY_MS: completion is seen
 * that much later. */
static struct list
take(struct list *waiting, bool forced)
{
	uint64_t now_ns = fake_cupti_now_ns();
	uint64_t seen_ns = now_ns - fake_number("CS_FAKE_CUPTI_DELAY_MS", 0) * 1000000U;
	struct list taken = {0};
	struct fake_record *record;
	size_t i, left = 0;
	bool complete;

	pthread_mutex_lock(&fake_cupti_lock);
	for (i = 0; i < waiting->count; i++) {
		record = &waiting->items[i];
		complete = record->span.end_ns <= seen_ns && record->queued_ns <= seen_ns;
		if (!complete && !forced) {
			waiting->items[left++] = *record;
			continue;
		}
		if (record->late_end)
			record->span.end_ns = now_ns;
		fake_record_finish(record, complete);
		list_add(&taken, record);
	}
	waiting->count = left;
	pthread_mutex_unlock(&fake_cupti_lock);
	return taken;
}

enum hand_over {
	FULL_BUFFERS, /* the worker's: complete records; buffers that are full go back */
	COMPLETE,     /* complete records; all buffers go back */
	FORCED,       /* all records; all buffers go back */
};

/* The next of the held ones that goes back now. */
static struct buffer *
find_due(const struct client *client, enum hand_over how)
{
	uint64_t now_ns = fake_cupti_now_ns();
	struct buffer *buffer = client->held;

	if (how == FORCED)
		return buffer;
	while (buffer && (buffer->full_ns ? now_ns - buffer->full_ns < hoard_ns() : how == FULL_BUFFERS))
		buffer = buffer->next;
	return buffer;
}

static void
hand_over_to(struct client *client, enum hand_over how)
{
	struct list taken = take(&client->waiting, how == FORCED);
	struct buffer *buffer;
	size_t i;

	for (i = 0; i < taken.count; i++) {
		buffer = find_room(client, &taken.items[i]);
		if (buffer)
			buffer_add(buffer, &taken.items[i]);
		else
			atomic_fetch_add(&client->dropped, 1);
	}
	list_free(&taken);
	while ((buffer = find_due(client, how)))
		deliver(client, buffer);
}

static void
hand_over(enum hand_over how)
{
	unsigned int client;

	pthread_mutex_lock(&delivery_lock);
	for (client = 0; client < FAKE_CLIENTS; client++)
		hand_over_to(&clients[client], how);
	pthread_mutex_unlock(&delivery_lock);
}

void
fake_buffers_dump_device(unsigned int number)
{
	struct fake_record record = {
		.size = fake_record_size(CUPTI_ACTIVITY_KIND_DEVICE), .thread = owner_of_records()};
	struct client *client = &clients[number];
	struct buffer *buffer;

	record.memory.any.kind = CUPTI_ACTIVITY_KIND_DEVICE;
	pthread_mutex_lock(&delivery_lock);
	buffer = fake_buffers_registered(number) ? find_room(client, &record) : NULL;
	if (buffer)
		buffer_add(buffer, &record);
	pthread_mutex_unlock(&delivery_lock);
}

void
fake_buffers_context_ends(void)
{
	hand_over(COMPLETE);
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
		hand_over(FULL_BUFFERS);
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

bool
fake_buffers_registered(unsigned int client)
{
	struct fake_buffer_functions functions = functions_of(&clients[client]);

	return functions.request || functions.request_v2;
}

void
fake_buffers_forget(unsigned int number)
{
	struct client *client = &clients[number];
	struct buffer *buffer;

	pthread_mutex_lock(&delivery_lock);
	while ((buffer = client->held)) {
		client->held = buffer->next;
		list_free(&buffer->records);
		free(buffer);
	}
	pthread_mutex_lock(&fake_cupti_lock);
	list_free(&client->waiting);
	client->functions = (struct fake_buffer_functions){0};
	pthread_mutex_unlock(&fake_cupti_lock);
	pthread_mutex_unlock(&delivery_lock);
}

/* After cuptiFinalize nobody gives the buffers back any more. */
void
fake_buffers_reset(void)
{
	unsigned int client;

	for (client = 0; client < FAKE_CLIENTS; client++)
		fake_buffers_forget(client);
}

uint64_t
fake_buffers_take_dropped(unsigned int client)
{
	return atomic_exchange(&clients[client].dropped, 0);
}

CUptiResult
fake_buffers_register(unsigned int client, const struct fake_buffer_functions *functions)
{
	if (!(functions->request && functions->complete) &&
		!(functions->request_v2 && functions->complete_v2))
		return CUPTI_ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&fake_cupti_lock);
	clients[client].functions = *functions;
	pthread_mutex_unlock(&fake_cupti_lock);
	return fake_attach();
}

/* -- entries ------------------------------------------------------------------------------------------- */

/* A second caller takes the place of the first, without a word to anybody: records that wait go into its
 * buffers, and buffers asked of the first go back to it. */
CUptiResult
cuptiActivityRegisterCallbacks(
	CUpti_BuffersCallbackRequestFunc requested, CUpti_BuffersCallbackCompleteFunc completed)
{
	struct fake_buffer_functions functions = {.request = requested, .complete = completed};

	FAKE_CUPTI_ENTER();
	FAKE_FIRST_KIND();
	return fake_buffers_register(0, &functions);
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
	hand_over(flags & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED ? FORCED : COMPLETE);
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
	FAKE_FIRST_KIND();
	if (!count)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*count = fake_buffers_take_dropped(0);
	return CUPTI_SUCCESS;
}

CUptiResult
fake_next_record(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record)
{
	uint8_t *next;
	CUpti_Activity *found;

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

CUptiResult
cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record)
{
	FAKE_CUPTI_ENTER();
	FAKE_FIRST_KIND();
	return fake_next_record(buffer, valid_bytes, record);
}
