/* SPDX-License-Identifier: Apache-2.0 */
#include "buffers.h"

#include <errno.h>
#include <stdalign.h>
#include <sys/mman.h>

#define RESERVE_BASE CS_BUFFERS_MAX
#define FRESH_BASE   (CS_BUFFERS_MAX + CS_BUFFER_RESERVE_MAX)
#define PLACES       (FRESH_BASE + CS_BUFFER_FRESH_MAX)

_Static_assert(CS_BUFFERS_MAX <= 32, "one bit of pool_free each");
_Static_assert(CS_BUFFER_RESERVE_MAX == 64, "one bit of reserve_free each");

/* When there is not even a page to be had and CUPTI crashes on NULL. Shared by whoever gets it, so its
 * contents are never looked at. */
static alignas(64) uint8_t last_resort[CS_BUFFER_RESERVE_BYTES];

static void *
map(size_t bytes, int flags)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

int
cs_buffers_init(struct cs_buffers *buffers, uint32_t count)
{
	int saved_errno = errno;
	uint8_t *pool, *reserve;

	if (count == 0 || count > CS_BUFFERS_MAX)
		return -EINVAL;
	/* Populated now: CUPTI clears a buffer on the application's thread, which is no place for page
	 * faults. */
	pool = map((size_t)count * CS_BUFFER_BYTES, MAP_POPULATE);
	reserve = pool ? map((size_t)CS_BUFFER_RESERVE_MAX * CS_BUFFER_RESERVE_BYTES, MAP_NORESERVE) : NULL;
	errno = saved_errno;
	if (!reserve) {
		if (pool)
			munmap(pool, (size_t)count * CS_BUFFER_BYTES);
		return -ENOMEM;
	}
	buffers->count = count;
	buffers->pool = pool;
	buffers->reserve = reserve;
	atomic_store_explicit(&buffers->reserve_free, UINT64_MAX, memory_order_release);
	/* Pairs with take_bit: whoever sees a free bit sees the pointers. */
	atomic_store_explicit(&buffers->pool_free, count == 32 ? UINT32_MAX : (UINT32_C(1) << count) - 1,
		memory_order_release);
	return 0;
}

void
cs_buffers_destroy(struct cs_buffers *buffers)
{
	if (buffers->pool)
		munmap(buffers->pool, (size_t)buffers->count * CS_BUFFER_BYTES);
	if (buffers->reserve)
		munmap(buffers->reserve, (size_t)CS_BUFFER_RESERVE_MAX * CS_BUFFER_RESERVE_BYTES);
	buffers->pool = NULL;
	buffers->reserve = NULL;
	atomic_store(&buffers->pool_free, 0);
	atomic_store(&buffers->reserve_free, 0);
}

uint64_t
cs_buffers_mapped_bytes(const struct cs_buffers *buffers)
{
	return (uint64_t)buffers->count * CS_BUFFER_BYTES +
	       (buffers->reserve ? (uint64_t)CS_BUFFER_RESERVE_MAX * CS_BUFFER_RESERVE_BYTES : 0) +
	       (atomic_load_explicit(&buffers->fresh_mapped, memory_order_relaxed) +
		       atomic_load_explicit(&buffers->abandoned, memory_order_relaxed)) *
		       CS_BUFFER_RESERVE_BYTES;
}

/* -- take ------------------------------------------------------------------------------------------------ */

/* The lowest free bit: the same few buffers stay in use and warm. */
static int
take_pool(struct cs_buffers *buffers)
{
	uint32_t free_bits = atomic_load_explicit(&buffers->pool_free, memory_order_acquire);

	while (free_bits != 0) {
		uint32_t bit = free_bits & (~free_bits + 1);

		if (atomic_compare_exchange_weak_explicit(&buffers->pool_free, &free_bits, free_bits & ~bit,
			    memory_order_acquire, memory_order_acquire))
			return __builtin_ctz(bit);
	}
	return -1;
}

static int
take_reserve(struct cs_buffers *buffers)
{
	uint64_t free_bits = atomic_load_explicit(&buffers->reserve_free, memory_order_acquire);

	while (free_bits != 0) {
		uint64_t bit = free_bits & (~free_bits + 1);

		if (atomic_compare_exchange_weak_explicit(&buffers->reserve_free, &free_bits,
			    free_bits & ~bit, memory_order_acquire, memory_order_acquire))
			return __builtin_ctzll(bit);
	}
	return -1;
}

/* Claims an entry of `fresh` for a new mapping. A system call on an application thread; only when 68 buffers
 * and more are held at once. */
static int
take_fresh(struct cs_buffers *buffers)
{
	uint8_t *memory;

	if (atomic_fetch_add(&buffers->fresh_mapped, 1) >= CS_BUFFER_FRESH_MAX)
		goto none;
	memory = map(CS_BUFFER_RESERVE_BYTES, 0);
	/* There is a free entry: as many claims as entries, and give clears one before it takes its claim
	 * back. Another thread may be quicker at it, hence more than one round. */
	while (memory) {
		for (unsigned int i = 0; i < CS_BUFFER_FRESH_MAX; i++) {
			uint8_t *expected = NULL;

			if (!atomic_load_explicit(&buffers->fresh[i], memory_order_relaxed) &&
				atomic_compare_exchange_strong(&buffers->fresh[i], &expected, memory))
				return (int)i;
		}
	}
none:
	atomic_fetch_sub(&buffers->fresh_mapped, 1);
	return -1;
}

/* What the header says of the case that there is nothing left. */
static uint8_t *
take_without_account(struct cs_buffers *buffers)
{
	uint8_t *memory;

	if (atomic_fetch_add_explicit(&buffers->abandoned, 1, memory_order_relaxed) <
		CS_BUFFER_ABANDONED_MAX) {
		memory = map(CS_BUFFER_RESERVE_BYTES, 0);
		if (memory)
			return memory;
	}
	atomic_fetch_sub_explicit(&buffers->abandoned, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&buffers->shared, 1, memory_order_relaxed);
	return last_resort;
}

static void
hold(struct cs_buffers *buffers, unsigned int place, uint64_t now_ns)
{
	atomic_store_explicit(&buffers->number[place],
		atomic_fetch_add_explicit(&buffers->taken, 1, memory_order_relaxed), memory_order_relaxed);
	atomic_store_explicit(&buffers->held_since_ns[place], now_ns ? now_ns : 1, memory_order_release);
}

/* The pool is empty. false: there is no account of it. */
static bool
take_small(struct cs_buffers *buffers, uint64_t now_ns, uint8_t **buffer)
{
	int index = take_reserve(buffers);

	if (index >= 0) {
		hold(buffers, RESERVE_BASE + (unsigned int)index, now_ns);
		*buffer = buffers->reserve + (size_t)index * CS_BUFFER_RESERVE_BYTES;
		return true;
	}
	index = take_fresh(buffers);
	if (index >= 0) {
		hold(buffers, FRESH_BASE + (unsigned int)index, now_ns);
		*buffer = atomic_load(&buffers->fresh[index]);
		return true;
	}
	*buffer = take_without_account(buffers);
	return false;
}

bool
cs_buffers_take(struct cs_buffers *buffers, uint64_t now_ns, uint8_t **buffer, size_t *bytes)
{
	int index = take_pool(buffers);
	int saved_errno;
	bool accounted;

	atomic_fetch_add_explicit(&buffers->requested, 1, memory_order_relaxed);
	if (index >= 0) {
		hold(buffers, (unsigned int)index, now_ns);
		*buffer = buffers->pool + (size_t)index * CS_BUFFER_BYTES;
		*bytes = CS_BUFFER_BYTES;
		return true;
	}
	saved_errno = errno;
	accounted = take_small(buffers, now_ns, buffer);
	*bytes = CS_BUFFER_RESERVE_BYTES;
	errno = saved_errno;
	atomic_fetch_add_explicit(&buffers->short_requests, 1, memory_order_relaxed);
	return accounted;
}

bool
cs_buffers_run_short(const struct cs_buffers *buffers)
{
	uint32_t many =
		atomic_load_explicit(&buffers->fresh_lost, memory_order_relaxed) + CS_BUFFER_FRESH_SHORT;

	return atomic_load_explicit(&buffers->fresh_mapped, memory_order_relaxed) >=
	       (many < CS_BUFFER_FRESH_MAX ? many : CS_BUFFER_FRESH_MAX);
}

bool
cs_buffers_run_out(const struct cs_buffers *buffers)
{
	return atomic_load_explicit(&buffers->abandoned, memory_order_relaxed) > CS_BUFFER_ABANDONED_END ||
	       atomic_load_explicit(&buffers->shared, memory_order_relaxed) != 0;
}

/* -- give ------------------------------------------------------------------------------------------------ */

/* Index into held_since_ns, or -1. Compares addresses as numbers: the pointer may be anybody's. */
static int
find_place(const struct cs_buffers *buffers, const uint8_t *buffer)
{
	uintptr_t at = (uintptr_t)buffer;
	uintptr_t pool = (uintptr_t)buffers->pool;
	uintptr_t reserve = (uintptr_t)buffers->reserve;

	if (!buffer)
		return -1;
	if (pool && at >= pool && at - pool < (uintptr_t)buffers->count * CS_BUFFER_BYTES)
		return (at - pool) % CS_BUFFER_BYTES == 0 ? (int)((at - pool) / CS_BUFFER_BYTES) : -1;
	if (reserve && at >= reserve &&
		at - reserve < (uintptr_t)CS_BUFFER_RESERVE_MAX * CS_BUFFER_RESERVE_BYTES)
		return (at - reserve) % CS_BUFFER_RESERVE_BYTES == 0
			       ? (int)(RESERVE_BASE + (at - reserve) / CS_BUFFER_RESERVE_BYTES)
			       : -1;
	for (unsigned int i = 0; i < CS_BUFFER_FRESH_MAX; i++)
		if (atomic_load_explicit(&buffers->fresh[i], memory_order_acquire) == buffer)
			return (int)(FRESH_BASE + i);
	return -1;
}

bool
cs_buffers_is_held(const struct cs_buffers *buffers, const uint8_t *buffer)
{
	int place = find_place(buffers, buffer);

	return place >= 0 && atomic_load_explicit(&buffers->held_since_ns[place], memory_order_acquire) != 0;
}

void
cs_buffers_give(struct cs_buffers *buffers, uint8_t *buffer)
{
	int place = find_place(buffers, buffer);

	if (place < 0) {
		if (buffer == last_resort)
			atomic_fetch_add_explicit(&buffers->completed, 1, memory_order_relaxed);
		return;
	}
	/* Given twice is ignored: the second time it may be in other hands. */
	if (atomic_exchange_explicit(&buffers->held_since_ns[place], 0, memory_order_acq_rel) == 0)
		return;
	atomic_fetch_add_explicit(&buffers->completed, 1, memory_order_relaxed);
	if (place < (int)RESERVE_BASE) {
		atomic_fetch_or_explicit(&buffers->pool_free, UINT32_C(1) << place, memory_order_release);
	} else if (place < (int)FRESH_BASE) {
		atomic_fetch_or_explicit(&buffers->reserve_free, UINT64_C(1) << (place - (int)RESERVE_BASE),
			memory_order_release);
	} else {
		int saved_errno = errno;

		if (atomic_exchange(&buffers->lost[place - (int)FRESH_BASE], false))
			atomic_fetch_sub(&buffers->fresh_lost, 1);
		atomic_store(&buffers->fresh[place - (int)FRESH_BASE], NULL);
		munmap(buffer, CS_BUFFER_RESERVE_BYTES);
		atomic_fetch_sub(&buffers->fresh_mapped, 1);
		errno = saved_errno;
	}
}

/* Of the places in use: fresh ones seldom are. */
static unsigned int
count_places(const struct cs_buffers *buffers)
{
	return atomic_load_explicit(&buffers->fresh_mapped, memory_order_acquire) ? PLACES : FRESH_BASE;
}

uint64_t
cs_buffers_taken(const struct cs_buffers *buffers)
{
	return atomic_load_explicit(&buffers->taken, memory_order_relaxed);
}

uint64_t
cs_buffers_disown(struct cs_buffers *buffers)
{
	uint64_t taken = cs_buffers_taken(buffers);

	/* One that comes back at this very moment may stay marked; whoever takes its place next gives the
	 * mark back with it. */
	for (unsigned int i = 0; i < CS_BUFFER_FRESH_MAX; i++)
		if (atomic_load_explicit(&buffers->held_since_ns[FRESH_BASE + i], memory_order_acquire) !=
				0 &&
			!atomic_exchange(&buffers->lost[i], true))
			atomic_fetch_add(&buffers->fresh_lost, 1);
	return taken;
}

static bool
counts(const struct cs_buffers *buffers, unsigned int place, uint64_t ignore_before)
{
	return atomic_load_explicit(&buffers->number[place], memory_order_relaxed) >= ignore_before;
}

uint64_t
cs_buffers_oldest_ns(const struct cs_buffers *buffers, uint64_t ignore_before, uint64_t none_ns)
{
	unsigned int places = count_places(buffers);
	uint64_t oldest_ns = UINT64_MAX;

	for (unsigned int i = 0; i < places; i++) {
		uint64_t since_ns = atomic_load_explicit(&buffers->held_since_ns[i], memory_order_acquire);

		if (since_ns != 0 && since_ns < oldest_ns && counts(buffers, i, ignore_before))
			oldest_ns = since_ns;
	}
	return oldest_ns == UINT64_MAX ? none_ns : oldest_ns;
}

uint32_t
cs_buffers_held(const struct cs_buffers *buffers, uint64_t ignore_before)
{
	unsigned int places = count_places(buffers);
	uint32_t held = 0;

	for (unsigned int i = 0; i < places; i++) {
		uint64_t since_ns = atomic_load_explicit(&buffers->held_since_ns[i], memory_order_acquire);

		if (since_ns != 0 && counts(buffers, i, ignore_before))
			held++;
	}
	return held;
}
