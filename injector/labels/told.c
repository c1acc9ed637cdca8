/* SPDX-License-Identifier: Apache-2.0 */
#include "told.h"

/* Launches stand in the ring almost in the order of their times: a thread that was interrupted between the
 * two is this many places late at most, or is not found. */
#define DISORDER 32U

static inline struct cs_told_launch *
place_of(struct cs_told *told, uint64_t number)
{
	return &told->launches[number % CS_TOLD_LAUNCHES];
}

static inline uint64_t
lap_of(uint64_t number)
{
	return (number / CS_TOLD_LAUNCHES) << CS_TOLD_LAP_SHIFT & CS_TOLD_LAP;
}

uint64_t
cs_told_begin(struct cs_told *told, uint32_t thread, uint64_t now_ns, uint64_t filed)
{
	uint64_t number = atomic_fetch_add_explicit(&told->count, 1, memory_order_relaxed) + 1;
	struct cs_told_launch *launch = place_of(told, number);

	/* Whoever reads one of the stores below sees this one, too. */
	atomic_store_explicit(&launch->number, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&launch->begin_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&launch->end_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&launch->filed, filed ? filed | lap_of(number) : 0, memory_order_relaxed);
	atomic_store_explicit(&launch->thread, thread, memory_order_relaxed);
	atomic_store_explicit(&launch->taken, 0, memory_order_relaxed);
	/* Pairs with still_there and the loads before it. */
	atomic_store_explicit(&launch->number, number, memory_order_release);
	return number;
}

static bool
still_there(struct cs_told_launch *launch, uint64_t number)
{
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&launch->number, memory_order_relaxed) == number;
}

void
cs_told_end(struct cs_told *told, uint64_t number, uint64_t now_ns)
{
	struct cs_told_launch *launch = place_of(told, number);

	/* Forgotten in between, this ends a later launch before it began: nothing fits into that. */
	if (atomic_load_explicit(&launch->number, memory_order_relaxed) == number)
		atomic_store_explicit(&launch->end_ns, now_ns, memory_order_release);
}

bool
cs_told_find(struct cs_told *told, uint64_t number, uint64_t *filed)
{
	struct cs_told_launch *launch = place_of(told, number);

	if (atomic_load_explicit(&launch->number, memory_order_acquire) != number)
		return false;
	*filed = atomic_load(&launch->filed);
	if (*filed == 0 || !still_there(launch, number))
		return false;
	*filed &= ~CS_TOLD_LAP;
	return true;
}

void
cs_told_replace(struct cs_told *told, uint64_t number, uint64_t before, uint64_t filed)
{
	uint64_t expected = before | lap_of(number);

	/* The lap's number tells a later launch in this place from the one that is meant. In one total order
	 * with the exchange of `taken` and the loads of both: who replaces sees the call, or who takes sees
	 * what was replaced. */
	atomic_compare_exchange_strong(&place_of(told, number)->filed, &expected, filed | lap_of(number));
}

uint32_t
cs_told_call(struct cs_told *told, uint64_t number)
{
	struct cs_told_launch *launch = place_of(told, number);
	uint32_t call;

	if (atomic_load_explicit(&launch->number, memory_order_acquire) != number)
		return 0;
	call = atomic_load(&launch->taken);
	return still_there(launch, number) ? call : 0;
}

static uint64_t
begin_of(struct cs_told *told, uint64_t number)
{
	return atomic_load_explicit(&place_of(told, number)->begin_ns, memory_order_relaxed);
}

/* The last launch that began no later, as if all stood in order. 0: none. */
static uint64_t
last_begun_by(struct cs_told *told, uint64_t count, uint64_t time_ns)
{
	uint64_t low = count > CS_TOLD_LAUNCHES ? count - CS_TOLD_LAUNCHES : 0;
	uint64_t high = count; /* the answer is in (low, high], or low itself */

	while (low < high) {
		uint64_t middle = low + (high - low + 1) / 2;

		if (begin_of(told, middle) <= time_ns)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static bool
take_if_inside(struct cs_told_launch *launch, uint64_t number, uint32_t thread, uint64_t start_ns,
	uint64_t end_ns, uint32_t call, uint64_t *filed)
{
	uint64_t began_ns, ended_ns;
	uint32_t nobody = 0;

	if (atomic_load_explicit(&launch->number, memory_order_acquire) != number ||
		atomic_load_explicit(&launch->thread, memory_order_relaxed) != thread)
		return false;
	began_ns = atomic_load_explicit(&launch->begin_ns, memory_order_relaxed);
	ended_ns = atomic_load_explicit(&launch->end_ns, memory_order_relaxed);
	*filed = atomic_load_explicit(&launch->filed, memory_order_relaxed) & ~CS_TOLD_LAP;
	if (!still_there(launch, number) || start_ns < began_ns || (ended_ns != 0 && end_ns > ended_ns))
		return false;
	return atomic_compare_exchange_strong(&launch->taken, &nobody, call);
}

uint64_t
cs_told_take(struct cs_told *told, uint32_t thread, uint64_t start_ns, uint64_t end_ns, uint32_t call,
	uint64_t *filed)
{
	uint64_t count = atomic_load_explicit(&told->count, memory_order_acquire);
	uint64_t last = last_begun_by(told, count, start_ns);
	uint64_t from = last + DISORDER < count ? last + DISORDER : count;

	for (uint64_t number = from; number > 0 && number + DISORDER > last; number--)
		if (take_if_inside(place_of(told, number), number, thread, start_ns, end_ns, call, filed))
			return number;
	return 0;
}

uint64_t
cs_told_last_ns(struct cs_told *told)
{
	uint64_t count = atomic_load_explicit(&told->count, memory_order_relaxed);

	return count ? begin_of(told, count) : 0;
}
