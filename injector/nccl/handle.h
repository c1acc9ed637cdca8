/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event handles as NCCL gets them from us. NCCL takes a handle for what it is, stores it, and hands it back
 * at stop, at a change of state, and as the parent of later events: on any thread, and for a captured graph
 * as long as that graph lives. So a handle carries all that stop needs, and nothing has to be remembered: the
 * handle of the plugin that calls are forwarded to (NULL: it got none), and in three bits that no pointer of
 * a program has (x86-64 and aarch64 leave them zero), which of our events it stands for.
 */
#ifndef CS_NCCL_HANDLE_H
#define CS_NCCL_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

enum cs_nccl_mark {
	CS_NCCL_MARK_NONE = 0,  /* the other plugin's handle, of an event that ends without us */
	CS_NCCL_MARK_OTHER = 1, /* the same, without a handle of the other plugin: NCCL needs one */
	CS_NCCL_MARK_GROUP_API = 2,
	CS_NCCL_MARK_GROUP = 3,
	CS_NCCL_MARK_LAUNCH = 4,
};

#define CS_NCCL_MARK_SHIFT 60U
#define CS_NCCL_MARK_BITS  ((uintptr_t)7 << CS_NCCL_MARK_SHIFT)

static inline void *
cs_nccl_handle(enum cs_nccl_mark mark, const void *theirs)
{
	return (void *)((uintptr_t)theirs | (uintptr_t)mark << CS_NCCL_MARK_SHIFT);
}

static inline enum cs_nccl_mark
cs_nccl_handle_mark(const void *handle)
{
	return (enum cs_nccl_mark)((uintptr_t)handle >> CS_NCCL_MARK_SHIFT & 7U);
}

/* The other plugin's handle, NULL: it has none. */
static inline void *
cs_nccl_handle_theirs(const void *handle)
{
	return (void *)((uintptr_t)handle & ~CS_NCCL_MARK_BITS);
}

/* false: this handle of theirs cannot be told from a marked one (a number rather than a pointer). */
static inline bool
cs_nccl_handle_is_plain(const void *theirs)
{
	return ((uintptr_t)theirs & CS_NCCL_MARK_BITS) == 0;
}

#endif
