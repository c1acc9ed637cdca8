/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State per application thread without allocation: a static array of slots that threads claim. A `__thread`
 * struct would be allocated by the loader at each thread's first access (dynamic TLS model) or use up static
 * TLS that other libraries need; here only the pointer to the slot is thread-local (initial-exec, 8 bytes).
 */
#ifndef CS_THREAD_SLOT_H
#define CS_THREAD_SLOT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* First member of every slot. */
struct cs_thread_slot {
	_Atomic uint32_t owner; /* thread id, 0 free */
};

/*
 * Claims a slot for the calling thread and zeroes it behind the head; NULL when more threads than slots are
 * alive. Slots of threads that have ended are taken over when none is free. System calls (gettid, tgkill with
 * signal 0): once per thread, so callers keep the result. errno kept; host-safe otherwise.
 */
void *cs_thread_slot_claim(void *slots, size_t slot_bytes, size_t count);

#endif
