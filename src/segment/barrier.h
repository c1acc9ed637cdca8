/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two fences of the seqlock-style protocols in a segment (ring slots, PROCESS texts, CONTROL requests).
 * Every word that they order is itself atomic, so leaving the fence out cannot be a data race, only a wrong
 * order; ThreadSanitizer does not model fences (gcc refuses to compile them with -Wtsan) and runs on x86-64,
 * where both compile to nothing anyway. Hence the compiler fence there.
 */
#ifndef CS_BARRIER_H
#define CS_BARRIER_H

#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__)
#define CS_FENCE(order) atomic_signal_fence(order)
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CS_FENCE(order) atomic_signal_fence(order)
#endif
#endif
#ifndef CS_FENCE
#define CS_FENCE(order) atomic_thread_fence(order)
#endif

/* Writer: after the sequence word was made odd, before the first data word. Pairs with cs_fence_check. */
static inline void
cs_fence_fill(void)
{
	CS_FENCE(memory_order_release);
}

/* Reader: after the last data word, before the second load of the sequence word. Pairs with cs_fence_fill. */
static inline void
cs_fence_check(void)
{
	CS_FENCE(memory_order_acquire);
}

#endif
