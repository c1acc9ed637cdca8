/* SPDX-License-Identifier: Apache-2.0 */
#include "thread_slot.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool
thread_is_gone(uint32_t thread_id)
{
	return syscall(SYS_tgkill, getpid(), (pid_t)thread_id, 0) != 0 && errno == ESRCH;
}

static bool
slot_claim(struct cs_thread_slot *slot, size_t slot_bytes, uint32_t expected, uint32_t thread_id)
{
	if (!atomic_compare_exchange_strong(&slot->owner, &expected, thread_id))
		return false;
	memset((char *)slot + sizeof(*slot), 0, slot_bytes - sizeof(*slot));
	return true;
}

void *
cs_thread_slot_claim(void *slots, size_t slot_bytes, size_t count)
{
	uint32_t thread_id = (uint32_t)syscall(SYS_gettid);
	int saved = errno;
	char *base = slots;

	for (size_t i = 0; i < count; i++) {
		struct cs_thread_slot *slot = (struct cs_thread_slot *)(void *)(base + i * slot_bytes);

		if (atomic_load_explicit(&slot->owner, memory_order_relaxed) == 0 &&
			slot_claim(slot, slot_bytes, 0, thread_id))
			return slot;
	}
	for (size_t i = 0; i < count; i++) {
		struct cs_thread_slot *slot = (struct cs_thread_slot *)(void *)(base + i * slot_bytes);
		uint32_t owner = atomic_load_explicit(&slot->owner, memory_order_relaxed);

		if (thread_is_gone(owner) && slot_claim(slot, slot_bytes, owner, thread_id)) {
			errno = saved;
			return slot;
		}
	}
	errno = saved;
	return NULL;
}
