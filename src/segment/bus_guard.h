/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a mapped file that somebody else may truncate. A load behind the end of a file gives SIGBUS; inside
 * cs_bus_guard_call it gives -EIO.
 *
 * For reader processes only, never for the injected library: the first call installs a SIGBUS handler for
 * the whole process (the one that was there before still gets every SIGBUS that is not ours). Thread context:
 * any thread; threads do not affect each other.
 */
#ifndef CS_BUS_GUARD_H
#define CS_BUS_GUARD_H

#include <stddef.h>

/*
 * Calls body(context) and returns what it returns; -EIO when it hit the missing part of
 * [base, base + length_bytes), in which case body was left in the middle by siglongjmp: what it changed must
 * be consistent at every load from the mapping, and it must hold no lock and no memory of its own there.
 */
int cs_bus_guard_call(const void *base, size_t length_bytes, int (*body)(void *context), void *context);

#endif
