/* SPDX-License-Identifier: Apache-2.0 */
#include "marks.h"

#include "clock.h"
#include "glob.h"
#include "injector.h"
#include "life/thread_slot.h"

#include <stdatomic.h>
#include <string.h>

#define CS_MARKS_THREADS 64U
#define CS_MARKS_NESTING 32U
#define CS_MARKS_OPEN    256U
#define CS_MARKS_STRINGS 512U
#define CS_MARKS_TEXT    96U

struct open_range {
	const void *domain;
	uint64_t start_ns;
	uint32_t name_id; /* 0: not wanted, only the nesting counts */
};

struct thread_ranges {
	struct cs_thread_slot slot;
	uint32_t count;
	uint32_t beyond; /* pushes that had no room */
	struct open_range ranges[CS_MARKS_NESTING];
};

struct started_range {
	_Atomic uint64_t id; /* 0 free */
	uint64_t start_ns;
	uint32_t name_id;
};

struct registered_string {
	_Atomic(const void *) handle; /* NULL free; published last */
	_Atomic uint32_t claimed;
	char text[CS_MARKS_TEXT];
};

static const char *wanted_patterns = "";
static struct thread_ranges threads[CS_MARKS_THREADS];
static struct thread_ranges no_ranges; /* of the threads that found none; never used as such */
static struct started_range started[CS_MARKS_OPEN];
static struct registered_string strings[CS_MARKS_STRINGS];
static __thread struct thread_ranges *own __attribute__((tls_model("initial-exec")));

static void
count_lost(void)
{
	struct cs_segment_writer *writer = cs_injector_borrow_writer();

	if (writer != NULL)
		atomic_fetch_add_explicit(
			&cs_segment_writer_status(writer)->lost[CS_LOSS_MARKS_FULL], 1, memory_order_relaxed);
}

/* Nobody has room for a range of this name: lost, if it was wanted. */
static void
lose(const char *name)
{
	if (name != NULL && cs_glob_any(wanted_patterns, name))
		count_lost();
}

void
cs_marks_setup(const char *patterns)
{
	wanted_patterns = patterns;
}

bool
cs_marks_wanted(void)
{
	return wanted_patterns[0] != '\0';
}

/* Once per thread: looking for a slot is a system call for each that is taken. */
static __attribute__((noinline, cold)) struct thread_ranges *
claim_ranges(void)
{
	own = cs_thread_slot_claim(threads, sizeof(threads[0]), CS_MARKS_THREADS);
	if (own == NULL)
		own = &no_ranges;
	return own;
}

/* NULL: more threads than slots. */
static struct thread_ranges *
ranges_of_thread(void)
{
	struct thread_ranges *thread = own != NULL ? own : claim_ranges();

	return thread == &no_ranges ? NULL : thread;
}

static uint32_t
name_id_of(const char *name)
{
	struct cs_segment_writer *writer = cs_injector_borrow_writer();

	if (name == NULL || writer == NULL || !cs_glob_any(wanted_patterns, name))
		return 0;
	return cs_segment_writer_name(writer, name);
}

/* thread NULL: one of those without a slot, whose id nobody asks the system for. */
static void
write_mark(uint32_t name_id, uint64_t start_ns, const struct thread_ranges *thread, uint32_t depth)
{
	struct cs_segment_writer *writer = cs_injector_borrow_writer();
	uint64_t now_ns = cs_clock_realtime_ns();
	struct cs_record record = {
		.type = CS_RECORD_MARK,
		.ref = name_id,
		.start_ns = start_ns,
		.end_ns = now_ns > start_ns ? now_ns : start_ns, /* the clock may step back */
		.value = thread ? atomic_load_explicit(&thread->slot.owner, memory_order_relaxed) : 0,
		.sequence = depth,
	};

	if (writer != NULL)
		cs_segment_writer_append(writer, &record);
}

void
cs_marks_push(const void *domain, const char *name)
{
	struct thread_ranges *thread = ranges_of_thread();

	if (thread == NULL) {
		lose(name);
		return;
	}
	if (thread->count == CS_MARKS_NESTING) {
		lose(name);
		thread->beyond++;
		return;
	}
	thread->ranges[thread->count++] = (struct open_range){
		.domain = domain, .start_ns = cs_clock_realtime_ns(), .name_id = name_id_of(name)};
}

void
cs_marks_pop(const void *domain)
{
	struct thread_ranges *thread = own;
	struct open_range range;
	uint32_t at;

	if (thread == NULL || thread == &no_ranges)
		return;
	if (thread->beyond > 0) {
		thread->beyond--;
		return;
	}
	/* Ranges nest within a domain; those of different domains may cross. */
	for (at = thread->count; at > 0 && thread->ranges[at - 1].domain != domain; at--)
		;
	if (at == 0)
		return;
	range = thread->ranges[at - 1];
	memmove(&thread->ranges[at - 1], &thread->ranges[at], (thread->count - at) * sizeof(range));
	thread->count--;
	if (range.name_id != 0)
		write_mark(range.name_id, range.start_ns, thread, at - 1);
}

void
cs_marks_start(uint64_t id, const char *name)
{
	uint32_t name_id = name_id_of(name);

	if (id == 0 || name_id == 0)
		return;
	for (uint32_t i = 0; i < CS_MARKS_OPEN; i++) {
		struct started_range *range = &started[(id + i) % CS_MARKS_OPEN];
		uint64_t expected = 0;

		/* UINT64_MAX while it is filled: no NVTX id, so nobody ends it meanwhile. */
		if (!atomic_compare_exchange_strong(&range->id, &expected, UINT64_MAX))
			continue;
		range->start_ns = cs_clock_realtime_ns();
		range->name_id = name_id;
		/* Pairs with the acquire in cs_marks_end. */
		atomic_store_explicit(&range->id, id, memory_order_release);
		return;
	}
	count_lost();
}

void
cs_marks_end(uint64_t id)
{
	if (id == 0 || id == UINT64_MAX)
		return;
	for (uint32_t i = 0; i < CS_MARKS_OPEN; i++) {
		struct started_range *range = &started[(id + i) % CS_MARKS_OPEN];
		struct started_range copy;

		if (atomic_load_explicit(&range->id, memory_order_acquire) != id)
			continue;
		copy.start_ns = range->start_ns;
		copy.name_id = range->name_id;
		atomic_store_explicit(&range->id, 0, memory_order_release);
		write_mark(copy.name_id, copy.start_ns, ranges_of_thread(), 0);
		return;
	}
}

const void *
cs_marks_register_string(const void *handle, const char *text)
{
	if (text == NULL)
		return handle;
	for (uint32_t i = 0; i < CS_MARKS_STRINGS; i++) {
		struct registered_string *string = &strings[i];
		uint32_t expected = 0;

		if (!atomic_compare_exchange_strong(&string->claimed, &expected, 1))
			continue;
		strncpy(string->text, text, sizeof(string->text) - 1);
		if (handle == NULL)
			handle = string;
		/* Pairs with the acquire in cs_marks_string. */
		atomic_store_explicit(&string->handle, handle, memory_order_release);
		return handle;
	}
	lose(text);
	return handle;
}

const char *
cs_marks_string(const void *handle)
{
	const struct registered_string *string = handle;

	if (handle == NULL)
		return NULL;
	/* Our own handles point at their entry. */
	if (string >= strings && string < strings + CS_MARKS_STRINGS)
		return string->text;
	for (uint32_t i = 0; i < CS_MARKS_STRINGS; i++)
		if (atomic_load_explicit(&strings[i].handle, memory_order_acquire) == handle)
			return strings[i].text;
	return NULL;
}
